//! All that the store knows of a job, read at one moment.

use bytes::Bytes;
use tenure_pool::store::{
    CheckpointSeen, Evidence, Explain, OpenNormal, Refusal, ReleaseItem, ReleaseMode, Save, SaveItem,
    ShutDown, ShutdownMode, StoreError,
};
use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::{Settings, ShutdownFlag};

use super::lab::{Kind, Lab, id, key, ms, node, release, renew};
use super::single::Single as _;

scenarios! {
    explain_tells_all_that_is_known_of_a_job,
    explain_tells_why_a_job_waits,
    explain_knows_when_a_worker_was_heard_last,
    explain_remembers_an_ended_dispatch,
    explain_tells_the_phase_and_the_flag,
    explain_names_who_has_attested,
    explain_answers_what_cannot_be_read,
    explain_of_no_pool_is_refused,
}

impl Lab {
    async fn explain(&self, name: &str) -> Evidence {
        self.read(&Explain { key: key(name), id: None }).await.unwrap()
    }
}

async fn explain_tells_all_that_is_known_of_a_job(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.g", worker).await;
    for body in ["one", "two"] {
        lab.notify("k", Some(worker), body).await;
    }
    let (item, bytes) = (key("k"), Bytes::from_static(b"state"));
    let item = SaveItem { key: item, token, given: token, number: 1, bytes };
    lab.step(&Save { worker, items: vec![item] }).await.unwrap();
    let saved = lab.backend.now();
    lab.backend.advance(50).await;
    let before = lab.backend.dump().await;
    let seen = lab.explain("k").await;
    assert_eq!(lab.backend.dump().await, before, "it only reads");
    let record = seen.found.record.clone().unwrap();
    assert_eq!((record.state, record.owner, record.token), (JobState::Running, Some(worker), token));
    assert_eq!((seen.now, seen.recovering, seen.flag.clone()), (lab.backend.now(), false, None));
    assert_eq!((seen.pause.until, seen.pause.error.clone()), (None, None));
    assert_eq!((seen.notifications, seen.heard, seen.expired), (2, Some(1), false));
    assert_eq!(seen.checkpoint, Some(CheckpointSeen { token, at: saved, len: 5 }));
    lab.step(&renew(&[worker])).await.unwrap();
    assert_eq!(lab.explain("k").await.heard, Some(lab.backend.now()));
    let heard = lab.backend.now();
    lab.store().expire_one(lab.inc, worker, Some(heard)).await.unwrap();
    let seen = lab.explain("k").await;
    assert_eq!((seen.heard, seen.expired), (None, true));
}

async fn explain_tells_why_a_job_waits(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    lab.dispatch("queued", "node1.q").await;
    let seen = lab.explain("queued").await;
    assert_eq!(seen.found.record.clone().unwrap().state, JobState::Queued);
    assert!(seen.pause.until.unwrap() > seen.now && seen.pause.error.is_none(), "{seen:?}");
    assert_eq!((seen.heard, seen.expired, seen.checkpoint, seen.notifications), (None, false, None, 0));
    lab.route("queued", worker).await;
    let seen = lab.explain("queued").await;
    let record = seen.found.record.clone().unwrap();
    assert_eq!((record.state, record.owner, seen.heard), (JobState::Assigned, Some(worker), Some(1)));
    assert!(seen.pause.until.is_some());
    lab.run("fails", "node1.f", worker).await;
    fail(&lab, worker, "fails").await;
    let seen = lab.explain("fails").await;
    assert_eq!((seen.pause.error.as_deref(), seen.pause.until), (Some("no route"), Some(seen.now + 3_000)));
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    lab.run("parked", "node1.p", worker).await;
    fail(&lab, worker, "parked").await;
    let seen = lab.explain("parked").await;
    assert_eq!(seen.found.record.unwrap().state, JobState::Parked);
    assert_eq!(seen.pause.until, None);
    assert_eq!((seen.pause.error.as_deref(), seen.heard), (Some("no route"), None));
}

