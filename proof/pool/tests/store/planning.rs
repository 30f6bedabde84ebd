//! Schedules: one turn at a time, each tick once, and a plan that changes its own jobs only, in its own turn.

use std::time::Duration;

use tenure_pool::store::{
    ChangeSchedule, CleanUp, Dispatch, DispatchReply, HoldTurns, ListPlanned, OpenNormal, Placing, Purge,
    ReadSchedules, Refusal, ReleaseMode, ScheduleChange, ScheduleEntry, ScheduleKey, ScheduleKind,
    ScheduleState, ShutDown, ShutdownMode, Stop, StopReply, TakeTick, TermItem, TermReply, TickReply, Turn,
    Update, UpdateReply,
};
use tenure_protocol::model::id::{ScheduleId, ScheduleName, Term};
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, Opens, key, ms, node, refusal, stop, stopping};
use super::updating::update;

scenarios! {
    all_schedules_are_listed,
    a_schedule_is_made_once,
    a_schedule_and_a_ticker_share_no_name,
    an_ended_schedule_is_gone_until_it_is_made_anew,
    a_late_change_of_the_period_undoes_no_other,
    a_shorter_period_brings_the_next_tick_forward,
    one_at_a_time_has_the_turn,
    a_turn_is_taken_from_a_holder_that_stands_still,
    a_turn_that_was_left_is_anybodys,
    a_turn_asked_for_again_is_the_same_turn,
    another_schedule_of_the_same_node_is_another_holder,
    terms_rise_and_are_never_used_again,
    a_new_turn_of_a_plan_begins_with_a_tick,
    a_tick_is_given_out_once_when_it_is_due,
    a_tick_whose_answer_was_lost_is_given_again,
    missed_ticks_are_not_made_up_for,
    a_clock_that_stepped_back_delays_no_tick_for_long,
    ticks_need_the_turn,
    planned_jobs_carry_their_plan,
    a_plan_finds_its_own_jobs_in_pages,
    a_plan_stops_only_its_own_jobs,
    a_plan_updates_only_its_own_jobs,
    a_planner_whose_turn_is_over_changes_nothing,
    a_recovery_ends_every_turn,
    every_end_of_a_job_takes_it_out_of_its_plan,
    a_pool_that_shuts_down_has_no_new_schedules_and_no_ticks,
    nothing_of_a_schedule_outlives_the_pool,
}

fn plan(name: &str) -> ScheduleKey {
    ScheduleKey { kind: ScheduleKind::Plan, name: ScheduleName::new(name).unwrap() }
}

fn ticker(name: &str) -> ScheduleKey {
    ScheduleKey { kind: ScheduleKind::Ticker, name: ScheduleName::new(name).unwrap() }
}

/// One schedule that beats every second, first at once.
struct Planned {
    lab: Lab,
    schedule: ScheduleKey,
    id: ScheduleId,
}

async fn change(lab: &Lab, schedule: &ScheduleKey, change: ScheduleChange) -> Option<ScheduleEntry> {
    match lab.step(&ChangeSchedule { schedule: schedule.clone(), change }).await.unwrap() {
        ScheduleState::Present { now, entry } => {
            assert_eq!(now, lab.backend.now());
            Some(entry)
        }
        ScheduleState::Ended => None,
        other @ ScheduleState::Bad { .. } => panic!("{other:?}"),
    }
}

async fn create(lab: &Lab, schedule: &ScheduleKey) -> ScheduleEntry {
    let make = ScheduleChange::Create { period: ms(1_000), first: ms(0) };
    change(lab, schedule, make).await.unwrap()
}

async fn all_schedules_are_listed(lab: Lab) {
    assert_eq!(lab.read(&ReadSchedules).await.unwrap(), []);
    let mut made = Vec::new();
    for schedule in [plan("p"), plan("t:x"), ticker("p")] {
        made.push((schedule.clone(), create(&lab, &schedule).await));
    }
    let mut listed = lab.read(&ReadSchedules).await.unwrap();
    listed.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(listed, made);
}

