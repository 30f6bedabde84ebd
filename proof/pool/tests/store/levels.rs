//! The floor of a pool, the levels of its members, and the addresses that they publish.

use bytes::Bytes;
use tenure_pool::store::{
    Attend, AttestJobs, Begin, Bootstrap, ChangeSchedule, ChangeSettings, CleanUp, Dispatch, Drain,
    DropNotifications, Expire, HoldTurns, Inspect, Join, JoinRequest, ListOwned, ListPlanned, LookUp, Notify,
    NotifyItem, OpenNormal, Placing, PruneConsumers, Purge, RaiseLevel, Raised, Reap, Recover, Refusal,
    Release, ReleaseMode, Renew, RestoreGroup, Route, ScheduleChange, ScheduleKey, ScheduleKind, Seen,
    Settle, ShutDown, ShutdownMode, Started, StartedItem, Steer, SteerItem, Stop, Store, Sweep, Take,
    TakeItem, TakeTick, TermItem, Turn, Unpark, Way, WorkerBegins, WorkerStarts,
};
use tenure_protocol::model::id::{Incarnation, Revision, ScheduleId, ScheduleName, Term, Token, WorkerId};
use tenure_protocol::model::member::{Member, MemberState};

use super::lab::{Kind, Lab, id, key, ms, node, recovery, release, renew, stop, stopping};
use super::single::Single as _;

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
async fn with_a_newer_client(kind: Kind) -> (Lab, Store) {
    let lab = Lab::new(kind).await;
    let newer = lab.backend.newer_client();
    lab.backend.bless(&newer).await;
    (lab, newer)
}

async fn join_at(lab: &Lab, store: &Store) -> (WorkerId, Member) {
    let seat = store.run(lab.inc, &Join { request: Box::new(lab.request()) }).await.unwrap();
    (seat.worker, seat.member)
}

async fn floor(lab: &Lab, store: &Store) -> u32 {
    store.run(lab.inc, &renew(&[])).await.unwrap().floor
}

/// Whether the floor is the reason: it is 2, and the caller's level is 1.
fn is_too_old(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Level(why) if (why.floor, why.level) == (2, 1))
}

async fn a_member_names_its_level_and_its_address(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let address = "http://10.0.0.7:8080/{a}";
    let request = JoinRequest { address: address.into(), meta: "zone-1".into(), ..lab.request() };
    let seat = lab.step(&Join { request: Box::new(request) }).await.unwrap();
    assert_eq!((seat.member.level, seat.member.address.as_str()), (1, address));
    let entry = lab.field("workers", &seat.worker.to_string()).await.unwrap();
    assert!(entry.ends_with(&format!("|zone-1|1|{address}")), "{entry}");
    assert_eq!(join_at(&lab, &newer).await.1.level, 2);
    // A step that changes the place of a member keeps both.
    let drained = lab.store().drain_one(lab.inc, seat.worker).await.unwrap();
    assert_eq!(drained, Member { state: MemberState::Draining, ..seat.member });
}

async fn an_address_that_is_none_is_refused(lab: Lab) {
    for address in ["a b", "a|b", "é", &"x".repeat(129)] {
        let request = JoinRequest { address: address.to_owned(), ..lab.request() };
        assert_eq!(
            lab.refused(lab.step(&Join { request: Box::new(request.clone()) })).await,
            Refusal::BadArgument,
            "{address}"
        );
    }
    let request = JoinRequest { address: "x".repeat(128), ..lab.request() };
    lab.step(&Join { request: Box::new(request) }).await.unwrap();
}

async fn a_floor_refuses_older_scripts(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let (worker, _) = join_at(&lab, &newer).await;
    assert_eq!((floor(&lab, lab.store()).await, floor(&lab, &newer).await), (1, 1));
    for _ in 0..2 {
        assert_eq!(newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap(), Raised::Floor(2));
    }
    assert_eq!(floor(&lab, &newer).await, 2);
    assert_eq!(
        newer.run(lab.inc, &RaiseLevel { level: 1 }).await.unwrap(),
        Raised::Floor(2),
        "it never goes down"
    );
    let before = lab.backend.dump().await;
    let (store, inc) = (lab.store(), lab.inc);
    assert!(is_too_old(&lab.refused(store.run(inc, &Join { request: Box::new(lab.request()) })).await));
    assert!(is_too_old(&lab.refused(store.run(inc, &renew(&[worker]))).await));
    assert!(is_too_old(&lab.refused(store.run(inc, &Sweep { limit: 10, kick: None })).await));
    assert!(is_too_old(&lab.refused(store.run(inc, &recovery("other"))).await));
    assert!(is_too_old(&lab.refused(store.run(inc, &RaiseLevel { level: 1 })).await));
    let other = Incarnation(lab.inc.0 + 1);
    assert_eq!(lab.refused(store.run(other, &renew(&[]))).await, Refusal::StaleIncarnation(inc));
    assert_eq!(lab.backend.dump().await, before, "nothing was changed");
    assert_eq!(store.read(&LookUp { items: Vec::new() }).await.unwrap().len(), 0, "reads do not ask");
}

