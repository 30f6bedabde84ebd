//! Everything that may happen to a node.

use bytes::Bytes;

use super::Time;
use super::execution::Key;
use crate::error::Error;
use crate::model::id::{GroupName, Incarnation, JobId, QueueName};
use crate::store::{Extended, Hint, Settle, SettleReply, TakeReply};

/// A worker, a watcher or a caller that waits for a job, by its number on the node.
pub(crate) type Number = u64;

/// The settings of a worker.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) queues: Vec<QueueName>,
    pub(crate) slots: u32,
    pub(crate) owner: Option<Owner>,
}

/// The right to the jobs of one group of a pinned queue.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) queue: QueueName,
    pub(crate) group: GroupName,
    /// Higher than that of any owner before.
    pub(crate) token: u64,
}

/// What a handler has come to.
#[derive(Debug)]
pub(crate) enum HandlerEvent {
    /// It has come to this end.
    Ended(Settle),
    /// It is gone, after somebody has aborted it.
    Gone,
    /// It was dropped with its runtime.
    Stranded,
}

/// One thing that has happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A worker begins to work.
    Worker(Number, Plan),
    /// The worker takes no more, and says when nothing runs any more.
    Drain(Number),
    /// The worker takes no more, ends its handlers and gives their jobs back.
    GiveBack(Number),
    /// Nobody has the worker any more: it ends with what runs.
    Unowned(Number),
    /// A handler is gone.
    Handler(Key, HandlerEvent),
    /// When a handler has last said that it makes progress, for [`Effect::Look`](super::effect::Effect::Look).
    Beat(Key, Time),
    /// The store says that the execution is another's by now.
    Halted(Key),
    /// A message of the store.
    Hint(Hint),
    /// The node follows another incarnation.
    Follows(Incarnation),
    /// Somebody watches a job.
    Watch(Number, JobId),
    /// Somebody waits for a job of a queue.
    Seek(Number, QueueName),
    /// Nobody waits or watches any more.
    Unsubscribe(Number),
    /// A call has come back.
    Done(Done),
}

/// A call that has come back.
#[derive(Debug)]
pub(crate) enum Done {
    /// Of a worker: ends that were said, and jobs that were taken, each if it was asked.
    Worked {
        worker: Number,
        settled: Option<Result<(Incarnation, Vec<SettleReply>), Error>>,
        taken: Option<Result<(Incarnation, TakeReply), Error>>,
    },
    /// Ends were told once more.
    Repeated(Number, Result<(), Error>),
    /// Leases were renewed.
    Renewed(Result<Extended, Error>),
    /// Jobs are watched again, or are not.
    WatchedAgain(bool),
}

/// What is kept beside an execution, for the data and for its handler.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) body: Bytes,
    pub(crate) notes: Bytes,
    /// The incarnation whose data know the execution.
    pub(crate) known_in: Incarnation,
}
