//! Jobs that are granted: their records say that a worker runs them before the worker has asked.

use bytes::Bytes;
use tenure_pool::store::{
    Attend, BeginReply, BegunJob, Cursors, Dispatch, DispatchItem, DispatchReply, Granted, GrantedJob,
    NotifyOrStart, NotifyOrStartItem, NotifyOrStartReply, NotifyReply, Placing, ReadNode, ReadPayload, Reap,
    ReleaseMode, ReleaseReply, Route, RouteReply, Save, SaveItem, SaveReply, ShutDown, ShutdownMode,
    SteerReply, StopReply, Way, WorkerEvent,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::model::settings::{Settings, ShutdownFlag};

use super::lab::{Kind, Lab, id, key, ms, node, release};
use super::single::Single as _;

scenarios! {
    a_granted_job_is_its_workers_at_once,
    a_long_payload_is_assigned,
    a_grant_has_a_bound_of_bytes,
    a_grant_comes_before_what_is_assigned_with_it,
    the_news_say_whether_somebody_waits,
    nothing_is_granted_over_a_former_jobs_checkpoint,
    a_routed_job_is_granted,
    a_moved_job_is_granted_with_all_that_is_left,
    what_failed_or_was_lost_or_is_long_is_assigned,
    a_router_grants_nothing_over_a_former_jobs_checkpoint,
    a_damaged_stream_keeps_no_grant_from_another_worker,
    a_job_started_by_a_notification_is_granted,
    a_worker_that_does_not_attest_has_tried_its_grants,
    a_begin_confirms_a_grant_and_is_answered_as_a_first,
    a_start_confirms_a_grant,
    a_checkpoint_confirms_a_grant_and_outlives_the_begin,
    a_stop_confirms_a_grant_and_asks_the_owner,
    a_lost_worker_has_tried_what_it_was_granted,
    a_granted_job_that_is_given_back_has_not_begun,
    a_granted_job_that_ends_has_begun,
    a_granted_job_whose_news_are_lost_is_assigned_once_more,
    a_granted_job_holds_a_closing_pool_open,
}

const GRANTS: u64 = 16;

/// A pool that grants short payloads, and a worker in its ring.
async fn granting(kind: Kind) -> (Lab, WorkerId) {
    let lab = Lab::that_grants(kind, Settings { grant_max: GRANTS, ..Settings::default() }).await;
    let worker = lab.worker().await;
    (lab, worker)
}

fn placed(lab: &Lab, name: &str, worker: WorkerId, payload: &[u8]) -> DispatchItem {
    let payload = Bytes::copy_from_slice(payload);
    DispatchItem { worker: Some(worker), payload, ..lab.item(name, &format!("node1.{name}")) }
}

async fn dispatch(lab: &Lab, items: Vec<DispatchItem>) {
    let many = items.len();
    let by = Placing::Ring(lab.revision().await);
    assert_eq!(lab.step(&Dispatch { by, items }).await.unwrap(), vec![DispatchReply::Accepted; many]);
}

/// A granted job, and its token.
async fn granted(lab: &Lab, name: &str, worker: WorkerId) -> Token {
    dispatch(lab, vec![placed(lab, name, worker, b"payload")]).await;
    let record = lab.record(name).await.unwrap();
    assert_eq!((record.state, record.begun), (JobState::Running, Begun::Never));
    record.token
}

async fn events(lab: &Lab, worker: WorkerId) -> Vec<WorkerEvent> {
    let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
    let events = lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap();
    events.workers.into_iter().map(|(.., event)| event).collect()
}

/// The record, and how many jobs have never begun.
async fn after(lab: &Lab, name: &str) -> (Record, u64) {
    (lab.record(name).await.unwrap(), lab.queued().await)
}

async fn a_granted_job_is_its_workers_at_once(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let items = [b"a", b"b"].map(|name| placed(&lab, std::str::from_utf8(name).unwrap(), worker, name));
    dispatch(&lab, items.to_vec()).await;
    let (record, queued) = after(&lab, "a").await;
    let now = lab.backend.now();
    assert_eq!((record.state, record.owner), (JobState::Running, Some(worker)));
    assert_eq!((record.attempts, record.begun, record.since), (1, Begun::Never, now));
    assert_eq!((lab.score("queue", "a").await, queued), (None, 2), "nobody has begun it");
    let mut jobs = Vec::new();
    for name in ["a", "b"] {
        let record = lab.record(name).await.unwrap();
        let job = BegunJob { record, waiting: false, payload: Bytes::from(name), checkpoint: None };
        jobs.push(GrantedJob { key: key(name), awaited: true, job });
    }
    let granted = Granted { token: record.token, incarnation: lab.inc, jobs };
    assert_eq!(events(&lab, worker).await, [WorkerEvent::Grant(granted)]);
    dispatch(&lab, vec![placed(&lab, "c", worker, b"c")]).await;
    assert!(lab.token("c").await > record.token, "each call has a token of its own");
}

async fn a_long_payload_is_assigned(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    dispatch(&lab, vec![placed(&lab, "fits", worker, &[b'x'; GRANTS as usize])]).await;
    dispatch(&lab, vec![placed(&lab, "long", worker, &[b'x'; GRANTS as usize + 1])]).await;
    assert_eq!(lab.record("fits").await.unwrap().state, JobState::Running);
    assert_eq!(lab.record("long").await.unwrap().state, JobState::Assigned);
    let routed =
        DispatchItem { worker: None, ..placed(&lab, "routed", worker, &[b'x'; GRANTS as usize + 1]) };
    lab.dispatch_all(&[routed]).await;
    assert_eq!(lab.route("routed", worker).await, RouteReply::Routed);
    assert_eq!(lab.record("routed").await.unwrap().state, JobState::Assigned);
}

async fn a_grant_has_a_bound_of_bytes(kind: Kind) {
    let lab = Lab::that_grants(kind, Settings { grant_max: 16 << 10, ..Settings::default() }).await;
    let worker = lab.worker().await;
    let items = (0..5).map(|n| placed(&lab, &format!("k{n}"), worker, &[b'x'; 16 << 10]));
    dispatch(&lab, items.collect()).await;
    assert_eq!(lab.record("k3").await.unwrap().state, JobState::Running);
    assert_eq!(lab.record("k4").await.unwrap().state, JobState::Assigned, "64 KiB are in the grant");
}

async fn a_grant_comes_before_what_is_assigned_with_it(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let long = placed(&lab, "long", worker, &[b'x'; GRANTS as usize + 1]);
    dispatch(&lab, vec![long, placed(&lab, "short", worker, b"x")]).await;
    let events = events(&lab, worker).await;
    assert!(matches!(&events[..], [WorkerEvent::Grant(_), WorkerEvent::Start { .. }]), "{events:?}");
    assert_eq!(lab.score("queue", "short").await, None);
    assert_eq!(lab.score("queue", "long").await, Some(lab.backend.now() + 5_000));
}

/// The jobs that the worker was granted last.
async fn last_granted(lab: &Lab, worker: WorkerId) -> Vec<GrantedJob> {
    match events(lab, worker).await.pop() {
        Some(WorkerEvent::Grant(granted)) => granted.jobs,
        other => panic!("{other:?}"),
    }
}

async fn the_news_say_whether_somebody_waits(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let submitted = DispatchItem { awaited: false, ..placed(&lab, "a", worker, b"x") };
    dispatch(&lab, vec![submitted, placed(&lab, "b", worker, b"x")]).await;
    let jobs = last_granted(&lab, worker).await;
    assert_eq!(jobs.iter().map(|of| of.awaited).collect::<Vec<_>>(), [false, true]);
}

/// Keeps a checkpoint of a running job.
async fn save(lab: &Lab, name: &str, worker: WorkerId, bytes: &'static [u8]) {
    let token = lab.token(name).await;
    let item = SaveItem { key: key(name), token, given: token, number: 1, bytes: Bytes::from_static(bytes) };
    assert_eq!(lab.step(&Save { worker, items: vec![item] }).await.unwrap(), [SaveReply::Kept]);
}

async fn nothing_is_granted_over_a_former_jobs_checkpoint(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    lab.run("a", "node1.former", worker).await;
    save(&lab, "a", worker, b"state").await;
    lab.backend.write_header(&key("b"), "1|2|0").await;
    lab.backend.lose("jobs").await;
    let items = ["a", "b", "c"].map(|name| placed(&lab, name, worker, b"x"));
    dispatch(&lab, items.to_vec()).await;
    assert_eq!(lab.record("a").await.unwrap().state, JobState::Assigned);
    let jobs = events(&lab, worker).await.into_iter().find_map(|event| match event {
        WorkerEvent::Grant(granted) if granted.jobs.len() == 2 => Some(granted.jobs),
        _ => None,
    });
    let waiting: Vec<_> = jobs.unwrap().iter().map(|of| (of.key.clone(), of.job.waiting)).collect();
    assert_eq!(waiting, [(key("b"), true), (key("c"), false)], "the news say that notifications wait");
}

async fn a_routed_job_is_granted(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    lab.assign("k", "node1.k", worker).await;
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.state, record.owner), (JobState::Running, Some(worker)));
    assert_eq!((record.attempts, record.begun, record.since), (1, Begun::Never, lab.backend.now()));
    assert_eq!((lab.score("queue", "k").await, queued), (None, 1), "nobody has begun it");
    let granted = last_granted(&lab, worker).await;
    let Some(GrantedJob { awaited: true, job, .. }) = granted.first() else { panic!("{granted:?}") };
    assert_eq!(lab.read(&ReadPayload { key: key("k") }).await.unwrap(), Some(job.payload.clone()));
    assert_eq!((&job.record, job.waiting, &job.checkpoint), (&record, false, &None));
    assert!(lab.started("k", worker).await);
    assert_eq!(lab.queued().await, 0);
}

