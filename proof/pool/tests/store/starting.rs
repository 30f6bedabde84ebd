//! Notifications that start their jobs: kept with a job that is there, or accepted together with a new one.

use bytes::Bytes;
use tenure_pool::store::{
    Cursors, DispatchItem, DispatchReply, NotifyOrStart, NotifyOrStartItem, NotifyOrStartReply, ReadNode,
    ReadPayload, ReleaseMode, ReleaseReply, ShutDown, ShutdownMode, WorkerEvent,
};
use tenure_protocol::model::id::{Revision, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, key, ms, node};

scenarios! {
    a_job_that_is_not_there_is_accepted_with_its_first,
    a_started_job_with_a_worker_is_assigned_at_once,
    a_started_job_of_another_ring_is_left_to_the_routers,
    a_job_that_is_there_is_notified_and_not_started,
    a_wrong_guess_neither_keeps_nor_starts,
    a_start_sent_again_starts_and_keeps_once,
    a_start_sent_again_after_the_end_starts_nothing,
    a_stopping_job_is_neither_notified_nor_started,
    a_parked_job_keeps_what_would_start_it,
    no_job_is_started_without_its_notification,
    the_bounds_hold_for_started_jobs,
    a_start_comes_in_its_time_or_not_at_all,
    a_closing_pool_starts_nothing_and_notifies,
    phase_r_notifies_what_is_there_and_starts_nothing,
    several_for_one_key_start_it_once,
    a_start_with_a_bad_argument_is_refused,
}

use NotifyOrStartReply::{
    Accepted, Bad, Ended, Full, Kept, Late, Owner, PoolFull, Recovering, ShuttingDown, Stopping,
};

fn item(lab: &Lab, name: &str, id: &str, guess: Option<WorkerId>, body: &str) -> NotifyOrStartItem {
    let body = Bytes::copy_from_slice(body.as_bytes());
    NotifyOrStartItem { start: lab.item(name, id), guess, body }
}

async fn send(lab: &Lab, items: &[NotifyOrStartItem]) -> Vec<NotifyOrStartReply> {
    lab.step(&NotifyOrStart { ring: lab.revision().await, items: items.to_vec() }).await.unwrap()
}

async fn send_one(lab: &Lab, item: NotifyOrStartItem) -> NotifyOrStartReply {
    send(lab, &[item]).await[0]
}

/// Sends what must change nothing.
async fn changes_nothing(lab: &Lab, item: NotifyOrStartItem) -> NotifyOrStartReply {
    let before = lab.backend.dump().await;
    let reply = send_one(lab, item).await;
    assert_eq!(lab.backend.dump().await, before, "{reply:?}");
    reply
}

/// The notifications that the worker takes under its token.
async fn taken(lab: &Lab, name: &str, worker: WorkerId) -> Vec<String> {
    let token = lab.token(name).await;
    let taken = lab.take(name, worker, token, 0).await.unwrap();
    taken.bodies.iter().map(|body| String::from_utf8(body.to_vec()).unwrap()).collect()
}

async fn told(lab: &Lab, worker: WorkerId) -> Vec<WorkerEvent> {
    let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
    let events =
        lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap().workers;
    events.into_iter().map(|(_, _, event)| event).collect()
}

async fn a_job_that_is_not_there_is_accepted_with_its_first(lab: Lab) {
    assert_eq!(send_one(&lab, item(&lab, "k", "node1.a", None, "one")).await, Accepted);
    let (record, now) = (lab.record("k").await.unwrap(), lab.backend.now());
    assert_eq!((record.state, record.owner, record.created), (JobState::Queued, None, now));
    assert_eq!(lab.score("queue", "k").await, Some(now + 2_000));
    assert_eq!(lab.read(&ReadPayload { key: key("k") }).await.unwrap(), Some("payload".into()));
    assert_eq!(lab.queued().await, 1);
    let worker = lab.worker().await;
    lab.run_again("k", worker).await;
    assert_eq!(taken(&lab, "k", worker).await, ["one"]);
    assert_eq!(lab.queued().await, 0);
}

