//! Dispatches of single jobs.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};

use super::calls::{MARGIN, PATIENCE};
use super::{Node, Shard};
use crate::clock;
use crate::core::input::{Answer, Command, Until};
use crate::core::time::Time;
use crate::error::{DispatchError, Error};
use crate::job::spec::JobSpec;
use crate::model::id::{DispatchId, IdError, JobKey};
use crate::model::policy::RestartPolicy;
use crate::model::record::{JobState, Record};
use crate::model::ticket::Ticket;
use crate::model::trace::TraceContext;
use crate::store::{LookUp, StoreError};

pub(super) type Result<T> = std::result::Result<T, DispatchError>;

impl Node {
    /// Dispatches a job, given as `(key, payload)` or as a [`JobSpec`]. Awaited, it returns when the job's worker has
    /// started it. An [id](Dispatch::id) that the caller gives belongs to the shard of the key. The same id for a key
    /// of another shard is a different id, and no conflict.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::DispatchError> {
    /// use tenure_pool::JobSpec;
    ///
    /// node.dispatch(("acme", "payload")).await?;
    /// node.dispatch(JobSpec::new("zenith", "payload")).id("order-17").deadline(Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - The key or id is not valid, or the payload is too long or cannot be encoded. Nothing was written.
    /// - A job with this key exists.
    /// - The pool is full or shutting down.
    /// - The start handler failed.
    /// - There is no answer by the deadline. A job that was accepted stays accepted.
    pub fn dispatch(&self, job: impl Into<JobSpec>) -> Dispatch {
        Dispatch::new(self, job.into(), How::new(true))
    }

    /// Like [`dispatch`](Self::dispatch), but succeeds if a job with this key already runs or waits to run, whatever
    /// its payload. If that job is being stopped, the call waits for its end, within the deadline, and then
    /// dispatches this one. The answer says whether the call has started its job.
    ///
    /// # Errors
    /// As `dispatch`, except `JobExists`. [`DispatchError::Parked`] also if an earlier job of the key is parked:
    /// [`unpark`](crate::Operator::unpark) or stop it. [`DispatchError::Paused`] likewise:
    /// [`resume`](crate::Operator::resume) it.
    pub fn ensure(&self, job: impl Into<JobSpec>) -> Dispatch<Ensured> {
        Dispatch::new(self, job.into(), How { ensure: true, ..How::new(true) })
    }

    /// Submits a job. Awaited, it returns as soon as the pool has accepted the job: the job will run even if this
    /// node dies. Use the ticket to [`wait`](Self::wait) for the start.
    ///
    /// # Errors
    /// - The key or id is not valid, or the payload is too long. Nothing was written.
    /// - A job with this key exists.
    /// - The pool is full or shutting down.
    /// - There is no answer by the deadline.
    pub fn submit(&self, job: impl Into<JobSpec>) -> Dispatch<Ticket> {
        Dispatch::new(self, job.into(), How::new(false))
    }

    /// The ticket to [`wait`](Self::wait) for a dispatch that was made with the caller's own id, on any node.
    ///
    /// # Errors
    /// The key or the id is not valid.
    pub fn ticket<K>(&self, key: K, id: &str) -> std::result::Result<Ticket, IdError>
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into)?;
        Ok(Ticket { key, id: DispatchId::of_caller(&self.shards[0].shared.name, id)? })
    }
}

impl Shard {
    /// Whether the live job of the key runs or will run. Waits until a job that is being stopped is gone.
    async fn is_to_run(&self, ticket: &Ticket, deadline: Time) -> Result<bool> {
        let late = || DispatchError::late(ticket.clone());
        let left = deadline.since(clock::now());
        let look = LookUp { items: vec![(ticket.key.clone(), None)] };
        let found = match tokio::time::timeout(left, self.shared.store.0.read(&look)).await {
            Ok(Ok(found)) => found.into_iter().next().unwrap_or_default(),
            Ok(Err(error @ (StoreError::Unusable(_) | StoreError::Damaged(_)))) => return Err(error.into()),
            // The dispatch uses the same store, and waits until it works again.
            Ok(Err(_)) => return Ok(false),
            Err(_) => return Err(late()),
        };
        match found.record {
            Some(record) if record.is_paused() => Err(DispatchError::Paused),
            Some(Record { state: JobState::Parked, .. }) => Err(DispatchError::Parked),
            Some(Record { state: JobState::Stopping, id, .. }) => {
                let (key, id, until) = (ticket.key.clone(), Some(id), Until::Gone);
                let stop = |reply| Command::StopJob { reply, key, id, until, deadline };
                match self.request(left, stop).await {
                    Err(Error::Deadline { .. } | Error::StillStopping { .. }) => Err(late()),
                    Err(Error::NodeClosed | Error::NodeFailed(_)) => Err(self.gone().await.into()),
                    // The dispatch itself reports any other trouble.
                    Ok(()) | Err(_) => Ok(false),
                }
            }
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }
}

/// The answer of [`Node::ensure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Ensured {
    /// The key had no job: the job of this call has been started, by this call or an earlier one with the same
    /// [id](Dispatch::id).
    Started,
    /// The key has a job that runs or will run. Nothing was changed.
    Found,
}

