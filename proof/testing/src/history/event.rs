//! The events of a history, and the moments at which to record them.
//!
//! The rule behind each moment: in doubt, an interval in which a handler may act is recorded too long, and an interval in
//! which it surely cannot act is recorded too short.

use serde::{Deserialize, Serialize};

/// An event of a key or a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A handler is about to start; recorded before its first effect.
    Started {
        /// The job's key.
        key: String,
        /// The fencing token of the start.
        token: u64,
        /// The worker that runs it. Another life of a process is another worker.
        worker: String,
    },
    /// The store has let this holder begin the job. Recorded before the start, if at all. The store's clock may give a
    /// moment that is too early, but never too late.
    Begun {
        /// The job's key.
        key: String,
        /// The fencing token of the begin.
        token: u64,
        /// The moment at which the store executed it.
        executed: u64,
    },
    /// A handler has stopped; recorded after its last effect.
    Stopped {
        /// The job's key.
        key: String,
        /// The fencing token of the start.
        token: u64,
        /// The worker that ran it.
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
    /// A caller is about to request a stop.
    StopRequested {
        /// The job's key.
        key: String,
    },
    /// The pool has said that the stop is recorded: from now on nobody may begin the job. A start that has already
    /// begun may still come, and ends.
    StopRecorded {
        /// The job's key.
        key: String,
    },
    /// The pool has said that the job is gone: from now on it must not start.
    StopAcknowledged {
        /// The job's key.
        key: String,
    },
    /// The pool has said that the job has ended and its key is free; nobody has submitted it again meanwhile.
    Freed {
        /// The job's key.
        key: String,
    },
    /// The pool has refused a job because a job of its key exists.
    Existed {
        /// The job's key.
        key: String,
        /// The moment at which the caller was about to ask.
        asked: u64,
    },
    /// The pool has said that no job of this key exists.
    NotFound {
        /// The job's key.
        key: String,
        /// The moment at which the caller was about to ask.
        asked: u64,
    },
    /// The pool has accepted a notification: the job must take it, unless the job ends before.
    NotifyAccepted {
        /// The job's key.
        key: String,
        /// The notification's number. One caller numbers all notifications of a key, and awaits each answer before the
        /// next one.
        number: u64,
        /// The moment at which the caller was about to ask.
        asked: u64,
    },
    /// A handler is about to take a notification.
    Notified {
        /// The job's key.
        key: String,
        /// The notification's number.
        number: u64,
    },
    /// The store has said that it keeps a job's checkpoint.
    CheckpointKept {
        /// The job's key.
        key: String,
        /// The job's dispatch.
        dispatch: String,
        /// The token of the owner that gave it.
        token: u64,
        /// The checkpoint's number, which grows from each to the next one of a dispatch.
        number: u64,
    },
    /// A handler was given a job's checkpoint, and is about to start.
    CheckpointGiven {
        /// The job's key.
        key: String,
        /// The job's dispatch.
        dispatch: String,
        /// The fencing token of the start.
        token: u64,
        /// The checkpoint's number; 0 if there was none.
        number: u64,
    },
    /// A caller is about to ask the owner of a job.
    AskMade {
        /// The job's key.
        key: String,
        /// The ask's id, as its handler knows it; unique.
        id: String,
        /// Whether a handler may be given it more than once.
        idempotent: bool,
    },
    /// A handler is given an ask; recorded before its first effect.
    AskHanded {
        /// The job's key.
        key: String,
        /// The ask's id.
        id: String,
        /// The fencing token of the run.
        token: u64,
        /// The worker of the run.
        worker: String,
    },
    /// A handler is about to say its word to an ask.
    AskSaid {
        /// The job's key.
        key: String,
        /// The ask's id.
        id: String,
        /// The fencing token of the run.
        token: u64,
        /// The word.
        said: AskWord,
    },
    /// An ask has ended, for its caller.
    AskEnded {
        /// The job's key.
        key: String,
        /// The ask's id.
        id: String,
        /// The end.
        end: AskEnd,
    },
    /// The pool has taken a payload: that of a new job, or another one of a job that is there.
    PayloadAccepted {
        /// The job's key.
        key: String,
        /// The payload's number. One caller numbers all payloads of a key, and awaits each answer before the next one.
        number: u64,
        /// The moment at which the caller was about to ask.
        asked: u64,
        /// The job's generation; `None` for the payload of a new job.
        generation: Option<u64>,
    },
    /// A run has this payload from now on: that of its start, or one that its handler takes.
    PayloadGiven {
        /// The job's key.
        key: String,
        /// The job's dispatch.
        dispatch: String,
        /// The fencing token of the run.
        token: u64,
        /// The payload's number.
        number: u64,
    },
    /// A handler makes no progress any more. Its job has a progress timeout.
    Hangs {
        /// The job's key.
        key: String,
        /// The fencing token of the run.
        token: u64,
    },
    /// A handler was told that its job must end.
    ToldToEnd {
        /// The job's key.
        key: String,
        /// The fencing token of the run.
        token: u64,
        /// The worker of the run.
        worker: String,
        /// The reason, in a word.
        why: String,
    },
    /// The pool has said that it is on hold: it gives no job to a worker.
    Held,
    /// A caller is about to lift the hold.
    HoldLifted,
    /// The pool has said that a node is cordoned: its workers get no new job.
    Cordoned {
        /// The node. The names of its workers begin with this and `/`.
        node: String,
    },
    /// A caller is about to lift the cordon of a node.
    CordonLifted {
        /// The node.
        node: String,
    },
    /// A worker that another node has drained is no member any more: it runs nothing.
    Drained {
        /// The worker.
        worker: String,
    },
    /// The store has lost data. Recorded when every call that was answered before the loss has reached the history.
    DataLost {
        /// The moment of the loss.
        lost: u64,
        /// Acknowledgements from here on may be forgotten.
        since: u64,
        /// The moment at which the store answered again, and leases could be renewed.
        back: u64,
        /// Whether all data is lost, whatever its age.
        wiped: bool,
    },
    /// The worker's process is paused; recorded after the pause has taken effect.
    Paused {
        /// The worker.
        worker: String,
    },
    /// The worker's process continues; recorded before it is woken.
    Resumed {
        /// The worker.
        worker: String,
    },
    /// The worker's process is gone, and all its runs have ended. Recorded when somebody saw that it was gone.
    WorkerDead {
        /// The worker.
        worker: String,
    },
    /// The pool is at rest: every accepted job that was not stopped must run now, and no stopped one may.
    Settled,
}

