//! The life of a job up to its assignment: dispatch and route, and the reads of open dispatches.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_steps::EntryId;

use super::state::{Ended, Remembered, State, Stored};
use crate::model::id::{DispatchId, Incarnation, JobKey, Revision, Token, WorkerId};
use crate::model::record::{Begun, JobState, Record};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{
    BegunJob, DispatchItem, DispatchReply, Granted, GrantedJob, JobsPage, Lookup, NotifyItem,
    NotifyOrStartItem, NotifyOrStartReply, NotifyReply, Outcome, Refusal, RouteReply, Turn, WorkerEvent,
};

/// How long a job waits for a first live worker before its event is repeated, ms.
pub(super) const NO_WORKER_RETRY: u64 = 30_000;

/// The most bytes of payloads and checkpoints in the news of one grant.
const GRANT_BYTES: usize = 64 << 10;

/// The jobs that one call assigns.
#[derive(Default)]
struct Assignment {
    token: Option<Token>,
    starts: BTreeMap<WorkerId, Vec<JobKey>>,
    grants: BTreeMap<WorkerId, Granted>,
}

/// The jobs that one call accepts.
#[derive(Default)]
struct Acceptance {
    assignment: Assignment,
    /// Those that no worker has yet.
    queued: Vec<(JobKey, u32)>,
}

impl State {
    /// Accepts jobs, and assigns those whose worker was picked from the present ring.
    pub(super) fn dispatch(
        &mut self,
        now: u64,
        inc: Incarnation,
        (turn, ring): (Option<&Turn>, Option<Revision>),
        items: &[DispatchItem],
    ) -> Result<Vec<DispatchReply>, Refusal> {
        self.guard(inc)?;
        self.check_turn(inc, turn)?;
        let plan = turn.map_or("", |turn| turn.plan.as_str());
        let places = self.places(ring);
        let spent = self.check_tokens().is_err();
        let mut acceptance = Acceptance::default();
        let mut replies = Vec::with_capacity(items.len());
        for item in items {
            let reply = self.refuse_dispatch(now, spent, item);
            if reply.is_none() {
                self.accept(now, plan, places, item, &mut acceptance);
            }
            replies.push(reply.unwrap_or(DispatchReply::Accepted));
        }
        self.announce(now, acceptance);
        Ok(replies)
    }

    /// Keeps notifications, and accepts the jobs that are not there with their first ones.
    pub(super) fn notify_or_start(
        &mut self,
        now: u64,
        inc: Incarnation,
        ring: Revision,
        items: &[NotifyOrStartItem],
    ) -> Result<Vec<NotifyOrStartReply>, Refusal> {
        self.guard(inc)?;
        let places = self.places(Some(ring));
        let spent = self.check_tokens().is_err();
        let (mut acceptance, mut events) = (Acceptance::default(), BTreeMap::new());
        let mut replies = Vec::with_capacity(items.len());
        for NotifyOrStartItem { start, guess, body } in items {
            let start = &DispatchItem { awaited: false, ..start.clone() };
            let (key, guess, body) = (start.key.clone(), *guess, body.clone());
            replies.push(match self.refuse_dispatch(now, spent, start) {
                _ if start.id.caller_id().is_some() => NotifyOrStartReply::Bad,
                None if self.broken.has(Mutation::StartedWithoutNote) => {
                    self.accept(now, "", places, start, &mut acceptance);
                    NotifyOrStartReply::Accepted
                }
                None => match self.keep(&key, &body, None, None, &mut events) {
                    NotifyReply::Kept => {
                        self.accept(now, "", places, start, &mut acceptance);
                        NotifyOrStartReply::Accepted
                    }
                    NotifyReply::Full => NotifyOrStartReply::Full,
                    _ => NotifyOrStartReply::Bad,
                },
                Some(DispatchReply::Exists | DispatchReply::Parked | DispatchReply::Paused) => {
                    match self.notify_one(&NotifyItem { key, guess, body }, &mut events) {
                        NotifyReply::Kept => NotifyOrStartReply::Kept,
                        NotifyReply::Full => NotifyOrStartReply::Full,
                        NotifyReply::Absent | NotifyReply::Recovering => NotifyOrStartReply::Stopping,
                        NotifyReply::Owner(owner) => NotifyOrStartReply::Owner(owner),
                        NotifyReply::Bad => NotifyOrStartReply::Bad,
                    }
                }
                Some(DispatchReply::Accepted) => NotifyOrStartReply::Accepted,
                Some(DispatchReply::Ended | DispatchReply::Outcome(_)) => NotifyOrStartReply::Ended,
                Some(DispatchReply::Full) => NotifyOrStartReply::PoolFull,
                Some(DispatchReply::Late) => NotifyOrStartReply::Late,
                Some(DispatchReply::Recovering) => NotifyOrStartReply::Recovering,
                Some(DispatchReply::ShuttingDown) => NotifyOrStartReply::ShuttingDown,
                Some(DispatchReply::OutOfTokens) => NotifyOrStartReply::OutOfTokens,
                Some(DispatchReply::Bad | DispatchReply::Conflict) => NotifyOrStartReply::Bad,
            });
        }
        self.wake(now, events);
        self.announce(now, acceptance);
        Ok(replies)
    }

