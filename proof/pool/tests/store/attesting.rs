//! The reports of living workers in phase R, and their effects.

use bytes::Bytes;
use tenure_pool::store::{
    Attend, Attest, AttestItem, AttestJobs, AttestReply, DispatchReply, HandedOff, NotifyReply, OpenNormal,
    ReadPayload, ReadState, Refusal, ReleaseMode, ReleaseReply, StopItem, StopReply, Unpark, UnparkReply,
};
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::member::Member;
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::model::settings::Settings;

use super::backend::START;
use super::lab::{Kind, Lab, id, key, ms, stop};

scenarios! {
    a_running_job_is_kept,
    a_runner_of_lost_data_gets_a_record,
    a_payload_that_was_lost_is_asked_for_and_written_again,
    a_runner_takes_back_a_job_that_rolled_back_to_the_queue,
    a_runner_takes_back_a_job_that_rolled_back_to_its_assignment,
    a_runner_takes_back_a_job_that_rolled_back_to_its_old_owner,
    a_runner_takes_back_a_job_that_rolled_back_to_parked,
    a_runner_under_a_lower_token_is_outranked,
    only_a_higher_token_outranks,
    what_nobody_owns_outranks_nobody,
    what_was_begun_later_outranks_an_earlier_dispatch,
    a_stop_sticks,
    a_stop_of_what_was_given_up_long_after_its_dispatch_sticks,
    a_stop_sticks_of_which_a_worker_that_gives_up_has_not_heard,
    a_job_that_ended_with_the_next_worker_is_not_taken_back,
    a_runner_whose_dispatch_has_ended_must_stop,
    a_runner_whose_own_id_has_ended_must_stop,
    a_runner_of_an_id_that_is_used_again_keeps_its_job,
    a_success_is_no_end,
    what_has_ended_pushes_out_nothing_that_was_accepted_since,
    a_dispatch_in_the_runners_place_has_ended,
    an_id_that_was_forgotten_is_known_again,
    an_id_of_a_caller_is_the_same_from_every_node,
    attested_tokens_are_never_minted_again,
    what_was_said_late_or_twice_changes_nothing,
    what_ended_is_gone_and_never_accepted_again,
    a_reported_end_under_a_callers_id_has_an_outcome,
    an_end_is_no_end_for_another_owner_or_dispatch,
    a_reported_hand_off_is_queued,
    a_handed_off_job_comes_back_in_its_last_state,
    what_was_handed_off_had_started,
    a_handed_off_job_without_a_record_is_gone_unless_it_ended,
    a_handed_off_job_that_was_stopped_is_gone,
    only_the_owners_word_hands_off,
    records_that_do_not_parse_are_left,
    items_of_one_call_see_each_other,
    a_worker_is_adopted_in_its_old_slot,
    bad_arguments_change_nothing,
    a_bad_item_hurts_no_other,
}

pub(super) const MEMBER: &str = "U|0|10000|nonce0|node1||1|";

pub(super) fn member(entry: &str) -> Member {
    Member::parse(entry.as_bytes()).unwrap()
}

pub(super) fn item(name: &str, token: Token, id_: &str, what: Attest) -> AttestItem {
    AttestItem { key: key(name), token, id: id(id_), what }
}

/// It runs, begun once; without its payload.
pub(super) fn runs() -> Attest {
    let (plan, payload) = (String::new(), None);
    Attest::Runs {
        back: false,
        begun: Begun::Begun,
        attempts: 1,
        created: START,
        plan,
        generation: 0,
        payload,
    }
}

/// The job has ended. No node gets the outcome of a caller's own id.
pub(super) fn ended() -> Attest {
    Attest::Ended { outcome: String::new(), unless: None }
}

/// The job was handed off, at once.
pub(super) fn handed_off() -> Attest {
    left(ReleaseMode::HandOff, 0, 0)
}

/// It was given up like this, with this many attempts, and must wait for this many ms.
fn left(mode: ReleaseMode, attempts: u32, delay: u64) -> Attest {
    Attest::HandedOff(HandedOff {
        begun: Begun::Begun,
        mode,
        cause: super::lab::cause_of(mode),
        attempts,
        delay: ms(delay),
        error: "boom".into(),
    })
}

/// The job runs, and the report has its payload.
fn all_of_it(begun: Begun, attempts: u32, plan: &str) -> Attest {
    let payload = Some(Bytes::from_static(b"payload"));
    Attest::Runs {
        back: false,
        begun,
        attempts,
        created: START - 5,
        plan: plan.to_owned(),
        generation: 0,
        payload,
    }
}

/// A job of another dispatch runs; with its payload.
pub(super) fn with_payload() -> Attest {
    all_of_it(Begun::Begun, 1, "")
}

impl Lab {
    pub(super) async fn attest(&self, worker: WorkerId, item: AttestItem) -> AttestReply {
        self.step(&AttestJobs { worker, member: member(MEMBER), items: vec![item] }).await.unwrap()[0]
    }

    /// The worker's final report.
    pub(super) async fn attend(&self, worker: WorkerId) {
        assert_eq!(self.step(&Attend { worker, after: None, limit: 100 }).await.unwrap(), None);
    }

    /// Makes a call that must not change anything.
    async fn idle(&self, worker: WorkerId, item: AttestItem) -> AttestReply {
        let before = self.backend.dump().await;
        let reply = self.attest(worker, item.clone()).await;
        assert_eq!(self.backend.dump().await, before, "{item:?} changed the state");
        reply
    }

