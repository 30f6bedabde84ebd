//! Jobs that leave their state in the pool: what a checkpoint costs, and a drain of jobs that each owe one.

use std::time::Instant;

use crate::Error;
use crate::arena::Arena;
use crate::options::Options;
use crate::report::Report;

/// The jobs, and the checkpoints that each gives in one repetition.
const JOBS: (u64, u64) = (5_000, 50);
const EACH: (u64, u64) = (12, 2);
/// The jobs of the worker that is drained.
const MOVED: (u64, u64) = (10_000, 100);
/// No job moves by itself.
const NEVER_MS: u64 = 3_600_000;

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let mut report = Report::new("checkpoint");
    let mut arena = Arena::with(&options, |pool| pool.keeps_jobs = true).await?;
    let jobs = options.sized(JOBS.0, JOBS.1);
    arena.fill(jobs).await?;
    let each = options.sized(EACH.0, EACH.1);
    let (mut per_s, mut floors, mut redis, mut workers, mut commands) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..=options.runs() {
        let floor = arena.floor().await?;
        let (before, began, mut count) = (arena.usage().await?, Instant::now(), 0);
        for _ in 0..each {
            count += arena.checkpoint_all().await?;
        }
        let elapsed = began.elapsed().as_secs_f64();
        let used = arena.usage().await?.each(&before, count);
        if run > 0 {
            per_s.push(count as f64 / elapsed);
            floors.push(floor.xadd_per_s);
            redis.push(used.redis_us);
            workers.push(used.workers_us);
            commands.push(used.commands);
        }
    }
    report.beside("checkpoints_per_s", per_s, floors);
    report.figure("redis_us_per_checkpoint", redis);
    report.figure("workers_us_per_checkpoint", workers);
    report.figure("commands_per_checkpoint", commands);
    drop(arena);
    for (name, owes) in [("drain_ms_without", false), ("drain_ms", true)] {
        let (mut times, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..options.runs() {
            let (ms, redis_us) = Box::pin(drain(&options, owes)).await?;
            times.push(ms);
            costs.push(redis_us);
        }
        report.figure(name, times);
        report.figure(name.replace("_ms", "_redis_us_per_job"), costs);
    }
    Ok(report)
}

/// One worker leaves all jobs to another one. `owes`: each job gives a checkpoint in its stop handler. Returns the time
/// until the worker has left, ms, and Redis's CPU time for each job until all run again, µs.
async fn drain(options: &Options, owes: bool) -> Result<(f64, f64), Error> {
    let settings = |pool: &mut crate::worker::Pool| {
        pool.stable_after_ms = NEVER_MS;
        pool.saves_at_stop = owes;
    };
    let mut arena = Arena::without_workers(options, settings).await?;
    arena.add_processes(1, 1).await?;
    let jobs = options.sized(MOVED.0, MOVED.1);
    arena.fill(jobs).await?;
    arena.add_processes(1, 1).await?;
    let started = arena.counts().await?.started;
    let before = arena.usage().await?;
    let began = Instant::now();
    arena.workers[0].drain().await?;
    let elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
    arena.seen(|counts| counts.started, started + jobs).await?;
    Ok((elapsed_ms, arena.usage().await?.each(&before, jobs).redis_us))
}
