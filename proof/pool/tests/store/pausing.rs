//! Paused jobs: they end where they run, nothing but a resume starts them, and nothing of them is lost.

use bytes::Bytes;
use tenure_pool::inspect::Cause;
use tenure_pool::store::{
    Ask, Attest, AttestReply, BeginReply, BegunJob, Cursors, DispatchReply, HandedOff, Inspect, NotifyReply,
    Pause, ReadNode, ReadPauses, ReleaseItem, ReleaseMode, ReleaseReply, Renew, RouteReply, Save, SteerItem,
    SteerReply, StopReply, Sweep, Unpark, UnparkReply, Update, UpdateReply, Way, WorkerEvent,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::model::settings::Settings;

use super::attesting::item;
use super::lab::{Kind, Lab, NEVER, id, key, ms, node, release, renew};
use super::single::Single as _;
use super::steering::steer;
use super::updating::update;

scenarios! {
    the_owner_of_a_running_job_is_told_to_pause_it,
    a_job_that_its_owner_has_paused_rests,
    a_job_that_nobody_has_begun_is_paused_at_once,
    a_pause_may_be_repeated,
    a_parked_job_is_paused_and_its_error_goes,
    nothing_but_a_resume_starts_a_paused_job,
    a_resumed_job_starts_anew,
    a_resume_of_what_is_not_paused_does_nothing,
    a_late_copy_of_a_pause_or_a_resume_does_nothing,
    a_paused_key_says_so_to_all_who_want_it,
    a_paused_job_keeps_what_it_has,
    a_paused_job_outlives_its_worker,
    a_paused_job_is_stopped_like_any_other,
    a_pause_whose_release_was_lost_is_known_by_its_worker,
    a_job_that_ends_before_its_update_rests_if_it_is_paused,
    a_release_that_names_no_payload_pauses_its_job,
    a_pause_that_is_over_lets_its_job_go_on,
    a_waiting_job_is_paused_until_a_time,
    a_pause_is_made_longer_and_not_shorter,
    a_pause_is_made_longer_twice_in_one_call,
    a_late_resume_ends_no_longer_pause,
    a_pause_lasts_as_long_as_its_record_says,
    a_pause_with_an_end_outlives_the_index_of_parked_jobs,
    a_sweep_ends_a_bounded_number_of_pauses,
}

const WHY: &str = "anna|ticket 17";

/// The text of a pause that is over then.
fn until(end: u64) -> String {
    format!("anna|{end}|ticket 17")
}

/// A pause of the job as its record is.
fn pause(name: &str, record: &Record, text: &str) -> SteerItem {
    SteerItem { reason: text.into(), ..steer(name, record, Way::Pause) }
}

/// The release of a job that its owner was told to pause.
fn paused(name: &str, token: Token) -> ReleaseItem {
    let tell = Some(node("node1"));
    ReleaseItem { cause: Cause::Paused, result: WHY.into(), tell, ..release(name, token, ReleaseMode::Park) }
}

impl Lab {
    /// A job that its owner has paused.
    async fn paused(&self, name: &str, worker: WorkerId) -> Record {
        let token = self.run(name, &format!("node1.{name}"), worker).await;
        assert_eq!(self.steer(name, Way::Pause).await, SteerReply::Told);
        assert_eq!(self.release_item(worker, paused(name, token)).await, ReleaseReply::Parked);
        self.record(name).await.unwrap()
    }

    async fn kept_of(&self, name: &str) -> Option<String> {
        let mut pauses = self.read(&ReadPauses { keys: vec![key(name)] }).await.unwrap();
        let Pause { error, .. } = pauses.remove(0);
        error
    }
}

async fn the_owner_of_a_running_job_is_told_to_pause_it(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    let before = lab.record("k").await;
    assert_eq!(lab.steer("k", Way::Pause).await, SteerReply::Told);
    let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
    let events =
        lab.read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) }).await.unwrap().workers;
    let told = WorkerEvent::Steer { jobs: vec![(key("k"), token, Way::Pause, WHY.to_owned())] };
    assert!(events.iter().any(|(_, _, event)| *event == told), "{events:?}");
    assert_eq!(lab.record("k").await, before, "its owner ends it");
}

