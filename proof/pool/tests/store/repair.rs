//! The sweeper's step.

use tenure_pool::store::{
    ReleaseMode, ReleaseReply, Route, RouteReply, ShutDown, ShutdownMode, StopReply, Sweep,
};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, id, key, ms, node};
use super::single::Single as _;

scenarios! {
    a_lost_start_event_is_sent_again,
    an_assignment_that_nobody_began_is_taken_back,
    an_assignment_of_a_worn_job_parks_it,
    a_limit_is_kept,
    it_says_when_the_next_job_is_due,
    a_clock_that_stepped_back_is_made_good,
    a_kick_starts_what_waits_for_a_worker,
    a_kick_is_not_spent_on_assigned_jobs,
    a_kick_with_long_settings_finds_nothing,
    a_full_stream_is_left_alone,
    a_stopping_pool_is_not_repaired,
    it_forgets_at_most_512_at_once_and_says_if_more_may_follow,
}

async fn a_lost_start_event_is_sent_again(lab: Lab) {
    lab.dispatch("a", "node1.a").await;
    lab.dispatch("b", "node1.b").await;
    lab.starts().await;
    lab.backend.advance(1_999).await;
    assert_eq!(lab.sweep().await.count, 0);
    lab.backend.advance(1).await;
    assert_eq!(lab.sweep().await.count, 2);
    assert_eq!(lab.score("queue", "a").await, Some(lab.backend.now() + 2_000));
    let jobs: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(jobs, [(key("a"), 0), (key("b"), 0)]);
    assert_eq!(lab.sweep().await.count, 0);
}

async fn an_assignment_that_nobody_began_is_taken_back(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    let token = lab.token("k").await;
    lab.backend.advance(5_000).await;
    assert_eq!(lab.sweep().await.count, 1);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.owner, record.token), (JobState::Queued, None, token));
    assert_eq!((record.strikes, record.attempts, record.since), (1, 0, lab.backend.now()));
    assert!(lab.backend.dump().await.get("owners").is_none());
    assert_eq!(lab.starts().await[0].1, [(key("k"), 1)]);
    let begun = lab.store().begin_one(lab.inc, worker, &[], &[(key("k"), token)]).await.unwrap();
    assert_eq!(begun, [tenure_pool::store::BeginReply::Refused]);
}

async fn an_assignment_of_a_worn_job_parks_it(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 2, ..Settings::default() }).await;
    lab.run("k", "node1.g", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Queued);
    lab.route("k", worker).await;
    let worn = lab.record("k").await.unwrap().to_string().replacen("|1|1|", "|2|1|", 1);
    lab.backend.write_record(&key("k"), worn.as_bytes()).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 2);
    let swept = lab.sweep_after(5_000).await;
    assert_eq!(swept.outcomes, [(id("node1.g"), "parked".to_owned())]);
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Parked);
    assert_eq!(lab.field("errors", "k").await.as_deref(), Some("not begun in time"));
    assert_eq!((swept.next_due, lab.score("queue", "k").await), (None, None));
}

async fn a_limit_is_kept(lab: Lab) {
    for name in ["a", "b", "c", "d", "e"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    lab.backend.advance(2_000).await;
    for count in [2, 2, 1, 0] {
        assert_eq!(lab.step(&Sweep { limit: 2, kick: None }).await.unwrap().count, count);
    }
}

async fn it_says_when_the_next_job_is_due(lab: Lab) {
    let swept = lab.sweep().await;
    assert_eq!((swept.next_due, swept.next_in), (None, None));
    lab.dispatch("k", "node1.g").await;
    let swept = lab.sweep_after(500).await;
    assert_eq!((swept.next_due, swept.next_in), (Some(lab.backend.now() + 1_500), Some(ms(1_500))));
}

async fn a_clock_that_stepped_back_is_made_good(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    lab.backend.set_clock(lab.backend.now() - 298_000).await;
    assert_eq!(lab.sweep().await.count, 0, "five minutes are believed");
    lab.backend.set_clock(lab.backend.now() - 1).await;
    assert_eq!(lab.sweep().await.count, 1);
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 2_000));
}

