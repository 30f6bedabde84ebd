//! Asks: the asker's attempts, and the owner's words.

use std::time::Duration;

use bytes::Bytes;
use tenure_steps::Failure;

use super::bench::{Bench, config, key, millis, node, record, secs, unanswered, up};
use super::leaving::drained;
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent, Input, NewAsk, ReplyTo};
use crate::model::id::{Token, WorkerId};
use crate::model::record::{JobState, Record};
use crate::step::{AskEvent, AskId, AskReply, Lookup, NodeEvents, ReplyReply, Said, StoreError, WorkerEvent};

/// The bench's node has the nonce 7.
fn attempt(number: u64) -> AskId {
    AskId { life: 7, number }
}

impl Bench {
    /// Asks the job `k`, within 10 s.
    pub(super) fn ask(&mut self, idempotent: bool) {
        let deadline = self.now + secs(10);
        let ask =
            NewAsk { key: key("k"), body: "body".into(), name: Some("name".into()), idempotent, deadline };
        self.command(|reply| Command::Ask { reply, ask });
    }

    pub(super) fn asked(&mut self, reply: AskReply) {
        self.answer_each("ask", reply);
    }

    pub(super) fn looked(&mut self, found: Option<Record>) {
        let found = Lookup { record: found, ..Lookup::default() };
        self.answer_with("look", vec![found]);
    }

    pub(super) fn said(&mut self, number: u64, said: Said) {
        self.events(NodeEvents { replies: vec![(attempt(number), said)], ..NodeEvents::default() });
    }

    /// An ask that stands in the stream of worker 5, under token 8.
    pub(super) fn sent(&mut self, idempotent: bool) {
        self.ask(idempotent);
        self.asked(AskReply::Owner(Some((WorkerId(5), Token(8)))));
        self.asked(AskReply::Sent);
        self.all();
    }

    /// An attempt comes for a job of worker 1 under token 7.
    pub(super) fn ask_event(&mut self, entry: u64, number: u64, poke: bool) {
        let id = AskId { life: 1, number };
        let (name, token) = (format!("ask-{number}"), Token(7));
        let ask = AskEvent { id, name, token, not_after: 1_010_000, poke, body: "body".into() };
        self.event(1, entry, WorkerEvent::Ask { asker: node("asker"), asks: vec![(key("k"), ask)] });
    }

    pub(super) fn answers(&mut self, number: u64) {
        let event = HandlerEvent::Answered(AskId { life: 1, number }, Said::Answer("yes".into()));
        self.handler(1, "k", 7, event);
    }

    pub(super) fn replied(&mut self, reply: ReplyReply) {
        self.answer_each("reply", reply);
    }

    fn lines(&mut self) -> Vec<String> {
        self.of(&["ask", "asked", "look", "reply", "ASK", "release"])
    }
}

fn found(token: u64, state: JobState) -> Record {
    Record { state, ..record("k", token, WorkerId(5)) }
}

#[test]
fn the_first_ask_learns_the_owner_and_the_next_one_knows_it() {
    let mut bench = Bench::attached();
    bench.ask(false);
    assert_eq!(bench.lines(), ["ask k@0 1 ask"]);
    bench.asked(AskReply::Owner(Some((WorkerId(5), Token(8)))));
    assert_eq!(bench.lines(), ["ask k@8 1 ask"], "the same attempt: token 0 is nobody's");
    bench.asked(AskReply::Sent);
    bench.said(1, Said::Answer("yes".into()));
    assert_eq!(bench.lines(), ["reply 1 asked yes"]);
    bench.ask(false);
    assert_eq!(bench.lines(), ["ask k@8 2 ask"]);
}

#[test]
fn an_attempt_under_a_dead_token_is_made_anew() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.said(1, Said::Answer("yes".into()));
    bench.ask(false);
    bench.asked(AskReply::Owner(Some((WorkerId(6), Token(9)))));
    assert_eq!(bench.lines(), ["reply 1 asked yes", "ask k@8 2 ask", "ask k@9 3 ask"]);
    bench.asked(AskReply::Sent);
    bench.said(2, Said::Answer("late".into()));
    assert_eq!(bench.lines(), [""; 0], "an earlier attempt");
}