async fn a_moved_job_is_granted_with_all_that_is_left(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    lab.run("k", "node1.k", worker).await;
    assert!(lab.started("k", worker).await);
    save(&lab, "k", worker, b"state").await;
    assert_eq!(lab.notify("k", Some(worker), "news").await, NotifyReply::Kept);
    assert_eq!(lab.release("k", worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    let next = lab.worker().await;
    assert_eq!(lab.route("k", next).await, RouteReply::Routed);
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.state, record.owner, record.attempts), (JobState::Running, Some(next), 1));
    assert_eq!((record.begun, queued, lab.score("queue", "k").await), (Begun::Started, 0, None));
    let granted = last_granted(&lab, next).await;
    let BeginReply::Begun(answer) = lab.begin("k", next).await else { panic!("it is the worker's") };
    assert_eq!(granted, [GrantedJob { key: key("k"), awaited: true, job: answer.clone() }]);
    assert_eq!((answer.waiting, answer.record), (true, record), "a begin changes nothing");
    assert_eq!(answer.checkpoint.map(|kept| kept.bytes), Some(Bytes::from_static(b"state")));
}

async fn what_failed_or_was_lost_or_is_long_is_assigned(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    lab.run("failed", "node1.f", worker).await;
    assert_eq!(lab.release("failed", worker, ReleaseMode::Fail).await, ReleaseReply::Queued);
    for (name, bytes) in [("saved", &[b'x'; GRANTS as usize][..]), ("few", b"x")] {
        lab.run(name, &format!("node1.{name}"), worker).await;
        let token = lab.token(name).await;
        let bytes = Bytes::copy_from_slice(bytes);
        let item = SaveItem { key: key(name), token, given: token, number: 1, bytes };
        assert_eq!(lab.step(&Save { worker, items: vec![item] }).await.unwrap(), [SaveReply::Kept]);
        assert_eq!(lab.release(name, worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    }
    let long = DispatchItem { worker: None, ..placed(&lab, "long", worker, &[b'x'; GRANTS as usize + 1]) };
    lab.dispatch_all(&[long]).await;
    let names = ["failed", "saved", "long", "few"];
    let token = lab.token("few").await;
    assert_eq!(lab.route_all(&names, Some(worker)).await, [RouteReply::Routed; 4]);
    let mut states = Vec::new();
    for name in names {
        states.push(lab.record(name).await.unwrap().state);
        assert!(lab.token(name).await > token, "{name}");
    }
    let assigned = JobState::Assigned;
    assert_eq!(states, [assigned, assigned, assigned, JobState::Running]);
    assert_eq!(lab.score("queue", "long").await, Some(lab.backend.now() + 5_000));
    let events = events(&lab, worker).await;
    let [.., WorkerEvent::Grant(granted), WorkerEvent::Start { keys, .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((&granted.jobs[0].key, keys.len()), (&key("few"), 3));
}

/// In memory a stream cannot be damaged.
async fn a_damaged_stream_keeps_no_grant_from_another_worker(kind: Kind) {
    let Kind::Redis = kind else { return };
    let (lab, worker) = granting(kind).await;
    let other = lab.worker().await;
    for broken in [worker, other] {
        lab.backend.raw(::redis::cmd("SET").arg(lab.backend.key(&format!("worker:{broken}"))).arg("x")).await;
        let whole = if broken == worker { other } else { worker };
        let long = [b'x'; GRANTS as usize + 1];
        let names = [format!("long{broken}"), format!("short{broken}")];
        let items = [(&names[0], &long[..]), (&names[1], b"x")];
        let items =
            items.map(|(name, payload)| DispatchItem { worker: None, ..placed(&lab, name, whole, payload) });
        assert_eq!(lab.dispatch_all(&items).await, [DispatchReply::Accepted, DispatchReply::Accepted]);
        let jobs = vec![(key(&names[0]), Some(broken)), (key(&names[1]), Some(whole))];
        let route = Route { ring: lab.revision().await, entries: Vec::new(), jobs };
        assert_eq!(lab.step(&route).await.unwrap(), [RouteReply::Routed; 2]);
        assert_eq!(last_granted(&lab, whole).await[0].key, key(&names[1]));
        lab.backend.raw(::redis::cmd("DEL").arg(lab.backend.key(&format!("worker:{broken}")))).await;
    }
}

async fn a_router_grants_nothing_over_a_former_jobs_checkpoint(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    lab.run("k", "node1.former", worker).await;
    save(&lab, "k", worker, b"state").await;
    lab.backend.lose("jobs").await;
    lab.assign("k", "node1.k", worker).await;
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Assigned);
    let BeginReply::Begun(BegunJob { checkpoint: None, .. }) = lab.begin("k", worker).await else {
        panic!("the former job's checkpoint is of nobody")
    };
}

async fn a_job_started_by_a_notification_is_granted(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let start = placed(&lab, "k", worker, b"x");
    let items = ["one", "two"].map(|body| NotifyOrStartItem {
        start: start.clone(),
        guess: None,
        body: Bytes::from_static(body.as_bytes()),
    });
    let step = NotifyOrStart { ring: lab.revision().await, items: items.to_vec() };
    let replies = lab.step(&step).await.unwrap();
    assert_eq!(replies, [NotifyOrStartReply::Accepted; 2]);
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.state, record.begun, queued), (JobState::Running, Begun::Never, 1));
    let job = BegunJob { record, waiting: true, payload: Bytes::from_static(b"x"), checkpoint: None };
    let granted = GrantedJob { key: key("k"), awaited: false, job };
    assert_eq!(last_granted(&lab, worker).await, [granted], "nobody waits for the start");
}

async fn a_begin_confirms_a_grant_and_is_answered_as_a_first(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let token = granted(&lab, "k", worker).await;
    let first = lab.begin("k", worker).await;
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.begun, record.attempts, record.token, queued), (Begun::Begun, 1, token, 0));
    let BeginReply::Begun(BegunJob { record: of_answer, payload, .. }) = &first else { panic!("{first:?}") };
    assert_eq!((of_answer, payload), (&record, &Bytes::from_static(b"payload")));
    assert_eq!(lab.begin("k", worker).await, first, "once more, the same");
    assert_eq!(lab.queued().await, 0);
}

