//! The errors of a node: one variant for each case that a caller may handle differently.

mod asking;
mod dispatching;
mod gone;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use crate::model::id::{DispatchId, IdError, JobKey, WorkerId};
use crate::model::level::TooOld;
use crate::model::settings::{InvalidSetting, shown};
use crate::model::why::start_of;
use crate::step::{Refusal, StoreError};

pub use asking::{AskError, NotHandled};
pub use dispatching::{DispatchError, FailedAttempt, Obstacle};
pub use gone::Gone;
pub use spec::SpecError;

/// Any boxed error: the type that handlers return.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The text of an error and of all its causes, each once.
pub fn whole(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| {
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// The longest text of a handler, in bytes: the store keeps it.
pub const TEXT_MAX: usize = 1024;

/// Shortens a text to [`TEXT_MAX`], between two characters.
pub fn cut(mut text: String) -> String {
    text.truncate(start_of(&text, TEXT_MAX).len());
    text
}

/// Why a node could not do what it was asked. Its text is complete: it includes the cause, so `source()` returns
/// `None`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name or key is not valid. Nothing was written.
    #[error("{0}; nothing was written")]
    Name(IdError),
    /// The pool's server has changed since the `Cursor` was given. A page from there could leave jobs out.
    #[error("the pool's server has changed since this cursor was given; begin the listing anew")]
    StaleCursor,
    /// A setting is out of its range. Nothing was written.
    #[error("{0}; nothing was written")]
    Setting(InvalidSetting),
    /// This node was given one value of a pool-wide setting, and the pool runs with another. Nothing was written.
    #[error("the pool runs with {name} = {theirs}, this node was given {ours}; nothing was written")]
    SettingMismatch {
        /// The setting's name, as in `Settings` and the builders.
        name: String,
        /// The pool's value, with its unit.
        theirs: String,
        /// The value that this node was given.
        ours: String,
    },
    /// The floor of the pool is above the level of this version (`Operator::raise_level`).
    /// Deploy a newer one. A step that the pool refused was not carried out. A call that was under way when the floor
    /// rose may have been.
    #[error("{0}")]
    TooOld(TooOld),
    /// The pool cannot use this level yet: a member has a lower one. The floor of its shard is as it was.
    #[error("worker {worker} has level {level}, below {wanted}; the floor stays")]
    MemberBelow {
        /// The worker.
        worker: WorkerId,
        /// Its level.
        level: u32,
        /// The level that was asked for.
        wanted: u32,
    },
    /// The pool has another number of shards, and keeps it for its life. Nothing was written.
    #[error("the pool has {theirs} shards, this node was given {ours}; nothing was written")]
    OtherShards {
        /// The pool's number of shards.
        theirs: u32,
        /// The number that this node was given.
        ours: u32,
    },
    /// This setting cannot change while the pool lives: shut the pool down, and create it again. Nothing was written.
    #[error("{name} cannot change while the pool lives; nothing was written")]
    FixedSetting {
        /// The setting's name, as in `Settings`.
        name: &'static str,
    },
    /// This setting may only grow while the pool lives. Nothing was written.
    #[error("{name} may only grow while the pool lives; nothing was written")]
    LoweredSetting {
        /// The setting's name, as in `Settings`.
        name: &'static str,
    },
    /// The pool's counter of tokens is used up or damaged. No node can join, and no schedule can be created or taken
    /// over. Nothing was written. Running jobs go on.
    #[error(
        "the pool has no tokens left (docs/protocol/data.md, section 3, says what to do); nothing was written"
    )]
    OutOfTokens,
    /// A notification or payload is too long. Nothing was written.
    #[error("{what} has {len} bytes, at most {max} are allowed; nothing was written")]
    TooLong {
        /// The notification or the payload.
        what: &'static str,
        /// Its length, in bytes.
        len: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// A value cannot be encoded. Nothing was sent.
    #[error("{what} cannot be encoded, nothing was sent: {error}")]
    Encode {
        /// The value's part in the call.
        what: &'static str,
        /// The encoder's error.
        error: Arc<rmp_serde::encode::Error>,
    },
    /// There is no live job with this key, or it is being stopped.
    #[error("no job has the key {0}")]
    JobNotFound(JobKey),
    /// The pool lost data, or may have lost data, after the notification was listed. Its number may now belong to
    /// another one.
    #[error("the notifications of the job {0} may have other numbers now, list them again")]
    Renumbered(JobKey),
    /// No member of the pool has this id: the worker has left, or has joined again under another id. Nothing was changed.
    #[error("no worker has the id {0}, nothing was changed")]
    WorkerNotFound(WorkerId),
    /// The job is not parked. Nothing was changed.
    #[error("the job {0} is not parked, nothing was changed")]
    NotParked(JobKey),
    /// The job is parked: nobody runs it. Nothing was changed.
    #[error("the job {0} is parked, nothing was changed; a retry starts it")]
    Parked(JobKey),
    /// The job is paused: nobody runs it. Nothing was changed.
    #[error("the job {0} is paused, nothing was changed; a resume starts it")]
    Paused(JobKey),
    /// The job neither waits nor is parked: a worker has it. Nothing was changed.
    #[error("a worker has the job {0}, so there is nothing to retry; nothing was changed")]
    NotWaiting(JobKey),
    /// The job to start where there is none cannot be the one of this call. Nothing was written.
    #[error("the job to start for {key} {why}; nothing was written")]
    WrongStart {
        /// The key that the call is about.
        key: JobKey,
        /// The fault of the job.
        why: &'static str,
    },
    /// There was no job, and the one to start in its place was not. The message or the ask for it was not kept.
    #[error("the job was not started: {0}")]
    NotStarted(Box<DispatchError>),
    /// The job with this key is another dispatch than the caller has named. It was left as it is.
    #[error("the job {key} is the dispatch {id}, not the one expected; its payload stays")]
    OtherDispatch {
        /// The job's key.
        key: JobKey,
        /// The dispatch that it is.
        id: DispatchId,
    },
    /// The job's payload has another generation than the caller has named, and is another one. This call has not changed
    /// it, with one exception: if an answer was lost, the job may have had the caller's payload before others updated it.
    #[error("the job {key} has generation {generation}, not the one expected, and another payload")]
    OtherGeneration {
        /// The job's key.
        key: JobKey,
        /// The generation that it has.
        generation: u64,
    },
    /// The answer to the update was lost. By now the key has another job, which this call has not changed. The former
    /// one may have had the payload or not. An update of the key again is safe.
    #[error("no answer came to the update of {0}, and the key has another job now, which was left as it is")]
    UpdateInDoubt(JobKey),
    /// The job already has as many waiting notifications as it may have. This one was not kept.
    #[error("too many notifications wait for the job {0}, this one was not kept")]
    NotifyFull(JobKey),
    /// The record of a job or schedule is damaged, or the data stored for the dispatch's id. It was left as it is.
    #[error("the record of {of}, or of its id, cannot be read; it was left as it is")]
    BadRecord {
        /// The job's key, or the schedule.
        of: String,
    },
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
    /// The schedule or ticker has ended, or this node no longer takes part in it.
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
    /// The node's engine has panicked, with this text. Its handlers were aborted, and its jobs start elsewhere when its
    /// leases have run out. Only a new node helps.
    #[error("the node has failed, its jobs move when its leases end: {0}")]
    NodeFailed(Arc<str>),
    /// The node was not built with `serves`, so it keeps no index of its jobs.
    #[error("the node does not know which jobs run on it, build it with `serves`")]
    ServesNothing,
    /// The node is client-only: it cannot have workers, and it may not shut the pool down. Nothing was done.
    #[error("the node is client-only, nothing was done")]
    ClientOnly,
    /// The pool was shutting down, and is open now: somebody has created it anew, or its data were lost.
    #[error("the pool is open: it was created anew, or its data were lost")]
    PoolOpen,
    /// There is no pool with this name, and the node was told that it must exist. Nothing was written.
    #[error("there is no pool {pool:?}; nothing was written")]
    NoPool {
        /// The pool's name.
        pool: String,
    },
    /// The node could not join the pool in time.
    #[error("the pool was not joined within {within:?}{}", trouble_of(.last.as_ref()))]
    NotJoined {
        /// How long the node tried.
        within: Duration,
        /// The last error of the store, if there was one.
        last: Option<StoreError>,
    },
    /// A call of the job's own handler would wait for the end of the job, and the job for the call. Nothing was changed. The
    /// handler ends with a `JobEnd`, or spawns the call.
    #[error("the handler of {0} cannot wait for the end of its own job, nothing was changed")]
    OwnHandler(JobKey),
    /// The stop of the job is recorded, so the job will not come back. Its handler had not ended in time.
    #[error("the stop of {key} is recorded, but the job had not ended within {within:?}")]
    StillStopping {
        /// The job's key.
        key: JobKey,
        /// How long the call waited.
        within: Duration,
    },
    /// The job has ended and its key is free, but its stop handler or its future failed at the end.
    #[error("the job {key} has ended, but its handler failed to stop it well: {error}")]
    StopFailed {
        /// The job's key.
        key: JobKey,
        /// The handler's error, with its causes.
        error: String,
    },
    /// There was no answer in time. The request may still be carried out.
    #[error("no answer within {within:?}, the request may still be carried out{}", trouble_of(.last.as_ref()))]
    Deadline {
        /// How long the caller waited.
        within: Duration,
        /// The last error of the store, if it fails.
        last: Option<StoreError>,
    },
    /// The process's signals cannot be received. The node goes on.
    #[error("the process's signals cannot be received, the node goes on: {0}")]
    Signals(Arc<std::io::Error>),
    /// The store cannot be used.
    #[error("{}", whole(.0))]
    Store(StoreError),
}