#[test]
fn a_lower_token_is_waited_for() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.said(1, Said::Answer("yes".into()));
    bench.ask(false);
    bench.asked(AskReply::Owner(Some((WorkerId(5), Token(6)))));
    bench.all();
    bench.advance(millis(5));
    assert_eq!(bench.lines(), ["ask k@8 2 ask"], "the data went back");
}

#[test]
fn who_waits_asks_again_after_growing_pauses() {
    let mut bench = Bench::attached();
    bench.ask(false);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        bench.asked(AskReply::Waiting);
        let from = bench.now;
        while !bench.is_calling("ask") {
            bench.advance(millis(5));
        }
        pauses.push(bench.now.since(from).as_millis());
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 250, 250]);
    assert!(bench.lines().iter().all(|line| line == "ask k@0 1 ask"), "nothing of it stands anywhere");
}

#[test]
fn what_nobody_will_run_is_an_error_at_once() {
    let answers = [
        (AskReply::Absent, "no job has this key"),
        (AskReply::Stopping, "the job is being stopped"),
        (AskReply::Parked, "the job is parked"),
        (AskReply::Crowded, "too many asks wait for the job"),
    ];
    for (reply, why) in answers {
        let mut bench = Bench::attached();
        bench.ask(true);
        bench.asked(reply);
        assert_eq!(bench.of(&["reply"]), [format!("reply 1 asked: nobody was asked: {why}")]);
    }
}

#[test]
fn a_call_without_an_answer_is_followed_by_a_poke() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.said(1, Said::Answer("yes".into()));
    bench.ask(false);
    bench.all();
    bench.fail("ask");
    bench.advance(millis(50));
    assert_eq!(bench.lines(), ["ask k@8 2 poke"]);
    bench.asked(AskReply::Sent);
    bench.said(2, Said::Missed);
    bench.advance(millis(5));
    assert_eq!(bench.lines(), ["ask k@0 3 ask"], "it was refused for good");
}

#[test]
fn a_call_that_was_not_carried_out_is_made_again() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.said(1, Said::Answer("yes".into()));
    bench.ask(false);
    bench.all();
    let refused = StoreError::NotExecuted(Failure::new(std::io::Error::other("refused")));
    bench.fail_with("ask", refused);
    bench.advance(millis(50));
    assert_eq!(bench.lines(), ["ask k@8 2 ask"]);
}

#[test]
fn a_silent_owner_is_poked_after_a_look() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.advance(secs(1));
    assert_eq!(bench.lines(), ["look k"]);
    bench.looked(Some(found(8, JobState::Running)));
    assert_eq!(bench.lines(), ["ask k@8 1 poke"]);
    bench.asked(AskReply::Sent);
    bench.advance(millis(999));
    assert_eq!(bench.lines(), [""; 0]);
    bench.advance(millis(1));
    bench.looked(Some(found(8, JobState::Stopping)));
    assert_eq!(bench.lines(), ["look k"], "what stops takes no poke");
}

#[test]
fn a_dead_token_leaves_an_ask_unknown() {
    let others = [(8, JobState::Queued), (9, JobState::Running), (8, JobState::Parked)];
    let others = others.map(|(token, state)| Some(found(token, state)));
    for record in others.into_iter().chain([None]) {
        let mut bench = Bench::attached();
        bench.sent(false);
        bench.advance(secs(1));
        let record = record.map(|record| match record.state {
            JobState::Running => record,
            state => Record { state, owner: None, ..record },
        });
        bench.looked(record.clone());
        bench.advance(secs(1));
        assert_eq!(bench.lines(), ["look k", "look k"], "its worker's last word may be on its way");
        bench.looked(record);
        let unknown = "reply 1 asked: the ask name has no answer, it may have been handled";
        assert_eq!(bench.lines(), [unknown]);
    }
}

#[test]
fn a_last_word_that_comes_after_the_look_counts() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.advance(secs(1));
    bench.looked(Some(found(9, JobState::Running)));
    bench.said(1, Said::Moved);
    bench.advance(millis(5));
    assert_eq!(bench.lines(), ["look k", "ask k@0 2 ask"]);
    bench.asked(AskReply::Sent);
    bench.advance(secs(1));
    bench.looked(None);
    assert_eq!(bench.lines(), ["look k"], "of another attempt");
}

