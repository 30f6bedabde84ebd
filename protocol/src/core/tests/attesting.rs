//! Reports after a loss of data: their authors, their order, and the effects of the answers.

use tenure_steps::Failure;

use super::bench::{Bench, config, key, millis, present, record, sealed, secs, server, up};
use super::fencing::gone;
use crate::core::call::Call;
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent, Input, LocalWorker, Until};
use crate::model::id::{Incarnation, Token, WorkerId};
use crate::model::policy::RestartPolicy;
use crate::model::record::Begun;
use crate::model::settings::ShutdownFlag;
use crate::step::AttestReply::{
    Ended, Gone, Kept, Later, MustStop, Nothing, Outranked, Requeued, SendPayload, Unreadable,
};
use crate::step::{
    Attest, AttestJobs, BeginReply, HandedOff, LaterPayload, OwnedPage, Refusal, ReleaseMode, ReleaseReply,
    ReplyReply, StopReply, StoreError,
};

/// Observes a recovering pool for this many seconds.
fn observe(bench: &mut Bench, incarnation: u64, seconds: u64) {
    let end = bench.now + secs(seconds);
    while bench.now < end {
        bench.advance(millis(100));
        if bench.is_calling("survey") {
            bench.survey(present(incarnation, true, "a"));
        }
    }
}

/// A worker that runs these jobs under token 3, in another incarnation.
fn lost_with(names: &[&str]) -> Bench {
    let mut bench = Bench::that_runs(3, names);
    bench.lost(2);
    bench
}

#[test]
fn a_worker_reports_its_jobs_finishes_and_goes_on() {
    let mut bench = lost_with(&["a", "b"]);
    let said = "attest 1: a@3 started, b@3 started";
    assert_eq!(
        bench.seen(),
        ["! trouble", "survey", "bless a", "renew 2", "! recovering 2 for 10s", said][1..]
    );
    bench.attested(&[Kept, Kept]);
    assert_eq!(bench.seen(), ["keep 1", "attend 1"], "its lease goes on before its last word");
    bench.attended(Some("a"));
    bench.attended(None);
    assert_eq!(bench.seen(), ["attend 1 after=a", "! attested 1 2 0 0"]);
    bench.reopened(2);
    assert_eq!(bench.of(&["owned", "take"]), ["owned 1", "take 1: a@3 ack=0 b@3 ack=0"]);
}

#[test]
fn a_worker_without_jobs_says_so() {
    let mut bench = lost_with(&[]);
    assert_eq!(bench.of(&["attest"]), ["attest 1: "]);
    bench.attested(&[]);
    assert_eq!(bench.of(&["keep", "attend"]), ["keep 1", "attend 1"]);
}

#[test]
fn all_that_may_run_is_said_with_what_the_store_needs() {
    let mut bench = Bench::with_worker_as(Config { start_permits: 1, ..config() });
    bench.running(3, &["runs", "stops"]);
    bench.stop_event(1, 4, None, &[("stops", 3)]);
    bench.assign(1, 5, 5, &["starting", "waiting"]);
    bench.begun_with(false, |record| {
        (record.attempts, record.created, record.plan) = (4, 77, "nightly".into());
    });
    bench.lost(2);
    let said = "attest 1: runs@3 started, starting@5 begun, stops@3 started, waiting@5 begun";
    assert_eq!(bench.of(&["attest"]), [said]);
    let Call::Attest(report, _) = bench.call("attest") else { panic!("a report") };
    let AttestJobs { member, items, .. } = &report;
    assert_eq!(member.slot, Some(0));
    let Attest::Runs { begun, attempts, created, plan, payload, .. } = &items[1].what else {
        panic!("{items:?}")
    };
    assert_eq!(
        (*begun, *attempts, *created, plan.as_str(), payload),
        (Begun::Begun, 4, 77, "nightly", &None)
    );
}

#[test]
fn the_payload_is_sent_when_it_is_asked_for() {
    let mut bench = lost_with(&["k"]);
    bench.all();
    bench.attested(&[SendPayload]);
    assert_eq!(bench.of(&["attest", "attend"]), ["attest 1: k@3 started+payload"]);
    let call = bench.call("attest");
    let Call::Attest(report, _) = &call else { panic!("{call:?}") };
    let Attest::Runs { payload: Some(payload), .. } = &report.items[0].what else { panic!("{report:?}") };
    assert_eq!(*payload, sealed(RestartPolicy::Never));
    bench.done(call.answered(Ok(vec![Kept])));
    assert_eq!(bench.of(&["attend"]), ["attend 1"]);
}

#[test]
fn recent_ends_and_hand_offs_are_reported_again() {
    let mut bench = Bench::that_runs(3, &["ended", "handed", "refused", "stale"]);
    bench.leaves(1, "ended", 3, HandlerEvent::Ended(Ok(())));
    bench.leaves(1, "refused", 3, HandlerEvent::Refused { backoff: None, why: String::new() });
    bench.handler(1, "stale", 3, HandlerEvent::Ended(Ok(())));
    bench.answer_each("release", ReleaseReply::Stale);
    bench.all();
    bench.lost(2);
    let said = "attest 1: handed@3 started, ended@3 ended, refused@3 handed-on";
    assert_eq!(bench.of(&["attest"]), [said], "a stale release was another worker's affair");
    bench.attested(&[Kept, Ended, Requeued]);
    assert_eq!(bench.of(&["attend"]), ["attend 1"]);
}

