//! The arguments and answers of stop, notify and take.

use bytes::Bytes;

use crate::id::{DispatchId, JobKey, Token, WorkerId};

/// A job to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopItem {
    /// The job's key.
    pub key: JobKey,
    /// The dispatch that is to end: a stop never ends a successor.
    pub id: DispatchId,
    /// The owner as the caller knows it.
    pub guess: Option<WorkerId>,
    /// A dispatch that is not there, and has not ended, is never to be accepted: it may be on its way.
    pub forbid: bool,
}

/// stop's answer for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReply {
    /// `D`: deleted, nobody ran it.
    Deleted,
    /// `S`: its owner has been told, now or before.
    Stopping,
    /// `N`: no such job.
    Absent,
    /// `T`: that dispatch ended before.
    Ended,
    /// `R`: the pool is recovering; ask again.
    Recovering,
    /// `M`: another worker owns it; nothing was done.
    Owner(Option<WorkerId>),
    /// `X`: its record does not parse.
    Bad,
    /// `L`: nothing was done, because the call had deleted a page of notifications. Ask again.
    Later,
}

/// A notification to keep for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyItem {
    /// The job's key.
    pub key: JobKey,
    /// The owner as the caller knows it.
    pub guess: Option<WorkerId>,
    /// The notification.
    pub body: Bytes,
}

/// notify's answer for one notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotifyReply {
    /// `K`: kept; the owner will take it.
    Kept,
    /// `B`: the job's bound is reached.
    Full,
    /// `N`: no such job, or it is being stopped.
    Absent,
    /// `R`: the pool is recovering; ask again.
    Recovering,
    /// `M`: another worker owns it; nothing was done.
    Owner(Option<WorkerId>),
    /// `X`: its record does not parse.
    Bad,
}

/// A job whose notifications the owner fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeItem {
    /// The job's key.
    pub key: JobKey,
    /// The owner's token.
    pub token: Token,
    /// Notifications numbered below this have been delivered.
    pub ack: u64,
}

/// Notifications of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The number of the first one.
    pub first: u64,
    /// The notifications, in order; empty: nothing waits.
    pub bodies: Vec<Bytes>,
}

/// A page of the notifications that wait for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// `OK`: these wait, the oldest first.
    Page {
        /// The number of the first one; those that follow count on.
        first: u64,
        /// At most 16, and 256 KiB, but one at least if any waits.
        bodies: Vec<Bytes>,
        /// Others follow.
        more: bool,
    },
    /// `NONE`: no such job.
    Absent,
    /// `BAD`: their header does not parse.
    Bad,
}
