//! Jobs that are added again.

use tenure_jobs::State;
use tenure_jobs::store::{
    AddMode, AddReply, Adding, Data, Hint, Kind, Listing, NewJob, Settle, SettleReply, Steer,
};

use super::lab::{Lab, Which, group, id, queue, retry};

scenarios! {
    one_that_waits_gets_another_time_and_data,
    one_that_waits_gets_other_data_and_keeps_its_place,
    one_that_runs_runs_once_more_with_its_data,
    one_that_has_ended_is_there_anew,
    a_flow_that_has_ended_begins_anew,
    a_replacement_leaves_what_runs_alone,
    one_of_another_queue_stays,
    what_is_not_there_is_not_resubmitted,
    a_resubmit_keeps_the_data_unless_there_are_others,
    a_run_asks_for_another_one_under_its_token,
    a_run_that_is_cancelled_asks_for_no_other,
    one_that_failed_while_it_was_asked_for_runs_again,
    one_that_is_added_again_is_found_by_its_new_look_ups,
    one_that_runs_is_found_as_before,
    a_job_belongs_to_the_work_that_added_it_last,
}

async fn again(lab: &Lab, due: u64, body: &str) -> AddReply {
    lab.add_body("t", "j", body, AddMode::Schedule, |kind| (kind.due, kind.keep) = (due, Some(-1))).await
}

async fn a_flow_that_has_ended_begins_anew(which: Which) {
    let lab = Lab::new(which, &[("a", "g"), ("b", ""), ("c", "")]).await;
    let start = async |flow: &str, body: &str| {
        let due_by = lab.now() + 5_000;
        lab.add_body("a", "j", body, AddMode::Again, |kind| {
            (kind.flow, kind.keep, kind.deadline) = (flow.to_owned(), Some(-1), due_by);
            (kind.priority, kind.group) = (3, group("g1"));
        })
        .await
    };
    assert_eq!(start("f", "one").await, AddReply::Added);
    lab.take("a").await;
    let on = Settle::MoveOn { queue: queue("b"), priority: Some(-2), group: None, data: Data::Keep };
    assert_eq!(lab.settle("j", on).await, SettleReply::Moved);
    assert_eq!(start("f", "two").await, AddReply::Exists, "it is under way");
    lab.take("b").await;
    assert_eq!(lab.settle("j", retry(60_000, "busy")).await, SettleReply::Delayed);
    assert_eq!(start("f", "two").await, AddReply::Exists, "it is under way");
    lab.steer("j", Steer::At(0)).await;
    lab.take("b").await;
    assert_eq!(lab.done("j").await, SettleReply::Ended);
    assert_eq!(start("g", "two").await, AddReply::Exists, "it is another flow");
    assert_eq!(lab.add_body("c", "j", "two", AddMode::Again, |_| ()).await, AddReply::Exists);
    let former = lab.record("j").await.unwrap();
    assert_eq!(start("f", "two").await, AddReply::Anew);
    let record = lab.record("j").await.unwrap();
    assert_eq!((record.state, record.queue.as_str(), &*record.group), (State::Ready, "a", "g1"));
    assert_eq!((record.priority, record.attempts, &*record.flow), (3, 0, "f"));
    assert!(record.birth > former.birth);
    assert_eq!(lab.body("j").await, "two");
    lab.tick_after(5_000).await;
    assert_eq!((lab.state("j").await, lab.result("j").await), (Some(State::Failed), "deadline".into()));
    assert_eq!(start("f", "three").await, AddReply::Anew, "a dead letter is, too");
    assert_eq!(lab.take("a").await, ["j"]);
}

async fn one_that_waits_gets_another_time_and_data(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    assert_eq!(again(&lab, 15, "d").await, AddReply::Added);
    let before = lab.dump().await;
    assert_eq!(again(&lab, 15, "x").await, AddReply::Same);
    let mut after = lab.dump().await;
    after.insert("lane:p", before.get("lane:p").cloned().unwrap());
    assert_eq!(after, before, "nothing was written");
    assert_eq!(again(&lab, 16, "e").await, AddReply::Changed);
    assert_eq!((lab.body("j").await, lab.record("j").await.unwrap().due), ("e".into(), 16));
    let later = lab.now() + 10;
    assert_eq!(again(&lab, later, "f").await, AddReply::Changed);
    assert_eq!(lab.state("j").await, Some(State::Delayed));
}

