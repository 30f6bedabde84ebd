//! TLS: trusted and untrusted servers, and all roles over it.

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Class, Client, ClientBuilder, Error, Event};
use tenure_testing::RedisServer;
use tenure_testing::tls::Authority;

const SOON: Duration = Duration::from_secs(20);

fn builder(server: &RedisServer) -> ClientBuilder {
    Client::builder(&server.url()).response_timeout(SOON).connect_timeout(SOON)
}

async fn refused(client: Client) -> Error {
    let hasty = client.commands().with_response_timeout(Duration::from_millis(500));
    hasty.command(&cmd("PING")).await.unwrap_err()
}

#[tokio::test]
async fn all_roles_speak_tls_with_a_trusted_server() {
    let authority = Authority::new().unwrap();
    let server = RedisServer::builder().tls(&authority).unwrap().password("secret").start().unwrap();
    assert!(server.url().starts_with("rediss://"));
    let client = builder(&server).ca_certificate(authority.ca_pem()).build().unwrap();
    let big = vec![b'x'; 3 << 20];
    let redis = client.commands();
    redis.command(cmd("SET").arg("k").arg(&big)).await.unwrap();
    assert_eq!(redis.command(cmd("GET").arg("k")).await.unwrap(), Value::BulkString(big));
    let reply = client.blocking().command(cmd("BLPOP").arg("l").arg(0.01), Duration::from_millis(10)).await;
    assert_eq!(reply.unwrap(), Value::Nil);
    let mut subscriber = client.subscriber(["c"]);
    assert!(matches!(subscriber.next().await, Event::Subscribed));
    redis.command(cmd("SPUBLISH").arg("c").arg("m")).await.unwrap();
    assert!(matches!(subscriber.next().await, Event::Message(_)));

    let file = server.dir().join("authority.pem");
    std::fs::write(&file, authority.ca_pem()).unwrap();
    let url = format!("{}?ca={}", server.url(), file.display());
    let redis = Client::builder(&url).response_timeout(SOON).build().unwrap().commands();
    redis.command(&cmd("PING")).await.expect("the url alone is enough");
}

#[tokio::test]
async fn a_server_that_cannot_prove_its_identity_gets_nothing() {
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let elsewhere = authority.issue(&["elsewhere.example"]).unwrap();
    let server = RedisServer::builder().tls_as(&authority, elsewhere).start().unwrap();
    let client = builder(&server).ca_certificate(authority.ca_pem()).build().unwrap();
    let error = refused(client).await;
    assert!(matches!(error, Error::Certificate(_)), "another host's certificate: {error:?}");
    assert!(!error.is_transient(), "somebody has to change it");

    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let client = builder(&server).ca_certificate(other.ca_pem()).build().unwrap();
    let error = refused(client).await;
    assert!(matches!(error, Error::Certificate(_)), "another authority: {error:?}");
    assert!(!error.may_have_executed());
    // Without TLS on this side the handshake cannot even begin.
    let plain =
        Client::builder(&server.url().replace("rediss://", "redis://")).response_timeout(SOON).build();
    let error = refused(plain.unwrap()).await;
    assert_eq!(error.class(), Class::Unreachable, "{error:?}");
    assert!(cause(&error).contains("is it a port for tls (rediss://)?"), "{error:?}");
}

/// The cause that the error names.
fn cause(error: &Error) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

#[tokio::test]
async fn a_port_without_tls_is_told_from_a_silent_one() {
    let plain = RedisServer::builder().tcp().password("secret").start().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = Authority::new().unwrap();
    let at = async |url: &str| {
        let builder = Client::builder(url).connect_timeout(Duration::from_secs(1));
        let client = builder.ca_certificate(authority.ca_pem()).response_timeout(SOON).build().unwrap();
        let attempt = client.commands().without_retries();
        attempt.command(&cmd("PING")).await.unwrap_err()
    };
    let error = at(&plain.url().replace("redis://", "rediss://")).await;
    assert_eq!((error.class(), error.may_have_executed()), (Class::Unreachable, false), "{error:?}");
    assert!(cause(&error).contains("tls"), "{error:?}");
    let error = at(&format!("rediss://{}", silent.local_addr().unwrap())).await;
    assert_eq!(error.class(), Class::Silent, "{error:?}");
}

#[tokio::test]
async fn a_client_shows_its_certificate_to_a_server_that_asks() {
    let authority = Authority::new().unwrap();
    let server =
        RedisServer::builder().tls(&authority).unwrap().ask_for_client_certificates().start().unwrap();
    let identity = authority.issue(&["client.example"]).unwrap();
    let trusting = || builder(&server).ca_certificate(authority.ca_pem());
    let known = trusting().client_certificate(identity.certificate_pem.as_str(), identity.key_pem.as_str());
    known.build().unwrap().commands().command(&cmd("PING")).await.unwrap();
    let error = refused(trusting().build().unwrap()).await;
    assert!(matches!(error, Error::ClientCertificate(_)), "{error:?}");
    assert_eq!((error.class(), error.may_have_executed()), (Class::Refused, false));
    let stranger = Authority::new().unwrap().issue(&["client.example"]).unwrap();
    let strange = trusting().client_certificate(stranger.certificate_pem.as_str(), stranger.key_pem.as_str());
    let error = refused(strange.build().unwrap()).await;
    assert!(matches!(error, Error::ClientCertificate(_)), "of another authority: {error:?}");

    let other = authority.issue(&["client.example"]).unwrap();
    let mixed = trusting().client_certificate(identity.certificate_pem.as_str(), other.key_pem.as_str());
    assert!(matches!(mixed.build(), Err(Error::Config { .. })), "a key of another certificate");
    let no_key = trusting().client_certificate(identity.certificate_pem, "");
    assert!(matches!(no_key.build(), Err(Error::Config { .. })));
}

#[test]
fn unusable_certificates_are_refused_without_a_network() {
    let bad = Client::builder("rediss://localhost").ca_certificate("not pem").build();
    assert!(matches!(bad, Err(Error::Config { .. })));
    let plain = Client::builder("redis://localhost").ca_certificate("not pem").build();
    assert!(matches!(plain, Err(Error::Config { .. })), "a certificate without tls is a mistake");
    for query in ["ca=/nowhere/ca.pem", "cert=/nowhere/a.pem", "cert=/nowhere/a.pem&key=/nowhere/b.pem"] {
        let missing = Client::open(&format!("rediss://localhost?{query}"));
        assert!(matches!(missing, Err(Error::Config { .. })), "{query}");
    }
}
