//! The changes of records by steps: the protocol must have each of them.

use super::calls::{Reply, Request};
use super::judge::Judge;
use super::lives::Life;
use super::losses::Said;
use super::transitions::may;
use super::world::World;
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::model::id::{Incarnation, JobKey, Token};
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::model::why::Cause;
use tenure_protocol::step::{Notify, NotifyReply, Release, ReleaseItem, ReleaseMode};

use JobState::{Assigned, Parked, Queued, Running, Stopping};

/// A step that changes records.
struct Change<'a> {
    step: &'a str,
    now: u64,
    /// The server's clock, ms.
    server_ms: u64,
    request: &'a Request,
    /// The pool's.
    incarnation: Option<Incarnation>,
}

impl Change<'_> {
    /// The call is of the pool's present incarnation: its node knows of the last loss of data.
    fn is_current(&self) -> bool {
        matches!(self.request, Request::Call(incarnation, _) if Some(*incarnation) == self.incarnation)
    }

    /// The cause that its worker names for the release of the job.
    fn cause(&self, key: &JobKey, token: Token) -> Option<Cause> {
        let Request::Call(_, call) = self.request else { return None };
        let Call::Release(Release { items, .. }) = &**call else { return None };
        let its = items.iter().find(|item| item.key == *key && item.token == token);
        its.map(|item| item.cause)
    }

    /// Whether the record says why the job is where it is. `before`: its record of the same dispatch.
    fn is_reasoned(&self, key: &JobKey, before: &Record, record: &Record) -> bool {
        let (had, has) = (before.why(), record.why());
        let left = |cause| has.is_some_and(|why| (why.cause, why.former) == (cause, before.owner));
        match (self.step, before.state, record.state) {
            ("reap", _, Queued | Parked) => left(Cause::Lost),
            ("sweep", Assigned, Queued | Parked) => left(Cause::NotBegun),
            ("release", _, Queued | Parked) => {
                left(Cause::Updated) || self.cause(key, before.token).is_some_and(left)
            }
            ("attend", _, Queued | Parked) => left(Cause::Missing),
            ("route", Queued, Queued) => has.is_some_and(|why| why.cause == Cause::NoWorker),
            ("steer", Parked, Queued) if before.is_paused() => {
                has.is_some_and(|why| why.cause == Cause::Resumed)
            }
            ("sweep", Parked, Queued) => {
                let is_over = before.paused_until().is_some_and(|end| end <= self.server_ms);
                is_over && has.is_some_and(|why| why.cause == Cause::PauseOver)
            }
            // It is made longer.
            ("steer", Parked, Parked) if before.is_paused() => record.wakes_at() > before.wakes_at(),
            ("unpark" | "steer", Parked, Queued) => {
                !before.is_paused() && has.is_some_and(|why| why.cause == Cause::Unparked)
            }
            ("attest" | "steer", ..) => true,
            _ => had == has,
        }
    }

    /// Its worker releases the job for good.
    fn ends(&self, key: &JobKey, token: Token) -> bool {
        let Request::Call(_, call) = self.request else { return false };
        let Call::Release(Release { items, .. }) = &**call else { return false };
        let delete = |item: &ReleaseItem| item.mode == ReleaseMode::Delete;
        items.iter().any(|item| item.key == *key && item.token == token && delete(item))
    }
}

impl World {
    /// A step was executed, even if its answer is lost.
    pub(super) fn saw(&mut self, _: usize, _: &str, request: &Request, reply: &Reply) {
        if let (Request::Call(_, call), Reply::Done(done)) = (request, reply) {
            self.saw_turn(call, done);
            self.judge.saw_dispatch(call, done);
            self.judge.saw_save(call, done);
            self.judge.saw_update(call, done);
            self.judge.saw_ends(call, done);
            self.judge.saw_starts(call, done);
            self.judge.saw_asks(call, done);
            if let Some(said) = Said::of(request) {
                self.answers(said, done);
            }
        }
        if let (Request::Call(_, call), Reply::Done(done)) = (request, reply)
            && let (Call::Notify(Notify { items }), Done::Notify(_, Ok(replies))) = (&**call, &**done)
        {
            for (item, reply) in items.iter().zip(replies) {
                if *reply == NotifyReply::Kept {
                    self.judge.kept(&item.key, &item.body);
                }
            }
        }
    }

