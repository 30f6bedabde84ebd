//! Calls that are sent again, or come late.

use tenure_jobs::store::{
    AddJobs, Adding, Kind, NewJob, Settle, SettleJobs, SettleReply, Settling, StoreError, TakeJobs,
    TakeReply, Taking,
};

use super::lab::{Lab, done, id, node, queue};

scenarios! {
    an_add_that_is_sent_again_adds_once,
    a_take_that_is_sent_again_gives_the_same_jobs,
    a_take_that_is_sent_again_gives_nothing_that_was_lost,
    an_end_that_is_sent_again_is_answered_again,
    a_late_call_does_nothing,
}

fn adding(job: &str) -> Adding {
    Adding::new(vec![NewJob::new(id(job), "b", Kind::new(queue("a")))])
}

async fn an_add_that_is_sent_again_adds_once(lab: Lab) {
    let (inc, lane) = (lab.inc.get(), lab.lane("p"));
    let first = lab.ask(inc, AddJobs(lane.clone(), adding("j"))).await.unwrap();
    assert_eq!(lab.take("a").await, ["j"]);
    lab.done("j").await;
    // The job has come and gone: it is not there once more.
    assert_eq!(lab.ask(inc, AddJobs(lane.clone(), adding("j"))).await.unwrap(), first);
    assert_eq!(lab.state("j").await, None);
}

async fn a_take_that_is_sent_again_gives_the_same_jobs(lab: Lab) {
    lab.add("a", &["j1", "j2"]).await;
    let (inc, lane) = (lab.inc.get(), lab.lane("t"));
    let mut taking = Taking::new(node("n1"), queue("a"), 5);
    taking.slots = 3;
    let first = lab.ask(inc, TakeJobs(lane.clone(), taking.clone())).await.unwrap();
    let before = lab.dump().await;
    assert_eq!(lab.ask(inc, TakeJobs(lane.clone(), taking.clone())).await.unwrap(), first);
    assert_eq!(lab.dump().await, before);
}

async fn a_take_that_is_sent_again_gives_nothing_that_was_lost(lab: Lab) {
    lab.add("a", &["j1", "j2"]).await;
    let (inc, lane) = (lab.inc.get(), lab.lane("t"));
    let taking = Taking::new(node("n1"), queue("a"), 5);
    let TakeReply::Taken { jobs, .. } = lab.ask(inc, TakeJobs(lane.clone(), taking.clone())).await.unwrap()
    else {
        panic!()
    };
    lab.settle_as("j1", jobs[0].record.token, Settle::GiveBack).await;
    lab.settle_as("j2", jobs[0].record.token, done()).await;
    assert_eq!(lab.take_as(&Taking::new(node("n2"), queue("a"), 5)).await, ["j1"]);
    let TakeReply::Taken { jobs, .. } = lab.ask(inc, TakeJobs(lane.clone(), taking.clone())).await.unwrap()
    else {
        panic!()
    };
    assert!(jobs.is_empty(), "{jobs:?}");
}

async fn an_end_that_is_sent_again_is_answered_again(lab: Lab) {
    lab.begin("a", &["j"]).await;
    let (inc, lane) = (lab.inc.get(), lab.lane("s"));
    let end = [Settling::new(id("j"), lab.token.get(), done())];
    assert_eq!(lab.ask(inc, SettleJobs(lane.clone(), end.to_vec())).await.unwrap(), [SettleReply::Ended]);
    assert_eq!(lab.ask(inc, SettleJobs(lane.clone(), end.to_vec())).await.unwrap(), [SettleReply::Ended]);
    assert_eq!(lab.dump().await.value("counts", "a|done"), Some("1"));
}

async fn a_late_call_does_nothing(lab: Lab) {
    let (inc, old) = (lab.inc.get(), lab.lane("p"));
    lab.ask(inc, AddJobs(lab.lane("p"), adding("j1"))).await.unwrap();
    let before = lab.dump().await;
    let late = lab.ask(inc, AddJobs(old.clone(), adding("j2"))).await;
    assert!(matches!(late, Err(StoreError::Late)), "{late:?}");
    let late = lab.ask(inc, SettleJobs(old.clone(), vec![])).await;
    assert!(matches!(late, Err(StoreError::Late)), "{late:?}");
    let taking = Taking::new(node("n1"), queue("a"), 5);
    let TakeReply::Taken { .. } = lab.ask(inc, TakeJobs(lab.lane("t"), taking.clone())).await.unwrap() else {
        panic!()
    };
    let mut older = lab.lane("t");
    older.number = 1;
    assert!(matches!(lab.ask(inc, TakeJobs(older.clone(), taking.clone())).await, Err(StoreError::Late)));
    assert_eq!(before.get("jobs").map(std::collections::BTreeMap::len), Some(1));
}
