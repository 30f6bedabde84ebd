//! How a node finds its pool, creates it, and opens it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bench::{Bench, config, millis, present, secs, server, unanswered, up};
use crate::core::call::Call;
use crate::core::ctx::Config;
use crate::core::input::{Command, Input};
use crate::model::id::{Incarnation, Revision, Token, WorkerId};
use crate::model::settings::{Given, ShutdownFlag};
use crate::step::{
    AttestReply, Bootstrapped, PoolState, Refusal, Renewal, ServerIdentity, StoreError, WhenFull,
};

pub(super) fn created(bench: &mut Bench, incarnation: u64, created: bool) {
    bench.answer_with("bootstrap", Bootstrapped { incarnation: Incarnation(incarnation), created });
}

pub(super) fn settled() -> ServerIdentity {
    ServerIdentity { uptime: secs(60), ..server("a") }
}

pub(super) fn tombstone(incarnation: u64) -> PoolState {
    PoolState::Closed { incarnation: Incarnation(incarnation) }
}

/// Servers that may have lost a pool.
pub(super) fn doubtful() -> [ServerIdentity; 3] {
    let promoted = ServerIdentity { promoted: true, ..settled() };
    let flushed = ServerIdentity { flushed: true, ..settled() };
    [server("a"), promoted, flushed]
}

/// Lets time pass in phase R; no other node opens the pool.
fn observe(bench: &mut Bench, seconds: u64) {
    let end = bench.now + secs(seconds);
    while bench.now < end {
        bench.advance(millis(100));
        if bench.is_calling("survey") {
            bench.survey(present(2, true, "a"));
        }
    }
}

#[test]
fn a_new_pool_on_a_server_that_lost_nothing_is_opened_at_once() {
    let fresh = Config { assume_fresh: true, ..config() };
    let [young, ..] = doubtful();
    for (config, server, state) in [
        (config(), settled(), PoolState::Absent),
        (config(), settled(), tombstone(1)),
        (fresh.clone(), young.clone(), PoolState::Absent),
        (fresh, young, tombstone(1)),
    ] {
        let mut bench = Bench::new(config);
        bench.survey_of(state, server);
        created(&mut bench, 2, true);
        let seen = bench.seen();
        assert_eq!(seen, ["survey", "bootstrap a above 0", "bless a", "! recovering 2 for 0ms"]);
        bench.maps(2);
        assert_eq!(bench.after(millis(100)).of(&["open"]), ["open"]);
        bench.answer_with("open", None::<WorkerId>);
        assert_eq!(bench.of(&["!", "sweep"]), ["! normal 2", "sweep kick"]);
    }
}

#[test]
fn a_new_pool_on_a_doubtful_server_opens_after_a_time_to_live() {
    for (server, state) in
        doubtful().into_iter().flat_map(|s| [(s.clone(), PoolState::Absent), (s, tombstone(1))])
    {
        let mut bench = Bench::new(config());
        bench.survey_of(state, server);
        created(&mut bench, 2, true);
        bench.maps(2);
        observe(&mut bench, 9);
        assert!(bench.seen().contains(&"! recovering 2 for 10s".to_owned()));
        assert!(!bench.is_calling("open"));
        observe(&mut bench, 2);
        assert!(bench.is_calling("open"));
    }
}

#[test]
fn a_new_pool_over_an_outdated_tombstone_opens_after_the_ttl() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.survey(present(3, false, "a"));
    bench.maps(3);
    bench.fail_with("time", StoreError::Refused(Refusal::Closed));
    bench.survey_of(tombstone(2), settled());
    created(&mut bench, 4, true);
    assert!(bench.seen().contains(&"! recovering 4 for 10s".to_owned()));
}

#[test]
fn a_pool_that_another_node_created_first_is_joined() {
    let mut bench = Bench::new(config());
    bench.survey_of(PoolState::Absent, settled());
    created(&mut bench, 1, false);
    bench.all();
    assert_eq!(bench.after(millis(100)).seen(), ["survey"]);
    bench.survey(present(1, false, "a"));
    assert_eq!(bench.seen(), ["bless a"]);
}

