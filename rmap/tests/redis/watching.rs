//! Watchers miss no change, and end.

use futures::StreamExt;
use tenure_rmap::Error;
use tenure_testing::{RedisServer, eventually};

use crate::{AT_ONCE, SOON, alone, bytes, holds, in_time, join};

#[tokio::test]
async fn a_watcher_reports_later_changes_and_always_the_last_one() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    a.set_and_wait("before", "0").await.unwrap();
    let mut watch = a.watch();
    assert!(futures::poll!(std::pin::pin!(watch.changed())).is_pending(), "it reports later changes only");
    for n in 0..200 {
        b.set("n", n.to_string()).await.unwrap();
    }
    holds(&a, SOON, "n", Some("199")).await;
    in_time(SOON, watch.changed()).await.unwrap();
    assert_eq!(watch.snapshot().get("n"), bytes("199").as_ref(), "many that nobody waited for come as one");
    assert!(futures::poll!(std::pin::pin!(watch.changed())).is_pending(), "and once");
    b.set("n", "200").await.unwrap();
    in_time(SOON, watch.changed()).await.unwrap();
    assert_eq!(watch.snapshot().get("n"), bytes("200").as_ref());
}

#[tokio::test]
async fn a_watcher_is_a_stream_of_snapshots() {
    let (_server, _, map) = alone().await;
    let watch = map.watch();
    let seen = tokio::spawn(watch.map(|snapshot| snapshot.revision()).collect::<Vec<_>>());
    for n in 0..20 {
        map.set_and_wait("n", n.to_string()).await.unwrap();
    }
    map.close().await;
    let seen = in_time(SOON, seen).await.unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(seen.last(), Some(&20));
}

#[tokio::test]
async fn a_cancelled_wait_loses_no_change() {
    let (_server, _, map) = alone().await;
    let mut watch = map.watch();
    assert!(futures::poll!(std::pin::pin!(watch.changed())).is_pending());
    map.set_and_wait("k", "1").await.unwrap();
    // Created and dropped before the change is reported.
    drop(watch.changed());
    in_time(AT_ONCE, watch.changed()).await.unwrap();
    assert!(futures::poll!(std::pin::pin!(watch.changed())).is_pending());
    map.set_and_wait("k", "2").await.unwrap();
    assert_eq!(in_time(AT_ONCE, watch.next()).await.unwrap().get("k"), bytes("2").as_ref());
}

#[tokio::test]
async fn a_key_is_watched_by_its_value() {
    let (_server, _, map) = alone().await;
    map.set_and_wait("k", "1").await.unwrap();
    let mut key = map.watch_key("k");
    assert_eq!((&key.key()[..], key.value()), (&b"k"[..], bytes("1").as_ref()));
    map.set("other", "x").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    assert!(futures::poll!(std::pin::pin!(key.changed())).is_pending(), "the same value is no change");
    map.set("k", "2").await.unwrap();
    assert_eq!(in_time(AT_ONCE, key.changed()).await.unwrap(), bytes("2"));
    map.delete("k").await.unwrap();
    assert_eq!(in_time(AT_ONCE, key.next()).await, Some(None));
    map.set("k", "3").await.unwrap();
    assert_eq!(in_time(AT_ONCE, key.next()).await, Some(bytes("3")));
    map.close().await;
    assert!(matches!(in_time(AT_ONCE, key.changed()).await, Err(Error::Closed)));
    assert_eq!((key.next().await, key.value()), (None, bytes("3").as_ref()));
}

#[tokio::test]
async fn snapshots_of_a_big_map_stay_while_it_changes() {
    let (_server, _, map) = alone().await;
    map.set_many((0..3_000).map(|n| (format!("{n:05}"), "old"))).await.unwrap();
    map.refresh().await.unwrap();
    let mut kept = Vec::new();
    for n in (0..3_000).step_by(30) {
        kept.push((n, map.snapshot()));
        map.set_and_wait(format!("{n:05}"), "new").await.unwrap();
    }
    for (n, snapshot) in kept {
        let new = snapshot.iter().filter(|(_, value)| &value[..] == b"new").count();
        assert_eq!((snapshot.len(), new), (3_000, n / 30));
    }
    eventually(AT_ONCE, "all", async || map.len() == 3_000).await;
}
