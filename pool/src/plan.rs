//! What a planner says of its jobs.

use std::collections::HashSet;
use std::future::Future;
use std::time::SystemTime;

use futures::future::{BoxFuture, FutureExt};

use crate::core::input::{Planned, Wanted};
use crate::error::BoxError;
use crate::id::{IdError, JobKey, NodeName, Term};
use crate::spec::JobSpec;

/// One beat of a schedule or of a ticker, given out to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// Counts the ticks of a schedule or ticker over all nodes, from 1, in each of its lives.
    pub number: u64,
    /// The turn in which it was given out: a fencing number for whatever the tick causes in the world outside, which is
    /// to refuse one below the highest that it has seen. Successive turns carry strictly increasing numbers.
    pub term: Term,
    /// When it was given out, by the store's clock.
    pub at: SystemTime,
}

/// Says, at every tick of its schedule, which jobs there are to be. On all nodes that have given the schedule a planner,
/// one is asked at a time.
///
/// An error or a panic is logged, nothing is changed, and the next tick comes; so does it when the planner is aborted
/// because it took longer than the node's [`plan_timeout`](crate::NodeBuilder::plan_timeout). A node whose turn to plan
/// is over, because it was silent for the worker TTL, say, changes nothing any more: what it had not done is refused.
///
/// A closure is a planner:
///
/// ```no_run
/// # use std::time::Duration;
/// use tenure_pool::{BoxError, JobSpec, Node, Plan, Tick};
///
/// # async fn tenants() -> Result<Vec<String>, BoxError> { Ok(vec![]) }
/// # async fn example(node: Node) -> Result<(), tenure_pool::Error> {
/// let planner = |_: Tick| async {
///     Ok::<_, BoxError>(Plan::exactly(tenants().await?.into_iter().map(|tenant| JobSpec::new(tenant, "payload"))))
/// };
/// node.schedule("tenants", planner, Duration::from_secs(10)).await?;
/// # Ok(())
/// # }
/// ```
pub trait Planner: Send + Sync + 'static {
    /// What is wanted now.
    ///
    /// # Errors
    /// Any: it is logged, and nothing is changed until the next tick.
    ///
    /// # Cancel safety
    /// It is dropped where it waits when it takes too long, when the turn to plan is lost, and when the node leaves.
    fn plan(&self, tick: Tick) -> impl Future<Output = Result<Plan, BoxError>> + Send;
}

impl<F, R> Planner for F
where
    F: Fn(Tick) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Plan, BoxError>> + Send,
{
    fn plan(&self, tick: Tick) -> impl Future<Output = Result<Plan, BoxError>> + Send {
        self(tick)
    }
}

/// A planner of any type.
pub(crate) trait AnyPlanner: Send + Sync + 'static {
    fn plan(&self, tick: Tick) -> BoxFuture<'_, Result<Plan, BoxError>>;
}

impl<P: Planner> AnyPlanner for P {
    fn plan(&self, tick: Tick) -> BoxFuture<'_, Result<Plan, BoxError>> {
        Planner::plan(self, tick).boxed()
    }
}

/// What a planner wants of its jobs: those that were dispatched by a plan of the same schedule and have not ended since.
/// Jobs of other plans, and jobs that somebody dispatched, are never stopped by it.
///
/// A wanted job whose key lives already, whoever dispatched it, is as it should be: it keeps running, with the payload
/// that it has. One that is being stopped is waited for, and the key is then dispatched; one that is parked is logged. When
/// nothing more of a plan could be done for the node's [`plan_timeout`](crate::NodeBuilder::plan_timeout), the rest is
/// given up until the next tick. A job that cannot be dispatched, because the pool is full, say, keeps no other from being: what was not
/// done is logged, and wanted again at the next tick. A job that has failed to start, or has ended, is gone, and is
/// dispatched anew when it is wanted again.
///
/// ```
/// use tenure_pool::{JobSpec, Plan};
///
/// // These two, and no other job of this plan:
/// let all = Plan::exactly([JobSpec::new("acme", "1"), JobSpec::new("zenith", "2")]);
/// // One more, one less, the others as they are:
/// let changes = Plan::new().start(JobSpec::new("apex", "3")).stop("acme");
/// // The last plan: no job is left, and no tick follows.
/// let last = Plan::exactly([]).end();
/// # let _ = (all, changes, last);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a plan is carried out when the planner returns it"]
pub struct Plan {
    exactly: bool,
    start: Vec<JobSpec>,
    stop: Vec<Result<JobKey, IdError>>,
    end: bool,
}

