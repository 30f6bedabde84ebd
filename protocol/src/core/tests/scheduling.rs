//! Turns, ticks and plans, call by call.

use std::time::Duration;

use bytes::Bytes;

use super::bench::{Bench, id, key, millis, node, present, record, secs, server, up};
use crate::core::call::Call;
use crate::core::input::{Command, Input, LocalSchedule, NewSchedule, Planned, Wanted};
use crate::model::id::{Incarnation, JobKey, ScheduleId, ScheduleName, Term, WorkerId};
use crate::model::level::TooOld;
use crate::model::record::{JobState, Record};
use crate::step::{
    DispatchItem, DispatchReply, Holder, Lookup, PlannedPage, Refusal, ScheduleEntry, ScheduleKey,
    ScheduleKind, ScheduleState, StopReply, StoreError, TermReply, Terms, TickReply, UpdateReply,
};

const NOW: u64 = 1_000_000;
const LOCAL: LocalSchedule = LocalSchedule(1);
const KINDS: [&str; 14] = [
    "sched",
    "term",
    "tick",
    "plan-list",
    "plan-find",
    "plan-dispatch",
    "plan-stop",
    "PLAN",
    "ABORT-PLAN",
    "TICK",
    "ended",
    "reply",
    "!",
    "tell",
];

fn entry() -> ScheduleEntry {
    ScheduleEntry {
        id: ScheduleId(5),
        revision: 1,
        period: secs(10),
        next: NOW,
        ticks: 0,
        incarnation: Incarnation(1),
        term: Term(0),
        seq: 0,
        holder: None,
        tail: String::new(),
    }
}

/// The entry while another node holds the turn.
fn held(term: u64, seq: u64) -> ScheduleEntry {
    let holder = Some(Holder { node: node("other"), life: 9 });
    ScheduleEntry { term: Term(term), seq, holder, ..entry() }
}

fn add(bench: &mut Bench, kind: ScheduleKind) {
    let key = ScheduleKey { kind, name: ScheduleName::new("p").unwrap() };
    let new = NewSchedule { key, period: secs(10), life: 7 };
    bench.command(|reply| Command::Schedule { reply, local: LOCAL, new });
}

fn made(bench: &mut Bench, entry: ScheduleEntry) {
    bench.answer_with("sched", ScheduleState::Present { now: NOW, entry });
}

fn term(bench: &mut Bench, reply: TermReply) {
    let call = bench.call("term");
    let Call::Term(step, _) = &call else { panic!("{call:?}") };
    let replies = vec![reply; step.items.len()];
    bench.done(call.answered(Ok(Terms { now: NOW, replies })));
}

fn ticked(bench: &mut Bench, due: bool, entry: ScheduleEntry) {
    bench.answer_with("tick", TickReply { due, now: NOW, entry });
}

fn planned(bench: &mut Bench, run: u64, planned: Planned) {
    bench.step([Input::Planned { local: LOCAL, run, planned }]);
}

fn item(name: &str) -> DispatchItem {
    let id = id(&format!("n.{name}"));
    DispatchItem {
        key: key(name),
        id,
        not_after: 0,
        hash: String::new(),
        payload: Bytes::new(),
        worker: None,
        awaited: true,
    }
}

fn wanted(names: &[&str]) -> Wanted {
    Wanted { exactly: true, start: names.iter().map(|name| item(name)).collect(), ..Wanted::default() }
}

/// This node has the turn, and its first tick was given out.
fn planning(kind: ScheduleKind) -> Bench {
    let mut bench = Bench::attached();
    add(&mut bench, kind);
    made(&mut bench, entry());
    term(&mut bench, TermReply::Held(held(20, 1)));
    ticked(&mut bench, true, ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 1) });
    bench.all();
    bench
}

/// A node that has a schedule to make.
fn adding(kind: ScheduleKind) -> Bench {
    let mut bench = Bench::attached();
    add(&mut bench, kind);
    bench
}

#[test]
fn a_schedule_is_made_held_and_ticked() {
    let mut bench = adding(ScheduleKind::Plan);
    assert_eq!(bench.of(&KINDS), ["sched s:p create 10s first 0ms"]);
    made(&mut bench, entry());
    assert_eq!(bench.of(&KINDS), ["reply 1 scheduled ok", "term take s:p/5"]);
    term(&mut bench, TermReply::Held(held(20, 1)));
    assert_eq!(bench.of(&KINDS), ["tick s:p/5 1 in 20"]);
    ticked(&mut bench, true, ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 1) });
    assert_eq!(bench.of(&KINDS), ["PLAN 1 1 in 20"]);
}