impl Opens for Planned {
    async fn open(kind: Kind) -> Self {
        Self::with(Lab::new(kind).await).await
    }
}

impl Planned {
    async fn with(lab: Lab) -> Self {
        let schedule = plan("p");
        let id = create(&lab, &schedule).await.id;
        Self { lab, schedule, id }
    }

    fn item(&self, life: u64, seen: Option<(Term, u64)>) -> TermItem {
        TermItem { schedule: self.schedule.clone(), id: self.id, life, leave: false, seen }
    }

    async fn say(&self, from: &str, item: TermItem) -> TermReply {
        let terms = self
            .lab
            .store()
            .run(self.lab.inc, &HoldTurns { node: node(from), items: vec![item] })
            .await
            .unwrap();
        assert_eq!(terms.now, self.lab.backend.now());
        terms.replies.into_iter().next().unwrap()
    }

    /// Asks for the turn, without having seen anything.
    async fn ask(&self, from: &str) -> TermReply {
        self.say(from, self.item(1, None)).await
    }

    async fn take(&self, from: &str) -> Turn {
        match self.ask(from).await {
            TermReply::Held(entry) => self.turn(entry.term),
            other => panic!("{other:?}"),
        }
    }

    fn turn(&self, term: Term) -> Turn {
        Turn { plan: self.schedule.name.clone(), id: self.id, term }
    }

    async fn tick(&self, turn: &Turn, number: u64) -> TickReply {
        self.lab
            .step(&TakeTick { schedule: self.schedule.clone(), turn: (turn.id, turn.term), number })
            .await
            .unwrap()
    }

    async fn entry(&self) -> ScheduleEntry {
        let text = self.lab.field("schedules", &self.schedule.to_string()).await.unwrap();
        ScheduleEntry::parse(&text).unwrap()
    }

    async fn dispatch(&self, turn: &Turn, names: &[&str]) -> Vec<DispatchReply> {
        let items: Vec<_> = names.iter().map(|name| self.lab.item(name, &dispatch(name))).collect();
        self.lab.step(&Dispatch { by: Placing::Turn(turn.clone()), items }).await.unwrap()
    }

    async fn stop(&self, turn: &Turn, name: &str) -> StopReply {
        let record = self.lab.record(name).await;
        let owner = record.and_then(|record| record.owner);
        let items = vec![stop(name, &dispatch(name), owner)];
        self.lab.step(&Stop { turn: Some(turn.clone()), repeat: false, waiting: None, items }).await.unwrap()
            [0]
    }

    async fn jobs(&self) -> Vec<String> {
        let page = self
            .lab
            .store()
            .run(self.lab.inc, &ListPlanned { plan: self.schedule.name.clone(), after: None, limit: 100 })
            .await
            .unwrap();
        assert_eq!(page.next, None);
        page.jobs.into_iter().map(|(key, _)| key.to_string()).collect()
    }
}

