//! The times of handlers: a start, a stop or a silence that takes too long (a part of [`Jobs`]).

use std::time::Duration;

use super::Jobs;
use super::held::{HeldJob, JobPhase, StopOrder};
use crate::core::ctx::Ctx;
use crate::core::effect::{Effect, Notice};
use crate::core::time::Time;
use crate::model::id::JobKey;
use crate::model::stop::StopReason;
use crate::mutation::Mutation;

/// A longer start counts as slow, even within its own time limit.
const SLOW_START: Duration = Duration::from_secs(5);

/// A look at a running job that comes later than this is put off.
const LATE: Duration = Duration::from_secs(1);

impl Jobs {
    /// Sets the deadline of the job's handler, in place of the former one.
    pub(super) fn arm(&mut self, key: &JobKey, at: Option<Time>) {
        if let Some(held) = self.held.get_mut(key) {
            self.timers.put(&mut held.overdue_at, key, at);
        }
    }

    /// Cancels, then aborts, start and stop handlers that take too long. A handler that does not end even then keeps
    /// its job, and is reported. Looks at jobs that may make no progress. Notifications whose pause is over are fetched.
    /// Updates that take too long are given up.
    pub(in crate::core) fn on_time(&mut self, ctx: &mut Ctx) {
        self.go_on_with_refused(ctx.now);
        self.give_up_updates(ctx);
        self.confirm_grants(ctx);
        while let Some((at, key)) = self.timers.due(ctx.now) {
            let Some(held) = self.held.get_mut(&key) else { continue };
            held.overdue_at = None;
            let (worker, token) = (self.worker, held.token);
            match held.phase {
                JobPhase::Starting if held.has_permit => {
                    self.permit_back(&key);
                    self.arm(&key, Some(at + ctx.config.start_timeout.saturating_sub(slow_start(ctx))));
                }
                JobPhase::Starting => {
                    held.add_order(StopOrder::own(StopReason::StartTimeout));
                    held.phase = JobPhase::Stopping;
                    self.arm(&key, Some(ctx.now + ctx.config.abort_grace));
                    let why = StopReason::StartTimeout;
                    ctx.out.push(Effect::Cancel { worker, key, token, why });
                }
                JobPhase::Stopping => {
                    held.phase = JobPhase::Aborting;
                    self.arm(&key, Some(ctx.now + ctx.config.abort_grace));
                    ctx.out.push(Effect::Abort { worker, key, token });
                }
                JobPhase::Aborting => {
                    self.stuck = true;
                    ctx.report(Notice::Stuck { key, token });
                }
                JobPhase::Running if ctx.config.broken.has(Mutation::StalledStays) => {}
                // The engine stood still, and so perhaps did the job.
                JobPhase::Running if ctx.now.since(at) > LATE => {
                    let pause = held.progress.map_or(LATE, |timeout| timeout.get().min(ctx.now.since(at)));
                    self.arm(&key, Some(ctx.now + pause));
                }
                JobPhase::Running => ctx.out.push(Effect::Look { worker, key, token }),
                JobPhase::Waiting(_) => {}
            }
        }
    }

    /// A handler does not end although it was aborted.
    pub(in crate::core) fn has_stuck(&self) -> bool {
        self.stuck
    }

    /// The jobs whose handlers do not end although they were aborted.
    pub(in crate::core) fn stuck(&self) -> Vec<JobKey> {
        // Scans only where a job is stuck: most workers hold many jobs, and none of them is.
        let held = self.stuck.then_some(&self.held).into_iter().flatten();
        held.filter(|(_, held)| is_stuck(held)).map(|(key, _)| key.clone()).collect()
    }

    /// A job that runs last made progress at this time. One that has made none for too long must end.
    pub(super) fn progressed(&mut self, ctx: &mut Ctx, key: &JobKey, at: Time) {
        let Some(held) = self.held.get_mut(key).filter(|held| matches!(held.phase, JobPhase::Running)) else {
            return;
        };
        let Some(due) = held.progress.map(|timeout| at + timeout.get()) else { return };
        if due > ctx.now {
            self.timers.put(&mut held.overdue_at, key, Some(due));
        } else {
            self.order(ctx, key, StopOrder::own(StopReason::Stalled));
        }
    }
}

/// The handler was aborted, and does not end.
fn is_stuck(held: &HeldJob) -> bool {
    matches!(held.phase, JobPhase::Aborting) && held.overdue_at.is_none()
}

/// The time after which a start counts as slow.
pub(super) fn slow_start(ctx: &Ctx) -> Duration {
    SLOW_START.min(ctx.config.start_timeout / 6)
}
