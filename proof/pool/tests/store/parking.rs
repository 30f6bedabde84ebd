//! Parked jobs: listed with their last error, and retried on demand.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_pool::store::{
    Attest, AttestItem, AttestReply, BeginReply, BegunJob, DispatchReply, HandedOff, ListParked, NotifyReply,
    Parked, ReadDue, ReadPauses, Refusal, Release, ReleaseItem, ReleaseMode, ReleaseReply, ShutDown,
    ShutdownMode, Unpark, UnparkReply,
};
use tenure_protocol::model::id::{JobKey, WorkerId};
use tenure_protocol::model::record::{Begun, JobState};
use tenure_protocol::model::settings::Settings;

use super::lab::{Kind, Lab, id, key, node, release};
use super::single::Single as _;

scenarios! {
    an_unparked_job_starts_anew,
    an_unpark_may_be_repeated,
    only_the_dispatch_that_was_named_is_unparked,
    an_unparked_job_has_kept_its_notifications,
    a_stopping_pool_unparks_nothing_and_a_closing_one_does,
    a_recovering_pool_unparks,
    parked_jobs_are_listed_with_their_errors,
    many_parked_jobs_are_listed_in_pages,
    a_parked_jobs_error_ends_between_two_characters,
    a_damaged_record_is_listed_and_not_unparked,
    a_job_that_failed_says_why_it_waits_and_until_when,
    the_jobs_that_are_due_come_in_their_order,
    an_error_goes_with_the_next_begin_or_the_job,
    a_sweep_counts_the_parked_jobs,
    a_job_is_parked_at_once_and_its_attempt_does_not_count,
    a_park_undoes_neither_a_stop_nor_a_shutdown,
    a_job_that_was_parked_at_once_is_parked_again_after_a_loss,
}

/// A pool that parks a job at its first failure, and a worker.
async fn strict(kind: Kind) -> (Lab, WorkerId) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 1, ..Settings::default() }).await;
    (lab, worker)
}

/// A job that was parked with this error.
async fn park(lab: &Lab, worker: WorkerId, name: &str, error: &str) {
    let token = lab.run(name, &format!("node1.{name}"), worker).await;
    let item = ReleaseItem { result: error.into(), ..release(name, token, ReleaseMode::Fail) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Parked);
    assert_eq!(lab.dispatch(name, "node1.another").await, DispatchReply::Parked);
}

async fn unpark(lab: &Lab, jobs: &[(&str, &str)]) -> Vec<UnparkReply> {
    let jobs: Vec<_> = jobs.iter().map(|(name, of)| (key(name), id(of))).collect();
    lab.step(&Unpark { jobs: jobs.clone() }).await.unwrap()
}

/// All parked jobs, read in pages of about this size.
async fn parked(lab: &Lab, size: usize) -> BTreeMap<JobKey, Parked> {
    let mut all = BTreeMap::new();
    let mut cursor = Some(0);
    while let Some(at) = cursor {
        let page = lab.read(&ListParked { cursor: at, limit: size }).await.unwrap();
        all.extend(page.jobs.into_iter().map(|job| (job.key.clone(), job)));
        cursor = page.next;
    }
    all
}

async fn an_unparked_job_starts_anew(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    lab.run("k", "node1.k", worker).await;
    lab.release("k", worker, ReleaseMode::Refuse).await;
    lab.run_again("k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    let before = lab.record("k").await.unwrap();
    assert_eq!((before.attempts, before.strikes), (1, 1));
    lab.backend.advance(5_000).await;
    assert_eq!(unpark(&lab, &[("k", "node1.k")]).await, [UnparkReply::Queued]);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.owner, record.token), (JobState::Queued, None, before.token));
    assert_eq!((record.attempts, record.strikes, record.since), (0, 0, lab.backend.now()));
    assert_eq!((record.id, record.begun), (before.id, before.begun));
    assert_eq!(lab.score("queue", "k").await, Some(lab.backend.now() + 2_000));
    let dump = lab.backend.dump().await;
    assert!(dump.get("parked").is_none() && dump.get("errors").is_none() && dump.get("owners").is_none());
    assert_eq!(lab.starts().await[0].1, [(key("k"), 0)]);
    lab.run_again("k", worker).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 1);
}

