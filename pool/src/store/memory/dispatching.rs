//! From acceptance to assignment: dispatch, route, and the look at open dispatches.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_streaming::EntryId;

use super::state::{Ended, Remembered, State, Stored};
use crate::breakage::Breakage;
use crate::id::{DispatchId, Incarnation, JobKey, Revision, Token, WorkerId};
use crate::record::{Begun, JobState, Record};
use crate::store::{
    DispatchItem, DispatchReply, JobsPage, Lookup, Outcome, Refusal, RouteReply, Turn, WorkerEvent,
};

/// How long a job waits for a first live worker before its event is repeated, ms.
pub(super) const NO_WORKER_RETRY: u64 = 30_000;

impl State {
    /// Accepts jobs.
    pub(super) fn dispatch(
        &mut self,
        now: u64,
        inc: Incarnation,
        turn: Option<&Turn>,
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>, Refusal> {
        self.guard(inc)?;
        self.check_turn(inc, turn)?;
        let plan = turn.map_or("", |turn| turn.plan.as_str());
        let due = now + self.limit("route_ms");
        let mut accepted = Vec::new();
        let mut replies = Vec::with_capacity(items.len());
        for item in items {
            let reply = self.refuse_dispatch(now, item);
            if reply.is_none() {
                let DispatchItem { key, id, hash, payload, .. } = item;
                let record = Stored::Record(accepted_record(now, id, plan));
                self.insert(key.clone(), record, payload.clone());
                self.queue.put(key.clone(), due);
                self.plan_job(plan, key.clone());
                self.meta.queued += 1;
                if let Some(caller) = id.caller_id() {
                    let (key, hash, id) = (key.clone(), hash.clone(), id.clone());
                    let remembered = Remembered { key, hash, id, outcome: None };
                    self.remembered.insert(caller.to_owned(), remembered);
                }
                accepted.push((key.clone(), 0));
            }
            replies.push(reply.unwrap_or(DispatchReply::Accepted));
        }
        self.emit(now, &accepted);
        Ok(replies)
    }

    /// The answer to a job that is not new; `None`: it is to be accepted now.
    fn refuse_dispatch(&self, now: u64, item: &DispatchItem) -> Option<DispatchReply> {
        let DispatchItem { key, id, not_after, hash, payload } = item;
        if payload.len() as u64 > self.limit("payload_max") {
            return Some(DispatchReply::Bad);
        }
        if let Some(known) = id.caller_id().and_then(|caller| self.remembered.get(caller)) {
            return Some(match &known.outcome {
                _ if !known.stands_for(key, hash) => DispatchReply::Conflict,
                Some(outcome) => DispatchReply::Outcome(outcome.clone()),
                None => DispatchReply::Accepted,
            });
        }
        match self.jobs.get(key).map(|job| &job.stored) {
            Some(Stored::Damaged(_)) => return Some(DispatchReply::Bad),
            Some(Stored::Record(record)) if record.id.is_same(id) => return Some(DispatchReply::Accepted),
            Some(Stored::Record(_)) => return Some(DispatchReply::Exists),
            None => {}
        }
        if self.ended.contains(&Ended::Dispatch(id.clone())) {
            Some(DispatchReply::Ended)
        } else if self.settings.contains_key("sd") {
            Some(DispatchReply::ShuttingDown)
        } else if *not_after < now || *not_after > now + self.limit("late_ms") {
            Some(DispatchReply::Late)
        } else if self.meta.recovering {
            Some(DispatchReply::Recovering)
        } else if u64::try_from(self.meta.queued).is_ok_and(|queued| queued >= self.limit("max_queued")) {
            Some(DispatchReply::Full)
        } else {
            None
        }
    }

    /// Assigns jobs; the only step that mints tokens.
    pub(super) fn route(
        &mut self,
        now: u64,
        inc: Incarnation,
        ring: Revision,
        entries: &[EntryId],
        jobs: &[(JobKey, Option<WorkerId>)],
    ) -> Result<Vec<RouteReply>, Refusal> {
        self.guard_normal(inc)?;
        if self.meta.members != ring && !self.broken.has(Breakage::RouteUnchecked) {
            return Err(Refusal::StaleRing(self.meta.members));
        }
        if self.stopping() {
            return Err(Refusal::ShuttingDown);
        }
        let due = now + self.limit("assign_ms");
        let mut token = self.broken.has(Breakage::TokenAssignedAgain).then_some(Token(self.meta.token));
        let mut starts: BTreeMap<WorkerId, Vec<JobKey>> = BTreeMap::new();
        let mut replies = Vec::with_capacity(jobs.len());
        for (key, worker) in jobs {
            let queued = self.record(key).filter(|record| record.state == JobState::Queued).cloned();
            replies.push(match (queued, *worker) {
                (None, _) if self.is_damaged(key) => RouteReply::Bad,
                (None, _) => RouteReply::Done,
                (Some(_), None) => {
                    self.queue.put(key.clone(), now + NO_WORKER_RETRY);
                    RouteReply::Waiting
                }
                (Some(record), Some(worker)) => {
                    let token = *token.get_or_insert_with(|| Token(self.mint()));
                    let owner = Some(worker);
                    self.write(key, Record { state: JobState::Assigned, owner, token, ..record });
                    self.own(worker, key.clone());
                    self.queue.put(key.clone(), due);
                    starts.entry(worker).or_default().push(key.clone());
                    RouteReply::Routed
                }
            });
        }
        if let Some(token) = token {
            for (worker, keys) in starts {
                self.send(now, worker, WorkerEvent::Start { token, keys });
            }
        }
        self.acknowledge(entries);
        Ok(replies)
    }

    /// Records and outcomes of open dispatches.
    pub(super) fn lookup(&self, items: &[(JobKey, Option<DispatchId>)]) -> Vec<Lookup> {
        let look = |(key, id): &(JobKey, Option<DispatchId>)| Lookup {
            record: self.record(key).cloned(),
            bad: self.is_damaged(key),
            newer: match self.jobs.get(key).map(|job| &job.stored) {
                Some(Stored::Damaged(bytes)) => Record::newer_version(bytes),
                _ => None,
            },
            ended: id.as_ref().is_some_and(|id| self.ended.contains(&Ended::Dispatch(id.clone()))),
            outcome: id.as_ref().and_then(|id| self.outcome(key, id)),
            bad_id: false,
            newer_id: None,
        };
        items.iter().map(look).collect()
    }

    /// The outcome of the dispatch that holds a caller's own id.
    fn outcome(&self, key: &JobKey, id: &DispatchId) -> Option<Outcome> {
        let remembered = self.remembered.get(id.caller_id()?)?;
        remembered.outcome.clone().filter(|_| remembered.key == *key)
    }

    /// The payload of a job.
    pub(super) fn payload(&self, key: &JobKey) -> Option<Bytes> {
        self.jobs.get(key).map(|job| job.payload.clone())
    }

    /// A page of all jobs, in the order of their acceptance: what is accepted meanwhile comes last.
    pub(super) fn jobs_page(&self, cursor: u64, limit: usize) -> JobsPage {
        let mut page = self.serials.range(cursor..);
        let jobs = page.by_ref().take(limit.max(1)).map(|(_, key)| (key.clone(), self.record(key).cloned()));
        let jobs = jobs.collect();
        JobsPage { next: page.next().map(|(serial, _)| *serial), jobs }
    }
}

fn accepted_record(now: u64, id: &DispatchId, plan: &str) -> Record {
    Record {
        state: JobState::Queued,
        owner: None,
        token: Token(0),
        attempts: 0,
        begun: Begun::Never,
        since: now,
        id: id.clone(),
        created: now,
        attested: None,
        mix: 0,
        plan: plan.to_owned(),
        tail: String::new(),
    }
}
