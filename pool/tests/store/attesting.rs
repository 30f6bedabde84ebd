//! What living workers say in phase R, and what comes of it.

use bytes::Bytes;
use tenure_pool::id::{Token, WorkerId};
use tenure_pool::member::Member;
use tenure_pool::record::{Begun, JobState};
use tenure_pool::store::{Attest, AttestItem, AttestReply, Refusal};

use super::lab::{Kind, Lab, id, key};

scenarios! {
    a_running_job_is_kept,
    a_runner_of_lost_data_gets_a_record,
    what_is_not_attested_is_queued,
    the_pool_waits_for_members_until_they_have_attested,
    attestations_belong_to_phase_r,
}

const MEMBER: &str = "U|0|10000|nonce0|node1|";

fn member(entry: &str) -> Member {
    Member::parse(entry.as_bytes()).unwrap()
}

fn item(name: &str, token: Token, id_: &str, what: Attest) -> AttestItem {
    AttestItem { key: key(name), token, id: id(id_), what }
}

/// It runs, begun once; without its payload.
fn runs() -> Attest {
    let (plan, payload) = (String::new(), None);
    Attest::Runs { begun: Begun::Begun, attempts: 1, created: super::backend::START, plan, payload }
}

fn with_payload(what: Attest, payload: &'static str) -> Attest {
    match what {
        Attest::Runs { begun, attempts, created, plan, .. } => {
            let payload = Some(Bytes::from_static(payload.as_bytes()));
            Attest::Runs { begun, attempts, created, plan, payload }
        }
        other => other,
    }
}

impl Lab {
    async fn attest(&self, worker: WorkerId, item: AttestItem) -> AttestReply {
        self.store().attest(self.inc, worker, &member(MEMBER), &[item]).await.unwrap()[0]
    }

    /// The worker's last word.
    async fn attend(&self, worker: WorkerId) {
        assert_eq!(self.store().attend(self.inc, worker, None, 100).await.unwrap(), None);
    }
}

async fn a_running_job_is_kept(kind: Kind) {
    let mut lab = Lab::new(kind).await;
    let worker = lab.worker().await;
    let token = lab.run("a", "node1.a", worker).await;
    lab.recover().await;
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    lab.attend(worker).await;
    assert_eq!(lab.store().open_normal(lab.inc).await.unwrap(), None);
    let record = lab.record("a").await.unwrap();
    assert_eq!((record.state, record.owner, record.token), (JobState::Running, Some(worker), token));
    assert_eq!(record.attested, Some(lab.inc));
}

async fn a_runner_of_lost_data_gets_a_record(kind: Kind) {
    let mut lab = Lab::new(kind).await;
    let worker = lab.worker().await;
    let token = lab.run("a", "node1.a", worker).await;
    lab.backend.wipe().await;
    lab.bootstrap().await;
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::SendPayload);
    assert_eq!(lab.record("a").await, None);
    let said = item("a", token, "node1.a", with_payload(runs(), "payload"));
    assert_eq!(lab.attest(worker, said).await, AttestReply::Kept);
    let record = lab.record("a").await.unwrap();
    assert_eq!((record.state, record.owner, record.token), (JobState::Running, Some(worker), token));
    assert_eq!(lab.store().payload(&key("a")).await.unwrap().unwrap(), "payload");
    assert_eq!(lab.field("w", &worker.to_string()).await.as_deref(), Some(MEMBER));
    lab.attend(worker).await;
    assert_eq!(lab.store().open_normal(lab.inc).await.unwrap(), None);
}

async fn what_is_not_attested_is_queued(kind: Kind) {
    let mut lab = Lab::new(kind).await;
    let worker = lab.worker().await;
    let token = lab.run("kept", "node1.a", worker).await;
    lab.run("lost", "node1.b", worker).await;
    lab.recover().await;
    assert_eq!(lab.attest(worker, item("kept", token, "node1.a", runs())).await, AttestReply::Kept);
    lab.attend(worker).await;
    assert_eq!(lab.record("kept").await.unwrap().state, JobState::Running);
    assert_eq!(lab.record("lost").await.unwrap().state, JobState::Queued);
}

async fn the_pool_waits_for_members_until_they_have_attested(kind: Kind) {
    let mut lab = Lab::new(kind).await;
    let (first, second) = (lab.worker().await, lab.worker().await);
    lab.recover().await;
    assert_eq!(lab.store().open_normal(lab.inc).await.unwrap(), Some(first));
    lab.attend(first).await;
    assert_eq!(lab.store().open_normal(lab.inc).await.unwrap(), Some(second));
    lab.attend(second).await;
    assert_eq!(lab.field("m", &format!("a:{first}")).await, Some(lab.inc.to_string()));
    assert_eq!(lab.store().open_normal(lab.inc).await.unwrap(), None);
    assert_eq!(lab.field("m", &format!("a:{first}")).await, None);
    lab.recover().await;
    assert_eq!(lab.store().open_normal(lab.inc).await.unwrap(), Some(first), "each recovery anew");
}

async fn attestations_belong_to_phase_r(kind: Kind) {
    let mut lab = Lab::new(kind).await;
    let worker = lab.worker().await;
    let (inc, unknown) = (lab.inc, WorkerId(worker.0 + 1));
    let said = [item("a", Token(1), "node1.a", with_payload(runs(), ""))];
    let store = lab.store();
    assert_eq!(lab.refused(store.attest(inc, worker, &member(MEMBER), &said)).await, Refusal::Normal);
    assert_eq!(lab.refused(store.attend(inc, worker, None, 10)).await, Refusal::Normal);
    lab.recover().await;
    let (store, inc) = (lab.store(), lab.inc);
    store.expire(inc, worker, None).await.unwrap();
    assert_eq!(lab.refused(store.attest(inc, worker, &member(MEMBER), &said)).await, Refusal::Fenced);
    assert_eq!(lab.refused(store.attend(inc, worker, None, 10)).await, Refusal::Fenced);
    assert_eq!(lab.refused(store.attend(inc, unknown, None, 10)).await, Refusal::Fenced);
}