#[test]
fn deferred_reports_are_sent_again_at_once() {
    let mut bench = Bench::that_runs(3, &["ended", "handed", "refused"]);
    bench.leaves(1, "ended", 3, HandlerEvent::Ended(Ok(())));
    bench.leaves(1, "refused", 3, HandlerEvent::Refused { backoff: None, why: String::new() });
    bench.all();
    bench.lost(2);
    assert_eq!(bench.of(&["attest"]), ["attest 1: handed@3 started, ended@3 ended, refused@3 handed-on"]);
    bench.attested(&[Later, Ended, Later]);
    assert_eq!(bench.of(&["attest", "attend"]), ["attest 1: handed@3 started, refused@3 handed-on"]);
    bench.attested(&[Kept, Requeued]);
    assert_eq!(bench.of(&["attend"]), ["attend 1"]);
}

#[test]
fn unanswered_releases_are_reported_again() {
    let mut bench = Bench::that_runs(3, &["ended", "stale"]);
    for (name, answered) in [("ended", false), ("stale", true)] {
        bench.handler(1, name, 3, HandlerEvent::Ended(Ok(())));
        if !answered {
            bench.fail("release");
            bench.advance(secs(1));
        }
        released_in_vain(&mut bench);
    }
    bench.lost(2);
    let said = bench.of(&["attest"]);
    assert_eq!(said.last().unwrap(), "attest 1: ended@3 ended", "the other was never carried out");
}

#[test]
fn old_releases_are_not_reported_again() {
    let mut bench = Bench::that_runs(3, &["old", "new"]);
    bench.leaves(1, "old", 3, HandlerEvent::Ended(Ok(())));
    bench.advance(secs(21));
    bench.leaves(1, "new", 3, HandlerEvent::Ended(Ok(())));
    bench.lost(2);
    assert_eq!(bench.of(&["attest"]), ["attest 1: new@3 ended"]);
}

#[test]
fn a_release_under_way_goes_on_and_the_last_word_waits_for_it() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Err("no".into())));
    bench.all();
    bench.lost(2);
    bench.attested(&[]);
    bench.fail_with("release", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    observe(&mut bench, 2, 1);
    let seen = bench.of(&["attest", "attend", "release"]);
    assert_eq!(seen, ["attest 1: ", "release 1: k@3 d result='e:no'"]);
    bench.released();
    assert_eq!(bench.of(&["attest", "attend"]), ["attest 1: k@3 ended"]);
    bench.attested(&[Ended]);
    assert_eq!(bench.of(&["attend"]), ["attend 1"]);
}

#[test]
fn a_reply_for_a_lost_record_holds_up_no_release() {
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.ask_event(20, 1, false);
    bench.answers(1);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.lost(2);
    bench.attested(&[]);
    assert!(!bench.is_calling("release"), "it waits for the reply");
    bench.replied(ReplyReply::Recovering);
    assert!(bench.is_calling("release"), "and the last word waits for the release");
    observe(&mut bench, 2, 1);
    assert!(bench.is_calling("reply"), "the asker may hear it all the same");
}

#[test]
fn a_release_that_the_data_do_not_know_is_said_as_what_it_was() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.lost(2);
    bench.attested(&[]);
    bench.answer_each("release", ReleaseReply::Stale);
    assert_eq!(bench.of(&["attest"]).last().map(String::as_str), Some("attest 1: k@3 ended"));
}

