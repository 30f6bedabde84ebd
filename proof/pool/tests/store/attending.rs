//! The workers' final reports in phase R, and the end of the phase.

use tenure_pool::store::{Attend, AttestJobs, AttestReply, OpenNormal, Refusal, ReleaseMode};
use tenure_protocol::model::id::{JobKey, Token, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::Settings;

use super::attesting::{item, member, runs};
use super::lab::{Kind, Lab, key};
use super::single::Single as _;

scenarios! {
    what_is_not_attested_is_queued,
    what_is_not_attested_and_was_to_end_is_gone,
    unattested_jobs_with_too_many_attempts_are_parked,
    pages_follow_each_other,
    an_index_without_a_record_is_mended,
    the_pool_waits_for_members_until_they_have_attested,
    attestations_belong_to_phase_r,
}

async fn what_is_not_attested_is_queued(mut lab: Lab, worker: WorkerId, other: WorkerId) {
    let token = lab.run("kept", "node1.a", worker).await;
    let lost = lab.run("lost", "node1.b", worker).await;
    lab.run("others", "node1.c", other).await;
    lab.assign("assigned", "node1.d", worker).await;
    let assigned = lab.token("assigned").await;
    lab.backend.advance(600_000).await;
    lab.recover().await;
    lab.starts().await;
    lab.attest(worker, item("kept", token, "node1.a", runs())).await;
    let kept = [lab.record("kept").await, lab.record("others").await];
    for _ in 0..2 {
        lab.attend(worker).await;
    }
    assert_eq!([lab.record("kept").await, lab.record("others").await], kept);
    for (name, attempts, token) in [("lost", 1, lost), ("assigned", 0, assigned)] {
        let record = lab.record(name).await.unwrap();
        assert_eq!(record.token, token, "only an assignment changes it");
        assert_eq!((record.state, record.owner, record.attempts), (JobState::Queued, None, attempts));
        assert_eq!(lab.score("owners", &format!("{worker}:{name}")).await, None);
        let due = lab.backend.now() + 2_000;
        assert_eq!(lab.score("queue", name).await, Some(due));
    }
    let starts: Vec<_> = lab.starts().await.into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [vec![(key("assigned"), 0), (key("lost"), 0)]]);
    assert_eq!(lab.queued().await, 1);
    // An attestation in an earlier incarnation does not count.
    lab.recover().await;
    lab.attend(worker).await;
    assert_eq!(lab.record("kept").await.unwrap().state, JobState::Queued);
}

async fn what_is_not_attested_and_was_to_end_is_gone(mut lab: Lab, worker: WorkerId) {
    lab.run_and_stop("a", "node1.!a", worker).await;
    lab.recover().await;
    lab.attend(worker).await;
    assert_eq!(lab.record("a").await, None);
    assert_eq!(lab.lookup("a", "node1.!a").await.outcome.as_deref(), Some("stopped"));
}

async fn unattested_jobs_with_too_many_attempts_are_parked(kind: Kind) {
    let settings = Settings { max_attempts: 2, ..Settings::default() };
    let (mut lab, worker) = Lab::with_worker(kind, settings).await;
    for name in ["a", "stable"] {
        lab.run(name, &format!("node1.{name}"), worker).await;
        lab.release(name, worker, ReleaseMode::Fail).await;
    }
    lab.run_again("stable", worker).await;
    lab.backend.advance(600_000).await;
    lab.run_again("a", worker).await;
    lab.recover().await;
    lab.attend(worker).await;
    assert_eq!(lab.record("a").await.unwrap().state, JobState::Parked);
    assert_eq!(
        lab.field("errors", "a").await.as_deref(),
        Some("its owner did not have it after a loss of data")
    );
    let stable = lab.record("stable").await.unwrap();
    assert_eq!((stable.state, stable.attempts), (JobState::Queued, 1), "it had run long enough");
}