#[test]
fn a_survey_or_a_creation_without_an_answer_is_made_again() {
    let mut bench = Bench::new(config());
    bench.fail("survey");
    bench.all();
    bench.advance(millis(100));
    bench.survey(PoolState::Absent);
    bench.fail("bootstrap");
    assert_eq!(bench.after(millis(100)).seen(), ["survey", "bootstrap a above 0", "survey"]);
}

#[test]
fn a_pool_that_waits_for_a_member_is_tried_again() {
    let mut bench = Bench::new(config());
    bench.survey_of(PoolState::Absent, settled());
    created(&mut bench, 1, true);
    bench.maps(1);
    bench.after(millis(100)).all();
    bench.answer_with("open", Some(WorkerId(4)));
    assert_eq!(bench.after(secs(1)).of(&["open"]), ["open"]);
}

#[test]
fn a_pool_that_others_open_is_noticed() {
    let mut bench = Bench::new(config());
    bench.survey(present(1, true, "a"));
    assert_eq!(bench.after(millis(199)).seen(), ["survey", "bless a", "! recovering 1 for 10s"]);
    assert_eq!(bench.after(millis(1)).seen(), ["survey"], "every fiftieth of the time to live");
    bench.survey(present(1, false, "a"));
    bench.maps(1);
    assert!(bench.is_calling("sweep"), "phase N");
}

#[test]
fn another_server_process_starts_another_incarnation() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.step([Input::Renewed {
        incarnation: Incarnation(1),
        workers: vec![WorkerId(1)],
        answer: Err(StoreError::OtherServer { run_id: "b".into() }),
    }]);
    assert_eq!(bench.seen(), ["! trouble", "survey"]);
    bench.survey_of(present(1, false, "a"), server("b"));
    assert_eq!(bench.seen(), ["recover b above 1048579"]);
    bench.answer_with("recover", Incarnation(2));
    let adopted = ["bless b", "renew 2", "! recovering 2 for 10s"];
    assert_eq!(bench.seen(), [&adopted[..], &["attest 1: k@3 started"]].concat());
}

#[test]
fn tokens_begin_again_beyond_those_that_others_were_given() {
    let mut bench = Bench::attached();
    let renewal = Renewal { token: Token(7_000), ..bench.renewal() };
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
    let answer = Err(StoreError::Refused(Refusal::NoPool));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.command(|reply| Command::Attach { reply });
    bench.survey_of(PoolState::Absent, settled());
    assert_eq!(bench.of(&["bootstrap"]), ["bootstrap a above 1055576"], "7000, and room for 2^20 since");
}

#[test]
fn an_incarnation_repeated_on_another_server_is_another_one() {
    let mut bench = Bench::that_runs(3, &["k"]);
    let other = |incarnation, run_id: &str| Input::Renewed {
        incarnation: Incarnation(incarnation),
        workers: vec![WorkerId(1)],
        answer: Err(StoreError::OtherServer { run_id: run_id.into() }),
    };
    bench.step([other(1, "b")]);
    bench.all();
    // A node that has not seen incarnation 1 has recovered older data, and has come to 1 again.
    bench.survey_of(present(1, true, "b"), server("b"));
    let call = bench.call("recover");
    let Call::Recover(recover) = &call else { panic!("{call:?}") };
    assert_eq!(recover.seen.incarnation, Incarnation(1));
    bench.all();
    bench.done(call.answered(Ok(Incarnation(2))));
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@3 started"]);
    // The node then meets an older one: the next incarnation must be above the newest.
    bench.step([other(2, "c")]);
    bench.advance(millis(100));
    bench.survey_of(present(1, false, "b"), server("c"));
    let call = bench.call("recover");
    let Call::Recover(recover) = call else { panic!("{call:?}") };
    assert_eq!(recover.seen.incarnation, Incarnation(2));
}

