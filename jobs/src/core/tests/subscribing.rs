//! Who is told of which message.

use super::super::input::{Done, Input, Plan};
use super::super::subscribers::Topic;
use super::bench::{Bench, id, job, owned, queue};
use crate::model::id::{GroupName, Incarnation, Token};
use crate::store::{Hint, News, SettleReply, TakeReply};

fn none() -> TakeReply {
    TakeReply::Taken { jobs: Vec::new(), registration: None, more: false }
}

fn news(name: &str) -> Hint {
    let (state, body, outcome, notes) = (None, None, None, None);
    Hint::News(News { id: id(name), state, token: Token(7), number: 1, body, outcome, notes })
}

#[test]
fn ready_jobs_wake_those_who_wait_for_their_queue() {
    let mut bench = Bench::with_worker(1);
    bench.takes([]);
    bench.step([
        Input::Subscribe(5, Topic::Ready(queue("q"), None)),
        Input::Subscribe(6, Topic::Ready(queue("other"), None)),
        Input::Worker(2, Plan { queues: vec![queue("other"), queue("q")], slots: 1, owner: None }),
    ]);
    bench.seen();
    bench.hint(Hint::Ready(queue("q"), None));
    assert_eq!(
        bench.seen(),
        ["5: ready", "1: take1#2 take 1 of q"],
        "the other worker has a call on its way"
    );
    bench.step([Input::Unsubscribe(5)]);
    bench.hint(Hint::Ready(queue("q"), Some(GroupName::new("g").unwrap())));
    bench.hint(Hint::Ready(queue("other"), None));
    assert_eq!(bench.seen(), ["6: ready"]);
}

#[test]
fn the_owners_of_a_group_are_woken_alone() {
    let mut bench = Bench::with_owner();
    bench.takes([]);
    bench.step([
        Input::Worker(2, owned(4)),
        Input::Unowned(1),
        Input::Subscribe(5, Topic::Ready(queue("q"), None)),
    ]);
    let closed = Done::Worked { worker: 2, settled: None, taken: Some(Ok((Incarnation(1), none()))) };
    bench.step([Input::Done(closed)]);
    bench.seen();
    bench.hint(Hint::Ready(queue("q"), Some(GroupName::new("g").unwrap())));
    assert_eq!(bench.seen(), [format!("2: owner.q/g#{} take 1 of q/g", (4_u128 << 64) + 2)]);
}

#[test]
fn news_go_to_the_watchers_of_their_job() {
    let mut bench = Bench::new();
    bench.watches(3, "a");
    bench.watches(4, "a");
    bench.watches(5, "b");
    assert_eq!(bench.seen(), ["3: watches by 101", "4: watches by 102", "5: watches by 103"]);
    bench.hint(news("a"));
    assert_eq!(bench.seen(), ["3: news of a", "4: news of a"]);
    bench.step([Input::Unsubscribe(3)]);
    assert_eq!(bench.seen(), [""; 0]);
    bench.step([Input::Unsubscribe(4)]);
    assert_eq!(bench.seen(), ["watch end by 104: a"], "the latest word has the highest number");
}

#[test]
fn a_gap_is_told_before_and_after_the_next_watch() {
    let mut bench = Bench::running([job("j")]);
    bench.watches(3, "a");
    bench.watches(4, "b");
    bench.seen();
    bench.hint(Hint::Subscribed);
    assert_eq!(bench.seen(), ["3: gap", "4: gap", "watch again by 103: a b", "renew j@7"]);
    bench.hint(Hint::Subscribed);
    assert_eq!(bench.seen(), [""; 0], "one after the other");
    bench.step([Input::Done(Done::WatchedAgain(true))]);
    let again = ["3: gap", "4: gap", "3: gap", "4: gap", "watch again by 104: a b"];
    assert_eq!(bench.seen(), again);
    bench.step([Input::Done(Done::WatchedAgain(false))]);
    bench.renews(30_000, [SettleReply::GoesOn]);
    assert_eq!(bench.seen(), ["renew j@7"], "and all leases are renewed once more");
}

#[test]
fn a_refusal_is_told_once_until_it_is_over() {
    let mut bench = Bench::new();
    let refused = || Hint::Refused("no".into());
    for hint in [Hint::Subscribed, refused(), refused(), Hint::Subscribed, refused(), Hint::Earlier] {
        bench.hint(hint);
    }
    let refuses = "! Warn: the store refuses to send";
    let told = [
        refuses,
        "! Debug: the store still refuses to",
        "! Info: the store sends messages again",
        refuses,
        "tick",
    ];
    assert_eq!(bench.seen(), told);
}