async fn pages_follow_each_other(mut lab: Lab, worker: WorkerId) {
    let mut tokens = Vec::new();
    for name in ["a", "b", "c", "d"] {
        tokens.push(lab.run(name, &format!("node1.{name}"), worker).await);
    }
    lab.recover().await;
    lab.attest(worker, item("b", tokens[1], "node1.b", runs())).await;
    let page =
        async |after: Option<JobKey>| lab.step(&Attend { worker, after: after.clone(), limit: 2 }).await;
    let state = async |name: &str| lab.record(name).await.unwrap().state;
    assert_eq!(page(None).await.unwrap(), Some(key("b")));
    assert_eq!([state("a").await, state("b").await], [JobState::Queued, JobState::Running]);
    assert_eq!(state("c").await, JobState::Running, "its page comes later");
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(worker));
    assert_eq!(page(Some(key("b"))).await.unwrap(), Some(key("d")));
    assert_eq!([state("c").await, state("d").await], [JobState::Queued, JobState::Queued]);
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(worker));
    assert_eq!(page(Some(key("d"))).await.unwrap(), None);
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
}

async fn an_index_without_a_record_is_mended(mut lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.run("others", "node1.a", other).await;
    lab.run("damaged", "node1.b", worker).await;
    lab.backend.write_record(&key("damaged"), b"2|R").await;
    for name in ["others", "absent"] {
        lab.backend.write_index(worker, &key(name)).await;
    }
    lab.recover().await;
    lab.attend(worker).await;
    for (name, left) in [("others", false), ("absent", false), ("damaged", true)] {
        assert_eq!(lab.score("owners", &format!("{worker}:{name}")).await.is_some(), left, "{name}");
    }
    assert_eq!(lab.record("others").await.unwrap().owner, Some(other));
}

async fn the_pool_waits_for_members_until_they_have_attested(
    mut lab: Lab,
    first: WorkerId,
    second: WorkerId,
) {
    lab.recover().await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(first));
    lab.attend(first).await;
    let before = lab.backend.dump().await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(second));
    assert_eq!(lab.backend.dump().await, before);
    lab.attend(second).await;
    for worker in [first, second] {
        assert_eq!(lab.field("pool", &format!("attested:{worker}")).await, Some(lab.inc.to_string()));
    }
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    for worker in [first, second] {
        assert_eq!(lab.field("pool", &format!("attested:{worker}")).await, None);
    }
    lab.recover().await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(first), "each recovery anew");
    lab.attend(first).await;
    lab.recover().await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(first), "also a second one at once");
    for worker in [first, second] {
        lab.store().expire_one(lab.inc, worker, Some(1)).await.unwrap();
    }
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    assert_eq!(lab.field("pool", &format!("attested:{first}")).await, None);
}

async fn attestations_belong_to_phase_r(mut lab: Lab, worker: WorkerId) {
    let (inc, unknown) = (lab.inc, WorkerId(worker.0 + 1));
    let said = vec![item("a", Token(1), "node1.a", runs())];
    let entry = member("U|0|10000|nonce0|node1|");
    let store = lab.store();
    for worker in [worker, unknown] {
        assert_eq!(
            lab.refused(store.run(inc, &AttestJobs { worker, member: entry.clone(), items: said.clone() }))
                .await,
            Refusal::Normal
        );
        assert_eq!(
            lab.refused(store.run(inc, &Attend { worker, after: None, limit: 10 })).await,
            Refusal::Normal
        );
    }
    lab.recover().await;
    let (store, inc) = (lab.store(), lab.inc);
    assert_eq!(
        lab.refused(store.run(inc, &Attend { worker: unknown, after: None, limit: 10 })).await,
        Refusal::Fenced
    );
    store.expire_one(inc, worker, None).await.unwrap();
    assert_eq!(
        lab.refused(store.run(inc, &AttestJobs { worker, member: entry.clone(), items: said.clone() })).await,
        Refusal::Fenced
    );
    assert_eq!(
        lab.refused(store.run(inc, &Attend { worker, after: None, limit: 10 })).await,
        Refusal::Fenced
    );
    assert_eq!(
        store.run(inc, &AttestJobs { worker: unknown, member: entry, items: said }).await.unwrap(),
        [AttestReply::SendPayload]
    );
}
