//! An execution of a job on a node: lease, own time, data, notes, and end.
//!
//! A lease counts from the sending of the execution's last word, by the node's clock, also through suspends. An
//! execution is cancelled at 0.7 of the lease, and aborted at 0.9. So the handler has ended before the store lets the
//! job run elsewhere.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clock;
use crate::model::id::{Incarnation, JobId, Token};
use crate::model::queue::Terms;
use crate::model::record::Record;
use crate::store::{Data, Settle, TakenJob};

/// The longest pause between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(500);
/// The share of the lease after which a handler is aborted.
const ABORTED: f64 = 0.9;
/// The time between the cancellation and the abort of a handler whose own time is over.
const NOTICE: Duration = Duration::from_millis(500);

/// The fate of an execution.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) execution: Arc<Execution>,
    pub(crate) settle: Settle,
}

/// An event of an execution, for its taker.
pub(crate) enum Event {
    /// Its fate is known.
    Ended(End),
    /// The fate is known, and the handler is gone: the slot is free.
    Left(End),
    /// Its handler is gone: the slot is free.
    Freed,
    /// The handler was dropped with the runtime: the slot is free, and stays empty.
    Stranded(End),
}

/// An execution, shared by the handler, the taker and the keeper.
pub(crate) struct Execution {
    pub(crate) id: JobId,
    pub(crate) token: Token,
    /// The record as it began.
    pub(crate) record: Record,
    body: Mutex<Bytes>,
    /// The notes beside the data.
    notes: Mutex<Bytes>,
    /// The incarnation whose data know it.
    known_in: AtomicU64,
    pub(crate) cancel: CancellationToken,
    /// Somebody has told the fate, or the job has a new owner by now.
    over: AtomicBool,
    pub(crate) terms: Terms,
    times: Mutex<Times>,
    pub(super) events: mpsc::UnboundedSender<Event>,
}

pub(super) struct Times {
    began: Instant,
    /// When the node sent the last word that the store has answered.
    pub(super) renewed: Instant,
    pub(super) lease: Duration,
    /// When the last heartbeat was.
    beat: Instant,
    /// When the handler was told that its own time is over.
    warned: Option<Instant>,
    abort: Option<AbortHandle>,
}

impl Execution {
    pub(crate) fn new(
        taken: TakenJob,
        inc: Incarnation,
        began: Instant,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let TakenJob { id, record, body, notes, lease, terms } = taken;
        let lease = Duration::from_millis(lease);
        let (now, warned, abort) = (clock::now(), None, None);
        let times = Times { began: now, renewed: began, lease, beat: now, warned, abort };
        Self {
            id,
            token: record.token,
            record,
            body: Mutex::new(body),
            notes: Mutex::new(notes),
            known_in: AtomicU64::new(inc.0),
            cancel: CancellationToken::new(),
            over: AtomicBool::new(false),
            terms,
            times: Mutex::new(times),
            events,
        }
    }

