//! Computes the intervals in which a handler could act.
//!
//! A [`Run`] is one start of one key. It ends with its stop or its worker's death. While its process is paused it
//! cannot act, so the pause is cut out of it. A pause that outlasts the lease ends the run: the outside world refuses
//! later effects by the token. That holds only for a moment after the waking; a run that continues for longer acts
//! again.

use std::{collections::BTreeMap, time::Duration};

use super::{Entry, Event, Fault, Holder};

/// One start of one key.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) key: String,
    pub(super) holder: Holder,
    /// When the store let it begin, if known; before its start.
    pub(super) begun: Option<u64>,
    pub(super) start: u64,
    /// The half-open intervals in which it could act, in order; `u64::MAX` for one that has not ended.
    pub(super) active: Vec<(u64, u64)>,
    /// When its handler ended, if that was before its worker's death.
    stopped: Option<u64>,
}

/// The part of a period in which a run was active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlasts {
    /// Up to the end of the period.
    All,
    /// Until its handler ended, within the period.
    UntilItStopped,
    /// Not at the beginning, or only until its worker died or was paused.
    Nothing,
}

/// The length of a pause that ends runs, and the time after waking within which they must be over.
#[derive(Clone, Copy)]
pub(super) struct Fence {
    pub(super) lease: Duration,
    pub(super) grace: Duration,
}

impl Run {
    pub(super) fn is_active_at(&self, at: u64) -> bool {
        self.active.iter().any(|&(from, to)| (from..to).contains(&at))
    }

    /// The moment from which it could not act any more.
    pub(super) fn end(&self) -> u64 {
        self.active.last().map_or(self.start, |&(_, to)| to)
    }

    /// The part of this period in which the run was active.
    pub(super) fn outlasts(&self, from: u64, until: u64) -> Outlasts {
        let piece = self.active.iter().find(|&&(start, end)| (start..end).contains(&from));
        match piece {
            Some(&(_, end)) if end > until => Outlasts::All,
            Some(&(_, end)) if self.stopped == Some(end) => Outlasts::UntilItStopped,
            _ => Outlasts::Nothing,
        }
    }

    fn cut(&mut self, (from, to): (u64, u64), fence: Option<Fence>) {
        let fence = fence.filter(|fence| {
            u128::from(to - from) >= fence.lease.as_nanos() && (self.start..self.end()).contains(&from)
        });
        let to = fence.map_or(to, |fence| to.saturating_add(nanos(fence.grace)));
        self.active = self
            .active
            .iter()
            .flat_map(|&(start, end)| [(start, end.min(from)), (start.max(to), end)])
            .filter(|(start, end)| start < end)
            .collect();
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The runs of every key, in the order of their starts, and the stops without a start.
pub(super) fn runs(entries: &[Entry], fence: Option<Fence>) -> (BTreeMap<String, Vec<Run>>, Vec<Fault>) {
    let mut runs: Vec<Run> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut begun: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    let mut pauses = Pauses::default();
    let mut faults = Vec::new();
    for Entry { at, event } in entries {
        match event {
            Event::Begun { key, token, executed } => {
                begun.insert((key, *token), *executed);
            }
            Event::Started { key, token, worker } => {
                open.push(runs.len());
                let holder = Holder { worker: worker.clone(), token: *token };
                let begun = begun.get(&(&**key, *token)).copied();
                let active = vec![(*at, u64::MAX)];
                runs.push(Run { key: key.clone(), holder, begun, start: *at, active, stopped: None });
            }
            Event::Stopped { key, token, worker } => {
                let holder = Holder { worker: worker.clone(), token: *token };
                let found =
                    open.iter().position(|&index| runs[index].key == *key && runs[index].holder == holder);
                match found {
                    Some(found) => {
                        let run = &mut runs[open.swap_remove(found)];
                        (run.active[0].1, run.stopped) = (*at, Some(*at));
                    }
                    None => faults.push(Fault::StopWithoutStart { key: key.clone(), holder, at: *at }),
                }
            }
            Event::WorkerDead { worker } => {
                pauses.end(worker, *at);
                open.retain(|&index| {
                    let ends = runs[index].holder.worker == *worker;
                    if ends {
                        runs[index].active[0].1 = *at;
                    }
                    !ends
                });
            }
            Event::Paused { worker } => pauses.begin(worker, *at),
            Event::Resumed { worker } => pauses.end(worker, *at),
            _ => {}
        }
    }
    let mut by_key: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for mut run in runs {
        for &pause in pauses.of(&run.holder.worker) {
            run.cut(pause, fence);
        }
        by_key.entry(run.key.clone()).or_default().push(run);
    }
    (by_key, faults)
}

/// The half-open intervals in which each worker was paused; `u64::MAX` for one that still is.
#[derive(Default)]
struct Pauses<'a>(BTreeMap<&'a str, Vec<(u64, u64)>>);

impl<'a> Pauses<'a> {
    fn begin(&mut self, worker: &'a str, at: u64) {
        let pauses = self.0.entry(worker).or_default();
        if pauses.last().is_none_or(|&(_, to)| to != u64::MAX) {
            pauses.push((at, u64::MAX));
        }
    }

    fn end(&mut self, worker: &str, at: u64) {
        if let Some((_, to)) = self.0.get_mut(worker).and_then(|pauses| pauses.last_mut()) {
            *to = at.min(*to);
        }
    }

    fn of(&self, worker: &str) -> &[(u64, u64)] {
        self.0.get(worker).map_or(&[], Vec::as_slice)
    }
}
