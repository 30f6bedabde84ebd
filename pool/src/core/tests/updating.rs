//! Other payloads: on their way to a job, and at the worker that runs it.

use super::bench::{Bench, config, key, millis, record, sealed, secs};
use super::leaving::drained;
use super::shutting_down::hear_of_stopping;
use crate::core::call::{Call, Done};
use crate::core::ctx::Config;
use crate::core::input::{Command, HandlerEvent, LocalWorker, NewPayload};
use crate::model::id::{Token, WorkerId};
use crate::model::policy::RestartPolicy;
use crate::model::record::Record;
use crate::store::{Lookup, OwnedPage, UpdateReply, WorkerEvent};

fn update(bench: &mut Bench, expected: Option<u64>) {
    update_of(bench, None, expected);
}

fn update_of(bench: &mut Bench, of: Option<&str>, expected: Option<u64>) {
    let (of, deadline) = (of.map(|id: &str| id.parse().unwrap()), bench.now + secs(5));
    let payload = sealed(RestartPolicy::Never);
    bench.command(|reply| Command::Update {
        reply,
        new: NewPayload { key: key("k"), payload, of, expected, deadline },
    });
}

fn found(bench: &mut Bench, record: Option<Record>) {
    bench.answer("look-to-update", |_| Done::LookToUpdate(Ok(vec![Lookup { record, ..Lookup::default() }])));
}

fn updated(bench: &mut Bench, reply: UpdateReply) {
    bench.answer("update", |_| Done::Update(Ok(vec![reply])));
}

/// k under token 7 at worker 9, with this generation.
fn running(generation: u64) -> Record {
    let mut record = record("k", 7, WorkerId(9));
    record.set_generation(generation);
    record
}

/// An update of k in generation 4, on its way.
fn on_its_way(expected: Option<u64>) -> Bench {
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
    bench.advance(millis(600));
    assert_eq!(bench.of(&["update"]), ["update k/n.k#4 owner=9"]);
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
        (UpdateReply::Absent, vec!["reply 1 updated JobNotFound"]),
    ] {
        let mut bench = on_its_way(None);
        bench.fail("update");
        bench.all();
        bench.advance(secs(1));
        assert_eq!(bench.of(&["update"]), ["update k/n.k#4 owner=9"]);
        updated(&mut bench, reply);
        assert_eq!(bench.of(&["reply", "update", "look-to-update"]), then);
    }
}

#[test]
fn an_update_waits_until_the_pool_is_open() {
    let mut bench = on_its_way(None);
    updated(&mut bench, UpdateReply::Recovering);
    assert_eq!(bench.seen(), [""; 0]);
    bench.advance(millis(600));
    assert_eq!(bench.of(&["update"]), ["update k/n.k#4 owner=9"]);
}

#[test]
fn an_update_ends_at_its_deadline() {
    let mut bench = on_its_way(None);
    bench.advance(secs(6));
    assert_eq!(bench.of(&["reply"]), ["reply 1 late"]);
    updated(&mut bench, UpdateReply::Kept(5));
    assert_eq!(bench.of(&["update", "look-to-update"]), [""; 0]);
}

pub(super) fn event(bench: &mut Bench, number: u64, token: u64, generation: u64) {
    let jobs = vec![(key("k"), Token(token), generation)];
    bench.event(1, number, WorkerEvent::Update { jobs });
}

fn restarts(bench: &mut Bench) {
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release"])[0].split(';').next(), Some("release 1: k@7 h"));
}

#[test]
fn a_running_job_with_another_payload_is_restarted() {
    let mut bench = Bench::with_worker();
    bench.running(7, &["k"]);
    event(&mut bench, 9, 6, 1);
    event(&mut bench, 10, 7, 0);
    assert_eq!(bench.of(&["STOP"]), [""; 0], "another token, and the payload that it runs with");
    event(&mut bench, 11, 7, 1);
    event(&mut bench, 12, 7, 2);
    assert_eq!(bench.of(&["STOP"]), ["STOP k@7 Updated"], "once");
    restarts(&mut bench);
}

#[test]
fn a_job_knows_the_generation_that_it_was_begun_with() {
    let mut bench = Bench::with_worker();
    bench.assign(1, 5, 7, &["k"]);
    bench.begun_with(false, |record| record.set_generation(3));
    bench.handler(1, "k", 7, HandlerEvent::Started);
    event(&mut bench, 9, 7, 3);
    assert_eq!(bench.of(&["STOP"]), [""; 0]);
    event(&mut bench, 10, 7, 4);
    assert_eq!(bench.of(&["STOP"]), ["STOP k@7 Updated"]);
}

