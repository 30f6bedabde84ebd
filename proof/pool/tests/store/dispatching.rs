//! Acceptance of jobs.

use bytes::Bytes;
use tenure_pool::store::{
    Cursors, Dispatch, DispatchItem, DispatchReply, ListJobs, ListOwned, LookUp, Placing, ReadNode,
    ReadPayload, ReleaseMode, ReleaseReply, Route, ShutDown, ShutdownMode, StopReply, WorkerEvent,
};
use tenure_protocol::model::id::{JobKey, Token, WorkerId};
use tenure_protocol::model::record::{Begun, JobState};
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, id, key, ms, node};
use super::single::Single as _;

scenarios! {
    an_accepted_job_is_queued_with_one_event,
    a_batch_makes_one_event,
    a_job_that_names_its_worker_is_assigned_at_once,
    a_placed_job_sent_again_is_assigned_once,
    a_ring_that_has_changed_places_nothing,
    a_batch_may_be_placed_in_part,
    the_same_dispatch_is_accepted_again,
    a_key_has_one_job,
    items_of_a_batch_see_each_other,
    the_bound_of_queued_jobs_is_exact,
    begun_jobs_leave_the_bound_for_good,
    deadlines_are_checked_by_the_servers_clock,
    a_big_payload_hurts_only_itself,
    an_ended_dispatch_is_remembered_until_its_deadline,
    a_job_that_lived_long_leaves_no_memory,
    a_closing_pool_accepts_nothing_new,
    keys_are_any_bytes,
    all_jobs_are_listed,
}

async fn an_accepted_job_is_queued_with_one_event(lab: Lab) {
    assert_eq!(lab.dispatch("k", "node1.g").await, DispatchReply::Accepted);
    let record = lab.record("k").await.unwrap();
    let now = lab.backend.now();
    assert_eq!((record.state, record.owner, record.token), (JobState::Queued, None, Token(0)));
    assert_eq!((record.attempts, record.begun, record.strikes), (0, Begun::Never, 0));
    assert_eq!((record.since, record.created, record.id), (now, now, id("node1.g")));
    assert_eq!(lab.score("queue", "k").await, Some(now + 2_000));
    assert_eq!(lab.queued().await, 1);
    assert_eq!(lab.read(&ReadPayload { key: key("k") }).await.unwrap(), Some(Bytes::from_static(b"payload")));
    assert_eq!(lab.read(&ReadPayload { key: key("other") }).await.unwrap(), None);
    let starts: Vec<_> = lab.starts().await.into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [[(key("k"), 0)]]);
}

async fn a_batch_makes_one_event(lab: Lab) {
    let items = [lab.item("a", "node1.a"), lab.item("b", "node1.b")];
    lab.dispatch_all(&items).await;
    let starts: Vec<_> = lab.starts().await.into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [[(key("a"), 0), (key("b"), 0)]]);
}

async fn told(lab: &Lab, workers: &[WorkerId]) -> Vec<(WorkerId, WorkerEvent)> {
    let cursors = Cursors {
        workers: workers.iter().map(|worker| (*worker, Cursors::default().node)).collect(),
        ..Cursors::default()
    };
    let events = lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap();
    events.workers.into_iter().map(|(to, _, event)| (to, event)).collect()
}

fn placed(lab: &Lab, name: &str, worker: WorkerId) -> DispatchItem {
    // Too long for a grant.
    let payload = Bytes::from(vec![b'x'; 5_000]);
    DispatchItem { worker: Some(worker), payload, ..lab.item(name, &format!("node1.{name}")) }
}

async fn a_job_that_names_its_worker_is_assigned_at_once(lab: Lab, first: WorkerId, second: WorkerId) {
    let items = vec![placed(&lab, "a", first), placed(&lab, "b", second), placed(&lab, "c", first)];
    let replies = lab.step(&Dispatch { by: Placing::Ring(lab.revision().await), items }).await.unwrap();
    assert_eq!(replies, vec![DispatchReply::Accepted; 3]);
    let (record, now) = (lab.record("a").await.unwrap(), lab.backend.now());
    assert_eq!((record.state, record.owner), (JobState::Assigned, Some(first)));
    assert_eq!((record.attempts, record.begun, record.strikes), (0, Begun::Never, 0));
    assert_eq!((record.since, record.created, record.id), (now, now, id("node1.a")));
    assert_eq!(lab.score("queue", "a").await, Some(now + 5_000), "as long as an assignment may take");
    assert_eq!(lab.queued().await, 3, "none has begun");
    assert!(lab.starts().await.is_empty(), "no router is asked");
    let token = lab.token("a").await;
    assert!(token > Token(second.0), "it is newer than all that came before");
    assert_eq!((lab.token("b").await, lab.token("c").await), (token, token));
    let start =
        |names: &[&str]| WorkerEvent::Start { token, keys: names.iter().map(|name| key(name)).collect() };
    assert_eq!(told(&lab, &[first, second]).await, [(first, start(&["a", "c"])), (second, start(&["b"]))]);
    let owned = lab.step(&ListOwned { worker: first, after: None, limit: 10 }).await.unwrap().jobs;
    assert_eq!(owned.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [key("a"), key("c")]);
}

