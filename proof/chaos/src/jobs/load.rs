//! The jobs that come during the faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenure_jobs::{Add, How, JobId, Jobs, Unique};
use tenure_testing::history::boottime_ns;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::excuse::Accepted;
use super::node::{Kind, Work};
use super::over::{Again, Answer, Cancellation, End};

/// A job comes at least so often.
const PACE: Duration = Duration::from_millis(12);
/// The most adds that wait for their answers.
const WAITING: usize = 400;
/// How long an add may wait for its answer after the faults.
const PATIENCE: Duration = Duration::from_secs(60);
/// Every thirtieth plain job takes up to this time. That is long enough for its node to notice a loss of data.
const LONG: (u32, Duration) = (30, Duration::from_secs(5));
/// Every eighth job is cancelled within this time, and half of those are asked for again within the other.
const CANCELLED: (u32, Duration, Duration) = (8, Duration::from_millis(300), Duration::from_secs(2));
/// The ends of jobs are looked for so often.
const LOOK: Duration = Duration::from_millis(200);
const GROUPS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// The jobs that were accepted, by id.
#[derive(Debug, Default)]
pub(super) struct Load {
    accepted: Mutex<BTreeMap<String, Accepted>>,
    /// Those whose ends nobody looks for yet.
    fresh: Mutex<Vec<JobId>>,
}

impl Load {
    fn accept(&self, id: &JobId, job: Accepted) {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_string(), job);
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).push(id.clone());
    }

    /// Looks for the end of each job until it is dropped. One that is gone is looked for no more.
    async fn see_ends(&self, jobs: &Jobs) {
        let mut open = Vec::new();
        loop {
            sleep(LOOK).await;
            open.append(&mut self.fresh.lock().unwrap_or_else(PoisonError::into_inner));
            let Ok(views) = jobs.get_many(&open).await else { continue };
            let seen = boottime_ns();
            let mut left = Vec::new();
            for view in views.into_iter().flatten() {
                if view.state().is_over() {
                    let token = view.token().0;
                    self.note(view.id(), |job| job.ended = Some(End { token, seen }));
                } else {
                    left.push(view.id().clone());
                }
            }
            open = left;
        }
    }

    fn note(&self, id: &JobId, what: impl FnOnce(&mut Accepted)) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(job) = accepted.get_mut(id.as_str()) {
            what(job);
        }
    }

    pub(super) fn accepted(&self) -> BTreeMap<String, Accepted> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The one that adds.
pub(super) struct Adding {
    stop: CancellationToken,
    task: JoinHandle<JoinSet<()>>,
    /// It looks for ends.
    looking: JoinHandle<()>,
}

impl Adding {
    /// Adds no more, and waits for the answers. Returns how many are missing.
    pub(super) async fn stop(self) -> usize {
        self.stop.cancel();
        let Ok(mut adds) = self.task.await else { return usize::MAX };
        let _ = timeout(PATIENCE, async { while adds.join_next().await.is_some() {} }).await;
        self.looking.abort();
        adds.len()
    }
}

/// Adds jobs of all kinds until it is told to stop. An execution takes less than `longest`, but for some of plain jobs.
pub(super) fn start(jobs: &Jobs, load: &Arc<Load>, seed: u64, longest: Duration) -> Adding {
    let stop = CancellationToken::new();
    let (jobs, load, stopped) = (jobs.clone(), load.clone(), stop.clone());
    let (seeing, seen) = (jobs.clone(), load.clone());
    let looking = tokio::spawn(async move { seen.see_ends(&seeing).await });
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
                let (delay, asked) = (wish.delay, boottime_ns());
                let add = wish.add(&jobs);
                let added = if delay.is_zero() { add.await } else { add.delay(delay).await };
                drop(waits);
                // Without an answer it may be there or not.
                let Ok(added) = added else { return };
                load.accept(&added.id, Accepted::new(wish.work.kind, asked, boottime_ns()));
                if let Some((after, again)) = wish.cancel {
                    sleep(after).await;
                    cancel(&jobs, &load, &added.id).await;
                    if let Some(after) = again {
                        sleep(after).await;
                        say_again(&jobs, &load, &added.id, &wish).await;
                    }
                }
            });
            while adds.try_join_next().is_some() {}
        }
        adds
    });
    Adding { stop, task, looking }
}

async fn cancel(jobs: &Jobs, load: &Load, id: &JobId) {
    let asked = boottime_ns();
    let answer = match jobs.cancel(id, "enough").await {
        Ok(true) => Answer::AtOnce,
        Ok(false) => Answer::Asked,
        Err(_) => Answer::Unknown,
    };
    let answered = boottime_ns();
    let view = jobs.get(id).await.ok().flatten();
    let token = view.map(|view| view.token().0);
    load.note(id, |job| job.cancelled = Some(Cancellation { answer, asked, answered, token }));
}

/// Asks for a cancelled job again. One that the store does not know as such stays as it is.
async fn say_again(jobs: &Jobs, load: &Load, id: &JobId, wish: &Wish) {
    let asked = boottime_ns();
    let said = wish.add(jobs).unique(Unique::Again).await;
    if said.as_ref().is_ok_and(|added| added.how == How::Exists) {
        return;
    }
    let answered = said.is_ok().then(boottime_ns);
    load.note(id, |job| job.again = Some(Again { asked, answered }));
}

struct Wish {
    id: String,
    work: Work,
    group: &'static str,
    delay: Duration,
    priority: i8,
    /// How long after its add it is cancelled, and how long after that somebody asks for it again.
    cancel: Option<(Duration, Option<Duration>)>,
}

impl Wish {
    fn add<'a>(&self, jobs: &'a Jobs) -> Add<'a> {
        jobs.add("work", &self.work).id(&self.id).group(self.group).priority(self.priority)
    }

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
        let ms = random.random_range(1..longest.as_millis() as u64);
        let (every, soon, later) = CANCELLED;
        let cancel = random.random_ratio(1, every).then(|| {
            // A parent that comes anew would meet the children of its former life.
            let again = kind != Kind::Parent && random.random_bool(0.5);
            (
                random.random_range(Duration::ZERO..soon),
                again.then(|| random.random_range(Duration::ZERO..later)),
            )
        });
        Self {
            id: format!("j{number}"),
            work: Work { kind, ms, heeds: cancel.is_some() && random.random_bool(0.5) },
            group: GROUPS.choose(random).copied().unwrap_or("a"),
            delay: Duration::from_millis(delay),
            priority: random.random_range(-1..=1),
            cancel,
        }
    }
}
