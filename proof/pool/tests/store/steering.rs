//! Steers of single jobs: one begins now, goes elsewhere or home, or is parked.

use tenure_pool::store::{
    Cursors, Pause, ReadNode, ReadPauses, Refusal, ReleaseItem, ReleaseMode, ReleaseReply, ShutDown,
    ShutdownMode, Steer, SteerItem, SteerReply, Way, WorkerEvent,
};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, id, key, ms, node, release};
use super::single::Single as _;

scenarios! {
    the_owner_of_a_running_job_is_told_what_is_wanted,
    a_job_that_waits_is_announced_at_once,
    a_parked_job_that_is_retried_starts_anew,
    a_job_that_nobody_has_begun_is_parked_with_the_reason,
    an_assigned_job_is_taken_from_its_worker_and_placed_anew,
    an_assigned_job_goes_to_the_next_worker_or_home,
    a_late_copy_of_a_steer_does_nothing,
    a_late_copy_of_a_steer_finds_another_token,
    a_late_copy_of_a_steer_of_the_same_moment_does_nothing,
    a_steer_is_of_its_dispatch,
    a_steer_that_guesses_the_owner_wrong_does_nothing,
    a_parked_job_stays_parked,
    a_stopping_job_is_not_steered,
    a_job_that_somebody_has_is_not_retried,
    the_steers_of_a_batch_see_each_other,
    a_record_that_a_call_has_made_is_none_that_was_seen,
    a_recovering_pool_steers_nothing,
    a_stopping_pool_steers_nothing,
}

pub(crate) fn steer(name: &str, record: &Record, way: Way) -> SteerItem {
    SteerItem {
        key: key(name),
        id: record.id.clone(),
        token: record.token,
        since: record.since,
        way,
        guess: record.owner,
        reason: match way {
            Way::Park => "ticket 17".into(),
            Way::Pause => "anna|ticket 17".into(),
            Way::Resume => record.paused_until().map(|end| format!("|{end}|")).unwrap_or_default(),
            _ => String::new(),
        },
    }
}

impl Lab {
    pub(crate) async fn steer_all(&self, items: &[SteerItem]) -> Vec<SteerReply> {
        self.step(&Steer { items: items.to_vec() }).await.unwrap()
    }

    /// Steers the job as its record is.
    pub(crate) async fn steer(&self, name: &str, way: Way) -> SteerReply {
        let record = self.record(name).await.unwrap();
        self.steer_all(&[steer(name, &record, way)]).await.remove(0)
    }

    async fn steers_for(&self, worker: WorkerId) -> Vec<WorkerEvent> {
        let cursors = Cursors { workers: [(worker, Cursors::default().node)].into(), ..Cursors::default() };
        let events = self
            .read(&ReadNode { node: node("node1"), cursors, max: 100, block: ms(0) })
            .await
            .unwrap()
            .workers;
        let events = events.into_iter().map(|(_, _, event)| event);
        events.filter(|event| matches!(event, WorkerEvent::Steer { .. })).collect()
    }

    async fn error(&self, name: &str) -> Option<String> {
        let mut pauses = self.read(&ReadPauses { keys: vec![key(name)] }).await.unwrap();
        let Pause { error, .. } = pauses.remove(0);
        error
    }
}

async fn the_owner_of_a_running_job_is_told_what_is_wanted(lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    let theirs = lab.run("l", "node1.g", other).await;
    let mine = lab.run("m", "node1.g", worker).await;
    let (k, l, m) = (lab.record("k").await, lab.record("l").await, lab.record("m").await);
    let items = [
        steer("k", k.as_ref().unwrap(), Way::Park),
        steer("l", l.as_ref().unwrap(), Way::Home),
        steer("m", m.as_ref().unwrap(), Way::Elsewhere),
    ];
    assert_eq!(lab.steer_all(&items).await, [SteerReply::Told; 3]);
    let jobs = vec![
        (key("k"), token, Way::Park, "ticket 17".to_owned()),
        (key("m"), mine, Way::Elsewhere, String::new()),
    ];
    assert_eq!(lab.steers_for(worker).await, [WorkerEvent::Steer { jobs }]);
    let jobs = vec![(key("l"), theirs, Way::Home, String::new())];
    assert_eq!(lab.steers_for(other).await, [WorkerEvent::Steer { jobs }]);
    assert_eq!((lab.record("k").await, lab.record("l").await), (k, l), "their owners end them");
}