    /// Compares the records with those before the step.
    pub(super) fn changed(&mut self, step: &str, request: &Request) {
        let facts = self.server.facts();
        let server_ms = self.server_now;
        let change = Change { step, now: self.now, server_ms, request, incarnation: facts.incarnation };
        if u64::try_from(facts.queued).is_ok_and(|queued| queued >= self.settings.max_queued) {
            self.judge.full_at = Some(self.now);
        }
        if let (Some(incarnation), false) = (facts.incarnation, facts.recovering)
            && self.judge.is_open_in(incarnation)
        {
            self.repaired();
        }
        let mut found: Vec<(JobKey, Option<Record>)> = Vec::new();
        let mut seen = 0;
        let known = &self.judge.records;
        self.server.each_record(|key, record| {
            seen += 1;
            if known.get(key).map(Option::as_ref) != Some(record) {
                found.push((key.clone(), record.cloned()));
            }
        });
        if seen != known.len() + found.iter().filter(|(key, _)| !known.contains_key(key)).count() {
            let mut there = std::collections::BTreeSet::new();
            self.server.each_record(|key, _| {
                there.insert(key.clone());
            });
            let gone: Vec<JobKey> = known.keys().filter(|key| !there.contains(*key)).cloned().collect();
            for key in gone {
                let before = self.judge.records.remove(&key).flatten();
                if let Some(before) = before {
                    self.judge.vanished(&key, &before, &change);
                }
            }
        }
        for (key, record) in found {
            let before = self.judge.records.insert(key.clone(), record.clone()).flatten();
            let Some(record) = record else { continue };
            if self.passed_cordon(before.as_ref(), &record) {
                let what = format!("cordon: {step} gives {key} to a worker of a cordoned node: {record}");
                self.judge.violations.push(what);
            }
            let is_member = record.owner.is_none_or(|owner| self.server.is_member(owner));
            self.judge.became(&key, before.as_ref(), &record, is_member, &change);
        }
        self.judge.keep_all();
        let mut waiting = Vec::new();
        for (key, record) in &self.judge.records {
            let Some(record) = record else { continue };
            let many = self.server.waiting(key);
            if many >= self.settings.notify_cap as usize {
                self.judge.crowded_at.insert(key.clone(), self.now);
            }
            waiting.push((record.id.clone(), many));
        }
        for (id, waiting) in waiting {
            self.judge.notes_wait(&id, waiting);
        }
        let disagreements = self.server.disagreements();
        self.judge.disagrees &= !disagreements.is_empty();
        if !self.judge.disagrees {
            let found = disagreements.into_iter().map(|what| format!("S8: after {step}: {what}"));
            self.judge.violations.extend(found);
        }
    }
}

impl Judge {
    /// A record has gone: its job must have ended, or a user must have asked for its end.
    fn vanished(&mut self, key: &JobKey, before: &Record, change: &Change<'_>) {
        if before.state == Parked {
            self.parked_at.insert(key.clone(), change.now);
        }
        let Some(life) = self.lives.get_mut(&before.id) else { return };
        life.to = Some(change.now);
        life.states.kept = None;
        life.settled.get_or_insert(change.now);
        // A worker that hands a job off does not know that it was stopped meanwhile.
        if let ("release", Some(worker)) = (change.step, before.owner)
            && (change.ends(key, before.token) || life.told.contains(&worker))
        {
            life.ended = Some((change.now, worker, before.token));
        }
        // A loss of data may have brought an earlier life of a caller's own id back, which was to stop.
        let is_earlier = before.state == Stopping && life.earlier_to_stop;
        if !(life.may_go() || is_earlier)
            || change.step != "attest" && !may(change.step, Some(before.state), None)
        {
            self.violations.push(format!("S4: {} loses {key}, which was {before}", change.step));
        }
    }

    fn became(
        &mut self,
        key: &JobKey,
        before: Option<&Record>,
        record: &Record,
        is_member: bool,
        change: &Change<'_>,
    ) {
        let (step, now, said) = (change.step, change.now, Said::of(change.request));
        let wrong = |what: &str| {
            let before = before.map_or("nothing".to_owned(), ToString::to_string);
            format!("{what}: {step} makes {key} {record} of {before}")
        };
        let mut violations = Vec::new();
        // After a loss of data a runner's report is the truth: the record's dispatch has ended.
        let attested = said.is_some();
        let before = before.filter(|before| {
            let over = self.lives.get(&before.id).is_none_or(|life| life.may_go() || life.returned);
            before.id.is_same(&record.id) || {
                violations.extend((!attested || !over).then(|| wrong("S4")));
                false
            }
        });
        if before.is_some_and(|before| !change.is_reasoned(key, before, record)) {
            violations.push(wrong("why"));
        }
        let ended = self.lives.get(&record.id).is_none_or(|life| life.to.is_some());
        if before.is_none() && !self.has_begun(key, record, change) {
            violations.push(wrong("S5"));
        }
        let right = match said {
            Some(said) => self.is_attested(key, before, record, said, ended),
            None => self.is_right(key, before, record, step, |what| violations.push(wrong(what)), is_member),
        };
        if !right {
            let what = if before.is_some_and(|before| before.state == Stopping) { "S6" } else { "S10" };
            violations.push(wrong(what));
        }
        if let (Some(before), "release", Queued | Parked) = (before, step, record.state)
            && matches!(before.state, Running | Assigned)
        {
            // One that began has a run, though a loss of data may have taken its record back.
            self.handed_on(key, before, change.is_current());
        }
        if record.state == Running && before.is_none_or(|before| before.state != Running) {
            let token: Token = record.token;
            if let Some(owner) = record.owner.filter(|_| !attested)
                && self.begun.insert((key.clone(), token), (owner, record.id.clone())).is_some()
            {
                violations.push(wrong("S7"));
            }
            let top = self.top.entry(key.clone()).or_default();
            *top = token.max(*top);
        }
        self.violations.extend(violations);
        self.remember(key, before, record, now, attested);
    }

