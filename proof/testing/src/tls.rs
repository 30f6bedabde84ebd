//! A certificate authority for one test: nothing on the machine trusts it, and it disappears with the test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::Error;

/// A certificate authority made at run time.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    ca_pem: String,
}

/// A certificate and its private key, for a server or for a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Identity {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The private key, PEM (PKCS #8).
    pub key_pem: String,
}

impl Authority {
    /// Makes an authority with a key of its own.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn new() -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "a test's authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let ca_pem = issuer.pem();
        Ok(Self { issuer, ca_pem })
    }

    /// The authority's own certificate, PEM, which a client must trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Issues a certificate for these host names or IP addresses, valid for a server and for a client.
    ///
    /// # Errors
    /// When a name is not allowed in a certificate.
    pub fn issue(&self, names: &[&str]) -> Result<Identity, Error> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "a test's certificate");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}
