//! The calls about one key and their answers, and what follows from them: which jobs are owed, and which are gone.

use std::collections::BTreeMap;

use super::{
    Entry, Event,
    runs::{Outlasts, Run},
};

/// A loss of data in the store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loss {
    /// The moment.
    lost: u64,
    /// Acknowledgements from here on may be forgotten …
    since: u64,
    /// … until here, because an answer may be recorded late.
    until: u64,
    /// When the store answered again.
    back: u64,
    wiped: bool,
}

impl Loss {
    /// All losses, in the order of time.
    pub(super) fn all(entries: &[Entry]) -> Vec<Self> {
        let loss = |entry: &Entry| match entry.event {
            Event::DataLost { lost, since, back, wiped } => {
                Some(Self { lost, since, until: entry.at, back, wiped })
            }
            _ => None,
        };
        entries.iter().filter_map(loss).collect()
    }

    /// Whether the loss lies between the acknowledgement and this moment.
    fn concerns(&self, acknowledged: u64, at: u64) -> bool {
        acknowledged <= self.until && self.lost <= at
    }

    /// Whether the store itself may have forgotten what it acknowledged at that time.
    fn forgets(&self, acknowledged: u64) -> bool {
        self.wiped || self.since <= acknowledged
    }
}

/// An answered call: the moments of the question and of the answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub(super) asked: u64,
    pub(super) at: u64,
}

/// All calls and runs of one key.
pub(super) struct Calls<'a> {
    pub(super) runs: &'a [Run],
    pub(super) losses: &'a [Loss],
    /// Whether a job that runs at the moment of a loss outlives it.
    pub(super) survives: bool,
    /// The time, in ns, after which an absence of the store excuses a handler that ends.
    pub(super) outage: u64,
    /// In that case, the time after the loss, in ns, within which the handler may end.
    pub(super) lease: u64,
    pub(super) made: Made,
}

/// The calls about one key, each kind in the order of time.
#[derive(Default)]
pub(super) struct Made {
    submitted: Vec<u64>,
    accepted: Vec<u64>,
    stop_requested: Vec<u64>,
    stop_recorded: Vec<u64>,
    stop_acknowledged: Vec<u64>,
    freed: Vec<u64>,
    pub(super) existed: Vec<Answered>,
    pub(super) not_found: Vec<Answered>,
    pub(super) notify_accepted: Vec<(u64, Answered)>,
    pub(super) notified: Vec<(u64, u64)>,
}

impl Made {
    pub(super) fn by_key(entries: &[Entry]) -> BTreeMap<&str, Self> {
        let mut by_key: BTreeMap<&str, Self> = BTreeMap::new();
        for &Entry { at, ref event } in entries {
            let Some(key) = event.key() else { continue };
            let made = by_key.entry(key).or_default();
            match *event {
                Event::Submitted { .. } => made.submitted.push(at),
                Event::Accepted { .. } => made.accepted.push(at),
                Event::StopRequested { .. } => made.stop_requested.push(at),
                Event::StopRecorded { .. } => made.stop_recorded.push(at),
                Event::StopAcknowledged { .. } => made.stop_acknowledged.push(at),
                Event::Freed { .. } => made.freed.push(at),
                Event::Existed { asked, .. } => made.existed.push(Answered { asked, at }),
                Event::NotFound { asked, .. } => made.not_found.push(Answered { asked, at }),
                Event::NotifyAccepted { number, asked, .. } => {
                    made.notify_accepted.push((number, Answered { asked, at }));
                }
                Event::Notified { number, .. } => made.notified.push((number, at)),
                _ => {}
            }
        }
        by_key
    }

    /// Each acceptance, with the moment of its submission.
    pub(super) fn acceptances(&self) -> impl Iterator<Item = Answered> {
        self.accepted.iter().map(|&at| Answered { asked: last(&self.submitted, at).unwrap_or(at), at })
    }
}

