//! What can be recorded, and when to record it.
//!
//! The rule behind each moment: an interval in which a handler may act is recorded as too long rather than too
//! short, and an interval in which it surely cannot act as too short rather than too long.

use serde::{Deserialize, Serialize};

/// Something that happened to a key or to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A handler is about to start: recorded before the first effect.
    Started {
        /// The job's key.
        key: String,
        /// The fencing token it was given.
        token: u64,
        /// Who runs it. Another life of a process is another worker.
        worker: String,
    },
    /// The store has let this holder begin the job. Recorded before the start, if at all; the store's clock may show
    /// the moment too early, and not too late.
    Begun {
        /// The job's key.
        key: String,
        /// The fencing token it was given.
        token: u64,
        /// When.
        executed: u64,
    },
    /// A handler has stopped: recorded after the last effect.
    Stopped {
        /// The job's key.
        key: String,
        /// The fencing token it was given.
        token: u64,
        /// Who ran it.
        worker: String,
    },
    /// A caller is about to submit the job. Needed for a key that is submitted again after a stop.
    Submitted {
        /// The job's key.
        key: String,
    },
    /// The pool has accepted the job: from now on it must run until it is stopped.
    Accepted {
        /// The job's key.
        key: String,
    },
    /// A caller is about to ask for a stop.
    StopRequested {
        /// The job's key.
        key: String,
    },
    /// The pool has said that the stop is recorded: from now on nobody may begin the job. The start that had begun
    /// may still come, and ends.
    StopRecorded {
        /// The job's key.
        key: String,
    },
    /// The pool has said that the job is gone: from now on it must not start.
    StopAcknowledged {
        /// The job's key.
        key: String,
    },
    /// The pool has said that the job has ended and its key is free, and nobody has submitted it again meanwhile.
    Freed {
        /// The job's key.
        key: String,
    },
    /// The pool has refused a job, because one of its key exists.
    Existed {
        /// The job's key.
        key: String,
        /// When the caller was about to ask.
        asked: u64,
    },
    /// The pool has said that no job of this key exists.
    NotFound {
        /// The job's key.
        key: String,
        /// When the caller was about to ask.
        asked: u64,
    },
    /// The pool has accepted a notification: the job must take it, unless it ends before.
    NotifyAccepted {
        /// The job's key.
        key: String,
        /// Its number. One caller numbers all notifications of a key, and awaits the answer before the next one.
        number: u64,
        /// When the caller was about to ask.
        asked: u64,
    },
    /// A handler is about to take a notification.
    Notified {
        /// The job's key.
        key: String,
        /// The notification's number.
        number: u64,
    },
    /// The store has lost data: recorded when no call that was answered before the loss is still on its way to the
    /// history.
    DataLost {
        /// The moment of the loss.
        lost: u64,
        /// What was acknowledged from here on may be forgotten.
        since: u64,
        /// When the store answered again, and leases could be renewed.
        back: u64,
        /// Nothing is left, of whatever age.
        wiped: bool,
    },
    /// The worker's process is paused: recorded after the pause has taken effect.
    Paused {
        /// The worker.
        worker: String,
    },
    /// The worker's process goes on: recorded before it is woken.
    Resumed {
        /// The worker.
        worker: String,
    },
    /// The worker's process is gone: what it had started has ended. Recorded when it was seen to be gone.
    WorkerDead {
        /// The worker.
        worker: String,
    },
    /// The pool has come to rest: every accepted job that was not stopped must run now, and no stopped one may.
    Settled,
}

impl Event {
    /// The key that the event is about, if it is about one.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Started { key, .. }
            | Self::Begun { key, .. }
            | Self::Stopped { key, .. }
            | Self::Submitted { key }
            | Self::Accepted { key }
            | Self::StopRequested { key }
            | Self::StopRecorded { key }
            | Self::StopAcknowledged { key }
            | Self::Freed { key }
            | Self::Existed { key, .. }
            | Self::NotFound { key, .. }
            | Self::NotifyAccepted { key, .. }
            | Self::Notified { key, .. } => Some(key),
            Self::DataLost { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::WorkerDead { .. }
            | Self::Settled => None,
        }
    }
}

/// An event and its moment: one line of a history file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Nanoseconds of `CLOCK_BOOTTIME`.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}
