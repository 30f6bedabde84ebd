//! The judgement: the promises that a history breaks.
//!
//! Each rule is one function over one key's runs and calls, independent of the others.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Event, Fault, Gap, History, Report,
    calls::{Calls, Loss, Made},
    runs,
    runs::{Fence, Run},
};

/// The standard for a judgement.
#[derive(Debug, Clone)]
pub struct Expect {
    /// A pause of at least this length ends the runs of the paused worker, even if the worker stops them only after it
    /// woke. By then the lease is over, and the outside world refuses their effects by the token. Choose the lease's
    /// length less one renewal interval. Without this setting only the paused time itself counts as stopped.
    pub lease: Option<Duration>,
    /// The time after waking within which such a run must be over. A run that goes on for longer counts as running
    /// again from then on, until its end.
    pub grace: Duration,
    /// The longest time that a key may be without a handler; unbounded by default.
    pub longest_gap: Option<Duration>,
    /// Whether the history ends with the pool at rest and running, as if [`Event::Settled`] came last. `false` for a
    /// history that ends with a shutdown.
    pub running_at_end: bool,
    /// No job ends by itself: an accepted one exists until a stop is requested, and no other job of its key is
    /// accepted.
    pub endless: bool,
    /// A job that runs at the moment of a loss of data outlives it, unless its worker dies or is paused before the loss
    /// is over.
    pub running_survives_loss: bool,
    /// The time after which an absence of the store at a loss excuses a handler that ends. The handler may end before
    /// the loss is over, or within `lease` and `grace` of it, because its lease may run out. By default nothing excuses
    /// it.
    pub outage: Duration,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            lease: None,
            grace: Duration::ZERO,
            longest_gap: None,
            running_at_end: true,
            endless: false,
            running_survives_loss: true,
            outage: Duration::MAX,
        }
    }
}

