//! Entries and maps that end, by the server's clock.

use std::time::Duration;

use redis::Value;
use tenure_rmap::{Exchange, Expiry, RawMap};
use tenure_testing::{RedisServer, eventually};

use crate::{
    AT_ONCE, SOON, alone, bytes, client, converged, in_time, join, layout, no_key_is_left, run, served,
};

const SHORT: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn an_entry_ends_everywhere_and_its_end_is_told_as_a_change() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    a.set_and_wait("stays", "1").await.unwrap();
    a.with_entry_ttl(SHORT).set_and_wait("goes", "2").await.unwrap();
    b.refresh().await.unwrap();
    assert_eq!((b.get("goes"), b.len()), (bytes("2"), 2));
    assert!(b.snapshot().deadline("goes").is_some() && b.snapshot().deadline("stays").is_none());
    let mut key = b.watch_key("goes");
    assert_eq!(in_time(AT_ONCE, key.changed()).await.unwrap(), None);
    eventually(AT_ONCE, "it to be deleted", async || b.snapshot().revision() > 2).await;
    converged(&[&a, &b]).await;
    assert_eq!((a.keys(), b.snapshot().revision()), (vec!["stays".into()], 3), "deleted once");
    let redis = client(&server).commands();
    assert_eq!(run(&redis, &["HLEN", &layout().hash]).await, Value::Int(1));
    assert_eq!(run(&redis, &["EXISTS", &layout().deadlines.unwrap()]).await, Value::Int(0));
}

#[tokio::test]
async fn many_entries_end_with_one_revision_for_many() {
    let server = RedisServer::start().unwrap();
    let (a, b, c) = (join(&server).await, join(&server).await, join(&server).await);
    let short = a.with_entry_ttl(SHORT);
    short.set_many((0..1_000).map(|n| (n.to_string(), "x"))).await.unwrap();
    a.set_and_wait("stays", "1").await.unwrap();
    let redis = client(&server).commands();
    eventually(SOON, "all to be deleted", async || {
        run(&redis, &["HLEN", &layout().hash]).await == Value::Int(1)
    })
    .await;
    converged(&[&a, &b, &c]).await;
    // Without the two writes.
    let revisions = a.snapshot().revision() - 2;
    assert!((4..=8).contains(&revisions), "{revisions} revisions for 1000 entries");
}

#[tokio::test]
async fn a_write_moves_the_deadline_and_a_plain_one_removes_it() {
    let (server, _, map) = alone().await;
    let (short, long) = (map.with_entry_ttl(SHORT), map.with_entry_ttl(LONG));
    short.set("a", "1").await.unwrap();
    long.set("a", "2").await.unwrap();
    short.set("b", "1").await.unwrap();
    map.set("b", "2").await.unwrap();
    short.append("l", ["x"]).await.unwrap();
    map.append("l", ["y"]).await.unwrap();
    short.increment("n", 1).await.unwrap();
    long.increment("n", 1).await.unwrap();
    short.set_and_wait("last", "1").await.unwrap();
    in_time(AT_ONCE, map.watch_key("last").changed()).await.unwrap();
    assert_eq!(map.keys(), ["a", "b", "l", "n"]);
    let snapshot = map.snapshot();
    let dated: Vec<_> = snapshot.keys().filter(|key| snapshot.deadline(key).is_some()).collect();
    assert_eq!(dated, ["a", "n"]);
    // One of the copies deletes the ended entries.
    converged(&[&map, &join(&server).await]).await;
}

#[tokio::test]
async fn each_write_gives_its_entries_the_life_of_its_handle() {
    let (server, _, map) = alone().await;
    let long = map.with_entry_ttl(LONG);
    map.append("removed", ["x", "y"]).await.unwrap();
    map.set_many([("tested", "1"), ("n", "1")]).await.unwrap();
    long.set("set", "1").await.unwrap();
    long.set_many([("many", "1")]).await.unwrap();
    assert!(long.set_if_absent("absent", "1").await.unwrap().is_written());
    assert!(long.test_and_set("tested", "1", "2").await.unwrap().is_written());
    long.increment("n", 1).await.unwrap();
    long.append("appended", ["x"]).await.unwrap();
    long.append_unique("unique", ["x"]).await.unwrap();
    long.remove_values("removed", ["x"]).await.unwrap();
    let now = map.snapshot().incarnation().unwrap() / 1000;
    let dated = async || {
        let copy = join(&server).await;
        map.refresh().await.unwrap();
        assert_eq!(map.snapshot(), copy.snapshot());
        let ends = |key: &[u8]| copy.snapshot().deadline(key).is_some_and(|end| end > now + 1_000_000);
        copy.keys().into_iter().filter(|key| ends(key)).collect::<Vec<_>>()
    };
    let all = ["absent", "appended", "many", "n", "removed", "set", "tested", "unique"];
    assert_eq!(dated().await, all);
    assert_eq!(map.len(), all.len());
    // A handle without a time to live makes the entry permanent.
    map.set("set", "2").await.unwrap();
    map.set_many([("many", "2")]).await.unwrap();
    map.delete("absent").await.unwrap();
    assert!(map.set_if_absent("absent", "2").await.unwrap().is_written());
    assert!(map.test_and_set("tested", "2", "3").await.unwrap().is_written());
    map.increment("n", 1).await.unwrap();
    map.append("appended", ["y"]).await.unwrap();
    map.append_unique("unique", ["y"]).await.unwrap();
    map.append("removed", ["x"]).await.unwrap();
    assert_eq!(dated().await, [""; 0]);
    assert_eq!(map.len(), all.len());
}