/// A dispatch, made by [`Node::dispatch`], [`Node::ensure`], [`Node::submit`] and their variants. Await it:
/// `Dispatch` and `Dispatch<Ensured>` return when the job has been started, `Dispatch<Ticket>` as soon as the pool has
/// accepted it.
///
/// # Cancel safety
/// After a dropped future it is not known whether the job was accepted. With the caller's own [`id`](Self::id),
/// repeat the same dispatch to find out.
#[derive(Clone, Debug)]
#[must_use = "nothing is dispatched until it is awaited"]
pub struct Dispatch<T = ()> {
    shard: Shard,
    job: JobSpec,
    how: How,
    answer: PhantomData<fn() -> T>,
}

/// The options of a dispatch, whatever the job.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Wait until the job has been started.
    pub(super) started: bool,
    /// Succeed if the key already has a live job.
    pub(super) ensure: bool,
    pub(super) patience: Duration,
    /// End the dispatch at its deadline.
    pub(super) cancel: bool,
}

impl How {
    pub(super) fn new(started: bool) -> Self {
        Self { started, ensure: false, patience: PATIENCE, cancel: false }
    }
}

impl<T> Dispatch<T> {
    pub(super) fn new(node: &Node, job: JobSpec, how: How) -> Self {
        Self::of_shard(node.of(job.key()).clone(), job, how)
    }

    pub(super) fn of_shard(shard: Shard, job: JobSpec, how: How) -> Self {
        Self { shard, job, how, answer: PhantomData }
    }

    /// See [`JobSpec::id`].
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { job: self.job.id(id), ..self }
    }

    /// See [`JobSpec::restart`].
    pub fn restart(self, policy: RestartPolicy) -> Self {
        Self { job: self.job.restart(policy), ..self }
    }

    /// See [`JobSpec::progress_timeout`].
    pub fn progress_timeout(self, timeout: Duration) -> Self {
        Self { job: self.job.progress_timeout(timeout), ..self }
    }

    /// See [`JobSpec::trace`].
    pub fn trace(self, trace: TraceContext) -> Self {
        Self { job: self.job.trace(trace), ..self }
    }

    /// How long to wait for the answer. The default is 20 s. At the deadline the answer is
    /// [`DispatchError::Deadline`], which has the ticket. A job that was accepted stays accepted. Where nothing else is known, the node
    /// then looks for the last attempt that failed: within a round trip, and within 2 s at most.
    ///
    /// The deadline may be longer than [`max_dispatch_deadline`](crate::Settings::max_dispatch_deadline). But a
    /// dispatch whose acceptance is still unknown after that time is given up. The answer is then `Deadline`, with
    /// `accepted` false.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { how: How { patience: deadline, ..self.how }, ..self }
    }

    /// Ends the dispatch at the deadline. The answer is then [`DispatchError::Cancelled`]. It ends only this
    /// dispatch, even if it is still on its way, and never another one of the key. If the store does not answer
    /// within 5 s more, the answer is [`DispatchError::Deadline`], and a job that was accepted stays accepted.
    pub fn cancel_on_deadline(self) -> Self {
        Self { how: How { cancel: true, ..self.how }, ..self }
    }

    pub(super) async fn send(self) -> Result<(Ticket, Ensured)> {
        let span = tracing::info_span!("dispatch", node = self.shard.name(), key = Empty, id = Empty);
        self.hand_in().instrument(span).await
    }

    async fn hand_in(self) -> Result<(Ticket, Ensured)> {
        let Self { shard, job, how, .. } = self;
        let max = shard.settings().payload_max as usize;
        let (ticket, item) = job.seal(&shard.shared.name, max)?;
        Span::current().record("key", display(&ticket.key)).record("id", display(&ticket.id));
        let How { started, ensure, patience, cancel } = how;
        let deadline = clock::now() + patience;
        loop {
            let item = item.clone();
            let call =
                shard.ask_about(&ticket.id, |reply| Command::Submit { reply, item, started, deadline });
            return match tokio::time::timeout(patience.saturating_add(MARGIN), call).await {
                Ok(Some(Answer::Submitted(Err(DispatchError::JobExists { .. })))) if ensure => {
                    if shard.is_to_run(&ticket, deadline).await? {
                        Ok((ticket, Ensured::Found))
                    } else {
                        continue;
                    }
                }
                Ok(Some(Answer::Submitted(Err(late @ DispatchError::Deadline { .. })))) if cancel => {
                    let late = shard.cancel_late(&ticket, late).await;
                    Err(shard.with_failure(&ticket, late).await)
                }
                Ok(Some(Answer::Submitted(result))) => {
                    let ticket = shard.named_dispatch(&ticket, result).await?;
                    Ok((ticket, Ensured::Started))
                }
                Ok(_) => Err(shard.gone().await.into()),
                Err(_) => Err(DispatchError::late(ticket)),
            };
        }
    }
}

impl IntoFuture for Dispatch<()> {
    type Output = Result<()>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.send().await.map(|_| ()) }.boxed()
    }
}

impl IntoFuture for Dispatch<Ensured> {
    type Output = Result<Ensured>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.send().await.map(|(_, found)| found) }.boxed()
    }
}

impl IntoFuture for Dispatch<Ticket> {
    type Output = Result<Ticket>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.send().await.map(|(ticket, _)| ticket) }.boxed()
    }
}
