//! Jobs come in and begin.

use tenure_jobs::State;
use tenure_jobs::store::{
    AddReply, Adding, Data, Kind, NewJob, Settle, SettleReply, Steer, SteerReply, Taking,
};

use super::lab::{Lab, Which, done, fail, id, node, queue, retry};

scenarios! {
    a_job_begins_with_a_lease_under_a_token,
    each_of_many_acceptors_gets_one_job,
    jobs_begin_in_the_order_of_their_coming,
    a_priority_is_a_head_start_and_nobody_starves,
    a_strict_priority_goes_first,
    a_job_without_a_queue_is_refused,
    a_job_is_added_once,
    a_queue_that_is_full_refuses_more,
    an_accepted_job_goes_over_the_capacity,
    a_damaged_record_spoils_nothing_else,
    a_large_answer_ends_early_and_says_so,
    only_what_is_scheduled_until_a_time_is_taken,
    a_queue_that_is_shut_keeps_what_it_has,
    names_that_are_none_are_refused,
    a_call_takes_so_many_jobs_at_most,
}

async fn a_job_begins_with_a_lease_under_a_token(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=5000")]).await;
    assert_eq!(lab.add("a", &["j"]).await, [AddReply::Added]);
    assert_eq!(lab.take("a").await, ["j"]);
    let job = lab.jobs.borrow()[0].clone();
    assert_eq!((job.record.state, job.record.attempts, &*job.record.node), (State::Running, 1, "n1"));
    assert_eq!((&job.body[..], job.lease), (&b"body-j"[..], 5_000));
    let dump = lab.dump().await;
    assert_eq!(dump.value("leases", "j"), Some(&*(lab.now() + 5_000).to_string()));
    assert_eq!(dump.get("ready"), None);
    assert_eq!(dump.value("counts", "a|running"), Some("1"));
    assert_eq!(lab.done("j").await, SettleReply::Ended);
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
    assert_eq!(lab.dump().await.value("counts", "a|done"), Some("1"));
}

async fn each_of_many_acceptors_gets_one_job(lab: Lab) {
    let ids: Vec<_> = (0..25).map(|i| format!("j{i}")).collect();
    lab.add("a", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (mut taken, mut tokens) = (Vec::new(), Vec::new());
    for i in 0..25 {
        let taking = Taking::new(node(&format!("n{i}")), queue("a"), 1);
        taken.extend(lab.take_as(&taking).await);
        tokens.push(lab.token.get());
    }
    assert!(lab.take("a").await.is_empty());
    assert_eq!(taken, ids);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

async fn jobs_begin_in_the_order_of_their_coming(lab: Lab) {
    lab.add("a", &["z", "y"]).await;
    lab.add("a", &["x"]).await;
    lab.advance(1).await;
    lab.add("a", &["w"]).await;
    assert_eq!(lab.take_n("a", 3).await, ["z", "y", "x"]);
    assert_eq!(lab.take("a").await, ["w"]);
}

async fn a_priority_is_a_head_start_and_nobody_starves(which: Which) {
    let lab = Lab::new(which, &[("a", "step=1000")]).await;
    lab.add("a", &["low"]).await;
    lab.advance(999).await;
    lab.add_one("a", "high", |kind| kind.priority = 1).await;
    lab.advance(2).await;
    lab.add_one("a", "late", |kind| kind.priority = 1).await;
    assert_eq!(lab.take("a").await, ["high", "low", "late"]);
}

async fn a_strict_priority_goes_first(which: Which) {
    for words in ["step=100000000000", "g step=100000000000"] {
        let lab = Lab::new(which, &[("a", words)]).await;
        for (job, priority) in [("p1", 1), ("p3", 3), ("m2", -2), ("p2", 2)] {
            lab.add_one("a", job, |kind| kind.priority = priority).await;
            lab.advance(60_000).await;
        }
        assert_eq!(lab.take("a").await, ["p3", "p2", "p1", "m2"], "{words}");
    }
}

async fn a_job_without_a_queue_is_refused(which: Which) {
    let lab = Lab::new(which, &[]).await;
    assert_eq!(lab.add("nosuch", &["j"]).await, [AddReply::NoQueue]);
    assert!(lab.take("nosuch").await.is_empty());
    assert_eq!(lab.state("j").await, None);
}

async fn a_job_is_added_once(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    assert_eq!(lab.add("a", &["j", "j", "k"]).await, [AddReply::Added, AddReply::Exists, AddReply::Added]);
    assert_eq!(lab.add("b", &["j"]).await, [AddReply::Exists]);
    lab.take("a").await;
    assert_eq!(lab.add("a", &["j"]).await, [AddReply::Exists]);
    lab.done("j").await;
    assert_eq!(lab.add("b", &["j"]).await, [AddReply::Added]);
}

async fn an_accepted_job_goes_over_the_capacity(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "cap=1")]).await;
    lab.add("b", &["first"]).await;
    lab.begin("a", &["moved"]).await;
    let on = Settle::MoveOn { queue: queue("b"), priority: None, group: None, data: Data::Keep };
    assert_eq!(lab.settle("moved", on).await, SettleReply::Moved);
    assert_eq!(lab.take("b").await, ["first", "moved"]);
    lab.add("b", &["second"]).await;
    assert_eq!(lab.settle("first", retry(0, "again")).await, SettleReply::Pending);
    assert_eq!(lab.settle("moved", fail("no")).await, SettleReply::Failed);
    // A replay is somebody's wish, and is refused as an add is.
    let replay = async || lab.steer("moved", Steer::Replay(0)).await;
    assert_eq!(replay().await, SteerReply::Full);
    assert_eq!(lab.state("moved").await, Some(State::Failed));
    assert_eq!(lab.take("b").await, ["first", "second"]);
    assert_eq!(replay().await, SteerReply::Done);
    assert_eq!(lab.add("b", &["third"]).await, [AddReply::Full]);
}