async fn a_job_that_waits_is_announced_at_once(kind: Kind) {
    for way in [Way::Now, Way::Home, Way::Elsewhere] {
        let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        let token = lab.run("k", "node1.g", worker).await;
        let item = tenure_pool::store::ReleaseItem {
            delay: ms(60_000),
            result: "no route".into(),
            ..release("k", token, ReleaseMode::Fail)
        };
        assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Queued);
        assert_eq!(lab.starts().await, [], "nobody announces it before its time");
        assert_eq!(lab.steer("k", way).await, SteerReply::Queued, "{way:?}");
        let starts: Vec<_> = lab.starts().await.into_iter().flat_map(|(_, jobs)| jobs).collect();
        assert_eq!(starts, [(key("k"), 0)], "{way:?}");
        let due = lab.score("queue", "k").await.unwrap();
        assert!(due <= lab.backend.now() + 20_000, "the sweeper comes as after any announcement");
        let record = lab.record("k").await.unwrap();
        assert_eq!((record.state, record.attempts, record.token), (JobState::Queued, 1, token));
        assert_eq!(lab.error("k").await.as_deref(), Some("no route"));
    }
}

async fn a_parked_job_that_is_retried_starts_anew(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 2, ..Settings::default() }).await;
    lab.run("k", "node1.g", worker).await;
    lab.release("k", worker, ReleaseMode::Refuse).await;
    for _ in 0..2 {
        lab.run_again("k", worker).await;
        let token = lab.token("k").await;
        let item = ReleaseItem { result: "it failed".into(), ..release("k", token, ReleaseMode::Fail) };
        lab.release_item(worker, item).await;
    }
    let parked = lab.record("k").await.unwrap();
    assert_eq!((parked.state, parked.attempts, parked.strikes), (JobState::Parked, 2, 1));
    assert!(lab.error("k").await.is_some());
    assert_eq!(lab.steer("k", Way::Now).await, SteerReply::Queued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.attempts, record.strikes), (JobState::Queued, 0, 0));
    assert_eq!((lab.error("k").await, lab.score("parked", "k").await), (None, None));
    lab.run_again("k", worker).await;
}

async fn a_job_that_nobody_has_begun_is_parked_with_the_reason(lab: Lab, worker: WorkerId) {
    for name in ["queued", "assigned"] {
        lab.dispatch(name, "node1.g").await;
    }
    lab.route("assigned", worker).await;
    for name in ["queued", "assigned"] {
        assert_eq!(lab.steer(name, Way::Park).await, SteerReply::Parked, "{name}");
        let record = lab.record(name).await.unwrap();
        assert_eq!((record.state, record.owner, record.attempts), (JobState::Parked, None, 0));
        assert_eq!(lab.error(name).await.as_deref(), Some("ticket 17"));
        assert_eq!(lab.score("queue", name).await, None);
        assert!(lab.score("parked", name).await.is_some());
    }
    assert!(lab.backend.dump().await.get("owners").is_none(), "its worker has it no more");
    assert_eq!(lab.queued().await, 2, "they still wait to be begun");
}

async fn an_assigned_job_is_taken_from_its_worker_and_placed_anew(
    lab: Lab,
    worker: WorkerId,
    other: WorkerId,
) {
    lab.assign("k", "node1.g", worker).await;
    let before = lab.record("k").await.unwrap();
    assert_eq!(lab.steer("k", Way::Elsewhere).await, SteerReply::Queued);
    let jobs = [(key("k"), before.token)];
    let late = lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
    assert_eq!(late, [tenure_pool::store::BeginReply::Refused], "it was not begun in time");
    assert!(lab.run_again("k", other).await > before.token);
}

