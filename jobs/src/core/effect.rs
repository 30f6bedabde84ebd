//! Everything the engine may do to the world: the specification of the shell.

use std::sync::Arc;
use std::time::Duration;

use super::execution::{End, Execution, Key};
use super::input::{Kept, Number};
use crate::error::Error;
use crate::model::id::JobId;
use crate::store::{Lane, News, SettleReply, Taking, Watching};

/// News for a subscriber.
#[derive(Clone, Debug)]
pub(crate) enum Heard {
    /// The number of the call that tells the store of the watcher.
    Watches(u64),
    News(News),
    /// News may have been missed.
    Gap,
    /// There may be jobs to take.
    Ready,
}

/// One thing to do. Effects of one step are performed in order; calls run concurrently.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Call the store; the answer comes back as a [`Done`](super::input::Done).
    Call(Call),
    /// Keep an execution until [`Forget`](Self::Forget), and run the handler of this worker, if there is one.
    Begin(Option<Number>, Arc<Execution>, Kept),
    /// Tell the handler that it should end.
    Cancel(Key),
    /// Abort the handler; an input reports its end.
    Abort(Key),
    /// Report the time of the last progress of the handler.
    Look(Key),
    /// The handler is gone, and the store knows the end, if there was an end: keep nothing any longer.
    Forget(Key),
    /// The store has answered an end, so long after the begin.
    Ended(Arc<Execution>, SettleReply, Duration),
    /// Answer a question: so many jobs were given back.
    Answer(Number, usize),
    /// The worker takes no more by itself: another owner takes, or its node or its runtime is gone.
    Over(Number),
    /// The worker has ended.
    Gone(Number),
    /// Tell a subscriber.
    Tell(Number, Heard),
    /// Do what is due now.
    Tick,
    /// Tell the operator.
    Report(Level, &'static str, About),
}

/// A call to the store.
#[derive(Debug)]
pub(crate) enum Call {
    /// Say ends and take jobs, in one round trip. Unknown executions are attested before. With `again` an attestation
    /// of all makes no job.
    Work { worker: Number, again: bool, ends: Option<(Lane, Arc<[End]>)>, take: Option<(Lane, Taking)> },
    /// Renew leases, behind an attestation of unknown executions.
    Renew(Vec<Key>),
    /// Watch jobs again, or no more, by a call of this number. Only the former comes back.
    Watch(Watching, u64, Vec<JobId>),
}

/// Whether the operator should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    /// A warning of lasting damage, which fills no log.
    Rarely,
}

/// The subject of a report.
#[derive(Debug)]
pub(crate) enum About {
    Node,
    Job(Key),
    Error(Error),
}