#[test]
fn an_idempotent_ask_goes_to_the_next_owner() {
    let mut bench = Bench::attached();
    bench.sent(true);
    bench.advance(secs(1));
    bench.looked(Some(found(9, JobState::Running)));
    assert_eq!(bench.lines(), ["look k", "ask k@0 2 ask"]);
    bench.asked(AskReply::Absent);
    let unknown = "reply 1 asked: the ask name has no answer, it may have been handled";
    assert_eq!(bench.lines(), [unknown], "the first owner may have done it");
}

#[test]
fn an_idempotent_ask_follows_the_job_of_a_worker_that_left() {
    let leaves = |bench: &mut Bench| bench.change_members(|members| drop(members.remove(&WorkerId(5))));
    let mut bench = Bench::attached();
    bench.set_member(5, up(3));
    bench.sent(true);
    leaves(&mut bench);
    bench.looked(Some(found(8, JobState::Running)));
    assert_eq!(bench.lines(), ["look k"], "nobody has taken it from its worker so far");
    bench.advance(millis(5));
    bench.looked(Some(found(8, JobState::Running)));
    bench.advance(millis(10));
    bench.looked(Some(Record { state: JobState::Queued, owner: None, ..found(8, JobState::Queued) }));
    assert_eq!(bench.lines(), ["look k", "look k", "ask k@0 2 ask"]);
    let mut bench = Bench::attached();
    bench.set_member(5, up(3));
    bench.sent(false);
    leaves(&mut bench);
    assert_eq!(bench.lines(), [""; 0], "its worker may have handled it: its last word counts");
}

#[test]
fn an_ask_on_its_way_to_a_worker_that_leaves_follows_its_job() {
    let mut bench = Bench::attached();
    bench.set_member(5, up(3));
    bench.ask(true);
    bench.asked(AskReply::Owner(Some((WorkerId(5), Token(8)))));
    bench.change_members(|members| drop(members.remove(&WorkerId(5))));
    bench.asked(AskReply::Sent);
    bench.all();
    bench.advance(millis(5));
    assert_eq!(bench.lines(), ["look k"], "not a second later");
}

#[test]
fn a_worker_that_comes_back_is_asked_what_became_of_an_ask() {
    let mut bench = Bench::attached();
    bench.set_member(5, up(3));
    bench.sent(true);
    bench.change_members(|members| drop(members.remove(&WorkerId(5))));
    bench.looked(Some(found(8, JobState::Running)));
    bench.all();
    bench.set_member(5, up(3));
    bench.looked(Some(found(8, JobState::Running)));
    assert_eq!(bench.lines(), ["look k", "ask k@8 1 poke"]);
}

#[test]
fn looks_say_nothing_while_the_pool_recovers() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.lost(2);
    bench.all();
    bench.advance(millis(100));
    bench.looked(None);
    assert_eq!(bench.lines(), ["look k"], "its owner may report it");
    bench.advance(millis(100));
    bench.reopened(2);
    bench.looked(None);
    bench.advance(millis(100));
    assert_eq!(bench.lines(), ["look k", "look k"], "the one before may have been answered in phase R");
}

#[test]
fn the_end_of_an_ask_says_what_is_known() {
    let unknown = "reply 1 asked: the ask name has no answer, it may have been handled";
    let late = "reply 1 asked: nobody was asked: its deadline has passed";
    let mut waiting = Bench::attached();
    waiting.ask(false);
    waiting.asked(AskReply::Waiting);
    let mut sent = Bench::attached();
    sent.sent(false);
    // The call of the first attempt is under way, and names nobody's token.
    let mut flying = Bench::attached();
    flying.ask(false);
    for (mut bench, end) in [(waiting, late), (sent, unknown), (flying, late)] {
        assert_eq!(bench.after(secs(10)).of(&["reply"]), [end]);
    }
}

#[test]
fn a_forgotten_ask_is_answered_by_nobody() {
    let mut bench = Bench::attached();
    bench.sent(false);
    bench.step([Input::Unasked(ReplyTo(1))]);
    bench.said(1, Said::Answer("yes".into()));
    bench.advance(secs(20));
    assert_eq!(bench.lines(), [""; 0]);
}