async fn a_started_job_with_a_worker_is_assigned_at_once(lab: Lab, worker: WorkerId) {
    let mut item = item(&lab, "k", "node1.a", Some(worker), "one");
    item.start.worker = Some(worker);
    assert_eq!(send_one(&lab, item).await, Accepted);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.owner), (JobState::Assigned, Some(worker)));
    assert!(lab.starts().await.is_empty(), "no router is asked");
    let start = WorkerEvent::Start { token: record.token, keys: vec![key("k")] };
    assert_eq!(told(&lab, worker).await, [start], "begin says that a notification waits");
    lab.run_assigned("k", worker).await;
    assert_eq!(taken(&lab, "k", worker).await, ["one"]);
}

async fn a_started_job_of_another_ring_is_left_to_the_routers(lab: Lab, worker: WorkerId) {
    let mut item = item(&lab, "k", "node1.a", None, "one");
    item.start.worker = Some(worker);
    let before = Revision(lab.revision().await.0 - 1);
    assert_eq!(lab.step(&NotifyOrStart { ring: before, items: vec![item] }).await.unwrap(), [Accepted]);
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Queued);
    assert_eq!(lab.starts().await.len(), 1);
    assert!(told(&lab, worker).await.is_empty());
}

async fn a_job_that_is_there_is_notified_and_not_started(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    let before = lab.record("k").await;
    for (id, body) in [("node1.a", "one"), ("node1.b", "two")] {
        assert_eq!(send_one(&lab, item(&lab, "k", id, Some(worker), body)).await, Kept);
    }
    assert_eq!(lab.record("k").await, before);
    let wakes = |event: &WorkerEvent| *event == WorkerEvent::Notify { jobs: vec![(key("k"), token)] };
    assert_eq!(told(&lab, worker).await.iter().filter(|event| wakes(event)).count(), 1);
    assert_eq!(taken(&lab, "k", worker).await, ["one", "two"]);
    assert_eq!(lab.queued().await, 0);
}

async fn a_wrong_guess_neither_keeps_nor_starts(lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    for guess in [None, Some(other)] {
        let mut item = item(&lab, "k", "node1.a", guess, "one");
        item.start.worker = Some(worker);
        assert_eq!(changes_nothing(&lab, item).await, Owner(Some(worker)));
    }
}

async fn a_start_sent_again_starts_and_keeps_once(lab: Lab, worker: WorkerId) {
    let first = item(&lab, "k", "node1.a", None, "one");
    assert_eq!(send_one(&lab, first.clone()).await, Accepted);
    assert_eq!(changes_nothing(&lab, first.clone()).await, Accepted);
    lab.run_again("k", worker).await;
    assert_eq!(changes_nothing(&lab, first.clone()).await, Accepted);
    assert_eq!(taken(&lab, "k", worker).await, ["one"]);
    lab.stop("k", "node1.a", Some(worker)).await;
    assert_eq!(changes_nothing(&lab, first).await, Accepted, "it stops, and was started with this");
}

async fn a_start_sent_again_after_the_end_starts_nothing(lab: Lab, worker: WorkerId) {
    let first = item(&lab, "k", "node1.a", None, "one");
    assert_eq!(send_one(&lab, first.clone()).await, Accepted);
    lab.run_again("k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(changes_nothing(&lab, first).await, Ended);
    assert_eq!(send_one(&lab, item(&lab, "k", "node1.b", None, "two")).await, Accepted, "another start");
}

async fn a_stopping_job_is_neither_notified_nor_started(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.k", worker).await;
    assert_eq!(changes_nothing(&lab, item(&lab, "k", "node1.a", Some(worker), "one")).await, Stopping);
}

async fn a_parked_job_keeps_what_would_start_it(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Park).await, ReleaseReply::Parked);
    assert_eq!(send_one(&lab, item(&lab, "k", "node1.a", None, "one")).await, Kept);
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Parked);
}

