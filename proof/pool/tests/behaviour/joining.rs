//! A join with another value of any setting is refused by the setting's name, and does not change the pool.

use std::time::Duration;

use tenure_pool::{Error, Settings};

use crate::world::{HASH_KEYS, SHORT, World, on_both_stores};

on_both_stores!(a_join_is_refused_for_each_setting_that_differs);

type Differ = fn(&mut Settings);

const DIFFER: [Differ; 23] = [
    |s| s.worker_ttl += Duration::from_millis(1),
    |s| s.max_queued += 1,
    |s| s.route_timeout += Duration::from_millis(1),
    |s| s.assign_timeout += Duration::from_millis(1),
    |s| s.stop_retry += Duration::from_millis(1),
    |s| s.max_dispatch_deadline += Duration::from_millis(1),
    |s| s.outcome_retention += Duration::from_millis(1),
    |s| s.max_attempts += 1,
    |s| s.stable_run += Duration::from_millis(1),
    |s| s.strikes += 1,
    |s| s.notify_cap += 1,
    |s| s.notify_bytes += 1,
    |s| s.join_settle += Duration::from_millis(1),
    |s| s.payload_max -= 1,
    |s| s.checkpoint_max += 1,
    |s| s.grant_max += 1,
    |s| s.history_max += 1,
    |s| s.history_all = !s.history_all,
    |s| s.hold = !s.hold,
    |s| s.move_rate += 1,
    |s| s.move_now += 1,
    |s| s.hash_keys = s.hash_keys.map(|(k1, k2)| (k1 + 1, k2)),
    |s| s.hash_keys = s.hash_keys.map(|(k1, k2)| (k1, k2 + 1)),
];

async fn a_join_is_refused_for_each_setting_that_differs(world: World) {
    let hash_keys = Some(HASH_KEYS);
    let own = Settings { worker_ttl: world.ttl(), join_settle: SHORT, hash_keys, ..Settings::default() };
    let node = world.builder("a").settings(own.clone()).join().await.unwrap();
    // No worker, so that nothing changes unasked.
    let before = world.data_but_readers().await;
    let mut refused = vec!["protocol"];
    for differ in DIFFER {
        let mut other = own.clone();
        differ(&mut other);
        let pairs = own.fields().into_iter().zip(other.fields());
        let differing: Vec<_> = pairs.filter(|(own, other)| own != other).collect();
        let [((setting, _), _)] = &differing[..] else { panic!("{differing:?}") };
        match world.builder("b").settings(other).join().await.unwrap_err() {
            Error::SettingMismatch { name, theirs, ours } => {
                assert_eq!(name, *setting, "{theirs}, {ours}");
                assert_ne!(theirs, ours);
            }
            error => panic!("{setting}: {error:?}"),
        }
        refused.push(setting);
    }
    refused.dedup();
    let all: Vec<_> = own.fields().into_iter().map(|(name, _)| name).collect();
    assert_eq!(refused, all, "`protocol` is the one that no user sets");
    assert_eq!(world.data_but_readers().await, before);
    world.add_worker(&node).await;
    world.dispatch_one(&node, "key").await;
    world.assert_clean();
}
