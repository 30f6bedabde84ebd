//! The log for operators: each notice of the core is one structured event. Quiet in steady state.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::lately::Lately;
use super::metrics::RefusedCheckpoints;
use crate::clock;
use crate::core::effect::{Attested, Notice};
use crate::core::time::Time;
use crate::job::checkpoint::OnRefused;
use crate::model::id::NodeName;
use crate::model::level::TooOld;
use crate::model::unsaved::NotSaved;
use crate::store::{Result, StoreError, loss};

/// A failure of this length is no longer transient.
const HICCUP: Duration = Duration::from_secs(2);

/// The log lines of one node.
#[derive(Debug)]
pub(super) struct Log {
    node: NodeName,
    lately: Lately,
    /// Since when renewals have had no answer.
    unanswered: Option<Time>,
}

impl Log {
    pub(super) fn new(node: NodeName) -> Self {
        Self { node, lately: Lately::default(), unanswered: None }
    }

    /// A renewal was answered, or not. `ends_in`: how long the node's leases last without another one.
    pub(super) fn renewed<T>(&mut self, now: Time, answer: &Result<T>, ends_in: Option<Duration>) {
        let node = &self.node;
        match answer {
            Ok(_) | Err(StoreError::Refused(_)) => {
                if let Some(since) = self.unanswered.take() {
                    tracing::info!(%node, after = ?now.since(since), "the store answers again");
                }
            }
            Err(error) if self.unanswered.is_none() => {
                self.unanswered = Some(now);
                let error = error.with_sources();
                tracing::warn!(%node, error, leases_end_in = ?ends_in, "the store cannot be reached: jobs are ended when the leases are over");
            }
            Err(_) => {}
        }
    }

    /// A step has kept failing for `long`. Logs nothing while the store answers nothing at all, which is logged
    /// elsewhere.
    pub(super) fn failing(&mut self, now: Time, step: &'static str, long: Duration, error: &StoreError) {
        if self.unanswered.is_some() || long < HICCUP {
            return;
        }
        if let Some(count) = self.lately.say(now, step) {
            let (node, error) = (&self.node, error.with_sources());
            tracing::warn!(%node, step, failing_for = ?long, error, count, "a step keeps failing, it is tried again");
        }
    }

    /// Logs a notice of the core. A lasting trouble gets one line per cause and half minute.
    pub(super) fn log(&mut self, now: Time, notice: &Notice) {
        let count = match notice {
            Notice::Trouble(StoreError::Unusable(source) | StoreError::Damaged(source)) => {
                self.lately.say(now, &format!("unusable {source}"))
            }
            Notice::Trouble(StoreError::Refused(why)) => self.lately.say(now, &format!("refused {why:?}")),
            Notice::SetAside { error, .. } => {
                self.lately.say(now, &format!("aside {}", error.with_sources()))
            }
            Notice::NotTakenBack { error } => self.lately.say(now, &format!("refused {error}")),
            Notice::NotSaved { why: NotSaved::TooLong { .. }, .. } => self.lately.say(now, "too long"),
            Notice::NotSaved { why, .. } => self.lately.say(now, &format!("unsaved {why}")),
            Notice::BadRecord { .. } => self.lately.say(now, "record"),
            Notice::NotificationRefused { why, .. } => self.lately.say(now, &format!("not yet {why}")),
            Notice::NotUpdated { why, .. } => self.lately.say(now, &format!("not updated {why}")),
            Notice::Unreadable { error, .. } => self.lately.say(now, &format!("payload {error}")),
            Notice::PlanFailed { plan, error } => {
                self.lately.say_less_and_less(now, &format!("plan {plan} {error}"))
            }
            _ => Some(1),
        };
        if let Some(count) = count {
            log(&self.node, notice, count);
        }
    }
}

/// Logs and counts the checkpoints that this node refuses at once. The core gives no notice of a refusal: the refused state
/// may be the last word of a job that the engine has given up.
pub(super) fn refusals(node: NodeName, counted: RefusedCheckpoints) -> OnRefused {
    let log = Mutex::new(Log::new(node));
    Box::new(move |key, why| {
        counted.count(why);
        let notice = Notice::NotSaved { key: key.clone(), why: why.clone(), others: 0 };
        log.lock().unwrap_or_else(PoisonError::into_inner).log(clock::now(), &notice);
    })
}

