//! Groups take turns, within limits.

use tenure_jobs::State;
use tenure_jobs::store::{Adding, Kind, NewJob, Request, SettleReply, Steer, SteerReply};

use super::lab::{Lab, Which, group, id, queue};

scenarios! {
    a_limit_without_a_window_is_refused,
    groups_take_turns,
    a_group_has_turns_by_its_weight,
    a_group_that_was_idle_has_saved_no_turns,
    a_group_of_concurrency_one_is_in_order,
    ten_jobs_of_two_groups_keep_to_their_reservoir,
    sixty_jobs_of_four_groups_keep_to_their_reservoir,
    a_window_outlives_the_jobs_of_its_group,
    another_limit_counts_at_once,
    a_group_has_limits_of_its_own,
    a_paused_group_waits_and_others_go_on,
    a_queue_has_a_concurrency,
    a_queue_has_a_limit_in_each_window,
    idle_groups_leave_nothing,
}

async fn add(lab: &Lab, jobs: &[(&str, &str)]) {
    let jobs = jobs.iter().map(|(job, of)| {
        let mut kind = Kind::new(queue("a"));
        kind.group = group(of);
        NewJob::new(id(job), "b", kind)
    });
    lab.add_all(&Adding::new(jobs.collect())).await;
}

async fn add_many(lab: &Lab, of: &str, count: usize) {
    let names: Vec<_> = (0..count).map(|i| format!("{of}{i}")).collect();
    add(lab, &names.iter().map(|name| (name.as_str(), of)).collect::<Vec<_>>()).await;
}

async fn groups_take_turns(which: Which) {
    let lab = Lab::new(which, &[("a", "g")]).await;
    add_many(&lab, "x", 20).await;
    add(&lab, &[("y0", "y"), ("y1", "y"), ("z0", "z")]).await;
    assert_eq!(lab.take_n("a", 8).await, ["x0", "y0", "z0", "x1", "y1", "x2", "x3", "x4"]);
}

async fn a_group_has_turns_by_its_weight(which: Which) {
    let lab = Lab::new(which, &[("a", "g")]).await;
    assert_eq!(lab.request(Request::GroupWeight(queue("a"), group("x"), 3)).await, SteerReply::Done);
    assert_eq!(lab.request(Request::GroupWeight(queue("a"), group("x"), 0)).await, SteerReply::Bad);
    add_many(&lab, "x", 20).await;
    add_many(&lab, "y", 20).await;
    let taken = lab.take_n("a", 16).await;
    assert_eq!(taken.iter().filter(|job| job.starts_with('x')).count(), 12, "{taken:?}");
}

async fn a_group_that_was_idle_has_saved_no_turns(which: Which) {
    let lab = Lab::new(which, &[("a", "g")]).await;
    add_many(&lab, "x", 60).await;
    lab.take_n("a", 50).await;
    add_many(&lab, "y", 60).await;
    let taken = lab.take_n("a", 8).await;
    let of_y = taken.iter().filter(|job| job.starts_with('y')).count();
    assert!((4..=5).contains(&of_y), "{taken:?}");
}

async fn a_group_of_concurrency_one_is_in_order(which: Which) {
    let lab = Lab::new(which, &[("a", "g gconc=1")]).await;
    add(&lab, &[("j1", "k"), ("j2", "k"), ("other", "l")]).await;
    assert_eq!(lab.take("a").await, ["j1", "other"]);
    assert!(lab.take("a").await.is_empty());
    assert_eq!(lab.done("j1").await, SettleReply::Ended);
    assert_eq!(lab.take("a").await, ["j2"]);
}

/// Jobs in groups with three in each window of 3 s: exactly reservoir × groups run, and the rest waits.
async fn reservoir(which: Which, jobs: usize, groups: usize) {
    let lab = Lab::new(which, &[("a", "g glimit=3/3000")]).await;
    lab.advance(500).await;
    let names: Vec<_> = (0..jobs).map(|i| (format!("j{i}"), format!("t{}", i % groups))).collect();
    add(&lab, &names.iter().map(|(job, of)| (job.as_str(), of.as_str())).collect::<Vec<_>>()).await;
    assert_eq!(lab.take("a").await.len(), 3 * groups);
    let begins = lab.now() / 3_000 * 3_000;
    for of in 0..groups {
        let mut waiting = Vec::new();
        for i in (of..jobs).step_by(groups) {
            let job = lab.peek(&format!("j{i}")).await.unwrap();
            if job.seen.record.state == State::Ready {
                waiting.push(job.begins_at);
            }
        }
        let expected: Vec<_> =
            (0..jobs / groups - 3).map(|k| begins + 3_000 + k as u64 / 3 * 3_000).collect();
        assert_eq!(waiting, expected, "group {of}");
    }
    assert!(lab.take("a").await.is_empty());
    let mut left = jobs - 3 * groups;
    while left > 0 {
        lab.tick_after(3_000 - lab.now() % 3_000).await;
        let taken = lab.take("a").await.len();
        assert_eq!(taken, left.min(3 * groups), "{left} were left");
        left -= taken;
        assert!(lab.take("a").await.is_empty());
    }
}

