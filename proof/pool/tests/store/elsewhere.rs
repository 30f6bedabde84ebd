//! Jobs that their worker sends elsewhere: the next worker of the chain, and the pauses once all have been asked.

use tenure_pool::store::{ReleaseMode, ReleaseReply, RouteReply, Sweep};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, key};

scenarios! {
    elsewhere_is_the_next_worker,
    what_was_begun_goes_elsewhere_without_an_attempt,
    elsewhere_drops_the_refusals_of_the_present_worker,
    who_was_sent_on_by_all_pauses,
    a_long_chain_is_asked_eight_at_a_time,
    the_chain_begins_anew_when_the_strikes_run_out,
    a_kick_begins_the_chain_anew,
}

const fn elsewhere(workers: u32) -> ReleaseMode {
    ReleaseMode::Elsewhere { workers }
}

async fn elsewhere_is_the_next_worker(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    lab.starts().await;
    assert_eq!(lab.release("k", worker, elsewhere(2)).await, ReleaseReply::Queued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.owner), (JobState::Queued, None));
    assert_eq!((record.attempts, record.strikes, lab.queued().await), (0, 3, 1));
    assert_eq!(lab.starts().await[0].1, [(key("k"), 3)], "at once");
    assert_eq!(lab.release("k", worker, elsewhere(2)).await, ReleaseReply::Stale, "a late copy does nothing");
}

async fn what_was_begun_goes_elsewhere_without_an_attempt(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    lab.run_again("k", worker).await;
    assert_eq!(lab.release("k", worker, elsewhere(2)).await, ReleaseReply::Queued);
    lab.route("k", worker).await;
    assert_eq!(lab.release("k", worker, elsewhere(2)).await, ReleaseReply::Queued);
    assert_eq!(lab.record("k").await.unwrap().attempts, 1, "begun once, and failed");
}

async fn elsewhere_drops_the_refusals_of_the_present_worker(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    for _ in 0..4 {
        lab.release("k", worker, ReleaseMode::Refuse).await;
        lab.run_again("k", worker).await;
    }
    lab.release("k", worker, elsewhere(9)).await;
    assert_eq!(lab.record("k").await.unwrap().strikes, 6, "the refusals were 4 of 3 a worker");
}

/// The pauses after each of this many releases, s; 0 for none.
async fn pauses(lab: &Lab, workers: u32, releases: usize) -> Vec<u64> {
    let worker = lab.worker().await;
    lab.dispatch("k", "node1.g").await;
    let mut pauses = Vec::new();
    for _ in 0..releases {
        assert_eq!(lab.route("k", worker).await, RouteReply::Routed);
        lab.starts().await;
        assert_eq!(lab.release("k", worker, elsewhere(workers)).await, ReleaseReply::Queued);
        let waits = (lab.score("queue", "k").await.unwrap() - lab.backend.now()).div_ceil(1_000);
        let announced = !lab.starts().await.is_empty();
        pauses.push(if announced { 0 } else { waits });
    }
    pauses
}

async fn who_was_sent_on_by_all_pauses(kind: Kind) {
    let lab = Lab::new(kind).await;
    assert_eq!(pauses(&lab, 2, 14).await, [0, 1, 0, 2, 0, 4, 0, 8, 0, 16, 0, 30, 0, 30]);
    for workers in [0, 1] {
        let lab = Lab::new(kind).await;
        assert_eq!(pauses(&lab, workers, 3).await, [1, 2, 4], "nobody else is up");
    }
}

async fn a_long_chain_is_asked_eight_at_a_time(kind: Kind) {
    let lab = Lab::with(kind, Settings { strikes: 1, ..Settings::default() }).await;
    let pauses = pauses(&lab, 20, 36).await;
    let paused: Vec<_> = pauses.iter().enumerate().filter(|(_, pause)| **pause > 0).collect();
    assert_eq!(paused, [(19, &1), (27, &2), (35, &4)]);
}

async fn the_chain_begins_anew_when_the_strikes_run_out(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { strikes: 1_000_000, ..Settings::default() }).await;
    lab.dispatch("k", "node1.g").await;
    let record = lab.record("k").await.unwrap().to_string();
    let record = record.strip_suffix("|0|").unwrap().to_owned() + "|4294000000|";
    lab.backend.write_record(&key("k"), record.as_bytes()).await;
    lab.route("k", worker).await;
    assert_eq!(lab.release("k", worker, elsewhere(9_999)).await, ReleaseReply::Queued);
    assert_eq!(lab.record("k").await.unwrap().strikes, 0);
}

async fn a_kick_begins_the_chain_anew(lab: Lab) {
    let pauses = pauses(&lab, 1, 6).await;
    assert_eq!(pauses[5], 30);
    let swept = lab.step(&Sweep { limit: 10, kick: Some(0) }).await.unwrap();
    assert_eq!(swept.count, 1);
    assert_eq!(lab.record("k").await.unwrap().strikes, 0);
    assert_eq!(lab.starts().await[0].1, [(key("k"), 0)]);
}