#[test]
fn a_job_that_ends_before_its_report_is_reported_as_ended() {
    let names: Vec<_> = (0..200).map(|i| format!("k{i:03}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::that_runs(3, &names[..100]);
    bench.running(4, &names[100..]);
    bench.lost(2);
    bench.handler(1, "k199", 4, HandlerEvent::Ended(Ok(())));
    bench.all();
    bench.attested(&[Kept; 128]);
    let said = bench.of(&["attest"]);
    assert!(!said[0].contains("k199") && said[0].contains("k198"), "{said:?}");
    bench.attested(&[Kept; 71]);
    assert_eq!(bench.of(&["attest", "attend"]), [""; 0]);
    bench.released();
    assert_eq!(bench.of(&["attest"]), ["attest 1: k199@4 ended"]);
}

#[test]
fn a_job_that_is_to_stop_is_stopped_and_then_released() {
    let mut bench = lost_with(&["k"]);
    bench.all();
    bench.attested(&[MustStop]);
    assert_eq!(bench.of(&["STOP", "attend"]), ["STOP k@3 Stopped", "attend 1"]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release"]), ["release 1: k@3 d"]);
}

#[test]
fn a_job_that_lost_its_key_ends_before_the_final_report() {
    let mut bench = lost_with(&["k"]);
    bench.all();
    bench.attested(&[Ended]);
    assert_eq!(bench.of(&["STOP", "attend"]), ["STOP k@3 Stopped"]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release", "attend"]), ["release 1: k@3 d"]);
    released_in_vain(&mut bench);
    while bench.is_calling("attest") {
        bench.attested(&[Ended]);
    }
    assert_eq!(bench.of(&["attend"]), ["attend 1"]);
}

#[test]
fn a_job_with_time_to_end_does_not_make_its_worker_give_up() {
    let mut bench = Bench::with_worker_as(Config { stop_timeout: secs(40), ..config() });
    bench.running(3, &["k", "other"]);
    bench.lost(2);
    bench.all();
    bench.attested(&[Ended, Kept]);
    bench.all();
    bench.advance(secs(41));
    let seen = bench.of(&["STOP", "ABORT", "fence", "! fenced"]);
    assert_eq!(seen.len(), 1, "only its handler is aborted: {seen:?}");
    assert!(seen[0].contains("k@3"), "{seen:?}");
}

#[test]
fn a_job_that_must_stop_and_has_ended_is_released_once() {
    let mut bench = lost_with(&["k"]);
    bench.leaves(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.all();
    bench.attested(&[MustStop]);
    assert_eq!(bench.of(&["release"]), ["release 1: k@3 d"]);
}

#[test]
fn a_job_of_another_worker_ends_at_once_without_a_release() {
    let mut bench = lost_with(&["k"]);
    bench.all();
    bench.attested(&[Outranked]);
    assert_eq!(bench.of(&["STOP", "!"]), ["STOP k@3 LeaseLost", "! outranked k@3"]);
    assert_eq!(bench.after(secs(1)).of(&["ABORT"]), ["ABORT k@3"]);
    bench.handler(1, "k", 3, HandlerEvent::Aborted);
    bench.attended(None);
    assert_eq!(bench.of(&["release", "!"]), ["! attested 1 0 0 1"]);
}

#[test]
fn a_job_that_comes_back_while_its_outranked_run_ends_waits() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[Outranked]);
    bench.attended(None);
    bench.reopened(2);
    bench.all();
    bench.begin(1, 9, 9, &["k"]);
    assert_eq!(bench.of(&["RUN", "release"]), [""; 0]);
    bench.handler(1, "k", 3, HandlerEvent::Aborted);
    assert_eq!(bench.of(&["RUN", "release"]), ["RUN k@9"]);
}

#[test]
fn a_job_whose_record_cannot_be_read_runs_on() {
    let mut bench = lost_with(&["k"]);
    bench.all();
    bench.attested(&[Unreadable]);
    assert_eq!(bench.seen(), ["keep 1", "! bad-record k", "attend 1"]);
}

#[test]
fn an_attestation_or_last_word_without_an_answer_is_said_again() {
    let mut bench = lost_with(&["k"]);
    bench.all();
    bench.fail("attest");
    observe(&mut bench, 2, 1);
    assert_eq!(bench.of(&["attest", "keep"]), ["attest 1: k@3 started"]);
    bench.attested(&[Kept]);
    bench.all();
    bench.fail("attend");
    observe(&mut bench, 2, 1);
    assert_eq!(bench.of(&["attend"]), ["attend 1"]);
}

#[test]
fn a_worker_whose_lease_has_passed_says_nothing() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.leases.insert(WorkerId(1), bench.now);
    bench.lost(2);
    assert_eq!(bench.of(&["attest", "STOP"]), ["STOP k@3 LeaseLost"]);
}

#[test]
fn a_fenced_worker_says_nothing() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.lost(2);
    observe(&mut bench, 2, 1);
    assert_eq!(bench.of(&["attest"]), [""; 0]);
}

#[test]
fn a_worker_that_the_pool_has_expired_is_fenced() {
    let mut bench = lost_with(&["k"]);
    bench.all();
    bench.fail_with("attest", StoreError::Refused(Refusal::Fenced));
    assert_eq!(bench.seen(), ["! fenced 1 with 1", "fence 1", "STOP k@3 LeaseLost"]);
}

#[test]
fn a_job_whose_report_fails_is_not_given_up() {
    let mut bench = lost_with(&["a", "b"]);
    bench.all();
    for _ in 0..20 {
        bench.fail_with("attest", StoreError::Damaged(Failure::new(std::fmt::Error)));
        observe(&mut bench, 2, 1);
        assert_eq!(bench.of(&["attest", "attend", "STOP"]), ["attest 1: a@3 started, b@3 started"]);
    }
    bench.attested(&[Kept, Kept]);
    assert_eq!(bench.of(&["attend", "STOP"]), ["attend 1"]);
}

#[test]
fn a_report_without_progress_is_given_up_after_three_ttls() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[Kept]);
    bench.all();
    observe(&mut bench, 2, 29);
    assert_eq!(bench.of(&["fence"]), [""; 0]);
    observe(&mut bench, 2, 2);
    assert_eq!(bench.of(&["fence"]), ["fence 1"]);
}

#[test]
fn a_pool_opened_without_a_living_worker_recovers_again() {
    let mut bench = Bench::that_runs(3, &["k"]);
    let answer = Err(StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.survey(present(2, false, "a"));
    bench.all();
    bench.fail_with("attest", StoreError::Refused(Refusal::Normal));
    bench.survey(present(2, false, "a"));
    assert_eq!(bench.seen(), ["survey", "recover a above 1048579"]);
    bench.answer_with("recover", Incarnation(3));
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@3 started"]);
}

#[test]
fn an_open_pool_has_heard_an_unanswered_final_report() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[Kept]);
    bench.fail("attend");
    bench.reopened(2);
    bench.after(millis(100)).all();
    bench.fail_with("attend", StoreError::Refused(Refusal::Normal));
    assert_eq!(bench.of(&["!", "survey", "recover"]), ["! attested 1 1 0 0"]);
}

