//! The shutdown cascade, down to the tombstone.

use std::time::Duration;

use tenure_pool::store::{
    Bootstrap, CleanUp, ForgetNode, Join, ListJobs, Note, OpenNormal, PoolState, Purge, ReadPool, ReadState,
    Reap, Recover, Refusal, ReleaseMode, ReleaseReply, Renew, Seen, ShutDown, ShutdownMode, StopReply,
};
use tenure_protocol::model::id::{Incarnation, WorkerId};
use tenure_protocol::model::settings::{Settings, ShutdownFlag};
use tenure_testing::eventually;

use super::lab::{Kind, Lab, id, ms, node, recovery, renew};
use super::single::Single as _;

scenarios! {
    closing_turns_into_stopping_when_nothing_is_queued,
    closing_turns_into_stopping_at_its_deadline,
    closing_takes_a_day_at_most,
    a_recovering_pool_waits_for_the_deadline,
    stopping_may_come_at_once,
    purge_needs_a_stopping_pool,
    purge_drops_what_nobody_runs,
    the_dead_hand_nothing_on,
    cleanup_waits_for_the_last_member,
    cleanup_waits_for_no_garbage,
    only_the_tombstone_is_left,
    a_tombstone_is_replaced_by_a_new_pool,
    a_bootstrap_from_before_the_pool_leaves_its_tombstone,
    a_tombstone_from_before_a_pool_that_was_seen_is_replaced,
    a_pool_says_which_one_has_ended_before_it,
    a_tombstone_that_no_pool_has_left_is_none,
    a_recovery_writes_back_which_pool_has_ended,
    the_flag_of_a_pool_that_has_ended_goes_with_its_recovery,
    a_tombstone_expires,
}

async fn shutdown(lab: &Lab, mode: ShutdownMode) -> Option<ShutdownFlag> {
    lab.step(&ShutDown { by: node("node1"), mode }).await.unwrap()
}

fn stopping() -> ShutdownFlag {
    ShutdownFlag::Stopping { deadline_ms: None, by: "node1".into() }
}

/// It was to close until then.
fn stopping_after(deadline_ms: u64) -> ShutdownFlag {
    ShutdownFlag::Stopping { deadline_ms: Some(deadline_ms), by: "node1".into() }
}

async fn closing_turns_into_stopping_when_nothing_is_queued(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    assert_eq!(shutdown(&lab, ShutdownMode::Advance).await, None);
    let deadline_ms = lab.backend.now() + 9_000;
    let closing = Some(ShutdownFlag::Closing { deadline_ms, by: "node1".into() });
    assert_eq!(shutdown(&lab, ShutdownMode::Closing(ms(9_000))).await, closing);
    lab.backend.advance(10).await;
    let before = lab.backend.dump().await;
    let again = lab.step(&ShutDown { by: node("node2"), mode: ShutdownMode::Closing(ms(1)) }).await.unwrap();
    assert_eq!(again, closing, "the first one counts");
    assert_eq!(shutdown(&lab, ShutdownMode::Advance).await, closing, "a job waits");
    assert_eq!(lab.backend.dump().await, before);
    lab.run_again("k", worker).await;
    let flag = lab.step(&renew(&[worker])).await.unwrap().flag;
    assert_eq!(flag, closing);
    let advanced = lab.step(&ShutDown { by: node("node2"), mode: ShutdownMode::Advance }).await.unwrap();
    let stopping = Some(stopping_after(deadline_ms));
    assert_eq!(advanced, stopping, "what was asked for, and by whom, stays");
    assert_eq!(shutdown(&lab, ShutdownMode::Closing(ms(9_000))).await, stopping);
}

async fn closing_takes_a_day_at_most(kind: Kind) {
    const DAY: u64 = 24 * 60 * 60 * 1_000;
    let lab = Lab::new(kind).await;
    lab.dispatch("k", "node1.g").await;
    let closing = ShutdownFlag::Closing { deadline_ms: lab.backend.now() + DAY, by: "node1".into() };
    assert_eq!(shutdown(&lab, ShutdownMode::Closing(Duration::MAX)).await, Some(closing));
}

