//! A planner, and the plan that it returns for its jobs.

use std::collections::HashSet;
use std::future::Future;
use std::time::SystemTime;

use futures::future::{BoxFuture, FutureExt};

use crate::core::input::{Planned, Wanted};
use crate::error::BoxError;
use crate::job::spec::JobSpec;
use crate::model::id::{IdError, JobKey, NodeName, Term};

/// One tick of a schedule or ticker. Exactly one node gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The number of the tick, from 1, counted over all nodes in each life of the schedule or ticker.
    pub number: u64,
    /// The turn of the node that got this tick. Use it as a fencing number for effects outside the pool: the resource
    /// must refuse a number below the highest that it has seen. Successive turns have strictly increasing numbers.
    pub term: Term,
    /// When the node got it, by the store's clock.
    pub at: SystemTime,
}

/// Says at every tick of its schedule which jobs must run. Many nodes may give the schedule a planner: the pool asks
/// one at a time.
///
/// An error or a panic is logged. Nothing is changed, and the next tick comes. The same holds for a planner that is
/// aborted because it took longer than [`plan_timeout`](crate::NodeBuilder::plan_timeout). A node can lose its turn
/// to plan, for example because it was silent for the worker TTL. Its remaining changes are then refused.
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
    /// Returns the wanted changes.
    ///
    /// # Errors
    /// Any error is logged, and nothing is changed until the next tick.
    ///
    /// # Cancel safety
    /// The future may be dropped at any await: when it takes too long, when the node loses its turn, and when the
    /// node leaves.
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

/// The changes that a planner wants for its jobs. Its jobs are those that plans of the same schedule dispatched and
/// that have not ended. A plan never stops jobs of other plans, or jobs that were dispatched without a plan.
///
/// A wanted job is left alone if its key already has a live job, whoever dispatched that one. It keeps running with
/// its payload, unless the plan [replaces](Plan::replace_changed) changed ones. If the job is being stopped, the plan waits for its end and then dispatches the key. A parked job is
/// logged.
///
/// A job that cannot be dispatched, for example because the pool is full, does not hold up the others. It is logged,
/// and wanted again at the next tick. If a plan makes no progress for
/// [`plan_timeout`](crate::NodeBuilder::plan_timeout), its rest is given up until the next tick. A job that failed to
/// start or has ended is gone: the plan dispatches it again while it is wanted.
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
    replaces: bool,
    start: Vec<JobSpec>,
    stop: Vec<Result<JobKey, IdError>>,
    end: bool,
}

impl Plan {
    /// A plan that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Exactly these jobs must run: all other jobs of this plan are stopped.
    pub fn exactly(jobs: impl IntoIterator<Item = JobSpec>) -> Self {
        Self { exactly: true, start: jobs.into_iter().collect(), ..Self::default() }
    }

    /// This job must run, too. An id that the caller gave is ignored: only the key says which job is meant.
    pub fn start(mut self, job: impl Into<JobSpec>) -> Self {
        self.start.push(job.into());
        self
    }

    /// The job with this key must end, if it belongs to this plan. A job that the plan also starts stays.
    pub fn stop<K>(mut self, key: K) -> Self
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.stop.push(key.try_into().map_err(Into::into));
        self
    }

    /// All jobs of this plan must end, except those that it starts.
    pub fn stop_others(self) -> Self {
        Self { exactly: true, ..self }
    }

    /// Jobs of this plan that have another payload, policy or progress timeout than the plan wants get those, as by
    /// [`Node::update`](crate::Node::update): a running job takes them where it runs, or is restarted with them. The
    /// updates of others are put back. Jobs that other plans or callers dispatched stay as they are.
    ///
    /// The first plan of a turn looks at all its jobs in calls of up to 128. Later ones send what has changed, and keep
    /// three numbers per job in memory for that.
    ///
    /// ```
    /// use tenure_pool::{JobSpec, Plan};
    ///
    /// # let tenants = [("acme".to_owned(), "rate=10".to_owned())];
    /// let plan = Plan::exactly(tenants.map(|(tenant, config)| JobSpec::new(tenant, config))).replace_changed();
    /// # let _ = plan;
    /// ```
    pub fn replace_changed(self) -> Self {
        Self { replaces: true, ..self }
    }

    /// After all other changes, the schedule ends on all nodes. Its jobs live on, unless the plan stops them. If a
    /// change fails, the schedule goes on, and the planner is asked again at the next tick.
    pub fn end(self) -> Self {
        Self { end: true, ..self }
    }

    /// The part of the plan that concerns the keys for which `is_meant` is true. It is called with `None` for an
    /// invalid key.
    pub(crate) fn only(mut self, is_meant: impl Fn(Option<&JobKey>) -> bool) -> Self {
        self.start.retain(|job| is_meant(job.key()));
        self.stop.retain(|key| is_meant(key.as_ref().ok()));
        self
    }

    /// The plan as the core carries it out.
    pub(crate) fn ready(self, node: &NodeName, payload_max: usize) -> Planned {
        let (exactly, replaces, ends) = (self.exactly, self.replaces, self.end);
        let mut wanted = Wanted { exactly, replaces, ends, ..Wanted::default() };
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
    fn an_invalid_job_of_a_plan_affects_no_other_and_is_not_stopped() {
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
