//! What is asked of one key, and is a call of one node; and many jobs at once.

use bytes::Bytes;

use super::{ShardedPool, node_of};
use crate::error::Error;
use crate::id::{IdError, JobKey};
use crate::node::{Dispatch, DispatchMany, Node, StopJob, Wait};
use crate::parked::{ParkedJob, Unparked};
use crate::spec::JobSpec;
use crate::ticket::Ticket;
use crate::typed::Payload;

impl ShardedPool {
    fn node_for(&self, job: &JobSpec) -> &Node {
        node_of(&self.nodes, job.key())
    }

    /// As [`Node::dispatch`](crate::Node::dispatch). An [id](Dispatch::id) of the caller's own belongs to the shard of its
    /// key: used for a key of another shard, it is another id, and no conflict.
    ///
    /// # Errors
    /// As `Node::dispatch`.
    pub fn dispatch<K>(&self, key: K, payload: impl Into<Bytes>) -> Dispatch
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.dispatch_job(JobSpec::new(key, payload))
    }

    /// As [`Node::dispatch_as`](crate::Node::dispatch_as).
    ///
    /// # Errors
    /// As `Node::dispatch_as`.
    pub fn dispatch_as<K, T>(&self, key: K, payload: &T) -> Dispatch
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
        T: Payload,
    {
        self.dispatch_job(JobSpec::typed(key, payload))
    }

    /// As [`Node::dispatch_job`](crate::Node::dispatch_job).
    ///
    /// # Errors
    /// As `Node::dispatch_job`.
    pub fn dispatch_job(&self, job: JobSpec) -> Dispatch {
        self.node_for(&job).dispatch_job(job)
    }

    /// As [`Node::ensure`](crate::Node::ensure).
    ///
    /// # Errors
    /// As `Node::ensure`.
    pub fn ensure<K>(&self, key: K, payload: impl Into<Bytes>) -> Dispatch
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.ensure_job(JobSpec::new(key, payload))
    }

    /// As [`Node::ensure_job`](crate::Node::ensure_job).
    ///
    /// # Errors
    /// As `Node::ensure_job`.
    pub fn ensure_job(&self, job: JobSpec) -> Dispatch {
        self.node_for(&job).ensure_job(job)
    }

    /// As [`Node::submit`](crate::Node::submit).
    ///
    /// # Errors
    /// As `Node::submit`.
    pub fn submit<K>(&self, key: K, payload: impl Into<Bytes>) -> Dispatch<Ticket>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.submit_job(JobSpec::new(key, payload))
    }

    /// As [`Node::submit_job`](crate::Node::submit_job).
    ///
    /// # Errors
    /// As `Node::submit_job`.
    pub fn submit_job(&self, job: JobSpec) -> Dispatch<Ticket> {
        self.node_for(&job).submit_job(job)
    }

    /// As [`Node::dispatch_many`](crate::Node::dispatch_many): each job goes to its shard, and the results come in the order
    /// of the jobs. At most 1,024 jobs and about 16 MiB, times the number of shards, are under way at a time, in whatever
    /// shards: where most keys are those of one, its server gets them all.
    ///
    /// # Errors
    /// Each result as of [`dispatch`](Self::dispatch).
    pub fn dispatch_many<I>(&self, jobs: I) -> DispatchMany
    where
        I: IntoIterator<Item = JobSpec>,
        I::IntoIter: Send + 'static,
    {
        DispatchMany::new(self.nodes.clone(), jobs, true)
    }

    /// As [`dispatch_many`](Self::dispatch_many), but each job is answered as soon as its shard has accepted it.
    ///
    /// # Errors
    /// Each result as of [`submit`](Self::submit).
    pub fn submit_many<I>(&self, jobs: I) -> DispatchMany<Ticket>
    where
        I: IntoIterator<Item = JobSpec>,
        I::IntoIter: Send + 'static,
    {
        DispatchMany::new(self.nodes.clone(), jobs, false)
    }

    /// As [`Node::ticket`](crate::Node::ticket).
    ///
    /// # Errors
    /// The key or the id is not valid.
    pub fn ticket<K>(&self, key: K, id: &str) -> Result<Ticket, IdError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.nodes[0].ticket(key, id)
    }

    /// As [`Node::wait`](crate::Node::wait), on any node of the pool.
    ///
    /// # Errors
    /// As `Node::wait`.
    pub fn wait(&self, ticket: &Ticket) -> Wait {
        self.node_of(&ticket.key).wait(ticket)
    }

    /// As [`Node::cancel`](crate::Node::cancel).
    ///
    /// # Errors
    /// As `Node::cancel`.
    ///
    /// # Cancel safety
    /// As `Node::cancel`.
    pub async fn cancel(&self, ticket: &Ticket) -> Result<(), Error> {
        self.node_of(&ticket.key).cancel(ticket).await
    }

    /// As [`Node::notify`](crate::Node::notify).
    ///
    /// # Errors
    /// As `Node::notify`.
    ///
    /// # Cancel safety
    /// As `Node::notify`.
    pub async fn notify<K>(&self, key: K, body: impl Into<Bytes>) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.node_of(&key).notify(&key, body).await
    }

    /// As [`Node::stop_job`](crate::Node::stop_job).
    ///
    /// # Errors
    /// As `Node::stop_job`.
    pub fn stop_job<K>(&self, key: K) -> StopJob
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into);
        node_of(&self.nodes, key.as_ref().ok()).stop_key(key)
    }

    /// As [`Node::unpark`](crate::Node::unpark).
    ///
    /// # Errors
    /// As `Node::unpark`.
    ///
    /// # Cancel safety
    /// As `Node::unpark`.
    pub async fn unpark<K>(&self, key: K) -> Result<(), Error>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        self.node_of(&key).unpark(&key).await
    }

    /// As [`Node::unpark_all`](crate::Node::unpark_all), one shard after the other.
    ///
    /// # Errors
    /// As `Node::unpark_all`.
    ///
    /// # Cancel safety
    /// As `Node::unpark_all`.
    pub async fn unpark_all(&self) -> Result<Unparked, Error> {
        self.unpark_where(|_| true).await
    }

    /// As [`Node::unpark_where`](crate::Node::unpark_where), one shard after the other.
    ///
    /// # Errors
    /// As `Node::unpark_where`.
    ///
    /// # Cancel safety
    /// As `Node::unpark_where`.
    pub async fn unpark_where(
        &self,
        mut which: impl FnMut(&ParkedJob) -> bool + Send,
    ) -> Result<Unparked, Error> {
        let mut unparked = Unparked::default();
        for node in &*self.nodes {
            let Unparked { jobs, more } = node.unpark_where(&mut which).await?;
            unparked.jobs += jobs;
            unparked.more |= more;
        }
        Ok(unparked)
    }
}
