//! Consumer groups on a real Redis.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Connection};
use tenure_streaming::{Entry, EntryId, Error, Sink, SinkOptions, Stream};
use tenure_testing::{Data, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(600);

fn client(server: &RedisServer) -> Client {
    Client::open(&server.url()).unwrap()
}

async fn open(client: &Client, consumer: &str) -> Sink {
    let options = SinkOptions::new().create_group(EntryId::MIN);
    Sink::open(client, "s", "g", consumer, options).await.unwrap()
}

async fn fill(client: &Client, entries: usize) -> Vec<EntryId> {
    let stream = Stream::new(client, "s");
    let mut ids = Vec::new();
    for n in 0..entries {
        ids.push(stream.add(&[("n", n)]).await.unwrap());
    }
    ids
}

fn ids(entries: &[Entry]) -> Vec<EntryId> {
    entries.iter().map(|entry| entry.id).collect()
}

async fn pending(redis: &Connection) -> i64 {
    match redis.command(cmd("XPENDING").arg("s").arg("g")).await.unwrap() {
        Value::Array(items) => match items[0] {
            Value::Int(count) => count,
            _ => panic!("{items:?}"),
        },
        other => panic!("{other:?}"),
    }
}

async fn consumers(redis: &Connection) -> usize {
    match redis.command(cmd("XINFO").arg("CONSUMERS").arg("s").arg("g")).await.unwrap() {
        Value::Array(items) => items.len(),
        other => panic!("{other:?}"),
    }
}

async fn blocked(redis: &Connection) -> usize {
    let Value::BulkString(info) = redis.command(cmd("INFO").arg("clients")).await.unwrap() else { panic!() };
    let info = String::from_utf8(info).unwrap();
    info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn consumers_share_a_cursor_and_what_is_acknowledged_does_not_come_again() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let added = fill(&client, 10).await;
    let (mut a, mut b) = (open(&client, "a").await, open(&client, "b").await);
    let of_a = ids(&a.next_batch(6, LONG).await.unwrap());
    let of_b = ids(&b.next_batch(6, LONG).await.unwrap());
    assert_eq!([of_a.clone(), of_b.clone()].concat(), added, "nothing skipped, nothing twice");
    assert!(a.next_batch(6, Duration::ZERO).await.unwrap().is_empty());
    assert_eq!(pending(&client.commands()).await, 10);
    assert_eq!(a.ack(&of_a).await.unwrap(), 6);
    assert_eq!((a.ack(&of_a).await.unwrap(), a.ack(&[]).await.unwrap()), (0, 0));
    assert_eq!(b.ack_and_remove(&of_b).await.unwrap(), 4);
    assert_eq!(b.ack_and_remove(&[]).await.unwrap(), 0);
    assert_eq!(pending(&client.commands()).await, 0);
    assert_eq!(Stream::new(&client, "s").len().await.unwrap(), 6);
    assert!(a.claim(Duration::ZERO, 100).await.unwrap().is_empty());

    let other = SinkOptions::new().create_group(added[2]);
    let mut other = Sink::open(&client, "s", "other", "a", other).await.unwrap();
    assert_eq!(
        ids(&other.next_batch(100, LONG).await.unwrap()),
        added[3..6],
        "another group has its own cursor"
    );
}

#[tokio::test]
async fn what_a_dead_consumer_held_is_claimed_once_and_in_full() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let added = fill(&client, 50).await;
    let mut dead = open(&client, "dead").await;
    assert_eq!(dead.next_batch(50, LONG).await.unwrap().len(), 50);
    drop(dead);

    let mut heir = open(&client, "heir").await;
    assert!(heir.claim(LONG, 100).await.unwrap().is_empty(), "not idle for long enough");
    // Deleted meanwhile: neither comes again nor wedges the claim.
    Stream::new(&client, "s").remove(&added[..20]).await.unwrap();
    let mut claimed = Vec::new();
    while claimed.len() < 30 {
        // Redis looks at ten pending entries for one wanted: the deleted ones alone are more.
        let entries = heir.claim(Duration::ZERO, 1).await.unwrap();
        assert_eq!(entries.len(), 1, "after {}", claimed.len());
        claimed.extend(ids(&entries));
    }
    assert_eq!(claimed, added[20..], "each one once, although none was acknowledged on the way");
    assert_eq!(heir.ack(&claimed).await.unwrap(), 30);
    assert_eq!(pending(&client.commands()).await, 0);
}

#[tokio::test]
async fn only_idle_consumers_without_pending_entries_are_pruned() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let added = fill(&client, 3).await;
    let (mut holds, mut done) = (open(&client, "holds").await, open(&client, "done").await);
    holds.next_batch(1, LONG).await.unwrap();
    done.next_batch(1, LONG).await.unwrap();
    done.ack(&added[1..2]).await.unwrap();
    let mut own = open(&client, "own").await;
    own.next_batch(1, LONG).await.unwrap();
    own.ack(&added[2..]).await.unwrap();
    assert_eq!(consumers(&redis).await, 3);
    assert_eq!(own.prune(LONG).await.unwrap(), 0, "not idle for long enough");
    assert_eq!(own.prune(Duration::ZERO).await.unwrap(), 1);
    assert_eq!((consumers(&redis).await, pending(&redis).await), (2, 1));
    assert_eq!(ids(&own.claim(Duration::ZERO, 10).await.unwrap()), added[..1], "still there to be claimed");
}

