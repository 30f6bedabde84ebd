//! Other payloads: on their way to a job, and at the worker that runs it.

use bytes::Bytes;

use super::bench::{Bench, config, key, millis, record, sealed, secs};
use super::leaving::drained;
use super::shutting_down::hear_of_stopping;
use super::steering::event as steer;
use crate::core::call::Call;
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent, LocalWorker, NewUpdate, NotTaken};
use crate::model::id::{Incarnation, Token, WorkerId};
use crate::model::policy::RestartPolicy;
use crate::model::record::Record;
use crate::model::wire::{Envelope, ProgressTimeout};
use crate::step::{
    AttestReply, BeginReply, Lookup, OwnedPage, PoolState, Refusal, ReleaseMode, ReleaseReply, StoreError,
    UpdateReply, Way, WorkerEvent,
};

fn update(bench: &mut Bench, expected: Option<u64>) {
    update_of(bench, None, expected);
}

fn update_of(bench: &mut Bench, of: Option<&str>, expected: Option<u64>) {
    let (of, deadline) = (of.map(|id: &str| id.parse().unwrap()), bench.now + secs(5));
    let payload = sealed(RestartPolicy::Never);
    bench.command(|reply| Command::Update {
        reply,
        new: NewUpdate { key: key("k"), payload, of, expected, deadline },
    });
}

fn found(bench: &mut Bench, record: Option<Record>) {
    bench.answer_with("look-to-update", vec![Lookup { record, ..Lookup::default() }]);
}

fn updated(bench: &mut Bench, reply: UpdateReply) {
    bench.answer_each("update", reply);
}

/// k under token 7 at worker 9, with this generation.
fn running(generation: u64) -> Record {
    let mut record = record("k", 7, WorkerId(9));
    record.set_generation(generation);
    record
}

/// An update of k in generation 4, on its way.
pub(super) fn on_its_way(expected: Option<u64>) -> Bench {
    let mut bench = Bench::attached();
    update(&mut bench, expected);
    found(&mut bench, Some(running(4)));
    let named = expected.unwrap_or(4);
    assert_eq!(bench.seen(), ["look-to-update k".to_owned(), format!("update k/n.k#{named} owner=9")]);
    bench
}

#[test]
fn an_update_follows_the_generation_that_was_found() {
    let answers = [
        (UpdateReply::Kept(5), "reply 1 updated #5"),
        (UpdateReply::Equal(4), "reply 1 updated #4"),
        (UpdateReply::Stopping, "reply 1 updated JobNotFound"),
        (UpdateReply::Bad, "reply 1 updated BadRecord"),
    ];
    for (reply, answer) in answers {
        let mut bench = on_its_way(None);
        updated(&mut bench, reply);
        assert_eq!(bench.seen(), [answer]);
    }
    let mut bench = on_its_way(None);
    updated(&mut bench, UpdateReply::TooLong);
    assert!(bench.seen()[0].contains("TooLong"));
}

#[test]
fn an_update_goes_to_the_owner_that_the_job_has_now() {
    let mut bench = on_its_way(None);
    updated(&mut bench, UpdateReply::Owner(Some(WorkerId(3))));
    assert_eq!(bench.seen(), ["update k/n.k#4 owner=3"]);
}

#[test]
fn an_update_that_others_overtook_looks_again() {
    for reply in [UpdateReply::Conflict(6), UpdateReply::Absent] {
        let mut bench = on_its_way(None);
        updated(&mut bench, reply);
        found(&mut bench, Some(running(6)));
        assert_eq!(bench.seen(), ["look-to-update k", "update k/n.k#6 owner=9"]);
        found_nothing_after(&mut bench);
    }
}

fn found_nothing_after(bench: &mut Bench) {
    updated(bench, UpdateReply::Absent);
    found(bench, None);
    assert_eq!(bench.seen(), ["look-to-update k", "reply 1 updated JobNotFound"]);
}

#[test]
fn an_update_of_another_dispatch_is_refused() {
    for (of, seen) in [("n.k", "update k/n.k#4 owner=9"), ("n.j", "reply 1 updated OtherDispatch")] {
        let mut bench = Bench::attached();
        update_of(&mut bench, Some(of), None);
        found(&mut bench, Some(running(4)));
        assert_eq!(bench.seen(), ["look-to-update k", seen]);
    }
}

