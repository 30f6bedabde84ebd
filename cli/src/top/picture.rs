//! A pool at one moment, as the screens show it: rows of plain values.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tenure_pool::event::EventKind;
use tenure_pool::inspect::{MemberState, PoolPhase};
use tenure_pool::{JobKey, JobState};

use crate::out::Tone;
use crate::view::moves::Forecast;

/// All that one read has found.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) phase: PoolPhase,
    /// Another server process answers than the one that the pool was last seen on.
    pub(super) server_changed: bool,
    pub(super) hold: bool,
    pub(super) ttl: Duration,
    pub(super) counts: Counts,
    pub(super) workers: Vec<Worker>,
    /// The events since the last picture, in their order.
    pub(super) news: Vec<Happening>,
    /// How many events nodes had to forget.
    pub(super) dropped: u64,
    /// These are read only for the screens that show them.
    pub(super) jobs: Option<Found>,
    pub(super) parked: Option<Found>,
    pub(super) explained: Option<Explained>,
    /// The slots of each shard's ring.
    pub(super) rings: Vec<Vec<Option<u64>>>,
    pub(super) chain: Option<Chain>,
    pub(super) simulated: Option<Simulated>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) jobs: u64,
    pub(super) queued: u64,
    pub(super) waiting: u64,
    pub(super) parked: u64,
    pub(super) oldest: Option<Duration>,
}

/// A worker in one shard.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) shard: usize,
    pub(super) id: u64,
    pub(super) node: String,
    pub(super) state: MemberState,
    pub(super) cordoned: bool,
    pub(super) jobs: u64,
    /// The words of its node about it.
    pub(super) said: Option<Said>,
}

/// The words of a node with its last renewal.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) host: String,
    pub(super) pid: u32,
    pub(super) version: String,
    pub(super) up: Duration,
    pub(super) to_start: u64,
    pub(super) to_move: u64,
    pub(super) stuck: u64,
}

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) key: JobKey,
    pub(super) state: JobState,
    pub(super) worker: Option<u64>,
    /// The shard of the key.
    pub(super) shard: usize,
    pub(super) node: Option<String>,
    pub(super) token: u64,
    pub(super) attempts: u32,
    pub(super) since: SystemTime,
    pub(super) plan: Option<String>,
    pub(super) error: Option<String>,
    /// The reason of its last refusal.
    pub(super) refusal: Option<String>,
    /// Its pause: by whom, why, and until when.
    pub(super) paused: Option<(String, String, Option<SystemTime>)>,
}

/// The jobs that a filter means, as far as they are found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// The filter.
    pub(super) filter: String,
    /// The first of them by key.
    pub(super) jobs: Vec<Job>,
    /// How many of them there are.
    pub(super) matching: u64,
    /// How many jobs were looked at in the pass that goes on. `None` if no pass does.
    pub(super) looked: Option<u64>,
}

/// An event.
#[derive(Clone, Debug)]
pub(super) struct Happening {
    pub(super) at: SystemTime,
    pub(super) kind: EventKind,
    pub(super) keys: Vec<JobKey>,
    pub(super) count: u64,
    pub(super) worker: Option<u64>,
    pub(super) why: String,
    pub(super) node: String,
}

/// Where a job is, and why.
#[derive(Clone, Debug)]
pub(super) struct Explained {
    pub(super) key: JobKey,
    /// Its first line says it all.
    pub(super) text: String,
    pub(super) tone: Tone,
    pub(super) paused: bool,
    pub(super) remedy: Option<String>,
}

/// The workers that are asked for a key in turn.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) key: JobKey,
    pub(super) shard: usize,
    pub(super) workers: Vec<u64>,
}

/// Workers that go, and how many come in each shard, only in thought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Supposed {
    /// Their shards and ids.
    pub(super) goes: BTreeSet<(usize, u64)>,
    pub(super) joins: u32,
}

impl Supposed {
    pub(super) fn is_nothing(&self) -> bool {
        self.goes.is_empty() && self.joins == 0
    }
}

/// The jobs that would move.
#[derive(Clone, Debug)]
pub(super) struct Simulated {
    pub(super) supposed: Supposed,
    pub(super) forecast: Forecast,
    /// All jobs were looked at.
    pub(super) whole: bool,
}

/// The parts that a picture needs beside the pool itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Jobs that this filter means.
    pub(super) jobs: Option<String>,
    /// Parked jobs that this filter means.
    pub(super) parked: Option<String>,
    pub(super) explained: Option<JobKey>,
    /// The rings.
    pub(super) ring: bool,
    pub(super) chain: Option<JobKey>,
    /// A forecast of this.
    pub(super) supposed: Option<Supposed>,
    /// No picture at all.
    pub(super) paused: bool,
}
