//! The executions of a node and their leases: one owner has all knowledge of them.
//!
//! A lease counts from the sending of the execution's last word, by the node's clock, also through suspends. An entry
//! stays until its handler is gone and the store knows its end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Time;
use super::effect::{About, Call, Effect, Level};
use super::execution::{End, Execution, Key};
use super::input::Number;
use crate::error::Error;
use crate::model::queue::Terms;
use crate::store::{Extended, MOST, Settle, SettleReply};

/// The longest pause between two looks, and the pause after a renewal that failed.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// The time between the cancellation and the abort of a handler whose own time is over.
const NOTICE: Duration = Duration::from_millis(500);

/// The fate of a silent execution, by the time since the sending of its last answered word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// The lease is renewed: 0.3.
    pub(super) renew: Duration,
    /// The handler is asked to end: 0.7.
    pub(super) cancel: Duration,
    /// The handler is aborted: 0.9. So the handler has ended before the store lets the job run elsewhere.
    pub(super) abort: Duration,
}

impl Timing {
    /// The inequality `abort·1.01 + lease/20 < lease·0.99` holds for every lease: a twentieth of the lease is for the end
    /// of an aborted handler, and clocks differ by less than a hundredth.
    pub(super) fn of(lease: Duration) -> Self {
        Self { renew: lease * 3 / 10, cancel: lease * 7 / 10, abort: lease * 9 / 10 }
    }
}

/// How far an execution has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its lease is renewed.
    Runs,
    /// It has come to an end, and the store does not know the end yet.
    Ended,
    /// The store knows its end, or somebody else has the job.
    Over,
}

#[derive(Debug)]
struct Lease {
    execution: Arc<Execution>,
    worker: Number,
    stage: Stage,
    /// Its handler is there.
    is_here: bool,
    began: Time,
    /// When the last answered word was sent.
    renewed: Time,
    length: Duration,
    /// The last known progress of the handler.
    beat: Time,
    is_cancelled: bool,
    /// When the handler was cancelled because its own time is over.
    warned: Option<Time>,
}

/// The reason to end an execution.
enum Verdict {
    GoesOn,
    /// Its lease could not be renewed.
    LeaseLost,
    /// Its own time is over.
    Overdue(String),
}

impl Lease {
    fn end(&mut self, settle: Settle) -> End {
        self.stage = Stage::Ended;
        End { execution: self.execution.clone(), settle, began: self.began, lease: self.length }
    }

    fn cancel(&mut self, out: &mut Vec<Effect>) {
        if self.stage == Stage::Runs && !std::mem::replace(&mut self.is_cancelled, true) {
            out.push(Effect::Cancel(self.execution.key()));
        }
    }

    fn judge(&mut self, now: Time, out: &mut Vec<Effect>) -> Verdict {
        let (age, timing) = (now.saturating_sub(self.renewed), Timing::of(self.length));
        if age >= timing.abort {
            return Verdict::LeaseLost;
        }
        if age >= timing.cancel {
            self.cancel(out);
        }
        let Terms { timeout, heartbeat, .. } = self.execution.terms;
        if let Some(timeout) = timeout.filter(|timeout| now >= self.began + *timeout) {
            return self.warn(now, format!("it took longer than {timeout:?}"), out);
        }
        if heartbeat.is_some_and(|within| now >= self.beat + within) {
            out.push(Effect::Look(self.execution.key()));
        }
        Verdict::GoesOn
    }

    /// Its own time is over: the handler is cancelled, and later aborted.
    fn warn(&mut self, now: Time, why: String, out: &mut Vec<Effect>) -> Verdict {
        let warned = *self.warned.get_or_insert(now);
        if now >= warned + NOTICE {
            return Verdict::Overdue(why);
        }
        self.cancel(out);
        Verdict::GoesOn
    }

    /// The time of the next look.
    fn next(&self, now: Time) -> Option<Time> {
        let Terms { timeout, heartbeat, .. } = self.execution.terms;
        let Timing { renew, cancel, abort } = Timing::of(self.length);
        let own = [timeout.map(|time| self.began + time), heartbeat.map(|time| self.beat + time)];
        let of_lease = [renew, cancel, abort].map(|after| Some(self.renewed + after));
        let notice = self.warned.map(|warned| warned + NOTICE);
        own.into_iter().chain(of_lease).chain([notice]).flatten().filter(|at| *at > now).min()
    }
}

/// Renewals: the executions of the call in flight, the time of its sending, and the executions of later calls.
#[derive(Debug)]
struct Renewal {
    sent: Time,
    keys: Vec<Key>,
    later: VecDeque<Vec<Key>>,
}

