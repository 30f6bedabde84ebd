//! A server with TLS shows its given certificate, and requires a client's where it should.

use std::{io, sync::Arc, time::Duration};

use tenure_testing::{
    Proxy, RedisServer,
    tls::{Authority, Identity},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    },
};

const SOON: Duration = Duration::from_secs(20);

/// Asks the server at `url`, whose host must be the certificate's `name`, for its `PONG`.
async fn ping(url: &str, name: &str, ca_pem: &str, own: Option<&Identity>) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(Identity { certificate_pem, key_pem, .. }) => {
            let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    let stream = TcpStream::connect(url.strip_prefix("rediss://").unwrap()).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let answer = async {
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = vec![0; 5];
        stream.read_exact(&mut answer).await?;
        Ok(String::from_utf8(answer).unwrap())
    };
    timeout(SOON, answer).await.unwrap()
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let authority = Authority::new().unwrap();
    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let url = server.url();
    for name in ["127.0.0.1", "localhost"] {
        assert_eq!(ping(&url, name, authority.ca_pem(), None).await.unwrap(), "+PONG");
    }
    let stranger = Authority::new().unwrap();
    let error = ping(&url, "localhost", stranger.ca_pem(), None).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    // A client without TLS is not understood.
    assert!(redis::Client::open(url.replace("rediss", "redis")).unwrap().get_connection().is_err());
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_by_clients() {
    let authority = Authority::new().unwrap();
    let elsewhere = authority.issue(&["elsewhere.example"]).unwrap();
    let server = RedisServer::builder().tls_as(&authority, elsewhere).start().unwrap();
    let error = ping(&server.url(), "localhost", authority.ca_pem(), None).await.unwrap_err();
    assert!(error.to_string().contains("not valid for name"), "{error}");
    assert_eq!(ping(&server.url(), "elsewhere.example", authority.ca_pem(), None).await.unwrap(), "+PONG");
}

#[tokio::test]
async fn a_client_shows_its_certificate_when_asked() {
    let authority = Authority::new().unwrap();
    let builder = RedisServer::builder().ask_for_client_certificates().tls(&authority).unwrap();
    let server = builder.start().unwrap();
    let known = authority.issue(&["client"]).unwrap();
    let unknown = Authority::new().unwrap().issue(&["client"]).unwrap();
    for (own, accepted) in [(None, false), (Some(&unknown), false), (Some(&known), true)] {
        let answer = ping(&server.url(), "localhost", authority.ca_pem(), own).await;
        assert_eq!(answer.is_ok(), accepted, "{answer:?}");
    }
}

#[tokio::test]
async fn a_test_can_query_a_tls_server_without_tls() {
    let authority = Authority::new().unwrap();
    let builder = RedisServer::builder().password("p@ss").tls(&authority).unwrap();
    let server = builder.start().unwrap();
    assert!(server.url().starts_with("rediss://:p%40ss@127.0.0.1:"), "{}", server.url());
    server.query::<()>(redis::cmd("SET").arg("key").arg("value")).unwrap();
    assert_eq!(server.keys().unwrap(), ["key"]);
    server.restart(tenure_testing::Data::Keep).unwrap();
    assert_eq!(server.keys().unwrap(), ["key"]);
}

#[tokio::test]
async fn tls_goes_through_a_proxy() {
    let authority = Authority::new().unwrap();
    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    assert_eq!(ping(&proxy.url(), "localhost", authority.ca_pem(), None).await.unwrap(), "+PONG");
    assert_eq!(proxy.counts().accepted, 1);
}