async fn every_step_asks_for_the_floor(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let (worker, member) = join_at(&lab, &newer).await;
    newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap();
    let (job, at, token, ring) = (key("job"), node("node1"), Token(1), Revision(1));
    let plan = ScheduleKey { kind: ScheduleKind::Plan, name: ScheduleName::new("p").unwrap() };
    let turn = Turn { plan: plan.name.clone(), id: ScheduleId(1), term: Term(1) };
    let term = TermItem { schedule: plan.clone(), id: turn.id, life: 1, leave: false, seen: None };
    let create = ScheduleChange::Create { period: ms(1_000), first: ms(0) };
    let begins = WorkerBegins { worker, finished: vec![], jobs: vec![(job.clone(), token)] };
    let started = StartedItem { key: job.clone(), token, tell: None };
    let starts = WorkerStarts { worker, finished: vec![], items: vec![started] };
    let ends = vec![release("job", token, ReleaseMode::Delete)];
    let note = NotifyItem { key: job.clone(), guess: None, body: Bytes::new() };
    let take = TakeItem { key: job.clone(), token, ack: 0 };
    let stops = vec![stop("job", "node1.job", None)];
    let steer = SteerItem {
        key: job.clone(),
        id: id("node1.job"),
        token,
        since: 1,
        way: Way::Now,
        guess: None,
        reason: String::new(),
    };
    let dispatched = vec![lab.item("job", "node1.job")];
    let (store, inc, request) = (lab.store(), lab.inc, lab.request());
    let seen = Seen::default();
    macro_rules! refused {
        ($($step:expr),* $(,)?) => {
            $(
                let step = $step;
                let refusal = lab.refused(store.run(inc, &step)).await;
                assert!(is_too_old(&refusal), "{step:?}: {refusal:?}");
            )*
        };
    }
    refused!(
        Recover { seen, ..recovery("process") },
        AttestJobs { worker, member, items: vec![] },
        Attend { worker, after: None, limit: 1 },
        OpenNormal,
        ChangeSettings { changes: vec![] },
        Join { request: Box::new(request) },
        RaiseLevel { level: 1 },
        Settle { worker },
        Renew { seen, node: Some(at.clone()), ..renew(&[worker]) },
        Drain { workers: vec![worker] },
        Expire { workers: vec![(worker, None)] },
        Reap { worker, limit: 1 },
        Dispatch { by: Placing::Ring(ring), items: dispatched.clone() },
        Route { ring, entries: vec![], jobs: vec![(job.clone(), Some(worker))] },
        Begin { begins: vec![begins] },
        Started { starts: vec![starts] },
        Release { worker, finished: vec![], items: ends },
        stopping(stops.clone()),
        Notify { items: vec![note] },
        Take { worker, finished: vec![], items: vec![take] },
        DropNotifications { key: job.clone(), through: 1 },
        Steer { items: vec![steer] },
        Unpark { jobs: vec![(job, id("node1.job"))] },
        Sweep { limit: 1, kick: Some(0) },
        Inspect { cursor: 0, limit: 1, held: vec![] },
        ListOwned { worker, after: None, limit: 1 },
        ChangeSchedule { schedule: plan.clone(), change: create },
        HoldTurns { node: at.clone(), items: vec![term] },
        TakeTick { schedule: plan.clone(), turn: (turn.id, turn.term), number: 1 },
        Dispatch { by: Placing::Turn(turn.clone()), items: dispatched },
        Stop { turn: Some(turn), repeat: false, waiting: None, items: stops },
        ListPlanned { plan: plan.name, after: None, limit: 1 },
        ShutDown { by: at, mode: ShutdownMode::DropQueued },
        Purge { limit: 1 },
        CleanUp { tombstone: ms(1_000) },
        RestoreGroup,
        PruneConsumers { idle: ms(0) },
    );
}

