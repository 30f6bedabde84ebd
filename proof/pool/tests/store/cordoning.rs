//! Cordons: nodes whose workers the ring gives no jobs.

use std::collections::BTreeSet;

use tenure_pool::store::{Cordon, PoolState, ReadState, Refusal, Renew, Route};
use tenure_protocol::model::id::{Revision, WorkerId};
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, key, node, renew};

scenarios! {
    a_cordon_makes_one_revision_and_may_be_repeated,
    a_late_copy_of_a_cordon_undoes_nothing,
    who_has_not_heard_of_a_cordon_assigns_nothing,
    a_cordon_outlasts_the_workers_of_its_node,
    a_cordon_before_the_first_worker_is_no_sign_of_a_loss,
    a_cordon_does_not_hide_that_the_members_were_lost,
    a_recovering_pool_keeps_its_cordons,
}

/// The cordoned nodes in the map of the members.
async fn cordoned(lab: &Lab) -> BTreeSet<String> {
    let revision = lab.revision().await;
    lab.store().expect(lab.inc, revision, Revision(1));
    let mut members = lab.store().members();
    let members = members.wait_for(|members| members.revision >= revision).await.unwrap();
    members.cordoned.iter().map(ToString::to_string).collect()
}

async fn cordon(lab: &Lab, name: &str, on: bool) {
    lab.step(&Cordon { seen: lab.revision().await, node: node(name), on }).await.unwrap();
}

async fn a_cordon_makes_one_revision_and_may_be_repeated(lab: Lab) {
    lab.worker().await;
    let before = lab.revision().await;
    for name in ["node2", "node1", "node2"] {
        cordon(&lab, name, true).await;
    }
    assert_eq!(lab.revision().await, Revision(before.0 + 2));
    assert_eq!(cordoned(&lab).await, ["node1", "node2"].map(String::from).into());
    for _ in 0..2 {
        cordon(&lab, "node2", false).await;
    }
    assert_eq!(lab.revision().await, Revision(before.0 + 3));
    assert_eq!(cordoned(&lab).await, ["node1".to_owned()].into());
}

async fn a_late_copy_of_a_cordon_undoes_nothing(lab: Lab) {
    lab.worker().await;
    let (seen, name) = (lab.revision().await, node("node1"));
    lab.step(&Cordon { seen, node: name.clone(), on: true }).await.unwrap();
    lab.step(&Cordon { seen, node: name.clone(), on: true }).await.expect("it is so already");
    cordon(&lab, "node1", false).await;
    let late = lab.refused(lab.step(&Cordon { seen, node: name, on: true })).await;
    assert_eq!(late, Refusal::StaleRing(lab.revision().await));
    assert!(cordoned(&lab).await.is_empty());
}

async fn who_has_not_heard_of_a_cordon_assigns_nothing(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.k").await;
    let (entries, before) = (vec![lab.starts().await[0].0], lab.revision().await);
    cordon(&lab, "node1", true).await;
    let jobs = vec![(key("k"), Some(worker))];
    let refusal = lab.refused(lab.step(&Route { ring: before, entries, jobs })).await;
    assert_eq!(refusal, Refusal::StaleRing(lab.revision().await));
}

async fn a_cordon_outlasts_the_workers_of_its_node(lab: Lab, worker: WorkerId) {
    cordon(&lab, "node1", true).await;
    lab.leave(worker).await;
    assert_eq!(cordoned(&lab).await, ["node1".to_owned()].into());
    lab.worker().await;
    assert_eq!(cordoned(&lab).await, ["node1".to_owned()].into());
    let figures = lab.backend.dump().await;
    assert!(figures.lines().iter().any(|line| line == "workers cordon:node1 = 1"), "{:?}", figures.lines());
}

async fn a_cordon_before_the_first_worker_is_no_sign_of_a_loss(kind: Kind) {
    let lab = Lab::with(kind, Settings::default()).await;
    cordon(&lab, "node1", true).await;
    let renewal = lab.step(&Renew { node: Some(node("node1")), ..renew(&[]) }).await.unwrap();
    assert_eq!((renewal.damage.as_str(), renewal.recovering), ("", false));
    let state = lab.read(&ReadState).await.unwrap();
    assert!(matches!(state, PoolState::Present { .. }), "{state:?}");
    lab.worker().await;
}

async fn a_cordon_does_not_hide_that_the_members_were_lost(lab: Lab) {
    lab.worker().await;
    lab.backend.lose("workers").await;
    let before = lab.backend.dump().await;
    let refused =
        lab.refused(lab.step(&Cordon { seen: lab.revision().await, node: node("node1"), on: true })).await;
    assert_eq!((refused, lab.backend.dump().await), (Refusal::Lost("m".into()), before));
}

async fn a_recovering_pool_keeps_its_cordons(mut lab: Lab) {
    lab.worker().await;
    cordon(&lab, "node1", true).await;
    lab.recover().await;
    assert_eq!(cordoned(&lab).await, ["node1".to_owned()].into());
    cordon(&lab, "node1", false).await;
    assert!(cordoned(&lab).await.is_empty());
}
