//! Members: joining, slots, heartbeats, and a worker's end.

use tenure_pool::store::{
    Drain, Expire, Expired, ForgetNode, Join, JoinRequest, ReadHeartbeats, ReadIdentity, Reap, Refusal,
    Renew, Settle, ShutDown, ShutdownMode, WorkerStream,
};
use tenure_protocol::model::id::{Revision, Token, WorkerId};
use tenure_protocol::model::member::MemberState;
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, key, ms, node, renew, seen};
use super::single::Single as _;

scenarios! {
    the_first_worker_gets_slot_zero,
    a_standby_settles_on_the_lowest_hole,
    a_repeated_join_gets_its_entry_again,
    a_repeated_join_learns_again_that_it_has_the_only_slot,
    other_settings_are_refused_before_anything_is_written,
    a_setting_that_the_pool_does_not_know_is_added,
    bad_metadata_is_refused,
    a_closing_pool_takes_no_worker,
    a_free_preferred_slot_is_given,
    a_drained_slot_goes_to_the_oldest_standby,
    workers_that_drain_together_hand_nothing_to_each_other,
    a_draining_standby_hands_nothing_on,
    an_expired_slot_goes_to_the_oldest_standby,
    where_no_job_is_every_worker_is_up_at_once,
    who_comes_to_jobs_while_nobody_is_up_waits_for_the_others,
    a_standby_settles_alone_beside_others,
    the_silent_are_not_up,
    the_last_one_that_is_up_leaves_room_for_all,
    slots_of_workers_that_end_together_go_to_oldest_standbys,
    those_that_end_together_leave_room_for_all,
    those_that_end_together_are_answered_each_for_itself,
    a_new_worker_takes_over_a_draining_or_dead_slot,
    worker_ids_are_never_used_again,
    a_heartbeat_counts_members_only,
    a_counter_moves_with_each_heartbeat_and_follows_the_clock,
    a_heartbeat_raises_the_token_counter,
    a_heartbeat_opens_the_nodes_stream,
    a_heartbeat_names_the_oldest_entry_of_each_workers_stream,
    a_heartbeat_counts_the_entries_that_were_ever_added,
    a_heartbeat_shows_that_a_stream_was_deleted,
    a_heartbeat_looks_at_no_stream_of_a_fenced_worker,
    a_stream_of_another_type_costs_no_lease,
    an_outdated_counter_expires_nobody,
    expiry_is_final_and_may_be_repeated,
    reaping_goes_in_pages,
    a_living_worker_is_not_reaped,
    heartbeats_are_read_for_all_or_some,
}

async fn slot(lab: &Lab, worker: WorkerId) -> (MemberState, Option<u32>) {
    lab.store().expect(lab.inc, lab.revision().await, Revision(1));
    let revision = lab.revision().await;
    let mut members = lab.store().members();
    let members = members.wait_for(|members| members.revision >= revision).await.unwrap();
    let member = &members.entries[&worker];
    (member.state, member.slot)
}

async fn the_first_worker_gets_slot_zero(lab: Lab) {
    let first = lab.join().await;
    assert_eq!((first.member.state, first.member.slot, first.first), (MemberState::Up, Some(0), true));
    lab.dispatch("there", "node1.there").await;
    let second = lab.join().await;
    assert_eq!((second.member.state, second.member.slot, second.first), (MemberState::Standby, None, false));
    let settled = lab.step(&Settle { worker: second.worker }).await.unwrap();
    assert_eq!((settled.member.state, settled.member.slot, settled.first), (MemberState::Up, Some(1), false));
    let again = lab.step(&Settle { worker: second.worker }).await.unwrap();
    assert_eq!((&again.member, again.first), (&settled.member, true), "its first answer may have said so");
}

async fn a_standby_settles_on_the_lowest_hole(lab: Lab) {
    let (first, second, third) = (lab.worker_with_a_job().await, lab.worker().await, lab.worker().await);
    lab.leave(second).await;
    let standby = lab.join().await;
    assert_eq!(standby.member.state, MemberState::Standby);
    assert_eq!(lab.step(&Settle { worker: standby.worker }).await.unwrap().member.slot, Some(1));
    assert_eq!(slot(&lab, first).await, (MemberState::Up, Some(0)));
    assert_eq!(slot(&lab, third).await, (MemberState::Up, Some(2)));
}