async fn an_unpark_may_be_repeated(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    park(&lab, worker, "k", "boom").await;
    let twice = [("k", "node1.k"), ("k", "node1.k")];
    assert_eq!(unpark(&lab, &twice).await, [UnparkReply::Queued, UnparkReply::Lives]);
    let before = lab.backend.dump().await;
    assert_eq!(unpark(&lab, &twice).await, [UnparkReply::Lives; 2]);
    assert_eq!(lab.backend.dump().await, before);
}

async fn only_the_dispatch_that_was_named_is_unparked(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    park(&lab, worker, "parked", "boom").await;
    lab.run("running", "node1.running", worker).await;
    lab.dispatch("queued", "node1.queued").await;
    let before = lab.backend.dump().await;
    let jobs = [
        ("parked", "node1.other"),
        ("running", "node1.running"),
        ("queued", "node1.queued"),
        ("queued", "node1.other"),
        ("absent", "node1.absent"),
    ];
    let (absent, lives) = (UnparkReply::Absent, UnparkReply::Lives);
    assert_eq!(unpark(&lab, &jobs).await, [absent, lives, lives, absent, absent]);
    assert_eq!(unpark(&lab, &[]).await, []);
    assert_eq!(lab.backend.dump().await, before);
}

async fn an_unparked_job_has_kept_its_notifications(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    park(&lab, worker, "k", "boom").await;
    assert_eq!(lab.notify("k", None, "body").await, NotifyReply::Kept);
    unpark(&lab, &[("k", "node1.k")]).await;
    lab.route("k", worker).await;
    assert!(matches!(lab.begin("k", worker).await, BeginReply::Begun(BegunJob { waiting: true, .. })));
    let taken = lab.take("k", worker, lab.token("k").await, 0).await.unwrap();
    assert_eq!(taken.bodies, ["body"]);
}

async fn a_stopping_pool_unparks_nothing_and_a_closing_one_does(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    for name in ["a", "b"] {
        park(&lab, worker, name, "boom").await;
    }
    let closing = ShutdownMode::Closing(std::time::Duration::from_secs(10));
    lab.step(&ShutDown { by: node("node1"), mode: closing }).await.unwrap();
    assert_eq!(unpark(&lab, &[("a", "node1.a")]).await, [UnparkReply::Queued]);
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    let refusal = lab.refused(lab.step(&Unpark { jobs: vec![(key("b"), id("node1.b"))] })).await;
    assert_eq!(refusal, Refusal::ShuttingDown);
}

async fn a_recovering_pool_unparks(kind: Kind) {
    let (mut lab, worker) = strict(kind).await;
    park(&lab, worker, "k", "boom").await;
    let old = lab.inc;
    lab.recover().await;
    let refusal = lab.refused(lab.store().run(old, &Unpark { jobs: vec![(key("k"), id("node1.k"))] })).await;
    assert_eq!(refusal, Refusal::StaleIncarnation(lab.inc));
    let jobs = [("k", "node1.other"), ("k", "node1.k"), ("gone", "node1.gone")];
    let replies = [UnparkReply::Absent, UnparkReply::Queued, UnparkReply::Recovering];
    assert_eq!(unpark(&lab, &jobs).await, replies);
}

async fn parked_jobs_are_listed_with_their_errors(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    park(&lab, worker, "a", "no route").await;
    let at = lab.backend.now();
    lab.backend.advance(10).await;
    park(&lab, worker, "b", "").await;
    lab.run("running", "node1.running", worker).await;
    let parked = parked(&lab, 10).await;
    let seen: Vec<_> = parked
        .values()
        .map(|job| (job.key.clone(), job.record.as_ref().unwrap().since, job.error.as_str()))
        .collect();
    assert_eq!(seen, [(key("a"), at, "no route"), (key("b"), at + 10, "")]);
    assert_eq!(parked[&key("a")].record, lab.record("a").await);
}

