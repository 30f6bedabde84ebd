//! Each operation, as one process does it and another sees it.

use redis::Value;
use tenure_rmap::{Error, Exchange, Layout, RawMap};
use tenure_testing::{RedisServer, eventually};

use crate::{AT_ONCE, alone, bytes, client, converged, holds, join, layout, run, served};

#[tokio::test]
async fn writes_reach_every_copy_and_conditions_hold_for_all() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    assert!(a.is_empty() && a.snapshot().incarnation().is_none(), "no map before the first write");

    assert_eq!(a.set_and_wait("k", b"\xff,\"\n\0").await.unwrap(), None);
    assert_eq!(a.get("k").as_deref(), Some(&b"\xff,\"\n\0"[..]), "sees its own write");
    assert_eq!(b.set_if_absent("k", "x").await.unwrap(), Exchange::Kept(Some(b"\xff,\"\n\0"[..].into())));
    assert_eq!(b.set_if_absent(b"\xfe", "y").await.unwrap(), Exchange::Written);
    assert_eq!(a.test_and_set("k", "not this", "z").await.unwrap(), {
        Exchange::Kept(Some(b"\xff,\"\n\0"[..].into()))
    });
    assert_eq!(a.test_and_set("absent", "", "z").await.unwrap(), Exchange::Kept(None));
    assert_eq!(a.test_and_set(b"\xfe", "y", "z").await.unwrap(), Exchange::Written);
    assert_eq!(b.set("k", "").await.unwrap(), Some(b"\xff,\"\n\0"[..].into()));
    assert_eq!(a.delete("absent").await.unwrap(), None);
    assert_eq!(a.delete("k").await.unwrap(), bytes(""));
    holds(&b, AT_ONCE, "k", None).await;
    converged(&[&a, &b]).await;
    assert_eq!((b.len(), b.get(b"\xfe"), b.contains(b"\xfe")), (1, bytes("z"), true));
    assert_eq!(a.snapshot().revision(), 5, "a write without a change is no revision");
    let stamp = run(&client(&server).commands(), &["HGET", &layout().meta, "rev:at"]).await;
    assert!(matches!(&stamp, Value::BulkString(_)), "the place has a stamp: {stamp:?}");
}

#[tokio::test]
async fn test_and_delete_deletes_only_that_value() {
    let (_server, _, map) = alone().await;
    map.set("k", "mine").await.unwrap();
    assert_eq!(map.test_and_delete("k", "yours").await.unwrap(), Exchange::Kept(bytes("mine")));
    assert_eq!(map.test_and_delete("absent", "").await.unwrap(), Exchange::Kept(None));
    assert_eq!(map.test_and_delete("k", "mine").await.unwrap(), Exchange::Written);
    assert_eq!(map.test_and_delete("k", "mine").await.unwrap(), Exchange::Kept(None));
    map.refresh().await.unwrap();
    assert!(map.is_empty());
}

#[tokio::test]
async fn test_and_reset_takes_all_or_nothing() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    a.set_many([("k", "v"), ("l", "w")]).await.unwrap();
    assert_eq!(a.test_and_reset("k", "w").await.unwrap(), Exchange::Kept(bytes("v")));
    assert_eq!(a.test_and_reset("absent", "w").await.unwrap(), Exchange::Kept(None));
    b.refresh().await.unwrap();
    assert_eq!(b.len(), 2);
    assert_eq!(a.test_and_reset("k", "v").await.unwrap(), Exchange::Written);
    eventually(AT_ONCE, "both to be empty", async || a.is_empty() && b.is_empty()).await;
    converged(&[&a, &b]).await;
}

#[tokio::test]
async fn increment_counts_with_64_bits_and_refuses_other_values() {
    let (_server, _, map) = alone().await;
    assert_eq!(map.increment("n", 0).await.unwrap(), 0);
    assert_eq!(map.increment("n", i64::MAX - 1).await.unwrap(), i64::MAX - 1);
    assert_eq!(map.increment("n", 1).await.unwrap(), i64::MAX, "not rounded as Lua's numbers are");
    let overflow = map.increment("n", 1).await;
    assert!(matches!(overflow, Err(Error::Overflow { key }) if key == "n"));
    assert_eq!(map.increment("n", -2).await.unwrap(), i64::MAX - 2);
    assert_eq!(map.increment("low", i64::MIN).await.unwrap(), i64::MIN);
    assert!(matches!(map.increment("low", -1).await, Err(Error::Overflow { .. })));
    for text in ["", "x", "1.5", " 1", "9223372036854775808"] {
        map.set("text", text).await.unwrap();
        let revision = map.snapshot().revision();
        let refused = map.increment("text", 1).await;
        assert!(matches!(&refused, Err(Error::NotANumber { key }) if key == "text"), "{text:?} {refused:?}");
        map.refresh().await.unwrap();
        assert_eq!(map.get("text"), bytes(text));
        assert!(map.snapshot().revision() <= revision + 1, "nothing was written");
    }
    assert_eq!(map.get("n"), bytes(&(i64::MAX - 2).to_string()), "and all of it was told");
}