async fn a_repeated_join_gets_its_entry_again(lab: Lab) {
    let request = JoinRequest { meta: "zone:a".into(), ..lab.request() };
    let seat = lab.step(&Join { request: Box::new(request.clone()) }).await.unwrap();
    assert_eq!((seat.member.meta.as_str(), &seat.member.nonce), ("zone:a", &request.nonce));
    assert_eq!((&seat.member.node, seat.member.ttl), (&request.node, lab.settings.worker_ttl));
    let before = lab.backend.dump().await;
    let again = lab.step(&Join { request: Box::new(request.clone()) }).await.unwrap();
    assert_eq!(again, seat);
    assert_eq!(lab.backend.dump().await, before);
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    assert_eq!(lab.step(&Join { request: Box::new(request) }).await.unwrap().worker, seat.worker);
}

async fn a_repeated_join_learns_again_that_it_has_the_only_slot(lab: Lab) {
    let first = lab.worker_with_a_job().await;
    let request = lab.request();
    let standby = lab.step(&Join { request: Box::new(request.clone()) }).await.unwrap();
    assert!(!lab.step(&Join { request: Box::new(request.clone()) }).await.unwrap().first, "it stands by");
    assert!(lab.step(&Settle { worker: first }).await.unwrap().first);
    assert!(!lab.step(&Settle { worker: standby.worker }).await.unwrap().first);
    assert!(!lab.step(&Join { request: Box::new(request.clone()) }).await.unwrap().first, "two are up");
    lab.store().expire_one(lab.inc, first, None).await.unwrap();
    assert!(lab.step(&Join { request: Box::new(request) }).await.unwrap().first);
    lab.store().drain_one(lab.inc, standby.worker).await.unwrap();
    let settled = lab.step(&Settle { worker: standby.worker }).await.unwrap();
    assert!(!settled.first, "it drains");
}

async fn other_settings_are_refused_before_anything_is_written(lab: Lab) {
    let settings =
        Settings { max_queued: 7, worker_ttl: lab.settings.worker_ttl * 2, ..lab.settings.clone() };
    let request = JoinRequest { settings, ..lab.request() };
    let refusal = lab.refused(lab.step(&Join { request: Box::new(request) })).await;
    let (name, theirs, ours) = ("worker_ttl".to_owned(), "10000".to_owned(), "20000".to_owned());
    assert_eq!(refusal, Refusal::Setting { name, theirs, ours });
}

async fn a_setting_that_the_pool_does_not_know_is_added(lab: Lab) {
    lab.backend.forget_setting("strikes").await;
    lab.join().await;
    assert_eq!(lab.field("settings", "strikes").await.as_deref(), Some("3"));
    assert_eq!(lab.field("pool", "settings_revision").await.as_deref(), Some("2"));
}

async fn bad_metadata_is_refused(lab: Lab) {
    for meta in ["a|b", "ü", &"x".repeat(65)] {
        let request = JoinRequest { meta: meta.to_owned(), ..lab.request() };
        assert_eq!(lab.refused(lab.step(&Join { request: Box::new(request) })).await, Refusal::BadArgument);
    }
}

async fn a_closing_pool_takes_no_worker(lab: Lab) {
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::Closing(ms(9_000)) }).await.unwrap();
    let refusal = lab.refused(lab.step(&Join { request: Box::new(lab.request()) })).await;
    assert_eq!(refusal, Refusal::ShuttingDown);
}

async fn a_free_preferred_slot_is_given(lab: Lab) {
    let join = async |preferred| {
        let request = JoinRequest { preferred: Some(preferred), ..lab.request() };
        lab.step(&Join { request: Box::new(request) }).await.unwrap()
    };
    let first = join(7).await;
    assert_eq!((first.member.slot, first.first), (Some(7), true));
    lab.dispatch("there", "node1.there").await;
    assert_eq!(join(65_535).await.member.slot, Some(65_535));
    assert_eq!(join(7).await.member.slot, None, "it is taken");
    assert_eq!(join(65_536).await.member.slot, None, "it is out of range");
}