impl Event {
    /// The key of the event, if it has one.
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
            | Self::Notified { key, .. }
            | Self::CheckpointKept { key, .. }
            | Self::CheckpointGiven { key, .. }
            | Self::AskMade { key, .. }
            | Self::AskHanded { key, .. }
            | Self::AskSaid { key, .. }
            | Self::AskEnded { key, .. }
            | Self::PayloadAccepted { key, .. }
            | Self::PayloadGiven { key, .. }
            | Self::Hangs { key, .. }
            | Self::ToldToEnd { key, .. } => Some(key),
            Self::Held
            | Self::HoldLifted
            | Self::Cordoned { .. }
            | Self::CordonLifted { .. }
            | Self::Drained { .. }
            | Self::DataLost { .. }
            | Self::Paused { .. }
            | Self::Resumed { .. }
            | Self::WorkerDead { .. }
            | Self::Settled => None,
        }
    }
}

/// The word of a handler to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AskWord {
    /// Its answer.
    Answer,
    /// It refuses the ask.
    Refusal,
    /// It drops the ask without a word.
    Nothing,
    /// It sends the ask to the next owner.
    SentOn,
}

/// The end of an ask, for its caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AskEnd {
    /// The handler has answered with these words.
    Answered(String),
    /// The handler has refused it with these words.
    Refused(String),
    /// No handler was given it, nor will be, for this reason.
    NotHandled(String),
    /// A handler may have been given it.
    Unknown,
}

/// An event and its moment: one line of a history file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// Nanoseconds of `CLOCK_BOOTTIME`.
    pub at: u64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}
