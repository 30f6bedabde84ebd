//! Runs the simulator over many seeds: `tenure-sim SEEDS START STEPS [FAULTS]`.
//!
//! Prints one line per failing seed, with the command that replays it. With one seed and `TRACE=1` in the
//! environment, it prints every event. The last line is the sum, as JSON. The exit status is 1 after a violation, and
//! 2 for invalid arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_sim::{Fault, Options, Report, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Wanted { seeds, start, mut options } = match Wanted::of(&arguments) {
        Ok(wanted) => wanted,
        Err(wrong) => {
            let faults: Vec<String> = Fault::ALL.iter().map(|fault| format!("{fault:?}")).collect();
            eprintln!("tenure-sim: {wrong}");
            eprintln!("usage: tenure-sim [SEEDS [START [STEPS [FAULTS]]]], FAULTS of {}", faults.join(","));
            return ExitCode::from(2);
        }
    };
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

/// The parsed arguments.
struct Wanted {
    seeds: u64,
    start: u64,
    options: Options,
}

impl Wanted {
    /// Parses the arguments. The error says what is wrong with them.
    fn of(arguments: &[String]) -> Result<Self, String> {
        let number = |at: usize, name: &str, otherwise: u64| match arguments.get(at) {
            Some(text) => text.parse().map_err(|_| format!("{name} is a number, and not {text:?}")),
            None => Ok(otherwise),
        };
        let (seeds, start, steps) =
            (number(0, "SEEDS", 1_000)?, number(1, "START", 1)?, number(2, "STEPS", 2_000)?);
        if seeds == 0 {
            return Err("0 seeds show nothing".to_owned());
        }
        if start.checked_add(seeds).is_none() {
            return Err("there are no seeds beyond START + SEEDS".to_owned());
        }
        let mut options = Options { steps, ..Options::default() };
        if let Some(wanted) = arguments.get(3) {
            let known = |name: &str| Fault::ALL.into_iter().find(|fault| format!("{fault:?}") == name);
            let chosen =
                wanted.split(',').map(|name| known(name).ok_or(format!("there is no fault {name:?}")));
            options.faults = chosen.collect::<Result<BTreeSet<_>, _>>()?;
        }
        match arguments.get(4) {
            Some(more) => Err(format!("{more:?} is too much")),
            None => Ok(Self { seeds, start, options }),
        }
    }
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
