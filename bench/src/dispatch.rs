//! Jobs dispatched until started, while the pool holds others or none.

use crate::Error;
use crate::arena::{Arena, PAYLOAD, key};
use crate::figures::short;
use crate::load::{self, Run, suffix};
use crate::options::Options;
use crate::report::Report;
use crate::staged;

/// Callers, and the jobs that they dispatch in one repetition.
type Loads = &'static [(u64, u64)];

const LOADS: Loads = &[(1, 1_500), (16, 8_000), (256, 40_000), (1_000, 60_000)];
/// Where jobs are held.
const LOADS_HELD: Loads = &[(1, 1_500), (16, 8_000), (1_000, 60_000)];
const HELD: &[u64] = &[0, 10_000, 50_000, 200_000];

const QUICK: Loads = &[(1, 20), (16, 64), (256, 512), (1_000, 1_000)];
const QUICK_HELD: Loads = &[(1, 20), (16, 64), (1_000, 1_000)];
const HELD_QUICK: &[u64] = &[0, 300];

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let mut report = Report::new("dispatch");
    let mut arena = Arena::open(&options).await?;
    let mut held = 0;
    for &level in options.sized(HELD, HELD_QUICK) {
        arena.fill(level - held).await?;
        held = level;
        let loads = match held {
            0 => options.sized(LOADS, QUICK),
            _ => options.sized(LOADS_HELD, QUICK_HELD),
        };
        for &(callers, jobs) in loads {
            let with = if held == 0 { String::new() } else { format!("_held_{}", short(held)) };
            let suffix = suffix(callers) + &with;
            let runs = measure(&mut arena, callers, jobs, options.runs()).await?;
            load::report(&mut report, "jobs", "job", &suffix, &runs);
        }
    }
    drop(arena);
    staged::report(&mut report, &options).await?;
    if !options.aof {
        append_only(&mut report, options).await?;
    }
    Ok(report)
}

/// Repetitions, after one that warms up; each one's jobs are gone before the next.
async fn measure(arena: &mut Arena, callers: u64, jobs: u64, runs: usize) -> Result<Vec<Run>, Error> {
    let producer = arena.producer.clone();
    let dispatch = move |number| {
        let dispatch = producer.dispatch(key(number), PAYLOAD.as_slice());
        async move { dispatch.await.map_err(Error::from) }
    };
    let mut measured = Vec::new();
    for run in 0..=runs {
        let numbers = arena.fresh(if run == 0 { jobs.div_ceil(4) } else { jobs });
        let repetition = load::measure(arena, callers, numbers.clone(), dispatch.clone()).await?;
        if run > 0 {
            measured.push(repetition);
        }
        arena.clear(numbers).await?;
    }
    Ok(measured)
}

/// The largest load once more, with and without an append-only file in turns, so that both have the same minute.
async fn append_only(report: &mut Report, options: Options) -> Result<(), Error> {
    let Some(&(callers, jobs)) = options.sized(LOADS, QUICK).last() else { return Ok(()) };
    let mut plain = Arena::open(&options).await?;
    let mut durable = Arena::open(&options.durable()).await?;
    let (mut with, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        let [without, run] = [
            measure(&mut plain, callers, jobs, 1).await?[0].per_s,
            measure(&mut durable, callers, jobs, 1).await?[0].per_s,
        ];
        with.push(run);
        ratios.push(run / without);
    }
    report.figure("jobs_per_s_aof", with);
    report.figure("aof_ratio", ratios);
    Ok(())
}
