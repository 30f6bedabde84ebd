//! Loss of data, and servers that change.

use tenure_jobs::store::{
    AddMode, AddReply, Attesting, Boot, Booted, Data, ReadFigures, Recover, Settle, SettleReply, Steer,
    SteerReply, StoreError, TakeJobs, TakeReply, TakenJob, Taking, Tick,
};
use tenure_jobs::{State, Token};

use super::lab::{Lab, Which, done, fail, is_stale, node, queue, retry};

/// How long no job begins after a recovery, ms.
const HOLD: u64 = 2_000;

scenarios! {
    tokens_rise_also_after_a_loss_of_all_data,
    the_first_of_many_recovers,
    no_job_begins_and_no_lease_is_lost_right_after_a_recovery,
    steps_on_no_data_say_so,
    what_runs_is_made_again_after_a_loss_of_all_data,
    an_older_state_gives_way_to_what_runs,
    a_later_state_stays,
    a_lost_child_is_counted_again,
    a_later_life_of_a_child_is_its_own,
    a_lost_child_of_an_ended_life_is_cancelled,
    a_lost_child_of_a_removed_parent_goes_with_it,
    a_new_life_of_a_job_is_no_execution_of_the_old_one,
    a_request_after_a_loss_is_not_met_by_what_ran_before_it,
    what_is_removed_or_cancelled_after_a_loss_stays_so,
    an_execution_is_made_again_once,
    an_end_outdates_earlier_executions_in_any_order,
    a_later_execution_outlives_the_end_of_an_earlier_one,
    a_job_is_made_again_while_its_lease_lasts,
    each_life_has_a_birth_of_its_own,
    a_repeated_end_leaves_the_run_after_it_alone,
}

async fn tokens_rise_also_after_a_loss_of_all_data(lab: Lab) {
    let before = lab.begin("a", &["j"]).await;
    lab.wipe().await;
    lab.set_clock(lab.now() - 3_600_000).await;
    lab.boot().await;
    lab.declare("a", "").await;
    lab.begin("a", &["j"]).await;
    assert!(lab.token.get() > before, "{:?} after {before:?}", lab.token.get());
}

async fn the_first_of_many_recovers(lab: Lab) {
    let old = lab.inc.get();
    let is_recovered = async || match lab.run(Boot(Token(0))).await {
        Booted::Exists { recovered, .. } => recovered,
        other => panic!("{other:?}"),
    };
    assert!(!is_recovered().await);
    let new =
        lab.ask(old, Recover { seen: Token(0), server: "other".into(), hold: 10, grace: 10 }).await.unwrap();
    assert!(new > old);
    assert!(is_recovered().await);
    assert!(is_stale(
        &lab.ask(old, Recover { seen: Token(0), server: "other".into(), hold: 10, grace: 10 })
            .await
            .unwrap_err()
    ));
    let stale = lab.ask(old, ReadFigures(vec![queue("a")])).await.unwrap_err();
    assert!(matches!(stale, StoreError::Stale(inc) if inc == new), "{stale:?}");
    let far = Token(lab.token.get().0.max(1 << 52));
    lab.ask(new, Recover { seen: far, server: "other".into(), hold: 0, grace: 0 }).await.unwrap();
    lab.boot().await;
    lab.begin("a", &["j"]).await;
    assert!(lab.token.get() > far);
}

async fn no_job_begins_and_no_lease_is_lost_right_after_a_recovery(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    lab.add("a", &["j", "k"]).await;
    lab.take_n("a", 1).await;
    lab.tick().await;
    let inc = lab.recover(Token(0), 2_000, 5_000).await;
    lab.inc.set(inc);
    let taking = Taking::new(node("n1"), queue("a"), 1);
    let reply = lab.ask(inc, TakeJobs(lab.lane("an1"), taking.clone())).await.unwrap();
    assert_eq!(reply, TakeReply::Hold(2_000));
    lab.tick_after(4_000).await;
    assert_eq!(lab.state("j").await, Some(tenure_jobs::State::Running));
    assert_eq!(lab.take("a").await, ["k"]);
    lab.tick_after(1_000).await;
    assert_eq!(lab.state("j").await, Some(tenure_jobs::State::Ready));
}