async fn closing_turns_into_stopping_at_its_deadline(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    let stopping = stopping_after(lab.backend.now() + 9_000);
    let closing = shutdown(&lab, ShutdownMode::Closing(ms(9_000))).await;
    lab.backend.advance(8_999).await;
    assert_eq!(shutdown(&lab, ShutdownMode::Advance).await, closing);
    lab.backend.advance(1).await;
    assert_eq!(shutdown(&lab, ShutdownMode::Advance).await, Some(stopping));
}

async fn a_recovering_pool_waits_for_the_deadline(mut lab: Lab) {
    let stopping = stopping_after(lab.backend.now() + 9_000);
    let closing = shutdown(&lab, ShutdownMode::Closing(ms(9_000))).await;
    lab.recover().await;
    assert_eq!(shutdown(&lab, ShutdownMode::Advance).await, closing);
    lab.backend.advance(9_000).await;
    assert_eq!(shutdown(&lab, ShutdownMode::Advance).await, Some(stopping));
}

async fn stopping_may_come_at_once(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    shutdown(&lab, ShutdownMode::Closing(ms(9_000))).await;
    assert_eq!(shutdown(&lab, ShutdownMode::DropQueued).await, Some(stopping()));
    let before = lab.backend.dump().await;
    assert_eq!(shutdown(&lab, ShutdownMode::DropQueued).await, Some(stopping()));
    assert_eq!(lab.backend.dump().await, before);
}

async fn purge_needs_a_stopping_pool(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.refused(lab.step(&Purge { limit: 10 })).await, Refusal::NotStopping);
    shutdown(&lab, ShutdownMode::Closing(ms(9_000))).await;
    assert_eq!(lab.refused(lab.step(&Purge { limit: 10 })).await, Refusal::NotStopping);
    assert_eq!(lab.refused(lab.step(&CleanUp { tombstone: ms(1_000) })).await, Refusal::NotStopping);
}

