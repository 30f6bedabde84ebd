//! Fleets of many nodes: jobs dispatched at several rates, and a million jobs held. A node of a large fleet has few jobs
//! to report at once, so its calls carry less.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tenure_testing::within;
use tokio::time::sleep;

use crate::Error;
use crate::arena::{Arena, PATIENCE, PAYLOAD, key};
use crate::clock::now_us;
use crate::figures::short;
use crate::idle_fleets::Second;
use crate::load::{self, Run};
use crate::machine;
use crate::options::Options;
use crate::report::Report;
use crate::results;
use crate::usage::{redis_bytes, resident};
use crate::worker::Pool;

/// The nodes of each fleet.
const FLEETS: &[usize] = &[2, 10, 50, 200];
const FLEETS_QUICK: &[usize] = &[2, 6];
/// Workers of each node.
const WORKERS: usize = 2;
/// Processes that share the nodes.
const PROCESSES: usize = 2;
/// Jobs a second.
const OFFERED: &[u64] = &[1_000, 5_000, 20_000];
const OFFERED_QUICK: &[u64] = &[500];
/// How long jobs are offered.
const TIME: Duration = Duration::from_secs(5);
const TIME_QUICK: Duration = Duration::from_millis(200);
/// The callers, and their jobs, when as many jobs are dispatched as can be.
const MOST: (u64, u64) = (1_000, 60_000);
const MOST_QUICK: (u64, u64) = (100, 400);
/// The nodes and the workers of each that hold many jobs.
const HOLDERS: (usize, usize) = (20, 10);
const HOLDERS_QUICK: (usize, usize) = (4, 2);
/// The jobs of one bulk call, where many must be held.
const SHARE: u64 = 20_000;
/// A time without users, and the quiet time after which no job moves any more.
const IDLE: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_secs(2);
/// The time for which the ring stays unchanged before jobs are moved.
const STABLE: Duration = Duration::from_secs(1);

