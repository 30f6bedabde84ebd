//! Which polls count as blocking.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::job::Parts;
use crate::job::checkpoint::Savers;
use crate::job::guard::LeaseGuard;
use crate::model::id::{JobKey, Token, WorkerId};
use crate::model::wire::{self, Envelope};

fn job(key: &'static str) -> Job {
    Job::new(Parts {
        key: JobKey::new(key).unwrap(),
        payload: wire::open(&Envelope::new(b"").seal().unwrap()).unwrap(),
        token: Token(1),
        id: "node.id".parse().unwrap(),
        worker: WorkerId(7),
        attempts: 1,
        created_ms: 0,
        begun_ms: 0,
        lease: LeaseGuard::until(Time(u64::MAX)),
        savers: Savers::unheard(),
        checkpoint: None,
    })
}

/// A node with these jobs, observed at intervals.
struct Looks {
    observer: Observer,
    now: Time,
    jobs: Vec<Job>,
}

impl Looks {
    fn new(jobs: &[&Job]) -> Self {
        let jobs = jobs.iter().map(|&job| job.clone()).collect();
        Self { observer: Observer::default(), now: Time(1 << 40), jobs }
    }

    /// The next look, `pause` later: the jobs that block a thread then.
    fn after(&mut self, pause: Duration) -> Vec<(String, Duration)> {
        self.now = self.now + pause;
        let find = |address| self.jobs.iter().find(|job| job.address() == address).cloned();
        self.observer.look(self.now, &NodeName::new("n").unwrap(), find);
        self.observer.blocked().into_iter().map(|job| (job.key.to_string(), job.lasted)).collect()
    }
}

#[test]
fn a_poll_that_lasts_blocks_until_it_ends() {
    let slow = job("slow");
    let mut looks = Looks::new(&[&slow]);
    let poll = Poll::of(&slow);
    let mut said: Vec<_> = (0..4).map(|_| looks.after(LOOK_EVERY)).collect();
    assert_eq!(said, [[], [], [], []], "not for a second yet");
    said = (0..2).map(|_| looks.after(LOOK_EVERY)).collect();
    assert_eq!(said, [[("slow".to_owned(), 4 * LOOK_EVERY)], [("slow".to_owned(), 5 * LOOK_EVERY)]]);
    drop(poll);
    assert_eq!(looks.after(LOOK_EVERY), []);
}

#[test]
fn many_short_polls_do_not_block() {
    let busy = job("busy");
    let mut looks = Looks::new(&[&busy]);
    for _ in 0..12 {
        let _poll = Poll::of(&busy);
        assert_eq!(looks.after(LOOK_EVERY), []);
    }
}

#[test]
fn a_process_that_stood_still_has_not_blocked_anything() {
    let slow = job("slow");
    let mut looks = Looks::new(&[&slow]);
    let _poll = Poll::of(&slow);
    looks.after(LOOK_EVERY);
    assert_eq!(looks.after(Duration::from_secs(3600)), []);
}

#[test]
fn a_nested_poll_counts_for_the_inner_job_then_the_outer() {
    let (outer, inner) = (job("outer"), job("inner"));
    let mut looks = Looks::new(&[&outer, &inner]);
    let _outer = Poll::of(&outer);
    let poll = Poll::of(&inner);
    let last = (0..6).map(|_| looks.after(LOOK_EVERY)).last().unwrap();
    assert_eq!(last, [("inner".to_owned(), 5 * LOOK_EVERY)]);
    drop(poll);
    let last = (0..6).map(|_| looks.after(LOOK_EVERY)).last().unwrap();
    assert_eq!(last, [("outer".to_owned(), 5 * LOOK_EVERY)]);
}

#[test]
fn the_jobs_of_other_nodes_are_theirs_to_name() {
    let foreign = job("foreign");
    let mut looks = Looks::new(&[]);
    let _poll = Poll::of(&foreign);
    for _ in 0..6 {
        assert_eq!(looks.after(LOOK_EVERY), []);
    }
}

#[test]
fn a_thread_that_has_ended_has_no_place() {
    let slow = job("slow");
    let place = std::thread::scope(|scope| {
        let polls = scope.spawn(|| {
            let _poll = Poll::of(&slow);
            HERE.with(Arc::downgrade)
        });
        polls.join().unwrap()
    });
    assert_eq!(place.strong_count(), 0);
}