#[test]
fn an_update_that_overtakes_the_answer_of_the_begin_is_heard() {
    for (generation, then) in [(0, "release 1: k@7 b tell=n; done 9"), (1, "RUN k@7")] {
        let mut bench = Bench::with_worker();
        bench.assign(1, 5, 7, &["k"]);
        event(&mut bench, 9, 7, 1);
        bench.all();
        bench.begun_with(false, |record| record.set_generation(generation));
        assert_eq!(bench.of(&["RUN", "release"]), [then]);
    }
}

#[test]
fn a_start_goes_on_and_is_restarted_then() {
    let mut bench = Bench::with_worker();
    bench.assign(1, 5, 7, &["k"]);
    bench.begun();
    bench.all();
    event(&mut bench, 9, 7, 1);
    assert_eq!(bench.of(&["STOP", "CANCEL"]), [""; 0]);
    bench.handler(1, "k", 7, HandlerEvent::Started);
    assert_eq!(bench.seen()[0], "STOP k@7 Updated");
    bench.started_noted();
    restarts(&mut bench);
}

#[test]
fn a_job_that_ends_with_the_pool_starts_first_even_when_updated() {
    let mut bench = Bench::attached_with(Config { start_permits: 1, ..config() });
    bench.worker(1);
    bench.assign(1, 5, 7, &["i", "j", "k"]);
    bench.begun();
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
        let mut bench = Bench::with_worker();
        bench.assign(1, 5, 7, &["k"]);
        bench.begun();
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
    let mut bench = Bench::attached_with(Config { start_permits: 1, ..config() });
    bench.worker(1);
    bench.assign(1, 5, 7, &["a", "k"]);
    bench.begun();
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
        let mut bench = Bench::with_worker();
        bench.assign(1, 5, 7, &["k"]);
        bench.begun_with(false, |record| record.set_generation(3));
        bench.handler(1, "k", 7, HandlerEvent::Started);
        bench.started_noted();
        bench.handler(1, "k", 7, event());
        assert_eq!(released(&mut bench), [ran]);
    }
    let mut bench = Bench::with_worker();
    bench.running(7, &["k"]);
    bench.stop_event(1, 10, None, &[("k", 7)]);
    bench.handler(1, "k", 7, HandlerEvent::Ended(Ok(())));
    assert_eq!(released(&mut bench), [None], "nobody runs a stopped job again");
}

fn released(bench: &mut Bench) -> Vec<Option<u64>> {
    match bench.call("release") {
        Call::Release { items, .. } => items.iter().map(|(item, _)| item.ran).collect(),
        call => panic!("{call:?}"),
    }
}

#[test]
fn a_stop_and_a_drain_are_more_than_an_update() {
    let mut bench = Bench::with_worker();
    bench.running(7, &["k"]);
    event(&mut bench, 9, 7, 1);
    bench.stop_event(1, 10, Some("m"), &[("k", 7)]);
    bench.all();
    bench.handler(1, "k", 7, HandlerEvent::Stopped(Ok(())));
    assert_eq!(bench.of(&["release"])[0].split(';').next(), Some("release 1: k@7 d stopper=m"));
    let mut bench = Bench::with_worker();
    bench.running(7, &["k"]);
    bench.command(|reply| Command::DrainWorker { reply, local: LocalWorker(1) });
    bench.answer("drain", drained);
    event(&mut bench, 9, 7, 1);
    assert_eq!(bench.of(&["STOP"]), ["STOP k@7 Draining"]);
}

#[test]
fn a_comparison_with_the_records_finds_a_lost_update() {
    for (generation, stops) in [(0, vec![]), (2, vec!["STOP k@7 Updated"])] {
        let mut bench = Bench::with_worker();
        bench.running(7, &["k"]);
        // A release without an answer asks for the comparison.
        bench.running(8, &["other"]);
        bench.handler(1, "other", 8, HandlerEvent::Ended(Ok(())));
        bench.fail("release");
        bench.all();
        bench.advance(secs(1));
        let mut record = record("k", 7, WorkerId(1));
        record.set_generation(generation);
        let page = OwnedPage { next: None, jobs: vec![(key("k"), Some(record))] };
        bench.answer("owned", |_| Done::Owned { worker: WorkerId(1), answer: Ok(page) });
        assert_eq!(bench.of(&["STOP"]), stops);
    }
}

#[test]
fn a_report_after_a_loss_names_the_generation() {
    let mut bench = Bench::with_worker();
    bench.assign(1, 5, 7, &["k"]);
    bench.begun_with(false, |record| record.set_generation(3));
    bench.lost(2);
    let call = bench.call("attest");
    assert!(format!("{call:?}").contains("generation: 3"), "{call:?}");
}