#[test]
fn a_further_incarnation_restarts_the_report() {
    let mut bench = lost_with(&["k"]);
    let call = bench.call("attest");
    bench.all();
    bench.lost(3);
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@3 started"]);
    bench.done(call.answered(Ok(vec![MustStop])));
    assert_eq!(bench.of(&["STOP", "keep", "attend"]), [""; 0]);
    bench.attested(&[Kept]);
    assert_eq!(bench.of(&["keep"]), ["keep 1"]);
}

#[test]
fn a_begin_of_the_former_incarnation_is_dropped() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.lost(2);
    assert_eq!(bench.of(&["attest"]), ["attest 1: "], "its handler never ran");
    bench.begin(1, 5, 7, &["k"]);
    assert_eq!(bench.of(&["RUN", "release", "begin"]), [""; 0], "its last word takes the job back");
    bench.attested(&[]);
    bench.attended(None);
    bench.reopened(2);
    assert_eq!(bench.of(&["begin"]), ["begin 1: k@7; done 5"], "its entry was read again");
    bench.begin_answered(&[BeginReply::Refused]);
    assert_eq!(bench.of(&["RUN", "release"]), [""; 0]);
}

#[test]
fn streams_are_read_from_their_beginning() {
    let mut bench = Bench::that_runs(9, &["k"]);
    bench.lost(2);
    assert_eq!(bench.of(&["read-node"]), ["read-node >0 1>0"]);
    bench.assign(1, 9, 9, &["k"]);
    assert_eq!(bench.of(&["RUN", "begin", "release"]), [""; 0], "it runs here already");
}

#[test]
fn notifications_are_fetched_anew_and_late_ones_ignored() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.notify_event(1, 5, "k", 3);
    bench.taken(40, &["one"]);
    bench.handler(1, "k", 3, HandlerEvent::Delivered);
    bench.all();
    bench.lost(2);
    bench.taken(41, &["two"]);
    bench.attested(&[Kept]);
    bench.attended(None);
    bench.reopened(2);
    let seen = bench.of(&["take", "DELIVER"]);
    assert_eq!(seen, ["take 1: k@3 ack=0"], "numbers may be used again");
}

#[test]
fn a_delivery_under_way_is_not_repeated_before_it_has_ended() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.notify_event(1, 5, "k", 3);
    bench.taken(40, &["one"]);
    bench.all();
    bench.lost(2);
    bench.attested(&[Kept]);
    bench.attended(None);
    bench.reopened(2);
    assert_eq!(bench.of(&["take"]), [""; 0]);
    bench.handler(1, "k", 3, HandlerEvent::Delivered);
    assert_eq!(bench.of(&["take"]), ["take 1: k@3 ack=0"]);
}

#[test]
fn a_note_of_a_start_without_an_answer_is_sent_again() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.lost(2);
    bench.all();
    bench.fail("started");
    observe(&mut bench, 2, 1);
    assert_eq!(bench.of(&["started"]), ["started 1: k@7 tell=n"]);
}

#[test]
fn a_note_of_a_start_that_came_before_its_job_is_sent_again() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.lost(2);
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@7 begun"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["started"]), ["started 1: k@7 tell=n"]);
    let stale = |bench: &mut Bench| {
        bench.answer_each("started", false);
    };
    stale(&mut bench);
    bench.attested(&[Kept]);
    observe(&mut bench, 2, 1);
    assert_eq!(bench.of(&["started"]), ["started 1: k@7 tell=n"]);
    bench.attended(None);
    stale(&mut bench);
    observe(&mut bench, 2, 1);
    assert_eq!(bench.of(&["started"]), [""; 0], "what is not known when all is said is another's");
}

#[test]
fn no_job_begins_moves_or_is_audited_while_the_pool_recovers() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[Kept]);
    bench.attended(None);
    bench.all();
    bench.maps(2);
    bench.set_member(2, up(1));
    bench.assign(1, 20, 9, &["new"]);
    observe(&mut bench, 2, 8);
    assert_eq!(bench.of(&["begin", "take", "owned", "STOP"]), [""; 0]);
    bench.reopened(2);
    let kinds = bench.of(&["begin", "take", "owned"]);
    assert_eq!(kinds, ["owned 1", "take 1: k@3 ack=0", "begin 1: new@9; done 20"]);
}

#[test]
fn a_restored_job_is_given_back_once_the_pool_is_open() {
    let mut bench = lost_with(&[]);
    bench.attested(&[]);
    bench.attended(None);
    bench.reopened(2);
    let jobs = vec![(key("k"), Some(record("k", 3, WorkerId(1))))];
    bench.answer_with("owned", OwnedPage { next: None, jobs });
    assert_eq!(bench.of(&["release"]), ["release 1: k@3 b"]);
}

#[test]
fn a_hand_off_under_way_goes_on() {
    let mut bench = Bench::that_runs(3, &["k", "stays"]);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    bench.answer_with("drain", vec![Some(up(0))]);
    bench.all();
    bench.lost(2);
    assert_eq!(bench.of(&["attest", "drain"]), ["attest 1: k@3 started, stays@3 started", "drain 1"]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    bench.attested(&[Kept, Kept]);
    assert_eq!(bench.of(&["release", "attend"]), ["release 1: k@3 h"]);
    bench.released();
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@3 handed-on"]);
    bench.attested(&[Nothing]);
    bench.leaves(1, "stays", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["leave"]), [""; 0], "it leaves when it has said all");
    bench.attended(None);
    super::leaving::nothing_was_asked(&mut bench);
    assert_eq!(bench.of(&["leave"]), ["leave 1"]);
    gone(&mut bench);
}