    /// Whether a choice from this revision of the ring holds.
    fn places(&self, ring: Option<Revision>) -> bool {
        ring.is_some_and(|ring| ring == self.meta.members || self.broken.has(Mutation::RouteUnchecked))
    }

    /// Accepts a new job.
    fn accept(
        &mut self,
        now: u64,
        plan: &str,
        places: bool,
        item: &DispatchItem,
        acceptance: &mut Acceptance,
    ) {
        let DispatchItem { key, id, hash, payload, .. } = item;
        let record = Stored::Record(accepted_record(now, id, plan));
        self.insert(key.clone(), record, payload.clone());
        self.queue.put(key.clone(), now + self.limit("route_timeout"));
        self.plan_job(plan, key.clone());
        self.meta.queued += 1;
        if let Some(caller) = id.caller_id() {
            let (key, hash, id) = (key.clone(), hash.clone(), id.clone());
            let remembered = Remembered::open(key, hash, id, now);
            self.remembered.insert(caller.to_owned(), remembered);
        }
        match item.worker.filter(|_| places) {
            Some(worker) => self.place(now, &mut acceptance.assignment, (key, item.awaited), worker),
            None => acceptance.queued.push((key.clone(), 0)),
        }
    }

    /// Gives a queued job to the worker: grants the job if the worker may start it on reading the news, else assigns it.
    fn place(
        &mut self,
        now: u64,
        assignment: &mut Assignment,
        (key, awaited): (&JobKey, bool),
        worker: WorkerId,
    ) {
        let Some(record) = self.record(key).cloned() else { return };
        let job = self.with_belongings(key, record);
        if self.may_grant(key, &job, assignment.grants.get(&worker)) {
            self.grant(now, assignment, worker, GrantedJob { key: key.clone(), awaited, job });
        } else {
            self.assign(now, assignment, key, worker);
        }
    }

    /// Whether a worker may start this queued job without asking. No run of the job has failed or was lost. No checkpoint is
    /// left of a former job of its key. The bytes of the job fit into the news.
    fn may_grant(&self, key: &JobKey, job: &BegunJob, granted: Option<&Granted>) -> bool {
        let beside: usize = granted.map_or(0, |granted| granted.jobs.iter().map(|of| of.job.bytes()).sum());
        let has_strays = job.record.begun == Begun::Never && self.checkpoints.contains_key(key);
        let most = self.limit("grant_max");
        most > 0
            && job.record.attempts == 0
            && job.bytes() as u64 <= most
            && beside + job.bytes() <= GRANT_BYTES
            && (!has_strays || self.broken.has(Mutation::GrantOverStrays))
    }

    /// Gives a queued job to the worker, which may start it on reading the news.
    fn grant(&mut self, now: u64, assignment: &mut Assignment, worker: WorkerId, mut granted: GrantedJob) {
        let token = self.token_of(assignment);
        let GrantedJob { key, job, .. } = &mut granted;
        job.record.state = JobState::Running;
        (job.record.owner, job.record.token) = (Some(worker), token);
        (job.record.attempts, job.record.since) = (job.record.attempts + 1, now);
        self.write(key, job.record.clone());
        self.own(worker, key.clone());
        self.queue.remove(key);
        let incarnation = self.meta.incarnation.unwrap_or_default();
        let entry = Granted { token, incarnation, jobs: Vec::new() };
        assignment.grants.entry(worker).or_insert(entry).jobs.push(granted);
    }

    /// The token that all jobs of the call share.
    fn token_of(&mut self, assignment: &mut Assignment) -> Token {
        let again = self.broken.has(Mutation::TokenAssignedAgain);
        let mint = || Token(if again { self.meta.token } else { self.mint() });
        *assignment.token.get_or_insert_with(mint)
    }

    /// Tells routers and workers of new jobs.
    fn announce(&mut self, now: u64, acceptance: Acceptance) {
        self.emit(now, &acceptance.queued);
        self.send_starts(now, acceptance.assignment);
    }

