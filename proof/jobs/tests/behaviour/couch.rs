//! Jobs in the manner of `CouchDB`.

use std::collections::HashMap;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tenure_couch::{Accept, Accepted, Couch, CouchError, CouchState, wait_any};
use tenure_jobs::store::Store;
use tenure_jobs::{Error, Jobs, MemoryStore, NodeName};

use super::world::{MINUTE, SECOND, World};

stories! {
    a_type_needs_its_time_out_first,
    any_simple_key_is_an_id,
    data_that_cannot_be_encoded_store_nothing,
    an_add_of_what_is_pending_is_idempotent,
    an_add_of_what_runs_marks_it,
    an_add_of_what_has_finished_begins_anew,
    what_is_missing_is_not_found,
    a_job_that_is_removed_while_it_runs_is_halted,
    accept_waits_for_a_job_or_answers_at_once,
    accept_takes_what_was_scheduled_until_a_time,
    no_schedule_knows_no_limit,
    twenty_five_acceptors_get_a_job_each,
    each_run_has_a_new_lock,
    a_stale_lock_is_halted,
    a_run_that_is_over_resubmits_nothing,
    a_resubmit_brings_no_removed_job_back,
    bad_data_change_nothing,
    a_finished_job_is_resubmitted_with_other_data,
    a_job_without_activity_is_pending_again,
    another_time_out_begins_anew,
    a_subscriber_is_told_the_present_state,
    a_wait_yields_updates_and_states,
    one_of_many_is_waited_for,
    whoever_unsubscribes_hears_nothing_any_more,
    jobs_are_listed_and_counted,
    pending_jobs_are_counted_up_to_a_bound,
    a_dropped_accept_leaves_no_job_behind,
}

async fn couch(world: &World) -> (Jobs, Couch) {
    let jobs = world.node("n").join().await.unwrap();
    let couch = Couch::new(jobs.clone());
    couch.set_type_timeout("t", MINUTE).await.unwrap();
    (jobs, couch)
}

fn seconds(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

async fn taken(couch: &Couch) -> Accepted {
    couch.accept("t", Accept::new().timeout(MINUTE)).await.unwrap().expect("a job")
}

const NONE: Option<&Value> = None;

async fn a_type_needs_its_time_out_first(world: World) {
    let jobs = world.node("n").join().await.unwrap();
    let couch = Couch::new(jobs.clone());
    let refused = couch.add("t", "j", &json!({}), None).await;
    assert!(matches!(refused, Err(CouchError::NoTypeTimeout)), "{refused:?}");
    assert!(matches!(couch.type_timeout("t").await, Err(CouchError::NoTypeTimeout)));
    assert!(matches!(couch.accept("t", Accept::new()).await, Err(CouchError::NoTypeTimeout)));
    assert!(matches!(couch.pending("t").await, Err(CouchError::NoTypeTimeout)));
    assert!(couch.set_type_timeout("t", Duration::ZERO).await.is_err());
    couch.set_type_timeout("t", 20 * SECOND).await.unwrap();
    assert_eq!(couch.type_timeout("t").await.unwrap(), 20 * SECOND);
    couch.add("t", "j", &json!({}), None).await.unwrap();
}

async fn any_simple_key_is_an_id(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", ("db/1", "ü", 7u32), &json!(1), None).await.unwrap();
    couch.add("t", 7u32, &json!(2), None).await.unwrap();
    couch.add("t", "7", &json!(3), None).await.unwrap();
    assert_eq!(couch.data::<Value>("t", 7u32).await.unwrap(), json!(2));
    assert_eq!(couch.data::<Value>("t", "7").await.unwrap(), json!(3));
    couch.set_type_timeout(("a type", "of two"), MINUTE).await.unwrap();
    couch.add(("a type", "of two"), "7", &json!(4), None).await.unwrap();
    assert_eq!(couch.data::<Value>(("a type", "of two"), "7").await.unwrap(), json!(4));
    assert!(couch.add("t", "", &json!(5), None).await.is_err());
    assert_eq!(couch.list("t").await.unwrap().len(), 3);
}

/// Has no form in `MessagePack`.
struct Unfit;

impl serde::Serialize for Unfit {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("unfit"))
    }
}

