//! The evidence of a round, and the judges' findings in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tenure_testing::history::{Entry, Event, Expect, Fault, History, Holder, check};

use super::inflict::{Touched, Wound};
use super::kind::Manner;

/// The largest part of a core that a process may keep busy: it has less than a hundred jobs, which do nothing.
const BUSY: f64 = 0.5;
/// The most lines a minute that a node may log: some for each damage that it meets, and none for each try.
const LINES_PER_MINUTE: f64 = 200.0;

/// A process of a round, and its use of time and of its log.
#[derive(Clone, Debug)]
pub struct Worked {
    /// Its name.
    pub name: String,
    /// The time of a core that it used.
    pub busy: Duration,
    /// The number of lines that it has logged.
    pub lines: usize,
    /// The lines that tell of a panic.
    pub panics: Vec<String>,
    /// Whether it has ended by itself.
    pub ended: bool,
}

/// The facts that the judges of one round use.
#[derive(Debug)]
pub struct Evidence {
    /// The damage, in its order.
    pub wounds: Vec<Wound>,
    /// The time from the first damage to the end of the round.
    pub watched: Duration,
    /// The nodes of both pools, and the server.
    pub processes: Vec<Worked>,
    /// Panics in the conductor, which is a client of both pools.
    pub panics: u64,
    /// The acts of the handlers of the damaged pool.
    pub pool: Vec<Entry>,
    /// The acts of the handlers of the neighbour.
    pub neighbour: Vec<Entry>,
    /// The jobs of the damaged pool that must run at the end.
    pub keys: Vec<String>,
    /// The jobs of the neighbour that must run at the end.
    pub neighbour_keys: Vec<String>,
    /// The moment of the first damage, in the time of histories.
    pub began: u64,
    /// Accepted writes of a holder whom another one had already followed.
    pub stale_accepted: u64,
}

/// A forbidden kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wrong {
    /// A process has panicked, or ended by itself.
    Panic,
    /// A process is busy with nothing.
    Spin,
    /// A node logs too much.
    Flood,
    /// Something happened to a job of the neighbour.
    Neighbour,
    /// A job whose own values were not touched does not run at the end.
    Lost,
    /// A job runs twice at the end, or one whose own values were not touched did on the way.
    Doubled,
    /// One token had two holders.
    Token,
}

/// All of [`Wrong`], and their names in the verdict.
pub const WRONGS: [(Wrong, &str); 7] = [
    (Wrong::Panic, "panics"),
    (Wrong::Spin, "spins"),
    (Wrong::Flood, "floods"),
    (Wrong::Neighbour, "neighbour_down"),
    (Wrong::Lost, "lost"),
    (Wrong::Doubled, "doubled"),
    (Wrong::Token, "tokens_repeated"),
];

/// A forbidden event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub wrong: Wrong,
    /// Its description.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = WRONGS.iter().find(|(wrong, _)| *wrong == self.wrong).map_or("", |(_, name)| name);
        write!(f, "{name}: {}", self.what)
    }
}

/// The handlers of each key at the end of a history.
pub fn running(entries: &[Entry]) -> BTreeMap<String, Vec<Holder>> {
    let mut running: BTreeMap<String, Vec<Holder>> = BTreeMap::new();
    for entry in entries {
        match &entry.event {
            Event::Started { key, token, worker } => {
                running
                    .entry(key.clone())
                    .or_default()
                    .push(Holder { worker: worker.clone(), token: *token });
            }
            Event::Stopped { key, token, worker } => {
                let holder = Holder { worker: worker.clone(), token: *token };
                let of_key = running.entry(key.clone()).or_default();
                if let Some(at) = of_key.iter().position(|found| *found == holder) {
                    of_key.swap_remove(at);
                }
            }
            Event::WorkerDead { worker } => {
                for holders in running.values_mut() {
                    holders.retain(|holder| holder.worker != *worker);
                }
            }
            _ => {}
        }
    }
    running
}

/// Whether no job of `keys` has two handlers, and each of `sound` has one, at the same moment. A pool is judged when its
/// jobs have come to rest.
pub fn rests(entries: &[Entry], keys: &[String], sound: &[String]) -> bool {
    let running = running(entries);
    let handlers = |key: &String| running.get(key).map_or(0, Vec::len);
    keys.iter().all(|key| handlers(key) < 2) && sound.iter().all(|key| handlers(key) == 1)
}

