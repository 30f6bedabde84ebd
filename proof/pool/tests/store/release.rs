//! The ways in which an owner gives jobs up, and the next state of these jobs.

use std::time::Duration;

use tenure_pool::store::{
    Cursors, DispatchReply, ReadNode, Release, ReleaseItem, ReleaseMode, ReleaseReply, Renew, ShutDown,
    ShutdownMode, StopReply,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, NEVER, key, ms, node, release, renew};

scenarios! {
    a_handed_off_job_starts_anew,
    a_job_handed_back_before_its_begin_keeps_its_attempts,
    a_job_given_back_after_its_begin_loses_that_attempt_only,
    a_refused_job_gets_its_attempt_back,
    a_refusal_before_the_begin_costs_nothing,
    a_failed_job_keeps_its_attempts,
    a_long_run_counts_as_healthy,
    too_many_failures_park_a_job,
    a_parked_jobs_error_is_kept_short,
    healthy_moves_never_park,
    a_delayed_job_waits_for_the_sweeper,
    a_batch_announces_its_jobs_in_one_event,
    only_the_owner_releases,
    a_release_may_be_repeated,
    a_stopping_job_ends_whatever_the_mode,
    a_job_that_was_to_stop_leaves_nothing_to_the_sweeper,
    a_stopping_pool_keeps_nothing,
}

const MODES: [ReleaseMode; 5] = [
    ReleaseMode::Delete,
    ReleaseMode::HandOff,
    ReleaseMode::GiveBack,
    ReleaseMode::Refuse,
    ReleaseMode::Fail,
];

async fn a_handed_off_job_starts_anew(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.release("k", worker, ReleaseMode::Refuse).await;
    lab.run_again("k", worker).await;
    lab.backend.advance(10).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.owner), (JobState::Queued, None));
    assert_eq!((record.attempts, record.strikes, record.since), (0, 0, lab.backend.now()));
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 2_000));
    assert!(lab.backend.dump().await.get("owners").is_none());
    assert_eq!(lab.starts().await[0].1, [(key("k"), 0)]);
}

async fn a_job_handed_back_before_its_begin_keeps_its_attempts(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    for mode in [ReleaseMode::HandOff, ReleaseMode::GiveBack] {
        lab.route("k", worker).await;
        assert_eq!(lab.release("k", worker, mode).await, ReleaseReply::Queued);
        assert_eq!(lab.record("k").await.unwrap().attempts, 1);
    }
}

async fn a_job_given_back_after_its_begin_loses_that_attempt_only(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 3, ..Settings::default() }).await;
    lab.run("k", "node1.g", worker).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    lab.run_again("k", worker).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    for _ in 0..3 {
        lab.run_again("k", worker).await;
        assert_eq!(lab.release("k", worker, ReleaseMode::GiveBack).await, ReleaseReply::Queued);
        let record = lab.record("k").await.unwrap();
        assert_eq!((record.attempts, record.strikes), (2, 0));
    }
    lab.run_again("k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
}

async fn a_refused_job_gets_its_attempt_back(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Refuse).await, ReleaseReply::Queued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.attempts, record.strikes), (0, 1));
    assert_eq!(lab.starts().await[0].1, [(key("k"), 1)], "the event carries the strikes");
}

async fn a_refusal_before_the_begin_costs_nothing(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    lab.route("k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Refuse).await, ReleaseReply::Queued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.attempts, record.strikes), (1, 1));
}

async fn a_failed_job_keeps_its_attempts(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    for attempts in 1..4 {
        assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Queued);
        assert_eq!(lab.record("k").await.unwrap().attempts, attempts);
        lab.run_again("k", worker).await;
    }
}

async fn a_long_run_counts_as_healthy(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    for _ in 0..3 {
        lab.release("k", worker, ReleaseMode::Fail).await;
        lab.run_again("k", worker).await;
    }
    lab.backend.advance(599_999).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 4);
    lab.run_again("k", worker).await;
    lab.backend.advance(600_000).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 1);
    lab.run_again("k", worker).await;
    lab.backend.set_clock(lab.backend.now() - 700_000).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 2, "a clock that steps back proves nothing");
}

async fn too_many_failures_park_a_job(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 2, ..Settings::default() }).await;
    lab.step(&Renew { node: Some(node("node1")), ..renew(&[worker]) }).await.unwrap();
    lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Queued);
    let token = lab.run_again("k", worker).await;
    let item = ReleaseItem {
        delay: ms(500),
        tell: Some(node("node1")),
        result: "e:boom".into(),
        ..release("k", token, ReleaseMode::Fail)
    };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Parked);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.owner), (JobState::Parked, None));
    assert_eq!((record.since, lab.score("parked", "k").await), (lab.backend.now(), Some(NEVER)));
    assert_eq!(lab.field("errors", "k").await.as_deref(), Some("e:boom"));
    assert_eq!(lab.score("queue", "k").await, None);
    assert!(lab.starts().await.is_empty());
    let told = lab
        .read(&ReadNode { node: node("node1"), cursors: Cursors::default(), max: 10, block: ms(0) })
        .await
        .unwrap();
    assert_eq!(told.outcomes.last().unwrap().1, [(record.id, "parked".to_owned())]);
    assert_eq!(lab.dispatch("k", "node1.h").await, DispatchReply::Parked);
    assert_eq!(lab.stop("k", "node1.g", None).await, StopReply::Deleted);
    let dump = lab.backend.dump().await;
    assert!(dump.get("parked").is_none() && dump.get("errors").is_none() && dump.get("jobs").is_none());
}

