//! Requests to jobs and queues from outside.

use tenure_jobs::State;
use tenure_jobs::store::{AddReply, Request, Settle, SettleReply, Steer, SteerJobs, SteerReply};

use super::lab::{Lab, Which, done, fail, id, queue, retry};

scenarios! {
    a_job_that_waits_is_cancelled_at_once,
    a_job_that_runs_is_asked_to_end,
    a_success_counts_though_it_was_to_be_cancelled,
    a_removed_job_halts_whoever_runs_it,
    a_paused_job_waits_until_it_is_resumed,
    a_paused_queue_gives_nothing,
    a_job_runs_at_another_time,
    a_job_gets_another_priority,
    what_is_not_there_is_not_found,
    look_ups_come_and_go_with_their_jobs,
    a_call_knows_the_room_that_it_has_made_itself,
}

async fn a_job_that_waits_is_cancelled_at_once(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "keep=0")]).await;
    lab.add("a", &["j"]).await;
    lab.add("b", &["k"]).await;
    assert_eq!(lab.steer("j", Steer::Cancel("enough".into())).await, SteerReply::Done);
    assert_eq!((lab.state("j").await, lab.result("j").await), (Some(State::Cancelled), "enough".into()));
    assert_eq!(lab.steer("j", Steer::Cancel("more".into())).await, SteerReply::NotInState);
    assert_eq!(lab.steer("k", Steer::Cancel("enough".into())).await, SteerReply::Done);
    assert_eq!(lab.state("k").await, None);
    assert!(lab.take("a").await.is_empty());
}

async fn a_job_that_runs_is_asked_to_end(lab: Lab) {
    lab.listen("n1").await;
    for end in [retry(0, "e"), retry(9, "e"), Settle::GiveBack, Settle::Later(9, "r".into()), fail("no")] {
        let token = lab.begin("a", &["j"]).await;
        assert_eq!(lab.steer("j", Steer::Cancel("enough".into())).await, SteerReply::Asked);
        let asked = tenure_jobs::store::Hint::Cancel(id("j"), token);
        assert!(lab.heard().await.iter().any(|(_, hint)| *hint == asked));
        assert_eq!(lab.extend("j", token).await, SettleReply::ToCancel);
        assert_eq!(lab.settle("j", end).await, SettleReply::Cancelled);
        assert_eq!(lab.state("j").await, Some(State::Cancelled));
        assert_eq!(lab.steer("j", Steer::Remove).await, SteerReply::Done);
    }
}

async fn a_success_counts_though_it_was_to_be_cancelled(lab: Lab) {
    lab.add_one("a", "j", |kind| kind.keep = Some(-1)).await;
    lab.take("a").await;
    lab.steer("j", Steer::Cancel("enough".into())).await;
    assert_eq!(lab.done("j").await, SettleReply::Ended);
    assert_eq!(lab.record("j").await.map(|job| (job.state, job.flags)), Some((State::Done, String::new())));
}

async fn a_removed_job_halts_whoever_runs_it(lab: Lab) {
    lab.listen("n1").await;
    lab.begin("a", &["j"]).await;
    assert_eq!(lab.steer("j", Steer::Remove).await, SteerReply::Done);
    let halted = tenure_jobs::store::Hint::Halted(id("j"), lab.token.get());
    assert!(lab.heard().await.iter().any(|(_, hint)| *hint == halted));
    assert_eq!(lab.steer("j", Steer::Remove).await, SteerReply::NotFound);
    assert_eq!(lab.extend("j", lab.token.get()).await, SettleReply::Halt);
    assert_eq!(lab.add("a", &["j"]).await, [AddReply::Added]);
    assert_eq!(lab.settle("j", super::lab::with_result("r")).await, SettleReply::Halt);
    assert_eq!(lab.state("j").await, Some(State::Ready));
}

async fn a_paused_job_waits_until_it_is_resumed(lab: Lab) {
    let due = lab.now() + 500;
    lab.add_one("a", "j", |kind| kind.due = due).await;
    assert_eq!(lab.steer("j", Steer::Resume).await, SteerReply::NotInState);
    assert_eq!(lab.steer("j", Steer::Pause).await, SteerReply::Done);
    assert_eq!(lab.steer("j", Steer::Pause).await, SteerReply::Done);
    lab.tick_after(600).await;
    assert_eq!((lab.take("a").await, lab.state("j").await), (vec![], Some(State::Paused)));
    assert_eq!(lab.steer("j", Steer::Resume).await, SteerReply::Done);
    assert_eq!(lab.take("a").await, ["j"]);
    assert_eq!(lab.steer("j", Steer::Pause).await, SteerReply::Asked);
    assert_eq!(lab.settle("j", retry(0, "")).await, SettleReply::Pending);
    assert_eq!(lab.state("j").await, Some(State::Paused));
    assert_eq!(lab.steer("j", Steer::Resume).await, SteerReply::Done);
    assert_eq!(lab.take("a").await, ["j"]);
    assert_eq!(lab.steer("j", Steer::Pause).await, SteerReply::Asked);
    assert_eq!(lab.steer("j", Steer::Resume).await, SteerReply::Done);
    assert_eq!(lab.settle("j", Settle::GiveBack).await, SettleReply::Pending);
    assert_eq!(lab.state("j").await, Some(State::Ready));
}

