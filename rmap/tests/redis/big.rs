//! Maps that are too big to be read in the time of a small command.

use std::time::Duration;

use redis::Value;
use tenure_connection::Client;
use tenure_rmap::RawMap;
use tenure_testing::proxy::{Cut, Direction};
use tenure_testing::{Proxy, RedisServer, eventually};

use crate::{SOON, bytes, client, join, layout, run};

const MANY: usize = 30_000;

async fn filled(server: &RedisServer) -> RawMap {
    let writer = join(server).await;
    for chunk in 0..MANY / 5_000 {
        let entries = (0..5_000).map(|n| (format!("{:05}", chunk * 5_000 + n), [b'x'; 20]));
        writer.set_many(entries).await.unwrap();
    }
    writer
}

/// Less time than a read of the map takes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_copies_are_read_again_with_little_time_for_each_call() {
    let server = RedisServer::start().unwrap();
    let writer = filled(&server).await;
    let redis = client(&server).commands();
    let mut copies = Vec::new();
    for _ in 0..3 {
        let hurried =
            Client::builder(&server.url()).response_timeout(Duration::from_millis(50)).build().unwrap();
        copies.push(eventually(SOON * 3, "a join", async || RawMap::join(&hurried, "m").await).await);
    }
    for round in ["1", "2"] {
        // A change that no copy hears of.
        run(&redis, &["HSET", &layout().hash, "00001", round]).await;
        run(&redis, &["HINCRBY", &layout().meta, "rev", "1"]).await;
        let again = "return redis.call('SPUBLISH', ARGV[1], cmsgpack.pack({'*', '1'}))";
        run(&redis, &["EVAL", again, "0", &layout().channel]).await;
        for copy in copies.iter().chain([&writer]) {
            eventually(SOON * 3, "the change", async || copy.get("00001") == bytes(round)).await;
            assert_eq!(copy.len(), MANY);
        }
    }
}

/// The read's own connection breaks during the read.
#[tokio::test]
async fn a_read_that_is_cut_leaves_the_copy_and_is_repeated() {
    let server = RedisServer::start().unwrap();
    let writer = join(&server).await;
    writer.set_many((0..5_000).map(|n| (n.to_string(), [b'x'; 20]))).await.unwrap();
    let redis = client(&server).commands();
    let proxy = Proxy::start(&server).await.unwrap();
    let far = Client::builder(&proxy.url()).response_timeout(SOON).build().unwrap();
    let map = RawMap::join(&far, "m").await.unwrap();
    for (round, after) in [0, 1, 300, 30_000, 100_000].into_iter().enumerate() {
        let value = round.to_string();
        // A change that the copy does not hear of.
        run(&redis, &["HSET", &layout().hash, "1", &value]).await;
        proxy.cut_next(Cut::after(Direction::ToClient, after));
        run(&redis, &["HINCRBY", &layout().meta, "rev", "1"]).await;
        // The copy is whole, whether this attempt or a later one reads it.
        let _ = map.refresh().await;
        assert_eq!(map.len(), 5_000);
        eventually(SOON, "the change", async || map.get("1") == bytes(&value)).await;
        assert_eq!(map.len(), 5_000);
    }
    assert_eq!(map.snapshot().len(), join(&server).await.snapshot().len());
}

#[tokio::test]
async fn a_big_map_gets_its_own_connection_which_is_not_kept() {
    let server = RedisServer::start().unwrap();
    let few = join(&server).await;
    few.set("k", "v").await.unwrap();
    let redis = client(&server).commands();
    let text = async |words: &[&str]| match run(&redis, words).await {
        Value::BulkString(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    let made = async || {
        let stats = text(&["INFO", "stats"]).await;
        let made = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        made.unwrap().parse::<u64>().unwrap()
    };
    let before = made().await;
    drop(join(&server).await);
    assert_eq!(made().await - before, 2, "commands and subscription");
    few.set_many((0..1_001).map(|n| (n.to_string(), "x"))).await.unwrap();
    few.close().await;
    drop(few);
    let before = made().await;
    let map = join(&server).await;
    assert_eq!((map.len(), made().await - before), (1_002, 3));
    eventually(SOON, "all but commands and subscription to end", async || {
        text(&["CLIENT", "LIST"]).await.lines().count() == 3
    })
    .await;
}
