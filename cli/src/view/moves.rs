//! The jobs that would move if workers came or went.

use std::collections::BTreeMap;

use futures::StreamExt;
use serde::Serialize;
use tenure_pool::inspect::{Cause, MemberState, RingView, WorkerInfo};
use tenure_pool::{Inspector, JobInfo, JobState, WorkerId};

use super::fleet::percent;
use crate::exit::Failure;
use crate::out::{Cell, Column, Row, Tone};

/// A forecast.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Forecast {
    /// The jobs that a worker has.
    pub(crate) jobs: u64,
    /// Those of them that would move.
    pub(crate) moves: u64,
    pub(crate) moves_percent: f64,
    /// Those that one worker has given up, and no other one has begun.
    #[serde(skip)]
    pub(crate) between: u64,
    pub(crate) workers: Vec<Share>,
}

/// A worker's jobs before and after.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Share {
    pub(crate) shard: usize,
    /// None for a worker that is only supposed.
    pub(crate) worker: Option<u64>,
    pub(crate) node: Option<String>,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) goes: bool,
}

impl Forecast {
    /// How many jobs would have no worker.
    pub(crate) fn waits(&self) -> u64 {
        let sum = |of: fn(&Share) -> u64| self.workers.iter().map(of).sum::<u64>();
        sum(|share| share.before).saturating_sub(sum(|share| share.after))
    }
}

impl Row for Share {
    const KIND: &'static str = "shares";
    const COLUMNS: &'static [Column] = &[
        Column::new("SHARD").right().wide(),
        Column::new("WORKER").right(),
        Column::new("NODE"),
        Column::new("BEFORE").right(),
        Column::new("AFTER").right(),
        Column::new("CHANGE").right(),
    ];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let worker = self.worker.map_or_else(|| Cell::new("new").tone(Tone::Good), Cell::of);
        let worker = if self.goes { worker.tone(Tone::Warn) } else { worker };
        let change = i128::from(self.after) - i128::from(self.before);
        vec![
            Cell::of(self.shard),
            worker,
            Cell::maybe(self.node.as_ref()),
            Cell::of(self.before),
            Cell::of(self.after),
            Cell::new(format!("{change:+}")),
        ]
    }

    fn name(&self) -> String {
        self.worker.map(|worker| worker.to_string()).unwrap_or_default()
    }
}

/// The jobs that were looked at, and where each would be.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The rings as they would be.
    later: Vec<RingView>,
    shares: BTreeMap<(usize, WorkerId), Share>,
    jobs: u64,
    moves: u64,
    between: u64,
}

impl Tally {
    /// Nothing is looked at yet. These workers would drain, and `joins` join in every shard.
    pub(crate) fn new(
        rings: &[RingView],
        workers: &[WorkerInfo],
        goes: impl Fn(&WorkerInfo) -> bool,
        joins: u32,
    ) -> Self {
        let mut shares: BTreeMap<(usize, WorkerId), Share> = BTreeMap::new();
        let mut later: Vec<RingView> = Vec::with_capacity(rings.len());
        for ring in rings {
            let shard = ring.shard();
            let of_shard: Vec<_> = workers.iter().filter(|worker| worker.shard == shard).collect();
            let leaving: Vec<_> =
                of_shard.iter().filter(|worker| goes(worker)).map(|worker| worker.id).collect();
            for worker in of_shard {
                let goes = goes(worker) || worker.state == MemberState::Draining;
                let (id, node) = (Some(worker.id.0), Some(worker.node.clone()));
                let share = Share { shard, worker: id, node, before: 0, after: 0, goes };
                shares.insert((shard, worker.id), share);
            }
            let (ring, added) = ring.without(leaving).with(joins);
            for worker in added {
                let share = Share { shard, worker: None, node: None, before: 0, after: 0, goes: false };
                shares.insert((shard, worker), share);
            }
            later.push(ring);
        }
        Self { later, shares, jobs: 0, moves: 0, between: 0 }
    }

    /// Looks at a job of this shard.
    pub(crate) fn take(&mut self, shard: usize, job: &JobInfo) {
        self.between += u64::from(is_between(job));
        let (Some(owner), Some(ring)) = (job.owner, self.later.get(shard)) else { return };
        self.jobs += 1;
        let goes = ring.takes_away(job);
        self.moves += u64::from(goes);
        let to = if goes { ring.place(&job.key, job.strikes) } else { Some(owner) };
        if let Some(share) = self.shares.get_mut(&(shard, owner)) {
            share.before += 1;
        }
        if let Some(share) = to.and_then(|to| self.shares.get_mut(&(shard, to))) {
            share.after += 1;
        }
    }

    /// The forecast of what was looked at.
    pub(crate) fn forecast(self) -> Forecast {
        let Self { shares, jobs, moves, between, .. } = self;
        let moves_percent = percent(moves, jobs);
        Forecast { jobs, moves, moves_percent, between, workers: shares.into_values().collect() }
    }
}

/// The forecast for a pool in which these workers drain and `joins` join, in every shard.
///
/// # Errors
/// The pool cannot be read.
pub(crate) async fn forecast(
    pool: &Inspector,
    workers: &[WorkerInfo],
    goes: impl Fn(&WorkerInfo) -> bool,
    joins: u32,
) -> Result<Forecast, Failure> {
    let mut tally = Tally::new(&pool.rings().await?, workers, goes, joins);
    let mut seen = std::collections::BTreeSet::new();
    let mut jobs = pool.job_stream();
    while let Some(job) = jobs.next().await {
        let job = job?;
        // A job may come twice while the server's table grows.
        if seen.insert(job.key.clone()) {
            tally.take(pool.shard_of(&job.key)?, &job);
        }
    }
    Ok(tally.forecast())
}

/// Whether the job goes from one worker to another, and nobody has begun it there. One that waits after a failure does not, and
/// neither does one that was refused: it waits for room.
fn is_between(job: &JobInfo) -> bool {
    let waits = matches!(job.state, JobState::Queued | JobState::Assigned)
        && job.error.is_none()
        && job.refusal.is_none();
    waits && job.why.is_some_and(|why| why.cause.is_a_move() && why.cause != Cause::Refused)
}
