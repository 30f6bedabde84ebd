//! Maps on a real Redis.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Connection, Script};
use tenure_rmap::{Error, Exchange, Layout, Map, View, lua};
use tenure_testing::{Data, RedisServer, eventually};

const SOON: Duration = Duration::from_secs(20);
/// Under the time after which copies are checked anyway: what must be noticed by other means.
const AT_ONCE: Duration = Duration::from_secs(3);

fn client(server: &RedisServer) -> Client {
    Client::open(&server.url()).unwrap()
}

async fn run(redis: &Connection, words: &[&str]) -> Value {
    redis.command(cmd(words[0]).arg(&words[1..])).await.unwrap()
}

async fn converged(maps: &[&Map]) {
    eventually(AT_ONCE, "the copies to be equal", async || {
        maps.windows(2).all(|pair| pair[0].snapshot() == pair[1].snapshot())
    })
    .await;
}

async fn holds(map: &Map, within: Duration, key: &str, value: Option<&str>) {
    eventually(within, &format!("{key} to be {value:?}"), async || {
        map.get(key).as_deref() == value.map(str::as_bytes)
    })
    .await;
}

#[tokio::test]
async fn writes_reach_every_copy_and_conditions_hold_for_all() {
    let server = RedisServer::start().unwrap();
    let a = Map::join(&client(&server), "m").await.unwrap();
    let b = Map::join(&client(&server), "m").await.unwrap();
    assert!(a.is_empty() && a.snapshot().incarnation.is_none(), "no map before the first write");

    assert_eq!(a.set_and_wait("k", b"\xff,\"\n\0").await.unwrap(), None);
    assert_eq!(a.get("k").as_deref(), Some(&b"\xff,\"\n\0"[..]), "sees its own write");
    assert!(!a.watch().has_changed().unwrap(), "a watch tells of what comes");
    assert_eq!(b.set_if_absent("k", "x").await.unwrap(), Exchange::Kept(Some(b"\xff,\"\n\0"[..].into())));
    assert_eq!(b.set_if_absent(b"\xfe", "y").await.unwrap(), Exchange::Written);
    assert_eq!(a.test_and_set("k", "not this", "z").await.unwrap(), {
        Exchange::Kept(Some(b"\xff,\"\n\0"[..].into()))
    });
    assert_eq!(a.test_and_set("absent", "", "z").await.unwrap(), Exchange::Kept(None));
    assert_eq!(a.test_and_set(b"\xfe", "y", "z").await.unwrap(), Exchange::Written);
    assert_eq!(b.set("k", "").await.unwrap(), Some(b"\xff,\"\n\0"[..].into()));
    assert_eq!(a.delete("absent").await.unwrap(), None);
    assert_eq!(a.delete("k").await.unwrap(), Some("".into()));
    holds(&b, AT_ONCE, "k", None).await;
    converged(&[&a, &b]).await;
    assert_eq!((b.len(), b.get(b"\xfe")), (1, Some("z".into())));
    assert_eq!(a.snapshot().revision, 5, "what changes nothing is no revision");

    a.set_and_wait("more", "1").await.unwrap();
    b.reset().await.unwrap();
    eventually(AT_ONCE, "both to be empty", async || a.is_empty() && b.is_empty()).await;
    b.set_and_wait("again", "2").await.unwrap();
    converged(&[&a, &b]).await;
}

#[tokio::test]
async fn bad_names_keys_and_values_are_refused_before_anything_is_written() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    assert!(matches!(Map::join(&client, "no{brace}").await, Err(Error::Name { .. })));
    let map = Map::join(&client, "m").await.unwrap();
    assert!(matches!(map.set("", "v").await, Err(Error::Key { len: 0, .. })));
    assert!(matches!(map.delete("x".repeat(513)).await, Err(Error::Key { len: 513, .. })));
    let long = vec![0; Layout::MAX_VALUE + 1];
    assert!(matches!(map.set_if_absent("k", long).await, Err(Error::Value { .. })));
    assert_eq!(run(&client.commands(), &["DBSIZE"]).await, Value::Int(0));
}

#[tokio::test]
async fn many_writers_converge_and_a_watcher_ends_at_the_last_revision() {
    let server = RedisServer::start().unwrap();
    let reader = Map::join(&client(&server), "m").await.unwrap();
    let mut watch = reader.watch();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let client = client(&server);
            tokio::spawn(async move {
                let map = Map::join(&client, "m").await.unwrap();
                for n in 0..50 {
                    map.set_and_wait(format!("{writer}:{}", n % 7), n.to_string()).await.unwrap();
                }
                map
            })
        })
        .collect();
    let at_last = watch.wait_for(|snapshot| snapshot.revision == 200);
    let last = tokio::time::timeout(SOON, at_last).await.expect("the last revision").unwrap().clone();
    assert_eq!(last.len(), 28);
    for writer in writers {
        converged(&[&writer.await.unwrap(), &reader]).await;
    }
}

