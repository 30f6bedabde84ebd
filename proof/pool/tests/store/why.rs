//! Why a job is where it is: the reason in its record, and the steps that write it.

use tenure_pool::inspect::Cause;
use tenure_pool::store::{
    Attest, AttestReply, HandedOff, ReleaseItem, ReleaseMode, ReleaseReply, Steer, SteerReply, Unpark,
    Update, UpdateReply, Way,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::{Begun, JobState};
use tenure_protocol::model::settings::Settings;

use super::attesting::{item, runs};
use super::lab::{Kind, Lab, id, key, ms, release};
use super::steering::steer;
use super::updating::update;

scenarios! {
    a_job_that_starts_and_runs_has_no_reason,
    a_release_says_why_and_whose_the_job_was,
    a_job_with_a_later_payload_says_so,
    a_reason_stays_until_the_next_one,
    a_job_of_a_lost_worker_says_so,
    an_assignment_that_nobody_began_says_so,
    an_unparked_job_knows_where_it_failed,
    a_steered_job_says_so,
    an_attested_job_says_so,
    a_run_that_the_data_know_has_no_new_reason,
    a_job_that_its_worker_does_not_have_says_so,
    a_hand_off_before_a_loss_says_why,
    a_refusal_keeps_its_reason_until_the_next_one,
    a_refusal_is_kept_in_bounds,
    fields_behind_the_reason_are_kept,
}

type Reason = Option<(Cause, Option<WorkerId>)>;

impl Lab {
    pub(crate) async fn why(&self, name: &str) -> Reason {
        self.record(name).await.unwrap().why().map(|why| (why.cause, why.former))
    }

    /// Gives the job another payload.
    async fn give_payload(&self, name: &str) {
        let record = self.record(name).await.unwrap();
        let item = update(name, &record.id.to_string(), 0, record.owner, "other");
        let replies = self.step(&Update { turn: None, items: vec![item] }).await.unwrap();
        assert_eq!(replies, [UpdateReply::Kept(1)]);
    }

    async fn steer_now(&self, name: &str, way: Way) {
        let record = self.record(name).await.unwrap();
        let reply = self.step(&Steer { items: vec![steer(name, &record, way)] }).await.unwrap().remove(0);
        assert!(matches!(reply, SteerReply::Queued | SteerReply::Parked), "{reply:?}");
    }

    async fn give_up(&self, name: &str, worker: WorkerId, mode: ReleaseMode, cause: Cause) -> ReleaseReply {
        let item = ReleaseItem { cause, ..release(name, self.token(name).await, mode) };
        self.release_item(worker, item).await
    }
}

async fn a_job_that_starts_and_runs_has_no_reason(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    lab.started("k", worker).await;
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.why(), record.tail.as_str()), (None, ""));
}

async fn a_release_says_why_and_whose_the_job_was(kind: Kind) {
    let (lab, worker) = Lab::with_worker(kind, Settings { max_attempts: 2, ..Settings::default() }).await;
    let cases = [
        (ReleaseMode::HandOff, Cause::Moved),
        (ReleaseMode::HandOff, Cause::Drained),
        (ReleaseMode::HandOff, Cause::Restarted),
        (ReleaseMode::GiveBack, Cause::Bounced),
        (ReleaseMode::Refuse, Cause::Refused),
        (ReleaseMode::Elsewhere { workers: 1 }, Cause::Refused),
        (ReleaseMode::Fail, Cause::Failed),
        (ReleaseMode::Park, Cause::Parked),
    ];
    for (at, (mode, cause)) in cases.into_iter().enumerate() {
        let name = format!("k{at}");
        lab.run(&name, &format!("node1.{name}"), worker).await;
        lab.give_up(&name, worker, mode, cause).await;
        assert_eq!(lab.why(&name).await, Some((cause, Some(worker))), "{mode:?}");
    }
    lab.run("full", "node1.full", worker).await;
    lab.give_up("full", worker, ReleaseMode::Fail, Cause::Failed).await;
    lab.run_again("full", worker).await;
    assert_eq!(lab.give_up("full", worker, ReleaseMode::Fail, Cause::Failed).await, ReleaseReply::Parked);
    assert_eq!(lab.why("full").await, Some((Cause::Failed, Some(worker))));
}

async fn a_job_with_a_later_payload_says_so(lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    lab.give_payload("k").await;
    let item = ReleaseItem { ran: Some(0), ..release("k", token, ReleaseMode::Delete) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Queued);
    assert_eq!(lab.why("k").await, Some((Cause::Updated, Some(worker))));
    assert_eq!(lab.record("k").await.unwrap().generation(), 1);
}

