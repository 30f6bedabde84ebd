//! The counter of tokens. No clock and no caller uses it up, and at its end it refuses and never repeats itself.

use std::time::Duration;

use tenure_pool::store::{
    Attend, Attest, AttestItem, AttestJobs, AttestReply, Bootstrap, ChangeSchedule, CleanUp, Dispatch,
    DispatchItem, DispatchReply, HoldTurns, Join, NotifyOrStart, NotifyOrStartItem, NotifyOrStartReply,
    OpenNormal, Placing, Purge, ReadIdentity, Recover, Refusal, ReleaseMode, ReleaseReply, Renew, Route,
    ScheduleChange, ScheduleKey, ScheduleKind, ScheduleState, Seen, ShutDown, ShutdownMode, StopReply,
    TermItem, TermReply,
};
use tenure_protocol::model::id::{ScheduleName, Token, WorkerId};
use tenure_protocol::model::record::Begun;
use tenure_protocol::model::settings::Settings;

use super::attesting::member;
use super::lab::{Kind, Lab, id, key, ms, node, recovery, renew, seen};

/// Half of all numbers that Redis' scripts count exactly.
const HALF: u64 = 1 << 52;
/// A clock without a battery, or with a wrong one: 2100-01-01, ms.
const WRONG: u64 = 4_102_444_800_000;

scenarios! {
    a_wrong_clock_leaves_half_of_the_tokens,
    what_no_pool_mints_is_not_believed,
    the_last_token_that_was_seen_is_believed,
    the_last_tokens_are_distinct,
    the_id_of_an_adopted_worker_is_not_given_again,
    at_its_end_the_counter_refuses_what_mints,
    a_turn_that_wants_a_token_keeps_no_other_waiting,
    without_tokens_what_runs_goes_on_and_ends,
    a_counter_beyond_its_end_stays_there,
    a_damaged_counter_mints_nothing,
}

async fn the_id_of_an_adopted_worker_is_not_given_again(mut lab: Lab) {
    lab.recover().await;
    let (next, inc) = (WorkerId(counter(&lab).await + 1), lab.inc);
    let adopted = member("U|0|10000|other|node2||1|");
    lab.store().run(inc, &AttestJobs { worker: next, member: adopted, items: Vec::new() }).await.unwrap();
    assert_eq!(lab.store().run(inc, &Attend { worker: next, after: None, limit: 10 }).await.unwrap(), None);
    assert_eq!(lab.store().run(inc, &OpenNormal).await.unwrap(), None);
    assert!(lab.join().await.worker > next);
}

async fn bootstrap(lab: &mut Lab, token: u64) {
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let seen = Seen { token: Token(token), ..Seen::default() };
    lab.inc = lab
        .read(&Bootstrap { seen, run_id, settings: Box::new(lab.settings.clone()) })
        .await
        .unwrap()
        .incarnation;
}

async fn recover(lab: &mut Lab, token: u64) {
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let seen = Seen { token: Token(token), ..Seen::default() };
    lab.inc = lab.step(&Recover { seen, ..recovery(&run_id) }).await.unwrap();
}

/// The counter in the dump.
async fn counter(lab: &Lab) -> u64 {
    lab.field("pool", "token").await.unwrap().parse().unwrap()
}

fn runs(token: Token) -> AttestItem {
    let payload = Some("payload".into());
    let what = Attest::Runs {
        back: false,
        begun: Begun::Begun,
        attempts: 1,
        created: 1,
        plan: String::new(),
        generation: 0,
        payload,
    };
    AttestItem { key: key("k"), token, id: id("node1.k"), what }
}

fn ticker() -> ScheduleKey {
    ScheduleKey { kind: ScheduleKind::Ticker, name: ScheduleName::new("t").unwrap() }
}

const CREATE: ScheduleChange =
    ScheduleChange::Create { period: Duration::from_secs(1), first: Duration::ZERO };

async fn a_wrong_clock_leaves_half_of_the_tokens(kind: Kind) {
    let mut lab = Lab::blank(kind).await;
    lab.backend.set_clock(WRONG).await;
    lab.bootstrap().await;
    assert_eq!(counter(&lab).await, HALF);
    lab.step(&OpenNormal).await.unwrap();
    assert_eq!(lab.join().await.worker, WorkerId(HALF + 1));
    lab.recover().await;
    assert_eq!(counter(&lab).await, HALF + 1);

    let mut lab = Lab::new(kind).await;
    lab.backend.set_clock(WRONG).await;
    lab.recover().await;
    assert_eq!(counter(&lab).await, HALF);
}