#[test]
fn a_job_that_runs_nowhere_is_asked_for_after_a_pause() {
    let mut bench = on_its_way(None);
    updated(&mut bench, UpdateReply::Owner(None));
    assert_eq!(bench.seen(), [""; 0]);
    assert_eq!(bench.after(millis(600)).of(&["update"]), ["update k/n.k#4 owner=9"]);
}

#[test]
fn an_update_that_expects_a_generation_hears_of_another_one() {
    let mut bench = on_its_way(Some(2));
    updated(&mut bench, UpdateReply::Conflict(4));
    assert_eq!(bench.seen(), ["reply 1 updated OtherGeneration"]);
}

#[test]
fn an_update_without_an_answer_is_sent_again_as_it_was() {
    for (reply, then) in [
        (UpdateReply::Equal(5), vec!["reply 1 updated #5"]),
        // Others were first, so this one was not carried out.
        (UpdateReply::Conflict(5), vec!["look-to-update k"]),
        // Others were last.
        (UpdateReply::Conflict(6), vec!["reply 1 updated #5"]),
        // The data went back.
        (UpdateReply::Conflict(3), vec!["look-to-update k"]),
        // The job that it was for is gone.
        (UpdateReply::Absent, vec!["look-to-update k"]),
    ] {
        let mut bench = on_its_way(None);
        bench.fail("update");
        bench.all();
        assert_eq!(bench.after(secs(1)).of(&["update"]), ["update k/n.k#4 owner=9"]);
        updated(&mut bench, reply);
        assert_eq!(bench.of(&["reply", "update", "look-to-update"]), then);
    }
}

/// An update that may have been carried out, of a dispatch that is gone.
fn in_doubt() -> Bench {
    let mut bench = on_its_way(None);
    bench.fail("update");
    bench.all();
    bench.advance(secs(1));
    updated(&mut bench, UpdateReply::Absent);
    assert_eq!(
        bench.of(&["reply", "update", "look-to-update"]),
        ["update k/n.k#4 owner=9", "look-to-update k"]
    );
    bench
}

#[test]
fn an_update_in_doubt_is_made_for_its_own_dispatch_only() {
    let another = Record { id: "n.another".parse().unwrap(), ..running(0) };
    for (record, then) in [
        (Some(running(4)), "update k/n.k#4 owner=9"),
        (Some(running(6)), "update k/n.k#4 owner=9"),
        (Some(another), "reply 1 updated UpdateInDoubt"),
        (None, "reply 1 updated JobNotFound"),
    ] {
        let mut bench = in_doubt();
        found(&mut bench, record);
        assert_eq!(bench.of(&["reply", "update", "look-to-update"]), [then]);
    }
}

#[test]
fn an_update_in_doubt_that_is_gone_stays_in_doubt() {
    let mut bench = in_doubt();
    found(&mut bench, Some(running(4)));
    updated(&mut bench, UpdateReply::Absent);
    found(&mut bench, Some(Record { id: "n.another".parse().unwrap(), ..running(0) }));
    assert_eq!(bench.of(&["reply"]), ["reply 1 updated UpdateInDoubt"]);
}

#[test]
fn no_update_follows_a_record_that_was_read_in_phase_r() {
    let mut bench = Bench::with_worker();
    bench.lost(2);
    update(&mut bench, None);
    found(&mut bench, Some(running(4)));
    assert_eq!(bench.after(millis(100)).of(&["update", "look-to-update"]), ["look-to-update k"; 2]);
    bench.attested(&[]);
    bench.attended(None);
    bench.reopened(2);
    found(&mut bench, Some(running(4)));
    assert_eq!(bench.of(&["update", "reply"]), [""; 0], "the look was sent before the pool was open");
    bench.advance(millis(100));
    found(&mut bench, Some(Record { id: "n.another".parse().unwrap(), ..running(0) }));
    assert_eq!(bench.of(&["update"]), ["update k/n.another#0 owner=9"]);
}

#[test]
fn an_update_waits_until_the_pool_is_open() {
    let mut bench = on_its_way(None);
    updated(&mut bench, UpdateReply::Recovering);
    assert_eq!(bench.seen(), [""; 0]);
    assert_eq!(bench.after(millis(600)).of(&["update"]), ["update k/n.k#4 owner=9"]);
}

