//! The steps of an owner for its jobs: begin, started, and the list of them.

use bytes::Bytes;
use tenure_pool::store::{
    BATCH_BYTES, Begin, BeginReply, BegunJob, DispatchItem, ListOwned, Reap, Refusal, Release, ReleaseMode,
    ReleaseReply, Route, ShutDown, ShutdownMode, Started, StartedItem, StopReply, Take, WorkerBegins,
    WorkerBegun, WorkerStarts,
};
use tenure_protocol::model::id::{JobKey, Token, WorkerId};
use tenure_protocol::model::record::{Begun, JobState};

use super::lab::{Lab, key, node};
use super::single::Single as _;

scenarios! {
    a_begun_job_is_the_workers,
    begin_may_be_repeated,
    begin_needs_the_worker_the_token_and_the_state,
    a_fenced_worker_begins_nothing,
    a_stopping_pool_begins_nothing,
    workers_that_begin_together_are_answered_each_for_itself,
    starts_of_workers_are_noted_together,
    a_full_answer_leaves_the_rest_untouched,
    an_answer_is_full_for_all_workers_of_a_call,
    begin_says_that_notifications_wait,
    finished_entries_are_deleted,
    a_success_is_noted_once,
    a_success_drops_partial_strikes,
    only_the_owner_reports_success,
    owned_jobs_come_in_pages,
    an_index_is_no_truth,
}

async fn a_begun_job_is_the_workers(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    lab.backend.advance(10).await;
    let BeginReply::Begun(BegunJob { record, waiting, payload, .. }) = lab.begin("k", worker).await else {
        panic!("refused")
    };
    assert_eq!((record.state, record.owner, record.attempts), (JobState::Running, Some(worker), 1));
    assert_eq!((record.begun, record.since), (Begun::Begun, lab.backend.now()));
    assert_eq!((waiting, &*payload), (false, &b"payload"[..]));
    assert_eq!(lab.record("k").await, Some(record));
    assert_eq!((lab.score("queue", "k").await, lab.queued().await), (None, 0));
}

async fn begin_may_be_repeated(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    let jobs = [(key("k"), lab.token("k").await), (key("k"), lab.token("k").await)];
    let first = lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
    assert_eq!(first[0], first[1]);
    let before = lab.backend.dump().await;
    lab.backend.advance(10).await;
    assert_eq!(lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap(), first);
    assert_eq!(lab.backend.dump().await, before);
}

