//! The arguments and answers of stop, update, notify, `notify_or_start` and take.

use bytes::Bytes;
use tenure_steps::letters;

use super::performing::{read, step};
use super::{DispatchItem, EntryId, Turn};
use crate::model::id::{DispatchId, JobKey, NodeName, Revision, Token, WorkerId};

/// A job to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopItem {
    /// The job's key.
    pub key: JobKey,
    /// The dispatch that must end. A stop never ends a later job of the key.
    pub id: DispatchId,
    /// The owner as the caller knows it.
    pub guess: Option<WorkerId>,
    /// If this dispatch is absent and has not ended, it must never be accepted: it may still be on its way.
    pub forbid: bool,
}

letters! {
    /// stop's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StopReply {
        /// Deleted; nobody ran it.
        b'D': Deleted,
        /// Its owner was told, by this call or an earlier one.
        b'S': Stopping,
        /// No such job.
        b'N': Absent,
        /// That dispatch had already ended.
        b'T': Ended,
        /// The pool is recovering; ask again.
        b'R': Recovering,
        /// Another worker owns it. Nothing was done.
        b'M': Owner(Option<WorkerId>),
        /// Its record does not parse.
        b'X': Bad,
        /// Nothing was done, because the call had deleted a page of notifications. Ask again.
        b'L': Later,
    }
}

/// Another payload for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateItem {
    /// The job's key.
    pub key: JobKey,
    /// The dispatch that it is for. An update never changes a later job of the key.
    pub id: DispatchId,
    /// The generation that the caller has seen. So a late copy of an update never undoes a later one.
    pub generation: u64,
    /// The owner as the caller knows it.
    pub guess: Option<WorkerId>,
    /// The payload's envelope.
    pub payload: Bytes,
}

letters! {
    /// update's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UpdateReply {
        /// It has the payload, and this generation.
        b'K': Kept(u64),
        /// It had a payload with the same meaning already, in this generation. Nothing was done.
        b'E': Equal(u64),
        /// It has this generation, and another payload. Nothing was done.
        b'C': Conflict(u64),
        /// No job of that dispatch.
        b'N': Absent,
        /// It is being stopped.
        b'S': Stopping,
        /// The pool is recovering; ask again.
        b'R': Recovering,
        /// Another worker owns it. Nothing was done.
        b'M': Owner(Option<WorkerId>),
        /// The payload is too long.
        b'L': TooLong,
        /// Its record does not parse.
        b'X': Bad,
    }
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

letters! {
    /// notify's answer for one notification.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NotifyReply {
        /// Kept; the owner will take it.
        b'K': Kept,
        /// The job has its limit of notifications.
        b'B': Full,
        /// No such job, or it is being stopped.
        b'N': Absent,
        /// The pool is recovering; ask again.
        b'R': Recovering,
        /// Another worker owns it. Nothing was done.
        b'M': Owner(Option<WorkerId>),
        /// Its record does not parse.
        b'X': Bad,
    }
}

/// A notification for a job that is started with it if it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyOrStartItem {
    /// The dispatch that starts the job of its key. Its node has made the id.
    pub start: DispatchItem,
    /// The owner of the job that is there, as the caller knows it.
    pub guess: Option<WorkerId>,
    /// The notification.
    pub body: Bytes,
}

letters! {
    /// `notify_or_start`'s answer for one notification.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NotifyOrStartReply {
        /// Kept for the job that is there.
        b'K': Kept,
        /// Kept with its job, which this call or an earlier one has accepted.
        b'A': Accepted,
        /// Kept with its job, which an earlier call has accepted. The job has ended.
        b'T': Ended,
        /// The job has its limit of notifications.
        b'B': Full,
        /// The job is being stopped; ask again. Nothing was done.
        b'S': Stopping,
        /// Another worker owns the job. Nothing was done.
        b'M': Owner(Option<WorkerId>),
        /// The queue of the pool is full.
        b'F': PoolFull,
        /// Its time is over, or more than `max_dispatch_deadline` ahead.
        b'L': Late,
        /// The pool is recovering; ask again.
        b'R': Recovering,
        /// The pool is shutting down.
        b'Z': ShuttingDown,
        /// No tokens are left.
        b'N': OutOfTokens,
        /// A bad argument, or a record that does not parse.
        b'X': Bad,
    }
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
    /// The notifications, in order. Empty if none waits.
    pub bodies: Vec<Bytes>,
}

/// A page of the waiting notifications of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// `OK`: these wait, oldest first.
    Page {
        /// The number of the first one. The others follow it without gaps.
        first: u64,
        /// At most 16 of them and 256 KiB, but at least one if any waits.
        bodies: Vec<Bytes>,
        /// Whether more follow.
        more: bool,
    },
    /// `NONE`: no such job.
    Absent,
    /// `BAD`: their header does not parse.
    Bad,
}

/// Requests the end of jobs.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The turn of the jobs' plan. The step is refused once the turn is over. Jobs outside the plan are absent for the step.
    pub turn: Option<Turn>,
    /// Whether the sweeper repeats an earlier request.
    pub repeat: bool,
    /// The node to tell of the end.
    pub waiting: Option<NodeName>,
    /// The jobs.
    pub items: Vec<StopItem>,
}

step!(Stop: "stop" -> Vec<StopReply>, |step| step.items.len());

/// Keeps notifications, at least once: after a lost answer, a repeated call may keep a notification twice.
#[derive(Clone, Debug)]
pub struct Notify {
    /// The notifications.
    pub items: Vec<NotifyItem>,
}

step!(Notify: "notify" -> Vec<NotifyReply>, |step| step.items.len());

/// Keeps notifications, as [`Notify`] does. A missing job is accepted together with its first notification, and placed if
/// `ring` is still the revision of the members.
#[derive(Clone, Debug)]
pub struct NotifyOrStart {
    /// The revision of the ring behind the choice of workers for new jobs.
    pub ring: Revision,
    /// The notifications with the jobs to start.
    pub items: Vec<NotifyOrStartItem>,
}

step!(NotifyOrStart: "notify_or_start" -> Vec<NotifyOrStartReply>, |step| step.items.len());

/// The owner acknowledges and fetches notifications. `None`: the caller is not the owner.
#[derive(Clone, Debug)]
pub struct Take {
    /// The owner.
    pub worker: WorkerId,
    /// Handled entries of the owner's stream, for the call to delete.
    pub finished: Vec<EntryId>,
    /// The jobs.
    pub items: Vec<TakeItem>,
}

step!(Take: "take" -> Vec<Option<Taken>>, |step| step.items.len());

/// A page of the waiting notifications of a job.
#[derive(Clone, Debug)]
pub struct ReadNotifications {
    /// The key.
    pub key: JobKey,
    /// The first number of the page.
    pub from: u64,
}

read!(ReadNotifications: "notifications" -> Waiting);

/// Drops a job's notifications with numbers up to `through`, and returns the number of waiting notifications. `None`: no such
/// job.
#[derive(Clone, Debug)]
pub struct DropNotifications {
    /// The key.
    pub key: JobKey,
    /// The last number to drop.
    pub through: u64,
}

step!(DropNotifications: "drop_notifications" -> Option<u64>);

/// Gives jobs another payload, under a higher generation. The owners of running jobs are told.
#[derive(Clone, Debug)]
pub struct Update {
    /// The turn of the jobs' plan. The step is refused once the turn is over. Jobs outside the plan are absent for the step.
    pub turn: Option<Turn>,
    /// The payloads.
    pub items: Vec<UpdateItem>,
}

step!(Update: "update" -> Vec<UpdateReply>, |step| step.items.len());