async fn a_placed_job_sent_again_is_assigned_once(lab: Lab, first: WorkerId, second: WorkerId) {
    let ring = lab.revision().await;
    lab.step(&Dispatch { by: Placing::Ring(ring), items: vec![placed(&lab, "k", first)] }).await.unwrap();
    let before = lab.backend.dump().await;
    let again = lab
        .step(&Dispatch { by: Placing::Ring(ring), items: vec![placed(&lab, "k", second)] })
        .await
        .unwrap();
    assert_eq!(again, [DispatchReply::Accepted]);
    assert_eq!(lab.backend.dump().await, before, "no token and no event are spent on it");
}

async fn a_ring_that_has_changed_places_nothing(lab: Lab, worker: WorkerId) {
    let before = lab.revision().await;
    lab.worker().await;
    let replies = lab
        .step(&Dispatch { by: Placing::Ring(before), items: vec![placed(&lab, "k", worker)] })
        .await
        .unwrap();
    assert_eq!(replies, [DispatchReply::Accepted]);
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Queued);
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 2_000));
    assert_eq!(lab.starts().await.len(), 1, "a router finds its worker");
    assert!(told(&lab, &[worker]).await.is_empty());
}

async fn a_batch_may_be_placed_in_part(lab: Lab, worker: WorkerId) {
    let items = vec![placed(&lab, "a", worker), lab.item("b", "node1.b")];
    lab.step(&Dispatch { by: Placing::Ring(lab.revision().await), items }).await.unwrap();
    let states = [lab.record("a").await.unwrap().state, lab.record("b").await.unwrap().state];
    assert_eq!(states, [JobState::Assigned, JobState::Queued]);
    let starts: Vec<_> = lab.starts().await.into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [[(key("b"), 0)]]);
}

async fn the_same_dispatch_is_accepted_again(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.dispatch("k", "node1.g").await, DispatchReply::Accepted);
    assert_eq!(lab.backend.dump().await, before);
    lab.run_again("k", worker).await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.dispatch("k", "node1.g").await, DispatchReply::Accepted);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_key_has_one_job(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.dispatch("k", "node2.other").await, DispatchReply::Exists);
    assert_eq!(lab.backend.dump().await, before);
}

async fn items_of_a_batch_see_each_other(lab: Lab) {
    let items = [lab.item("k", "node1.g"), lab.item("k", "node1.g"), lab.item("k", "node1.h")];
    let replies = lab.dispatch_all(&items).await;
    assert_eq!(replies, [DispatchReply::Accepted, DispatchReply::Accepted, DispatchReply::Exists]);
    assert_eq!(lab.queued().await, 1);
}

async fn the_bound_of_queued_jobs_is_exact(kind: Kind) {
    let lab = Lab::with(kind, Settings { max_queued: 3, ..Settings::default() }).await;
    let ids = ["a", "b", "c", "d", "e"];
    let items: Vec<_> = ids.iter().map(|name| lab.item(name, &format!("node1.{name}"))).collect();
    let replies = lab.dispatch_all(&items).await;
    let (accepted, full) = (DispatchReply::Accepted, DispatchReply::Full);
    assert_eq!(replies, [accepted.clone(), accepted.clone(), accepted, full.clone(), full.clone()]);
    assert_eq!(lab.dispatch("f", "node1.f").await, full);
    assert_eq!(lab.dispatch("a", "node1.a").await, DispatchReply::Accepted, "it is in already");
    assert_eq!(lab.stop("a", "node1.a", None).await, StopReply::Deleted);
    assert_eq!(lab.dispatch("f", "node1.f").await, DispatchReply::Accepted);
    assert_eq!(lab.dispatch("g", "node1.g").await, full);
}

async fn begun_jobs_leave_the_bound_for_good(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_queued: 1, ..Settings::default() }).await;
    for name in ["a", "b", "c"] {
        lab.run(name, &format!("node1.{name}"), worker).await;
        assert_eq!(lab.release(name, worker, ReleaseMode::Fail).await, ReleaseReply::Queued);
        lab.run_again(name, worker).await;
        assert_eq!(lab.queued().await, 0);
    }
    assert_eq!(lab.release("a", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.queued().await, 0);
}

async fn deadlines_are_checked_by_the_servers_clock(lab: Lab) {
    let now = lab.backend.now();
    let within =
        |name: &str, not_after| DispatchItem { not_after, ..lab.item(name, &format!("node1.{name}")) };
    let items =
        [within("a", now - 1), within("b", now), within("c", now + 30_000), within("d", now + 30_001)];
    let replies = lab.dispatch_all(&items).await;
    let (accepted, late) = (DispatchReply::Accepted, DispatchReply::Late);
    assert_eq!(replies, [late.clone(), accepted.clone(), accepted, late]);
}