async fn a_queue_that_is_full_refuses_more(which: Which) {
    let lab = Lab::new(which, &[("a", "cap=2")]).await;
    assert_eq!(lab.add("a", &["j1", "j2", "j3"]).await, [AddReply::Added, AddReply::Added, AddReply::Full]);
    assert_eq!(lab.add("a", &["j1"]).await, [AddReply::Exists]);
    lab.take_n("a", 1).await;
    let later = lab.now() + 10;
    assert_eq!(lab.add_one("a", "j3", |kind| kind.due = later).await, AddReply::Added);
    assert_eq!(lab.add("a", &["j4"]).await, [AddReply::Full]);
}

async fn a_damaged_record_spoils_nothing_else(which: Which) {
    if which == Which::Memory {
        return;
    }
    let lab = Lab::new(which, &[("a", "")]).await;
    lab.add("a", &["j1", "j2"]).await;
    lab.raw("HSET", "jobs", &["j1", "rubbish"]).await;
    assert_eq!(lab.take("a").await, ["j2"]);
    assert_eq!(lab.add("a", &["j1"]).await, [AddReply::Bad]);
    assert_eq!(lab.settle("j1", done()).await, SettleReply::Bad);
    assert_eq!(lab.done("j2").await, SettleReply::Ended);
}

async fn a_large_answer_ends_early_and_says_so(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
    for queue_name in ["a", "g"] {
        let kind = Kind::new(queue(queue_name));
        let jobs =
            (0..5).map(|i| NewJob::new(id(&format!("{queue_name}{i}")), vec![b'x'; 600_000], kind.clone()));
        lab.add_all(&Adding::new(jobs.collect())).await;
        let mut taking = super::lab::taking(queue_name, 100);
        taking.slots = 100;
        assert_eq!(lab.take_as(&taking).await.len(), 2);
        assert!(lab.more.get() && lab.registration.borrow().is_none(), "it does not wait beside ready jobs");
        assert_eq!(lab.take_as(&taking).await.len(), 2);
        assert_eq!(lab.take_as(&taking).await.len(), 1);
        assert!(!lab.more.get() && lab.registration.borrow().is_some());
    }
}

async fn only_what_is_scheduled_until_a_time_is_taken(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.add_one("t", "j1", |kind| kind.due = 5_000).await;
    lab.add_one("t", "j2", |kind| kind.due = 3_000).await;
    let mut taking = super::lab::taking("t", 1);
    for (until, found) in [(1_000, &[][..]), (3_000, &["j2"]), (4_999, &[]), (9_000, &["j1"])] {
        taking.until = Some(until);
        assert_eq!(lab.take_as(&taking).await, found, "{until}");
    }
}

async fn a_queue_that_is_shut_keeps_what_it_has(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    lab.add("t", &["j1", "j2"]).await;
    lab.take_n("t", 1).await;
    assert!(lab.declare("t", "shut").await);
    assert!(lab.take("t").await.is_empty());
    assert_eq!(lab.add("t", &["k"]).await, [AddReply::NoQueue]);
    assert_eq!(lab.done("j1").await, SettleReply::Ended);
    assert!(lab.declare("t", "").await);
    assert_eq!(lab.take("t").await, ["j2"]);
    assert!(!lab.declare("t", "g").await, "a plain queue stays plain");
}

async fn names_that_are_none_are_refused(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
    assert_eq!(lab.add_one("a", "k", |kind| kind.due = 1 << 44).await, AddReply::Bad);
    assert_eq!(lab.add_one("a", "k", |kind| kind.deadline = 1 << 44).await, AddReply::Bad);
    assert_eq!(lab.add_one("a", "k", |kind| kind.flow = "a|b".into()).await, AddReply::Bad);
    assert_eq!(lab.add_one("a", "k", |kind| kind.correlation = "a|b".into()).await, AddReply::Bad);
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_call_takes_so_many_jobs_at_most(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("limited", "limit=1000/1000")]).await;
    for name in ["a", "limited"] {
        let ids: Vec<_> = (0..200).map(|i| format!("{name}{i}")).collect();
        for ids in ids.chunks(100) {
            lab.add(name, &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        assert_eq!((lab.take_n(name, 100_000).await.len(), lab.more.get()), (128, true));
        assert_eq!((lab.take_n(name, 100_000).await.len(), lab.more.get()), (72, false));
    }
}
