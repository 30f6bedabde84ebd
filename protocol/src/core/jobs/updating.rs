//! Jobs that were given another payload while they are here (a part of [`Jobs`]).
//!
//! The record has the payload and its generation, and the worker knows the generation that each of its jobs runs with.
//! It hears of a higher one by an event, or when it compares its jobs with the records. Then it begins the job once more:
//! that changes nothing, and answers with what the record has under this token. The handler is given that payload.
//!
//! ```text
//! heard ──starts──▶ (runs) ──begin──▶ read ──handler──▶ taken: the job runs on with it
//!                                                   └─▶ not taken, or too late: it is stopped and handed off
//! ```
//! 1. A job runs with a payload only from the moment when its handler says that it has taken it. Its release names the
//!    generation that it runs with, so a payload that it never took is given to its next run.
//! 2. A handler has one payload in hand at most. A later one is read when it has answered.
//! 3. From the moment at which an update is heard, no notification is fetched for its job and no ask is handed over, until
//!    its handler has answered. So what comes behind the update in the worker's stream meets the newer payload.
//! 4. A job that is handed off begins with what the record has, at home if the ring has not changed.
//!
//! A job that leaves for another reason is left to it. The store queues it again if its record has a higher generation than
//! the one that its release names. A job that was stopped, or that an operator wants to rest, names none.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::held::{HeldJob, JobPhase, StopOrder};
use super::{Jobs, Purpose, ToBegin};
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, HandedPayload, Notice};
use crate::core::input::NotTaken;
use crate::core::one_call::Timers;
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::model::policy::RestartPolicy;
use crate::model::stop::StopReason;
use crate::model::wire::{self, ProgressTimeout};
use crate::mutation::Mutation;
use crate::step::BeginReply;

/// A payload that a handler has in hand.
#[derive(Debug)]
pub(super) struct InHand {
    pub(super) generation: u64,
    pub(super) envelope: Bytes,
    pub(super) policy: RestartPolicy,
    pub(super) progress: Option<ProgressTimeout>,
    /// When the handler must have answered.
    until: Time,
}

/// How far an update has come.
#[derive(Debug)]
enum Stage {
    /// The start handler runs.
    Starts,
    /// The record is being read.
    Reads,
    Handed(Box<InHand>),
}

/// An update of a held job.
#[derive(Debug)]
struct OpenUpdate {
    /// The highest generation that was heard of.
    heard: u64,
    stage: Stage,
}

/// The open updates of a worker's held jobs. A job has one at most.
#[derive(Debug, Default)]
pub(super) struct Updates {
    open: BTreeMap<JobKey, OpenUpdate>,
    /// The worker's handler takes none. It says so to the first one, so that later ones cost nothing.
    never_taken: bool,
    timers: Timers<JobKey>,
}

impl Updates {
    /// No job has an open update: so it is nearly always.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_open(&self, key: &JobKey) -> bool {
        self.open.contains_key(key)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.timers.deadline()
    }

    /// The job leaves, or its update is over.
    #[cold]
    pub(super) fn end(&mut self, key: &JobKey) {
        let _ = self.close(key);
    }

    fn close(&mut self, key: &JobKey) -> Option<OpenUpdate> {
        let update = self.open.remove(key)?;
        if let Stage::Handed(in_hand) = &update.stage {
            self.timers.remove(in_hand.until, key);
        }
        Some(update)
    }

    pub(super) fn clear(&mut self) {
        *self = self.anew();
    }

    /// None is open, and the handler is the same.
    pub(super) fn anew(&self) -> Self {
        Self { never_taken: self.never_taken, ..Self::default() }
    }
}

impl Jobs {
    /// The record of the job has this generation under this token.
    pub(in crate::core) fn updated(&mut self, ctx: &mut Ctx, key: JobKey, token: Token, generation: u64) {
        if let Some(held) = self.held.get(&key).filter(|held| held.token == token) {
            let is_leaving = self.leaving.is_some() || held.order.is_some();
            let is_heard = !is_leaving && !ctx.config.broken.has(Mutation::UpdateUnheard);
            if generation <= held.generation() || !is_heard {
                return;
            }
            if self.updates.never_taken || matches!(held.phase, JobPhase::Waiting(_)) {
                return self.order(ctx, &key, StopOrder::own(StopReason::Updated));
            }
            let new = OpenUpdate { heard: generation, stage: Stage::Starts };
            let update = self.updates.open.entry(key.clone()).or_insert(new);
            update.heard = update.heard.max(generation);
            self.read_update(&key);
        } else if let Some(next) = self.successors.get_mut(&key).filter(|next| next.job.record.token == token)
        {
            next.generation = next.generation.max(generation);
        } else if let Some(early) = self.beginning.get_mut(&(key, token)) {
            early.generation = early.generation.max(u32::try_from(generation).unwrap_or(u32::MAX));
        }
    }

    /// Asks for the payload of a running job that waits for one.
    #[cold]
    pub(super) fn read_update(&mut self, key: &JobKey) {
        let Some(update) = self.updates.open.get_mut(key) else { return };
        let Some(held) = self.held.get_mut(key).filter(|held| held.order.is_none()) else { return };
        if matches!(update.stage, Stage::Starts) && matches!(held.phase, JobPhase::Running) {
            update.stage = Stage::Reads;
            held.notes.behind_update = true;
            let (key, token) = (key.clone(), held.token);
            self.begins.push(ToBegin { key, token, purpose: Purpose::Read, entry: None });
        }
    }

