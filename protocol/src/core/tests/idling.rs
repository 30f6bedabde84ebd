//! An engine that must wait for an event does not ask to be woken earlier. The bench checks this after every step of
//! every test. Here a part has due work that it may not do.

use super::bench::{Bench, config, entry, key, millis, present, secs, up};
use super::leaving::drained;
use crate::core::input::{Command, HandlerEvent, Input, LocalWorker, Until};
use crate::model::id::{Incarnation, WorkerId};
use crate::model::member::{Member, MemberState};
use crate::model::settings::ShutdownFlag;
use crate::step::{PoolEvent, PoolState, Refusal, Seat, ShutdownMode, StoreError, WorkerEvent};

/// The pool is in doubt, and the survey has no answer.
fn doubt(bench: &mut Bench) {
    let answer = Err(StoreError::OtherServer { run_id: "b".into() });
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    assert!(bench.is_calling("survey"));
    bench.advance(secs(30));
}

#[test]
fn before_the_pool_is_known() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.add_worker(1);
    bench.submit("k", "n.1", true, secs(20));
    bench.stop_job("k", None, Until::Recorded, secs(20));
    let (mode, deadline) = (ShutdownMode::DropQueued, bench.now + secs(20));
    bench.command(|reply| Command::Shutdown { reply, mode, deadline });
    assert_eq!(bench.after(secs(30)).of(&["join", "dispatch", "find", "shutdown"]), [""; 0]);
}

#[test]
fn in_phase_r() {
    let mut bench = Bench::new(config());
    bench.add_worker(1);
    bench.survey(present(1, true, "a"));
    assert_eq!(bench.after(secs(5)).of(&["join", "sweep", "read-pool"]), [""; 0]);
}

#[test]
fn while_calls_of_every_kind_wait_for_a_pool_in_doubt() {
    let mut bench = Bench::that_runs(3, &["a", "b", "c"]);
    bench.notify_event(1, 4, "c", 3);
    bench.assign(1, 5, 7, &["k"]);
    bench.handler(1, "a", 3, HandlerEvent::Ended(Ok(())));
    bench.submit("j", "n.1", true, secs(600));
    bench.stop_job("x", None, Until::Recorded, secs(600));
    let deadline = bench.now + secs(600);
    bench.command(|reply| Command::Notify { reply, key: key("y"), body: "z".into(), start: None, deadline });
    for kind in ["begin", "release", "take", "owned", "dispatch", "find", "notify", "read-node", "read-pool"]
    {
        bench.fail(kind);
    }
    bench.all();
    doubt(&mut bench);
    bench.survey(present(1, false, "a"));
    let calls = ["begin", "release", "take", "owned", "dispatch", "find", "notify", "read-node", "read-pool"];
    for kind in calls {
        assert!(bench.is_calling(kind), "{kind} is made again once the pool is known");
    }
}

#[test]
fn while_a_worker_that_leaves_waits_for_a_pool_in_doubt() {
    let mut bench = Bench::with_worker();
    bench.worker(2);
    bench.running_on(2, 3, &["k"]);
    bench.close(secs(600));
    bench.fail("drain");
    doubt(&mut bench);
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.advance(secs(30));
}

#[test]
fn while_entries_wait_to_be_deleted_in_a_pool_in_doubt() {
    let mut bench = Bench::with_worker();
    bench.event(1, 4, WorkerEvent::Unknown);
    bench.fail("begin");
    doubt(&mut bench);
}

#[test]
fn while_a_standby_may_not_settle() {
    let mut bench = Bench::attached();
    bench.add_worker(1);
    let member = Member { state: MemberState::Standby, slot: None, ..up(0) };
    let seat = Seat { worker: WorkerId(1), member, first: false };
    bench.answer_with("join", seat);
    let mut renewal = bench.renewal();
    renewal.flag = Some(ShutdownFlag::Closing { deadline_ms: 1, by: "m".into() });
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
    bench.all();
    assert_eq!(bench.after(secs(20)).of(&["settle"]), [""; 0]);
}

#[test]
fn while_a_worker_drains_with_moves_planned() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.set_member(2, up(1));
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    drained(&mut bench);
    bench.advance(secs(10));
}

#[test]
fn while_a_pool_stops_with_something_left_to_route() {
    let mut bench = Bench::that_runs(3, &["k"]);
    let event = PoolEvent { entry: entry(1), jobs: vec![(key("a"), 0)] };
    bench.answer_with("read-pool", Some(vec![event]));
    bench.fail_with("route", StoreError::Refused(Refusal::ShuttingDown));
    let mut renewal = bench.renewal();
    renewal.flag = Some(ShutdownFlag::Stopping { deadline_ms: None, by: "m".into() });
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
    bench.advance(secs(10));
}

#[test]
fn while_a_handler_outlives_its_pool() {
    let mut bench = Bench::with_worker();
    bench.command(|reply| Command::Attach { reply });
    bench.running(3, &["k"]);
    let answer = Err(StoreError::Refused(Refusal::Closed));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.survey(PoolState::Closed { incarnation: Incarnation(1) });
    bench.all();
    assert_eq!(bench.after(secs(100)).seen(), ["ABORT k@3", "! stuck k@3"]);
}

#[test]
fn it_reads_the_maps_again_and_many_members_less_often() {
    let mut bench = Bench::attached();
    bench.change_members(|members| members.extend((1_000..2_000).map(|id| (WorkerId(id), up(id as u32)))));
    let mut seen = Vec::new();
    for _ in 0..4 {
        bench.advance(secs(60));
        bench.answer_with("time", 1_000_000_u64);
        seen.extend(bench.of(&["reread"]));
    }
    assert_eq!(seen, ["reread", "reread members", "reread", "reread members"]);
}

#[test]
fn while_the_servers_clock_is_not_known() {
    let mut bench = Bench::new(config());
    bench.survey(present(1, false, "a"));
    bench.maps(1);
    bench.fail("time");
    bench.submit("k", "n.1", true, secs(600));
    bench.advance(secs(2));
    bench.answer_with("time", 1_000_000_u64);
    assert_eq!(bench.of(&["dispatch"]).len(), 1);
    bench.advance(millis(1));
}
