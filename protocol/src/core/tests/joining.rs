//! A change of the pool's settings does not harm a worker that joins meanwhile.

use std::sync::Arc;

use super::bench::{Bench, millis, secs};
use super::fencing::gone;
use crate::core::input::Input;
use crate::model::id::WorkerId;
use crate::step::{Reaped, Refusal, StoreError};

/// A worker that lost its lease, and asks to be a member again.
fn rejoining() -> Bench {
    let mut bench = Bench::with_worker();
    bench.step([Input::LeaseLost(WorkerId(1))]);
    gone(&mut bench);
    bench.answer_with("reap", Reaped { done: true, count: 0, outcomes: vec![] });
    bench.all();
    bench
}

fn newcomer() -> Bench {
    let mut bench = Bench::attached();
    bench.add_worker(1);
    bench.all();
    bench
}

/// The join in flight is refused for another value of this setting.
fn refused(bench: &mut Bench, name: &str, theirs: &str) {
    let refusal = Refusal::Setting { name: name.into(), theirs: theirs.into(), ours: "ours".into() };
    bench.fail_with("join", StoreError::Refused(refusal));
}

/// The settings arrive, with this one.
fn hears(bench: &mut Bench, name: &str, value: &str) {
    bench.stored.fields.insert(name.into(), value.into());
    bench.stored.revision.0 += 1;
    bench.step([Input::Settings(Arc::new(bench.stored.clone()))]);
}

#[test]
fn a_join_that_meets_a_changed_setting_is_made_again() {
    for mut bench in [rejoining(), newcomer()] {
        refused(&mut bench, "max_queued", "7");
        let seen = bench.all();
        assert!(seen.iter().any(|line| line == "reread"), "a hand may have changed it, {seen:?}");
        assert!(!seen.iter().any(|line| line.starts_with("reply") || line.starts_with("seated")), "{seen:?}");
        hears(&mut bench, "max_queued", "7");
        bench.advance(millis(100));
        let joins = bench.of(&["join"]);
        assert_eq!(joins.len(), 1, "with the settings as they are, and a name of its own");
        // The refusal was on its way when the news of the change came.
        refused(&mut bench, "max_queued", "7");
        assert_eq!(bench.after(millis(100)).of(&["join"]).len(), 1);
        bench.seat(9, 0);
        assert_eq!(bench.engine.status().workers[0].id, Some(WorkerId(9)));
    }
}

#[test]
fn settings_before_the_incarnation_are_adopted_with_it() {
    let mut bench = Bench::with_worker();
    bench.stored.fields.insert("max_queued".into(), "7".into());
    bench.maps(2);
    assert_ne!(bench.engine.ctx.config.settings.max_queued, 7, "those of another incarnation");
    bench.lost(2);
    assert_eq!(bench.engine.ctx.config.settings.max_queued, 7);
}

#[test]
fn a_newcomer_with_an_impossible_setting_is_refused() {
    let said = [r#"name: "worker_ttl", theirs: "5s""#, r#"name: "strikes", theirs: "0""#];
    for ((name, theirs), said) in [("worker_ttl", "5000"), ("strikes", "0")].into_iter().zip(said) {
        let mut bench = newcomer();
        hears(&mut bench, name, theirs);
        bench.all();
        refused(&mut bench, name, theirs);
        let told = format!(r#"reply 1 worker SettingMismatch {{ {said}, ours: "ours" }}"#);
        assert_eq!(bench.of(&["reply", "seated"]), [told, "seated 1".into()]);
    }
}

#[test]
fn a_refused_former_member_reports_once_and_keeps_asking() {
    let bad = StoreError::Refused(Refusal::BadArgument);
    let other = Refusal::Setting { name: "worker_ttl".into(), theirs: "5000".into(), ours: "10000".into() };
    for error in [bad, StoreError::Refused(other)] {
        let mut bench = rejoining();
        bench.fail_with("join", error.clone());
        let seen = bench.seen();
        assert!(seen.len() == 1 && seen[0].starts_with("! not-taken-back"), "{seen:?}");
        assert_eq!(bench.engine.status().workers.len(), 1, "whoever asks for its health hears of it");
        assert_eq!(bench.after(secs(5)).of(&["join"]).len(), 1);
        bench.fail_with("join", error);
        assert_eq!(bench.seen(), [""; 0]);
        bench.after(secs(5)).all();
        bench.seat(9, 0);
        bench.step([Input::LeaseLost(WorkerId(9))]);
        assert_eq!(bench.of(&["fence"]), ["fence 9"]);
    }
}
