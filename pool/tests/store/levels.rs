//! The floor of a pool, the levels of its members, and the addresses that they publish.

use std::sync::Arc;

use bytes::Bytes;
use tenure_pool::id::{Incarnation, Revision, ScheduleId, ScheduleName, Term, Token, WorkerId};
use tenure_pool::member::{Member, MemberState};
use tenure_pool::store::{
    JoinRequest, NotifyItem, Raised, Refusal, ReleaseMode, ScheduleChange, ScheduleKey, ScheduleKind, Seen,
    ShutdownMode, StartedItem, SteerItem, Store, TakeItem, TermItem, Turn, Way, WorkerBegins, WorkerStarts,
};

use super::lab::{Kind, Lab, id, key, ms, node, release, stop};

scenarios! {
    a_member_names_its_level_and_its_address,
    an_address_that_is_none_is_refused,
    a_floor_refuses_older_scripts,
    every_step_asks_for_the_floor,
    a_member_that_goes_no_longer_holds_the_floor_down,
    a_pool_that_ends_takes_its_floor_along,
    the_floor_waits_for_every_member,
    a_level_that_the_script_does_not_know_is_refused,
    a_recovering_pool_keeps_its_floor,
    a_recovery_keeps_the_higher_floor,
    a_renewal_brings_back_the_floor_that_was_seen,
    a_new_pool_begins_at_the_floor_that_was_seen,
}

/// An open pool, and a client of level 2.
async fn with_a_newer_client(kind: Kind) -> (Lab, Arc<dyn Store>) {
    let lab = Lab::new(kind).await;
    let newer = lab.backend.newer_client();
    lab.backend.bless(&*newer).await;
    (lab, newer)
}

async fn join_at(lab: &Lab, store: &dyn Store) -> (WorkerId, Member) {
    let seat = store.join(lab.inc, &lab.request()).await.unwrap();
    (seat.worker, seat.member)
}

async fn floor(lab: &Lab, store: &dyn Store) -> u32 {
    store.renew(lab.inc, Seen::default(), None, &[]).await.unwrap().floor
}

/// Whether the floor is the reason: it is 2, and the caller's level is 1.
fn is_too_old(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Level(why) if (why.floor, why.level) == (2, 1))
}

async fn a_member_names_its_level_and_its_address(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let address = "http://10.0.0.7:8080/{a}";
    let request = JoinRequest { address: address.into(), meta: "zone-1".into(), ..lab.request() };
    let seat = lab.store().join(lab.inc, &request).await.unwrap();
    assert_eq!((seat.member.level, seat.member.address.as_str()), (1, address));
    let entry = lab.field("workers", &seat.worker.to_string()).await.unwrap();
    assert!(entry.ends_with(&format!("|zone-1|1|{address}")), "{entry}");
    assert_eq!(join_at(&lab, &*newer).await.1.level, 2);
    // A step that changes the place of a member keeps both.
    let drained = lab.store().drain(lab.inc, seat.worker).await.unwrap();
    assert_eq!(drained, Member { state: MemberState::Draining, ..seat.member });
}

async fn an_address_that_is_none_is_refused(kind: Kind) {
    let lab = Lab::new(kind).await;
    for address in ["a b", "a|b", "é", &"x".repeat(129)] {
        let request = JoinRequest { address: address.to_owned(), ..lab.request() };
        assert_eq!(lab.refused(lab.store().join(lab.inc, &request)).await, Refusal::BadArgument, "{address}");
    }
    let request = JoinRequest { address: "x".repeat(128), ..lab.request() };
    lab.store().join(lab.inc, &request).await.unwrap();
}

async fn a_floor_refuses_older_scripts(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let (worker, _) = join_at(&lab, &*newer).await;
    assert_eq!((floor(&lab, lab.store()).await, floor(&lab, &*newer).await), (1, 1));
    for _ in 0..2 {
        assert_eq!(newer.raise_level(lab.inc, 2).await.unwrap(), Raised::Floor(2));
    }
    assert_eq!(floor(&lab, &*newer).await, 2);
    assert_eq!(newer.raise_level(lab.inc, 1).await.unwrap(), Raised::Floor(2), "it never goes down");
    let before = lab.backend.dump().await;
    let (store, inc) = (lab.store(), lab.inc);
    assert!(is_too_old(&lab.refused(store.join(inc, &lab.request())).await));
    assert!(is_too_old(&lab.refused(store.renew(inc, Seen::default(), None, &[worker])).await));
    assert!(is_too_old(&lab.refused(store.sweep(inc, 10, None)).await));
    assert!(is_too_old(&lab.refused(store.recover(inc, Seen::default(), "other", "")).await));
    assert!(is_too_old(&lab.refused(store.raise_level(inc, 1)).await));
    let other = Incarnation(lab.inc.0 + 1);
    assert_eq!(
        lab.refused(store.renew(other, Seen::default(), None, &[])).await,
        Refusal::StaleIncarnation(inc)
    );
    assert_eq!(lab.backend.dump().await, before, "nothing was changed");
    assert_eq!(store.lookup(&[]).await.unwrap().len(), 0, "reads do not ask");
}

