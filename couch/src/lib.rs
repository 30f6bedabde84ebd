#![doc = include_str!("../README.md")]

mod accept;
mod key;
mod watching;

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_jobs::{Add, Error, JobId, JobView, Jobs, Queue, State, Unique};

pub use self::accept::Accept;
pub use self::key::Key;
use self::key::{id_of, prefix_of, type_of};
pub use self::watching::{CouchEvent, Subscribed, Subscription, wait_any};
/// A job that this caller runs, from [`Couch::accept`].
pub use tenure_jobs::Accepted;

/// Pending jobs are counted up to this number.
const COUNTED: u64 = 1_024;

/// A failed operation on jobs in the manner of `CouchDB`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CouchError {
    /// The type has no time-out: [`Couch::set_type_timeout`] comes first. Nothing was written.
    #[error("the type has no time-out yet, nothing was written")]
    NoTypeTimeout,
    /// There is no such job.
    #[error("there is no such job")]
    NotFound,
    /// The job was removed, or is somebody else's by now. Nothing was written: end its work.
    #[error("the job is not this worker's any more, nothing was written")]
    Halt,
    /// A type without a schedule has no limit on it.
    #[error("no_schedule goes with no max_sched_time, nothing was taken")]
    NoSchedule,
    /// Anything else.
    #[error(transparent)]
    Other(Error),
}

impl From<Error> for CouchError {
    fn from(error: Error) -> Self {
        match error {
            Error::NoQueue(_) => Self::NoTypeTimeout,
            Error::NotFound(_) => Self::NotFound,
            Error::Halted(_) => Self::Halt,
            error => Self::Other(error),
        }
    }
}

/// The state of a job in the manner of `CouchDB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CouchState {
    /// It waits: for a worker, or for its time.
    Pending,
    /// It runs.
    Running,
    /// It has ended.
    Finished,
}

impl From<State> for CouchState {
    fn from(state: State) -> Self {
        match state {
            State::Running | State::Waiting => Self::Running,
            state if state.is_over() => Self::Finished,
            _ => Self::Pending,
        }
    }
}

/// Jobs in the manner of `CouchDB`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Couch {
    jobs: Jobs,
}

impl Couch {
    /// The jobs of a set, through this node of the set.
    pub fn new(jobs: Jobs) -> Self {
        Self { jobs }
    }

    /// Sets the time without an update after which a running job of this type is pending again. It comes before the
    /// first job of the type. Jobs that run have their time anew. At least 1 s.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Groups`] for a name that is a queue with groups, and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was set; do it again.
    pub async fn set_type_timeout(&self, of: impl Key, timeout: Duration) -> Result<(), CouchError> {
        let queue = Queue::new(type_of(&of)?.as_str()).by_hand().lease(timeout);
        Ok(self.jobs.declare(&queue.attempts(0).keep_failed(Duration::MAX)).await?)
    }