impl Plan {
    /// Nothing changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// These jobs are to be, and no other of this plan.
    pub fn exactly(jobs: impl IntoIterator<Item = JobSpec>) -> Self {
        Self { exactly: true, start: jobs.into_iter().collect(), ..Self::default() }
    }

    /// This job is to be, too. An id of the caller's own is passed over: the key alone says which job is meant.
    pub fn start(mut self, job: JobSpec) -> Self {
        self.start.push(job);
        self
    }

    /// The job with this key is to end, if it is one of this plan. One that is wanted as well stays.
    pub fn stop<K>(mut self, key: K) -> Self
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.stop.push(key.try_into().map_err(Into::into));
        self
    }

    /// All jobs of this plan are to end that it does not start.
    pub fn stop_others(self) -> Self {
        Self { exactly: true, ..self }
    }

    /// Once all the rest is done, the schedule ends on all nodes. Its jobs live on, unless the plan stops them. When
    /// something could not be done, the schedule goes on, and the planner is asked again at the next tick.
    pub fn end(self) -> Self {
        Self { end: true, ..self }
    }

    /// What of the plan concerns these keys; `None` is asked for what has no valid one.
    pub(crate) fn only(mut self, is_meant: impl Fn(Option<&JobKey>) -> bool) -> Self {
        self.start.retain(|job| is_meant(job.key()));
        self.stop.retain(|key| is_meant(key.as_ref().ok()));
        self
    }

    /// The plan as the core carries it out.
    pub(crate) fn ready(self, node: &NodeName, payload_max: usize) -> Planned {
        let mut wanted = Wanted { exactly: self.exactly, ends: self.end, ..Wanted::default() };
        for (at, job) in self.start.into_iter().enumerate() {
            let key = job.key().cloned();
            match (job.anonymous().seal(node, payload_max), key) {
                (Ok((_, item)), _) => wanted.start.push(item),
                (Err(error), Some(key)) => {
                    wanted.errors.push(format!("{key}: {error}"));
                    wanted.kept.push(key);
                }
                (Err(error), None) => wanted.errors.push(format!("its job {}: {error}", at + 1)),
            }
        }
        let stays: HashSet<_> =
            wanted.start.iter().map(|item| &item.key).chain(&wanted.kept).cloned().collect();
        for key in self.stop {
            match key {
                Ok(key) if stays.contains(&key) => {}
                Ok(key) => wanted.stop.push(key),
                Err(error) => wanted.errors.push(format!("a job to stop: {error}")),
            }
        }
        Planned::Made(wanted)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ready(plan: Plan) -> Wanted {
        match plan.ready(&NodeName::new("n").unwrap(), 64) {
            Planned::Made(wanted) => wanted,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_job_that_cannot_be_started_spoils_no_other_and_is_not_stopped() {
        let jobs =
            [JobSpec::new("", "x"), JobSpec::new("long", vec![0; 100]), JobSpec::new("good", "x").id("mine")];
        let wanted = ready(Plan::exactly(jobs).stop("long").stop("good").stop("other").stop(""));
        assert_eq!(wanted.start.len(), 1);
        assert_eq!((wanted.start[0].hash.as_str(), wanted.start[0].id.caller_id()), ("", None));
        assert_eq!(wanted.kept, [JobKey::try_from("long").unwrap()]);
        assert_eq!(wanted.stop, [JobKey::try_from("other").unwrap()]);
        let [first, long, last] = &wanted.errors[..] else { panic!("{:?}", wanted.errors) };
        assert_eq!(first, "its job 1: job key is empty; nothing was written");
        assert!(long.starts_with("long: the payload has"), "{long}");
        assert_eq!(last, "a job to stop: job key is empty");
    }
}