#[test]
fn a_rejoined_worker_reports_the_jobs_of_its_former_life() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.leaves(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.step([Input::LeaseLost(WorkerId(1))]);
    gone(&mut bench);
    bench.seat(5, 0);
    bench.lost(2);
    assert_eq!(bench.of(&["attest"]), ["attest 5: k@3 ended"]);
}

#[test]
fn a_worker_silent_after_a_loss_does_not_end_returned_jobs() {
    let said = [false, true].map(|attests| {
        let mut bench = Bench::that_runs(3, &["k"]);
        bench.leaves(1, "k", 3, HandlerEvent::Ended(Ok(())));
        if attests {
            bench.lost(2);
        }
        bench.step([Input::LeaseLost(WorkerId(1))]);
        if !attests {
            bench.lost(2);
        }
        gone(&mut bench);
        bench.reopened(2);
        bench.seat(5, 0);
        bench.begin(5, 7, 9, &["k"]);
        bench.lost(3);
        bench.of(&["attest"])
    });
    assert_eq!(said.concat(), ["attest 5: k@9 begun", "attest 5: k@9 begun"]);
}

#[test]
fn a_worker_without_its_slot_asks_for_one() {
    let mut bench = lost_with(&[]);
    bench.members.entries.clear();
    bench.attested(&[]);
    bench.attended(None);
    bench.reopened(2);
    assert_eq!(bench.after(secs(6)).of(&["settle"]), ["settle 1"]);
}

#[test]
fn a_shutdown_flag_that_was_seen_is_set_again() {
    for (flag, asked) in [
        (ShutdownFlag::Stopping { deadline_ms: None, by: "m".into() }, "shutdown DropQueued"),
        (ShutdownFlag::Closing { deadline_ms: 1_005_000, by: "m".into() }, "shutdown Closing(5s)"),
    ] {
        let mut bench = Bench::with_worker();
        let renewal = crate::step::Renewal { flag: Some(flag), ..bench.renewal() };
        bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
        bench.all();
        bench.lost(2);
        bench.advance(millis(1));
        while bench.is_calling("purge") {
            bench.fail_with("purge", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
            observe(&mut bench, 2, 1);
        }
        while bench.is_calling("shutdown") && !bench.in_flight().contains(&asked.to_owned()) {
            bench.fail_with("shutdown", StoreError::Refused(Refusal::StaleIncarnation(Incarnation(2))));
            observe(&mut bench, 2, 1);
        }
        assert!(bench.of(&["shutdown"]).contains(&asked.to_owned()), "{:?}", bench.in_flight());
    }
}

#[test]
fn a_stop_whose_end_is_waited_for_is_sent_again() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.stop_job("k", Some("n.k"), Until::Gone, secs(60));
    bench.answer_each("stop", StopReply::Stopping);
    bench.all();
    bench.lost(2);
    assert_eq!(bench.of(&["stop"]), ["stop k/n.k tell me"]);
}

#[test]
fn a_node_that_needs_no_pool_does_not_create_it_again() {
    let mut bench = Bench::attached();
    let answer = Err(StoreError::Refused(Refusal::NoPool));
    bench.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer }]);
    bench.survey_of(crate::step::PoolState::Absent, server("a"));
    assert_eq!(bench.after(secs(1)).of(&["bootstrap"]), [""; 0]);
    bench.add_worker(1);
    bench.survey_of(crate::step::PoolState::Absent, server("a"));
    assert_eq!(bench.of(&["bootstrap"]), ["bootstrap a above 0"]);
}

#[test]
fn tokens_are_attested_as_they_are() {
    let mut bench = lost_with(&["k"]);
    let Call::Attest(report, _) = bench.call("attest") else { panic!("a report") };
    assert_eq!(report.items[0].token, Token(3));
}

/// Begins and starts this job, which must be started again after any end.
fn runs_always(bench: &mut Bench) {
    bench.assign(1, 3, 3, &["k"]);
    bench.begun_as(&sealed(RestartPolicy::Always), false, |_| {});
    bench.handler(1, "k", 3, HandlerEvent::Started);
    while bench.is_calling("started") {
        bench.started_noted();
    }
}

/// The release finds no record.
fn released_in_vain(bench: &mut Bench) {
    bench.answer_each("release", ReleaseReply::Stale);
}

#[test]
fn a_job_due_for_a_retry_is_taken_back_and_released_again() {
    for event in [HandlerEvent::Failed("the server is gone".into()), HandlerEvent::Ended(Ok(()))] {
        let mut bench = Bench::with_worker();
        runs_always(&mut bench);
        bench.lost(2);
        bench.handler(1, "k", 3, event);
        let release = bench.of(&["release"]);
        bench.attested(&[SendPayload]);
        released_in_vain(&mut bench);
        bench.attested(&[]);
        assert_eq!(bench.of(&["attest", "attend"]).last().unwrap(), "attest 1: k@3 started+payload");
        bench.attested(&[Kept]);
        assert_eq!(bench.of(&["release", "attend"]), release, "as it was, and before the last word");
        bench.released();
        assert_eq!(bench.of(&["attest", "attend"]), ["attest 1: k@3 handed-on"]);
        bench.attested(&[Nothing]);
        assert_eq!(bench.of(&["attend"]), ["attend 1"]);
    }
}

