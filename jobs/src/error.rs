//! The reasons why something could not be done.

use std::sync::Arc;

use crate::model::id::{InvalidName, JobId, QueueName};
use crate::store::StoreError;

/// Any error of a handler.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An operation on jobs that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name, an id or an attribute is none. Nothing was sent.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The id has two dots in a row, like the id of a child: only a parent adds children. Nothing was sent.
    #[error("the id {0} has the form of a child's, <parent>..<name>, nothing was sent")]
    ChildsId(JobId),
    /// A setting is unusable. Nothing was sent.
    #[error("{0}, nothing was sent")]
    Setting(&'static str),
    /// The data cannot be encoded, or nest more than 64 levels. Nothing was sent.
    #[error("the data cannot be encoded, nothing was sent")]
    Encode(#[source] Arc<rmp_serde::encode::Error>),
    /// The data, or the result, are not of that type, or nest more than 64 levels. They stay as they are.
    #[error("the data of the job are of another type")]
    Decode(#[source] Arc<rmp_serde::decode::Error>),
    /// The data are too large. Nothing was sent.
    #[error("a job has at most {max} bytes of data, not {len}, nothing was sent")]
    TooLarge {
        /// Their length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// The queue was never declared, or takes no jobs. Nothing was added.
    #[error("there is no queue {0}, nothing was added")]
    NoQueue(QueueName),
    /// The queue is pinned, and a job without a group has no owner. Nothing was added.
    #[error("a job of the pinned queue {0} needs a group, nothing was added")]
    NoGroup(QueueName),
    /// The queue is pinned: one job of a group runs at a time. Nothing was changed.
    #[error("the queue {0} is pinned and runs one job of a group at a time, nothing was changed")]
    Pinned(QueueName),
    /// The queue has no room. Nothing was added.
    #[error("the queue {0} is full, nothing was added")]
    Full(QueueName),
    /// The queue is there without groups, with groups, or pinned, and was declared as another kind. It stays as it was.
    #[error("the queue {0} stays as it is: without groups, with groups or pinned is decided once")]
    Groups(QueueName),
    /// The flow names the queue twice: nobody could tell which of its stages follows. Nothing was sent.
    #[error("the flow {flow} names the queue {queue} twice, nothing was sent")]
    SameStage {
        /// The flow.
        flow: String,
        /// The queue.
        queue: QueueName,
    },
    /// The queue is no stage of the job's flow, and its handler named no other one. The job has failed for good.
    #[error("the flow {flow} has no stage {queue}, and nothing else names the next queue")]
    NoStage {
        /// The flow.
        flow: String,
        /// The queue.
        queue: QueueName,
    },
    /// The parent has ended, takes no children, or is not run by this execution any more. Nothing was added.
    #[error("the parent of {0} takes no children, nothing was added")]
    NoParent(JobId),
    /// A cron cannot be planned. Nothing was written for it.
    #[error("the cron {name} cannot be planned: {reason}; nothing was written")]
    Cron {
        /// Its name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// There is no such job.
    #[error("there is no job {0}")]
    NotFound(JobId),
    /// The record of the job cannot be read.
    #[error("the record of {0} is damaged, nothing was changed")]
    Damaged(JobId),
    /// The execution is over: the job was removed, lost its lease, or runs elsewhere by now. Nothing was written.
    #[error("this execution of {0} is over, nothing was written")]
    Halted(JobId),
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
    /// The store did not do the step.
    #[error("the store did not do it")]
    Store(#[from] StoreError),
}

/// An error of a handler that no other attempt mends: the job fails for good.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(#[source] BoxError);

impl Fatal {
    /// Wraps an error.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self(error.into())
    }
}