#[test]
fn a_period_set_before_the_creation_is_applied_after_it() {
    let mut bench = adding(ScheduleKind::Plan);
    bench.command(|reply| Command::SetPeriod { reply, local: LOCAL, period: secs(20) });
    made(&mut bench, entry());
    let seen = ["sched s:p create 10s first 0ms", "reply 1 scheduled ok", "sched s:p/5 period 20s from 1"];
    assert_eq!(bench.of(&["sched", "reply"]), seen);
    made(&mut bench, ScheduleEntry { period: secs(20), revision: 2, ..entry() });
    assert_eq!(bench.of(&["sched", "reply"]), ["reply 2 scheduled ok"]);
}

#[test]
fn a_ticker_begins_after_its_period_and_hands_its_ticks_on() {
    let mut bench = adding(ScheduleKind::Ticker);
    assert_eq!(bench.of(&KINDS), ["sched t:p create 10s first 10s"]);
    made(&mut bench, entry());
    term(&mut bench, TermReply::Held(ScheduleEntry { next: NOW + 1_000, ..held(20, 1) }));
    bench.all();
    assert_eq!(bench.after(millis(999)).of(&["tick"]), [""; 0]);
    assert_eq!(bench.after(millis(1)).of(&["tick"]), ["tick t:p/5 1 in 20"]);
    ticked(&mut bench, true, ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 1) });
    assert_eq!(bench.of(&KINDS), ["TICK 1 1 in 20"]);
}

#[test]
fn a_plan_waits_a_little_longer_than_its_tick_by_chance() {
    let mut bench = planning(ScheduleKind::Plan);
    let mut late = Vec::new();
    for run in 1..=20 {
        planned(&mut bench, run, Planned::Failed("no".into()));
        // A tick that moves back by a millisecond each time is awaited anew.
        let due = Duration::from_millis(10_000 + run - 1);
        bench.advance(due.saturating_sub(millis(1)));
        assert!(!bench.is_calling("tick"));
        let mut later = Duration::ZERO;
        bench.advance(millis(1));
        while !bench.is_calling("tick") {
            bench.advance(millis(1));
            later += millis(1);
        }
        late.push(later);
        let next = NOW + 10_000 + run;
        ticked(&mut bench, true, ScheduleEntry { ticks: run + 1, next, ..held(20, 1) });
    }
    assert!(late.iter().all(|late| *late <= secs(1)), "{late:?}");
    late.sort_unstable();
    late.dedup();
    assert!(late.len() > 10, "{late:?}");
}

#[test]
fn a_living_holder_keeps_its_turn_and_a_stalled_one_loses_it() {
    let mut bench = adding(ScheduleKind::Plan);
    made(&mut bench, held(20, 1));
    assert_eq!(bench.of(&["term"]), ["term take s:p/5"]);
    // Its holder renews the term for a minute.
    for seq in 2..25 {
        term(&mut bench, TermReply::Other(held(20, seq)));
        bench.all();
        assert_eq!(bench.after(secs(2) + millis(750)).of(&["term"]), ["term take s:p/5"]);
    }
    // The holder falls silent: its last sign is a round old by now.
    let mut rounds = Vec::new();
    let mut silent = Duration::ZERO;
    while silent < secs(10) {
        term(&mut bench, TermReply::Other(held(20, 24)));
        bench.all();
        bench.advance(millis(2_750));
        silent += millis(2_750);
        rounds.extend(bench.of(&["term"]));
    }
    let (last, before) = rounds.split_last().unwrap();
    assert!(before.iter().all(|round| round == "term take s:p/5"), "{rounds:?}");
    assert_eq!(last, "term take s:p/5 seen=20:24");
    term(&mut bench, TermReply::Held(held(30, 1)));
    assert_eq!(bench.of(&["tick"]), ["tick s:p/5 1 in 30"]);
}

