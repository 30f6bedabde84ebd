//! Jobs taken by hand: the program that runs a job says that the run lives, and ends the job.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::add::moment;
use super::jobs::Jobs;
use crate::core::effect::Heard;
use crate::core::input::Input;
use crate::core::subscribers::Topic;
use crate::data;
use crate::error::Error;
use crate::model::id::{Incarnation, JobId, QueueName, Token};
use crate::model::record::Record;
use crate::runtime::attesting::Told;
use crate::runtime::link::In;
use crate::store::{
    AttestJobs, Attesting, Data, Settle, SettleJobs, SettleReply, Settling, TakeJobs, TakeReply, TakenJob,
    Taking,
};

/// Which job to accept, and how long to wait for one.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Accept {
    timeout: Option<Duration>,
    until: Option<SystemTime>,
}

impl Accept {
    /// Any job that is due, for as long as it takes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits no longer than this. With zero the answer comes at once.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Only jobs that were scheduled for this time or before. A job without a time is scheduled for the moment of its add.
    /// While acceptors without this limit wait too, they are woken first.
    pub fn due_until(mut self, time: SystemTime) -> Self {
        self.until = Some(time);
        self
    }
}

pub(super) async fn accept(jobs: &Jobs, queue: QueueName, wish: Accept) -> Result<Option<Accepted>, Error> {
    let (reply, answer) = oneshot::channel();
    jobs.shared.thread.spawn(seek(jobs.clone(), queue, wish, reply));
    let held = answer.await.map_err(|_| Error::Closed)??;
    Ok(held.and_then(Held::keep))
}

/// A job that was taken for a caller. It is given back when nobody gets it.
struct Held {
    jobs: Jobs,
    job: Option<(TakenJob, Incarnation)>,
}

impl Held {
    fn keep(mut self) -> Option<Accepted> {
        let (taken, inc) = self.job.take()?;
        Some(Accepted::new(self.jobs.clone(), taken, inc))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some((taken, _)) = self.job.take() {
            self.jobs.shared.thread.spawn(give_back(self.jobs.clone(), taken));
        }
    }
}

async fn give_back(jobs: Jobs, taken: TakenJob) {
    let said = vec![Settling::new(taken.id.clone(), taken.record.token, Settle::GiveBack)];
    if let Err(error) = jobs.call_once(&jobs.shared.own, |lane| SettleJobs(lane, said)).await {
        tracing::warn!(job = %taken.id, error = &error as &dyn std::error::Error, "a job that nobody has was not given back");
    }
}

/// Takes a job for a caller, on the engine thread: a caller that goes leaves no registration and no job behind.
async fn seek(
    jobs: Jobs,
    queue: QueueName,
    wish: Accept,
    mut reply: oneshot::Sender<Result<Option<Held>, Error>>,
) {
    let (number, mut heard) = jobs.subscribe(Topic::Ready(queue.clone(), None));
    let taken = wait(&jobs, &queue, wish, &mut heard, &mut reply).await;
    jobs.tell(Input::Unsubscribe(number), None);
    let held = taken.map(|taken| taken.map(|job| Held { jobs, job: Some(job) }));
    // Nobody may wait for it any more: then it is dropped here.
    let _ = reply.send(held);
}

async fn wait(
    jobs: &Jobs,
    queue: &QueueName,
    wish: Accept,
    heard: &mut mpsc::UnboundedReceiver<Heard>,
    caller: &mut oneshot::Sender<Result<Option<Held>, Error>>,
) -> Result<Option<(TakenJob, Incarnation)>, Error> {
    let end = wish.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let at_once = wish.timeout == Some(Duration::ZERO);
    let mut taking = Taking::new(jobs.node().clone(), queue.clone(), 1);
    taking.until = wish.until.map(moment).transpose()?;
    taking.slots = u32::from(!at_once);
    loop {
        // This take is the answer to all that was heard before.
        while heard.try_recv().is_ok() {}
        let take = |lane| In(TakeJobs(lane, taking.clone()));
        let (inc, reply) = jobs.call_once(&jobs.shared.own, take).await?;
        let mut pause = None;
        match reply {
            TakeReply::Taken { jobs: mut taken, registration, .. } => {
                taking.registration = registration;
                if let Some(taken) = taken.pop() {
                    jobs.shared.own.see(taken.record.token);
                    return Ok(Some((taken, inc)));
                }
            }
            TakeReply::Hold(ms) => pause = Some(Duration::from_millis(ms)),
        }
        if taking.want == 0 || at_once {
            return Ok(None);
        }
        let late = async {
            match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        let again = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => drop(heard.recv().await),
            }
        };
        tokio::select! {
            () = again => {}
            () = jobs.shared.own.closed().cancelled() => return Err(Error::Closed),
            // The registration is taken back: a wake-up would be lost with this caller. One that has come is passed on.
            () = late => (taking.want, taking.slots) = (0, 0),
            () = caller.closed() => (taking.want, taking.slots) = (0, 0),
        }
    }
}