async fn a_drained_slot_goes_to_the_oldest_standby(lab: Lab) {
    let leaving = lab.worker_with_a_job().await;
    let (oldest, other) = (lab.join().await.worker, lab.join().await.worker);
    let before = lab.revision().await;
    let member = lab.store().drain_one(lab.inc, leaving).await.unwrap();
    assert_eq!((member.state, member.slot), (MemberState::Draining, Some(0)));
    assert_eq!(lab.revision().await.0, before.0 + 1, "one revision for both");
    assert_eq!(slot(&lab, oldest).await, (MemberState::Up, Some(0)));
    assert_eq!(slot(&lab, other).await, (MemberState::Standby, None));
    let dump = lab.backend.dump().await;
    assert_eq!(lab.store().drain_one(lab.inc, leaving).await.unwrap(), member);
    assert_eq!(lab.backend.dump().await, dump);
    assert_eq!(lab.step(&Settle { worker: leaving }).await.unwrap().member, member, "draining is for good");
}

async fn workers_that_drain_together_hand_nothing_to_each_other(lab: Lab) {
    let first = lab.worker_with_a_job().await;
    let (second, third) = (lab.join().await.worker, lab.join().await.worker);
    lab.step(&Settle { worker: second }).await.unwrap();
    let heir = lab.join().await.worker;
    let before = lab.revision().await;
    let gone = WorkerId(5);
    let all = vec![third, first, gone, second, first];
    let drained = lab.step(&Drain { workers: all.clone() }).await.unwrap();
    let seen: Vec<_> = drained.iter().map(|member| member.as_ref().map(|it| (it.state, it.slot))).collect();
    let out = |slot| Some((MemberState::Draining, slot));
    assert_eq!(seen, [out(None), out(Some(0)), None, out(Some(1)), out(Some(0))]);
    assert_eq!(lab.revision().await.0, before.0 + 1, "all leave in one change");
    assert_eq!(slot(&lab, heir).await, (MemberState::Up, Some(0)), "the lowest of the free slots");
    let dump = lab.backend.dump().await;
    assert_eq!(lab.step(&Drain { workers: all }).await.unwrap(), drained);
    assert_eq!(lab.step(&Drain { workers: Vec::new() }).await.unwrap(), []);
    assert_eq!(lab.step(&Drain { workers: vec![gone] }).await.unwrap(), [None]);
    assert_eq!(lab.backend.dump().await, dump);
}

async fn a_draining_standby_hands_nothing_on(lab: Lab) {
    lab.worker_with_a_job().await;
    let (leaving, other) = (lab.join().await.worker, lab.join().await.worker);
    let member = lab.store().drain_one(lab.inc, leaving).await.unwrap();
    assert_eq!((member.state, member.slot), (MemberState::Draining, None));
    assert_eq!(slot(&lab, other).await, (MemberState::Standby, None));
}

async fn an_expired_slot_goes_to_the_oldest_standby(lab: Lab) {
    let (dying, other) = (lab.worker_with_a_job().await, lab.worker().await);
    let standby = lab.join().await.worker;
    lab.store().expire_one(lab.inc, dying, Some(1)).await.unwrap();
    assert_eq!(slot(&lab, standby).await, (MemberState::Up, Some(0)));
    assert_eq!(slot(&lab, other).await, (MemberState::Up, Some(1)));
}

async fn where_no_job_is_every_worker_is_up_at_once(lab: Lab) {
    for slot in 0..3 {
        let seat = lab.join().await;
        assert_eq!(
            (seat.member.state, seat.member.slot, seat.first),
            (MemberState::Up, Some(slot), slot == 0)
        );
    }
    lab.dispatch("there", "node1.there").await;
    assert_eq!(lab.join().await.member.state, MemberState::Standby);
}