async fn an_assigned_job_goes_to_the_next_worker_or_home(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { strikes: 3, ..Settings::default() }).await;
    lab.assign("k", "node1.g", worker).await;
    lab.run_assigned("k", worker).await;
    lab.release("k", worker, ReleaseMode::Refuse).await;
    let mut seen = Vec::new();
    for way in [Way::Elsewhere, Way::Elsewhere, Way::Home] {
        lab.route("k", worker).await;
        assert_eq!(lab.steer("k", way).await, SteerReply::Queued);
        seen.push(lab.record("k").await.unwrap().strikes);
    }
    assert_eq!(seen, [3, 6, 0]);
}

async fn a_late_copy_of_a_steer_does_nothing(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    let item = steer("k", &lab.record("k").await.unwrap(), Way::Park);
    assert_eq!(lab.steer_all(std::slice::from_ref(&item)).await, [SteerReply::Told]);
    lab.backend.advance(5).await;
    lab.release("k", worker, ReleaseMode::Park).await;
    lab.backend.advance(5).await;
    // It is parked, retried, and runs again: copies of the first word come at each of these moments.
    assert_eq!(lab.steer_all(std::slice::from_ref(&item)).await, [SteerReply::Parked]);
    let retry = steer("k", &lab.record("k").await.unwrap(), Way::Now);
    assert_eq!(lab.steer_all(std::slice::from_ref(&retry)).await, [SteerReply::Queued]);
    let before = lab.backend.dump().await;
    assert_eq!(lab.steer_all(&[item.clone(), retry.clone()]).await, [SteerReply::Changed; 2]);
    assert_eq!(lab.backend.dump().await, before, "its token is the same, and the time is another");
    lab.route("k", worker).await;
    lab.run_assigned("k", worker).await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.steer_all(&[item, retry]).await, [SteerReply::Changed; 2]);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_steer_is_of_its_dispatch(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    let record = lab.record("k").await.unwrap();
    let before = lab.backend.dump().await;
    for way in Way::ALL {
        let other = SteerItem { id: id("node1.other"), ..steer("k", &record, way) };
        let nothing = SteerItem { key: key("nothing"), ..steer("k", &record, way) };
        assert_eq!(lab.steer_all(&[other, nothing]).await, [SteerReply::Absent; 2]);
    }
    assert_eq!(lab.backend.dump().await, before);
    assert_eq!(lab.steer_all(&[]).await, []);
}