async fn steps_on_no_data_say_so(lab: Lab) {
    lab.wipe().await;
    let none = lab.ask(lab.inc.get(), ReadFigures(vec![queue("a")])).await;
    assert!(matches!(none, Err(StoreError::NoSet)), "{none:?}");
    let none = lab
        .ask(lab.inc.get(), Tick { node: node("n"), most: 5, pause: 3_000, grace: 0, off_duty: true })
        .await;
    assert!(matches!(none, Err(StoreError::NoSet)), "{none:?}");
}

/// Another incarnation begins, as after a loss.
async fn recover(lab: &Lab) {
    lab.advance(1).await;
    let inc = lab.recover(Token(0), HOLD, 60_000).await;
    lab.inc.set(inc);
}

/// All data are lost, and the queues are declared again, in an incarnation that a recovery has begun.
async fn lose(lab: &Lab, queues: &[(&str, &str)]) {
    lab.wipe().await;
    lab.boot().await;
    recover(lab).await;
    for (name, words) in queues {
        lab.declare(name, words).await;
    }
}

async fn what_runs_is_made_again_after_a_loss_of_all_data(which: Which) {
    let queues = [("a", "lease=5000 max=2"), ("g", "g gconc=1")];
    let lab = Lab::new(which, &queues).await;
    lab.add("a", &["j"]).await;
    lab.add_one("g", "k", |kind| (kind.group, kind.keep) = (super::lab::group("t1"), Some(-1))).await;
    let mut taken = Vec::new();
    for name in ["a", "g"] {
        lab.take(name).await;
        taken.extend(lab.jobs.borrow_mut().drain(..));
    }
    lose(&lab, &queues).await;
    let far = Token(taken[0].record.token.0 + (1 << 30));
    let mut ahead = taken[0].record.clone();
    ahead.token = far;
    let mut ended = taken[0].clone();
    ended.record.token = Token(ended.record.token.0 - 1);
    assert_eq!(
        lab.attest_one(&ended, false).await,
        SettleReply::Halt,
        "without its data it is not made again"
    );
    for job in &taken {
        assert_eq!(lab.attest_one(job, true).await, SettleReply::GoesOn);
        assert_eq!(lab.attest_one(job, true).await, SettleReply::GoesOn, "once more changes nothing");
        assert_eq!(lab.record(job.id.as_str()).await.as_ref(), Some(&job.record));
    }
    assert_eq!(lab.body("j").await, "body-j");
    // The second one of the group waits for the first one.
    lab.add_one("g", "l", |kind| kind.group = super::lab::group("t1")).await;
    lab.advance(HOLD).await;
    assert!(lab.take("g").await.is_empty());
    assert_eq!(lab.settle_as("k", taken[1].record.token, done()).await, SettleReply::Ended);
    assert_eq!(lab.take("g").await, ["l"]);
    // Jobs begin again.
    lab.advance(HOLD).await;
    // A token that the data do not know yet is not given out again.
    let attested = lab.attest(&[Attesting::new(taken[0].id.clone(), ahead, None)]).await;
    assert_eq!(attested, [SettleReply::GoesOn], "data of an older execution give way");
    lab.begin("a", &["m"]).await;
    assert!(lab.token.get() > far);
    // It has a lease, and its attempts count.
    let until = lab.dump().await.value("leases", "j").map(str::to_owned);
    assert_eq!(until, Some((lab.now() + 5_000).to_string()));
    lab.tick().await;
    lab.tick_after(60_000).await;
    assert_eq!(lab.state("j").await, Some(State::Running), "right after a gap nobody loses a lease");
    lab.tick_after(3_000).await;
    assert_eq!((lab.state("j").await, lab.record("j").await.unwrap().attempts), (Some(State::Ready), 1));
}