async fn who_comes_to_jobs_while_nobody_is_up_waits_for_the_others(lab: Lab) {
    lab.dispatch("there", "node1.there").await;
    let request = JoinRequest { preferred: Some(5), ..lab.request() };
    let first = lab.step(&Join { request: Box::new(request.clone()) }).await.unwrap();
    assert_eq!((first.member.state, first.first), (MemberState::Standby, true));
    assert_eq!(lab.step(&Join { request: Box::new(request) }).await.unwrap(), first, "it is told so again");
    let (second, third) = (lab.join().await, lab.join().await);
    assert!(second.first && third.first);
    let before = lab.revision().await;
    let settled = lab.step(&Settle { worker: second.worker }).await.unwrap();
    assert_eq!((settled.member.slot, settled.first), (Some(1), true));
    assert_eq!(lab.revision().await.0, before.0 + 1, "one revision for all");
    assert_eq!(slot(&lab, first.worker).await, (MemberState::Up, Some(0)));
    assert_eq!(slot(&lab, third.worker).await, (MemberState::Up, Some(2)));
    assert!(lab.step(&Settle { worker: first.worker }).await.unwrap().first, "its answer may come first");
    assert!(!lab.join().await.first);
}

async fn a_standby_settles_alone_beside_others(lab: Lab) {
    lab.worker_with_a_job().await;
    let (first, second) = (lab.join().await.worker, lab.join().await.worker);
    let settled = lab.step(&Settle { worker: second }).await.unwrap();
    assert_eq!((settled.member.slot, settled.first), (Some(1), false));
    assert_eq!(slot(&lab, first).await, (MemberState::Standby, None));
}

async fn the_silent_are_not_up(lab: Lab) {
    let (silent, gone) = (lab.worker_with_a_job().await, lab.worker().await);
    let quiet = lab.join().await;
    assert!(!quiet.first, "they have only just come");
    let renewed = [silent, gone, quiet.worker];
    lab.step(&renew(&renewed)).await.unwrap();
    lab.backend.advance(lab.settings.worker_ttl.as_millis() as u64 + 1).await;
    let (first, second) = (lab.join().await, lab.join().await);
    assert!(first.first && second.first);
    let settled = lab.step(&Settle { worker: second.worker }).await.unwrap();
    assert_eq!(
        (settled.member.slot, settled.first),
        (Some(3), true),
        "beside those that are not expired yet"
    );
    assert_eq!(slot(&lab, first.worker).await, (MemberState::Up, Some(2)));
    assert_eq!(slot(&lab, quiet.worker).await, (MemberState::Standby, None), "it is silent, too");
}

async fn the_last_one_that_is_up_leaves_room_for_all(lab: Lab) {
    let (dying, silent) = (lab.worker_with_a_job().await, lab.worker().await);
    lab.step(&renew(&[silent])).await.unwrap();
    lab.backend.advance(lab.settings.worker_ttl.as_millis() as u64 + 1).await;
    let (first, second) = (lab.join().await.worker, lab.join().await.worker);
    let before = lab.revision().await;
    lab.store().expire_one(lab.inc, dying, Some(1)).await.unwrap();
    assert_eq!(lab.revision().await.0, before.0 + 1, "one revision for all");
    assert_eq!(slot(&lab, first).await, (MemberState::Up, Some(0)));
    assert_eq!(slot(&lab, second).await, (MemberState::Up, Some(2)));
}

async fn slots_of_workers_that_end_together_go_to_oldest_standbys(lab: Lab) {
    let up = [lab.worker_with_a_job().await, lab.worker().await, lab.worker().await, lab.worker().await];
    let standbys = [lab.join().await.worker, lab.join().await.worker, lab.join().await.worker];
    let before = lab.revision().await;
    let ends = vec![(up[2], Some(1)), (standbys[0], None), (up[0], Some(1))];
    assert_eq!(lab.step(&Expire { workers: ends }).await.unwrap(), [Expired::Done; 3]);
    assert_eq!(lab.revision().await.0, before.0 + 1, "one revision for all");
    assert_eq!(slot(&lab, standbys[1]).await, (MemberState::Up, Some(0)));
    assert_eq!(slot(&lab, standbys[2]).await, (MemberState::Up, Some(2)));
    assert_eq!(lab.store().expire_one(lab.inc, up[1], Some(1)).await.unwrap(), Expired::Done, "nobody waits");
    assert_eq!(slot(&lab, up[3]).await, (MemberState::Up, Some(3)));
}