impl Calls<'_> {
    /// The last stop acknowledged before `at`. `None` if the key may have been submitted again since the stop was
    /// requested, or if a loss may have undone the stop.
    pub(super) fn stopped_before(&self, at: u64) -> Option<u64> {
        self.ended_before(&self.made.stop_acknowledged, at)
    }

    /// The last stop recorded before `at`, with the same exceptions. After a wipe, a worker that has begun the job and
    /// not heard of the stop yet puts the job back.
    pub(super) fn stop_recorded_before(&self, at: u64) -> Option<u64> {
        let recorded = self.ended_before(&self.made.stop_recorded, at)?;
        (!self.losses.iter().any(|loss| loss.wiped && loss.concerns(recorded, at))).then_some(recorded)
    }

    /// The last time before `at` that the key was free, with the same exceptions.
    pub(super) fn free_before(&self, at: u64) -> Option<u64> {
        self.ended_before(&self.made.freed, at)
    }

    fn ended_before(&self, answers: &[u64], at: u64) -> Option<u64> {
        let acknowledged = last(answers, at)?;
        let requested = last(&self.made.stop_requested, acknowledged).unwrap_or(acknowledged);
        let again =
            [&self.made.submitted, &self.made.accepted].iter().any(|calls| any_within(calls, requested, at));
        let undone = self.losses.iter().any(|loss| {
            // A worker that runs the job at a wipe, and has not heard of the stop, may put the job back.
            let forgotten = if loss.wiped { self.runs_at(loss.lost) } else { false };
            loss.concerns(acknowledged, at) && (loss.since <= acknowledged || forgotten)
        });
        (!again && !undone).then_some(acknowledged)
    }

    /// The last acceptance up to `at`, unless a stop or a loss may have followed it.
    pub(super) fn owed_at(&self, at: u64) -> Option<u64> {
        let accepted = last(&self.made.accepted, at)?;
        let submitted = last(&self.made.submitted, accepted).unwrap_or(accepted);
        let forgotten = self.losses.iter().any(|loss| {
            loss.concerns(accepted, at)
                && loss.forgets(accepted)
                && !(self.survives && self.runs_through(loss))
        });
        (!any_within(&self.made.stop_requested, submitted, at) && !forgotten).then_some(accepted)
    }

    /// Whether a loss may have removed a notification by then.
    pub(super) fn may_have_forgotten(&self, acknowledged: u64, at: u64) -> bool {
        self.losses.iter().any(|loss| loss.concerns(acknowledged, at) && loss.forgets(acknowledged))
    }

    /// Whether data was lost between the question and its answer.
    pub(super) fn lost_within(&self, answer: Answered) -> bool {
        self.losses.iter().any(|loss| answer.asked <= loss.until && loss.lost <= answer.at)
    }

    /// The last time up to `at` that a caller was about to submit the job; `at` itself without one.
    pub(super) fn submitted_before(&self, at: u64) -> u64 {
        last(&self.made.submitted, at).unwrap_or(at)
    }

    pub(super) fn stop_requested_within(&self, from: u64, to: u64) -> bool {
        any_within(&self.made.stop_requested, from, to)
    }

    /// Whether data was lost in this time and the job submitted again: that makes another job, and not a gap of the first.
    pub(super) fn made_anew_within(&self, from: u64, to: u64) -> bool {
        self.losses
            .iter()
            .any(|loss| (from..=to).contains(&loss.lost) && any_within(&self.made.submitted, loss.lost, to))
    }

    /// Whether a run was active at the loss and should have outlasted it. After a long absence of the store the lease
    /// may be lost, and then the worker has nothing to bring back.
    fn runs_through(&self, loss: &Loss) -> bool {
        let away = loss.back.saturating_sub(loss.lost) >= self.outage;
        let until = if away { loss.until.max(loss.lost.saturating_add(self.lease)) } else { loss.until };
        self.runs.iter().any(|run| match run.outlasts(loss.lost, until) {
            Outlasts::All => true,
            Outlasts::UntilItStopped => !away,
            Outlasts::Nothing => false,
        })
    }

    fn runs_at(&self, at: u64) -> bool {
        self.runs.iter().any(|run| run.is_active_at(at))
    }
}

fn last(times: &[u64], up_to: u64) -> Option<u64> {
    times[..times.partition_point(|&time| time <= up_to)].last().copied()
}

fn any_within(times: &[u64], from: u64, to: u64) -> bool {
    times.get(times.partition_point(|&time| time < from)).is_some_and(|&time| time <= to)
}
