//! The micro-benchmarks (feature `micro`): the engine's step in each of a node's roles, the ring and the codecs. Each
//! makes its own input. `proof/micro/benches/core.rs` takes their time, and `bin/instructions` counts their instructions.
//!
//! No code here waits, draws or reads a clock. A case does the same in each run, apart from the state that its own
//! earlier runs have left.

mod codecs;
mod node;
mod placing;
mod round;

use self::codecs::{begin_replies, digest, format_records, open, parse_records, seal};
use self::placing::Placing;
use self::round::{Round, Stage};
use tenure_protocol::step::BATCH_MAX;

/// Times or counts the measured code.
pub trait Meter {
    /// Calls `what` once, and adds its cost.
    fn measure(&mut self, what: &mut dyn FnMut());
}

/// A case that can be measured repeatedly.
pub trait Case {
    /// Makes its input, and lets the meter run the measured code in one or more pieces.
    fn run(&mut self, meter: &mut dyn Meter);
}

/// A case that can be built.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// Its name, `what.part` or `what.part.size`.
    pub name: &'static str,
    /// The number of items that one run handles: figures are per item.
    pub items: u64,
    /// Builds it, which may take a while.
    pub build: fn() -> Box<dyn Case>,
}

/// Runs the case without a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Unmeasured;

impl Meter for Unmeasured {
    fn measure(&mut self, what: &mut dyn FnMut()) {
        what();
    }
}

/// The number of jobs in one call to the store under load.
const BATCH: usize = BATCH_MAX;
/// The number of keys or records in one run of a small case.
const MANY: usize = 1_000;

const BATCH_ITEMS: u64 = BATCH as u64;
const MANY_ITEMS: u64 = MANY as u64;

macro_rules! bench {
    ($name:literal, $items:expr, $case:expr) => {
        Bench { name: $name, items: $items, build: || Box::new($case) }
    };
}

/// All cases.
pub const ALL: [Bench; 26] = [
    // One dispatch from its submission until its caller knows that it has started, placed by its dispatcher. All
    // roles are on one node, which holds this many other jobs.
    bench!("dispatch.1", 1, Round::new(0, 1, &Stage::DISPATCH)),
    bench!("dispatch.128", BATCH_ITEMS, Round::new(0, BATCH, &Stage::DISPATCH)),
    bench!("dispatch.128.held_20k", BATCH_ITEMS, Round::new(20_000, BATCH, &Stage::DISPATCH)),
    // Its steps, one by one: as the dispatcher, the router, and the worker.
    bench!("step.submit", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Submit])),
    bench!("step.accepted", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Accepted])),
    bench!("step.told", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Told])),
    bench!("step.route", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Route])),
    bench!("step.routed", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Routed])),
    bench!("step.assigned", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Assigned])),
    bench!("step.begun", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Begun])),
    bench!("step.started", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Started])),
    bench!("step.noted", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Noted])),
    // Jobs that end by themselves.
    bench!("step.ended", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Ended])),
    bench!("step.released", BATCH_ITEMS, Round::new(0, BATCH, &[Stage::Released])),
    // The worker of a key. Every third place is a hole, and strikes send a key on.
    bench!("ring.4", MANY_ITEMS, Placing::new(4, 0)),
    bench!("ring.64", MANY_ITEMS, Placing::new(64, 0)),
    bench!("ring.1000", MANY_ITEMS, Placing::new(1_000, 0)),
    bench!("ring.64.strikes", MANY_ITEMS, Placing::new(64, 9)),
    bench!("ring.made_anew.64", 1, placing::anew(64)),
    bench!("ring.made_anew.1000", 1, placing::anew(1_000)),
    bench!("record.parse", MANY_ITEMS, parse_records()),
    bench!("record.format", MANY_ITEMS, format_records()),
    bench!("envelope.seal", MANY_ITEMS, seal()),
    bench!("envelope.open", MANY_ITEMS, open()),
    bench!("envelope.digest", MANY_ITEMS, digest()),
    // The records and payloads of `begin`'s answer, from the connection's values.
    bench!("begin.replies", BATCH_ITEMS, begin_replies()),
];

/// A case that is a function. It keeps its input and its results.
struct Repeated<F>(F);

impl<F: FnMut(&mut dyn Meter)> Case for Repeated<F> {
    fn run(&mut self, meter: &mut dyn Meter) {
        (self.0)(meter);
    }
}

/// The name of the job of this number. Neighbours lie far apart in the order of keys.
fn job_name(number: u64) -> String {
    format!("tenant-{:08x}", (number as u32).wrapping_mul(0x9e37_79b1))
}

/// Ends the run if a condition of the measurement fails.
fn sure<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the pieces.
    #[derive(Default)]
    struct Pieces(u32);

    impl Meter for Pieces {
        fn measure(&mut self, what: &mut dyn FnMut()) {
            what();
            self.0 += 1;
        }
    }

    #[test]
    fn every_case_can_be_run_again_and_measures_something_each_time() {
        for bench in ALL.iter().filter(|bench| !bench.name.ends_with("held_20k")) {
            let mut case = (bench.build)();
            let runs = [(); 3].map(|()| {
                let mut pieces = Pieces::default();
                case.run(&mut pieces);
                pieces.0
            });
            assert!(runs[0] > 0 && runs.iter().all(|run| *run == runs[0]), "{}: {runs:?}", bench.name);
        }
    }

    #[test]
    fn a_round_works_beside_jobs_that_are_held() {
        let mut round = Round::new(300, BATCH, &Stage::DISPATCH);
        round.run(&mut Unmeasured);
        assert_eq!(round.held(), 300, "what it has dispatched has ended again");
    }
}