#[test]
fn an_ask_is_handed_over_once_and_told_again() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.ask_event(20, 1, false);
    bench.ask_event(21, 1, false);
    bench.ask_event(22, 1, true);
    assert_eq!(bench.lines(), ["ASK k@7 ask-1"]);
    bench.answers(1);
    let told = "reply 1: k@7 ?1.1 Answer(b\"yes\")";
    assert_eq!(bench.lines(), [format!("{told}; done 20,21,22").replace(',', " ")]);
    bench.replied(ReplyReply::Told);
    bench.ask_event(23, 1, true);
    assert_eq!(bench.lines(), [format!("{told}; done 23")]);
    bench.answers(1);
    assert_eq!(bench.lines(), [""; 0], "it is said once");
}

#[test]
fn a_poke_that_comes_first_refuses_its_ask_for_good() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.ask_event(20, 1, true);
    assert_eq!(bench.lines(), ["reply 1: k@7 ?1.1 Missed; done 20"]);
    bench.replied(ReplyReply::Told);
    bench.ask_event(21, 1, false);
    assert_eq!(bench.lines(), ["reply 1: k@7 ?1.1 Missed; done 21"]);
}

#[test]
fn what_is_not_held_is_not_handed_over() {
    let mut bench = Bench::with_worker();
    bench.ask_event(20, 1, false);
    assert_eq!(bench.lines(), ["reply 1: k@7 ?1.1 Moved; done 20"]);
}

#[test]
fn what_a_handler_keeps_does_not_keep_the_entry() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.ask_event(20, 1, false);
    bench.advance(millis(999));
    assert_eq!(bench.of(&["ASK", "begin"]), ["ASK k@7 ask-1"], "it goes with the answer, if that comes soon");
    assert_eq!(bench.after(millis(1)).of(&["begin"]), ["begin 1: ; done 20"]);
}

#[test]
fn an_ask_waits_for_the_start_of_its_job() {
    let mut bench = Bench::that_is_assigned(7, 7, &["k"]);
    bench.ask_event(20, 1, false);
    bench.begun();
    assert_eq!(bench.of(&["ASK"]), [""; 0]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["ASK"]), ["ASK k@7 ask-1"]);
}

#[test]
fn asks_of_a_job_that_must_end_are_sent_away() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.ask_event(20, 1, false);
    bench.stop_event(1, 21, None, &[("k", 7)]);
    bench.ask_event(22, 2, false);
    assert_eq!(bench.lines(), ["ASK k@7 ask-1", "reply 1: k@7 ?1.2 Moved; done 20 22"]);
    bench.replied(ReplyReply::Told);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.lines(), ["reply 1: k@7 ?1.1 Dropped"], "the release waits for it");
    bench.replied(ReplyReply::Told);
    assert_eq!(bench.lines().len(), 1, "the release");
}

#[test]
fn a_stale_reply_holds_up_no_release() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.ask_event(20, 1, false);
    bench.answers(1);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert!(!bench.is_calling("release"));
    bench.replied(ReplyReply::Stale);
    assert!(bench.is_calling("release"));
}

#[test]
fn a_job_has_so_many_open_asks() {
    let mut bench = Bench::that_runs(7, &["k"]);
    (1..=64).for_each(|number| bench.ask_event(20 + number, number, false));
    assert_eq!(bench.lines().len(), 64);
    bench.ask_event(90, 65, false);
    assert!(bench.lines()[0].starts_with("reply 1: k@7 ?1.65 Busy"));
    bench.replied(ReplyReply::Told);
    bench.answers(1);
    bench.ask_event(91, 66, false);
    assert_eq!(bench.of(&["ASK"]), ["ASK k@7 ask-66"]);
}

#[test]
fn an_ask_whose_time_is_over_is_not_handed_over() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.notify_event(1, 19, "k", 7);
    bench.ask_event(20, 1, false);
    bench.after(secs(11)).all();
    bench.taken(1, &[]);
    assert_eq!(bench.lines(), ["reply 1: k@7 ?1.1 Late; done 20"]);
}

#[test]
fn an_answer_before_the_call_that_asked_leaves_nothing_to_do() {
    let mut bench = Bench::attached();
    bench.ask(false);
    bench.asked(AskReply::Owner(Some((WorkerId(5), Token(8)))));
    bench.all();
    bench.fail("ask");
    bench.said(1, Said::Answer("yes".into()));
    assert_eq!(bench.lines(), ["reply 1 asked yes"]);
    bench.advance(secs(1));
    assert!(bench.engine.deadline().is_none_or(|at| at > bench.now), "it wakes for nobody");
}

