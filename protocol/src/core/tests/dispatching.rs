//! Dispatches are sent in natural batches, and settled once.

use tenure_steps::Failure;

use super::bench::{Bench, entry, id, millis, present, record, secs, up};
use crate::core::call::Call;
use crate::core::input::{Input, ReplyTo};
use crate::model::id::{Incarnation, WorkerId};
use crate::model::record::{Begun, JobState};
use crate::step::{DispatchReply, Lookup, NodeEvents, Refusal, StoreError};

fn replied(bench: &mut Bench, replies: Vec<DispatchReply>) {
    bench.answer_with("dispatch", replies);
}

fn found(bench: &mut Bench, lookup: Lookup) {
    bench.answer_with("lookup", vec![lookup]);
}

fn told(bench: &mut Bench, number: u64, dispatch: &str, outcome: &str) {
    let outcomes = vec![(entry(number), vec![(id(dispatch), outcome.to_owned())])];
    bench.events(NodeEvents { outcomes, ..NodeEvents::default() });
}

/// A dispatch of k that is accepted. Its caller waits for the start, at most 10 s.
fn accepted() -> Bench {
    let mut bench = Bench::that_submits("k", "n.1", secs(10));
    replied(&mut bench, vec![DispatchReply::Accepted]);
    assert_eq!(bench.seen(), ["dispatch k/n.1<1010000"]);
    bench
}

#[test]
fn items_that_arrive_during_a_call_are_the_next_batch() {
    let mut bench = Bench::attached();
    bench.submit("a", "n.1", false, secs(5));
    bench.submit("b", "n.2", false, secs(5));
    bench.submit("c", "n.3", false, secs(5));
    assert_eq!(bench.seen(), ["dispatch a/n.1<1005000"]);
    replied(&mut bench, vec![DispatchReply::Accepted]);
    assert_eq!(bench.seen(), ["reply 1 submitted ok", "dispatch b/n.2<1005000 c/n.3<1005000"]);
}

#[test]
fn a_dispatch_names_its_worker_by_this_nodes_ring() {
    let mut bench = Bench::with_other(9);
    bench.submit("a", "n.1", false, secs(5));
    assert_eq!(bench.seen(), ["dispatch a/n.1<1005000>9 at 1"]);
    bench.change_members(|members| {
        members.remove(&WorkerId(9));
        members.insert(WorkerId(10), up(0));
    });
    bench.all();
    bench.fail("dispatch");
    bench.advance(millis(20));
    assert_eq!(
        bench.seen(),
        ["! trouble", "dispatch a/n.1<1005000>10 at 2"],
        "picked anew when it is sent again"
    );
}

#[test]
fn an_abandoned_dispatch_is_placed_anew_when_resent() {
    let mut bench = Bench::with_other(9);
    bench.submit("a", "n.1", false, millis(10));
    bench.after(millis(10)).all();
    bench.change_members(|members| {
        members.remove(&WorkerId(9));
        members.insert(WorkerId(10), up(0));
    });
    bench.all();
    bench.fail("dispatch");
    assert_eq!(bench.after(millis(20)).seen(), ["! trouble", "dispatch a/n.1<1000010>10 at 2"]);
}

#[test]
fn the_ring_of_another_incarnation_places_nothing() {
    let mut bench = Bench::with_other(9);
    bench.lost(2);
    bench.reopened(2);
    bench.all();
    bench.submit("a", "n.1", false, secs(5));
    assert_eq!(bench.seen(), ["dispatch a/n.1<1005200"], "the maps of the new one have not come");
}

#[test]
fn a_deadline_is_sent_by_the_servers_clock_within_its_limit() {
    let mut bench = Bench::attached();
    bench.after(secs(2)).all();
    bench.submit("a", "n.1", false, secs(600));
    assert_eq!(bench.seen(), ["dispatch a/n.1<1031750"]);
}

