//! Who is told of which message.

use super::super::input::{Done, Input, Plan};
use super::bench::{Bench, id, job, queue};
use crate::model::id::{GroupName, Token};
use crate::store::{Hint, News, SettleReply};

fn news(name: &str) -> Hint {
    let (state, body, outcome, notes) = (None, None, None, None);
    Hint::News(News { id: id(name), state, token: Token(7), number: 1, body, outcome, notes })
}

#[test]
fn ready_jobs_wake_those_who_wait_for_their_queue() {
    let mut bench = Bench::with_worker(1);
    bench.takes([]);
    bench.step([
        Input::Seek(5, queue("q")),
        Input::Seek(6, queue("other")),
        Input::Worker(2, Plan { queues: vec![queue("other"), queue("q")], slots: 1, owner: None }),
    ]);
    bench.seen();
    bench.hint(Hint::Ready(queue("q"), None));
    assert_eq!(bench.seen(), ["5: wake", "1: take1#2 take 1 of q"], "the other worker has a call on its way");
    bench.step([Input::Unsubscribe(5)]);
    bench.hint(Hint::Ready(queue("q"), Some(GroupName::new("g").unwrap())));
    bench.hint(Hint::Ready(queue("other"), None));
    assert_eq!(bench.seen(), ["6: wake"]);
}

#[test]
fn the_last_owner_of_a_group_is_woken() {
    let mut bench = Bench::with_owner();
    bench.takes([]);
    let group = GroupName::new("g").unwrap();
    let owner = super::super::input::Owner { queue: queue("q"), group: group.clone(), token: 4 };
    bench.step([Input::Worker(2, Plan { queues: vec![queue("q")], slots: 1, owner: Some(owner) })]);
    // The former one ends, and the place of the other stays.
    bench.step([Input::Unowned(1)]);
    bench.seen();
    bench.hint(Hint::Ready(queue("q"), Some(group)));
    let inputs = Done::Worked { worker: 2, settled: None, taken: Some(Err(crate::error::Error::Closed)) };
    bench.step([Input::Done(inputs)]);
    assert_eq!(bench.seen(), ["2: over"]);
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
    assert_eq!(bench.seen(), ["unwatch by 104: a"], "the latest word has the highest number");
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
    let told = ["! unheard 'no'", "! unheard 'no' again", "! heard again", "! unheard 'no'", "tick"];
    assert_eq!(bench.seen(), told);
}