    /// A dispatch has a record again, or for the first time. Returns whether it may.
    fn has_begun(&mut self, key: &JobKey, record: &Record, change: &Change<'_>) -> bool {
        let (now, own_kept) = (change.now, self.own_kept);
        let (open, lossy, ends) = (self.is_stop_open(key), self.is_lossy(), self.ends);
        let Some(life) = self.lives.get_mut(&record.id) else { return true };
        let over = life.to.is_some() || life.cancelled;
        // It was sent when it was forgotten, or earlier, by a delayed call.
        let forgotten = life.id.caller_id().is_some() && life.is_forgotten(now, own_kept);
        // A late report finds its job ended, and all that belonged to it gone: the new record must stop.
        let late = Said::of(change.request).is_some() && record.state == Stopping;
        if over && !late && (now < life.again_until || forgotten) {
            // A caller's own id that was forgotten.
            *life = Life {
                started: life.started,
                failed: life.failed,
                parked: life.parked,
                hashes: std::mem::take(&mut life.hashes),
                hash: life.hash.take(),
                to_stop: ends || life.next_to_stop,
                earlier: life.to,
                earlier_to_stop: life.to_stop || life.earlier_to_stop,
                ..Life::new(key, &life.id, life.policy)
            };
        }
        let may = !(life.to.is_some() || life.cancelled) || life.tainted || late;
        if life.to.is_some() || life.from.is_none() {
            life.from = Some(now);
            life.tainted &= lossy;
            life.notes.lost(Vec::new());
        }
        life.to = None;
        life.to_stop |= open;
        may
    }

    /// Whether a step may make this record of the one before.
    fn is_right(
        &self,
        key: &JobKey,
        before: Option<&Record>,
        record: &Record,
        step: &str,
        mut violates: impl FnMut(&str),
        is_member: bool,
    ) -> bool {
        let top = self.top.get(key).copied().unwrap_or_default();
        let same = before.is_some_and(|before| before.owner == record.owner && before.token == record.token);
        let is_updated =
            before.is_some_and(|before| Record { tail: before.tail.clone(), ..record.clone() } == *before);
        let from = before.map(|before| before.state);
        match (from, record.state) {
            // It changes the payload and its generation alone.
            (Some(_), _) if step == "update" => return is_updated,
            (Some(_), _) if step == "plan" && is_updated => return !record.plan.is_empty(),
            (None, Queued) if record.plan.is_empty() == (step == "plan") => return false,
            (None | Some(Queued), Assigned) | (None, Running)
                if record.token <= top || before.is_some_and(|before| record.token <= before.token) =>
            {
                violates("S3");
            }
            (Some(Assigned), Running) if !same => violates("S2"),
            (Some(Running), Stopping)
                if !same || self.lives.get(&record.id).is_some_and(|life| !life.to_stop) =>
            {
                return false;
            }
            _ => {}
        }
        let begins = matches!(
            (from, record.state),
            (None | Some(Queued), Assigned) | (None | Some(Assigned), Running)
        );
        if begins && !is_member {
            violates("S9");
        }
        may(step, from, Some(record.state)) || from == Some(record.state) && same
    }

