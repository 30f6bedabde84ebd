//! The answers to an attestation: a worker reports its jobs after its pool has lost data.

use super::Engine;
use crate::core::call::Done;
use crate::model::member::MemberState;
use crate::step::{AttestJobs, Refusal, Result, StoreError};

impl Engine {
    /// A worker's report, or its final report, was answered. An answer from an earlier incarnation is ignored.
    pub(in crate::core) fn on_attestation(&mut self, done: Done) -> Result<()> {
        let (incarnation, id, error) = match &done {
            Done::Attest(step, incarnation, answer) => (*incarnation, step.worker, answer.as_ref().err()),
            Done::Attend(step, incarnation, answer) => (*incarnation, step.worker, answer.as_ref().err()),
            _ => return Ok(()),
        };
        let error = error.cloned();
        let Some(worker) = self.workers.values_mut().find(|w| w.jobs.worker() == id) else { return Ok(()) };
        if incarnation != self.ctx.incarnation {
            return Ok(());
        }
        let ctx = &mut self.ctx;
        match done {
            Done::Attest(AttestJobs { items, .. }, _, Ok(replies)) => {
                let first = worker.jobs.on_attested(ctx, items, &replies);
                let current = self.members.incarnation == Some(incarnation);
                let member = self.members.entries.get(&id).filter(|_| current);
                if first && member.is_none_or(|member| member.state != MemberState::Up) {
                    worker.may_have_no_slot(ctx);
                }
            }
            Done::Attend(_, _, Ok(next)) => worker.jobs.on_attended(ctx, next),
            // The pool opens only after every member's final report. So the pool has received this one, and only the
            // answer is lost.
            Done::Attest(_, _, Err(StoreError::Refused(Refusal::Normal)))
            | Done::Attend(_, _, Err(StoreError::Refused(Refusal::Normal)))
                if worker.jobs.is_known() =>
            {
                worker.jobs.on_attended(ctx, None);
                return Ok(());
            }
            Done::Attest(AttestJobs { items, .. }, _, Err(_)) => worker.jobs.attest_again(ctx.now, items),
            Done::Attend(_, _, Err(_)) => worker.jobs.attest_again(ctx.now, Vec::new()),
            _ => {}
        }
        match error {
            None => Ok(()),
            Some(StoreError::Refused(Refusal::Fenced)) => {
                worker.fence(ctx);
                Ok(())
            }
            Some(StoreError::Refused(Refusal::Normal)) => {
                self.pool.opened_without(ctx.now);
                Ok(())
            }
            Some(error) => Err(error),
        }
    }
}