async fn a_job_that_its_owner_has_paused_rests(lab: Lab) {
    lab.step(&Renew { seen: super::lab::seen(Token(0)), node: Some(node("node1")), ..renew(&[]) })
        .await
        .unwrap();
    let worker = lab.worker().await;
    let record = lab.paused("k", worker).await;
    assert!(record.is_paused());
    assert_eq!((record.owner, record.attempts, record.begun), (None, 0, Begun::Begun));
    assert_eq!(record.why().map(|why| (why.cause, why.former)), Some((Cause::Paused, Some(worker))));
    assert_eq!(lab.kept_of("k").await.as_deref(), Some(WHY));
    assert_eq!((lab.score("queue", "k").await, lab.score("parked", "k").await), (None, Some(NEVER)));
    let told = lab
        .read(&ReadNode { node: node("node1"), cursors: Cursors::default(), max: 10, block: ms(0) })
        .await
        .unwrap();
    assert_eq!(told.outcomes.last().unwrap().1, [(record.id, "paused".to_owned())]);
}

async fn a_job_that_nobody_has_begun_is_paused_at_once(lab: Lab, worker: WorkerId) {
    for name in ["queued", "assigned"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    lab.route("assigned", worker).await;
    for name in ["queued", "assigned"] {
        assert_eq!(lab.steer(name, Way::Pause).await, SteerReply::Paused, "{name}");
        let record = lab.record(name).await.unwrap();
        assert!(record.is_paused() && record.owner.is_none(), "{name}");
        assert_eq!(lab.kept_of(name).await.as_deref(), Some(WHY));
        assert_eq!(lab.score("queue", name).await, None);
    }
    assert!(lab.backend.dump().await.get("owners").is_none(), "its worker has it no more");
    assert!(matches!(lab.begin("assigned", worker).await, BeginReply::Refused));
}

async fn a_pause_may_be_repeated(lab: Lab, worker: WorkerId) {
    let record = lab.paused("k", worker).await;
    lab.backend.advance(5).await;
    let before = lab.backend.dump().await;
    let other = SteerItem { reason: "ben|another".into(), ..steer("k", &record, Way::Pause) };
    assert_eq!(lab.steer_all(&[other.clone(), other]).await, [SteerReply::Paused; 2]);
    assert_eq!(lab.backend.dump().await, before, "it has the reason that it had");
}

async fn a_parked_job_is_paused_and_its_error_goes(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    let token = lab.run("k", "node1.k", worker).await;
    let failed = ReleaseItem { result: "no route".into(), ..release("k", token, ReleaseMode::Fail) };
    assert_eq!(lab.release_item(worker, failed).await, ReleaseReply::Parked);
    lab.backend.advance(5).await;
    assert_eq!(lab.steer("k", Way::Pause).await, SteerReply::Paused);
    let record = lab.record("k").await.unwrap();
    assert!(record.is_paused());
    assert_eq!((record.since, record.attempts), (lab.backend.now(), 1));
    assert_eq!(record.why().map(|why| why.former), Some(Some(worker)));
    assert_eq!(lab.score("parked", "k").await, Some(NEVER));
    assert_eq!(lab.kept_of("k").await.as_deref(), Some(WHY));
}

async fn nothing_but_a_resume_starts_a_paused_job(lab: Lab, worker: WorkerId) {
    let record = lab.paused("k", worker).await;
    lab.starts().await;
    let before = lab.backend.dump().await;
    for way in [Way::Now, Way::Home, Way::Elsewhere, Way::Park] {
        assert_eq!(lab.steer("k", way).await, SteerReply::Paused, "{way:?}");
    }
    let unparked = lab.step(&Unpark { jobs: vec![(key("k"), id("node1.k"))] }).await.unwrap();
    assert_eq!(unparked, [UnparkReply::Paused]);
    assert_eq!(lab.route("k", worker).await, RouteReply::Done);
    let jobs = [(key("k"), record.token)];
    assert_eq!(lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap(), [BeginReply::Refused]);
    assert_eq!(lab.backend.dump().await, before);
    lab.backend.advance(200_000).await;
    lab.step(&Sweep { limit: 10, kick: Some(0) }).await.unwrap();
    assert_eq!((lab.starts().await, lab.record("k").await), (vec![], Some(record)));
}

async fn a_resumed_job_starts_anew(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    lab.release("k", worker, ReleaseMode::Refuse).await;
    for _ in 0..2 {
        let token = lab.run_again("k", worker).await;
        let failed = ReleaseItem { result: "no".into(), ..release("k", token, ReleaseMode::Fail) };
        lab.release_item(worker, failed).await;
    }
    assert_eq!(lab.steer("k", Way::Pause).await, SteerReply::Paused);
    lab.starts().await;
    let before = lab.record("k").await.unwrap();
    assert_eq!((before.attempts, before.strikes), (2, 1));
    lab.backend.advance(5).await;
    assert_eq!(lab.steer("k", Way::Resume).await, SteerReply::Queued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.attempts, record.strikes), (JobState::Queued, 0, 0));
    assert_eq!(record.why().map(|why| (why.cause, why.former)), Some((Cause::Resumed, Some(worker))));
    assert_eq!((lab.kept_of("k").await, lab.score("parked", "k").await), (None, None));
    let starts: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [(key("k"), 0)]);
    assert!(lab.run_again("k", worker).await > before.token);
}