#[test]
fn a_silent_turn_is_taken_exactly_after_the_time_to_live() {
    let mut bench = adding(ScheduleKind::Plan);
    made(&mut bench, held(20, 1));
    let mut passed = Duration::ZERO;
    let end = loop {
        if bench.is_calling("term") {
            let seen = bench.of(&["term"]).iter().any(|line| line.contains("seen"));
            if seen {
                break passed;
            }
            term(&mut bench, TermReply::Other(held(20, 1)));
        }
        bench.advance(millis(1));
        passed += millis(1);
    };
    assert_eq!(end, secs(10));
}

/// Every node with the schedule would otherwise ask without a pause, and log each answer.
#[test]
fn a_turn_without_tokens_is_asked_for_once_a_round() {
    for made_by in [entry(), held(20, 1)] {
        let mut bench = adding(ScheduleKind::Plan);
        made(&mut bench, made_by);
        let (mut asked, mut reported) = (0, 0);
        for _ in 0..600 {
            if bench.is_calling("term") {
                term(&mut bench, TermReply::OutOfTokens);
                asked += 1;
            }
            reported += bench.of(&["!"]).len();
            bench.advance(millis(100));
        }
        // A round is T/4 and its jitter.
        assert!((15..=45).contains(&asked), "{asked} in a minute");
        assert_eq!(reported, asked);
    }
}

#[test]
fn a_tick_that_was_not_answered_is_asked_for_by_the_same_number() {
    let mut bench = adding(ScheduleKind::Ticker);
    made(&mut bench, entry());
    term(&mut bench, TermReply::Held(held(20, 1)));
    bench.fail("tick");
    bench.all();
    // Meanwhile it hears of the tick.
    assert_eq!(bench.after(secs(3)).of(&["tick"]), ["tick t:p/5 1 in 20"]);
    bench.fail("tick");
    term(&mut bench, TermReply::Held(ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 2) }));
    assert_eq!(bench.after(millis(100)).of(&["tick"]), ["tick t:p/5 1 in 20"]);
    ticked(&mut bench, true, ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 2) });
    assert_eq!(bench.of(&["TICK"]), ["TICK 1 1 in 20"]);
}

#[test]
fn a_tick_that_is_not_due_yet_is_not_asked_for_before_it_is() {
    let mut bench = adding(ScheduleKind::Ticker);
    made(&mut bench, entry());
    // The clock steps back meanwhile; by it the tick is due.
    let ahead = ScheduleEntry { next: NOW, ..held(20, 1) };
    term(&mut bench, TermReply::Held(ahead.clone()));
    bench.all();
    bench.answer_with("tick", TickReply { due: false, now: NOW - 10_000, entry: ahead });
    assert_eq!(bench.after(millis(9_999)).of(&["tick"]), [""; 0]);
    assert_eq!(bench.after(millis(1)).of(&["tick"]), ["tick t:p/5 1 in 20"]);
}

#[test]
fn a_plan_is_carried_out_in_pages_and_touches_its_own_jobs_only() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(wanted(&["b", "c", "e"])));
    assert_eq!(bench.of(&KINDS), ["plan-list"]);
    let of = |name: &str, plan: &str| {
        let mut record = record(name, 3, WorkerId(2));
        record.plan = plan.to_owned();
        (key(name), Some(record))
    };
    let first = PlannedPage {
        next: Some(key("b")),
        jobs: vec![of("a", "p"), of("b", "p"), of("c", "another"), (key("d"), None)],
    };
    bench.answer_with("plan-list", first);
    assert_eq!(bench.of(&KINDS), ["plan-list after=b", "plan-stop in 20: a/n.a owner=2"]);
    bench.answer_each("plan-stop", StopReply::Owner(Some(WorkerId(4))));
    assert_eq!(bench.of(&KINDS), ["plan-stop in 20: a/n.a owner=4"]);
    bench.answer_each("plan-stop", StopReply::Later);
    assert_eq!(bench.of(&KINDS), ["plan-stop in 20: a/n.a owner=4"], "the rest of a page");
    bench.answer_with("plan-list", PlannedPage::default());
    assert_eq!(bench.of(&KINDS), ["plan-dispatch in 20: c/n.c<1015000 e/n.e<1015000"]);
    // The answer is lost: the same call again.
    bench.fail("plan-dispatch");
    bench.all();
    assert_eq!(bench.after(millis(20)).of(&KINDS), ["plan-dispatch in 20: c/n.c<1015000 e/n.e<1015000"]);
    bench.answer_with("plan-dispatch", vec![DispatchReply::Exists, DispatchReply::Full]);
    assert_eq!(bench.of(&KINDS), ["plan-find c"], "and the stop is under way");
    found(&mut bench, &[Some(JobState::Running)]);
    bench.answer_each("plan-stop", StopReply::Stopping);
    let failed =
        "! plan-failed p '1 of its jobs are not as it wants them, the first: e: the pool's queue is full'";
    assert_eq!(bench.of(&KINDS), [failed]);
}

