//! Requests to end jobs.

use tenure_pool::store::{
    BeginReply, Cursors, DispatchReply, NotifyReply, ReadNode, Reap, ReleaseMode, ReleaseReply, Stop,
    StopReply, WorkerEvent,
};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, id, key, ms, node, stop};
use super::single::Single as _;

scenarios! {
    jobs_that_nobody_runs_are_deleted_at_once,
    a_running_jobs_owner_is_told,
    a_wrong_guess_changes_nothing,
    a_second_stop_says_nothing_new,
    who_waits_for_a_stop_that_was_told_is_named_to_its_owner,
    the_sweeper_says_it_again,
    a_stop_never_ends_a_successor,
    a_stop_of_an_id_that_anothers_begins_with_changes_nothing,
    ids_are_remembered_each_from_its_own_dispatch_on,
    a_batch_tells_each_owner_once,
    a_dead_owners_stopping_job_ends,
    who_is_gone_gets_no_stream_again,
    a_member_without_a_stream_is_told,
}

async fn stops(lab: &Lab, worker: WorkerId) -> Vec<WorkerEvent> {
    let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
    let events =
        lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap().workers;
    let events = events.into_iter().map(|(_, _, event)| event);
    events.filter(|event| matches!(event, WorkerEvent::Stop { .. })).collect()
}

async fn jobs_that_nobody_runs_are_deleted_at_once(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    for name in ["queued", "assigned", "parked"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    lab.route("assigned", worker).await;
    let token = lab.token("assigned").await;
    lab.run_again("parked", worker).await;
    assert_eq!(lab.release("parked", worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    lab.notify("queued", None, "body").await;
    for name in ["queued", "assigned", "parked"] {
        let id = format!("node1.{name}");
        assert_eq!(lab.stop(name, &id, None).await, StopReply::Deleted);
        assert_eq!(lab.stop(name, &id, None).await, StopReply::Ended);
        assert_eq!(lab.dispatch(name, &id).await, DispatchReply::Ended);
    }
    let begun = lab.store().begin_one(lab.inc, worker, &[], &[(key("assigned"), token)]).await.unwrap();
    assert_eq!(begun, [BeginReply::Refused]);
    let dump = lab.backend.dump().await;
    for name in ["jobs", "payloads", "queue", "owners", "parked", "errors", "notifications"] {
        assert!(dump.get(name).is_none(), "{name}");
    }
    assert_eq!(lab.queued().await, 0);
    assert_eq!(lab.stop("queued", "node1.never", None).await, StopReply::Absent);
}

async fn a_running_jobs_owner_is_told(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let (store, inc) = (lab.store(), lab.inc);
    let items = vec![stop("k", "node1.g", Some(worker))];
    let replies = store
        .run(inc, &Stop { turn: None, repeat: false, waiting: Some(node("node9")), items })
        .await
        .unwrap();
    assert_eq!(replies, [StopReply::Stopping]);
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Stopping);
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 2_000));
    let told = WorkerEvent::Stop {
        waiting: Some(node("node9")),
        jobs: vec![(key("k"), token, Some(id("node1.g")))],
    };
    assert_eq!(stops(&lab, worker).await, [told]);
    assert_eq!(lab.notify("k", Some(worker), "body").await, NotifyReply::Absent);
    assert_eq!(lab.dispatch("k", "node1.h").await, DispatchReply::Exists);
}

async fn a_wrong_guess_changes_nothing(lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    for guess in [None, Some(other)] {
        assert_eq!(lab.stop("k", "node1.g", guess).await, StopReply::Owner(Some(worker)));
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_second_stop_says_nothing_new(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    lab.backend.advance(10).await;
    assert_eq!(lab.stop("k", "node1.g", Some(worker)).await, StopReply::Stopping);
    assert_eq!(lab.backend.dump().await, before);
}

async fn who_waits_for_a_stop_that_was_told_is_named_to_its_owner(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.g", worker).await;
    let items = vec![stop("k", "node1.g", Some(worker))];
    let replies =
        lab.step(&Stop { turn: None, repeat: false, waiting: Some(node("node9")), items }).await.unwrap();
    assert_eq!(replies, [StopReply::Stopping]);
    let waiting = stops(&lab, worker).await.into_iter().map(|event| match event {
        WorkerEvent::Stop { waiting, .. } => waiting,
        event => panic!("{event:?}"),
    });
    assert_eq!(waiting.collect::<Vec<_>>(), [None, Some(node("node9"))]);
}

async fn the_sweeper_says_it_again(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.g", worker).await;
    let swept = lab.sweep_after(2_000).await;
    let (name, id, owner) = swept.stops[0].clone();
    assert_eq!((swept.stops.len(), &name, owner), (1, &key("k"), worker));
    lab.backend.advance(10).await;
    let item = tenure_pool::store::StopItem { key: name, id, guess: Some(owner), forbid: false };
    let replies = lab
        .step(&Stop { turn: None, repeat: true, waiting: None, items: vec![item.clone(), item] })
        .await
        .unwrap();
    assert_eq!(replies, [StopReply::Stopping; 2]);
    let told: Vec<_> = stops(&lab, worker).await;
    let jobs = told.into_iter().map(|event| match event {
        WorkerEvent::Stop { jobs, .. } => jobs.len(),
        event => panic!("{event:?}"),
    });
    assert_eq!(jobs.collect::<Vec<_>>(), [1, 1], "once more, not twice");
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 2_000));
}

