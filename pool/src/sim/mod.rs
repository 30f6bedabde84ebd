//! The simulator: real engines and the store in memory under a time of its own, with faults, one seed one run.
//!
//! Nothing here reads a clock, uses a thread or iterates in an order that a run does not repeat, so a seed that fails
//! fails again. What is real: the engine of every node, the leases (`core::tenancy`) and
//! the store. What stands for the shell: calls that take time, are lost, doubled or answered to nobody (`calls`); replicas
//! of the maps that lag (`node`); handlers that are small state machines (`actor`); users (`users`) and faults (`nemesis`).
//! After every event the `judge` compares what is with what may be: `records`, `handlers`, `notes`, the answers to `users`,
//! what `losses` excuse, and at the end the pool at `rest`.
//!
//! ```
//! use tenure_pool::sim::{Options, run};
//!
//! let report = run(1, &Options { steps: 20, ..Options::default() });
//! assert!(report.violations.is_empty(), "{report}");
//! ```

mod actor;
mod callers;
mod calls;
mod clock;
mod handlers;
mod judge;
mod lives;
mod losses;
mod nemesis;
mod node;
mod notes;
mod planner;
mod records;
mod rest;
mod rng;
mod users;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::breakage::Breakages;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A node ends at once; another one takes its place, often under the same name.
    Crash,
    /// A node stands still for less than the worker TTL.
    Pause,
    /// A node stands still for longer than the worker TTL.
    LongPause,
    /// Nothing of a node gets through, in one direction or both.
    Partition,
    /// A call gets lost on its way.
    LostCall,
    /// A call is executed, and its answer lost.
    LostReply,
    /// A call is executed twice.
    Doubled,
    /// A call arrives long after its caller has given up.
    Delayed,
    /// A node stands still from the moment a `begin` or a renewal of it was executed, and hears of it when it goes on.
    LateAnswer,
    /// An observer's look at the counters arrives late, and a worker is cut off right after.
    LateLook,
    /// A message about the maps gets lost.
    LostMessage,
    /// Clocks of nodes run up to 1 % too fast or too slow, and change their rate.
    Skew,
    /// The server's clock steps back or forth.
    ClockStep,
    /// The server answers nobody for a while.
    Unavailable,
    /// The server's memory is full for a while: what needs more is refused.
    Full,
    /// The consumer group is gone.
    LostGroup,
    /// One entry beside the records is gone: of an index, or a worker's counter.
    LostEntry,
    /// Another server process takes over with all data.
    Restart,
    /// Another server process takes over with older data.
    Rollback,
    /// All data are gone, with the server process or without.
    Wipe,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Crash,
        Self::Pause,
        Self::LongPause,
        Self::Partition,
        Self::LostCall,
        Self::LostReply,
        Self::Doubled,
        Self::Delayed,
        Self::LateAnswer,
        Self::LateLook,
        Self::LostMessage,
        Self::Skew,
        Self::ClockStep,
        Self::Unavailable,
        Self::Full,
        Self::LostGroup,
        Self::LostEntry,
        Self::Restart,
        Self::Rollback,
        Self::Wipe,
    ];
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Nodes that are there at a time, at most.
    pub nodes: usize,
    /// Things that users and faults do before all is healed.
    pub steps: u64,
    /// The pool's worker TTL.
    pub ttl: Duration,
    /// Keys that the jobs have.
    pub keys: u64,
    /// The kinds of faults that happen; how often each does is the seed's.
    pub faults: BTreeSet<Fault>,
    /// The lines of the protocol that are left out.
    pub broken: Breakages,
    /// Write down what happens.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 3,
            steps: 2_000,
            ttl: Duration::from_secs(2),
            keys: 8,
            faults: Fault::ALL.into_iter().collect(),
            broken: Breakages::default(),
            trace: false,
        }
    }
}

/// What became of one run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What users and faults have done.
    pub steps: u64,
    /// Events that happened.
    pub events: u64,
    /// How long it took in the simulated time.
    pub lasted: Duration,
    /// Faults that happened.
    pub faults: BTreeMap<Fault, u64>,
    /// Handlers that were started.
    pub starts: u64,
    /// A digest of all that happened: the same for the same seed.
    pub digest: u64,
    /// What was violated; the run ends with the first.
    pub violations: Vec<String>,
    /// The last events, or all of them if that was asked for.
    pub trace: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: u64 = self.faults.values().sum();
        write!(
            f,
            "seed {}: {} steps, {} events in {:?}, {faults} faults, {} starts",
            self.seed, self.steps, self.events, self.lasted, self.starts
        )?;
        for line in &self.trace {
            write!(f, "\n  {line}")?;
        }
        for violation in &self.violations {
            write!(f, "\n  VIOLATION {violation}")?;
        }
        Ok(())
    }
}

/// Events that a report shows when there is a violation.
const SHOWN: usize = 60;

/// Runs one seed. When something is violated the report has the last events.
pub fn run(seed: u64, options: &Options) -> Report {
    let report = world::World::new(seed, options, options.trace).run();
    if report.violations.is_empty() || options.trace {
        return report;
    }
    let mut shown = world::World::new(seed, options, true).run();
    let skipped = shown.trace.len().saturating_sub(SHOWN);
    shown.trace.drain(..skipped);
    shown
}
