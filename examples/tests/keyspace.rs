//! A pool's keys are distinguished from others' keys.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use redis::cmd;
use tenure_connection::Client;
use tenure_examples::feeds::keyspace::Keyspace;
use tenure_testing::RedisServer;

#[tokio::test]
async fn only_the_keys_of_the_pool_are_counted_and_removed() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let commands = client.commands();
    for key in ["tenure:{a}:pool", "tenure:{a}:jobs", "tenure:{a}:worker:7", "tenure:{ab}:jobs", "mine"] {
        commands.command(cmd("SET").arg(key).arg(1)).await.unwrap();
    }
    let keys = Keyspace::new(client, "a");
    assert_eq!(
        keys.left().await.unwrap(),
        ["tenure:{a}:jobs", "tenure:{a}:worker:7"],
        "the tombstone may stay"
    );
    keys.remove().await.unwrap();
    assert!(keys.left().await.unwrap().is_empty());
    assert_eq!(commands.command(&cmd("DBSIZE")).await.unwrap(), redis::Value::Int(2));
}