async fn data_that_cannot_be_encoded_store_nothing(world: World) {
    let (_jobs, couch) = couch(&world).await;
    assert!(couch.add("t", "j", &Unfit, None).await.is_err());
    assert!(matches!(couch.state("t", "j").await, Err(CouchError::NotFound)));
}

async fn an_add_of_what_is_pending_is_idempotent(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!("d"), Some(seconds(15))).await.unwrap();
    couch.add("t", "j", &json!("x"), Some(seconds(15))).await.unwrap();
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!("d"), "the same time writes nothing");
    couch.add("t", "j", &json!("e"), Some(seconds(16))).await.unwrap();
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!("e"));
    assert_eq!(
        (couch.state("t", "j").await.unwrap(), couch.pending("t").await.unwrap()),
        (CouchState::Pending, 1)
    );
}

async fn an_add_of_what_runs_marks_it(world: World) {
    let (jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!("d"), None).await.unwrap();
    let mut job = taken(&couch).await;
    assert!(!job.is_resubmitted() && !job.update(NONE).await.unwrap());
    couch.add("t", "j", &json!("x"), Some(seconds(17))).await.unwrap();
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!("d"), "the data stay");
    assert!(job.update(Some(&json!("g"))).await.unwrap() && job.is_resubmitted());
    job.finish(NONE).await.unwrap();
    assert_eq!(couch.state("t", "j").await.unwrap(), CouchState::Pending);
    assert_eq!(jobs.get(job.id()).await.unwrap().unwrap().record().due, 17_000, "at its time");
    let mut job = taken(&couch).await;
    assert!(!job.is_resubmitted(), "the mark is cleared");
    assert_eq!(job.data::<Value>().unwrap(), json!("g"));
    job.finish(NONE).await.unwrap();
    assert_eq!(couch.state("t", "j").await.unwrap(), CouchState::Finished);
}

async fn an_add_of_what_has_finished_begins_anew(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!("d"), None).await.unwrap();
    taken(&couch).await.finish(Some(&json!("h"))).await.unwrap();
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!("h"));
    couch.add("t", "j", &json!("i"), None).await.unwrap();
    assert_eq!(couch.state("t", "j").await.unwrap(), CouchState::Pending);
    assert_eq!(taken(&couch).await.data::<Value>().unwrap(), json!("i"));
}

async fn what_is_missing_is_not_found(world: World) {
    let (_jobs, couch) = couch(&world).await;
    assert!(matches!(couch.remove("t", "j").await, Err(CouchError::NotFound)));
    couch.add("t", "j", &json!(1), None).await.unwrap();
    couch.remove("t", "j").await.unwrap();
    assert!(matches!(couch.data::<Value>("t", "j").await, Err(CouchError::NotFound)));
    assert!(matches!(couch.state("t", "j").await, Err(CouchError::NotFound)));
    assert!(matches!(couch.subscribe("t", "j").await, Err(CouchError::NotFound)));
    assert!(matches!(couch.resubmit("t", "j", NONE, None).await, Err(CouchError::NotFound)));
}

async fn a_job_that_is_removed_while_it_runs_is_halted(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let mut job = taken(&couch).await;
    couch.remove("t", "j").await.unwrap();
    assert!(matches!(job.update(NONE).await, Err(Error::Halted(_))));
    assert!(matches!(job.finish(Some(&json!(2))).await, Err(Error::Halted(_))));
    assert!(matches!(couch.state("t", "j").await, Err(CouchError::NotFound)));
}