async fn every_step_asks_for_the_floor(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let (worker, member) = join_at(&lab, &*newer).await;
    newer.raise_level(lab.inc, 2).await.unwrap();
    let (job, at, token, ring) = (key("job"), node("node1"), Token(1), Revision(1));
    let plan = ScheduleKey { kind: ScheduleKind::Plan, name: ScheduleName::new("p").unwrap() };
    let turn = Turn { plan: plan.name.clone(), id: ScheduleId(1), term: Term(1) };
    let term = TermItem { schedule: plan.clone(), id: turn.id, life: 1, leave: false, seen: None };
    let create = ScheduleChange::Create { period: ms(1_000), first: ms(0) };
    let begins = WorkerBegins { worker, finished: vec![], jobs: vec![(job.clone(), token)] };
    let started = StartedItem { key: job.clone(), token, tell: None };
    let starts = WorkerStarts { worker, items: vec![started] };
    let ends = [release("job", token, ReleaseMode::Delete)];
    let note = NotifyItem { key: job.clone(), guess: None, body: Bytes::new() };
    let take = TakeItem { key: job.clone(), token, ack: 0 };
    let stops = [stop("job", "node1.job", None)];
    let steer = SteerItem {
        key: job.clone(),
        id: id("node1.job"),
        token,
        since: 1,
        way: Way::Now,
        guess: None,
        reason: String::new(),
    };
    let dispatched = [lab.item("job", "node1.job")];
    let (store, inc, request) = (lab.store(), lab.inc, lab.request());
    macro_rules! refused {
        ($($step:ident($($argument:expr),*)),* $(,)?) => {
            $(
                let refusal = lab.refused(store.$step(inc, $($argument),*)).await;
                assert!(is_too_old(&refusal), "{}: {refusal:?}", stringify!($step));
            )*
        };
    }
    refused!(
        recover(Seen::default(), "process", ""),
        attest(worker, &member, &[]),
        attend(worker, None, 1),
        open_normal(),
        change_settings(&[]),
        join(&request),
        raise_level(1),
        settle(worker),
        renew(Seen::default(), Some(&at), &[worker]),
        drain(worker),
        expire_all(&[(worker, None)]),
        reap(worker, 1),
        dispatch(ring, &dispatched),
        route(ring, &[], &[(job.clone(), Some(worker))]),
        begin_all(std::slice::from_ref(&begins)),
        started_all(std::slice::from_ref(&starts)),
        release(worker, &[], &ends),
        stop(false, None, &stops),
        notify(std::slice::from_ref(&note)),
        take(worker, &[], std::slice::from_ref(&take)),
        drop_notifications(&job, 1),
        steer(std::slice::from_ref(&steer)),
        unpark(&[(job.clone(), id("node1.job"))]),
        sweep(1, Some(0)),
        inspect(0, 1, &[]),
        owned(worker, None, 1),
        sched(&plan, &create),
        term(&at, std::slice::from_ref(&term)),
        tick(&plan, (turn.id, turn.term), 1),
        dispatch_planned(&turn, &dispatched),
        stop_planned(&turn, &stops),
        planned(&plan.name, None, 1),
        shutdown(&at, ShutdownMode::DropQueued),
        purge(1),
        cleanup(ms(1_000)),
        restore_group(),
        prune_consumers(ms(0)),
    );
}