async fn what_no_pool_mints_is_not_believed(kind: Kind) {
    for number in [Token::LAST.0 + 1, 1 << 53, (1 << 53) + 1, u64::MAX] {
        let mut lab = Lab::blank(kind).await;
        bootstrap(&mut lab, number).await;
        let begins = counter(&lab).await;
        assert!(begins < HALF, "{begins}");
        recover(&mut lab, number).await;
        let worker = WorkerId(7);
        assert_eq!(lab.attest(worker, runs(Token(number))).await, AttestReply::Unreadable);
        lab.step(&Renew { seen: seen(Token(number)), ..renew(&[worker]) }).await.unwrap();
        assert_eq!(counter(&lab).await, begins);
    }
}

async fn the_last_token_that_was_seen_is_believed(kind: Kind) {
    let mut lab = Lab::blank(kind).await;
    bootstrap(&mut lab, Token::LAST.0 - 3).await;
    assert_eq!(counter(&lab).await, Token::LAST.0 - 3);
    recover(&mut lab, Token::LAST.0 - 2).await;
    assert_eq!(counter(&lab).await, Token::LAST.0 - 2);
    assert_eq!(lab.attest(WorkerId(7), runs(Token(Token::LAST.0 - 1))).await, AttestReply::Kept);
    assert_eq!(counter(&lab).await, Token::LAST.0 - 1);
    lab.step(&Renew { seen: seen(Token::LAST), ..renew(&[]) }).await.unwrap();
    assert_eq!(counter(&lab).await, Token::LAST.0);
}

async fn the_last_tokens_are_distinct(lab: Lab, worker: WorkerId) {
    lab.backend.set_token(Token::LAST.0 - 130).await;
    let mut tokens = Vec::new();
    for name in ["a", "b"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
        lab.route(name, worker).await;
        tokens.push(lab.token(name).await.0);
    }
    tokens.push(lab.join().await.worker.0);
    assert_eq!(tokens, [129, 128, 127].map(|left| Token::LAST.0 - left));
    assert_eq!(lab.refused(lab.step(&Join { request: Box::new(lab.request()) })).await, Refusal::OutOfTokens);
}

async fn at_its_end_the_counter_refuses_what_mints(lab: Lab, worker: WorkerId) {
    lab.dispatch("queued", "node1.q").await;
    let ScheduleState::Present { entry, .. } =
        lab.step(&ChangeSchedule { schedule: ticker(), change: CREATE.clone() }).await.unwrap()
    else {
        panic!("no schedule");
    };
    let first = lab.request();
    let seat = lab.step(&Join { request: Box::new(first.clone()) }).await.unwrap();
    lab.backend.set_token(Token::LAST.0 - 127).await;

    assert_eq!(lab.refused(lab.step(&Join { request: Box::new(lab.request()) })).await, Refusal::OutOfTokens);
    assert_eq!(
        lab.step(&Join { request: Box::new(first.clone()) }).await.unwrap().worker,
        seat.worker,
        "it is a member already"
    );
    let other = ScheduleKey { name: ScheduleName::new("other").unwrap(), ..ticker() };
    assert_eq!(
        lab.refused(lab.step(&ChangeSchedule { schedule: other, change: CREATE.clone() })).await,
        Refusal::OutOfTokens
    );
    let take = TermItem { schedule: ticker(), id: entry.id, life: 1, leave: false, seen: None };
    let takes = vec![take];
    assert_eq!(turns(&lab, &takes).await, [TermReply::OutOfTokens]);
    let (ring, jobs) = (lab.revision().await, vec![(key("queued"), Some(worker))]);
    assert_eq!(lab.refused(lab.step(&Route { ring, entries: Vec::new(), jobs })).await, Refusal::OutOfTokens);

    let before = lab.backend.dump().await;
    let placed = DispatchItem { worker: Some(worker), ..lab.item("placed", "node1.p") };
    let items = vec![lab.item("queued", "node1.q"), lab.item("new", "node1.n"), placed];
    let replies = lab.step(&Dispatch { by: Placing::Ring(ring), items }).await.unwrap();
    let refused = DispatchReply::OutOfTokens;
    assert_eq!(
        replies,
        [DispatchReply::Accepted, refused.clone(), refused],
        "the first one was accepted before"
    );
    let note = |start| NotifyOrStartItem { start, guess: None, body: "body".into() };
    let replies =
        lab.step(&NotifyOrStart { ring, items: vec![note(lab.item("new", "node1.n"))] }).await.unwrap();
    assert_eq!(replies, [NotifyOrStartReply::OutOfTokens]);
    assert_eq!(lab.backend.dump().await, before);

    lab.backend.set_token(Token::LAST.0 - 128).await;
    lab.step(&HoldTurns { node: node("n"), items: takes.clone() }).await.unwrap();
    assert_eq!(counter(&lab).await, Token::LAST.0 - 127);
    // The turn that it has is still its own.
    lab.step(&HoldTurns { node: node("n"), items: takes }).await.unwrap();
}