async fn a_member_that_goes_no_longer_holds_the_floor_down(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    let (standby, _) = join_at(&lab, lab.store()).await;
    let below = Raised::Below { worker: standby, level: 1 };
    lab.store().drain_one(lab.inc, standby).await.unwrap();
    assert_eq!(
        newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap(),
        below,
        "a draining worker is a member"
    );
    lab.store().expire_one(lab.inc, standby, None).await.unwrap();
    assert_eq!(
        newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap(),
        Raised::Floor(2),
        "before it is reaped"
    );
    assert!(newer.run(lab.inc, &Reap { worker: standby, limit: 10 }).await.unwrap().done, "others reap it");
}

async fn a_pool_that_ends_takes_its_floor_along(kind: Kind) {
    let (mut lab, newer) = with_a_newer_client(kind).await;
    newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap();
    newer.run(lab.inc, &ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    newer.run(lab.inc, &CleanUp { tombstone: ms(60_000) }).await.unwrap();
    assert_eq!(lab.field("pool", "floor").await, None);
    lab.bootstrap().await;
    assert_eq!(floor(&lab, lab.store()).await, 1, "nobody has told the new pool of a floor");
}

async fn the_floor_waits_for_every_member(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    join_at(&lab, &newer).await;
    let (first, _) = join_at(&lab, lab.store()).await;
    let (second, _) = join_at(&lab, lab.store()).await;
    let below = |worker| Raised::Below { worker, level: 1 };
    assert_eq!(newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap(), below(first));
    lab.leave(first).await;
    assert_eq!(newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap(), below(second));
    assert_eq!(floor(&lab, lab.store()).await, 1);
    lab.leave(second).await;
    assert_eq!(newer.run(lab.inc, &RaiseLevel { level: 2 }).await.unwrap(), Raised::Floor(2));
}

async fn a_level_that_the_script_does_not_know_is_refused(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    for level in [0, 2] {
        assert_eq!(lab.refused(lab.step(&RaiseLevel { level })).await, Refusal::BadArgument);
    }
    assert_eq!(lab.refused(newer.run(lab.inc, &RaiseLevel { level: 3 })).await, Refusal::BadArgument);
    assert_eq!(lab.step(&RaiseLevel { level: 1 }).await.unwrap(), Raised::Floor(1));
}

async fn a_recovering_pool_keeps_its_floor(kind: Kind) {
    let (mut lab, newer) = with_a_newer_client(kind).await;
    lab.recover().await;
    assert_eq!(lab.refused(newer.run(lab.inc, &RaiseLevel { level: 2 })).await, Refusal::Recovering);
    assert_eq!(floor(&lab, lab.store()).await, 1);
}

async fn a_recovery_keeps_the_higher_floor(kind: Kind) {
    let (mut lab, newer) = with_a_newer_client(kind).await;
    for (seen, kept) in [(2, 2), (1, 2), (0, 2)] {
        let seen = Seen { floor: seen, ..Seen::default() };
        lab.inc = newer.run(lab.inc, &Recover { seen, ..recovery("process") }).await.unwrap();
        assert_eq!(floor(&lab, &newer).await, kept);
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
            assert_eq!(
                newer.run(lab.inc, &Renew { seen, ..renew(&[]) }).await.unwrap().floor,
                kept,
                "{seen:?}"
            );
            assert_eq!(floor(&lab, &newer).await, kept, "it is stored");
        }
        let older = lab.refused(lab.step(&renew(&[worker]))).await;
        assert!(is_too_old(&older));
    }
}

async fn a_new_pool_begins_at_the_floor_that_was_seen(kind: Kind) {
    let (lab, newer) = with_a_newer_client(kind).await;
    lab.backend.wipe().await;
    let seen = Seen { floor: 2, incarnation: lab.inc, ..Seen::default() };
    let made = newer
        .read(&Bootstrap { seen, run_id: "process".to_owned(), settings: Box::new(lab.settings.clone()) })
        .await
        .unwrap();
    let renewed = newer.run(made.incarnation, &renew(&[])).await.unwrap();
    assert_eq!((made.created, renewed.floor), (true, 2));
    assert!(is_too_old(&lab.refused(lab.store().run(made.incarnation, &renew(&[]))).await));
}