async fn a_start_confirms_a_grant(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    granted(&lab, "k", worker).await;
    for _ in 0..2 {
        assert!(lab.started("k", worker).await);
        let (record, queued) = after(&lab, "k").await;
        assert_eq!((record.begun, queued), (Begun::Started, 0));
    }
}

async fn a_checkpoint_confirms_a_grant_and_outlives_the_begin(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let token = granted(&lab, "k", worker).await;
    let bytes = Bytes::from_static(b"state");
    let item = SaveItem { key: key("k"), token, given: token, number: 1, bytes: bytes.clone() };
    assert_eq!(lab.step(&Save { worker, items: vec![item] }).await.unwrap(), [SaveReply::Kept]);
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.begun, queued), (Begun::Begun, 0));
    let BeginReply::Begun(BegunJob { checkpoint, .. }) = lab.begin("k", worker).await else { panic!() };
    assert_eq!(checkpoint.map(|kept| kept.bytes), Some(bytes));
}

async fn a_stop_confirms_a_grant_and_asks_the_owner(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let token = granted(&lab, "k", worker).await;
    assert_eq!(lab.stop("k", "node1.k", Some(worker)).await, StopReply::Stopping);
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.state, record.begun, queued), (JobState::Stopping, Begun::Begun, 0));
    let stop = events(&lab, worker).await.pop();
    let jobs = vec![(key("k"), token, Some(id("node1.k")))];
    assert_eq!(stop, Some(WorkerEvent::Stop { waiting: None, jobs }));
}

