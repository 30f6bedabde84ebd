//! Nodes that wait for jobs are woken.

use std::collections::BTreeSet;

use tenure_jobs::store::{Hint, Request, SettleReply, SteerReply, Taking, Ticked};

use super::lab::{Lab, START, Which, done, fail, node, queue, retry};

scenarios! {
    a_node_that_waits_is_woken_by_a_job,
    a_node_that_is_gone_is_passed_over,
    a_lost_wake_up_is_made_up_for_by_a_tick,
    lost_wake_ups_of_many_queues_are_made_up_for_at_once,
    a_node_behind_many_that_are_gone_is_woken_at_once,
    a_node_that_is_full_wakes_the_next,
    a_wake_up_for_another_queue_is_passed_on,
    a_node_that_may_take_a_job_is_woken_first,
    a_job_that_is_tried_again_wakes_a_node,
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
    for words in ["", "cap=9", "g"] {
        let lab = Lab::new(which, &[("a", words), ("b", "")]).await;
        lab.listen("n1").await;
        assert!(wait(&lab, "n1", &["a"], 4).await.is_empty());
        assert!(lab.registration.borrow().is_some());
        lab.add("b", &["k"]).await;
        assert!(lab.woken().await.is_empty());
        lab.add("a", &["j"]).await;
        assert_eq!(lab.woken().await, ["n1"], "{words}");
        lab.add("a", &["j2"]).await;
        assert!(lab.woken().await.is_empty(), "it is woken once");
    }
}

async fn a_node_that_may_take_a_job_is_woken_first(lab: Lab) {
    let wait_for = async |name: &str, until: u64| {
        let mut taking = Taking::new(node(name), queue("a"), 1);
        (taking.slots, taking.until) = (1, Some(until));
        lab.take_as(&taking).await
    };
    for name in ["early", "early2", "late", "any", "any2"] {
        lab.listen(name).await;
    }
    // Those that take less wait longer.
    wait_for("early", START - 2_000).await;
    wait_for("early2", START - 2_000).await;
    wait_for("late", START + 2_000).await;
    wait(&lab, "any", &["a"], 1).await;
    wait(&lab, "any2", &["a"], 1).await;
    for expected in ["any", "any2", "late", "early"] {
        lab.add("a", &[expected]).await;
        assert_eq!(lab.woken().await, [expected]);
    }
    assert!(wait_for("early", START - 2_000).await.is_empty(), "it is woken in vain, and holds up nobody");
    assert_eq!(wait_for("late", START + 2_000).await, ["any"]);
    assert_eq!(lab.woken().await, ["early2"], "more is left");
    // One that was scheduled early is for all.
    lab.add_one("a", "j", |kind| kind.due = START - 3_000).await;
    assert_eq!(lab.woken().await, ["early"]);
    assert_eq!(wait_for("early", START - 2_000).await, ["j"]);
}

async fn a_job_that_is_tried_again_wakes_a_node(which: Which) {
    for words in ["", "g"] {
        let lab = Lab::new(which, &[("a", words)]).await;
        lab.listen("n1").await;
        let token = lab.begin("a", &["j"]).await;
        assert!(wait(&lab, "n1", &["a"], 4).await.is_empty());
        assert_eq!(lab.settle_as("j", token, retry(0, "busy")).await, SettleReply::Pending);
        assert_eq!(lab.woken().await, ["n1"], "{words}");
    }
}

async fn a_node_that_is_gone_is_passed_over(lab: Lab) {
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

/// Ticks until nothing is left to do now, and says how often.
async fn tick_on(lab: &Lab) -> u32 {
    let mut ticks = 0;
    loop {
        ticks += 1;
        let Ticked::Done { next, .. } = lab.tick().await else { panic!() };
        if next > 0 {
            return ticks;
        }
        assert!(ticks < 20, "it comes to no end");
    }
}

async fn lost_wake_ups_of_many_queues_are_made_up_for_at_once(which: Which) {
    let lab = Lab::new(which, &[]).await;
    let names: Vec<_> = (0..150).map(|n| format!("q{n:03}")).collect();
    let queues: Vec<_> = names.iter().map(String::as_str).collect();
    for name in &queues {
        lab.declare(name, "").await;
    }
    for on in ["n1", "n2"] {
        lab.listen(on).await;
        wait(&lab, on, &queues, 1).await;
    }
    // Those before have nobody to wake.
    for name in &queues[100..] {
        lab.add(name, &[&format!("j-{name}")]).await;
    }
    assert_eq!(lab.woken().await, ["n1"; 50], "it dies now");
    assert_eq!(tick_on(&lab).await, 3, "64 queues a tick");
    let heard = lab.heard().await;
    let woken: BTreeSet<_> = heard
        .into_iter()
        .map(|(on, hint)| match hint {
            Hint::Ready(name, None) if on == "n2" => name.to_string(),
            other => panic!("{on} hears {other:?}"),
        })
        .collect();
    assert_eq!(woken, names[100..].iter().cloned().collect());
    assert_eq!(lab.dump().await.value("meta", "woken"), None);
}

async fn a_node_behind_many_that_are_gone_is_woken_at_once(lab: Lab) {
    let earlier = [("n1".to_owned(), Hint::Earlier)];
    lab.listen("n1").await;
    lab.tick().await;
    for n in 0..300 {
        wait(&lab, &format!("gone{n}"), &["a"], 1).await;
    }
    wait(&lab, "n1", &["a"], 1).await;
    lab.add("a", &["j"]).await;
    assert_eq!(lab.heard().await, earlier, "one call passes over so many only, and wants a tick now");
    assert_eq!(tick_on(&lab).await, 2, "so does one tick");
    assert_eq!(lab.woken().await, ["n1"]);
    assert_eq!(wait(&lab, "n1", &["a"], 1).await, ["j"]);
    // A queue that is opened again.
    lab.add("a", &["k"]).await;
    lab.declare("a", "shut").await;
    for n in 0..200 {
        wait(&lab, &format!("gone{n}"), &["a"], 1).await;
    }
    wait(&lab, "n1", &["a"], 1).await;
    lab.declare("a", "").await;
    assert_eq!(lab.heard().await, earlier);
    assert_eq!(tick_on(&lab).await, 1);
    assert_eq!(lab.woken().await, ["n1"]);
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

async fn a_registration_is_taken_back(lab: Lab) {
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
    for (name, end) in [("a", done()), ("a", fail("no")), ("g", done()), ("g", fail("no"))] {
        let lab = Lab::new(which, &[("a", "conc=1"), ("g", "g gconc=1")]).await;
        lab.listen("n1").await;
        lab.add(name, &["j1", "j2"]).await;
        assert_eq!(wait(&lab, "n1", &[name], 5).await, ["j1"]);
        assert!(lab.woken().await.is_empty());
        lab.settle("j1", end).await;
        assert_eq!(lab.woken().await, ["n1"], "{name}");
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
        lab.tick_after(1_000 - lab.now() % 1_000).await;
        assert_eq!(lab.woken().await, ["n1"]);
    }
}