async fn purge_drops_what_nobody_runs(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    for name in ["a", "b", "assigned", "parked", "running", "ending"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    lab.route("assigned", worker).await;
    lab.run_again("parked", worker).await;
    assert_eq!(lab.release("parked", worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    lab.run_again("running", worker).await;
    lab.run_again("ending", worker).await;
    assert_eq!(lab.stop("ending", "node1.ending", Some(worker)).await, StopReply::Stopping);
    shutdown(&lab, ShutdownMode::DropQueued).await;
    let mut dropped = Vec::new();
    loop {
        let page = lab.step(&Purge { limit: 2 }).await.unwrap();
        if page.is_empty() {
            break;
        }
        dropped.extend(page);
    }
    dropped.sort();
    let expected =
        ["a", "assigned", "b", "parked"].map(|name| (id(&format!("node1.{name}")), "shutdown".to_owned()));
    assert_eq!(dropped, expected);
    let left = lab.read(&ListJobs { cursor: 0, limit: 100 }).await.unwrap().jobs;
    assert_eq!(left.len(), 2);
    assert_eq!(lab.release("running", worker, ReleaseMode::HandOff).await, ReleaseReply::Deleted);
    assert_eq!(lab.release("ending", worker, ReleaseMode::HandOff).await, ReleaseReply::Deleted);
    assert_eq!(lab.queued().await, 0);
}

async fn the_dead_hand_nothing_on(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    shutdown(&lab, ShutdownMode::DropQueued).await;
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let reaped = lab.step(&Reap { worker, limit: 10 }).await.unwrap();
    assert_eq!(reaped.outcomes, [(id("node1.g"), "shutdown".to_owned())]);
    assert_eq!(lab.record("k").await, None);
}

/// Garbage can stand among the members of the Redis store alone.
async fn cleanup_waits_for_no_garbage(kind: Kind) {
    let lab = Lab::new(kind).await;
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    if matches!(kind, Kind::Redis) {
        for (field, value) in [("", "x"), ("x", "P|-|1|n|m|"), ("5", "1|R|"), ("99999999999999999999", "x")] {
            lab.backend.write("HSET", "workers", &[field, value]).await;
        }
        lab.backend.write("HSET", "expired", &["x", "1|"]).await;
        lab.backend.write("HSET", "workers", &["6", "Z||"]).await;
        lab.backend.write("HSET", "heartbeats", &["6", "3"]).await;
        let refused = lab.refused(lab.step(&CleanUp { tombstone: ms(1_000) })).await;
        assert_eq!(refused, Refusal::Members(1), "it has been heard of");
        lab.store().expire_one(lab.inc, WorkerId(6), Some(3)).await.unwrap();
        assert_eq!(lab.refused(lab.step(&CleanUp { tombstone: ms(1_000) })).await, Refusal::Members(1));
        assert!(lab.step(&Reap { worker: WorkerId(6), limit: 10 }).await.unwrap().done);
    }
    assert_eq!(lab.step(&CleanUp { tombstone: ms(1_000) }).await.unwrap(), 0);
}

async fn cleanup_waits_for_the_last_member(lab: Lab, worker: WorkerId, other: WorkerId) {
    shutdown(&lab, ShutdownMode::DropQueued).await;
    lab.store().expire_one(lab.inc, other, None).await.unwrap();
    assert_eq!(lab.refused(lab.step(&CleanUp { tombstone: ms(1_000) })).await, Refusal::Members(2));
    lab.leave(other).await;
    assert_eq!(lab.refused(lab.step(&CleanUp { tombstone: ms(1_000) })).await, Refusal::Members(1));
    lab.leave(worker).await;
    assert_eq!(lab.step(&CleanUp { tombstone: ms(60_000) }).await.unwrap(), 0);
}

/// A pool that was used in every way, shut down.
async fn closed(kind: Kind, tombstone: Duration) -> Lab {
    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    let renewed =
        lab.step(&Renew { node: Some(node("node1")), status: "x".into(), ..renew(&[worker]) }).await;
    assert_eq!(renewed.unwrap().states.len(), 1);
    lab.run("running", "node1.!own", worker).await;
    lab.notify("running", Some(worker), "body").await;
    lab.dispatch("queued", "node1.q").await;
    lab.starts().await;
    lab.step(&Note { most: 10, entry: "entry".into() }).await.unwrap();
    shutdown(&lab, ShutdownMode::DropQueued).await;
    lab.leave(worker).await;
    assert_eq!(lab.step(&CleanUp { tombstone }).await.unwrap(), 1, "what was queued is dropped");
    lab
}

async fn only_the_tombstone_is_left(kind: Kind) {
    let lab = closed(kind, Duration::from_secs(3_600)).await;
    lab.read(&ForgetNode { node: node("node1") }).await.unwrap();
    let dump = lab.backend.dump().await;
    assert_eq!(dump.lines(), [format!("pool closed = {}", lab.inc)]);
    assert_eq!(lab.read(&ReadState).await.unwrap(), PoolState::Closed { incarnation: lab.inc });
    assert_eq!(lab.refused(lab.step(&Join { request: Box::new(lab.request()) })).await, Refusal::Closed);
    assert_eq!(lab.refused(lab.step(&CleanUp { tombstone: ms(1_000) })).await, Refusal::Closed);
    let events = lab.read(&ReadPool { consumer: node("router"), max: 10, block: ms(0) }).await.unwrap();
    assert_eq!(events, None);
}

async fn a_tombstone_is_replaced_by_a_new_pool(kind: Kind) {
    let mut lab = closed(kind, Duration::from_secs(3_600)).await;
    lab.backend.advance(1_000).await;
    let before = lab.inc;
    lab.bootstrap().await;
    assert!(lab.inc > before);
    lab.step(&OpenNormal).await.unwrap();
    let worker = lab.worker().await;
    lab.run("running", "node1.r", worker).await;
}

async fn a_bootstrap_from_before_the_pool_leaves_its_tombstone(kind: Kind) {
    let lab = closed(kind, Duration::from_secs(3_600)).await;
    let late = Seen { incarnation: Incarnation(lab.inc.0 - 1), ..Seen::default() };
    assert_eq!(
        lab.refused(lab.read(&Bootstrap {
            seen: late,
            run_id: "server".to_owned(),
            settings: Box::new(lab.settings.clone())
        }))
        .await,
        Refusal::Closed
    );
}

/// Which incarnation has ended before this pool, as it says.
async fn before(lab: &Lab) -> Incarnation {
    match lab.read(&ReadState).await.unwrap() {
        PoolState::Present { closed, .. } => closed,
        state => panic!("{state:?}"),
    }
}

async fn a_tombstone_from_before_a_pool_that_was_seen_is_replaced(kind: Kind) {
    let mut lab = closed(kind, Duration::from_secs(3_600)).await;
    let ended = lab.inc;
    let seen = Seen { incarnation: Incarnation(ended.0 + 1_000_000), closed: ended, ..Seen::default() };
    let made = lab
        .read(&Bootstrap { seen, run_id: "server".to_owned(), settings: Box::new(lab.settings.clone()) })
        .await
        .unwrap();
    assert_eq!((made.created, made.incarnation), (true, Incarnation(ended.0 + 1_000_001)));
    assert_eq!(before(&lab).await, ended);
    lab.inc = made.incarnation;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    lab.worker().await;
}

/// Only on Redis can it be damaged.
async fn a_tombstone_that_no_pool_has_left_is_none(kind: Kind) {
    let beyond = (Incarnation::LAST.0 + 1).to_string();
    for damage in ["x", "", "-1", "1e300", "18446744073709551616", &beyond] {
        let mut lab = Lab::blank(kind).await;
        if matches!(kind, Kind::Memory) {
            return;
        }
        lab.backend.write_meta("closed", Some(damage)).await;
        assert_eq!(lab.read(&ReadState).await.unwrap(), PoolState::Absent, "{damage:?}");
        lab.bootstrap().await;
        assert_eq!(before(&lab).await, Incarnation(0), "{damage:?}");
        lab.backend.write_meta("closed", Some(damage)).await;
        assert_eq!(before(&lab).await, Incarnation(0), "{damage:?}");
        let seen = Seen { closed: Incarnation(7), ..Seen::default() };
        lab.inc = lab.step(&Recover { seen, ..recovery("server") }).await.unwrap();
        assert_eq!(lab.field("pool", "closed").await.as_deref(), Some("7"), "{damage:?}");
    }
}

async fn a_recovery_writes_back_which_pool_has_ended(mut lab: Lab) {
    for (known, stored) in [(0, 0), (7, 7), (0, 7), (6, 7), (9, 9)] {
        let seen = Seen { closed: Incarnation(known), ..Seen::default() };
        lab.inc = lab.step(&Recover { seen, ..recovery("server") }).await.unwrap();
        assert_eq!(before(&lab).await, Incarnation(stored), "{known}");
    }
}

async fn the_flag_of_a_pool_that_has_ended_goes_with_its_recovery(mut lab: Lab) {
    shutdown(&lab, ShutdownMode::DropQueued).await;
    for ended in [false, true] {
        let known = Incarnation(lab.inc.0 - u64::from(!ended));
        let before = lab.step(&renew(&[])).await.unwrap();
        let seen = Seen { closed: known, ..Seen::default() };
        lab.inc = lab.step(&Recover { seen, ..recovery("server") }).await.unwrap();
        let renewal = lab.step(&renew(&[])).await.unwrap();
        assert_eq!(renewal.flag, (!ended).then(stopping));
        assert_eq!(renewal.settings > before.settings, ended);
    }
    let mut settings = lab.store().settings();
    let inc = Some(lab.inc);
    let known = settings.wait_for(|it| it.incarnation == inc && !it.fields.contains_key("shutdown"));
    tokio::time::timeout(Duration::from_secs(30), known).await.unwrap().unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    lab.worker().await;
}

async fn a_pool_says_which_one_has_ended_before_it(kind: Kind) {
    let mut lab = closed(kind, Duration::from_secs(3_600)).await;
    let ended = lab.inc;
    lab.backend.advance(1_000).await;
    lab.bootstrap().await;
    assert_eq!(before(&lab).await, ended);
    lab.recover().await;
    assert_eq!(before(&lab).await, ended);
    for seen in [Incarnation(0), Incarnation(7)] {
        let mut lab = Lab::blank(kind).await;
        let seen = Seen { closed: seen, ..Seen::default() };
        lab.inc = lab
            .read(&Bootstrap { seen, run_id: "server".to_owned(), settings: Box::new(lab.settings.clone()) })
            .await
            .unwrap()
            .incarnation;
        assert_eq!(before(&lab).await, seen.closed);
    }
}

async fn a_tombstone_expires(kind: Kind) {
    let lab = closed(kind, ms(20)).await;
    lab.backend.advance(20).await;
    let state = async || lab.read(&ReadState).await.unwrap() == PoolState::Absent;
    eventually(Duration::from_secs(10), "the tombstone to expire", state).await;
}
