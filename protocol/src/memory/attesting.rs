//! Recovery: the reports of living workers about their jobs, and the end of phase R.

use super::membership::is_meta;
use super::ownership::delay_ms;
use super::state::{Ended, Remembered, State, Stored};
use super::streams::Starts;
use crate::model::id::{DispatchId, Incarnation, JobKey, ScheduleName, Token, WorkerId};
use crate::model::level::is_address;
use crate::model::member::{Member, MemberState, SLOTS};
use crate::model::record::{Begun, JobState, Record};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{
    Attest, AttestItem, AttestReply, HandedOff, LaterPayload, NOTES_PAGE, Refusal, ReleaseMode,
};

/// The reason why a job is queued that its owner does not have.
const LOST: &str = "its owner did not have it after a loss of data";

impl State {
    /// Takes a living worker's report about its jobs.
    pub(super) fn attest(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        member: &Member,
        items: &[AttestItem],
    ) -> Result<Vec<AttestReply>, Refusal> {
        if !self.guard(inc)? {
            return Err(Refusal::Normal);
        }
        if self.dead.contains_key(&worker) {
            return Err(Refusal::Fenced);
        }
        if !is_meta(&member.meta) || !is_address(&member.address) {
            return Err(Refusal::BadArgument);
        }
        if !self.members.contains_key(&worker) {
            self.adopt(worker, member);
        }
        self.raise_tokens(Token(worker.0));
        let mut starts = Starts::new();
        let mut replies = Vec::with_capacity(items.len());
        let mut deleted = 0;
        for item in items {
            if deleted >= NOTES_PAGE {
                replies.push(AttestReply::Later);
                continue;
            }
            if item.token > Token::LAST || !is_sound(&item.what) {
                replies.push(AttestReply::Unreadable);
                continue;
            }
            self.raise_tokens(item.token);
            let notes = self.notes_of(&item.key);
            replies.push(self.attest_one(now, inc, worker, item, &mut starts));
            deleted += notes - self.notes_of(&item.key);
        }
        self.emit(now, &starts);
        Ok(replies)
    }

    /// Makes a worker that the data do not know a member again. It gets its old slot, or none if another worker has
    /// that slot.
    fn adopt(&mut self, worker: WorkerId, member: &Member) {
        let mut member = member.clone();
        if member.state != MemberState::Draining {
            member.slot = member.slot.filter(|slot| *slot < SLOTS && !self.slots().contains_key(slot));
            member.state = if member.slot.is_some() { MemberState::Up } else { MemberState::Standby };
        }
        self.grow(member.slot.filter(|_| member.state == MemberState::Up));
        self.heartbeats.insert(worker, 1);
        self.members.insert(worker, member);
        self.meta.members.0 += 1;
    }

    fn attest_one(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        item: &AttestItem,
        starts: &mut Starts,
    ) -> AttestReply {
        if self.is_damaged(&item.key) {
            return AttestReply::Unreadable;
        }
        match &item.what {
            Attest::Runs { .. } => self.attest_running(now, inc, worker, item),
            Attest::Ended { outcome, unless } => {
                self.attest_ended(now, item, outcome, unless.as_ref(), starts)
            }
            Attest::HandedOff(on) => self.attest_handed_off(now, item, on, starts),
        }
    }