/// Judges a history in memory.
pub fn check(history: &History, expect: &Expect) -> Report {
    let entries = history.entries();
    let fence = expect.lease.map(|lease| Fence { lease, grace: expect.grace });
    let lease = expect.lease.map_or(Duration::ZERO, |lease| lease.saturating_add(expect.grace));
    let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
    let outage = u64::try_from(expect.outage.as_nanos()).unwrap_or(u64::MAX);
    let (mut by_key, mut faults) = runs::runs(&entries, fence);
    let (made, losses) = (Made::by_key(&entries), Loss::all(&entries));
    let mut at_rest: Vec<u64> =
        entries.iter().filter(|entry| entry.event == Event::Settled).map(|entry| entry.at).collect();
    at_rest.extend(entries.last().filter(|_| expect.running_at_end).map(|entry| entry.at));
    at_rest.dedup();

    let (keys, starts) = (by_key.len(), by_key.values().map(Vec::len).sum());
    let mut gaps = Vec::new();
    for (key, made) in made {
        let runs = by_key.remove(key).unwrap_or_default();
        let calls = Calls {
            runs: &runs,
            losses: &losses,
            survives: expect.running_survives_loss,
            outage,
            lease,
            made,
        };
        overlaps(&runs, &mut faults);
        token_order(&runs, &mut faults);
        resurrections(&calls, &mut faults);
        for &at in &at_rest {
            faults.extend(lost(key, &calls, at));
            faults.extend(still_running(key, &calls, at));
            notifications_lost(key, &calls, at, &mut faults);
        }
        notification_order(key, &calls, &mut faults);
        phantoms(key, &calls, &mut faults);
        if expect.endless {
            vanished(key, &calls, &mut faults);
        }
        gaps.extend(gaps_between(key, &calls));
    }
    let too_long = |gap: &&Gap| expect.longest_gap.is_some_and(|longest| gap.length() > longest);
    faults.extend(gaps.iter().filter(too_long).cloned().map(Fault::LongGap));
    Report { faults, gaps, keys, starts }
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

fn resurrections(calls: &Calls<'_>, faults: &mut Vec<Fault>) {
    for run in calls.runs {
        if let Some(acknowledged) = calls.stopped_before(run.start) {
            let (key, holder) = (run.key.clone(), run.holder.clone());
            faults.push(Fault::Resurrected { key, holder, acknowledged, started: run.start });
        } else if let Some(acknowledged) = calls.stop_recorded_before(run.start).filter(|&stop| {
            // A begin that was executed before the stop is fine, however late the handler starts. It was not if
            // another, earlier run of the job was still active after the stop.
            let after = |first: &Run| first.start < run.start && stop < first.end();
            run.begun.is_some_and(|begun| stop < begun) || calls.runs.iter().any(after)
        }) {
            let (key, holder) = (run.key.clone(), run.holder.clone());
            faults.push(Fault::Resurrected { key, holder, acknowledged, started: run.start });
        }
    }
}

fn lost(key: &str, calls: &Calls<'_>, at: u64) -> Option<Fault> {
    let accepted = calls.owed_at(at)?;
    let runs_now = calls.runs.iter().any(|run| run.is_active_at(at));
    (!runs_now).then(|| Fault::Lost { key: key.into(), accepted, at })
}

/// Finds owed jobs about which the pool said that there is none, or that it has accepted another one.
fn vanished(key: &str, calls: &Calls<'_>, faults: &mut Vec<Fault>) {
    let others = calls.made.acceptances().chain(calls.made.not_found.iter().copied());
    for answer in others {
        let owed = answer.asked.checked_sub(1).and_then(|before| calls.owed_at(before));
        // A loss between the question and its answer excuses the answer.
        if let Some(accepted) = owed.filter(|_| !calls.lost_within(answer)) {
            faults.push(Fault::Lost { key: key.into(), accepted, at: answer.at });
        }
    }
}

fn phantoms(key: &str, calls: &Calls<'_>, faults: &mut Vec<Fault>) {
    for answer in &calls.made.existed {
        if let Some(freed) = answer.asked.checked_sub(1).and_then(|before| calls.free_before(before)) {
            faults.push(Fault::Phantom { key: key.into(), freed, at: answer.at });
        }
    }
}

fn still_running(key: &str, calls: &Calls<'_>, at: u64) -> Option<Fault> {
    let (stopped, recorded) = (calls.stopped_before(at), calls.stop_recorded_before(at));
    let acknowledged = stopped.max(recorded)?;
    // A run that started after the job was gone is reported as a resurrection.
    let concerns = |run: &&Run| recorded.is_some() || stopped.is_some_and(|stopped| run.start <= stopped);
    let run = calls.runs.iter().filter(concerns).find(|run| run.is_active_at(at))?;
    Some(Fault::StillRunning { key: key.into(), holder: run.holder.clone(), acknowledged, at })
}

fn notifications_lost(key: &str, calls: &Calls<'_>, at: u64, faults: &mut Vec<Fault>) {
    let Some(accepted) = calls.owed_at(at) else { return };
    for &(number, answer) in &calls.made.notify_accepted {
        let concerns = accepted <= answer.asked && answer.at <= at;
        let taken = || calls.made.notified.iter().any(|&(taken, when)| taken == number && when <= at);
        if concerns && !calls.may_have_forgotten(answer.at, at) && !taken() {
            faults.push(Fault::NotificationLost { key: key.into(), number, accepted: answer.at, at });
        }
    }
}

/// Checks that accepted notifications were first taken in the order of their numbers.
fn notification_order(key: &str, calls: &Calls<'_>, faults: &mut Vec<Fault>) {
    let accepted: BTreeMap<u64, u64> =
        calls.made.notify_accepted.iter().map(|(number, answer)| (*number, answer.at)).collect();
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    for &(number, at) in &calls.made.notified {
        first.entry(number).or_insert(at);
    }
    let mut latest: Option<(u64, u64)> = None;
    for (number, at) in first.into_iter().filter(|(number, _)| accepted.contains_key(number)) {
        if let Some((later, _)) = latest.filter(|&(_, taken)| at < taken) {
            faults.push(Fault::NotificationOrder { key: key.into(), earlier: later, later: number, at });
        }
        if latest.is_none_or(|(_, taken)| taken < at) {
            latest = Some((number, at));
        }
    }
}

fn gaps_between(key: &str, calls: &Calls<'_>) -> Vec<Gap> {
    let (runs, mut gaps) = (calls.runs, Vec::new());
    let mut end: Option<u64> = None;
    for (index, run) in runs.iter().enumerate() {
        if let Some(from) = end.filter(|&end| end < run.start) {
            let before = runs[..index].last().map_or(from, |before| before.start);
            // A stop may have been requested while the previous start was under way.
            let before = calls.submitted_before(before);
            if !calls.stop_requested_within(before, run.start) && !calls.made_anew_within(before, run.start) {
                gaps.push(Gap { key: key.into(), from, to: run.start });
            }
        }
        end = end.max(Some(run.end()));
    }
    gaps
}
