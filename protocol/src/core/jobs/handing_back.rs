//! Jobs that a worker gives back, and why they leave it (a part of [`Jobs`]).

use tenure_steps::EntryId;

use super::Jobs;
use super::held::{LeavingJob, goes_on};
use crate::core::ctx::Ctx;
use crate::model::id::{JobKey, NodeName, Token};
use crate::model::record::{Begun, Record};
use crate::model::stop::StopReason;
use crate::model::why::Cause;
use crate::step::{ReleaseItem, ReleaseMode};

impl Jobs {
    /// Why a job leaves this worker that goes on. `order`: why it had to end, if it had to.
    pub(super) fn cause_of(&self, mode: ReleaseMode, order: Option<StopReason>) -> Cause {
        let handed_on = match order.or(self.leaving) {
            Some(StopReason::Draining | StopReason::Shutdown) => Cause::Drained,
            Some(StopReason::Updated) => Cause::Updated,
            Some(StopReason::Bounced) => Cause::Bounced,
            _ => Cause::Moved,
        };
        match (mode, order) {
            (_, Some(StopReason::Parked)) => Cause::Parked,
            (_, Some(StopReason::Paused)) => Cause::Paused,
            (ReleaseMode::HandOff, None) => Cause::Restarted,
            (ReleaseMode::HandOff | ReleaseMode::GiveBack, _) => handed_on,
            (ReleaseMode::Refuse | ReleaseMode::Elsewhere { .. }, Some(why)) if goes_on(why) => handed_on,
            (ReleaseMode::Refuse | ReleaseMode::Elsewhere { .. }, _) => Cause::Refused,
            (ReleaseMode::Fail | ReleaseMode::Park | ReleaseMode::Delete, _) => Cause::Failed,
        }
    }

    /// Why a job does not start on this worker, which it was given to.
    fn turned_away(&self) -> Cause {
        match self.leaving {
            Some(_) => self.cause_of(ReleaseMode::GiveBack, None),
            None => Cause::Refused,
        }
    }

    /// Gives back a job that was not started here.
    pub(super) fn give_back(
        &mut self,
        key: JobKey,
        token: Token,
        out: LeavingJob,
        tell: Option<NodeName>,
        entries: Vec<EntryId>,
    ) {
        self.give_back_for(self.turned_away(), (key, token), out, tell, entries);
    }

    fn give_back_for(
        &mut self,
        cause: Cause,
        (key, token): (JobKey, Token),
        out: LeavingJob,
        tell: Option<NodeName>,
        entries: Vec<EntryId>,
    ) {
        let item = ReleaseItem { tell, ..ReleaseItem::new(key, token, ReleaseMode::GiveBack, cause) };
        self.push_release(item, out, entries);
    }

    /// Ends a job that must stop and does not run here.
    pub(super) fn release_for_stopper(
        &mut self,
        key: JobKey,
        token: Token,
        out: LeavingJob,
        tell_stopper: Option<NodeName>,
        entries: Vec<EntryId>,
    ) {
        let item = ReleaseItem::new(key, token, ReleaseMode::Delete, Cause::Updated);
        let item = ReleaseItem { tell_stopper, ..item };
        self.push_release(item, out, entries);
    }

    /// The store has this job as one that this worker runs, and it does not run here. A granted job that nobody has begun
    /// is begun, as is a job under a token of which the worker knows nothing: its news is on its way, or was lost. Any other
    /// is given back.
    pub(in crate::core) fn unknown(&mut self, ctx: &Ctx, key: JobKey, record: &Record) {
        if record.begun == Begun::Never || !self.has_seen(record.token) {
            return self.assigned(ctx, None, key, record.token);
        }
        let out = LeavingJob::of(record);
        self.give_back_for(Cause::Missing, (key, record.token), out, None, Vec::new());
    }
}
