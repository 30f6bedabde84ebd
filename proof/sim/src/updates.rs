//! Users that give jobs another payload: in some runs they do so now and then. At rest every job runs with the payload that
//! its record has (L10). Some handlers take another payload while their jobs run; others do not, or hang.
//!
//! In some of these runs an update often comes just before its job ends. The answer to that end is lost, and soon the data
//! go back to between the two. No end with a former payload ends an updated job (S17).

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::Fault;
use super::actor::{Order, State};
use super::calls::{Reply, Request};
use super::judge::Judge;
use super::lives::Life;
use super::nemesis::Rates;
use super::node::nanos;
use super::rng::Rng;
use super::users::Ask;
use super::world::{Event, MS, World};
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::core::effect::HandedPayload;
use tenure_protocol::core::input::{Command, HandlerEvent, NewUpdate, NotTaken};
use tenure_protocol::memory::Snapshot;
use tenure_protocol::model::id::{DispatchId, JobKey, Token, WorkerId};
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::model::wire::{self, Envelope};
use tenure_protocol::step::{
    Attest, AttestJobs, AttestReply, Release, ReleaseItem, ReleaseMode, ReleaseReply, Update, UpdateItem,
    UpdateReply,
};

/// The source of updates. It is their own, so that other draws do not depend on them.
#[derive(Debug)]
pub(super) struct Updates {
    rng: Rng,
    happen: bool,
    /// The handlers of this run take none.
    never_taken: bool,
    given: u64,
    /// Many come just before their jobs end.
    overtake: bool,
    overtaken: Option<Overtaken>,
}

/// A job that was updated just before it ends.
#[derive(Debug)]
struct Overtaken {
    key: JobKey,
    token: Token,
    /// The data right after the update.
    data: Option<Snapshot>,
    /// It goes on with the update, and its worker does not hear that.
    goes_on: bool,
}

impl Updates {
    pub(super) fn of(seed: u64, rates: &Rates) -> Self {
        let mut rng = Rng::new(!seed.rotate_left(40));
        let (happen, never_taken, overtake) = (rng.chance(3_000), rng.chance(2_000), rng.chance(5_000));
        let may_happen = [Fault::LostReply, Fault::Rollback].into_iter().all(|fault| rates.of(fault) > 0);
        let overtake = happen && overtake && may_happen;
        Self { rng, happen, never_taken, given: 0, overtake, overtaken: None }
    }
}

/// The reception of another payload by a handler.
#[derive(Clone, Debug)]
pub(super) enum Reception {
    /// It takes it after this time.
    Takes(u64),
    /// It wants to start anew.
    Restarts,
    /// It takes none.
    Never,
    Fails(u64),
    Hangs,
}

impl Reception {
    /// How long it has the payload in hand. `None`: for ever.
    pub(super) fn takes(&self) -> Option<u64> {
        match self {
            Self::Takes(time) | Self::Fails(time) => Some(*time),
            Self::Restarts | Self::Never => Some(0),
            Self::Hangs => None,
        }
    }

    /// The answer. `None`: there is none.
    pub(super) fn result(&self) -> Option<Result<(), NotTaken>> {
        match self {
            Self::Takes(_) => Some(Ok(())),
            Self::Restarts => Some(Err(NotTaken::Restart)),
            Self::Never => Some(Err(NotTaken::Never)),
            Self::Fails(_) => Some(Err(NotTaken::Failed("it is odd".to_owned()))),
            Self::Hangs => None,
        }
    }
}

impl Updates {
    pub(super) fn receive(&mut self, healed: bool) -> Reception {
        match self.rng.below(100) {
            _ if self.never_taken => Reception::Never,
            0..10 => Reception::Restarts,
            10..15 => Reception::Fails(self.rng.below(10 * MS)),
            15..20 if !healed => Reception::Hangs,
            20..35 if !healed => Reception::Takes(self.rng.below(3_000 * MS)),
            _ => Reception::Takes(self.rng.below(10 * MS)),
        }
    }
}

