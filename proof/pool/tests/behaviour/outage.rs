//! A store that does not answer for a while. A short outage costs nothing. After a longer one than the lease, every
//! handler has stopped before another worker could begin its job.

use std::time::Duration;

use tenure_pool::StopReason;
use tenure_testing::history::{Event, boottime_ns};

use crate::recorder::Act;
use crate::world::{Home, World, beside, on_both_stores, until, workers_on};

on_both_stores!(
    a_short_outage_costs_no_lease,
    an_outage_of_a_third_of_the_lease_passes_unnoticed,
    a_long_outage_ends_every_handler_and_starts_it_again,
    jobs_that_do_nothing_are_stopped_before_their_lease_is_over,
    handlers_that_ignore_their_cancellation_are_aborted,
);

impl World {
    pub(crate) fn cut_off(&self) {
        match &self.home {
            Home::Memory(store) => store.set_available(false),
            Home::Redis(_) | Home::Elsewhere => self.server().pause().unwrap(),
        }
    }

    pub(crate) fn reconnect(&self) {
        match &self.home {
            Home::Memory(store) => store.set_available(true),
            Home::Redis(_) | Home::Elsewhere => self.server().resume().unwrap(),
        }
    }

    /// Waits until no handler runs, and checks that the last one ended before the lease did.
    pub(crate) async fn all_ended_in_time(&self, cut_off: u64) {
        until("every handler to end", async || self.recorder.running().is_empty()).await;
        let lease_over = cut_off + u64::try_from(self.ttl().as_nanos()).unwrap();
        for entry in self.history().entries() {
            if let Event::Stopped { key, .. } = entry.event {
                assert!(entry.at < lease_over, "{key} ran on when others could have begun it");
            }
        }
    }
}

async fn a_short_outage_costs_no_lease(world: World) {
    let world = world.with_ttl(Duration::from_secs(4));
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let (keys, before) = world.dispatch_placed(&a, 30).await;
    world.cut_off();
    let call = beside(&b, |b| async move { b.dispatch(("meanwhile", "")).await });
    tokio::time::sleep(world.ttl() / 8).await;
    world.reconnect();
    call.await.unwrap().unwrap();
    for key in &keys {
        a.notify(key.as_str(), "hello").await.unwrap();
    }
    until("all to hear of it", async || keys.iter().all(|key| world.recorder.notes(key) == ["hello"])).await;
    let mut after = world.placed(&a, &keys).await;
    after.remove("meanwhile");
    assert_eq!(after, before);
    assert!(world.recorder.starts().values().all(|starts| *starts == 1));
    world.assert_clean();
}

async fn an_outage_of_a_third_of_the_lease_passes_unnoticed(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let keys = world.dispatch(&b, 30).await;
    let before = world.placed(&a, &keys).await;
    // The lease was just renewed, so a busy machine has time for the next renewal.
    until("the lease to be renewed", async || {
        a.health().workers[0].lease_age.is_some_and(|age| age < world.ttl() / 20)
    })
    .await;
    world.cut_off();
    tokio::time::sleep(world.ttl() * 35 / 100).await;
    assert_eq!(world.recorder.running().len(), keys.len());
    world.reconnect();
    world.dispatch_one(&b, "another").await;
    let mut after = world.placed(&a, &keys).await;
    after.remove("another");
    assert_eq!(after, before);
    assert!(world.recorder.starts().values().all(|starts| *starts == 1));
    assert!(keys.iter().all(|key| world.recorder.stops(key).is_empty()), "no handler heard of it");
    world.assert_clean();
}

async fn a_long_outage_ends_every_handler_and_starts_it_again(world: World) {
    let world = world.with_ttl(Duration::from_secs(2));
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 1).await);
    let (keys, before) = world.dispatch_placed(&a, 30).await;
    let workers = [workers_on(&a).await, workers_on(&b).await].concat();
    let cut_off = boottime_ns();
    world.cut_off();
    world.all_ended_in_time(cut_off).await;
    tokio::time::sleep(world.ttl()).await;
    world.reconnect();
    until("all workers to be back", async || {
        let now = a.inspect().workers().await.unwrap();
        now.len() == 3 && now.iter().all(|worker| !workers.contains(&worker.id.0) && worker.slot.is_some())
    })
    .await;
    let after = world.placed(&a, &keys).await;
    for (key, held) in after {
        assert!(held.token > before[&key].token, "{key}");
    }
    world.assert_clean();
}

async fn jobs_that_do_nothing_are_stopped_before_their_lease_is_over(world: World) {
    let world = world.with_ttl(Duration::from_secs(3));
    let node = world.node("a").await;
    node.add_worker(world.recorder.acting(|_| Act::Hold)).await.unwrap();
    let keys = world.dispatch(&node, 10).await;
    let cut_off = boottime_ns();
    world.cut_off();
    world.all_ended_in_time(cut_off).await;
    assert!(keys.iter().all(|key| world.recorder.stops(key) == [StopReason::LeaseLost]));
    world.reconnect();
    until("all to run again", async || world.recorder.running().len() == keys.len()).await;
    world.assert_clean();
}

async fn handlers_that_ignore_their_cancellation_are_aborted(world: World) {
    let world = world.with_ttl(Duration::from_secs(3));
    let node = world.node("a").await;
    node.add_worker(world.recorder.acting(|_| Act::HangStop)).await.unwrap();
    let keys = world.dispatch(&node, 10).await;
    let cut_off = boottime_ns();
    world.cut_off();
    world.all_ended_in_time(cut_off).await;
    world.reconnect();
    until("all to run again", async || world.recorder.running().len() == keys.len()).await;
    world.assert_clean();
}