    /// The job's data as this execution has left them.
    pub(crate) fn body(&self) -> Bytes {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The notes of the job as the execution has left them.
    pub(crate) fn notes(&self) -> Bytes {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the notes or the data for the store to keep.
    pub(crate) fn keep(&self, kept: &Settle) {
        match kept {
            Settle::Note(notes) => {
                self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone_from(notes);
            }
            Settle::GoOn(Data::Replace(body)) => {
                self.body.lock().unwrap_or_else(PoisonError::into_inner).clone_from(body);
            }
            _ => {}
        }
    }

    pub(crate) fn is_known_in(&self, inc: Incarnation) -> bool {
        self.known_in.load(Ordering::Acquire) == inc.0
    }

    pub(crate) fn know(&self, inc: Incarnation) {
        self.known_in.store(inc.0, Ordering::Release);
    }

    /// The time since it began.
    pub(crate) fn age(&self) -> Duration {
        clock::now().saturating_duration_since(self.times().began)
    }

    pub(crate) fn lease(&self) -> Duration {
        self.times().lease
    }

    pub(super) fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Says what became of it, once.
    pub(crate) fn end(self: &Arc<Self>, settle: Settle) {
        if !self.over.swap(true, Ordering::AcqRel) {
            // A taker that is gone has given all executions up.
            let _ = self.events.send(Event::Ended(End { execution: self.clone(), settle }));
        }
    }

    /// Tells the fate, once, and that the slot is free.
    pub(crate) fn leave(self: &Arc<Self>, settle: Settle) {
        if self.over.swap(true, Ordering::AcqRel) {
            self.free();
        } else {
            let _ = self.events.send(Event::Left(End { execution: self.clone(), settle }));
        }
    }

    pub(crate) fn free(&self) {
        let _ = self.events.send(Event::Freed);
    }

    /// Says that the handler was dropped before its end, and whether the runtime was.
    pub(crate) fn vanish(self: &Arc<Self>, with_its_runtime: bool) {
        if !with_its_runtime {
            self.leave(self.retry("its task was aborted".into()));
        } else if self.over.swap(true, Ordering::AcqRel) {
            self.free();
        } else {
            let end = End { execution: self.clone(), settle: Settle::GiveBack };
            let _ = self.events.send(Event::Stranded(end));
        }
    }

    pub(crate) fn beat(&self) {
        self.times().beat = clock::now();
    }

    /// The end of a failed attempt, for any reason: the job runs again after the queue's pause.
    pub(crate) fn retry(&self, why: Bytes) -> Settle {
        Settle::Retry(self.pause(), why)
    }

    /// The pause after an attempt that has failed, ms.
    pub(crate) fn pause(&self) -> u64 {
        let pause = self.terms.backoff.after(self.record.attempts, &self.id, self.token);
        u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the execution has times of its own besides the lease.
    pub(super) fn has_times(&self) -> bool {
        self.terms.timeout.is_some() || self.terms.heartbeat.is_some()
    }

    pub(crate) fn may_abort(&self, handle: AbortHandle) {
        self.times().abort = Some(handle);
    }

    /// Whether so much time is left before the lease aborts the handler.
    #[cfg(feature = "sim")]
    pub(super) fn has_time(&self, time: Duration) -> bool {
        let times = self.times();
        clock::now().saturating_duration_since(times.renewed) + time < times.lease.mul_f64(ABORTED)
    }

    /// Ends the handler: the job has a new owner, or may soon have a new owner.
    pub(super) fn stop(&self, abort: bool) {
        self.cancel.cancel();
        if abort {
            self.over.store(true, Ordering::Release);
            if let Some(handle) = &self.times().abort {
                handle.abort();
            }
        }
    }

    /// Ends an execution whose own time is over, and says when to look again.
    pub(super) fn judge(self: &Arc<Self>, now: Instant) -> Instant {
        let mut verdict = None;
        let mut next = now + LOOK;
        {
            let mut times = self.times();
            let age = now.saturating_duration_since(times.renewed);
            if age >= times.lease.mul_f64(ABORTED) {
                verdict = Some(None);
            } else if age >= times.lease.mul_f64(0.7) {
                self.cancel.cancel();
            }
            let Terms { timeout, heartbeat, .. } = self.terms;
            let late = timeout
                .filter(|timeout| now >= times.began + *timeout)
                .map(|timeout| format!("it took longer than {timeout:?}"));
            let still = heartbeat
                .filter(|within| now >= times.beat + *within)
                .map(|within| format!("no heartbeat within {within:?}"));
            if let Some(why) = late.or(still) {
                match times.warned {
                    Some(warned) if now >= warned + NOTICE => verdict = verdict.or(Some(Some(why))),
                    Some(warned) => next = next.min(warned + NOTICE),
                    None => {
                        self.cancel.cancel();
                        times.warned = Some(now);
                        next = next.min(now + NOTICE);
                    }
                }
            }
            let ends = timeout.map(|timeout| times.began + timeout);
            let stalls = heartbeat.map(|within| times.beat + within);
            let of_lease = [0.3, 0.7, ABORTED].map(|share| times.renewed + times.lease.mul_f64(share));
            let soon = [ends, stalls].into_iter().flatten().chain(of_lease);
            next = soon.filter(|at| *at > now).fold(next, Instant::min);
        }
        match verdict {
            Some(None) => {
                tracing::warn!(job = %self.id, "the lease could not be renewed, the handler is ended");
                self.stop(true);
            }
            Some(Some(why)) => {
                self.end(self.retry(why.into()));
                self.stop(true);
            }
            None => {}
        }
        next
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("id", &self.id).field("token", &self.token).finish_non_exhaustive()
    }
}