async fn a_resume_of_what_is_not_paused_does_nothing(lab: Lab, worker: WorkerId) {
    lab.run("runs", "node1.runs", worker).await;
    for name in ["queued", "assigned", "parked"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    lab.route("assigned", worker).await;
    assert_eq!(lab.steer("parked", Way::Park).await, SteerReply::Parked);
    let before = lab.backend.dump().await;
    for name in ["runs", "queued", "assigned"] {
        assert_eq!(lab.steer(name, Way::Resume).await, SteerReply::Changed, "{name}");
    }
    assert_eq!(lab.steer("parked", Way::Resume).await, SteerReply::Parked);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_late_copy_of_a_pause_or_a_resume_does_nothing(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    let pause = steer("k", &lab.record("k").await.unwrap(), Way::Pause);
    assert_eq!(lab.steer_all(std::slice::from_ref(&pause)).await, [SteerReply::Told]);
    let token = lab.token("k").await;
    lab.release_item(worker, paused("k", token)).await;
    // The clock stands still.
    let resume = steer("k", &lab.record("k").await.unwrap(), Way::Resume);
    assert_eq!(lab.steer_all(std::slice::from_ref(&resume)).await, [SteerReply::Queued]);
    let before = lab.backend.dump().await;
    assert_eq!(lab.steer_all(&[pause.clone(), resume.clone()]).await, [SteerReply::Changed; 2]);
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.steer("k", Way::Pause).await, SteerReply::Paused);
    let before = lab.backend.dump().await;
    assert_eq!(lab.steer_all(&[pause, resume]).await, [SteerReply::Paused, SteerReply::Changed]);
    assert_eq!(lab.backend.dump().await, before, "it was paused anew");
}

async fn a_paused_key_says_so_to_all_who_want_it(lab: Lab, worker: WorkerId) {
    let record = lab.paused("k", worker).await;
    lab.dispatch("parked", "node1.parked").await;
    lab.steer("parked", Way::Park).await;
    assert_eq!(lab.dispatch("k", "node1.other").await, DispatchReply::Paused);
    assert_eq!(lab.dispatch("parked", "node1.other").await, DispatchReply::Parked);
    assert_eq!(lab.dispatch("k", "node1.k").await, DispatchReply::Accepted, "it is that dispatch");
    let asked = |name| super::asking::ask(name, Some(worker), record.token, lab.backend.now() + 1_000, "?");
    let replies =
        lab.step(&Ask { asker: node("asker"), items: vec![asked("k"), asked("parked")] }).await.unwrap();
    assert_eq!(format!("{replies:?}"), "[Paused, Parked]");
}

async fn a_paused_job_keeps_what_it_has(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    let bytes = Bytes::from_static(b"state");
    let save = tenure_pool::store::SaveItem { key: key("k"), token, given: token, number: 1, bytes };
    lab.step(&Save { worker, items: vec![save] }).await.unwrap();
    assert_eq!(lab.notify("k", Some(worker), "before").await, NotifyReply::Kept);
    lab.release_item(worker, paused("k", token)).await;
    assert_eq!(lab.notify("k", None, "meanwhile").await, NotifyReply::Kept);
    let other = update("k", "node1.k", 0, None, "other");
    assert_eq!(lab.step(&Update { turn: None, items: vec![other] }).await.unwrap(), [UpdateReply::Kept(1)]);
    assert!(lab.record("k").await.unwrap().is_paused());
    assert_eq!(lab.steer("k", Way::Resume).await, SteerReply::Queued);
    lab.route("k", worker).await;
    let BeginReply::Begun(BegunJob { waiting, payload, checkpoint, record }) = lab.begin("k", worker).await
    else {
        panic!("it was not begun")
    };
    assert_eq!((waiting, &*payload, record.generation()), (true, &b"other"[..], 1));
    assert_eq!(checkpoint.map(|kept| kept.bytes), Some(Bytes::from_static(b"state")));
    let taken = lab.take("k", worker, lab.token("k").await, 0).await.unwrap();
    assert_eq!(taken.bodies, ["before", "meanwhile"]);
}

async fn a_paused_job_outlives_its_worker(mut lab: Lab, worker: WorkerId) {
    let record = lab.paused("k", worker).await;
    lab.leave(worker).await;
    lab.recover().await;
    assert_eq!(lab.record("k").await, Some(record));
    assert_eq!(lab.kept_of("k").await.as_deref(), Some(WHY));
}

async fn a_paused_job_is_stopped_like_any_other(lab: Lab, worker: WorkerId) {
    lab.paused("k", worker).await;
    assert_eq!(lab.stop("k", "node1.k", None).await, StopReply::Deleted);
    assert_eq!((lab.record("k").await, lab.kept_of("k").await), (None, None));
    assert_eq!(lab.dispatch("k", "node1.next").await, DispatchReply::Accepted);
}

async fn a_pause_whose_release_was_lost_is_known_by_its_worker(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    // Its release is lost.
    lab.recover().await;
    let what = Attest::HandedOff(HandedOff {
        begun: Begun::Begun,
        mode: ReleaseMode::Park,
        cause: Cause::Paused,
        attempts: 0,
        delay: ms(0),
        error: WHY.into(),
    });
    assert_eq!(lab.attest(worker, item("k", token, "node1.k", what)).await, AttestReply::Requeued);
    assert!(lab.record("k").await.unwrap().is_paused());
    assert_eq!(lab.kept_of("k").await.as_deref(), Some(WHY));
}

async fn a_job_that_ends_before_its_update_rests_if_it_is_paused(lab: Lab) {
    lab.step(&Renew { seen: super::lab::seen(Token(0)), node: Some(node("node1")), ..renew(&[]) })
        .await
        .unwrap();
    let worker = lab.worker().await;
    for (name, cause, outcome) in [("k", Cause::Paused, "paused"), ("l", Cause::Parked, "parked")] {
        let token = lab.run(name, &format!("node1.{name}"), worker).await;
        let other = update(name, &format!("node1.{name}"), 0, Some(worker), "other");
        assert_eq!(
            lab.step(&Update { turn: None, items: vec![other] }).await.unwrap(),
            [UpdateReply::Kept(1)]
        );
        let (rests, tell) = (WHY.to_owned(), Some(node("node1")));
        let ended =
            ReleaseItem { cause, ran: Some(0), rests, tell, ..release(name, token, ReleaseMode::Delete) };
        assert_eq!(lab.release_item(worker, ended).await, ReleaseReply::Parked);
        let record = lab.record(name).await.unwrap();
        assert_eq!((record.state, record.is_paused()), (JobState::Parked, cause == Cause::Paused));
        assert_eq!((record.generation(), record.attempts), (1, 0));
        assert_eq!(record.why().map(|why| (why.cause, why.former)), Some((cause, Some(worker))));
        assert_eq!(lab.kept_of(name).await.as_deref(), Some(WHY));
        let told = lab
            .read(&ReadNode { node: node("node1"), cursors: Cursors::default(), max: 10, block: ms(0) })
            .await
            .unwrap();
        assert_eq!(told.outcomes.last().unwrap().1, [(record.id, outcome.to_owned())]);
    }
    let token = lab.run("m", "node1.m", worker).await;
    let (cause, rests) = (Cause::Paused, WHY.to_owned());
    let ended = ReleaseItem { cause, ran: Some(0), rests, ..release("m", token, ReleaseMode::Delete) };
    assert_eq!(lab.release_item(worker, ended).await, ReleaseReply::Deleted, "it ran with what it has");
}

async fn a_release_that_names_no_payload_pauses_its_job(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    let other = update("k", "node1.k", 0, Some(worker), "other");
    assert_eq!(lab.step(&Update { turn: None, items: vec![other] }).await.unwrap(), [UpdateReply::Kept(1)]);
    assert_eq!(lab.release_item(worker, paused("k", token)).await, ReleaseReply::Parked);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.is_paused(), record.generation()), (true, 1));
    assert_eq!(lab.steer("k", Way::Resume).await, SteerReply::Queued);
    lab.route("k", worker).await;
    let BeginReply::Begun(BegunJob { payload, .. }) = lab.begin("k", worker).await else {
        panic!("it was not begun")
    };
    assert_eq!(&*payload, b"other");
}

