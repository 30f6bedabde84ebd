//! When the ring has changed and then stayed the same, exactly the misplaced jobs are handed off.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::bench::{Bench, config, key, millis, record, secs, up};
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent, Input, LocalWorker};
use crate::core::ring::Ring;
use crate::model::id::{Incarnation, Revision, WorkerId};
use crate::model::member::{Member, MemberState};
use crate::model::record::Record;
use crate::model::settings::{Settings, ShardId};
use crate::model::why::Cause;
use crate::step::{OwnedPage, PoolState, WorkerEvent};

pub(super) const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// One worker with twelve jobs, long after it joined.
fn loaded(config: Config) -> Bench {
    let mut bench = Bench::with_worker_as(config);
    bench.running(3, &NAMES);
    bench.after(secs(60)).all();
    bench
}

/// The jobs that belong elsewhere by the present ring.
fn elsewhere(bench: &Bench) -> Vec<&'static str> {
    let ring = Ring::new(&bench.members, &Settings::default());
    NAMES.into_iter().filter(|name| ring.pick(key(name).as_bytes(), 0) != Some(WorkerId(1))).collect()
}

fn stops(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("STOP {name}@3 Moved")).collect()
}

#[test]
fn only_misplaced_jobs_move_after_a_quiet_time() {
    let mut bench = loaded(config());
    bench.set_member(2, up(1));
    assert_eq!(bench.after(millis(4_990)).seen(), [""; 0]);
    bench.advance(millis(510));
    let moved = elsewhere(&bench);
    assert!(!moved.is_empty() && moved.len() < NAMES.len());
    assert_eq!(bench.seen(), stops(&moved));
    bench.handler(1, moved[0], 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), [format!("release 1: {}@3 h", moved[0])]);
    assert_eq!(bench.after(secs(10)).seen(), [""; 0], "each once");
}

#[test]
fn a_further_change_restarts_the_wait() {
    let mut bench = loaded(config());
    bench.set_member(2, up(1));
    bench.advance(secs(3));
    bench.set_member(3, up(2));
    assert_eq!(bench.after(secs(4)).seen(), [""; 0]);
    assert_eq!(bench.after(millis(1_500)).seen(), stops(&elsewhere(&bench)));
}

#[test]
fn a_change_that_is_undone_moves_nothing() {
    let mut bench = loaded(config());
    bench.set_member(2, up(1));
    bench.advance(secs(3));
    bench.change_members(|members| {
        members.remove(&WorkerId(2));
    });
    assert_eq!(bench.after(secs(20)).seen(), [""; 0]);
}

#[test]
fn a_change_that_leaves_the_ring_alone_delays_nothing() {
    let mut bench = loaded(config());
    bench.set_member(2, up(1));
    bench.advance(secs(3));
    bench.change_members(|members| {
        let standby = Member { state: MemberState::Standby, slot: None, ..up(0) };
        members.insert(WorkerId(3), standby);
    });
    assert_eq!(bench.after(millis(2_500)).seen(), stops(&elsewhere(&bench)));
}

#[test]
fn only_a_bounded_number_of_jobs_moves_at_once() {
    let mut bench = loaded(Config { handoff_parallel: 2, ..config() });
    bench.set_member(2, up(1));
    bench.advance(secs(6));
    let moved = elsewhere(&bench);
    assert!(moved.len() > 2);
    assert_eq!(bench.seen(), stops(&moved[..2]));
    bench.handler(1, moved[1], 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.seen(), [format!("release 1: {}@3 h", moved[1])], "it counts until it is released");
    bench.released();
    assert_eq!(bench.seen(), stops(&moved[2..3]));
}

#[test]
fn jobs_move_at_the_rate_of_the_node() {
    let mut bench = loaded(Config { moves_per_second: NonZeroU32::new(1), ..config() });
    bench.set_member(2, up(1));
    bench.advance(secs(6));
    let moved = elsewhere(&bench);
    assert!(moved.len() > 2);
    assert_eq!(bench.seen(), stops(&moved[..1]));
    for next in moved.iter().skip(1) {
        assert_eq!(bench.after(secs(1)).seen(), stops(&[*next]));
    }
}

/// The pool has these settings of moves from now on.
pub(super) fn moves(bench: &mut Bench, rate: u32, now: u64) {
    bench.stored.revision.0 += 1;
    bench.stored.fields.insert("move_rate".into(), rate.to_string());
    bench.stored.fields.insert("move_now".into(), now.to_string());
    bench.step([Input::Settings(Arc::new(bench.stored.clone()))]);
}

