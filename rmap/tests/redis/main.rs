//! Maps on a real Redis.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::unnecessary_wraps)]

mod big;
mod chaos;
mod deployments;
mod ending;
mod expiry;
mod faults;
mod following;
mod halves;
mod lists;
mod mutants;
mod network;
mod operations;
mod scripts;
mod sharing;
mod typed;
mod watching;

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Connection};
use tenure_rmap::{Layout, RawMap};
use tenure_testing::{RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);
/// Less than the interval of the comparisons: the time for changes that are noticed by other means.
const AT_ONCE: Duration = Duration::from_secs(4);

/// A client that is patient with a busy machine.
fn client(server: &RedisServer) -> Client {
    Client::builder(&server.url()).response_timeout(Duration::from_secs(8)).build().unwrap()
}

async fn run(redis: &Connection, words: &[&str]) -> Value {
    redis.command(cmd(words[0]).arg(&words[1..])).await.unwrap()
}

/// A map as in another process: over a connection of its own.
async fn join(server: &RedisServer) -> RawMap {
    RawMap::join(&client(server), "m").await.unwrap()
}

/// A server, and a connection of the test's own.
fn served() -> (RedisServer, Connection) {
    let server = RedisServer::start().unwrap();
    let redis = client(&server).commands();
    (server, redis)
}

/// The same with one copy of a map.
async fn alone() -> (RedisServer, Connection, RawMap) {
    let (server, redis) = served();
    let map = join(&server).await;
    (server, redis, map)
}

fn layout() -> Layout {
    Layout::stand_alone("m").unwrap()
}

/// Refreshes the first copy and waits until the others equal it.
async fn converged(maps: &[&RawMap]) {
    maps[0].refresh().await.unwrap();
    eventually(AT_ONCE, "the copies to be equal", async || {
        maps.windows(2).all(|pair| pair[0].snapshot() == pair[1].snapshot())
    })
    .await;
}

async fn holds(map: &RawMap, within: Duration, key: &str, value: Option<&str>) {
    eventually(within, &format!("{key} to be {value:?}"), async || {
        map.get(key).as_deref() == value.map(str::as_bytes)
    })
    .await;
}

/// Redis deletes expired keys a moment later.
async fn no_key_is_left(server: &RedisServer) {
    let redis = client(server).commands();
    eventually(SOON, "the keys to be gone", async || run(&redis, &["DBSIZE"]).await == Value::Int(0)).await;
}

/// Awaits something that must happen within a time, and panics with the caller's place if it does not.
#[track_caller]
fn in_time<F: Future>(within: Duration, what: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        let result = tokio::time::timeout(within, what).await;
        result.unwrap_or_else(|_| panic!("nothing within {within:?} at {caller}"))
    }
}

fn bytes(text: &str) -> Option<bytes::Bytes> {
    Some(bytes::Bytes::copy_from_slice(text.as_bytes()))
}