#[test]
fn an_update_ends_at_its_deadline() {
    let mut bench = on_its_way(None);
    assert_eq!(bench.after(secs(6)).of(&["reply"]), ["reply 1 late"]);
    updated(&mut bench, UpdateReply::Kept(5));
    assert_eq!(bench.of(&["update", "look-to-update"]), [""; 0]);
}

#[test]
fn an_update_ends_with_its_pool() {
    let mut bench = on_its_way(None);
    bench.command(|reply| Command::Attach { reply });
    bench.all();
    bench.fail_with("update", StoreError::Refused(Refusal::Closed));
    bench.survey(PoolState::Closed { incarnation: Incarnation(1) });
    assert_eq!(bench.of(&["reply"]), ["reply 1 updated PoolClosed"]);
}

pub(super) fn event(bench: &mut Bench, number: u64, token: u64, generation: u64) {
    let jobs = vec![(key("k"), Token(token), generation)];
    bench.event(1, number, WorkerEvent::Update { jobs });
}

/// Whether the worker reads k's record. Calls that only delete entries are answered before.
pub(super) fn reads(bench: &mut Bench) -> bool {
    while bench.is_calling("begin") {
        if bench.in_flight_call("begin").items() > 0 {
            return true;
        }
        bench.begins_answered(|_| Ok(vec![]));
    }
    false
}

/// The begin in flight is answered with the payload of this generation, and the handler is given it.
pub(super) fn handed(bench: &mut Bench, generation: u64) {
    assert!(reads(bench));
    bench.begun_with(false, |record| record.set_generation(generation));
    assert_eq!(bench.of(&["UPDATE"]), [format!("UPDATE k@7 #{generation}")]);
}

/// The handler takes the payload in its hand, or says why not.
pub(super) fn says(bench: &mut Bench, generation: u64, result: Result<(), &str>) {
    let why = |why: &str| if why.is_empty() { NotTaken::Restart } else { NotTaken::Failed(why.into()) };
    let result = result.map_err(why);
    bench.handler(1, "k", 7, HandlerEvent::Updated { generation, result });
}

/// k runs, and its handler has the payload of generation 1 in hand.
pub(super) fn in_hand(bench: &mut Bench) {
    bench.running(7, &["k"]);
    event(bench, 9, 7, 1);
    handed(bench, 1);
}

fn restarts(bench: &mut Bench) {
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release"])[0].split(';').next(), Some("release 1: k@7 h"));
}

#[test]
fn a_running_job_with_another_payload_is_restarted() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 6, 1);
    event(&mut bench, 10, 7, 0);
    assert_eq!(bench.of(&["STOP"]), [""; 0], "another token, and the payload that it runs with");
    assert!(!reads(&mut bench));
    event(&mut bench, 11, 7, 1);
    event(&mut bench, 12, 7, 2);
    handed(&mut bench, 2);
    says(&mut bench, 2, Err(""));
    assert_eq!(bench.of(&["STOP", "!"]), ["STOP k@7 Updated"], "once");
    restarts(&mut bench);
}

#[test]
fn a_running_job_takes_another_payload_where_it_runs() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    says(&mut bench, 1, Ok(()));
    event(&mut bench, 10, 7, 1);
    assert_eq!(bench.of(&["STOP", "UPDATE", "!"]), [""; 0]);
    assert!(!reads(&mut bench));
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(released(&mut bench), [Some(1)]);
}

#[test]
fn a_payload_that_is_not_taken_yet_was_not_run_with() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    says(&mut bench, 1, Ok(()));
    assert_eq!(released(&mut bench), [Some(0)], "so its next run gets it");
}

#[test]
fn a_handler_that_fails_with_a_payload_is_reported() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    says(&mut bench, 1, Err("it is odd"));
    assert_eq!(bench.of(&["STOP", "!"]), ["! not-updated k@7 'it is odd'", "STOP k@7 Updated"]);
    restarts(&mut bench);
}

