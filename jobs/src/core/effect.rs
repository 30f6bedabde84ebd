//! Everything that the engine may do to the world: the specification of the shell.

use std::sync::Arc;
use std::time::Duration;

use super::execution::{End, Execution, Key};
use super::input::{Kept, Number};
use crate::error::Error;
use crate::model::id::JobId;
use crate::store::{Attesting, Lane, News, SettleReply, Settling, Taking};

/// Something that happened to watched jobs.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    News(News),
    /// News may have been missed.
    Gap,
}

/// One thing to do. Effects of one step are performed in order; calls run concurrently.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Call the store; the answer comes back as a [`Done`](super::input::Done).
    Call(Call),
    /// Keep an execution until it is forgotten, and run the handler of this worker, if there is one.
    Begin(Option<Number>, Arc<Execution>, Kept),
    /// Tell the handler that it should end.
    Cancel(Key),
    /// Abort the handler; an input reports its end.
    Abort(Key),
    /// Report when the handler has last said that it makes progress.
    Look(Key),
    /// The handler is gone, and the store knows what there was to know: nothing is kept any longer.
    Forget(Key),
    /// The store has answered an end, so long after the begin.
    Ended(Arc<Execution>, SettleReply, Duration),
    /// Nothing runs any more: answer all who drain the worker.
    Drained(Number),
    /// Answer who has asked first: so many jobs were given back.
    GivenBack(Number, usize),
    /// The worker takes no more by itself: another owner takes, or its node or its runtime is gone.
    Over(Number),
    /// The worker has ended.
    Gone(Number),
    /// Wake who waits for a job.
    Wake(Number),
    /// Say which call tells the store that this watcher watches.
    Watches(Number, u64),
    /// Tell a watcher.
    Tell(Number, Heard),
    /// Do what is due now.
    Tick,
    /// Tell the operator.
    Report(Notice),
}

/// A call to the store.
#[derive(Debug)]
pub(crate) enum Call {
    /// Say ends and take jobs, in one round trip. The data are told of executions that they do not know before.
    Work { worker: Number, ends: Option<(Lane, Arc<[End]>)>, take: Option<(Lane, Taking)> },
    /// Say ends once more, behind these executions.
    Repeat { worker: Number, lane: Lane, executions: Vec<Attesting>, ends: Vec<Settling> },
    /// Renew leases, behind executions that the data do not know.
    Renew(Vec<Key>),
    /// Watch jobs as before, by a call of this number.
    WatchAgain(u64, Vec<JobId>),
    /// Watch a job no more, by a call of this number. No answer comes back.
    Unwatch(u64, JobId),
}

/// The news for an operator.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The lease was not renewed for too long.
    LeaseLost(Key),
    /// Leases were not renewed, they will be.
    NotRenewed(Error),
    /// The runtime of a worker is gone: the worker takes no more jobs.
    Stranded,
    /// Ends that the data may have forgotten were not said again.
    NotRepeated(Error),
    /// So many ends were not said. They are said again, or their jobs run again when the leases end.
    NotSaid { jobs: usize, again: bool, error: Error },
    /// The job cannot go on as its handler says. The job fails.
    CannotGoOn(Key),
    /// The job waits again, and no child is open or has ended: an attempt has failed.
    WaitsForNothing(Key),
    /// The right to a group is over: a later owner takes its jobs, or may do so.
    RightOver,
    /// No jobs could be taken.
    NotTaken(Error),
    /// The store refuses to send messages, again or for the first time.
    Unheard { why: String, again: bool },
    /// The store sends messages again.
    HeardAgain,
}