    /// The answer for a job that is not new. `None` if the caller accepts it now. `spent`: this call may not mint.
    fn refuse_dispatch(&self, now: u64, spent: bool, item: &DispatchItem) -> Option<DispatchReply> {
        let DispatchItem { key, id, not_after, hash, payload, .. } = item;
        if payload.len() as u64 > self.limit("payload_max") {
            return Some(DispatchReply::Bad);
        }
        if let Some(known) = id.caller_id().and_then(|caller| self.remembered.get(caller)) {
            return Some(match &known.outcome {
                _ if !known.stands_for(key, hash) && !self.broken.has(Mutation::OwnIdsUncompared) => {
                    DispatchReply::Conflict
                }
                Some(outcome) => DispatchReply::Outcome(outcome.clone()),
                None => DispatchReply::Accepted,
            });
        }
        match self.jobs.get(key).map(|job| &job.stored) {
            Some(Stored::Damaged(_)) => return Some(DispatchReply::Bad),
            Some(Stored::Record(record)) if record.id.is_same(id) => return Some(DispatchReply::Accepted),
            Some(Stored::Record(record)) if record.is_paused() => return Some(DispatchReply::Paused),
            Some(Stored::Record(Record { state: JobState::Parked, .. })) => {
                return Some(DispatchReply::Parked);
            }
            Some(Stored::Record(_)) => return Some(DispatchReply::Exists),
            None => {}
        }
        if self.ended.contains(&Ended::Dispatch(id.clone())) {
            Some(DispatchReply::Ended)
        } else if self.settings.contains_key("shutdown") {
            Some(DispatchReply::ShuttingDown)
        } else if *not_after < now || *not_after > now + self.limit("max_dispatch_deadline") {
            Some(DispatchReply::Late)
        } else if self.meta.recovering {
            Some(DispatchReply::Recovering)
        } else if u64::try_from(self.meta.queued).is_ok_and(|queued| queued >= self.limit("max_queued")) {
            Some(DispatchReply::Full)
        } else if spent {
            Some(DispatchReply::OutOfTokens)
        } else {
            None
        }
    }

    /// Assigns jobs.
    pub(super) fn route(
        &mut self,
        now: u64,
        inc: Incarnation,
        ring: Revision,
        entries: &[EntryId],
        jobs: &[(JobKey, Option<WorkerId>)],
    ) -> Result<Vec<RouteReply>, Refusal> {
        self.guard_normal(inc)?;
        if self.meta.members != ring && !self.broken.has(Mutation::RouteUnchecked) {
            return Err(Refusal::StaleRing(self.meta.members));
        }
        if self.stopping() {
            return Err(Refusal::ShuttingDown);
        }
        self.check_tokens()?;
        let mut assignment = Assignment::default();
        let mut replies = Vec::with_capacity(jobs.len());
        for (key, worker) in jobs {
            let queued = self.record(key).is_some_and(|record| record.state == JobState::Queued);
            replies.push(match *worker {
                _ if self.is_damaged(key) => RouteReply::Bad,
                _ if !queued => RouteReply::Done,
                None => {
                    self.queue.put(key.clone(), now + NO_WORKER_RETRY);
                    let failed = |record: &&Record| record.attempts >= 2;
                    if let Some(mut record) = self.record(key).filter(failed).cloned() {
                        record.set_why(Cause::NoWorker);
                        self.write(key, record);
                    }
                    RouteReply::Waiting
                }
                Some(worker) => {
                    self.place(now, &mut assignment, (key, true), worker);
                    RouteReply::Routed
                }
            });
        }
        self.send_starts(now, assignment);
        self.acknowledge(entries);
        Ok(replies)
    }

    /// Gives a queued job to the worker, under the token that all jobs of the call share.
    fn assign(&mut self, now: u64, assignment: &mut Assignment, key: &JobKey, worker: WorkerId) {
        let Some(record) = self.record(key).cloned() else { return };
        let token = self.token_of(assignment);
        self.write(key, Record { state: JobState::Assigned, owner: Some(worker), token, ..record });
        self.own(worker, key.clone());
        self.queue.put(key.clone(), now + self.limit("assign_timeout"));
        assignment.starts.entry(worker).or_default().push(key.clone());
    }

    /// Tells the workers about their new jobs.
    fn send_starts(&mut self, now: u64, assignment: Assignment) {
        let Some(token) = assignment.token else { return };
        for (worker, granted) in assignment.grants {
            self.send(now, worker, WorkerEvent::Grant(granted));
        }
        for (worker, keys) in assignment.starts {
            self.send(now, worker, WorkerEvent::Start { token, keys });
        }
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
        self.jobs.get(key)?.payload.clone()
    }

    /// A page of all jobs, in the order of their acceptance. Jobs that are accepted meanwhile come last.
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
        strikes: 0,
        plan: plan.to_owned(),
        tail: String::new(),
    }
}