#[test]
fn a_flood_of_notifications_delays_an_ask_for_so_long() {
    let mut settings = config().settings;
    settings.notify_cap = 4;
    let mut bench = Bench::with_worker_as(Config { settings, ..config() });
    bench.running(7, &["k"]);
    bench.notify_event(1, 19, "k", 7);
    bench.ask_event(20, 1, false);
    let (mut delivered, mut handed) = (0, Vec::new());
    while handed.len() < 2 {
        bench.taken(delivered, &["a", "b"]);
        delivered += 2;
        bench.handler(1, "k", 7, HandlerEvent::Delivered);
        handed.extend(bench.of(&["ASK"]).iter().map(|_| delivered));
        if delivered == 2 {
            bench.ask_event(21, 2, false);
        }
        assert!(delivered < 20, "one never has its turn");
    }
    assert_eq!(handed, [4, 6], "each waits for four that stood before it");
}

/// A job with a notification and an ask after it. Its record is not this worker's any more when that is fetched.
fn refused_notifications() -> Bench {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.notify_event(1, 19, "k", 7);
    bench.ask_event(20, 1, false);
    bench.take_refused();
    assert_eq!(bench.of(&["ASK"]), [""; 0], "a notification waits that was kept before it");
    bench
}

#[test]
fn an_ask_does_not_pass_notifications_that_are_refused() {
    let mut bench = refused_notifications();
    bench.ask_event(21, 2, false);
    bench.stop_event(1, 22, None, &[("k", 7)]);
    let moved = "reply 1: k@7 ?1.1 Moved k@7 ?1.2 Moved; done 20 21";
    assert_eq!(bench.of(&["ASK", "reply"]), [moved], "the job was to stop");
}

#[test]
fn an_ask_waits_for_the_first_fetch_that_is_not_refused() {
    let mut bench = refused_notifications();
    bench.notify_event(1, 21, "k", 7);
    bench.taken(1, &["a", "b"]);
    assert_eq!(bench.of(&["ASK", "DELIVER"]), ["DELIVER k@7 a b"]);
    bench.handler(1, "k", 7, HandlerEvent::Delivered);
    bench.taken(0, &[]);
    assert_eq!(bench.of(&["ASK"]), ["ASK k@7 ask-1"]);
}

#[test]
fn a_fenced_worker_says_nothing() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.ask_event(20, 1, false);
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.answers(1);
    bench.handler(1, "k", 7, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["reply", "release"]), [""; 0]);
}

#[test]
fn who_never_had_a_job_leaves_without_a_last_read() {
    let mut bench = Bench::with_worker();
    super::leaving::drain(&mut bench, 1);
    drained(&mut bench);
    assert_eq!(bench.of(&["read-last", "leave"]), ["leave 1"]);
}

/// A worker gives up its last job, and has read no ask yet.
pub(super) fn leaves_after_a_job(bench: &mut Bench) {
    bench.running(7, &["k"]);
    super::leaving::drain(bench, 1);
    drained(bench);
    bench.leaves(1, "k", 7, HandlerEvent::Stopped(Ok(())));
}

#[test]
fn who_leaves_answers_what_stood_in_its_stream() {
    let mut bench = Bench::with_worker();
    leaves_after_a_job(&mut bench);
    assert_eq!(bench.of(&["read-last", "leave"]), ["read-last 1"]);
    let ask = AskEvent {
        id: AskId { life: 1, number: 2 },
        name: "late".into(),
        token: Token(7),
        not_after: 1_010_000,
        poke: false,
        body: Bytes::new(),
    };
    let event = WorkerEvent::Ask { asker: node("asker"), asks: vec![(key("k"), ask)] };
    let workers = vec![(WorkerId(1), super::bench::entry(30), event)];
    bench.answer_with("read-last", NodeEvents { workers, ..NodeEvents::default() });
    assert_eq!(bench.of(&["reply", "leave"]), ["reply 1: k@7 ?1.2 Moved; done 30"]);
    bench.replied(ReplyReply::Told);
    assert_eq!(bench.of(&["leave"]), ["leave 1"]);
}

#[test]
fn a_last_read_without_an_answer_holds_up_nobody() {
    let mut bench = Bench::with_worker();
    leaves_after_a_job(&mut bench);
    bench.all();
    bench.fail_with("read-last", unanswered());
    assert_eq!(bench.after(Duration::from_millis(1)).of(&["leave"]), ["leave 1"]);
}