#[tokio::test]
async fn concurrent_increments_all_count_and_one_exchange_wins() {
    let server = RedisServer::start().unwrap();
    let racers = (0..6).map(async |racer: u32| {
        let map = join(&server).await;
        let mut won = 0;
        for round in 0..40 {
            map.increment("n", 1).await.unwrap();
            let mine = format!("{racer}");
            won +=
                usize::from(map.set_if_absent(format!("first/{round}"), &mine).await.unwrap().is_written());
            map.append_unique("racers", [&mine]).await.unwrap();
            // Counts by comparison: a failed attempt returns the present value.
            let mut seen = map.get("by comparing");
            loop {
                let next =
                    seen.as_ref().map_or(0, |n| std::str::from_utf8(n).unwrap().parse::<u32>().unwrap()) + 1;
                let tried = match &seen {
                    Some(seen) => map.test_and_set("by comparing", seen, next.to_string()).await,
                    None => map.set_if_absent("by comparing", next.to_string()).await,
                };
                match tried.unwrap() {
                    Exchange::Written => break,
                    Exchange::Kept(found) => seen = found,
                }
            }
        }
        won
    });
    let won = futures::future::join_all(racers).await;
    let map = join(&server).await;
    assert_eq!(won.iter().sum::<usize>(), 40);
    assert_eq!((map.get("n"), map.get("by comparing")), (bytes("240"), bytes("240")));
    assert_eq!(map.list("racers").unwrap().len(), 6);
}

#[tokio::test]
async fn many_keys_change_as_one_revision() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    a.set_and_wait("first", "1").await.unwrap();
    b.refresh().await.unwrap();
    let before = b.snapshot().revision();
    let many = (0..2_500).map(|n| (format!("{n:04}"), n.to_string()));
    a.set_many(many.chain([("0007".to_owned(), "last".to_owned())])).await.unwrap();
    eventually(AT_ONCE, "all at once", async || match b.len() {
        1 => false,
        2_501 => true,
        part => panic!("{part} of 2501 were seen"),
    })
    .await;
    assert_eq!((b.snapshot().revision(), b.get("0007")), (before + 1, bytes("last")));

    assert_eq!(a.delete_many(["absent", "0000", "0001", "0000"]).await.unwrap(), 2);
    assert_eq!(a.delete_many(["absent"]).await.unwrap(), 0);
    a.set_many::<&str, &str>([]).await.unwrap();
    assert_eq!(a.delete_many::<&str>([]).await.unwrap(), 0);
    eventually(AT_ONCE, "two to go", async || b.len() == 2_499).await;
    b.refresh().await.unwrap();
    assert_eq!(b.snapshot().revision(), before + 2);
    converged(&[&a, &b]).await;
}

#[tokio::test]
async fn keys_and_prefixes_come_in_order() {
    let (_server, _, map) = alone().await;
    map.set_many([("b/2", "2"), ("a", "0"), ("b/1", "1"), ("b", "b"), ("c", "3")]).await.unwrap();
    map.refresh().await.unwrap();
    assert_eq!(map.keys(), ["a", "b", "b/1", "b/2", "c"]);
    let snapshot = map.snapshot();
    let under: Vec<_> = snapshot.prefix(b"b/").map(|(key, value)| (&key[..], &value[..])).collect();
    assert_eq!(under, [(&b"b/1"[..], &b"1"[..]), (b"b/2", b"2")]);
    assert_eq!((snapshot.prefix(b"").count(), snapshot.prefix(b"d").count()), (5, 0));
}

#[tokio::test]
async fn a_reset_map_is_empty_everywhere_and_stays_usable() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    b.reset().await.unwrap();
    assert_eq!(run(&client(&server).commands(), &["DBSIZE"]).await, Value::Int(0), "nothing to reset");
    a.set_and_wait("k", "1").await.unwrap();
    let before = a.snapshot().incarnation();
    b.reset().await.unwrap();
    eventually(AT_ONCE, "both to be empty", async || a.is_empty() && b.is_empty()).await;
    b.set_and_wait("again", "2").await.unwrap();
    converged(&[&a, &b]).await;
    assert_eq!(a.snapshot().incarnation(), before);
}

