//! The arguments and answers of the steps that concern the pool's life and its members.

use std::time::Duration;

use tenure_steps::{EntryId, letters};

use super::performing::{read, step};
use super::{Outcome, SettingChange};
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Nonce, Revision, Token, WorkerId};
use crate::model::member::{Member, MemberState};
use crate::model::settings::{Settings, ShutdownFlag};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The state of a pool, the same for every caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// There is no pool.
    Absent,
    /// There is the tombstone of a shutdown.
    Closed {
        /// The last incarnation of the pool that was shut down.
        incarnation: Incarnation,
    },
    /// There is a pool.
    Present {
        /// Its incarnation.
        incarnation: Incarnation,
        /// Whether the pool is in phase R.
        recovering: bool,
        /// The revision of the members.
        members: Revision,
        /// The revision of the settings.
        settings: Revision,
        /// The server process that was last blessed, as [`ServerIdentity`] names it.
        run_id: String,
        /// The last incarnation of the pool that was shut down before this one was created, or 0 if it is not known.
        closed: Incarnation,
    },
}

/// The server behind the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The process and its last promotion. The text changes when the process may have other data than before.
    pub run_id: String,
    /// How long the process has run.
    pub uptime: Duration,
    /// The process was promoted from a replica at some time, or it began with the data of a master that had replicas.
    pub promoted: bool,
    /// A `flushall`, `flushdb` or `swapdb` has run since the process started.
    pub flushed: bool,
}

/// The highest token, incarnation and floor that a caller has seen. New ones are above the first two, even if the store
/// has forgotten them. Also the last incarnation that the caller knows to have been shut down. A renewal uses only the
/// token and the floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The highest token.
    pub token: Token,
    /// The highest incarnation.
    pub incarnation: Incarnation,
    /// The last incarnation of a pool that was shut down, or 0.
    pub closed: Incarnation,
    /// The highest floor, or 0. The store keeps the higher one.
    pub floor: u32,
}

/// bootstrap's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrapped {
    /// The pool's incarnation.
    pub incarnation: Incarnation,
    /// Whether this call created it.
    pub created: bool,
}

/// The arguments of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRequest {
    /// Identifies this join.
    pub nonce: Nonce,
    /// The worker's node.
    pub node: NodeName,
    /// Free text: `[A-Za-z0-9_:.-]{0,64}`.
    pub meta: String,
    /// The address that the node publishes, or empty: at most 128 visible ASCII characters without `|`.
    pub address: String,
    /// The slot that the worker would like: its slot before a fence.
    pub preferred: Option<u32>,
    /// The settings that it uses.
    pub settings: Settings,
}

/// `raise_level`'s answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The floor is at this level, and at least at the one that was asked for.
    Floor(u32),
    /// This member has a lower level: nothing was changed. No member has a lower one than this.
    Below {
        /// The worker.
        worker: WorkerId,
        /// Its level.
        level: u32,
    },
}

/// A worker's place, the answer of join and settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The worker.
    pub worker: WorkerId,
    /// Its entry.
    pub member: Member,
    /// The worker is up, and perhaps no other worker was: the caller then kicks the sweeper. Or the worker is a
    /// standby and no worker is up: it settles soon. A repeated call gets the same answer, because its first answer
    /// may be lost. A superfluous kick is harmless.
    pub first: bool,
}

/// What a server does when its memory is full, as far as a renewal has looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The renewal has not looked.
    Unknown,
    /// It refuses to write.
    Refuses,
    /// It drops keys, by this policy.
    Evicts(String),
}

