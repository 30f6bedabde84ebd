//! How many jobs a step takes.

use tenure_pool::id::{ScheduleId, ScheduleName, Term, Token};
use tenure_pool::store::{
    BATCH_MAX, NotifyItem, Refusal, ReleaseMode, StartedItem, StopReply, TakeItem, Turn, WorkerBegins,
    WorkerStarts,
};

use super::lab::{Kind, Lab, id, key, refusal, release, stop};

scenarios! {
    a_step_takes_a_batch,
    a_step_of_more_is_refused,
}

async fn a_step_takes_a_batch(kind: Kind) {
    let lab = Lab::new(kind).await;
    let (names, ids): (Vec<_>, Vec<_>) =
        (0..BATCH_MAX).map(|i| (format!("k{i}"), format!("node1.{i}"))).unzip();
    let items: Vec<_> = names.iter().zip(&ids).map(|(name, id)| lab.item(name, id)).collect();
    lab.dispatch_all(&items).await;
    let stops: Vec<_> = names.iter().zip(&ids).map(|(name, id)| stop(name, id, None)).collect();
    assert_eq!(lab.stop_all(&stops).await, [StopReply::Deleted; BATCH_MAX]);
}

async fn a_step_of_more_is_refused(kind: Kind) {
    const MANY: usize = BATCH_MAX + 1;
    let lab = Lab::new(kind).await;
    let (worker, other) = (lab.worker().await, lab.worker().await);
    let token = lab.run("k", "node1.g", worker).await;
    let (store, inc, ring) = (lab.store(), lab.inc, lab.revision().await);
    let turn = Turn { plan: ScheduleName::new("p").unwrap(), id: ScheduleId(1), term: Term(1) };
    let before = lab.backend.dump().await;
    let items = vec![lab.item("k", "node1.g"); MANY];
    let stops = vec![stop("k", "node1.g", Some(worker)); MANY];
    let notes = vec![NotifyItem { key: key("k"), guess: Some(worker), body: "x".into() }; MANY];
    let takes = vec![TakeItem { key: key("k"), token, ack: 0 }; MANY];
    let releases = vec![release("k", token, ReleaseMode::Delete); MANY];
    // Workers that have no more than a batch each.
    let half =
        |worker, jobs| WorkerBegins { worker, finished: vec![], jobs: vec![(key("k"), Token(1)); jobs] };
    let begins = [half(worker, BATCH_MAX), half(other, 1)];
    let noted = |worker, jobs| {
        let items = vec![StartedItem { key: key("k"), token, tell: None }; jobs];
        WorkerStarts { worker, items }
    };
    let starts = [noted(worker, BATCH_MAX), noted(other, 1)];
    let refusals = [
        refusal(store.dispatch(inc, ring, &items).await),
        refusal(store.dispatch_planned(inc, &turn, &items).await),
        refusal(store.route(inc, ring, &[], &vec![(key("k"), Some(worker)); MANY]).await),
        refusal(store.begin_all(inc, &begins).await),
        refusal(store.started_all(inc, &starts).await),
        refusal(store.release(inc, worker, &[], &releases).await),
        refusal(store.stop(inc, false, None, &stops).await),
        refusal(store.stop_planned(inc, &turn, &stops).await),
        refusal(store.notify(inc, &notes).await),
        refusal(store.take(inc, worker, &[], &takes).await),
        refusal(store.unpark(inc, &vec![(key("k"), id("node1.g")); MANY]).await),
    ];
    assert!(refusals.iter().all(|refusal| *refusal == Refusal::BadArgument), "{refusals:?}");
    assert_eq!(lab.backend.dump().await, before);
}