#[test]
fn every_answer_settles_as_it_says() {
    let answers = [
        (DispatchReply::Accepted, "ok"),
        (DispatchReply::Exists, "JobExists"),
        (DispatchReply::Paused, "JobExists"),
        (DispatchReply::Full, "PoolFull"),
        (DispatchReply::Ended, "ok"),
        (DispatchReply::Conflict, "Conflict"),
        (DispatchReply::ShuttingDown, "ShuttingDown"),
        (DispatchReply::Bad, "BadRecord"),
        (DispatchReply::Outcome("ok".into()), "ok"),
        (DispatchReply::Outcome("stopped".into()), "ok"),
        (
            DispatchReply::Outcome("cancelled".into()),
            "Cancelled { ticket: Ticket { key: \"k\", id: DispatchId(\"n.1\") } }",
        ),
    ];
    for (answer, settled) in answers {
        let mut bench = Bench::attached();
        bench.submit("k", "n.1", false, secs(5));
        bench.all();
        replied(&mut bench, vec![answer]);
        assert_eq!(bench.seen(), [format!("reply 1 submitted {settled}")]);
    }
}

#[test]
fn every_outcome_settles_as_it_says() {
    let outcomes = [
        ("ok", "ok"),
        ("stopped", "Stopped"),
        ("parked", "Parked"),
        ("paused", "Paused"),
        ("shutdown", "ShuttingDown"),
        ("ended", "Ended"),
        ("cancelled", "Cancelled { ticket: Ticket { key: \"k\", id: DispatchId(\"n.1\") } }"),
        ("e:no route", "StartFailed(\"no route\")"),
    ];
    for (outcome, settled) in outcomes {
        let mut bench = accepted();
        told(&mut bench, 4, "n.1", outcome);
        assert_eq!(bench.seen(), [format!("reply 1 submitted {settled}")]);
        told(&mut bench, 5, "n.1", outcome);
        assert_eq!(bench.seen(), [""; 0], "once");
    }
}

#[test]
fn a_lost_hint_costs_one_look_after_a_second() {
    let mut bench = accepted();
    assert_eq!(bench.after(millis(999)).seen(), [""; 0]);
    assert_eq!(bench.after(millis(1)).seen(), ["lookup k/n.1"]);
    let running = record("1", 7, WorkerId(9));
    found(&mut bench, Lookup { record: Some(running), ..Lookup::default() });
    assert_eq!(bench.seen(), [""; 0], "begun, not started");
    bench.advance(secs(1));
    let mut started = record("1", 7, WorkerId(9));
    started.begun = Begun::Started;
    found(&mut bench, Lookup { record: Some(started), ..Lookup::default() });
    assert_eq!(bench.seen(), ["lookup k/n.1", "reply 1 submitted ok"]);
}

#[test]
fn the_answer_of_a_look_settles_a_dispatch() {
    let mut parked = record("1", 7, WorkerId(9));
    parked.state = JobState::Parked;
    let lookups = [
        (Lookup { record: Some(parked), ..Lookup::default() }, "Parked"),
        (Lookup { record: Some(record("2", 7, WorkerId(9))), ..Lookup::default() }, "JobExists"),
        (Lookup { outcome: Some("stopped".into()), ..Lookup::default() }, "Stopped"),
        (Lookup { bad: true, ..Lookup::default() }, "BadRecord"),
        (Lookup { bad_id: true, ..Lookup::default() }, "BadRecord"),
    ];
    for (lookup, settled) in lookups {
        let mut bench = accepted();
        bench.after(secs(1)).all();
        found(&mut bench, lookup);
        assert_eq!(bench.seen(), [format!("reply 1 submitted {settled}")]);
    }
}

/// Its outcome was written in the same step as its end, and may be read a moment later.
#[test]
fn an_end_whose_reason_is_on_its_way_waits_for_it() {
    let ended = || Lookup { ended: true, ..Lookup::default() };
    for (comes, settled) in [(true, "Stopped"), (false, "Ended")] {
        let mut bench = accepted();
        bench.after(secs(1)).all();
        found(&mut bench, ended());
        assert_eq!(bench.seen(), [""; 0]);
        if comes {
            told(&mut bench, 4, "n.1", "stopped");
        } else {
            bench.after(secs(1)).all();
            found(&mut bench, ended());
        }
        assert_eq!(bench.of(&["reply"]), [format!("reply 1 submitted {settled}")]);
    }
}

