//! Runs the simulator over many seeds: `tenure-sim SEEDS START STEPS [FAULTS]`.
//!
//! One line per seed that fails, with the command that replays it; with one seed and `TRACE=1` in the environment, all
//! that happened. The last line is the sum, as JSON. Exit status 1 if anything was violated.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_pool::sim::{Fault, Options, Report, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, otherwise: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (seeds, start, steps) = (number(0, 1_000), number(1, 1), number(2, 2_000));
    let mut options = Options { steps, ..Options::default() };
    if let Some(wanted) = arguments.get(3) {
        let chosen = |fault: &Fault| wanted.split(',').any(|name| name == format!("{fault:?}"));
        options.faults = Fault::ALL.into_iter().filter(chosen).collect::<BTreeSet<_>>();
    }
    options.trace = seeds == 1 && std::env::var_os("TRACE").is_some();
    let sum = simulate(seeds, start, &options);
    let faults: u64 = sum.faults.values().sum();
    let kinds: Vec<String> =
        sum.faults.iter().map(|(fault, count)| format!("\"{fault:?}\":{count}")).collect();
    println!(
        "{{\"seeds\":{seeds},\"steps\":{},\"events\":{},\"faults\":{faults},\"starts\":{},\"violations\":{},\"kinds\":{{{}}}}}",
        sum.steps,
        sum.events,
        sum.starts,
        sum.violations,
        kinds.join(",")
    );
    if sum.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Sum {
    steps: u64,
    events: u64,
    starts: u64,
    violations: u64,
    faults: BTreeMap<Fault, u64>,
}

impl Sum {
    fn add(&mut self, report: &Report, options: &Options) {
        self.steps += report.steps;
        self.events += report.events;
        self.starts += report.starts;
        for (&fault, count) in &report.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        if options.trace {
            println!("{report}");
        }
        if let Some(violation) = report.violations.first() {
            self.violations += 1;
            println!(
                "seed {} fails: {violation}   TRACE=1 make sim SEEDS=1 START={} STEPS={}",
                report.seed, report.seed, options.steps
            );
        }
    }
}

/// Runs the seeds on all cores.
fn simulate(seeds: u64, start: u64, options: &Options) -> Sum {
    let (next, sum) = (AtomicU64::new(start), Mutex::new(Sum::default()));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= start + seeds {
                        return;
                    }
                    let report = run(seed, options);
                    sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(&report, options);
                }
            });
        }
    });
    sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
