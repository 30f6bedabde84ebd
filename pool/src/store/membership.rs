//! The arguments and answers of the steps of a pool's life and of its members.

use std::time::Duration;

use super::Outcome;
use crate::id::{DispatchId, Incarnation, JobKey, NodeName, Nonce, Revision, Token, WorkerId};
use crate::member::{Member, MemberState};
use crate::settings::{Settings, ShutdownFlag};

/// The pool as it stands, whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// Nothing is there.
    Absent,
    /// The tombstone of a shutdown is there.
    Closed {
        /// The last incarnation of the pool that it stands for.
        incarnation: Incarnation,
    },
    /// A pool is there.
    Present {
        /// Its incarnation.
        incarnation: Incarnation,
        /// True in phase R.
        recovering: bool,
        /// Revision of the members.
        members: Revision,
        /// Revision of the settings.
        settings: Revision,
        /// The server process last blessed, as [`ServerIdentity`] names it.
        run_id: String,
        /// The last incarnation of the pool that was shut down before this one was made, as far as that is known; else 0.
        closed: Incarnation,
    },
}

/// The server behind the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The process, and the last promotion of it: another one when its data may be others than before.
    pub run_id: String,
    /// How long it has run.
    pub uptime: Duration,
    /// It was promoted from a replica at some time, or began with the data of a master that had replicas.
    pub promoted: bool,
    /// A `flushall`, `flushdb` or `swapdb` was run since it started.
    pub flushed: bool,
}

/// The highest token and the highest incarnation that a caller has seen: what it makes is above both, also when the
/// store has forgotten them. And the last incarnation that it knows to have been shut down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The highest token.
    pub token: Token,
    /// The highest incarnation.
    pub incarnation: Incarnation,
    /// The last one of a pool that was shut down, else 0.
    pub closed: Incarnation,
}

/// bootstrap's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrapped {
    /// The pool's incarnation.
    pub incarnation: Incarnation,
    /// False: there was one already.
    pub created: bool,
}

/// The arguments of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// Identity of this join.
    pub nonce: Nonce,
    /// The worker's node.
    pub node: NodeName,
    /// Free text: `[A-Za-z0-9_:.-]{0,64}`.
    pub meta: String,
    /// The slot it would like: its own before a fence.
    pub preferred: Option<u32>,
    /// The settings it runs with.
    pub settings: Settings,
}

/// A worker's place, from join or settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The worker.
    pub worker: WorkerId,
    /// Its entry.
    pub member: Member,
    /// It is up, and nobody may have been before: whoever got this answer kicks the sweeper. Or it stands by, and nobody
    /// is up: it settles soon. A call that is sent again says so again, since its first answer may be lost; a superfluous
    /// kick is harmless.
    pub first: bool,
}

/// A setting to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The setting's name in the store.
    pub name: String,
    /// The value that the caller knows; empty for a setting that the pool does not have yet.
    pub from: String,
    /// The value that it is to have: a whole number.
    pub to: String,
}

/// renew's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Revision of the members.
    pub members: Revision,
    /// Revision of the settings.
    pub settings: Revision,
    /// The shutdown flag.
    pub flag: Option<ShutdownFlag>,
    /// True in phase R.
    pub recovering: bool,
    /// The server process that answered.
    pub run_id: String,
    /// Jobs of the pool that were accepted and never begun.
    pub queued: u64,
    /// The highest token that the pool has given out; 0 when its counter is damaged.
    pub token: Token,
    /// The node's stream was not there, and was made: what was read of an earlier one says nothing of where this one begins.
    pub opened: bool,
    /// Signs of a loss that a recovery did not mend, as in [`Refusal::Lost`](super::Refusal::Lost); else empty.
    pub damage: String,
    /// The server's policy, if it may drop keys when its memory is full.
    pub evicts: Option<String>,
    /// Per worker asked for, in order: its state, or `None` when it is fenced.
    pub states: Vec<Option<MemberState>>,
}

/// sweep's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Jobs acted upon; at the limit there may be more.
    pub count: usize,
    /// The pool's stream is too long: nothing was re-sent.
    pub backlog: bool,
    /// Server time, ms, of the next job that is due.
    pub next_due: Option<u64>,
    /// How long until then, by the server's clock.
    pub next_in: Option<Duration>,
    /// Stops to send again: key, dispatch, owner.
    pub stops: Vec<(JobKey, DispatchId, WorkerId)>,
    /// Outcomes for the nodes that wait.
    pub outcomes: Vec<(DispatchId, Outcome)>,
    /// Jobs whose record does not parse.
    pub bad: Vec<JobKey>,
    /// Expired workers that are not reaped yet.
    pub dead: Vec<WorkerId>,
    /// It forgot as many ended dispatches as one call does; there may be more.
    pub forgets_more: bool,
    /// Jobs of the pool that are parked.
    pub parked: u64,
}

/// expire's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// Expired, now or before.
    Done,
    /// No such worker any more.
    Gone,
    /// It has renewed meanwhile.
    Renewed,
}

/// reap's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// No job of the worker is left.
    pub done: bool,
    /// Jobs freed by this call.
    pub count: usize,
    /// Outcomes for the nodes that wait.
    pub outcomes: Vec<(DispatchId, Outcome)>,
}

/// How a shutdown is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Begin what was accepted, for at most this long.
    Closing(Duration),
    /// Drop what nobody runs.
    DropQueued,
    /// From closing to stopping, if its time has come.
    Advance,
}
