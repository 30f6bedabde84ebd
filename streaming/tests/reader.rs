//! Readers on a real Redis.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use redis::{Value, cmd};
use tenure_connection::{Client, Connection};
use tenure_streaming::{Batch, EntryId, Error, Reader, Start, Stream};
use tenure_testing::{Data, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);
/// So long that only an interruption can end a read in time.
const LONG: Duration = Duration::from_secs(600);

fn client(server: &RedisServer) -> Client {
    Client::open(&server.url()).unwrap()
}

async fn next(reader: &mut Reader) -> Vec<Batch> {
    tokio::time::timeout(SOON, reader.next_batch()).await.expect("in time").unwrap()
}

fn values(batch: &Batch) -> Vec<String> {
    batch.entries.iter().map(|entry| String::from_utf8_lossy(&entry.fields[0].1).into_owned()).collect()
}

async fn blocked(redis: &Connection) -> usize {
    let Value::BulkString(info) = redis.command(cmd("INFO").arg("clients")).await.unwrap() else { panic!() };
    let info = String::from_utf8(info).unwrap();
    info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn several_streams_are_read_each_behind_its_cursor_and_nothing_is_skipped() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let (a, b) = (Stream::new(&client, "a"), Stream::new(&client, "b"));
    let mut added = Vec::new();
    for n in 0..10 {
        added.push(a.add(&[("n", n.to_string())]).await.unwrap());
        b.add(&[("n", (100 + n).to_string())]).await.unwrap();
    }
    let mut reader = Reader::new(&client).with_count(3);
    let handle = reader.handle();
    handle.add_stream("a", added[1]);
    handle.add_stream("b", EntryId::MIN);
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    while of_a.len() + of_b.len() < 18 {
        for batch in next(&mut reader).await {
            assert!((1..=3).contains(&batch.entries.len()));
            assert_eq!(handle.cursor(&batch.stream), batch.entries.last().map(|entry| entry.id));
            if &*batch.stream == "a" { &mut of_a } else { &mut of_b }.extend(values(&batch));
        }
    }
    assert_eq!(of_a, (2..10).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(of_b, (100..110).map(|n| n.to_string()).collect::<Vec<_>>());

    let mut other = Reader::new(&client).with_count(1000);
    other.handle().add_stream("a", EntryId::MIN);
    assert_eq!(values(&next(&mut other).await[0]).len(), 10, "independent readers each see all");
}

#[tokio::test]
async fn nothing_new_is_no_batch() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let mut reader = Reader::new(&client).with_block(Duration::ZERO);
    assert!(next(&mut reader).await.is_empty(), "no streams");
    reader.handle().add_stream("absent", EntryId::MIN);
    assert!(next(&mut reader).await.is_empty());
    let mut reader = Reader::new(&client).with_block(Duration::from_micros(1));
    reader.handle().add_stream("absent", EntryId::MIN);
    assert!(next(&mut reader).await.is_empty(), "a tiny wait is not for ever");
}

#[tokio::test]
async fn what_is_read_may_change_while_a_read_blocks() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let (a, b) = (Stream::new(&client, "a"), Stream::new(&client, "b"));
    let first = a.add(&[("n", "1")]).await.unwrap();
    b.add(&[("n", "2")]).await.unwrap();

    let mut reader = Reader::new(&client).with_block(LONG);
    let handle = reader.handle();
    let waiting = handle.clone();
    let reading = tokio::spawn(async move {
        let batches = next(&mut reader).await;
        (reader, batches)
    });
    waiting.add_stream("a", first);
    eventually(SOON, "the read of a to block", async || blocked(&redis).await == 1).await;
    waiting.add_stream("b", EntryId::MIN);
    let (mut reader, batches) = reading.await.unwrap();
    assert_eq!((batches.len(), values(&batches[0])), (1, vec!["2".to_owned()]));

    let reading = tokio::spawn(async move {
        let batches = next(&mut reader).await;
        (reader, batches)
    });
    eventually(SOON, "the read of both to block", async || blocked(&redis).await == 1).await;
    assert!(handle.set_cursor("a", EntryId::MIN));
    assert!(!handle.set_cursor("c", EntryId::MIN), "not read");
    let (mut reader, batches) = reading.await.unwrap();
    assert_eq!((&*batches[0].stream, values(&batches[0])), ("a", vec!["1".to_owned()]));

    assert!(handle.remove_stream("a") && !handle.remove_stream("a"));
    a.add(&[("n", "3")]).await.unwrap();
    b.add(&[("n", "4")]).await.unwrap();
    let batches = next(&mut reader).await;
    assert_eq!((batches.len(), &*batches[0].stream), (1, "b"));
    eventually(SOON, "interrupted reads to be gone", async || blocked(&redis).await == 0).await;
}