async fn accept_waits_for_a_job_or_answers_at_once(world: World) {
    let (_jobs, couch) = couch(&world).await;
    let other = Couch::new(world.node("m").join().await.unwrap());
    assert!(couch.accept("t", Accept::new().timeout(Duration::ZERO)).await.unwrap().is_none());
    assert!(couch.accept("t", Accept::new().timeout(Duration::from_millis(50))).await.unwrap().is_none());
    let waiting = tokio::spawn(async move { couch.accept("t", Accept::new()).await.unwrap() });
    other.add("t", "j", &json!("d"), None).await.unwrap();
    let job = tokio::time::timeout(MINUTE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!((job.id().as_str(), job.data::<Value>().unwrap()), ("t/j", json!("d")));
}

async fn accept_takes_what_was_scheduled_until_a_time(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j1", &json!(1), Some(seconds(5_000))).await.unwrap();
    couch.add("t", "j2", &json!(2), Some(seconds(3_000))).await.unwrap();
    let accept = async |until: u64| {
        let accept = Accept::new().timeout(Duration::ZERO).max_sched_time(seconds(until));
        couch.accept("t", accept).await.unwrap().map(|job| job.id().to_string())
    };
    assert_eq!(accept(1_000).await, None);
    assert_eq!(accept(3_000).await.as_deref(), Some("t/j2"));
    assert_eq!(accept(9_000).await.as_deref(), Some("t/j1"));
}

async fn no_schedule_knows_no_limit(world: World) {
    let (_jobs, couch) = couch(&world).await;
    let accept = Accept::new().timeout(Duration::ZERO).no_schedule();
    let both = accept.max_sched_time(world.now());
    assert!(matches!(couch.accept("t", both).await, Err(CouchError::NoSchedule)));
    assert!(couch.accept("t", accept).await.unwrap().is_none());
    couch.add("t", "j", &json!(1), None).await.unwrap();
    assert!(couch.accept("t", accept).await.unwrap().is_some());
}

async fn twenty_five_acceptors_get_a_job_each(world: World) {
    let (_jobs, couch) = couch(&world).await;
    let acceptors: Vec<_> = (0..25)
        .map(|_| {
            let couch = couch.clone();
            tokio::spawn(
                async move { couch.accept("t", Accept::new().timeout(MINUTE)).await.unwrap().unwrap() },
            )
        })
        .collect();
    for n in 0..25u32 {
        couch.add("t", n, &json!(n), None).await.unwrap();
    }
    let mut ids = Vec::new();
    for acceptor in acceptors {
        ids.push(acceptor.await.unwrap().id().to_string());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 25);
}

async fn each_run_has_a_new_lock(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let mut last = 0;
    for _ in 0..3 {
        let mut job = taken(&couch).await;
        assert!(job.token().0 > last);
        last = job.token().0;
        job.resubmit(None).await.unwrap();
        assert!(job.is_resubmitted());
        job.finish(NONE).await.unwrap();
    }
}

async fn a_stale_lock_is_halted(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.set_type_timeout("t", SECOND).await.unwrap();
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let mut stale = taken(&couch).await;
    let mut job = taken(&couch).await;
    assert!(matches!(stale.update(Some(&json!("stale"))).await, Err(Error::Halted(_))));
    assert!(matches!(stale.finish(Some(&json!("stale"))).await, Err(Error::Halted(_))));
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!(1));
    job.update(NONE).await.unwrap();
}

async fn a_run_that_is_over_resubmits_nothing(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.set_type_timeout("t", SECOND).await.unwrap();
    couch.add("t", "j", &json!("d"), None).await.unwrap();
    let mut stale = taken(&couch).await;
    tenure_testing::eventually(MINUTE, "it is pending again", async || {
        couch.state("t", "j").await.unwrap() == CouchState::Pending
    })
    .await;
    couch.set_type_timeout("t", MINUTE).await.unwrap();
    let later = Some(world.now() + 60 * MINUTE);
    couch.add("t", "j", &json!("e"), later).await.unwrap();
    assert!(matches!(stale.resubmit(None).await, Err(Error::Halted(_))));
    assert!(!stale.is_resubmitted());
    let accept = Accept::new().timeout(Duration::ZERO);
    assert!(couch.accept("t", accept).await.unwrap().is_none(), "it waits for its time");
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!("e"), "with its own data");
    couch.add("t", "j", &json!("f"), None).await.unwrap();
    let mut job = taken(&couch).await;
    assert!(matches!(stale.resubmit(None).await, Err(Error::Halted(_))));
    assert!(!job.update(NONE).await.unwrap(), "another run is not marked");
    job.finish(NONE).await.unwrap();
    assert!(matches!(stale.resubmit(None).await, Err(Error::Halted(_))));
    assert_eq!(couch.state("t", "j").await.unwrap(), CouchState::Finished);
    couch.remove("t", "j").await.unwrap();
    assert!(matches!(stale.resubmit(None).await, Err(Error::Halted(_))));
    assert!(matches!(couch.state("t", "j").await, Err(CouchError::NotFound)));
}