async fn one_that_waits_gets_other_data_and_keeps_its_place(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    let later = lab.now() + 1_000;
    lab.listen("n1").await;
    for (mode, due) in
        [(AddMode::Again, 0), (AddMode::Replace, 0), (AddMode::Again, later), (AddMode::Replace, later)]
    {
        let add = async |job: &str, body: &str, mode| {
            lab.add_body("t", job, body, mode, |kind| kind.due = due).await
        };
        add("j", "a", AddMode::Keep).await;
        add("k", "x", AddMode::Keep).await;
        let before = lab.record("j").await.unwrap();
        assert_eq!(add("j", "b", mode).await, AddReply::Changed);
        assert_eq!(lab.body("j").await, "b", "the same moment is no reason to keep the old data");
        assert_eq!(lab.record("j").await.unwrap().place, before.place);
        lab.watch("n1", "j").await;
        lab.heard().await;
        assert_eq!(add("j", "c", mode).await, AddReply::Changed);
        let heard = lab.heard().await;
        let news = heard
            .iter()
            .find_map(|(_, hint)| if let Hint::News(news) = hint { news.body.clone() } else { None });
        assert_eq!(news, Some("c".into()), "watchers see them");
        lab.set_clock(lab.now().max(due)).await;
        lab.tick().await;
        assert_eq!(lab.take("t").await, ["j", "k"]);
        lab.steer("j", Steer::Remove).await;
        lab.steer("k", Steer::Remove).await;
    }
    // Two words on one job in one call: the last one counts.
    let kind = std::sync::Arc::new(Kind::new(queue("t")));
    let jobs = ["a", "b", "a"].map(|body| NewJob::new(id("j"), body, kind.clone()));
    let mut adding = Adding::new(jobs.into());
    adding.mode = AddMode::Replace;
    assert_eq!(lab.add_all(&adding).await, [AddReply::Added, AddReply::Changed, AddReply::Changed]);
    assert_eq!(lab.body("j").await, "a");
}

async fn one_that_runs_runs_once_more_with_its_data(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    again(&lab, 0, "d").await;
    lab.take("t").await;
    assert_eq!(again(&lab, 17, "x").await, AddReply::RunsAgain);
    assert_eq!(lab.body("j").await, "d");
    assert_eq!(lab.settle("j", Settle::GoOn(Data::Keep)).await, SettleReply::Asked);
    assert_eq!(lab.settle("j", Settle::GoOn(Data::Replace("g".into()))).await, SettleReply::Asked);
    assert_eq!(lab.done("j").await, SettleReply::Pending);
    assert_eq!(lab.take("t").await, ["j"]);
    let record = lab.record("j").await.unwrap();
    assert_eq!((record.due, record.attempts, record.again), (17, 1, None));
    assert_eq!(lab.body("j").await, "g");
    assert_eq!(lab.done("j").await, SettleReply::Ended);
    assert!(lab.take("t").await.is_empty());
}

async fn one_that_has_ended_is_there_anew(which: Which) {
    let lab = Lab::new(which, &[("t", "max=1")]).await;
    again(&lab, 0, "d").await;
    lab.take("t").await;
    lab.settle("j", retry(0, "boom")).await;
    assert_eq!(lab.state("j").await, Some(State::Failed));
    assert_eq!(again(&lab, 18, "i").await, AddReply::Anew);
    let record = lab.record("j").await.unwrap();
    assert_eq!((record.state, record.attempts, lab.body("j").await), (State::Ready, 0, "i".into()));
    assert_eq!(lab.dump().await.get("index"), None);
}

async fn a_job_belongs_to_the_work_that_added_it_last(which: Which) {
    let lab = Lab::new(which, &[("t", ""), ("u", "")]).await;
    let add = async |job: &str, mode, work: &str, due: u64| {
        let set =
            |kind: &mut Kind| (kind.correlation, kind.due, kind.keep) = (work.to_owned(), due, Some(-1));
        lab.add_body("t", job, "d", mode, set).await
    };
    let work_of = async |job: &str| lab.record(job).await.unwrap().correlation;
    assert_eq!(add("other", AddMode::Keep, "r0", lab.now() + 9_000).await, AddReply::Added);
    assert_eq!(work_of("other").await, "r0");
    assert_eq!(add("j", AddMode::Keep, "r1", 0).await, AddReply::Added);
    assert_eq!(add("j", AddMode::Again, "r2", 0).await, AddReply::Changed);
    assert_eq!(work_of("j").await, "r2");
    assert_eq!(add("j", AddMode::Again, "r3", 7).await, AddReply::Changed);
    assert_eq!(work_of("j").await, "r3");
    lab.take("t").await;
    assert_eq!(add("j", AddMode::Again, "r4", 0).await, AddReply::RunsAgain);
    assert_eq!(work_of("j").await, "r3", "one that runs keeps its data, and what they belong to");
    lab.take("t").await;
    let on = Settle::MoveOn { queue: queue("u"), priority: None, group: None, data: Data::Keep };
    lab.settle("j", on).await;
    assert_eq!(work_of("j").await, "r3");
    assert_eq!(add("k", AddMode::Keep, "r5", 0).await, AddReply::Added);
    lab.take("t").await;
    lab.done("k").await;
    assert_eq!(work_of("k").await, "r5");
    assert_eq!(add("k", AddMode::Again, "", 0).await, AddReply::Anew);
    assert_eq!(work_of("k").await, "");
}

