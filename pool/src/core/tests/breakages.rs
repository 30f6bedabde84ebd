//! Each line that can be left out on purpose matters: what a whole core does, a broken one does not.

use super::bench::{Bench, config, key, secs, up};
use crate::breakage::{Breakage, Breakages};
use crate::core::ctx::Config;
use crate::core::input::{HandlerEvent, Input};
use crate::id::WorkerId;
use crate::store::AttestReply::Kept;

/// A whole bench, and one that is broken in this way.
fn whole_and_broken(breakage: Breakage) -> [Bench; 2] {
    [Breakages::default(), Breakages::of([breakage])].map(|broken| {
        let mut bench = Bench::attached_with(Config { broken, ..config() });
        bench.worker(1);
        bench
    })
}

#[test]
fn a_fenced_worker_attests_nothing() {
    let said = whole_and_broken(Breakage::FencedAttests).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.step([Input::LeaseLost(WorkerId(1))]);
        bench.lost(2);
        bench.of(&["attest"])
    });
    assert_eq!(said, [vec![], vec!["attest 1: k@3 started".to_owned()]]);
}

#[test]
fn the_journal_is_sent() {
    let said = whole_and_broken(Breakage::JournalNotSent).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.handler(1, "k", 3, HandlerEvent::Ended(Ok(())));
        bench.released();
        bench.lost(2);
        bench.of(&["attest"])
    });
    assert_eq!(said.concat(), ["attest 1: k@3 ended", "attest 1: "]);
}

#[test]
fn the_last_word_comes_after_everything_else() {
    let names: Vec<_> = (0..200).map(|i| format!("k{i}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let next = whole_and_broken(Breakage::AttendBeforeAttested).map(|mut bench| {
        bench.running(3, &names[..100]);
        bench.running(4, &names[100..]);
        bench.lost(2);
        bench.all();
        bench.attested(&[Kept; 128]);
        bench.of(&["attest", "attend"])[0].split(' ').next().map(str::to_owned)
    });
    assert_eq!(next.map(Option::unwrap), ["attest", "attend"]);
}

#[test]
fn the_lease_is_looked_at_again_after_begin() {
    let done = whole_and_broken(Breakage::NoRecheckAfterBegin).map(|mut bench| {
        bench.assign(1, 5, 7, &["k"]);
        bench.leases.insert(WorkerId(1), bench.now);
        bench.begun();
        bench.of(&["RUN", "release"])
    });
    assert_eq!(done.concat(), ["release 1: k@7 b tell=n", "RUN k@7"]);
}

#[test]
fn a_start_for_what_runs_here_is_ignored() {
    let done = whole_and_broken(Breakage::RedeliveredStartRefused).map(|mut bench| {
        bench.running(3, &["k"]);
        bench.assign(1, 9, 3, &["k"]);
        bench.of(&["release"])
    });
    assert_eq!(done, [vec![], vec!["release 1: k@3 d; done 9".to_owned()]]);
}

#[test]
fn a_begin_is_sent_until_it_is_answered() {
    let done = whole_and_broken(Breakage::BeginGivenUp).map(|mut bench| {
        bench.assign(1, 5, 7, &["k"]);
        bench.all();
        bench.fail("begin");
        bench.advance(secs(5));
        bench.of(&["begin"])
    });
    assert_eq!(done.concat(), ["begin 1: k@7; done 5", "begin 1: ; done 5"]);
}

#[test]
fn a_job_is_handed_on_after_its_handler_has_ended() {
    let done = whole_and_broken(Breakage::HandOffBeforeStop).map(|mut bench| {
        bench.running(3, &["a", "b", "c", "d", "e", "f"]);
        bench.change_members(|members| {
            members.insert(WorkerId(2), up(1));
        });
        bench.advance(secs(6));
        assert!(!bench.of(&["STOP"]).is_empty(), "{:?}", key("a"));
        bench.is_calling("release")
    });
    assert_eq!(done, [false, true]);
}