async fn many_parked_jobs_are_listed_in_pages(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    let names: Vec<_> = (0..300).map(|i| format!("k{i}")).collect();
    for names in names.chunks(100) {
        let items: Vec<_> = names.iter().map(|name| lab.item(name, &format!("node1.{name}"))).collect();
        lab.dispatch_all(&items).await;
        let keys: Vec<_> = names.iter().map(String::as_str).collect();
        lab.route_all(&keys, Some(worker)).await;
        let token = lab.token(keys[0]).await;
        let jobs: Vec<_> = names.iter().map(|name| (key(name), token)).collect();
        lab.store().begin_one(lab.inc, worker, &[], &jobs).await.unwrap();
        let items: Vec<_> = names.iter().map(|name| release(name, token, ReleaseMode::Fail)).collect();
        lab.step(&Release { worker, finished: Vec::new(), items }).await.unwrap();
    }
    assert_eq!(parked(&lab, 10).await.len(), 300);
    let first = lab.read(&ListParked { cursor: 0, limit: 10 }).await.unwrap();
    assert!(first.next.is_some() && first.jobs.len() < 300);
}

async fn a_parked_jobs_error_ends_between_two_characters(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    park(&lab, worker, "k", &format!("x{}", "ü".repeat(600))).await;
    assert_eq!(parked(&lab, 10).await[&key("k")].error, format!("x{}", "ü".repeat(511)));
}

async fn a_damaged_record_is_listed_and_not_unparked(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    for name in ["bad", "good"] {
        park(&lab, worker, name, "boom").await;
    }
    lab.backend.write_record(&key("bad"), b"2|P||0|0|0|1|node1.bad|1||0|").await;
    let before = lab.field("jobs", "bad").await;
    let seen = parked(&lab, 10).await;
    assert_eq!((seen[&key("bad")].record.clone(), seen[&key("bad")].error.as_str()), (None, "boom"));
    let jobs = [("bad", "node1.bad"), ("good", "node1.good")];
    assert_eq!(unpark(&lab, &jobs).await, [UnparkReply::Bad, UnparkReply::Queued]);
    assert_eq!(lab.field("jobs", "bad").await, before);
}

/// A job that failed, and waits for a second.
async fn pause(lab: &Lab, worker: WorkerId, name: &str, mode: ReleaseMode, error: &str) {
    let token = lab.token(name).await;
    let delay = std::time::Duration::from_secs(1);
    let item = ReleaseItem { result: error.into(), delay, ..release(name, token, mode) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Queued);
}

async fn pauses(lab: &Lab, names: &[&str]) -> Vec<(Option<u64>, Option<String>)> {
    let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
    let pauses = lab.read(&ReadPauses { keys }).await.unwrap();
    pauses.into_iter().map(|pause| (pause.until, pause.error)).collect()
}

async fn a_job_that_failed_says_why_it_waits_and_until_when(lab: Lab, worker: WorkerId) {
    for (name, mode) in [("failed", ReleaseMode::Fail), ("refused", ReleaseMode::Refuse)] {
        lab.run(name, &format!("node1.{name}"), worker).await;
        pause(&lab, worker, name, mode, "no route").await;
    }
    lab.dispatch("queued", "node1.queued").await;
    lab.run("running", "node1.running", worker).await;
    let now = lab.backend.now();
    let names = ["failed", "refused", "queued", "running", "absent"];
    let error = Some("no route".to_owned());
    let soon = (Some(now + 2_000), None);
    assert_eq!(
        pauses(&lab, &names).await,
        [(Some(now + 1_000), error), (Some(now + 1_000), None), soon, (None, None), (None, None)]
    );
    assert_eq!(pauses(&lab, &[]).await, []);
}

async fn the_jobs_that_are_due_come_in_their_order(lab: Lab, worker: WorkerId) {
    assert_eq!(lab.read(&ReadDue { limit: 9 }).await.unwrap(), []);
    lab.dispatch("later", "node1.later").await;
    for name in ["b", "a", "runs"] {
        lab.run(name, &format!("node1.{name}"), worker).await;
    }
    pause(&lab, worker, "b", ReleaseMode::Fail, "no route").await;
    lab.backend.advance(1).await;
    pause(&lab, worker, "a", ReleaseMode::Fail, "no route").await;
    lab.backend.write_record(&key("later"), b"rubbish").await;
    let before = lab.backend.dump().await;
    let due = async |limit| {
        let jobs = lab.read(&ReadDue { limit }).await.unwrap();
        jobs.into_iter().map(|(key, record)| (key.to_string(), record.is_some())).collect::<Vec<_>>()
    };
    let all = [("b".to_owned(), true), ("a".to_owned(), true), ("later".to_owned(), false)];
    assert_eq!((due(9).await, due(2).await), (all.to_vec(), all[..2].to_vec()));
    assert_eq!(due(0).await, all[..1], "one at least");
    assert_eq!(lab.backend.dump().await, before, "it only reads");
}