async fn a_lost_worker_has_tried_what_it_was_granted(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    granted(&lab, "k", worker).await;
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    assert!(lab.step(&Reap { worker, limit: 10 }).await.unwrap().done);
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.state, record.begun, record.attempts), (JobState::Queued, Begun::Begun, 1));
    assert_eq!(queued, 0);
}

async fn a_worker_that_does_not_attest_has_tried_its_grants(kind: Kind) {
    let (mut lab, worker) = granting(kind).await;
    granted(&lab, "k", worker).await;
    lab.recover().await;
    assert_eq!(lab.step(&Attend { worker, after: None, limit: 10 }).await.unwrap(), None);
    let (record, queued) = after(&lab, "k").await;
    assert_eq!((record.state, record.begun, record.attempts), (JobState::Queued, Begun::Begun, 1));
    assert_eq!(queued, 0);
}

async fn a_granted_job_that_is_given_back_has_not_begun(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    for (name, mode) in [("a", ReleaseMode::GiveBack), ("b", ReleaseMode::Elsewhere { workers: 2 })] {
        let before = lab.queued().await;
        granted(&lab, name, worker).await;
        assert_eq!(lab.release(name, worker, mode).await, ReleaseReply::Queued);
        let (record, queued) = after(&lab, name).await;
        assert_eq!((record.state, record.begun, record.attempts), (JobState::Queued, Begun::Never, 0));
        assert_eq!(queued, before + 1);
    }
    let token = granted(&lab, "c", worker).await;
    let refused = release("c", token, ReleaseMode::Elsewhere { workers: 2 });
    let refused = tenure_pool::store::ReleaseItem { result: "its handler says so".into(), ..refused };
    assert_eq!(lab.release_item(worker, refused).await, ReleaseReply::Queued);
    let (record, queued) = after(&lab, "c").await;
    assert_eq!((record.begun, queued), (Begun::Begun, 2), "a handler had it");
}

