//! The notes of handlers stand beside the data of a job.

use tenure_jobs::store::{
    AddMode, AddReply, Attesting, Data, Hint, Settle, SettleReply, Steer, TakeJobs, WatchJobs, Watching,
};
use tenure_jobs::{State, Token};

use super::lab::{Lab, Which, done, fail, id, node, queue, retry};

scenarios! {
    notes_stay_through_failures_waits_and_a_replay,
    notes_are_forgotten_in_the_next_queue,
    other_data_from_outside_forget_the_notes,
    a_job_that_runs_once_more_begins_without_notes,
    notes_go_with_their_job,
    watchers_hear_of_notes,
    notes_come_back_with_a_lost_execution,
    the_last_notes_come_back_where_data_have_the_start,
    the_last_notes_come_back_after_each_of_two_losses,
    notes_of_another_queue_are_not_adopted,
    a_word_of_another_execution_notes_nothing,
    a_child_of_a_former_life_begins_without_notes,
}

fn note(text: &str) -> Settle {
    Settle::Note(text.to_owned().into())
}

/// Body and notes of a job, as seen by readers.
async fn seen(lab: &Lab, job: &str) -> (String, String) {
    let seen = lab.peek(job).await.unwrap().seen;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&seen.body), text(&seen.notes))
}

/// Takes one job, and tells its body and notes.
async fn taken(lab: &Lab, name: &str) -> (String, String) {
    assert_eq!(lab.take_n(name, 1).await.len(), 1);
    let jobs = lab.jobs.borrow();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&jobs[0].body), text(&jobs[0].notes))
}

fn pair(body: &str, notes: &str) -> (String, String) {
    (body.to_owned(), notes.to_owned())
}

/// A job that runs, and has noted something.
async fn noted(lab: &Lab, name: &str, job: &str, keep: i64) {
    lab.add_one(name, job, |kind| kind.keep = Some(keep)).await;
    assert_eq!(taken(lab, name).await, pair("b", ""));
    assert_eq!(lab.settle(job, note("page 3")).await, SettleReply::GoesOn);
}

async fn notes_stay_through_failures_waits_and_a_replay(which: Which) {
    for words in ["", "g", "conc=5"] {
        let lab = Lab::new(which, &[("a", words)]).await;
        noted(&lab, "a", "j", 0).await;
        for settle in [
            retry(0, "x"),
            Settle::Later(0, "x".into()),
            Settle::GiveBack,
            Settle::Wait(0, Data::Keep),
            fail("x"),
        ] {
            lab.settle("j", settle).await;
            assert_eq!(seen(&lab, "j").await, pair("b", "page 3"));
            if lab.state("j").await == Some(State::Failed) {
                lab.steer("j", Steer::Replay(0)).await;
            }
            assert_eq!(taken(&lab, "a").await, pair("b", "page 3"));
        }
        // The answer to a repeated call has the notes, too.
        lab.settle("j", note("page 4")).await;
        lab.settle("j", Settle::GoOn(Data::Replace("other".into()))).await;
        assert_eq!(seen(&lab, "j").await, pair("other", "page 4"));
        lab.settle("j", Settle::GiveBack).await;
        let (lane, wish) = (lab.lane("twice"), super::lab::taking("a", 1));
        for _ in 0..2 {
            let answer = lab.run(TakeJobs(lane.clone(), wish.clone())).await;
            let tenure_jobs::store::TakeReply::Taken { jobs, .. } = answer else { panic!("{answer:?}") };
            assert_eq!((&jobs[0].body[..], &jobs[0].notes[..]), (&b"other"[..], &b"page 4"[..]));
        }
    }
}

async fn notes_are_forgotten_in_the_next_queue(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    noted(&lab, "a", "j", 0).await;
    let settle =
        Settle::MoveOn { queue: queue("b"), priority: None, group: None, data: Data::Replace("c".into()) };
    assert_eq!(lab.settle("j", settle).await, SettleReply::Moved);
    assert_eq!(taken(&lab, "b").await, pair("c", ""));
    assert!(lab.dump().await.names().all(|name| name != "extras"));
}