async fn a_replacement_leaves_what_runs_alone(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    let replace = async |due: u64, body: &str| {
        lab.add_body("t", "j", body, AddMode::Replace, |kind| (kind.due, kind.keep) = (due, Some(-1))).await
    };
    assert_eq!(replace(0, "a").await, AddReply::Added);
    assert_eq!(replace(5, "b").await, AddReply::Changed);
    lab.take("t").await;
    assert_eq!(replace(0, "c").await, AddReply::Exists);
    lab.done("j").await;
    assert_eq!((replace(0, "c").await, lab.body("j").await), (AddReply::Exists, "b".into()));
}

async fn one_of_another_queue_stays(which: Which) {
    let lab = Lab::new(which, &[("t", ""), ("u", "")]).await;
    again(&lab, 0, "d").await;
    assert_eq!(lab.add_body("u", "j", "x", AddMode::Schedule, |kind| kind.due = 5).await, AddReply::Exists);
    assert_eq!(lab.body("j").await, "d");
}

async fn resubmit(lab: &Lab, due: u64, body: &str) -> AddReply {
    lab.add_body("t", "j", body, AddMode::Resubmit, |kind| (kind.due, kind.keep) = (due, Some(-1))).await
}

async fn what_is_not_there_is_not_resubmitted(which: Which) {
    let lab = Lab::new(which, &[("t", "cap=1")]).await;
    for body in ["", "d"] {
        assert_eq!(resubmit(&lab, 0, body).await, AddReply::Missing);
    }
    assert_eq!(lab.keys().await, ["meta", "queues"]);
    lab.add("t", &["other"]).await;
    assert_eq!(resubmit(&lab, 0, "d").await, AddReply::Missing, "also where there is no room");
}

async fn a_resubmit_keeps_the_data_unless_there_are_others(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    again(&lab, 15, "d").await;
    assert_eq!(resubmit(&lab, 15, "x").await, AddReply::Same);
    assert_eq!((resubmit(&lab, 16, "").await, lab.body("j").await), (AddReply::Changed, "d".into()));
    assert_eq!((resubmit(&lab, 17, "e").await, lab.body("j").await), (AddReply::Changed, "e".into()));
    lab.take("t").await;
    assert_eq!((resubmit(&lab, 0, "x").await, lab.body("j").await), (AddReply::RunsAgain, "e".into()));
    lab.settle("j", Settle::GoOn(Data::Replace("f".into()))).await;
    assert_eq!(lab.done("j").await, SettleReply::Pending);
    lab.take("t").await;
    lab.done("j").await;
    let later = lab.now() + 10;
    assert_eq!((resubmit(&lab, later, "").await, lab.body("j").await), (AddReply::Anew, "f".into()));
    assert_eq!(lab.state("j").await, Some(State::Delayed));
}

async fn a_run_asks_for_another_one_under_its_token(which: Which) {
    let lab = Lab::new(which, &[("t", "lease=3000")]).await;
    lab.tick().await;
    again(&lab, 0, "d").await;
    lab.take("t").await;
    let former = lab.token.get();
    lab.advance(2_000).await;
    assert_eq!(lab.settle("j", Settle::Resubmit(18)).await, SettleReply::Asked);
    lab.tick_after(2_000).await;
    assert_eq!(lab.done("j").await, SettleReply::Pending, "it has said that it lives");
    let halted = async || {
        let before = lab.dump().await;
        assert_eq!(lab.settle_as("j", former, Settle::Resubmit(99)).await, SettleReply::Halt);
        let mut after = lab.dump().await;
        after.insert("lane:s", before.get("lane:s").cloned().unwrap());
        assert_eq!(after, before, "nothing was written");
    };
    halted().await;
    assert_eq!(lab.take("t").await, ["j"]);
    let record = lab.record("j").await.unwrap();
    assert_eq!((record.due, record.again, lab.body("j").await), (18, None, "d".into()));
    halted().await;
    assert_eq!(lab.settle("j", Settle::Resubmit(10_000_000_000_000)).await, SettleReply::Bad);
    assert_eq!(lab.done("j").await, SettleReply::Ended);
    halted().await;
    lab.steer("j", Steer::Remove).await;
    halted().await;
    assert_eq!(lab.state("j").await, None);
}

