//! All operations and all faults in any order, from seeds: all copies end equal to the map in Redis, and every watcher
//! has been told.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use redis::Value;
use tenure_connection::{Client, Connection};
use tenure_rmap::{Place, RawMap};
use tenure_testing::{Proxy, RedisServer, eventually};

use crate::following::{Older, write_unheard};
use crate::{SOON, client, in_time, join, layout, run};

/// Small numbers from a seed (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// One operation, which may fail while the network is bad.
async fn operate(map: &RawMap, dice: &mut Dice) {
    let key = format!("k{}", dice.roll(6));
    let value = dice.roll(3).to_string();
    let other = dice.roll(3).to_string();
    let short = map.with_entry_ttl(Duration::from_millis(1 + dice.roll(40)));
    let _ = match dice.roll(15) {
        0..=2 => map.set(&key, &value).await.map(drop),
        3 => short.set(&key, &value).await.map(drop),
        4 => map.set_if_absent(&key, &value).await.map(drop),
        5 => short.test_and_set(&key, &other, &value).await.map(drop),
        6 => map.test_and_delete(&key, &other).await.map(drop),
        7 => map.delete(&key).await.map(drop),
        8 => map.increment(&key, 1).await.map(drop),
        9 => short.append_unique("list", [&value, &other]).await.map(drop),
        10 => map.remove_values("list", [&value]).await.map(drop),
        11 => map.set_many([(&key, &value), (&other, &key)]).await,
        12 => map.delete_many([&key, &other]).await.map(drop),
        13 => map.test_and_reset(&key, &value).await.map(drop),
        _ if dice.roll(4) == 0 => map.reset().await,
        _ => map.set_and_wait(&key, &value).await.map(drop),
    };
}

/// A fault of Redis or of the network.
async fn harm(redis: &Connection, proxy: &Proxy, older: &mut Option<Older>, dice: &mut Dice) {
    match dice.roll(9) {
        0 => proxy.kill_all(),
        1 => drop(run(redis, &["CLIENT", "KILL", "TYPE", "pubsub"]).await),
        2 => drop(run(redis, &["SCRIPT", "FLUSH"]).await),
        3 if run(redis, &["EXISTS", &layout().hash]).await == Value::Int(1) => {
            write_unheard(redis, "unheard", &dice.roll(100).to_string()).await;
        }
        4 if dice.roll(3) == 0 => drop(run(redis, &["FLUSHALL"]).await),
        5 | 6 => match older.take() {
            Some(older) => older.restore(redis).await,
            None => *older = Older::take(redis).await,
        },
        7 if dice.roll(2) == 0 => {
            let Value::Int(_) = run(redis, &["SPUBLISH", &layout().channel, "rubbish"]).await else {
                panic!()
            };
        }
        _ => {}
    }
}

async fn stored(redis: &Connection) -> (Option<Place>, BTreeMap<Bytes, Bytes>) {
    let texts = |value| match value {
        Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Value::BulkString(bytes) => Bytes::from(bytes),
                _ => Bytes::new(),
            })
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let head = texts(run(redis, &["HMGET", &layout().meta, "inc", "rev", "rev:at"]).await);
    let number = |n: usize| std::str::from_utf8(&head[n]).unwrap().parse().unwrap_or(0);
    let place = (!head[0].is_empty()).then(|| Place::new(number(0), number(1), number(2)));
    let entries = texts(run(redis, &["HGETALL", &layout().hash]).await);
    (place, entries.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

#[tokio::test]
async fn all_copies_end_equal_to_the_stored_map_after_any_faults() {
    for seed in 0..8 {
        let mut dice = Dice(seed);
        let server = RedisServer::start().unwrap();
        let redis = client(&server).commands();
        let proxy = Proxy::start(&server).await.unwrap();
        let far = Client::builder(&proxy.url()).response_timeout(Duration::from_secs(1)).build().unwrap();
        let maps = [join(&server).await, RawMap::join(&far, "m").await.unwrap(), join(&server).await];
        let mut watchers = maps.each_ref().map(RawMap::watch);
        let mut older = None;
        for _ in 0..120 {
            let map = &maps[dice.roll(3) as usize];
            in_time(SOON, operate(map, &mut dice)).await;
            if dice.roll(6) == 0 {
                harm(&redis, &proxy, &mut older, &mut dice).await;
            }
        }
        for (map, watcher) in maps.iter().zip(&mut watchers) {
            eventually(SOON, &format!("the copies of seed {seed}"), async || {
                let (place, entries) = stored(&redis).await;
                let snapshot = map.snapshot();
                let copied: BTreeMap<_, _> = snapshot.clone().into_iter().collect();
                let is_dated = snapshot.keys().any(|key| snapshot.deadline(key).is_some());
                if snapshot.place() == place && copied == entries && !is_dated {
                    return Ok(());
                }
                Err((snapshot, place, entries))
            })
            .await;
            // The watcher reports a change, and then the present state.
            let mut last = None;
            while let Some(told) = watcher.changed().now_or_never() {
                told.unwrap();
                last = Some(watcher.snapshot());
            }
            assert_eq!(last, Some(map.snapshot()), "seed {seed}");
        }
    }
}