#[tokio::test]
async fn a_lost_message_is_found_by_the_next_one_and_by_a_hint() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let map = Map::join(&client, "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    let Layout { hash, meta, .. } = Layout::stand_alone("m").unwrap();
    let behind_its_back = async |value: &str| {
        run(&redis, &["HSET", &hash, "lost", value]).await;
        run(&redis, &["HINCRBY", &meta, "rev", "1"]).await;
    };

    behind_its_back("a").await;
    assert_eq!(map.get("lost"), None);
    map.set("k", "2").await.unwrap();
    holds(&map, AT_ONCE, "lost", Some("a")).await;
    holds(&map, AT_ONCE, "k", Some("2")).await;

    behind_its_back("b").await;
    let snapshot = map.snapshot();
    map.view().expect(snapshot.incarnation, snapshot.revision);
    map.view().expect(snapshot.incarnation, snapshot.revision + 1);
    holds(&map, AT_ONCE, "lost", Some("b")).await;

    behind_its_back("c").await;
    map.refresh().await.unwrap();
    assert_eq!(map.get("lost"), Some("c".into()));
}

#[tokio::test]
async fn a_lost_message_that_nobody_hints_at_is_found_in_time() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let map = Map::join(&client, "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    run(&client.commands(), &["FLUSHALL"]).await;
    let mut watch = map.watch();
    let emptied = watch.wait_for(|snapshot| snapshot.incarnation.is_none());
    tokio::time::timeout(SOON, emptied).await.expect("the check").unwrap();
    assert!(map.is_empty());
}

#[tokio::test]
async fn a_killed_subscription_is_made_again_and_what_it_missed_is_read() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let map = Map::join(&client, "m").await.unwrap();
    let before = map.set_and_wait("k", "1").await.map(|_| map.snapshot().revision).unwrap();
    let Layout { hash, .. } = Layout::stand_alone("m").unwrap();
    // Not even the revision tells: only the new subscription makes the copy look.
    run(&redis, &["HSET", &hash, "k", "2"]).await;
    run(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    holds(&map, AT_ONCE, "k", Some("2")).await;
    assert_eq!(map.snapshot().revision, before);
}

#[tokio::test]
async fn flushed_or_restarted_the_copy_follows_the_server() {
    let server = RedisServer::start().unwrap();
    let map = Map::join(&client(&server), "m").await.unwrap();
    map.set_and_wait("old", "1").await.unwrap();
    let first = map.snapshot().incarnation;

    server.restart(Data::Keep).unwrap();
    eventually(SOON, "a write after the restart", async || map.set("kept", "2").await).await;
    holds(&map, SOON, "kept", Some("2")).await;
    assert_eq!((map.get("old"), map.snapshot().incarnation), (Some("1".into()), first));

    run(&client(&server).commands(), &["FLUSHALL"]).await;
    map.set_and_wait("flushed", "3").await.unwrap();
    assert_eq!((map.len(), map.get("flushed")), (1, Some("3".into())));
    let second = map.snapshot().incarnation;
    assert!(second > first, "{second:?} {first:?}");

    server.restart(Data::Wipe).unwrap();
    eventually(SOON, "the copy to be empty", async || map.is_empty()).await;
    eventually(SOON, "a write after the loss", async || map.set_and_wait("wiped", "4").await).await;
    assert_eq!((map.len(), map.get("wiped")), (1, Some("4".into())));
    assert!(map.snapshot().incarnation > second);
}