async fn a_parked_jobs_error_is_kept_short(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    let token = lab.run("k", "node1.g", worker).await;
    let item = ReleaseItem { result: "ü".repeat(1_000), ..release("k", token, ReleaseMode::Fail) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Parked);
    let escaped = lab.field("errors", "k").await.unwrap();
    assert_eq!(escaped, r"\xc3\xbc".repeat(512), "1,024 bytes");
}

async fn healthy_moves_never_park(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 2, ..Settings::default() }).await;
    lab.run("k", "node1.g", worker).await;
    for _ in 0..6 {
        assert_eq!(lab.release("k", worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
        lab.run_again("k", worker).await;
    }
}

async fn a_delayed_job_waits_for_the_sweeper(lab: Lab, worker: WorkerId) {
    for (name, delay, waits) in [("a", ms(700), 700), ("b", Duration::from_secs(3_600), 240_000)] {
        let token = lab.run(name, &format!("node1.{name}"), worker).await;
        let item = ReleaseItem { delay, ..release(name, token, ReleaseMode::Fail) };
        assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Queued);
        assert_eq!(lab.score("queue", name).await, Some(lab.backend.now() + waits));
    }
    assert!(lab.starts().await.is_empty());
    lab.sweep_after(700).await;
    assert_eq!(lab.starts().await[0].1, [(key("a"), 0)]);
}

async fn a_batch_announces_its_jobs_in_one_event(lab: Lab, worker: WorkerId) {
    let names = ["a", "b", "c"];
    let mut items = Vec::new();
    for name in names {
        let token = lab.run(name, &format!("node1.{name}"), worker).await;
        items.push(release(name, token, ReleaseMode::HandOff));
    }
    items[1].mode = ReleaseMode::Delete;
    let replies = lab.step(&Release { worker, finished: Vec::new(), items }).await.unwrap();
    assert_eq!(replies, [ReleaseReply::Queued, ReleaseReply::Deleted, ReleaseReply::Queued]);
    let starts: Vec<_> = lab.starts().await.into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [[(key("a"), 0), (key("c"), 0)]]);
}

async fn only_the_owner_releases(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.dispatch("queued", "node1.q").await;
    let before = lab.backend.dump().await;
    let items = vec![
        release("k", Token(token.0 + 1), ReleaseMode::Delete),
        release("k", Token(token.0 - 1), ReleaseMode::Delete),
        release("absent", token, ReleaseMode::Delete),
        release("queued", Token(0), ReleaseMode::Delete),
    ];
    let replies = lab.step(&Release { worker, finished: Vec::new(), items }).await.unwrap();
    assert_eq!(replies, [ReleaseReply::Stale; 4]);
    assert_eq!(lab.release_item(other, release("k", token, ReleaseMode::Delete)).await, ReleaseReply::Stale);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_release_may_be_repeated(lab: Lab, worker: WorkerId) {
    for (at, mode) in MODES.into_iter().enumerate() {
        let name = format!("k{at}");
        let token = lab.run(&name, &format!("node1.g{at}"), worker).await;
        let item = release(&name, token, mode);
        let replies = lab
            .step(&Release { worker, finished: Vec::new(), items: vec![item.clone(), item.clone()] })
            .await
            .unwrap();
        assert_eq!(replies[1], ReleaseReply::Stale);
        let before = lab.backend.dump().await;
        assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Stale);
        assert_eq!(lab.backend.dump().await, before);
    }
}

async fn a_stopping_job_ends_whatever_the_mode(lab: Lab, worker: WorkerId) {
    for (at, mode) in MODES.into_iter().enumerate() {
        let (name, id) = (format!("k{at}"), format!("node1.!own{at}"));
        lab.run(&name, &id, worker).await;
        assert_eq!(lab.stop(&name, &id, Some(worker)).await, StopReply::Stopping);
        assert_eq!(lab.release(&name, worker, mode).await, ReleaseReply::Deleted);
        assert_eq!(lab.lookup(&name, &id).await.outcome.as_deref(), Some("stopped"));
    }
    let dump = lab.backend.dump().await;
    for name in ["jobs", "payloads", "queue", "owners"] {
        assert!(dump.get(name).is_none(), "{name}");
    }
}

async fn a_job_that_was_to_stop_leaves_nothing_to_the_sweeper(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.g", worker).await;
    assert!(lab.score("queue", "k").await.is_some());
    assert_eq!(lab.release("k", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.score("queue", "k").await, None);
}

async fn a_stopping_pool_keeps_nothing(lab: Lab, worker: WorkerId) {
    let cases = [
        ("handed", ReleaseMode::HandOff, "", "shutdown"),
        ("back", ReleaseMode::GiveBack, "", "shutdown"),
        ("refused", ReleaseMode::Refuse, "", "shutdown"),
        ("failed", ReleaseMode::Fail, "e:boom", "shutdown"),
        ("ended", ReleaseMode::Delete, "", "ended"),
        ("broken", ReleaseMode::Delete, "e:boom", "e:boom"),
        ("stopped", ReleaseMode::HandOff, "", "stopped"),
    ];
    let mut tokens = Vec::new();
    for (name, ..) in cases {
        tokens.push(lab.run(name, &format!("node1.!{name}"), worker).await);
    }
    assert_eq!(lab.stop("stopped", "node1.!stopped", Some(worker)).await, StopReply::Stopping);
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    for ((name, mode, result, outcome), token) in cases.into_iter().zip(tokens) {
        let item = ReleaseItem { result: result.into(), ..release(name, token, mode) };
        assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
        let found = lab.lookup(name, &format!("node1.!{name}")).await;
        assert_eq!(found.outcome.as_deref(), Some(outcome), "{name}");
    }
}