#[test]
fn a_job_refused_before_its_note_is_taken_back() {
    let mut bench = Bench::that_is_assigned(3, 3, &["k"]);
    bench.begun_as(&sealed(RestartPolicy::Always), false, |_| {});
    bench.handler(1, "k", 3, HandlerEvent::Started);
    bench.handler(1, "k", 3, HandlerEvent::Failed("the server is gone".into()));
    bench.lost(2);
    assert_eq!(bench.of(&["attest", "release"]), ["attest 1: "]);
    bench.started_noted();
    bench.attested(&[]);
    released_in_vain(&mut bench);
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@3 started+payload"]);
}

#[test]
fn a_job_handed_off_by_a_draining_worker_is_taken_back() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[SendPayload]);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    bench.answer_with("drain", vec![Some(up(0))]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    bench.all();
    released_in_vain(&mut bench);
    bench.attested(&[Kept]);
    bench.attested(&[]);
    assert_eq!(bench.of(&["release", "attend"]), ["release 1: k@3 h"]);
}

/// A job that was begun here and given back at once is reported as running with its payload, if the data do not know
/// it.
fn is_taken_back(bench: &mut Bench, again: &str) {
    bench.lost(2);
    bench.attested(&[]);
    released_in_vain(bench);
    assert_eq!(bench.of(&["attest"]).last().unwrap(), "attest 1: k@7 begun+payload");
    bench.all();
    bench.attested(&[Kept]);
    assert_eq!(bench.of(&["release"]), [again]);
    bench.released();
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@7 handed-on"]);
}

#[test]
fn a_job_given_back_by_a_draining_worker_is_taken_back() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    bench.answer_with("drain", vec![Some(up(0))]);
    bench.begun();
    is_taken_back(&mut bench, "release 1: k@7 b tell=n");
}

#[test]
fn a_job_that_cannot_be_read_here_is_taken_back_into_lost_data() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    let mut newer = sealed(RestartPolicy::Never).to_vec();
    let version = newer.iter().position(|byte| *byte == b'v').unwrap() + 1;
    newer[version] += 1;
    bench.begun_as(&newer.into(), false, |_| {});
    let release = bench.of(&["release"]);
    is_taken_back(&mut bench, &release[0]);
}

#[test]
fn a_job_back_while_its_former_run_ends_is_taken_back() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.begin(1, 5, 7, &["k"]);
    bench.all();
    bench.lost(2);
    let release = bench.of(&["release"]);
    bench.attested(&[Outranked]);
    released_in_vain(&mut bench);
    assert_eq!(bench.of(&["attest"]).last().unwrap(), "attest 1: k@7 begun+payload");
    bench.all();
    bench.attested(&[Kept]);
    assert_eq!(bench.of(&["release"]), release);
}

#[test]
fn a_job_that_came_again_after_its_release_is_not_taken_back() {
    let mut bench = Bench::with_worker();
    runs_always(&mut bench);
    bench.handler(1, "k", 3, HandlerEvent::Failed("not yet".into()));
    bench.begin(1, 5, 7, &["k"]);
    bench.lost(2);
    bench.attested(&[Kept]);
    bench.all();
    released_in_vain(&mut bench);
    assert_eq!(
        bench.of(&["attest"]),
        ["attest 1: k@3 handed-on"],
        "it does not run: its release was carried out"
    );
}

#[test]
fn a_stop_of_a_job_on_its_way_out_is_answered_by_its_release() {
    let mut bench = Bench::with_worker();
    runs_always(&mut bench);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.stop_event(1, 4, Some("m"), &[("k", 3)]);
    bench.all();
    bench.fail("release");
    assert_eq!(bench.after(secs(1)).of(&["release"]), ["release 1: k@3 d stopper=m"]);
}

#[test]
fn a_stop_of_a_leaving_job_survives_a_loss_of_its_record() {
    for (reply, again) in [(None, "release 1: k@3 d"), (Some(ReleaseReply::Queued), "")] {
        let mut bench = Bench::with_worker();
        runs_always(&mut bench);
        bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
        bench.stop_event(1, 4, None, &[("k", 3)]);
        bench.lost(2);
        bench.all();
        match reply {
            // The record may belong to a running job again.
            None => {
                bench.fail("release");
                observe(&mut bench, 2, 1);
                assert_eq!(bench.of(&["release"]), [again]);
                bench.attested(&[]);
                released_in_vain(&mut bench);
            }
            Some(reply) => {
                bench.attested(&[]);
                bench.answer_each("release", reply);
            }
        }
        assert_eq!(bench.of(&["attest"]).last().unwrap(), "attest 1: k@3 ended", "{reply:?}");
    }
}

#[test]
fn a_stop_of_a_job_that_is_taken_back_sticks() {
    let mut bench = Bench::with_worker();
    runs_always(&mut bench);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.lost(2);
    bench.attested(&[]);
    released_in_vain(&mut bench);
    bench.stop_event(1, 4, None, &[("k", 3)]);
    bench.all();
    bench.attested(&[Kept]);
    assert_eq!(bench.of(&["release"]), ["release 1: k@3 d; done 4"]);
}