/// The jobs whose own values were damaged.
pub fn touched<'a>(wounds: impl IntoIterator<Item = &'a Wound>, keys: &[String]) -> BTreeSet<String> {
    let mut touched = BTreeSet::new();
    for wound in wounds {
        match &wound.touched {
            Touched::All => touched.extend(keys.iter().cloned()),
            Touched::Key(key) => touched.extend(key.clone()),
        }
    }
    touched
}

/// Everything that must not be.
pub fn judge(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut say = |wrong, what| found.push(Finding { wrong, what });
    of_processes(&evidence.processes, evidence.panics, evidence.watched, &mut say);
    of_neighbour(evidence, &mut say);
    of_pool(evidence, &mut say);
    if evidence.stale_accepted > 0 {
        say(Wrong::Token, format!("the world outside took {} stale writes", evidence.stale_accepted));
    }
    found
}

/// How processes behaved in this time, and how often the conductor panicked.
pub(super) fn of_processes(
    processes: &[Worked],
    panics: u64,
    watched: Duration,
    say: &mut impl FnMut(Wrong, String),
) {
    if panics > 0 {
        say(Wrong::Panic, format!("{panics} in the conductor"));
    }
    // In a moment some lines for each damage would be many a minute.
    let (seconds, minutes) = (watched.as_secs_f64().max(1.0), (watched.as_secs_f64() / 60.0).max(0.5));
    for process in processes {
        if let Some(first) = process.panics.first() {
            say(Wrong::Panic, format!("{}: {first}", process.name));
        }
        if process.ended {
            say(Wrong::Panic, format!("{} has ended by itself", process.name));
        }
        let busy = process.busy.as_secs_f64() / seconds;
        if busy > BUSY {
            say(Wrong::Spin, format!("{} kept {:.0} % of a core busy", process.name, busy * 100.0));
        }
        let lines = process.lines as f64 / minutes;
        if lines > LINES_PER_MINUTE {
            say(Wrong::Flood, format!("{} logged {lines:.0} lines a minute", process.name));
        }
    }
}

fn of_neighbour(evidence: &Evidence, say: &mut impl FnMut(Wrong, String)) {
    for entry in evidence.neighbour.iter().filter(|entry| entry.at >= evidence.began) {
        if let Event::Stopped { key, worker, .. } = &entry.event {
            say(Wrong::Neighbour, format!("{key} ended on {worker}"));
        }
    }
    let running = running(&evidence.neighbour);
    for key in &evidence.neighbour_keys {
        let handlers = running.get(key).map_or(0, Vec::len);
        if handlers != 1 {
            say(Wrong::Neighbour, format!("{key} has {handlers} handlers at the end"));
        }
    }
}

fn of_pool(evidence: &Evidence, say: &mut impl FnMut(Wrong, String)) {
    let touched_by = |is: fn(&&Wound) -> bool| touched(evidence.wounds.iter().filter(is), &evidence.keys);
    let touched = touched_by(|_| true);
    let its_own = touched_by(|wound| wound.touched != Touched::All);
    let changed = touched_by(|wound| wound.touched != Touched::All && wound.kind.manner == Manner::Mutate);
    let running = running(&evidence.pool);
    for key in &evidence.keys {
        let holders = running.get(key).map_or(&[][..], Vec::as_slice);
        match holders {
            [] if !touched.contains(key) => say(Wrong::Lost, format!("{key} does not run at the end")),
            [first, second, ..] => {
                say(Wrong::Doubled, format!("{key} runs as {first} and as {second} at the end"));
            }
            _ => {}
        }
    }
    let history = History::new();
    evidence.pool.iter().for_each(|entry| history.record_at(entry.at, entry.event.clone()));
    for fault in check(&history, &Expect { running_at_end: false, ..Expect::default() }).faults {
        match &fault {
            Fault::Overlap { key, .. } if !its_own.contains(key) => say(Wrong::Doubled, fault.to_string()),
            // A record that was changed may name a token that it had before.
            Fault::TokenReused { key, .. } | Fault::TokenOrder { key, .. } if !changed.contains(key) => {
                say(Wrong::Token, fault.to_string());
            }
            _ => {}
        }
    }
}