#[test]
fn a_handler_that_takes_no_payload_says_so_once() {
    let mut bench = Bench::that_runs(6, &["i"]);
    in_hand(&mut bench);
    bench.handler(1, "k", 7, HandlerEvent::Updated { generation: 1, result: Err(NotTaken::Never) });
    assert_eq!(bench.of(&["STOP", "!"]), ["STOP k@7 Updated"]);
    bench.event(1, 10, WorkerEvent::Update { jobs: vec![(key("i"), Token(6), 1)] });
    assert_eq!(bench.of(&["STOP"]), ["STOP i@6 Updated"], "at once");
    assert!(!reads(&mut bench));
}

#[test]
fn a_handler_that_hangs_with_a_payload_is_restarted() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    assert_eq!(bench.after(secs(29)).of(&["STOP"]), [""; 0]);
    bench.advance(secs(2));
    assert_eq!(bench.of(&["STOP", "!"]), ["! not-updated k@7 'it took too long'", "STOP k@7 Updated"]);
    says(&mut bench, 1, Ok(()));
    restarts(&mut bench);
}

#[test]
fn a_payload_that_comes_while_one_is_in_hand_is_next() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    event(&mut bench, 10, 7, 2);
    event(&mut bench, 11, 7, 3);
    assert!(!reads(&mut bench), "one at a time");
    says(&mut bench, 1, Ok(()));
    handed(&mut bench, 3);
    says(&mut bench, 1, Err("an answer that came before"));
    says(&mut bench, 3, Ok(()));
    assert!(!reads(&mut bench));
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(released(&mut bench), [Some(3)]);
}

#[test]
fn a_payload_that_was_read_before_the_last_update_is_no_end() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, 1);
    event(&mut bench, 10, 7, 2);
    handed(&mut bench, 1);
    says(&mut bench, 1, Ok(()));
    handed(&mut bench, 2);
}

#[test]
fn a_record_without_news_ends_the_update() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, 1);
    bench.begun();
    assert_eq!(bench.of(&["STOP", "UPDATE"]), [""; 0]);
    assert!(!reads(&mut bench));
    event(&mut bench, 10, 7, 2);
    assert!(reads(&mut bench));
    bench.begin_answered(&[BeginReply::Refused]);
    assert_eq!(bench.of(&["STOP", "UPDATE"]), [""; 0], "it is being stopped, and there is news of that");
    bench.notify_event(1, 11, "k", 7);
    assert!(bench.is_calling("take"));
}

#[test]
fn a_payload_is_read_again_when_the_answer_is_lost() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, 1);
    bench.fail("begin");
    bench.advance(secs(1));
    handed(&mut bench, 1);
}

#[test]
fn a_payload_of_a_newer_version_is_left_to_the_next_begin() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, 1);
    bench.begun_as(&Bytes::from_static(b"\x82\xa1v\x09\xa4body\xc4\x00"), false, |record| {
        record.set_generation(1);
    });
    assert_eq!(bench.of(&["STOP", "UPDATE"]), ["STOP k@7 Updated"]);
    restarts(&mut bench);
}

#[test]
fn notifications_and_asks_wait_for_the_update_before_them() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    bench.notify_event(1, 10, "k", 7);
    bench.ask_event(20, 1, false);
    assert_eq!(bench.of(&["take", "ASK"]), [""; 0]);
    says(&mut bench, 1, Ok(()));
    assert_eq!(bench.of(&["take", "ASK"]), ["take 1: k@7 ack=0"]);
    bench.taken(1, &[]);
    assert_eq!(bench.of(&["take", "ASK"]).last().unwrap(), "ASK k@7 ask-1");
}

#[test]
fn a_payload_in_hand_when_data_are_lost_means_nothing() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    bench.lost(2);
    let said = bench.of(&["STOP", "attest"]);
    assert_eq!(said, ["STOP k@7 Updated", "attest 1: k@7 started"]);
    says(&mut bench, 1, Ok(()));
    let call = bench.call("attest");
    assert!(format!("{call:?}").contains("generation: 0"), "{call:?}");
}

#[test]
fn a_job_that_was_read_for_when_data_are_lost_goes_on() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, 1);
    bench.lost(2);
    bench.begun_with(false, |record| record.set_generation(1));
    assert_eq!(bench.of(&["STOP", "UPDATE"]), [""; 0], "the answer is about the lost data");
    bench.attested(&[AttestReply::Kept]);
    bench.attended(None);
    bench.reopened(2);
    event(&mut bench, 9, 7, 1);
    handed(&mut bench, 1);
}

