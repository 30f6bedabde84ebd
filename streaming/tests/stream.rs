//! Streams on a real Redis.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::Client;
use tenure_streaming::{AddOptions, EntryId, Error, Stream};
use tenure_testing::RedisServer;

#[tokio::test]
async fn entries_are_added_looked_at_and_removed() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let stream = Stream::new(&client, "s");
    assert_eq!((stream.len().await.unwrap(), stream.oldest().await.unwrap()), (0, None));
    assert!(matches!(stream.add::<&str, &str>(&[]).await, Err(Error::NoFields)));
    let first = stream.add(&[("s", &b"\xff\0"[..]), ("t", b"7"), ("s", b"")]).await.unwrap();
    let second = stream.add(&[("n", 2)]).await.unwrap();
    assert!(first < second && first.ms > 1_600_000_000_000);
    let oldest = stream.oldest().await.unwrap().unwrap();
    assert_eq!(oldest.id, first);
    let fields: Vec<_> = oldest.fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
    assert_eq!(fields, [(&b"s"[..], &b"\xff\0"[..]), (b"t", b"7"), (b"s", b"")]);
    assert_eq!(stream.remove(&[first, EntryId::new(1, 1)]).await.unwrap(), 1);
    assert_eq!(stream.remove(&[]).await.unwrap(), 0);
    assert_eq!(stream.oldest().await.unwrap().map(|entry| entry.id), Some(second));
    assert!(!stream.is_empty().await.unwrap());
    assert!(stream.destroy().await.unwrap() && !stream.destroy().await.unwrap());
}

#[tokio::test]
async fn options_bound_length_life_and_creation() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let stream = Stream::new(&client, "s");
    let ttl = Duration::from_secs(60);
    for hint in [AddOptions::new().only_if_exists(), AddOptions::new().only_if_exists().ttl(ttl)] {
        assert_eq!(stream.add_with(hint, &[("n", 0)]).await.unwrap(), None);
    }
    assert_eq!(client.commands().command(&cmd("DBSIZE")).await.unwrap(), Value::Int(0));
    stream.add(&[("n", 1)]).await.unwrap();
    let pttl = async || client.commands().command(cmd("PTTL").arg("s")).await.unwrap();
    assert_eq!(pttl().await, Value::Int(-1));
    let options = AddOptions::new().only_if_exists().max_len(100).ttl(ttl);
    for n in 0..500 {
        assert!(stream.add_with(options, &[("n", n)]).await.unwrap().is_some());
    }
    assert!((100..300).contains(&stream.len().await.unwrap()));
    assert!(matches!(pttl().await, Value::Int(1..=60_000)));
}