    fn attest_running(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        item: &AttestItem,
    ) -> AttestReply {
        let AttestItem { key, token, id, what } = item;
        let Attest::Runs { created, plan, generation, payload, back, .. } = what else {
            return AttestReply::Nothing;
        };
        let ended = self.has_ended(key, id, Some(*created));
        // An earlier run of it has ended, which had not heard of this one.
        let goes_on = ended && self.ended_by_run(id, Some(*created)).is_some_and(|run| run < *token);
        let ended = ended && !goes_on;
        let found = self.record(key).cloned();
        let unowned = self.broken.has(Mutation::UnownedOutranks);
        let gives_way = self.broken.has(Mutation::NextDispatchGivesWay);
        let outranks = |r: &Record| {
            r.token > *token && (r.owner.is_some() || unowned || !r.id.is_same(id) && !gives_way)
        };
        if found.as_ref().is_some_and(outranks) {
            return AttestReply::Outranked;
        }
        let same = found.as_ref().filter(|record| record.id.is_same(id)).cloned();
        if same.as_ref().is_some_and(|r| r.owner.is_none() && self.attested_now(r) && r.token >= *token) {
            return AttestReply::Nothing; // given up since: this came late, or twice
        }
        // The release was carried out, and a later run has come and gone.
        let went_on = |record: &Record| record.owner.is_none() && record.token > *token;
        let gives_way = *back && !ended && !self.broken.has(Mutation::TakenBackAnyway);
        if gives_way && same.as_ref().is_some_and(went_on) {
            return AttestReply::Nothing;
        }
        if ended && same.is_none() && found.as_ref().is_some_and(|other| other.owner.is_none()) {
            return AttestReply::Ended; // accepted since: nobody has it yet
        }
        // The data went back to before an update.
        let newer = *generation > same.as_ref().map_or(0, Record::generation);
        let lacks = newer || self.jobs.get(key).is_none_or(|job| job.payload.is_none());
        if (same.is_none() || lacks) && !ended && payload.is_none() {
            return AttestReply::SendPayload;
        }
        if let Some(other) = found.filter(|_| same.is_none()) {
            self.drop_job(key, &other, now, "ended");
        }
        let mut record = same.unwrap_or_else(|| {
            let mut record = new_record(now, id, *created, plan);
            if newer {
                record.set_generation(*generation);
            }
            let payload = payload.clone().unwrap_or_default();
            self.insert(key.clone(), Stored::Record(record.clone()), payload);
            self.plan_job(plan, key.clone());
            record
        });
        if let (Some(job), Some(payload)) = (self.jobs.get_mut(key).filter(|_| lacks), payload) {
            job.payload = Some(payload.clone());
            // The record says which payload it has, also if a later one is lost.
            if *generation != record.generation() {
                record.set_generation(*generation);
            }
        }
        self.run_as_attested((now, inc, worker), item, record, (ended, goes_on))
    }

    /// The worker runs the job. `ended`: it must stop. `goes_on`: an earlier run has ended the dispatch.
    fn run_as_attested(
        &mut self,
        (now, inc, worker): (u64, Incarnation, WorkerId),
        item: &AttestItem,
        mut record: Record,
        (ended, goes_on): (bool, bool),
    ) -> AttestReply {
        let AttestItem { key, token, id, what: Attest::Runs { begun, attempts, created, .. } } = item else {
            return AttestReply::Nothing;
        };
        if let Some(owner) = record.owner {
            self.disown(owner, key);
        }
        self.parked.remove(key);
        self.errors.remove(key);
        if record.begun == Begun::Never {
            self.meta.queued -= 1;
        }
        let begun_here = matches!(record.state, JobState::Running | JobState::Stopping)
            && (record.owner, record.token) == (Some(worker), *token);
        if !begun_here {
            record.since = now;
            record.set_why(Cause::Attested);
        }
        let stops = ended || record.state == JobState::Stopping;
        record.state = if stops { JobState::Stopping } else { JobState::Running };
        record.owner = Some(worker);
        record.token = *token;
        record.begun = record.begun.max(*begun).max(Begun::Begun);
        record.attempts = record.attempts.max(*attempts);
        record.attested = Some(inc);
        let (its, started) = (record.id.clone(), record.begun == Begun::Started);
        self.write(key, record);
        self.own(worker, key.clone());
        if stops {
            self.queue.put(key.clone(), now + self.limit("stop_retry"));
        } else {
            self.queue.remove(key);
        }
        let goes_on = goes_on && !stops;
        self.know(now, key, &its, Some(*created), goes_on);
        if goes_on {
            self.forget_end(id);
        }
        if started {
            self.settle_outcome(&its, "ok", now);
        }
        if stops { AttestReply::MustStop } else { AttestReply::Kept }
    }