/// renew's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The revision of the members.
    pub members: Revision,
    /// The revision of the settings.
    pub settings: Revision,
    /// The shutdown flag.
    pub flag: Option<ShutdownFlag>,
    /// Whether the pool is in phase R.
    pub recovering: bool,
    /// The server process that answered.
    pub run_id: String,
    /// The number of accepted jobs of the pool that have never begun.
    pub queued: u64,
    /// The highest token that the pool has assigned. 0 if its counter is damaged.
    pub token: Token,
    /// The floor of the pool: scripts of a lower level are refused.
    pub floor: u32,
    /// The call created the node's stream, because it was missing. Positions in an earlier stream do not apply to it.
    pub opened: bool,
    /// Signs of a loss that no recovery has repaired, as in [`Refusal::Lost`](super::Refusal::Lost). Empty if there
    /// are none.
    pub damage: String,
    /// What the server does when its memory is full.
    pub when_full: WhenFull,
    /// The state of each requested worker, in order. `None` if the worker is fenced.
    pub states: Vec<Option<MemberState>>,
    /// The stream of each requested worker, in order. As a stream that does not exist if the worker is fenced.
    pub streams: Vec<WorkerStream>,
}

/// The stream of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStream {
    /// The oldest entry, if there is one.
    pub oldest: Option<EntryId>,
    /// The number of entries that were ever added: fewer than before if the stream was deleted meanwhile, unless as many
    /// came since. 0 if there is no stream.
    pub added: u64,
}

/// sweep's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The number of jobs that it looked at. At the limit there may be more.
    pub count: usize,
    /// The number of them that a kick left as they are.
    pub passed: usize,
    /// The pool's stream is too long, so nothing was sent again.
    pub backlog: bool,
    /// Server time, ms, at which the next job is due.
    pub next_due: Option<u64>,
    /// How long that is from now, by the server's clock.
    pub next_in: Option<Duration>,
    /// Stops to send again: key, dispatch, owner.
    pub stops: Vec<(JobKey, DispatchId, WorkerId)>,
    /// Outcomes for the nodes that wait.
    pub outcomes: Vec<(DispatchId, Outcome)>,
    /// Jobs whose record does not parse.
    pub bad: Vec<JobKey>,
    /// Expired workers that are not yet reaped.
    pub dead: Vec<WorkerId>,
    /// The call forgot as many ended dispatches as one call may. There may be more.
    pub forgets_more: bool,
    /// The number of parked jobs of the pool.
    pub parked: u64,
}

letters! {
    /// expire's answer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Expired {
        /// The worker is expired, by this call or an earlier one.
        b'D': Done,
        /// The worker no longer exists.
        b'G': Gone,
        /// The worker has renewed meanwhile.
        b'R': Renewed,
    }
}

/// reap's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// Whether the worker has no jobs left.
    pub done: bool,
    /// The number of jobs that this call freed.
    pub count: usize,
    /// Outcomes for the nodes that wait.
    pub outcomes: Vec<(DispatchId, Outcome)>,
}

/// The request of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Let accepted jobs begin, for at most this long.
    Closing(Duration),
    /// Drop the jobs that nobody runs.
    DropQueued,
    /// Go from closing to stopping, if the time has come.
    Advance,
}

/// Creates the pool in phase R, if there is none.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The highest token and incarnation in the caller's eyes.
    pub seen: Seen,
    /// The server process of the new pool.
    pub run_id: String,
    /// The settings of the new pool.
    pub settings: Box<Settings>,
}

read!(Bootstrap: "bootstrap" -> Bootstrapped);

/// Starts a new incarnation in phase R, above all known incarnations and tokens. The first caller wins. The shutdown flag
/// stays, unless the flag belongs to a pool with a known end. `lost` has the signs of a
/// [`Refusal::Lost`](super::Refusal::Lost), or is empty. The same signs ask for no second recovery while they last.
#[derive(Clone, Debug)]
pub struct Recover {
    /// The highest token and incarnation in the caller's eyes.
    pub seen: Seen,
    /// The present server process.
    pub run_id: String,
    /// The signs of a loss, or empty.
    pub lost: String,
}

step!(Recover: "recover" -> Incarnation);

/// Leaves phase R if every member has attested. Otherwise returns a member without an attestation.
#[derive(Clone, Debug)]
pub struct OpenNormal;

