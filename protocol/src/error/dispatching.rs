//! The errors of a dispatch.

use std::sync::Arc;
use std::time::Duration;

use super::whole;
use crate::model::id::{IdError, JobKey};
use crate::model::level::TooOld;
use crate::model::record::JobState;
use crate::model::settings::InvalidSetting;
use crate::model::ticket::Ticket;
use crate::step::{Evidence, Refusal, StoreError};

/// Why a dispatch did not lead to a started job. As with [`Error`](super::Error), its text is complete.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DispatchError {
    /// The key or id is not valid. Nothing was written.
    #[error("{0}; nothing was written")]
    Key(IdError),
    /// The payload is too long. Nothing was written.
    #[error("the payload has {len} bytes, at most {max} are allowed; nothing was written")]
    PayloadTooLong {
        /// Its length, in bytes. The envelope is included, unless the payload is too long even without it.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// An option of the job has an invalid value. Nothing was written.
    #[error("{0}; nothing was written")]
    Option(InvalidSetting),
    /// The payload cannot be encoded. Nothing was written.
    #[error("the payload of type {kind:?} cannot be encoded, nothing was written: {error}")]
    Encode {
        /// The name of its type.
        kind: &'static str,
        /// The encoder's error.
        error: Arc<rmp_serde::encode::Error>,
    },
    /// A job with this key exists. Nothing was changed.
    #[error("a job with the key {key} exists{}, nothing was changed", at_rest(*.parked, *.paused))]
    JobExists {
        /// The key.
        key: JobKey,
        /// The job is parked: it failed too often, and the pool does not try it again by itself.
        parked: bool,
        /// The job is paused: an operator has to resume it.
        paused: bool,
    },
    /// The queue of the pool is full. The job was not accepted.
    #[error("the pool's queue is full, the job was not accepted")]
    PoolFull,
    /// The pool's counter of tokens is used up or damaged, so no job can be assigned. The job was not accepted.
    #[error(
        "the pool has no tokens left (docs/protocol/data.md, section 3, says what to do); the job was not accepted"
    )]
    OutOfTokens,
    /// The floor of the pool is above the level of this version. Deploy a newer one. A job that was accepted stays
    /// accepted.
    #[error("{0}; the job stays accepted if it was")]
    TooOld(TooOld),
    /// The id was used before, with another key or payload. Nothing was changed.
    #[error("the id was used for another key or payload, nothing was changed")]
    Conflict,
    /// The start handler failed; the job is gone.
    #[error("the job's start failed, the job is gone: {0}")]
    StartFailed(String),
    /// The job failed too often and is parked.
    #[error("the job failed too often and is parked")]
    Parked,
    /// An operator has paused the job. It stays accepted, and starts when it is resumed.
    #[error("the job is paused, it starts when it is resumed")]
    Paused,
    /// The job was stopped before it was started.
    #[error("the job was stopped")]
    Stopped,
    /// The job was accepted and has ended. Its outcome is no longer known.
    #[error("the job has ended, its outcome is no longer known")]
    Ended,
    /// The pool does not know this dispatch: it was never accepted, or it ended long ago.
    #[error("the pool does not know the dispatch: it was never accepted, or it ended long ago")]
    Unknown,
    /// The pool is shutting down. It did not accept the job, or dropped it.
    #[error("the pool is shutting down, the job will not run")]
    ShuttingDown,
    /// The node was closed during the wait. A job that was accepted stays accepted.
    #[error("the node was closed, the job stays accepted if it was")]
    NodeClosed,
    /// The node's engine has panicked, with this text. A job that was accepted stays accepted. Only a new node helps.
    #[error("the node has failed, the job stays accepted if it was: {0}")]
    NodeFailed(Arc<str>),
    /// There was no answer in time. A job that was accepted stays accepted: wait for it with the ticket.
    #[error("no answer in time for {ticket}; {}", known(*.accepted, *.obstacle, .refusal.as_deref(), .failure.as_deref(), .trouble.as_deref()))]
    Deadline {
        /// Identifies the dispatch for `Node::wait`.
        ticket: Ticket,
        /// The pool is known to have accepted the job.
        accepted: bool,
        /// As far as this node knows, this keeps the pool from starting any job.
        obstacle: Option<Obstacle>,
        /// The reason of the last refusal by a worker (`Start::Unable`), if this node has looked.
        refusal: Option<String>,
        /// The last attempt to start the job, if it has failed, and nothing but a rest keeps the next one back.
        failure: Option<Box<FailedAttempt>>,
        /// Why the store did not answer, if that is known. `None` if it answered, and the job had just not started.
        trouble: Option<Arc<StoreError>>,
    },
    /// The dispatch was cancelled: by `Node::cancel`, or at its deadline, as its caller had
    /// asked. The job does not run, or is being stopped, and does not come back.
    #[error("{ticket} was cancelled")]
    Cancelled {
        /// The dispatch.
        ticket: Ticket,
    },
    /// The record of the key or the data stored for the id are damaged, or the store refuses an argument. The stored
    /// data were left as they are.
    #[error("the record of the key {0} or of the id cannot be read, it was left as it is")]
    BadRecord(JobKey),
    /// A newer version of this crate wrote the stored data. They were left as they are.
    #[error("{what} has version {version}, this node reads up to {known}; it was left as it is")]
    NewerVersion {
        /// The stored item that has the newer version.
        what: &'static str,
        /// Its version.
        version: u64,
        /// The newest version that this node reads.
        known: u64,
    },
    /// The store cannot be used. If its user lacks a right for a part of the step, the job may have been accepted.
    #[error("{}", whole(.0))]
    Store(StoreError),
}

