//! A queue of a set, from outside.

use std::time::Duration;

use super::accept::{Accept, Accepted, accept};
use super::jobs::Jobs;
use super::queue::millis;
use crate::error::Error;
use crate::model::id::{GroupName, JobId, QueueName};
use crate::store::{Figures, Listing, ReadFigures, Request, SteerReply};

/// A queue of a set. Cheap to clone.
#[derive(Clone, Debug)]
pub struct QueueHandle {
    jobs: Jobs,
    name: QueueName,
}

impl QueueHandle {
    pub(crate) fn new(jobs: Jobs, name: QueueName) -> Self {
        Self { jobs, name }
    }

    async fn ask(&self, request: Request) -> Result<(), Error> {
        match self.jobs.request(request).await? {
            SteerReply::NotFound => Err(Error::NoQueue(self.name.clone())),
            SteerReply::Pinned => Err(Error::Pinned(self.name.clone())),
            SteerReply::Bad => Err(Error::Setting("a limit, a window or a weight is out of bounds")),
            _ => Ok(()),
        }
    }

    /// Waits for a job of the queue that may begin, and runs it: the caller says that it lives, and ends it. `None` when
    /// there is none within the time of `wish`.
    ///
    /// # Errors
    /// [`Error::NoQueue`], [`Error::Setting`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: the node takes its wish back, and passes on a wake-up that was for it. A job that was taken meanwhile is given
    /// back. When the store cannot be reached, or the process ends, the job runs again after its queue's lease.
    pub async fn accept(&self, wish: Accept) -> Result<Option<Accepted>, Error> {
        self.figures().await?;
        accept(&self.jobs, self.name.clone(), wish).await
    }

    /// Pauses the queue: no job of it begins, on any node, until it is resumed.
    ///
    /// # Errors
    /// [`Error::NoQueue`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was paused; do it again.
    pub async fn pause(&self) -> Result<(), Error> {
        self.ask(Request::PauseQueue(self.name.clone(), true)).await
    }

    /// Resumes the queue.
    ///
    /// # Errors
    /// [`Error::NoQueue`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was resumed; do it again.
    pub async fn resume(&self) -> Result<(), Error> {
        self.ask(Request::PauseQueue(self.name.clone(), false)).await
    }

    /// How many jobs it has, by state, and how many it has had.
    ///
    /// # Errors
    /// [`Error::NoQueue`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn figures(&self) -> Result<Figures, Error> {
        let figures = self.jobs.call(&ReadFigures(vec![self.name.clone()])).await?;
        let figures = figures.into_iter().next().filter(|figures| figures.settings.is_some());
        figures.ok_or_else(|| Error::NoQueue(self.name.clone()))
    }

    /// The dead letters that are kept, in their order. [`Jobs::replay`] lets one run again.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn dead(&self) -> Result<Vec<JobId>, Error> {
        self.jobs.list(Listing::Dead(self.name.clone())).await
    }

    /// Lets all dead letters that are kept run again, and returns how many.
    ///
    /// # Errors
    /// [`Error::Full`] when the queue has no room for one more; [`Error::Store`]. Those before the one that failed run
    /// again.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open which of them run again.
    pub async fn replay_dead(&self) -> Result<usize, Error> {
        let mut replayed = 0;
        for id in self.dead().await? {
            match self.jobs.replay(&id).await {
                Ok(()) => replayed += 1,
                // It was replayed or removed meanwhile.
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(replayed)
    }

    /// A group of the queue.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn group(&self, group: impl AsRef<[u8]>) -> Result<GroupHandle, Error> {
        let group = GroupName::new(JobId::encoded(group)?.as_str())?;
        Ok(GroupHandle { queue: self.clone(), group })
    }
}

/// A group of a queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GroupHandle {
    queue: QueueHandle,
    group: GroupName,
}

impl GroupHandle {
    fn of(&self) -> (QueueName, Option<GroupName>) {
        (self.queue.name.clone(), Some(self.group.clone()))
    }

    /// Pauses the group: no job of it begins until it is resumed. Other groups go on.
    ///
    /// # Errors
    /// [`Error::NoQueue`], also for a queue without groups; [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was paused; do it again.
    pub async fn pause(&self) -> Result<(), Error> {
        let (queue, group) = self.of();
        self.queue.ask(Request::PauseGroup(queue, group, true)).await
    }

    /// Resumes the group.
    ///
    /// # Errors
    /// As for [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was resumed; do it again.
    pub async fn resume(&self) -> Result<(), Error> {
        let (queue, group) = self.of();
        self.queue.ask(Request::PauseGroup(queue, group, false)).await
    }

    /// Gives the group a limit of its own, at once: the most jobs that begin in each window of this length. With 0 jobs it
    /// has no limit.
    ///
    /// # Errors
    /// [`Error::Setting`] for a limit whose window is below 1 ms, or out of bounds: nothing is written. Otherwise as for [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was changed; do it again.
    pub async fn limit(&self, jobs: u32, window: Duration) -> Result<(), Error> {
        let (queue, group) = self.of();
        let window = millis(window);
        if jobs > 0 && window == 0 {
            return Err(Error::Setting("a limit needs a window of at least 1 ms"));
        }
        self.queue.ask(Request::LimitGroup(queue, group, Some((jobs, window)))).await
    }

    /// Gives the group a concurrency of its own.
    ///
    /// # Errors
    /// [`Error::Pinned`] for a pinned queue, and as for [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was changed; do it again.
    pub async fn concurrency(&self, jobs: u32) -> Result<(), Error> {
        let (queue, group) = self.of();
        self.queue.ask(Request::GroupConcurrency(queue, group, Some(jobs))).await
    }

    /// Gives the group this many turns where others have one, from 1 to 99.
    ///
    /// # Errors
    /// [`Error::Setting`], and as for [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was changed; do it again.
    pub async fn weight(&self, turns: u8) -> Result<(), Error> {
        let (queue, group) = self.of();
        self.queue.ask(Request::GroupWeight(queue, group, turns)).await
    }

    /// Gives the group what its queue has.
    ///
    /// # Errors
    /// As for [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was changed; do it again.
    pub async fn reset(&self) -> Result<(), Error> {
        let (queue, group) = self.of();
        self.queue.ask(Request::ResetGroup(queue, group)).await
    }
}
