//! Faults of Redis and the network.

use std::time::Duration;

use tenure_connection::Client;
use tenure_rmap::{Error, Expiry, RawMap};
use tenure_testing::{Data, RedisServer, eventually};

use crate::{AT_ONCE, SOON, alone, bytes, client, converged, holds, in_time, join, layout, run, served};

#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let (_server, redis, map) = alone().await;
    for n in 0..5 {
        run(&redis, &["SCRIPT", "FLUSH"]).await;
        assert_eq!(map.increment("n", 1).await.unwrap(), n + 1);
        run(&redis, &["SCRIPT", "FLUSH"]).await;
        map.refresh().await.unwrap();
    }
    assert_eq!(map.get("n"), bytes("5"));
}

#[tokio::test]
async fn a_full_server_refuses_writes_whole_and_allows_deletions() {
    let (_server, redis, map) = alone().await;
    map.set_many([("a", "1"), ("b", "2"), ("n", "3")]).await.unwrap();
    map.append("l", ["x", "y"]).await.unwrap();
    map.refresh().await.unwrap();
    let before = map.snapshot();
    run(&redis, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = |result: Result<(), Error>| match result {
        Err(Error::Redis(error)) => {
            assert_eq!(error.code(), Some("OOM"));
            assert!(!error.may_have_executed() && error.is_transient());
        }
        other => panic!("{other:?}"),
    };
    refused(map.set("c", "1").await.map(drop));
    refused(map.set_many([("c", "1"), ("d", "2")]).await);
    refused(map.set_if_absent("c", "1").await.map(drop));
    refused(map.test_and_set("a", "1", "2").await.map(drop));
    refused(map.increment("n", 1).await.map(drop));
    refused(map.append("l", ["z"]).await.map(drop));
    refused(map.append_unique("l", ["z"]).await.map(drop));
    map.refresh().await.unwrap();
    assert_eq!(map.snapshot(), before, "nothing was half done");

    assert_eq!(map.delete("a").await.unwrap(), bytes("1"));
    assert!(map.test_and_delete("b", "2").await.unwrap().is_written());
    assert_eq!(map.remove_values("l", ["x"]).await.unwrap(), 1);
    assert_eq!(map.delete_many(["n"]).await.unwrap(), 1);
    eventually(AT_ONCE, "the deleted entry to be gone", async || map.keys() == ["l"]).await;
    map.reset().await.unwrap();
    eventually(AT_ONCE, "all to be gone", async || map.is_empty()).await;
    assert!(map.destroy().await.unwrap());
    run(&redis, &["CONFIG", "SET", "maxmemory", "0"]).await;
    map.set_and_wait("again", "1").await.unwrap();
}

#[tokio::test]
async fn a_demoted_server_refuses_writes_and_its_map_is_followed() {
    let main = RedisServer::builder().tcp().start().unwrap();
    let server = RedisServer::builder().tcp().start().unwrap();
    let redis = client(&server).commands();
    let (map, original) = (join(&server).await, join(&main).await);
    map.set_and_wait("k", "1").await.unwrap();
    original.set_and_wait("k", "main").await.unwrap();
    let port = main.url().rsplit(':').next().unwrap().to_owned();
    run(&redis, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
    run(&client(&main).commands(), &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).await;
    run(&redis, &["REPLICAOF", "127.0.0.1", &port]).await;
    match map.set("k", "2").await {
        Err(Error::Redis(error)) => assert!(error.is_transient() && !error.may_have_executed(), "{error}"),
        other => panic!("{other:?}"),
    }
    holds(&map, SOON, "k", Some("main")).await;
    // Redis replicates messages, too.
    original.set("k", "told").await.unwrap();
    holds(&map, SOON, "k", Some("told")).await;
    run(&redis, &["REPLICAOF", "NO", "ONE"]).await;
    eventually(SOON, "writes to work again", async || map.set_and_wait("k", "3").await).await;
    assert_eq!((map.get("k"), original.get("k")), (bytes("3"), bytes("told")));
}

#[tokio::test]
async fn a_paused_server_delays_nobody_beyond_the_deadline() {
    let server = RedisServer::start().unwrap();
    let timeout = Duration::from_secs(1);
    let impatient = Client::builder(&server.url()).response_timeout(timeout).build().unwrap();
    let map = RawMap::join(&impatient, "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    server.pause().unwrap();
    let written = in_time(SOON, map.set("k", "2")).await;
    assert!(matches!(&written, Err(error) if error.may_have_executed()), "{written:?}");
    assert!(matches!(in_time(SOON, map.refresh()).await, Err(Error::Redis(_))));
    assert_eq!(map.get("k"), bytes("1"), "reads are local");
    server.resume().unwrap();
    eventually(SOON, "writes to work again", async || map.set_and_wait("l", "3").await).await;
    holds(&map, SOON, "k", Some("2")).await;
    in_time(SOON, map.close()).await;
}

#[tokio::test]
async fn killed_connections_do_not_keep_copies_from_converging() {
    let (server, redis) = served();
    let (a, b) = (join(&server).await, join(&server).await);
    for n in 0..20 {
        run(
            &redis,
            &["CLIENT", "KILL", "TYPE", if n % 2 == 0 { "normal" } else { "pubsub" }, "SKIPME", "yes"],
        )
        .await;
        let map = if n % 3 == 0 { &a } else { &b };
        eventually(SOON, "a write", async || map.set(format!("k{n}"), "v").await).await;
    }
    eventually(SOON, "all of them", async || a.len() == 20 && b.len() == 20).await;
    converged(&[&a, &b]).await;
}

#[tokio::test]
async fn a_server_that_lost_its_last_writes_is_followed() {
    let (server, redis) = served();
    let (a, b) = (join(&server).await, join(&server).await);
    a.set_and_wait("k", "1").await.unwrap();
    run(&redis, &["SAVE"]).await;
    a.set_and_wait("k", "lost").await.unwrap();
    holds(&b, AT_ONCE, "k", Some("lost")).await;
    server.kill().unwrap();
    server.restart(Data::Keep).unwrap();
    eventually(SOON, "a write", async || b.set_and_wait("l", "2").await).await;
    eventually(SOON, "both", async || a.get("l") == bytes("2")).await;
    converged(&[&a, &b]).await;
    assert_eq!(a.get("k"), bytes("1"));
}

#[tokio::test]
async fn a_server_that_still_loads_its_data_is_awaited() {
    let server = RedisServer::builder()
        .config("enable-debug-command", "yes")
        .config("rdbcompression", "no")
        .config("loading-process-events-interval-bytes", "1024")
        .start()
        .unwrap();
    let map = join(&server).await;
    map.set_and_wait("k", "1").await.unwrap();
    let before = map.snapshot();
    let patient = Client::builder(&server.url()).response_timeout(SOON).build().unwrap().commands();
    for n in 0..20 {
        run(&patient, &["SET", &format!("filler{n}"), &"x".repeat(1_500)]).await;
    }
    run(&patient, &["CONFIG", "SET", "key-load-delay", "100000"]).await;
    let reload = tokio::spawn(async move { run(&patient, &["DEBUG", "RELOAD"]).await });
    let refused = eventually(SOON, "a write to be refused", async || map.set("k", "2").await.err()).await;
    let Error::Redis(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.code(), Some("LOADING"));
    assert!(refused.is_transient() && !refused.may_have_executed());
    assert!(map.refresh().await.is_err() && map.contains("k"), "reads are local");
    in_time(SOON, reload).await.unwrap();
    eventually(SOON, "the map to be read", async || map.refresh().await).await;
    assert_eq!(map.snapshot().incarnation(), before.incarnation());
    map.set_and_wait("k", "3").await.unwrap();
}

#[tokio::test]
async fn staleness_says_how_outdated_a_copy_may_be() {
    let server = RedisServer::start().unwrap();
    let client = Client::builder(&server.url()).response_timeout(Duration::from_millis(500)).build().unwrap();
    let map = RawMap::join(&client, "m").await.unwrap();
    server.pause().unwrap();
    eventually(SOON, "it to grow", async || map.staleness() > Duration::from_secs(1)).await;
    assert!(map.refresh().await.is_err());
    assert!(map.staleness() > Duration::from_secs(1), "a missing answer confirms nothing");
    server.resume().unwrap();
    let before = std::time::Instant::now();
    eventually(SOON, "it to be read", async || map.refresh().await).await;
    assert!(map.staleness() <= before.elapsed());
}

/// The rights in the README's `block`, for the map `m`.
fn rights(block: usize) -> Vec<String> {
    let readme = include_str!("../../README.md");
    let block = readme.split("```acl\n").nth(1 + block).expect("the rights");
    let (rights, _) = block.split_once("```").expect("their end");
    rights.replace("<map>", "m").split_whitespace().map(str::to_owned).collect()
}

fn user(server: &RedisServer, rights: &[String]) -> Client {
    let rights: Vec<_> = rights.iter().map(String::as_str).collect();
    Client::open(&server.acl_user("mapper", "secret", &rights).unwrap()).unwrap()
}

#[tokio::test]
async fn the_rights_that_the_readme_names_suffice() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let client = user(&server, &rights(0));
    let map = RawMap::join(&client, "m").await.unwrap();
    every_write(&map).await;
    map.with_entry_ttl(Duration::from_millis(50)).set_and_wait("goes", "1").await.unwrap();
    let there = redis::cmd("HEXISTS").arg(layout().hash).arg("goes").to_owned();
    eventually(SOON, "the entry to be deleted", async || !server.query::<bool>(&there).unwrap()).await;
    assert!(map.destroy().await.unwrap());
    let sliding = RawMap::builder(&client, "m").expiry(Expiry::Sliding(AT_ONCE)).join().await.unwrap();
    every_write(&sliding).await;
    assert!(matches!(RawMap::join(&client, "other").await, Err(Error::Redis(_))), "and no other map");
}

async fn every_write(map: &RawMap) {
    map.set_and_wait("k", "1").await.unwrap();
    assert!(!map.set_if_absent("k", "2").await.unwrap().is_written());
    assert!(map.test_and_set("k", "1", "2").await.unwrap().is_written());
    assert!(map.test_and_delete("k", "2").await.unwrap().is_written());
    map.increment("n", 1).await.unwrap();
    map.increment("n", 1).await.unwrap();
    map.append("l", ["a"]).await.unwrap();
    map.append_unique("l", ["b"]).await.unwrap();
    map.remove_values("l", ["a"]).await.unwrap();
    map.set_many([("a", "1"), ("b", "2")]).await.unwrap();
    map.delete_many(["a"]).await.unwrap();
    map.delete("b").await.unwrap();
    assert!(map.test_and_reset("n", "2").await.unwrap().is_written());
    map.reset().await.unwrap();
}

#[tokio::test]
async fn a_user_that_may_only_read_follows_and_changes_nothing() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let (map, reader) = (join(&server).await, user(&server, &rights(1)));
    let reader = RawMap::join(&reader, "m").await.unwrap();
    map.set("k", "1").await.unwrap();
    holds(&reader, AT_ONCE, "k", Some("1")).await;
    for result in [reader.set("k", "2").await.map(drop), reader.destroy().await.map(drop)] {
        assert!(matches!(&result, Err(Error::Redis(error)) if !error.may_have_executed()), "{result:?}");
    }
    map.with_entry_ttl(Duration::from_millis(100)).set_and_wait("goes", "1").await.unwrap();
    map.close().await;
    eventually(SOON, "the entry to be hidden", async || reader.keys() == ["k"]).await;
    reader.refresh().await.unwrap();
    assert_eq!((reader.keys(), reader.len()), (vec!["k".into()], 1));
}