impl World {
    /// A handler says what it does with the payload in hand.
    pub(super) fn answer_update(&mut self, id: u64) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        let State::Updating(HandedPayload { generation, payload }, reception) =
            std::mem::replace(&mut actor.state, State::Running)
        else {
            return;
        };
        if let Some(result) = reception.result() {
            if result.is_ok() {
                (actor.payload, actor.timeout) = (payload.body, payload.progress);
                self.judge.taken += 1;
            }
            self.note(|| format!("handler {id} has generation {generation} in hand: {result:?}"));
            self.tell(id, HandlerEvent::Updated { generation, result });
        }
        self.go_on(id);
    }

    /// A handler is given another payload. It reads it when it is idle.
    pub(super) fn hand_update(&mut self, id: u64, new: HandedPayload) {
        if let Some(actor) = self.actors.get_mut(&id) {
            actor.orders.push_back(Order::Update(new));
            self.nudge(id);
        }
    }

    /// A user gives a job another payload, with the options that it has.
    pub(super) fn update(&mut self) {
        if !self.updates.happen || self.healed || !self.updates.rng.chance(1_000) {
            return;
        }
        let number = self.updates.rng.below(self.options.keys);
        if let Ok(key) = JobKey::new(format!("k{number}")) {
            self.give_another(key);
        }
    }

    fn give_another(&mut self, key: JobKey) {
        let usable = self.usable();
        let Some(at) = self.updates.rng.pick(&usable) else { return };
        let Some(present) = self.server.payload_of(&key) else { return };
        let Ok(present) = wire::open(&present) else { return };
        self.updates.given += 1;
        // No other payload is like it.
        let body = format!("u{}", self.updates.given);
        let envelope =
            Envelope { policy: present.policy, progress: present.progress, ..Envelope::new(body.as_bytes()) };
        let Ok(payload) = envelope.seal() else { return };
        let deadline = self.local(at) + Duration::from_millis(self.updates.rng.between(500, 5_000));
        let what = Ask::Update { key: key.clone() };
        let new = NewUpdate { key, payload, of: None, expected: None, deadline };
        self.ask(at, what, Some(deadline), |reply| Command::Update { reply, new });
    }

    /// A handler will end by itself at this time. A user may update its job just before.
    pub(super) fn will_end(&mut self, id: u64, at: u64) {
        if self.updates.overtake && !self.healed && self.updates.rng.chance(5_000) {
            let early = self.updates.rng.below(8 * MS);
            self.at(at.saturating_sub(early), Event::Overtake(id));
        }
    }

    pub(super) fn overtake(&mut self, id: u64) {
        let busy = self.updates.overtaken.as_ref().is_some_and(|overtaken| overtaken.goes_on);
        let Some(actor) = self.actors.get(&id).filter(|_| !busy && !self.healed) else { return };
        let (key, token) = (actor.key.clone(), actor.token);
        self.updates.overtaken = Some(Overtaken { key: key.clone(), token, data: None, goes_on: false });
        self.give_another(key);
    }

    /// A step was executed. True if its answer must get lost: its job has ended after an update, and goes on.
    pub(super) fn ends_unheard(&mut self, request: &Request, reply: &Reply) -> bool {
        let (Request::Call(_, call), Reply::Done(done)) = (request, reply) else { return false };
        let Some(overtaken) = self.updates.overtaken.as_mut().filter(|_| !self.healed) else { return false };
        match (&**call, &**done) {
            (Call::Update(Update { items, .. }), Done::Update(_, Ok(replies))) => {
                let kept = |(item, reply): (&UpdateItem, &UpdateReply)| {
                    item.key == overtaken.key && matches!(reply, UpdateReply::Kept(_))
                };
                if items.iter().zip(replies).any(kept) {
                    overtaken.data = Some(self.server.snapshot());
                }
                false
            }
            (Call::Release(Release { items, .. }), Done::Release(_, Ok(replies))) => {
                let goes_on = |(item, reply): (&ReleaseItem, &ReleaseReply)| {
                    (&item.key, item.token, item.mode)
                        == (&overtaken.key, overtaken.token, ReleaseMode::Delete)
                        && *reply == ReleaseReply::Queued
                };
                let some = items.iter().zip(replies).any(goes_on);
                if !some || overtaken.data.is_none() || std::mem::replace(&mut overtaken.goes_on, true) {
                    return false;
                }
                let ttl = nanos(self.settings.worker_ttl);
                let later = self.updates.rng.between(ttl * 6 / 10, ttl * 3 / 2);
                self.fault(Fault::LostReply);
                self.after(later, Event::GoBack);
                true
            }
            _ => false,
        }
    }

    /// The job goes on with an update after its end. Until the data have gone back nobody can start it.
    pub(super) fn is_overtaken(&self, key: &JobKey) -> bool {
        self.updates.overtaken.as_ref().is_some_and(|overtaken| overtaken.goes_on && overtaken.key == *key)
    }

    /// The data go back to between an update and the end of its job.
    pub(super) fn go_back(&mut self) {
        let Some(Overtaken { key, data: Some(data), .. }) = self.updates.overtaken.take() else { return };
        if self.healed || self.closing {
            return;
        }
        self.note(|| format!("FAULT the data go back to before the end of {key}"));
        self.fault(Fault::Rollback);
        self.roll_back(data);
    }

    /// The job runs with another payload than the pool has for it.
    pub(super) fn runs_with_another(&self, key: &JobKey) -> bool {
        let Some(kept) = self.server.payload_of(key) else { return false };
        let Ok(kept) = wire::open(&kept) else { return false };
        self.actors.values().any(|actor| {
            actor.key == *key && actor.may_have_a_payload_in_hand() && actor.payload != kept.body
        })
    }
}