#[test]
fn jobs_given_up_or_owned_by_others_are_not_released_again() {
    for (reply, then) in [(Outranked, "attend 1"), (Nothing, "attest 1: k@3 handed-on")] {
        let mut bench = Bench::with_worker();
        runs_always(&mut bench);
        bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
        bench.lost(2);
        bench.attested(&[]);
        released_in_vain(&mut bench);
        bench.all();
        bench.attested(&[reply]);
        assert_eq!(bench.of(&["release", "attest", "attend"]), [then]);
    }
}

#[test]
fn a_report_that_is_taken_back_survives_another_loss() {
    let mut bench = Bench::with_worker();
    runs_always(&mut bench);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    bench.lost(2);
    let release = bench.of(&["release"]);
    bench.attested(&[]);
    released_in_vain(&mut bench);
    bench.lost(3);
    bench.all();
    assert_eq!(bench.in_flight().iter().filter(|call| release.contains(call)).count(), 1);
    bench.attested(&[Kept]);
    bench.attested(&[]);
    released_in_vain(&mut bench);
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@3 started+payload"]);
}

#[test]
fn a_job_taken_back_is_released_again_when_the_pool_has_opened() {
    let mut bench = Bench::with_worker();
    runs_always(&mut bench);
    bench.lost(2);
    bench.attested(&[Kept]);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    let release = bench.of(&["release"]);
    bench.fail("attend");
    released_in_vain(&mut bench);
    bench.after(millis(100)).all();
    bench.fail_with("attest", StoreError::Refused(Refusal::Normal));
    assert_eq!(bench.of(&["release"]), release, "the pool has heard the last word");
    released_in_vain(&mut bench);
    assert_eq!(bench.of(&["release", "attest", "attend"]), [""; 0]);
}

#[test]
fn a_last_word_that_waits_for_a_release_wakes_nobody() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[Kept]);
    bench.fail("attend");
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    assert_eq!(bench.after(millis(50)).of(&["attend"]).len(), 1);
    bench.released();
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@3 ended"]);
}

#[test]
fn a_job_whose_stop_overtook_its_begin_is_said_to_have_ended() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.stop_event(1, 6, None, &[("k", 7)]);
    bench.begun();
    bench.released();
    bench.lost(2);
    assert_eq!(bench.of(&["attest"]), ["attest 1: k@7 ended"]);
}

#[test]
fn a_gone_job_that_must_stop_is_later_reported_as_ended() {
    let mut bench = lost_with(&["k"]);
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    released_in_vain(&mut bench);
    bench.attested(&[MustStop]);
    bench.released();
    bench.all();
    bench.attested(&[Ended]);
    bench.attested(&[Ended]);
    bench.attended(None);
    bench.lost(3);
    assert_eq!(bench.of(&["attest"]).last().unwrap(), "attest 1: k@3 ended, k@3 ended");
}

#[test]
fn the_end_of_an_outranked_job_starts_an_audit() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[Outranked]);
    bench.attended(None);
    bench.reopened(2);
    let jobs = vec![(key("k"), Some(record("k", 3, WorkerId(1))))];
    bench.answer_with("owned", OwnedPage { next: None, jobs });
    bench.all();
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release", "owned"]), ["owned 1"]);
}

#[test]
fn a_report_with_progress_has_ten_times_to_live() {
    let mut bench = lost_with(&["k"]);
    bench.attested(&[Kept]);
    bench.all();
    for _ in 0..4 {
        observe(&mut bench, 2, 24);
        assert_eq!(bench.of(&["fence"]), [""; 0]);
        bench.attended(Some("a"));
    }
    observe(&mut bench, 2, 5);
    assert_eq!(bench.of(&["fence"]), ["fence 1"]);
}

/// The reported end of each job.
fn said_of_the_past(bench: &Bench) -> Vec<Attest> {
    let call = bench.in_flight_call("attest");
    let Call::Attest(AttestJobs { items, .. }, _) = call else { panic!("{call:?}") };
    items.iter().map(|item| item.what.clone()).filter(|what| !matches!(what, Attest::Runs { .. })).collect()
}

#[test]
fn a_handed_off_job_is_reported_with_its_attempts_and_pause() {
    let mut bench = Bench::that_is_assigned(3, 3, &["k"]);
    bench.begun_as(&sealed(RestartPolicy::Always), false, |record| record.attempts = 4);
    bench.handler(1, "k", 3, HandlerEvent::Started);
    bench.started_noted();
    bench.leaves(1, "k", 3, HandlerEvent::Failed("the server is gone".into()));
    bench.advance(secs(3));
    bench.lost(2);
    let said = said_of_the_past(&bench);
    let [Attest::HandedOff(HandedOff { begun, mode: ReleaseMode::Fail, attempts: 4, delay, error, .. })] =
        &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!(*begun, Begun::Started);
    assert!((secs(4)..secs(7)).contains(delay) && error.is_empty(), "{delay:?} of 8 s, {error}");
}

#[test]
fn a_parked_job_is_reported_with_its_error() {
    let mut bench = Bench::that_is_assigned(3, 3, &["k"]);
    bench.begun_as(&sealed(RestartPolicy::Always), false, |record| record.attempts = 20);
    bench.handler(1, "k", 3, HandlerEvent::Failed("boom".into()));
    bench.answer_each("release", ReleaseReply::Parked);
    bench.lost(2);
    let said = said_of_the_past(&bench);
    let [Attest::HandedOff(HandedOff { begun, attempts: 20, error, .. })] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((*begun, error.as_str()), (Begun::Begun, "boom"));
}

