//! What can happen, and how often it does.

use std::fmt;
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// What happens to the pool, its network or its Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Fault {
    /// A node is killed, and another life of it started a little later.
    Kill,
    /// The same to two nodes at once.
    KillTwo,
    /// A node is paused for less than its lease.
    ShortPause,
    /// A node is paused for longer than the time to live, and wakes up.
    LongPause,
    /// What somebody sends is held back, and arrives late or never.
    RequestsHeld,
    /// What Redis answers somebody is held back, and arrives late or never.
    RepliesHeld,
    /// Nothing passes in either direction.
    Partition,
    /// What somebody asks is carried out, and the answer is lost.
    RepliesLost,
    /// Everything of somebody's passes late.
    Latency,
    /// Somebody's connections are reset, and new ones are refused for a while.
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
    /// Redis is killed, and comes back with what it had written to its disk.
    RedisKill,
    /// Redis is killed, and comes back with nothing.
    RedisWipe,
    /// All data is deleted.
    FlushAll,
    /// A new node joins, and an old one leaves: a deploy.
    Deploy,
    /// A node leaves, and a new one comes a little later.
    Drain,
    /// The sentinels make the replica the master, on order.
    FailOver,
    /// The master is killed, and the replica has all but what was written last.
    MasterLost,
    /// The master is killed, and the replica lacks what was written in the last second.
    MasterLostAhead,
}

impl Fault {
    /// Whether data is lost, so that everything has to be well before and after it.
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
            Self::FailOver => "fail-over on order",
            Self::MasterLost => "master killed",
            Self::MasterLostAhead => "master killed, replica behind",
        })
    }
}

/// When which fault happened. Times are nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Copy, Debug)]
pub struct Occurrence {
    /// What.
    pub fault: Fault,
    /// From when on.
    pub from: u64,
}

/// What an act is made of: its faults, and the pool's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// All faults that one Redis can have.
    Everything,
    /// Crashes only, with a time to live of 5 s, each when all is at rest: how soon do their jobs run again?
    Crashes,
    /// A primary, a replica and three sentinels.
    Sentinels,
    /// For the controls: partitions that outlast every lease.
    Partitions,
    /// For the controls: replies that are held back for longer than an assignment holds.
    LateStarts,
    /// For the controls: deploys.
    Deploys,
}

impl Scene {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Crashes => "crashes",
            Self::Sentinels => "sentinels",
            Self::Partitions => "partitions",
            Self::LateStarts => "late-starts",
            Self::Deploys => "deploys",
        }
    }

    pub(super) fn ttl(self) -> Duration {
        Duration::from_secs(match self {
            Self::Crashes | Self::LateStarts => 5,
            _ => 2,
        })
    }

    /// From a job's assignment to its beginning.
    pub(super) fn assign(self) -> Duration {
        Duration::from_millis(if self == Self::LateStarts { 300 } else { 1_000 })
    }

    /// A key that is without a handler for longer is left alone: a crash and what may follow it, on a machine that is
    /// busy, and a change of roles among sentinels.
    pub(super) fn longest_gap(self) -> Duration {
        self.ttl() * 3 + Duration::from_secs(if self == Self::Sentinels { 30 } else { 10 })
    }

    /// Whether this fault can happen in it.
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

    /// Its faults, and how often each of them happens.
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
            ],
            Self::Crashes => &[(Fault::Kill, 1)],
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

    /// How long a disturbance of the network lasts.
    pub(super) fn disturbance(self, random: &mut StdRng) -> Duration {
        let (shortest, longest) = match self {
            Self::Partitions => (18, 22),
            Self::LateStarts => (2, 3),
            _ => (1, 15),
        };
        self.ttl() * random.random_range(shortest..=longest) / 10
    }
}