async fn no_job_is_started_without_its_notification(kind: Kind) {
    let lab = Lab::with(kind, Settings { notify_cap: 2, notify_bytes: 10, ..Settings::default() }).await;
    assert_eq!(changes_nothing(&lab, item(&lab, "k", "node1.a", None, "12345678901")).await, Full);
    let one = |id, body| item(&lab, "k", id, None, body);
    let items = [one("node1.a", "1"), one("node1.b", "2"), one("node1.c", "3")];
    assert_eq!(send(&lab, &items).await, [Accepted, Kept, Full]);
}

async fn the_bounds_hold_for_started_jobs(kind: Kind) {
    let lab = Lab::with(kind, Settings { max_queued: 2, ..Settings::default() }).await;
    let items = ["a", "b", "c"].map(|name| item(&lab, name, &format!("node1.{name}"), None, name));
    assert_eq!(send(&lab, &items).await, [Accepted, Accepted, PoolFull]);
    assert_eq!(lab.queued().await, 2);
    assert_eq!(changes_nothing(&lab, items[2].clone()).await, PoolFull);
    assert_eq!(send_one(&lab, item(&lab, "a", "node1.d", None, "more")).await, Kept, "it is there");
}

async fn a_start_comes_in_its_time_or_not_at_all(lab: Lab) {
    let latest = lab.settings.max_dispatch_deadline.as_millis() as u64;
    let at = |not_after| {
        let item = item(&lab, "k", "node1.a", None, "one");
        NotifyOrStartItem { start: DispatchItem { not_after, ..item.start }, ..item }
    };
    let now = lab.backend.now();
    for not_after in [now - 1, now + latest + 1] {
        assert_eq!(changes_nothing(&lab, at(not_after)).await, Late);
    }
    assert_eq!(send_one(&lab, at(now + latest)).await, Accepted);
}

async fn a_closing_pool_starts_nothing_and_notifies(lab: Lab) {
    lab.dispatch("there", "node1.g").await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::Closing(ms(9_000)) }).await.unwrap();
    assert_eq!(changes_nothing(&lab, item(&lab, "new", "node1.n", None, "one")).await, ShuttingDown);
    assert_eq!(send_one(&lab, item(&lab, "there", "node1.t", None, "one")).await, Kept);
}

async fn phase_r_notifies_what_is_there_and_starts_nothing(mut lab: Lab) {
    assert_eq!(lab.dispatch("there", "node1.g").await, DispatchReply::Accepted);
    lab.recover().await;
    assert_eq!(changes_nothing(&lab, item(&lab, "new", "node1.n", None, "one")).await, Recovering);
    assert_eq!(send_one(&lab, item(&lab, "there", "node1.t", None, "one")).await, Kept);
}

async fn several_for_one_key_start_it_once(lab: Lab, worker: WorkerId) {
    let mut items = ["a", "b", "c"].map(|id| item(&lab, "k", &format!("node1.{id}"), None, id));
    items[0].start.worker = Some(worker);
    items[2].start = items[0].start.clone();
    assert_eq!(send(&lab, &items).await, [Accepted, Kept, Accepted]);
    assert_eq!(lab.queued().await, 1);
    lab.run_assigned("k", worker).await;
    assert_eq!(taken(&lab, "k", worker).await, ["a", "b"]);
}

async fn a_start_with_a_bad_argument_is_refused(kind: Kind) {
    let lab = Lab::with(kind, Settings { payload_max: 10, ..Settings::default() }).await;
    assert_eq!(changes_nothing(&lab, item(&lab, "k", "node1.!own", None, "one")).await, Bad);
    let mut long = item(&lab, "k", "node1.a", None, "one");
    long.start.payload = "12345678901".into();
    assert_eq!(changes_nothing(&lab, long).await, Bad);
}