async fn a_paused_queue_gives_nothing(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("g", "g")]).await;
    lab.add("a", &["j"]).await;
    lab.add("g", &["k"]).await;
    for name in ["a", "g"] {
        assert_eq!(lab.request(Request::PauseQueue(queue(name), true)).await, SteerReply::Done);
        assert!(lab.take(name).await.is_empty());
        let words = if name == "g" { "g lease=5000" } else { "lease=5000" };
        assert!(lab.declare(name, words).await);
        assert!(lab.take(name).await.is_empty(), "it is paused after another declaration");
        assert_eq!(lab.request(Request::PauseQueue(queue(name), false)).await, SteerReply::Done);
        assert_eq!(lab.take(name).await.len(), 1);
    }
    assert_eq!(lab.request(Request::PauseQueue(queue("no"), true)).await, SteerReply::NotFound);
}

async fn a_job_runs_at_another_time(lab: Lab) {
    lab.add("a", &["j", "k"]).await;
    assert_eq!(lab.steer("j", Steer::At(lab.now() + 100)).await, SteerReply::Done);
    assert_eq!(lab.take("a").await, ["k"]);
    assert_eq!(lab.steer("j", Steer::At(0)).await, SteerReply::Done);
    assert_eq!(lab.take("a").await, ["j"]);
    assert_eq!(lab.steer("j", Steer::At(0)).await, SteerReply::NotInState);
    assert_eq!(lab.steer("j", Steer::At(1 << 50)).await, SteerReply::Bad);
}

async fn a_job_gets_another_priority(lab: Lab) {
    lab.add("a", &["j1", "j2"]).await;
    assert_eq!(lab.steer("j2", Steer::Priority(1)).await, SteerReply::Done);
    assert_eq!(lab.steer("j2", Steer::Priority(10)).await, SteerReply::Bad);
    assert_eq!(lab.take("a").await, ["j2", "j1"]);
}

async fn what_is_not_there_is_not_found(lab: Lab) {
    for steer in [
        Steer::Cancel("x".into()),
        Steer::Remove,
        Steer::Pause,
        Steer::Resume,
        Steer::Replay(0),
        Steer::Close,
    ] {
        assert_eq!(lab.steer("no", steer).await, SteerReply::NotFound);
    }
    assert_eq!(lab.request(Request::PauseGroup(queue("a"), None, true)).await, SteerReply::NotFound);
    assert_eq!(lab.peek("no").await, None);
}

async fn look_ups_come_and_go_with_their_jobs(which: Which) {
    use tenure_jobs::store::{Adding, Kind, Listing, NewJob};
    let lab = Lab::new(which, &[("a", "")]).await;
    let mut jobs = Vec::new();
    for (job, lookups) in [("j1", &["user=62", "role=x", "role=y"][..]), ("j2", &["user=62"])] {
        let mut job = NewJob::new(id(job), "b", Kind::new(queue("a")));
        job.lookups = lookups.iter().map(|text| (*text).to_owned()).collect();
        jobs.push(job);
    }
    lab.add_all(&Adding::new(jobs)).await;
    let find = async |lookup: &str| lab.list(Listing::With(lookup.to_owned()), None, 10).await.ids;
    assert_eq!(find("user=62").await, ["j1", "j2"]);
    assert_eq!((find("role=y").await, find("role=").await), (vec![id("j1")], vec![]));
    lab.take("a").await;
    lab.settle("j1", done()).await;
    assert_eq!((find("user=62").await, find("role=x").await), (vec![id("j2")], vec![]));
    lab.steer("j2", Steer::Remove).await;
    assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
}

async fn a_call_knows_the_room_that_it_has_made_itself(which: Which) {
    let lab = Lab::new(which, &[("a", "cap=2 keep=-1")]).await;
    for dead in ["d1", "d2", "d3"] {
        lab.begin("a", &[dead]).await;
        lab.settle(dead, fail("e")).await;
    }
    lab.add("a", &["j"]).await;
    let later = lab.now() + 500;
    lab.add_one("a", "k", |kind| kind.due = later).await;
    let replay = |job: &str| Request::Job(id(job), Steer::Replay(0));
    let requests = [
        replay("d1"),
        Request::Job(id("j"), Steer::At(later)),
        replay("d1"),
        Request::Job(id("k"), Steer::Remove),
        replay("d1"),
        replay("d2"),
        Request::Job(id("d1"), Steer::Pause),
        replay("d2"),
        Request::Job(id("d1"), Steer::Resume),
        Request::Job(id("d2"), Steer::Cancel("c".into())),
        replay("d3"),
        Request::Job(id("j"), Steer::Remove),
        replay("d3"),
        replay("d2"),
    ];
    let replies = lab.run(SteerJobs(requests.to_vec())).await;
    let (full, done) = (SteerReply::Full, SteerReply::Done);
    assert_eq!(
        replies,
        [full, done, full, done, done, full, done, done, done, done, full, done, done, full],
        "a job that is resumed goes over the capacity"
    );
    assert_eq!(lab.take_n("a", 5).await.len(), 2);
}