async fn a_pause_that_is_over_lets_its_job_go_on(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    lab.dispatch("parked", "node1.parked").await;
    lab.steer("parked", Way::Park).await;
    let end = lab.backend.now() + 5_000;
    let released = ReleaseItem { result: until(end), ..paused("k", token) };
    assert_eq!(lab.release_item(worker, released).await, ReleaseReply::Parked);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.is_paused(), record.paused_until()), (true, Some(end)));
    assert_eq!(record.why().map(|why| (why.cause, why.former)), Some((Cause::Paused, Some(worker))));
    assert_eq!((lab.score("parked", "k").await, lab.kept_of("k").await), (Some(end), Some(until(end))));
    lab.starts().await;
    lab.backend.advance(4_999).await;
    let before = lab.backend.dump().await;
    let swept = lab.sweep().await;
    assert_eq!((swept.count, swept.next_due, swept.next_in), (0, Some(end), Some(ms(1))));
    assert_eq!(lab.backend.dump().await, before, "it is not over");
    let swept = lab.sweep_after(1).await;
    assert_eq!((swept.count, swept.parked), (1, 2));
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.attempts, record.strikes), (JobState::Queued, 0, 0));
    assert_eq!(record.why().map(|why| (why.cause, why.former)), Some((Cause::PauseOver, Some(worker))));
    assert_eq!((lab.kept_of("k").await, lab.score("parked", "k").await), (None, None));
    let starts: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [(key("k"), 0)]);
    assert!(lab.run_again("k", worker).await > token);
    lab.sweep().await;
    assert_eq!(lab.record("parked").await.unwrap().state, JobState::Parked, "what is parked stays so");
}