/// A node that was told to move all now sees that the members are this many changes further than it knows.
pub(super) fn looked(bench: &mut Bench, further: u64) {
    if !bench.is_calling("revisions") {
        return;
    }
    let (incarnation, known) = (bench.engine.incarnation(), bench.members.revision);
    let state = PoolState::Present {
        incarnation,
        recovering: false,
        members: Revision(known.0 + further),
        settings: bench.stored.revision,
        run_id: "a".to_owned(),
        closed: Incarnation(0),
    };
    bench.answer_with("revisions", state);
}

#[test]
fn a_job_from_another_worker_counts_as_coming_until_it_starts() {
    let mut bench = Bench::with_worker_as(config());
    bench.assign(1, 3, 3, &["a", "b", "c"]);
    bench.begun_with(false, |record| {
        if record.id.to_string() != "n.c" {
            record.set_why(Cause::Moved);
        }
    });
    let coming = |bench: &Bench| bench.engine.status().workers[0].coming;
    assert_eq!(coming(&bench), 2);
    bench.handler(1, "a", 3, HandlerEvent::Started);
    assert_eq!(coming(&bench), 1, "c is new, and a has started");
    bench.handler(1, "b", 3, HandlerEvent::Refused { backoff: None, why: String::new() });
    assert_eq!(coming(&bench), 0);
}

#[test]
fn all_move_now_by_the_ring_that_the_members_have() {
    let mut bench = loaded(config());
    bench.set_member(2, up(1));
    bench.all();
    moves(&mut bench, 0, 1);
    assert_eq!(bench.of(&["STOP"]), [""; 0], "it looks at the members first");
    bench.fail("revisions");
    bench.advance(secs(1));
    looked(&mut bench, 1);
    assert_eq!(bench.of(&["STOP"]), [""; 0], "another worker came or went, which it has not heard of");
    bench.set_member(3, up(2));
    let moved = elsewhere(&bench);
    assert!(moved.len() > 2);
    assert_eq!(bench.of(&["STOP"]), stops(&moved));
}

#[test]
fn who_wants_all_moves_again_has_the_members_looked_at_again() {
    let mut bench = loaded(config());
    moves(&mut bench, 0, 1);
    bench.set_member(2, up(1));
    moves(&mut bench, 0, 2);
    bench.all();
    looked(&mut bench, 0);
    assert_eq!(bench.of(&["STOP"]), [""; 0], "the first look is older than the second wish");
    looked(&mut bench, 0);
    assert_eq!(bench.of(&["STOP"]), stops(&elsewhere(&bench)));
}

#[test]
fn jobs_move_at_the_workers_share_of_the_pools_rate() {
    let mut bench = loaded(Config { moves_per_second: NonZeroU32::new(100), ..config() });
    moves(&mut bench, 1, 0);
    bench.set_member(2, up(1));
    bench.advance(secs(6));
    let moved = elsewhere(&bench);
    assert!(moved.len() > 2);
    assert_eq!(bench.seen(), stops(&moved[..1]));
    for next in moved.iter().skip(1) {
        assert_eq!(bench.after(secs(2)).seen(), stops(&[*next]), "two workers share one move a second");
    }
}

#[test]
fn the_shards_of_a_pool_share_its_rate_of_moves() {
    let settings = Settings { shard: Some(ShardId { index: 1, count: 3 }), ..Settings::default() };
    let mut bench = loaded(Config { settings, ..config() });
    moves(&mut bench, 1, 0);
    bench.set_member(2, up(1));
    bench.advance(secs(6));
    let moved = elsewhere(&bench);
    assert!(moved.len() > 2);
    assert_eq!(bench.of(&["STOP"]), stops(&moved[..1]));
    for next in &moved[1..3] {
        bench.advance(secs(6));
        assert_eq!(bench.of(&["STOP"]), stops(&[*next]), "two workers in each of three shards");
    }
}

#[test]
fn a_raised_rate_of_moves_counts_at_once() {
    let mut bench = loaded(config());
    moves(&mut bench, 1, 0);
    bench.set_member(2, up(1));
    bench.advance(secs(6));
    let moved = elsewhere(&bench);
    assert!(moved.len() > 2);
    assert_eq!(bench.of(&["STOP"]), stops(&moved[..1]));
    moves(&mut bench, 20, 0);
    for next in moved.iter().skip(1) {
        bench.advance(millis(100));
        assert_eq!(bench.of(&["STOP"]), stops(&[*next]), "two workers share twenty a second");
    }
}

