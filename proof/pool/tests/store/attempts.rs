//! The count of begins: across workers, and after the loss of workers.

use tenure_pool::store::{BeginReply, Reap, ReleaseMode, ReleaseReply};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, id};
use super::single::Single as _;

scenarios! {
    a_begin_counts_once_however_often_it_is_sent,
    attempts_go_with_the_job_from_worker_to_worker,
    the_loss_of_its_worker_keeps_a_jobs_attempts,
    the_loss_of_a_worker_that_had_not_begun_is_no_attempt,
    a_long_run_before_the_loss_counts_as_healthy,
    too_many_losses_park_a_job,
}

async fn attempts(lab: &Lab) -> u32 {
    lab.record("k").await.unwrap().attempts
}

async fn a_begin_counts_once_however_often_it_is_sent(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    assert_eq!(attempts(&lab).await, 0);
    for _ in 0..3 {
        assert!(matches!(lab.begin("k", worker).await, BeginReply::Begun(_)));
        assert_eq!(attempts(&lab).await, 1);
    }
}

async fn attempts_go_with_the_job_from_worker_to_worker(lab: Lab, one: WorkerId, other: WorkerId) {
    lab.run("k", "node1.g", one).await;
    lab.release("k", one, ReleaseMode::Fail).await;
    lab.run_again("k", other).await;
    assert_eq!(attempts(&lab).await, 2);
    lab.release("k", other, ReleaseMode::Refuse).await;
    assert_eq!(attempts(&lab).await, 1, "a refusal takes its own back, and no other");
    lab.run_again("k", one).await;
    lab.release("k", one, ReleaseMode::HandOff).await;
    lab.run_again("k", other).await;
    assert_eq!(attempts(&lab).await, 1, "a hand-off starts anew");
}

async fn the_loss_of_its_worker_keeps_a_jobs_attempts(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    for lost in 1..4 {
        let worker = lab.worker().await;
        let token = lab.run_again("k", worker).await;
        lab.leave(worker).await;
        let record = lab.record("k").await.unwrap();
        assert_eq!((record.state, record.owner, record.attempts), (JobState::Queued, None, lost));
        assert_eq!(record.token, token, "only an assignment changes it");
    }
}

async fn the_loss_of_a_worker_that_had_not_begun_is_no_attempt(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    lab.leave(worker).await;
    assert_eq!(attempts(&lab).await, 0);
}

async fn a_long_run_before_the_loss_counts_as_healthy(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    for _ in 0..3 {
        lab.release("k", worker, ReleaseMode::Fail).await;
        lab.run_again("k", worker).await;
    }
    lab.backend.advance(600_000).await;
    lab.leave(worker).await;
    assert_eq!(attempts(&lab).await, 1);
}

async fn too_many_losses_park_a_job(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 2, ..Settings::default() }).await;
    lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Queued);
    lab.run_again("k", worker).await;
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let reaped = lab.step(&Reap { worker, limit: 10 }).await.unwrap();
    assert_eq!(reaped.outcomes, [(id("node1.g"), "parked".to_owned())]);
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Parked);
    assert_eq!(lab.field("errors", "k").await.as_deref(), Some("worker lost"));
}