async fn a_big_payload_hurts_only_itself(kind: Kind) {
    let lab = Lab::with(kind, Settings { payload_max: 10, ..Settings::default() }).await;
    let with = |name: &str, len| {
        let payload = Bytes::from(vec![b'x'; len]);
        DispatchItem { payload, ..lab.item(name, &format!("node1.{name}")) }
    };
    let replies = lab.dispatch_all(&[with("a", 11), with("b", 10)]).await;
    assert_eq!(replies, [DispatchReply::Bad, DispatchReply::Accepted]);
}

async fn an_ended_dispatch_is_remembered_until_its_deadline(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.backend.advance(500).await;
    lab.release("k", worker, ReleaseMode::Delete).await;
    assert_eq!(lab.dispatch("k", "node1.g").await, DispatchReply::Ended);
    assert!(lab.lookup("k", "node1.g").await.ended);
    assert!(!lab.lookup("k", "node1.h").await.ended);
    lab.sweep_after(29_499).await;
    assert_eq!(lab.dispatch("k", "node1.g").await, DispatchReply::Ended);
    lab.sweep_after(1).await;
    assert!(lab.backend.dump().await.get("ended").is_none());
    assert_eq!(lab.dispatch("k", "node1.h").await, DispatchReply::Accepted, "the key is free");
}

async fn a_job_that_lived_long_leaves_no_memory(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    lab.backend.advance(30_000).await;
    lab.release("k", worker, ReleaseMode::Delete).await;
    let dump = lab.backend.dump().await;
    for name in ["jobs", "payloads", "queue", "owners", "ended", "outcomes"] {
        assert!(dump.get(name).is_none(), "{name}");
    }
}

async fn a_closing_pool_accepts_nothing_new(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::Closing(ms(9_000)) }).await.unwrap();
    assert_eq!(lab.dispatch("k", "node1.g").await, DispatchReply::Accepted, "it was accepted before");
    assert_eq!(lab.dispatch("k", "node1.h").await, DispatchReply::Exists);
    assert_eq!(lab.dispatch("new", "node1.n").await, DispatchReply::ShuttingDown);
}

async fn keys_are_any_bytes(lab: Lab, worker: WorkerId) {
    let keys: [&[u8]; 6] =
        [b"a|b", b"line\nbreak", b"\xff\x00\xfe", b"{x}:%d", b"h:k", &[b'k'; JobKey::MAX_LEN]];
    for (at, bytes) in keys.into_iter().enumerate() {
        let job = JobKey::try_from(bytes).unwrap();
        let item = DispatchItem { key: job.clone(), ..lab.item("k", &format!("node1.g{at}")) };
        assert_eq!(lab.dispatch_all(&[item]).await, [DispatchReply::Accepted]);
        let starts = lab.starts().await;
        assert_eq!(starts[0].1, [(job.clone(), 0)]);
        let entries = vec![starts[0].0];
        let (inc, revision) = (lab.inc, lab.revision().await);
        lab.store()
            .run(inc, &Route { ring: revision, entries, jobs: vec![(job.clone(), Some(worker))] })
            .await
            .unwrap();
        let found =
            lab.read(&LookUp { items: vec![(job.clone(), None)] }).await.unwrap().remove(0).record.unwrap();
        lab.store().begin_one(inc, worker, &[], &[(job.clone(), found.token)]).await.unwrap();
        let page = lab.store().run(inc, &ListOwned { worker, after: None, limit: 10 }).await.unwrap();
        assert_eq!(page.jobs.len(), 1);
        assert_eq!(page.jobs[0].0, job);
        let item = super::lab::release("k", found.token, ReleaseMode::Delete);
        let item = tenure_pool::store::ReleaseItem { key: job, ..item };
        assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
    }
    let dump = lab.backend.dump().await;
    assert!(dump.get("jobs").is_none() && dump.get("owners").is_none());
}

async fn all_jobs_are_listed(lab: Lab) {
    let names: Vec<_> = (0..300).map(|at| format!("job{at}")).collect();
    for chunk in names.chunks(100) {
        let items: Vec<_> = chunk.iter().map(|name| lab.item(name, &format!("node1.{name}"))).collect();
        lab.dispatch_all(&items).await;
    }
    lab.backend.write_record(&key("job7"), b"rubbish").await;
    let mut listed = std::collections::BTreeMap::new();
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let page = lab.read(&ListJobs { cursor: from, limit: 50 }).await.unwrap();
        listed.extend(page.jobs);
        cursor = page.next;
    }
    assert_eq!(listed.len(), 300);
    assert!(names.iter().all(|name| listed.contains_key(&key(name))));
    let unreadable: Vec<_> =
        listed.iter().filter(|(_, record)| record.is_none()).map(|(key, _)| key).collect();
    assert_eq!(unreadable, [&key("job7")]);
}
