//! Nodes that wait for jobs are woken.

use tenure_jobs::store::{Request, SteerReply, Taking};

use super::lab::{Lab, Which, node, queue};

scenarios! {
    a_node_that_waits_is_woken_by_a_job,
    a_node_that_is_gone_is_passed_over,
    a_lost_wake_up_is_made_up_for_by_a_tick,
    a_node_that_is_full_wakes_the_next,
    a_wake_up_for_another_queue_is_passed_on,
    a_registration_is_taken_back,
    a_queue_that_is_resumed_wakes_its_nodes,
    a_slot_that_is_free_again_wakes_a_node,
    a_limit_that_is_over_wakes_a_node,
}

async fn wait(lab: &Lab, name: &str, queues: &[&str], slots: u32) -> Vec<String> {
    let mut taking = Taking::new(node(name), queue(queues[0]), slots);
    taking.queues = queues.iter().map(|name| (queue(name), 100)).collect();
    taking.slots = slots;
    lab.take_as(&taking).await
}

async fn a_node_that_waits_is_woken_by_a_job(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.listen("n1").await;
    assert!(wait(&lab, "n1", &["a"], 4).await.is_empty());
    assert!(lab.registration.borrow().is_some());
    lab.add("b", &["k"]).await;
    assert!(lab.woken().await.is_empty());
    lab.add("a", &["j"]).await;
    assert_eq!(lab.woken().await, ["n1"]);
    lab.add("a", &["j2"]).await;
    assert!(lab.woken().await.is_empty(), "it is woken once");
}

async fn a_node_that_is_gone_is_passed_over(which: Which) {
    let lab = Lab::new(which, &[("a", "")]).await;
    lab.listen("n1").await;
    wait(&lab, "gone", &["a"], 9).await;
    wait(&lab, "n1", &["a"], 1).await;
    lab.add("a", &["j"]).await;
    assert_eq!(lab.woken().await, ["n1"]);
    assert_eq!(lab.dump().await.get("waiting"), None);
}

async fn a_lost_wake_up_is_made_up_for_by_a_tick(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
    lab.listen("n1").await;
    lab.listen("n2").await;
    for name in ["a", "g"] {
        wait(&lab, "n1", &[name], 1).await;
        wait(&lab, "n2", &[name], 1).await;
        lab.add(name, &[&format!("{name}1")]).await;
        assert_eq!(lab.woken().await, ["n1"], "it dies now");
        lab.tick().await;
        assert_eq!(lab.woken().await, ["n2"]);
        assert_eq!(lab.take(name).await.len(), 1);
    }
}

async fn a_node_that_is_full_wakes_the_next(which: Which) {
    for name in ["a", "g"] {
        let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
        for i in 0..6 {
            lab.listen(&format!("n{i}")).await;
            wait(&lab, &format!("n{i}"), &[name], 1).await;
        }
        let jobs: Vec<_> = (0..10).map(|i| format!("j{i}")).collect();
        lab.add(name, &jobs.iter().map(String::as_str).collect::<Vec<_>>()).await;
        assert_eq!(lab.woken().await, ["n0", "n1", "n2", "n3"]);
        assert_eq!(wait(&lab, "n0", &[name], 1).await, ["j0"]);
        assert_eq!(lab.woken().await, ["n4"]);
        assert_eq!(wait(&lab, "n1", &[name], 1).await, ["j1"]);
        assert_eq!(lab.woken().await, ["n5"]);
    }
}

async fn a_wake_up_for_another_queue_is_passed_on(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.listen("n1").await;
    lab.listen("n2").await;
    wait(&lab, "n1", &["a", "b"], 1).await;
    wait(&lab, "n2", &["b"], 1).await;
    lab.add("a", &["j"]).await;
    lab.add("b", &["k"]).await;
    assert_eq!(lab.woken().await, ["n1", "n1"]);
    assert_eq!(wait(&lab, "n1", &["a", "b"], 1).await, ["j"]);
    assert_eq!(lab.woken().await, ["n2"]);
}

async fn a_registration_is_taken_back(which: Which) {
    let lab = Lab::new(which, &[("a", "")]).await;
    lab.listen("n1").await;
    wait(&lab, "n1", &["a"], 9).await;
    let mut taking = Taking::new(node("n1"), queue("a"), 9);
    taking.registration = lab.registration.take();
    taking.slots = 8;
    lab.take_as(&taking).await;
    assert_eq!(lab.dump().await.get("waiting").unwrap().len(), 1);
    taking.registration = lab.registration.take();
    taking.slots = 0;
    lab.take_as(&taking).await;
    assert_eq!(lab.dump().await.get("waiting"), None);
}

async fn a_queue_that_is_resumed_wakes_its_nodes(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
    lab.listen("n1").await;
    for name in ["a", "g"] {
        lab.add(name, &[&format!("{name}1")]).await;
        lab.request(Request::PauseQueue(queue(name), true)).await;
        wait(&lab, "n1", &[name], 1).await;
        assert_eq!(lab.request(Request::PauseQueue(queue(name), false)).await, SteerReply::Done);
        assert_eq!(lab.woken().await, ["n1"]);
        assert_eq!(lab.take(name).await.len(), 1);
    }
    wait(&lab, "n1", &["a"], 1).await;
    lab.add("a", &["a2"]).await;
    assert_eq!(lab.woken().await.len(), 1);
    lab.declare("a", "shut").await;
    wait(&lab, "n1", &["a"], 1).await;
    lab.declare("a", "").await;
    assert_eq!(lab.woken().await, ["n1"], "so does one that is opened again");
}

async fn a_slot_that_is_free_again_wakes_a_node(which: Which) {
    let lab = Lab::new(which, &[("a", "conc=1"), ("g", "g gconc=1")]).await;
    lab.listen("n1").await;
    for name in ["a", "g"] {
        lab.add(name, &[&format!("{name}1"), &format!("{name}2")]).await;
        assert_eq!(wait(&lab, "n1", &[name], 5).await, [format!("{name}1")]);
        assert!(lab.woken().await.is_empty());
        lab.done(&format!("{name}1")).await;
        assert_eq!(lab.woken().await, ["n1"]);
    }
}

async fn a_limit_that_is_over_wakes_a_node(which: Which) {
    let lab = Lab::new(which, &[("a", "limit=1/1000"), ("g", "g glimit=1/1000")]).await;
    lab.listen("n1").await;
    for name in ["a", "g"] {
        lab.add(name, &[&format!("{name}1"), &format!("{name}2")]).await;
        assert_eq!(wait(&lab, "n1", &[name], 5).await.len(), 1);
        let timer = if name == "a" { "g:a" } else { "g:g|" };
        assert!(lab.dump().await.value("timers", timer).is_some());
        lab.advance(1_000 - lab.now() % 1_000).await;
        lab.tick().await;
        assert_eq!(lab.woken().await, ["n1"]);
    }
}
