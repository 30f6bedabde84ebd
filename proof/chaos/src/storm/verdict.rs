//! The outcome: figures, a table by kind of fault, and the violations.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use tenure_testing::history::{AskEnd, Entry, Event, Fault as Broken, Report};

use super::fault::{Fault, Occurrence};
use super::users::{REST, TRIAL};
use crate::resource::Counts;

/// The most violations of an act that are printed one by one.
const TOLD: usize = 20;

/// The calls that show something only if there are some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// Asks that a handler has answered, without those at rest.
    pub(super) answered: u64,
    /// Updates that the pool has taken, without those at rest.
    pub(super) updates: u64,
}

impl Calls {
    pub(super) fn of(entries: &[Entry]) -> Self {
        let count = |is: fn(&Event) -> bool| entries.iter().filter(|entry| is(&entry.event)).count() as u64;
        Self {
            answered: count(|event| match event {
                Event::AskEnded { key, id, end: AskEnd::Answered(_) } => {
                    !(key.starts_with(TRIAL) || id.starts_with(REST))
                }
                _ => false,
            }),
            updates: count(|event| match event {
                Event::PayloadAccepted { key, generation: Some(_), .. } => !key.starts_with(TRIAL),
                _ => false,
            }),
        }
    }
}

/// The outcome of one act.
#[derive(Debug)]
pub struct Outcome {
    /// Whether its crashes are those with promised gaps.
    pub(super) crashes: bool,
    pub(super) report: Report,
    pub(super) occurrences: Vec<Occurrence>,
    pub(super) outside: Counts,
    pub(super) calls: Calls,
    /// The number of lost replies for each of all scripts; empty where replies are not lost by script.
    pub(super) lost_replies: BTreeMap<String, u64>,
    pub(super) strange: Vec<String>,
}

impl Outcome {
    /// The number of times that two handlers of a key ran at once.
    pub fn overlaps(&self) -> usize {
        self.report.faults.iter().filter(|fault| matches!(fault, Broken::Overlap { .. })).count()
    }

    /// The number of accepted jobs or notifications that were lost.
    pub fn lost(&self) -> usize {
        let lost = |fault: &&Broken| matches!(fault, Broken::Lost { .. } | Broken::NotificationLost { .. });
        self.report.faults.iter().filter(lost).count()
    }

    /// All violations, in words.
    pub fn violations(&self) -> Vec<String> {
        let stale = self.outside.stale_accepted;
        let stale = (stale > 0).then(|| format!("{stale} stale writes were accepted outside"));
        self.report
            .faults
            .iter()
            .map(ToString::to_string)
            .chain(self.strange.iter().cloned())
            .chain(stale)
            .collect()
    }
}

/// The figures of one kind of fault.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    faults: usize,
    gaps: usize,
    worst_gap: Duration,
}

/// The outcome of all acts.
#[derive(Debug, Default)]
pub struct Verdict {
    outcomes: Vec<Outcome>,
}