async fn a_waiting_job_is_paused_until_a_time(lab: Lab, worker: WorkerId) {
    lab.dispatch("queued", "node1.queued").await;
    lab.assign("assigned", "node1.assigned", worker).await;
    let end = lab.backend.now() + 5_000;
    for name in ["queued", "assigned"] {
        let record = lab.record(name).await.unwrap();
        assert_eq!(lab.steer_all(&[pause(name, &record, &until(end))]).await, [SteerReply::Paused]);
        assert_eq!(lab.record(name).await.unwrap().paused_until(), Some(end));
        assert_eq!(lab.steer(name, Way::Resume).await, SteerReply::Queued);
        let record = lab.record(name).await.unwrap();
        assert_eq!((record.paused_until(), lab.score("parked", name).await), (None, None), "{name}");
    }
    lab.backend.advance(5_000).await;
    lab.starts().await;
    let before = lab.record("queued").await;
    lab.sweep().await;
    assert_eq!(lab.record("queued").await, before, "that pause is forgotten");
}

async fn a_pause_is_made_longer_twice_in_one_call(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    let (record, now) = (lab.record("k").await.unwrap(), lab.backend.now());
    lab.steer_all(&[pause("k", &record, &until(now + 5_000))]).await;
    let record = lab.record("k").await.unwrap();
    let longer = [7_000, 6_000, 8_000].map(|ms| pause("k", &record, &until(now + ms)));
    assert_eq!(lab.steer_all(&longer).await, [SteerReply::Paused; 3]);
    let (paused, since) = (lab.record("k").await.unwrap(), record.since);
    assert_eq!((paused.paused_until(), paused.since), (Some(now + 8_000), since));
}

