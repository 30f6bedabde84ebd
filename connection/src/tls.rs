//! The proofs of identity, of a server and of this client.

use std::fmt;
use std::io;
use std::sync::Arc;

use redis::RedisError;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::Error;
use crate::transport::Transport;

/// A chain of certificates and its private key, both in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificates: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// The demands on servers' certificates, and the client's own. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl Tls {
    /// Trusts only the authorities in `ca` (PEM), or else those of the platform.
    pub(crate) fn new(ca: Option<&[u8]>, identity: Option<&Identity>) -> Result<Self, Error> {
        let roots = match ca {
            Some(pem) => authorities(pem)?,
            None => platform()?,
        };
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| config("no version of tls can be used", error))?
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity { certificates: chain, key }) => {
                let chain = certificates(chain)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| self::config("the client's key is not one private key in pem", error))?;
                config.with_client_auth_cert(chain, key).map_err(|error| {
                    self::config("the client's certificate and its key do not fit together", error)
                })?
            }
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Shakes hands with the server, which must prove that it is `host`. The caller bounds the time.
    pub(crate) async fn connect<T: Transport + 'static>(
        &self,
        host: &str,
        stream: T,
    ) -> io::Result<impl Transport + use<T>> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.0.connect(name, stream).await
    }
}

fn platform() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let what = "the platform has no certificate authorities: name a file of them with ?ca= in the url";
        return Err(found.errors.into_iter().next().map_or_else(|| plain(what), |error| config(what, error)));
    }
    Ok(roots)
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots
            .add(certificate)
            .map_err(|error| config("a certificate of the authorities cannot be used", error))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| config("a certificate is not in pem", error))?;
    if read.is_empty() { Err(plain("there is no certificate in the pem")) } else { Ok(read) }
}

fn plain(what: &'static str) -> Error {
    Error::Config { what, source: None }
}

fn config(what: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Config { what, source: Some(RedisError::from(io::Error::other(source))) }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_pem_is_refused_before_anything_is_sent() {
        let cut = b"-----BEGIN CERTIFICATE-----\nnonsense";
        let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for pem in [&b""[..], b"nonsense", cut, empty] {
            assert!(matches!(Tls::new(Some(pem), None), Err(Error::Config { .. })), "{}", pem.escape_ascii());
        }
    }
}
