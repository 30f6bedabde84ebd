//! A server that is not admitted gets nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Error, Script};
use tenure_testing::{Data, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);

async fn connections(client: &Client) -> String {
    let info = client.commands().command(cmd("INFO").arg("stats")).await.unwrap();
    let info: String = redis::from_redis_value(info).unwrap();
    info.lines().find(|line| line.starts_with("total_connections_received:")).unwrap().to_owned()
}

#[tokio::test]
async fn nothing_is_sent_to_another_server_until_it_is_admitted() {
    let server = RedisServer::start().unwrap();
    let plain = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let first = plain.commands().server().await.unwrap().run_id;
    let blessed = Arc::new(Mutex::new(first.clone()));
    let asked = blessed.clone();
    let admitted = plain.with_admission(move |run_id: &str| **asked.lock().unwrap() == *run_id);
    let (redis, mut blocking) = (admitted.commands(), admitted.blocking());
    let script = Script::new("count", "return redis.call('INCR', KEYS[1])");
    assert_eq!(redis.script::<_, &str>(&script, &["n"], &[]).await.unwrap(), Value::Int(1));

    server.restart(Data::Keep).unwrap();
    let refused = eventually(SOON, "the other server to be refused", async || {
        match redis.script::<_, &str>(&script, &["n"], &[]).await {
            Err(Error::OtherServer { run_id }) => Some(run_id),
            _ => None,
        }
    })
    .await;
    assert_ne!(refused, first);
    let read = blocking.command(cmd("INCR").arg("n"), Duration::ZERO).await;
    assert!(matches!(read, Err(Error::OtherServer { .. })), "{read:?}");
    let before = connections(&plain).await;
    for _ in 0..3 {
        let read = blocking.command(cmd("INCR").arg("n"), Duration::ZERO).await;
        assert!(matches!(read, Err(Error::OtherServer { .. })), "{read:?}");
    }
    assert_eq!(connections(&plain).await, before, "the connection is kept for when it is admitted");
    assert_eq!(redis.server().await.unwrap().run_id, refused, "the question for the identity stays allowed");
    assert_eq!(
        plain.commands().command(cmd("GET").arg("n")).await.unwrap(),
        Value::BulkString(b"1".to_vec())
    );

    *blessed.lock().unwrap() = refused;
    assert_eq!(redis.script::<_, &str>(&script, &["n"], &[]).await.unwrap(), Value::Int(2));
    assert_eq!(blocking.command(cmd("INCR").arg("n"), Duration::ZERO).await.unwrap(), Value::Int(3));

    *blessed.lock().unwrap() = first;
    let later = redis.command(cmd("INCR").arg("n")).await;
    assert!(matches!(later, Err(Error::OtherServer { .. })), "asked again before every command: {later:?}");
}

/// Makes the server a replica for a moment: it is promoted again, and keeps its run id and its connections.
async fn promote_again(client: &Client) {
    let nobody = cmd("REPLICAOF").arg("127.0.0.1").arg(1).take();
    for command in [&nobody, cmd("REPLICAOF").arg("NO").arg("ONE")] {
        client.commands().command(command).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_was_promoted_again_has_another_identity() {
    let server = RedisServer::start().unwrap();
    let plain = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let first = plain.commands().server().await.unwrap();
    assert_eq!(first.identity, first.run_id, "it was never promoted");
    let blessed = Arc::new(Mutex::new(first.identity.clone()));
    let asked = blessed.clone();
    let admitted = plain.with_admission(move |identity: &str| **asked.lock().unwrap() == *identity);
    let (redis, mut blocking) = (admitted.commands(), admitted.blocking());
    let increment = cmd("INCR").arg("n").take();
    for expected in [1, 3] {
        assert_eq!(redis.command(&increment).await.unwrap(), Value::Int(expected));
        assert_eq!(blocking.command(&increment, Duration::ZERO).await.unwrap(), Value::Int(expected + 1));
    }

    promote_again(&plain).await;
    let second = plain.commands().server().await.unwrap();
    assert_eq!((&second.run_id, second.was_promoted()), (&first.run_id, true));
    assert!(second.identity.starts_with(&*second.run_id) && second.identity != first.identity);
    let other = admitted.dedicated();
    match other.command(&increment).await {
        Err(Error::OtherServer { run_id }) => assert_eq!(run_id, second.identity),
        answer => panic!("a new connection asks first: {answer:?}"),
    }
    *blessed.lock().unwrap() = second.identity.clone();
    for connection in [&redis, &other] {
        connection
            .command(&increment)
            .await
            .expect("a server that was not admitted is asked for its identity again");
    }
    blocking.command(&increment, Duration::ZERO).await.unwrap();

    promote_again(&plain).await;
    let third = plain.commands().server().await.unwrap();
    assert_ne!(third.identity, second.identity);
    assert!(matches!(admitted.dedicated().command(&increment).await, Err(Error::OtherServer { .. })));
}
