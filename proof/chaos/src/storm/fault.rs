//! The faults, and their frequencies.

use std::fmt;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// A fault of the pool, its network or its Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Fault {
    /// A node is killed, and its next life starts a little later.
    Kill,
    /// Two nodes are killed at once.
    KillTwo,
    /// A node is paused for less than its lease.
    ShortPause,
    /// A node is paused for longer than the time to live, and wakes up.
    LongPause,
    /// The requests of one node or user are held back, and arrive late or never.
    RequestsHeld,
    /// The replies to one node or user are held back, and arrive late or never.
    RepliesHeld,
    /// Nothing passes in either direction.
    Partition,
    /// The calls of one node or user are executed, and the replies are lost.
    RepliesLost,
    /// All traffic of one node or user is late.
    Latency,
    /// The connections of one node or user are reset, and new ones are refused for a while.
    Refused,
    /// Redis closes all connections.
    ClientKill,
    /// Redis forgets all scripts.
    ScriptFlush,
    /// The routers' consumer group is gone.
    GroupDestroyed,
    /// Redis has no memory left for a while.
    MemoryFull,
    /// Redis is paused.
    RedisPause,
    /// Redis is killed, and returns with the data on its disk.
    RedisKill,
    /// Redis is killed, and returns empty.
    RedisWipe,
    /// All data is deleted.
    FlushAll,
    /// A new node joins, and an old one leaves: a deploy.
    Deploy,
    /// A node leaves, and a new one joins a little later.
    Drain,
    /// A worker of a node is drained from another node.
    RemoteDrain,
    /// A node is cordoned, and another one is killed.
    Cordon,
    /// The pool is on hold for a while.
    Hold,
    /// The pool grants no jobs for a while: workers begin what they are given.
    NoGrants,
    /// A handler makes no progress any more.
    Hang,
    /// The sentinels make the replica the master, on order.
    FailOver,
    /// The master is killed, and the replica has everything but the last writes.
    MasterLost,
    /// The master is killed, and the replica lacks the writes of the last second.
    MasterLostAhead,
}

impl Fault {
    /// Whether data is lost, so that the pool must be well before and after the fault.
    pub(super) fn loses_data(self) -> bool {
        matches!(
            self,
            Self::RedisKill
                | Self::RedisWipe
                | Self::FlushAll
                | Self::FailOver
                | Self::MasterLost
                | Self::MasterLostAhead
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Kill => "kill -9 of a node",
            Self::KillTwo => "kill -9 of two nodes",
            Self::ShortPause => "pause below the TTL",
            Self::LongPause => "pause above the TTL",
            Self::RequestsHeld => "requests held back",
            Self::RepliesHeld => "replies held back",
            Self::Partition => "partition",
            Self::RepliesLost => "executed, reply lost",
            Self::Latency => "latency",
            Self::Refused => "connections refused",
            Self::ClientKill => "CLIENT KILL",
            Self::ScriptFlush => "SCRIPT FLUSH",
            Self::GroupDestroyed => "XGROUP DESTROY",
            Self::MemoryFull => "maxmemory reached",
            Self::RedisPause => "Redis paused",
            Self::RedisKill => "Redis killed, with AOF",
            Self::RedisWipe => "Redis killed, wiped",
            Self::FlushAll => "FLUSHALL",
            Self::Deploy => "deploy",
            Self::Drain => "drain",
            Self::RemoteDrain => "drain from another node",
            Self::Cordon => "cordon, and a kill",
            Self::Hold => "hold",
            Self::NoGrants => "no grants",
            Self::Hang => "a handler that hangs",
            Self::FailOver => "fail-over on order",
            Self::MasterLost => "master killed",
            Self::MasterLostAhead => "master killed, replica behind",
        })
    }
}

/// A fault and its beginning, in nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence {
    /// The fault.
    pub fault: Fault,
    /// Its beginning.
    pub from: u64,
}

