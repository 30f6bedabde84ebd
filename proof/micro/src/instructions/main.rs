//! Counts the instructions of the micro-benchmarks and compares them with a baseline: `tenure-instructions BASELINE [--accept]`.
//!
//! Time on a shared machine hides a change of a tenth, and the number of instructions is the same in every run. Each
//! case is a separate process under valgrind's callgrind, without the caller's environment. So a figure depends on
//! its case alone. `--accept` writes the figures to the baseline. The exit status is 1 if a case costs too much. It
//! is 2 if nothing could be counted, or if a dispatch grows with the jobs held.
//!
//! `tenure-instructions run CASE` is such a process. Put `valgrind --tool=callgrind
//! --toggle-collect='*Counted*measure*'` before it, and run `callgrind_annotate` after it, to see where a case's
//! instructions go.

mod baseline;
mod callgrind;
mod made_with;

use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;

use tenure_micro::{ALL, Bench, Meter, Unmeasured};

use self::baseline::Baseline;
use self::made_with::MadeWith;

/// Runs that are not counted, because the first ones warm up caches and buffers.
const WARM_UP: u64 = 2;
/// Runs that are counted.
const RUNS: u64 = 4;

/// A cost that must not grow with the jobs that a node holds, except by the depth of its maps. The case with many
/// jobs, the case with none, and how much more the first may cost, in per cent. `--accept` does not change this.
const FLAT: (&str, &str, u64) = ("dispatch.128.held_20k", "dispatch.128", 50);

/// Callgrind counts while its `measure` runs.
#[derive(Default)]
struct Counted {
    pieces: u64,
}

impl Meter for Counted {
    #[inline(never)]
    fn measure(&mut self, what: &mut dyn FnMut()) {
        what();
        // Work after the call: otherwise the call would be compiled to a jump, and callgrind would not stop counting.
        self.pieces = black_box(self.pieces + 1);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["run", name] => run(name).map(|()| true),
        [path] if !path.starts_with('-') => compare(Path::new(path), false),
        [path, "--accept"] => compare(Path::new(path), true),
        _ => Err("usage: tenure-instructions BASELINE [--accept] | run CASE".into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("tenure-instructions: {wrong}");
            ExitCode::from(2)
        }
    }
}

fn run(name: &str) -> Result<(), String> {
    let bench = ALL.iter().find(|bench| bench.name == name).ok_or_else(|| format!("no case {name}"))?;
    let mut case = (bench.build)();
    for _ in 0..WARM_UP {
        case.run(&mut Unmeasured);
    }
    let mut counted = Counted::default();
    for _ in 0..RUNS {
        case.run(&mut counted);
    }
    if counted.pieces == 0 { Err(format!("{name} measures nothing")) } else { Ok(()) }
}

/// The instructions per item, from the instructions of all counted runs.
fn per_item(bench: &Bench, instructions: u64) -> u64 {
    (instructions / RUNS).div_ceil(bench.items)
}

fn flat(counts: &[(String, u64)]) -> Result<(), String> {
    let (many, none, percent) = FLAT;
    let count = |wanted| counts.iter().find(|(name, _)| name == wanted).map(|(_, count)| *count);
    let (Some(with), Some(without)) = (count(many), count(none)) else {
        return Err(format!("{many} or {none} is not among the cases"));
    };
    if with * 100 > without * (100 + percent) {
        return Err(format!(
            "{many} costs more than {percent} % more than {none}: it grows with the jobs held"
        ));
    }
    Ok(())
}

fn compare(path: &Path, accept: bool) -> Result<bool, String> {
    let here = MadeWith::here()?;
    let counts = callgrind::count_all(&ALL)?;
    let now: Vec<(String, u64)> = ALL
        .iter()
        .zip(counts)
        .map(|(bench, instructions)| (bench.name.to_owned(), per_item(bench, instructions)))
        .collect();
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let baseline = Baseline::parse(&text)?;
    let verdict = baseline.judge(&here, &now);
    print!("{verdict}");
    flat(&now)?;
    if !accept {
        return Ok(verdict.is_good());
    }
    let accepted = Baseline { made_with: Some(here), counts: now };
    std::fs::write(path, accepted.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("accepted: {} has these figures now", path.display());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dispatch_may_grow_with_the_depth_of_maps_only() {
        let counts =
            |with| vec![("dispatch.128".to_owned(), 100), ("dispatch.128.held_20k".to_owned(), with)];
        assert_eq!(flat(&counts(150)), Ok(()));
        assert!(flat(&counts(151)).is_err());
        assert!(flat(&[]).is_err());
    }
}