#[test]
fn an_unknown_dispatch_is_told_from_one_that_has_ended() {
    let lookups = [
        (Lookup::default(), "Unknown"),
        (Lookup { record: Some(record("2", 7, WorkerId(9))), ..Lookup::default() }, "Unknown"),
        (Lookup { ended: true, ..Lookup::default() }, "Ended"),
    ];
    for (lookup, settled) in lookups {
        let mut bench = Bench::attached();
        bench.wait("k", "n.1", secs(5));
        bench.all();
        found(&mut bench, lookup);
        assert_eq!(bench.seen(), [format!("reply 1 submitted {settled}")]);
    }
}

#[test]
fn nothing_is_known_for_sure_while_the_pool_recovers() {
    let mut bench = Bench::attached();
    bench.wait("k", "n.1", secs(5));
    bench.fail_with("sweep", StoreError::Refused(Refusal::Recovering));
    bench.all();
    found(&mut bench, Lookup::default());
    assert_eq!(bench.of(&["reply"]), [""; 0]);
}

#[test]
fn a_dispatch_that_the_store_forgot_is_sent_again_with_its_id() {
    let mut bench = accepted();
    bench.after(secs(1)).all();
    found(&mut bench, Lookup::default());
    assert_eq!(bench.seen(), ["dispatch k/n.1<1010000"]);
}

#[test]
fn at_the_deadline_it_is_said_why_the_store_did_not_answer() {
    let mut bench = Bench::that_submits("k", "n.1", secs(10));
    bench.fail_with("dispatch", StoreError::Unusable(Failure::new(std::io::Error::other("OOM"))));
    bench.all();
    bench.advance(secs(10));
    let seen = bench.of(&["reply"]);
    assert_eq!(seen, ["reply 1 submitted Deadline accepted=false since the store cannot be used"]);
}

/// A caller waits for a under the id x, and another dispatches b under it.
fn one_id_for_two_keys() -> Bench {
    let mut bench = Bench::attached();
    bench.wait("a", "n.!x", secs(10));
    bench.submit("b", "n.!x", true, secs(10));
    assert_eq!(bench.seen(), ["lookup a/n.!x", "dispatch b/n.!x<1010000"]);
    bench
}

#[test]
fn a_caller_of_another_key_under_an_id_is_not_told_of_this_one() {
    let mut bench = one_id_for_two_keys();
    found(&mut bench, Lookup { outcome: Some("ok".into()), ..Lookup::default() });
    assert_eq!(bench.seen(), [""; 0], "asked before");
    replied(&mut bench, vec![DispatchReply::Accepted]);
    assert_eq!(bench.seen(), ["reply 1 submitted Unknown"]);
    told(&mut bench, 4, "n.!x", "ok");
    assert_eq!(bench.seen(), ["reply 2 submitted ok"]);
}

#[test]
fn callers_of_the_right_key_outlast_others_of_the_same_id() {
    for (answer, settled) in [(DispatchReply::Conflict, "Conflict"), (DispatchReply::Full, "PoolFull")] {
        let mut bench = one_id_for_two_keys();
        found(&mut bench, Lookup::default());
        replied(&mut bench, vec![answer]);
        assert_eq!(bench.seen(), [format!("reply 2 submitted {settled}").as_str(), "lookup a/n.!x"]);
        found(&mut bench, Lookup { outcome: Some("ok".into()), ..Lookup::default() });
        assert_eq!(bench.seen(), ["reply 1 submitted ok"]);
    }
}

#[test]
fn a_hint_under_an_id_that_is_only_waited_for_is_looked_into() {
    let mut bench = Bench::attached();
    bench.wait("a", "n.!x", secs(10));
    let queued = crate::model::record::Record { begun: Begun::Never, ..record("!x", 7, WorkerId(9)) };
    found(&mut bench, Lookup { record: Some(queued), ..Lookup::default() });
    bench.all();
    told(&mut bench, 4, "n.!x", "ok");
    assert_eq!(bench.seen(), ["lookup a/n.!x"]);
}