#[test]
fn a_planner_ends_its_schedule_in_its_turn_after_its_plan() {
    let mut bench = planning(ScheduleKind::Plan);
    let last = Wanted { start: vec![item("a")], ends: true, ..Wanted::default() };
    planned(&mut bench, 1, Planned::Made(last));
    assert_eq!(bench.of(&KINDS), ["plan-dispatch in 20: a/n.a<1015000"]);
    dispatched(&mut bench, &DispatchReply::Accepted);
    assert_eq!(bench.of(&KINDS), ["sched s:p/5 end term=20"]);
    bench.answer_with("sched", ScheduleState::Ended);
    assert_eq!(bench.of(&KINDS), ["ended 1"]);
}

#[test]
fn a_users_end_outlasts_a_planners_whose_turn_is_over() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(Wanted { ends: true, ..Wanted::default() }));
    assert_eq!(bench.of(&KINDS), ["sched s:p/5 end term=20"]);
    bench.command(|reply| Command::EndSchedule { reply, local: LOCAL });
    bench.fail_with("sched", StoreError::Refused(Refusal::StaleTerm));
    assert!(bench.of(&KINDS).contains(&"sched s:p/5 end".to_owned()));
}

/// The answer to a look-up of existing jobs.
fn found(bench: &mut Bench, states: &[Option<JobState>]) {
    let call = bench.call("plan-find");
    let Call::PlanFind(look, _) = &call else { panic!("{call:?}") };
    let found = |((key, _), state): (&(JobKey, _), &Option<JobState>)| Lookup {
        record: state.map(|state| Record { state, ..record(&key.to_string(), 3, WorkerId(2)) }),
        ..Lookup::default()
    };
    let found: Vec<_> = look.items.iter().zip(states).map(found).collect();
    bench.done(call.answered(Ok(found)));
}

/// The answer to the starts of a plan.
fn dispatched(bench: &mut Bench, reply: &DispatchReply) {
    bench.answer_each("plan-dispatch", reply.clone());
}

#[test]
fn a_planner_ends_no_schedule_while_a_job_is_not_as_wanted() {
    let mut bench = planning(ScheduleKind::Plan);
    let last = Wanted { start: vec![item("a")], ends: true, ..Wanted::default() };
    planned(&mut bench, 1, Planned::Made(last));
    bench.all();
    dispatched(&mut bench, &DispatchReply::Full);
    let seen = bench.of(&KINDS);
    assert!(matches!(&seen[..], [failed] if failed.starts_with("! plan-failed p ")), "{seen:?}");
    assert_eq!(bench.after(secs(11)).of(&["tick", "sched"]), ["tick s:p/5 2 in 20"]);
    ticked(&mut bench, true, ScheduleEntry { ticks: 2, next: NOW + 20_000, ..held(20, 1) });
    let last = Wanted { errors: vec!["no key".into()], ends: true, ..Wanted::default() };
    planned(&mut bench, 2, Planned::Made(last));
    assert_eq!(bench.of(&["sched"]), [""; 0]);
}

#[test]
fn a_wanted_job_starts_once_its_stopping_key_is_free() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(Wanted { start: vec![item("a")], ..Wanted::default() }));
    bench.all();
    dispatched(&mut bench, &DispatchReply::Exists);
    assert_eq!(bench.of(&KINDS), ["plan-find a"]);
    found(&mut bench, &[Some(JobState::Stopping)]);
    assert_eq!(bench.of(&KINDS), [""; 0]);
    assert_eq!(bench.after(millis(100)).of(&["plan-find"]), ["plan-find a"]);
    bench.fail("plan-find");
    assert_eq!(bench.after(millis(100)).of(&["plan-find"]), ["plan-find a"]);
    found(&mut bench, &[None]);
    assert_eq!(bench.of(&["plan-dispatch"]).len(), 1);
    dispatched(&mut bench, &DispatchReply::Accepted);
    assert_eq!(bench.of(&["!", "plan-find"]), [""; 0]);
}

