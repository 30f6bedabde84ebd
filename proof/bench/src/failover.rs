//! Two questions: when do the jobs of a killed worker process run again, and how soon are the jobs of a drained worker
//! elsewhere?

use std::collections::BTreeSet;

use tenure_pool::JobInfo;
use tenure_testing::within;

use crate::Error;
use crate::arena::{Arena, PATIENCE};
use crate::clock::now_us;
use crate::moves::{Moves, report_gaps};
use crate::options::Options;
use crate::report::Report;

/// The times for which a silent worker keeps its jobs.
const TTLS_MS: &[u64] = &[5_000, 2_000];
const TTLS_QUICK_MS: &[u64] = &[1_000];

/// The effects of a process's death.
struct Death {
    /// The number of its jobs.
    jobs: f64,
    /// The number of all jobs.
    all: f64,
    /// The number of jobs that were started again.
    moved: f64,
    /// The time from the death until the last of its jobs ran again.
    running_ms: f64,
}

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let mut report = Report::new("failover");
    for &ttl_ms in options.sized(TTLS_MS, TTLS_QUICK_MS) {
        let mut deaths = Vec::new();
        for _ in 0..options.runs() {
            // The process has half of them.
            deaths.push(death(&options, ttl_ms, options.sized(2_000, 100)).await?);
        }
        let suffix = format!("_ttl_{}s", ttl_ms / 1_000);
        let of = |field: fn(&Death) -> f64| deaths.iter().map(field).collect::<Vec<_>>();
        report.figure(format!("jobs_killed{suffix}"), of(|death| death.jobs));
        report.beside(format!("running_again_ms{suffix}"), of(|death| death.running_ms), vec![ttl_ms as f64]);
        let share = of(|death| death.moved / death.all);
        report.beside(format!("moved_share{suffix}"), share, of(|death| death.jobs / death.all));
    }
    let mut drains = Vec::new();
    for _ in 0..options.runs() {
        // The worker has a quarter of them.
        drains.push(drain(&options, options.sized(40_000, 200)).await?);
    }
    report.figure("jobs_drained", drains.iter().map(|moves| moves.moved.len() as f64).collect());
    report.figure("drain_ms", drains.iter().map(Moves::settled_ms).collect());
    report_gaps(&mut report, "_drain", &drains);
    Ok(report)
}

async fn death(options: &Options, ttl_ms: u64, jobs: u64) -> Result<Death, Error> {
    let mut arena = Arena::with(options, |pool| (pool.logs, pool.ttl_ms) = (true, ttl_ms)).await?;
    arena.fill(jobs).await?;
    arena.events().await?;
    let victim = arena.workers.remove(0);
    let its: BTreeSet<_> = arena
        .producer
        .inspect()
        .workers()
        .await?
        .into_iter()
        .filter(|worker| worker.node.starts_with("node-0-"))
        .map(|worker| worker.id)
        .collect();
    let is_lost = |job: &JobInfo| job.owner.is_some_and(|owner| its.contains(&owner));
    let lost: BTreeSet<_> =
        arena.jobs().await?.iter().filter(|job| is_lost(job)).map(|job| job.key.to_string()).collect();
    let began = now_us();
    victim.kill().await?;
    let (mut seen, mut events) = (BTreeSet::new(), Vec::new());
    within(PATIENCE, "the jobs of a killed process to run again", async || {
        for event in arena.events().await.map_err(|error| error.to_string())? {
            seen.insert(event.key.clone());
            events.push(event);
        }
        if lost.is_subset(&seen) { Ok(()) } else { Err(format!("{} jobs", seen.len())) }
    })
    .await?;
    arena.at_rest().await?;
    events.extend(arena.events().await?);
    let running =
        events.iter().filter(|event| event.up && lost.contains(&event.key)).map(|event| event.at_us).max();
    let moves = Moves::of(events);
    Ok(Death {
        jobs: lost.len() as f64,
        all: jobs as f64,
        moved: moves.moved.len() as f64,
        running_ms: running.unwrap_or(began).saturating_sub(began) as f64 / 1e3,
    })
}

async fn drain(options: &Options, jobs: u64) -> Result<Moves, Error> {
    let mut arena = Arena::with(options, |pool| pool.logs = true).await?;
    arena.fill(jobs).await?;
    arena.events().await?;
    let mut events = arena.workers[0].drain().await?;
    arena.at_rest().await?;
    events.extend(arena.events().await?);
    Ok(Moves::of(events))
}