#[tokio::test]
async fn a_destroyed_map_leaves_no_key_and_can_be_begun_again() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    let redis = client(&server).commands();
    assert!(!a.destroy().await.unwrap());
    let mut before = None;
    // At once, again and again: two lives of the map are never taken for one.
    for n in 0..50 {
        a.with_entry_ttl(AT_ONCE).set("short", "1").await.unwrap();
        a.set_and_wait("k", n.to_string()).await.unwrap();
        assert_ne!(a.snapshot().incarnation(), before);
        before = a.snapshot().incarnation();
        assert!(b.destroy().await.unwrap());
        assert_eq!(run(&redis, &["DBSIZE"]).await, Value::Int(0));
    }
    eventually(AT_ONCE, "both to see it", async || {
        a.is_empty() && b.is_empty() && b.snapshot().place().is_none()
    })
    .await;
    b.set_and_wait("new", "1").await.unwrap();
    converged(&[&a, &b]).await;
    assert_eq!(a.keys(), ["new"]);
}

#[tokio::test]
async fn bad_names_keys_and_values_are_refused_before_any_write() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    assert!(matches!(RawMap::join(&client, "no{brace}").await, Err(Error::Name { .. })));
    let map = RawMap::join(&client, "m").await.unwrap();
    let long = "x".repeat(513);
    let value = vec![0; Layout::MAX_VALUE + 1];
    assert!(matches!(map.set("", "v").await, Err(Error::Key { len: 0, .. })));
    assert!(matches!(map.delete(&long).await, Err(Error::Key { len: 513, .. })));
    assert!(matches!(map.increment("", 1).await, Err(Error::Key { .. })));
    assert!(matches!(map.test_and_delete("", "").await, Err(Error::Key { .. })));
    assert!(matches!(map.test_and_reset("", "").await, Err(Error::Key { .. })));
    assert!(matches!(map.set_if_absent("k", &value).await, Err(Error::Value { .. })));
    assert!(matches!(map.test_and_set("k", "", &value).await, Err(Error::Value { .. })));
    assert!(matches!(map.set_many([("k", &value)]).await, Err(Error::Value { .. })));
    assert!(matches!(map.set_many([("k", "v"), ("", "v")]).await, Err(Error::Key { .. })));
    assert!(matches!(map.delete_many(["k", ""]).await, Err(Error::Key { .. })));
    assert!(matches!(map.append("k", [&value]).await, Err(Error::Value { .. })));
    assert!(matches!(map.append(&long, ["v"]).await, Err(Error::Key { .. })));
    let many = (0..=Layout::MAX_MANY).map(|n| n.to_string());
    assert!(matches!(map.delete_many(many.clone()).await, Err(Error::TooMany { .. })));
    assert!(matches!(map.set_many(many.clone().map(|k| (k, ""))).await, Err(Error::TooMany { .. })));
    assert!(matches!(map.append("k", many).await, Err(Error::TooMany { .. })));
    let big = vec![0; Layout::MAX_VALUE];
    let bigs = (0..5).map(|n| (n.to_string(), &big));
    assert!(matches!(map.set_many(bigs).await, Err(Error::TooMany { .. })));
    assert_eq!(run(&client.commands(), &["DBSIZE"]).await, Value::Int(0));

    map.set_and_wait([0xff; 512], &big).await.unwrap();
    assert_eq!(map.get([0xff; 512]).map(|value| value.len()), Some(Layout::MAX_VALUE));
}

#[tokio::test]
async fn leftovers_under_the_keys_are_not_taken_for_the_map() {
    let (server, redis) = served();
    run(&redis, &["HSET", &layout().hash, "left", "1", "over", "1"]).await;
    run(&redis, &["ZADD", &layout().deadlines.unwrap(), "1", "left"]).await;
    let map = join(&server).await;
    assert!(map.is_empty() && map.snapshot().place().is_none());
    assert_eq!(map.set_if_absent("left", "2").await.unwrap(), Exchange::Written);
    map.refresh().await.unwrap();
    assert_eq!((map.len(), map.get("left")), (1, bytes("2")));
}

#[tokio::test]
async fn an_endless_iterator_is_too_many_items() {
    let (_server, _, map) = alone().await;
    let too_many = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::TooMany { count: 10_001, .. })), "{result:?}");
    };
    too_many(map.set_many(std::iter::repeat(("k", "v"))).await);
    too_many(map.delete_many(std::iter::repeat("k")).await.map(drop));
    too_many(map.append("l", std::iter::repeat("v")).await.map(drop));
    let big = vec![0; Layout::MAX_VALUE];
    let endless = map.set_many(std::iter::repeat(("k", &big))).await;
    assert!(matches!(endless, Err(Error::TooMany { count: 4, .. })), "{endless:?}");
}