async fn a_steer_that_guesses_the_owner_wrong_does_nothing(lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    let record = lab.record("k").await.unwrap();
    let before = lab.backend.dump().await;
    for guess in [None, Some(other)] {
        let item = SteerItem { guess, ..steer("k", &record, Way::Park) };
        assert_eq!(lab.steer_all(&[item]).await, [SteerReply::Changed]);
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_parked_job_stays_parked(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.steer("k", Way::Park).await, SteerReply::Parked);
    let before = lab.backend.dump().await;
    let record = lab.record("k").await.unwrap();
    for way in [Way::Park, Way::Home, Way::Elsewhere] {
        let item = SteerItem { reason: "another reason".into(), ..steer("k", &record, way) };
        assert_eq!(lab.steer_all(&[item]).await, [SteerReply::Parked], "{way:?}");
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_stopping_job_is_not_steered(lab: Lab, worker: WorkerId) {
    lab.run_and_stop("k", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    for way in Way::ALL {
        assert_eq!(lab.steer("k", way).await, SteerReply::Stopping);
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_job_that_somebody_has_is_not_retried(lab: Lab, worker: WorkerId) {
    lab.run("runs", "node1.g", worker).await;
    assert!(lab.started("runs", worker).await);
    lab.assign("assigned", "node1.g", worker).await;
    let before = lab.backend.dump().await;
    for name in ["runs", "assigned"] {
        assert_eq!(lab.steer(name, Way::Now).await, SteerReply::Changed, "{name}");
    }
    assert_eq!(lab.backend.dump().await, before);
}

async fn the_steers_of_a_batch_see_each_other(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    lab.backend.advance(7).await;
    let record = lab.record("k").await.unwrap();
    let items = [steer("k", &record, Way::Park), steer("k", &record, Way::Elsewhere)];
    assert_eq!(lab.steer_all(&items).await, [SteerReply::Parked; 2]);
    lab.backend.advance(7).await;
    let record = lab.record("k").await.unwrap();
    let items = [steer("k", &record, Way::Now), steer("k", &record, Way::Park)];
    assert_eq!(lab.steer_all(&items).await, [SteerReply::Queued, SteerReply::Changed]);
}

async fn a_record_that_a_call_has_made_is_none_that_was_seen(lab: Lab) {
    let twice = [("k", Way::Now, Way::Park), ("l", Way::Park, Way::Now), ("m", Way::Pause, Way::Resume)];
    for (name, way, next) in twice {
        lab.dispatch(name, &format!("node1.{name}")).await;
        let record = lab.record(name).await.unwrap();
        let guessed = Record { since: record.since + 1, ..record.clone() };
        let replies = lab.steer_all(&[steer(name, &record, way), steer(name, &guessed, next)]).await;
        assert_eq!(replies[1], SteerReply::Changed, "{way:?}");
        assert_eq!(lab.record(name).await.unwrap().since, guessed.since, "{way:?}: it changed once");
    }
}

async fn a_recovering_pool_steers_nothing(mut lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.g", worker).await;
    let old = lab.inc;
    let record = lab.record("k").await.unwrap();
    lab.recover().await;
    let item = steer("k", &record, Way::Park);
    let refusal =
        lab.refused(lab.store().run(old, &Steer { items: std::slice::from_ref(&item).to_vec() })).await;
    assert_eq!(refusal, Refusal::StaleIncarnation(lab.inc));
    let absent = SteerItem { key: key("absent"), ..item.clone() };
    let before = lab.backend.dump().await;
    assert_eq!(lab.steer_all(&[item, absent]).await, [SteerReply::Recovering; 2]);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_stopping_pool_steers_nothing(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    let record = lab.record("k").await.unwrap();
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::Closing(ms(60_000)) }).await.unwrap();
    assert_eq!(lab.steer("k", Way::Now).await, SteerReply::Queued, "it may still begin");
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    let items = vec![steer("k", &record, Way::Park)];
    assert_eq!(lab.refused(lab.step(&Steer { items })).await, Refusal::ShuttingDown);
}

async fn a_late_copy_of_a_steer_finds_another_token(lab: Lab, worker: WorkerId) {
    lab.dispatch("k", "node1.g").await;
    let item = steer("k", &lab.record("k").await.unwrap(), Way::Park);
    lab.route("k", worker).await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.record("k").await.unwrap().since, item.since, "an assignment leaves the time");
    assert_eq!(lab.steer_all(&[item]).await, [SteerReply::Changed]);
    assert_eq!(lab.backend.dump().await, before);
}

async fn a_late_copy_of_a_steer_of_the_same_moment_does_nothing(lab: Lab) {
    lab.dispatch("k", "node1.g").await;
    let item = steer("k", &lab.record("k").await.unwrap(), Way::Park);
    // The clock stands still.
    assert_eq!(lab.steer_all(&[item.clone(), item.clone()]).await, [SteerReply::Parked; 2]);
    assert_eq!(lab.steer("k", Way::Now).await, SteerReply::Queued);
    let before = lab.backend.dump().await;
    assert_eq!(lab.steer_all(&[item]).await, [SteerReply::Changed]);
    assert_eq!(lab.backend.dump().await, before);
}