async fn a_resubmit_brings_no_removed_job_back(world: World) {
    let (_jobs, couch) = couch(&world).await;
    let (soon, later) = (world.now() + 60 * MINUTE, world.now() + 120 * MINUTE);
    for _ in 0..50 {
        couch.add("t", "j", &json!("d"), Some(soon)).await.unwrap();
        // Whichever of them comes first.
        let (resubmitted, removed) =
            tokio::join!(couch.resubmit("t", "j", NONE, Some(later)), couch.remove("t", "j"));
        removed.unwrap();
        assert!(matches!(resubmitted, Ok(()) | Err(CouchError::NotFound)), "{resubmitted:?}");
        assert!(matches!(couch.state("t", "j").await, Err(CouchError::NotFound)));
    }
}

async fn bad_data_change_nothing(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let mut job = taken(&couch).await;
    assert!(job.update(Some(&Unfit)).await.is_err());
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!(1));
    assert!(job.finish(Some(&Unfit)).await.is_err());
    assert_eq!(couch.state("t", "j").await.unwrap(), CouchState::Running);
    job.finish(Some(&json!(2))).await.unwrap();
    assert_eq!(
        couch.state("t", "j").await.unwrap(),
        CouchState::Finished,
        "the handle is there to try again"
    );
    assert!(matches!(job.finish(NONE).await, Err(Error::Halted(_))));
}

async fn a_finished_job_is_resubmitted_with_other_data(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let mut job = taken(&couch).await;
    couch.resubmit("t", "j", Some(&json!("x")), None).await.unwrap();
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!(1), "a running one keeps its data");
    job.finish(NONE).await.unwrap();
    taken(&couch).await.finish(NONE).await.unwrap();
    couch.resubmit("t", "j", NONE, None).await.unwrap();
    let mut job = taken(&couch).await;
    assert_eq!(job.data::<Value>().unwrap(), json!(1));
    job.finish(NONE).await.unwrap();
    couch.resubmit("t", "j", Some(&json!(2)), None).await.unwrap();
    assert_eq!(taken(&couch).await.data::<Value>().unwrap(), json!(2));
}

async fn a_job_without_activity_is_pending_again(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.set_type_timeout("t", SECOND).await.unwrap();
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let mut job = taken(&couch).await;
    let mut subscription = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    job.update(Some(&json!("kept"))).await.unwrap();
    let event = subscription.wait_for(CouchState::Pending, MINUTE).await.unwrap().unwrap();
    assert_eq!(event.state, Some(CouchState::Pending));
    assert_eq!(couch.data::<Value>("t", "j").await.unwrap(), json!("kept"));
    assert!(matches!(job.update(NONE).await, Err(Error::Halted(_))));
}

async fn another_time_out_begins_anew(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let _job = taken(&couch).await;
    couch.set_type_timeout("t", SECOND).await.unwrap();
    let again = tokio::time::timeout(MINUTE / 2, taken(&couch)).await;
    assert!(again.is_ok(), "the former time-out was a minute");
}

async fn a_subscriber_is_told_the_present_state(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let first = couch.subscribe("t", "j").await.unwrap();
    assert_eq!((first.state(), first.data::<Value>().unwrap()), (CouchState::Pending, json!(1)));
    let mut job = taken(&couch).await;
    let second = couch.subscribe("t", "j").await.unwrap();
    assert_eq!(second.state(), CouchState::Running);
    job.finish(Some(&json!("end"))).await.unwrap();
    let finished = couch.subscribe("t", "j").await.unwrap();
    assert_eq!((finished.state(), finished.data::<Value>().unwrap()), (CouchState::Finished, json!("end")));
    assert!(finished.subscription().is_none() && first.subscription().is_some());
}

async fn a_wait_yields_updates_and_states(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(0), None).await.unwrap();
    let mut every = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    let mut end = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    assert_eq!(every.wait(Duration::from_millis(20)).await.unwrap(), None, "nothing happens");
    let mut job = taken(&couch).await;
    for n in 1..=3 {
        job.update(Some(&json!(n))).await.unwrap();
    }
    job.finish(Some(&json!("end"))).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let event = every.wait(MINUTE).await.unwrap().unwrap();
        seen.push((event.state.unwrap(), event.data::<Value>().unwrap()));
    }
    let running = |n: i32| (CouchState::Running, Some(json!(n)));
    let (begun, ended) = ((CouchState::Running, None), CouchState::Finished);
    assert_eq!(seen[..4], [begun, running(1), running(2), running(3)]);
    assert_eq!(seen[4].0, ended);
    assert_eq!(end.wait_for(ended, MINUTE).await.unwrap().unwrap().state, Some(ended), "others are skipped");
    couch.remove("t", "j").await.unwrap();
    assert_eq!(every.wait(MINUTE).await.unwrap().unwrap().state, None);
    assert_eq!(every.wait(Duration::from_millis(50)).await.unwrap(), None, "a removal is told once");
}