async fn a_member_that_goes_no_longer_holds_the_floor_down(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let (standby, _) = join_at(&lab, lab.store()).await;
    let below = Raised::Below { worker: standby, level: 1 };
    lab.store().drain(lab.inc, standby).await.unwrap();
    assert_eq!(newer.raise_level(lab.inc, 2).await.unwrap(), below, "a draining worker is a member");
    lab.store().expire(lab.inc, standby, None).await.unwrap();
    assert_eq!(newer.raise_level(lab.inc, 2).await.unwrap(), Raised::Floor(2), "before it is reaped");
    assert!(newer.reap(lab.inc, standby, 10).await.unwrap().done, "others reap it");
}

async fn a_pool_that_ends_takes_its_floor_along(kind: Kind) {
    let (mut lab, newer) = with_a_newer_client(kind).await;
    newer.raise_level(lab.inc, 2).await.unwrap();
    newer.shutdown(lab.inc, &node("node1"), ShutdownMode::DropQueued).await.unwrap();
    newer.cleanup(lab.inc, ms(60_000)).await.unwrap();
    assert_eq!(lab.field("pool", "floor").await, None);
    lab.bootstrap().await;
    assert_eq!(floor(&lab, lab.store()).await, 1, "nobody has told the new pool of a floor");
}

async fn the_floor_waits_for_every_member(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    join_at(&lab, &*newer).await;
    let (first, _) = join_at(&lab, lab.store()).await;
    let (second, _) = join_at(&lab, lab.store()).await;
    let below = |worker| Raised::Below { worker, level: 1 };
    assert_eq!(newer.raise_level(lab.inc, 2).await.unwrap(), below(first));
    lab.leave(first).await;
    assert_eq!(newer.raise_level(lab.inc, 2).await.unwrap(), below(second));
    assert_eq!(floor(&lab, lab.store()).await, 1);
    lab.leave(second).await;
    assert_eq!(newer.raise_level(lab.inc, 2).await.unwrap(), Raised::Floor(2));
}

async fn a_level_that_the_script_does_not_know_is_refused(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    for level in [0, 2] {
        assert_eq!(lab.refused(lab.store().raise_level(lab.inc, level)).await, Refusal::BadArgument);
    }
    assert_eq!(lab.refused(newer.raise_level(lab.inc, 3)).await, Refusal::BadArgument);
    assert_eq!(lab.store().raise_level(lab.inc, 1).await.unwrap(), Raised::Floor(1));
}

async fn a_recovering_pool_keeps_its_floor(kind: Kind) {
    let (mut lab, newer) = with_a_newer_client(kind).await;
    lab.recover().await;
    assert_eq!(lab.refused(newer.raise_level(lab.inc, 2)).await, Refusal::Recovering);
    assert_eq!(floor(&lab, lab.store()).await, 1);
}

async fn a_recovery_keeps_the_higher_floor(kind: Kind) {
    let (mut lab, newer) = with_a_newer_client(kind).await;
    for (seen, kept) in [(2, 2), (1, 2), (0, 2)] {
        let seen = Seen { floor: seen, ..Seen::default() };
        lab.inc = newer.recover(lab.inc, seen, "process", "").await.unwrap();
        assert_eq!(floor(&lab, &*newer).await, kept);
    }
}

async fn a_renewal_brings_back_the_floor_that_was_seen(kind: Kind) {
    for recovering in [true, false] {
        let (mut lab, newer) = with_a_newer_client(kind).await;
        let (worker, _) = join_at(&lab, lab.store()).await;
        if recovering {
            lab.recover().await;
        }
        for (seen, kept) in [(0, 1), (3, 1), (2, 2), (1, 2)] {
            let seen = Seen { floor: seen, ..Seen::default() };
            assert_eq!(newer.renew(lab.inc, seen, None, &[]).await.unwrap().floor, kept, "{seen:?}");
            assert_eq!(floor(&lab, &*newer).await, kept, "it is stored");
        }
        let older = lab.refused(lab.store().renew(lab.inc, Seen::default(), None, &[worker])).await;
        assert!(is_too_old(&older));
    }
}

async fn a_new_pool_begins_at_the_floor_that_was_seen(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    lab.backend.wipe().await;
    let seen = Seen { floor: 2, incarnation: lab.inc, ..Seen::default() };
    let made = newer.bootstrap(seen, "process", &lab.settings).await.unwrap();
    let renewed = newer.renew(made.incarnation, Seen::default(), None, &[]).await.unwrap();
    assert_eq!((made.created, renewed.floor), (true, 2));
    assert!(is_too_old(&lab.refused(lab.store().renew(made.incarnation, Seen::default(), None, &[])).await));
}