    fn attest_ended(
        &mut self,
        now: u64,
        item: &AttestItem,
        outcome: &str,
        unless: Option<&LaterPayload>,
        starts: &mut Starts,
    ) -> AttestReply {
        let AttestItem { key, token, id, .. } = item;
        let record = self.record(key).filter(|record| record.id.is_same(id)).cloned();
        if record.as_ref().is_some_and(|r| r.owner.is_some() && r.token > *token) {
            return AttestReply::Nothing;
        }
        // Its worker had not heard of a later payload: it goes on, as after a release.
        if let (Some(record), Some(unless)) = (&record, unless)
            && record.generation() > unless.than
            && record.state != JobState::Stopping
        {
            return self.attest_handed_off(now, item, &unless.handed_off(), starts);
        }
        let id = record.as_ref().map_or(id, |record| &record.id);
        let at = record.as_ref().map_or(now, |record| now.max(record.created));
        let until = at + self.limit("max_dispatch_deadline");
        let stops = record.as_ref().is_some_and(|record| record.state == JobState::Stopping);
        let before = self.ended_by_run(id, None);
        if unless.is_none() || stops {
            self.end_for_good(id);
        } else if before.is_some() || !self.has_ended(key, id, record.as_ref().map(|r| r.created)) {
            self.end_by_run(id, before.unwrap_or_default().max(*token), at, until);
        }
        let outcome = if outcome.is_empty() { "ended" } else { outcome };
        self.know(now, key, id, None, false);
        if let Some(record) = &record {
            self.drop_job(key, record, now, outcome);
        }
        self.settle_outcome(id, outcome, now);
        self.ended.put(Ended::Dispatch(id.clone()), until);
        AttestReply::Ended
    }

    fn attest_handed_off(
        &mut self,
        now: u64,
        item: &AttestItem,
        on: &HandedOff,
        starts: &mut Starts,
    ) -> AttestReply {
        let AttestItem { key, token, id, .. } = item;
        if self.record(key).is_none() {
            return if self.has_ended(key, id, None) { AttestReply::Nothing } else { AttestReply::Gone };
        }
        let record = self.record(key).filter(|record| record.id.is_same(id));
        let Some(mut record) = record.filter(|r| r.owner.is_some() && r.token <= *token).cloned() else {
            return AttestReply::Nothing;
        };
        if record.begun == Begun::Never {
            self.meta.queued -= 1;
        }
        record.begun = record.begun.max(on.begun).max(Begun::Begun);
        if record.begun == Begun::Started {
            self.settle_outcome(&record.id, "ok", now);
        }
        if record.state == JobState::Stopping {
            self.drop_job(key, &record, now, "stopped");
            return AttestReply::Ended;
        }
        record.attempts = on.attempts;
        self.errors.remove(key);
        match on.mode {
            ReleaseMode::HandOff | ReleaseMode::GiveBack => record.strikes = 0,
            ReleaseMode::Refuse => record.strikes += 1,
            ReleaseMode::Elsewhere { .. } => {
                self.elsewhere(&mut record, 1);
            }
            ReleaseMode::Fail | ReleaseMode::Park | ReleaseMode::Delete => {}
        }
        if self.broken.has(Mutation::HandedOffMints) {
            record.token = Token(self.mint());
        }
        record.set_why(on.cause);
        if on.mode == ReleaseMode::Park {
            self.park(key, record, now, &on.error);
        } else {
            self.requeue(key, record, now, delay_ms(on.delay), &on.error, starts);
        }
        AttestReply::Requeued
    }

    /// Whether the dispatch is remembered as ended, or must not run. `created`: when it was accepted, if known.
    fn has_ended(&self, key: &JobKey, id: &DispatchId, created: Option<u64>) -> bool {
        let known = id.caller_id().and_then(|own| self.remembered.get(own));
        let has_outcome = |known: &Remembered| {
            known.key == *key && known.outcome.as_deref().is_some_and(|outcome| outcome != "ok")
        };
        let is_former = |known: &Remembered| created.is_some_and(|created| known.is_former(created));
        let lasts = self.ended.score(&Ended::Dispatch(id.clone()));
        lasts.is_some_and(|lasts| created.is_none_or(|created| created <= lasts))
            || known.is_some_and(|known| has_outcome(known) && !is_former(known))
    }