/// An attempt to start a job that has failed. The job rests before its next attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attempt {attempt} failed: {error}{}", next(*.next_in))]
#[non_exhaustive]
pub struct FailedAttempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// The handler's error, with its causes.
    pub error: String,
    /// The time until the next attempt. `None` if it is due, and waits for a worker.
    pub next_in: Option<Duration>,
}

impl FailedAttempt {
    /// The last attempt of the job, if it failed, and the job rests.
    #[doc(hidden)]
    pub fn of(seen: &Evidence) -> Option<Self> {
        let record = seen.found.record.as_ref().filter(|record| record.state == JobState::Queued)?;
        let error = seen.pause.error.clone().filter(|_| record.refusal().is_none())?;
        let due = seen.pause.until.filter(|_| !record.found_no_worker());
        let left = due.map(|due| Duration::from_millis(due.saturating_sub(seen.now)));
        Some(Self { attempt: record.attempts, error, next_in: left.filter(|left| !left.is_zero()) })
    }
}

fn next(within: Option<Duration>) -> String {
    within.map(|within| format!("; the next one is in {:.1} s", within.as_secs_f64())).unwrap_or_default()
}

/// A state in which a pool starts no job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// No worker is up.
    #[error("the pool has no worker")]
    NoWorker,
    /// The pool is on hold.
    #[error("the pool is on hold")]
    OnHold,
    /// Every worker that is up lives on a cordoned node.
    #[error("every node with a worker is cordoned")]
    Cordoned,
}

impl DispatchError {
    /// There was no answer in time, and nothing more is known.
    #[doc(hidden)]
    pub fn late(ticket: Ticket) -> Self {
        Self::Deadline {
            ticket,
            accepted: false,
            obstacle: None,
            refusal: None,
            failure: None,
            trouble: None,
        }
    }
}

/// Says that a job is at rest, behind that it exists.
fn at_rest(parked: bool, paused: bool) -> &'static str {
    match (parked, paused) {
        (_, true) => " and is paused",
        (true, _) => " and is parked",
        _ => "",
    }
}

/// Describes the known state of a dispatch that was not answered in time.
fn known(
    accepted: bool,
    obstacle: Option<Obstacle>,
    refusal: Option<&str>,
    failure: Option<&FailedAttempt>,
    trouble: Option<&StoreError>,
) -> String {
    let accepted =
        if accepted { "the job is accepted and stays so" } else { "the job stays accepted if it was" };
    let obstacle = obstacle.map(|obstacle| format!("; {obstacle}")).unwrap_or_default();
    let refusal = refusal.map(|why| format!("; the last worker refused it: {why}")).unwrap_or_default();
    let failure = failure.map(|failure| format!("; {failure}")).unwrap_or_default();
    let trouble = trouble.map(|error| format!("; the last trouble: {}", whole(error))).unwrap_or_default();
    format!("{accepted}{obstacle}{refusal}{failure}{trouble}")
}

impl From<IdError> for DispatchError {
    fn from(error: IdError) -> Self {
        Self::Key(error)
    }
}

impl From<StoreError> for DispatchError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(Refusal::Level(why)) => Self::TooOld(why),
            error => Self::Store(error),
        }
    }
}
