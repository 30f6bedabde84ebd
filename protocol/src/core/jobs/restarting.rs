//! The next state of a job that was refused, has failed, or has ended by itself (a part of [`Jobs`]).
//!
//! | its handler | never started | started before | runs |
//! |---|---|---|---|
//! | refuses | again, next worker in the end | again, next worker in the end | – |
//! | sends it elsewhere | again, next worker at once | the same | – |
//! | fails to start | `Never`, and no other payload waits: gone, the dispatcher learns why; else again | again | – |
//! | fails | – | – | `Never`: gone; else again |
//! | ends | – | – | `Always`: again, with attempts at 0; else gone |
//! | makes no progress | – | – | again |
//! | says that others have ended it | again | again | again |
//! | says that no attempt can succeed | parked | parked | parked |
//!
//! "Again" comes after a pause, with two exceptions. A job that goes elsewhere has none before all workers have turned it
//! away, and a job that others have ended has none the first time. Each failure counts as an attempt, and the store parks
//! a job with too many.

use std::time::Duration;

use bytes::Bytes;

use super::Jobs;
use super::held::{JobPhase, LeavingJob};
use crate::core::ctx::Ctx;
use crate::core::effect::{Failure, Notice};
use crate::model::id::{JobKey, NodeName, Token};
use crate::model::policy::RestartPolicy;
use crate::model::record::{Begun, Record};
use crate::model::stop::StopReason;
use crate::model::why::Cause;
use crate::model::wire::EnvelopeError;
use crate::step::{ReleaseItem, ReleaseMode};

/// The pause before a job that ended well is started again, so that a job which ends at once does not spin.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause after a refusal, whatever the handler asks for, so that an instant refusal does not spin.
const REFUSAL_PAUSE: Duration = Duration::from_millis(10);