#[tokio::test]
async fn a_dropped_read_loses_nothing() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let stream = Stream::new(&client, "s");
    let mut reader = Reader::new(&client).with_block(LONG);
    reader.handle().add_stream("s", EntryId::MIN);
    for n in 0..20 {
        tokio::select! {
            biased;
            batches = reader.next_batch() => panic!("{batches:?}"),
            () = eventually(SOON, "the read to block", async || blocked(&redis).await > 0) => {}
        }
        stream.add(&[("n", n.to_string())]).await.unwrap();
        let batches = next(&mut reader).await;
        assert_eq!(values(&batches[0]), [n.to_string()]);
    }
}

#[tokio::test]
async fn entries_come_one_by_one_and_the_cursor_moves_as_they_are_taken() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let stream = Stream::new(&client, "s");
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(stream.add(&[("n", n.to_string())]).await.unwrap());
    }
    let reader = Reader::new(&client).with_block(Duration::ZERO);
    let handle = reader.handle();
    handle.add_stream("s", EntryId::MIN);
    let mut entries = Box::pin(reader.into_entries());
    let mut take = async || {
        let item = tokio::time::timeout(SOON, entries.next()).await.expect("in time");
        item.expect("endless").unwrap().1.id
    };
    assert_eq!([take().await, take().await], ids[..2]);
    assert_eq!(handle.cursor("s"), Some(ids[1]), "not past what was only read");
    handle.set_cursor("s", EntryId::MIN);
    assert_eq!(take().await, ids[0], "what was read before is dropped");
    handle.set_cursor("s", ids[3]);
    assert_eq!(take().await, ids[4]);

    let redis = client.commands();
    let mut waiting = entries.next();
    tokio::select! {
        item = &mut waiting => panic!("{item:?}"),
        () = eventually(SOON, "a read that waits", async || blocked(&redis).await == 1) => {}
    }
    let later = stream.add(&[("n", "later")]).await.unwrap();
    assert_eq!(waiting.await.expect("endless").unwrap().1.id, later);
}

#[tokio::test]
async fn reading_begins_where_it_is_told_to() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let stream = Stream::new(&client, "s");
    assert_eq!(stream.position(Start::Newest).await.unwrap(), EntryId::MIN, "no stream yet");
    for (ms, n) in [(1000, "1"), (2000, "2"), (3000, "3")] {
        let add = cmd("XADD").arg("s").arg(format!("{ms}-5")).arg("n").arg(n).take();
        client.commands().command(&add).await.unwrap();
    }
    let at = |ms| Start::At(SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
    for (start, expected) in [
        (Start::Oldest, &["1", "2", "3"][..]),
        (Start::After(EntryId::new(1000, 5)), &["2", "3"]),
        (at(2000), &["2", "3"]),
        (at(2001), &["3"]),
        (at(0), &["1", "2", "3"]),
    ] {
        let mut reader = Reader::new(&client);
        reader.handle().add_stream("s", stream.position(start).await.unwrap());
        assert_eq!(values(&next(&mut reader).await[0]), expected, "{start:?}");
    }
    stream.remove(&[EntryId::new(3000, 5)]).await.unwrap();
    assert_eq!(
        stream.position(Start::Newest).await.unwrap(),
        EntryId::new(3000, 5),
        "also when it is deleted"
    );
    client.commands().command(cmd("SET").arg("text").arg("v")).await.unwrap();
    match Stream::new(&client, "text").position(Start::Newest).await {
        Err(Error::Redis(error)) => assert_eq!(error.code(), Some("WRONGTYPE")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_reader_outlives_its_server_and_nothing_is_left_of_a_dropped_one() {
    let server = RedisServer::start().unwrap();
    let stream = Stream::new(&client(&server), "s");
    stream.add(&[("n", "1")]).await.unwrap();
    let mut reader = Reader::new(&client(&server));
    reader.handle().add_stream("s", EntryId::MIN);
    assert_eq!(next(&mut reader).await.len(), 1);
    server.restart(Data::Keep).unwrap();
    eventually(SOON, "an entry after the restart", async || stream.add(&[("n", "2")]).await).await;
    let batches = eventually(SOON, "the reader to go on", async || reader.next_batch().await).await;
    assert_eq!(values(&batches[0])[0], "2");

    let watcher = client(&server).commands();
    let connected = async || match watcher.command(cmd("CLIENT").arg("LIST")).await.unwrap() {
        Value::BulkString(text) => String::from_utf8(text).unwrap().lines().count(),
        other => panic!("{other:?}"),
    };
    drop(stream);
    eventually(SOON, "the reader and the watcher", async || connected().await == 2).await;
    drop(reader);
    eventually(SOON, "only the watcher", async || connected().await == 1).await;
}