async fn a_run_that_is_cancelled_asks_for_no_other(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    again(&lab, 0, "d").await;
    lab.take("t").await;
    lab.steer("j", Steer::Cancel("enough".into())).await;
    assert_eq!(lab.settle("j", Settle::Resubmit(0)).await, SettleReply::ToCancel);
    assert_eq!(lab.done("j").await, SettleReply::Ended);
}

async fn one_that_failed_while_it_was_asked_for_runs_again(which: Which) {
    let lab = Lab::new(which, &[("t", "lease=3000 max=1")]).await;
    lab.tick().await;
    for end in [retry(0, "e"), super::lab::fail("f"), Settle::GiveBack, Settle::Later(5, "r".into())] {
        again(&lab, 0, "d").await;
        lab.take("t").await;
        assert_eq!(again(&lab, 0, "d").await, AddReply::RunsAgain);
        assert_eq!(lab.settle("j", end).await, SettleReply::Pending);
        assert_eq!(lab.take("t").await, ["j"]);
        assert_eq!(lab.done("j").await, SettleReply::Ended);
    }
    again(&lab, 0, "d").await;
    lab.take("t").await;
    again(&lab, 0, "d").await;
    lab.tick_after(3_000).await;
    assert_eq!(lab.state("j").await, Some(State::Ready), "also when its lease was lost");
}

/// Adds a job that is kept, with these look-ups.
async fn add_with(lab: &Lab, mode: AddMode, lookups: &[&str]) -> AddReply {
    let mut kind = Kind::new(queue("t"));
    kind.keep = Some(-1);
    let mut job = NewJob::new(id("j"), lookups.concat(), kind);
    job.lookups = lookups.iter().map(|lookup| (*lookup).to_owned()).collect();
    let mut adding = Adding::new(vec![job]);
    adding.mode = mode;
    lab.add_all(&adding).await[0]
}

/// How many jobs these look-ups find, each.
async fn found<const N: usize>(lab: &Lab, lookups: [&str; N]) -> [usize; N] {
    let mut counts = [0; N];
    for (count, lookup) in counts.iter_mut().zip(lookups) {
        let listing = Listing::With(lookup.to_owned());
        *count = lab.list(listing.clone(), None, 9).await.ids.len();
    }
    counts
}

async fn one_that_is_added_again_is_found_by_its_new_look_ups(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    assert_eq!(add_with(&lab, AddMode::Again, &[]).await, AddReply::Added);
    assert_eq!(add_with(&lab, AddMode::Again, &["k=1", "k=2"]).await, AddReply::Changed);
    assert_eq!(found(&lab, ["k=1", "k=2"]).await, [1, 1]);
    assert_eq!(add_with(&lab, AddMode::Keep, &["k=9"]).await, AddReply::Exists);
    assert_eq!(found(&lab, ["k=9", "k=1"]).await, [0, 1], "one that stays has those that it had");
    assert_eq!(add_with(&lab, AddMode::Replace, &["k=2", "k=3"]).await, AddReply::Changed);
    assert_eq!(found(&lab, ["k=1", "k=2", "k=3"]).await, [0, 1, 1]);
    lab.take("t").await;
    lab.done("j").await;
    assert_eq!(add_with(&lab, AddMode::Again, &["k=4"]).await, AddReply::Anew);
    assert_eq!(found(&lab, ["k=3", "k=4"]).await, [0, 1]);
    assert_eq!(add_with(&lab, AddMode::Again, &[]).await, AddReply::Changed);
    assert_eq!(found(&lab, ["k=4"]).await, [1], "without new ones they stay");
    lab.steer("j", Steer::Remove).await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn one_that_runs_is_found_as_before(which: Which) {
    let lab = Lab::new(which, &[("t", "")]).await;
    for (before, as_before) in [(&["k=1", "k=2"][..], [1, 1, 0]), (&[], [0, 0, 0])] {
        add_with(&lab, AddMode::Keep, before).await;
        lab.take("t").await;
        let body = lab.body("j").await;
        for mode in [AddMode::Again, AddMode::Schedule] {
            assert_eq!(add_with(&lab, mode, &["k=2", "k=3"]).await, AddReply::RunsAgain);
        }
        assert_eq!(found(&lab, ["k=1", "k=2", "k=3"]).await, as_before);
        // It runs once more with the data that they come from.
        assert_eq!(lab.done("j").await, SettleReply::Pending);
        lab.take("t").await;
        assert_eq!((lab.body("j").await, found(&lab, ["k=1", "k=2", "k=3"]).await), (body, as_before));
        lab.done("j").await;
        lab.steer("j", Steer::Remove).await;
    }
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}
