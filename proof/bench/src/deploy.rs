//! A rolling deploy: for each worker process a new one joins and takes its place, and the old one leaves. Each job must
//! move about once.

use std::time::Instant;

use crate::Error;
use crate::arena::Arena;
use crate::moves::{Moves, report_gaps};
use crate::options::Options;
use crate::report::Report;

/// The time for which a new worker waits for the place of one that leaves, which is asked to leave at once.
const SETTLE_MS: u64 = 3_000;

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let jobs = options.sized(10_000, 200);
    let mut report = Report::new("deploy");
    let (mut runs, mut times) = (Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        let (moves, elapsed_ms) = repetition(&options, jobs).await?;
        runs.push(moves);
        times.push(elapsed_ms);
    }
    let per_job = runs.iter().map(|moves| moves.starts as f64 / jobs as f64).collect();
    report.beside("moves_per_job", per_job, vec![1.0]);
    report.figure("not_moved", runs.iter().map(|moves| jobs as f64 - moves.moved.len() as f64).collect());
    report.figure("deploy_ms", times);
    report_gaps(&mut report, "", &runs);
    Ok(report)
}

async fn repetition(options: &Options, jobs: u64) -> Result<(Moves, f64), Error> {
    let mut arena = Arena::with(options, |pool| (pool.logs, pool.join_settle_ms) = (true, SETTLE_MS)).await?;
    arena.fill(jobs).await?;
    arena.events().await?;
    let began = Instant::now();
    let mut events = Vec::new();
    for _ in 0..arena.workers.len() {
        arena.add_process(2).await?;
        events.extend(arena.workers.remove(0).leave().await?);
    }
    let elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
    arena.at_rest().await?;
    events.extend(arena.events().await?);
    Ok((Moves::of(events), elapsed_ms))
}
