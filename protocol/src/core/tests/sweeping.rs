//! A sweep restarts due work that was not done.

use super::bench::{Bench, id, key, millis, secs, up};
use crate::core::call::PAGE;
use crate::model::id::WorkerId;
use crate::model::member::{Member, MemberState};
use crate::step::{Seat, Swept};

fn swept(bench: &mut Bench, swept: Swept) {
    bench.answer_with("sweep", swept);
}

/// An attached node whose first sweep found nothing.
fn sweeper() -> Bench {
    let mut bench = Bench::attached();
    swept(&mut bench, Swept::default());
    bench.all();
    bench
}

#[test]
fn it_sweeps_about_once_a_second_and_claims_every_fourth_time() {
    let mut bench = sweeper();
    assert_eq!(bench.after(millis(999)).of(&["sweep", "claim-pool"]), [""; 0]);
    for round in 2..=7 {
        bench.advance(millis(1_100));
        let claims = if round == 4 { &["sweep", "claim-pool"][..] } else { &["sweep"] };
        assert_eq!(bench.of(&["sweep", "claim-pool"]), claims, "in round {round}");
        swept(&mut bench, Swept::default());
    }
}

#[test]
fn it_sleeps_no_longer_than_until_the_next_job_is_due() {
    let mut bench = sweeper();
    bench.advance(secs(2));
    swept(&mut bench, Swept { next_in: Some(millis(300)), ..Swept::default() });
    bench.all();
    assert_eq!(bench.after(millis(299)).of(&["sweep"]), [""; 0]);
    assert_eq!(bench.after(millis(1)).of(&["sweep"]), ["sweep"]);
}

#[test]
fn a_full_page_is_followed_by_the_next_at_once() {
    let mut bench = sweeper();
    bench.after(secs(2)).all();
    swept(&mut bench, Swept { count: PAGE, ..Swept::default() });
    assert_eq!(bench.of(&["sweep"]), ["sweep"]);
    swept(&mut bench, Swept { forgets_more: true, ..Swept::default() });
    assert_eq!(bench.of(&["sweep"]), ["sweep"]);
    swept(&mut bench, Swept::default());
    assert_eq!(bench.of(&["sweep"]), [""; 0]);
}

#[test]
fn a_standby_settles_after_a_second_while_no_worker_is_up() {
    for (first, after) in [(true, secs(1)), (false, secs(5))] {
        let mut bench = sweeper();
        bench.add_worker(1);
        bench.leases.insert(WorkerId(1), bench.now + secs(100));
        let member = Member { state: MemberState::Standby, slot: None, ..up(0) };
        let seat = Seat { worker: WorkerId(1), member, first };
        bench.answer_with("join", seat);
        bench.advance(after.saturating_sub(millis(1)));
        assert!(!bench.is_calling("settle"));
        bench.advance(millis(1));
        assert!(bench.is_calling("settle"));
        assert!(!bench.of(&["sweep"]).contains(&"sweep kick".to_owned()), "it is not up");
    }
}

#[test]
fn the_first_slot_of_the_pool_wakes_all_waiting_jobs() {
    let mut bench = sweeper();
    bench.add_worker(1);
    bench.leases.insert(WorkerId(1), bench.now + secs(100));
    let seat = Seat { worker: WorkerId(1), member: up(0), first: true };
    bench.answer_with("join", seat);
    assert_eq!(bench.of(&["sweep"]), ["sweep kick"]);
    swept(&mut bench, Swept { count: PAGE, ..Swept::default() });
    assert_eq!(bench.of(&["sweep"]), ["sweep kick"]);
    for passed in [6, 10] {
        swept(&mut bench, Swept { count: PAGE, passed: passed - passed / 10 * 6, ..Swept::default() });
        assert_eq!(bench.of(&["sweep"]), [format!("sweep kick after {passed}")]);
    }
    bench.fail("sweep");
    bench.all();
    assert_eq!(bench.after(secs(2)).of(&["sweep"]), ["sweep kick"], "one without an answer begins anew");
    swept(&mut bench, Swept { backlog: true, ..Swept::default() });
    assert_eq!(bench.after(secs(2)).of(&["sweep"]), ["sweep kick"], "a full stream puts it off");
    swept(&mut bench, Swept::default());
    assert_eq!(bench.after(secs(2)).of(&["sweep"]), ["sweep"]);
}

#[test]
fn the_findings_of_a_sweep_are_acted_upon() {
    let mut bench = sweeper();
    bench.after(secs(2)).all();
    let found = Swept {
        stops: vec![(key("s"), id("m.1"), WorkerId(4))],
        outcomes: vec![(id("m.2"), "parked".into())],
        bad: vec![key("b")],
        dead: vec![WorkerId(8)],
        ..Swept::default()
    };
    swept(&mut bench, found);
    let news = ["! parked m.2", "! bad-record b", "reap 8", "tell m.2=parked", "stop-again s/m.1 owner=4"];
    assert_eq!(bench.seen(), news);
}

#[test]
fn outcomes_that_were_not_told_are_told_again_after_a_pause() {
    let mut bench = sweeper();
    bench.advance(secs(2));
    swept(&mut bench, Swept { outcomes: vec![(id("m.2"), "parked".into())], ..Swept::default() });
    bench.all();
    bench.fail("tell");
    assert_eq!(bench.after(millis(100)).seen(), ["! trouble", "tell m.2=parked"]);
}