impl Judge {
    /// Updates that were kept: a job may have another policy from then on.
    pub(super) fn saw_update(&mut self, call: &Call, done: &Done) {
        let ((Call::Update(Update { items, .. }), Done::Update(_, Ok(replies)))
        | (Call::PlanUpdate(Update { items, .. }, _), Done::PlanUpdate(_, _, Ok(replies)))) = (call, done)
        else {
            return;
        };
        for (item, reply) in items.iter().zip(replies) {
            let (Some(life), Ok(new)) = (self.lives.get_mut(&item.id), wire::open(&item.payload)) else {
                continue;
            };
            let UpdateReply::Kept(generation) = reply else { continue };
            if !life.updated.contains(&new.policy) {
                life.updated.push(new.policy);
            }
            self.generations.insert(new.body, *generation);
        }
    }

    /// A handler has ended, and this was its payload.
    pub(super) fn ended_with(&mut self, key: &JobKey, token: Token, payload: &Bytes) {
        let generation = self.generations.get(payload).copied().unwrap_or_default();
        self.ran.insert((key.clone(), token), generation);
    }

    /// Ends that a step has carried out: releases, and reports after a loss of data. None of them is of a former payload,
    /// unless the job had to end.
    pub(super) fn saw_ends(&mut self, call: &Call, done: &Done) {
        match (call, done) {
            (Call::Release(Release { worker, items, .. }), Done::Release(_, Ok(replies))) => {
                let ended = replies.iter().map(|reply| *reply == ReleaseReply::Deleted);
                let words = items.iter().map(|item| (&item.key, item.token, None)).zip(ended);
                self.judge_ends(*worker, words);
            }
            (Call::Attest(AttestJobs { worker, items, .. }, _), Done::Attest(_, _, Ok(replies))) => {
                let words = items.iter().zip(replies).map(|(item, reply)| {
                    let is_end = matches!(item.what, Attest::Ended { .. });
                    ((&item.key, item.token, Some(&item.id)), is_end && *reply == AttestReply::Ended)
                });
                self.judge_ends(*worker, words);
            }
            _ => {}
        }
    }

    /// A worker's words about jobs, and which of them have ended their jobs.
    fn judge_ends<'a>(
        &mut self,
        worker: WorkerId,
        words: impl Iterator<Item = ((&'a JobKey, Token, Option<&'a DispatchId>), bool)>,
    ) {
        let mut seen = BTreeSet::new();
        for ((key, token, id), ended) in words {
            // Of a second word about a job, the record before is not known.
            if !seen.insert(key) || !ended {
                continue;
            }
            let of_it = |record: &&Record| id.is_none_or(|id| record.id.is_same(id));
            let Some(record) = self.records.get(key).and_then(Option::as_ref).filter(of_it) else { continue };
            let Some(ran) = self.ran.get(&(key.clone(), token)) else { continue };
            let had_to = |life: &Life| life.to_stop || life.told.contains(&worker);
            let may_end = self.life(&record.id).is_none_or(had_to) || record.state == JobState::Stopping;
            if record.generation() > *ran && !may_end {
                let what =
                    format!("S17: {worker} has ended {key} with generation {ran} under {token}: {record}");
                self.violations.push(what);
            }
        }
    }
}