async fn a_granted_job_that_ends_has_begun(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    granted(&lab, "k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!((lab.record("k").await, lab.queued().await), (None, 0));
    granted(&lab, "j", worker).await;
    assert_eq!(lab.release("j", worker, ReleaseMode::Fail).await, ReleaseReply::Queued);
    let (record, queued) = after(&lab, "j").await;
    assert_eq!((record.begun, record.attempts, queued), (Begun::Begun, 1, 0));
}

async fn a_granted_job_whose_news_are_lost_is_assigned_once_more(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    let token = granted(&lab, "k", worker).await;
    assert_eq!(lab.steer("k", Way::Now).await, SteerReply::Told);
    let again = WorkerEvent::Start { token, keys: vec![key("k")] };
    assert_eq!(events(&lab, worker).await.pop(), Some(again));
    assert!(matches!(lab.begin("k", worker).await, BeginReply::Begun(_)));
    assert_eq!(lab.steer("k", Way::Now).await, SteerReply::Told, "nobody knows that its handler was called");
    assert!(lab.started("k", worker).await);
    assert_eq!(lab.steer("k", Way::Now).await, SteerReply::Changed, "it has started");
}

async fn a_granted_job_holds_a_closing_pool_open(kind: Kind) {
    let (lab, worker) = granting(kind).await;
    granted(&lab, "k", worker).await;
    let advance = async |mode| lab.step(&ShutDown { by: node("node1"), mode }).await.unwrap();
    advance(ShutdownMode::Closing(ms(60_000))).await;
    assert!(matches!(advance(ShutdownMode::Advance).await, Some(ShutdownFlag::Closing { .. })));
    assert!(lab.started("k", worker).await);
    assert!(matches!(advance(ShutdownMode::Advance).await, Some(ShutdownFlag::Stopping { .. })));
}