async fn an_older_state_gives_way_to_what_runs(which: Which) {
    let queues = [("a", "lease=5000"), ("b", "")];
    let lab = Lab::new(which, &queues).await;
    lab.listen("n1").await;
    lab.add("a", &["j"]).await;
    let places = [
        None,
        Some(retry(0, "e")),
        Some(retry(700, "e")),
        Some(Settle::Wait(0, Data::Keep)),
        Some(Settle::Fail("f".into(), Data::Keep)),
    ];
    for place in places {
        // The data say that the first run has come to this; the second one is what they have lost.
        lab.take("a").await;
        let first = lab.jobs.borrow_mut().remove(0);
        if let Some(settle) = place {
            lab.settle("j", settle).await;
        }
        let mut second = first.clone();
        second.record.token = Token(first.record.token.0 + 7);
        (second.record.attempts, second.record.queue) = (first.record.attempts + 1, queue("b"));
        second.record.flow = format!("flow{}", second.record.token);
        second.record.correlation = format!("request-{}", second.record.token);
        let kept = lab.body("j").await;
        assert_eq!(lab.attest_one(&second, false).await, SettleReply::GoesOn);
        assert_eq!(lab.body("j").await, kept, "none were sent");
        second.record.token = Token(second.record.token.0 + 7);
        second.body = format!("of {}", second.record.token).into();
        assert_eq!(lab.attest_one(&second, true).await, SettleReply::GoesOn);
        assert_eq!(lab.body("j").await, format!("of {}", second.record.token), "the data come with it");
        let record = lab.record("j").await.unwrap();
        assert_eq!(
            (record.state, record.token, record.attempts),
            (State::Running, second.record.token, second.record.attempts)
        );
        let of = |record: &tenure_jobs::Record| (record.flow.clone(), record.correlation.clone());
        assert_eq!(of(&record), of(&second.record));
        assert_eq!(lab.settle_as("j", first.record.token, done()).await, SettleReply::Halt);
        let figures = lab.run(ReadFigures(vec![queue("a"), queue("b")])).await;
        let counts: Vec<_> =
            figures.iter().map(|of| (of.ready, of.running, of.delayed, of.waiting, of.dead)).collect();
        assert_eq!(counts, [(0, 0, 0, 0, 0), (0, 1, 0, 0, 0)]);
        let on = Settle::MoveOn { queue: queue("a"), priority: None, group: None, data: Data::Keep };
        assert_eq!(lab.settle_as("j", second.record.token, on).await, SettleReply::Moved);
    }
}

async fn a_later_state_stays(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    lab.begin("a", &["j"]).await;
    let first = lab.jobs.borrow_mut().remove(0);
    // It was given up: its token is the last one, and it does not run.
    lab.settle("j", retry(0, "e")).await;
    let before = lab.dump().await;
    assert_eq!(lab.attest_one(&first, true).await, SettleReply::Halt);
    assert_eq!(lab.dump().await, before, "nothing was written");
    // It runs elsewhere.
    lab.take("a").await;
    assert_eq!(lab.attest_one(&first, true).await, SettleReply::Halt);
    let mut odd = first.clone();
    odd.record.state = State::Ready;
    assert_eq!(lab.attest_one(&odd, true).await, SettleReply::Bad);
    assert_eq!(lab.done("j").await, SettleReply::Ended);
}

async fn a_lost_child_of_an_ended_life_is_cancelled(which: Which) {
    let queues = [("a", ""), ("c", "")];
    let lab = Lab::new(which, &queues).await;
    lab.begin("a", &["P"]).await;
    lab.spawn("c", "P", Some(lab.token.get()), "P.1").await;
    lab.take("c").await;
    let child = lab.jobs.borrow_mut().pop().unwrap();
    lose(&lab, &queues).await;
    // Its parent has another life by then.
    lab.add("a", &["P"]).await;
    assert_eq!(lab.attest_one(&child, true).await, SettleReply::ToCancel);
    lab.advance(HOLD).await;
    lab.take("a").await;
    let parent = lab.token.get();
    assert_eq!(lab.spawn("c", "P", Some(parent), "P.1").await, AddReply::RunsAgain);
    assert_eq!(lab.settle_as("P", parent, Settle::Wait(0, Data::Keep)).await, SettleReply::Waits);
    assert_eq!(lab.settle_as("P.1", child.record.token, retry(0, "cancelled")).await, SettleReply::Pending);
    assert_eq!(lab.take("c").await, ["P.1"]);
    assert_eq!(lab.settle("P.1", done()).await, SettleReply::Ended);
    assert_eq!(lab.take("a").await, ["P"]);
}

