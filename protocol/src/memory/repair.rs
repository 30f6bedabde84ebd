//! The sweeper's step: restarts due jobs, and forgets expired data.

use std::time::Duration;

use super::dispatching::NO_WORKER_RETRY;
use super::state::{Ended, State};
use super::streams::Starts;
use crate::model::id::{Incarnation, JobKey};
use crate::model::record::{JobState, Record};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{Refusal, Swept};

/// How many ended dispatches and outcomes one call forgets, at most.
const FORGET_MAX: usize = 512;
/// If more start events than this wait, none is repeated.
const BACKLOG: usize = 4_096;
/// A time that is further ahead than this comes from a clock that has gone back since, ms.
const FAR_AHEAD: u64 = 300_000;
/// A record that does not parse is reported again after this time, ms.
const BAD_RETRY: u64 = 60_000;

impl State {
    /// Repairs due jobs, at most `limit`. A kick includes those that wait for a worker, after as many of the waiting jobs as
    /// it says.
    pub(super) fn sweep(
        &mut self,
        now: u64,
        inc: Incarnation,
        limit: usize,
        kick: Option<usize>,
    ) -> Result<Swept, Refusal> {
        self.guard_normal(inc)?;
        let forgets_more = self.forget_ended(now);
        let dead = self.dead.keys().copied().collect();
        let mut swept = Swept { dead, forgets_more, parked: self.parked.count() as u64, ..Swept::default() };
        if self.stopping() {
            return Ok(swept);
        }
        if self.pool_stream.log.len() > BACKLOG {
            swept.backlog = true;
            return Ok(swept);
        }
        let late = self.queue.range(None, now).chain(self.queue.range(Some(now + FAR_AHEAD), u64::MAX));
        let late: Vec<_> = late.take(limit).cloned().collect();
        let later = now + self.limit("route_timeout").max(self.limit("assign_timeout"));
        let waiting = self.queue.range(Some(later), now + NO_WORKER_RETRY);
        let most = if kick.is_some() { limit - late.len() } else { 0 };
        let waiting: Vec<_> = waiting.skip(kick.unwrap_or(0)).take(most).cloned().collect();
        swept.count = late.len() + waiting.len();
        let mut starts = Starts::new();
        for key in late {
            self.repair(now, key, &mut swept, &mut starts);
        }
        for key in waiting {
            match self.record(&key).cloned() {
                Some(record) if record.waits_for_a_worker() => {
                    if record.strikes > 0 {
                        self.write(&key, Record { strikes: 0, ..record });
                    }
                    self.repair(now, key, &mut swept, &mut starts);
                }
                None if !self.is_damaged(&key) => self.queue.remove(&key),
                _ => swept.passed += 1,
            }
        }
        swept.count += self.wake_all(now, limit, &mut swept.bad, &mut starts);
        self.emit(now, &starts);
        let wakes = self.parked.first().filter(|at| *at < Record::NEVER);
        swept.next_due = self.queue.first().into_iter().chain(wakes).min();
        swept.next_in = swept.next_due.map(|due| Duration::from_millis(due.saturating_sub(now)));
        Ok(swept)
    }

    /// Has jobs go on whose pause is over. A parked job that has another score than its record says gets it. Returns how many
    /// it looked at.
    fn wake_all(&mut self, now: u64, limit: usize, bad: &mut Vec<JobKey>, starts: &mut Starts) -> usize {
        if self.broken.has(Mutation::PausesStay) {
            return 0;
        }
        let over: Vec<_> = self.parked.range(None, now).take(limit).cloned().collect();
        let count = over.len();
        for key in over {
            match self.record(&key).cloned() {
                Some(record) if record.state == JobState::Parked && record.wakes_at() > now => {
                    self.parked.put(key, record.wakes_at());
                }
                Some(record) if record.state == JobState::Parked => {
                    self.parked.remove(&key);
                    self.errors.remove(&key);
                    let mut record = Record { attempts: 0, strikes: 0, ..record };
                    record.set_why(Cause::PauseOver);
                    self.requeue(&key, record, now, 0, "", starts);
                }
                None if self.is_damaged(&key) => {
                    self.parked.put(key.clone(), now + BAD_RETRY);
                    bad.push(key);
                }
                _ => self.parked.remove(&key),
            }
        }
        count
    }

    /// Returns whether there may be more.
    fn forget_ended(&mut self, now: u64) -> bool {
        let old: Vec<_> = self.ended.range(None, now).take(FORGET_MAX).cloned().collect();
        let full = old.len() == FORGET_MAX;
        for ended in old {
            self.ended.remove(&ended);
            match ended {
                Ended::Caller(id) => drop(self.remembered.remove(&id)),
                Ended::Run(dispatch) => drop(self.run_ends.remove(&dispatch)),
                Ended::Dispatch(_) => {}
            }
        }
        full
    }

    fn repair(&mut self, now: u64, key: JobKey, swept: &mut Swept, starts: &mut Starts) {
        if self.is_damaged(&key) {
            self.queue.put(key.clone(), now + BAD_RETRY);
            swept.bad.push(key);
            return;
        }
        let Some(mut record) = self.record(&key).cloned() else {
            self.queue.remove(&key);
            return;
        };
        match (record.state, record.owner) {
            (JobState::Queued, _) => {
                starts.push((key.clone(), record.strikes));
                self.queue.put(key, now + self.limit("route_timeout"));
            }
            (JobState::Assigned, _) => {
                record.strikes += 1;
                record.set_why(Cause::NotBegun);
                let id = record.id.clone();
                if self.requeue(&key, record, now, 0, "not begun in time", starts) == JobState::Parked {
                    swept.outcomes.push((id, "parked".to_owned()));
                }
            }
            (JobState::Stopping, Some(owner)) => {
                self.queue.put(key.clone(), now + self.limit("stop_retry"));
                swept.stops.push((key, record.id, owner));
            }
            _ => self.queue.remove(&key),
        }
    }
}
