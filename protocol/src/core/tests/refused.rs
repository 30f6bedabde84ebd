//! A store that refuses requests as a whole: the user lacks a right, or the memory is full.

use std::io::Error;

use tenure_steps::{Class, Failure};

use super::bench::{Bench, millis, secs};
use super::{requesting, starting, steering, updating};
use crate::model::id::{Token, WorkerId};
use crate::model::record::JobState;
use crate::step::{AskReply, StoreError, Way};

fn full() -> StoreError {
    StoreError::NotExecuted(Failure::of(Class::Full, Error::other("OOM")))
}

fn forbidden() -> StoreError {
    StoreError::Unusable(Failure::of(Class::Forbidden, Error::other("the user can't run this command")))
}

fn dispatching() -> Bench {
    Bench::that_submits("k", "n.1", secs(10))
}

fn asking() -> Bench {
    let mut bench = Bench::attached();
    bench.ask(false);
    bench
}

fn asking_the_owner() -> Bench {
    let mut bench = asking();
    bench.asked(AskReply::Owner(Some((WorkerId(5), Token(8)))));
    bench
}

fn notifying() -> Bench {
    let mut bench = Bench::attached();
    requesting::notify(&mut bench, "k");
    bench
}

/// A way to a request in flight, and the step that carries the request out.
type Request = (fn() -> Bench, &'static str);

const REQUESTS: [Request; 7] = [
    (notifying, "notify"),
    (asking, "ask"),
    (asking_the_owner, "ask"),
    (|| starting::starting(5), "notify-or-start"),
    (|| requesting::unparking(JobState::Parked), "unpark"),
    (|| steering::steering(Way::Park, JobState::Running), "steer"),
    (|| updating::on_its_way(None), "update"),
];

/// The step of a request fails in this way. Returns the answers until a second later, and whether the step goes again.
fn fails(bench: &mut Bench, step: &str, error: StoreError) -> (Vec<String>, bool) {
    bench.all();
    bench.fail_with(step, error);
    bench.advance(secs(1));
    (bench.of(&["reply"]), bench.is_calling(step))
}

#[test]
fn a_refused_request_is_answered_at_once() {
    for (request, step) in REQUESTS {
        for (error, cause) in [(full(), "OOM"), (forbidden(), "can't run this command")] {
            let (replies, again) = fails(&mut request(), step, error);
            assert!(matches!(&*replies, [reply] if reply.contains(cause)), "{step}: {replies:?}");
            assert!(!again, "{step} is sent again");
        }
    }
}

#[test]
fn a_request_that_may_be_done_is_not_refused() {
    for (request, step) in [REQUESTS[0], REQUESTS[2], REQUESTS[3], REQUESTS[6]] {
        let mut bench = request();
        bench.all();
        bench.fail(step);
        bench.advance(millis(100));
        let (replies, again) = fails(&mut bench, step, full());
        assert_eq!((&*replies, again), (&[][..], true), "{step}");
    }
}

#[test]
fn a_dispatch_waits_for_memory_and_not_for_a_right() {
    let (replies, again) = fails(&mut dispatching(), "dispatch", full());
    assert_eq!((&*replies, again), (&[][..], true));
    let (replies, again) = fails(&mut dispatching(), "dispatch", forbidden());
    assert!(matches!(&*replies, [reply] if reply.contains("can't run this command")), "{replies:?}");
    assert!(!again);
    let mut in_doubt = dispatching();
    in_doubt.fail("dispatch");
    in_doubt.advance(millis(100));
    assert_eq!(fails(&mut in_doubt, "dispatch", forbidden()), (vec![], true));
}

#[test]
fn a_missing_right_is_of_no_item() {
    assert!(!crate::core::batcher::is_of_an_item(&forbidden()));
    assert!(!crate::core::batcher::is_of_an_item(&full()));
}
