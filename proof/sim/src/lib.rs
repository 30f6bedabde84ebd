//! The simulator: real engines and the store in memory under simulated time, with faults. One seed is one run.
//!
//! No code here reads a clock, uses a thread or iterates in an order that differs between runs, so a failing seed
//! fails again. The engine of every node, the leases (`core::lease::table`) and the store are real. The shell is
//! simulated:
//!
//! - `calls` take time, and are lost, doubled or answered to no caller;
//! - replicas of the maps lag (`node`);
//! - handlers are small state machines (`actor`);
//! - `users` act, and `nemesis` makes faults.
//!
//! After every event the `judge` compares the state with the permitted one. It looks at `records`, `handlers`,
//! `notes`, `asks`, `saves`, `stalls`, `holds`, `crowds`, `levels` and the answers to `users`, minus the excuses of `losses`.
//! At the end it looks at the pool at `rest`.
//!
//! ```
//! use tenure_sim::{Options, run};
//!
//! let report = run(1, &Options { steps: 20, ..Options::default() });
//! assert!(report.violations.is_empty(), "{report}");
//! ```

mod actor;
mod askers;
mod asks;
mod callers;
mod calls;
mod clock;
mod cordons;
mod crowds;
mod handlers;
mod holds;
mod judge;
mod leases;
mod levels;
mod lives;
mod losses;
mod nemesis;
mod node;
mod notes;
mod planner;
mod records;
mod rest;
mod rng;
mod saves;
mod stalls;
mod steers;
pub mod transitions;
mod updates;
mod users;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use tenure_protocol::mutation::Mutations;

/// One kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[value(rename_all = "verbatim")]
#[non_exhaustive]
pub enum Fault {
    /// A node ends at once; another one takes its place, often under the same name.
    Crash,
    /// A node pauses for less than the worker TTL.
    Pause,
    /// A node pauses for longer than the worker TTL.
    LongPause,
    /// Messages of a node are lost, in one direction or both.
    Partition,
    /// A call is lost on its way.
    LostCall,
    /// A call is executed, and its answer is lost.
    LostReply,
    /// A call is executed twice.
    Doubled,
    /// A read of a node's streams brings events of its workers again, or once more after those that came since.
    ReadAgain,
    /// A call arrives long after its caller has given up.
    Delayed,
    /// A node pauses when its `begin` or renewal was executed, and hears of that when it goes on.
    LateAnswer,
    /// An observer's look at the counters arrives late, and a worker is cut off right after.
    LateLook,
    /// A message about the maps is lost.
    LostMessage,
    /// Clocks of nodes run up to 1 % too fast or too slow, and change their rate.
    Skew,
    /// The server's clock steps back or forth.
    ClockStep,
    /// The server answers nobody for a while.
    Unavailable,
    /// The server's memory is full for a while: it refuses steps that need more.
    Full,
    /// The consumer group is gone.
    LostGroup,
    /// One entry beside the records is lost: of an index, or a worker's counter.
    LostEntry,
    /// Another server process takes over with all data.
    Restart,
    /// Another server process takes over with older data.
    Rollback,
    /// All data are lost, with the server process or without.
    Wipe,
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The maximum number of nodes at a time.
    pub nodes: usize,
    /// The number of actions of users and faults before the world is healed.
    pub steps: u64,
    /// The pool's worker TTL.
    pub ttl: Duration,
    /// The number of the jobs' keys.
    pub keys: u64,
    /// The kinds of faults that happen; the seed draws their rates.
    pub faults: BTreeSet<Fault>,
    /// The lines of the protocol that are broken.
    pub broken: Mutations,
    /// Write down all events.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 3,
            steps: 2_000,
            ttl: Duration::from_secs(2),
            keys: 8,
            faults: Fault::value_variants().iter().copied().collect(),
            broken: Mutations::default(),
            trace: false,
        }
    }
}

/// The result of one run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Actions of users and faults.
    pub steps: u64,
    /// Events that happened.
    pub events: u64,
    /// The simulated duration.
    pub lasted: Duration,
    /// Faults that happened.
    pub faults: BTreeMap<Fault, u64>,
    /// Handlers that were started.
    pub starts: u64,
    /// Asks that were answered.
    pub answers: u64,
    /// Payloads that handlers took without a restart.
    pub taken: u64,
    /// Asks that came to a handler again after one had sent them on.
    pub sent_on: u64,
    /// A digest of all events: equal for the same seed.
    pub digest: u64,
    /// The violations; the run ends with the first.
    pub violations: Vec<String>,
    /// The last events, or all of them if the options ask for that.
    pub trace: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: u64 = self.faults.values().sum();
        write!(
            f,
            "seed {}: {} steps, {} events in {:?}, {faults} faults, {} starts, {} answers, {} payloads taken",
            self.seed, self.steps, self.events, self.lasted, self.starts, self.answers, self.taken
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

/// The number of events that a report shows after a violation.
const SHOWN: usize = 60;

/// Runs one seed. After a violation the report has the last events.
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
