//! How a begun job comes into a worker's hands (a part of [`Jobs`]).
//!
//! The job may have a newer token while a former run of its key is here, if the record of that run was lost. The
//! former run is then void, and only this worker knows of it. That run ends at once without a release, and the job
//! waits for its end.

use bytes::Bytes;

use super::Jobs;
use super::held::{HeldJob, LeavingJob, StopOrder};
use crate::core::ctx::Ctx;
use crate::core::effect::NewJob;
use crate::model::id::{JobKey, NodeName, Token};
use crate::model::record::{Begun, Record};
use crate::model::stop::StopReason;
use crate::model::wire::{self, Opened};
use crate::mutation::Mutation;
use crate::step::Checkpoint;

/// A begun job that waits for the end of its former run.
#[derive(Debug)]
pub(super) struct Successor {
    pub(super) record: Record,
    payload: Bytes,
    checkpoint: Option<Box<Checkpoint>>,
    /// Notifications wait for it.
    pub(super) notified: bool,
    /// It was given a payload of this generation.
    pub(super) generation: u64,
}

impl Jobs {
    /// A job was begun, and no other run of its key is here.
    pub(super) fn take_up(
        &mut self,
        ctx: &mut Ctx,
        key: JobKey,
        record: &Record,
        (payload, checkpoint): (Bytes, Option<Box<Checkpoint>>),
        waiting: bool,
    ) {
        let token = record.token;
        self.inherit(&key, token, checkpoint.as_deref());
        if !self.takes_up(record) || !self.may_start(ctx) {
            let tell = NodeName::new(record.id.node()).ok();
            let out = LeavingJob::in_passing(record, payload, ctx.now);
            return self.give_back(key, token, out, tell, vec![]);
        }
        match wire::open(&payload) {
            Ok(opened) => self.hold(ctx, &key, record, opened, (payload, checkpoint), waiting),
            Err(error) => self.unreadable(ctx, key, token, record, (&error, payload)),
        }
    }

    /// The job is now in this worker's hands, and waits for its turn to start.
    fn hold(
        &mut self,
        ctx: &mut Ctx,
        key: &JobKey,
        record: &Record,
        payload: Opened,
        (envelope, checkpoint): (Bytes, Option<Box<Checkpoint>>),
        waiting: bool,
    ) {
        let job = NewJob {
            key: key.clone(),
            token: record.token,
            id: record.id.clone(),
            payload,
            attempts: record.attempts,
            created_ms: record.created,
            begun_ms: record.since,
            checkpoint,
        };
        let held = HeldJob::new(record, job, envelope, waiting, ctx.now);
        self.held.insert(key.clone(), Box::new(held));
        if record.why().is_some_and(|why| why.cause.is_a_move()) {
            self.coming.insert(key.clone());
        }
        self.to_start.push_back((key.clone(), record.token));
        if let Some(why) = self.leaving {
            self.order(ctx, key, StopOrder::own(why));
        }
    }

    /// Whether a job that has just begun is started here. In a stopping pool that is a job that never ran: the pool
    /// accepted it before it stopped.
    fn takes_up(&self, record: &Record) -> bool {
        match self.leaving {
            None => true,
            Some(StopReason::Shutdown) => record.begun != Begun::Started,
            Some(_) => false,
        }
    }

    /// Checks the lease again after the answer to `begin`.
    fn may_start(&self, ctx: &Ctx) -> bool {
        ctx.lease_holds(self.worker) || ctx.config.broken.has(Mutation::NoRecheckAfterBegin)
    }

    /// A job was begun whose key is held under another token.
    pub(super) fn succeed(
        &mut self,
        ctx: &mut Ctx,
        key: JobKey,
        record: Record,
        (payload, checkpoint): (Bytes, Option<Box<Checkpoint>>),
        notified: bool,
    ) {
        let Some(former) = self.held.get(&key).map(|held| held.token) else { return };
        if record.token < former {
            // The job was assigned before the held one, and must be assigned again.
            let out = LeavingJob::in_passing(&record, payload, ctx.now);
            return self.give_back(key, record.token, out, None, Vec::new());
        }
        let next = Successor { record, payload, checkpoint, notified, generation: 0 };
        self.successors.insert(key.clone(), next);
        if !ctx.config.broken.has(Mutation::FormerRunKept) {
            self.outranked(ctx, key, former);
        }
    }

    /// Takes up the jobs whose former run has ended.
    pub(super) fn take_up_successors(&mut self, ctx: &mut Ctx) {
        let ended = self.successors.keys().filter(|&key| !self.held.contains_key(key));
        for key in ended.cloned().collect::<Vec<_>>() {
            if let Some(next) = self.successors.remove(&key) {
                let Successor { record, payload, checkpoint, notified, generation } = next;
                self.take_up(ctx, key.clone(), &record, (payload, checkpoint), notified);
                self.updated(ctx, key, record.token, generation);
            }
        }
    }

    /// Gives back the jobs that wait for their former run. Until the store answers, this worker may be the only one
    /// that has their payload.
    pub(super) fn give_successors_back(&mut self, ctx: &Ctx) {
        for (key, Successor { record, payload, checkpoint, .. }) in std::mem::take(&mut self.successors) {
            self.inherit(&key, record.token, checkpoint.as_deref());
            let tell = NodeName::new(record.id.node()).ok();
            let out = LeavingJob::in_passing(&record, payload, ctx.now);
            self.give_back(key, record.token, out, tell, Vec::new());
        }
    }

    /// True when this (key, token) waits for the end of a former run.
    pub(super) fn succeeds(&self, key: &JobKey, token: Token) -> bool {
        self.successors.get(key).is_some_and(|successor| successor.record.token == token)
    }
}
