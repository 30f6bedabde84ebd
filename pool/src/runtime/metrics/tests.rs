#![allow(clippy::unwrap_used)]
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::*;
use crate::core::input::Wanted;
use crate::model::id::{JobKey, Token};
use crate::model::stop::StopReason;
use crate::model::ticket::Ticket;
use crate::model::why::Cause;
use crate::store::StoreError;

/// Counts parked jobs only.
#[derive(Default)]
struct Parked(Arc<AtomicU64>);

impl Recorder for Parked {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let wanted = key.name() == "tenure_pool_releases_total";
        let parked = wanted && key.labels().any(|label| label.value() == "parked");
        if parked { Counter::from_arc(self.0.clone()) } else { Counter::noop() }
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_job_parked_by_the_reaper_counts_as_parked() {
    let recorder = Parked::default();
    metrics::with_local_recorder(&recorder, || {
        let mut metrics = Metrics::new(&PoolName::new("p").unwrap(), &NodeName::new("n").unwrap());
        metrics.see(&Effect::Report(Notice::ParkedUnowned { id: "n.1".parse().unwrap() }));
    });
    assert_eq!(recorder.0.load(Ordering::Relaxed), 1);
}

/// The label values of a metric in the document.
fn documented(metric: &str) -> Vec<String> {
    let text = include_str!("../../../../docs/observability.md");
    let row = text.lines().find(|line| line.starts_with(&format!("| `tenure_pool_{metric}` "))).unwrap();
    let (_, values) = row.split('|').nth(4).unwrap().split_once(": ").unwrap();
    let mut values: Vec<_> = values.split(", ").map(|value| value.trim().to_owned()).collect();
    values.sort();
    values
}

/// Checks that each case gives its label, and that the labels together are those in the document.
fn agree(metric: &str, said: &[(&'static str, &'static str)]) {
    for (said, meant) in said {
        assert_eq!(said, meant, "{metric}");
    }
    let mut values: Vec<_> = said.iter().map(|(said, _)| (*said).to_owned()).collect();
    values.sort();
    values.dedup();
    assert_eq!(values, documented(metric), "{metric}");
}

#[test]
fn each_label_value_means_what_is_documented() {
    let of = |error: DispatchError| outcome(Some(&error));
    let ticket = Ticket { key: "k".try_into().unwrap(), id: "n.1".parse().unwrap() };
    agree(
        "dispatches_total",
        &[
            (outcome(None), "ok"),
            (
                of(DispatchError::JobExists { key: ticket.key.clone(), parked: false, paused: false }),
                "exists",
            ),
            (of(DispatchError::PoolFull), "full"),
            (of(DispatchError::Conflict), "conflict"),
            (of(DispatchError::StartFailed("x".into())), "start_failed"),
            (of(DispatchError::Parked), "parked"),
            (of(DispatchError::Paused), "paused"),
            (of(DispatchError::Stopped), "stopped"),
            (of(DispatchError::Ended), "ended"),
            (of(DispatchError::ShuttingDown), "shutting_down"),
            (
                of(DispatchError::Deadline {
                    ticket,
                    accepted: true,
                    obstacle: None,
                    refusal: None,
                    failure: None,
                    trouble: None,
                }),
                "deadline",
            ),
            (of(DispatchError::NodeClosed), "error"),
        ],
    );
    agree(
        "plans_total",
        &[
            (plan_outcome(&Planned::Made(Wanted::default())), "made"),
            (plan_outcome(&Planned::Failed(String::new())), "failed"),
            (plan_outcome(&Planned::Aborted), "aborted"),
        ],
    );
    agree(
        "routed_total",
        &[
            (route_outcome(RouteReply::Routed), "routed"),
            (route_outcome(RouteReply::Done), "done"),
            (route_outcome(RouteReply::Waiting), "waiting"),
            (route_outcome(RouteReply::Bad), "bad"),
        ],
    );
    agree(
        "stops_total",
        &[
            (StopReason::Stopped.name(), "stopped"),
            (StopReason::Moved.name(), "moved"),
            (StopReason::Updated.name(), "updated"),
            (StopReason::Bounced.name(), "bounced"),
            (StopReason::Parked.name(), "parked"),
            (StopReason::Paused.name(), "paused"),
            (StopReason::Draining.name(), "draining"),
            (StopReason::Shutdown.name(), "shutdown"),
            (StopReason::LeaseLost.name(), "lease_lost"),
            (StopReason::StartTimeout.name(), "start_timeout"),
            (StopReason::Stalled.name(), "stalled"),
        ],
    );
    agree(
        "unsaved_checkpoints_total",
        &[
            (NotSaved::TooLong { len: 5, max: 4 }.name(), "too_long"),
            (NotSaved::Encoding(String::new()).name(), "encoding"),
            (NotSaved::Refused(String::new()).name(), "refused"),
            (NotSaved::JobGone.name(), "gone"),
        ],
    );
    let release_for = |reply, mode, cause| {
        let key = JobKey::try_from("k").unwrap();
        let item = ReleaseItem::new(key, Token(1), mode, cause);
        released(&item, reply).unwrap_or("nothing")
    };
    let release = |reply, mode| release_for(reply, mode, Cause::Moved);
    agree(
        "releases_total",
        &[
            (release(ReleaseReply::Deleted, ReleaseMode::Delete), "ended"),
            (release(ReleaseReply::Queued, ReleaseMode::HandOff), "handed_off"),
            (release(ReleaseReply::Queued, ReleaseMode::GiveBack), "handed_off"),
            (release(ReleaseReply::Queued, ReleaseMode::Refuse), "refused"),
            (release(ReleaseReply::Queued, ReleaseMode::Elsewhere { workers: 2 }), "elsewhere"),
            (release(ReleaseReply::Queued, ReleaseMode::Fail), "failed"),
            (release(ReleaseReply::Parked, ReleaseMode::Fail), "parked"),
            (release_for(ReleaseReply::Parked, ReleaseMode::Park, Cause::Paused), "paused"),
        ],
    );
    let failed = || tenure_steps::Failure::new(std::io::Error::other("x"));
    let other = StoreError::OtherServer { run_id: String::new() };
    agree(
        "store_errors_total",
        &[
            (other.name(), "other_server"),
            (StoreError::NotExecuted(failed()).name(), "not_executed"),
            (StoreError::Unanswered(failed()).name(), "unanswered"),
            (StoreError::Damaged(failed()).name(), "damaged"),
            (StoreError::Unusable(failed()).name(), "unusable"),
        ],
    );
}
