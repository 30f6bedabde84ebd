//! Ends that a run tells after a loss of data, when later runs of its dispatch may be hidden.

use bytes::Bytes;
use tenure_pool::inspect::Cause;
use tenure_pool::store::{
    Attest, AttestReply, DispatchReply, LaterPayload, LookUp, OpenNormal, ReadPayload, ReleaseItem,
    ReleaseMode, ReleaseReply, StopReply, Update,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::{Begun, JobState};
use tenure_protocol::model::settings::Settings;

use super::attesting::item;
use super::lab::{Kind, Lab, id, key, ms, release};
use super::updating::update;

scenarios! {
    a_later_run_outlives_the_end_of_an_earlier_one,
    a_later_run_outlives_the_release_of_an_earlier_one,
    a_later_run_of_a_job_without_a_record_goes_on,
    the_end_of_a_run_ends_that_and_earlier_ones,
    the_latest_end_of_a_run_counts,
    an_end_whatever_the_run_ends_later_ones,
    a_release_that_is_sure_ends_later_runs,
    the_end_of_a_run_spares_what_a_later_one_gave_up,
    a_stop_waits_for_later_runs_and_sticks,
    the_end_of_a_run_says_nothing_of_another_use_of_its_id,
    the_end_of_a_run_is_known_from_every_node,
    the_end_of_a_run_is_forgotten_with_its_dispatch,
}

/// It has ended with its first payload, and may have had another one.
fn ended() -> Attest {
    let unless = LaterPayload { than: 0, begun: Begun::Begun, rest: None };
    Attest::Ended { outcome: String::new(), unless: Some(unless) }
}

fn ended_for_good() -> Attest {
    Attest::Ended { outcome: String::new(), unless: None }
}

/// It runs with its second payload, and was accepted then.
fn runs_since(created: u64) -> Attest {
    let (begun, plan, payload) = (Begun::Begun, String::new(), Some(Bytes::from_static(b"two")));
    Attest::Runs { back: false, begun, attempts: 1, created, plan, generation: 1, payload }
}

/// A later token.
fn after(token: Token, by: u64) -> Token {
    Token(token.0 + by)
}

impl Lab {
    async fn says(&self, worker: WorkerId, name: &str, token: Token, what: Attest) -> AttestReply {
        self.attest(worker, item(name, token, &format!("node1.{name}"), what)).await
    }

    async fn runs(&self, worker: WorkerId, name: &str, token: Token) -> AttestReply {
        self.says(worker, name, token, runs_since(1)).await
    }

    /// The worker's first run of a job, which goes on with the second payload at another worker. The data go back to before
    /// that. Returns the tokens of both.
    async fn lose_the_later_run(&mut self, name: &str, first: WorkerId, second: WorkerId) -> (Token, Token) {
        let of = format!("node1.{name}");
        let token = self.run(name, &of, first).await;
        let saved = self.backend.save().await;
        self.step(&Update { turn: None, items: vec![update(name, &of, 0, Some(first), "two")] })
            .await
            .unwrap();
        let item = ReleaseItem { ran: Some(0), ..release(name, token, ReleaseMode::Delete) };
        assert_eq!(self.release_item(first, item).await, ReleaseReply::Queued);
        let later = self.run_again(name, second).await;
        self.backend.roll_back(&saved).await;
        self.recover().await;
        (token, later)
    }

    /// The worker runs the job with its second payload, and nothing is known of an end.
    async fn goes_on(&self, name: &str, worker: WorkerId, token: Token) {
        let record = self.record(name).await.unwrap();
        assert_eq!((record.state, record.owner, record.token), (JobState::Running, Some(worker), token));
        assert_eq!(record.generation(), 1);
        assert_eq!(self.read(&ReadPayload { key: key(name) }).await.unwrap().unwrap(), "two");
        let found = self.lookup(name, &format!("node1.{name}")).await;
        assert_eq!((found.ended, found.outcome), (false, None), "{name}");
        let dump = self.backend.dump().await;
        assert!(!dump.lines().iter().any(|line| line.starts_with("ended") && line.contains(name)), "{name}");
        assert!(!dump.lines().iter().any(|line| line.contains(&format!("#node1.{name}"))), "{name}");
        assert_eq!(self.dispatch(name, &format!("node1.{name}")).await, DispatchReply::Accepted, "as before");
    }
}

async fn a_later_run_outlives_the_end_of_an_earlier_one(kind: Kind) {
    for name in ["k", "!own"] {
        let mut lab = Lab::new(kind).await;
        let (first, second) = (lab.worker().await, lab.worker().await);
        let (token, later) = lab.lose_the_later_run(name, first, second).await;
        assert_eq!(lab.says(first, name, token, ended()).await, AttestReply::Ended);
        assert_eq!(lab.record(name).await, None);
        assert!(lab.lookup(name, &format!("node1.{name}")).await.ended);
        assert_eq!(lab.runs(second, name, later).await, AttestReply::Kept, "{name}");
        lab.goes_on(name, second, later).await;
        // Late and doubled reports.
        let before = lab.backend.dump().await;
        assert_eq!(lab.says(first, name, token, ended()).await, AttestReply::Nothing);
        assert_eq!(lab.runs(second, name, later).await, AttestReply::Kept);
        assert_eq!(lab.backend.dump().await, before, "{name}");
        assert!(lab.started(name, second).await);
        let found = lab.lookup(name, &format!("node1.{name}")).await;
        assert_eq!(found.outcome.as_deref(), (name == "!own").then_some("ok"));
    }
}

async fn a_later_run_outlives_the_release_of_an_earlier_one(kind: Kind) {
    for name in ["k", "!own"] {
        let mut lab = Lab::new(kind).await;
        let (first, second) = (lab.worker().await, lab.worker().await);
        let (token, later) = lab.lose_the_later_run(name, first, second).await;
        // Its begin is longer ago than ends are remembered.
        lab.backend.advance(60_000).await;
        let again = ReleaseItem { ran: Some(0), ..release(name, token, ReleaseMode::Delete) };
        assert_eq!(lab.release_item(first, again).await, ReleaseReply::Deleted);
        assert!(lab.lookup(name, &format!("node1.{name}")).await.ended);
        assert_eq!(lab.runs(first, name, token).await, AttestReply::MustStop, "its own run");
        assert_eq!(lab.release(name, first, ReleaseMode::Delete).await, ReleaseReply::Deleted);
        assert_eq!(lab.says(first, name, token, ended()).await, AttestReply::Ended, "as it says after that");
        assert_eq!(lab.runs(second, name, later).await, AttestReply::Kept, "{name}");
        lab.goes_on(name, second, later).await;
    }
}

async fn a_later_run_of_a_job_without_a_record_goes_on(kind: Kind) {
    for name in ["k", "!own"] {
        let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        lab.recover().await;
        let token = after(Token(worker.0), 5);
        assert_eq!(lab.says(worker, name, token, ended()).await, AttestReply::Ended);
        // A worker that has handed it on knows no more.
        assert_eq!(lab.runs(worker, name, after(token, 1)).await, AttestReply::Kept, "{name}");
        lab.goes_on(name, worker, after(token, 1)).await;
    }
}

async fn the_end_of_a_run_ends_that_and_earlier_ones(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let token = after(Token(worker.0), 5);
    for (name, run) in [("a", token), ("b", Token(token.0 - 1))] {
        assert_eq!(lab.says(worker, name, token, ended()).await, AttestReply::Ended);
        assert_eq!(lab.runs(worker, name, run).await, AttestReply::MustStop, "{name}");
        assert_eq!(lab.release(name, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
        assert!(lab.lookup(name, &format!("node1.{name}")).await.ended);
        // The end of an earlier run that is sure to stop says nothing of a later one.
        assert_eq!(lab.runs(worker, name, after(token, 1)).await, AttestReply::Kept, "{name}");
    }
}

async fn the_latest_end_of_a_run_counts(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let token = after(Token(worker.0), 5);
    for by in [1, 3, 2] {
        assert_eq!(lab.says(worker, "k", after(token, by), ended()).await, AttestReply::Ended);
    }
    assert_eq!(lab.runs(worker, "k", after(token, 3)).await, AttestReply::MustStop);
    assert_eq!(lab.release("k", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.runs(worker, "k", after(token, 4)).await, AttestReply::Kept);
}

async fn an_end_whatever_the_run_ends_later_ones(mut lab: Lab, worker: WorkerId) {
    lab.run_and_stop("stops", "node1.stops", worker).await;
    let stopped = lab.token("stops").await;
    // It has ended before the loss, and the data know that.
    lab.run("known", "node1.known", worker).await;
    lab.release("known", worker, ReleaseMode::Delete).await;
    lab.recover().await;
    let token = after(Token(worker.0), 100);
    let ends: [(&str, Token, &[Attest]); 5] = [
        ("alone", token, &[ended_for_good()]),
        ("first", token, &[ended_for_good(), ended()]),
        ("last", token, &[ended(), ended_for_good()]),
        ("known", token, &[ended()]),
        ("stops", stopped, &[ended()]),
    ];
    for (name, token, said) in ends {
        for what in said {
            assert_eq!(lab.says(worker, name, token, what.clone()).await, AttestReply::Ended, "{name}");
        }
        assert_eq!(lab.runs(worker, name, after(token, 1)).await, AttestReply::MustStop, "{name}");
    }
}

async fn a_release_that_is_sure_ends_later_runs(mut lab: Lab, worker: WorkerId) {
    for name in ["before", "whatever", "stops"] {
        lab.run(name, &format!("node1.{name}"), worker).await;
    }
    lab.stop("stops", "node1.stops", Some(worker)).await;
    for (name, ran) in [("before", Some(0)), ("whatever", None), ("stops", Some(0))] {
        if name == "whatever" {
            lab.recover().await;
        }
        let token = lab.token(name).await;
        let item = ReleaseItem { ran, ..release(name, token, ReleaseMode::Delete) };
        assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
    }
    for name in ["before", "whatever", "stops"] {
        let token = after(Token(worker.0), 100);
        assert_eq!(lab.runs(worker, name, token).await, AttestReply::MustStop, "{name}");
    }
}

async fn the_end_of_a_run_spares_what_a_later_one_gave_up(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let (token, later) = lab.lose_the_later_run("k", first, second).await;
    assert_eq!(lab.runs(second, "k", later).await, AttestReply::Kept);
    assert_eq!(lab.release("k", second, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    let before = lab.backend.dump().await;
    assert_eq!(lab.says(first, "k", token, ended()).await, AttestReply::Nothing);
    assert_eq!(lab.backend.dump().await, before);
    let record = lab.record("k").await.unwrap();
    assert_eq!((record.state, record.why().map(|why| why.cause)), (JobState::Queued, Some(Cause::Moved)));
}

async fn a_stop_waits_for_later_runs_and_sticks(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let token = after(Token(worker.0), 5);
    assert_eq!(lab.says(worker, "k", token, ended()).await, AttestReply::Ended);
    assert_eq!(lab.stop("k", "node1.k", None).await, StopReply::Recovering);
    lab.attend(worker).await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    assert_eq!(lab.stop("k", "node1.k", None).await, StopReply::Ended);
    lab.recover().await;
    assert_eq!(lab.stop("k", "node1.k", None).await, StopReply::Ended);
    assert_eq!(lab.runs(worker, "k", after(token, 1)).await, AttestReply::MustStop);
}

async fn the_end_of_a_run_says_nothing_of_another_use_of_its_id(kind: Kind) {
    let (mut lab, worker) =
        Lab::with_worker(kind, Settings { outcome_retention: ms(30_000), ..Settings::default() }).await;
    let token = lab.run("!x", "node1.!x", worker).await;
    lab.started("!x", worker).await;
    lab.backend.advance(29_000).await;
    lab.recover().await;
    assert_eq!(lab.says(worker, "!x", token, ended()).await, AttestReply::Ended);
    lab.attend(worker).await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    // The outcome is forgotten, and the id is used again.
    lab.sweep_after(2_000).await;
    let used = lab.backend.now();
    let again = lab.run("!x", "node2.!x", worker).await;
    lab.stop("!x", "node2.!x", Some(worker)).await;
    assert_eq!(lab.release("!x", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    lab.recover().await;
    let said = item("!x", after(again, 1), "node2.!x", runs_since(used));
    assert_eq!(lab.attest(worker, said).await, AttestReply::MustStop);
}

async fn the_end_of_a_run_is_known_from_every_node(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let token = after(Token(worker.0), 5);
    assert_eq!(lab.says(worker, "!own", token, ended()).await, AttestReply::Ended);
    let said = item("!own", after(token, 1), "node2.!own", runs_since(1));
    assert_eq!(lab.attest(worker, said).await, AttestReply::Kept);
    assert_eq!(lab.lookup("!own", "node2.!own").await.outcome, None);
}

async fn the_end_of_a_run_is_forgotten_with_its_dispatch(mut lab: Lab, worker: WorkerId) {
    lab.run("released", "node1.released", worker).await;
    lab.recover().await;
    let token = lab.token("released").await;
    let item = ReleaseItem { ran: Some(0), ..release("released", token, ReleaseMode::Delete) };
    assert_eq!(lab.release_item(worker, item).await, ReleaseReply::Deleted);
    assert_eq!(lab.says(worker, "said", token, ended()).await, AttestReply::Ended);
    let at = lab.backend.now();
    for name in ["released", "said"] {
        let field = format!("#node1.{name}");
        assert_eq!(lab.field("outcomes", &field).await, Some(format!("{token}|{at}")));
        assert_eq!(lab.score("ended", &field).await, Some(at + 30_000));
        assert_eq!(lab.score("ended", &format!("node1.{name}")).await, Some(at + 30_000));
    }
    lab.attend(worker).await;
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), None);
    lab.sweep_after(29_999).await;
    assert!(lab.field("outcomes", "#node1.said").await.is_some());
    lab.sweep_after(1).await;
    let dump = lab.backend.dump().await;
    assert_eq!((dump.get("outcomes"), dump.get("ended")), (None, None));
    assert!(
        !lab.read(&LookUp { items: vec![(key("said"), Some(id("node1.said")))] }).await.unwrap()[0].ended
    );
}