step!(OpenNormal: "open_normal" -> Option<WorkerId>);

/// Changes settings of a running pool, and returns the map's revision. The step changes all of them or none: none if a
/// setting has neither the caller's known value nor the new value.
#[derive(Clone, Debug)]
pub struct ChangeSettings {
    /// The changes: all are made, or none.
    pub changes: Vec<SettingChange>,
}

step!(ChangeSettings: "change_settings" -> Revision);

/// Raises the floor of the pool to this level, once every member has the level. From then on the store refuses steps of a
/// lower level with [`Refusal::Level`](super::Refusal::Level). Refused in phase R.
#[derive(Clone, Debug)]
pub struct RaiseLevel {
    /// The new floor.
    pub level: u32,
}

step!(RaiseLevel: "raise_level" -> Raised);

/// Cordons a node, or lifts the cordon: the ring of the members gives no job to the node's workers. A stale `seen` is
/// refused with [`Refusal::StaleRing`](super::Refusal::StaleRing), which names the present revision. A repeated cordon changes
/// nothing.
#[derive(Clone, Debug)]
pub struct Cordon {
    /// The members' revision in the caller's eyes.
    pub seen: Revision,
    /// The node.
    pub node: NodeName,
    /// Whether the node is cordoned, or free again.
    pub on: bool,
}

step!(Cordon: "cordon" -> ());

/// A worker joins.
#[derive(Clone, Debug)]
pub struct Join {
    /// The joining worker.
    pub request: Box<JoinRequest>,
}

step!(Join: "join" -> Seat);

/// A standby takes a new slot.
#[derive(Clone, Debug)]
pub struct Settle {
    /// The standby.
    pub worker: WorkerId,
}

step!(Settle: "settle" -> Seat);

/// The heartbeat of all workers of a node. Raises the counter of tokens and the floor to the caller's values. Keeps the
/// stream of `node`, and looks at those of the workers. In phase N, the loss of a single key is answered with [`Refusal::Lost`](super::Refusal::Lost).
///
/// The pool keeps `status` with `node` while a worker of the call is a member, and until the node has no worker.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The highest token and the floor in the caller's eyes.
    pub seen: Seen,
    /// The node whose stream is kept.
    pub node: Option<NodeName>,
    /// The workers of the node.
    pub workers: Vec<WorkerId>,
    /// The words of the node about itself, for people; empty for none.
    pub status: Bytes,
    /// Look at what the server does when its memory is full. That takes the server a while.
    pub looks_at_memory: bool,
}

step!(Renew: "renew" -> Renewal);

/// The words of nodes with workers about themselves, by the nodes' names.
#[derive(Clone, Debug)]
pub struct ReadStatuses;

read!(ReadStatuses: "statuses" -> BTreeMap<String, Bytes>);

/// Takes workers out of the ring, all in one change. The workers keep their jobs. Returns the entries in order, `None` for a
/// worker that is no member.
#[derive(Clone, Debug)]
pub struct Drain {
    /// The workers.
    pub workers: Vec<WorkerId>,
}

step!(Drain: "drain" -> Vec<Option<Member>>, |step| step.workers.len());

/// Ends workers, all in one change of the members. A silent worker comes with its observed counter, still the same after
/// its TTL. A worker comes without a counter if nothing of it runs. Returns the answers in order.
#[derive(Clone, Debug)]
pub struct Expire {
    /// The workers with the observed counters; `None`: the worker ends by its own will.
    pub workers: Vec<(WorkerId, Option<u64>)>,
}

step!(Expire: "expire" -> Vec<Expired>, |step| step.workers.len());

/// Frees jobs of an expired worker.
#[derive(Clone, Debug)]
pub struct Reap {
    /// The expired worker.
    pub worker: WorkerId,
    /// The most jobs to free.
    pub limit: usize,
}

step!(Reap: "reap" -> Reaped);
