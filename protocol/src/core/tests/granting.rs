//! Granted jobs start without a begin, at most once.

use tenure_steps::Failure;

use super::bench::{Bench, config, entry, granted, granted_as, id, key, millis, record, sealed, secs, up};
use crate::core::ctx::Config;
use crate::core::input::{HandlerEvent, Input};
use crate::model::id::{Token, WorkerId};
use crate::model::policy::RestartPolicy;
use crate::model::record::{Begun, Record};
use crate::step::{
    AttestReply, BeginReply, Checkpoint, GrantedJob, NodeEvents, OwnedPage, StoreError, WorkerEvent,
};

/// A worker that has been granted a job, which has started and has ended.
pub(super) fn that_has_run(mut bench: Bench) -> Bench {
    bench.grant(5, 7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.started_noted();
    bench.leaves(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.all();
    bench
}

/// Answers the comparison with the store: the worker's jobs have these tokens, and this of them has begun.
pub(super) fn owns(bench: &mut Bench, begun: Begun, jobs: &[(&str, u64)]) {
    let of = |(name, token): &(&str, u64)| {
        let record = record(name, *token, WorkerId(1));
        (key(name), Some(Record { begun, ..record }))
    };
    bench.answer_with("owned", OwnedPage { next: None, jobs: jobs.iter().map(of).collect() });
}

#[test]
fn a_granted_job_starts_without_a_begin() {
    let mut bench = Bench::with_worker();
    bench.grant(5, 7, &["k", "j"]);
    assert_eq!(bench.seen(), ["RUN k@7", "RUN j@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["started 1: k@7 tell=n; done 5"]);
    bench.handler(1, "j", 7, HandlerEvent::Started);
    bench.started_noted();
    assert_eq!(bench.seen(), ["started 1: j@7 tell=n"]);
    bench.started_noted();
    assert_eq!((bench.after(secs(1)).seen(), bench.in_flight()), (vec![], vec![]));
}

#[test]
fn an_unanswered_note_names_its_entries_again() {
    let mut bench = Bench::with_worker();
    bench.grant(5, 7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.all();
    bench.fail("started");
    assert_eq!(bench.after(secs(1)).seen(), ["! trouble", "started 1: k@7 tell=n; done 5"]);
    bench.started_noted();
    bench.grant(5, 7, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: ; done 5"], "the entry was forgotten with the answer");
}

#[test]
fn entries_of_one_call_are_finished_by_one_note() {
    let mut bench = Bench::with_worker();
    let events = [granted(1, 7, &["a"]), granted(1, 8, &["b"])];
    let workers = (5..).zip(events).map(|(number, event)| (WorkerId(1), entry(number), event)).collect();
    bench.events(NodeEvents { workers, ..NodeEvents::default() });
    bench.step([]);
    assert_eq!(bench.seen(), ["RUN a@7", "RUN b@8"]);
    bench.handler(1, "b", 8, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["started 1: b@8 tell=n; done 5 6"]);
}

#[test]
fn an_older_grant_that_comes_late_is_begun() {
    let mut bench = that_has_run(Bench::with_worker());
    bench.grant(4, 6, &["j"]);
    assert_eq!(bench.seen(), ["begin 1: j@6; done 4"]);
    bench.begun();
    assert_eq!(bench.seen(), ["RUN j@6"]);
}

#[test]
fn a_grant_behind_the_stop_of_its_job_is_begun() {
    let mut bench = Bench::with_worker();
    bench.stop_event(1, 6, None, &[("k", 7)]);
    bench.released();
    bench.all();
    bench.grant(5, 7, &["k"]);
    assert_eq!(bench.seen(), ["begin 1: k@7; done 5"]);
}

#[test]
fn a_stop_in_the_same_read_prevents_the_start() {
    let mut bench = Bench::with_worker();
    let stop = WorkerEvent::Stop { waiting: None, jobs: vec![(key("k"), Token(7), None)] };
    let events = [granted(1, 7, &["k"]), stop];
    let workers = (5..).zip(events).map(|(number, event)| (WorkerId(1), entry(number), event)).collect();
    bench.events(NodeEvents { workers, ..NodeEvents::default() });
    assert_eq!(bench.seen(), ["release 1: k@7 d tell=n; done 5 6"]);
}

#[test]
fn while_the_worker_reports_its_jobs_no_grant_is_honoured() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.lost(2);
    bench.all();
    bench.event(1, 5, granted(2, 7, &["j"]));
    assert_eq!(bench.seen(), [""; 0], "nothing begins in phase R");
}

#[test]
fn a_leaving_worker_gives_grants_back() {
    let mut bench = Bench::that_runs(3, &["j"]);
    super::leaving::drain(&mut bench, 1);
    super::leaving::drained(&mut bench);
    bench.all();
    bench.grant(5, 7, &["k"]);
    assert_eq!(bench.of(&["release", "RUN", "begin"]), ["release 1: k@7 b; done 5"]);
}

#[test]
fn a_full_worker_sends_grants_elsewhere() {
    let mut bench = super::capacity::full(Bench::attached());
    bench.all();
    bench.grant(8, 9, &["c"]);
    assert_eq!(bench.seen(), ["release 1: c@9 e; done 8"]);
}

#[test]
fn a_grant_stopped_at_a_full_worker_has_ended_after_a_loss() {
    let mut bench = super::capacity::full(Bench::attached());
    bench.all();
    let stop = WorkerEvent::Stop { waiting: None, jobs: vec![(key("c"), Token(9), Some(id("n.c")))] };
    let events = [granted(1, 9, &["c"]), stop];
    let workers = (8..).zip(events).map(|(number, event)| (WorkerId(1), entry(number), event)).collect();
    bench.events(NodeEvents { workers, ..NodeEvents::default() });
    assert_eq!(bench.seen(), ["release 1: c@9 d; done 9 8"]);
    bench.released();
    bench.lost(2);
    let said = bench.of(&["attest"]);
    assert!(said.iter().any(|line| line.contains("c@9 ended")), "{said:?}");
}

#[test]
fn the_answer_to_a_late_begin_changes_nothing() {
    for reply in [true, false] {
        let mut bench = Bench::with_worker();
        bench.grant(5, 7, &["k"]);
        bench.advance(millis(250));
        assert_eq!(bench.seen(), ["RUN k@7", "begin 1: k@7; done 5"]);
        if reply {
            bench.begun();
        } else {
            bench.begin_answered(&[BeginReply::Refused]);
        }
        bench.handler(1, "k", 7, HandlerEvent::Started);
        assert_eq!(bench.seen(), ["started 1: k@7 tell=n"]);
        bench.started_noted();
        assert_eq!((bench.after(secs(1)).seen(), bench.in_flight()), (vec![], vec![]));
    }
}

#[test]
fn a_granted_job_that_has_left_is_not_confirmed() {
    let mut bench = Bench::with_worker();
    bench.grant(5, 7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Failed("no".into()));
    bench.released();
    bench.all();
    assert_eq!(bench.after(secs(1)).of(&["begin", "started"]), [""; 0]);
}

/// A worker that starts one job at a time, and as many wait for it as it lets wait.
fn without_room() -> Bench {
    let mut config = Config { start_permits: 1, start_timeout: secs(600), ..config() };
    config.settings.assign_timeout = secs(3);
    let mut bench = Bench::with_worker_as(config);
    let names: Vec<_> = (0..1_025).map(|n| format!("k{n}")).collect();
    for (number, names) in (10..).zip(names.chunks(128)) {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        bench.grant(number, number, &names);
    }
    bench.advance(millis(250));
    while bench.is_calling("begin") {
        bench.begun();
    }
    bench.all();
    assert!(!bench.is_calling("begin"), "all have begun");
    bench
}

#[test]
fn a_grant_that_finds_no_room_waits_and_is_given_back() {
    let mut bench = without_room();
    bench.grant(100, 100, &["late"]);
    bench.assign(1, 101, 101, &["later"]);
    assert_eq!(bench.seen(), [""; 0], "they wait for room");
    bench.advance(secs(3));
    assert_eq!(bench.of(&["release", "begin"]), ["release 1: late@100 r, later@101 r; done 100 101"]);
}

#[test]
fn a_grant_that_finds_room_in_time_is_begun() {
    let mut bench = without_room();
    bench.grant(100, 100, &["late"]);
    bench.handler(1, "k0", 10, HandlerEvent::Started);
    assert_eq!(bench.of(&["begin"]), ["begin 1: late@100; done 100"]);
    bench.begun();
    bench.advance(secs(3));
    assert_eq!(bench.of(&["release"]), [""; 0]);
}

#[test]
fn a_stop_ends_a_grant_that_waits_for_room() {
    let mut bench = without_room();
    bench.grant(100, 100, &["late"]);
    bench.stop_event(1, 101, Some("m"), &[("late", 100)]);
    assert_eq!(bench.of(&["release"]), ["release 1: late@100 d stopper=m; done 100 101"]);
}

/// A worker that has read of this token, and compares its jobs with the store.
fn that_looks(token: u64) -> Bench {
    let mut bench = Bench::with_worker();
    bench.assign(1, 3, token, &["other"]);
    bench.fail("begin");
    bench.all();
    bench
}

#[test]
fn a_job_above_all_tokens_that_were_read_is_begun() {
    let mut bench = that_looks(6);
    owns(&mut bench, Begun::Started, &[("k", 7)]);
    assert_eq!(bench.of(&["release"]), [""; 0]);
    assert_eq!(bench.after(secs(1)).of(&["begin"]), ["begin 1: other@6 k@7; done 3"]);
    bench.all();
    bench.grant(5, 7, &["k"]);
    assert!(bench.of(&["RUN"]).is_empty(), "the worker has spoken of it");
}

/// The news of a job that a former owner has left, with its state and notifications, which wait.
fn moved(granted: &mut GrantedJob) {
    let kept = Checkpoint { token: Token(3), number: 4, at: 0, bytes: "x".into() };
    granted.job.record.begun = Begun::Started;
    (granted.job.waiting, granted.job.checkpoint) = (true, Some(Box::new(kept)));
}

/// The news of a job for whose start nobody waits.
pub(super) fn submitted(granted: &mut GrantedJob) {
    (granted.awaited, granted.job.payload) = (false, sealed(RestartPolicy::Always));
}

/// A worker on which a submitted job has started.
fn with_a_late_note() -> Bench {
    let mut bench = Bench::with_worker();
    bench.event(1, 5, granted_as(1, 7, &["k"], submitted));
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["RUN k@7"], "its start is noted later");
    bench
}

#[test]
fn a_start_that_nobody_waits_for_is_noted_later() {
    let mut bench = with_a_late_note();
    assert_eq!(bench.after(millis(19)).seen(), [""; 0]);
    assert_eq!(bench.after(millis(1)).seen(), ["started 1: k@7 tell=n; done 5"]);
    bench.started_noted();
    assert_eq!((bench.after(secs(1)).seen(), bench.in_flight()), (vec![], vec![]));
}

#[test]
fn a_start_that_somebody_waits_for_takes_late_notes_along() {
    let mut bench = with_a_late_note();
    bench.grant(6, 8, &["j"]);
    bench.handler(1, "j", 8, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["RUN j@8", "started 1: k@7 tell=n j@8 tell=n; done 5 6"]);
}

#[test]
fn an_entry_that_cannot_be_read_has_the_records_compared() {
    let mut bench = Bench::with_worker();
    bench.event(1, 5, WorkerEvent::Unknown);
    assert_eq!(bench.of(&["owned"]), ["owned 1"]);
}

#[test]
fn a_job_that_moves_has_its_start_noted_at_once() {
    let mut bench = with_a_late_note();
    bench.handler(1, "k", 7, HandlerEvent::Ended(Err("no".into())));
    assert_eq!(bench.of(&["started", "release"]), ["started 1: k@7 tell=n; done 5"]);
    bench.started_noted();
    assert_eq!(bench.of(&["release"]).len(), 1);
}

#[test]
fn a_job_that_ran_elsewhere_starts_with_its_news() {
    let mut bench = Bench::with_worker();
    bench.event(1, 5, granted_as(1, 7, &["k"], moved));
    assert_eq!(bench.seen(), ["RUN k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen(), ["take 1: k@7 ack=0; done 5"]);
    assert_eq!(bench.after(millis(20)).seen(), ["started 1: k@7"]);
    bench.started_noted();
    assert_eq!(bench.after(secs(1)).of(&["begin"]), [""; 0], "the store knows that it began once");
    bench.lost(2);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(bench.of(&["save"]), ["save 1: k@7 given=3#4"], "it has its former owner's state");
}

#[test]
fn a_slow_start_of_a_job_that_ran_elsewhere_needs_no_begin() {
    let mut bench = Bench::with_worker();
    bench.event(1, 5, granted_as(1, 7, &["k"], moved));
    bench.all();
    assert_eq!(bench.after(millis(250)).seen(), ["begin 1: ; done 5"], "the entry alone");
}

#[test]
fn a_job_that_began_here_and_is_not_here_is_given_back() {
    let mut bench = that_looks(7);
    owns(&mut bench, Begun::Begun, &[("k", 7)]);
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 b; done 3"]);
    bench.released();
    bench.all();
    bench.grant(5, 7, &["k"]);
    assert!(bench.of(&["RUN"]).is_empty(), "the worker has spoken of it");
}

#[test]
fn a_grant_of_a_key_that_runs_here_waits_for_its_end() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.grant(5, 7, &["k"]);
    assert_eq!(bench.of(&["RUN", "STOP", "begin"]), ["STOP k@3 LeaseLost"]);
    bench.handler(1, "k", 3, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["RUN", "release"]), ["RUN k@7"]);
}

#[test]
fn a_granted_job_that_belongs_elsewhere_moves_there() {
    let mut bench = Bench::with_worker();
    bench.set_member(2, up(1));
    bench.advance(secs(6));
    let names = ["a", "b", "c", "d", "e", "f"];
    bench.grant(5, 7, &names);
    for name in names {
        bench.handler(1, name, 7, HandlerEvent::Started);
    }
    while bench.is_calling("started") {
        bench.started_noted();
    }
    bench.advance(secs(6));
    assert!(!bench.of(&["STOP"]).is_empty());
}

#[test]
fn a_granted_job_is_reported_after_a_loss_of_data() {
    let mut bench = Bench::with_worker();
    bench.grant(5, 7, &["k"]);
    bench.lost(2);
    assert_eq!(bench.of(&["attest", "begin"]), ["attest 1: k@7 begun"]);
    assert_eq!(bench.engine.seen().token, Token(7));
}

#[test]
fn a_fenced_worker_honours_no_grant() {
    let mut bench = Bench::that_runs(3, &["k"]);
    bench.step([Input::LeaseLost(WorkerId(1))]);
    bench.all();
    bench.grant(5, 7, &["j"]);
    assert_eq!(bench.of(&["RUN", "begin"]), [""; 0]);
}

#[test]
fn a_worker_that_leaves_gives_back_what_waits_for_room() {
    let mut bench = without_room();
    bench.grant(100, 100, &["late"]);
    super::leaving::drain(&mut bench, 1);
    super::leaving::drained(&mut bench);
    let releases = bench.of(&["release", "begin"]);
    assert!(releases.iter().any(|line| line.contains("late@100 b")), "{releases:?}");
    assert!(!bench.is_calling("begin"));
}

#[test]
fn an_update_that_overtakes_a_late_begin_is_read() {
    let mut bench = Bench::with_worker();
    bench.grant(5, 7, &["k"]);
    bench.advance(millis(250));
    bench.event(1, 6, WorkerEvent::Update { jobs: vec![(key("k"), Token(7), 1)] });
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.all();
    bench.begun();
    assert_eq!(bench.of(&["begin", "UPDATE"]), ["begin 1: k@7"], "the record is read after the update");
    bench.begun_with(false, |record| record.set_generation(1));
    assert_eq!(bench.of(&["UPDATE"]).len(), 1);
}

#[test]
fn the_answer_to_a_late_begin_takes_up_nothing() {
    let mut bench = Bench::with_worker();
    bench.grant(5, 7, &["k"]);
    bench.advance(millis(250));
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.started_noted();
    bench.leaves(1, "k", 7, HandlerEvent::Ended(Ok(())));
    bench.all();
    bench.grant(6, 7, &["k"]);
    bench.begun();
    assert_eq!(
        bench.of(&["RUN", "begin"]),
        ["begin 1: k@7; done 6"],
        "the first answer is of the run that is over"
    );
    bench.begin_answered(&[BeginReply::Refused]);
    assert_eq!(bench.of(&["RUN"]), [""; 0]);
}

#[test]
fn a_start_that_is_set_aside_holds_up_no_finished_entry() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    bench.fail_with("started", StoreError::Damaged(Failure::new(std::fmt::Error)));
    bench.all();
    bench.event(1, 6, WorkerEvent::Unknown);
    assert_eq!(bench.of(&["begin"]), ["begin 1: ; done 6"]);
}

#[test]
fn a_grant_behind_an_ask_of_its_job_is_begun() {
    let mut bench = Bench::with_worker();
    bench.ask_event(6, 1, false);
    bench.all();
    bench.grant(5, 7, &["k"]);
    assert_eq!(bench.of(&["RUN", "begin"]), ["begin 1: k@7; done 5"]);
}

#[test]
fn a_stopping_pool_starts_no_grant() {
    let mut bench = Bench::that_runs(3, &["j"]);
    super::shutting_down::hear_of_stopping(&mut bench);
    bench.all();
    bench.grant(5, 7, &["k"]);
    assert_eq!(bench.of(&["RUN", "release"]), ["release 1: k@7 b; done 5"]);
}

#[test]
fn a_grant_is_not_confirmed_in_another_incarnation() {
    let mut bench = Bench::with_worker();
    bench.grant(5, 7, &["k"]);
    bench.lost(2);
    bench.attested(&[AttestReply::Kept]);
    bench.attended(None);
    bench.reopened(2);
    assert_eq!(bench.after(secs(1)).of(&["begin"]), [""; 0], "the report has said that it has begun");
}

#[test]
fn a_note_of_starts_names_no_more_entries_than_a_call_has() {
    let mut bench = Bench::with_worker();
    bench.worker(2);
    let of = |worker, number, token, name| (WorkerId(worker), entry(number), granted(1, token, &[name]));
    let names: Vec<_> = (0..128).map(|n| format!("k{n}")).collect();
    let grants = (100..).zip(&names).map(|(number, name)| of(1, number, number, name.as_str()));
    let workers = grants.chain([of(2, 5, 300, "other")]).collect();
    bench.events(NodeEvents { workers, ..NodeEvents::default() });
    bench.all();
    let started = |worker, name: &str, token| Input::Handler {
        worker: WorkerId(worker),
        key: key(name),
        token: Token(token),
        event: HandlerEvent::Started,
    };
    bench.step([started(1, "k0", 100), started(2, "other", 300)]);
    let notes = bench.of(&["started"]).concat();
    assert!(notes.starts_with("started 1: k0@100") && !notes.contains("other"), "{notes}");
}