async fn those_that_end_together_leave_room_for_all(lab: Lab) {
    let up = [lab.worker_with_a_job().await, lab.worker().await];
    let standbys = [lab.join().await.worker, lab.join().await.worker, lab.join().await.worker];
    let ends = vec![(up[0], Some(1)), (standbys[0], Some(1)), (up[1], Some(1))];
    assert_eq!(lab.step(&Expire { workers: ends }).await.unwrap(), [Expired::Done; 3]);
    assert_eq!(slot(&lab, standbys[1]).await, (MemberState::Up, Some(0)), "nobody else is up");
    assert_eq!(slot(&lab, standbys[2]).await, (MemberState::Up, Some(1)));
    let another = lab.join().await.worker;
    lab.step(&Settle { worker: another }).await.unwrap();
    let (last, workers) =
        (lab.join().await.worker, vec![(standbys[1], None), (standbys[2], None), (another, None)]);
    lab.step(&Expire { workers }).await.unwrap();
    assert_eq!(slot(&lab, last).await, (MemberState::Up, Some(0)), "all that there were are free");
}

async fn those_that_end_together_are_answered_each_for_itself(
    lab: Lab,
    first: WorkerId,
    second: WorkerId,
    third: WorkerId,
) {
    let ends =
        vec![(first, Some(1)), (WorkerId(5), Some(1)), (second, Some(7)), (first, Some(9)), (third, None)];
    let answers = lab.step(&Expire { workers: ends.clone() }).await.unwrap();
    assert_eq!(answers, [Expired::Done, Expired::Gone, Expired::Renewed, Expired::Done, Expired::Done]);
    let before = lab.backend.dump().await;
    let again = lab.step(&Expire { workers: ends }).await.unwrap();
    assert_eq!((again, lab.backend.dump().await), (answers, before));
    assert_eq!(lab.sweep().await.dead, [first, third]);
    assert_eq!(lab.step(&Expire { workers: Vec::new() }).await.unwrap(), []);
    let many = vec![(first, None); 129];
    assert_eq!(lab.refused(lab.step(&Expire { workers: many })).await, Refusal::BadArgument);
}

async fn a_new_worker_takes_over_a_draining_or_dead_slot(lab: Lab) {
    let (first, second, third) = (lab.worker_with_a_job().await, lab.worker().await, lab.worker().await);
    lab.worker().await;
    lab.store().expire_one(lab.inc, first, None).await.unwrap();
    lab.store().drain_one(lab.inc, third).await.unwrap();
    lab.store().drain_one(lab.inc, second).await.unwrap();
    assert_eq!(lab.join().await.member.slot, Some(1), "the lowest of those that drain");
    assert_eq!(lab.join().await.member.slot, Some(2), "then the other");
    assert_eq!(lab.join().await.member.slot, Some(0), "then that of the dead one");
    assert_eq!(lab.join().await.member.slot, None);
}

async fn worker_ids_are_never_used_again(lab: Lab, first: WorkerId) {
    lab.leave(first).await;
    let second = lab.join().await;
    assert!(second.worker > first);
    assert!(second.first, "the pool has its first live slot again");
}

async fn a_heartbeat_counts_members_only(lab: Lab) {
    let (up, standby) = (lab.worker().await, lab.join().await.worker);
    let draining = lab.worker().await;
    lab.store().drain_one(lab.inc, draining).await.unwrap();
    let asked = [up, WorkerId(5), draining];
    let renewal = lab.step(&renew(&asked)).await.unwrap();
    assert_eq!(renewal.states, [Some(MemberState::Up), None, Some(MemberState::Draining)]);
    assert_eq!(renewal.members, lab.revision().await);
    assert_eq!((renewal.settings.0, renewal.flag, renewal.recovering), (1, None, false));
    assert_eq!(renewal.run_id, lab.read(&ReadIdentity).await.unwrap().run_id);
    let counters = lab.read(&ReadHeartbeats { workers: None }).await.unwrap();
    let now = lab.backend.now();
    assert_eq!((counters[&up], counters.get(&WorkerId(5)), counters[&draining]), (now, None, now));
    assert!(counters.get(&standby).is_none_or(|seq| *seq == 1));
}