#[test]
fn an_answer_to_an_ids_earlier_job_is_not_taken_for_the_present() {
    let mut bench = Bench::attached();
    bench.submit("a", "n.!x", false, millis(50));
    bench.all();
    assert_eq!(bench.after(millis(60)).of(&["reply"]).len(), 1, "its time is up");
    bench.submit("b", "n.!x", false, secs(10));
    replied(&mut bench, vec![DispatchReply::Accepted]);
    assert_eq!(bench.seen(), ["dispatch b/n.!x<1010060"]);
    told(&mut bench, 4, "n.!x", "ok");
    assert_eq!(bench.of(&["reply"]), [""; 0], "that is a's");
    replied(&mut bench, vec![DispatchReply::Conflict]);
    assert_eq!(bench.of(&["reply"]), ["reply 2 submitted Conflict"]);
}

#[test]
fn an_earlier_look_does_not_settle_an_uncompared_job() {
    let mut bench = Bench::that_submits("k", "n.!x", millis(1_500));
    replied(&mut bench, vec![DispatchReply::Accepted]);
    bench.advance(secs(1));
    bench.advance(millis(600));
    bench.submit("k", "n.!x", true, secs(10));
    let seen = bench.of(&["lookup", "reply", "dispatch"]);
    assert_eq!((seen.len(), seen[2].as_str()), (4, "reply 1 submitted Deadline accepted=true"), "{seen:?}");
    found(&mut bench, Lookup { outcome: Some("ok".into()), ..Lookup::default() });
    assert_eq!(bench.of(&["reply"]), [""; 0], "that is the first one's");
    replied(&mut bench, vec![DispatchReply::Conflict]);
    assert_eq!(bench.of(&["reply"]), ["reply 2 submitted Conflict"]);
}

#[test]
fn a_refusal_goes_to_the_caller_that_brought_the_job() {
    for (answer, told) in [(DispatchReply::Exists, "JobExists"), (DispatchReply::Full, "PoolFull")] {
        let mut bench = Bench::attached();
        bench.wait("k", "n.!x", secs(5));
        bench.submit("k", "n.!x", true, secs(10));
        found(&mut bench, Lookup::default());
        replied(&mut bench, vec![answer]);
        assert_eq!(bench.of(&["reply"]), [format!("reply 2 submitted {told}")]);
        found(&mut bench, Lookup::default());
        assert_eq!(bench.of(&["reply"]), ["reply 1 submitted Unknown"]);
    }
}

#[test]
fn a_dispatch_without_callers_is_not_looked_up() {
    let mut bench = accepted();
    bench.step([Input::Withdrawn { id: id("n.1"), reply: ReplyTo(1) }]);
    assert_eq!(bench.after(secs(20)).of(&["lookup", "dispatch", "reply"]), [""; 0]);
}

#[test]
fn an_abandoned_dispatch_is_sent_until_it_is_accepted() {
    let mut bench = Bench::that_submits("k", "n.1", secs(10));
    bench.step([Input::Withdrawn { id: id("n.1"), reply: ReplyTo(1) }]);
    bench.all();
    bench.advance(secs(2));
    bench.fail("dispatch");
    assert_eq!(bench.after(secs(1)).of(&["dispatch"]), ["dispatch k/n.1<1010000"]);
    replied(&mut bench, vec![DispatchReply::Accepted]);
    assert_eq!(bench.after(secs(20)).of(&["lookup", "dispatch", "reply"]), [""; 0]);
}

#[test]
fn at_the_deadline_it_is_said_whether_it_was_accepted() {
    let mut bench = accepted();
    bench.submit("j", "n.2", true, secs(10));
    bench.all();
    bench.advance(secs(10));
    let seen = bench.of(&["reply"]);
    let replies = ["reply 1 submitted Deadline accepted=true", "reply 2 submitted Deadline accepted=false"];
    assert_eq!(seen, replies);
}

#[test]
fn a_dispatch_late_by_the_servers_clock_reads_it_and_goes_again() {
    let mut bench = Bench::that_submits("k", "n.1", secs(10));
    bench.all();
    replied(&mut bench, vec![DispatchReply::Late]);
    assert_eq!(bench.all(), ["time"]);
    bench.answer_with("time", 5_000_000_u64);
    assert_eq!(bench.after(millis(100)).seen(), ["dispatch k/n.1<5010000"]);
}

