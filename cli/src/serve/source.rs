//! The reads of the pool: one for all who ask within a moment, and none while nobody asks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryFutureExt};
use serde_json::{Value, json};
use tenure_jobs::{Error as JobsError, Figures as QueueFigures, Inspector as Queues, StoreError};
use tenure_pool::inspect::{MemberState, RingView, ScheduleInfo, ShardState};
use tenure_pool::{Client, Inspector, JobInfo, Settings};
use tokio::time::{Instant, timeout};

use super::drains::{Drain, Drains};
use super::problem::Problem;
use crate::exit::Failure;
use crate::view::fleet::Fleet;

/// For how long an answer is fresh.
const FRESH: Duration = Duration::from_secs(1);
/// For how long the sample of keys is: it is larger.
const SAMPLED: Duration = Duration::from_secs(5);
/// How many keys the sample has, about.
const SAMPLE: usize = 512;
/// How long a read may take.
pub(super) const LOOK: Duration = Duration::from_secs(5);

/// A read with a deadline.
///
/// # Errors
/// Its own, or Redis has not answered in time.
pub(super) async fn look<T, E: Into<Problem>>(
    read: impl Future<Output = Result<T, E>>,
) -> Result<T, Problem> {
    match timeout(LOOK, read).await {
        Ok(read) => read.map_err(Into::into),
        Err(_) => Err(late()),
    }
}

/// Redis is silent.
pub(super) fn late() -> Problem {
    Problem::redis(format!("Redis has not answered within {} s", LOOK.as_secs()))
}

/// An answer that is kept for a moment, also where it is a problem. Those who ask meanwhile wait for the same read.
struct Once<T> {
    kept: tokio::sync::Mutex<Option<(Instant, Result<T, Problem>)>>,
    fresh: Duration,
}

impl<T: Clone> Once<T> {
    fn new(fresh: Duration) -> Self {
        Self { kept: tokio::sync::Mutex::default(), fresh }
    }

    async fn get<E: Into<Problem>>(&self, read: impl Future<Output = Result<T, E>>) -> Result<T, Problem> {
        let mut kept = self.kept.lock().await;
        if let Some((at, answer)) = &*kept
            && at.elapsed() < self.fresh
        {
            return answer.clone();
        }
        let answer = look(read).await;
        *kept = Some((Instant::now(), answer.clone()));
        answer
    }
}

/// A sample of the jobs, and how many of them were looked at.
type Sample = std::sync::Arc<Vec<JobInfo>>;

/// The reads of a pool, and of sets of queues.
pub(super) struct Source {
    pub(super) pool: Inspector,
    state: Once<Vec<ShardState>>,
    fleet: Once<std::sync::Arc<Fleet>>,
    rings: Once<std::sync::Arc<Vec<RingView>>>,
    settings: Once<Settings>,
    schedules: Once<std::sync::Arc<Vec<ScheduleInfo>>>,
    sample: Once<Sample>,
    queues: Vec<(Queues, Once<Value>)>,
    drains: Mutex<Drains>,
}

impl Source {
    /// # Errors
    /// The name of a set is none.
    pub(super) fn new(pool: Inspector, client: &Client, sets: &[String]) -> Result<Self, Failure> {
        let open = |set: &String| match Queues::open(set, client) {
            Ok(queues) => Ok((queues, Once::new(FRESH))),
            Err(error) => Err(Failure::usage(error.to_string())),
        };
        Ok(Self {
            pool,
            state: Once::new(FRESH),
            fleet: Once::new(FRESH),
            rings: Once::new(FRESH),
            settings: Once::new(FRESH),
            schedules: Once::new(FRESH),
            sample: Once::new(SAMPLED),
            queues: sets.iter().map(open).collect::<Result<_, _>>()?,
            drains: Mutex::default(),
        })
    }

    pub(super) async fn state(&self) -> Result<Vec<ShardState>, Problem> {
        self.state.get(self.pool.pool_state()).await
    }

    pub(super) async fn fleet(&self) -> Result<std::sync::Arc<Fleet>, Problem> {
        let read = Fleet::read(&self.pool).map_ok(|fleet| {
            let workers = fleet.seen.figures.workers.iter().filter(|of| of.state == MemberState::Draining);
            let draining = workers.map(|of| ((of.shard, of.worker), of.node.as_str(), of.jobs));
            self.drains().see(draining, std::time::SystemTime::now());
            std::sync::Arc::new(fleet)
        });
        self.fleet.get(read).await
    }