async fn begin_needs_the_worker_the_token_and_the_state(lab: Lab, worker: WorkerId, other: WorkerId) {
    for name in ["a", "queued", "stopping"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    lab.route("a", worker).await;
    lab.run_again("stopping", worker).await;
    assert_eq!(lab.stop("stopping", "node1.stopping", Some(worker)).await, StopReply::Stopping);
    let token = lab.token("a").await;
    let before = lab.backend.dump().await;
    let jobs = [
        (key("a"), Token(token.0 - 1)),
        (key("a"), Token(token.0 + 1)),
        (key("queued"), Token(0)),
        (key("stopping"), lab.token("stopping").await),
        (key("absent"), token),
    ];
    let replies = lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
    assert_eq!(replies, vec![BeginReply::Refused; 5]);
    let replies = lab.store().begin_one(lab.inc, other, &[], &[(key("a"), token)]).await.unwrap();
    assert_eq!(replies, [BeginReply::Refused]);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_fenced_worker_begins_nothing(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    let jobs = [(key("k"), lab.token("k").await)];
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    assert_eq!(lab.refused(lab.store().begin_one(lab.inc, worker, &[], &jobs)).await, Refusal::Fenced);
}

async fn a_stopping_pool_begins_nothing(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.g", worker).await;
    let jobs = [(key("k"), lab.token("k").await)];
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    assert_eq!(lab.refused(lab.store().begin_one(lab.inc, worker, &[], &jobs)).await, Refusal::ShuttingDown);
}

async fn workers_that_begin_together_are_answered_each_for_itself(
    lab: Lab,
    one: WorkerId,
    gone: WorkerId,
    two: WorkerId,
) {
    let jobs = [("a", one), ("b", gone), ("c", two), ("d", two), ("e", one)];
    for (name, worker) in jobs {
        let item = lab.item(name, &format!("node1.{name}"));
        lab.dispatch_all(&[DispatchItem { payload: Bytes::from_static(name.as_bytes()), ..item }]).await;
        lab.route(name, worker).await;
    }
    let oldest = async |worker| lab.store().oldest(worker).await;
    let mut begins = Vec::new();
    for worker in [one, gone, two] {
        let (finished, mut mine) = (Vec::from_iter(oldest(worker).await), Vec::new());
        for (name, _) in jobs.iter().filter(|(_, owner)| *owner == worker) {
            mine.push((key(name), lab.token(name).await));
        }
        begins.push(WorkerBegins { worker, finished, jobs: mine });
    }
    // One that is the other's.
    begins[0].jobs.push((key("d"), lab.token("d").await));
    lab.store().expire_one(lab.inc, gone, None).await.unwrap();
    let before = oldest(two).await.unwrap();
    let answers = lab.step(&Begin { begins: begins.clone() }).await.unwrap();
    let begun = |answer: &WorkerBegun| -> Vec<Option<(String, Option<WorkerId>, Bytes)>> {
        let replies = answer.as_ref().unwrap().iter();
        let record = |reply: &BeginReply| match reply {
            BeginReply::Begun(BegunJob { record, payload, .. }) => {
                Some((record.id.to_string(), record.owner, payload.clone()))
            }
            _ => None,
        };
        replies.map(record).collect()
    };
    let is = |name: &'static str, worker| {
        Some((format!("node1.{name}"), Some(worker), Bytes::from_static(name.as_bytes())))
    };
    assert_eq!(begun(&answers[0]), [is("a", one), is("e", one), None]);
    assert_eq!(answers[1], Err(Refusal::Fenced));
    assert_eq!(begun(&answers[2]), [is("c", two), is("d", two)]);
    assert_eq!(lab.record("b").await.unwrap().state, JobState::Assigned);
    assert_eq!(lab.queued().await, 1);
    assert!(oldest(two).await.unwrap() > before, "its finished entry is deleted");
    assert_eq!(Vec::from_iter(oldest(gone).await), begins[1].finished, "who is fenced deletes nothing");
}

async fn starts_of_workers_are_noted_together(lab: Lab, one: WorkerId, two: WorkerId) {
    let mut starts = Vec::new();
    for (worker, names) in [(one, ["a", "b"]), (two, ["c", "d"])] {
        let mut items = Vec::new();
        for name in names {
            let token = lab.run(name, &format!("node1.{name}"), worker).await;
            items.push(StartedItem { key: key(name), token, tell: None });
        }
        starts.push(WorkerStarts { worker, finished: vec![], items });
    }
    // One that is the other's.
    let others = starts[1].items[0].clone();
    starts[0].items[0] = others;
    let oldest = async |worker| lab.store().oldest(worker).await;
    let before = [oldest(one).await, oldest(two).await];
    starts[0].finished = before[0].into_iter().collect();
    assert!(before.iter().all(Option::is_some), "each has news");
    assert_eq!(lab.step(&Started { starts }).await.unwrap(), [false, true, true, true]);
    assert!(oldest(one).await > before[0], "its finished entry is deleted");
    assert_eq!(oldest(two).await, before[1], "it has named none");
    for (name, begun) in
        [("a", Begun::Begun), ("b", Begun::Started), ("c", Begun::Started), ("d", Begun::Started)]
    {
        assert_eq!(lab.record(name).await.unwrap().begun, begun, "{name}");
    }
}

async fn a_full_answer_leaves_the_rest_untouched(lab: Lab, worker: WorkerId) {
    let names = ["a", "b", "c", "d"];
    for name in names {
        let payload = Bytes::from(vec![b'x'; BATCH_BYTES / 2]);
        lab.dispatch_all(&[DispatchItem { payload, ..lab.item(name, &format!("node1.{name}")) }]).await;
    }
    lab.route_all(&names, Some(worker)).await;
    let token = lab.token("a").await;
    let mut jobs: Vec<_> = names.iter().map(|name| (key(name), token)).collect();
    jobs.push((key("absent"), token));
    let replies = lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
    assert!(replies[..3].iter().all(|reply| matches!(reply, BeginReply::Begun(_))), "a MiB and a half");
    assert_eq!(replies[3..], [BeginReply::Full, BeginReply::Refused]);
    assert_eq!(lab.record("d").await.unwrap().state, JobState::Assigned);
    assert!(matches!(lab.begin("d", worker).await, BeginReply::Begun(_)));
}

async fn an_answer_is_full_for_all_workers_of_a_call(lab: Lab) {
    let workers = [lab.worker().await, lab.worker().await];
    let mut begins = Vec::new();
    for (worker, names) in workers.into_iter().zip([["a", "b", "c"], ["d", "e", "f"]]) {
        let mut jobs = Vec::new();
        for name in names {
            let payload = Bytes::from(vec![b'x'; BATCH_BYTES / 2]);
            lab.dispatch_all(&[DispatchItem { payload, ..lab.item(name, &format!("node1.{name}")) }]).await;
            lab.route(name, worker).await;
            jobs.push((key(name), lab.token(name).await));
        }
        begins.push(WorkerBegins { worker, finished: vec![], jobs });
    }
    let answers = lab.step(&Begin { begins }).await.unwrap();
    assert!(answers[0].as_ref().unwrap().iter().all(|reply| matches!(reply, BeginReply::Begun(_))));
    assert_eq!(answers[1], Ok(vec![BeginReply::Full; 3]));
    assert_eq!(lab.record("d").await.unwrap().state, JobState::Assigned);
}

async fn begin_says_that_notifications_wait(lab: Lab, worker: WorkerId) {
    lab.dispatch("a", "node1.a").await;
    lab.dispatch("b", "node1.b").await;
    lab.notify("a", None, "hello").await;
    lab.route_all(&["a", "b"], Some(worker)).await;
    assert!(matches!(lab.begin("a", worker).await, BeginReply::Begun(BegunJob { waiting: true, .. })));
    assert!(matches!(lab.begin("b", worker).await, BeginReply::Begun(BegunJob { waiting: false, .. })));
}

async fn finished_entries_are_deleted(lab: Lab, worker: WorkerId) {
    for name in ["a", "b", "c"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
        lab.route(name, worker).await;
    }
    let oldest = async || lab.store().oldest(worker).await;
    let first = oldest().await.unwrap();
    lab.store().begin_one(lab.inc, worker, &[first], &[(key("a"), lab.token("a").await)]).await.unwrap();
    let second = oldest().await.unwrap();
    assert!(second > first);
    lab.step(&Release { worker, finished: vec![second], items: Vec::new() }).await.unwrap();
    let third = oldest().await.unwrap();
    assert!(third > second);
    lab.step(&Take { worker, finished: vec![third], items: Vec::new() }).await.unwrap();
    assert_eq!(oldest().await, None);
    assert_eq!(lab.record("b").await.unwrap().state, JobState::Assigned, "the entry is no truth");
}

async fn a_success_is_noted_once(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    assert!(lab.started("k", worker).await);
    assert_eq!(lab.record("k").await.unwrap().begun, Begun::Started);
    let before = lab.backend.dump().await;
    assert!(lab.started("k", worker).await);
    assert_eq!(lab.backend.dump().await, before);
    lab.release("k", worker, ReleaseMode::HandOff).await;
    lab.run_again("k", worker).await;
    assert_eq!(lab.record("k").await.unwrap().begun, Begun::Started, "it stays started");
}

async fn a_success_drops_partial_strikes(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    for _ in 0..4 {
        lab.release("k", worker, ReleaseMode::Refuse).await;
        lab.run_again("k", worker).await;
    }
    assert_eq!(lab.record("k").await.unwrap().strikes, 4);
    assert!(lab.started("k", worker).await);
    assert_eq!(lab.record("k").await.unwrap().strikes, 3, "three strikes chose this worker");
}

async fn only_the_owner_reports_success(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    lab.assign("assigned", "node1.a", worker).await;
    let before = lab.backend.dump().await;
    let item = |name, token| StartedItem { key: key(name), token, tell: None };
    let items = vec![
        item("k", Token(token.0 + 1)),
        item("absent", token),
        item("assigned", lab.token("assigned").await),
    ];
    assert_eq!(
        lab.step(&Started { starts: vec![WorkerStarts { worker, finished: vec![], items }] }).await.unwrap(),
        [false; 3]
    );
    assert_eq!(
        lab.step(&Started {
            starts: vec![WorkerStarts { worker: other, finished: vec![], items: vec![item("k", token)] }]
        })
        .await
        .unwrap(),
        [false]
    );
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.stop("k", "node1.g", Some(worker)).await, StopReply::Stopping);
    assert!(lab.started("k", worker).await, "a stopping job has started all the same");
    assert_eq!(lab.record("k").await.unwrap().state, JobState::Stopping);
}