#[tokio::test]
async fn an_entry_ends_at_its_own_deadline_not_with_others() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    a.with_entry_ttl(LONG).set("later", "1").await.unwrap();
    a.with_entry_ttl(SHORT).set_and_wait("now", "1").await.unwrap();
    let redis = client(&server).commands();
    let there = async || run(&redis, &["HLEN", &layout().hash]).await;
    eventually(AT_ONCE, "the one to be deleted", async || there().await == Value::Int(1)).await;
    converged(&[&a, &b]).await;
    assert_eq!((b.keys(), b.snapshot().revision()), (vec!["later".into()], 3), "and no look was a change");
}

#[tokio::test]
async fn entries_that_are_not_due_stay_however_many_others_are_due() {
    let (_server, redis, map) = alone().await;
    map.with_entry_ttl(LONG).set_and_wait("lives", "1").await.unwrap();
    for n in 0..40 {
        run(&redis, &["HSET", &layout().hash, &n.to_string(), "x"]).await;
        run(&redis, &["ZADD", &layout().deadlines.unwrap(), "1000", &n.to_string()]).await;
    }
    assert_eq!(map.set_if_absent("lives", "2").await.unwrap(), Exchange::Kept(bytes("1")));
}

/// Writes treat an entry past its deadline as absent, even when no copy exists to delete it.
#[tokio::test]
async fn conditions_are_judged_by_the_servers_clock() {
    let (_server, redis, map) = alone().await;
    map.set_and_wait("begun", "1").await.unwrap();
    let due = async |key: &str, value: &str| {
        run(&redis, &["HSET", &layout().hash, key, value]).await;
        run(&redis, &["ZADD", &layout().deadlines.unwrap(), "1000", key]).await;
    };
    due("a", "x").await;
    assert_eq!(map.set_if_absent("a", "y").await.unwrap(), Exchange::Written);
    due("b", "x").await;
    assert_eq!(map.test_and_set("b", "x", "y").await.unwrap(), Exchange::Kept(None));
    due("c", "x").await;
    assert_eq!(map.test_and_delete("c", "x").await.unwrap(), Exchange::Kept(None));
    due("d", "41").await;
    assert_eq!(map.increment("d", 1).await.unwrap(), 1);
    due("e", "x").await;
    assert_eq!(map.delete("e").await.unwrap(), None);
    due("f", "x").await;
    assert_eq!(map.set("f", "y").await.unwrap(), None);
    // More due entries than one write deletes: the own key counts as absent all the same.
    for n in 0..40 {
        due(&format!("{n:02}"), "x").await;
    }
    due("z", "x").await;
    assert_eq!(map.set_if_absent("z", "y").await.unwrap(), Exchange::Written);
    map.refresh().await.unwrap();
    assert_eq!((map.get("z"), map.get("a"), map.get("30")), (bytes("y"), bytes("y"), None));
}

#[tokio::test]
async fn an_entry_is_hidden_in_time_while_the_server_is_away() {
    let (server, _, map) = alone().await;
    map.set("stays", "1").await.unwrap();
    map.with_entry_ttl(SHORT).set_and_wait("goes", "2").await.unwrap();
    server.pause().unwrap();
    let mut watch = map.watch();
    let mut key = map.watch_key("goes");
    assert_eq!(in_time(AT_ONCE, key.changed()).await.unwrap(), None, "told by the clock");
    in_time(AT_ONCE, watch.changed()).await.unwrap();
    assert_eq!((map.keys(), map.len()), (vec!["stays".into()], 1));
    assert_eq!(map.snapshot().get("goes"), None);
    server.resume().unwrap();
    let redis = client(&server).commands();
    eventually(SOON, "it to be deleted", async || {
        run(&redis, &["HLEN", &layout().hash]).await == Value::Int(1)
    })
    .await;
}

async fn join_with(server: &RedisServer, expiry: Expiry) -> RawMap {
    RawMap::builder(&client(server), "m").expiry(expiry).join().await.unwrap()
}

