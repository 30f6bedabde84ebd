//! A handler's view of its job, and its means to act on it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::add::Add;
use super::jobs::Jobs;
use super::notes::Notes;
use super::view::ChildEnd;
use crate::data;
use crate::error::Error;
use crate::model::id::{JobId, QueueName, Token};
use crate::model::record::Record;
use crate::runtime::attesting::Behind;
use crate::runtime::handle::Handle;
#[cfg(feature = "cron")]
use crate::store::Data;
use crate::store::{Settle, SettleJobs, SettleReply, Settling};

/// An execution of a job. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    shared: Arc<Shared>,
}

struct Shared {
    jobs: Jobs,
    execution: Arc<Handle>,
    /// Saves one thing at a time.
    saving: tokio::sync::Mutex<()>,
}

/// How a running job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alive {
    /// Somebody has added the job again: it runs once more after this run.
    pub again: bool,
    /// Somebody wants it to be cancelled.
    pub cancel: bool,
}

impl Ctx {
    pub(crate) fn new(jobs: Jobs, execution: Arc<Handle>) -> Self {
        Self { shared: Arc::new(Shared { jobs, execution, saving: tokio::sync::Mutex::new(()) }) }
    }

    pub(super) fn execution(&self) -> &Handle {
        &self.shared.execution
    }

    fn record(&self) -> &Record {
        &self.shared.execution.record
    }

    /// The id of the job.
    pub fn id(&self) -> &JobId {
        &self.shared.execution.id
    }

    /// The fencing token of this execution: higher than that of any earlier one. Send it along with each write to the
    /// world outside, and let that refuse lower ones.
    pub fn token(&self) -> Token {
        self.shared.execution.token
    }

    /// The number of this attempt in this queue, from 1.
    pub fn attempt(&self) -> u32 {
        self.record().attempts
    }

    /// The queue.
    pub fn queue(&self) -> &QueueName {
        &self.record().queue
    }

    /// The group, in a queue with groups.
    pub fn group(&self) -> Option<&str> {
        Some(&*self.record().group).filter(|group| !group.is_empty())
    }

    /// The name of the flow, for a job of one.
    pub fn flow(&self) -> Option<&str> {
        Some(&*self.record().flow).filter(|flow| !flow.is_empty())
    }

    /// The id of the work that the job belongs to, as its adder or its parent has given it.
    pub fn correlation_id(&self) -> Option<&str> {
        Some(&*self.record().correlation).filter(|id| !id.is_empty())
    }

    /// The priority.
    pub fn priority(&self) -> i8 {
        self.record().priority
    }

