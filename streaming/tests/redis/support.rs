//! Parts that the tests of this crate share.

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Connection};
use tenure_streaming::{Entry, EntryId, Stream};
use tenure_testing::RedisServer;

/// Long enough for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// So long that only an event can end the wait in time.
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) fn client(server: &RedisServer) -> Client {
    Client::open(&server.url()).unwrap()
}

/// A server, a client of it, and the client's connection for commands.
pub(crate) fn served() -> (RedisServer, Client, Connection) {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    (server, client, redis)
}

pub(crate) fn stream(client: &Client, name: &str) -> Stream {
    Stream::new(client, name).unwrap()
}

/// Adds entries with a field `n` that counts from 0.
pub(crate) async fn fill(client: &Client, name: &str, entries: usize) -> Vec<EntryId> {
    let stream = stream(client, name);
    let mut ids = Vec::new();
    for n in 0..entries {
        ids.push(stream.add(&[("n", n.to_string())]).await.unwrap());
    }
    ids
}

pub(crate) fn ids(entries: &[Entry]) -> Vec<EntryId> {
    entries.iter().map(|entry| entry.id).collect()
}

/// The value of each entry's first field.
pub(crate) fn values(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.fields[0].1).into_owned()).collect()
}

pub(crate) async fn text(redis: &Connection, command: &redis::Cmd) -> String {
    match redis.command(command).await.unwrap() {
        Value::BulkString(text) => String::from_utf8(text).unwrap(),
        Value::VerbatimString { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

async fn info(redis: &Connection, section: &str, name: &str) -> Option<String> {
    let info = text(redis, cmd("INFO").arg(section)).await;
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
}

/// The number of clients that wait in a read.
pub(crate) async fn blocked(redis: &Connection) -> usize {
    info(redis, "clients", "blocked_clients:").await.unwrap().parse().unwrap()
}

/// The number of calls of a command.
pub(crate) async fn calls(redis: &Connection, command: &str) -> u64 {
    let Some(stats) = info(redis, "commandstats", &format!("cmdstat_{command}:calls=")).await else {
        return 0;
    };
    stats.split(',').next().unwrap().parse().unwrap()
}

/// The number of connections.
pub(crate) async fn connections(redis: &Connection) -> usize {
    text(redis, cmd("CLIENT").arg("LIST")).await.lines().count()
}

/// All keys.
pub(crate) async fn keys(redis: &Connection) -> Vec<String> {
    let Value::Array(keys) = redis.command(cmd("KEYS").arg("*")).await.unwrap() else { panic!() };
    let text = |key| match key {
        Value::BulkString(key) => String::from_utf8(key).unwrap(),
        other => panic!("{other:?}"),
    };
    let mut keys: Vec<_> = keys.into_iter().map(text).collect();
    keys.sort();
    keys
}

/// The number of entries pending in a group.
pub(crate) async fn pending(redis: &Connection, stream: &str, group: &str) -> i64 {
    match redis.command(cmd("XPENDING").arg(stream).arg(group)).await.unwrap() {
        Value::Array(items) => match items[0] {
            Value::Int(count) => count,
            _ => panic!("{items:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The names of a group's consumers, without the one that represents its settings.
pub(crate) async fn consumers(redis: &Connection, stream: &str, group: &str) -> Vec<String> {
    let Value::Array(items) =
        redis.command(cmd("XINFO").arg("CONSUMERS").arg(stream).arg(group)).await.unwrap()
    else {
        panic!()
    };
    let name = |item: &Value| match item {
        Value::Array(words) => match &words[1] {
            Value::BulkString(name) => String::from_utf8(name.clone()).unwrap(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    items.iter().map(name).filter(|name| !name.starts_with("tenure:settings")).collect()
}