async fn a_lost_child_of_a_removed_parent_goes_with_it(which: Which) {
    let queues = [("a", ""), ("c", "")];
    for ends in [false, true] {
        let lab = Lab::new(which, &queues).await;
        lab.begin("a", &["P"]).await;
        let parent = lab.jobs.borrow_mut().pop().unwrap();
        lab.spawn("c", "P", Some(parent.record.token), "P.1").await;
        lab.take("c").await;
        let child = lab.jobs.borrow_mut().pop().unwrap();
        lose(&lab, &queues).await;
        lab.attest_one(&parent, true).await;
        assert_eq!(lab.steer("P", Steer::Remove).await, SteerReply::Done);
        lab.tick().await;
        // Its node is late.
        assert_eq!(lab.attest_one(&child, true).await, SettleReply::GoesOn);
        if ends {
            lab.settle_as("P.1", child.record.token, super::lab::with_result("r")).await;
        }
        lab.tick().await;
        assert_eq!(lab.state("P.1").await, None, "ends: {ends}");
        assert_eq!(lab.attest_one(&child, true).await, SettleReply::Halt);
        lab.advance(60_000).await;
        for _ in 0..2 {
            lab.tick().await;
        }
        let left = lab.dump().await;
        assert_eq!(["timers", "index", "extras"].map(|name| left.get(name)), [None; 3], "ends: {ends}");
    }
}

async fn a_lost_child_is_counted_again(which: Which) {
    let queues = [("a", ""), ("c", "")];
    for parent_first in [true, false] {
        let lab = Lab::new(which, &queues).await;
        lab.begin("a", &["P"]).await;
        let parent = lab.jobs.borrow_mut().remove(0);
        assert_eq!(lab.spawn("c", "P", Some(parent.record.token), "P.1").await, AddReply::Added);
        lab.take("c").await;
        let child = lab.jobs.borrow_mut().remove(0);
        lose(&lab, &queues).await;
        let order = if parent_first { [&parent, &child] } else { [&child, &parent] };
        for job in order {
            assert_eq!(lab.attest_one(job, true).await, SettleReply::GoesOn);
        }
        assert_eq!(lab.attest_one(&child, true).await, SettleReply::GoesOn);
        assert_eq!(lab.record("P").await.unwrap().open, 1, "once");
        lab.advance(HOLD).await;
        lab.settle_as("P", parent.record.token, Settle::Wait(0, Data::Keep)).await;
        assert_eq!(lab.state("P").await, Some(State::Waiting));
        lab.settle_as("P.1", child.record.token, super::lab::with_result("r")).await;
        assert_eq!(lab.take("a").await, ["P"]);
        let ends = lab.peek("P").await.unwrap().children;
        assert_eq!((ends.len(), ends[0].1), (1, 'C'));
        // A child whose end was counted counts no more: not this run, and not a later one.
        assert_eq!(lab.attest_one(&child, true).await, SettleReply::Halt);
        let mut later = child.clone();
        later.record.token = Token(child.record.token.0 + 5);
        assert_eq!(lab.attest_one(&later, true).await, SettleReply::GoesOn);
        assert_eq!(lab.record("P").await.unwrap().open, 0);
        let record = lab.record("P.1").await.unwrap();
        assert_eq!((record.parent, record.flags.contains('e')), (child.record.parent.clone(), true));
    }
}

async fn a_later_life_of_a_child_is_its_own(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("c", "keep=-1")]).await;
    lab.begin("a", &["P"]).await;
    lab.spawn("c", "P", Some(lab.token.get()), "P.1").await;
    lab.take("c").await;
    let mut later = lab.jobs.borrow_mut().remove(0);
    lab.settle("P.1", super::lab::fail("no")).await;
    // The data went back to before it was replayed.
    later.record.parent.clear();
    (later.record.token, later.record.birth) = (Token(later.record.token.0 + 5), "f".repeat(17));
    assert_eq!(lab.attest_one(&later, true).await, SettleReply::GoesOn);
    lab.steer("P", Steer::Remove).await;
    lab.tick().await;
    assert_eq!(lab.state("P.1").await, Some(State::Running));
}