    pub(super) async fn rings(&self) -> Result<std::sync::Arc<Vec<RingView>>, Problem> {
        self.rings.get(self.pool.rings().map_ok(std::sync::Arc::new)).await
    }

    pub(super) async fn settings(&self) -> Result<Settings, Problem> {
        self.settings.get(self.pool.settings()).await
    }

    pub(super) async fn schedules(&self) -> Result<std::sync::Arc<Vec<ScheduleInfo>>, Problem> {
        self.schedules.get(self.pool.schedules().map_ok(std::sync::Arc::new)).await
    }

    /// Some of the jobs that workers have.
    pub(super) async fn sample(&self) -> Result<Sample, Problem> {
        let read = async {
            let (mut jobs, mut found) = (self.pool.job_stream().take(SAMPLE), Vec::new());
            while let Some(job) = jobs.next().await {
                found.push(job?);
            }
            found.sort_by(|a, b| a.key.cmp(&b.key));
            found.dedup_by(|a, b| a.key == b.key);
            Ok::<_, tenure_pool::Error>(std::sync::Arc::new(found))
        };
        self.sample.get(read).await
    }

    /// The drains that were seen, the latest first. They are followed while somebody looks at the workers.
    pub(super) async fn drained(&self) -> Result<Vec<Drain>, Problem> {
        self.fleet().await?;
        Ok(self.drains().list())
    }

    fn drains(&self) -> std::sync::MutexGuard<'_, Drains> {
        self.drains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sets(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(queues, _)| queues.set().as_str())
    }

    /// The queues of a set.
    pub(super) async fn queues(&self, set: &str) -> Result<Value, Problem> {
        let found = self.queues.iter().find(|(queues, _)| queues.set().as_str() == set);
        let Some((queues, once)) = found else {
            return Err(Problem::absent(format!(
                "the set {set} is not watched: `--queues SET` names those that are"
            )));
        };
        let read = async {
            let listed = queues.queues().await.map_err(|error| unread(set, &error))?;
            Ok::<_, Problem>(
                listed.into_iter().map(|(name, figures)| queue(name.as_str(), &figures)).collect(),
            )
        };
        once.get(read).await
    }
}

fn unread(set: &str, error: &JobsError) -> Problem {
    match error {
        JobsError::Store(StoreError::NoSet) => Problem::absent(format!("there is no set {set}")),
        // Its text says what happened, its cause why.
        error => Problem::redis(match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        }),
    }
}

fn queue(name: &str, figures: &QueueFigures) -> Value {
    let settings = figures.settings.as_ref();
    json!({
        "queue": name,
        "paused": settings.is_some_and(|settings| settings.paused),
        "grouped": settings.is_some_and(|settings| settings.grouped),
        "ready": figures.ready,
        "running": figures.running,
        "delayed": figures.delayed,
        "waiting": figures.waiting,
        "dead": figures.dead,
        "done": figures.done,
        "failed": figures.failed,
        "cancelled": figures.cancelled,
        "concurrency": settings.map(|settings| settings.concurrency).filter(|most| *most > 0),
        "capacity": settings.map(|settings| settings.capacity).filter(|most| *most > 0),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_within_a_moment_are_one_read() {
        let (once, reads) = (Once::new(FRESH), AtomicU32::new(0));
        let read = async || {
            let number = reads.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, Problem>(number)
        };
        let answers = join_all((0..200).map(|_| once.get(read()))).await;
        assert!(answers.iter().all(|answer| *answer.as_ref().unwrap() == 0));
        tokio::time::sleep(FRESH).await;
        assert_eq!(once.get(read()).await.unwrap(), 1);
        assert_eq!(reads.load(Ordering::Relaxed), 2, "and none in between");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_holds_each_who_asks_once() {
        let once = Once::<u32>::new(FRESH);
        let began = Instant::now();
        let ask = || once.get(futures::future::pending::<Result<u32, Problem>>());
        let answers = join_all((0..50).map(|_| ask())).await;
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap_err().status == 503));
        assert!(began.elapsed() < LOOK * 2, "the others get the first one's answer");
    }

    #[tokio::test(start_paused = true)]
    async fn who_breaks_off_leaves_the_read_to_the_next() {
        let once = Once::new(FRESH);
        let broken = once.get(futures::future::pending::<Result<u32, Problem>>());
        assert!(timeout(Duration::from_millis(5), broken).await.is_err());
        assert_eq!(once.get(async { Ok::<_, Problem>(7) }).await.unwrap(), 7);
    }
}