/// The selected part of the measurements.
#[derive(Args, Debug)]
pub(crate) struct Part {
    /// Only with this many nodes, of 2, 10, 50 and 200.
    #[arg(long)]
    nodes: Option<usize>,
    /// Only with this many jobs a second, of 1000, 5000 and 20000; 0 means as many as can be.
    #[arg(long)]
    offered: Option<u64>,
    /// Only the many jobs that are held, in place of a million.
    #[arg(long, conflicts_with_all = ["nodes", "offered"])]
    held: Option<u64>,
    /// Also write the figures to fleet.json and fleet.md in this folder.
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub(crate) async fn run(options: Options, part: &Part) -> Result<Report, Error> {
    let mut report = Report::new("fleet");
    if part.held.is_none() {
        let fleets = options.sized(FLEETS, FLEETS_QUICK);
        let chosen: Vec<_> =
            fleets.iter().filter(|&&nodes| part.nodes.is_none_or(|only| only == nodes)).collect();
        let offered = options.sized(OFFERED, OFFERED_QUICK);
        if chosen.is_empty() || part.offered.is_some_and(|only| only != 0 && !offered.contains(&only)) {
            return Err("there is no such fleet, or no such load".into());
        }
        for &nodes in chosen {
            fleet(&mut report, options, part, nodes).await?;
        }
    }
    if part.nodes.is_none() && part.offered.is_none() {
        let jobs = part.held.unwrap_or(options.sized(1_000_000, 500));
        Box::pin(held(&mut report, options, jobs)).await?;
    }
    if let Some(folder) = &part.folder {
        results::write_one(folder, &machine::describe(&options)?, &report)?;
    }
    Ok(report)
}

/// The loads of one fleet.
async fn fleet(report: &mut Report, options: Options, part: &Part, nodes: usize) -> Result<(), Error> {
    let mut arena = Arena::without_workers(&options, |_| {}).await?;
    arena.add_nodes(PROCESSES, nodes / PROCESSES, WORKERS).await?;
    let of = format!("_{nodes}_nodes");
    let time = options.sized(TIME, TIME_QUICK);
    for &rate in options.sized(OFFERED, OFFERED_QUICK) {
        if part.offered.is_none_or(|only| only == rate) {
            let jobs = (rate as f64 * time.as_secs_f64()) as u64;
            let runs = measure(&mut arena, &options, jobs, Some(rate)).await?;
            let of = format!("{of}_{}_per_s", short(rate));
            load::report_offered(report, "job", &of, rate, &runs);
            scripts(report, &of, &runs);
        }
    }
    if part.offered.is_none_or(|only| only == 0) {
        let (_, jobs) = options.sized(MOST, MOST_QUICK);
        let runs = measure(&mut arena, &options, jobs, None).await?;
        load::report(report, "jobs", "job", &of, &runs);
        scripts(report, &of, &runs);
    }
    Ok(())
}

/// The calls of scripts. The rest of the commands are reads.
fn scripts(report: &mut Report, of: &str, runs: &[Run]) {
    report.figure(format!("scripts_per_job{of}"), runs.iter().map(|run| run.each.scripts).collect());
}

/// The cost of a fleet without users.
async fn idle(report: &mut Report, options: &Options, arena: &mut Arena, of: &str) -> Result<(), Error> {
    let time = options.sized(IDLE, TIME_QUICK);
    sleep(options.sized(STABLE + QUIET, TIME_QUICK)).await;
    let second = Second::of(arena, time).await?;
    report.figure(format!("idle_commands_per_s{of}"), vec![second.commands]);
    report.figure(format!("idle_redis_us_per_s{of}"), vec![second.redis_us]);
    Ok(())
}

/// Measures repetitions, after one that warms up: at a rate, or as fast as many callers can. The jobs of each are gone
/// before the next.
async fn measure(
    arena: &mut Arena,
    options: &Options,
    jobs: u64,
    rate: Option<u64>,
) -> Result<Vec<Run>, Error> {
    let producer = arena.producer.clone();
    let dispatch = move |number| {
        let dispatch = producer.dispatch((key(number), PAYLOAD.as_slice())).deadline(PATIENCE);
        async move { dispatch.await.map_err(Error::from) }
    };
    let (callers, _) = options.sized(MOST, MOST_QUICK);
    let mut measured = Vec::new();
    for run in 0..=options.runs() {
        let numbers = arena.fresh(if run == 0 { jobs.div_ceil(4) } else { jobs });
        let repetition = match rate {
            Some(rate) => load::measure(arena, load::offer(rate, numbers.clone(), dispatch.clone())).await?,
            None => load::measure(arena, load::call(callers, numbers.clone(), dispatch.clone())).await?,
        };
        if run > 0 {
            measured.push(repetition);
        }
        arena.clear(numbers).await?;
    }
    Ok(measured)
}

/// Many jobs on many workers: how long they take to start, what they take up, what they cost while nothing happens, and
/// what a node moves that comes or goes.
async fn held(report: &mut Report, options: Options, jobs: u64) -> Result<(), Error> {
    let (nodes, workers) = options.sized(HOLDERS, HOLDERS_QUICK);
    let settings = |pool: &mut Pool| pool.stable_after_ms = STABLE.as_millis() as u64;
    let mut arena = Arena::without_workers(&options, settings).await?;
    arena.add_nodes(PROCESSES, nodes / PROCESSES, workers).await?;
    let memory = async |arena: &mut Arena| {
        let processes = arena.pids().into_iter().map(resident).sum::<Result<u64, _>>()?;
        Ok::<_, Error>((processes as f64, redis_bytes(&mut arena.redis).await?))
    };
    idle(report, &options, &mut arena, "_holders_without_jobs").await?;

    // The first ones also bring what grows once.
    let warm = jobs / 10;
    arena.fill(warm).await?;
    sleep(options.sized(QUIET, TIME_QUICK)).await;
    let (before, used, began) = (memory(&mut arena).await?, arena.usage().await?, now_us());
    let measured = jobs - warm;
    let mut left = measured;
    while left > 0 {
        let share = left.min(SHARE);
        arena.fill(share).await?;
        left -= share;
    }
    let seconds = (now_us() - began) as f64 / 1e6;
    let each = arena.usage().await?.each(&used, measured);
    sleep(options.sized(QUIET, TIME_QUICK)).await;
    let after = memory(&mut arena).await?;
    report.figure("held_jobs", vec![jobs as f64]);
    report.figure("held_fill_per_s", vec![measured as f64 / seconds]);
    report.figure("held_redis_us_per_job", vec![each.redis_us]);
    report.figure("held_worker_bytes_per_job", vec![(after.0 - before.0) / measured as f64]);
    report.figure("held_redis_bytes_per_job", vec![(after.1 - before.1) / measured as f64]);
    idle(report, &options, &mut arena, "_holders_with_jobs").await?;

    let share = workers as f64 / ((nodes + 1) * workers) as f64;
    let comes = moved(&mut arena, async |arena: &mut Arena| arena.add_processes(1, workers).await).await?;
    report.beside("held_node_comes_moved_share", vec![comes.jobs / jobs as f64], vec![share]);
    report.figure("held_node_comes_settled_ms", vec![comes.settled_ms]);
    // Its counts go with it.
    let newest = arena.workers.pop().ok_or("no process")?;
    let goes = moved(&mut arena, async |_: &mut Arena| newest.leave().await.map(drop)).await?;
    report.beside("held_node_goes_moved_share", vec![goes.jobs / jobs as f64], vec![share]);
    report.figure("held_node_goes_settled_ms", vec![goes.settled_ms]);
    Ok(())
}

/// The effect of a change of the fleet.
struct Moved {
    jobs: f64,
    settled_ms: f64,
}

/// Makes a change, and waits until no job has moved for a while.
async fn moved(
    arena: &mut Arena,
    change: impl AsyncFnOnce(&mut Arena) -> Result<(), Error>,
) -> Result<Moved, Error> {
    let (before, began) = (arena.counts().await?, now_us());
    change(arena).await?;
    let changed = now_us();
    let quiet_us = (STABLE + QUIET).as_micros() as u64;
    let ended = within(PATIENCE, "jobs to be where they belong", async || {
        let counts = arena.counts().await.map_err(|error| error.to_string())?;
        let rests = now_us().saturating_sub(counts.last_us.max(changed)) > quiet_us;
        if rests { Ok(counts) } else { Err(format!("{} starts", counts.started)) }
    })
    .await?;
    let jobs = ended.started.saturating_sub(before.started) as f64;
    if jobs == 0.0 {
        return Err("no job has moved".into());
    }
    Ok(Moved { jobs, settled_ms: ended.last_us.saturating_sub(began) as f64 / 1e3 })
}