impl Verdict {
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// The violations, in words; of each act the first ones.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for outcome in &self.outcomes {
            let mut violations = outcome.violations();
            let more = violations.len().saturating_sub(TOLD);
            violations.truncate(TOLD);
            found.append(&mut violations);
            found.extend((more > 0).then(|| format!("and {more} more")));
        }
        found.extend(self.shows_nothing());
        found
    }

    /// Events that did not happen at all, so that the run shows nothing.
    fn shows_nothing(&self) -> Vec<String> {
        let faults = self.sum(|outcome| outcome.occurrences.len() as u64);
        let idle = self.outcomes.iter().any(|outcome| outcome.report.starts == 0);
        let faultless = (faults == 0).then(|| "no fault has happened, so nothing is shown".to_owned());
        let idle = idle.then(|| "in an act no job was started, so nothing is shown".to_owned());
        let (asks, updates) =
            (self.sum(|outcome| outcome.calls.answered), self.sum(|outcome| outcome.calls.updates));
        let silent = (asks == 0 || updates == 0)
            .then(|| format!("{asks} asks were answered and {updates} updates taken: that shows too little"));
        faultless.into_iter().chain(idle).chain(silent).collect()
    }

    /// The faults by kind, and the longest time that a key was without a handler after each.
    pub fn table(&self) -> String {
        let mut rows: BTreeMap<(bool, Fault), Row> = BTreeMap::new();
        for outcome in &self.outcomes {
            for (fault, row) in by_fault(outcome) {
                let sum = rows.entry((outcome.crashes, fault)).or_default();
                sum.faults += row.faults;
                sum.gaps += row.gaps;
                sum.worst_gap = sum.worst_gap.max(row.worst_gap);
            }
        }
        let mut table = format!("{:<34} {:>7} {:>7} {:>13}\n", "fault", "times", "moves", "worst gap, ms");
        for ((crashes, fault), row) in rows {
            let name = if crashes { format!("{fault}, TTL 5 s") } else { fault.to_string() };
            // Writing to a string does not fail.
            let _ = writeln!(
                table,
                "{name:<34} {:>7} {:>7} {:>13}",
                row.faults,
                row.gaps,
                row.worst_gap.as_millis()
            );
        }
        let lost = self.lost_replies();
        let (reached, missed): (Vec<_>, Vec<_>) = lost.iter().partition(|(_, count)| **count > 0);
        if !lost.is_empty() {
            let reached: Vec<_> = reached.iter().map(|(name, count)| format!("{name} {count}")).collect();
            let missed: Vec<_> = missed.iter().map(|(name, _)| **name).collect();
            let missed = if missed.is_empty() { "none".to_owned() } else { missed.join(", ") };
            let _ = writeln!(table, "replies lost, by script: {}", reached.join(", "));
            let _ = writeln!(table, "scripts of which no reply was lost: {missed}");
        }
        let _ = write!(
            table,
            "{} starts, {} overlaps, {} lost, {} writes taken outside, {} stale ones refused, {} stale ones accepted, \
             {} asks answered, {} updates taken",
            self.sum(|outcome| outcome.report.starts as u64),
            self.sum(|outcome| outcome.overlaps() as u64),
            self.sum(|outcome| outcome.lost() as u64),
            self.sum(|outcome| outcome.outside.accepted),
            self.sum(|outcome| outcome.outside.refused),
            self.sum(|outcome| outcome.outside.stale_accepted),
            self.sum(|outcome| outcome.calls.answered),
            self.sum(|outcome| outcome.calls.updates),
        );
        table
    }

    /// The figures as one line.
    pub fn json(&self) -> String {
        let crashes = self.outcomes.iter().filter(|outcome| outcome.crashes);
        let gaps =
            crashes.filter_map(|outcome| by_fault(outcome).remove(&Fault::Kill)).map(|row| row.worst_gap);
        let field = |name: &str, value: u64| format!("\"{name}\":{value}");
        let fields = [
            field("overlaps", self.sum(|outcome| outcome.overlaps() as u64)),
            field("lost", self.sum(|outcome| outcome.lost() as u64)),
            field("stale_writes_accepted", self.sum(|outcome| outcome.outside.stale_accepted)),
            field("faults", self.sum(|outcome| outcome.occurrences.len() as u64)),
            field("starts", self.sum(|outcome| outcome.report.starts as u64)),
            field("worst_crash_gap_ms", gaps.max().unwrap_or_default().as_millis() as u64),
            field(
                "violations",
                self.sum(|outcome| outcome.violations().len() as u64) + self.shows_nothing().len() as u64,
            ),
            field("stale_writes_refused", self.sum(|outcome| outcome.outside.refused)),
            field(
                "scripts_unanswered",
                self.lost_replies().values().filter(|&&count| count > 0).count() as u64,
            ),
            field("asks_answered", self.sum(|outcome| outcome.calls.answered)),
            field("updates", self.sum(|outcome| outcome.calls.updates)),
        ];
        format!("{{{}}}", fields.join(","))
    }

    /// The number of lost replies for each script, in all acts.
    fn lost_replies(&self) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.outcomes.iter().flat_map(|outcome| &outcome.lost_replies) {
            *sums.entry(name.as_str()).or_default() += count;
        }
        sums
    }

    fn sum(&self, of: impl Fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(of).sum()
    }
}

/// The figures by fault. Each gap belongs to the last fault that had begun before it.
fn by_fault(outcome: &Outcome) -> BTreeMap<Fault, Row> {
    let mut rows: BTreeMap<Fault, Row> = BTreeMap::new();
    for occurrence in &outcome.occurrences {
        rows.entry(occurrence.fault).or_default().faults += 1;
    }
    for gap in &outcome.report.gaps {
        let after = outcome.occurrences.partition_point(|occurrence| occurrence.from <= gap.from);
        let Some(occurrence) = after.checked_sub(1).and_then(|index| outcome.occurrences.get(index)) else {
            continue;
        };
        let row = rows.entry(occurrence.fault).or_default();
        row.gaps += 1;
        row.worst_gap = row.worst_gap.max(gap.length());
    }
    rows
}

