//! A copy follows its map, whatever is lost, duplicated, late or rolled back.

use redis::Value;
use tenure_connection::Connection;
use tenure_rmap::{Error, Layout, RawMap, View};
use tenure_testing::{Data, RedisServer, eventually};

use crate::{AT_ONCE, SOON, alone, bytes, client, converged, holds, in_time, join, layout, run};

#[tokio::test]
async fn many_writers_converge_and_a_watcher_sees_the_last_revision() {
    let server = RedisServer::start().unwrap();
    let reader = join(&server).await;
    let mut watch = reader.watch();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let client = client(&server);
            tokio::spawn(async move {
                let map = RawMap::join(&client, "m").await.unwrap();
                for n in 0..50 {
                    map.set_and_wait(format!("{writer}:{}", n % 7), n.to_string()).await.unwrap();
                }
                map
            })
        })
        .collect();
    while watch.snapshot().revision() < 200 {
        in_time(SOON, watch.changed()).await.unwrap();
    }
    assert_eq!(watch.snapshot().len(), 28);
    for writer in writers {
        converged(&[&writer.await.unwrap(), &reader]).await;
    }
}

/// Writes as the scripts do, but publishes nothing, as if the message were lost.
pub(crate) async fn write_unheard(redis: &Connection, key: &str, value: &str) {
    let Layout { hash, meta, .. } = layout();
    let script = "local time = redis.call('TIME') \
                  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) \
                  redis.call('HINCRBY', KEYS[2], 'rev', 1) \
                  redis.call('HSET', KEYS[2], 'rev:at', time[1] * 1000000 + time[2]) \
                  return 1";
    run(redis, &["EVAL", script, "2", &hash, &meta, key, value]).await;
}

#[tokio::test]
async fn a_lost_message_is_found_by_the_next_one_and_by_a_hint() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();

    write_unheard(&redis, "lost", "a").await;
    assert_eq!(map.get("lost"), None);
    map.set("k", "2").await.unwrap();
    holds(&map, AT_ONCE, "lost", Some("a")).await;
    holds(&map, AT_ONCE, "k", Some("2")).await;

    write_unheard(&redis, "lost", "b").await;
    let snapshot = map.snapshot();
    map.view().expect(snapshot.incarnation(), snapshot.revision());
    map.view().expect(snapshot.incarnation(), snapshot.revision() + 1);
    holds(&map, AT_ONCE, "lost", Some("b")).await;

    write_unheard(&redis, "lost", "c").await;
    map.refresh().await.unwrap();
    assert_eq!(map.get("lost"), bytes("c"));
}

#[tokio::test]
async fn set_and_wait_does_not_wait_for_a_message_that_cannot_come() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    // The next message is a gap, and the copy reads the missed change.
    write_unheard(&redis, "lost", "a").await;
    map.set_and_wait("k", "2").await.unwrap();
    assert_eq!((map.get("k"), map.get("lost")), (bytes("2"), bytes("a")));
    // Another life of the map, whose beginning nobody has published.
    run(&redis, &["DEL", &layout().hash, &layout().meta]).await;
    map.set_and_wait("k", "3").await.unwrap();
    assert_eq!((map.get("k"), map.len()), (bytes("3"), 1));
}