#[test]
fn an_end_under_a_callers_id_is_reported_with_its_outcome() {
    let outcome = |started: bool, event: HandlerEvent, own: bool| {
        let mut bench = Bench::that_is_assigned(3, 3, &["k"]);
        bench.begun_with(false, |record| {
            record.id = super::bench::id(if own { "n.!k" } else { "n.k" });
        });
        if started {
            bench.handler(1, "k", 3, HandlerEvent::Started);
            bench.started_noted();
        }
        bench.handler(1, "k", 3, event);
        bench.released();
        bench.lost(2);
        let said = said_of_the_past(&bench);
        let [Attest::Ended { outcome, .. }] = &said[..] else { panic!("{said:?}") };
        outcome.clone()
    };
    assert_eq!(outcome(true, HandlerEvent::Ended(Ok(())), true), "ok");
    assert_eq!(outcome(false, HandlerEvent::Failed("boom".into()), true), "e:boom");
    assert_eq!(outcome(false, HandlerEvent::Failed("boom".into()), false), "", "nobody asks for it");
}

/// The report, after a loss of data, of a job that has ended. A release that is `Stale` had no answer at first. `meanwhile`
/// comes before that answer.
fn ended_unheard(reply: ReleaseReply, meanwhile: impl FnOnce(&mut Bench)) -> Vec<Attest> {
    let mut bench = Bench::that_is_assigned(3, 3, &["k"]);
    bench.begun_with(false, |record| record.set_generation(4));
    bench.handler(1, "k", 3, HandlerEvent::Started);
    bench.started_noted();
    bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
    if reply == ReleaseReply::Stale {
        bench.fail("release");
    }
    meanwhile(&mut bench);
    bench.advance(secs(1));
    bench.answer_each("release", reply);
    bench.lost(2);
    said_of_the_past(&bench)
}

#[test]
fn an_end_that_may_have_met_a_later_payload_says_so() {
    let unless = Some(LaterPayload { than: 4, begun: Begun::Started, rest: None });
    let outcome = String::new();
    assert_eq!(
        ended_unheard(ReleaseReply::Stale, |_| {}),
        [Attest::Ended { outcome: outcome.clone(), unless }]
    );
    let ended = || Attest::Ended { outcome: outcome.clone(), unless: None };
    assert_eq!(ended_unheard(ReleaseReply::Deleted, |_| {}), [ended()], "the store was sure");
    let stop = |bench: &mut Bench| bench.stop_event(1, 6, None, &[("k", 3)]);
    assert_eq!(ended_unheard(ReleaseReply::Stale, stop), [ended()], "it was stopped, whatever its payload");
}

#[test]
fn a_stopped_job_of_a_callers_own_id_has_been_stopped() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.stop_event(1, 6, None, &[("k", 7)]);
    bench.begun_with(false, |record| record.id = super::bench::id("n.!k"));
    bench.released();
    bench.lost(2);
    assert_eq!(said_of_the_past(&bench), [Attest::Ended { outcome: "stopped".into(), unless: None }]);
}

#[test]
fn a_stop_that_overtakes_a_begin_keeps_an_earlier_start() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.stop_event(1, 6, None, &[("k", 7)]);
    bench.begun_with(false, |record| {
        (record.id, record.begun) = (super::bench::id("n.!k"), Begun::Started);
    });
    bench.released();
    bench.lost(2);
    assert_eq!(said_of_the_past(&bench), [Attest::Ended { outcome: "ok".into(), unless: None }]);
}

#[test]
fn a_long_journal_is_reported_in_pages_without_loss() {
    let mut bench = Bench::with_worker();
    let names: Vec<_> = (0..150).map(|i| format!("k{i:03}")).collect();
    for (token, names) in [(3, &names[..100]), (4, &names[100..])] {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        bench.running(token, &names);
        for name in names {
            bench.leaves(1, name, token, HandlerEvent::Ended(Ok(())));
        }
    }
    bench.lost(2);
    assert_eq!(said_of_the_past(&bench).len(), 128);
    observe(&mut bench, 2, 25);
    bench.attested(&[Ended; 128]);
    assert_eq!(said_of_the_past(&bench).len(), 22);
    bench.attested(&[Ended; 22]);
    bench.attended(None);
    assert_eq!(bench.of(&["!"]).last().unwrap(), "! attested 1 0 0 0 ended=150");
}

#[test]
fn all_that_was_said_is_counted() {
    let mut bench = lost_with(&["a", "b"]);
    bench.leaves(1, "b", 3, HandlerEvent::Refused { backoff: None, why: String::new() });
    bench.attested(&[Kept, Unreadable]);
    bench.attested(&[Gone]);
    bench.attended(None);
    assert_eq!(bench.of(&["!"]).last().unwrap(), "! attested 1 1 0 0 unreadable=1 gone=1");
}

#[test]
fn a_stop_of_what_does_not_run_here_is_said_to_have_ended_it() {
    let mut bench = Bench::with_worker();
    bench.stop_event(1, 6, None, &[("gone", 7)]);
    bench.released();
    bench.assign(1, 8, 8, &["refused"]);
    bench.stop_event(1, 9, None, &[("refused", 8)]);
    bench.begin_answered(&[BeginReply::Refused]);
    bench.released();
    bench.lost(2);
    assert_eq!(bench.of(&["attest"]), ["attest 1: gone@7 ended, refused@8 ended"]);
}