#[test]
fn one_that_meets_a_recovering_pool_is_sent_again_after_a_pause() {
    let mut bench = Bench::that_submits("k", "n.1", secs(10));
    bench.all();
    replied(&mut bench, vec![DispatchReply::Recovering]);
    assert_eq!(bench.seen(), [""; 0]);
    assert_eq!(bench.after(millis(100)).seen(), ["dispatch k/n.1<1010000"]);
}

#[test]
fn a_call_without_an_answer_is_sent_again_with_the_same_ids() {
    let mut bench = Bench::attached();
    bench.submit("a", "n.1", false, secs(5));
    bench.submit("b", "n.2", false, secs(5));
    bench.all();
    bench.fail("dispatch");
    assert_eq!(bench.after(millis(20)).seen(), ["! trouble", "dispatch a/n.1<1005000 b/n.2<1005000"]);
}

#[test]
fn another_incarnation_is_sent_what_the_old_one_had_accepted() {
    let mut bench = accepted();
    bench.submit("j", "n.2", true, secs(10));
    bench.fail_with("dispatch", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.after(millis(20)).all();
    bench.survey(present(2, false, "a"));
    assert_eq!(bench.of(&["dispatch"]), ["dispatch j/n.2<1010000 k/n.1<1010000"]);
}

#[test]
fn one_id_is_one_dispatch_for_all_callers() {
    let mut bench = accepted();
    bench.submit("k", "n.1", true, secs(10));
    bench.submit("k", "n.1", false, secs(10));
    assert_eq!(bench.seen(), ["reply 3 submitted ok"], "accepted already");
    bench.submit("j", "n.1", true, secs(10));
    assert_eq!(bench.seen(), ["reply 4 submitted Conflict"]);
    told(&mut bench, 4, "n.1", "ok");
    assert_eq!(bench.seen(), ["reply 1 submitted ok", "reply 2 submitted ok"]);
}

#[test]
fn each_waiter_of_one_dispatch_waits_until_its_own_deadline() {
    let mut bench = accepted();
    bench.submit("k", "n.1", true, millis(500));
    bench.submit("k", "n.1", true, secs(20));
    bench.all();
    assert_eq!(bench.after(millis(500)).of(&["reply"]), ["reply 2 submitted Deadline accepted=true"]);
    assert_eq!(bench.after(millis(9_500)).of(&["reply"]), ["reply 1 submitted Deadline accepted=true"]);
    told(&mut bench, 4, "n.1", "ok");
    assert_eq!(bench.of(&["reply"]), ["reply 3 submitted ok"]);
}

#[test]
fn a_ticket_is_waited_for_by_looking() {
    let mut bench = Bench::attached();
    bench.wait("k", "m.1", secs(5));
    assert_eq!(bench.seen(), ["lookup k/m.1"]);
    found(&mut bench, Lookup::default());
    assert_eq!(bench.seen(), ["reply 1 submitted Unknown"]);
}

#[test]
fn a_forgotten_accepted_dispatch_is_not_accepted_again() {
    let mut bench = accepted();
    bench.advance(secs(1));
    found(&mut bench, Lookup::default());
    assert_eq!(bench.of(&["dispatch"]), ["dispatch k/n.1<1010000"], "the time of the first sending");
    replied(&mut bench, vec![DispatchReply::Late]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 submitted Ended"]);
}

#[test]
fn a_forgotten_dispatch_has_not_ended_while_the_pool_recovers() {
    let mut bench = accepted();
    bench.advance(secs(1));
    found(&mut bench, Lookup::default());
    bench.fail_with("dispatch", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.advance(millis(20));
    bench.survey(present(2, true, "a"));
    replied(&mut bench, vec![DispatchReply::Late]);
    assert_eq!(bench.of(&["reply"]), [""; 0], "it may run, and its worker has not said so yet");
    bench.advance(millis(200));
    bench.survey(present(2, false, "a"));
    replied(&mut bench, vec![DispatchReply::Late]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 submitted Ended"]);
}

#[test]
fn a_dispatch_never_accepted_gets_a_time_by_the_new_clock() {
    let mut bench = Bench::that_submits("k", "n.1", secs(10));
    replied(&mut bench, vec![DispatchReply::Late]);
    bench.answer_with("time", 2_000_000_u64);
    bench.all();
    assert_eq!(bench.after(millis(100)).of(&["dispatch"]), ["dispatch k/n.1<2010000"]);
}

#[test]
fn a_dispatch_in_doubt_is_not_accepted_after_its_time() {
    let mut bench = Bench::that_submits("k", "n.1", secs(600));
    bench.all();
    bench.fail("dispatch");
    assert_eq!(bench.after(millis(20)).of(&["dispatch"]), ["dispatch k/n.1<1029750"], "as it was sent first");
    replied(&mut bench, vec![DispatchReply::Late]);
    assert_eq!(bench.of(&["reply"]), ["reply 1 submitted Deadline accepted=false"]);
}

#[test]
fn a_dispatch_surely_not_executed_is_sent_with_a_new_time() {
    let mut bench = Bench::that_submits("k", "n.1", secs(600));
    bench.all();
    bench.fail_with("dispatch", StoreError::NotExecuted(Failure::new(std::fmt::Error)));
    bench.advance(millis(20));
    replied(&mut bench, vec![DispatchReply::Late]);
    bench.answer_with("time", 2_000_000_u64);
    bench.all();
    assert_eq!(bench.after(millis(100)).of(&["dispatch"]), ["dispatch k/n.1<2029850"]);
}

#[test]
fn an_own_id_is_known_from_any_node() {
    let mut bench = Bench::that_submits("k", "n.!order", secs(10));
    replied(&mut bench, vec![DispatchReply::Accepted]);
    bench.after(secs(1)).all();
    let mut started = record("1", 7, WorkerId(9));
    (started.id, started.begun) = (id("m.!order"), Begun::Started);
    found(&mut bench, Lookup { record: Some(started), ..Lookup::default() });
    assert_eq!(bench.seen(), ["reply 1 submitted ok"]);
}

#[test]
fn a_dispatch_that_was_only_awaited_is_sent_once_submitted() {
    let mut bench = Bench::attached();
    bench.wait("k", "n.!order", secs(5));
    bench.submit("k", "n.!order", false, secs(10));
    assert_eq!(bench.seen(), ["lookup k/n.!order", "dispatch k/n.!order<1010000"]);
    found(&mut bench, Lookup::default());
    replied(&mut bench, vec![DispatchReply::Accepted]);
    assert_eq!(bench.of(&["reply"]), ["reply 2 submitted ok"]);
}

#[test]
fn a_submitted_job_whose_start_somebody_awaits_says_so() {
    let mut bench = Bench::attached();
    bench.submit("first", "n.first", true, secs(10));
    for (name, joined) in [("k", true), ("l", false)] {
        let own = format!("n.!{name}");
        bench.submit(name, &own, false, secs(10));
        if joined {
            bench.submit(name, &own, true, secs(10));
        }
    }
    replied(&mut bench, vec![DispatchReply::Accepted]);
    let Call::Dispatch(step) = bench.call("dispatch") else { panic!("a dispatch") };
    assert_eq!(step.items.iter().map(|item| item.awaited).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn only_the_caller_of_a_conflicting_job_is_told_of_it() {
    let mut bench = Bench::attached();
    bench.wait("k", "n.!order", secs(5));
    let mut running = record("k", 7, WorkerId(9));
    running.id = id("m.!order");
    found(&mut bench, Lookup { record: Some(running.clone()), ..Lookup::default() });
    bench.submit("k", "n.!order", true, secs(10));
    replied(&mut bench, vec![DispatchReply::Conflict]);
    assert_eq!(bench.of(&["reply"]), ["reply 2 submitted Conflict"]);
    bench.advance(secs(1));
    running.begun = Begun::Started;
    found(&mut bench, Lookup { record: Some(running), ..Lookup::default() });
    assert_eq!(bench.of(&["reply"]), ["reply 1 submitted ok"]);
}

#[test]
fn a_dispatch_past_its_deadline_leaves_its_lane() {
    let mut bench = Bench::that_submits("a", "n.0", secs(600));
    for number in 1..=200 {
        bench.submit("b", &format!("n.{number}"), true, millis(50));
    }
    bench.submit("c", "n.201", true, secs(600));
    bench.all();
    bench.advance(millis(60));
    replied(&mut bench, vec![DispatchReply::Accepted]);
    assert_eq!(bench.of(&["dispatch"]), ["dispatch c/n.201<1029810"]);
}
