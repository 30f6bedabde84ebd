//! Readers on a real Redis.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use redis::cmd;
use tenure_connection::Client;
use tenure_streaming::{AddOptions, Entry, EntryId, Error, Filter, Reader, ReaderBuilder, Start};
use tenure_testing::{Data, RedisServer, eventually};

use crate::support::{
    LONG, SOON, blocked, calls, client, connections, fill, ids, keys, served, stream, values,
};

async fn next(reader: &mut Reader) -> Vec<Entry> {
    tokio::time::timeout(SOON, reader.next_batch()).await.expect("in time").unwrap()
}

async fn take(reader: &mut Reader) -> Entry {
    tokio::time::timeout(SOON, reader.next()).await.expect("in time").expect("endless").unwrap()
}

fn builder(client: &Client) -> ReaderBuilder {
    Reader::builder(client)
}

#[tokio::test]
async fn each_stream_is_read_behind_its_own_cursor_without_a_gap() {
    let (_server, client, _) = served();
    let added = fill(&client, "a", 10).await;
    fill(&client, "b", 10).await;
    let mut reader = builder(&client)
        .stream("a", Start::After(added[1]))
        .stream("b", Start::Oldest)
        .count(3)
        .open()
        .await
        .unwrap();
    let handle = reader.handle();
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    while of_a.len() + of_b.len() < 18 {
        for entry in next(&mut reader).await {
            assert!(handle.cursor(&entry.stream) >= Some(entry.id));
            if &*entry.stream == "a" { &mut of_a } else { &mut of_b }.push(entry);
        }
    }
    assert_eq!(values(&of_a), (2..10).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(values(&of_b), (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(handle.cursor("a"), Some(added[9]));

    let mut other = builder(&client).stream("a", Start::Oldest).count(u64::MAX).open().await.unwrap();
    assert_eq!(ids(&next(&mut other).await), added, "independent readers each see all");
    let cursors = reader.close();
    assert_eq!(cursors.get("a"), Some(added[9]), "where another one may go on");
}

#[tokio::test]
async fn nothing_new_is_no_batch() {
    let (_server, client, _) = served();
    let mut reader = builder(&client).block(Duration::ZERO).open().await.unwrap();
    assert!(next(&mut reader).await.is_empty(), "no streams");
    reader.handle().add_stream("absent", Start::Oldest).await.unwrap();
    assert!(next(&mut reader).await.is_empty());
    let absent = builder(&client).stream("absent", Start::Newest);
    let mut reader = absent.block(Duration::from_micros(1)).open().await.unwrap();
    assert!(next(&mut reader).await.is_empty(), "a tiny wait is not for ever");
    fill(&client, "absent", 1).await;
    let absent = builder(&client).stream("absent", Start::Oldest).filter(Filter::topic("none"));
    let mut reader = absent.block(Duration::from_millis(1)).open().await.unwrap();
    assert!(next(&mut reader).await.is_empty(), "nothing that is wanted");
    for bad in [String::new(), "x".repeat(513)] {
        let result = builder(&client).stream(bad.clone(), Start::Oldest).open().await;
        assert!(matches!(result, Err(Error::Name { .. })));
        let result = reader.handle().add_stream(&bad, Start::Oldest).await;
        assert!(matches!(result, Err(Error::Name { .. })));
    }
}

#[tokio::test]
async fn streams_are_added_and_removed_while_a_read_waits() {
    let (_server, client, redis) = served();
    let first = fill(&client, "a", 1).await[0];
    let second = fill(&client, "b", 1).await[0];

    let mut reader = builder(&client).stream("a", Start::After(first)).block(LONG).open().await.unwrap();
    let handle = reader.handle();
    let reading = tokio::spawn(async move {
        let entries = next(&mut reader).await;
        (reader, entries)
    });
    eventually(SOON, "the read of a to block", async || blocked(&redis).await == 1).await;
    handle.add_stream("b", Start::Oldest).await.unwrap();
    let (mut reader, entries) = reading.await.unwrap();
    assert_eq!(ids(&entries), [second]);

    let reading = tokio::spawn(async move {
        let entries = next(&mut reader).await;
        (reader, entries)
    });
    eventually(SOON, "the read of both to block", async || blocked(&redis).await == 1).await;
    assert!(handle.set_cursor("a", EntryId::MIN));
    assert!(!handle.set_cursor("c", EntryId::MIN), "not read");
    let (mut reader, entries) = reading.await.unwrap();
    assert_eq!((&*entries[0].stream, ids(&entries)), ("a", vec![first]));

    assert!(handle.remove_stream("a") && !handle.remove_stream("a"));
    fill(&client, "a", 1).await;
    fill(&client, "b", 1).await;
    let entries = next(&mut reader).await;
    assert_eq!((entries.len(), &*entries[0].stream), (1, "b"));
    eventually(SOON, "interrupted reads to be gone", async || blocked(&redis).await == 0).await;
}

#[tokio::test]
async fn a_dropped_call_loses_nothing() {
    let (_server, client, redis) = served();
    let mut reader = builder(&client).stream("s", Start::Oldest).block(LONG).open().await.unwrap();
    for _ in 0..20 {
        tokio::select! {
            biased;
            entries = reader.next_batch() => panic!("{entries:?}"),
            () = eventually(SOON, "the read to block", async || blocked(&redis).await > 0) => {}
        }
        let added = fill(&client, "s", 1).await;
        assert_eq!(ids(&next(&mut reader).await), added);
    }
    assert_eq!(connections(&redis).await, 2, "the read went on meanwhile");
}

#[tokio::test]
async fn the_cursor_moves_as_entries_are_taken_from_the_stream() {
    let (_server, client, redis) = served();
    let added = fill(&client, "s", 5).await;
    let mut reader = builder(&client).stream("s", Start::Oldest).block(Duration::ZERO).open().await.unwrap();
    let handle = reader.handle();
    assert_eq!([take(&mut reader).await.id, take(&mut reader).await.id], added[..2]);
    assert_eq!(handle.cursor("s"), Some(added[1]), "not past entries that were only read");
    handle.set_cursor("s", EntryId::MIN);
    assert_eq!(take(&mut reader).await.id, added[0], "entries read before are dropped");
    handle.set_cursor("s", added[3]);
    assert_eq!(take(&mut reader).await.id, added[4]);

    let mut waiting = reader.next();
    tokio::select! {
        item = &mut waiting => panic!("{item:?}"),
        () = eventually(SOON, "a read that waits", async || blocked(&redis).await == 1) => {}
    }
    let later = fill(&client, "s", 1).await[0];
    assert_eq!(waiting.await.expect("endless").unwrap().id, later);
}

#[tokio::test]
async fn redis_is_read_again_only_when_all_entries_are_taken() {
    let (_server, client, redis) = served();
    fill(&client, "s", 30).await;
    let mut reader = builder(&client).stream("s", Start::Oldest).count(10).open().await.unwrap();
    for n in 1..=30 {
        take(&mut reader).await;
        assert_eq!(calls(&redis, "xread").await, u64::from(n - 1_u32) / 10 + 1, "{n}");
    }
}

#[tokio::test]
async fn a_closed_reader_is_over() {
    let (_server, client, redis) = served();
    let added = fill(&client, "s", 2).await;
    let mut reader = builder(&client).stream("s", Start::Oldest).open().await.unwrap();
    let handle = reader.handle();
    assert_eq!(take(&mut reader).await.id, added[0]);
    handle.close();
    assert!(reader.next().await.is_none());
    assert!(matches!(reader.next_batch().await, Err(Error::Closed)));
    assert_eq!(handle.cursor("s"), Some(added[0]), "entries that were only read do not count");
    eventually(SOON, "its connection to be closed", async || connections(&redis).await == 1).await;

    let reader = builder(&client).stream("s", Start::Newest).open().await.unwrap();
    let handle = reader.handle();
    let reading = tokio::spawn(reader.collect::<Vec<_>>());
    eventually(SOON, "the read to block", async || blocked(&redis).await == 1).await;
    handle.close();
    assert!(reading.await.unwrap().is_empty(), "also while it waits");
}

#[tokio::test]
async fn reading_begins_where_it_is_told_to() {
    let (_server, client, _) = served();
    let stream = stream(&client, "s");
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
        let mut reader = builder(&client).stream("s", start).open().await.unwrap();
        assert_eq!(values(&next(&mut reader).await), expected, "{start:?}");
    }
    stream.remove(&[EntryId::new(3000, 5)]).await.unwrap();
    let newest = stream.position(Start::Newest).await.unwrap();
    assert_eq!(newest, EntryId::new(3000, 5), "also when it is deleted");
    let mut reader = builder(&client).stream("s", Start::Newest).open().await.unwrap();
    let later = fill(&client, "s", 3).await;
    assert_eq!(ids(&next(&mut reader).await), later, "nothing is missed between opening and reading");
    assert_eq!(keys(&client.commands()).await, ["s"], "readers leave nothing");
}

#[tokio::test]
async fn only_wanted_topics_come_and_the_cursor_passes_the_others() {
    let (_server, client, _) = served();
    let stream = stream(&client, "s");
    for topic in ["orders.new", "orders.paid", "users.new", "orders"] {
        stream.add_with(AddOptions::new().topic(topic), &[("n", topic)]).await.unwrap();
    }
    let last = stream.add(&[("n", "no topic")]).await.unwrap();
    let both = [Filter::topic("orders"), Filter::pattern("users.*")];
    for (filters, expected) in [
        (&[Filter::topic("orders.new")][..], &["orders.new"][..]),
        (&[Filter::pattern("orders.*")], &["orders.new", "orders.paid"]),
        (&both, &["users.new", "orders"]),
        (&[Filter::pattern("*")], &["orders.new", "orders.paid", "users.new", "orders"]),
        (&[], &["orders.new", "orders.paid", "users.new", "orders", "no topic"]),
    ] {
        let one = builder(&client).stream("s", Start::Oldest);
        let mut reader = filters.iter().cloned().fold(one, ReaderBuilder::filter).open().await.unwrap();
        let handle = reader.handle();
        let mut taken = Vec::new();
        while taken.len() < expected.len() {
            taken.push(take(&mut reader).await);
        }
        assert_eq!(values(&taken), expected);
        assert_eq!(handle.cursor("s"), Some(last), "{expected:?}");
    }
}

#[tokio::test]
async fn entries_that_no_filter_wants_do_not_prolong_the_wait() {
    let (_server, client, _) = served();
    let one = builder(&client).stream("s", Start::Oldest).filter(Filter::topic("never"));
    let mut reader = one.block(Duration::from_millis(100)).open().await.unwrap();
    let adding = async {
        loop {
            fill(&client, "s", 1).await;
        }
    };
    tokio::select! {
        batch = tokio::time::timeout(SOON, reader.next_batch()) => assert!(batch.expect("in time").unwrap().is_empty()),
        () = adding => {}
    }
}

#[tokio::test]
async fn a_cursor_ahead_of_a_renewed_stream_is_reported_once() {
    let (server, client, redis) = served();
    let add = async |id: &str| redis.command(cmd("XADD").arg(&["s", id, "n", "1"])).await.unwrap();
    let later = Start::At(SystemTime::now() + LONG);
    let one = builder(&client).stream("s", Start::Oldest).stream("later", later).stream("s2", Start::Oldest);
    // Looked at before the other streams: this one exists, but has no entry yet.
    let behind = Start::After(EntryId::new(90, 0));
    redis.command(cmd("XGROUP").arg(&["CREATE", "empty", "group", "0", "MKSTREAM"])).await.unwrap();
    let mut reader = one.stream("empty", behind).open().await.unwrap();
    fill(&client, "later", 1).await;
    let ahead = async |reader: &mut Reader, cursor: EntryId, last: u64| {
        let error = tokio::time::timeout(SOON, reader.next()).await.unwrap().unwrap().unwrap_err();
        let told = matches!(&error, Error::CursorAhead { stream, cursor: at, last: end }
            if &**stream == "s" && *at == cursor && *end == EntryId::new(last, 0));
        assert!(told && !error.is_transient(), "{error:?}");
    };
    add("100-0").await;
    let first = take(&mut reader).await.id;
    redis.command(cmd("DEL").arg("s")).await.unwrap();
    add("50-0").await;
    ahead(&mut reader, first, 50).await;
    assert_eq!(reader.handle().cursor("s"), Some(first), "not moved");

    // Reported once. The next look, at two streams, has its answers before the cursor moves.
    tokio::select! {
        item = reader.next() => panic!("{item:?}"),
        () = eventually(SOON, "the next look", async || calls(&redis, "xinfo|stream").await == 4) => {}
    }
    // A failure causes another look.
    add("200-0").await;
    let second = take(&mut reader).await.id;
    redis.command(cmd("DEL").arg("s")).await.unwrap();
    add("70-0").await;
    let waiting = async {
        eventually(SOON, "a read that waits", async || blocked(&redis).await == 1).await;
        server.query::<()>(cmd("CLIENT").arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])).unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        item = reader.next() => assert!(item.unwrap().unwrap_err().is_transient()),
        () = waiting => {}
    }
    ahead(&mut reader, second, 70).await;
    assert!(reader.handle().set_cursor("s", EntryId::MIN));
    assert_eq!(take(&mut reader).await.id, EntryId::new(70, 0));
}