#[test]
fn data_that_went_back_is_a_sign_of_loss() {
    let mut bench = Bench::with_worker();
    bench.renewed();
    bench.members.revision = Revision(0);
    bench.all();
    bench.renewed();
    assert_eq!(bench.after(millis(100)).seen(), ["survey"]);
    bench.survey(present(1, false, "a"));
    assert_eq!(bench.seen(), ["recover a above 1048577"]);
}

#[test]
fn a_pool_that_is_gone_is_created_again_and_observed() {
    let mut bench = Bench::with_worker();
    bench.submit("k", "n.1", true, secs(60));
    bench.all();
    bench.fail_with("dispatch", StoreError::Refused(Refusal::NoPool));
    assert_eq!(bench.seen(), ["survey"]);
    bench.survey_of(PoolState::Absent, settled());
    created(&mut bench, 2, true);
    let seen = bench.seen();
    let waits = ["bootstrap a above 1048577", "bless a", "renew 2", "! recovering 2 for 10s"];
    assert_eq!(seen[..4], waits, "leases of the lost one may still run");
    assert_eq!(seen[4], "attest 1: ");
}

#[test]
fn a_tombstone_ends_only_nodes_that_knew_the_pool_alive() {
    let mut bench = Bench::new(config());
    bench.survey(tombstone(1));
    assert_eq!(bench.seen(), ["survey", "bootstrap a above 0"]);

    let mut bench = Bench::attached();
    bench.command(|reply| Command::Attach { reply });
    assert_eq!(bench.seen(), ["reply 1 attached ok"]);
    bench.submit("k", "n.1", true, secs(60));
    bench.all();
    bench.fail_with("dispatch", StoreError::Refused(Refusal::Closed));
    assert_eq!(bench.seen(), ["survey"], "a refusal does not say which pool has ended");
    bench.survey(tombstone(1));
    assert_eq!(bench.seen(), ["reply 2 submitted ShuttingDown", "forget-node"]);
    bench.answer_with("forget-node", ());
    assert_eq!(bench.seen(), ["end"]);
}

/// The effects of a node with a running job in incarnation 2 that meets the tombstone of incarnation `ended`.
pub(super) fn meets_tombstone(mut bench: Bench, ended: u64) -> Vec<String> {
    bench.command(|reply| Command::Attach { reply });
    bench.running(3, &["k"]);
    bench.lost(2);
    bench.attested(&[AttestReply::Kept]);
    bench.attended(None);
    bench.reopened(2);
    bench.all();
    let answer = Err(StoreError::Refused(Refusal::Closed));
    bench.step([Input::Renewed { incarnation: Incarnation(2), workers: vec![WorkerId(1)], answer }]);
    bench.survey_of(tombstone(ended), settled());
    if bench.is_calling("bootstrap") {
        created(&mut bench, 3, true);
    }
    bench.of(&["bootstrap", "!", "attest", "STOP"])
}

#[test]
fn a_pool_with_an_outdated_tombstone_is_created_again() {
    let done = meets_tombstone(Bench::with_worker(), 1);
    assert_eq!(done, ["bootstrap a above 1048579", "! recovering 3 for 10s", "attest 1: k@3 started"]);
    for ended in [2, 3] {
        let done = meets_tombstone(Bench::with_worker(), ended);
        assert_eq!(done, ["! fenced 1 with 1", "STOP k@3 LeaseLost"]);
    }
}

#[test]
fn a_client_creates_no_pool_over_an_outdated_tombstone() {
    let mut bench = Bench::attached();
    bench.command(|reply| Command::Attach { reply });
    bench.lost(2);
    bench.all();
    bench.advance(millis(200));
    bench.survey_of(tombstone(1), settled());
    assert_eq!(bench.after(secs(1)).of(&["bootstrap", "forget-node", "end"]), [""; 0]);
}

#[test]
fn a_node_attaches_after_opening_settings_and_a_renewal() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.survey(present(1, false, "a"));
    bench.maps(1);
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Err(unanswered()) }]);
    assert_eq!(bench.of(&["reply"]), [""; 0]);
    bench.renewed();
    assert_eq!(bench.of(&["reply"]), ["reply 1 attached ok"]);
}