async fn explain_knows_when_a_worker_was_heard_last(kind: Kind) {
    let lab = Lab::with(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    lab.dispatch("queued", "node1.q").await;
    assert_eq!(lab.explain("queued").await.freshest, None, "there is no worker");
    let (first, second) = (lab.worker().await, lab.worker().await);
    lab.run("runs", "node1.r", first).await;
    let renew = async |worker| lab.step(&renew(&[worker])).await.unwrap();
    renew(second).await;
    lab.backend.advance(50).await;
    assert_eq!(lab.explain("queued").await.freshest, Some(lab.backend.now()), "the first has just joined");
    renew(first).await;
    let heard = lab.backend.now();
    lab.backend.advance(50).await;
    for name in ["queued", "runs"] {
        assert_eq!(lab.explain(name).await.freshest, Some(heard), "{name}");
    }
    fail(&lab, first, "runs").await;
    assert_eq!(lab.explain("runs").await.freshest, None, "a parked job waits for no worker");
}

/// It failed, and pauses for 3 s if it is tried again.
async fn fail(lab: &Lab, worker: WorkerId, name: &str) {
    let failed = release(name, lab.token(name).await, ReleaseMode::Fail);
    lab.release_item(worker, ReleaseItem { delay: ms(3_000), result: "no route".to_owned(), ..failed }).await;
}

async fn explain_remembers_an_ended_dispatch(lab: Lab, worker: WorkerId) {
    let absent = lab.explain("k").await;
    assert_eq!(absent, Evidence { now: lab.backend.now(), ..Evidence::default() });
    lab.run_and_stop("k", "node1.!order", worker).await;
    lab.release("k", worker, ReleaseMode::Delete).await;
    let seen = lab.read(&Explain { key: key("k"), id: Some(id("node1.!order")) }).await.unwrap();
    assert_eq!((seen.found.record.clone(), seen.found.outcome.as_deref()), (None, Some("stopped")));
    let other = lab.read(&Explain { key: key("other"), id: Some(id("node1.!order")) }).await.unwrap();
    assert_eq!(other.found.outcome, None, "it is that of another key");
}

async fn explain_tells_the_phase_and_the_flag(kind: Kind) {
    let mut lab = Lab::blank(kind).await;
    lab.bootstrap().await;
    assert!(lab.explain("k").await.recovering);
    lab.step(&OpenNormal).await.unwrap();
    assert!(!lab.explain("k").await.recovering);
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    let flag = ShutdownFlag::Stopping { deadline_ms: None, by: "node1".to_owned() };
    assert_eq!(lab.explain("k").await.flag, Some(flag));
}

async fn explain_names_who_has_attested(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let attested = async |lab: &Lab| lab.explain("k").await.attested.into_iter().collect::<Vec<_>>();
    lab.recover().await;
    assert_eq!(attested(&lab).await, []);
    lab.attend(second).await;
    assert_eq!(attested(&lab).await, [second]);
    lab.attend(first).await;
    assert_eq!(attested(&lab).await, [first, second]);
    lab.recover().await;
    assert_eq!(attested(&lab).await, [], "what was said in another incarnation does not count");
    for worker in [first, second] {
        lab.attend(worker).await;
    }
    lab.step(&OpenNormal).await.unwrap();
    assert_eq!(attested(&lab).await, [], "an open pool waits for nobody");
}

async fn explain_answers_what_cannot_be_read(lab: Lab) {
    for (name, record, newer) in [("bad", "rubbish", None), ("newer", "2|what|ever", Some(2))] {
        lab.dispatch(name, &format!("node1.{name}")).await;
        lab.backend.write_record(&key(name), record.as_bytes()).await;
        let seen = lab.explain(name).await.found;
        assert_eq!((seen.record, seen.bad, seen.newer), (None, true, newer));
    }
}

async fn explain_of_no_pool_is_refused(kind: Kind) {
    let lab = Lab::blank(kind).await;
    let refused = lab.read(&Explain { key: key("k"), id: None }).await;
    assert!(matches!(refused, Err(StoreError::Refused(Refusal::NoPool))), "{refused:?}");
}