/// A job that its caller runs, from [`QueueHandle::accept`](crate::QueueHandle::accept). Say with
/// [`update`](Self::update) that the run lives, well before the lease of the queue ends.
///
/// Nothing renews the lease of an accepted job by itself, and dropping the job ends nothing: the job runs again after the
/// lease. [`give_back`](Self::give_back) lets others run it at once.
pub struct Accepted {
    jobs: Jobs,
    id: JobId,
    record: Record,
    body: Bytes,
    /// Those of a worker of before, which stay.
    notes: Bytes,
    again: bool,
    /// The incarnation whose data know it.
    known_in: Arc<AtomicU64>,
}

impl Accepted {
    fn new(jobs: Jobs, taken: TakenJob, inc: Incarnation) -> Self {
        let TakenJob { id, record, body, notes, .. } = taken;
        Self { jobs, id, record, body, notes, again: false, known_in: Arc::new(AtomicU64::new(inc.0)) }
    }

    /// Its id.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// The fencing token of this run, higher than that of any run before. Send it along with each write to the world
    /// outside.
    pub fn token(&self) -> Token {
        self.record.token
    }

    /// Whether the job runs once more after this run, as of the last update: somebody has added it again.
    pub fn is_resubmitted(&self) -> bool {
        self.again
    }

    /// Its data, as this run knows them.
    ///
    /// # Errors
    /// [`Error::Decode`].
    pub fn data<D: DeserializeOwned>(&self) -> Result<D, Error> {
        data::decode(&self.body)
    }

    async fn say(&self, settle: Settle) -> Result<SettleReply, Error> {
        // Data that were lost learn of it first. A finished job is not made again.
        let body = settle.needs_its_job().then(|| self.body.clone());
        let own = Attesting::new(self.id.clone(), self.record.clone(), body);
        let executions = AttestJobs(vec![own.with_notes(self.notes.clone())]);
        let said = vec![Settling::new(self.id.clone(), self.record.token, settle)];
        let known_in = self.known_in.clone();
        let step = |lane| Told { known_in, executions, ends: SettleJobs(lane, said) };
        let replies = self.jobs.call_once(&self.jobs.shared.link, step).await?;
        match replies.into_iter().next() {
            Some(SettleReply::Halt | SettleReply::Bad) | None => Err(Error::Halted(self.id.clone())),
            Some(reply) => Ok(reply),
        }
    }

    /// Says that the run lives, and replaces the data of the job. True when somebody has added the job again
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::Halted`]: end the work. Data that cannot be encoded change nothing. [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was said; do it again.
    pub async fn update<D: Serialize + ?Sized>(&mut self, data: Option<&D>) -> Result<bool, Error> {
        let body = data.map(data::encode).transpose()?;
        let kept = body.clone().map_or(Data::Keep, Data::Replace);
        self.again = self.say(Settle::GoOn(kept)).await? == SettleReply::Asked;
        self.body = body.unwrap_or_else(|| self.body.clone());
        Ok(self.again)
    }

    /// Ends the job well, with these data in place of the former ones, also a job of a flow. A job that was added again
    /// waits once more, for its time. A call that has failed may be made again.
    ///
    /// # Errors
    /// [`Error::Halted`]: nothing was written, or an earlier call has ended the job. Data that cannot be encoded change
    /// nothing. [`Error::Store`] leaves open whether it was ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was ended; do it again.
    pub async fn finish<D: Serialize + ?Sized>(&mut self, data: Option<&D>) -> Result<(), Error> {
        let body = data.map(data::encode).transpose()?;
        let end = Settle::Done(Bytes::new(), body.map_or(Data::Keep, Data::Replace));
        self.say(end).await.map(drop)
    }

    /// Marks the job to run again at this time, or at once, when this run has finished. The call also says that the run
    /// lives. A job that somebody has cancelled is not marked.
    ///
    /// # Errors
    /// [`Error::Halted`]: nothing was written. [`Error::Setting`] and [`Error::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether it was marked; do it again.
    pub async fn resubmit(&mut self, at: Option<SystemTime>) -> Result<(), Error> {
        let due = at.map(moment).transpose()?.map_or(0, |ms| ms.max(1));
        self.again = self.say(Settle::Resubmit(due)).await? == SettleReply::Asked;
        Ok(())
    }

    /// Gives the job back: it may run at once, here or elsewhere, and this attempt does not count.
    ///
    /// # Errors
    /// [`Error::Halted`]: nothing was written. [`Error::Store`] leaves open whether the job was given back.
    ///
    /// # Cancel safety
    /// Dropping the future leaves open whether the job was given back: it runs again after its lease at the latest.
    pub async fn give_back(self) -> Result<(), Error> {
        self.say(Settle::GiveBack).await.map(drop)
    }
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted")
            .field("id", &self.id)
            .field("token", &self.record.token)
            .finish_non_exhaustive()
    }
}