async fn ten_jobs_of_two_groups_keep_to_their_reservoir(which: Which) {
    reservoir(which, 10, 2).await;
}

async fn sixty_jobs_of_four_groups_keep_to_their_reservoir(which: Which) {
    reservoir(which, 60, 4).await;
}

async fn a_window_outlives_the_jobs_of_its_group(which: Which) {
    let lab = Lab::new(which, &[("a", "g glimit=1/5000")]).await;
    add(&lab, &[("j1", "t")]).await;
    lab.take("a").await;
    assert_eq!(lab.done("j1").await, SettleReply::Ended);
    add(&lab, &[("j2", "t")]).await;
    assert!(lab.take("a").await.is_empty());
    lab.tick_after(5_000).await;
    assert_eq!(lab.take("a").await, ["j2"]);
}

async fn another_limit_counts_at_once(which: Which) {
    let lab = Lab::new(which, &[("a", "g glimit=1/600000")]).await;
    add_many(&lab, "t", 5).await;
    assert_eq!(lab.take("a").await, ["t0"]);
    assert!(lab.take("a").await.is_empty());
    assert!(lab.declare("a", "g glimit=3/600000").await);
    assert_eq!(lab.take("a").await, ["t1", "t2"]);
    assert!(lab.take("a").await.is_empty());
}

async fn a_group_has_limits_of_its_own(which: Which) {
    let lab = Lab::new(which, &[("a", "g glimit=1/600000")]).await;
    add_many(&lab, "x", 5).await;
    add_many(&lab, "y", 5).await;
    let own = Request::LimitGroup(queue("a"), group("x"), Some((3, 600_000)));
    assert_eq!(lab.request(own).await, SteerReply::Done);
    assert_eq!(
        lab.request(Request::GroupConcurrency(queue("a"), group("x"), Some(2))).await,
        SteerReply::Done
    );
    assert_eq!(lab.take("a").await, ["x0", "y0", "x1"]);
    lab.done("x0").await;
    assert_eq!(lab.take("a").await, ["x2"]);
    lab.done("x1").await;
    assert!(lab.take("a").await.is_empty());
    assert_eq!(lab.request(Request::ResetGroup(queue("a"), group("x"))).await, SteerReply::Done);
    assert!(lab.take("a").await.is_empty());
}

async fn a_paused_group_waits_and_others_go_on(which: Which) {
    let lab = Lab::new(which, &[("a", "g")]).await;
    add(&lab, &[("x", "x"), ("y", "y")]).await;
    assert_eq!(lab.request(Request::PauseGroup(queue("a"), group("x"), true)).await, SteerReply::Done);
    assert_eq!(lab.take("a").await, ["y"]);
    assert_eq!(lab.request(Request::PauseGroup(queue("a"), group("x"), false)).await, SteerReply::Done);
    assert_eq!(lab.take("a").await, ["x"]);
}

async fn a_queue_has_a_concurrency(which: Which) {
    let lab = Lab::new(which, &[("a", "conc=2")]).await;
    lab.add("a", &["j1", "j2", "j3"]).await;
    assert_eq!(lab.take("a").await, ["j1", "j2"]);
    assert!(lab.take("a").await.is_empty());
    assert_eq!(lab.done("j1").await, SettleReply::Ended);
    assert_eq!(lab.take("a").await, ["j3"]);
}

async fn a_queue_has_a_limit_in_each_window(which: Which) {
    let lab = Lab::new(which, &[("a", "limit=3/1000")]).await;
    lab.add("a", &["j1", "j2", "j3", "j4", "j5"]).await;
    assert_eq!(lab.take_n("a", 2).await, ["j1", "j2"]);
    assert_eq!(lab.take("a").await, ["j3"]);
    lab.tick_after(999).await;
    assert!(lab.take("a").await.is_empty());
    lab.tick_after(1).await;
    assert_eq!(lab.take("a").await, ["j4", "j5"]);
}

async fn idle_groups_leave_nothing(which: Which) {
    let lab = Lab::new(which, &[("a", "g glimit=5/1000")]).await;
    add_many(&lab, "x", 3).await;
    add(&lab, &[("y", "y")]).await;
    lab.steer("y", Steer::Remove).await;
    for job in lab.take("a").await {
        lab.done(&job).await;
    }
    assert!(lab.keys().await.contains(&"groups".to_owned()), "the window is in use");
    lab.tick_after(1_000).await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_limit_without_a_window_is_refused(which: Which) {
    let lab = Lab::new(which, &[("a", "g")]).await;
    let limit = |n, ms| Request::LimitGroup(queue("a"), group("x"), Some((n, ms)));
    assert_eq!(lab.request(limit(2, 1_000)).await, SteerReply::Done);
    let before = lab.dump().await;
    assert_eq!(lab.request(limit(2, 0)).await, SteerReply::Bad);
    assert_eq!(lab.dump().await, before);
    assert_eq!(lab.request(limit(0, 0)).await, SteerReply::Done, "none is none");
}
