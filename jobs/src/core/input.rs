//! Everything a node may hear of.

use bytes::Bytes;

use super::Time;
use super::execution::Key;
use super::subscribers::Topic;
use crate::error::Error;
use crate::model::id::{GroupName, Incarnation, QueueName};
use crate::store::{Extended, Hint, Settle, SettleReply, TakeReply};

/// A worker, a subscriber or a question, by its number on the node.
pub(crate) type Number = u64;

/// The settings of a worker.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) queues: Vec<QueueName>,
    pub(crate) slots: u32,
    /// The group whose jobs the worker takes alone, and a token above the tokens of all former owners.
    pub(crate) owner: Option<(GroupName, u64)>,
}

/// One event.
#[derive(Debug)]
pub(crate) enum Input {
    /// A worker begins to work.
    Worker(Number, Plan),
    /// The worker takes no more. Answer the question when nothing runs any more.
    Drain(Number, Number),
    /// The worker takes no more, ends its handlers and gives their jobs back. Answer the question with their number.
    GiveBack(Number, Number),
    /// Nobody has the worker any more: the worker ends with its last job.
    Unowned(Number),
    /// A handler is gone, with this end unless somebody has aborted the handler, and maybe with its runtime.
    Left(Key, Option<Settle>, bool),
    /// The last progress of a handler, for [`Effect::Look`](super::effect::Effect::Look).
    Beat(Key, Time),
    /// A message of the store.
    Hint(Hint),
    /// The node follows another incarnation.
    Follows(Incarnation),
    /// Somebody wants to be told.
    Subscribe(Number, Topic),
    /// Nobody wants to be told any more.
    Unsubscribe(Number),
    /// A call has come back.
    Done(Done),
}

/// A call that has come back.
#[derive(Debug)]
pub(crate) enum Done {
    /// Of a worker: the answers for its ends and for its wish, as far as the call had them.
    Worked {
        worker: Number,
        settled: Option<Result<(Incarnation, Vec<SettleReply>), Error>>,
        taken: Option<Result<(Incarnation, TakeReply), Error>>,
    },
    /// Leases were renewed.
    Renewed(Result<Extended, Error>),
    /// Jobs are watched again, or are not.
    WatchedAgain(bool),
}

/// The data beside an execution, for the store and for its handler.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) body: Bytes,
    pub(crate) notes: Bytes,
    /// The incarnation whose data know the execution.
    pub(crate) known_in: Incarnation,
}