    /// Remembers a caller's id that was forgotten, or of which the data know only a former use. Its request is not
    /// known. `goes_on`: nor is its end.
    fn know(&mut self, now: u64, key: &JobKey, id: &DispatchId, created: Option<u64>, goes_on: bool) {
        let Some(own) = id.caller_id() else { return };
        let is_over = |known: &Remembered| {
            let is_former = created.is_some_and(|created| known.is_former(created));
            is_former || goes_on && known.outcome.as_deref() != Some("ok")
        };
        if self.remembered.get(own).is_none_or(is_over) {
            let open = Remembered::open(key.clone(), String::new(), id.clone(), created.unwrap_or(now));
            self.remembered.insert(own.to_owned(), open);
            self.ended.remove(&Ended::Caller(own.to_owned()));
        }
    }

    /// Takes a page of the jobs that the worker owns by the records. A job that it has not attested is queued, or
    /// deleted if it had to end.
    pub(super) fn attend(
        &mut self,
        now: u64,
        inc: Incarnation,
        worker: WorkerId,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Option<JobKey>, Refusal> {
        if !self.guard(inc)? {
            return Err(Refusal::Normal);
        }
        if !self.members.contains_key(&worker) {
            return Err(Refusal::Fenced);
        }
        let page: Vec<_> = self.owned_after(worker, after).take(limit).cloned().collect();
        let mut starts = Starts::new();
        let (mut seen, mut notes) = (0, 0);
        for key in &page {
            if notes >= NOTES_PAGE {
                break;
            }
            seen += 1;
            match self.record(key).cloned() {
                None if self.is_damaged(key) => {}
                Some(record) if record.owner == Some(worker) => {
                    if !self.attested_now(&record) {
                        let ends = record.state == JobState::Stopping;
                        notes += if ends { self.notes_of(key) } else { 0 };
                        self.lose(now, key, record, &mut starts);
                    }
                }
                _ => self.disown(worker, key),
            }
        }
        self.emit(now, &starts);
        let more = seen == limit || seen < page.len();
        let next = page.get(seen.saturating_sub(1)).filter(|_| more).cloned();
        if next.is_none() {
            self.meta.attested.insert(worker, inc);
        }
        Ok(next)
    }

    fn lose(&mut self, now: u64, key: &JobKey, mut record: Record, starts: &mut Starts) {
        if record.state == JobState::Stopping {
            self.drop_job(key, &record, now, "stopped");
        } else {
            if record.state == JobState::Running {
                self.confirm(&mut record);
            }
            self.forgive(&mut record, now);
            record.set_why(Cause::Missing);
            if self.broken.has(Mutation::AttendMints) {
                record.token = Token(self.mint());
            }
            self.requeue(key, record, now, 0, LOST, starts);
        }
    }

    /// Leaves phase R, or names a member that has not attested yet.
    pub(super) fn open_normal(&mut self, inc: Incarnation) -> Result<Option<WorkerId>, Refusal> {
        if self.guard(inc)? {
            let silent = |worker: &&WorkerId| self.meta.attested.get(worker) != Some(&inc);
            if let Some(&worker) = self.members.keys().find(silent) {
                return Ok(Some(worker));
            }
            self.meta.recovering = false;
            self.meta.attested.clear();
        }
        Ok(None)
    }
}

/// Whether a record may have these contents.
fn is_sound(what: &Attest) -> bool {
    match what {
        Attest::Runs { plan, generation, .. } => {
            *generation <= Record::LAST_GENERATION && (plan.is_empty() || ScheduleName::new(plan).is_ok())
        }
        Attest::Ended { unless, .. } => {
            unless.as_ref().is_none_or(|unless| unless.than <= Record::LAST_GENERATION)
        }
        Attest::HandedOff(on) => on.mode != ReleaseMode::Delete,
    }
}

/// The record of a job that only its worker knows.
fn new_record(now: u64, id: &DispatchId, created: u64, plan: &str) -> Record {
    Record {
        state: JobState::Running,
        owner: None,
        token: Token(0),
        attempts: 0,
        begun: Begun::Begun,
        since: now,
        id: id.clone(),
        created,
        attested: None,
        strikes: 0,
        plan: plan.to_owned(),
        tail: String::new(),
    }
}