/// The pause before a failed or refused job is tried again: 1 s, doubled with each attempt, at most 60 s.
pub(in crate::core) fn back_off(attempts: u32) -> Duration {
    Duration::from_secs(1 << attempts.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}

impl Jobs {
    /// The start handler refused. This adds a strike against the placement, but no attempt.
    pub(super) fn refused(&mut self, ctx: &mut Ctx, key: &JobKey, backoff: Option<Duration>, why: String) {
        let Some(held) = self.held.get(key) else { return };
        let tries = held.attempts.saturating_add(held.strikes);
        let delay = backoff.unwrap_or_else(|| ctx.jitter.stretch(back_off(tries))).max(REFUSAL_PAUSE);
        self.give_up(ctx, key, ReleaseMode::Refuse, delay, why);
    }

    /// The start handler sends the job to another worker: the next of its chain is asked at once.
    pub(super) fn goes_elsewhere(&mut self, ctx: &mut Ctx, key: &JobKey, why: String) {
        let mode = self.elsewhere(ctx);
        self.give_up(ctx, key, mode, Duration::ZERO, why);
    }

    /// A handler failed or panicked, and nothing of it runs any more.
    pub(super) fn failed(&mut self, ctx: &mut Ctx, key: &JobKey, error: &str) {
        let Some(held) = self.held.get(key) else { return };
        match held.phase {
            JobPhase::Running => return self.ended(ctx, key, Err(error.to_owned())),
            JobPhase::Aborting => return self.end_as_ordered(ctx, key, Ok(())),
            JobPhase::Waiting(_) | JobPhase::Starting | JobPhase::Stopping => {}
        }
        let why = held.order.as_ref().map(|order| order.why);
        let too_late = matches!(why, Some(StopReason::StartTimeout | StopReason::Stalled));
        // Its end was asked for, and is not the job's.
        let is_asked_for = |why| {
            use StopReason::{Bounced, Parked, Paused, Updated};
            matches!(why, Updated | Bounced | Parked | Paused)
        };
        let goes_on = why.is_some_and(is_asked_for) || self.updates.is_open(key);
        let again = held.started_before() || too_late || goes_on || held.policy != RestartPolicy::Never;
        let what = if why == Some(StopReason::Stalled) { Failure::Stalled } else { Failure::Start };
        self.after_failure(ctx, key, what, again, error);
    }

    /// A job that ran has ended by itself.
    pub(super) fn ended(&mut self, ctx: &mut Ctx, key: &JobKey, result: Result<(), String>) {
        let Some(held) = self.held.get(key) else { return };
        match (held.policy, result) {
            (policy, Err(error)) => {
                self.after_failure(ctx, key, Failure::Run, policy != RestartPolicy::Never, &error);
            }
            (RestartPolicy::Never | RestartPolicy::OnFailure, Ok(())) => {
                self.give_up(ctx, key, ReleaseMode::Delete, Duration::ZERO, String::new());
            }
            (RestartPolicy::Always, Ok(())) => {
                let delay = ctx.jitter.stretch(RESTART_PAUSE);
                self.give_up(ctx, key, ReleaseMode::HandOff, delay, String::new());
            }
        }
    }

    /// Others have ended the job, and nothing of it runs any more.
    pub(super) fn ended_by_others(&mut self, ctx: &mut Ctx, key: &JobKey, why: &str) {
        let Some(held) = self.held.get(key) else { return };
        match held.phase {
            JobPhase::Aborting => self.end_as_ordered(ctx, key, Ok(())),
            _ => self.after_failure(ctx, key, Failure::Lost, true, why),
        }
    }

    /// The handler says that no attempt can succeed, and nothing of it runs any more.
    pub(super) fn park(&mut self, ctx: &mut Ctx, key: &JobKey, why: String) {
        let Some(held) = self.held.get(key) else { return };
        match held.phase {
            JobPhase::Aborting => self.end_as_ordered(ctx, key, Ok(())),
            _ => self.give_up(ctx, key, ReleaseMode::Park, Duration::ZERO, why),
        }
    }

    /// Tries the job again or drops it. Reports the failure, unless the job had to end for good anyway.
    pub(super) fn after_failure(
        &mut self,
        ctx: &mut Ctx,
        key: &JobKey,
        what: Failure,
        again: bool,
        error: &str,
    ) {
        let Some(held) = self.held.get(key) else { return };
        let token = held.token;
        let attempts = held.attempts_at(ctx.now, ctx.config.settings.stable_run);
        let pause = match (what, attempts) {
            (Failure::Lost, 0 | 1) => Duration::ZERO,
            (Failure::Lost, _) => back_off(attempts - 1),
            _ => back_off(attempts),
        };
        let again_in = again.then(|| ctx.jitter.stretch(pause));
        if !held.ends_for_good() {
            let (key, error) = (key.clone(), error.to_owned());
            ctx.report(Notice::Failed { key, token, attempts, what, error, again_in });
        }
        match again_in {
            Some(delay) => self.give_up(ctx, key, ReleaseMode::Fail, delay, error.to_owned()),
            None => self.give_up(ctx, key, ReleaseMode::Delete, Duration::ZERO, format!("e:{error}")),
        }
    }

    /// This node cannot open the payload of a job that it has begun. It refuses a newer payload until the job reaches
    /// a node that can read it. No node can read a damaged payload.
    pub(super) fn unreadable(
        &mut self,
        ctx: &mut Ctx,
        key: JobKey,
        token: Token,
        record: &Record,
        (error, envelope): (&EnvelopeError, Bytes),
    ) {
        ctx.report(Notice::Unreadable { key: key.clone(), error: error.to_string() });
        let tell = NodeName::new(record.id.node()).ok().filter(|_| record.begun != Begun::Started);
        let (mode, tries) = match error {
            EnvelopeError::Newer(_) | EnvelopeError::UnknownPolicy => {
                (ReleaseMode::Refuse, record.attempts.saturating_add(record.strikes))
            }
            EnvelopeError::Damaged(_) if record.begun == Begun::Started => {
                (ReleaseMode::Fail, record.attempts)
            }
            EnvelopeError::Damaged(_) => (ReleaseMode::Delete, 0),
        };
        let (delay, result) = match mode {
            ReleaseMode::Delete => (Duration::ZERO, format!("e:{error}")),
            _ => (ctx.jitter.stretch(back_off(tries)), error.to_string()),
        };
        let out = match mode {
            ReleaseMode::Delete => LeavingJob::of(record),
            _ => LeavingJob::in_passing(record, envelope, ctx.now),
        };
        let ran = Some(record.generation());
        let cause = if mode == ReleaseMode::Refuse { Cause::Refused } else { Cause::Failed };
        let item = ReleaseItem { ran, delay, tell, result, ..ReleaseItem::new(key, token, mode, cause) };
        self.push_release(item, out, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::time::Jitter;

    #[test]
    fn the_pause_doubles_with_each_attempt_up_to_a_minute() {
        let pauses: Vec<_> = (0..10).map(|attempts| back_off(attempts).as_secs()).collect();
        assert_eq!(pauses, [1, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(back_off(u32::MAX).as_secs(), 60);
    }

    #[test]
    fn jitter_lengthens_a_pause_by_a_varying_tenth_at_most() {
        let mut jitter = Jitter::new(7);
        let base = Duration::from_secs(60);
        let pauses: std::collections::BTreeSet<_> = (0..1_000).map(|_| jitter.stretch(base)).collect();
        assert!(pauses.len() > 900);
        assert!(pauses.iter().all(|pause| (base..=base + base / 10).contains(pause)));
        assert!(
            pauses.first() < Some(&Duration::from_secs(61)) && pauses.last() > Some(&Duration::from_secs(65))
        );
    }
}
