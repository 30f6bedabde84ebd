//! The unit and the meaning of each metric, for recorders that show them.

use metrics::Unit;

/// Describes all metrics to the recorder of this process.
pub(super) fn describe() {
    let counter =
        |name: &'static str, what: &'static str| metrics::describe_counter!(name, Unit::Count, what);
    counter("tenure_pool_dispatches_total", "Answers to dispatches, submits and waits of this node.");
    counter("tenure_pool_starts_total", "Start handlers that succeeded.");
    counter("tenure_pool_failures_total", "Handlers that failed, panicked or were aborted.");
    counter("tenure_pool_stops_total", "Jobs that were asked to end.");
    counter("tenure_pool_releases_total", "Jobs that this node's workers gave up.");
    counter("tenure_pool_moves_total", "Jobs that this node's workers gave up because the ring has changed.");
    counter("tenure_pool_notifications_total", "Notifications handed to handlers.");
    counter("tenure_pool_refused_notifications_total", "Notifications that handlers refused for now.");
    counter("tenure_pool_taken_updates_total", "Payloads that jobs of this node took without a restart.");
    counter("tenure_pool_unsaved_checkpoints_total", "Checkpoints that are not kept, or may not be.");
    counter("tenure_pool_routed_total", "Start events that this node has routed.");
    counter("tenure_pool_swept_total", "Overdue jobs that this node's sweeps acted upon.");
    counter("tenure_pool_plans_total", "Plans that this node's planners came to, or did not.");
    counter("tenure_pool_ticks_total", "Ticks handed to this node's tickers.");
    counter(
        "tenure_pool_attested_jobs_total",
        "Jobs in the hands of this node's workers when data were lost, or may have been.",
    );
    counter("tenure_pool_fenced_workers_total", "Workers of this node that lost their lease or their pool.");
    counter("tenure_pool_expired_workers_total", "Silent workers that this node has expired.");
    counter("tenure_pool_store_errors_total", "Calls to the store that failed, by kind.");
    let seconds = "How long a call to the store took.";
    metrics::describe_histogram!("tenure_pool_store_call_seconds", Unit::Seconds, seconds);
    let seconds =
        "How long a job had waited when it was first begun, since it was accepted, by the store's clock.";
    metrics::describe_histogram!("tenure_pool_start_wait_seconds", Unit::Seconds, seconds);
    let gauge = |name: &'static str, what: &'static str| metrics::describe_gauge!(name, Unit::Count, what);
    gauge("tenure_pool_jobs", "Jobs in the hands of this node's workers.");
    gauge("tenure_pool_stuck_jobs", "Jobs whose handler does not end although it was aborted.");
    gauge(
        "tenure_pool_full_workers",
        "Workers of this node that have a capacity, and no room for another job.",
    );
    gauge(
        "tenure_pool_waiting_starts",
        "Jobs that this node's workers have begun and that wait for their start.",
    );
    gauge(
        "tenure_pool_waiting_moves",
        "Jobs of this node's workers that belong elsewhere and wait for their move.",
    );
    gauge("tenure_pool_move_rate", "Jobs of the whole pool that may move in a second; 0 is no limit.");
    gauge(
        "tenure_pool_move_pace",
        "Jobs that each worker of this node may hand off in a second when the ring has changed; 0 is no limit.",
    );
    gauge(
        "tenure_pool_start_pace",
        "Jobs that each worker of this node may start in a second; 0 is no limit.",
    );
    gauge("tenure_pool_workers", "Workers of this node that are members of the pool.");
    gauge("tenure_pool_open_dispatches", "Dispatches of this node that wait for what becomes of them.");
    gauge("tenure_pool_queued_jobs", "Jobs of the whole pool that have never begun, as of the last renewal.");
    gauge("tenure_pool_parked_jobs", "Jobs of the whole pool that are parked, as of this node's last sweep.");
    gauge("tenure_pool_open", "1 while the pool is open, as far as this node knows.");
    let age = "Age of the oldest lease of this node's workers.";
    metrics::describe_gauge!("tenure_pool_lease_age_seconds", Unit::Seconds, age);
}