    /// Checks that the worker owns the job in this state, in the record and in the indexes.
    async fn owns(&self, worker: WorkerId, name: &str, token: Token, state: JobState) -> Record {
        let record = self.record(name).await.unwrap();
        assert_eq!((record.state, record.owner, record.token), (state, Some(worker), token));
        assert_eq!(record.attested, Some(self.inc));
        let mut owners = 0;
        for lines in self.backend.dump().await.lines() {
            owners += usize::from(lines.starts_with("owners") && lines.contains(&format!(":{name}")));
        }
        assert_eq!(owners, 1);
        assert!(self.score("owners", &format!("{worker}:{name}")).await.is_some());
        assert_eq!(self.score("queue", name).await.is_some(), state == JobState::Stopping);
        assert_eq!(self.score("parked", name).await, None);
        assert!(self.field("payloads", name).await.is_some());
        record
    }

    /// Phase N, in the present incarnation.
    async fn open(&self, workers: &[WorkerId]) {
        for worker in workers {
            self.attend(*worker).await;
        }
        assert_eq!(self.step(&OpenNormal).await.unwrap(), None);
    }
}

async fn a_running_job_is_kept(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.a", worker).await;
    lab.started("a", worker).await;
    let before = lab.record("a").await.unwrap();
    lab.recover().await;
    lab.backend.advance(50).await;
    for _ in 0..2 {
        assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    }
    let record = lab.owns(worker, "a", token, JobState::Running).await;
    assert_eq!(record, Record { attested: Some(lab.inc), ..before }, "begun and since are as they were");
    let more = Attest::Runs {
        back: false,
        begun: Begun::Started,
        attempts: 4,
        created: START,
        plan: String::new(),
        generation: 0,
        payload: None,
    };
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", more)).await, AttestReply::Kept);
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    assert_eq!(lab.record("a").await.unwrap().attempts, 4, "they never go down");
    lab.open(&[worker]).await;
    assert_eq!(lab.release("a", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
}

async fn a_runner_of_lost_data_gets_a_record(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.a", worker).await;
    lab.backend.wipe().await;
    lab.bootstrap().await;
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::SendPayload);
    assert_eq!(lab.record("a").await, None);
    let said = item("a", token, "node1.a", all_of_it(Begun::Started, 3, "plan"));
    assert_eq!(lab.attest(worker, said).await, AttestReply::Kept);
    let record = lab.owns(worker, "a", token, JobState::Running).await;
    assert_eq!((record.begun, record.attempts, record.strikes), (Begun::Started, 3, 0));
    assert_eq!((record.created, record.since, &*record.plan), (START - 5, lab.backend.now(), "plan"));
    assert_eq!(lab.score("planned", "plan|a").await, Some(0));
    assert_eq!(lab.read(&ReadPayload { key: key("a") }).await.unwrap().unwrap(), "payload");
    assert_eq!(lab.queued().await, 0);
    lab.open(&[worker]).await;
    assert_eq!(lab.release("a", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!((lab.score("planned", "plan|a").await, lab.queued().await), (None, 0));
}

async fn a_payload_that_was_lost_is_asked_for_and_written_again(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.a", worker).await;
    lab.started("a", worker).await;
    let before = lab.record("a").await.unwrap();
    lab.backend.lose("payloads").await;
    lab.recover().await;
    assert_eq!(lab.idle(worker, item("a", token, "node1.a", runs())).await, AttestReply::SendPayload);
    for _ in 0..2 {
        let said = item("a", token, "node1.a", all_of_it(Begun::Begun, 1, ""));
        assert_eq!(lab.attest(worker, said).await, AttestReply::Kept);
        let record = lab.owns(worker, "a", token, JobState::Running).await;
        assert_eq!(record, Record { attested: Some(lab.inc), ..before.clone() }, "the rest is as it was");
        assert_eq!(lab.read(&ReadPayload { key: key("a") }).await.unwrap().unwrap(), "payload");
    }
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    lab.open(&[worker]).await;
}

async fn a_runner_takes_back_a_job_that_rolled_back_to_the_queue(mut lab: Lab, worker: WorkerId) {
    lab.dispatch("a", "node1.a").await;
    let saved = lab.backend.save().await;
    let token = lab.run_again("a", worker).await;
    lab.backend.roll_back(&saved).await;
    lab.recover().await;
    assert_eq!(lab.queued().await, 1);
    lab.backend.advance(50).await;
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    let record = lab.owns(worker, "a", token, JobState::Running).await;
    assert_eq!((record.begun, record.attempts, record.since), (Begun::Begun, 1, lab.backend.now()));
    assert_eq!(lab.queued().await, 0);
}

async fn a_runner_takes_back_a_job_that_rolled_back_to_its_assignment(mut lab: Lab, worker: WorkerId) {
    lab.assign("a", "node1.a", worker).await;
    let token = lab.token("a").await;
    lab.recover().await;
    lab.backend.advance(50).await;
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    let record = lab.owns(worker, "a", token, JobState::Running).await;
    assert_eq!((record.since, lab.queued().await), (lab.backend.now(), 0));
}

async fn a_runner_takes_back_a_job_that_rolled_back_to_its_old_owner(
    mut lab: Lab,
    first: WorkerId,
    second: WorkerId,
) {
    let old = lab.run("a", "node1.a", first).await;
    lab.backend.advance(20).await;
    let saved = lab.backend.save().await;
    lab.release("a", first, ReleaseMode::HandOff).await;
    let token = lab.run_again("a", second).await;
    lab.backend.roll_back(&saved).await;
    for handed_off_first in [false, true] {
        lab.recover().await;
        let said = || item("a", old, "node1.a", handed_off());
        if handed_off_first {
            lab.backend.roll_back(&saved).await;
            lab.inc = match lab.read(&ReadState).await.unwrap() {
                tenure_pool::store::PoolState::Present { incarnation, .. } => incarnation,
                other => panic!("{other:?}"),
            };
            lab.recover().await;
            assert_eq!(lab.attest(first, said()).await, AttestReply::Requeued);
        }
        assert_eq!(lab.attest(second, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
        assert_eq!(lab.idle(first, said()).await, AttestReply::Nothing);
        let record = lab.owns(second, "a", token, JobState::Running).await;
        assert_eq!(record.since, lab.backend.now(), "it has not run here since then");
    }
}

async fn a_runner_takes_back_a_job_that_rolled_back_to_parked(kind: Kind) {
    let settings = Settings { max_attempts: 1, ..Settings::default() };
    let (mut lab, worker) = Lab::with_worker(kind, settings).await;
    lab.run("a", "node1.a", worker).await;
    assert_eq!(lab.release("a", worker, ReleaseMode::Fail).await, ReleaseReply::Parked);
    let saved = lab.backend.save().await;
    let unparked = lab.step(&Unpark { jobs: vec![(key("a"), id("node1.a"))] }).await.unwrap();
    assert_eq!(unparked, [UnparkReply::Queued]);
    let token = lab.run_again("a", worker).await;
    lab.backend.roll_back(&saved).await;
    lab.recover().await;
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    lab.owns(worker, "a", token, JobState::Running).await;
    assert_eq!(lab.field("errors", "a").await, None);
}

async fn a_runner_under_a_lower_token_is_outranked(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let old = lab.run("a", "node1.a", first).await;
    lab.release("a", first, ReleaseMode::HandOff).await;
    lab.route("a", second).await;
    for begun in [false, true] {
        lab.recover().await;
        if begun {
            let token = lab.token("a").await;
            assert_eq!(lab.attest(second, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
        }
        for id in ["node1.a", "node1.other"] {
            let said = item("a", old, id, all_of_it(Begun::Begun, 1, ""));
            assert_eq!(lab.idle(first, said).await, AttestReply::Outranked);
        }
    }
    assert_eq!(lab.stop("a", "node1.a", Some(second)).await, StopReply::Stopping);
    assert_eq!(lab.idle(first, item("a", old, "node1.a", runs())).await, AttestReply::Outranked);
}

async fn only_a_higher_token_outranks(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let token = lab.run("a", "node1.a", first).await;
    lab.recover().await;
    for token in [token, Token(token.0 + 1)] {
        lab.backend.advance(20).await;
        assert_eq!(lab.attest(second, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
        let record = lab.owns(second, "a", token, JobState::Running).await;
        assert_eq!(record.since, lab.backend.now(), "it was not begun here under this token");
    }
    let said = item("a", token, "node1.a", runs());
    assert_eq!(lab.idle(second, said).await, AttestReply::Outranked, "also by its own, later one");
}

async fn what_nobody_owns_outranks_nobody(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let token = lab.run("a", "node1.a", first).await;
    lab.release("a", first, ReleaseMode::HandOff).await;
    lab.run_again("a", second).await;
    lab.release("a", second, ReleaseMode::HandOff).await;
    lab.recover().await;
    assert_eq!(lab.attest(first, item("a", token, "node1.a", runs())).await, AttestReply::Kept);
    lab.owns(first, "a", token, JobState::Running).await;
}

/// The end of the earlier one was lost with the data.
async fn what_was_begun_later_outranks_an_earlier_dispatch(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let earlier = lab.run("a", "node1.a", first).await;
    assert_eq!(lab.release("a", first, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    lab.run("a", "node1.b", second).await;
    lab.release("a", second, ReleaseMode::HandOff).await;
    let later = lab.record("a").await.unwrap();
    lab.backend.advance(100_000).await;
    lab.recover().await;
    let said = item("a", earlier, "node1.a", all_of_it(Begun::Started, 1, ""));
    assert_eq!(lab.attest(first, said).await, AttestReply::Outranked);
    assert_eq!(lab.record("a").await.unwrap().to_string(), later.to_string());
}

async fn a_stop_sticks(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let token = lab.run("a", "node1.a", first).await;
    assert_eq!(lab.stop("a", "node1.a", Some(first)).await, StopReply::Stopping);
    lab.recover().await;
    lab.backend.advance(50).await;
    assert_eq!(lab.attest(first, item("a", token, "node1.a", runs())).await, AttestReply::MustStop);
    lab.owns(first, "a", token, JobState::Stopping).await;
    let due = lab.backend.now() + 2_000;
    assert_eq!(lab.score("queue", "a").await, Some(due));
    let later = Token(token.0 + 1);
    assert_eq!(lab.attest(second, item("a", later, "node1.a", runs())).await, AttestReply::MustStop);
    lab.owns(second, "a", later, JobState::Stopping).await;
    assert_eq!(lab.release("a", second, ReleaseMode::HandOff).await, ReleaseReply::Deleted);
}

async fn a_stop_of_what_was_given_up_long_after_its_dispatch_sticks(kind: Kind) {
    for (name, id, has_started) in [("k", "node1.k", false), ("own", "node1.!own", true)] {
        let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
        let token = lab.run(name, id, worker).await;
        if has_started {
            lab.started(name, worker).await;
        }
        lab.backend.advance(60_000).await;
        // The answer is lost, so the worker knows neither.
        assert_eq!(lab.release(name, worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
        lab.backend.advance(60_000).await;
        assert_eq!(lab.stop(name, id, None).await, StopReply::Deleted);
        lab.recover().await;
        let said = item(name, token, id, all_of_it(Begun::Begun, 1, ""));
        assert_eq!(lab.attest(worker, said).await, AttestReply::MustStop, "{id}");
        lab.owns(worker, name, token, JobState::Stopping).await;
    }
}

async fn a_stop_sticks_of_which_a_worker_that_gives_up_has_not_heard(kind: Kind) {
    let modes = [ReleaseMode::HandOff, ReleaseMode::GiveBack, ReleaseMode::Refuse, ReleaseMode::Fail];
    let (mut lab, worker) = Lab::with_worker(kind, Settings::default()).await;
    let mut said = Vec::new();
    for (at, mode) in modes.into_iter().enumerate() {
        for id in [format!("node1.{at}"), format!("node1.!own{at}")] {
            let token = lab.run(&id, &id, worker).await;
            lab.started(&id, worker).await;
            said.push((mode, id, token));
        }
    }
    lab.backend.advance(60_000).await;
    for (mode, id, _) in &said {
        assert_eq!(lab.stop(id, id, Some(worker)).await, StopReply::Stopping);
        // The answer is lost.
        assert_eq!(lab.release(id, worker, *mode).await, ReleaseReply::Deleted);
    }
    lab.recover().await;
    for (_, id, token) in said {
        let runs = item(&id, token, &id, all_of_it(Begun::Started, 1, ""));
        assert_eq!(lab.attest(worker, runs).await, AttestReply::MustStop, "{id}");
    }
}

/// A worker that hands a job off and gets no answer reports the job after a restart. No data were lost.
async fn a_job_that_ended_with_the_next_worker_is_not_taken_back(kind: Kind) {
    for (mode, id) in [(ReleaseMode::HandOff, "node1.a"), (ReleaseMode::Fail, "node1.!a")] {
        for to_stop in [false, true] {
            let mut lab = Lab::new(kind).await;
            let (first, next) = (lab.worker().await, lab.worker().await);
            let token = lab.run("a", id, first).await;
            lab.started("a", first).await;
            lab.backend.advance(600_000).await;
            lab.release("a", first, mode).await;
            lab.run_again("a", next).await;
            lab.backend.advance(1_000).await;
            if to_stop {
                lab.stop("a", id, Some(next)).await;
            }
            assert_eq!(lab.release("a", next, ReleaseMode::Delete).await, ReleaseReply::Deleted);
            lab.recover().await;
            let again = item("a", token, id, all_of_it(Begun::Started, 1, ""));
            assert_eq!(lab.attest(first, again).await, AttestReply::MustStop, "{mode:?} {to_stop}");
            assert_eq!(lab.release("a", first, mode).await, ReleaseReply::Deleted);
        }
    }
}

async fn a_runner_whose_dispatch_has_ended_must_stop(mut lab: Lab, worker: WorkerId) {
    let never = StopItem { forbid: true, ..stop("a", "node1.a", None) };
    assert_eq!(lab.stop_all(&[never]).await, [StopReply::Absent]);
    lab.dispatch("b", "node1.next").await;
    lab.recover().await;
    let token = Token(worker.0 + 9);
    assert_eq!(lab.attest(worker, item("a", token, "node1.a", runs())).await, AttestReply::MustStop);
    lab.owns(worker, "a", token, JobState::Stopping).await;
    assert_eq!(lab.read(&ReadPayload { key: key("a") }).await.unwrap().unwrap(), "");
    assert_eq!(lab.release("a", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    lab.open(&[worker]).await;
    assert_eq!(lab.dispatch("a", "node1.a").await, DispatchReply::Ended);
}

async fn a_runner_whose_own_id_has_ended_must_stop(mut lab: Lab, worker: WorkerId) {
    let never = StopItem { forbid: true, ..stop("a", "node1.!own", None) };
    assert_eq!(lab.stop_all(&[never]).await, [StopReply::Absent]);
    lab.run("b", "node1.!run", worker).await;
    assert_eq!(lab.release("b", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    lab.recover().await;
    let token = Token(worker.0 + 9);
    for (name, id) in [("a", "node2.!own"), ("b", "node1.!run")] {
        assert_eq!(lab.attest(worker, item(name, token, id, runs())).await, AttestReply::MustStop);
        lab.owns(worker, name, token, JobState::Stopping).await;
    }
    let elsewhere = item("c", token, "node1.!own", runs());
    assert_eq!(lab.idle(worker, elsewhere).await, AttestReply::SendPayload, "the id was another key's");
    assert_eq!(lab.release("b", worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    assert_eq!(lab.lookup("b", "node1.!run").await.outcome.as_deref(), Some("ended"), "as before");
}

async fn a_runner_of_an_id_that_is_used_again_keeps_its_job(mut lab: Lab, worker: WorkerId) {
    for name in ["a", "b", "d", "e"] {
        lab.run(name, &format!("node1.!{name}"), worker).await;
        assert_eq!(lab.release(name, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    }
    let never = StopItem { forbid: true, ..stop("c", "node1.!c", None) };
    assert_eq!(lab.stop_all(&[never]).await, [StopReply::Absent]);
    // The data are older than the second use of these ids.
    lab.recover().await;
    let ended = lab.lookup("b", "node1.!b").await.outcome;
    assert_eq!(ended.as_deref(), Some("ended"));
    let token = Token(worker.0 + 9);
    let accepted = |created| {
        let (plan, payload) = (String::new(), Some(Bytes::from_static(b"payload")));
        Attest::Runs { back: false, begun: Begun::Begun, attempts: 1, created, plan, generation: 0, payload }
    };
    // The node of the first use remembers it itself for a while.
    let late = u64::try_from(lab.settings.max_dispatch_deadline.as_millis()).unwrap();
    for (name, node, created, reply) in [
        ("a", "node2", START + 1, AttestReply::Kept),
        ("b", "node2", START, AttestReply::MustStop),
        ("c", "node2", START + 1, AttestReply::Kept),
        ("d", "node1", START + late + 1, AttestReply::Kept),
        ("e", "node1", START + late, AttestReply::MustStop),
    ] {
        let said = item(name, token, &format!("{node}.!{name}"), accepted(created));
        assert_eq!(lab.attest(worker, said).await, reply, "{name}");
    }
    lab.owns(worker, "a", token, JobState::Running).await;
    assert_eq!(lab.lookup("a", "node1.!a").await.outcome, None, "it stands for the second use");
    lab.open(&[worker]).await;
    assert!(lab.started("a", worker).await);
    assert_eq!(lab.lookup("a", "node1.!a").await.outcome.as_deref(), Some("ok"));
}

async fn a_success_is_no_end(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.!own", worker).await;
    lab.started("a", worker).await;
    lab.recover().await;
    assert_eq!(lab.attest(worker, item("a", token, "node1.!own", runs())).await, AttestReply::Kept);
    lab.owns(worker, "a", token, JobState::Running).await;
}

async fn what_has_ended_pushes_out_nothing_that_was_accepted_since(mut lab: Lab, worker: WorkerId) {
    let mut said = Vec::new();
    for (name, of) in [("a", "node1.a"), ("b", "node1.!b")] {
        let token = lab.run(name, of, worker).await;
        // Its answer is lost.
        assert_eq!(lab.release(name, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
        said.push(item(name, token, of, all_of_it(Begun::Begun, 1, "")));
        assert_eq!(lab.dispatch(name, &format!("node1.{name}2")).await, DispatchReply::Accepted);
    }
    lab.recover().await;
    for item in said {
        assert_eq!(lab.idle(worker, item).await, AttestReply::Ended);
    }
}

async fn a_dispatch_in_the_runners_place_has_ended(mut lab: Lab, worker: WorkerId, other: WorkerId) {
    lab.dispatch("queued", "node1.q").await;
    lab.dispatch("own", "node1.!q").await;
    assert_eq!(lab.notify("queued", None, "body").await, NotifyReply::Kept);
    let lower = lab.run("running", "node1.r", other).await;
    lab.recover().await;
    let token = Token(lower.0 + 1);
    for name in ["queued", "own", "running"] {
        let new = format!("node1.{name}");
        assert_eq!(lab.attest(worker, item(name, token, &new, runs())).await, AttestReply::SendPayload);
        let said = item(name, token, &new, all_of_it(Begun::Begun, 1, ""));
        assert_eq!(lab.attest(worker, said).await, AttestReply::Kept);
        let record = lab.owns(worker, name, token, JobState::Running).await;
        assert_eq!((record.id, record.created), (id(&new), START - 5));
    }
    assert_eq!(lab.queued().await, 0);
    assert_eq!(lab.field("notifications", "h:queued").await, None, "what was for the other is gone with it");
    assert!(lab.lookup("queued", "node1.q").await.ended);
    assert!(lab.lookup("running", "node1.r").await.ended);
    assert_eq!(lab.lookup("own", "node1.!q").await.outcome.as_deref(), Some("ended"));
}

async fn an_id_that_was_forgotten_is_known_again(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.!a", worker).await;
    lab.backend.wipe().await;
    lab.bootstrap().await;
    for (name, begun) in [("a", Begun::Begun), ("b", Begun::Started)] {
        let said = item(name, token, &format!("node1.!{name}"), all_of_it(begun, 1, ""));
        assert_eq!(lab.attest(worker, said).await, AttestReply::Kept);
    }
    lab.open(&[worker]).await;
    let mut again = lab.item("a", "node2.!a");
    again.hash = "digest".into();
    assert_eq!(lab.dispatch_all(&[again]).await, [DispatchReply::Accepted], "any bytes pass");
    assert_eq!(lab.dispatch("c", "node2.!a").await, DispatchReply::Conflict);
    assert_eq!(lab.dispatch("b", "node2.!b").await, DispatchReply::Outcome("ok".into()));
    assert!(lab.started("a", worker).await);
    assert_eq!(lab.dispatch("a", "node2.!a").await, DispatchReply::Outcome("ok".into()));
}

async fn an_id_of_a_caller_is_the_same_from_every_node(mut lab: Lab, worker: WorkerId) {
    for name in ["a", "b"] {
        lab.dispatch(name, &format!("node2.!{name}")).await;
    }
    lab.recover().await;
    let token = Token(worker.0 + 9);
    assert_eq!(lab.attest(worker, item("a", token, "node1.!a", runs())).await, AttestReply::Kept);
    let record = lab.owns(worker, "a", token, JobState::Running).await;
    assert_eq!(record.id, id("node2.!a"), "as it was accepted");
    assert_eq!(lab.attest(worker, item("b", token, "node1.!b", ended())).await, AttestReply::Ended);
    assert_eq!(lab.record("b").await, None);
    assert_eq!(lab.lookup("b", "node1.!b").await.outcome.as_deref(), Some("ended"));
    assert_eq!(lab.attest(worker, item("a", token, "node1.!a", handed_off())).await, AttestReply::Requeued);
}

async fn attested_tokens_are_never_minted_again(mut lab: Lab, worker: WorkerId) {
    for (count, what) in [ended(), handed_off(), runs()].into_iter().enumerate() {
        lab.recover().await;
        let seen = Token(worker.0 + 1_000_000_000 * (count as u64 + 1));
        lab.attest(worker, item("a", seen, "node1.a", what)).await;
        lab.open(&[worker]).await;
        lab.dispatch("b", "node1.b").await;
        lab.run_again("b", worker).await;
        assert_eq!(lab.token("b").await, Token(seen.0 + 1));
        lab.release("b", worker, ReleaseMode::HandOff).await;
    }
}

async fn what_was_said_late_or_twice_changes_nothing(mut lab: Lab, worker: WorkerId) {
    let jobs = [("on", "node1.on"), ("off", "node1.off"), ("own", "node1.!own")];
    let mut tokens = Vec::new();
    for (name, id) in jobs {
        tokens.push(lab.run(name, id, worker).await);
    }
    lab.started("own", worker).await;
    // All were accepted so long ago that none of their dispatches is remembered.
    lab.backend.advance(60_000).await;
    lab.recover().await;
    let said = |at: usize| item(jobs[at].0, tokens[at], jobs[at].1, all_of_it(Begun::Begun, 1, ""));
    for at in 0..3 {
        assert_eq!(lab.attest(worker, said(at)).await, AttestReply::Kept);
    }
    assert_eq!(lab.release("on", worker, ReleaseMode::HandOff).await, ReleaseReply::Queued);
    assert_eq!(lab.idle(worker, said(0)).await, AttestReply::Nothing);
    for at in [1, 2] {
        let (name, id) = jobs[at];
        assert_eq!(lab.release(name, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
        assert_eq!(lab.attest(worker, said(at)).await, AttestReply::MustStop, "{id}");
        lab.owns(worker, name, tokens[at], JobState::Stopping).await;
        assert_eq!(lab.release(name, worker, ReleaseMode::Delete).await, ReleaseReply::Deleted);
    }
    assert_eq!(lab.lookup("own", "node1.!own").await.outcome.as_deref(), Some("ok"));
    lab.recover().await;
    assert_eq!(lab.attest(worker, said(0)).await, AttestReply::Kept, "in another recovery it is news");
}

async fn what_ended_is_gone_and_never_accepted_again(kind: Kind) {
    let settings = Settings { max_attempts: 1, ..Settings::default() };
    let mut lab = Lab::with(kind, settings).await;
    let (first, second) = (lab.worker().await, lab.worker().await);
    lab.dispatch("queued", "node1.queued").await;
    lab.assign("assigned", "node1.assigned", first).await;
    lab.run("running", "node1.running", first).await;
    lab.run_and_stop("stopping", "node1.stopping", first).await;
    lab.run("parked", "node1.parked", first).await;
    lab.release("parked", first, ReleaseMode::Fail).await;
    lab.run("others", "node1.others", second).await;
    lab.backend.advance(60_000).await;
    lab.recover().await;
    let token = lab.token("others").await;
    let names = ["queued", "assigned", "running", "stopping", "parked", "others", "absent"];
    for name in names {
        let said = item(name, token, &format!("node1.{name}"), ended());
        assert_eq!(lab.attest(first, said.clone()).await, AttestReply::Ended);
        assert_eq!(lab.record(name).await, None);
        assert_eq!(lab.attest(first, said).await, AttestReply::Ended);
    }
    let dump = lab.backend.dump().await;
    for left in ["jobs", "payloads", "owners", "queue", "parked", "errors"] {
        assert_eq!(dump.get(left), None, "{left}");
    }
    assert_eq!(lab.queued().await, 0);
    lab.open(&[first, second]).await;
    for name in names {
        assert_eq!(lab.dispatch(name, &format!("node1.{name}")).await, DispatchReply::Ended);
    }
    // A queued job may have been handed off under any token.
    lab.dispatch("later", "node1.later").await;
    lab.run_again("later", first).await;
    lab.release("later", first, ReleaseMode::HandOff).await;
    lab.recover().await;
    let said = item("later", Token(1), "node1.later", ended());
    assert_eq!(lab.attest(second, said).await, AttestReply::Ended);
    assert_eq!(lab.record("later").await, None);
}

async fn a_reported_end_under_a_callers_id_has_an_outcome(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.!a", worker).await;
    lab.run("ok", "node1.!ok", worker).await;
    lab.started("ok", worker).await;
    lab.recover().await;
    for (name, outcome) in [("a", ""), ("ok", ""), ("absent", ""), ("failed", "e:no"), ("started", "ok")] {
        let what = Attest::Ended { outcome: outcome.into(), unless: None };
        let said = item(name, Token(token.0 + 9), &format!("node1.!{name}"), what);
        assert_eq!(lab.attest(worker, said).await, AttestReply::Ended);
    }
    // A late or doubled call.
    let late = item("started", token, "node1.!started", all_of_it(Begun::Started, 1, ""));
    assert_eq!(lab.attest(worker, late).await, AttestReply::MustStop);
    lab.release("started", worker, ReleaseMode::Delete).await;
    lab.open(&[worker]).await;
    let outcomes = [("a", "ended"), ("ok", "ok"), ("absent", "ended"), ("failed", "e:no"), ("started", "ok")];
    for (name, outcome) in outcomes {
        let mut again = lab.item(name, &format!("node2.!{name}"));
        again.hash =
            if ["absent", "failed", "started"].contains(&name) { "digest".into() } else { String::new() };
        assert_eq!(lab.dispatch_all(&[again]).await, [DispatchReply::Outcome(outcome.into())]);
        let until = lab.backend.now() + 600_000;
        assert_eq!(lab.score("ended", &format!("!{name}")).await, Some(until));
    }
}

async fn an_end_is_no_end_for_another_owner_or_dispatch(mut lab: Lab, first: WorkerId, second: WorkerId) {
    let old = lab.run("a", "node1.a", first).await;
    lab.release("a", first, ReleaseMode::HandOff).await;
    let token = lab.run_again("a", second).await;
    lab.run("b", "node1.b", second).await;
    lab.recover().await;
    assert_eq!(lab.idle(first, item("a", old, "node1.a", ended())).await, AttestReply::Nothing);
    let before = lab.record("b").await;
    let other = item("b", token, "node1.before", ended());
    assert_eq!(lab.attest(first, other).await, AttestReply::Ended);
    assert_eq!(lab.record("b").await, before);
    assert!(lab.lookup("b", "node1.before").await.ended);
    assert!(!lab.lookup("b", "node1.b").await.ended);
}

async fn a_reported_hand_off_is_queued(mut lab: Lab, first: WorkerId, second: WorkerId) {
    lab.dispatch("assigned", "node1.assigned").await;
    lab.run("running", "node1.running", first).await;
    lab.release("running", first, ReleaseMode::Refuse).await;
    lab.run_again("running", first).await;
    lab.run("others", "node1.others", second).await;
    lab.route("assigned", first).await;
    lab.recover().await;
    lab.starts().await;
    lab.backend.advance(50).await;
    let token = lab.token("assigned").await;
    let mut items = Vec::new();
    for name in ["assigned", "running", "others"] {
        items.push(item(name, token, &format!("node1.{name}"), handed_off()));
    }
    let said = lab.step(&AttestJobs { worker: first, member: member(MEMBER), items }).await.unwrap();
    assert_eq!(said, [AttestReply::Requeued; 3]);
    let starts: Vec<_> = lab.starts().await.into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [vec![(key("assigned"), 0), (key("running"), 0), (key("others"), 0)]]);
    for name in ["assigned", "running", "others"] {
        let record = lab.record(name).await.unwrap();
        assert_eq!((record.state, record.owner, record.strikes), (JobState::Queued, None, 0));
        assert_eq!((record.attempts, record.since), (0, lab.backend.now()));
        let due = lab.backend.now() + 2_000;
        assert_eq!(lab.score("queue", name).await, Some(due));
    }
    assert_eq!(lab.backend.dump().await.get("owners"), None);
    assert_eq!(lab.queued().await, 0, "each was begun here");
}

async fn a_handed_off_job_comes_back_in_its_last_state(kind: Kind) {
    let settings = Settings { max_attempts: 3, ..Settings::default() };
    let (mut lab, worker) = Lab::with_worker(kind, settings).await;
    let given_up = [
        ("moved", ReleaseMode::HandOff, 0, 0, 2_000, 0),
        ("back", ReleaseMode::GiveBack, 1, 0, 2_000, 0),
        ("refused", ReleaseMode::Refuse, 1, 400, 400, 2),
        ("failed", ReleaseMode::Fail, 2, 900_000, 240_000, 1),
        ("elsewhere", ReleaseMode::Elsewhere { workers: 1 }, 1, 400, 400, 3),
    ];
    for (name, ..) in given_up {
        lab.run(name, &format!("node1.{name}"), worker).await;
        lab.release(name, worker, ReleaseMode::Refuse).await;
        lab.run_again(name, worker).await;
    }
    let token = lab.run("parked", "node1.parked", worker).await;
    lab.recover().await;
    lab.starts().await;
    for (name, mode, attempts, wait, due, strikes) in given_up {
        let said = item(name, Token(token.0 + 9), &format!("node1.{name}"), left(mode, attempts, wait));
        assert_eq!(lab.attest(worker, said).await, AttestReply::Requeued);
        let record = lab.record(name).await.unwrap();
        assert_eq!(
            (record.state, record.attempts, record.strikes),
            (JobState::Queued, attempts, strikes),
            "{name}"
        );
        assert_eq!(lab.score("queue", name).await, Some(lab.backend.now() + due), "{name}");
    }
    let starts: Vec<_> = lab.starts().await.into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(starts, [vec![(key("moved"), 0)], vec![(key("back"), 0)]], "the others wait");
    let said = item("parked", token, "node1.parked", left(ReleaseMode::Fail, 3, 900));
    assert_eq!(lab.attest(worker, said).await, AttestReply::Requeued);
    let record = lab.record("parked").await.unwrap();
    assert_eq!((record.state, record.attempts), (JobState::Parked, 3));
    assert_eq!(lab.field("errors", "parked").await.as_deref(), Some("boom"));
    assert_eq!(
        (lab.score("queue", "parked").await, lab.score("owners", &format!("{worker}:parked")).await),
        (None, None)
    );
    assert!(lab.score("parked", "parked").await.is_some());
}

async fn what_was_handed_off_had_started(mut lab: Lab, worker: WorkerId) {
    lab.assign("assigned", "node1.!assigned", worker).await;
    lab.run("stopping", "node1.!stopping", worker).await;
    assert_eq!(lab.stop("stopping", "node1.!stopping", Some(worker)).await, StopReply::Stopping);
    lab.run("known", "node1.known", worker).await;
    lab.started("known", worker).await;
    lab.recover().await;
    let token = lab.token("known").await;
    for (name, id, begun, reply) in [
        ("assigned", "node1.!assigned", Begun::Started, AttestReply::Requeued),
        ("stopping", "node1.!stopping", Begun::Started, AttestReply::Ended),
        ("known", "node1.known", Begun::Begun, AttestReply::Requeued),
    ] {
        let Attest::HandedOff(on) = handed_off() else { panic!("it was not handed off") };
        let said = item(name, token, id, Attest::HandedOff(HandedOff { begun, ..on }));
        assert_eq!(lab.attest(worker, said).await, reply, "{name}");
    }
    for name in ["assigned", "known"] {
        assert_eq!(lab.record(name).await.unwrap().begun, Begun::Started, "{name}");
    }
    assert_eq!(lab.queued().await, 0);
    for name in ["assigned", "stopping"] {
        let found = lab.lookup(name, &format!("node1.!{name}")).await;
        assert_eq!(found.outcome.as_deref(), Some("ok"), "{name}");
    }
}

async fn a_handed_off_job_without_a_record_is_gone_unless_it_ended(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let said = || item("a", Token(worker.0), "node1.a", handed_off());
    assert_eq!(lab.idle(worker, said()).await, AttestReply::Gone);
    lab.attest(worker, item("a", Token(worker.0), "node1.a", ended())).await;
    assert_eq!(lab.idle(worker, said()).await, AttestReply::Nothing);
}

async fn a_handed_off_job_that_was_stopped_is_gone(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.!a", worker).await;
    lab.stop("a", "node1.!a", Some(worker)).await;
    lab.recover().await;
    let said = item("a", token, "node1.!a", handed_off());
    assert_eq!(lab.attest(worker, said).await, AttestReply::Ended);
    assert_eq!(lab.record("a").await, None);
    assert_eq!(lab.lookup("a", "node1.!a").await.outcome.as_deref(), Some("stopped"));
}

async fn only_the_owners_word_hands_off(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.a", worker).await;
    lab.dispatch("queued", "node1.queued").await;
    lab.recover().await;
    for (name, token, id) in [
        ("a", Token(token.0 - 1), "node1.a"),
        ("a", token, "node1.before"),
        ("queued", token, "node1.queued"),
    ] {
        let said = item(name, token, id, handed_off());
        assert_eq!(lab.idle(worker, said).await, AttestReply::Nothing);
    }
}

async fn records_that_do_not_parse_are_left(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.a", worker).await;
    for record in [&b"rubbish"[..], b"2|R|1|1|1|1|1|node1.a|1||0|"] {
        lab.backend.write_record(&key("a"), record).await;
        lab.recover().await;
        for what in [all_of_it(Begun::Begun, 1, ""), ended(), handed_off()] {
            assert_eq!(lab.idle(worker, item("a", token, "node1.a", what)).await, AttestReply::Unreadable);
        }
    }
}

async fn items_of_one_call_see_each_other(mut lab: Lab, worker: WorkerId) {
    let old = lab.run("a", "node1.a", worker).await;
    lab.recover().await;
    let token = Token(old.0 + 1);
    let next = || item("a", token, "node1.b", all_of_it(Begun::Begun, 1, ""));
    let items = vec![item("a", old, "node1.a", ended()), next(), next()];
    let said = lab.step(&AttestJobs { worker, member: member(MEMBER), items }).await.unwrap();
    assert_eq!(said, [AttestReply::Ended, AttestReply::Kept, AttestReply::Kept]);
    assert_eq!(lab.owns(worker, "a", token, JobState::Running).await.id, id("node1.b"));
    assert!(lab.lookup("a", "node1.a").await.ended);
}

async fn a_worker_is_adopted_in_its_old_slot(mut lab: Lab, known: WorkerId) {
    lab.recover().await;
    let revision = lab.revision().await;
    for (worker, says, gets, size) in [
        (known.0, "U|9|10000|other|node1||1|", "U|0|10000|nonce0|node1||1|", "1"),
        (11, "U|3|10000|n11|node2|meta|1|", "U|3|10000|n11|node2|meta|1|", "4"),
        (12, "U|3|10000|n12|node2||1|http://x:1", "P|-|10000|n12|node2||1|http://x:1", "4"),
        (13, "P|-|10000|n13|node2||1|", "P|-|10000|n13|node2||1|", "4"),
        (14, "G|3|10000|n14|node2||1|", "G|3|10000|n14|node2||1|", "4"),
        (15, "G|-|10000|n15|node2||1|", "G|-|10000|n15|node2||1|", "4"),
        (16, "G|7|10000|n16|node2||1|", "G|7|10000|n16|node2||1|", "4"),
        (17, "U|1|10000|n17|node2||1|", "U|1|10000|n17|node2||1|", "4"),
    ] {
        for _ in 0..2 {
            let said = lab
                .step(&AttestJobs { worker: WorkerId(worker), member: member(says), items: Vec::new() })
                .await
                .unwrap();
            assert_eq!(said, []);
        }
        assert_eq!(lab.field("workers", &worker.to_string()).await.as_deref(), Some(gets));
        assert_eq!(lab.field("workers", "size").await.as_deref(), Some(size));
        assert_eq!(lab.field("heartbeats", &worker.to_string()).await.as_deref(), Some("1"));
    }
    assert_eq!(lab.revision().await.0, revision.0 + 7, "once each");
    assert_eq!(lab.step(&OpenNormal).await.unwrap(), Some(WorkerId(11)));
}

async fn bad_arguments_change_nothing(mut lab: Lab, worker: WorkerId) {
    lab.recover().await;
    let (store, inc, unknown) = (lab.store(), lab.inc, WorkerId(worker.0 + 1));
    for meta in ["no|name".to_owned(), "m".repeat(65)] {
        let member = Member { meta, ..member(MEMBER) };
        assert_eq!(
            lab.refused(
                store.run(inc, &AttestJobs { worker: unknown, member: member.clone(), items: Vec::new() })
            )
            .await,
            Refusal::BadArgument
        );
    }
    for address in ["a b".to_owned(), "a|b".to_owned(), "x".repeat(129)] {
        let member = Member { address, ..member(MEMBER) };
        assert_eq!(
            lab.refused(store.run(inc, &AttestJobs { worker: unknown, member, items: Vec::new() })).await,
            Refusal::BadArgument
        );
    }
}

async fn a_bad_item_hurts_no_other(mut lab: Lab, worker: WorkerId) {
    let token = lab.run("a", "node1.a", worker).await;
    lab.recover().await;
    let high = Token(token.0 + 1_000_000_000_000);
    for bad in [all_of_it(Begun::Begun, 1, "no|name"), left(ReleaseMode::Delete, 1, 0)] {
        let bad = item("bad", high, "node1.bad", bad);
        assert_eq!(lab.idle(worker, bad.clone()).await, AttestReply::Unreadable);
        let items = vec![bad, item("a", token, "node1.a", runs())];
        let said = lab.step(&AttestJobs { worker, member: member(MEMBER), items }).await.unwrap();
        assert_eq!(said, [AttestReply::Unreadable, AttestReply::Kept]);
    }
}