#[test]
fn a_plan_waits_for_stopping_jobs_and_reports_parked_ones() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(wanted(&["a", "b"])));
    bench.all();
    let of = |name: &str, state| {
        let record = Record { state, plan: "p".into(), ..record(name, 3, WorkerId(2)) };
        (key(name), Some(record))
    };
    let jobs = vec![of("a", JobState::Stopping), of("b", JobState::Parked)];
    bench.answer_with("plan-list", PlannedPage { next: None, jobs });
    assert_eq!(bench.of(&KINDS), ["plan-find a"]);
    found(&mut bench, &[None]);
    assert_eq!(bench.of(&["plan-dispatch"]).len(), 1);
    dispatched(&mut bench, &DispatchReply::Accepted);
    let failed = "! plan-failed p '1 of its jobs are not as it wants them, the first: b: it is parked'";
    assert_eq!(bench.of(&KINDS), [failed]);
}

#[test]
fn a_job_that_does_not_end_delays_no_tick() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(Wanted { start: vec![item("a")], ..Wanted::default() }));
    bench.all();
    dispatched(&mut bench, &DispatchReply::Exists);
    let mut seen = Vec::new();
    for _ in 0..110 {
        if bench.is_calling("plan-find") {
            found(&mut bench, &[Some(JobState::Stopping)]);
        }
        if bench.is_calling("term") {
            term(&mut bench, TermReply::Held(ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 1) }));
        }
        bench.advance(millis(100));
        seen.extend(bench.of(&["!", "tick"]));
    }
    assert_eq!(seen, ["tick s:p/5 2 in 20"]);
    ticked(&mut bench, true, ScheduleEntry { ticks: 2, next: NOW + 20_000, ..held(20, 1) });
    let left =
        "! plan-failed p '1 of its jobs are not as it wants them, the first: a: it is still being stopped'";
    assert_eq!(bench.of(&["!"]), [left]);
    planned(&mut bench, 2, Planned::Made(Wanted { start: vec![item("b")], ..Wanted::default() }));
    assert_eq!(bench.of(&["plan-dispatch"]).len(), 1);
}

#[test]
fn a_plan_without_progress_gives_way_to_the_next_tick() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(Wanted { start: vec![item("a")], ..Wanted::default() }));
    bench.all();
    let mut passed = Duration::ZERO;
    let mut seen = Vec::new();
    while passed < secs(33) {
        if bench.is_calling("plan-dispatch") {
            bench.fail("plan-dispatch");
        }
        if bench.is_calling("term") {
            term(&mut bench, TermReply::Held(ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 1) }));
        }
        bench.advance(millis(100));
        passed += millis(100);
        seen.extend(bench.of(&["!", "tick"]).into_iter().filter(|line| !line.contains("trouble")));
    }
    let failed = "! plan-failed p 'nothing more of it could be done within 30s'";
    assert_eq!(seen, [failed, "tick s:p/5 2 in 20"]);
}

#[test]
fn a_start_that_comes_late_is_sent_again_after_a_pause() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(Wanted { start: vec![item("a")], ..Wanted::default() }));
    bench.all();
    dispatched(&mut bench, &DispatchReply::Late);
    assert_eq!(bench.of(&["plan-dispatch"]), [""; 0]);
    assert_eq!(bench.after(millis(20)).of(&["plan-dispatch"]), ["plan-dispatch in 20: a/n.a<1015020"]);
}

#[test]
fn a_plan_whose_turn_is_over_stops_where_it_is() {
    let mut bench = planning(ScheduleKind::Plan);
    let start = vec![item("a")];
    planned(&mut bench, 1, Planned::Made(Wanted { start, ..Wanted::default() }));
    bench.all();
    bench.fail_with("plan-dispatch", StoreError::Refused(Refusal::StaleTerm));
    assert_eq!(bench.of(&KINDS), ["term take s:p/5"]);
    term(&mut bench, TermReply::Other(held(30, 1)));
    bench.advance(secs(9));
    assert!(bench.of(&KINDS).iter().all(|line| line == "term take s:p/5"));
}