async fn other_data_from_outside_forget_the_notes(lab: Lab) {
    noted(&lab, "a", "j", -1).await;
    lab.settle("j", retry(0, "x")).await;
    // The same time, as before: a schedule changes nothing.
    assert_eq!(lab.add_body("a", "j", "new", AddMode::Schedule, |_| {}).await, AddReply::Same);
    assert_eq!(seen(&lab, "j").await, pair("b", "page 3"));
    assert_eq!(lab.add_body("a", "j", "new", AddMode::Again, |_| {}).await, AddReply::Changed);
    assert_eq!(taken(&lab, "a").await, pair("new", ""));
    lab.settle("j", note("page 5")).await;
    lab.settle("j", retry(100, "x")).await;
    let later = |kind: &mut tenure_jobs::store::Kind| kind.due = 5;
    assert_eq!(lab.add_body("a", "j", "", AddMode::Resubmit, later).await, AddReply::Changed);
    assert_eq!(taken(&lab, "a").await, pair("new", "page 5"), "it waits, and keeps its data");
    lab.settle("j", retry(100, "x")).await;
    assert_eq!(lab.add_body("a", "j", "newer", AddMode::Replace, later).await, AddReply::Changed);
    assert_eq!(taken(&lab, "a").await, pair("newer", ""));
    lab.settle("j", note("page 6")).await;
    lab.settle("j", done()).await;
    assert_eq!(seen(&lab, "j").await, pair("newer", "page 6"));
    assert_eq!(lab.add_body("a", "j", "", AddMode::Resubmit, |_| {}).await, AddReply::Anew);
    assert_eq!(taken(&lab, "a").await, pair("newer", ""), "another life of it");
}

async fn a_job_that_runs_once_more_begins_without_notes(lab: Lab) {
    noted(&lab, "a", "j", 0).await;
    assert_eq!(lab.add_body("a", "j", "new", AddMode::Again, |_| {}).await, AddReply::RunsAgain);
    assert_eq!(lab.settle("j", note("page 4")).await, SettleReply::Asked);
    assert_eq!(lab.done("j").await, SettleReply::Pending);
    assert_eq!(taken(&lab, "a").await, pair("b", ""));
}

async fn notes_go_with_their_job(which: Which) {
    let lab = Lab::new(which, &[("a", "keep=0")]).await;
    for (job, keep, end) in [("1", 0, done()), ("2", 0, fail("x")), ("3", 1_000, done()), ("4", 0, note("y"))]
    {
        noted(&lab, "a", job, keep).await;
        lab.settle(job, end).await;
    }
    lab.tick_after(2_000).await;
    lab.steer("4", Steer::Remove).await;
    lab.tick().await;
    assert!(lab.dump().await.names().all(|name| name != "extras" && name != "bodies"));
}

async fn watchers_hear_of_notes(lab: Lab) {
    lab.listen("n1").await;
    lab.begin("a", &["j"]).await;
    let watch = async |number| {
        let ids = [id("j")];
        let seen = lab
            .run(WatchJobs { node: node("n1"), watching: Watching::Begin, number, ids: ids.to_vec() })
            .await;
        seen[0].as_ref().unwrap().notes.clone()
    };
    assert_eq!(watch(1).await, "");
    lab.settle("j", note("page 3")).await;
    let heard = lab.heard().await;
    let [(_, Hint::News(news))] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!((news.state, news.body.as_deref()), (Some(State::Running), None));
    assert_eq!(news.notes.as_deref(), Some(&b"page 3"[..]));
    assert_eq!(watch(2).await, "page 3");
}

async fn notes_come_back_with_a_lost_execution(which: Which) {
    for (wiped, notes) in [(true, "page 3"), (true, ""), (false, "page 3"), (false, "")] {
        let lab = Lab::new(which, &[("a", "")]).await;
        lab.begin("a", &["j"]).await;
        let run = lab.jobs.borrow()[0].clone();
        if wiped {
            lab.wipe().await;
            lab.boot().await;
            lab.declare("a", "").await;
        } else {
            // The data know notes of the execution before.
            lab.settle("j", note("older")).await;
            lab.settle("j", Settle::GiveBack).await;
        }
        let inc = lab.recover(Token(0), 2_000, 60_000).await;
        lab.inc.set(inc);
        let mut own = run.record.clone();
        own.token = Token(own.token.0 + 1);
        let attesting = Attesting::new(id("j"), own.clone(), Some("mine".into())).with_notes(notes.into());
        assert_eq!(lab.attest(&[attesting]).await, [SettleReply::GoesOn]);
        assert_eq!(seen(&lab, "j").await, pair("mine", notes), "wiped: {wiped}");
        assert_eq!(lab.settle_as("j", own.token, retry(0, "x")).await, SettleReply::Pending);
        lab.advance(3_000).await;
        assert_eq!(taken(&lab, "a").await, pair("mine", notes));
    }
}