async fn one_of_many_is_waited_for(world: World) {
    let (_jobs, couch) = couch(&world).await;
    let mut subscriptions = Vec::new();
    for n in 0..3u32 {
        couch.add("t", n, &json!(n), None).await.unwrap();
        subscriptions.push(couch.subscribe("t", n).await.unwrap().subscription().unwrap());
    }
    for _ in 0..3 {
        taken(&couch).await.finish(NONE).await.unwrap();
    }
    let mut events: HashMap<String, Vec<_>> = HashMap::new();
    for _ in 0..6 {
        let event = wait_any(&mut subscriptions, MINUTE).await.unwrap().unwrap();
        events.entry(event.id.to_string()).or_default().push(event.state.unwrap());
    }
    assert_eq!(events.len(), 3);
    assert!(
        events.values().all(|states| *states == [CouchState::Running, CouchState::Finished]),
        "{events:?}"
    );
    assert_eq!(wait_any(&mut subscriptions, Duration::from_millis(50)).await.unwrap(), None);
}

async fn whoever_unsubscribes_hears_nothing_any_more(world: World) {
    let (jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!(0), None).await.unwrap();
    let first = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    let mut second = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    let id = first.id().clone();
    drop(first);
    let _job = taken(&couch).await;
    assert_eq!(
        second.wait(MINUTE).await.unwrap().unwrap().state,
        Some(CouchState::Running),
        "the other one goes on"
    );
    let watched = async || jobs.get(&id).await.unwrap().unwrap().record().flags.contains('w');
    assert!(watched().await, "its messages come, too");
    drop(second);
    tenure_testing::eventually(MINUTE, "nobody watches", async || !watched().await).await;
}

async fn jobs_are_listed_and_counted(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.set_type_timeout("other", MINUTE).await.unwrap();
    couch.add("other", "x", &json!(0), None).await.unwrap();
    for id in ["a", "b", "c"] {
        couch.add("t", id, &json!(0), None).await.unwrap();
    }
    couch.add("t", "later", &json!(0), Some(world.now() + MINUTE)).await.unwrap();
    let mut running = taken(&couch).await;
    taken(&couch).await.finish(NONE).await.unwrap();
    let (pending, active) = (CouchState::Pending, CouchState::Running);
    let expected = [("a", active), ("b", CouchState::Finished), ("c", pending), ("later", pending)];
    assert_eq!(couch.list("t").await.unwrap(), expected.map(|(id, state)| (id.to_owned(), state)));
    assert_eq!(
        (couch.active("t").await.unwrap(), couch.pending("t").await.unwrap()),
        (vec!["a".to_owned()], 2)
    );
    let count = couch.fold("t", 0, |count, _, state| count + u32::from(state == pending)).await.unwrap();
    assert_eq!(count, 2);
    running.finish(NONE).await.unwrap();
}

async fn pending_jobs_are_counted_up_to_a_bound(world: World) {
    let (_jobs, couch) = couch(&world).await;
    let add = |n: u32| {
        let couch = couch.clone();
        async move { couch.add("t", n, &json!(0), None).await.unwrap() }
    };
    futures::future::join_all((0..1_024).map(add)).await;
    assert_eq!(couch.pending("t").await.unwrap(), 1_024);
    add(1_024).await;
    assert_eq!(couch.pending("t").await.unwrap(), 1_024);
}