#[tokio::test]
async fn a_lost_message_is_found_in_time_without_a_hint() {
    let (server, _, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    run(&client(&server).commands(), &["FLUSHALL"]).await;
    let mut watch = map.watch();
    in_time(SOON, watch.changed()).await.unwrap();
    assert!(map.is_empty() && map.snapshot().place().is_none());
}

#[tokio::test]
async fn comparing_and_reconnecting_transfer_no_known_entries() {
    let (server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    let transfers = async || {
        let info = run(&redis, &["INFO", "commandstats"]).await;
        let Value::BulkString(text) = info else { panic!("{info:?}") };
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_hgetall:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u32>().unwrap())
    };
    let before = transfers().await;
    let mut watch = map.watch();
    for _ in 0..5 {
        map.refresh().await.unwrap();
    }
    run(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let other = join(&server).await;
    let joined = transfers().await;
    assert_eq!(joined, before + 1, "the other one's");
    eventually(SOON, "the message after the reconnect", async || {
        other.set("k", "2").await.unwrap();
        map.get("k") == bytes("2")
    })
    .await;
    in_time(SOON, watch.changed()).await.unwrap();
    let unchanged = transfers().await;
    map.refresh().await.unwrap();
    other.refresh().await.unwrap();
    assert_eq!(transfers().await, unchanged);
}

#[tokio::test]
async fn a_doubled_or_late_message_changes_nothing() {
    let (server, redis, map) = alone().await;
    let mut subscriber = client(&server).subscriber([layout().channel]);
    in_time(SOON, subscriber.next()).await;
    map.set("k", "1").await.unwrap();
    let message = loop {
        if let tenure_connection::Event::Message(message) = in_time(SOON, subscriber.next()).await {
            break message;
        }
    };
    map.set_and_wait("k", "2").await.unwrap();
    let before = map.snapshot();
    for _ in 0..3 {
        let mut publish = redis::cmd("SPUBLISH");
        redis.command(publish.arg(&*message.channel).arg(&message.payload[..])).await.unwrap();
    }
    map.set_and_wait("l", "3").await.unwrap();
    assert_eq!((map.get("k"), map.snapshot().revision()), (bytes("2"), before.revision() + 1));
}

#[tokio::test]
async fn a_killed_subscription_is_renewed_and_missed_changes_are_read() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    write_unheard(&redis, "k", "2").await;
    run(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    holds(&map, AT_ONCE, "k", Some("2")).await;
    map.set_and_wait("k", "3").await.unwrap();
}

#[tokio::test]
async fn a_copy_follows_a_server_that_is_flushed_or_restarted() {
    let (server, _, map) = alone().await;
    map.set_and_wait("old", "1").await.unwrap();
    let first = map.snapshot().incarnation();

    server.restart(Data::Keep).unwrap();
    eventually(SOON, "a write after the restart", async || map.set("kept", "2").await).await;
    holds(&map, SOON, "kept", Some("2")).await;
    assert_eq!((map.get("old"), map.snapshot().incarnation()), (bytes("1"), first));

    run(&client(&server).commands(), &["FLUSHALL"]).await;
    map.set_and_wait("flushed", "3").await.unwrap();
    assert_eq!((map.len(), map.get("flushed")), (1, bytes("3")));
    let second = map.snapshot().incarnation();
    assert!(second > first, "{second:?} {first:?}");

    server.restart(Data::Wipe).unwrap();
    eventually(SOON, "the copy to be empty", async || map.is_empty()).await;
    eventually(SOON, "a write after the loss", async || map.set_and_wait("wiped", "4").await).await;
    assert_eq!((map.len(), map.get("wiped")), (1, bytes("4")));
    assert!(map.snapshot().incarnation() > second);
}

/// Restores an older state of the map without a message, as a fail-over to a lagging replica does.
pub(crate) struct Older(Vec<(String, Value)>);

impl Older {
    /// `None` when there is no map.
    pub(crate) async fn take(redis: &Connection) -> Option<Self> {
        let Layout { hash, meta, deadlines, .. } = layout();
        let mut dumps = Vec::new();
        for key in [hash, meta, deadlines.unwrap()] {
            let dump = run(redis, &["DUMP", &key]).await;
            dumps.push((key, dump));
        }
        (dumps[1].1 != Value::Nil).then_some(Self(dumps))
    }

    pub(crate) async fn restore(&self, redis: &Connection) {
        let mut all = redis::cmd("EVAL");
        all.arg(
            "for i, key in ipairs(KEYS) do \
               if ARGV[i] == '' then redis.call('DEL', key) \
               else redis.call('RESTORE', key, 0, ARGV[i], 'REPLACE') end \
             end return 1",
        );
        all.arg(self.0.len());
        for (key, _) in &self.0 {
            all.arg(key);
        }
        for (_, dump) in &self.0 {
            match dump {
                Value::BulkString(dump) => all.arg(&dump[..]),
                _ => all.arg(""),
            };
        }
        redis.command(&all).await.unwrap();
    }
}

#[tokio::test]
async fn another_history_with_the_same_revisions_is_not_mixed_in() {
    let (server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    let older = Older::take(&redis).await.unwrap();
    map.set_and_wait("only in the lost one", "2").await.unwrap();
    let lost = map.snapshot();

    older.restore(&redis).await;
    let other = join(&server).await;
    // The same incarnation, and the revision right after the first copy's.
    other.set("a", "2").await.unwrap();
    other.set_and_wait("b", "3").await.unwrap();
    assert_eq!(other.snapshot().revision(), lost.revision() + 1);
    assert_eq!(other.snapshot().incarnation(), lost.incarnation());
    converged(&[&other, &map]).await;
    assert!(!map.contains("only in the lost one"));
}

#[tokio::test]
async fn a_history_that_goes_back_is_found_without_a_message() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    let older = Older::take(&redis).await.unwrap();
    map.set_and_wait("k", "2").await.unwrap();
    older.restore(&redis).await;
    holds(&map, SOON, "k", Some("1")).await;
}

#[tokio::test]
async fn another_history_at_one_revision_is_found_without_a_message() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    run(&redis, &["HSET", &layout().hash, "k", "other"]).await;
    run(&redis, &["HSET", &layout().meta, "rev:at", "5"]).await;
    map.view().expect(map.snapshot().incarnation(), map.snapshot().revision());
    assert_eq!(map.get("k"), bytes("1"), "a hint without a stamp does not tell");
    holds(&map, SOON, "k", Some("other")).await;
}

#[tokio::test]
async fn entries_that_changed_without_a_revision_are_read_again() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    let mut watch = map.watch();
    run(&redis, &["HSET", &layout().hash, "k", "other"]).await;
    map.refresh().await.unwrap();
    assert_eq!(map.get("k"), bytes("1"), "the copy is at the map's place");
    map.view().reread();
    in_time(AT_ONCE, watch.changed()).await.unwrap();
    assert_eq!(map.get("k"), bytes("other"));
    map.set_and_wait("l", "2").await.unwrap();
    assert_eq!((map.get("k"), map.get("l")), (bytes("other"), bytes("2")));
}

