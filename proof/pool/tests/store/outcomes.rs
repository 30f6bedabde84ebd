//! Dispatches under a caller's own id, and the outcomes that nodes receive.

use tenure_pool::store::{
    Cursors, DispatchItem, DispatchReply, ReadNode, ReleaseItem, ReleaseMode, ReleaseReply, Renew,
    STOP_FAILED, Started, StartedItem, StopItem, StopReply, Tell, WorkerStarts,
};
use tenure_protocol::model::id::WorkerId;

use super::lab::{Lab, id, key, ms, node, release, renew, stop, stopping};

scenarios! {
    an_own_id_stands_for_one_key_and_one_payload,
    an_own_id_is_used_once_in_a_batch,
    the_first_outcome_stays,
    an_outcome_is_kept_for_its_time,
    a_stopped_job_has_an_outcome,
    a_job_that_outlives_its_ids_outcome_is_still_of_that_id,
    a_dispatch_that_is_forbidden_is_never_accepted,
    an_own_id_that_is_forbidden_is_settled_for_every_node,
    live_and_ended_dispatches_are_not_forbidden,
    nodes_that_wait_are_told,
    a_node_that_is_gone_is_not_told,
    who_waits_for_a_stop_is_told_the_error_of_its_handler,
}

fn with_hash(lab: &Lab, name: &str, id_: &str, hash: &str) -> DispatchItem {
    DispatchItem { hash: hash.to_owned(), ..lab.item(name, id_) }
}

async fn an_own_id_stands_for_one_key_and_one_payload(lab: Lab) {
    let first = with_hash(&lab, "k", "node1.!order", "h");
    assert_eq!(lab.dispatch_all(&[first]).await, [DispatchReply::Accepted]);
    let before = lab.backend.dump().await;
    let items = [
        with_hash(&lab, "k", "node2.!order", "h"),
        with_hash(&lab, "k", "node2.!order", "other"),
        with_hash(&lab, "other", "node1.!order", "h"),
    ];
    let (accepted, conflict) = (DispatchReply::Accepted, DispatchReply::Conflict);
    assert_eq!(lab.dispatch_all(&items).await, [accepted, conflict.clone(), conflict]);
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.record("k").await.unwrap().id, id("node1.!order"));
}

async fn an_own_id_is_used_once_in_a_batch(lab: Lab) {
    let items = [
        with_hash(&lab, "k", "node1.!order", "h"),
        with_hash(&lab, "k", "node2.!order", "h"),
        with_hash(&lab, "other", "node1.!order", "h"),
    ];
    let (accepted, conflict) = (DispatchReply::Accepted, DispatchReply::Conflict);
    assert_eq!(lab.dispatch_all(&items).await, [accepted.clone(), accepted, conflict]);
    assert_eq!(lab.queued().await, 1);
}

async fn the_first_outcome_stays(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.!order", worker).await;
    assert_eq!(lab.lookup("k", "node1.!order").await.outcome, None);
    assert!(lab.started("k", worker).await);
    assert_eq!(lab.lookup("k", "node1.!order").await.outcome.as_deref(), Some("ok"));
    lab.release("k", worker, ReleaseMode::Delete).await;
    let found = lab.lookup("k", "node1.!order").await;
    assert_eq!((found.record, found.ended, found.outcome.as_deref()), (None, true, Some("ok")));
    assert_eq!(lab.lookup("k", "node2.!order").await.outcome.as_deref(), Some("ok"), "from any node");
    assert_eq!(lab.lookup("j", "node2.!order").await.outcome, None, "another job");
    assert_eq!(lab.lookup("k", "node1.order").await.outcome, None, "another dispatch");
    assert_eq!(lab.dispatch("k", "node2.!order").await, DispatchReply::Outcome("ok".into()));
}

async fn an_outcome_is_kept_for_its_time(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.!order", worker).await;
    let item = ReleaseItem { result: "e:no".into(), ..release("k", token, ReleaseMode::Delete) };
    lab.release_item(worker, item).await;
    let retention = u64::try_from(lab.settings.outcome_retention.as_millis()).unwrap();
    lab.sweep_after(retention - 1).await;
    assert_eq!(lab.dispatch("k", "node1.!order").await, DispatchReply::Outcome("e:no".into()));
    lab.sweep_after(1).await;
    let dump = lab.backend.dump().await;
    assert!(dump.get("outcomes").is_none() && dump.get("ended").is_none());
    assert_eq!(lab.dispatch("k", "node1.!order").await, DispatchReply::Accepted);
}