#[tokio::test]
async fn an_error_is_an_item_and_causes_no_busy_loop() {
    let (_server, client, redis) = served();
    redis.command(cmd("SET").arg("s").arg("v")).await.unwrap();
    let mut reader = builder(&client).stream("s", Start::Oldest).open().await.unwrap();
    for _ in 0..3 {
        let error = reader.next().await.expect("endless").unwrap_err();
        assert_eq!(error.code(), Some("WRONGTYPE"));
    }
    let before = calls(&redis, "xread").await;
    let loops = tokio::time::timeout(Duration::from_millis(300), async {
        loop {
            let _ = reader.next().await;
        }
    });
    assert!(loops.await.is_err());
    // The pauses are at least 100 and 200 ms by now: the slowest machine makes fewer calls.
    assert!(calls(&redis, "xread").await - before <= 3);
    redis.command(cmd("DEL").arg("s")).await.unwrap();
    let added = fill(&client, "s", 1).await[0];
    let item = eventually(SOON, "the entry", async || reader.next().await.expect("endless")).await;
    assert_eq!(item.id, added);
}

#[tokio::test]
async fn a_reader_outlives_its_server_and_leaves_nothing_when_dropped() {
    let server = RedisServer::start().unwrap();
    let writer = client(&server);
    let first = fill(&writer, "s", 1).await;
    let mut reader = builder(&client(&server)).stream("s", Start::Oldest).open().await.unwrap();
    assert_eq!(ids(&next(&mut reader).await), first);
    server.restart(Data::Keep).unwrap();
    let stream = stream(&writer, "s");
    let added = eventually(SOON, "to add", async || stream.add(&[("n", "2")]).await).await;
    let entry = eventually(SOON, "the reader to go on", async || reader.next().await.unwrap()).await;
    assert_eq!(entry.id, added);

    let watcher = client(&server).commands();
    drop((stream, writer));
    eventually(SOON, "the reader and the watcher", async || connections(&watcher).await == 2).await;
    let tasks = tokio::runtime::Handle::current().metrics();
    let before = tasks.num_alive_tasks();
    drop(reader);
    eventually(SOON, "only the watcher", async || connections(&watcher).await == 1).await;
    eventually(SOON, "its task to be gone", async || tasks.num_alive_tasks() == before - 1).await;
}
