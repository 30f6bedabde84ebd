//! The metrics of a node, through the `metrics` facade. The driver's inputs and effects feed them, never the core.
//! Each handle is registered when the node joins, or when a label's value is first used. `docs/observability.md` has
//! names, units and labels. Labels are the pool, the node, and names from fixed lists.

mod description;

use std::num::NonZeroU32;

use metrics::{Counter, Gauge, Histogram, Label};

use crate::core::call::Done;
use crate::core::effect::{Attested, Effect, Failure, Notice};
use crate::core::engine::status::Status;
use crate::core::input::{Answer, HandlerEvent, Input, Planned};
use crate::error::DispatchError;
use crate::model::id::{NodeName, PoolName};
use crate::model::phase::PoolPhase;
use crate::model::unsaved::NotSaved;
use crate::model::why::Cause;
use crate::store::{Release, ReleaseItem, ReleaseMode, ReleaseReply, RouteReply};

/// Metrics of one name that differ in one label, whose values come from a short fixed list.
struct Family<M> {
    known: Vec<(&'static str, M)>,
    make: Box<dyn Fn(&'static str) -> M + Send>,
}

impl<M> Family<M> {
    fn new(make: impl Fn(&'static str) -> M + Send + 'static) -> Self {
        Self { known: Vec::new(), make: Box::new(make) }
    }

    fn of(&mut self, value: &'static str) -> &M {
        let at = self.known.iter().position(|(known, _)| *known == value).unwrap_or_else(|| {
            self.known.push((value, (self.make)(value)));
            self.known.len() - 1
        });
        &self.known[at].1
    }
}

/// One node's metrics.
pub(crate) struct Metrics {
    dispatches: Family<Counter>,
    starts: Counter,
    failures: Family<Counter>,
    stops: Family<Counter>,
    releases: Family<Counter>,
    moves: Counter,
    notifications: Counter,
    refused: Counter,
    updates: Counter,
    unsaved: Family<Counter>,
    routed: Family<Counter>,
    swept: Counter,
    plans: Family<Counter>,
    ticks: Counter,
    attested: Family<Counter>,
    fenced: Counter,
    expired: Counter,
    errors: Family<Counter>,
    calls: Family<Histogram>,
    start_wait: Histogram,
    jobs: Gauge,
    stuck: Gauge,
    to_start: Gauge,
    to_move: Gauge,
    full: Gauge,
    workers: Gauge,
    waiting: Gauge,
    queued: Gauge,
    parked: Gauge,
    move_rate: Gauge,
    move_pace: Gauge,
    start_pace: Gauge,
    lease_age: Gauge,
    open: Gauge,
}

/// Counts the checkpoints that a node refuses at once.
pub(super) struct RefusedCheckpoints {
    too_long: Counter,
    encoding: Counter,
}

impl RefusedCheckpoints {
    pub(super) fn count(&self, why: &NotSaved) {
        // The driver counts the others.
        match why {
            NotSaved::TooLong { .. } => self.too_long.increment(1),
            NotSaved::Encoding(_) => self.encoding.increment(1),
            _ => {}
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// This node's metrics in the recorder that is installed now.
    pub(crate) fn new(pool: &PoolName, node: &NodeName) -> Self {
        description::describe();
        let own = vec![Label::new("pool", pool.to_string()), Label::new("node", node.to_string())];
        let with = |label: &'static str| {
            let own = own.clone();
            move |value: &'static str| [own.clone(), vec![Label::from_static_parts(label, value)]].concat()
        };
        let counters = |name: &'static str, label| {
            let labels = with(label);
            Family::new(move |value| metrics::counter!(name, labels(value)))
        };
        let counter = |name: &'static str| metrics::counter!(name, own.clone());
        let gauge = |name: &'static str| metrics::gauge!(name, own.clone());
        let steps = with("step");
        Self {
            dispatches: counters("tenure_pool_dispatches_total", "outcome"),
            starts: counter("tenure_pool_starts_total"),
            failures: counters("tenure_pool_failures_total", "kind"),
            stops: counters("tenure_pool_stops_total", "reason"),
            releases: counters("tenure_pool_releases_total", "outcome"),
            moves: counter("tenure_pool_moves_total"),
            notifications: counter("tenure_pool_notifications_total"),
            refused: counter("tenure_pool_refused_notifications_total"),
            updates: counter("tenure_pool_taken_updates_total"),
            unsaved: counters("tenure_pool_unsaved_checkpoints_total", "why"),
            routed: counters("tenure_pool_routed_total", "outcome"),
            swept: counter("tenure_pool_swept_total"),
            plans: counters("tenure_pool_plans_total", "outcome"),
            ticks: counter("tenure_pool_ticks_total"),
            attested: counters("tenure_pool_attested_jobs_total", "outcome"),
            fenced: counter("tenure_pool_fenced_workers_total"),
            expired: counter("tenure_pool_expired_workers_total"),
            errors: counters("tenure_pool_store_errors_total", "kind"),
            calls: Family::new(move |step| {
                metrics::histogram!("tenure_pool_store_call_seconds", steps(step))
            }),
            start_wait: metrics::histogram!("tenure_pool_start_wait_seconds", own.clone()),
            jobs: gauge("tenure_pool_jobs"),
            stuck: gauge("tenure_pool_stuck_jobs"),
            to_start: gauge("tenure_pool_waiting_starts"),
            to_move: gauge("tenure_pool_waiting_moves"),
            full: gauge("tenure_pool_full_workers"),
            workers: gauge("tenure_pool_workers"),
            waiting: gauge("tenure_pool_open_dispatches"),
            queued: gauge("tenure_pool_queued_jobs"),
            parked: gauge("tenure_pool_parked_jobs"),
            move_rate: gauge("tenure_pool_move_rate"),
            move_pace: gauge("tenure_pool_move_pace"),
            start_pace: gauge("tenure_pool_start_pace"),
            lease_age: gauge("tenure_pool_lease_age_seconds"),
            open: gauge("tenure_pool_open"),
        }
    }

    /// The histogram for a call's duration, recorded at the answer.
    pub(crate) fn call(&mut self, step: &'static str) -> Histogram {
        self.calls.of(step).clone()
    }

    /// Counts an input.
    pub(super) fn hear(&mut self, input: &Input) {
        match input {
            Input::Done(done) => self.answered(done),
            Input::Planned { planned, .. } => {
                self.plans.of(plan_outcome(planned)).increment(1);
            }
            Input::Handler { event, .. } => match event {
                HandlerEvent::Started => self.starts.increment(1),
                HandlerEvent::Stopped(Err(_)) => self.failures.of("stop").increment(1),
                HandlerEvent::Updated { result: Ok(()), .. } => self.updates.increment(1),
                HandlerEvent::Aborted => self.failures.of("aborted").increment(1),
                _ => {}
            },
            _ => {}
        }
    }

    fn answered(&mut self, done: &Done) {
        match done {
            Done::Route(_, _, Ok(replies)) => {
                for reply in replies {
                    self.routed.of(route_outcome(*reply)).increment(1);
                }
            }
            Done::Release(Release { items, .. }, Ok(replies)) => {
                for (item, reply) in items.iter().zip(replies) {
                    if let Some(outcome) = released(item, *reply) {
                        self.releases.of(outcome).increment(1);
                    }
                    if *reply == ReleaseReply::Queued && item.cause == Cause::Moved {
                        self.moves.increment(1);
                    }
                }
            }
            Done::Sweep(_, Ok(swept)) => self.swept.increment(swept.count as u64),
            _ => {}
        }
    }

    /// Counts an effect that is about to be performed.
    pub(super) fn see(&mut self, effect: &Effect) {
        match effect {
            Effect::Start { job, .. } if job.is_first => {
                self.start_wait.record(job.begun_ms.saturating_sub(job.created_ms) as f64 / 1_000.0);
            }
            Effect::Stop { why, .. } => self.stops.of(why.name()).increment(1),
            Effect::Tick { .. } => self.ticks.increment(1),
            Effect::Settings { settings, .. } => self.move_rate.set(f64::from(settings.move_rate)),
            Effect::Deliver { taken, .. } => self.notifications.increment(taken.bodies.len() as u64),
            Effect::Reply { answer: Answer::Submitted(result), .. } => {
                self.dispatches.of(outcome(result.as_ref().err())).increment(1);
            }
            // Its worker is lost: the node that frees the jobs counts for it.
            Effect::Report(Notice::ParkedUnowned { .. }) => self.releases.of("parked").increment(1),
            Effect::Report(Notice::Failed { what, .. }) => self.failures.of(failure(*what)).increment(1),
            Effect::NotSaved { why, .. } => self.unsaved.of(why.name()).increment(1),
            Effect::Report(Notice::NotificationRefused { .. }) => self.refused.increment(1),
            Effect::Report(Notice::Fenced { .. }) => self.fenced.increment(1),
            Effect::Report(Notice::Attested { count, .. }) => {
                let Attested { kept, stopped, outranked, unreadable, ended, requeued, gone } = *count;
                let living = [("kept", kept), ("stopped", stopped), ("outranked", outranked)];
                let others =
                    [("unreadable", unreadable), ("ended", ended), ("requeued", requeued), ("gone", gone)];
                for (outcome, count) in living.into_iter().chain(others).filter(|(_, count)| *count > 0) {
                    self.attested.of(outcome).increment(count as u64);
                }
            }
            Effect::Report(Notice::Expired { .. }) => self.expired.increment(1),
            Effect::Report(Notice::Trouble(error)) => self.errors.of(error.name()).increment(1),
            _ => {}
        }
    }

    /// Shows the paces of the node's workers, which do not change.
    pub(crate) fn pace(&self, starts: Option<NonZeroU32>, moves: Option<NonZeroU32>) {
        let shown = |pace: Option<NonZeroU32>| f64::from(pace.map_or(0, NonZeroU32::get));
        self.start_pace.set(shown(starts));
        self.move_pace.set(shown(moves));
    }

    /// Counts checkpoints that never get as far as the driver.
    pub(super) fn refused_checkpoints(&mut self) -> RefusedCheckpoints {
        RefusedCheckpoints {
            too_long: self.unsaved.of("too_long").clone(),
            encoding: self.unsaved.of("encoding").clone(),
        }
    }

    /// The age of the oldest lease; the lease thread sets it.
    pub(crate) fn lease_age(&self) -> Gauge {
        self.lease_age.clone()
    }

    /// The node has ended: its gauges go to zero.
    pub(super) fn rest(&self) {
        let of_pool = [&self.queued, &self.parked, &self.move_rate, &self.open];
        let own = [
            &self.jobs,
            &self.stuck,
            &self.to_start,
            &self.to_move,
            &self.full,
            &self.workers,
            &self.waiting,
            &self.start_pace,
            &self.move_pace,
        ];
        for gauge in own.into_iter().chain(of_pool) {
            gauge.set(0.0);
        }
    }

    /// Sets the gauges to the node's present state.
    pub(super) fn show(&self, status: &Status) {
        let count = |of: fn(&crate::core::engine::status::WorkerStatus) -> usize| {
            status.workers.iter().map(of).sum::<usize>() as f64
        };
        self.jobs.set(count(|worker| worker.held));
        self.stuck.set(count(|worker| worker.stuck.len()));
        self.full.set(count(|worker| usize::from(worker.full)));
        self.to_start.set(count(|worker| worker.to_start));
        self.to_move.set(count(|worker| worker.to_move));
        self.workers.set(count(|worker| usize::from(worker.id.is_some())));
        self.waiting.set(status.dispatches as f64);
        if let Some(queued) = status.queued {
            self.queued.set(queued as f64);
        }
        if let Some(parked) = status.parked {
            self.parked.set(parked as f64);
        }
        self.open.set(f64::from(u8::from(status.phase == PoolPhase::Open)));
    }
}

/// The result of a release; `None` if the job was no longer this worker's.
fn released(item: &ReleaseItem, reply: ReleaseReply) -> Option<&'static str> {
    Some(match (reply, item.mode) {
        (ReleaseReply::Deleted, _) => "ended",
        (ReleaseReply::Parked, _) if item.cause == Cause::Paused => "paused",
        (ReleaseReply::Parked, _) => "parked",
        (ReleaseReply::Queued, ReleaseMode::Refuse) => "refused",
        (ReleaseReply::Queued, ReleaseMode::Elsewhere { .. }) => "elsewhere",
        (ReleaseReply::Queued, ReleaseMode::Fail) => "failed",
        (ReleaseReply::Queued, _) => "handed_off",
        (ReleaseReply::Stale | ReleaseReply::Bad | ReleaseReply::Later, _) => return None,
    })
}

fn plan_outcome(planned: &Planned) -> &'static str {
    match planned {
        Planned::Made(_) => "made",
        Planned::Failed(_) => "failed",
        Planned::Aborted => "aborted",
    }
}

fn route_outcome(reply: RouteReply) -> &'static str {
    match reply {
        RouteReply::Routed => "routed",
        RouteReply::Done => "done",
        RouteReply::Waiting => "waiting",
        RouteReply::Bad => "bad",
    }
}

fn failure(what: Failure) -> &'static str {
    match what {
        Failure::Start => "start",
        Failure::Run => "run",
        Failure::Stalled => "stalled",
        Failure::Lost => "lost",
    }
}

fn outcome(error: Option<&DispatchError>) -> &'static str {
    match error {
        None => "ok",
        Some(DispatchError::JobExists { .. }) => "exists",
        Some(DispatchError::PoolFull) => "full",
        Some(DispatchError::Conflict) => "conflict",
        Some(DispatchError::StartFailed(_)) => "start_failed",
        Some(DispatchError::Parked) => "parked",
        Some(DispatchError::Paused) => "paused",
        Some(DispatchError::Stopped | DispatchError::Cancelled { .. }) => "stopped",
        Some(DispatchError::Ended) => "ended",
        Some(DispatchError::ShuttingDown) => "shutting_down",
        Some(DispatchError::Deadline { .. }) => "deadline",
        Some(_) => "error",
    }
}

#[cfg(test)]
mod tests;