#[tokio::test]
async fn a_lost_group_is_a_typed_error_unless_it_is_to_be_created() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let mut strict = Sink::open(&client, "s", "g", "strict", SinkOptions::new()).await.unwrap();
    let lost = |result: Result<(), Error>| {
        assert!(
            matches!(&result, Err(Error::NoGroup { stream, group }) if stream == "s" && group == "g"),
            "{result:?}"
        );
    };
    let added = fill(&client, 3).await;
    for destroyed in [false, true] {
        if destroyed {
            Stream::new(&client, "s").destroy().await.unwrap();
        }
        lost(strict.next_batch(1, Duration::from_secs(1)).await.map(|_| ()));
        lost(strict.claim(Duration::ZERO, 1).await.map(|_| ()));
        lost(strict.prune(Duration::ZERO).await.map(|_| ()));
        assert_eq!(strict.ack(&added).await.unwrap(), 0, "nothing is pending in a group that is gone");
    }
    let mut creating = open(&client, "creating").await;
    let added = fill(&client, 3).await;
    assert_eq!(ids(&strict.next_batch(1, LONG).await.unwrap()), added[..1]);
    redis.command(cmd("XGROUP").arg("DESTROY").arg("s").arg("g")).await.unwrap();
    assert_eq!(ids(&creating.next_batch(10, LONG).await.unwrap()), added, "from the oldest entry again");
}

#[tokio::test]
async fn a_group_lost_under_a_waiting_read_is_noticed() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    for how in [cmd("XGROUP").arg("DESTROY").arg("s").arg("g").take(), cmd("DEL").arg("s").take()] {
        let mut creating = open(&client, "creating").await;
        let mut strict = Sink::open(&client, "s", "g", "strict", SinkOptions::new()).await.unwrap();
        let strict = tokio::spawn(async move { strict.next_batch(1, LONG).await });
        let creating = tokio::spawn(async move { creating.next_batch(1, LONG).await });
        eventually(SOON, "both to wait", async || blocked(&redis).await == 2).await;
        redis.command(&how).await.unwrap();
        let strict = tokio::time::timeout(SOON, strict).await.expect("told").unwrap();
        assert!(matches!(strict, Err(Error::NoGroup { .. })), "{strict:?}");
        eventually(SOON, "the other to wait again", async || blocked(&redis).await == 1).await;
        let added = fill(&client, 1).await;
        let read = tokio::time::timeout(SOON, creating).await.expect("read").unwrap().unwrap();
        assert_eq!(ids(&read), added);
        Stream::new(&client, "s").destroy().await.unwrap();
    }
}

#[tokio::test]
async fn a_group_that_is_lost_again_and_again_is_no_busy_loop() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let mut sink = open(&client, "c").await;
    let reading = tokio::spawn(async move { sink.next_batch(1, Duration::from_secs(600)).await });
    let created = async || {
        let Value::BulkString(info) = redis.command(cmd("INFO").arg("commandstats")).await.unwrap() else {
            panic!()
        };
        let info = String::from_utf8(info).unwrap();
        let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_xgroup|create:calls=")).unwrap();
        calls.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    // Pauses of at least 0, 25, 50, 100, 200, 400 ms: the slowest machine makes fewer.
    let end = std::time::Instant::now() + Duration::from_millis(500);
    while std::time::Instant::now() < end {
        redis.command(cmd("DEL").arg("s")).await.unwrap();
    }
    assert!(created().await <= 8, "{}", created().await);
    reading.abort();
}

#[tokio::test]
async fn a_dropped_read_and_a_restart_lose_nothing_and_a_dropped_sink_leaves_nothing() {
    let server = RedisServer::builder().append_only().config("appendfsync", "always").start().unwrap();
    let outside = client(&server);
    let redis = outside.commands();
    let mut sink = open(&client(&server), "c").await;
    tokio::select! {
        read = sink.next_batch(1, LONG) => panic!("{read:?}"),
        () = eventually(SOON, "the read to block", async || blocked(&redis).await == 1) => {}
    }
    let added = fill(&outside, 2).await;
    let mut seen: BTreeSet<_> = ids(&sink.next_batch(1, LONG).await.unwrap()).into_iter().collect();
    server.restart(Data::Keep).unwrap();
    eventually(SOON, "both entries", async || {
        // The dropped read and the restart may have left an entry pending.
        for entries in [sink.next_batch(1, Duration::ZERO).await, sink.claim(Duration::ZERO, 10).await] {
            seen.extend(ids(&entries.unwrap_or_default()));
        }
        seen.len() == 2
    })
    .await;
    assert_eq!(seen, added.into_iter().collect());

    let connected = async || match redis.command(cmd("CLIENT").arg("LIST")).await.unwrap() {
        Value::BulkString(text) => String::from_utf8(text).unwrap().lines().count(),
        other => panic!("{other:?}"),
    };
    assert_eq!(connected().await, 3);
    drop(sink);
    eventually(SOON, "only the outside", async || connected().await == 1).await;
}
