//! A node whose level is below the pool's floor: it says so, sends nothing but renewals, and comes back.

use super::bench::{Bench, key, millis, present, secs, server};
use crate::core::call::Call;
use crate::core::input::{Command, HandlerEvent, Input};
use crate::model::id::{Incarnation, WorkerId};
use crate::model::level::TooOld;
use crate::step::{NodeEvents, Refusal, Renewal, ShutdownMode, StoreError};

fn too_old() -> StoreError {
    StoreError::Refused(Refusal::Level(TooOld { floor: 2, level: 1 }))
}

impl Bench {
    /// A renewal is refused, because the floor is above the node's level.
    fn refused(&mut self) {
        let answer = Err(too_old());
        self.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    }
}

#[test]
fn a_node_below_the_floor_sends_nothing_but_renewals() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.refused();
    assert_eq!(bench.all(), ["stop-reading-pool", "! too old for 2"], "the other nodes route");
    bench.refused();
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    assert_eq!(bench.after(secs(120)).seen(), [""; 0], "it is said once");
    assert!(bench.is_calling("read-node"), "a node that does not read renews no lease");
    assert!(!bench.is_calling("read-pool"));
    bench.renewed();
    let again = bench.all();
    for call in ["release", "read-pool"] {
        assert!(again.iter().any(|line| line.starts_with(call)), "{call} in {again:#?}");
    }
}

#[test]
fn a_router_that_rested_counts_its_silence_anew() {
    let mut bench = Bench::attached();
    bench.refused();
    bench.advance(secs(120));
    bench.renewed();
    assert_eq!(bench.engine.status().routed, Some(bench.now), "it reads again from now on");
}

#[test]
fn a_node_below_the_floor_answers_its_callers_at_once() {
    let mut bench = Bench::attached();
    let deadline = bench.now + secs(5);
    bench.submit("k", "n.1", true, secs(5));
    bench.all();
    bench.refused();
    let told = "TooOld(TooOld { floor: 2, level: 1 })";
    assert_eq!(bench.of(&["reply"]), [format!("reply 1 submitted {told}")], "it waited");
    bench.submit("k", "n.2", false, secs(5));
    bench.command(|reply| Command::Unpark { reply, key: key("k"), deadline });
    bench.add_worker(1);
    bench.command(|reply| Command::Shutdown { reply, mode: ShutdownMode::DropQueued, deadline });
    let replies = bench.of(&["reply"]);
    assert_eq!(replies.len(), 4, "{replies:#?}");
    for reply in replies {
        assert!(reply.contains(told), "{reply}");
    }
    bench.fail_with("dispatch", too_old());
    bench.renewed();
    bench.advance(secs(1));
    for step in ["dispatch", "unpark", "join", "shutdown"] {
        assert!(!bench.is_calling(step), "{step}: its caller has its answer");
    }
}

#[test]
fn a_worker_below_the_floor_ends_with_its_lease() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.refused();
    bench.all();
    bench.step([Input::LeaseLost(WorkerId(1))]);
    assert_eq!(bench.seen(), ["! fenced 1 with 1", "fence 1", "STOP k@3 LeaseLost"]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.after(secs(60)).seen(), ["drop 1"], "the others notice that it is silent");
    bench.events(NodeEvents::default());
    bench.renewed();
    assert_eq!(bench.seen(), ["join 7.1.2 slot=0"], "it is accepted again");
}

#[test]
fn a_node_below_the_floor_can_be_closed() {
    let mut bench = Bench::with_worker();
    bench.refused();
    bench.close(secs(60));
    bench.step([Input::LeaseLost(WorkerId(1))]);
    assert!(bench.is_calling("forget-node"));
}

#[test]
fn a_node_below_the_floor_can_be_closed_while_its_pool_is_lost() {
    let mut bench = Bench::with_worker();
    let answer = Err(StoreError::OtherServer { run_id: "b".into() });
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.survey_of(present(1, false, "a"), server("b"));
    bench.fail_with("recover", too_old());
    bench.advance(millis(2_499));
    assert!(!bench.is_calling("survey"), "only a newer node can help");
    bench.close(secs(60));
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    assert!(bench.is_calling("forget-node"), "{:?}", bench.in_flight());
}

#[test]
fn the_floor_that_was_seen_goes_into_the_next_life_of_the_data() {
    let mut bench = Bench::attached();
    for floor in [3, 2] {
        let renewal = Renewal { floor, ..bench.renewal() };
        bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
    }
    let answer = Err(StoreError::OtherServer { run_id: "b".into() });
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.survey_of(present(1, false, "a"), server("b"));
    let call = bench.in_flight_call("recover");
    assert!(matches!(&call, Call::Recover(recover) if recover.seen.floor == 3), "{call:?}");
    // Another node has raised the floor meanwhile, above this one's level.
    bench.submit("k", "n.1", true, secs(5));
    bench.all();
    bench.fail_with("recover", too_old());
    assert_eq!(bench.of(&["reply"]).len(), 1, "it will not be the one that opens the pool");
    bench.advance(secs(5));
    bench.survey_of(present(2, false, "b"), server("b"));
    assert_eq!(bench.engine.status().floor, None, "nobody has told it that of this incarnation");
    bench.maps(2);
    bench.submit("k", "n.2", true, secs(5));
    assert_eq!(bench.of(&["reply"]), [""; 0], "in another incarnation it asks anew");
}
