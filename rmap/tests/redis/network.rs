//! A bad network: a proxy before the server cuts, stalls and loses.

use std::time::Duration;

use tenure_connection::Client;
use tenure_rmap::{Error, RawMap};
use tenure_testing::proxy::{Cut, Direction};
use tenure_testing::{Proxy, RedisServer, eventually};

use crate::{AT_ONCE, SOON, bytes, holds, in_time, join};

async fn far(proxy: &Proxy) -> RawMap {
    RawMap::join(&Client::open(&proxy.url()).unwrap(), "m").await.unwrap()
}

/// At any byte of any connection the cut may come: a write is done or not, a failed one says so, and all copies agree
/// afterwards.
#[tokio::test]
async fn connections_cut_at_any_byte_leave_no_copy_wrong() {
    let server = RedisServer::start().unwrap();
    let near = join(&server).await;
    near.set_many([("a", "1"), ("n", "0")]).await.unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    for direction in [Direction::ToServer, Direction::ToClient] {
        // The bytes of a join, of a write and of the messages, and some between them.
        for after in (0..40).chain((40..900).step_by(37)) {
            let cut = Cut::after(direction, after);
            proxy.cut_next(if after % 2 == 0 { cut } else { cut.reset() });
            let client = Client::open(&proxy.url()).unwrap();
            let joined = in_time(SOON, RawMap::join(&client, "m")).await;
            let map = match joined {
                Ok(map) => map,
                Err(Error::Redis(_)) => in_time(SOON, RawMap::join(&client, "m")).await.unwrap(),
                Err(other) => panic!("{other}"),
            };
            let before = near.increment("n", 0).await.unwrap();
            let written = in_time(SOON, map.increment("n", 1)).await;
            let after_it = near.increment("n", 0).await.unwrap();
            match &written {
                Ok(sum) => assert_eq!((*sum, after_it), (before + 1, before + 1)),
                Err(error) if error.may_have_executed() => assert!((before..=before + 1).contains(&after_it)),
                Err(_) => assert_eq!(after_it, before, "{written:?}"),
            }
            near.set("last", after.to_string()).await.unwrap();
            holds(&map, AT_ONCE, "last", Some(&after.to_string())).await;
            near.refresh().await.unwrap();
            assert_eq!(map.snapshot(), near.snapshot());
        }
    }
}

#[tokio::test]
async fn connections_cut_in_the_middle_of_a_message_are_renewed() {
    let server = RedisServer::start().unwrap();
    let near = join(&server).await;
    let proxy = Proxy::start(&server).await.unwrap();
    let map = far(&proxy).await;
    for bytes in [1, 5, 60, 130, 200, 251] {
        proxy.cut_open(Cut::after(Direction::ToClient, bytes));
        for n in 0..5 {
            near.set(format!("{bytes}:{n}"), "x".repeat(50)).await.unwrap();
        }
        near.refresh().await.unwrap();
        eventually(AT_ONCE, "the copy behind the cut", async || map.snapshot() == near.snapshot()).await;
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_says_that_it_may_have_been_done() {
    let server = RedisServer::start().unwrap();
    let near = join(&server).await;
    let proxy = Proxy::start(&server).await.unwrap();
    let client = Client::builder(&proxy.url()).response_timeout(Duration::from_secs(1)).build().unwrap();
    let map = RawMap::join(&client, "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    proxy.drop_replies();
    let error = in_time(SOON, map.set("k", "2")).await.unwrap_err();
    assert!(error.may_have_executed(), "{error}");
    holds(&near, AT_ONCE, "k", Some("2")).await;
    assert_eq!(map.get("k"), bytes("1"), "its own copy has not heard of it");
    proxy.resume();
    holds(&map, SOON, "k", Some("2")).await;
    in_time(SOON, map.set_and_wait("k", "3")).await.unwrap();
}

/// The subscription is silent without an error: neither the copy nor a waiting write depends on it.
#[tokio::test]
async fn a_hanging_subscription_does_not_stop_a_copy_for_ever() {
    let server = RedisServer::start().unwrap();
    let near = join(&server).await;
    let proxy = Proxy::start(&server).await.unwrap();
    let map = far(&proxy).await;
    map.set_and_wait("k", "1").await.unwrap();
    proxy.pause_one_way(Direction::ToClient);
    near.set("k", "2").await.unwrap();
    proxy.cut_each(Cut::after(Direction::ToClient, 0));
    proxy.kill_all();
    proxy.resume();
    holds(&map, SOON, "k", Some("2")).await;
}

#[tokio::test]
async fn reads_work_while_redis_is_away_and_the_copy_follows_later() {
    let server = RedisServer::start().unwrap();
    let near = join(&server).await;
    let proxy = Proxy::start(&server).await.unwrap();
    let map = far(&proxy).await;
    map.set_and_wait("k", "1").await.unwrap();
    proxy.refuse().await;
    proxy.kill_all();
    near.set("k", "2").await.unwrap();
    // The first attempt may go to a connection whose end is not known yet.
    eventually(SOON, "a write that was surely not done", async || {
        map.set("k", "3").await.is_err_and(|error| !error.may_have_executed())
    })
    .await;
    assert_eq!(map.get("k"), bytes("1"));
    proxy.accept().await;
    holds(&map, SOON, "k", Some("2")).await;
}

#[tokio::test]
async fn a_map_closes_in_time_while_nothing_gets_through() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    let map = far(&proxy).await;
    let mut watch = map.watch();
    proxy.pause();
    let refresh = tokio::spawn({
        let map = map.clone();
        async move { map.refresh().await }
    });
    in_time(AT_ONCE, map.close()).await;
    assert!(matches!(in_time(AT_ONCE, watch.changed()).await, Err(Error::Closed)));
    assert!(in_time(SOON, refresh).await.unwrap().is_err());
    drop(map);
    proxy.resume();
    eventually(SOON, "the connections to end", async || server.clients().unwrap().is_empty()).await;
    assert!(server.keys().unwrap().is_empty());
}