    /// A job that is held was begun once more: the answer has what its record has now.
    #[cold]
    pub(super) fn on_reread(&mut self, ctx: &mut Ctx, (key, token): (JobKey, Token), reply: BeginReply) {
        let Some(update) = self.updates.open.get_mut(&key) else { return };
        let held = self.held.get_mut(&key).filter(|held| held.token == token && held.order.is_none());
        let (Some(held), Stage::Reads) = (held, &update.stage) else { return };
        let (record, envelope) = match reply {
            BeginReply::Begun(job) if job.record.generation() > held.generation() => {
                (job.record, job.payload)
            }
            // It is no longer this worker's, or stops, and there is news of that. Or the data went back.
            BeginReply::Begun(_) | BeginReply::Refused | BeginReply::Full => {
                return self.update_is_over(&key);
            }
        };
        let Ok(payload) = wire::open(&envelope) else {
            // A later version has written it. The next begin decides who can read it.
            return self.restart(ctx, &key);
        };
        let (generation, until) = (record.generation(), ctx.now + ctx.config.start_timeout);
        let (policy, progress) = (payload.policy, payload.progress);
        let in_hand = InHand { generation, envelope, policy, progress, until };
        if ctx.config.broken.has(Mutation::HandedCountsAsTaken) {
            held.run_with(&in_hand);
        }
        update.stage = Stage::Handed(Box::new(in_hand));
        if !ctx.config.broken.has(Mutation::HungUpdateStays) {
            self.updates.timers.set(until, key.clone());
        }
        let new = Box::new(HandedPayload { generation, payload });
        ctx.out.push(Effect::Update { worker: self.worker, key, token, new });
    }

    /// The handler has taken the payload of this generation, or says why not.
    #[cold]
    pub(super) fn answered_update(
        &mut self,
        ctx: &mut Ctx,
        key: &JobKey,
        generation: u64,
        result: Result<(), NotTaken>,
    ) {
        let is_its = |update: &OpenUpdate| matches!(&update.stage, Stage::Handed(hand) if hand.generation == generation);
        if !self.updates.open.get(key).is_some_and(is_its) {
            return;
        }
        if let Err(why) = result {
            return self.not_updated(ctx, key, why);
        }
        let Some(OpenUpdate { heard, stage: Stage::Handed(in_hand) }) = self.updates.close(key) else {
            return;
        };
        let Some(held) = self.held.get_mut(key) else { return };
        let former = held.progress;
        held.run_with(&in_hand);
        if held.order.is_some() || !matches!(held.phase, JobPhase::Running) {
            return;
        }
        if held.progress != former {
            // The time of another timeout begins anew. One that stays goes on: to take payloads is no progress.
            let looks_at = held.progress.map(|timeout| ctx.now + timeout.get());
            self.timers.put(&mut held.overdue_at, key, looks_at);
        }
        if heard > generation && !ctx.config.broken.has(Mutation::NextUpdateForgotten) {
            self.updates.open.insert(key.clone(), OpenUpdate { heard, stage: Stage::Starts });
            return self.read_update(key);
        }
        held.notes.behind_update = false;
        self.fetch(key);
    }

    /// The handler has not taken the payload: the job starts anew with it.
    fn not_updated(&mut self, ctx: &mut Ctx, key: &JobKey, why: NotTaken) {
        self.updates.never_taken |= why == NotTaken::Never;
        let Some(held) = self.held.get(key).filter(|held| held.order.is_none()) else {
            return self.updates.end(key);
        };
        if let NotTaken::Failed(why) = why {
            ctx.report(Notice::NotUpdated { key: key.clone(), token: held.token, why });
        }
        self.restart(ctx, key);
    }

    /// Handlers that have a payload in hand for too long. The jobs start anew with it.
    pub(super) fn give_up_updates(&mut self, ctx: &mut Ctx) {
        while let Some((_, key)) = self.updates.timers.due(ctx.now) {
            self.not_updated(ctx, &key, NotTaken::Failed("it took too long".into()));
        }
    }

    /// The data may have gone back, and with them the payloads that are being handed over. The answer to such a payload
    /// means nothing: its job starts anew with what the record has.
    pub(super) fn void_updates(&mut self, ctx: &mut Ctx) {
        if ctx.config.broken.has(Mutation::LostUpdateTaken) {
            return;
        }
        for key in self.updates.open.keys().cloned().collect::<Vec<_>>() {
            match self.updates.open.get(&key).map(|update| &update.stage) {
                Some(Stage::Handed(_)) => self.restart(ctx, &key),
                _ => self.update_is_over(&key),
            }
        }
    }

    fn restart(&mut self, ctx: &mut Ctx, key: &JobKey) {
        self.updates.end(key);
        self.order(ctx, key, StopOrder::own(StopReason::Updated));
    }

    fn update_is_over(&mut self, key: &JobKey) {
        self.updates.end(key);
        if let Some(held) = self.held.get_mut(key) {
            held.notes.behind_update = false;
        }
        self.fetch(key);
    }
}

impl HeldJob {
    /// Its handler has taken this payload.
    fn run_with(&mut self, in_hand: &InHand) {
        self.set_generation(in_hand.generation);
        self.envelope = in_hand.envelope.clone();
        (self.policy, self.progress) = (in_hand.policy, in_hand.progress);
    }
}