#[tokio::test]
async fn a_reset_made_while_the_copy_was_cut_off_is_seen() {
    let (server, _, map) = alone().await;
    map.set_many([("a", "1"), ("b", "2")]).await.unwrap();
    map.refresh().await.unwrap();
    let redis = client(&server).commands();
    run(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let other = join(&server).await;
    other.reset().await.unwrap();
    other.set("c", "3").await.unwrap();
    eventually(AT_ONCE, "the reset", async || map.keys() == ["c"]).await;
}

#[tokio::test]
async fn a_malformed_message_does_no_harm() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    let channel = layout().channel;
    for rubbish in ["", "rubbish", "\u{7f}"] {
        run(&redis, &["SPUBLISH", &channel, rubbish]).await;
    }
    map.set_and_wait("k", "2").await.unwrap();
    assert_eq!(map.get("k"), bytes("2"));
}

#[tokio::test]
async fn keys_that_hold_something_else_are_a_typed_error() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let Layout { hash, meta, deadlines, .. } = layout();
    let malformed: [&[&str]; 5] = [
        &["inc", "yesterday"],
        &["inc", "5", "rev", "-1"],
        &["inc", "5", "rev", "1", "rev:at", "x"],
        &["inc", "5", "rev", "1", "rev:at", "1", "rev:ttl", "soon"],
        &["inc", "5", "rev", "99999999999999999999"],
    ];
    for fields in malformed {
        run(&redis, &["DEL", &meta]).await;
        run(&redis, &[&["HSET", &meta[..]], fields].concat()).await;
        let joined = RawMap::join(&client, "m").await;
        assert!(matches!(joined, Err(Error::Malformed { .. })), "{fields:?} {joined:?}");
    }
    run(&redis, &["DEL", &meta]).await;
    run(&redis, &["HSET", &meta, "inc", "5"]).await;
    for key in [hash, deadlines.unwrap()] {
        run(&redis, &["SET", &key, "text"]).await;
        match RawMap::join(&client, "m").await {
            Err(Error::Redis(error)) => assert_eq!(error.code(), Some("WRONGTYPE")),
            other => panic!("{other:?}"),
        }
        run(&redis, &["DEL", &key]).await;
    }
}

