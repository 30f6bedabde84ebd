//! The judgement: which promises a history breaks.
//!
//! Each rule is one function over one key's runs and calls, and knows nothing of the others.

use std::{collections::BTreeMap, time::Duration};

use super::{Entry, Event, Fault, Gap, History, Report, runs, runs::Run};

/// What a history is measured against.
#[derive(Debug, Clone)]
pub struct Expect {
    /// A pause of at least this length ends what the paused worker ran, even if the worker stops it only after it
    /// woke: by then the lease is over, and what it tries is for the outside world to refuse by its token. Choose
    /// the lease's length less one renewal interval. Without it only the paused time itself counts as stopped.
    pub lease: Option<Duration>,
    /// The longest time that a key may be without a handler; unbounded by default.
    pub longest_gap: Option<Duration>,
    /// Whether the history ends with the pool at rest and running, as if [`Event::Settled`] came last. `false` for
    /// one that ends with a shutdown.
    pub running_at_end: bool,
}

impl Default for Expect {
    fn default() -> Self {
        Self { lease: None, longest_gap: None, running_at_end: true }
    }
}

/// Judges a history that is in memory.
pub fn check(history: &History, expect: &Expect) -> Report {
    let entries = history.entries();
    let (mut by_key, mut faults) = runs::runs(&entries, expect.lease);
    let calls = Calls::by_key(&entries);
    let mut at_rest: Vec<u64> =
        entries.iter().filter(|entry| entry.event == Event::Settled).map(|entry| entry.at).collect();
    at_rest.extend(entries.last().filter(|_| expect.running_at_end).map(|entry| entry.at));
    at_rest.dedup();

    let (keys, starts) = (by_key.len(), by_key.values().map(Vec::len).sum());
    let mut gaps = Vec::new();
    for (key, calls) in calls {
        let runs = by_key.remove(key).unwrap_or_default();
        overlaps(&runs, &mut faults);
        token_order(&runs, &mut faults);
        resurrections(&runs, &calls, &mut faults);
        for &at in &at_rest {
            faults.extend(lost(key, &runs, &calls, at));
            faults.extend(still_running(key, &runs, &calls, at));
        }
        gaps.extend(gaps_between(key, &runs, &calls));
    }
    let too_long = |gap: &&Gap| expect.longest_gap.is_some_and(|longest| gap.length() > longest);
    faults.extend(gaps.iter().filter(too_long).cloned().map(Fault::LongGap));
    Report { faults, gaps, keys, starts }
}

/// The calls about one key, each kind in the order of time.
#[derive(Default)]
struct Calls {
    submitted: Vec<u64>,
    accepted: Vec<u64>,
    stop_requested: Vec<u64>,
    stop_acknowledged: Vec<u64>,
}

impl Calls {
    fn by_key(entries: &[Entry]) -> BTreeMap<&str, Self> {
        let mut by_key: BTreeMap<&str, Self> = BTreeMap::new();
        for Entry { at, event } in entries {
            let Some(key) = event.key() else { continue };
            let calls = by_key.entry(key).or_default();
            match event {
                Event::Submitted { .. } => calls.submitted.push(*at),
                Event::Accepted { .. } => calls.accepted.push(*at),
                Event::StopRequested { .. } => calls.stop_requested.push(*at),
                Event::StopAcknowledged { .. } => calls.stop_acknowledged.push(*at),
                _ => {}
            }
        }
        by_key
    }

    /// The last stop acknowledged before `at`, unless the key may have been submitted again since it was asked for.
    fn stopped_before(&self, at: u64) -> Option<u64> {
        let acknowledged = last(&self.stop_acknowledged, at)?;
        let requested = last(&self.stop_requested, acknowledged).unwrap_or(acknowledged);
        let again = [&self.submitted, &self.accepted].iter().any(|calls| any_within(calls, requested, at));
        (!again).then_some(acknowledged)
    }