#[cfg(test)]
mod tests {
    use tenure_testing::history::{Event, Expect, History, check};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A key that w1 runs until it is killed, and w2 runs 3 s later.
    fn crash() -> Outcome {
        let history = History::new();
        let at = |second: u64, event| history.record_at(second * SECOND, event);
        let key = || "a".to_owned();
        at(1, Event::Accepted { key: key() });
        at(2, Event::Started { key: key(), token: 1, worker: "w1".into() });
        at(9, Event::WorkerDead { worker: "w1".into() });
        at(12, Event::Started { key: key(), token: 2, worker: "w2".into() });
        let kill = Occurrence { fault: Fault::Kill, from: 8 * SECOND };
        let later = Occurrence { fault: Fault::Latency, from: 10 * SECOND };
        Outcome {
            crashes: true,
            report: check(&history, &Expect::default()),
            occurrences: vec![kill, later],
            outside: Counts { accepted: 7, refused: 2, stale_accepted: 0 },
            calls: Calls { answered: 5, updates: 6 },
            lost_replies: [("begin".to_owned(), 3), ("purge".to_owned(), 0)].into(),
            strange: Vec::new(),
        }
    }

    #[test]
    fn the_last_line_has_the_figures_of_all_acts() {
        let verdict = Verdict { outcomes: vec![Outcome { crashes: false, ..crash() }, crash()] };
        assert_eq!(verdict.violations(), Vec::<String>::new());
        assert_eq!(
            verdict.json(),
            r#"{"overlaps":0,"lost":0,"stale_writes_accepted":0,"faults":4,"starts":4,"worst_crash_gap_ms":3000,"violations":0,"stale_writes_refused":4,"scripts_unanswered":1,"asks_answered":10,"updates":12}"#
        );
    }

    #[test]
    fn a_gap_belongs_to_the_fault_that_began_before_it() {
        let table = Verdict { outcomes: vec![crash()] }.table();
        let row =
            |name: &str| table.lines().find(|line| line.starts_with(name)).map(|line| line.split_at(34).1);
        let figures = |name| row(name).map(|row| row.split_whitespace().collect::<Vec<_>>());
        assert_eq!(figures("kill -9 of a node, TTL 5 s"), Some(vec!["1", "1", "3000"]), "{table}");
        assert_eq!(figures("latency, TTL 5 s"), Some(vec!["1", "0", "0"]), "{table}");
    }

    #[test]
    fn the_table_names_the_scripts_without_a_lost_reply() {
        let table = Verdict { outcomes: vec![crash(), crash()] }.table();
        assert!(table.contains("replies lost, by script: begin 6\n"), "{table}");
        assert!(table.contains("no reply was lost: purge\n"), "{table}");
    }

    #[test]
    fn every_fault_is_a_violation() {
        let stale = Counts { stale_accepted: 1, ..Counts::default() };
        let strange = vec!["a node ended by itself".to_owned()];
        let verdict = Verdict { outcomes: vec![Outcome { outside: stale, strange, ..crash() }] };
        let expected = ["a node ended by itself", "1 stale writes were accepted outside"];
        assert_eq!(verdict.violations(), expected);
    }

    #[test]
    fn a_run_without_faults_or_starts_shows_nothing() {
        let faultless = Verdict { outcomes: vec![Outcome { occurrences: Vec::new(), ..crash() }] };
        assert_eq!(faultless.violations(), ["no fault has happened, so nothing is shown"]);
        let report = check(&History::new(), &Expect::default());
        let idle = Verdict { outcomes: vec![crash(), Outcome { report, ..crash() }] };
        assert_eq!(idle.violations(), ["in an act no job was started, so nothing is shown"]);
        assert!(idle.json().contains("\"violations\":1,"), "{}", idle.json());
        let silent =
            Verdict { outcomes: vec![Outcome { calls: Calls { answered: 5, updates: 0 }, ..crash() }] };
        assert_eq!(silent.violations(), ["5 asks were answered and 0 updates taken: that shows too little"]);
    }
}