async fn a_dropped_accept_leaves_no_job_behind(world: World) {
    let (_jobs, couch) = couch(&world).await;
    couch.add("t", "j", &json!("d"), None).await.unwrap();
    // The first calls are dropped early, and the last ones when the job is about to come.
    for rounds in (0..400).step_by(5) {
        let mut accepting = Box::pin(couch.accept("t", Accept::new()));
        for _ in 0..rounds {
            if let Poll::Ready(job) = futures::poll!(&mut accepting) {
                let mut job = job.unwrap().unwrap();
                job.resubmit(None).await.unwrap();
                job.finish(NONE).await.unwrap();
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    // Its type's time-out is a minute.
    let job = couch.accept("t", Accept::new().timeout(MINUTE / 2)).await.unwrap().expect("the job");
    assert_eq!(job.data::<Value>().unwrap(), json!("d"));
}

/// The names of the nodes that wait for jobs.
fn waiting(store: &MemoryStore) -> Vec<String> {
    let dump = store.dump();
    let members = dump.get("waiting").into_iter().flatten();
    members.filter_map(|(member, _)| member.split('|').nth(2).map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_dropped_accept_holds_up_nobody() {
    let store = MemoryStore::new();
    let world = World::Memory(store.clone());
    let (_jobs, couch) = couch(&world).await;
    let other = Couch::new(world.node("m").join().await.unwrap());
    let dropped = tokio::spawn(async move { couch.accept("t", Accept::new()).await.map(drop) });
    tenure_testing::eventually(MINUTE, "the first one waits", async || waiting(&store) == ["n"]).await;
    let accepting = other.clone();
    let goes_on = tokio::spawn(async move { accepting.accept("t", Accept::new()).await });
    tenure_testing::eventually(MINUTE, "both wait", async || waiting(&store) == ["n", "m"]).await;
    dropped.abort();
    tenure_testing::eventually(MINUTE, "one waits no more", async || waiting(&store) == ["m"]).await;
    other.add("t", "j", &json!(1), None).await.unwrap();
    let job = tokio::time::timeout(MINUTE, goes_on).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(job.id(), &"t/j");
}

#[tokio::test]
async fn an_accept_ends_with_its_node() {
    let store = MemoryStore::new();
    let (jobs, couch) = couch(&World::Memory(store.clone())).await;
    let accepting = tokio::spawn(async move { couch.accept("t", Accept::new()).await.map(drop) });
    tenure_testing::eventually(MINUTE, "it waits", async || waiting(&store) == ["n"]).await;
    jobs.close();
    let ended = tokio::time::timeout(MINUTE, accepting).await.expect("it waits for ever").unwrap();
    assert!(matches!(ended, Err(CouchError::Other(tenure_jobs::Error::Closed))), "{ended:?}");
}

#[tokio::test]
async fn a_job_that_is_followed_twice_is_watched_once() {
    let store = MemoryStore::new();
    let (_jobs, couch) = couch(&World::Memory(store.clone())).await;
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let _first = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    let _second = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    let watchers = store.dump().value("extras", "s:t/j").unwrap().to_owned();
    assert_eq!(watchers.split(',').map(|one| one.split('#').next()).collect::<Vec<_>>(), [Some("n")]);
}

#[tokio::test]
async fn a_run_is_resubmitted_right_after_a_loss_of_data() {
    let store = MemoryStore::new();
    let (_jobs, couch) = couch(&World::Memory(store.clone())).await;
    couch.add("t", "j", &json!("d"), None).await.unwrap();
    let mut job = taken(&couch).await;
    store.wipe();
    job.resubmit(None).await.unwrap();
    job.finish(NONE).await.unwrap();
    assert_eq!(couch.state("t", "j").await.unwrap(), CouchState::Pending, "it runs once more");
}

#[tokio::test(start_paused = true)]
async fn an_update_refreshes_the_activity() {
    let began = tokio::time::Instant::now();
    let store = MemoryStore::with_clock(move || 1_800_000_000_000 + began.elapsed().as_millis() as u64);
    let jobs = Jobs::over(std::sync::Arc::new(store.clone())).name("n").join().await.unwrap();
    let couch = Couch::new(jobs.clone());
    let state = async || couch.state("t", "j").await.unwrap();
    for (timeout, jitter) in [(10 * SECOND, 5 * SECOND), (MINUTE, 10 * SECOND)] {
        couch.set_type_timeout("t", timeout).await.unwrap();
        couch.add("t", "j", &json!(1), None).await.unwrap();
        let mut job = taken(&couch).await;
        for _ in 0..5 {
            tokio::time::sleep(timeout * 9 / 10).await;
            job.update(NONE).await.unwrap();
        }
        tokio::time::sleep(timeout * 9 / 10).await;
        assert_eq!(state().await, CouchState::Running, "the last update counts");
        tokio::time::sleep(timeout / 10 + jitter).await;
        assert_eq!(state().await, CouchState::Pending, "after the time-out and its jitter at most");
        assert!(matches!(job.update(NONE).await, Err(Error::Halted(_))));
        couch.remove("t", "j").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_limited_accept_keeps_no_job_from_another() {
    let began = tokio::time::Instant::now();
    let store = MemoryStore::with_clock(move || 1_800_000_000_000 + began.elapsed().as_millis() as u64);
    let node = async |name: &str| {
        let jobs = Jobs::over(std::sync::Arc::new(store.clone())).name(name).join().await.unwrap();
        (Couch::new(jobs.clone()), jobs)
    };
    let ((limited, _first), (other, _second)) = (node("n").await, node("m").await);
    other.set_type_timeout("t", MINUTE).await.unwrap();
    let past = Accept::new().max_sched_time(seconds(1_700_000_000));
    let in_vain = tokio::spawn(async move { limited.accept("t", past).await });
    tenure_testing::eventually(MINUTE, "the first one waits", async || waiting(&store) == ["n"]).await;
    let adding = other.clone();
    let accepting = tokio::spawn(async move { other.accept("t", Accept::new()).await });
    tenure_testing::eventually(MINUTE, "both wait", async || waiting(&store).len() == 2).await;
    let added = tokio::time::Instant::now();
    adding.add("t", "j", &json!(1), None).await.unwrap();
    let job = accepting.await.unwrap().unwrap().unwrap();
    assert_eq!(added.elapsed(), Duration::ZERO, "no tick was needed");
    assert_eq!(job.id(), &"t/j");
    assert!(!in_vain.is_finished());
    in_vain.abort();
}

#[tokio::test(start_paused = true)]
async fn what_was_not_waited_for_goes_with_its_subscription() {
    let began = tokio::time::Instant::now();
    let store = MemoryStore::with_clock(move || 1_800_000_000_000 + began.elapsed().as_millis() as u64);
    let jobs = Jobs::over(std::sync::Arc::new(store)).name("n").join().await.unwrap();
    let couch = Couch::new(jobs.clone());
    couch.set_type_timeout("t", MINUTE).await.unwrap();
    couch.add("t", "j", &json!(0), None).await.unwrap();
    let follow = async || couch.subscribe("t", "j").await.unwrap();
    let first = follow().await;
    let mut job = taken(&couch).await;
    job.update(Some(&json!(1))).await.unwrap();
    drop(first);
    let second = follow().await;
    assert_eq!((second.state(), second.data::<Value>().unwrap()), (CouchState::Running, json!(1)));
    let mut second = second.subscription().unwrap();
    assert_eq!(second.wait(10 * SECOND).await.unwrap(), None, "what came before is told to nobody");
    // Another one comes and goes: that takes nothing from this one.
    drop(follow().await);
    tokio::time::sleep(SECOND).await;
    let updated = tokio::time::Instant::now();
    job.update(Some(&json!(2))).await.unwrap();
    let event = second.wait(MINUTE).await.unwrap().unwrap();
    assert_eq!(event.data::<Value>().unwrap(), Some(json!(2)));
    assert_eq!(updated.elapsed(), Duration::ZERO, "it was told, and did not have to look");
}

#[tokio::test(start_paused = true)]
async fn short_waits_one_after_another_miss_no_change() {
    let began = tokio::time::Instant::now();
    let store = MemoryStore::with_clock(move || 1_800_000_000_000 + began.elapsed().as_millis() as u64);
    let jobs = Jobs::over(std::sync::Arc::new(store.clone())).name("n").join().await.unwrap();
    let couch = Couch::new(jobs.clone());
    couch.set_type_timeout("t", MINUTE).await.unwrap();
    couch.add("t", "j", &json!(1), None).await.unwrap();
    let mut subscription = couch.subscribe("t", "j").await.unwrap().subscription().unwrap();
    // Its messages go astray from now on.
    let _astray = store.listen(&NodeName::new("n").unwrap());
    let _job = taken(&couch).await;
    let mut event = None;
    for _ in 0..1_000 {
        event = subscription.wait(Duration::from_millis(10)).await.unwrap();
        if event.is_some() {
            break;
        }
    }
    assert_eq!(event.and_then(|event| event.state), Some(CouchState::Running));
}
