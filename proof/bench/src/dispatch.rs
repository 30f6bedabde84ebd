//! Jobs dispatched until started, while the pool holds other jobs or none.

use clap::Args;

use crate::Error;
use crate::arena::{Arena, PAYLOAD, key};
use crate::figures::short;
use crate::load::{self, Run, suffix};
use crate::options::Options;
use crate::report::Report;
use crate::staged;

/// Numbers of callers, and the jobs that they dispatch in one repetition.
type Loads = &'static [(u64, u64)];

const LOADS: Loads = &[(1, 1_500), (16, 8_000), (256, 40_000), (1_000, 60_000)];
/// The loads while jobs are held.
const LOADS_HELD: Loads = &[(1, 1_500), (16, 8_000), (1_000, 60_000)];
const HELD: &[u64] = &[0, 10_000, 50_000, 200_000];

const QUICK: Loads = &[(1, 20), (16, 64), (256, 512), (1_000, 1_000)];
const QUICK_HELD: Loads = &[(1, 20), (16, 64), (1_000, 1_000)];
const HELD_QUICK: &[u64] = &[0, 300];

/// The selected part of the measurements.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// Only with this many callers, of 1, 16, 256 and 1000: for a look with a profiler.
    #[arg(long)]
    callers: Option<u64>,
    /// Only while this many jobs are held, of 0, 10000, 50000 and 200000.
    #[arg(long)]
    held: Option<u64>,
}

impl Part {
    fn is_whole(&self) -> bool {
        self.callers.is_none() && self.held.is_none()
    }

    fn has_callers(&self, callers: u64) -> bool {
        self.callers.is_none_or(|only| only == callers)
    }

    fn has_held(&self, held: u64) -> bool {
        self.held.is_none_or(|only| only == held)
    }

    /// # Errors
    /// No measurement matches.
    fn check(&self, options: &Options) -> Result<(), Error> {
        if !options.sized(LOADS, QUICK).iter().any(|&(callers, _)| self.has_callers(callers)) {
            return Err("there is no load with this many callers".into());
        }
        if !options.sized(HELD, HELD_QUICK).iter().any(|&held| self.has_held(held)) {
            return Err("there is no load with this many jobs held".into());
        }
        Ok(())
    }
}

pub(crate) async fn run(options: Options, part: Part) -> Result<Report, Error> {
    part.check(&options)?;
    let mut report = Report::new("dispatch");
    let mut arena = Arena::open(&options).await?;
    let mut held = 0;
    for &level in options.sized(HELD, HELD_QUICK) {
        if !part.has_held(level) {
            continue;
        }
        arena.fill(level - held).await?;
        held = level;
        let loads = match held {
            0 => options.sized(LOADS, QUICK),
            _ => options.sized(LOADS_HELD, QUICK_HELD),
        };
        for &(callers, jobs) in loads {
            if !part.has_callers(callers) {
                continue;
            }
            let with = if held == 0 { String::new() } else { format!("_held_{}", short(held)) };
            let suffix = suffix(callers) + &with;
            let runs = measure(&mut arena, callers, jobs, options.runs()).await?;
            load::report(&mut report, "jobs", "job", &suffix, &runs);
        }
    }
    drop(arena);
    if !part.is_whole() {
        return Ok(report);
    }
    staged::report(&mut report, &options).await?;
    if !options.aof {
        append_only(&mut report, options).await?;
    }
    Ok(report)
}

/// Measures repetitions, after one that warms up. The jobs of each are gone before the next.
async fn measure(arena: &mut Arena, callers: u64, jobs: u64, runs: usize) -> Result<Vec<Run>, Error> {
    let producer = arena.producer.clone();
    let dispatch = move |number| {
        let dispatch = producer.dispatch((key(number), PAYLOAD.as_slice()));
        async move { dispatch.await.map_err(Error::from) }
    };
    let mut measured = Vec::new();
    for run in 0..=runs {
        let numbers = arena.fresh(if run == 0 { jobs.div_ceil(4) } else { jobs });
        let calls = load::call(callers, numbers.clone(), dispatch.clone());
        let repetition = load::measure(arena, calls).await?;
        if run > 0 {
            measured.push(repetition);
        }
        arena.clear(numbers).await?;
    }
    Ok(measured)
}

/// The number of pairs of runs for each repetition: a ratio of two runs is noisier than either, and a disk is noisier
/// than both.
const PAIRS: usize = 3;

/// Repeats the largest load with and without an append-only file in turns, so that both have the same minute.
async fn append_only(report: &mut Report, options: Options) -> Result<(), Error> {
    let Some(&(callers, jobs)) = options.sized(LOADS, QUICK).last() else { return Ok(()) };
    let mut plain = Arena::open(&options).await?;
    let mut durable = Arena::open(&options.durable()).await?;
    let (mut with, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS * options.runs() {
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