fn log(node: &NodeName, notice: &Notice, count: u64) {
    match notice {
        Notice::Recovering { incarnation, wait } => {
            tracing::info!(%node, incarnation = incarnation.0, ?wait, "the pool is being opened; jobs start after the wait");
        }
        Notice::Normal { incarnation } => {
            tracing::info!(%node, incarnation = incarnation.0, "the pool is open");
        }
        Notice::Trouble(error @ (StoreError::Unusable(source) | StoreError::Damaged(source))) => {
            tracing::error!(%node, %error, %source, count, "the store did not do a step, it is tried again");
        }
        Notice::Trouble(StoreError::Refused(why)) => {
            tracing::error!(%node, error = %why, count, "the store refuses a step, it is tried again");
        }
        Notice::Trouble(error) => {
            tracing::debug!(%node, ?error, "the store did not do a step, it is tried again");
        }
        Notice::Expired { worker, of } => {
            let of = of.as_deref().unwrap_or_default();
            tracing::warn!(%node, worker = worker.0, of, "a worker was silent for its time to live: its jobs move");
        }
        Notice::Fenced { worker, jobs } => {
            tracing::warn!(%node, worker = worker.0, jobs, "a worker of this node lost its lease: its jobs are ended here");
        }
        Notice::Attested { worker, count } => {
            let Attested { kept, stopped, outranked, unreadable, ended, requeued, gone } = *count;
            if stopped + outranked + unreadable + gone == 0 {
                tracing::warn!(%node, worker = worker.0, kept, ended, requeued, "the pool's data were lost, or may have been: jobs run on");
            } else {
                tracing::warn!(%node, worker = worker.0, kept, stopped, outranked, unreadable, ended, requeued, gone, "the pool's data were lost, or may have been: jobs run on, others are ended or have no record");
            }
        }
        Notice::NotTakenBack { error } => {
            tracing::error!(%node, %error, count, "the pool refuses to take a worker of this node back, the worker asks again at intervals");
        }
        Notice::TooOld(TooOld { floor, level, .. }) => {
            tracing::error!(%node, floor, level, "the pool needs a newer version: it refuses all that this node asks, and the node's jobs end with their leases");
        }
        Notice::Lost { signs } => {
            tracing::error!(%node, lost = loss(signs), "a key of the pool was lost alone: living workers report what they know, and it is written again");
        }
        Notice::Namesake => {
            tracing::warn!(%node, "another node that lives has this node's name: its dispatches may hear of their jobs late, and metrics are mixed up");
        }
        Notice::Damaged { signs } if signs.is_empty() => {
            tracing::info!(%node, "the damage that a loss had left in the pool's data is gone");
        }
        Notice::Damaged { signs } => {
            tracing::error!(%node, lost = loss(signs), "a loss of data could not be made good, and the pool goes on with what is left");
        }
        Notice::Evicts { policy: Some(policy) } => {
            tracing::warn!(%node, policy, "redis may drop keys when its memory is full: a pool needs maxmemory-policy noeviction");
        }
        Notice::Evicts { policy: None } => {
            tracing::info!(%node, "redis drops no keys any more: maxmemory-policy is noeviction");
        }
        Notice::PlanFailed { plan, error } => {
            tracing::warn!(%node, %plan, error, count, "a plan failed, or was carried out only in part; its next tick comes");
        }
        Notice::BadSchedule { schedule } => {
            tracing::error!(%node, %schedule, "the entry of a schedule cannot be read, it is left as it is");
        }
        notice => log_job(node, notice, count),
    }
}

/// The same for what concerns single jobs.
fn log_job(node: &NodeName, notice: &Notice, count: u64) {
    match notice {
        Notice::SetAside { key, error } => {
            let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::error!(%node, %key, %error, ?source, count, "a step fails on this job, it is tried again after a pause, and others go on");
        }
        Notice::Outranked { key, token } => {
            tracing::error!(%node, %key, token = token.0, "a job that runs here was assigned again, here or elsewhere: this run ends at once");
        }
        Notice::BadRecord { key } => {
            tracing::error!(%node, %key, count, "the record of a job cannot be read, it is left as it is");
        }
        Notice::Unreadable { key, error } => {
            tracing::warn!(%node, %key, error, count, "the payload of a job cannot be read, it is not started here");
        }
        Notice::NotSaved { key, why, others } => {
            tracing::warn!(%node, %key, error = %why, others, count, "checkpoints are not kept, the jobs' next owners get the ones before");
        }
        Notice::StopFailed { key, error } => {
            tracing::warn!(%node, %key, error, "a stop handler failed; the job has ended");
        }
        Notice::NotificationRefused { key, token, refusals, pause, why } => {
            tracing::warn!(%node, %key, token = token.0, refusals, ?pause, error = why, count, "a notification is refused, it comes again after a pause");
        }
        Notice::NotUpdated { key, token, why } => {
            tracing::warn!(%node, %key, token = token.0, error = why, count, "a running job did not take its other payload, it starts again with it");
        }
        Notice::Stuck { key, token } => {
            tracing::error!(%node, %key, token = token.0, "a handler does not end when aborted: its job stays here, its worker leaves the ring and hands off the others");
        }
        Notice::Failed { key, token, attempts, error, again_in: Some(pause), .. } => {
            tracing::warn!(%node, %key, token = token.0, attempts, error, ?pause, "a job failed, it is tried again after a pause");
        }
        Notice::Failed { key, token, attempts, error, .. } => {
            tracing::warn!(%node, %key, token = token.0, attempts, error, "a job failed and is gone");
        }
        Notice::Parked { key, error } => {
            tracing::warn!(%node, %key, error, "a job is parked");
        }
        Notice::Paused { key, pause } => {
            tracing::debug!(%node, %key, pause, "a job is paused");
        }
        Notice::ParkedUnowned { id } => {
            tracing::warn!(%node, dispatch = %id, "a job lost too many workers and is parked");
        }
        _ => {}
    }
}