async fn owned_jobs_come_in_pages(lab: Lab) {
    // One worker's number is the beginning of the other's, and keys look like parts of index entries.
    let (worker, other) = (WorkerId(5), WorkerId(55));
    let keys: [&[u8]; 6] = [b"\x00", b":", b";", b"5:5", b"|", b"\xff\xff"];
    for (at, bytes) in keys.into_iter().enumerate() {
        let item =
            DispatchItem { key: JobKey::try_from(bytes).unwrap(), ..lab.item("k", &format!("node1.g{at}")) };
        lab.dispatch_all(&[item]).await;
    }
    lab.dispatch("others", "node1.o").await;
    let mut jobs: Vec<_> = keys.map(|bytes| (JobKey::try_from(bytes).unwrap(), Some(worker))).into();
    jobs.push((key("others"), Some(other)));
    lab.step(&Route { ring: lab.revision().await, entries: Vec::new(), jobs: jobs.clone() }).await.unwrap();
    let mut found = Vec::new();
    let mut after = None;
    let mut pages = 0;
    loop {
        let page = lab.step(&ListOwned { worker, after: after.clone(), limit: 2 }).await.unwrap();
        pages += 1;
        found
            .extend(page.jobs.into_iter().map(|(key, record)| (key, record.and_then(|record| record.owner))));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    jobs.pop();
    jobs.sort();
    assert_eq!(found, jobs);
    assert!(pages <= 4);
    let page = lab.step(&ListOwned { worker: other, after: None, limit: 10 }).await.unwrap();
    assert_eq!((page.next, page.jobs.len()), (None, 1));
}

async fn an_index_is_no_truth(lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.run("k", "node1.g", other).await;
    lab.backend.write_index(worker, &key("ghost")).await;
    lab.backend.write_index(worker, &key("k")).await;
    let page = lab.step(&ListOwned { worker, after: None, limit: 10 }).await.unwrap();
    assert_eq!(page.jobs[0], (key("ghost"), None));
    assert_eq!(page.jobs[1].1.as_ref().unwrap().owner, Some(other));
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    assert_eq!(lab.step(&Reap { worker, limit: 10 }).await.unwrap().count, 2);
    assert_eq!(lab.step(&ListOwned { worker, after: None, limit: 10 }).await.unwrap().jobs, []);
    assert_eq!(lab.record("k").await.unwrap().owner, Some(other), "it is still the other's");
    assert_eq!(lab.release("k", other, ReleaseMode::Delete).await, ReleaseReply::Deleted);
}