async fn a_new_life_of_a_job_is_no_execution_of_the_old_one(which: Which) {
    let queues = [("a", "")];
    let lab = Lab::new(which, &queues).await;
    lab.begin("a", &["j"]).await;
    let old = lab.jobs.borrow_mut().remove(0);
    lose(&lab, &queues).await;
    // Its producer adds it again before the old execution is heard of.
    assert_eq!(lab.add_body("a", "j", "new", AddMode::Keep, |_| {}).await, AddReply::Added);
    assert_eq!(lab.attest_one(&old, true).await, SettleReply::Halt);
    lab.advance(HOLD).await;
    assert_eq!((lab.take("a").await, lab.body("j").await), (vec!["j".to_owned()], "new".into()));
}

/// The run of a job that came after this one, and that the data have lost.
fn lost_run(of: &TakenJob) -> TakenJob {
    let mut lost = of.clone();
    lost.record.token = Token(of.record.token.0 + 7);
    (lost.record.attempts, lost.body) = (of.record.attempts + 1, "lost".into());
    lost
}

async fn a_request_after_a_loss_is_not_met_by_what_ran_before_it(which: Which) {
    // How the data know the job, what is asked of it after the loss, and the answer.
    let (kept, dead) = (done(), fail("no"));
    let cases = [
        (kept.clone(), AddMode::Again, 0, AddReply::Anew),
        (kept, AddMode::Schedule, 7, AddReply::Anew),
        (dead, AddMode::Again, 0, AddReply::Anew),
        (retry(0, "e"), AddMode::Again, 0, AddReply::Changed),
        (retry(0, "e"), AddMode::Replace, 0, AddReply::Changed),
        (retry(0, "e"), AddMode::Again, 7, AddReply::Changed),
        (retry(0, "e"), AddMode::Schedule, 7, AddReply::Changed),
        (retry(0, "e"), AddMode::Schedule, 0, AddReply::Same),
    ];
    for (known, mode, due, expected) in cases {
        for with_body in [true, false] {
            let lab = Lab::new(which, &[("a", "")]).await;
            lab.add_one("a", "j", |kind| kind.keep = Some(-1)).await;
            lab.take("a").await;
            let lost = lost_run(&lab.jobs.borrow()[0]);
            lab.settle("j", known.clone()).await;
            recover(&lab).await;
            assert_eq!(lab.add_body("a", "j", "new", mode, |kind| kind.due = due).await, expected);
            let (before, said) = (lab.dump().await, (mode, due, with_body));
            assert_eq!(lab.attest_one(&lost, with_body).await, SettleReply::Halt, "{said:?}");
            assert_eq!(lab.settle_as("j", lost.record.token, done()).await, SettleReply::Halt);
            assert_eq!(lab.dump().await.get("jobs"), before.get("jobs"));
            lab.advance(HOLD).await;
            assert_eq!(lab.take("a").await, ["j"]);
            assert_eq!(lab.body("j").await, if expected == AddReply::Same { "b" } else { "new" });
            assert_eq!(lab.done("j").await, SettleReply::Ended);
        }
    }
    // One that is replayed.
    let lab = Lab::new(which, &[("a", "max=1")]).await;
    lab.begin("a", &["j"]).await;
    let lost = lost_run(&lab.jobs.borrow()[0]);
    lab.settle("j", fail("no")).await;
    recover(&lab).await;
    assert_eq!(lab.steer("j", Steer::Replay(0)).await, SteerReply::Done);
    assert_eq!(lab.attest_one(&lost, true).await, SettleReply::Halt);
    assert_eq!(lab.state("j").await, Some(State::Ready));
}

