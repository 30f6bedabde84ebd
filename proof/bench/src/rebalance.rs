//! A fifth worker joins a pool with running jobs. Only its share of them must move, soon, and each with a short gap.

use std::collections::BTreeSet;

use crate::Error;
use crate::arena::Arena;
use crate::moves::{Moves, report_gaps};
use crate::options::Options;
use crate::report::Report;

/// The time for which the ring stays unchanged before jobs are moved; the measurement begins with the first move.
const STABLE_MS: u64 = 1_000;

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let jobs = options.sized(10_000, 200);
    let mut report = Report::new("rebalance");
    let (mut runs, mut moved, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        let (moves, newcomers) = repetition(&options, jobs).await?;
        moved.push(moves.moved.len() as f64 / jobs as f64);
        elsewhere.push(moves.elsewhere(&newcomers) as f64);
        runs.push(moves);
    }
    report.beside("moved_share", moved, vec![0.2]);
    report.figure("moved_to_others", elsewhere);
    report.figure("settled_ms", runs.iter().map(Moves::settled_ms).collect());
    report_gaps(&mut report, "", &runs);
    Ok(report)
}

/// The moves, and the new workers.
async fn repetition(options: &Options, jobs: u64) -> Result<(Moves, BTreeSet<u64>), Error> {
    let mut arena =
        Arena::with(options, |pool| (pool.logs, pool.stable_after_ms) = (true, STABLE_MS)).await?;
    arena.fill(jobs).await?;
    let before: BTreeSet<_> =
        arena.producer.inspect().workers().await?.iter().map(|worker| worker.id.0).collect();
    for worker in &mut arena.workers {
        worker.events().await?;
    }
    arena.add_processes(1, 1).await?;
    let newcomers: BTreeSet<_> =
        arena.producer.inspect().workers().await?.iter().map(|worker| worker.id.0).collect();
    let newcomers = &newcomers - &before;
    arena.at_rest().await?;
    Ok((Moves::of(arena.events().await?), newcomers))
}