async fn a_stopped_job_has_an_outcome(lab: Lab) {
    lab.dispatch("k", "node1.!order").await;
    assert_eq!(lab.stop("k", "node1.!order", None).await, StopReply::Deleted);
    assert_eq!(lab.dispatch("k", "node1.!order").await, DispatchReply::Outcome("stopped".into()));
}

async fn a_job_that_outlives_its_ids_outcome_is_still_of_that_id(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.!order", worker).await;
    assert!(lab.started("k", worker).await);
    lab.sweep_after(u64::try_from(lab.settings.outcome_retention.as_millis()).unwrap()).await;
    assert!(lab.backend.dump().await.get("outcomes").is_none());
    assert_eq!(lab.dispatch("k", "node2.!order").await, DispatchReply::Accepted);
    assert_eq!(lab.dispatch("k", "node2.!other").await, DispatchReply::Exists);
    assert_eq!(lab.stop("k", "node2.!order", Some(worker)).await, StopReply::Stopping);
}

async fn forbid(lab: &Lab, name: &str, id_: &str) -> StopReply {
    let item = StopItem { forbid: true, ..stop(name, id_, None) };
    lab.step(&stopping(vec![item])).await.unwrap()[0]
}

async fn a_dispatch_that_is_forbidden_is_never_accepted(lab: Lab) {
    lab.dispatch("lives", "node1.other").await;
    for name in ["free", "lives"] {
        let id = format!("node1.{name}");
        assert_eq!(forbid(&lab, name, &id).await, StopReply::Absent);
        assert_eq!(forbid(&lab, name, &id).await, StopReply::Ended);
    }
    lab.stop("lives", "node1.other", None).await;
    for name in ["free", "lives"] {
        assert_eq!(lab.dispatch(name, &format!("node1.{name}")).await, DispatchReply::Ended);
        assert_eq!(lab.dispatch(name, "node1.next").await, DispatchReply::Accepted);
    }
    let late = u64::try_from(lab.settings.max_dispatch_deadline.as_millis()).unwrap();
    lab.sweep_after(late).await;
    assert!(lab.backend.dump().await.get("ended").is_none());
}

async fn an_own_id_that_is_forbidden_is_settled_for_every_node(lab: Lab) {
    assert_eq!(forbid(&lab, "k", "node1.!order").await, StopReply::Absent);
    assert_eq!(forbid(&lab, "k", "node2.!order").await, StopReply::Ended);
    for node in ["node1", "node2"] {
        let item = with_hash(&lab, "k", &format!("{node}.!order"), "h");
        assert_eq!(lab.dispatch_all(&[item]).await, [DispatchReply::Outcome("cancelled".into())]);
    }
    let other = with_hash(&lab, "j", "node1.!order", "h");
    assert_eq!(lab.dispatch_all(&[other]).await, [DispatchReply::Conflict]);
    lab.sweep_after(u64::try_from(lab.settings.outcome_retention.as_millis()).unwrap()).await;
    let dump = lab.backend.dump().await;
    assert!(dump.get("outcomes").is_none() && dump.get("ended").is_none());
}

async fn live_and_ended_dispatches_are_not_forbidden(mut lab: Lab) {
    lab.dispatch("k", "node1.!order").await;
    assert_eq!(forbid(&lab, "k", "node2.!order").await, StopReply::Deleted);
    assert_eq!(lab.lookup("k", "node1.!order").await.outcome.as_deref(), Some("cancelled"));
    lab.dispatch("j", "node1.!open").await;
    let before = lab.backend.dump().await;
    assert_eq!(forbid(&lab, "k", "node1.!order").await, StopReply::Ended);
    assert_eq!(forbid(&lab, "other", "node1.!open").await, StopReply::Absent, "the id is another job's");
    assert_eq!(lab.stop("other", "node1.g", None).await, StopReply::Absent, "nobody asked for it");
    assert_eq!(lab.backend.dump().await, before);
    lab.recover().await;
    let before = lab.backend.dump().await;
    assert_eq!(forbid(&lab, "unknown", "node1.g").await, StopReply::Recovering);
    assert_eq!(lab.backend.dump().await, before);
}