async fn a_pause_is_made_longer_and_not_shorter(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    let first = lab.record("k").await.unwrap();
    let now = lab.backend.now();
    assert_eq!(lab.steer_all(&[pause("k", &first, &until(now + 5_000))]).await, [SteerReply::Paused]);
    lab.backend.advance(5).await;
    let record = lab.record("k").await.unwrap();
    let before = lab.backend.dump().await;
    for end in [now + 4_000, now + 5_000] {
        assert_eq!(lab.steer_all(&[pause("k", &record, &until(end))]).await, [SteerReply::Paused]);
        assert_eq!(lab.backend.dump().await, before, "it lasts as long already");
    }
    assert_eq!(lab.steer_all(&[pause("k", &first, &until(now + 6_000))]).await, [SteerReply::Changed]);
    for (text, end, score) in
        [(until(now + 6_000), Some(now + 6_000), now + 6_000), ("ben||for good".into(), None, NEVER)]
    {
        assert_eq!(lab.steer_all(&[pause("k", &record, &text)]).await, [SteerReply::Paused]);
        let longer = lab.record("k").await.unwrap();
        assert_eq!((longer.is_paused(), longer.paused_until()), (true, end));
        assert_eq!(
            (longer.since, lab.score("parked", "k").await),
            (record.since, Some(score)),
            "it is one pause"
        );
        assert_eq!(lab.kept_of("k").await, Some(text));
    }
    let before = lab.backend.dump().await;
    assert_eq!(lab.steer_all(&[pause("k", &record, &until(now + 9_000))]).await, [SteerReply::Paused]);
    assert_eq!(lab.backend.dump().await, before, "nothing is longer than a pause without an end");
}

async fn a_late_resume_ends_no_longer_pause(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    let end = lab.backend.now() + 5_000;
    for text in [until(end), until(end + 1_000), "ben||for good".into()] {
        let seen = lab.record("k").await.unwrap();
        assert_eq!(lab.steer_all(&[pause("k", &seen, &text)]).await, [SteerReply::Paused]);
        if seen.is_paused() {
            let before = lab.backend.dump().await;
            assert_eq!(lab.steer_all(&[steer("k", &seen, Way::Resume)]).await, [SteerReply::Changed]);
            assert_eq!(lab.backend.dump().await, before);
        }
    }
    assert_eq!(lab.steer("k", Way::Resume).await, SteerReply::Queued, "by one who saw it");
}

async fn a_pause_lasts_as_long_as_its_record_says(lab: Lab) {
    let end = lab.backend.now() + 5_000;
    for name in ["k", "l", "m"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
        let record = lab.record(name).await.unwrap();
        assert_eq!(lab.steer_all(&[pause(name, &record, &until(end))]).await, [SteerReply::Paused]);
    }
    let text = lab.record("k").await.unwrap().to_string();
    let later = text.replace(&format!("+{end}"), &format!("+{}", end + 1_000));
    lab.backend.write_record(&key("k"), later.as_bytes()).await;
    lab.backend.write_record(&key("l"), text.replace(&format!("+{end}"), "").as_bytes()).await;
    lab.backend.write_record(&key("m"), b"rubbish").await;
    let swept = lab.sweep_after(5_000).await;
    assert_eq!((swept.count, swept.bad, swept.parked), (3, vec![key("m")], 3));
    assert_eq!(
        (lab.score("parked", "k").await, lab.score("parked", "l").await),
        (Some(end + 1_000), Some(NEVER))
    );
    assert!(lab.record("k").await.unwrap().is_paused() && lab.record("l").await.unwrap().is_paused());
    let swept = lab.sweep().await;
    assert_eq!((swept.count, swept.next_due), (0, Some(end + 1_000)));
}

async fn a_pause_with_an_end_outlives_the_index_of_parked_jobs(lab: Lab) {
    lab.dispatch("k", "node1.k").await;
    lab.dispatch("l", "node1.l").await;
    let (end, record) = (lab.backend.now() + 5_000, lab.record("k").await.unwrap());
    assert_eq!(lab.steer_all(&[pause("k", &record, &until(end))]).await, [SteerReply::Paused]);
    lab.steer("l", Way::Park).await;
    lab.backend.lose("parked").await;
    lab.step(&Inspect { cursor: 0, limit: 10, held: Vec::new() }).await.unwrap();
    assert_eq!((lab.score("parked", "k").await, lab.score("parked", "l").await), (Some(end), Some(NEVER)));
}

async fn a_sweep_ends_a_bounded_number_of_pauses(lab: Lab) {
    let end = lab.backend.now() + 5_000;
    for n in 0..5 {
        let name = format!("k{n}");
        lab.dispatch(&name, &format!("node1.{name}")).await;
        let record = lab.record(&name).await.unwrap();
        lab.steer_all(&[pause(&name, &record, &until(end))]).await;
    }
    lab.backend.advance(5_000).await;
    for parked in [5, 3, 1, 0] {
        let swept = lab.step(&Sweep { limit: 2, kick: None }).await.unwrap();
        assert_eq!((swept.parked, swept.count), (parked, parked.min(2) as usize));
    }
}