#[test]
fn all_that_is_astray_moves_at_once_when_it_is_wanted() {
    let mut bench = loaded(Config { handoff_parallel: 100, ..config() });
    moves(&mut bench, 1, 0);
    bench.set_member(2, up(1));
    assert_eq!(bench.after(millis(100)).seen(), [""; 0], "the ring has just changed");
    moves(&mut bench, 1, 1);
    looked(&mut bench, 0);
    let moved = elsewhere(&bench);
    assert_eq!(bench.of(&["STOP"]), stops(&moved));
    moves(&mut bench, 1, 1);
    bench.set_member(3, up(2));
    assert_eq!(bench.after(millis(4_900)).of(&["STOP"]), [""; 0], "that was once");
    moves(&mut bench, 1, 0);
    assert_eq!(bench.of(&["STOP"]), [""; 0], "the data went back");
}

#[test]
fn a_job_back_after_strikes_during_the_wait_stays() {
    let mut bench = loaded(Config { handoff_parallel: 1, ..config() });
    bench.set_member(2, up(1));
    bench.advance(secs(6));
    let moved = elsewhere(&bench);
    assert!(moved.len() >= 3);
    assert_eq!(bench.seen(), stops(&moved[..1]));
    bench.leaves(1, moved[1], 3, HandlerEvent::Ended(Ok(())));
    bench.assign(1, 9, 9, &[moved[1]]);
    bench.begun_with(false, |record| record.strikes = 3);
    bench.handler(1, moved[1], 9, HandlerEvent::Started);
    bench.all();
    bench.leaves(1, moved[0], 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["STOP"]), stops(&moved[2..3]));
}

/// Two workers, of which the first has a job that only its strikes keep there.
fn kept_by_its_strikes() -> (Bench, &'static str) {
    let mut bench = Bench::with_worker();
    let settings = Settings::default();
    bench.set_member(2, up(1));
    let ring = Ring::new(&bench.members, &settings);
    let refused_elsewhere = |name: &&&str| ring.pick(key(name).as_bytes(), 0) == Some(WorkerId(2));
    let name = *NAMES.iter().find(refused_elsewhere).unwrap();
    bench.assign(1, 3, 3, &[name]);
    bench.begun_with(false, |record| record.strikes = settings.strikes);
    bench.handler(1, name, 3, HandlerEvent::Started);
    bench.all();
    (bench, name)
}

#[test]
fn a_job_keeps_to_the_next_worker_of_its_chain_after_strikes() {
    let (mut bench, _) = kept_by_its_strikes();
    assert_eq!(bench.after(secs(6)).seen(), [""; 0], "its strikes send it here");
}

#[test]
fn a_job_whose_record_has_lost_its_strikes_moves_home() {
    let moved = |strikes| {
        let (mut bench, name) = kept_by_its_strikes();
        bench.event(1, 4, WorkerEvent::Unknown);
        let record = Record { strikes, ..record(name, 3, WorkerId(1)) };
        bench.answer_with("owned", OwnedPage { next: None, jobs: vec![(key(name), Some(record))] });
        (bench.after(secs(6)).of(&["STOP"]), stops(&[name]))
    };
    assert_eq!(moved(Settings::default().strikes).0, [""; 0], "the record says what the worker knew");
    let (seen, home) = moved(0);
    assert_eq!(seen, home);
}

#[test]
fn nothing_moves_while_the_worker_leaves() {
    let mut bench = loaded(config());
    bench.set_member(2, up(1));
    bench.advance(secs(3));
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    bench.all();
    assert_eq!(bench.after(secs(20)).seen(), [""; 0], "its drain is not answered, its moves are void");
}

#[test]
fn a_job_assigned_before_the_change_moves_after_a_late_begin() {
    let mut bench = Bench::with_worker_as(config());
    bench.set_member(2, up(1));
    bench.after(secs(60)).all();
    let moved = elsewhere(&bench);
    bench.running(3, &NAMES);
    assert_eq!(bench.after(millis(5_600)).of(&["STOP"]), stops(&moved));
}

#[test]
fn a_cordoned_node_keeps_its_jobs_until_the_cordon_is_lifted() {
    let mut bench = loaded(config());
    let node = bench.members.entries[&WorkerId(1)].node.to_string();
    bench.cordon(&[&node]);
    bench.set_member(2, up(1));
    assert_eq!(bench.after(secs(20)).of(&["STOP"]), [""; 0], "nothing moves from there");
    bench.cordon(&[]);
    assert_eq!(bench.after(secs(6)).of(&["STOP"]), stops(&elsewhere(&bench)));
}