impl Error {
    /// The pool runs with another value of the setting.
    #[doc(hidden)]
    pub fn mismatch(name: &str, theirs: &str, ours: &str) -> Self {
        Self::SettingMismatch { name: name.to_owned(), theirs: shown(name, theirs), ours: shown(name, ours) }
    }
}

fn trouble_of(error: Option<&StoreError>) -> String {
    error.map(|error| format!("; the last trouble: {}", whole(error))).unwrap_or_default()
}

impl From<IdError> for Error {
    fn from(error: IdError) -> Self {
        Self::Name(error)
    }
}

impl From<InvalidSetting> for Error {
    fn from(error: InvalidSetting) -> Self {
        Self::Setting(error)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(Refusal::Level(why)) => Self::TooOld(why),
            error => Self::Store(error),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::error::Error as _;
    use std::io;

    use super::*;
    use crate::model::id::{DispatchId, NodeName};
    use crate::model::ticket::Ticket;

    fn refused() -> StoreError {
        let error = io::Error::other(io::Error::other("refused (os error 111)"));
        StoreError::NotExecuted(tenure_steps::Failure::new(error))
    }

    #[test]
    fn an_error_says_the_whole_of_it_once() {
        for error in [Error::Store(refused()), Error::Store(StoreError::Refused(Refusal::NoPool))] {
            assert!(error.source().is_none(), "{error:?}");
        }
        assert_eq!(Error::Store(refused()).to_string(), "refused (os error 111)");
        let name = Error::from(NodeName::new("a.b").unwrap_err()).to_string();
        assert_eq!(name, "node name \"a.b\" has '.', allowed are A-Z a-z 0-9 _ : -; nothing was written");
        let setting =
            InvalidSetting { name: "worker_ttl", value: "1ms".into(), why: "must be at least 500 ms".into() };
        let setting = Error::from(setting).to_string();
        assert_eq!(setting, "setting worker_ttl is 1ms: must be at least 500 ms; nothing was written");
    }

    #[test]
    fn errors_about_a_job_name_its_key() {
        let key = || JobKey::try_from("acme").unwrap();
        assert_eq!(Error::JobNotFound(key()).to_string(), "no job has the key acme");
        let exists = |parked, paused| DispatchError::JobExists { key: key(), parked, paused }.to_string();
        assert_eq!(exists(false, false), "a job with the key acme exists, nothing was changed");
        assert_eq!(exists(true, false), "a job with the key acme exists and is parked, nothing was changed");
        assert_eq!(exists(false, true), "a job with the key acme exists and is paused, nothing was changed");
    }

    #[test]
    fn a_deadline_says_what_is_known() {
        let id = DispatchId::of_caller(&NodeName::new("n").unwrap(), "17").unwrap();
        let ticket = Ticket { key: JobKey::try_from("acme").unwrap(), id };
        let late_after = |accepted, obstacle, refusal: Option<&str>, failure, trouble: Option<StoreError>| {
            let (ticket, refusal) = (ticket.clone(), refusal.map(str::to_owned));
            let (failure, trouble) = (Option::map(failure, Box::new), trouble.map(Arc::new));
            DispatchError::Deadline { ticket, accepted, obstacle, refusal, failure, trouble }.to_string()
        };
        let late =
            |accepted, obstacle, refusal, trouble| late_after(accepted, obstacle, refusal, None, trouble);
        let start = "no answer in time for n.!17 of acme; ";
        let known = "the job is accepted and stays so; the pool has no worker";
        assert_eq!(late(true, Some(Obstacle::NoWorker), None, None), format!("{start}{known}"));
        let not_known = "the job stays accepted if it was; the last trouble: refused (os error 111)";
        assert_eq!(late(false, None, None, Some(refused())), format!("{start}{not_known}"));
        let refused = "the job is accepted and stays so; the last worker refused it: no program";
        assert_eq!(late(true, None, Some("no program"), None), format!("{start}{refused}"));
        let failed = |next_in| {
            let failure = FailedAttempt { attempt: 3, error: "connection refused".into(), next_in };
            late_after(true, None, None, Some(failure), None)
        };
        let known = "the job is accepted and stays so; attempt 3 failed: connection refused";
        assert_eq!(failed(None), format!("{start}{known}"));
        let soon = Some(Duration::from_millis(4_040));
        assert_eq!(failed(soon), format!("{start}{known}; the next one is in 4.0 s"));
    }
}
