//! The jobs that would move if workers came or went.

use std::collections::BTreeMap;

use futures::StreamExt;
use serde::Serialize;
use tenure_pool::{Inspector, MemberState, RingView, WorkerId, WorkerInfo};

use super::fleet::percent;
use crate::exit::Failure;
use crate::out::{Cell, Column, Row, Tone};

/// A forecast.
#[derive(Serialize)]
pub(crate) struct Forecast {
    /// The jobs that a worker has.
    pub(crate) jobs: u64,
    /// Those of them that would move.
    pub(crate) moves: u64,
    pub(crate) moves_percent: f64,
    pub(crate) workers: Vec<Share>,
}

/// A worker's jobs before and after.
#[derive(Clone, Serialize)]
pub(crate) struct Share {
    shard: usize,
    /// None for a worker that is only supposed.
    worker: Option<u64>,
    node: Option<String>,
    before: u64,
    after: u64,
    goes: bool,
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
    let rings = pool.rings().await?;
    let mut shares: BTreeMap<(usize, WorkerId), Share> = BTreeMap::new();
    let mut later: Vec<RingView> = Vec::with_capacity(rings.len());
    for ring in &rings {
        let shard = ring.shard();
        let of_shard: Vec<_> = workers.iter().filter(|worker| worker.shard == shard).collect();
        let leaving: Vec<_> = of_shard.iter().filter(|worker| goes(worker)).map(|worker| worker.id).collect();
        for worker in of_shard {
            let goes = goes(worker) || worker.state == MemberState::Draining;
            let (id, node) = (Some(worker.id.0), Some(worker.node.clone()));
            shares.insert((shard, worker.id), Share { shard, worker: id, node, before: 0, after: 0, goes });
        }
        let (ring, added) = ring.without(leaving).with(joins);
        for worker in added {
            let share = Share { shard, worker: None, node: None, before: 0, after: 0, goes: false };
            shares.insert((shard, worker), share);
        }
        later.push(ring);
    }
    let (mut count, mut moves) = (0, 0);
    let mut seen = std::collections::BTreeSet::new();
    let mut jobs = pool.job_stream();
    while let Some(job) = jobs.next().await {
        let job = job?;
        let Some(owner) = job.owner else { continue };
        // A job may come twice while the server's table grows.
        if !seen.insert(job.key.clone()) {
            continue;
        }
        let shard = pool.shard_of(&job.key)?;
        let Some(ring) = later.get(shard) else { continue };
        count += 1;
        let goes = ring.takes_away(&job);
        moves += u64::from(goes);
        let to = if goes { ring.place(&job.key, job.strikes) } else { Some(owner) };
        if let Some(share) = shares.get_mut(&(shard, owner)) {
            share.before += 1;
        }
        if let Some(share) = to.and_then(|to| shares.get_mut(&(shard, to))) {
            share.after += 1;
        }
    }
    let moves_percent = percent(moves, count);
    Ok(Forecast { jobs: count, moves, moves_percent, workers: shares.into_values().collect() })
}
