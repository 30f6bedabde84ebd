//! Assignment of jobs to workers.

use tenure_pool::store::{
    ClaimPool, Cursors, NodeEvents, ReadNode, Refusal, ReleaseMode, Route, RouteReply, ShutDown,
    ShutdownMode, WorkerEvent,
};
use tenure_protocol::model::id::{Revision, WorkerId};
use tenure_protocol::model::record::JobState;

use super::lab::{Lab, key, ms, node};

scenarios! {
    a_routed_job_is_assigned_and_its_worker_told,
    one_call_mints_one_token,
    tokens_of_a_key_rise,
    a_job_is_assigned_once,
    without_a_worker_a_job_waits,
    a_stale_ring_assigns_nothing,
    a_closing_pool_still_routes,
    entries_are_acknowledged_whole,
}

async fn events(lab: &Lab, workers: &[tenure_protocol::model::id::WorkerId]) -> NodeEvents {
    let cursors = Cursors {
        workers: workers.iter().map(|worker| (*worker, Cursors::default().node)).collect(),
        ..Cursors::default()
    };
    lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap()
}

async fn a_routed_job_is_assigned_and_its_worker_told(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    lab.backend.advance(10).await;
    assert_eq!(lab.route("k", worker).await, RouteReply::Routed);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.owner, record.attempts), (JobState::Assigned, Some(worker), 0));
    assert_eq!(record.since, lab.backend.now() - 10);
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 5_000));
    assert_eq!(lab.queued().await, 1, "it has not begun");
    let told = events(&lab, &[worker]).await.workers;
    let start = WorkerEvent::Start { token: record.token, keys: vec![key("k")] };
    assert_eq!(told.into_iter().map(|(to, _, event)| (to, event)).collect::<Vec<_>>(), [(worker, start)]);
}

async fn one_call_mints_one_token(lab: Lab, first: WorkerId, second: WorkerId) {
    let names = ["a", "b", "c"];
    let items: Vec<_> = names.iter().map(|name| lab.item(name, &format!("node1.{name}"))).collect();
    lab.dispatch_all(&items).await;
    let jobs = vec![(key("a"), Some(first)), (key("b"), Some(second)), (key("c"), Some(first))];
    let replies = lab.step(&Route { ring: lab.revision().await, entries: Vec::new(), jobs }).await.unwrap();
    assert_eq!(replies, [RouteReply::Routed; 3]);
    let token = lab.token("a").await;
    assert_eq!((lab.token("b").await, lab.token("c").await), (token, token));
    let told: Vec<_> = events(&lab, &[first, second]).await.workers;
    let told: Vec<_> = told.into_iter().map(|(to, _, event)| (to, event)).collect();
    let start =
        |names: &[&str]| WorkerEvent::Start { token, keys: names.iter().map(|name| key(name)).collect() };
    assert_eq!(told, [(first, start(&["a", "c"])), (second, start(&["b"]))]);
}

async fn tokens_of_a_key_rise(lab: Lab, worker: WorkerId) {
    let mut last = lab.run("k", "node1.g", worker).await;
    for mode in [ReleaseMode::HandOff, ReleaseMode::Refuse, ReleaseMode::Fail] {
        lab.release("k", worker, mode).await;
        assert_eq!(lab.token("k").await, last, "only routing mints");
        let token = lab.run_again("k", worker).await;
        assert!(token > last);
        last = token;
    }
    assert!(last.0 > worker.0, "worker ids come from the same counter");
}

async fn a_job_is_assigned_once(lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    let jobs = vec![(key("k"), Some(worker)), (key("k"), Some(other))];
    let replies = lab
        .step(&Route { ring: lab.revision().await, entries: Vec::new(), jobs: jobs.clone() })
        .await
        .unwrap();
    assert_eq!(replies, [RouteReply::Routed, RouteReply::Done]);
    let before = lab.backend.dump().await;
    let replies = lab.step(&Route { ring: lab.revision().await, entries: Vec::new(), jobs }).await.unwrap();
    assert_eq!(replies, [RouteReply::Done; 2]);
    assert_eq!(lab.route_all(&["absent"], Some(worker)).await, [RouteReply::Done]);
    let starts = lab.backend.dump().await.lines().len();
    assert_eq!(before.lines().len(), starts + 1, "nothing but the start event is gone");
    assert_eq!(lab.record("k").await.unwrap().owner, Some(worker));
}

async fn without_a_worker_a_job_waits(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.route_all(&["k"], None).await, [RouteReply::Waiting]);
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 30_000));
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Queued);
}

async fn a_stale_ring_assigns_nothing(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    let entries = vec![lab.starts().await[0].0];
    let current = lab.revision().await;
    let stale = Revision(current.0 - 1);
    let jobs = vec![(key("k"), Some(worker))];
    let refusal = lab.refused(lab.step(&Route { ring: stale, entries, jobs })).await;
    assert_eq!(refusal, Refusal::StaleRing(current));
}

async fn a_closing_pool_still_routes(lab: Lab, worker: WorkerId) {
    lab.dispatch("a", "node1.a").await;
    lab.dispatch("b", "node1.b").await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::Closing(ms(9_000)) }).await.unwrap();
    lab.run_again("a", worker).await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    let (inc, revision) = (lab.inc, lab.revision().await);
    let refusal = lab
        .refused(
            lab.store().run(
                inc,
                &Route { ring: revision, entries: Vec::new(), jobs: vec![(key("b"), Some(worker))] },
            ),
        )
        .await;
    assert_eq!(refusal, Refusal::ShuttingDown);
}

async fn entries_are_acknowledged_whole(lab: Lab, worker: WorkerId) {
    lab.dispatch("a", "node1.a").await;
    lab.dispatch("b", "node1.b").await;
    let entries: Vec<_> = lab.starts().await.into_iter().map(|(entry, _)| entry).collect();
    assert_eq!(lab.field("starts.routers", "router").await.as_deref(), Some("2"));
    let jobs = vec![(key("a"), Some(worker))];
    lab.step(&Route { ring: lab.revision().await, entries: entries[..1].to_vec(), jobs }).await.unwrap();
    assert_eq!(lab.field("starts.routers", "router").await.as_deref(), Some("1"));
    let left =
        lab.read(&ClaimPool { consumer: node("heir"), min_idle: ms(0), max: 10 }).await.unwrap().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].entry, &left[0].jobs), (entries[1], &vec![(key("b"), 0)]));
}