async fn outcomes_of(lab: &Lab, name: &str) -> Vec<(String, String)> {
    let events = lab
        .read(&ReadNode { node: node(name), cursors: Cursors::default(), max: 100, block: ms(0) })
        .await
        .unwrap();
    let outcomes = events.outcomes.into_iter().flat_map(|(_, outcomes)| outcomes);
    outcomes.map(|(id, outcome)| (id.to_string(), outcome)).collect()
}

async fn nodes_that_wait_are_told(lab: Lab, worker: WorkerId) {
    for name in ["node1", "node2"] {
        lab.step(&Renew { node: Some(node(name)), ..renew(&[worker]) }).await.unwrap();
    }
    let token = lab.run("k", "node1.g", worker).await;
    let item = StartedItem { key: key("k"), token, tell: Some(node("node1")) };
    for _ in 0..2 {
        assert_eq!(
            lab.step(&Started {
                starts: vec![WorkerStarts {
                    worker,
                    finished: vec![],
                    items: std::slice::from_ref(&item).to_vec()
                }]
            })
            .await
            .unwrap(),
            [true]
        );
    }
    let told = ("node1.g".to_owned(), "ok".to_owned());
    assert_eq!(outcomes_of(&lab, "node1").await, [told.clone(), told.clone()], "a hint may come twice");
    let item = ReleaseItem {
        tell: Some(node("node1")),
        tell_stopper: Some(node("node2")),
        result: "e:no".into(),
        ..release("k", token, ReleaseMode::Delete)
    };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
    let failed = ("node1.g".to_owned(), "e:no".to_owned());
    assert_eq!(outcomes_of(&lab, "node1").await, [told.clone(), told, failed.clone()]);
    assert_eq!(outcomes_of(&lab, "node2").await, [failed]);
    let hints = vec![(id("node2.h"), "parked".to_owned()), (id("node1.h"), "ok".to_owned())];
    lab.read(&Tell { outcomes: hints }).await.unwrap();
    assert_eq!(outcomes_of(&lab, "node2").await[1], ("node2.h".to_owned(), "parked".to_owned()));
}

async fn a_node_that_is_gone_is_not_told(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node9.g", worker).await;
    let item = StartedItem { key: key("k"), token, tell: Some(node("node9")) };
    assert_eq!(
        lab.step(&Started { starts: vec![WorkerStarts { worker, finished: vec![], items: vec![item] }] })
            .await
            .unwrap(),
        [true]
    );
    let item = ReleaseItem { tell: Some(node("node9")), ..release("k", token, ReleaseMode::Delete) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
    lab.read(&Tell { outcomes: vec![(id("node9.g"), "ok".to_owned())] }).await.unwrap();
    assert!(lab.backend.dump().await.get("node:node9").is_none());
}

async fn who_waits_for_a_stop_is_told_the_error_of_its_handler(lab: Lab, worker: WorkerId) {
    for name in ["node1", "node2"] {
        lab.step(&Renew { node: Some(node(name)), ..renew(&[worker]) }).await.unwrap();
    }
    for (name, stops) in [("stops", true), ("ends", false)] {
        let of = format!("node1.!{name}");
        let token = lab.run(name, &of, worker).await;
        if stops {
            lab.stop(name, &of, Some(worker)).await;
        }
        let item = ReleaseItem {
            tell: Some(node("node1")),
            tell_stopper: Some(node("node2")),
            result: format!("{STOP_FAILED}busy"),
            ..release(name, token, ReleaseMode::Delete)
        };
        assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
        let kept = if stops { "stopped" } else { "ended" };
        assert_eq!(outcomes_of(&lab, "node1").await.last(), Some(&(of.clone(), kept.to_owned())));
        assert_eq!(outcomes_of(&lab, "node2").await.last(), Some(&(of.clone(), "s:busy".to_owned())));
        assert_eq!(lab.lookup(name, &of).await.outcome.as_deref(), Some(kept));
    }
    // The error of a failed job may begin like that.
    let token = lab.run("fails", "node1.fails", worker).await;
    lab.stop("fails", "node1.fails", Some(worker)).await;
    let told = Some(node("node2"));
    let result = "s:mething".to_owned();
    let item = ReleaseItem {
        tell: told.clone(),
        tell_stopper: told,
        result,
        ..release("fails", token, ReleaseMode::Fail)
    };
    lab.release_item(worker, item).await;
    let told = outcomes_of(&lab, "node2").await;
    let as_it_is = ("node1.fails".to_owned(), "s:mething".to_owned());
    assert_eq!(told[told.len() - 2..], [as_it_is.clone(), as_it_is], "the error of a failure");
}