async fn what_is_removed_or_cancelled_after_a_loss_stays_so(which: Which) {
    for (words, steer) in [
        ("keep=5000", Steer::Cancel("enough".into())),
        ("keep=0", Steer::Cancel("enough".into())),
        ("", Steer::Remove),
    ] {
        let lab = Lab::new(which, &[("a", words)]).await;
        lab.begin("a", &["j"]).await;
        let lost = lost_run(&lab.jobs.borrow()[0]);
        lab.settle("j", retry(0, "e")).await;
        recover(&lab).await;
        assert_eq!(lab.steer("j", steer.clone()).await, SteerReply::Done);
        let state = lab.state("j").await;
        assert_eq!(lab.attest_one(&lost, true).await, SettleReply::Halt, "{steer:?}");
        assert_eq!(lab.state("j").await, state);
        // Another request under its id has nothing to do with that.
        lab.steer("j", Steer::Remove).await;
        assert_eq!(lab.add("a", &["j"]).await, [AddReply::Added]);
    }
}

async fn an_execution_is_made_again_once(which: Which) {
    let queues = [("a", "lease=5000")];
    for steer in [None, Some(Steer::Remove)] {
        let lab = Lab::new(which, &queues).await;
        lab.begin("a", &["j"]).await;
        let ran = lab.jobs.borrow_mut().remove(0);
        // No data were lost: what is gone has ended.
        lab.done("j").await;
        assert_eq!(lab.attest_one(&ran, true).await, SettleReply::Halt);
        lose(&lab, &queues).await;
        assert_eq!(lab.attest_one(&ran, true).await, SettleReply::GoesOn);
        // A later run of it is another execution, unless the job was removed.
        let later = match steer {
            None => {
                assert_eq!(lab.settle_as("j", ran.record.token, done()).await, SettleReply::Ended);
                SettleReply::GoesOn
            }
            Some(steer) => {
                assert_eq!(lab.steer("j", steer).await, SteerReply::Done);
                SettleReply::Halt
            }
        };
        // The same word comes twice, or late.
        assert_eq!(lab.attest_one(&ran, true).await, SettleReply::Halt);
        assert_eq!(lab.state("j").await, None);
        assert_eq!(lab.attest_one(&lost_run(&ran), true).await, later);
        // Another loss is another reason to make it again.
        lose(&lab, &queues).await;
        assert_eq!(lab.attest_one(&ran, true).await, SettleReply::GoesOn);
        lab.steer("j", Steer::Remove).await;
        // Nothing of that stays.
        lab.tick().await;
        lab.tick_after(60_000).await;
        assert_eq!(lab.keys().await, ["counts", "meta", "queues"]);
    }
}

async fn an_end_outdates_earlier_executions_in_any_order(which: Which) {
    let queues = [("a", "lease=5000")];
    for journal_first in [true, false] {
        let lab = Lab::new(which, &queues).await;
        lab.begin("a", &["j"]).await;
        let first = lab.jobs.borrow_mut().remove(0);
        let second = lost_run(&first);
        lose(&lab, &queues).await;
        // The node of the second run has ended the job, that of the first one has not heard what became of its own.
        for of_journal in [journal_first, !journal_first] {
            if of_journal {
                lab.attest_one(&second, false).await;
                lab.settle_as("j", second.record.token, done()).await;
            } else {
                lab.attest_one(&first, true).await;
                lab.settle_as("j", first.record.token, retry(0, "e")).await;
            }
        }
        assert_eq!(lab.state("j").await, None);
        lab.advance(HOLD).await;
        assert!(lab.take("a").await.is_empty());
    }
}

async fn a_later_execution_outlives_the_end_of_an_earlier_one(which: Which) {
    for (keep, is_lost) in [(0, false), (-1, false), (0, true)] {
        for (end, said) in [(done(), SettleReply::Ended), (fail("e"), SettleReply::Failed)] {
            let queues = [("a", "lease=5000")];
            let lab = Lab::new(which, &queues).await;
            lab.add_one("a", "j", |kind| kind.keep = Some(keep)).await;
            lab.take("a").await;
            let first = lab.jobs.borrow_mut().remove(0);
            let second = lost_run(&first);
            // The data go back to the first execution, or to nothing. Its node is the first to say what has ended.
            let said = if is_lost {
                lose(&lab, &queues).await;
                SettleReply::Halt
            } else {
                recover(&lab).await;
                said
            };
            lab.attest_one(&first, false).await;
            assert_eq!(lab.settle_as("j", first.record.token, end).await, said);
            assert_eq!(lab.attest_one(&second, true).await, SettleReply::GoesOn);
            assert_eq!(lab.attest_one(&first, false).await, SettleReply::Halt);
            assert_eq!(lab.settle_as("j", first.record.token, done()).await, SettleReply::Halt);
            let record = lab.record("j").await.unwrap();
            assert_eq!((record.state, record.token), (State::Running, second.record.token));
            assert_eq!(lab.body("j").await, "lost");
            assert_eq!(lab.settle_as("j", second.record.token, done()).await, SettleReply::Ended);
        }
    }
}