/// The id under which a key is dispatched.
fn dispatch(name: &str) -> String {
    format!("node1.{}", name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"))
}

fn held(reply: TermReply) -> ScheduleEntry {
    match reply {
        TermReply::Held(entry) => entry,
        other => panic!("{other:?}"),
    }
}

fn other(reply: TermReply) -> ScheduleEntry {
    match reply {
        TermReply::Other(entry) => entry,
        other => panic!("{other:?}"),
    }
}

async fn a_schedule_is_made_once(lab: Lab) {
    let first = create(&lab, &plan("p")).await;
    assert_eq!((first.revision, first.ticks, first.term), (1, 0, Term(0)));
    assert_eq!((first.period, first.next), (ms(1_000), lab.backend.now()));
    let before = lab.backend.dump().await;
    lab.backend.advance(10).await;
    let again = ScheduleChange::Create { period: ms(7), first: ms(7) };
    assert_eq!(change(&lab, &plan("p"), again).await, Some(first));
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_schedule_and_a_ticker_share_no_name(lab: Lab) {
    let ids = [create(&lab, &plan("x")).await.id, create(&lab, &ticker("x")).await.id];
    assert!(ids[0] < ids[1]);
    change(&lab, &plan("x"), ScheduleChange::End { id: ids[0], term: None }).await;
    assert_eq!(create(&lab, &ticker("x")).await.id, ids[1]);
}

async fn an_ended_schedule_is_gone_until_it_is_made_anew(made: Planned) {
    let end = || ScheduleChange::End { id: made.id, term: None };
    made.take("a").await;
    assert_eq!(change(&made.lab, &made.schedule, end()).await, None);
    assert_eq!(made.ask("a").await, TermReply::Ended);
    assert!(made.lab.backend.dump().await.get("schedules").is_none());
    let anew = create(&made.lab, &made.schedule).await;
    assert!(anew.id > made.id);
    assert_eq!(change(&made.lab, &made.schedule, end()).await, None, "a late one ends no successor");
    assert_eq!(made.ask("a").await, TermReply::Ended);
    assert_eq!(create(&made.lab, &made.schedule).await, anew);
}

async fn a_late_change_of_the_period_undoes_no_other(made: Planned) {
    let period = |revision, period| ScheduleChange::Period { id: made.id, revision, period: ms(period) };
    let first = change(&made.lab, &made.schedule, period(1, 2_000)).await.unwrap();
    assert_eq!((first.revision, first.period), (2, ms(2_000)));
    let second = change(&made.lab, &made.schedule, period(2, 3_000)).await.unwrap();
    assert_eq!((second.revision, second.period), (3, ms(3_000)));
    assert_eq!(change(&made.lab, &made.schedule, period(1, 2_000)).await, Some(second));
    let gone = ScheduleChange::Period { id: ScheduleId(made.id.0 + 1), revision: 3, period: ms(1) };
    assert_eq!(change(&made.lab, &made.schedule, gone).await, None);
}

async fn a_shorter_period_brings_the_next_tick_forward(lab: Lab) {
    let make = ScheduleChange::Create { period: ms(60_000), first: ms(60_000) };
    let made = change(&lab, &ticker("t"), make).await.unwrap();
    lab.backend.advance(1_000).await;
    let shorter = ScheduleChange::Period { id: made.id, revision: 1, period: ms(500) };
    assert_eq!(change(&lab, &ticker("t"), shorter).await.unwrap().next, lab.backend.now() + 500);
    let longer = ScheduleChange::Period { id: made.id, revision: 2, period: ms(9_000) };
    assert_eq!(change(&lab, &ticker("t"), longer).await.unwrap().next, lab.backend.now() + 500);
}

async fn one_at_a_time_has_the_turn(made: Planned) {
    let first = held(made.ask("a").await);
    assert_eq!((first.seq, first.holder.as_ref().unwrap().node.as_str()), (1, "a"));
    let before = made.lab.backend.dump().await;
    assert_eq!(other(made.ask("b").await), first);
    let stale = made.item(1, Some((first.term, 0)));
    assert_eq!(other(made.say("b", stale).await), first);
    assert_eq!(made.lab.backend.dump().await, before);
    assert_eq!(held(made.ask("a").await).seq, 2);
    let moved = made.item(1, Some((first.term, 1)));
    assert_eq!(other(made.say("b", moved).await).seq, 2, "it has said that it lives");
}

async fn a_turn_is_taken_from_a_holder_that_stands_still(made: Planned) {
    let first = held(made.ask("a").await);
    let seen = made.item(1, Some((first.term, first.seq)));
    let second = held(made.say("b", seen.clone()).await);
    assert!(second.term > first.term);
    assert_eq!(second.seq, 1);
    assert_eq!(other(made.ask("a").await).term, second.term);
    assert_eq!(other(made.say("c", seen).await).term, second.term, "it was seen of another turn");
}

async fn a_turn_that_was_left_is_anybodys(made: Planned) {
    let first = held(made.ask("a").await);
    let leave = TermItem { leave: true, ..made.item(1, None) };
    assert_eq!(other(made.say("b", leave.clone()).await), first, "only its holder leaves it");
    assert_eq!(other(made.say("a", leave.clone()).await).holder, None);
    let before = made.lab.backend.dump().await;
    assert_eq!(other(made.say("a", leave).await).holder, None);
    assert_eq!(made.lab.backend.dump().await, before);
    let refused = made
        .lab
        .store()
        .run(
            made.lab.inc,
            &TakeTick { schedule: made.schedule.clone(), turn: (made.id, first.term), number: 1 },
        )
        .await;
    assert_eq!(refusal(refused), Refusal::StaleTerm);
    assert!(held(made.ask("b").await).term > first.term);
}

async fn a_turn_asked_for_again_is_the_same_turn(made: Planned) {
    let first = held(made.ask("a").await);
    let seen = made.item(1, Some((first.term, first.seq)));
    let taken = held(made.say("b", seen.clone()).await);
    let again = held(made.say("b", seen).await);
    assert_eq!(again, ScheduleEntry { seq: 2, ..taken });
}

async fn another_schedule_of_the_same_node_is_another_holder(made: Planned) {
    let terms = [made.item(1, None), made.item(2, None), made.item(1, None)];
    let terms = made
        .lab
        .store()
        .run(made.lab.inc, &HoldTurns { node: node("a"), items: terms.to_vec() })
        .await
        .unwrap()
        .replies;
    let seqs: Vec<_> = terms.iter().map(|reply| matches!(reply, TermReply::Held(_))).collect();
    assert_eq!(seqs, [true, false, true]);
    assert_eq!(made.entry().await.seq, 2);
}

async fn terms_rise_and_are_never_used_again(mut made: Planned) {
    let mut last = made.id.0;
    for _ in 0..2 {
        let turn = made.take("a").await;
        assert!(turn.term.0 > last);
        let worker = made.lab.worker().await;
        assert!(worker.0 > turn.term.0, "terms and workers come from one counter");
        change(&made.lab, &made.schedule, ScheduleChange::End { id: made.id, term: None }).await;
        made.id = create(&made.lab, &made.schedule).await.id;
        assert!(made.id.0 > worker.0);
        last = made.id.0;
    }
}

async fn a_new_turn_of_a_plan_begins_with_a_tick(made: Planned) {
    let first = made.take("a").await;
    assert!(made.tick(&first, 1).await.due);
    assert!(held(made.ask("a").await).next > made.lab.backend.now(), "its own turn goes on");
    let leave = TermItem { leave: true, ..made.item(1, None) };
    assert!(other(made.say("a", leave).await).next > made.lab.backend.now());
    let second = made.take("b").await;
    assert_eq!(made.entry().await.next, made.lab.backend.now());
    assert!(made.tick(&second, 2).await.due);
    // A ticker that changes nodes keeps its beat.
    let beat = Planned { schedule: ticker("t"), id: create(&made.lab, &ticker("t")).await.id, ..made };
    let turn = beat.take("a").await;
    assert!(beat.tick(&turn, 1).await.due);
    let next = beat.entry().await.next;
    let leave = TermItem { leave: true, ..beat.item(1, None) };
    beat.say("a", leave).await;
    beat.take("b").await;
    assert_eq!(beat.entry().await.next, next);
}

async fn a_tick_is_given_out_once_when_it_is_due(made: Planned) {
    let turn = made.take("a").await;
    let first = made.tick(&turn, 1).await;
    assert_eq!((first.due, first.now, first.entry.ticks), (true, made.lab.backend.now(), 1));
    assert_eq!(first.entry.next, made.lab.backend.now() + 1_000);
    let before = made.lab.backend.dump().await;
    made.lab.backend.advance(999).await;
    for number in [0, 2, 3] {
        let early = made.tick(&turn, number).await;
        assert_eq!((early.due, early.entry.next), (false, first.entry.next), "{number}");
    }
    assert_eq!(made.lab.backend.dump().await, before);
    made.lab.backend.advance(1).await;
    assert!(!made.tick(&turn, 3).await.due, "its number is not the next");
    assert!(made.tick(&turn, 2).await.due);
}

async fn a_tick_whose_answer_was_lost_is_given_again(made: Planned) {
    let turn = made.take("a").await;
    let first = made.tick(&turn, 1).await;
    let before = made.lab.backend.dump().await;
    made.lab.backend.advance(5_000).await;
    let again = made.tick(&turn, 1).await;
    assert_eq!((again.due, again.entry), (true, first.entry));
    assert_eq!(made.lab.backend.dump().await, before);
    assert!(made.tick(&turn, 2).await.due);
}

async fn missed_ticks_are_not_made_up_for(made: Planned) {
    let turn = made.take("a").await;
    made.tick(&turn, 1).await;
    made.lab.backend.advance(1_200).await;
    let late = made.tick(&turn, 2).await;
    assert_eq!(late.entry.next, late.now + 800, "a little late: it stays in step");
    made.lab.backend.advance(10_000).await;
    let late = made.tick(&turn, 3).await;
    assert_eq!((late.due, late.entry.next), (true, late.now + 500));
}

async fn a_clock_that_stepped_back_delays_no_tick_for_long(made: Planned) {
    let turn = made.take("a").await;
    made.tick(&turn, 1).await;
    made.lab.backend.set_clock(made.lab.backend.now() - 3_600_000).await;
    assert_eq!(held(made.ask("a").await).next, made.lab.backend.now() + 1_000);
}

async fn ticks_need_the_turn(made: Planned) {
    let turn = made.take("a").await;
    let (lab, own) = (&made.lab, &made.schedule);
    let later = held(made.say("b", made.item(1, Some((turn.term, 1)))).await).term;
    let tick = |of: &ScheduleKey, id, term| TakeTick { schedule: of.clone(), turn: (id, term), number: 1 };
    let refusals = refusals![lab, lab.inc;
        tick(own, turn.id, turn.term),
        tick(own, ScheduleId(turn.id.0 + 1), later),
        tick(own, turn.id, Term(0)),
        tick(&ticker("p"), turn.id, later),
        ChangeSchedule {
            schedule: own.clone(),
            change: ScheduleChange::End { id: made.id, term: Some(turn.term) },
        },
    ];
    assert_eq!(refusals, vec![Refusal::StaleTerm; 5]);
    let end = ScheduleChange::End { id: made.id, term: Some(later) };
    assert_eq!(change(lab, &made.schedule, end).await, None);
}

async fn planned_jobs_carry_their_plan(made: Planned) {
    let turn = made.take("a").await;
    assert_eq!(made.dispatch(&turn, &["k", "l"]).await, [DispatchReply::Accepted, DispatchReply::Accepted]);
    let record = made.lab.record("k").await.unwrap();
    assert_eq!((record.state, record.plan.as_str()), (JobState::Queued, "p"));
    let before = made.lab.backend.dump().await;
    assert_eq!(made.dispatch(&turn, &["k"]).await, [DispatchReply::Accepted], "sent again");
    assert_eq!(made.lab.dispatch("k", "node1.other").await, DispatchReply::Exists);
    assert_eq!(made.lab.backend.dump().await, before);
    made.lab.dispatch("by hand", "node1.hand").await;
    assert_eq!(made.lab.record("by hand").await.unwrap().plan, "");
    assert_eq!(made.jobs().await, ["k", "l"]);
}

async fn a_plan_finds_its_own_jobs_in_pages(mut made: Planned) {
    // Names that begin alike, or end where a key begins.
    for name in ["p.", "p-", "o", "q", "pp", "p"] {
        made.schedule = plan(name);
        made.id = create(&made.lab, &made.schedule).await.id;
        let turn = made.take("a").await;
        let keys = ["c", "a", "b|", "|"].map(|key| format!("{key} of {name}"));
        made.dispatch(&turn, &keys.each_ref().map(String::as_str)).await;
    }
    assert_eq!(made.jobs().await, ["a of p", "b| of p", "c of p", "| of p"]);
    let page = made
        .lab
        .step(&ListPlanned { plan: made.schedule.name.clone(), after: None, limit: 2 })
        .await
        .unwrap();
    assert_eq!((page.jobs.len(), page.next.clone()), (2, Some(key("b| of p"))));
    let rest = made
        .lab
        .step(&ListPlanned { plan: made.schedule.name.clone(), after: page.next.clone(), limit: 3 })
        .await
        .unwrap();
    let rest: Vec<_> =
        rest.jobs.into_iter().map(|(key, record)| (key.to_string(), record.unwrap().plan)).collect();
    assert_eq!(rest, [("c of p".to_owned(), "p".to_owned()), ("| of p".to_owned(), "p".to_owned())]);
}

async fn a_plan_stops_only_its_own_jobs(made: Planned) {
    let turn = made.take("a").await;
    let worker = made.lab.worker().await;
    made.lab.dispatch("hand", "node1.hand").await;
    made.dispatch(&turn, &["queued", "running"]).await;
    made.lab.run_again("running", worker).await;
    assert_eq!(made.stop(&turn, "hand").await, StopReply::Absent);
    assert_eq!(made.stop(&turn, "queued").await, StopReply::Deleted);
    assert_eq!(made.stop(&turn, "running").await, StopReply::Stopping);
    assert_eq!(made.stop(&turn, "queued").await, StopReply::Ended);
    assert_eq!(made.jobs().await, ["running"]);
    assert_eq!(made.lab.record("hand").await.unwrap().state, JobState::Queued);
}

async fn a_plan_updates_only_its_own_jobs(made: Planned) {
    let turn = made.take("a").await;
    made.lab.dispatch("hand", "node1.hand").await;
    made.dispatch(&turn, &["k"]).await;
    let theirs = made.lab.record("k").await.unwrap().id.to_string();
    let items = vec![update("hand", "node1.hand", 0, None, "two"), update("k", &theirs, 0, None, "two")];
    let replies = made.lab.step(&Update { turn: Some(turn), items }).await.unwrap();
    assert_eq!(replies, [UpdateReply::Absent, UpdateReply::Kept(1)]);
    assert_eq!(made.lab.record("hand").await.unwrap().generation(), 0);
}

async fn a_planner_whose_turn_is_over_changes_nothing(made: Planned) {
    let turn = made.take("a").await;
    made.dispatch(&turn, &["k"]).await;
    held(made.say("b", made.item(1, Some((turn.term, 1)))).await);
    let lab = &made.lab;
    let stops = || vec![stop("k", "node1.k", None)];
    let unknown = Turn { plan: ScheduleName::new("unknown").unwrap(), ..turn.clone() };
    let refusals = refusals![lab, lab.inc;
        Dispatch { by: Placing::Turn(turn.clone()), items: vec![lab.item("l", "node1.l")] },
        Stop { turn: Some(turn.clone()), ..stopping(stops()) },
        Update { turn: Some(turn), items: vec![update("k", "node1.k", 0, None, "two")] },
        Stop { turn: Some(unknown), ..stopping(stops()) },
    ];
    assert_eq!(refusals, vec![Refusal::StaleTerm; 4]);
}

async fn a_recovery_ends_every_turn(mut made: Planned) {
    let turn = made.take("a").await;
    made.dispatch(&turn, &["k"]).await;
    made.lab.backend.advance(1).await;
    made.lab.recover().await;
    let lab = &made.lab;
    assert_eq!(
        lab.refused(lab.step(&HoldTurns { node: node("a"), items: vec![made.item(1, None)] })).await,
        Refusal::Recovering
    );
    let tick = TakeTick { schedule: made.schedule.clone(), turn: (turn.id, turn.term), number: 1 };
    assert_eq!(lab.refused(lab.step(&tick)).await, Refusal::Recovering);
    lab.step(&OpenNormal).await.unwrap();
    assert_eq!(lab.refused(lab.step(&tick)).await, Refusal::StaleTerm);
    let items = vec![lab.item("l", "node1.l")];
    assert_eq!(
        lab.refused(lab.step(&Dispatch { by: Placing::Turn(turn.clone()), items })).await,
        Refusal::StaleTerm
    );
    assert_eq!(made.jobs().await, ["k"]);
    let next = made.take("b").await;
    assert!(next.term > turn.term, "at once, without having seen anything");
    assert_eq!(made.stop(&next, "k").await, StopReply::Deleted);
}

async fn every_end_of_a_job_takes_it_out_of_its_plan(kind: Kind) {
    let lab = Lab::with(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    let made = Planned::with(lab).await;
    let turn = made.take("a").await;
    let (worker, dying) = (made.lab.worker().await, made.lab.worker().await);
    let names = ["released", "stopped", "parked", "stopped by hand", "reaped", "handed off", "purged"];
    made.dispatch(&turn, &names).await;
    made.lab.run_again("released", worker).await;
    made.lab.release("released", worker, ReleaseMode::Delete).await;
    made.lab.run_again("stopped", worker).await;
    made.stop(&turn, "stopped").await;
    made.lab.release("stopped", worker, ReleaseMode::HandOff).await;
    made.lab.run_again("parked", worker).await;
    made.lab.release("parked", worker, ReleaseMode::Fail).await;
    assert_eq!(made.jobs().await, ["handed off", "parked", "purged", "reaped", "stopped by hand"]);
    made.stop(&turn, "parked").await;
    made.lab.stop("stopped by hand", "node1.stopped_by_hand", None).await;
    made.lab.run_again("reaped", dying).await;
    made.stop(&turn, "reaped").await;
    made.lab.leave(dying).await;
    made.lab.run_again("handed off", worker).await;
    made.lab.release("handed off", worker, ReleaseMode::HandOff).await;
    assert_eq!(made.jobs().await, ["handed off", "purged"]);
    made.lab.step(&ShutDown { by: node("a"), mode: ShutdownMode::DropQueued }).await.unwrap();
    assert_eq!(made.lab.step(&Purge { limit: 10 }).await.unwrap().len(), 2);
    assert!(made.lab.backend.dump().await.get("planned").is_none());
}

async fn a_pool_that_shuts_down_has_no_new_schedules_and_no_ticks(made: Planned) {
    let turn = made.take("a").await;
    let lab = &made.lab;
    lab.step(&ShutDown { by: node("a"), mode: ShutdownMode::Closing(Duration::from_secs(9)) }).await.unwrap();
    let tick = TakeTick { schedule: made.schedule.clone(), turn: (turn.id, turn.term), number: 1 };
    assert_eq!(lab.refused(lab.step(&tick)).await, Refusal::ShuttingDown);
    let make = ScheduleChange::Create { period: ms(1), first: ms(0) };
    assert_eq!(
        lab.refused(lab.step(&ChangeSchedule { schedule: plan("new"), change: make.clone() })).await,
        Refusal::ShuttingDown
    );
    assert!(change(lab, &made.schedule, make).await.is_some(), "one that is there may be joined");
}

async fn nothing_of_a_schedule_outlives_the_pool(made: Planned) {
    let turn = made.take("a").await;
    create(&made.lab, &ticker("t")).await;
    made.dispatch(&turn, &["k"]).await;
    made.lab.backend.write_record(&key("k"), b"rubbish").await;
    assert_eq!(made.stop(&turn, "k").await, StopReply::Bad);
    made.lab.step(&ShutDown { by: node("a"), mode: ShutdownMode::DropQueued }).await.unwrap();
    made.lab.step(&CleanUp { tombstone: ms(60_000) }).await.unwrap();
    let dump = made.lab.backend.dump().await;
    assert!(dump.get("schedules").is_none() && dump.get("planned").is_none(), "{dump:?}");
}