    /// When the job was made, by the store's clock.
    pub fn created_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.record().created_ms())
    }

    /// The time that it was scheduled for, if there was one.
    pub fn due_at(&self) -> Option<SystemTime> {
        let due = self.record().due;
        (due > 0).then(|| UNIX_EPOCH + Duration::from_millis(due))
    }

    /// Says that the handler makes progress. Needed in queues with [`Queue::heartbeat`](crate::Queue::heartbeat) only.
    pub fn heartbeat(&self) {
        self.shared.execution.beat();
    }

    /// Whether the handler should end: somebody cancels the job, its time is over, or its lease is in danger.
    pub fn is_cancelled(&self) -> bool {
        self.shared.execution.cancel.is_cancelled()
    }

    /// Waits until the handler should end. Half a second later it may be aborted.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn cancelled(&self) {
        self.shared.execution.cancel.cancelled().await;
    }

    /// Fires when the handler should end.
    pub fn cancellation(&self) -> CancellationToken {
        self.shared.execution.cancel.child_token()
    }

    /// The data of the job: the fields that the type declares.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<S: DeserializeOwned>(&self) -> Result<S, Error> {
        data::decode(&self.body())
    }

    pub(crate) fn body(&self) -> Bytes {
        self.shared.execution.body()
    }

    /// Keeps a value of any type beside the job's data, and renews the lease. The next attempt reads the last
    /// checkpoint with [`checkpointed`](Self::checkpointed) and goes on from that place. Watchers and readers of the
    /// job see it. The data of the job stay the same.
    ///
    /// A checkpoint stays through failed attempts, waits for children, and a replay. The store forgets the checkpoint
    /// when the job moves on, to another queue or the same, when an add gives the job other data, and when an add or
    /// [`Accepted::resubmit`](crate::Accepted::resubmit) begins another life of the job. Checkpoint and progress together have at most 512 KiB.
    ///
    /// # Errors
    /// [`Error::Halted`] when the execution is over: the handler must end. [`Error::Encode`], [`Error::TooLarge`] and
    /// [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was kept.
    pub async fn checkpoint<S: Serialize + ?Sized + Sync>(&self, checkpoint: &S) -> Result<Alive, Error> {
        let _alone = self.shared.saving.lock().await;
        self.note(self.notes().unwrap_or_default().with_checkpoint(checkpoint)?).await
    }

    /// Tells watchers and readers of the job how far the job is, by a value of any type. Progress stays for as long as
    /// a [`checkpoint`](Self::checkpoint), and neither replaces the other.
    ///
    /// # Errors
    /// As for [`checkpoint`](Self::checkpoint). [`Error::Decode`] when the former notes cannot be read: the next
    /// checkpoint replaces damaged notes.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was kept.
    pub async fn progress<P: Serialize + ?Sized + Sync>(&self, progress: &P) -> Result<Alive, Error> {
        let _alone = self.shared.saving.lock().await;
        self.note(self.notes()?.with_progress(progress)?).await
    }

    /// The last checkpoint of all attempts in this queue; `None` before the first.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn checkpointed<S: DeserializeOwned>(&self) -> Result<Option<S>, Error> {
        self.notes()?.checkpoint()
    }

    /// The last progress of all attempts in this queue; `None` before the first.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn progressed<P: DeserializeOwned>(&self) -> Result<Option<P>, Error> {
        self.notes()?.progress()
    }

    fn notes(&self) -> Result<Notes, Error> {
        Notes::read(&self.shared.execution.notes())
    }

    async fn note(&self, notes: Notes) -> Result<Alive, Error> {
        self.go_on(Settle::Note(notes.bytes()?)).await
    }

    /// Replaces the data of the job.
    #[cfg(feature = "cron")]
    pub(crate) async fn replace<D: Serialize + Sync>(&self, data: &D) -> Result<Alive, Error> {
        let _alone = self.shared.saving.lock().await;
        self.go_on(Settle::GoOn(Data::Replace(data::encode(data)?))).await
    }

    /// Says that the execution goes on, with notes or data to keep.
    async fn go_on(&self, settle: Settle) -> Result<Alive, Error> {
        let (jobs, execution) = (&self.shared.jobs, &self.shared.execution);
        // The answer of the store may be lost: the next word must not take the notes back.
        execution.keep(&settle);
        let going = vec![Settling::new(execution.id.clone(), execution.token, settle)];
        let step = |lane| Behind::running([execution.clone()], SettleJobs(lane, going));
        let replies = jobs.call_once(&jobs.shared.link, step).await?;
        let reply = replies.into_iter().next().unwrap_or(SettleReply::Halt);
        if matches!(reply, SettleReply::Halt | SettleReply::Bad) {
            execution.halted();
            return Err(Error::Halted(execution.id.clone()));
        }
        execution.beat();
        Ok(Alive { again: reply == SettleReply::Asked, cancel: reply == SettleReply::ToCancel })
    }

    /// A child of the job, under the id `<id>..<name>`; the `await` adds the child. A job that runs again makes no
    /// child twice. [`Outcome::wait`](crate::Outcome::wait) waits for the children.
    pub fn spawn<C: Serialize + ?Sized>(&self, queue: &str, name: &str, payload: &C) -> Add<'_> {
        let (jobs, parent) = (&self.shared.jobs, self.id());
        let id = parent.child(name);
        Add::new(jobs, queue, data::encode(payload)).child_of(&self.shared.execution).named(id)
    }

    /// The ends of this job's children, as far as they have ended. `None` when it had no child before this run, and has
    /// not waited either.
    ///
    /// A run may be cut off when it has made some of its children. So count the ends, and spawn all children again when some
    /// are missing: none is made twice. Count the names of the children, not what they are made of: two of one name are one
    /// child. Of many children, or such with long results, the ends come by several calls.
    ///
    /// # Errors
    /// [`Error::Halted`] when the job is gone, and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn children(&self) -> Result<Option<Vec<ChildEnd>>, Error> {
        if !self.record().has('c') {
            return Ok(None);
        }
        let view = self.shared.jobs.own(&self.shared.execution).await?;
        let view = view.ok_or_else(|| Error::Halted(self.id().clone()))?;
        Ok(Some(view.into_children()))
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx").field("id", self.id()).field("token", &self.token()).finish_non_exhaustive()
    }
}