async fn an_error_goes_with_the_next_begin_or_the_job(lab: Lab, worker: WorkerId) {
    for name in ["begun", "queued", "assigned"] {
        lab.run(name, &format!("node1.{name}"), worker).await;
        pause(&lab, worker, name, ReleaseMode::Fail, "no route").await;
    }
    lab.run_again("begun", worker).await;
    lab.route("assigned", worker).await;
    let errors: Vec<_> = pauses(&lab, &["begun", "queued", "assigned"]).await;
    let has_one: Vec<_> = errors.into_iter().map(|(_, error)| error.is_some()).collect();
    assert_eq!(has_one, [false, true, true]);
    for name in ["queued", "assigned"] {
        lab.stop(name, &format!("node1.{name}"), None).await;
    }
    assert!(lab.backend.dump().await.get("errors").is_none());
}

async fn a_sweep_counts_the_parked_jobs(kind: Kind) {
    let (lab, worker) = strict(kind).await;
    assert_eq!(lab.sweep().await.parked, 0);
    for name in ["a", "b"] {
        park(&lab, worker, name, "boom").await;
    }
    assert_eq!(lab.sweep().await.parked, 2);
}

async fn a_job_is_parked_at_once_and_its_attempt_does_not_count(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    lab.release("k", worker, ReleaseMode::Fail).await;
    let token = lab.run_again("k", worker).await;
    assert_eq!(lab.record("k").await.unwrap().attempts, 2);
    let item = ReleaseItem {
        result: "no text".into(),
        delay: Duration::from_secs(1),
        tell: Some(node("node1")),
        ..release("k", token, ReleaseMode::Park)
    };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Parked);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.attempts, record.owner), (JobState::Parked, 1, None));
    let listed = parked(&lab, 10).await;
    assert_eq!((&*listed[&key("k")].error, listed.len()), ("no text", 1));
    assert_eq!(lab.score("queue", "k").await, None);
    assert_eq!(unpark(&lab, &[("k", "node1.k")]).await, [UnparkReply::Queued]);
    lab.run_again("k", worker).await;
}

async fn a_park_undoes_neither_a_stop_nor_a_shutdown(lab: Lab, worker: WorkerId) {
    for name in ["stopped", "shut"] {
        lab.run(name, &format!("node1.{name}"), worker).await;
    }
    lab.stop("stopped", "node1.stopped", Some(worker)).await;
    assert_eq!(lab.release("stopped", worker, ReleaseMode::Park).await, ReleaseReply::Deleted);
    lab.step(&ShutDown { by: node("node1"), mode: ShutdownMode::DropQueued }).await.unwrap();
    assert_eq!(lab.release("shut", worker, ReleaseMode::Park).await, ReleaseReply::Deleted);
    assert!(parked(&lab, 10).await.is_empty());
}

async fn a_job_that_was_parked_at_once_is_parked_again_after_a_loss(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    lab.started("k", worker).await;
    // Its release is lost.
    lab.recover().await;
    let what = Attest::HandedOff(HandedOff {
        begun: Begun::Started,
        mode: ReleaseMode::Park,
        cause: tenure_pool::inspect::Cause::Failed,
        attempts: 0,
        delay: Duration::ZERO,
        error: "no text".into(),
    });
    let item = AttestItem { key: key("k"), token, id: id("node1.k"), what };
    assert_eq!(lab.attest(worker, item).await, AttestReply::Requeued);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.attempts, record.owner), (JobState::Parked, 0, None));
    assert_eq!(parked(&lab, 10).await[&key("k")].error, "no text");
}