/// All executions of a node.
#[derive(Debug, Default)]
pub(super) struct Leases {
    table: BTreeMap<Key, Lease>,
    renewal: Option<Renewal>,
    /// No renewal is sent before, after a failure.
    rests: Option<Time>,
    /// All leases are renewed as soon as possible.
    renews_all: bool,
    next: Option<Time>,
    /// A proof lets no handler be ended.
    ends_none: bool,
}

impl Leases {
    pub(super) fn new(ends_none: bool) -> Self {
        Self { ends_none, ..Self::default() }
    }

    /// An execution begins, with a handler or to be given back at once. Its lease counts from `sent`.
    pub(super) fn begin(
        &mut self,
        (now, sent): (Time, Time),
        (worker, is_here): (Number, bool),
        execution: Arc<Execution>,
        length: Duration,
    ) -> Option<End> {
        let has_times = execution.terms.timeout.is_some() || execution.terms.heartbeat.is_some();
        // The next look comes long before a lease needs its renewal, but not before a shorter time is over.
        if is_here && (self.next.is_none() || has_times) {
            self.next = Some(now);
        }
        let mut lease = Lease {
            execution,
            worker,
            stage: Stage::Runs,
            is_here,
            began: now,
            renewed: sent,
            length,
            beat: now,
            is_cancelled: false,
            warned: None,
        };
        let end = (!is_here).then(|| lease.end(Settle::GiveBack));
        self.table.insert(lease.execution.key(), lease);
        end
    }

    /// Its handler is gone. Returns its worker, and its end if nobody has ended it before.
    pub(super) fn gone(
        &mut self,
        key: &Key,
        settle: Option<Settle>,
        out: &mut Vec<Effect>,
    ) -> Option<(Number, Option<End>)> {
        let lease = self.table.get_mut(key)?;
        lease.is_here = false;
        let end = settle.filter(|_| lease.stage == Stage::Runs).map(|settle| lease.end(settle));
        if lease.stage == Stage::Runs {
            lease.stage = Stage::Over;
        }
        let worker = lease.worker;
        self.release(key, out);
        Some((worker, end))
    }

    /// The store knows the end of the execution, or refuses the end for good.
    pub(super) fn told(&mut self, key: &Key, out: &mut Vec<Effect>) {
        if let Some(lease) = self.table.get_mut(key) {
            lease.stage = Stage::Over;
        }
        self.release(key, out);
    }

    fn release(&mut self, key: &Key, out: &mut Vec<Effect>) {
        if self.table.get(key).is_some_and(|lease| lease.stage == Stage::Over && !lease.is_here) {
            self.table.remove(key);
            out.push(Effect::Forget(key.clone()));
        }
    }

    /// Somebody wants the job to be cancelled.
    pub(super) fn cancel(&mut self, key: &Key, out: &mut Vec<Effect>) {
        if let Some(lease) = self.table.get_mut(key) {
            lease.cancel(out);
        }
    }

    /// The execution is another's by now.
    pub(super) fn halt(&mut self, key: &Key, out: &mut Vec<Effect>) {
        if let Some(lease) = self.table.get_mut(key).filter(|lease| lease.stage == Stage::Runs) {
            lease.stage = Stage::Over;
            out.push(Effect::Abort(key.clone()));
        }
    }

    /// Ends the handlers of one worker, and gives their jobs back.
    pub(super) fn give_back(&mut self, worker: Number, out: &mut Vec<Effect>) -> Vec<End> {
        let of_worker = |lease: &&mut Lease| lease.worker == worker && lease.stage == Stage::Runs;
        let ends = self.table.values_mut().filter(of_worker).map(|lease| {
            out.push(Effect::Abort(lease.execution.key()));
            lease.end(Settle::GiveBack)
        });
        ends.collect()
    }

    /// Renews all leases as soon as possible.
    pub(super) fn renew_all(&mut self, now: Time) {
        if self.next.is_some() {
            (self.renews_all, self.next) = (true, Some(now));
        }
    }

    /// The handler has made progress at this time. Returns the end of an execution that made progress too long ago.
    pub(super) fn beat(
        &mut self,
        now: Time,
        key: &Key,
        beat: Time,
        out: &mut Vec<Effect>,
    ) -> Option<(Number, End)> {
        let lease = self.table.get_mut(key).filter(|lease| lease.stage == Stage::Runs)?;
        lease.beat = lease.beat.max(beat);
        let within = lease.execution.terms.heartbeat?;
        let verdict = if now >= lease.beat + within {
            lease.warn(now, format!("no heartbeat within {within:?}"), out)
        } else {
            Verdict::GoesOn
        };
        let (next, end) = (lease.next(now), Self::carry_out(lease, verdict, out));
        self.next = self.next.into_iter().chain(next).min();
        end
    }