/// The faults of an act, and the pool's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Scene {
    /// All faults of a single Redis.
    Everything,
    /// Crashes only, with a time to live of 5 s, each when the pool is at rest: how soon do their jobs run again?
    Crashes,
    /// A primary, a replica and three sentinels.
    Sentinels,
    /// For the controls: partitions that outlast every lease.
    Partitions,
    /// For the controls: replies that are held back for longer than an assignment holds.
    LateStarts,
    /// For the controls: deploys.
    Deploys,
    /// For the controls: kills.
    Kills,
}

impl Scene {
    pub(super) fn ttl(self) -> Duration {
        Duration::from_secs(match self {
            Self::Crashes | Self::LateStarts => 5,
            _ => 2,
        })
    }

    /// The time from a job's assignment to its beginning.
    pub(super) fn assign(self) -> Duration {
        Duration::from_millis(if self == Self::LateStarts { 300 } else { 1_000 })
    }

    /// The longest time that a key may be without a handler. It allows for a crash and its consequences on a busy
    /// machine, and for a change of roles among sentinels.
    pub(super) fn longest_gap(self) -> Duration {
        self.ttl() * 3 + Duration::from_secs(if self == Self::Sentinels { 30 } else { 10 })
    }

    /// Whether this fault can happen in the scene.
    pub(super) fn knows(self, fault: Fault) -> bool {
        self.weighted().iter().any(|&(known, _)| known == fault)
    }

    /// The next fault.
    pub(super) fn choose(self, random: &mut StdRng) -> Fault {
        // The weights are not all 0.
        self.weighted()
            .choose_weighted(random, |(_, weight)| *weight)
            .map_or(Fault::Kill, |(fault, _)| *fault)
    }

    /// The scene's faults, with their weights.
    fn weighted(self) -> &'static [(Fault, u32)] {
        match self {
            Self::Everything => &[
                (Fault::Kill, 6),
                (Fault::KillTwo, 2),
                (Fault::ShortPause, 4),
                (Fault::LongPause, 3),
                (Fault::RequestsHeld, 5),
                (Fault::RepliesHeld, 5),
                (Fault::Partition, 4),
                (Fault::RepliesLost, 8),
                (Fault::Latency, 3),
                (Fault::Refused, 3),
                (Fault::ClientKill, 4),
                (Fault::ScriptFlush, 3),
                (Fault::GroupDestroyed, 3),
                (Fault::MemoryFull, 3),
                (Fault::RedisPause, 3),
                (Fault::RedisKill, 2),
                (Fault::RedisWipe, 1),
                (Fault::FlushAll, 1),
                (Fault::Deploy, 4),
                (Fault::Drain, 3),
                (Fault::RemoteDrain, 3),
                (Fault::Cordon, 2),
                (Fault::Hold, 2),
                (Fault::NoGrants, 2),
                (Fault::Hang, 3),
            ],
            Self::Crashes | Self::Kills => &[(Fault::Kill, 1)],
            Self::Sentinels => &[
                (Fault::FailOver, 3),
                (Fault::MasterLost, 2),
                (Fault::MasterLostAhead, 2),
                (Fault::Kill, 2),
                (Fault::ShortPause, 1),
                (Fault::LongPause, 1),
                (Fault::ClientKill, 1),
                (Fault::Deploy, 1),
            ],
            Self::Partitions => &[(Fault::Partition, 1)],
            Self::LateStarts => &[(Fault::RepliesHeld, 1)],
            Self::Deploys => &[(Fault::Deploy, 1)],
        }
    }

    /// The length of a disturbance of the network.
    pub(super) fn disturbance(self, random: &mut StdRng) -> Duration {
        let (shortest, longest) = match self {
            Self::Partitions => (18, 22),
            Self::LateStarts => (2, 3),
            _ => (1, 15),
        };
        self.ttl() * random.random_range(shortest..=longest) / 10
    }
}
