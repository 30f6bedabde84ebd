//! How a begun job comes into a worker's hands (a part of [`Jobs`]).
//!
//! The job may have a newer token while a former run of its key is here, if the record of that run was lost. The
//! former run is then void, and only this worker knows of it. That run ends at once without a release, and the job
//! waits for its end.

use super::Jobs;
use super::held::{HeldJob, LeavingJob, StopOrder};
use crate::core::ctx::Ctx;
use crate::core::effect::NewJob;
use crate::core::time::Time;
use crate::model::id::{JobKey, NodeName, Token};
use crate::model::record::{Begun, Record};
use crate::model::stop::StopReason;
use crate::model::wire::{self, Opened};
use crate::mutation::Mutation;
use crate::step::BegunJob;

/// A begun job that waits for the end of its former run.
#[derive(Debug)]
pub(super) struct Successor {
    pub(super) job: BegunJob,
    /// It was given a payload of this generation.
    pub(super) generation: u64,
}

impl Jobs {
    /// A job was begun. The key may be held under another token.
    pub(super) fn receive(&mut self, ctx: &mut Ctx, key: JobKey, job: BegunJob) {
        if self.held.contains_key(&key) && !ctx.config.broken.has(Mutation::StartsWhatItHolds) {
            self.succeed(ctx, key, job);
        } else {
            self.take_up(ctx, key, job);
        }
    }

    /// A job was begun, and no other run of its key is here.
    fn take_up(&mut self, ctx: &mut Ctx, key: JobKey, job: BegunJob) {
        let token = job.record.token;
        self.inherit(&key, token, job.checkpoint.as_deref());
        if !self.takes_up(&job.record) || !self.may_start(ctx) {
            return self.pass_on(ctx.now, key, job);
        }
        match wire::open(&job.payload) {
            Ok(opened) => self.hold(ctx, &key, job, opened),
            Err(error) => self.unreadable(ctx, key, token, &job.record, (&error, job.payload)),
        }
    }

    /// The job is now in this worker's hands, and waits for its turn to start.
    fn hold(&mut self, ctx: &mut Ctx, key: &JobKey, begun: BegunJob, payload: Opened) {
        let BegunJob { record, waiting, payload: envelope, checkpoint } = begun;
        let job = NewJob {
            key: key.clone(),
            token: record.token,
            id: record.id.clone(),
            payload,
            attempts: record.attempts,
            is_first: record.begun != Begun::Started && record.attempts == 1,
            created_ms: record.created,
            begun_ms: record.since,
            checkpoint,
        };
        let held = HeldJob::new(&record, job, envelope, waiting, ctx.now);
        self.held.insert(key.clone(), Box::new(held));
        self.starts.push(key, record.token, record.why().is_some_and(|why| why.cause.is_a_move()));
        if let Some(why) = self.leaving {
            self.order(ctx, key, StopOrder::own(why));
        }
    }

    /// Gives a job back that was begun, and that no handler has had.
    fn pass_on(&mut self, now: Time, key: JobKey, job: BegunJob) {
        let (token, tell) = (job.record.token, NodeName::new(job.record.id.node()).ok());
        let out = LeavingJob::in_passing(&job.record, job.payload, now);
        self.give_back(key, token, out, tell, Vec::new());
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
        let broken = &ctx.config.broken;
        let unchecked = broken.has(Mutation::NoRecheckAfterBegin) || broken.has(Mutation::GrantWithoutLease);
        ctx.lease_holds(self.worker) || unchecked
    }

    /// A job was begun whose key is held under another token.
    fn succeed(&mut self, ctx: &mut Ctx, key: JobKey, job: BegunJob) {
        let Some(former) = self.held.get(&key).map(|held| held.token) else { return };
        let token = job.record.token;
        if token < former {
            // The job was assigned before the held one, and must be assigned again.
            let out = LeavingJob::in_passing(&job.record, job.payload, ctx.now);
            return self.give_back(key, token, out, None, Vec::new());
        }
        self.successors.insert(key.clone(), Successor { job, generation: 0 });
        if !ctx.config.broken.has(Mutation::FormerRunKept) {
            self.outranked(ctx, key, former);
        }
    }

    /// Takes up the jobs whose former run has ended.
    pub(super) fn take_up_successors(&mut self, ctx: &mut Ctx) {
        let ended = self.successors.keys().filter(|&key| !self.held.contains_key(key));
        for key in ended.cloned().collect::<Vec<_>>() {
            if let Some(Successor { job, generation }) = self.successors.remove(&key) {
                let token = job.record.token;
                self.take_up(ctx, key.clone(), job);
                self.updated(ctx, key, token, generation);
            }
        }
    }

    /// Gives back the jobs that wait for their former run. Until the store answers, this worker may be the only one
    /// that has their payload.
    pub(super) fn give_successors_back(&mut self, ctx: &Ctx) {
        for (key, Successor { job, .. }) in std::mem::take(&mut self.successors) {
            self.inherit(&key, job.record.token, job.checkpoint.as_deref());
            self.pass_on(ctx.now, key, job);
        }
    }

    /// True when this (key, token) waits for the end of a former run.
    pub(super) fn succeeds(&self, key: &JobKey, token: Token) -> bool {
        self.successors.get(key).is_some_and(|successor| successor.job.record.token == token)
    }
}