async fn a_reason_stays_until_the_next_one(lab: Lab, first: WorkerId, second: WorkerId) {
    lab.run("k", "node1.k", first).await;
    lab.give_up("k", first, ReleaseMode::HandOff, Cause::Moved).await;
    lab.run_again("k", second).await;
    lab.started("k", second).await;
    lab.give_payload("k").await;
    assert_eq!(lab.why("k").await, Some((Cause::Moved, Some(first))));
    lab.give_up("k", second, ReleaseMode::HandOff, Cause::Drained).await;
    assert_eq!(lab.why("k").await, Some((Cause::Drained, Some(second))));
    assert_eq!(lab.record("k").await.unwrap().generation(), 1);
}

async fn a_job_of_a_lost_worker_says_so(lab: Lab, worker: WorkerId) {
    lab.run("running", "node1.a", worker).await;
    lab.assign("assigned", "node1.b", worker).await;
    lab.leave(worker).await;
    for name in ["running", "assigned"] {
        assert_eq!(lab.why(name).await, Some((Cause::Lost, Some(worker))), "{name}");
    }
}

async fn an_assignment_that_nobody_began_says_so(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.k", worker).await;
    lab.sweep_after(60_000).await;
    assert_eq!(lab.why("k").await, Some((Cause::NotBegun, Some(worker))));
    // An announcement that is repeated is no reason.
    lab.sweep_after(60_000).await;
    assert_eq!(lab.why("k").await, Some((Cause::NotBegun, Some(worker))));
}

async fn an_unparked_job_knows_where_it_failed(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    lab.give_up("k", worker, ReleaseMode::Park, Cause::Failed).await;
    lab.step(&Unpark { jobs: vec![(key("k"), id("node1.k"))] }).await.unwrap();
    assert_eq!(lab.why("k").await, Some((Cause::Unparked, Some(worker))));
}

async fn a_steered_job_says_so(lab: Lab, worker: WorkerId) {
    for way in [Way::Home, Way::Elsewhere] {
        let name = format!("k{way:?}");
        lab.dispatch(&name, &format!("node1.{name}")).await;
        lab.route(&name, worker).await;
        lab.steer_now(&name, way).await;
        assert_eq!(lab.why(&name).await, Some((Cause::Bounced, Some(worker))), "{way:?}");
    }
    lab.dispatch("new", "node1.new").await;
    lab.steer_now("new", Way::Park).await;
    assert_eq!(lab.why("new").await, Some((Cause::Parked, None)));
    lab.steer_now("new", Way::Now).await;
    assert_eq!(lab.why("new").await, Some((Cause::Unparked, None)));
    lab.run("failed", "node1.failed", worker).await;
    let item = ReleaseItem {
        delay: ms(60_000),
        result: "no".into(),
        ..release("failed", lab.token("failed").await, ReleaseMode::Fail)
    };
    lab.release_item(worker, item).await;
    lab.steer_now("failed", Way::Now).await;
    assert_eq!(lab.why("failed").await, Some((Cause::Failed, Some(worker))), "it still waits for that");
}

async fn an_attested_job_says_so(mut lab: Lab, worker: WorkerId) {
    lab.dispatch("back", "node1.a").await;
    let token = lab.run("gone", "node1.b", worker).await;
    lab.backend.lose("jobs").await;
    lab.recover().await;
    let Attest::Runs { begun, attempts, created, plan, generation, .. } = runs() else { panic!() };
    let payload = Some(bytes::Bytes::from_static(b"payload"));
    let all = Attest::Runs { back: false, begun, attempts, created, plan, generation, payload };
    assert_eq!(lab.attest(worker, item("gone", token, "node1.b", all)).await, AttestReply::Kept);
    assert_eq!(lab.why("gone").await, Some((Cause::Attested, None)));
}

async fn a_run_that_the_data_know_has_no_new_reason(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let token = lab.run("k", "node1.k", first).await;
    lab.recover().await;
    lab.attest(first, item("k", token, "node1.k", runs())).await;
    assert_eq!(lab.why("k").await, None);
    // The data went back to a former owner.
    lab.attest(second, item("k", Token(token.0 + 5), "node1.k", runs())).await;
    assert_eq!(lab.why("k").await, Some((Cause::Attested, Some(first))));
}

async fn a_job_that_its_worker_does_not_have_says_so(mut lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    lab.recover().await;
    lab.attest(worker, item("other", Token(1), "node1.other", runs())).await;
    lab.attend(worker).await;
    assert_eq!(lab.why("k").await, Some((Cause::Missing, Some(worker))));
}

async fn a_hand_off_before_a_loss_says_why(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("k", "node1.k", worker).await;
    lab.recover().await;
    let what = Attest::HandedOff(HandedOff {
        begun: Begun::Begun,
        mode: ReleaseMode::HandOff,
        cause: Cause::Drained,
        attempts: 0,
        delay: ms(0),
        error: String::new(),
    });
    assert_eq!(lab.attest(worker, item("k", token, "node1.k", what)).await, AttestReply::Requeued);
    assert_eq!(lab.why("k").await, Some((Cause::Drained, Some(worker))));
}