async fn recover(lab: &Lab) {
    lab.inc.set(lab.recover(Token(0), 2_000, 60_000).await);
}

async fn the_last_notes_come_back_where_data_have_the_start(which: Which) {
    for left in ["page 9", ""] {
        let lab = Lab::new(which, &[("a", "")]).await;
        noted(&lab, "a", "j", 0).await;
        let own = lab.jobs.borrow()[0].record.clone();
        let said = |notes: &str| {
            Attesting::new(id("j"), own.clone(), Some("mine".into())).with_notes(notes.to_owned().into())
        };
        recover(&lab).await;
        assert_eq!(lab.attest(&[said(left)]).await, [SettleReply::GoesOn]);
        assert_eq!(seen(&lab, "j").await, pair("mine", left));
        lab.settle("j", note("page 10")).await;
        // A copy of the same word comes late.
        assert_eq!(lab.attest(&[said(left)]).await, [SettleReply::GoesOn]);
        lab.settle("j", retry(0, "x")).await;
        lab.advance(3_000).await;
        assert_eq!(taken(&lab, "a").await, pair("mine", "page 10"));
    }
}

async fn the_last_notes_come_back_after_each_of_two_losses(lab: Lab) {
    noted(&lab, "a", "j", 0).await;
    let own = lab.jobs.borrow()[0].record.clone();
    // A loss takes back all notes since the loss before.
    for left in ["page 9", "page 10", ""] {
        let said = [Attesting::new(id("j"), own.clone(), Some("mine".into())).with_notes(left.into())];
        recover(&lab).await;
        assert_eq!(lab.attest(&said).await, [SettleReply::GoesOn]);
        assert_eq!(seen(&lab, "j").await, pair("mine", left));
        lab.advance(100).await;
    }
    // No further loss makes a finished job again.
    let taken = lab.jobs.borrow()[0].clone();
    lab.settle("j", super::lab::done()).await;
    recover(&lab).await;
    assert_eq!(lab.attest_one(&taken, true).await, SettleReply::Halt);
}

async fn notes_of_another_queue_are_not_adopted(which: Which) {
    let lab = Lab::new(which, &[("a", ""), ("b", "")]).await;
    noted(&lab, "a", "j", 0).await;
    let mut own = lab.jobs.borrow()[0].record.clone();
    (own.token, own.queue) = (Token(own.token.0 + 1), queue("b"));
    recover(&lab).await;
    // A journal tells of an end without the data.
    assert_eq!(lab.attest(&[Attesting::new(id("j"), own.clone(), None)]).await, [SettleReply::GoesOn]);
    assert_eq!(lab.settle_as("j", own.token, retry(0, "x")).await, SettleReply::Pending);
    assert_eq!(seen(&lab, "j").await, pair("b", ""));
}

async fn a_word_of_another_execution_notes_nothing(lab: Lab) {
    noted(&lab, "a", "j", 0).await;
    let former = lab.token.get();
    lab.settle("j", retry(0, "x")).await;
    lab.take("a").await;
    assert_eq!(lab.settle_as("j", former, note("late")).await, SettleReply::Halt);
    assert_eq!(seen(&lab, "j").await, pair("b", "page 3"));
}

async fn a_child_of_a_former_life_begins_without_notes(which: Which) {
    for (end, reply) in [(fail("no"), AddReply::Anew), (retry(0, "x"), AddReply::Changed)] {
        let lab = Lab::new(which, &[("a", ""), ("c", "")]).await;
        let parent = lab.begin("a", &["P"]).await;
        assert_eq!(lab.spawn("c", "P", Some(parent), "P.1").await, AddReply::Added);
        assert_eq!(taken(&lab, "c").await, pair("b", ""));
        lab.settle("P.1", note("page 3")).await;
        lab.settle("P.1", end).await;
        lab.settle_as("P", parent, fail("no")).await;
        lab.steer("P", Steer::Replay(0)).await;
        lab.take("a").await;
        assert_eq!(seen(&lab, "P.1").await, pair("b", "page 3"));
        assert_eq!(lab.spawn("c", "P", Some(lab.token.get()), "P.1").await, reply);
        assert_eq!(taken(&lab, "c").await, pair("b", ""), "{reply:?}");
    }
}