async fn a_kick_starts_what_waits_for_a_worker(lab: Lab) {
    for name in ["waiting", "assigned", "fresh"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    assert_eq!(lab.route_all(&["waiting"], None).await, [RouteReply::Waiting]);
    let worker = lab.worker().await;
    lab.route("assigned", worker).await;
    assert_eq!(lab.sweep().await.count, 0);
    let swept = lab.step(&Sweep { limit: 10, kick: Some(0) }).await.unwrap();
    assert_eq!(swept.count, 1, "it passes over the assigned one");
    let jobs: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(jobs, [(key("waiting"), 0)]);
    assert_eq!(lab.record("assigned").await.unwrap().state, JobState::Assigned);
    assert_eq!(lab.score("queue", "waiting").await, Some(lab.backend.now() + 2_000));
}

async fn a_kick_is_not_spent_on_assigned_jobs(lab: Lab) {
    for name in ["a", "b", "waiting"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    assert_eq!(lab.route_all(&["waiting"], None).await, [RouteReply::Waiting]);
    let worker = lab.worker().await;
    lab.route_all(&["a", "b"], Some(worker)).await;
    lab.starts().await;
    assert_eq!(lab.step(&Sweep { limit: 1, kick: Some(0) }).await.unwrap().count, 1);
    let jobs: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(jobs, [(key("waiting"), 0)], "those that are on their way use up no limit");
}

async fn a_kick_with_long_settings_finds_nothing(kind: Kind) {
    let settings = Settings { assign_timeout: ms(40_000), ..Settings::default() };
    let lab = Lab::with(kind, settings).await;
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.route_all(&["k"], None).await, [RouteReply::Waiting]);
    assert_eq!(lab.step(&Sweep { limit: 10, kick: Some(0) }).await.unwrap().count, 0);
}

async fn a_full_stream_is_left_alone(lab: Lab) {
    for at in 0..4_097 {
        lab.dispatch(&format!("k{at}"), &format!("node1.g{at}")).await;
    }
    let worker = lab.worker().await;
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let swept = lab.sweep_after(2_000).await;
    assert_eq!((swept.backlog, swept.count, swept.dead), (true, 0, vec![worker]));
    let entries = vec![lab.starts().await[0].0];
    lab.step(&Route { ring: lab.revision().await, entries, jobs: Vec::new() }).await.unwrap();
    let swept = lab.sweep().await;
    assert_eq!((swept.backlog, swept.count), (false, 10));
}

async fn a_stopping_pool_is_not_repaired(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    lab.backend.advance(2_000).await;
    let before = lab.backend.dump().await;
    let swept = lab.step(&Sweep { limit: 10, kick: Some(0) }).await.unwrap();
    assert_eq!((swept.count, swept.next_due, swept.dead), (0, None, vec![worker]));
    assert_eq!(lab.backend.dump().await, before);
}

async fn it_forgets_at_most_512_at_once_and_says_if_more_may_follow(lab: Lab) {
    for chunk in 0..6 {
        let ids: Vec<_> =
            (0..100).map(|at| (format!("k{chunk}-{at}"), format!("node1.g{chunk}-{at}"))).collect();
        let items: Vec<_> = ids.iter().map(|(name, id)| lab.item(name, id)).collect();
        lab.dispatch_all(&items).await;
        let items: Vec<_> = ids.iter().map(|(name, id)| super::lab::stop(name, id, None)).collect();
        assert_eq!(lab.stop_all(&items).await, vec![StopReply::Deleted; 100]);
    }
    let remembered = async || match lab.backend.dump().await.get("ended") {
        Some(tenure_pool::store::Content::Scores(members)) => members.len(),
        _ => 0,
    };
    lab.backend.advance(30_000).await;
    for (left, forgets_more) in [(600, true), (88, false), (0, false)] {
        assert_eq!(remembered().await, left);
        let swept = lab.sweep().await;
        assert_eq!(swept.forgets_more, forgets_more);
    }
}