    /// The last acceptance up to `at`, unless a stop may have followed it.
    fn owed_at(&self, at: u64) -> Option<u64> {
        let accepted = last(&self.accepted, at)?;
        let submitted = last(&self.submitted, accepted).unwrap_or(accepted);
        (!any_within(&self.stop_requested, submitted, at)).then_some(accepted)
    }
}

fn last(times: &[u64], up_to: u64) -> Option<u64> {
    times.iter().rev().find(|&&time| time <= up_to).copied()
}

fn any_within(times: &[u64], from: u64, to: u64) -> bool {
    times.iter().any(|time| (from..=to).contains(time))
}

fn overlaps(runs: &[Run], faults: &mut Vec<Fault>) {
    let mut pieces: Vec<(u64, u64, &Run)> =
        runs.iter().flat_map(|run| run.active.iter().map(move |&(from, to)| (from, to, run))).collect();
    pieces.sort_by_key(|&(from, to, _)| (from, to));
    let mut longest: Option<(u64, &Run)> = None;
    for (from, to, run) in pieces {
        if let Some((end, first)) = longest.filter(|&(end, _)| from < end) {
            faults.push(Fault::Overlap {
                key: run.key.clone(),
                first: first.holder.clone(),
                second: run.holder.clone(),
                from,
                to: to.min(end),
            });
        }
        if longest.is_none_or(|(end, _)| end < to) {
            longest = Some((to, run));
        }
    }
}

fn token_order(runs: &[Run], faults: &mut Vec<Fault>) {
    let mut highest: Option<&Run> = None;
    for (index, run) in runs.iter().enumerate() {
        let key = || run.key.clone();
        if let Some(first) = runs[..index].iter().find(|first| first.holder.token == run.holder.token) {
            let (first, second) = (first.holder.clone(), run.holder.clone());
            faults.push(Fault::TokenReused { key: key(), first, second });
        } else if let Some(earlier) = highest.filter(|earlier| earlier.holder.token > run.holder.token) {
            let (earlier, later) = (earlier.holder.clone(), run.holder.clone());
            faults.push(Fault::TokenOrder { key: key(), earlier, later });
        }
        if highest.is_none_or(|highest| highest.holder.token < run.holder.token) {
            highest = Some(run);
        }
    }
}

fn resurrections(runs: &[Run], calls: &Calls, faults: &mut Vec<Fault>) {
    for run in runs {
        if let Some(acknowledged) = calls.stopped_before(run.start) {
            let (key, holder) = (run.key.clone(), run.holder.clone());
            faults.push(Fault::Resurrected { key, holder, acknowledged, started: run.start });
        }
    }
}

fn lost(key: &str, runs: &[Run], calls: &Calls, at: u64) -> Option<Fault> {
    let accepted = calls.owed_at(at)?;
    let runs_now = runs.iter().any(|run| run.is_active_at(at));
    (!runs_now).then(|| Fault::Lost { key: key.into(), accepted, at })
}

fn still_running(key: &str, runs: &[Run], calls: &Calls, at: u64) -> Option<Fault> {
    let acknowledged = calls.stopped_before(at)?;
    // One that started after the stop is reported as resurrected.
    let run = runs.iter().find(|run| run.start <= acknowledged && run.is_active_at(at))?;
    Some(Fault::StillRunning { key: key.into(), holder: run.holder.clone(), acknowledged, at })
}

fn gaps_between(key: &str, runs: &[Run], calls: &Calls) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut end: Option<u64> = None;
    for (index, run) in runs.iter().enumerate() {
        if let Some(from) = end.filter(|&end| end < run.start) {
            let before = runs[..index].last().map_or(from, |before| before.start);
            if !any_within(&calls.stop_requested, before, run.start) {
                gaps.push(Gap { key: key.into(), from, to: run.start });
            }
        }
        end = end.max(Some(run.end()));
    }
    gaps
}