#[tokio::test]
async fn a_map_with_an_absolute_life_ends_as_a_whole_and_begins_anew() {
    let (server, redis) = served();
    let a = join_with(&server, Expiry::Absolute(Duration::from_millis(800))).await;
    let b = join(&server).await;
    a.with_entry_ttl(LONG).set("dated", "1").await.unwrap();
    b.set_and_wait("k", "2").await.unwrap();
    let first = b.snapshot().incarnation();
    let mut watch = b.watch();
    while b.snapshot().place().is_some() {
        in_time(AT_ONCE, watch.changed()).await.unwrap();
    }
    eventually(AT_ONCE, "both to be empty, and nobody deleted it", async || b.is_empty() && a.is_empty())
        .await;
    no_key_is_left(&server).await;
    // A map begun by a handle without a life.
    b.set_and_wait("k", "3").await.unwrap();
    assert_ne!(b.snapshot().incarnation(), first);
    assert_eq!(run(&redis, &["PTTL", &layout().meta]).await, Value::Int(-1));
    converged(&[&a, &b]).await;
}

#[tokio::test]
async fn an_ended_map_is_hidden_in_time_while_the_server_is_away() {
    let server = RedisServer::start().unwrap();
    let map = join_with(&server, Expiry::Absolute(Duration::from_millis(800))).await;
    map.set_and_wait("k", "1").await.unwrap();
    let mut key = map.watch_key("k");
    server.pause().unwrap();
    assert_eq!(in_time(AT_ONCE, key.changed()).await.unwrap(), None, "told by the clock");
    assert!(map.is_empty() && map.get("k").is_none() && map.snapshot().place().is_none());
    server.resume().unwrap();
}

#[tokio::test]
async fn every_write_moves_the_end_of_a_map_with_a_sliding_life() {
    let (server, redis) = served();
    let a = join_with(&server, Expiry::Sliding(LONG)).await;
    let b = join(&server).await;
    let Value::Int(moved) = ({
        a.with_entry_ttl(LONG).set_and_wait("k", "1").await.unwrap();
        for key in [layout().meta, layout().hash, layout().deadlines.unwrap()] {
            run(&redis, &["PEXPIRE", &key, "60000"]).await;
        }
        b.set("l", "2").await.unwrap();
        run(&redis, &["PTTL", &layout().hash]).await
    }) else {
        panic!("no number")
    };
    assert!(moved > 3_000_000, "{moved}");
    for key in [layout().meta, layout().deadlines.unwrap()] {
        assert!(matches!(run(&redis, &["PTTL", &key]).await, Value::Int(life) if life > 3_000_000), "{key}");
    }
    b.reset().await.unwrap();
    b.set("again", "3").await.unwrap();
    assert!(matches!(run(&redis, &["PTTL", &layout().hash]).await, Value::Int(life) if life > 3_000_000));
}

#[tokio::test]
async fn a_map_with_a_sliding_life_ends_when_nobody_writes() {
    let server = RedisServer::start().unwrap();
    let a = join_with(&server, Expiry::Sliding(Duration::from_millis(800))).await;
    a.set_and_wait("k", "1").await.unwrap();
    let first = a.snapshot().incarnation();
    let late = join(&server).await;
    let mut watch = late.watch();
    while late.snapshot().place().is_some() {
        in_time(AT_ONCE, watch.changed()).await.unwrap();
    }
    no_key_is_left(&server).await;
    a.set_and_wait("k", "2").await.unwrap();
    assert_ne!(a.snapshot().incarnation(), first);
    assert!(matches!(run(&client(&server).commands(), &["PTTL", &layout().meta]).await, Value::Int(1..=800)));
}

/// If somebody makes the keys permanent, or changes their expiry, the server's state counts.
#[tokio::test]
async fn the_servers_expiry_decides_when_a_map_ends() {
    let (server, redis) = served();
    let a = join_with(&server, Expiry::Absolute(Duration::from_millis(1_500))).await;
    let b = join(&server).await;
    a.set_and_wait("k", "1").await.unwrap();
    b.refresh().await.unwrap();
    for key in [layout().meta, layout().hash] {
        assert_eq!(run(&redis, &["PERSIST", &key]).await, Value::Int(1));
    }
    let end = a.snapshot().incarnation().unwrap() + 1_600_000;
    eventually(SOON, "the time to pass at which it would have ended", async || {
        let Value::Array(time) = run(&redis, &["TIME"]).await else { return false };
        let [seconds, _] = time.try_into().unwrap();
        redis::from_redis_value::<u64>(seconds).unwrap() * 1_000_000 > end
    })
    .await;
    let late = join(&server).await;
    assert_eq!(late.get("k"), bytes("1"), "it is there");
    for map in [&a, &b] {
        map.refresh().await.unwrap();
        assert_eq!(map.get("k"), bytes("1"), "it is there for earlier copies, too");
    }
    // The copies do not ask for it again and again.
    let calls = async || {
        let Value::BulkString(text) = run(&redis, &["INFO", "commandstats"]).await else { panic!("no text") };
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap().to_owned();
        line.split(['=', ',']).nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = calls().await;
    for key in [layout().meta, layout().hash] {
        run(&redis, &["PEXPIRE", &key, "1000"]).await;
    }
    for map in [&a, &b, &late] {
        map.refresh().await.unwrap();
    }
    for map in [&a, &b, &late] {
        eventually(AT_ONCE, "the new end", async || map.is_empty()).await;
    }
    assert!(calls().await - before < 100, "{} reads", calls().await - before);
}
