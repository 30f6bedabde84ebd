//! Blocking reads, and the traces of one that was interrupted.

use std::time::Duration;

use redis::{Cmd, Value, cmd};
use tenure_connection::{Blocking, Client, Connection, Error};
use tenure_testing::{Data, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(600);

fn pop(block: u64) -> Cmd {
    let mut command = cmd("BLPOP");
    command.arg("list").arg(block);
    command
}

async fn blocked(redis: &Connection) -> usize {
    let Value::BulkString(info) = redis.command(cmd("INFO").arg("clients")).await.unwrap() else { panic!() };
    let info = String::from_utf8(info).unwrap();
    info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_interrupted_read_is_closed_and_does_not_delay_the_next() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let (redis, mut blocking) = (client.commands(), client.blocking());
    let forever = pop(600);
    tokio::select! {
        reply = blocking.command(&forever, LONG) => panic!("{reply:?}"),
        () = eventually(SOON, "the read to block", async || blocked(&redis).await == 1) => {}
    }
    let reply = tokio::time::timeout(SOON, blocking.command(&cmd("PING"), Duration::ZERO)).await;
    assert_eq!(reply.expect("not behind the old read").unwrap(), Value::SimpleString("PONG".into()));
    eventually(SOON, "the old read to be gone from the server", async || blocked(&redis).await == 0).await;
    redis.command(cmd("RPUSH").arg("list").arg("v")).await.unwrap();
    assert!(matches!(blocking.command(&pop(600), LONG).await.unwrap(), Value::Array(_)), "nobody took it");
}

#[tokio::test]
async fn a_block_longer_than_the_response_timeout_is_awaited() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(Duration::from_millis(300)).build().unwrap();
    let mut blocking = client.blocking();
    assert_eq!(blocking.command(&pop(1), Duration::from_secs(1)).await.unwrap(), Value::Nil);
}

#[tokio::test]
async fn a_late_read_ends_and_a_restarted_server_is_found_again() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(Duration::from_millis(200)).build().unwrap();
    let mut blocking = client.blocking();
    blocking.command(&cmd("PING"), Duration::ZERO).await.unwrap();
    server.pause().unwrap();
    let error = blocking.command(&cmd("PING"), Duration::from_millis(1)).await.unwrap_err();
    assert!(matches!(error, Error::TimedOut(_)), "{error}");
    server.kill().unwrap();
    let error = blocking.command(&cmd("PING"), Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    server.restart(Data::Wipe).unwrap();
    let mut calls = 0;
    while let Err(error) = blocking.command(&cmd("PING"), Duration::ZERO).await {
        assert!(error.is_transient(), "{error}");
        calls += 1;
        assert!(calls < 100, "{error}");
    }
}

#[tokio::test]
async fn connecting_ends_with_the_response_timeout_without_block() {
    // Bound, and never answered: connecting is part of the call, however long an attempt may take.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let client = Client::builder(&url)
        .response_timeout(Duration::from_millis(50))
        .connect_timeout(LONG)
        .build()
        .unwrap()
        .with_admission(|_: &str| true);
    let mut blocking = client.blocking();
    let reply = tokio::time::timeout(SOON, blocking.command(&pop(600), LONG)).await;
    let error = reply.expect("it does not wait for the block").unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error}");
    assert!(error.is_transient() && !error.may_have_executed());
}

#[tokio::test]
async fn a_server_without_room_for_another_client_is_not_reached_yet() {
    let server = RedisServer::builder().config("maxclients", "1").start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let first = client.dedicated();
    eventually(SOON, "the only place", async || first.command(&cmd("PING")).await.is_ok()).await;
    let mut second = client.with_admission(|_: &str| true).blocking();
    let error = second.command(&cmd("PING"), Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)), "{error:?}");
    drop(first);
    let reply = eventually(SOON, "a place", async || second.command(&cmd("PING"), Duration::ZERO).await.ok());
    assert_eq!(reply.await, Value::SimpleString("PONG".into()));
}

#[tokio::test]
async fn a_read_ends_with_its_masters_demotion_and_the_next_connects() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let (redis, mut blocking) = (client.commands(), client.blocking());
    let id = async |blocking: &mut Blocking| {
        blocking.command(cmd("CLIENT").arg("ID"), Duration::ZERO).await.unwrap()
    };
    let before = id(&mut blocking).await;
    let forever = pop(600);
    let (reply, ()) = tokio::join!(blocking.command(&forever, LONG), async {
        eventually(SOON, "the read to block", async || blocked(&redis).await == 1).await;
        redis.command(cmd("REPLICAOF").arg("127.0.0.1").arg("1")).await.unwrap();
    });
    let error = reply.unwrap_err();
    assert_eq!(error.code(), Some("UNBLOCKED"));
    assert!(error.is_transient() && !error.may_have_executed());
    assert_ne!(id(&mut blocking).await, before, "another connection");
}