#[tokio::test]
async fn a_write_to_keys_of_another_type_writes_nothing() {
    let (_server, redis, map) = alone().await;
    let Layout { hash, meta, deadlines, .. } = layout();
    for key in [hash, deadlines.unwrap()] {
        map.set("k", "1").await.unwrap();
        let before = run(&redis, &["HGETALL", &meta]).await;
        run(&redis, &["DEL", &key]).await;
        run(&redis, &["SET", &key, "text"]).await;
        let short = map.with_entry_ttl(SOON);
        for result in [
            map.set("k", "2").await.map(drop),
            short.set_many([("k", "2")]).await,
            map.set_many([("k", "2")]).await,
            map.delete_many(["k"]).await.map(drop),
            map.increment("k", 1).await.map(drop),
        ] {
            assert!(matches!(&result, Err(Error::Redis(e)) if e.code() == Some("WRONGTYPE")), "{result:?}");
        }
        assert_eq!(run(&redis, &["HGETALL", &meta]).await, before);
        assert_eq!(run(&redis, &["GET", &key]).await, Value::BulkString(b"text".to_vec()));
        run(&redis, &["DEL", &key]).await;
    }
}

#[tokio::test]
async fn a_damaged_map_is_followed_again_once_it_is_repaired() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    run(&redis, &["HSET", &layout().meta, "rev", "spoiled"]).await;
    assert!(matches!(map.refresh().await, Err(Error::Malformed { .. })));
    assert_eq!(map.get("k"), bytes("1"), "the copy stays as it was");
    run(&redis, &["HSET", &layout().meta, "rev", "9"]).await;
    holds(&map, AT_ONCE, "k", Some("1")).await;
    eventually(SOON, "the new revision", async || map.snapshot().revision() == 9).await;
}

#[tokio::test]
async fn joining_without_a_server_fails_in_bounded_time() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    server.kill().unwrap();
    let joined = in_time(SOON, RawMap::join(&client, "m")).await;
    assert!(matches!(joined, Err(Error::Redis(error)) if error.is_transient()));
}

#[tokio::test]
async fn a_view_that_only_reads_follows_too() {
    let (server, _, map) = alone().await;
    let layout = Layout { deadlines: None, ..layout() };
    let [view] = View::join(&client(&server), [layout]).await.unwrap();
    map.set("k", "1").await.unwrap();
    eventually(AT_ONCE, "the value", async || view.get("k") == bytes("1")).await;
}

/// More than Redis keeps for a slow subscriber, and more than a test may wait for.
#[tokio::test]
async fn a_flood_of_big_changes_ends_in_the_last_of_them() {
    let server = RedisServer::start().unwrap();
    let (writer, reader) = (join(&server).await, join(&server).await);
    let value = |n: usize| vec![b'a' + u8::try_from(n % 26).unwrap(); Layout::MAX_VALUE];
    for round in 0..8 {
        let sets = (0..8).map(|n| {
            let (writer, key) = (&writer, format!("k{}", n % 4));
            async move { eventually(SOON, "a write", async || writer.set(&key, value(round + n)).await).await }
        });
        futures::future::join_all(sets).await;
    }
    writer.set_many([("last", "1")]).await.unwrap();
    eventually(SOON, "both to be up to date", async || {
        reader.contains("last") && reader.snapshot() == writer.snapshot()
    })
    .await;
    assert_eq!(join(&server).await.snapshot(), reader.snapshot());
}

#[tokio::test]
async fn a_map_of_many_entries_is_read_whole() {
    let server = RedisServer::start().unwrap();
    let writer = join(&server).await;
    for chunk in 0..6 {
        let entries = (0..5_000).map(|n| (format!("{:05}", chunk * 5_000 + n), [b'x'; 20]));
        writer.set_many(entries).await.unwrap();
    }
    writer.with_entry_ttl(SOON * 100).set_many([("00007", "dated")]).await.unwrap();
    let late = join(&server).await;
    assert_eq!((late.len(), late.get("00007"), late.get("29999").is_some()), (30_000, bytes("dated"), true));
    assert!(late.snapshot().deadline("00007").is_some() && late.snapshot().deadline("00008").is_none());
    assert!(late.snapshot().keys().is_sorted());
    converged(&[&late, &writer]).await;
}