async fn a_job_is_made_again_while_its_lease_lasts(which: Which) {
    let queues = [("a", "lease=5000"), ("b", "lease=90000")];
    for (name, lease) in [("a", 5_000), ("b", 90_000)] {
        for (late, expected) in [(1, SettleReply::GoesOn), (0, SettleReply::Halt)] {
            let lab = Lab::new(which, &queues).await;
            lab.begin(name, &["j"]).await;
            let ran = lab.jobs.borrow_mut().remove(0);
            lose(&lab, &queues).await;
            lab.advance(HOLD + lease - late).await;
            assert_eq!(lab.attest_one(&ran, true).await, expected, "{name}");
        }
    }
}

async fn each_life_has_a_birth_of_its_own(which: Which) {
    for words in ["max=1", "g max=1"] {
        each_life_in(&Lab::new(which, &[("a", words)]).await).await;
    }
}

async fn each_life_in(lab: &Lab) {
    let mut births = Vec::new();
    let mut born = async || births.push(lab.record("j").await.unwrap().birth);
    let again = async || lab.add_body("a", "j", "b", AddMode::Again, |_| {}).await;
    lab.add_one("a", "j", |kind| kind.keep = Some(-1)).await;
    born().await;
    lab.take("a").await;
    lab.done("j").await;
    assert_eq!(again().await, AddReply::Anew);
    born().await;
    lab.take("a").await;
    assert_eq!(again().await, AddReply::RunsAgain);
    lab.done("j").await;
    born().await;
    lab.take("a").await;
    lab.settle("j", fail("no")).await;
    lab.steer("j", Steer::Replay(0)).await;
    born().await;
    // Also when the clock steps back.
    lab.set_clock(lab.now() - 3_600_000).await;
    lab.steer("j", Steer::Remove).await;
    lab.add("a", &["j"]).await;
    born().await;
    assert!(births.is_sorted_by(|one, next| one < next), "{births:?}");
    // A changed request is the same life.
    assert_eq!(again().await, AddReply::Changed);
    assert_eq!(Some(&lab.record("j").await.unwrap().birth), births.last());
}

async fn a_repeated_end_leaves_the_run_after_it_alone(lab: Lab) {
    lab.add("a", &["j"]).await;
    let again = async || lab.add_body("a", "j", "b", AddMode::Again, |_| ()).await;
    lab.take("a").await;
    let first = lab.jobs.borrow()[0].clone();
    assert_eq!(again().await, AddReply::RunsAgain);
    assert_eq!(lab.done("j").await, SettleReply::Pending);
    assert_eq!(lab.take("a").await, ["j"]);
    let second = lab.jobs.borrow()[0].clone();
    // The data go back to where the first one runs, and its node is the first to say what it has ended.
    lab.wipe().await;
    lab.advance(10).await;
    lab.boot().await;
    lab.declare("a", "").await;
    lab.inc.set(lab.recover(Token(0), HOLD, HOLD).await);
    assert_eq!(lab.attest_one(&first, true).await, SettleReply::GoesOn);
    assert_eq!(again().await, AddReply::RunsAgain);
    assert_eq!(lab.settle_as("j", first.record.token, done()).await, SettleReply::Pending);
    assert_eq!(lab.attest_one(&second, true).await, SettleReply::GoesOn);
    assert_eq!(lab.state("j").await, Some(State::Running));
    assert_eq!(lab.settle_as("j", second.record.token, done()).await, SettleReply::Ended);
    assert_eq!(
        lab.keys().await,
        ["counts", "extras", "meta", "queues", "timers"],
        "the tokens are kept for a while"
    );
}