#[test]
fn a_slow_planner_is_aborted_and_renews_no_turn_until_its_end() {
    let mut bench = planning(ScheduleKind::Plan);
    let mut words = 0;
    for _ in 0..12 {
        bench.advance(millis(2_750));
        if bench.is_calling("term") {
            words += 1;
            term(
                &mut bench,
                TermReply::Held(ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, words) }),
            );
        }
    }
    let seen = bench.of(&["!", "ABORT-PLAN"]);
    assert_eq!(seen, ["! plan-failed p 'the plan took longer than 30s'", "ABORT-PLAN 1"]);
    bench.all();
    assert_eq!(bench.after(secs(30)).of(&KINDS), [""; 0], "it is stuck, and does not hold the turn");
    planned(&mut bench, 1, Planned::Aborted);
    bench.advance(secs(3));
    assert!(bench.of(&["term", "tick"]).contains(&"tick s:p/5 2 in 20".to_owned()));
}

#[test]
fn another_incarnation_ends_turns_and_recreates_schedules() {
    let mut bench = planning(ScheduleKind::Plan);
    bench.fail_with("sweep", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.survey_of(present(2, false, "a"), server("a"));
    let seen = bench.of(&["ABORT-PLAN", "sched"]);
    assert_eq!(seen[0], "ABORT-PLAN 1");
    bench.maps(2);
    assert!(bench.is_calling("sched"), "{:?}", bench.in_flight());
    let call = bench.call("sched");
    assert!(matches!(call, Call::Sched(..)));
}

#[test]
fn a_running_schedule_outlives_a_floor_that_is_set_back() {
    let mut bench = planning(ScheduleKind::Plan);
    bench.fail_with("sweep", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.survey_of(present(2, false, "a"), server("a"));
    bench.maps(2);
    bench.all();
    bench.fail_with("sched", StoreError::Refused(Refusal::Level(TooOld { floor: 2, level: 1 })));
    assert_eq!(bench.of(&["ended"]), [""; 0]);
    bench.command(|reply| Command::SetPeriod { reply, local: LOCAL, period: secs(20) });
    bench.command(|reply| Command::EndSchedule { reply, local: LOCAL });
    let replies = bench.of(&["reply"]);
    assert!(replies.len() == 2 && replies.iter().all(|reply| reply.contains("TooOld")), "{replies:?}");
    let answer = Ok(bench.renewal());
    bench.step([Input::Renewed { incarnation: Incarnation(2), workers: vec![], answer }]);
    assert_eq!(bench.after(millis(100)).of(&["sched"]), ["sched s:p create 10s first 0ms"], "it goes on");
}

#[test]
fn a_new_schedule_below_the_floor_is_refused_at_once() {
    let mut bench = adding(ScheduleKind::Plan);
    bench.all();
    bench.fail_with("sched", StoreError::Refused(Refusal::Level(TooOld { floor: 2, level: 1 })));
    let seen = bench.of(&["reply", "ended"]);
    assert!(seen.len() == 2 && seen[0].contains("TooOld") && seen[1] == "ended 1", "{seen:?}");
}

#[test]
fn a_schedule_below_the_floor_leaves_after_its_grace() {
    let mut bench = planning(ScheduleKind::Plan);
    let answer = Err(StoreError::Refused(Refusal::Level(TooOld { floor: 2, level: 1 })));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.all();
    bench.command(|reply| Command::LeaveSchedule { reply, local: LOCAL });
    assert_eq!(bench.of(&["ended"]), [""; 0], "its planner may still act");
    let grace = bench.engine.deadline().unwrap();
    assert!(grace <= bench.now + secs(2), "{grace:?}");
    bench.advance(secs(2));
    let seen = bench.of(&["reply", "ended"]);
    assert!(seen.len() == 2 && seen[0].ends_with("ok") && seen[1] == "ended 1", "{seen:?}");
}

#[test]
fn a_closing_node_first_leaves_its_turns_and_tells_others() {
    let mut bench = planning(ScheduleKind::Plan);
    bench.change_members(|members| {
        members.insert(WorkerId(9), up(0));
        let other = crate::model::member::Member { node: node("other"), ..up(1) };
        members.insert(WorkerId(10), other);
    });
    bench.all();
    bench.close(secs(30));
    assert_eq!(bench.of(&KINDS), ["ABORT-PLAN 1"]);
    planned(&mut bench, 1, Planned::Aborted);
    assert_eq!(bench.of(&KINDS), ["term leave s:p/5"]);
    assert!(!bench.is_calling("forget-node"));
    term(&mut bench, TermReply::Other(entry()));
    assert_eq!(bench.of(&KINDS), ["ended 1", "tell other.look=look"]);
}

#[test]
fn a_stuck_planner_delays_the_leaving_for_a_bounded_time() {
    let mut bench = planning(ScheduleKind::Plan);
    bench.command(|reply| Command::LeaveSchedule { reply, local: LOCAL });
    assert_eq!(bench.of(&KINDS), ["ABORT-PLAN 1"]);
    assert_eq!(bench.after(millis(1_999)).of(&KINDS), [""; 0]);
    assert_eq!(bench.after(millis(1)).of(&KINDS), ["term leave s:p/5"]);
}

#[test]
fn a_schedule_that_may_hold_the_turn_leaves_it() {
    let mut bench = adding(ScheduleKind::Plan);
    made(&mut bench, entry());
    bench.fail("term");
    bench.all();
    bench.command(|reply| Command::LeaveSchedule { reply, local: LOCAL });
    assert_eq!(bench.after(millis(100)).of(&["term", "ended"]), ["term leave s:p/5"]);
    term(&mut bench, TermReply::Other(entry()));
    assert_eq!(bench.of(&["term", "ended"]), ["ended 1"]);
}

#[test]
fn an_answer_that_was_overtaken_changes_nothing() {
    let mut bench = adding(ScheduleKind::Ticker);
    made(&mut bench, entry());
    let first = ScheduleEntry { next: NOW + 1_000, ..held(20, 1) };
    term(&mut bench, TermReply::Held(first.clone()));
    bench.advance(secs(1));
    ticked(&mut bench, true, ScheduleEntry { ticks: 1, next: NOW + 10_000, ..held(20, 1) });
    bench.all();
    assert_eq!(bench.after(secs(2)).of(&["term", "tick"]), ["term take t:p/5"]);
    term(&mut bench, TermReply::Held(ScheduleEntry { seq: 2, ..first }));
    assert_eq!(bench.after(secs(1)).of(&["tick"]), [""; 0]);
}

#[test]
fn an_entry_that_cannot_be_read_is_reported_once() {
    let mut bench = adding(ScheduleKind::Plan);
    made(&mut bench, entry());
    bench.all();
    let mut seen = Vec::new();
    for reply in [TermReply::Bad, TermReply::Bad, TermReply::Other(held(20, 1)), TermReply::Bad] {
        term(&mut bench, reply);
        seen.extend(bench.of(&["!"]));
        bench.advance(millis(2_750));
    }
    assert_eq!(seen, ["! bad-schedule s:p", "! bad-schedule s:p"]);
}

#[test]
fn in_an_outage_one_asks_for_all() {
    let mut bench = Bench::attached();
    for local in 1..=20 {
        let key = ScheduleKey { kind: ScheduleKind::Ticker, name: ScheduleName::new("p").unwrap() };
        let new = NewSchedule { key, period: secs(10), life: u64::from(local) };
        bench.command(|reply| Command::Schedule { reply, local: LocalSchedule(local), new });
    }
    let mut calls = 0;
    let fail_all = |bench: &mut Bench| {
        let mut failed = 0;
        while bench.is_calling("sched") {
            bench.fail("sched");
            failed += 1;
        }
        failed
    };
    assert_eq!(fail_all(&mut bench), 20);
    for _ in 0..100 {
        bench.advance(millis(100));
        calls += fail_all(&mut bench);
    }
    assert!((8..=14).contains(&calls), "{calls} in ten seconds");
    // One call is answered: all go on.
    while !bench.is_calling("sched") {
        bench.advance(millis(100));
    }
    bench.all();
    made(&mut bench, entry());
    bench.advance(millis(100));
    let sent = bench.of(&["sched"]);
    assert_eq!(sent.len(), 19, "{sent:?}");
}

#[test]
fn a_waiting_schedule_costs_one_item_per_quarter_of_the_ttl() {
    let mut bench = planning(ScheduleKind::Ticker);
    let mut words = 0;
    for _ in 0..600 {
        bench.advance(millis(100));
        if bench.is_calling("term") {
            words += 1;
            let entry = ScheduleEntry { ticks: 1, next: NOW + 3_600_000, ..held(20, words + 1) };
            term(&mut bench, TermReply::Held(entry));
        }
    }
    assert!((20..=24).contains(&words), "{words} in a minute");
    assert!(bench.of(&["tick"]).is_empty());
}

/// The plan wants k with this payload, and finds it in this generation.
fn replaces(bench: &mut Bench, run: u64, payload: &'static [u8], generation: u64) -> Vec<String> {
    let item = DispatchItem { payload: Bytes::from_static(payload), ..item("k") };
    let wanted = Wanted { exactly: true, replaces: true, start: vec![item], ..Wanted::default() };
    planned(bench, run, Planned::Made(wanted));
    let mut record = record("k", 3, WorkerId(2));
    record.plan = "p".into();
    record.set_generation(generation);
    let page = PlannedPage { next: None, jobs: vec![(key("k"), Some(record))] };
    bench.answer_with("plan-list", page);
    bench.of(&["plan-update", "!"])
}

fn replaced(bench: &mut Bench, reply: UpdateReply) {
    bench.answer_each("plan-update", reply);
}

/// The next tick of the turn.
fn next_tick(bench: &mut Bench, number: u64) {
    for _ in 0..200 {
        if bench.is_calling("tick") {
            break;
        }
        if bench.is_calling("term") {
            term(
                bench,
                TermReply::Held(ScheduleEntry { ticks: number - 1, next: NOW + 10_000, ..held(20, 1) }),
            );
        }
        bench.advance(millis(100));
    }
    ticked(bench, true, ScheduleEntry { ticks: number, next: NOW + 10_000 * number, ..held(20, 1) });
    bench.all();
}

#[test]
fn a_plan_replaces_what_has_changed_since_it_saw_it_kept() {
    let mut bench = planning(ScheduleKind::Plan);
    assert_eq!(
        replaces(&mut bench, 1, b"one", 0),
        ["plan-update in 20: k/n.k#0 owner=2"],
        "it knows nothing"
    );
    replaced(&mut bench, UpdateReply::Owner(Some(WorkerId(4))));
    assert_eq!(bench.of(&["plan-update"]), ["plan-update in 20: k/n.k#0 owner=4"]);
    bench.fail("plan-update");
    assert_eq!(bench.after(millis(20)).of(&["plan-update"]), ["plan-update in 20: k/n.k#0 owner=4"]);
    replaced(&mut bench, UpdateReply::Equal(0));
    for (number, payload, generation, then) in [
        (2, &b"one"[..], 0, None),
        (3, b"two", 0, Some(UpdateReply::Kept(1))),
        (4, b"two", 1, None),
        // Somebody else has updated it.
        (5, b"two", 2, Some(UpdateReply::Kept(3))),
        // Its answer says that it has changed again: the next plan looks anew.
        (6, b"two", 4, Some(UpdateReply::Conflict(5))),
        (7, b"two", 5, Some(UpdateReply::Kept(6))),
        (8, b"two", 6, None),
    ] {
        next_tick(&mut bench, number);
        let seen = replaces(&mut bench, number, payload, generation);
        assert_eq!(seen.len(), usize::from(then.is_some()), "tick {number}: {seen:?}");
        if let Some(reply) = then {
            replaced(&mut bench, reply);
        }
    }
}

#[test]
fn a_payload_that_cannot_be_replaced_is_reported() {
    let mut bench = planning(ScheduleKind::Plan);
    replaces(&mut bench, 1, b"one", 0);
    replaced(&mut bench, UpdateReply::TooLong);
    let failed =
        "! plan-failed p '1 of its jobs are not as it wants them, the first: k: its payload is too long'";
    assert_eq!(bench.of(&["!"]), [failed]);
}

#[test]
fn a_plan_that_does_not_say_it_replaces_nothing() {
    let mut bench = planning(ScheduleKind::Plan);
    planned(&mut bench, 1, Planned::Made(wanted(&["k"])));
    let mut record = record("k", 3, WorkerId(2));
    record.plan = "p".into();
    let page = PlannedPage { next: None, jobs: vec![(key("k"), Some(record))] };
    bench.answer_with("plan-list", page);
    assert_eq!(bench.of(&["plan-update"]), [""; 0]);
}
