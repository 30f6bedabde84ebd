//! The words of nodes with workers about themselves, with their renewals.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_pool::store::{CleanUp, Join, JoinRequest, ReadStatuses, Renew, Settle, ShutDown, ShutdownMode};
use tenure_protocol::model::id::WorkerId;

use super::lab::{Kind, Lab, ms, node, renew};

scenarios! {
    a_node_says_the_last_thing_that_it_said,
    who_has_no_member_says_nothing,
    what_a_node_said_goes_with_its_last_worker,
    a_status_of_another_type_costs_no_lease,
    a_status_of_another_type_begins_anew,
    a_stray_status_goes_with_the_pool,
}

impl Lab {
    async fn say(&self, name: &str, workers: &[WorkerId], status: &'static str) {
        let (node, status) = (node(name), Bytes::from_static(status.as_bytes()));
        let renewal =
            self.step(&Renew { node: Some(node), status: status.clone(), ..renew(workers) }).await.unwrap();
        assert_eq!(renewal.states.len(), workers.len());
    }

    async fn said(&self) -> Vec<(String, Bytes)> {
        self.read(&ReadStatuses).await.unwrap().into_iter().collect()
    }

    async fn worker_of(&self, name: &str) -> WorkerId {
        let request = JoinRequest { node: node(name), ..self.request() };
        let seat = self.step(&Join { request: Box::new(request) }).await.unwrap();
        self.step(&Settle { worker: seat.worker }).await.unwrap().worker
    }
}

async fn a_node_says_the_last_thing_that_it_said(lab: Lab) {
    let (a, b) = (lab.worker_of("a").await, lab.worker_of("b").await);
    assert_eq!(lab.read(&ReadStatuses).await.unwrap(), BTreeMap::new());
    lab.say("a", &[a], "one").await;
    lab.say("b", &[b], "other").await;
    lab.say("a", &[a], "two").await;
    lab.say("a", &[a], "").await;
    let said = [("a", "two"), ("b", "other")].map(|(node, said)| (node.to_owned(), Bytes::from(said)));
    assert_eq!(lab.said().await, said);
}

async fn who_has_no_member_says_nothing(lab: Lab) {
    let worker = lab.worker_of("a").await;
    lab.say("client", &[], "hello").await;
    lab.say("late", &[WorkerId(worker.0 + 99)], "hello").await;
    assert_eq!(lab.said().await, []);
}

async fn what_a_node_said_goes_with_its_last_worker(lab: Lab) {
    let (first, second, other) =
        (lab.worker_of("a").await, lab.worker_of("a").await, lab.worker_of("b").await);
    lab.say("a", &[first, second], "a").await;
    lab.say("b", &[other], "b").await;
    let names = async || lab.said().await.into_iter().map(|(node, _)| node).collect::<Vec<_>>();
    lab.leave(first).await;
    assert_eq!(names().await, ["a", "b"]);
    lab.leave(second).await;
    assert_eq!(names().await, ["b"]);
    // A renewal that was on its way.
    lab.say("a", &[second], "a").await;
    assert_eq!(names().await, ["b"]);
    lab.leave(other).await;
    assert_eq!(names().await, Vec::<String>::new());
}

/// In memory no key is of another type.
async fn a_status_of_another_type_costs_no_lease(kind: Kind) {
    let Kind::Redis = kind else { return };
    let lab = Lab::new(kind).await;
    let worker = lab.worker_of("a").await;
    lab.backend.write("SET", "nodes", &["of another type"]).await;
    lab.say("a", &[worker], "hello").await;
    lab.leave(worker).await;
}

/// In memory no key is of another type.
async fn a_status_of_another_type_begins_anew(kind: Kind) {
    let Kind::Redis = kind else { return };
    let lab = Lab::new(kind).await;
    let worker = lab.worker_of("a").await;
    lab.backend.write("SET", "nodes", &["of another type"]).await;
    lab.say("a", &[worker], "hello").await;
    assert_eq!(lab.said().await, [("a".to_owned(), Bytes::from("hello"))]);
}

/// In memory no node is without a member.
async fn a_stray_status_goes_with_the_pool(kind: Kind) {
    let Kind::Redis = kind else { return };
    let lab = Lab::new(kind).await;
    lab.backend.write("HSET", "nodes", &["stray", "hello"]).await;
    lab.step(&ShutDown { by: node("a"), mode: ShutdownMode::DropQueued }).await.unwrap();
    lab.step(&CleanUp { tombstone: ms(60_000) }).await.unwrap();
    assert_eq!(lab.backend.dump().await.names().collect::<Vec<_>>(), ["pool"]);
}
