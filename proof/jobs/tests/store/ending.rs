//! The ends of executions.

use bytes::Bytes;
use tenure_jobs::store::{
    Data, Hint, Listing, ReadFigures, Settle, SettleJobs, SettleReply, Settling, Steer, SteerReply,
};
use tenure_jobs::{State, Token};

use super::lab::{Lab, Which, done, fail, group, id, node, queue, retry, taking, with_result};

scenarios! {
    another_token_changes_nothing,
    a_failed_job_goes_before_what_came_later,
    a_job_fails_for_good_after_its_last_attempt,
    a_dead_letter_is_listed_and_replayed,
    a_result_is_kept_for_its_time,
    a_job_that_is_given_back_keeps_its_attempts,
    a_job_is_given_back_to_the_queue_that_gave_it,
    a_job_that_is_delayed_is_due_after_that_time,
    data_are_replaced_or_appended,
    a_job_moves_on_in_the_same_step,
    a_job_that_moves_to_nowhere_still_runs,
    an_execution_is_settled_once_in_a_call,
    a_time_that_is_none_is_refused,
    a_plain_job_that_is_done_leaves_nothing,
    what_is_kept_is_kept_without_its_deadline,
    a_kept_parent_that_ends_first_leaves_no_open_child,
    a_watched_job_moves_on_in_sight,
    a_job_that_moves_on_wakes_a_node,
    a_limited_group_waits_and_others_go_on,
    a_limited_job_of_a_plain_queue_waits_alone,
}

async fn another_token_changes_nothing(lab: Lab) {
    let old = lab.begin("a", &["j"]).await;
    assert_eq!(lab.settle("j", Settle::GiveBack).await, SettleReply::Pending);
    lab.take("a").await;
    let before = lab.dump().await;
    for settle in
        [done(), retry(0, "e"), Settle::GiveBack, Settle::GoOn(Data::Replace("x".into())), fail("f")]
    {
        assert_eq!(lab.settle_as("j", old, settle).await, SettleReply::Halt);
    }
    assert_eq!(lab.extend("j", old).await, SettleReply::Halt);
    assert_eq!(lab.extend("j", Token(old.0 / 10)).await, SettleReply::Halt);
    let mut after = lab.dump().await;
    after.insert("lane:s", before.get("lane:s").cloned().unwrap_or_default());
    assert_eq!(after, before);
    assert_eq!(lab.done("j").await, SettleReply::Ended);
    assert_eq!(lab.done("j").await, SettleReply::Halt);
}

async fn a_failed_job_goes_before_what_came_later(lab: Lab) {
    lab.add("a", &["j1", "j2", "j3"]).await;
    assert_eq!(lab.take_n("a", 1).await, ["j1"]);
    assert_eq!(lab.settle("j1", retry(0, "boom")).await, SettleReply::Pending);
    assert_eq!(lab.result("j1").await, "boom");
    assert_eq!(lab.take_n("a", 1).await, ["j1"]);
    assert_eq!(lab.record("j1").await.unwrap().attempts, 2);
    assert_eq!(lab.settle("j1", retry(200, "boom")).await, SettleReply::Delayed);
    assert_eq!(lab.take_n("a", 1).await, ["j2"]);
    lab.tick_after(200).await;
    assert_eq!(lab.take("a").await, ["j1", "j3"]);
}

