//! What can go wrong, as callers branch on it.

use std::sync::Arc;
use std::time::Duration;

use crate::id::IdError;
use crate::settings::InvalidSetting;
use crate::store::StoreError;
use crate::ticket::Ticket;

/// Any error, boxed: what handlers return.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why a node could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name or key is not valid. Nothing was written.
    #[error("not a valid name, nothing was written")]
    Name(#[from] IdError),
    /// A setting is out of its range. Nothing was written.
    #[error("not a valid setting, nothing was written")]
    Setting(#[from] InvalidSetting),
    /// The pool runs with another value of a pool-wide setting than this node was given. Nothing was written.
    #[error("the pool runs with {name} = {theirs}, this node was given {ours}; nothing was written")]
    SettingMismatch {
        /// The setting's name, as in [`Settings`](crate::Settings) and the builders.
        name: String,
        /// The pool's value, with its unit.
        theirs: String,
        /// The value that this node was given.
        ours: String,
    },
    /// The pool was made with another number of shards, which it keeps for its life. Nothing was written.
    #[error("the pool has {theirs} shards, this node was given {ours}; nothing was written")]
    OtherShards {
        /// How many the pool has.
        theirs: u32,
        /// How many this node was given.
        ours: u32,
    },
    /// This setting cannot change while the pool lives: shut the pool down, and make it anew. Nothing was written.
    #[error("{name} cannot change while the pool lives; nothing was written")]
    FixedSetting {
        /// The setting's name, as in [`Settings`](crate::Settings).
        name: &'static str,
    },
    /// This setting may only grow while the pool lives. Nothing was written.
    #[error("{name} may only grow while the pool lives; nothing was written")]
    LoweredSetting {
        /// The setting's name, as in [`Settings`](crate::Settings).
        name: &'static str,
    },
    /// The pool's counter of tokens is used up or damaged: nobody can join, and no schedule can be made or taken. Nothing
    /// was written. What runs, runs on.
    #[error(
        "the pool has no tokens left (docs/protocol.md, section 3, says what to do); nothing was written"
    )]
    OutOfTokens,
    /// A notification or payload is too long. Nothing was written.
    #[error("{what} has {len} bytes, at most {max} are allowed; nothing was written")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length, in bytes.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// No job of this key lives, or it is being stopped.
    #[error("no job with this key")]
    JobNotFound,
    /// The job is not parked. Nothing was changed.
    #[error("the job is not parked, nothing was changed")]
    NotParked,
    /// The job has as many notifications waiting as it may have. This one was not kept.
    #[error("too many notifications wait for this job, this one was not kept")]
    NotifyFull,
    /// The record of the job, or what is stored of the dispatch's id, is damaged. It was left as it is.
    #[error("the record of the job or of its id cannot be read, it was left as it is")]
    BadRecord,
    /// What is stored was written by a newer version of this crate. It was left as it is.
    #[error("{what} has version {version}, this node reads up to {known}; it was left as it is")]
    NewerVersion {
        /// What is newer.
        what: &'static str,
        /// Its version.
        version: u64,
        /// The newest version that this node reads.
        known: u64,
    },
    /// The schedule or ticker has ended, or this node takes part in it no more.
    #[error("the schedule has ended")]
    ScheduleEnded,
    /// The pool is shutting down.
    #[error("the pool is shutting down")]
    ShuttingDown,
    /// The pool was shut down.
    #[error("the pool was shut down")]
    PoolClosed,
    /// The node has been closed or is closing.
    #[error("the node is closed")]
    NodeClosed,
    /// The node is client-only: it has no workers, and may not shut the pool down. Nothing was done.
    #[error("the node is client-only, nothing was done")]
    ClientOnly,
    /// The worker is another node's. Nothing was done.
    #[error("the worker is another node's, nothing was done")]
    OtherNode,
    /// Not answered in time; what was asked for may still happen.
    #[error("no answer within {0:?}, what was asked for may still happen")]
    Deadline(Duration),
    /// The process's signals cannot be listened to; the node goes on.
    #[error("the process's signals cannot be listened to, the node goes on")]
    Signals(#[source] Arc<std::io::Error>),
    /// The store cannot be used.
    #[error("the store did not do it")]
    Store(#[from] StoreError),
}

/// What a dispatch came to, when it did not come to a started job.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// The key or id is not valid. Nothing was written.
    #[error("not a valid key or id, nothing was written")]
    Key(#[from] IdError),
    /// The payload is too long. Nothing was written.
    #[error("the payload has {len} bytes, at most {max} are allowed; nothing was written")]
    PayloadTooLong {
        /// Its length, in bytes; with its envelope, unless it is too long without.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// The payload cannot be encoded. Nothing was written.
    #[error("the payload of type {kind:?} cannot be encoded, nothing was written")]
    Encode {
        /// The name of its type.
        kind: &'static str,
        /// What is wrong with it.
        #[source]
        source: Arc<rmp_serde::encode::Error>,
    },
    /// A job with this key lives. Nothing was changed.
    #[error("a job with this key exists, nothing was changed")]
    JobExists,
    /// The pool holds as many queued jobs as it may. The job was not accepted.
    #[error("the pool's queue is full, the job was not accepted")]
    PoolFull,
    /// The pool's counter of tokens is used up or damaged: no job can be assigned. The job was not accepted.
    #[error(
        "the pool has no tokens left (docs/protocol.md, section 3, says what to do); the job was not accepted"
    )]
    OutOfTokens,
    /// The id was used for another key or other bytes. Nothing was changed.
    #[error("the id was used for another key or payload, nothing was changed")]
    Conflict,
    /// The start handler failed; the job is gone.
    #[error("the job's start failed, the job is gone: {0}")]
    StartFailed(String),
    /// The job failed too often and is parked.
    #[error("the job failed too often and is parked")]
    Parked,
    /// The job was stopped before it was started.
    #[error("the job was stopped")]
    Stopped,
    /// The job was accepted and has ended; its outcome is not known any more.
    #[error("the job has ended, its outcome is not known any more")]
    Ended,
    /// The pool knows nothing of the dispatch that was waited for: it was never accepted, or it ended long ago.
    #[error("nothing is known of the dispatch: it was never accepted, or it ended long ago")]
    Unknown,
    /// The pool is shutting down: the job is not, or no longer, accepted.
    #[error("the pool is shutting down, the job will not run")]
    ShuttingDown,
    /// The node was closed while it waited. What was accepted stays accepted.
    #[error("the node was closed, the job stays accepted if it was")]
    NodeClosed,
    /// Not answered in time. Where it was accepted, the job stays accepted: wait for it with the ticket.
    #[error("no answer in time for {ticket}, the job stays accepted if it was")]
    Deadline {
        /// What to wait for it by.
        ticket: Ticket,
        /// It is known to have been accepted.
        accepted: bool,
        /// Why the store did not answer, as far as is known; `None` when it did and the job was just not started.
        #[source]
        source: Option<Arc<StoreError>>,
    },
    /// It was cancelled, by [`Node::cancel`](crate::Node::cancel) or, as was asked for, because it was not started by the
    /// deadline: the job does not run, or is being stopped, and does not come back.
    #[error("{ticket} was cancelled")]
    Cancelled {
        /// The dispatch.
        ticket: Ticket,
    },
    /// The record of the key, or what is stored of the id, is damaged; or the store refuses an argument. What is stored
    /// was left as it is.
    #[error("the record of the key or of the id cannot be read, it was left as it is")]
    BadRecord,
    /// What is stored was written by a newer version of this crate. It was left as it is.
    #[error("{what} has version {version}, this node reads up to {known}; it was left as it is")]
    NewerVersion {
        /// What is newer.
        what: &'static str,
        /// Its version.
        version: u64,
        /// The newest version that this node reads.
        known: u64,
    },
    /// The store cannot be used.
    #[error("the store did not do it")]
    Store(#[from] StoreError),
}