#[test]
fn a_job_runs_by_the_policy_and_the_timeout_that_it_has_taken() {
    let mut bench = Bench::that_runs(7, &["k"]);
    event(&mut bench, 9, 7, 1);
    let progress = ProgressTimeout::new(secs(5));
    let envelope = Envelope { policy: RestartPolicy::Always, progress, ..Envelope::new(b"") }.seal().unwrap();
    bench.begun_as(&envelope, false, |record| record.set_generation(1));
    assert_eq!(bench.after(secs(6)).of(&["LOOK"]), [""; 0]);
    says(&mut bench, 1, Ok(()));
    assert_eq!(bench.after(millis(5_500)).of(&["LOOK"]), ["LOOK k@7"]);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert!(bench.of(&["release"])[0].starts_with("release 1: k@7 h"));
}

#[test]
fn a_job_knows_the_generation_that_it_was_begun_with() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.begun_with(false, |record| record.set_generation(3));
    bench.handler(1, "k", 7, HandlerEvent::Started);
    event(&mut bench, 9, 7, 3);
    assert_eq!(bench.of(&["STOP"]), [""; 0]);
    event(&mut bench, 10, 7, 4);
    handed(&mut bench, 4);
}

#[test]
fn an_update_that_overtakes_the_answer_of_the_begin_is_heard() {
    for (generation, then) in [(0, "release 1: k@7 b tell=n; done 9"), (1, "RUN k@7")] {
        let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
        event(&mut bench, 9, 7, 1);
        bench.all();
        bench.begun_with(false, |record| record.set_generation(generation));
        assert_eq!(bench.of(&["RUN", "release"]), [then]);
    }
}

#[test]
fn a_start_goes_on_and_its_job_is_given_the_payload_then() {
    let mut bench = Bench::that_starts(5, 7, &["k"]);
    bench.all();
    event(&mut bench, 9, 7, 1);
    assert_eq!(bench.of(&["STOP", "CANCEL"]), [""; 0]);
    assert!(!reads(&mut bench));
    bench.handler(1, "k", 7, HandlerEvent::Started);
    handed(&mut bench, 1);
    bench.started_noted();
    says(&mut bench, 1, Err(""));
    restarts(&mut bench);
}

#[test]
fn a_job_that_ends_with_the_pool_starts_first_even_when_updated() {
    let mut bench = Bench::with_worker_as(Config { start_permits: 1, ..config() });
    bench.begin(1, 5, 7, &["i", "j", "k"]);
    bench.all();
    hear_of_stopping(&mut bench);
    assert_eq!(bench.of(&["CANCEL", "RUN"]), ["CANCEL i@7", "RUN j@7"]);
    event(&mut bench, 9, 7, 1);
    assert_eq!(bench.of(&["release"]), [""; 0]);
    bench.handler(1, "j", 7, HandlerEvent::Started);
    assert_eq!(bench.of(&["RUN"]), ["RUN k@7"]);
}

#[test]
fn a_start_that_fails_is_made_again_with_the_other_payload() {
    for (is_updated, release) in [(false, "d"), (true, "q")] {
        let mut bench = Bench::that_starts(5, 7, &["k"]);
        bench.all();
        if is_updated {
            event(&mut bench, 9, 7, 1);
        }
        bench.handler(1, "k", 7, HandlerEvent::Failed("bad".into()));
        let released = bench.of(&["release"]);
        assert_eq!(released[0].split(' ').nth(3), Some(release), "{released:?}");
    }
}

#[test]
fn a_job_that_waits_for_its_permit_starts_with_the_other_payload() {
    let mut bench = Bench::with_worker_as(Config { start_permits: 1, ..config() });
    bench.begin(1, 5, 7, &["a", "k"]);
    bench.all();
    event(&mut bench, 9, 7, 1);
    assert_eq!(bench.of(&["release"]), ["release 1: k@7 b tell=n; done 9"]);
}