    /// The time-out of a type.
    ///
    /// # Errors
    /// [`CouchError::NoTypeTimeout`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn type_timeout(&self, of: impl Key) -> Result<Duration, CouchError> {
        let figures = self.jobs.queue(type_of(&of)?.as_str())?.figures().await?;
        let settings = figures.settings.ok_or(CouchError::NoTypeTimeout)?;
        Ok(Duration::from_millis(settings.lease))
    }

    /// Adds a job, scheduled for a time or for now. One that is pending gets another time and data, and with the same time
    /// stays as it is. One that runs is marked to be resubmitted at that time, and keeps its data. One that has finished is
    /// pending anew, with these data.
    ///
    /// # Errors
    /// [`CouchError::NoTypeTimeout`]; data that cannot be encoded are an [`Error::Encode`], and store nothing;
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was added; do it again.
    pub async fn add<D: Serialize + ?Sized>(
        &self,
        of: impl Key,
        id: impl Key,
        data: &D,
        at: Option<SystemTime>,
    ) -> Result<(), CouchError> {
        let add = self.jobs.add(type_of(&of)?.as_str(), data).unique(Unique::Schedule);
        submit(add, id_of(&of, &id)?, at).await
    }

    /// Marks a job that runs to be resubmitted at a time, or now; it keeps its data. One that has finished is pending
    /// again, with these data or its own. One that is pending gets this time and these data, and with the same time stays
    /// as it is. All of it is one step: it brings no job back that was removed.
    ///
    /// # Errors
    /// [`CouchError::NotFound`], and as for [`add`](Self::add).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was marked; do it again.
    pub async fn resubmit<D: Serialize + ?Sized>(
        &self,
        of: impl Key,
        id: impl Key,
        data: Option<&D>,
        at: Option<SystemTime>,
    ) -> Result<(), CouchError> {
        submit(self.jobs.resubmit(type_of(&of)?.as_str(), data), id_of(&of, &id)?, at).await
    }

    /// Removes a job. Its worker is answered [`CouchError::Halt`] from now on.
    ///
    /// # Errors
    /// [`CouchError::NotFound`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was removed.
    pub async fn remove(&self, of: impl Key, id: impl Key) -> Result<(), CouchError> {
        Ok(self.jobs.remove(&id_of(&of, &id)?).await?)
    }

    async fn view(&self, of: impl Key, id: impl Key) -> Result<JobView, CouchError> {
        self.jobs.get(&id_of(&of, &id)?).await?.ok_or(CouchError::NotFound)
    }

    /// The state of a job.
    ///
    /// # Errors
    /// [`CouchError::NotFound`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn state(&self, of: impl Key, id: impl Key) -> Result<CouchState, CouchError> {
        Ok(self.view(of, id).await?.state().into())
    }

    /// The data of a job.
    ///
    /// # Errors
    /// [`CouchError::NotFound`], [`Error::Decode`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn data<D: DeserializeOwned>(&self, of: impl Key, id: impl Key) -> Result<D, CouchError> {
        Ok(self.view(of, id).await?.data()?)
    }

    /// Waits for a pending job of this type, and runs it. `None` when there is none within the time of `accept`.
    ///
    /// # Errors
    /// [`CouchError::NoTypeTimeout`], [`CouchError::NoSchedule`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: the node takes its wish back, and passes on a wake-up that was for it. A job that was taken meanwhile is given
    /// back, and is pending again with its data. When the store cannot be reached, or the process ends, it is pending
    /// again after its type's time-out.
    pub async fn accept(&self, of: impl Key, accept: Accept) -> Result<Option<Accepted>, CouchError> {
        let wish = accept.checked()?;
        Ok(self.jobs.queue(type_of(&of)?.as_str())?.accept(wish).await?)
    }

    /// Follows a job: its present state and data, and from then on each change. A job that has finished is answered at
    /// once, and not followed.
    ///
    /// # Errors
    /// [`CouchError::NotFound`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: a dropped call follows nothing.
    pub async fn subscribe(&self, of: impl Key, id: impl Key) -> Result<Subscribed, CouchError> {
        watching::subscribe(&self.jobs, id_of(&of, &id)?).await
    }

    /// Calls `f` with each job of a type: its id as it was given, its state, and what was returned last. A job that comes
    /// or goes meanwhile may be missed.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn fold<A: Send>(
        &self,
        of: impl Key,
        first: A,
        mut f: impl FnMut(A, &str, CouchState) -> A + Send,
    ) -> Result<A, CouchError> {
        let prefix = prefix_of(&of)?;
        let (mut all, mut cursor, mut seen) = (first, 0, HashSet::new());
        loop {
            let (next, jobs) = self.jobs.scan(cursor).await?;
            for (id, record) in jobs {
                if let Some(own) = id.as_str().strip_prefix(&prefix)
                    && seen.insert(id.clone())
                {
                    all = f(all, own, record.state.into());
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(all);
            }
        }
    }

    /// The ids of all jobs of a type with their states, in the order of the ids.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn list(&self, of: impl Key) -> Result<Vec<(String, CouchState)>, CouchError> {
        let push = |mut all: Vec<_>, id: &str, state| {
            all.push((id.to_owned(), state));
            all
        };
        let mut all = self.fold(of, Vec::new(), push).await?;
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(all)
    }

    /// The ids of the running jobs of a type.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn active(&self, of: impl Key) -> Result<Vec<String>, CouchError> {
        let all = self.list(of).await?;
        Ok(all.into_iter().filter(|(_, state)| *state == CouchState::Running).map(|(id, _)| id).collect())
    }

    /// The number of pending jobs of a type, counted up to 1,024.
    ///
    /// # Errors
    /// [`CouchError::NoTypeTimeout`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn pending(&self, of: impl Key) -> Result<u64, CouchError> {
        let figures = self.jobs.queue(type_of(&of)?.as_str())?.figures().await?;
        Ok((figures.ready + figures.delayed).min(COUNTED))
    }
}

async fn submit(add: Add<'_>, id: JobId, at: Option<SystemTime>) -> Result<(), CouchError> {
    let add = add.job_id(id).keep_for_ever();
    match at {
        Some(at) => add.at(at).await?,
        None => add.await?,
    };
    Ok(())
}