    fn remember(&mut self, key: &JobKey, before: Option<&Record>, record: &Record, now: u64, attested: bool) {
        if record.begun == Begun::Started
            && let Some(life) = self.lives.get_mut(&record.id)
        {
            life.settled.get_or_insert(now);
        }
        // After a loss of data, who has ended an earlier run does not know of this one.
        if attested
            && record.state == Running
            && let Some(life) = self.lives.get_mut(&record.id)
            && life.ended.is_some_and(|(_, _, under)| under < record.token)
        {
            (life.ended, life.in_journal) = (None, None);
        }
        if record.state == Parked || before.is_some_and(|before| before.state == Parked) {
            self.parked_at.insert(key.clone(), now);
        }
        if record.state == Parked
            && let Some(life) = self.lives.get_mut(&record.id)
        {
            life.parked = true;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tenure_protocol::model::id::{DispatchId, WorkerId};
    use tenure_protocol::model::member::{Member, MemberState};
    use tenure_protocol::model::policy::RestartPolicy;
    use tenure_protocol::step::{Attest, AttestItem, AttestJobs, AttestReply, Reap};

    const HANDED_ON: (WorkerId, Token) = (WorkerId(1), Token(3));
    const RAN: (WorkerId, Token) = (WorkerId(2), Token(4));

    /// A job that ran under both, one after the other, and whose record is lost.
    fn lost(id: &DispatchId, key: &JobKey) -> Judge {
        let mut judge = Judge::default();
        judge.submitted(key, id, RestartPolicy::Never);
        for (worker, token) in [HANDED_ON, RAN] {
            judge.begun.insert((key.clone(), token), (worker, id.clone()));
        }
        judge.stale.insert(Incarnation(1));
        let life = judge.lives.get_mut(id).unwrap();
        (life.from, life.tainted) = (Some(1), true);
        judge
    }

    /// The judge's objections if the worker that handed the job off reports it as running, and gets a record.
    fn objections(ended: bool, remembered: bool, record: &str) -> Vec<String> {
        let (id, key): (DispatchId, JobKey) = ("n.d1".parse().unwrap(), "k".try_into().unwrap());
        let item = |(_, token), what| AttestItem { key: key.clone(), token, id: id.clone(), what };
        let mut judge = lost(&id, &key);
        judge.lives.get_mut(&id).unwrap().may_end = ended;
        if remembered {
            let items = [item(RAN, Attest::Ended { outcome: String::new(), unless: None })];
            judge.remembers(2, Said { worker: RAN.0, items: &items }, &[AttestReply::Ended]);
        }
        let runs = Attest::Runs {
            back: false,
            begun: Begun::Started,
            attempts: 1,
            created: 1,
            plan: String::new(),
            generation: 0,
            payload: Some(bytes::Bytes::new()),
        };
        let attest = AttestJobs {
            worker: HANDED_ON.0,
            member: Member {
                state: MemberState::Up,
                slot: Some(0),
                ttl: std::time::Duration::from_secs(2),
                nonce: tenure_protocol::model::id::Nonce::new("x").unwrap(),
                node: tenure_protocol::model::id::NodeName::new("n").unwrap(),
                meta: String::new(),
                level: 1,
                address: String::new(),
            },
            items: vec![item(HANDED_ON, runs)],
        };
        let call = Call::Attest(attest, Incarnation(2));
        let request = Request::Call(Incarnation(2), Box::new(call));
        let incarnation = Some(Incarnation(2));
        let change = Change { step: "attest", now: 3, server_ms: 3, request: &request, incarnation };
        judge.became(&key, None, &Record::parse(record.as_bytes()).unwrap(), true, &change);
        judge.violations
    }

    #[test]
    fn a_record_to_stop_comes_of_an_end_that_is_remembered() {
        let stops = "1|S|1|3|1|2|2|n.d1|1|2|0|";
        assert_eq!(objections(true, true, stops), Vec::<String>::new());
        assert!(objections(true, false, stops)[0].starts_with("S10"), "nobody has said that it has ended");
        let another = "1|S|1|4|1|2|2|n.d1|1|2|0|";
        assert!(objections(true, true, another)[0].starts_with("S10"), "it is not the token that was named");
    }

    #[test]
    fn an_end_that_nobody_wanted_is_no_end() {
        assert!(objections(false, true, "1|S|1|3|1|2|2|n.d1|1|2|0|")[0].starts_with("S4"));
    }

    #[test]
    fn an_earlier_life_that_was_to_stop_may_go() {
        let gone = |state| {
            let (id, key): (DispatchId, JobKey) = ("n.!d1".parse().unwrap(), "k".try_into().unwrap());
            let mut judge = Judge::default();
            judge.submitted(&key, &id, RestartPolicy::Never);
            judge.lives.get_mut(&id).unwrap().earlier_to_stop = true;
            let reap = Reap { worker: WorkerId(1), limit: 1 };
            let request = Request::Call(Incarnation(2), Box::new(Call::Reap(reap)));
            let incarnation = Some(Incarnation(2));
            let change = Change { step: "reap", now: 3, server_ms: 3, request: &request, incarnation };
            let record = Record::parse(format!("1|{state}|1|3|1|2|2|n.!d1|1||0|").as_bytes()).unwrap();
            judge.vanished(&key, &record, &change);
            judge.violations
        };
        assert_eq!(gone("S"), [""; 0]);
        assert!(gone("R")[0].starts_with("S4"));
    }
}