/// Logs that a node makes no progress, or makes progress again.
pub(super) fn progress(node: &NodeName, stalled: bool, has_leases: bool, idle: Duration, deaf: Duration) {
    match (stalled, has_leases) {
        (true, true) => {
            tracing::error!(%node, ?idle, ?deaf, "the node makes no progress: its leases are not renewed");
        }
        (true, false) => tracing::warn!(%node, ?idle, ?deaf, "the node makes no progress: its calls wait"),
        (false, _) => tracing::info!(%node, "the node makes progress again"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tenure_testing::Lines;

    use super::*;
    use crate::model::id::JobKey;

    fn said(by: impl FnOnce(&mut Log)) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(subscriber.finish(), || {
            by(&mut Log::new(NodeName::new("n").unwrap()));
        });
        lines.all()
    }

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    fn unusable() -> StoreError {
        StoreError::Unusable(tenure_steps::Failure::new(std::io::Error::other("the counter is a list")))
    }

    #[test]
    fn a_store_that_says_no_for_long_does_not_flood_the_log() {
        let lines = said(|log| {
            for ms in (0..61_000).step_by(20) {
                log.log(at(ms), &Notice::Trouble(unusable()));
            }
        });
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[1].contains("count=1500") && lines[1].contains("the counter is a list"), "{lines:?}");
    }

    #[test]
    fn jobs_that_a_step_fails_on_share_a_line_for_each_cause() {
        let lines = said(|log| {
            for n in 0..1_000 {
                let cause = std::io::Error::other(if n % 2 == 0 { "a list" } else { "a text" });
                let error = StoreError::Damaged(tenure_steps::Failure::new(cause));
                log.log(at(n), &Notice::Trouble(error.clone()));
                let key = JobKey::try_from(format!("k{n}")).unwrap();
                log.log(at(n), &Notice::SetAside { key, error });
            }
        });
        assert_eq!(lines.len(), 4, "{lines:?}");
    }

    #[test]
    fn records_that_cannot_be_read_share_a_line() {
        let lines = said(|log| {
            for n in 0..1_000 {
                let key = JobKey::try_from(format!("k{n}")).unwrap();
                log.log(at(n), &Notice::BadRecord { key });
            }
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn an_outage_is_told_once_with_the_end_of_the_leases() {
        let lines = said(|log| {
            for second in 0..30 {
                let answer: Result<()> = Err(unusable());
                log.renewed(at(second * 1_000), &answer, Some(Duration::from_secs(6)));
                log.failing(at(second * 1_000), "sweep", Duration::from_secs(second), &unusable());
            }
            log.renewed(at(30_000), &Ok(()), None);
            log.renewed(at(31_000), &Ok(()), None);
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("leases_end_in=Some(6s)") && lines[0].contains(" WARN "), "{lines:?}");
        assert!(lines[1].contains("answers again") && lines[1].contains("after=30s"), "{lines:?}");
    }

    #[test]
    fn a_step_that_keeps_failing_is_named() {
        let lines = said(|log| {
            for second in 0..40 {
                log.failing(at(second * 1_000), "sweep", Duration::from_secs(second), &unusable());
            }
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("step=\"sweep\" failing_for=2s"), "{lines:?}");
    }

    #[test]
    fn a_plan_that_fails_the_same_way_at_each_tick_is_seldom_told() {
        let plan = crate::model::id::ScheduleName::new("p").unwrap();
        let lines = said(|log| {
            for tick in 0..720 {
                let error = "1 of its jobs are not as it wants them, the first: b: it is parked".to_owned();
                log.log(at(tick * 5_000), &Notice::PlanFailed { plan: plan.clone(), error });
            }
        });
        assert!(lines.len() <= 8, "{lines:?}");
    }
}