async fn a_counter_moves_with_each_heartbeat_and_follows_the_clock(lab: Lab) {
    let (worker, start) = (lab.worker().await, lab.backend.now());
    let mut seen = Vec::new();
    for now in [start, start, start + 500, start - 10_000, start + 501] {
        lab.backend.set_clock(now).await;
        lab.step(&renew(&[worker])).await.unwrap();
        seen.push(lab.read(&ReadHeartbeats { workers: None }).await.unwrap()[&worker] - start);
    }
    assert_eq!(seen, [0, 1, 500, 501, 502]);
}

async fn a_heartbeat_raises_the_token_counter(lab: Lab, worker: WorkerId) {
    let high_water = Token(worker.0 + 1_000_000);
    lab.step(&Renew { seen: seen(high_water), ..renew(&[worker]) }).await.unwrap();
    let renewal = lab.step(&renew(&[worker])).await.unwrap();
    assert_eq!(renewal.token, high_water, "the others hear of it");
    assert_eq!(lab.join().await.worker, WorkerId(high_water.0 + 1));
}

async fn a_heartbeat_opens_the_nodes_stream(lab: Lab, worker: WorkerId) {
    assert!(lab.backend.dump().await.get("node:node1").is_none());
    for opened in [true, false] {
        let renewal = lab.step(&Renew { node: Some(node("node1")), ..renew(&[worker]) }).await.unwrap();
        assert_eq!((renewal.opened, renewal.states.len()), (opened, 1));
    }
    let dump = lab.backend.dump().await;
    assert_eq!(dump.lines().iter().filter(|line| line.starts_with("node:node1[")).count(), 1);
    lab.read(&ForgetNode { node: node("node1") }).await.unwrap();
    assert!(lab.backend.dump().await.get("node:node1").is_none());
    assert!(!lab.step(&renew(&[worker])).await.unwrap().opened);
    assert!(lab.step(&Renew { node: Some(node("node1")), ..renew(&[worker]) }).await.unwrap().opened);
}

async fn a_heartbeat_names_the_oldest_entry_of_each_workers_stream(lab: Lab, idle: WorkerId, busy: WorkerId) {
    for name in ["a", "b"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
        lab.route(name, busy).await;
    }
    let oldest = lab.store().oldest(busy).await;
    assert!(oldest.is_some());
    let (none, some) = (WorkerStream::default(), WorkerStream { oldest, added: 2 });
    for node in [None, Some(node("node1"))] {
        let looked = async |workers: &[WorkerId]| {
            lab.step(&Renew { node: node.clone(), ..renew(workers) }).await.unwrap().streams
        };
        assert_eq!(looked(&[idle, WorkerId(5), busy]).await, [none, none, some]);
        assert_eq!(looked(&[busy, idle]).await, [some, none]);
    }
}

async fn a_heartbeat_counts_the_entries_that_were_ever_added(lab: Lab, worker: WorkerId) {
    let stream = async || lab.step(&renew(&[worker])).await.unwrap().streams[0];
    assert_eq!(stream().await, WorkerStream::default());
    for (name, added) in [("a", 1), ("b", 2)] {
        lab.assign(name, &format!("node1.{name}"), worker).await;
        let handled = Vec::from_iter(lab.store().oldest(worker).await);
        lab.store().begin_one(lab.inc, worker, &handled, &[]).await.unwrap();
        assert_eq!(stream().await, WorkerStream { oldest: None, added }, "also those that were handled");
    }
}

async fn a_heartbeat_shows_that_a_stream_was_deleted(lab: Lab, worker: WorkerId) {
    for name in ["a", "b"] {
        lab.assign(name, &format!("node1.{name}"), worker).await;
    }
    lab.backend.lose(&format!("worker:{worker}")).await;
    lab.assign("c", "node1.c", worker).await;
    assert_eq!(lab.step(&renew(&[worker])).await.unwrap().streams[0].added, 1);
}

async fn a_heartbeat_looks_at_no_stream_of_a_fenced_worker(lab: Lab, worker: WorkerId) {
    lab.dispatch("a", "node1.a").await;
    lab.route("a", worker).await;
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    assert!(lab.store().oldest(worker).await.is_some());
    assert_eq!(lab.step(&renew(&[worker])).await.unwrap().streams, [WorkerStream::default()]);
}