#[test]
fn a_node_that_was_given_another_setting_is_told_which() {
    let given = Given::default().and(["worker_ttl"]);
    let mut bench = Bench::new(Config { given, ..config() });
    bench.command(|reply| Command::Attach { reply });
    bench.stored.fields.insert("worker_ttl".into(), "5000".into());
    bench.survey(present(1, false, "a"));
    bench.maps(1);
    let refused = r#"SettingMismatch { name: "worker_ttl", theirs: "5s", ours: "10s" }"#;
    let all = ["survey", "bless a", &format!("reply 1 attached {refused}")];
    assert_eq!(bench.after(secs(60)).seen(), all, "nothing is renewed, read or swept, so nothing is written");
}

#[test]
fn a_node_takes_part_once_it_knows_the_settings_as_its_own() {
    let mut bench = Bench::new(config());
    bench.survey(present(1, false, "a"));
    bench.advance(secs(60));
    assert_eq!(bench.seen(), ["survey", "bless a", "survey"], "it looks again until it knows them");
    bench.maps(1);
    assert_eq!(bench.of(&["renew"]), ["renew 1"]);
    for kind in ["read-pool", "read-node", "sweep", "time"] {
        assert!(bench.is_calling(kind), "{kind}");
    }
}

#[test]
fn settings_of_another_incarnation_make_a_node_look_again() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.maps(2);
    bench.survey(present(1, false, "a"));
    bench.all();
    bench.advance(millis(100));
    assert_eq!(bench.seen(), ["survey"], "the answer was on its way when the pool's data were lost");
    bench.survey(present(2, false, "a"));
    assert_eq!(bench.of(&["renew"]), ["renew 2"]);
}

#[test]
fn a_node_that_comes_while_the_pool_is_cleaned_up_makes_another() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.maps(1);
    bench.step([Input::Settings(Arc::default()), Input::Members(Arc::default())]);
    bench.survey(present(1, false, "a"));
    bench.all();
    assert_eq!(bench.after(millis(100)).seen(), ["survey"], "the answer was on its way when the pool ended");
    bench.survey_of(tombstone(1), settled());
    assert!(bench.is_calling("bootstrap"));
}

#[test]
fn a_newcomer_to_a_closing_pool_waits_to_see_if_a_node_lives() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.survey(present(1, false, "a"));
    bench.stored.fields.insert("shutdown".into(), "S||m".into());
    assert!(matches!(bench.stored.flag(), Some(ShutdownFlag::Stopping { .. })));
    bench.members.entries.insert(WorkerId(4), up(0));
    bench.maps(1);
    bench.renewed();
    let beat = |bench: &mut Bench, seq: u64| {
        while !bench.is_calling("heartbeats") {
            bench.advance(millis(100));
        }
        bench.answer_with("heartbeats", BTreeMap::from([(WorkerId(4), seq)]));
    };
    beat(&mut bench, 1);
    assert_eq!(bench.of(&["reply"]), [""; 0]);
    beat(&mut bench, 2);
    assert_eq!(bench.of(&["reply"]), ["reply 1 attached ShuttingDown"]);
}

#[test]
fn a_node_ignores_another_server_until_it_knows_the_settings() {
    let mut bench = Bench::new(config());
    bench.survey_of(present(1, false, "a"), server("b"));
    bench.advance(secs(1));
    assert!(bench.of(&["recover", "renew"]).is_empty());
    bench.maps(1);
    while bench.is_calling("survey") {
        bench.survey_of(present(1, false, "a"), server("b"));
        bench.advance(millis(100));
    }
    assert_eq!(bench.of(&["recover"]), ["recover b above 0"]);
}

#[test]
fn a_node_opens_nothing_before_it_knows_the_settings() {
    let mut bench = Bench::new(config());
    bench.survey(present(1, true, "a"));
    bench.advance(millis(200));
    for _ in 0..200 {
        bench.survey(present(1, true, "a"));
        bench.advance(millis(200));
    }
    assert!(bench.of(&["open"]).is_empty());
    bench.maps(1);
    bench.survey(present(1, true, "a"));
    assert_eq!(bench.after(millis(200)).of(&["open"]), ["open"]);
}

