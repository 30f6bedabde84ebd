//! Callers in a hurry and silent servers: only the latter end a connection.

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Connection, Error};
use tenure_testing::{Proxy, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);
const HURRY: Duration = Duration::from_millis(20);

async fn id(redis: &Connection) -> Result<Value, Error> {
    redis.command(cmd("CLIENT").arg("ID")).await
}

#[tokio::test]
async fn a_caller_in_a_hurry_does_not_end_a_shared_connection() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(SOON).build().unwrap();
    let redis = client.commands();
    let before = id(&redis).await.unwrap();
    let hasty = redis.clone().with_response_timeout(HURRY);
    server.pause().unwrap();
    for _ in 0..3 {
        let error = hasty.command(&cmd("PING")).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut(_)), "{error:?}");
        let results = hasty.pipeline().command(cmd("PING")).command(cmd("PING")).send().await;
        assert!(results.iter().all(|result| matches!(result, Err(Error::TimedOut(_)))), "{results:?}");
    }
    server.resume().unwrap();
    assert_eq!(id(&redis).await.unwrap(), before, "the same connection");
}

#[tokio::test]
async fn nothing_is_sent_for_a_caller_without_time() {
    let server = RedisServer::start().unwrap();
    let redis = Client::builder(&server.url()).response_timeout(SOON).build().unwrap().commands();
    let before = id(&redis).await.unwrap();
    let never = redis.clone().with_response_timeout(Duration::ZERO);
    let error = never.command(cmd("INCR").arg("n")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)) && !error.may_have_executed(), "{error:?}");
    let results = never.pipeline().command(cmd("INCR").arg("n").take()).send().await;
    assert!(results.iter().all(|result| matches!(result, Err(Error::Unreachable(_)))), "{results:?}");
    assert_eq!(redis.command(cmd("GET").arg("n")).await.unwrap(), Value::Nil);
    assert_eq!(id(&redis).await.unwrap(), before, "the same connection");
}

#[tokio::test]
async fn callers_in_a_hurry_still_leave_a_dead_connection() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    let client = Client::builder(&proxy.url()).response_timeout(Duration::from_millis(300)).build().unwrap();
    let redis = client.commands();
    let before = eventually(SOON, "a connection", async || id(&redis).await).await;
    let hasty = redis.clone().with_response_timeout(HURRY);
    // Commands arrive and are executed, and no answer ever comes back on this connection.
    proxy.drop_replies();
    let accepted = proxy.counts().accepted;
    eventually(SOON, "another connection", async || {
        assert!(hasty.command(&cmd("PING")).await.is_err(), "nothing answers");
        proxy.counts().accepted > accepted
    })
    .await;
    proxy.resume();
    let after = eventually(SOON, "an answer", async || id(&redis).await).await;
    assert_ne!(after, before);
}
