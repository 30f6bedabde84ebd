//! The pool's creation, its recovery, phase R, and callers that belong elsewhere.

use tenure_pool::store::{
    Attend, Begin, Bootstrap, CleanUp, Dispatch, DispatchReply, Drain, DropNotifications, Expire, Expired,
    Join, ListOwned, Notify, NotifyItem, NotifyReply, OpenNormal, Placing, PoolState, PruneConsumers, Purge,
    ReadHeartbeats, ReadIdentity, ReadPool, ReadState, ReadTime, Reap, Recover, Refusal, Release,
    ReleaseMode, ReleaseReply, Renew, RestoreGroup, Route, Seen, Settle, ShutDown, ShutdownMode, Started,
    StartedItem, StopReply, StoreError, Sweep, Take, TakeItem, WorkerBegins, WorkerStarts,
};
use tenure_protocol::model::id::{Incarnation, Revision, Token, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::lab::{
    Kind, Lab, key, ms, node, recovery, refusal, release, renew, seen as with_token, stop, stopping,
};
use super::single::Single as _;

scenarios! {
    a_pool_is_created_once,
    tokens_begin_above_all_that_was_seen,
    incarnations_begin_above_all_that_was_seen,
    without_a_pool_every_step_is_refused,
    another_incarnation_is_refused_by_every_step,
    an_incarnation_that_no_pool_has_is_not_counted_from,
    a_revision_that_no_map_has_begins_anew,
    the_first_recovery_wins,
    recovery_keeps_what_survived,
    phase_r_refuses_what_starts_jobs,
    phase_r_lets_work_end,
    phase_r_does_not_say_that_a_worker_has_left,
    phase_r_asks_to_retry_what_may_run_unseen,
    the_pool_opens_when_the_last_member_is_gone,
    an_unblessed_client_sends_nothing,
    a_lease_shares_the_blessing,
    a_key_that_is_lost_alone_is_noticed_by_the_next_renewal,
    a_loss_that_stays_is_answered_and_asks_for_one_recovery,
    a_damage_that_stays_asks_for_one_recovery,
    a_recovery_keeps_the_signs_that_are_known,
    a_pool_of_any_size_shows_no_loss,
    who_joins_does_not_hide_that_the_members_were_lost,
    a_lost_counter_counts_as_0,
    a_counter_that_is_no_number_counts_as_0,
    a_recovery_waits_for_members_and_for_nothing_else,
}

async fn a_pool_is_created_once(kind: Kind) {
    let mut lab = Lab::blank(kind).await;
    assert_eq!(lab.read(&ReadState).await.unwrap(), PoolState::Absent);
    lab.bootstrap().await;
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let present = PoolState::Present {
        incarnation: Incarnation(lab.backend.now()),
        recovering: true,
        members: Revision(1),
        settings: Revision(1),
        run_id: run_id.clone(),
        closed: Incarnation(0),
    };
    assert_eq!(lab.read(&ReadState).await.unwrap(), present);
    let before = lab.backend.dump().await;
    lab.backend.advance(1_000).await;
    let again = lab
        .read(&Bootstrap {
            seen: Seen { token: Token(u64::from(u32::MAX)), ..Seen::default() },
            run_id,
            settings: Box::new(lab.settings.clone()),
        })
        .await
        .unwrap();
    assert_eq!((again.created, again.incarnation), (false, lab.inc));
    assert_eq!(lab.backend.dump().await, before);
}

async fn tokens_begin_above_all_that_was_seen(kind: Kind) {
    let lab = Lab::new(kind).await;
    let floor = (lab.backend.now() - 1_735_689_600_000) * 4_096;
    assert_eq!(lab.join().await.worker, WorkerId(floor + 1));
    let mut lab = Lab::blank(kind).await;
    let seen = Seen { token: Token(floor + 1_000_000_000), ..Seen::default() };
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    lab.inc = lab
        .read(&Bootstrap { seen, run_id: run_id.clone(), settings: Box::new(lab.settings.clone()) })
        .await
        .unwrap()
        .incarnation;
    let seen = Seen { token: Token(seen.token.0 + 5), ..seen };
    lab.inc = lab.step(&Recover { seen, ..recovery(&run_id) }).await.unwrap();
    lab.step(&OpenNormal).await.unwrap();
    assert_eq!(lab.join().await.worker, WorkerId(seen.token.0 + 1));
}

async fn incarnations_begin_above_all_that_was_seen(kind: Kind) {
    let mut lab = Lab::blank(kind).await;
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let ahead = Incarnation(lab.backend.now() + 1_000_000);
    let seen = |incarnation| Seen { incarnation, ..Seen::default() };
    let made = lab
        .read(&Bootstrap {
            seen: seen(ahead),
            run_id: run_id.clone(),
            settings: Box::new(lab.settings.clone()),
        })
        .await
        .unwrap();
    assert_eq!((made.created, made.incarnation), (true, Incarnation(ahead.0 + 1)));
    lab.inc =
        lab.store().run(made.incarnation, &Recover { seen: seen(ahead), ..recovery(&run_id) }).await.unwrap();
    assert_eq!(lab.inc, Incarnation(ahead.0 + 2), "above the one that there is");
    lab.inc = lab.step(&Recover { seen: seen(Incarnation(ahead.0 + 9)), ..recovery(&run_id) }).await.unwrap();
    assert_eq!(lab.inc, Incarnation(ahead.0 + 10), "above one that the store has forgotten");
}

/// The refusal of each step that takes an incarnation.
async fn every_step(lab: &Lab, inc: Incarnation) -> Vec<Refusal> {
    let (worker, key, token) = (WorkerId(5), key("k"), Token(1));
    let begins = vec![WorkerBegins { worker, finished: vec![], jobs: vec![(key.clone(), token)] }];
    refusals![lab, inc;
        recovery("x"),
        OpenNormal,
        Join { request: Box::new(lab.request()) },
        Settle { worker },
        renew(&[worker]),
        Drain { workers: vec![worker] },
        Expire { workers: vec![(worker, None)] },
        Reap { worker, limit: 10 },
        Dispatch { by: Placing::Ring(Revision(0)), items: vec![lab.item("k", "node1.k")] },
        Route { ring: Revision(1), entries: vec![], jobs: vec![(key.clone(), None)] },
        Begin { begins },
        Started { starts: vec![WorkerStarts { worker, finished: vec![], items: vec![started("k", token)] }] },
        Release { worker, finished: vec![], items: vec![release("k", token, ReleaseMode::Delete)] },
        stopping(vec![stop("k", "node1.k", None)]),
        Notify { items: vec![notification("k")] },
        Take { worker, finished: vec![], items: vec![take("k", token)] },
        DropNotifications { key, through: 0 },
        Sweep { limit: 10, kick: None },
        ListOwned { worker, after: None, limit: 10 },
        ShutDown { by: node("router"), mode: ShutdownMode::DropQueued },
        Purge { limit: 10 },
        CleanUp { tombstone: ms(1_000) },
        RestoreGroup,
        PruneConsumers { idle: ms(0) },
    ]
}

fn started(name: &str, token: Token) -> StartedItem {
    StartedItem { key: key(name), token, tell: None }
}

fn notification(name: &str) -> NotifyItem {
    NotifyItem { key: key(name), guess: None, body: "body".into() }
}

fn take(name: &str, token: Token) -> TakeItem {
    TakeItem { key: key(name), token, ack: 0 }
}

async fn without_a_pool_every_step_is_refused(kind: Kind) {
    let lab = Lab::blank(kind).await;
    for refusal in every_step(&lab, Incarnation(1)).await {
        assert_eq!(refusal, Refusal::NoPool);
    }
    assert_eq!(lab.read(&ReadState).await.unwrap(), PoolState::Absent);
    let events = lab.read(&ReadPool { consumer: node("router"), max: 10, block: ms(0) }).await.unwrap();
    assert_eq!(events, None, "there is no consumer group");
}

async fn another_incarnation_is_refused_by_every_step(lab: Lab) {
    let before = lab.backend.dump().await;
    for refusal in every_step(&lab, Incarnation(lab.inc.0 - 1)).await {
        assert_eq!(refusal, Refusal::StaleIncarnation(lab.inc));
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn the_first_recovery_wins(mut lab: Lab) {
    let before = lab.inc;
    lab.recover().await;
    assert!(lab.inc > before, "also within the same ms");
    let refusal = lab.refused(lab.store().run(before, &recovery("x"))).await;
    assert_eq!(refusal, Refusal::StaleIncarnation(lab.inc));
    lab.backend.set_clock(lab.backend.now() - 60_000).await;
    let before = lab.inc;
    lab.recover().await;
    assert!(lab.inc > before, "also when the clock has stepped back");
}

async fn recovery_keeps_what_survived(mut lab: Lab, worker: WorkerId) {
    lab.run("a", "node1.a", worker).await;
    lab.dispatch("b", "node1.b").await;
    lab.recover().await;
    assert_eq!(lab.record("a").await.unwrap().state, JobState::Running);
    assert_eq!(lab.record("b").await.unwrap().state, JobState::Queued);
    lab.store().expire_one(lab.inc, worker, Some(1)).await.unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    assert_eq!(lab.step(&Reap { worker, limit: 10 }).await.unwrap().count, 1);
    let next = lab.worker().await;
    lab.run_again("a", next).await;
    lab.run_again("b", next).await;
}

async fn phase_r_refuses_what_starts_jobs(mut lab: Lab, worker: WorkerId) {
    lab.assign("a", "node1.a", worker).await;
    let token = lab.token("a").await;
    lab.recover().await;
    let begins = vec![WorkerBegins { worker, finished: Vec::new(), jobs: vec![(key("a"), token)] }];
    let refusals = refusals![lab, lab.inc;
        Join { request: Box::new(lab.request()) },
        Reap { worker, limit: 10 },
        Sweep { limit: 10, kick: Some(0) },
        Route { ring: lab.revision().await, entries: Vec::new(), jobs: vec![(key("a"), Some(worker))] },
        Begin { begins },
        Take { worker, finished: Vec::new(), items: vec![take("a", token)] },
    ];
    assert_eq!(refusals, vec![Refusal::Recovering; 6]);
}

async fn phase_r_lets_work_end(mut lab: Lab, worker: WorkerId) {
    let standby = lab.join().await.worker;
    let token = lab.run("a", "node1.a", worker).await;
    lab.run("b", "node1.b", worker).await;
    lab.recover().await;
    let renewal = lab.step(&renew(&[worker])).await.unwrap();
    assert!(renewal.recovering);
    assert!(lab.started("a", worker).await);
    assert_eq!(lab.release("a", worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    assert_eq!(lab.stop("b", "node1.b", Some(worker)).await, StopReply::Stopping);
    assert_eq!(lab.release("b", worker, ReleaseMode::HandOff).await, ReleaseReply::Deleted);
    assert_eq!(lab.step(&ListOwned { worker, after: None, limit: 10 }).await.unwrap().jobs, []);
    lab.step(&Settle { worker: standby }).await.unwrap();
    lab.store().drain_one(lab.inc, worker).await.unwrap();
    assert_eq!(lab.store().expire_one(lab.inc, worker, None).await.unwrap(), Expired::Done);
    assert_eq!(lab.token("a").await, token, "a hand-off mints nothing");
}

async fn phase_r_does_not_say_that_a_worker_has_left(mut lab: Lab, worker: WorkerId) {
    lab.backend.wipe().await;
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    lab.inc = lab
        .read(&Bootstrap { seen: Seen::default(), run_id, settings: Box::new(lab.settings.clone()) })
        .await
        .unwrap()
        .incarnation;
    assert_eq!(lab.refused(lab.store().drain_one(lab.inc, worker)).await, Refusal::Recovering);
    lab.step(&OpenNormal).await.unwrap();
    assert_eq!(lab.refused(lab.store().drain_one(lab.inc, worker)).await, Refusal::Fenced);
}

async fn phase_r_asks_to_retry_what_may_run_unseen(mut lab: Lab, worker: WorkerId) {
    lab.dispatch("queued", "node1.q").await;
    lab.assign("assigned", "node1.a", worker).await;
    lab.run("running", "node1.r", worker).await;
    for id in ["node1.gone", "node1.!gone"] {
        lab.run("gone", id, worker).await;
        assert_eq!(lab.release("gone", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    }
    lab.recover().await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.stop("gone", "node1.gone", None).await, StopReply::Ended, "no id is given twice");
    assert_eq!(lab.stop("gone", "node1.!gone", None).await, StopReply::Recovering, "but a caller's may be");
    assert_eq!(lab.dispatch("new", "node1.n").await, DispatchReply::Recovering);
    assert_eq!(lab.dispatch("queued", "node1.q").await, DispatchReply::Accepted, "it was accepted before");
    assert_eq!(lab.dispatch("running", "node1.n").await, DispatchReply::Exists);
    assert_eq!(lab.notify("new", None, "body").await, NotifyReply::Recovering);
    for (name, id) in [("new", "node1.n"), ("queued", "node1.q"), ("assigned", "node1.a")] {
        assert_eq!(lab.stop(name, id, Some(worker)).await, StopReply::Recovering);
    }
    assert_eq!(lab.stop("queued", "node1.other", None).await, StopReply::Absent);
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.notify("queued", None, "body").await, NotifyReply::Kept);
    assert_eq!(lab.notify("running", Some(worker), "body").await, NotifyReply::Kept);
}

async fn the_pool_opens_when_the_last_member_is_gone(mut lab: Lab) {
    let (first, second) = (lab.worker().await, lab.join().await.worker);
    lab.recover().await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(first));
    lab.store().expire_one(lab.inc, first, Some(1)).await.unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(second));
    lab.store().expire_one(lab.inc, second, Some(1)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    }
    lab.join().await;
}

async fn an_unblessed_client_sends_nothing(lab: Lab) {
    let other = lab.backend.client();
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let is_refused = |answer: Result<u64, StoreError>| match answer {
        Err(StoreError::OtherServer { run_id: answered }) => assert_eq!(answered, run_id),
        other => panic!("{other:?}"),
    };
    is_refused(other.read(&ReadTime).await);
    other.bless("somebody-else");
    is_refused(other.read(&ReadTime).await);
    assert_eq!(other.read(&ReadState).await.unwrap(), lab.read(&ReadState).await.unwrap());
    assert_eq!(other.read(&ReadIdentity).await.unwrap().run_id, run_id);
    other.server_checks().await.unwrap();
    let known = other
        .read(&Bootstrap {
            seen: Seen::default(),
            run_id: "x".to_owned(),
            settings: Box::new(lab.settings.clone()),
        })
        .await
        .unwrap();
    assert_eq!((known.created, known.incarnation), (false, lab.inc));
    other.bless(&run_id);
    other.read(&ReadTime).await.unwrap();
    other.close().await;
    lab.read(&ReadTime).await.unwrap();
}

async fn a_lease_shares_the_blessing(lab: Lab, worker: WorkerId) {
    let client = lab.backend.client();
    let lease = client.apart();
    let renewed = lease.run(lab.inc, &renew(&[worker])).await;
    assert!(matches!(renewed, Err(StoreError::OtherServer { .. })), "{renewed:?}");
    lab.backend.bless(&client).await;
    lease.run(lab.inc, &renew(&[worker])).await.unwrap();
    assert_eq!(lease.expire_one(lab.inc, worker, Some(1)).await.unwrap(), Expired::Renewed);
    lease.close().await;
    client.close().await;
}

async fn a_key_that_is_lost_alone_is_noticed_by_the_next_renewal(kind: Kind) {
    for (lost, sign) in [("workers", "m"), ("jobs", "r"), ("payloads", "p"), ("owners", "o")] {
        let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        lab.run("a", "node1.a", worker).await;
        lab.step(&renew(&[worker])).await.unwrap();
        lab.backend.lose(lost).await;
        let before = lab.backend.dump().await;
        let renewal =
            lab.step(&Renew { seen: with_token(Token(u64::from(u32::MAX))), ..renew(&[worker]) }).await;
        assert_eq!(refusal(renewal), Refusal::Lost(sign.into()), "{lost}");
        assert_eq!(lab.backend.dump().await, before, "nothing is renewed");
        lab.recover().await;
        let renewal = lab.step(&renew(&[worker])).await.unwrap();
        assert!(renewal.recovering, "in phase R it is being repaired");
    }
}

async fn a_loss_that_stays_is_answered_and_asks_for_one_recovery(mut lab: Lab, worker: WorkerId) {
    lab.run("a", "node1.a", worker).await;
    lab.leave(worker).await;
    let stray = lab.worker().await;
    for name in ["x", "y"] {
        lab.backend.write_index(WorkerId(5), &key(name)).await;
    }
    let renewed = async |lab: &Lab| lab.step(&renew(&[stray])).await;
    assert_eq!(refusal(renewed(&lab).await), Refusal::Lost("r".into()));
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    lab.inc = lab.step(&Recover { lost: "r".to_owned(), ..recovery(&run_id) }).await.unwrap();
    lab.step(&Attend { worker: stray, after: None, limit: 10 }).await.unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    assert_eq!(renewed(&lab).await.unwrap().damage, "r");
    lab.backend.lose("workers").await;
    assert_eq!(refusal(renewed(&lab).await), Refusal::Lost("mr".into()), "another loss");
    lab.inc = lab.step(&Recover { lost: "mr".to_owned(), ..recovery(&run_id) }).await.unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    let stray = lab.worker().await;
    lab.backend.lose("owners").await;
    let renewed = async |lab: &Lab| lab.step(&renew(&[stray])).await;
    assert_eq!(renewed(&lab).await.unwrap().damage, "r", "while a job waits, sizes may fit by chance");
    lab.stop("a", "node1.a", None).await;
    assert_eq!(renewed(&lab).await.unwrap().damage, "", "both are gone");
    for name in ["x", "y"] {
        lab.backend.write_index(WorkerId(5), &key(name)).await;
    }
    assert_eq!(refusal(renewed(&lab).await), Refusal::Lost("r".into()), "it is a new one");
}

async fn a_recovery_keeps_the_signs_that_are_known(mut lab: Lab) {
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let worker = lab.worker().await;
    lab.dispatch("a", "node1.a").await;
    lab.backend.lose("payloads").await;
    for signs in ["p", "m", ""] {
        lab.inc = lab.step(&Recover { lost: signs.to_owned(), ..recovery(&run_id) }).await.unwrap();
    }
    lab.step(&Attend { worker, after: None, limit: 10 }).await.unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    let renewal = lab.step(&renew(&[worker])).await.unwrap();
    assert_eq!(renewal.damage, "p", "the members are there, the payloads are lost");
}

/// Jobs that come and go beside the damage make its sign come and go: it is no new one.
async fn a_damage_that_stays_asks_for_one_recovery(kind: Kind) {
    for damage in ["payloads", "a record", "an index"] {
        let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        match damage {
            "payloads" => {
                lab.dispatch("a", "node1.a").await;
                lab.backend.lose("payloads").await;
            }
            "a record" => lab.backend.write_record(&key("a"), b"garbage").await,
            _ => lab.backend.write_index(WorkerId(5), &key("a")).await,
        }
        let renewed = async |lab: &Lab| lab.step(&renew(&[worker])).await;
        let Refusal::Lost(signs) = refusal(renewed(&lab).await) else { panic!("{damage}: not noticed") };
        let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
        lab.inc = lab.step(&Recover { lost: signs.clone(), ..recovery(&run_id) }).await.unwrap();
        lab.step(&Attend { worker, after: None, limit: 10 }).await.unwrap();
        assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
        for n in 0..3 {
            let name = format!("job-{n}");
            assert_eq!(renewed(&lab).await.unwrap().damage, signs, "{damage}");
            lab.run(&name, &format!("node1.{name}"), worker).await;
            assert_eq!(renewed(&lab).await.unwrap().damage, signs, "{damage}, beside a job that runs");
            lab.release(&name, worker, ReleaseMode::Fail).await;
            assert_eq!(renewed(&lab).await.unwrap().damage, signs, "{damage}, beside one that waits");
            lab.run_again(&name, worker).await;
            lab.release(&name, worker, ReleaseMode::Delete).await;
        }
        assert_eq!(renewed(&lab).await.unwrap().damage, signs, "{damage}");
    }
}

async fn a_pool_of_any_size_shows_no_loss(lab: Lab) {
    let renews = async |worker: WorkerId| {
        let renewal = lab.step(&renew(&[worker])).await.unwrap();
        assert_eq!(renewal.damage, "");
    };
    renews(WorkerId(5)).await;
    lab.dispatch("a", "node1.a").await;
    renews(WorkerId(5)).await;
    let worker = lab.worker().await;
    renews(worker).await;
    lab.run("b", "node1.b", worker).await;
    renews(worker).await;
    lab.store().drain_one(lab.inc, worker).await.unwrap();
    renews(worker).await;
    lab.leave(worker).await;
    renews(worker).await;
}

async fn who_joins_does_not_hide_that_the_members_were_lost(mut lab: Lab, worker: WorkerId) {
    lab.backend.lose("workers").await;
    let before = lab.backend.dump().await;
    let refused = lab.refused(lab.step(&Join { request: Box::new(lab.request()) })).await;
    assert_eq!((refused, lab.backend.dump().await), (Refusal::Lost("m".into()), before));
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    lab.inc = lab.step(&Recover { lost: "m".to_owned(), ..recovery(&run_id) }).await.unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    assert_ne!(lab.worker().await, worker, "nobody was left to say that it lives");
}

async fn a_lost_counter_counts_as_0(lab: Lab, silent: WorkerId, living: WorkerId) {
    lab.backend.lose("heartbeats").await;
    lab.step(&renew(&[living])).await.unwrap();
    assert_eq!(lab.store().expire_one(lab.inc, living, Some(0)).await.unwrap(), Expired::Renewed);
    assert_eq!(lab.store().expire_one(lab.inc, silent, Some(1)).await.unwrap(), Expired::Renewed);
    assert_eq!(lab.store().expire_one(lab.inc, silent, Some(0)).await.unwrap(), Expired::Done);
}

/// Only on Redis can a counter be damaged. An observer takes a counter that it cannot read for 0.
async fn a_counter_that_is_no_number_counts_as_0(kind: Kind) {
    let lab = Lab::new(kind).await;
    if matches!(kind, Kind::Memory) {
        return;
    }
    for strange in ["x", "7.5", "1e300", "inf", "99999999999999999999", "\u{e9}", ""] {
        let worker = lab.worker().await;
        lab.backend.write("HSET", "heartbeats", &[&worker.to_string(), strange]).await;
        let seen = lab.read(&ReadHeartbeats { workers: None }).await.unwrap().get(&worker).copied();
        assert_eq!(seen, None, "{strange:?}");
        assert_eq!(lab.store().expire_one(lab.inc, worker, Some(1)).await.unwrap(), Expired::Renewed);
        assert_eq!(
            lab.store().expire_one(lab.inc, worker, Some(0)).await.unwrap(),
            Expired::Done,
            "{strange:?}"
        );
        assert_eq!(lab.sweep().await.dead, [worker]);
        assert!(lab.step(&Reap { worker, limit: 10 }).await.unwrap().done);
    }
    for (text, counter) in [("007", 7), ("+7", 7), ("18446744073709551615", u64::MAX)] {
        let worker = lab.worker().await;
        lab.backend.write("HSET", "heartbeats", &[&worker.to_string(), text]).await;
        assert_eq!(lab.read(&ReadHeartbeats { workers: None }).await.unwrap()[&worker], counter);
        assert_eq!(lab.store().expire_one(lab.inc, worker, Some(counter)).await.unwrap(), Expired::Done);
    }
}

/// Garbage can stand among the members of the Redis store alone.
async fn a_recovery_waits_for_members_and_for_nothing_else(kind: Kind) {
    let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    if matches!(kind, Kind::Redis) {
        for (name, entry) in [("", "x"), ("x|y", "U|1|1|n|n|"), ("5", "1|R|"), ("99999999999999999999", "x")]
        {
            lab.backend.write("HSET", "workers", &[name, entry]).await;
        }
        lab.backend.write("HSET", "workers", &["6", "\u{e9}"]).await;
        lab.backend.write("HSET", "heartbeats", &["6", "3"]).await;
    }
    lab.recover().await;
    if matches!(kind, Kind::Redis) {
        let damaged = Some(WorkerId(6));
        assert_eq!(lab.step(&OpenNormal).await.unwrap(), damaged, "it has been heard of");
        assert_eq!(lab.store().expire_one(lab.inc, WorkerId(6), Some(3)).await.unwrap(), Expired::Done);
    }
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(worker));
    lab.step(&Attend { worker, after: None, limit: 10 }).await.unwrap();
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
}

async fn an_incarnation_that_no_pool_has_is_not_counted_from(kind: Kind) {
    let lab = Lab::new(kind).await;
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let beyond = Incarnation((1 << 53) + 1);
    let seen = Seen { incarnation: beyond, ..Seen::default() };
    lab.backend.advance(1_000).await;
    let next = lab.step(&Recover { seen, ..recovery(&run_id) }).await.unwrap();
    assert_eq!(next, Incarnation(lab.backend.now()));
    if let Kind::Memory = kind {
        return; // Nobody can write there.
    }
    lab.backend.write_meta("incarnation", Some(&beyond.to_string())).await;
    lab.backend.advance(1_000).await;
    let next = lab.store().run(beyond, &recovery(&run_id)).await.unwrap();
    assert_eq!(next, Incarnation(lab.backend.now()));
}

/// Only on Redis can a revision be damaged.
async fn a_revision_that_no_map_has_begins_anew(kind: Kind) {
    let lab = Lab::new(kind).await;
    if matches!(kind, Kind::Memory) {
        return;
    }
    lab.join().await;
    let run_id = lab.read(&ReadIdentity).await.unwrap().run_id;
    let beyond = (Revision::LAST.0 + 1).to_string();
    let mut inc = lab.inc;
    for damage in [Some("x"), Some(""), Some("-1"), Some("18446744073709551616"), Some(&*beyond), None] {
        for field in ["workers_revision", "settings_revision"] {
            lab.backend.write_meta(field, damage).await;
        }
        let state = lab.read(&ReadState).await.unwrap();
        let PoolState::Present { members, settings, .. } = state else { panic!("{state:?}") };
        assert!(members > Revision::LAST && settings > Revision::LAST, "{damage:?}");
        let renewal = lab.store().run(inc, &renew(&[])).await.unwrap();
        assert_eq!((renewal.members, renewal.settings), (members, settings), "{damage:?}");
        inc = lab.store().run(inc, &recovery(&run_id)).await.unwrap();
        for field in ["workers_revision", "settings_revision"] {
            assert_eq!(lab.field("pool", field).await.as_deref(), Some("0"), "{field} after {damage:?}");
        }
    }
    lab.backend.write_meta("workers_revision", Some("7")).await;
    lab.store().run(inc, &recovery(&run_id)).await.unwrap();
    assert_eq!(lab.revision().await, Revision(7), "one that a map may have stays");
}