#[test]
fn a_node_that_is_given_up_before_it_knows_the_settings_ends() {
    let mut bench = Bench::new(config());
    bench.survey(present(1, false, "a"));
    bench.all();
    bench.close(secs(10));
    assert_eq!(bench.seen(), ["forget-node"]);
}

#[test]
fn a_node_that_has_missed_the_settings_is_made_to_read_them() {
    let mut bench = Bench::new(config());
    bench.survey_of(tombstone(1), settled());
    created(&mut bench, 1, true);
    bench.all();
    bench.advance(millis(100));
    bench.survey(present(1, true, "a"));
    assert_eq!(bench.of(&["expect"]).len(), 1);
}

#[test]
fn maps_of_an_earlier_incarnation_are_read_again() {
    let mut bench = Bench::new(config());
    bench.command(|reply| Command::Attach { reply });
    bench.survey(present(1, false, "a"));
    bench.maps(1);
    let refused = Err(StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: refused }]);
    bench.survey(present(2, false, "a"));
    bench.all();
    bench.step([Input::Renewed {
        incarnation: Incarnation(2),
        workers: vec![],
        answer: Ok(bench.renewal()),
    }]);
    assert_eq!(bench.of(&["expect", "reply"]), ["expect 0 0"]);
}

#[test]
fn a_node_that_reported_the_opening_reports_its_end_once() {
    let mut bench = Bench::with_worker();
    bench.all();
    bench.lost(2);
    bench.reopened(2);
    assert_eq!(bench.of(&["!"]), ["! recovering 2 for 10s", "! normal 2"]);
    bench.fail_with("sweep", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(3))));
    bench.survey(present(2, false, "a"));
    assert_eq!(bench.of(&["!"]), [""; 0], "it is open as it was");
}

#[test]
fn the_opening_is_reported_once_for_each_incarnation() {
    let mut bench = Bench::with_worker();
    bench.all();
    bench.lost(2);
    bench.fail_with("attest", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(3))));
    bench.advance(millis(200));
    bench.survey(present(2, true, "a"));
    bench.reopened(2);
    assert_eq!(bench.of(&["!"]), ["! recovering 2 for 10s", "! normal 2"]);
}

#[test]
fn a_key_lost_alone_is_recovered_and_its_workers_run_on() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.all();
    let answer = Err(StoreError::Refused(Refusal::Lost("m".into())));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![WorkerId(1)], answer }]);
    bench.survey(present(1, false, "a"));
    assert_eq!(bench.of(&["!", "recover", "STOP"]), ["! lost m", "recover a for m"]);
    bench.answer_with("recover", Incarnation(2));
    assert_eq!(bench.of(&["attest", "STOP"]), ["attest 1: k@3 started"]);
}

#[test]
fn a_loss_that_another_node_repairs_is_recovered_from_once() {
    let mut bench = Bench::with_worker();
    let answer = Err(StoreError::Refused(Refusal::Lost("m".into())));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.survey(present(2, true, "a"));
    bench.reopened(2);
    assert_eq!(bench.of(&["recover", "! lost"]), [""; 0]);
}

#[test]
fn damage_and_eviction_are_said_when_they_come_and_when_they_go() {
    let mut bench = Bench::with_worker();
    bench.all();
    let whole = bench.renewal();
    let bad =
        Renewal { damage: "r".into(), when_full: WhenFull::Evicts("allkeys-lru".into()), ..whole.clone() };
    let unlooked = Renewal { when_full: WhenFull::Unknown, ..bad.clone() };
    let good = Renewal { when_full: WhenFull::Refuses, ..whole.clone() };
    for renewal in [bad.clone(), unlooked, bad, good, whole] {
        let (incarnation, workers) = (Incarnation(1), vec![]);
        bench.step([Input::Renewed { incarnation, workers, answer: Ok(renewal) }]);
    }
    let said = ["! damaged r", "! evicts allkeys-lru", "! damaged ", "! evicts nothing"];
    assert_eq!(bench.of(&["!"]), said);
}
