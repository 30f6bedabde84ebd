//! A test can list the clients and the keys of a server, and make users with few rights.

use redis::cmd;
use tenure_testing::{Data, RedisServer, eventually};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

fn connect(url: &str) -> redis::Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

#[tokio::test]
async fn all_connected_clients_but_the_asking_one_are_listed() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let nobody = async || server.clients().unwrap().is_empty();
    // Those that waited for the server's start, or asked before, may still be closing.
    eventually(PATIENCE, "nobody to be there", nobody).await;
    let mut one = connect(&server.url());
    let mut two = connect(&server.url());
    cmd("CLIENT").arg("SETNAME").arg("two").exec(&mut two).unwrap();
    cmd("GET").arg("key").exec(&mut one).unwrap();
    let both = async || {
        let clients = server.clients().unwrap();
        if clients.len() == 2 { Ok(clients) } else { Err(clients) }
    };
    let clients = eventually(PATIENCE, "the two", both).await;
    let seen: Vec<_> = clients
        .iter()
        .map(|client| {
            assert!(client.address.starts_with("127.0.0.1:"), "{client:?}");
            (client.name.as_str(), client.user.as_str(), client.flags.as_str(), client.command.as_str())
        })
        .collect();
    assert_eq!(seen, [("", "default", "N", "get"), ("two", "default", "N", "client|setname")]);
    drop((one, two));
    eventually(PATIENCE, "nobody to be left", nobody).await;
}

#[test]
fn all_keys_are_listed_once_in_order() {
    let server = RedisServer::start().unwrap();
    assert!(server.keys().unwrap().is_empty());
    let mut expected: Vec<_> = (0..5_000).map(|number| format!("key {number}")).collect();
    let mut set = cmd("MSET");
    for key in &expected {
        set.arg(key).arg("value");
    }
    server.query::<()>(&set).unwrap();
    expected.sort();
    assert_eq!(server.keys().unwrap(), expected);
}

#[test]
fn a_user_has_the_rights_that_were_given_and_no_others() {
    for builder in [RedisServer::builder(), RedisServer::builder().tcp().password("secret")] {
        let server = builder.start().unwrap();
        for rights in [&["~app:*", "+get", "+set"][..], &["~app:*", "+get"]] {
            let url = server.acl_user("some:one", "p@ss w/?rd", rights).unwrap();
            let mut connection = connect(&url);
            cmd("GET").arg("app:1").query::<Option<String>>(&mut connection).unwrap();
            let foreign = cmd("GET").arg("other").exec(&mut connection).unwrap_err();
            assert_eq!(foreign.code(), Some("NOPERM"));
            let written = cmd("SET").arg("app:1").arg(1).exec(&mut connection);
            assert_eq!(written.is_ok(), rights.contains(&"+set"));
            // The helper's own connection, which has just been closed, may still be listed.
            assert!(server.clients().unwrap().iter().any(|client| client.user == "some:one"));
        }
        assert!(server.acl_user("other", "pass", &["nonsense"]).is_err());
    }
}

#[test]
fn an_error_of_the_server_is_returned_to_the_test() {
    let server = RedisServer::start().unwrap();
    server.query::<()>(cmd("SET").arg("key").arg("text")).unwrap();
    let error = server.query::<()>(cmd("INCR").arg("key")).unwrap_err();
    let tenure_testing::Error::Redis(error) = error else { panic!("{error}") };
    assert!(error.to_string().contains("not an integer"), "{error}");
    server.kill().unwrap();
    assert!(server.query::<()>(&cmd("PING")).is_err());
    server.restart(Data::Wipe).unwrap();
    server.query::<()>(&cmd("PING")).unwrap();
}