    fn carry_out(lease: &mut Lease, verdict: Verdict, out: &mut Vec<Effect>) -> Option<(Number, End)> {
        let key = lease.execution.key();
        let end = match verdict {
            Verdict::GoesOn => return None,
            Verdict::LeaseLost => {
                lease.stage = Stage::Over;
                let lost = "the lease could not be renewed, the handler is ended";
                out.push(Effect::Report(Level::Warn, lost, About::Job(key.clone())));
                None
            }
            Verdict::Overdue(why) => {
                let settle = lease.execution.retry(why);
                Some((lease.worker, lease.end(settle)))
            }
        };
        out.push(Effect::Abort(key));
        end
    }

    /// Ends executions whose time is over, and renews leases. Returns the ends.
    pub(super) fn step(&mut self, now: Time, out: &mut Vec<Effect>) -> Vec<(Number, End)> {
        if self.rests.is_some_and(|at| at <= now) {
            self.rests = None;
            self.renew_all(now);
        }
        if self.next.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let is_idle = self.renewal.is_none() && self.rests.is_none();
        let all = is_idle && std::mem::take(&mut self.renews_all);
        let (mut ends, mut due) = (Vec::new(), BTreeMap::<Duration, Vec<Key>>::new());
        self.next = None;
        for (key, lease) in self.table.iter_mut().filter(|(_, lease)| lease.stage == Stage::Runs) {
            if !self.ends_none {
                let verdict = lease.judge(now, out);
                ends.extend(Self::carry_out(lease, verdict, out));
            }
            if lease.stage != Stage::Runs {
                continue;
            }
            if all || now >= lease.renewed + Timing::of(lease.length).renew {
                // The answer has the shortest lease of a call: jobs with longer leases go in other calls.
                due.entry(lease.length).or_default().push(key.clone());
            }
            let next = lease.next(now).unwrap_or(now + LOOK).min(now + LOOK);
            self.next = Some(self.next.map_or(next, |at| at.min(next)));
        }
        if is_idle {
            let pages = due.values().flat_map(|alike| alike.chunks(MOST)).map(<[Key]>::to_vec);
            self.send(now, pages.collect(), out);
        }
        ends
    }

    fn send(&mut self, now: Time, mut pages: VecDeque<Vec<Key>>, out: &mut Vec<Effect>) {
        self.renewal = pages.pop_front().map(|keys| {
            out.push(Effect::Call(Call::Renew(keys.clone())));
            Renewal { sent: now, keys, later: pages }
        });
    }

    /// The renewal in flight has come back.
    pub(super) fn renewed(&mut self, now: Time, answer: Result<Extended, Error>, out: &mut Vec<Effect>) {
        let Some(Renewal { sent, keys, later }) = self.renewal.take() else { return };
        let Extended { lease: shortest, replies } = match answer {
            Ok(extended) => extended,
            Err(error) => {
                let later = "leases were not renewed, they will be";
                out.push(Effect::Report(Level::Debug, later, About::Error(error)));
                // New data may not know these executions yet: all go again, whatever the time of their leases.
                self.rests = Some(now + LOOK);
                return;
            }
        };
        for (key, reply) in keys.iter().zip(replies) {
            if reply == SettleReply::Halt {
                self.halt(key, out);
            } else if let Some(lease) = self.table.get_mut(key) {
                if reply == SettleReply::ToCancel {
                    lease.cancel(out);
                }
                lease.renewed = lease.renewed.max(sent);
                lease.length = lease.length.min(Duration::from_millis(shortest));
            }
        }
        self.send(now, later, out);
        if self.renewal.is_none() {
            self.next = self.next.map(|_| now);
        }
    }

    /// When [`step`](Self::step) has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.next.into_iter().chain(self.rests).min()
    }

    /// When each handler is aborted, unless its lease is renewed.
    #[cfg(feature = "sim")]
    pub(super) fn aborts(&self) -> impl Iterator<Item = (&Key, Time)> {
        let runs = self.table.iter().filter(|(_, lease)| lease.stage == Stage::Runs);
        runs.map(|(key, lease)| (key, lease.renewed + Timing::of(lease.length).abort))
    }
}