async fn a_job_fails_for_good_after_its_last_attempt(which: Which) {
    let lab = Lab::new(which, &[("a", "max=2 keep=5000")]).await;
    lab.add("a", &["j", "k"]).await;
    lab.add_one("a", "own", |kind| kind.max = 1).await;
    lab.take("a").await;
    assert_eq!(lab.settle("own", retry(0, "first")).await, SettleReply::Failed);
    assert_eq!(lab.settle("j", retry(0, "first")).await, SettleReply::Pending);
    assert_eq!(lab.settle("k", fail("no")).await, SettleReply::Failed);
    lab.take("a").await;
    assert_eq!(lab.settle("j", retry(0, "last")).await, SettleReply::Failed);
    let job = lab.peek("j").await.unwrap().seen;
    assert_eq!(
        (job.record.state, &job.result[..], job.record.queue),
        (State::Failed, &b"last"[..], queue("a"))
    );
    lab.tick_after(5_000).await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_dead_letter_is_listed_and_replayed(which: Which) {
    let lab = Lab::new(which, &[("a", "max=1"), ("ab", "max=1")]).await;
    lab.add("a", &["j1", "j2", "j3"]).await;
    lab.add("ab", &["other"]).await;
    lab.take("a").await;
    for job in ["j1", "j2", "j3"] {
        lab.settle(job, retry(0, "boom")).await;
    }
    lab.take("ab").await;
    lab.settle("other", retry(0, "boom")).await;
    let dead = Listing::Dead(queue("a"));
    let first = lab.list(dead.clone(), None, 2).await;
    assert_eq!(first.ids, ["j1", "j2"]);
    let second = lab.list(dead.clone(), first.next.clone(), 2).await;
    assert_eq!((second.ids.as_slice(), second.next), (&[id("j3")][..], None));
    assert_eq!(lab.steer("j1", Steer::Replay(0)).await, SteerReply::Done);
    assert_eq!(lab.steer("j1", Steer::Replay(0)).await, SteerReply::NotInState);
    assert_eq!(lab.steer("j2", Steer::Replay(lab.now() + 50)).await, SteerReply::Done);
    assert_eq!(lab.record("j1").await.unwrap().attempts, 0);
    assert_eq!(lab.take("a").await, ["j1"]);
    assert_eq!(lab.list(dead.clone(), None, 9).await.ids, ["j3"]);
    let figures = &lab.run(ReadFigures(vec![queue("a")])).await[0];
    assert_eq!((figures.running, figures.delayed, figures.dead, figures.failed), (1, 1, 1, 3));
}

async fn a_result_is_kept_for_its_time(lab: Lab) {
    for (job, keep) in [("none", 0), ("some", 1_000), ("ever", -1)] {
        lab.add_one("a", job, |kind| kind.keep = Some(keep)).await;
    }
    lab.take("a").await;
    for job in ["none", "some", "ever"] {
        assert_eq!(lab.settle(job, with_result("42")).await, SettleReply::Ended);
    }
    assert_eq!(lab.state("none").await, None);
    assert_eq!((lab.state("some").await, lab.result("some").await), (Some(State::Done), "42".into()));
    lab.tick_after(1_000).await;
    assert_eq!((lab.state("some").await, lab.result("ever").await), (None, "42".into()));
    let dump = lab.dump().await;
    assert_eq!(dump.get("extras").unwrap().len(), 1);
    assert_eq!(dump.get("timers"), None);
}

async fn a_job_that_is_given_back_keeps_its_attempts(which: Which) {
    let lab = Lab::new(which, &[("a", "max=2")]).await;
    lab.add("a", &["j", "k"]).await;
    for _ in 0..5 {
        assert_eq!(lab.take_n("a", 1).await, ["j"]);
        assert_eq!(lab.settle("j", Settle::GiveBack).await, SettleReply::Pending);
        assert_eq!(lab.dump().await.get("leases"), None);
    }
    assert_eq!(lab.record("j").await.unwrap().attempts, 0);
}

async fn a_job_is_given_back_to_the_queue_that_gave_it(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", ""), ("c", "")]).await;
    lab.add("b", &["j"]).await;
    let mut taking = super::lab::taking("a", 1);
    taking.queues = ["a", "b", "c"].map(|name| (queue(name), 1)).to_vec();
    assert_eq!(lab.take_as(&taking).await, ["j"]);
    assert_eq!(lab.settle("j", Settle::GiveBack).await, SettleReply::Pending);
    assert!(lab.take("a").await.is_empty() && lab.take("c").await.is_empty());
    assert_eq!(lab.take("b").await, ["j"]);
}

async fn a_job_that_is_delayed_is_due_after_that_time(which: Which) {
    let lab = Lab::new(which, &[("a", "max=1")]).await;
    lab.begin("a", &["j1", "j2"]).await;
    assert_eq!(lab.settle("j1", Settle::Later(200, "busy".into())).await, SettleReply::Delayed);
    assert_eq!(lab.settle("j2", Settle::Later(100, "busy".into())).await, SettleReply::Delayed);
    lab.add("a", &["j3"]).await;
    assert_eq!(lab.result("j1").await, "busy");
    lab.tick_after(100).await;
    assert_eq!((lab.state("j2").await, lab.state("j1").await), (Some(State::Ready), Some(State::Delayed)));
    lab.tick_after(100).await;
    assert_eq!(lab.take("a").await, ["j1", "j2", "j3"]);
    assert_eq!(lab.record("j1").await.unwrap().attempts, 1);
}

async fn data_are_replaced_or_appended(lab: Lab) {
    lab.add_one("a", "j", |kind| kind.keep = Some(-1)).await;
    lab.take("a").await;
    assert_eq!(lab.settle("j", Settle::GoOn(Data::Append("c".into()))).await, SettleReply::GoesOn);
    assert_eq!(lab.body("j").await, "bc");
    assert_eq!(lab.settle("j", Settle::GoOn(Data::Keep)).await, SettleReply::GoesOn);
    assert_eq!(
        lab.settle("j", Settle::Done(Bytes::new(), Data::Replace("z".into()))).await,
        SettleReply::Ended
    );
    assert_eq!((lab.body("j").await, lab.result("j").await), ("z".into(), Bytes::new()));
}

async fn a_job_moves_on_in_the_same_step(which: Which) {
    let lab = Lab::new(which, &[("a", "max=3"), ("b", "max=2"), ("g", "g")]).await;
    lab.begin("a", &["j"]).await;
    lab.settle("j", retry(0, "boom")).await;
    lab.take("a").await;
    let to = |name: &str| Settle::MoveOn {
        queue: queue(name),
        priority: None,
        group: None,
        data: Data::Append("+".into()),
    };
    assert_eq!(lab.settle("j", to("b")).await, SettleReply::Moved);
    let dump = lab.dump().await;
    assert_eq!((dump.get("leases"), dump.value("counts", "a|done")), (None, Some("1")));
    assert_eq!(lab.take("b").await, ["j"]);
    let record = lab.record("j").await.unwrap();
    assert_eq!(
        (record.attempts, lab.body("j").await),
        (1, "body-j+".into()),
        "attempts are counted by queue"
    );
    let to_group =
        Settle::MoveOn { queue: queue("g"), priority: Some(5), group: group("acme"), data: Data::Keep };
    assert_eq!(lab.settle("j", to_group).await, SettleReply::Moved);
    let record = lab.record("j").await.unwrap();
    assert_eq!((record.priority, &*record.group, record.queue), (5, "acme", queue("g")));
    assert_eq!(lab.take("g").await, ["j"]);
    assert_eq!(lab.record("j").await.unwrap().attempts, 1, "also in a queue with groups");
}

async fn a_job_that_moves_to_nowhere_still_runs(lab: Lab) {
    lab.begin("a", &["j"]).await;
    let nowhere =
        Settle::MoveOn { queue: queue("no"), priority: None, group: None, data: Data::Replace("x".into()) };
    assert_eq!(lab.settle("j", nowhere).await, SettleReply::NoQueue);
    assert_eq!((lab.state("j").await, lab.body("j").await), (Some(State::Running), "body-j".into()));
}

async fn an_execution_is_settled_once_in_a_call(lab: Lab) {
    lab.begin("a", &["j"]).await;
    let settling = Settling::new(id("j"), lab.token.get(), done());
    let twice = [settling.clone(), settling];
    let replies = lab.run(SettleJobs(lab.lane("s"), twice.to_vec())).await;
    assert_eq!(replies, [SettleReply::Ended, SettleReply::Halt]);
    assert_eq!(lab.dump().await.value("counts", "a|running"), Some("0"));
}

async fn a_time_that_is_none_is_refused(lab: Lab) {
    lab.begin("a", &["j"]).await;
    assert_eq!(lab.settle("j", retry(u64::MAX, "e")).await, SettleReply::Bad);
    assert_eq!(lab.settle("j", Settle::Limited(u64::MAX)).await, SettleReply::Bad);
    assert_eq!(lab.state("j").await, Some(State::Running));
}

async fn a_plain_job_that_is_done_leaves_nothing(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.add("a", &["j1", "j2"]).await;
    lab.add("b", &["k"]).await;
    let mut both = taking("a", 9);
    both.queues.push((queue("b"), 9));
    assert_eq!(lab.take_as(&both).await, ["j1", "j2", "k"]);
    let all = ["j1", "k", "j2"].map(|job| Settling::new(id(job), lab.token.get(), done()));
    assert_eq!(lab.run(SettleJobs(lab.lane("s"), all.to_vec())).await, [SettleReply::Ended; 3]);
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
    let figures = lab.run(ReadFigures(vec![queue("a"), queue("b")])).await;
    let counts: Vec<_> = figures.iter().map(|of| (of.running, of.done)).collect();
    assert_eq!(counts, [(0, 2), (0, 1)]);
}

async fn what_is_kept_is_kept_without_its_deadline(lab: Lab) {
    let end = lab.now() + 500;
    lab.add_one("a", "j", |kind| (kind.keep, kind.deadline) = (Some(2_000), end)).await;
    lab.add_one("a", "none", |kind| (kind.keep, kind.deadline) = (Some(0), end)).await;
    lab.take("a").await;
    let settle = Settle::Done("r".into(), Data::Append("+".into()));
    assert_eq!(lab.settle("j", settle).await, SettleReply::Ended);
    assert_eq!(lab.done("none").await, SettleReply::Ended);
    let record = lab.record("j").await.unwrap();
    assert_eq!((record.state, &*record.flags, &*record.node), (State::Done, "j", ""));
    assert_eq!((lab.body("j").await, lab.result("j").await), ("b+".into(), "r".into()));
    lab.tick_after(1_999).await;
    assert_eq!(lab.state("j").await, Some(State::Done));
    lab.tick_after(1).await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_kept_parent_that_ends_first_leaves_no_open_child(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=0")]).await;
    lab.add_one("a", "P", |kind| kind.keep = Some(9_000)).await;
    lab.take("a").await;
    lab.spawn("b", "P", Some(lab.token.get()), "P.1").await;
    assert_eq!(lab.done("P").await, SettleReply::Ended);
    lab.tick().await;
    assert_eq!((lab.state("P").await, lab.state("P.1").await), (Some(State::Done), None));
}

fn to_b() -> Settle {
    Settle::MoveOn { queue: queue("b"), priority: None, group: None, data: Data::Keep }
}

async fn a_watched_job_moves_on_in_sight(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.listen("w").await;
    lab.begin("a", &["j"]).await;
    lab.watch("w", "j").await;
    assert_eq!(lab.settle("j", to_b()).await, SettleReply::Moved);
    let heard = lab.heard().await;
    assert!(matches!(&heard[..], [(_, Hint::News(news))] if news.state == Some(State::Ready)), "{heard:?}");
}

async fn a_job_that_moves_on_wakes_a_node(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    lab.listen("n2").await;
    let token = lab.begin("a", &["j"]).await;
    let mut waits = taking("b", 1);
    (waits.node, waits.slots) = (node("n2"), 1);
    lab.take_as(&waits).await;
    assert_eq!(lab.settle_as("j", token, to_b()).await, SettleReply::Moved);
    assert_eq!(lab.woken().await, ["n2"]);
}

async fn a_limited_group_waits_and_others_go_on(which: Which) {
    let lab = Lab::new(which, &[("g", "g")]).await;
    lab.add_one("g", "j1", |kind| kind.group = group("t")).await;
    lab.take("g").await;
    let until = lab.now() + 700;
    assert_eq!(lab.settle("j1", Settle::Limited(until)).await, SettleReply::Pending);
    assert_eq!(lab.peek("j1").await.unwrap().begins_at, until);
    lab.add_one("g", "j2", |kind| kind.group = group("t")).await;
    lab.add_one("g", "k", |kind| kind.group = group("other")).await;
    assert_eq!(lab.take("g").await, ["k"]);
    // A block outlives the jobs of its group.
    lab.steer("j1", Steer::Remove).await;
    lab.steer("j2", Steer::Remove).await;
    lab.add_one("g", "j3", |kind| kind.group = group("t")).await;
    assert!(lab.take("g").await.is_empty());
    lab.tick_after(700).await;
    assert_eq!(lab.take("g").await, ["j3"]);
    assert_eq!(lab.record("j3").await.unwrap().attempts, 1);
    lab.done("j3").await;
    lab.settle("k", done()).await;
    lab.tick().await;
    assert!(lab.dump().await.get("timers").is_none());
}

async fn a_limited_job_of_a_plain_queue_waits_alone(lab: Lab) {
    lab.add("a", &["j1", "j2"]).await;
    lab.take_n("a", 1).await;
    assert_eq!(lab.settle("j1", Settle::Limited(lab.now() + 9)).await, SettleReply::Delayed);
    assert_eq!(lab.take("a").await, ["j2"]);
}
