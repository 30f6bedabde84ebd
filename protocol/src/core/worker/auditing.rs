//! Compares the jobs of a worker with the store's (a part of [`Worker`]).

use super::Worker;
use crate::core::call::{Call, PAGE};
use crate::core::ctx::Ctx;
use crate::core::ring::Ring;
use crate::model::id::{JobKey, Token};
use crate::model::record::JobState;
use crate::step::{BeginReply, ListOwned, OwnedPage, Result};

impl Worker {
    /// Asks for the jobs that the store assigns to the worker, if that is due.
    pub(super) fn flush_audit(&mut self, ctx: &mut Ctx) {
        if self.jobs.is_audit_due() && self.audit.begin(ctx.now) {
            self.jobs.is_audited();
            ctx.call(Call::Owned(ListOwned { worker: self.jobs.worker(), after: None, limit: PAGE }));
        }
    }

    /// Looks once more for jobs to hand off, if one of these was begun here and belongs elsewhere.
    pub(in crate::core) fn check_places(
        &mut self,
        ctx: &mut Ctx,
        ring: &Ring,
        begun: &[BeginReply],
        jobs: &[(JobKey, Token)],
    ) {
        let strikes = |reply: &BeginReply| match reply {
            BeginReply::Begun(job) => Some(job.record.strikes),
            BeginReply::Full | BeginReply::Refused => None,
        };
        let begun = jobs.iter().zip(begun).filter_map(|((key, _), reply)| Some((key, strikes(reply)?)));
        self.check_places_of(ctx, ring, begun);
    }

    /// The same for jobs with these strikes.
    pub(super) fn check_places_of<'a>(
        &mut self,
        ctx: &mut Ctx,
        ring: &Ring,
        mut jobs: impl Iterator<Item = (&'a JobKey, u32)>,
    ) {
        let worker = self.jobs.worker();
        if jobs.any(|(key, strikes)| ring.takes_away(key.as_bytes(), strikes, worker)) {
            self.rebalance.misplaced(ctx);
        }
    }

    pub(in crate::core) fn on_owned(&mut self, ctx: &mut Ctx, answer: Result<OwnedPage>) -> Result<()> {
        self.audit.is_back();
        if self.member_id().is_none() {
            return Ok(());
        }
        let page = self.audit.answered(ctx.now, answer).inspect_err(|_| self.jobs.audit())?;
        let worker = self.jobs.worker();
        for (key, record) in page.jobs {
            if let Some(record) = record
                && record.state == JobState::Running
                && record.owner == Some(worker)
            {
                if !self.jobs.knows(&key, record.token) {
                    self.jobs.unknown(ctx, key, &record);
                    continue;
                }
                if self.jobs.takes_strikes(ctx, &key, &record) {
                    self.rebalance.misplaced(ctx);
                }
                if record.generation() > 0 {
                    self.jobs.updated(ctx, key, record.token, record.generation());
                }
            }
        }
        if page.next.is_some() {
            self.audit.start();
            ctx.call(Call::Owned(ListOwned { worker, after: page.next, limit: PAGE }));
        }
        Ok(())
    }
}