#[test]
fn a_job_that_ends_by_itself_names_the_generation_it_ran_with() {
    type Ends = fn() -> HandlerEvent;
    let ends: [(Ends, Option<u64>); 3] = [
        (|| HandlerEvent::Ended(Ok(())), Some(3)),
        (|| HandlerEvent::Ended(Err("bad".into())), Some(3)),
        (|| HandlerEvent::Park("bad".into()), Some(3)),
    ];
    for (event, ran) in ends {
        let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
        bench.begun_with(false, |record| record.set_generation(3));
        bench.handler(1, "k", 7, HandlerEvent::Started);
        bench.started_noted();
        bench.handler(1, "k", 7, event());
        assert_eq!(released(&mut bench), [ran]);
    }
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.stop_event(1, 10, None, &[("k", 7)]);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(released(&mut bench), [None], "nobody runs a stopped job again");
}

#[test]
fn a_job_rests_with_any_payload_if_an_operator_wants_it_to() {
    let stopped: fn() -> HandlerEvent = || HandlerEvent::Stopped(Ok(()));
    let parks: fn() -> HandlerEvent = || HandlerEvent::Park("bad".into());
    let fails: fn() -> HandlerEvent = || HandlerEvent::Failed("cancelled".into());
    for way in [Way::Park, Way::Pause] {
        for ends in [stopped, parks, fails] {
            let mut bench = Bench::with_worker();
            in_hand(&mut bench);
            steer(&mut bench, 10, 7, way);
            bench.handler(1, "k", 7, ends());
            let release = bench.of(&["release"]);
            assert!(release[0].starts_with("release 1: k@7 p "), "{release:?}");
            assert_eq!(released(&mut bench), [None], "{way:?}");
        }
    }
    for way in [Way::Park, Way::Pause] {
        let mut bench = Bench::with_worker();
        in_hand(&mut bench);
        steer(&mut bench, 10, 7, way);
        bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
        let call = bench.call("release");
        let Call::Release(release) = &call else { panic!("{call:?}") };
        let [item] = &release.items[..] else { panic!("{release:?}") };
        let said = (item.mode, item.ran, &*item.rests);
        assert_eq!(said, (ReleaseMode::Delete, Some(0), "bad feed"), "it rests, if it has another payload");
        bench.done(call.answered(Ok(vec![ReleaseReply::Parked])));
        let news = if way == Way::Pause { "paused" } else { "parked" };
        assert!(bench.seen().iter().any(|seen| seen.contains(news) && seen.contains("bad feed")));
    }
}

fn released(bench: &mut Bench) -> Vec<Option<u64>> {
    let Call::Release(release) = bench.call("release") else { panic!("a release") };
    release.items.iter().map(|item| item.ran).collect()
}

#[test]
fn a_stop_and_a_drain_are_more_than_an_update() {
    let mut bench = Bench::with_worker();
    in_hand(&mut bench);
    bench.stop_event(1, 10, Some("m"), &[("k", 7)]);
    says(&mut bench, 1, Err("too late"));
    assert_eq!(bench.of(&["STOP", "!"]), ["STOP k@7 Stopped"]);
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release"])[0].split(';').next(), Some("release 1: k@7 d stopper=m"));
    let mut bench = Bench::that_runs(7, &["k"]);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    drained(&mut bench);
    event(&mut bench, 9, 7, 1);
    assert_eq!(bench.of(&["STOP"]), ["STOP k@7 Draining"]);
}

#[test]
fn a_comparison_with_the_records_finds_a_lost_update() {
    for generation in [0, 2] {
        let mut bench = Bench::that_runs(7, &["k"]);
        // A release without an answer asks for the comparison.
        bench.running(8, &["other"]);
        bench.handler(1, "other", 8, HandlerEvent::Ended(Ok(())));
        bench.fail("release");
        bench.all();
        bench.advance(secs(1));
        let mut record = record("k", 7, WorkerId(1));
        record.set_generation(generation);
        let page = OwnedPage { next: None, jobs: vec![(key("k"), Some(record))] };
        bench.answer_with("owned", page);
        assert_eq!(reads(&mut bench), generation > 0);
    }
}

#[test]
fn a_report_after_a_loss_names_the_generation() {
    let mut bench = Bench::that_is_assigned(5, 7, &["k"]);
    bench.begun_with(false, |record| record.set_generation(3));
    bench.lost(2);
    let call = bench.call("attest");
    assert!(format!("{call:?}").contains("generation: 3"), "{call:?}");
}