/// In memory no key is of another type.
async fn a_stream_of_another_type_costs_no_lease(kind: Kind) {
    let Kind::Redis = kind else { return };
    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    lab.backend.write("SET", &format!("worker:{worker}"), &["of another type"]).await;
    let renewal = lab.step(&renew(&[worker])).await.unwrap();
    assert_eq!(
        (renewal.states, renewal.streams),
        (vec![Some(MemberState::Up)], vec![WorkerStream::default()])
    );
}

async fn an_outdated_counter_expires_nobody(lab: Lab, worker: WorkerId) {
    lab.step(&renew(&[worker])).await.unwrap();
    let before = lab.backend.dump().await;
    assert_eq!(lab.store().expire_one(lab.inc, worker, Some(1)).await.unwrap(), Expired::Renewed);
    assert_eq!(lab.backend.dump().await, before);
    let counter = lab.backend.now();
    assert_eq!(lab.store().expire_one(lab.inc, worker, Some(counter)).await.unwrap(), Expired::Done);
}

async fn expiry_is_final_and_may_be_repeated(lab: Lab, worker: WorkerId) {
    assert_eq!(lab.store().expire_one(lab.inc, worker, None).await.unwrap(), Expired::Done);
    let before = lab.backend.dump().await;
    assert_eq!(lab.store().expire_one(lab.inc, worker, Some(9)).await.unwrap(), Expired::Done);
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.step(&renew(&[worker])).await.unwrap().states, [None]);
    assert_eq!(lab.refused(lab.step(&Settle { worker })).await, Refusal::Fenced);
    assert_eq!(lab.refused(lab.store().drain_one(lab.inc, worker)).await, Refusal::Fenced);
    assert_eq!(lab.sweep().await.dead, [worker]);
    lab.leave(worker).await;
    assert_eq!(lab.store().expire_one(lab.inc, worker, None).await.unwrap(), Expired::Gone);
    assert!(lab.sweep().await.dead.is_empty());
}

async fn reaping_goes_in_pages(lab: Lab, worker: WorkerId, other: WorkerId) {
    for (name, owner) in [("a", worker), ("b", worker), ("c", worker), ("d", other)] {
        lab.run(name, &format!("node1.{name}"), owner).await;
    }
    lab.store().expire_one(lab.inc, worker, None).await.unwrap();
    let page = lab.step(&Reap { worker, limit: 2 }).await.unwrap();
    assert_eq!((page.done, page.count, page.outcomes), (false, 2, Vec::new()));
    let page = lab.step(&Reap { worker, limit: 2 }).await.unwrap();
    assert_eq!((page.done, page.count), (true, 1));
    let dump = lab.backend.dump().await;
    assert!(dump.get("expired").is_none() && dump.get(&format!("worker:{worker}")).is_none());
    let page = lab.step(&Reap { worker, limit: 2 }).await.unwrap();
    assert_eq!((page.done, page.count), (true, 0));
    let free: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).map(|job| job.0).collect();
    assert_eq!(free, ["a", "b", "c"].map(key));
    assert_eq!(lab.record("a").await.unwrap().owner, None);
    assert_eq!(lab.record("d").await.unwrap().owner, Some(other));
}

async fn a_living_worker_is_not_reaped(lab: Lab, worker: WorkerId) {
    lab.run("a", "node1.a", worker).await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.step(&Reap { worker, limit: 10 }).await.unwrap().count, 0);
    assert_eq!(lab.backend.dump().await, before);
}

async fn heartbeats_are_read_for_all_or_some(lab: Lab, first: WorkerId, second: WorkerId) {
    let all = lab.read(&ReadHeartbeats { workers: None }).await.unwrap();
    assert_eq!(all.into_iter().collect::<Vec<_>>(), [(first, 1), (second, 1)]);
    let some = lab.read(&ReadHeartbeats { workers: Some(vec![second, WorkerId(5)]) }).await.unwrap();
    assert_eq!(some.into_iter().collect::<Vec<_>>(), [(second, 1)]);
    assert!(lab.read(&ReadHeartbeats { workers: Some(vec![]) }).await.unwrap().is_empty());
}