async fn a_stop_never_ends_a_successor(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.first", worker).await;
    lab.release("k", worker, ReleaseMode::Delete).await;
    lab.run("k", "node1.second", worker).await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.stop("k", "node1.first", Some(worker)).await, StopReply::Ended);
    assert_eq!(lab.stop("k", "node1.third", Some(worker)).await, StopReply::Absent);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_stop_of_an_id_that_anothers_begins_with_changes_nothing(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.i12", worker).await;
    lab.dispatch("queued", "node1.i12").await;
    lab.run("own", "node1.!o12", worker).await;
    let before = lab.backend.dump().await;
    let items = [
        stop("k", "node1.i1", Some(worker)),
        stop("queued", "node1.i1", None),
        stop("own", "node1.!o1", Some(worker)),
    ];
    assert_eq!(lab.stop_all(&items).await, [StopReply::Absent; 3]);
    assert_eq!(lab.backend.dump().await, before);
}

async fn ids_are_remembered_each_from_its_own_dispatch_on(lab: Lab) {
    let mut lasting = Vec::new();
    for name in ["a", "b", "c"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
        lasting
            .push(lab.backend.now() + u64::try_from(lab.settings.max_dispatch_deadline.as_millis()).unwrap());
        lab.backend.advance(7).await;
    }
    lab.stop_all(&["a", "b", "c"].map(|name| stop(name, &format!("node1.{name}"), None))).await;
    for (name, until) in ["a", "b", "c"].into_iter().zip(lasting) {
        assert_eq!(lab.score("ended", &format!("node1.{name}")).await, Some(until), "{name}");
    }
}

async fn a_batch_tells_each_owner_once(lab: Lab, worker: WorkerId, other: WorkerId) {
    for (name, owner) in [("a", worker), ("b", other), ("c", worker)] {
        lab.run(name, &format!("node1.{name}"), owner).await;
    }
    lab.dispatch("queued", "node1.q").await;
    let items = [
        stop("a", "node1.a", Some(worker)),
        stop("b", "node1.b", Some(other)),
        stop("c", "node1.c", Some(worker)),
        stop("a", "node1.a", Some(worker)),
        stop("a", "node1.other", Some(worker)),
        stop("queued", "node1.q", None),
        stop("queued", "node1.q", None),
    ];
    let replies = lab.stop_all(&items).await;
    let (stopping, absent) = (StopReply::Stopping, StopReply::Absent);
    let expected = [stopping, stopping, stopping, stopping, absent, StopReply::Deleted, StopReply::Ended];
    assert_eq!(replies, expected);
    let told = stops(&lab, worker).await;
    let stopped = async |name: &str, of: &str| (key(name), lab.token(name).await, Some(id(of)));
    let jobs = vec![stopped("a", "node1.a").await, stopped("c", "node1.c").await];
    assert_eq!(told, [WorkerEvent::Stop { waiting: None, jobs }]);
    assert_eq!(stops(&lab, other).await.len(), 1);
}

async fn a_dead_owners_stopping_job_ends(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.g", worker).await;
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let reaped = lab.step(&Reap { worker, limit: 10 }).await.unwrap();
    assert_eq!(reaped.outcomes, [(super::lab::id("node1.g"), "stopped".to_owned())]);
    assert_eq!(lab.record("k").await, None);
    assert!(lab.starts().await.is_empty());
}

/// The job was lost from the index of its owner, which is expired and reaped without it.
async fn who_is_gone_gets_no_stream_again(lab: Lab, worker: WorkerId) {
    for name in ["stops", "runs"] {
        lab.run(name, &format!("node1.{name}"), worker).await;
    }
    lab.stop("stops", "node1.stops", Some(worker)).await;
    lab.backend.lose("owners").await;
    lab.leave(worker).await;
    let stream = format!("worker:{worker}");
    assert!(lab.backend.dump().await.get(&stream).is_none());
    let again = lab
        .step(&Stop {
            turn: None,
            repeat: true,
            waiting: None,
            items: vec![stop("stops", "node1.stops", Some(worker))],
        })
        .await;
    assert_eq!(again.unwrap(), [StopReply::Stopping]);
    assert_eq!(lab.notify("runs", Some(worker), "body").await, NotifyReply::Kept);
    assert_eq!(lab.stop("runs", "node1.runs", Some(worker)).await, StopReply::Stopping);
    assert!(lab.backend.dump().await.get(&stream).is_none(), "nobody reads it, nor deletes it");
}

async fn a_member_without_a_stream_is_told(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    let stream = format!("worker:{worker}");
    lab.backend.lose(&stream).await;
    assert_eq!(lab.notify("k", Some(worker), "body").await, NotifyReply::Kept);
    assert!(lab.backend.dump().await.get(&stream).is_some());
    lab.backend.lose(&stream).await;
    assert_eq!(lab.stop("k", "node1.g", Some(worker)).await, StopReply::Stopping);
    assert_eq!(stops(&lab, worker).await.len(), 1);
}
