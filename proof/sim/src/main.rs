//! Runs the simulator over many seeds: `tenure-sim SEEDS START STEPS [FAULTS]`.
//!
//! Prints one line per failing seed, with the command that replays it. With one seed and `TRACE=1` in the
//! environment, it prints every event. The last line is the sum, as JSON. The exit status is 1 after a violation, and
//! 2 for invalid arguments.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tenure_sim::{Fault, Options, Report, run};

fn main() -> ExitCode {
    let Wanted { seeds, start, steps, faults } = Wanted::parse();
    if start.checked_add(seeds).is_none() {
        let wrong = "there are no seeds beyond START + SEEDS";
        Wanted::command().error(ErrorKind::ValueValidation, wrong).exit();
    }
    let mut options = Options { steps, ..Options::default() };
    if !faults.is_empty() {
        options.faults = faults.into_iter().collect();
    }
    options.trace = seeds == 1 && std::env::var_os("TRACE").is_some();
    let sum = simulate(seeds, start, &options);
    let faults: u64 = sum.faults.values().sum();
    let kinds: Vec<String> =
        sum.faults.iter().map(|(fault, count)| format!("\"{fault:?}\":{count}")).collect();
    println!(
        "{{\"seeds\":{seeds},\"steps\":{},\"events\":{},\"faults\":{faults},\"starts\":{},\"answers\":{},\"taken\":{},\"violations\":{},\"kinds\":{{{}}}}}",
        sum.steps,
        sum.events,
        sum.starts,
        sum.answers,
        sum.taken,
        sum.violations,
        kinds.join(",")
    );
    if sum.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The pool under simulated time and faults, one run a seed.
#[derive(Debug, Parser)]
struct Wanted {
    /// How many seeds.
    #[arg(default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed.
    #[arg(default_value_t = 1)]
    start: u64,
    /// The steps of each run.
    #[arg(default_value_t = 2_000)]
    steps: u64,
    /// The faults that may happen; all of them by default.
    #[arg(value_delimiter = ',', num_args = 1)]
    faults: Vec<Fault>,
}

#[derive(Default)]
struct Sum {
    steps: u64,
    events: u64,
    starts: u64,
    answers: u64,
    taken: u64,
    violations: u64,
    faults: BTreeMap<Fault, u64>,
}

impl Sum {
    fn add(&mut self, report: &Report, options: &Options) {
        self.steps += report.steps;
        self.events += report.events;
        self.starts += report.starts;
        self.answers += report.answers;
        self.taken += report.taken;
        for (&fault, count) in &report.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        if options.trace {
            println!("{report}");
        }
        if let Some(violation) = report.violations.first() {
            self.violations += 1;
            println!(
                "seed {} fails: {violation}   TRACE=1 make sim SEEDS=1 START={} STEPS={}{}",
                report.seed,
                report.seed,
                options.steps,
                faults_given(options)
            );
        }
    }
}

/// The argument that asks for these faults, unless they are all of them.
fn faults_given(options: &Options) -> String {
    if options.faults == Options::default().faults {
        return String::new();
    }
    let names: Vec<String> = options.faults.iter().map(|fault| format!("{fault:?}")).collect();
    format!(" FAULTS={}", names.join(","))
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