#[tokio::test]
async fn maps_in_the_keys_of_another_share_meta_and_channel() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let layout = |name: &str, rev_field: &str| Layout {
        name: name.into(),
        hash: format!("p:{name}"),
        meta: "p:m".into(),
        inc_field: "inc".into(),
        rev_field: rev_field.into(),
        channel: "p:ch".into(),
    };
    let [w, cf] = View::join(&client, [layout("w", "mv"), layout("cf", "cv")]).await.unwrap();
    assert_eq!(w.snapshot().incarnation, None);
    run(&redis, &["HSET", "p:m", "inc", "7", "mv", "1", "cv", "1"]).await;
    run(&redis, &["HSET", "p:cf", "ttl", "10"]).await;
    run(&redis, &["EVAL", "return redis.call('SPUBLISH', 'p:ch', cmsgpack.pack({'*', '7'}))", "0"]).await;
    eventually(AT_ONCE, "the new life", async || cf.get("ttl") == Some("10".into())).await;
    eventually(AT_ONCE, "in both", async || w.snapshot().is_at(Some(7), 1)).await;

    let source = format!(
        "{}\nmapput('w', KEYS[1], KEYS[2], 'mv', 'p:ch', '7', {{ '1', 'a', '2', 'b' }})\n\
         return mapput('w', KEYS[1], KEYS[2], 'mv', 'p:ch', '7', {{ '1', false, '3', 'c' }})",
        lua::CHANGE
    );
    let script = Script::new("both", &source);
    let mut watch = w.watch();
    assert_eq!(
        redis.script::<_, &str>(&script, &["p:w", "p:m"], &[]).await.unwrap(),
        Value::BulkString(b"3".to_vec())
    );
    tokio::time::timeout(AT_ONCE, watch.wait_for(|s| s.revision == 3)).await.expect("in time").unwrap();
    assert_eq!((w.get("1"), w.get("2"), w.get("3")), (None, Some("b".into()), Some("c".into())));
    assert!(cf.snapshot().is_at(Some(7), 1), "the other map is where it was");

    run(&redis, &["DEL", "p:m", "p:w", "p:cf"]).await;
    run(&redis, &["EVAL", "return redis.call('SPUBLISH', 'p:ch', cmsgpack.pack({'closed', '7'}))", "0"])
        .await;
    eventually(AT_ONCE, "the end of both", async || {
        [&w, &cf].iter().all(|view| view.is_empty() && view.snapshot().incarnation.is_none())
    })
    .await;
}

#[tokio::test]
async fn a_message_that_is_none_does_no_harm() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let map = Map::join(&client, "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    let channel = Layout::stand_alone("m").unwrap().channel;
    for rubbish in ["", "rubbish", "\u{7f}"] {
        run(&client.commands(), &["SPUBLISH", &channel, rubbish]).await;
    }
    map.set_and_wait("k", "2").await.unwrap();
    assert_eq!(map.get("k"), Some("2".into()));
}

#[tokio::test]
async fn keys_that_hold_something_else_are_a_typed_error() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let Layout { hash, meta, .. } = Layout::stand_alone("m").unwrap();
    run(&redis, &["HSET", &meta, "inc", "yesterday"]).await;
    assert!(matches!(Map::join(&client, "m").await, Err(Error::Malformed { .. })));
    run(&redis, &["HSET", &meta, "inc", "5"]).await;
    run(&redis, &["SET", &hash, "text"]).await;
    match Map::join(&client, "m").await {
        Err(Error::Redis(error)) => assert_eq!(error.code(), Some("WRONGTYPE")),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn joining_without_a_server_fails_in_bounded_time() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    server.kill().unwrap();
    let joined = tokio::time::timeout(SOON, Map::join(&client, "m")).await.expect("bounded");
    assert!(matches!(joined, Err(Error::Redis(error)) if error.is_transient()));
}

#[tokio::test]
async fn nothing_is_left_of_a_dropped_or_closed_map() {
    let server = RedisServer::start().unwrap();
    let watcher = client(&server).commands();
    let connected = async || match run(&watcher, &["CLIENT", "LIST"]).await {
        Value::BulkString(text) => String::from_utf8(text).unwrap().lines().count(),
        other => panic!("{other:?}"),
    };
    assert_eq!(connected().await, 1);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();

    let dropped = Map::join(&client(&server), "m").await.unwrap();
    let mut watch = dropped.watch();
    assert_eq!(connected().await, 3);
    drop(dropped.clone());
    dropped.set_and_wait("k", "v").await.unwrap();
    drop(dropped);
    eventually(SOON, "the connections to end", async || connected().await == 1).await;
    eventually(SOON, "the tasks to end", async || tasks() == before).await;
    assert!(watch.changed().await.is_ok(), "the last change");
    assert!(watch.changed().await.is_err(), "then the end");

    let closed = Map::join(&client(&server), "m").await.unwrap();
    let mut watch = closed.watch();
    closed.close().await;
    closed.close().await;
    assert!(watch.changed().await.is_err());
    assert_eq!(closed.get("k"), Some("v".into()), "the copy stays readable");
    assert!(matches!(closed.refresh().await, Err(Error::Closed)));
    closed.view().expect(None, 99);
}