/// The answers of `term` to a node.
async fn turns(lab: &Lab, items: &[TermItem]) -> Vec<TermReply> {
    lab.step(&HoldTurns { node: node("n"), items: items.to_vec() }).await.unwrap().replies
}

async fn a_turn_that_wants_a_token_keeps_no_other_waiting(lab: Lab) {
    let mut takes = Vec::new();
    for name in ["held", "free"] {
        let key = ScheduleKey { name: ScheduleName::new(name).unwrap(), ..ticker() };
        let made = lab.step(&ChangeSchedule { schedule: key.clone(), change: CREATE.clone() }).await.unwrap();
        let ScheduleState::Present { entry, .. } = made else { panic!("no schedule") };
        takes.push(TermItem { schedule: key, id: entry.id, life: 1, leave: false, seen: None });
    }
    turns(&lab, &takes[..1]).await;
    lab.backend.set_token(Token::LAST.0 - 127).await;
    takes.reverse();
    for words in [2, 3] {
        let replies = turns(&lab, &takes).await;
        let [TermReply::OutOfTokens, TermReply::Held(entry)] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!(entry.seq, words, "its holder lives");
    }
}

async fn without_tokens_what_runs_goes_on_and_ends(lab: Lab, worker: WorkerId) {
    lab.run("a", "node1.a", worker).await;
    lab.run("b", "node1.b", worker).await;
    lab.assign("c", "node1.c", worker).await;
    lab.backend.set_token(Token::LAST.0).await;
    lab.run_assigned("c", worker).await;
    assert!(lab.started("a", worker).await);
    lab.step(&Renew { seen: seen(Token(1)), ..renew(&[worker]) }).await.unwrap();
    assert_eq!(lab.release("a", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.stop("b", "node1.b", Some(worker)).await, StopReply::Stopping);
    assert_eq!(lab.release("b", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.release("c", worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    assert_eq!(lab.step(&Purge { limit: 10 }).await.unwrap().len(), 1);
    lab.leave(worker).await;
    lab.step(&CleanUp { tombstone: ms(1_000) }).await.unwrap();
}

async fn a_counter_beyond_its_end_stays_there(kind: Kind) {
    let beyond = (1 << 53) + 4;
    let mut lab = Lab::new(kind).await;
    lab.backend.set_token(beyond).await;
    let join = lab.refused(lab.step(&Join { request: Box::new(lab.request()) })).await;
    assert_eq!(join, Refusal::OutOfTokens);
    lab.recover().await;
    assert_eq!(lab.step(&Renew { seen: seen(Token(5)), ..renew(&[]) }).await.unwrap().token, Token(0));
    assert_eq!(counter(&lab).await, beyond, "what may have been given out is not given out again");
    lab.step(&OpenNormal).await.unwrap();
    lab.backend.set_token(HALF).await;
    assert_eq!(lab.join().await.worker, WorkerId(HALF + 1), "somebody has put it right");
}

/// In memory it cannot be damaged.
async fn a_damaged_counter_mints_nothing(kind: Kind) {
    let Kind::Redis = kind else { return };
    for damage in
        [None, Some("abc"), Some(""), Some("1e3"), Some("1.5"), Some("-7"), Some("007"), Some("nan")]
    {
        let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        lab.dispatch("k", "node1.k").await;
        lab.backend.write_meta("token", damage).await;
        let join = lab.refused(lab.step(&Join { request: Box::new(lab.request()) })).await;
        assert_eq!(join, Refusal::OutOfTokens, "{damage:?}");
        let (ring, jobs) = (lab.revision().await, vec![(key("k"), Some(worker))]);
        let route = lab.refused(lab.step(&Route { ring, entries: Vec::new(), jobs })).await;
        assert_eq!(route, Refusal::OutOfTokens, "{damage:?}");
        lab.step(&Renew { seen: seen(Token(worker.0)), ..renew(&[]) }).await.unwrap();
        assert_eq!(lab.field("pool", "token").await.as_deref(), damage, "another node may have seen more");
        if damage.is_none() {
            lab.recover().await;
            assert_eq!(counter(&lab).await, worker.0 - 1, "where the clock makes it begin");
        }
    }
}
