//! The jobs that come during the faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenure_jobs::Jobs;
use tenure_testing::history::boottime_ns;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;

use super::excuse::Accepted;
use super::node::{Kind, Work};

/// A job comes at least so often.
const PACE: Duration = Duration::from_millis(12);
/// The most adds that wait for their answers.
const WAITING: usize = 400;
/// How long an add may wait for its answer after the faults.
const PATIENCE: Duration = Duration::from_secs(60);
/// Every thirtieth plain job takes up to this time. That is long enough for its node to notice a loss of data.
const LONG: (u32, Duration) = (30, Duration::from_secs(5));
const GROUPS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The jobs that were accepted, by id.
#[derive(Debug, Default)]
pub(super) struct Load {
    accepted: Mutex<BTreeMap<String, Accepted>>,
}

impl Load {
    fn accept(&self, id: String, job: Accepted) {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(id, job);
    }

    pub(super) fn accepted(&self) -> BTreeMap<String, Accepted> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The one that adds.
pub(super) struct Adding {
    stop: CancellationToken,
    task: JoinHandle<JoinSet<()>>,
}

impl Adding {
    /// Adds no more, and waits for the answers. Returns how many are missing.
    pub(super) async fn stop(self) -> usize {
        self.stop.cancel();
        let Ok(mut adds) = self.task.await else { return usize::MAX };
        let _ = timeout(PATIENCE, async { while adds.join_next().await.is_some() {} }).await;
        adds.len()
    }
}

/// Adds jobs of all kinds until it is told to stop. An execution takes less than `longest`, but for some of plain jobs.
pub(super) fn start(jobs: &Jobs, load: &Arc<Load>, seed: u64, longest: Duration) -> Adding {
    let stop = CancellationToken::new();
    let (jobs, load, stopped) = (jobs.clone(), load.clone(), stop.clone());
    let task = tokio::spawn(async move {
        let (mut random, mut adds, mut pace) =
            (StdRng::seed_from_u64(seed ^ 1), JoinSet::new(), interval(PACE));
        let free = Arc::new(Semaphore::new(WAITING));
        for number in 0u64.. {
            tokio::select! {
                biased;
                () = stopped.cancelled() => break,
                _ = pace.tick() => {}
            }
            let Ok(waits) = free.clone().try_acquire_owned() else { continue };
            let (jobs, load, wish) = (jobs.clone(), load.clone(), Wish::draw(number, longest, &mut random));
            adds.spawn(async move {
                let _waits = waits;
                let Wish { id, kind, ms, group, delay, priority } = wish;
                let add = jobs.add("work", &Work { kind, ms }).id(&id).group(group).priority(priority);
                let add = if delay.is_zero() { add } else { add.delay(delay) };
                let asked = boottime_ns();
                // Without an answer it may be there or not.
                if add.await.is_ok() {
                    load.accept(id, Accepted { kind, asked, answered: boottime_ns() });
                }
            });
            while adds.try_join_next().is_some() {}
        }
        adds
    });
    Adding { stop, task }
}

struct Wish {
    id: String,
    kind: Kind,
    ms: u64,
    group: &'static str,
    delay: Duration,
    priority: i8,
}

impl Wish {
    fn draw(number: u64, longest: Duration, random: &mut StdRng) -> Self {
        let kinds = [
            (Kind::Plain, 60),
            (Kind::FailsOnce, 12),
            (Kind::Fails, 5),
            (Kind::MovesOn, 12),
            (Kind::Parent, 6),
        ];
        let kind =
            kinds.choose_weighted(random, |(_, weight)| *weight).map_or(Kind::Plain, |(kind, _)| *kind);
        let delay = if random.random_ratio(1, 6) { random.random_range(10..3_000) } else { 0 };
        let is_long = kind == Kind::Plain && random.random_ratio(1, LONG.0);
        let longest = if is_long { LONG.1 } else { longest };
        Self {
            id: format!("j{number}"),
            kind,
            ms: random.random_range(1..longest.as_millis() as u64),
            group: GROUPS.choose(random).copied().unwrap_or("a"),
            delay: Duration::from_millis(delay),
            priority: random.random_range(-1..=1),
        }
    }
}