async fn refuse(lab: &Lab, worker: WorkerId, mode: ReleaseMode, cause: Cause, reason: &str) {
    let item = ReleaseItem { cause, result: reason.to_owned(), ..release("k", lab.token("k").await, mode) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Queued);
}

async fn a_refusal_keeps_its_reason_until_the_next_one(lab: Lab, first: WorkerId, second: WorkerId) {
    let refusal = async || lab.record("k").await.unwrap().refusal().map(str::to_owned);
    lab.run("k", "node1.k", first).await;
    for mode in [ReleaseMode::Refuse, ReleaseMode::Elsewhere { workers: 2 }] {
        refuse(&lab, first, mode, Cause::Refused, "no program").await;
        assert_eq!(refusal().await.as_deref(), Some("no program"), "{mode:?}");
        assert_eq!(lab.why("k").await, Some((Cause::Refused, Some(first))));
        lab.route("k", second).await;
        lab.sweep_after(60_000).await;
        assert_eq!((refusal().await, lab.why("k").await), (None, Some((Cause::NotBegun, Some(second)))));
        lab.run_again("k", first).await;
    }
    refuse(&lab, first, ReleaseMode::Refuse, Cause::Refused, "no program").await;
    lab.steer_now("k", Way::Park).await;
    assert_eq!((refusal().await, lab.why("k").await), (None, Some((Cause::Parked, Some(first)))));
    lab.steer_now("k", Way::Now).await;
    // Other reasons are no refusals, and the next refusal takes the place of the former one.
    for (mode, cause, reason, kept) in [
        (ReleaseMode::Refuse, Cause::Moved, "no program", None),
        (ReleaseMode::Fail, Cause::Failed, "no route", None),
        (ReleaseMode::Elsewhere { workers: 2 }, Cause::Refused, "no room", Some("no room")),
        (ReleaseMode::Elsewhere { workers: 2 }, Cause::Refused, "no route", Some("no route")),
    ] {
        lab.run_again("k", first).await;
        refuse(&lab, first, mode, cause, reason).await;
        assert_eq!(refusal().await.as_deref(), kept, "{mode:?} {cause:?}");
        assert_eq!(lab.record("k").await.unwrap().tail.contains("no"), kept.is_some(), "{mode:?} {cause:?}");
    }
    // A full worker gives no reason, and takes none away.
    lab.run_again("k", second).await;
    assert_eq!(refusal().await, None, "a job that runs was not refused");
    refuse(&lab, second, ReleaseMode::Elsewhere { workers: 2 }, Cause::Refused, "").await;
    assert_eq!(refusal().await.as_deref(), Some("no route"));
    assert_eq!(lab.why("k").await, Some((Cause::Refused, Some(first))));
    lab.run_again("k", first).await;
    refuse(&lab, first, ReleaseMode::HandOff, Cause::Moved, "").await;
    lab.run_again("k", second).await;
    refuse(&lab, second, ReleaseMode::Refuse, Cause::Refused, "").await;
    assert_eq!((refusal().await, lab.why("k").await), (None, Some((Cause::Refused, Some(second)))));
}

async fn a_refusal_is_kept_in_bounds(lab: Lab, worker: WorkerId) {
    lab.run("k", "node1.k", worker).await;
    lab.give_payload("k").await;
    let long = "é".repeat(600);
    for (reason, kept) in [("a|b\nc\u{7f}d", "a b c d"), (&*long, &*"é".repeat(100)), (" ", " ")] {
        refuse(&lab, worker, ReleaseMode::Refuse, Cause::Refused, reason).await;
        let record = lab.record("k").await.unwrap();
        assert_eq!((record.refusal(), record.generation()), (Some(kept), 1));
        lab.run_again("k", worker).await;
    }
    lab.started("k", worker).await;
    assert_eq!(lab.release("k", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
}

async fn fields_behind_the_reason_are_kept(lab: Lab, worker: WorkerId) {
    for (at, tail) in ["|3|m4|new|er", "||x5|x", "|", "||"].into_iter().enumerate() {
        let name = format!("k{at}");
        lab.run(&name, &format!("node1.{name}"), worker).await;
        let record = lab.record(&name).await.unwrap();
        lab.backend.write_record(&key(&name), format!("{record}{tail}").as_bytes()).await;
        assert_eq!(lab.record(&name).await.unwrap().state, JobState::Running);
    }
    lab.leave(worker).await;
    for (at, after) in ["|3|lW|new|er", "||lW|x", "||lW", "||lW"].into_iter().enumerate() {
        let record = lab.record(&format!("k{at}")).await.unwrap();
        assert_eq!(record.tail, after.replace('W', &worker.to_string()));
    }
}
