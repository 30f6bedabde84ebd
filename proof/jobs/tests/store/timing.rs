//! Leases, delays, deadlines and the node on duty.

use tenure_jobs::State;
use tenure_jobs::store::{Data, Hint, Kind, Settle, SettleReply, Ticked};

use super::lab::{Lab, Which, id};

scenarios! {
    a_lost_lease_is_an_attempt,
    a_lost_lease_is_taken_once,
    what_is_due_goes_first_and_the_oldest_before_all,
    a_lease_is_renewed_by_a_word,
    any_node_finds_a_lost_lease,
    one_node_is_on_duty_and_another_follows,
    nobody_loses_a_lease_after_a_gap_between_ticks,
    a_gap_between_ticks_gives_leases_as_much_time,
    a_gap_does_not_shorten_the_grace_after_a_loss,
    ticks_that_are_always_late_take_leases_in_the_end,
    nothing_runs_before_its_time,
    a_delay_and_a_life_count_from_the_call,
    a_job_fails_at_its_deadline,
    a_job_that_is_lost_at_its_deadline_is_kept,
    another_lease_holds_for_what_runs,
    a_tick_does_so_many_and_comes_again,
    an_earlier_timer_is_told_to_the_node_on_duty,
}

async fn a_lost_lease_is_an_attempt(which: Which) {
    let lab = Lab::new(which, &[("a", "max=2 lease=5000")]).await;
    lab.tick().await;
    lab.listen("n1").await;
    let first = lab.begin("a", &["j"]).await;
    lab.tick_after(4_999).await;
    assert_eq!(lab.state("j").await, Some(State::Running));
    lab.tick_after(1).await;
    assert_eq!(lab.state("j").await, Some(State::Ready));
    let heard = lab.heard().await;
    assert!(heard.iter().any(|(_, hint)| *hint == Hint::Halted(id("j"), first)), "{heard:?}");
    assert_eq!(lab.done("j").await, SettleReply::Halt);
    lab.take("a").await;
    lab.tick_after(5_000).await;
    assert_eq!((lab.state("j").await, lab.result("j").await), (Some(State::Failed), "lease expired".into()));
}

async fn a_lost_lease_is_taken_once(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    lab.tick().await;
    let first = lab.begin("a", &["j"]).await;
    lab.advance(3_000).await;
    let mut lost_in_all = 0;
    for by in ["n1", "n2", "n1"] {
        let Ticked::Done { lost, .. } = lab.tick_as(by, 3_000, true).await else { panic!() };
        lost_in_all += lost;
    }
    assert_eq!((lost_in_all, lab.record("j").await.unwrap().attempts), (1, 1));
    assert_eq!(lab.extend("j", first).await, SettleReply::Halt);
    assert_eq!(lab.take("a").await, ["j"]);
    let dump = lab.dump().await;
    assert_eq!(dump.get("leases").unwrap().len(), 1, "no old lease is left");
    assert_eq!(lab.record("j").await.unwrap().attempts, 2);
}

async fn what_is_due_goes_first_and_the_oldest_before_all(lab: Lab) {
    lab.begin("a", &["old", "older"]).await;
    // The later one is due first, and both were there before what comes now.
    lab.settle("older", Settle::Later(200, "busy".into())).await;
    lab.settle("old", Settle::Later(900, "busy".into())).await;
    assert_eq!(lab.result("old").await, "busy", "the reason is kept");
    lab.add("a", &["new"]).await;
    lab.tick_after(1_000).await;
    assert_eq!(lab.take("a").await, ["old", "older", "new"]);
}

async fn a_lease_is_renewed_by_a_word(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=4000")]).await;
    lab.tick().await;
    lab.begin("a", &["j", "k"]).await;
    for _ in 0..3 {
        lab.advance(3_000).await;
        assert_eq!(lab.extend("j", lab.token.get()).await, SettleReply::GoesOn);
        assert_eq!(lab.settle("k", Settle::GoOn(Data::Keep)).await, SettleReply::GoesOn);
        lab.tick().await;
    }
    assert_eq!((lab.state("j").await, lab.state("k").await), (Some(State::Running), Some(State::Running)));
    lab.tick_after(4_000).await;
    assert_eq!((lab.state("j").await, lab.state("k").await), (Some(State::Ready), Some(State::Ready)));
}

async fn any_node_finds_a_lost_lease(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    lab.tick_as("n1", 3_000, false).await;
    lab.begin("a", &["j"]).await;
    lab.advance(3_250).await;
    let Ticked::Done { lost, .. } = lab.tick_as("n2", 3_000, false).await else { panic!() };
    assert_eq!((lost, lab.state("j").await), (1, Some(State::Ready)));
}

async fn one_node_is_on_duty_and_another_follows(lab: Lab) {
    let Ticked::Done { next, .. } = lab.tick_as("n1", 3_000, false).await else { panic!() };
    assert_eq!(next, 9_000);
    assert_eq!(lab.tick_as("n2", 3_000, false).await, Ticked::OnDuty(9_250));
    lab.advance(next + 249).await;
    assert_eq!(lab.tick_as("n2", 3_000, false).await, Ticked::OnDuty(1));
    lab.advance(1).await;
    assert!(matches!(lab.tick_as("n2", 3_000, false).await, Ticked::Done { .. }));
    assert!(matches!(lab.tick_as("n1", 3_000, false).await, Ticked::OnDuty(_)));
    // The clock steps back: the timer of the former clock keeps nobody from his duty.
    lab.set_clock(lab.now() - 3_600_000).await;
    assert!(matches!(lab.tick_as("n1", 3_000, false).await, Ticked::Done { .. }));
}

async fn nobody_loses_a_lease_after_a_gap_between_ticks(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=5000")]).await;
    lab.tick().await;
    lab.begin("a", &["j"]).await;
    lab.advance(60_000).await;
    lab.tick_as("n1", 2_000, true).await;
    assert_eq!(lab.state("j").await, Some(State::Running));
    assert_eq!(lab.extend("j", lab.token.get()).await, SettleReply::GoesOn);
    lab.tick_after(2_000).await;
    assert_eq!(lab.state("j").await, Some(State::Running));
    lab.tick_after(3_000).await;
    assert_eq!(lab.state("j").await, Some(State::Ready));
}

async fn a_gap_between_ticks_gives_leases_as_much_time(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=15000")]).await;
    lab.tick().await;
    lab.begin("a", &["j", "k"]).await;
    lab.tick_after(9_000).await;
    // Away for 11 s: shortly after the last pause both leases have ended.
    lab.advance(11_000).await;
    lab.tick_as("n1", 60_000, true).await;
    assert_eq!(lab.done("k").await, SettleReply::Ended, "an end that comes late is heard");
    lab.tick_after(9_000).await;
    lab.tick_after(1_999).await;
    assert_eq!(lab.state("j").await, Some(State::Running));
    lab.tick_after(1).await;
    assert_eq!(lab.state("j").await, Some(State::Ready), "it is given no more than the gap");
}

async fn a_gap_does_not_shorten_the_grace_after_a_loss(lab: Lab) {
    lab.tick().await;
    let inc = lab.recover(lab.token.get(), 0, 60_000).await;
    lab.inc.set(inc);
    lab.advance(11_000).await;
    lab.tick_as("n1", 60_000, true).await;
    let grace = (super::lab::START + 60_000).to_string();
    assert_eq!(lab.dump().await.value("meta", "grace"), Some(&*grace));
}

async fn ticks_that_are_always_late_take_leases_in_the_end(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    lab.tick().await;
    lab.begin("a", &["j"]).await;
    for _ in 0..8 {
        lab.advance(10_001).await;
        lab.tick_as("n1", 60_000, true).await;
        assert_eq!(lab.state("j").await, Some(State::Running));
    }
    lab.advance(10_001).await;
    lab.tick_as("n1", 60_000, true).await;
    assert_eq!(lab.state("j").await, Some(State::Ready));
    lab.take("a").await;
    lab.advance(10_001).await;
    lab.tick_as("n1", 60_000, true).await;
    assert_eq!(lab.state("j").await, Some(State::Running), "the next gap spares it again");
}

async fn nothing_runs_before_its_time(lab: Lab) {
    let due = lab.now() + 1_000;
    lab.add_one("a", "later", |kind| kind.due = due).await;
    lab.add_one("a", "past", |kind| kind.due = 1_000).await;
    lab.add("a", &["now"]).await;
    assert_eq!(lab.state("later").await, Some(State::Delayed));
    assert_eq!(lab.take("a").await, ["past", "now"]);
    let Ticked::Done { next, .. } = lab.tick().await else { panic!() };
    assert_eq!(next, 1_000);
    lab.tick_after(999).await;
    assert!(lab.take("a").await.is_empty());
    lab.advance(1).await;
    let Ticked::Done { promoted, .. } = lab.tick().await else { panic!() };
    assert_eq!((promoted, lab.take("a").await), (1, vec!["later".to_owned()]));
}

async fn a_delay_and_a_life_count_from_the_call(lab: Lab) {
    lab.advance(70).await;
    lab.add_one("a", "j", |kind| (kind.delay, kind.life, kind.due) = (500, 900, 1)).await;
    assert_eq!(lab.record("j").await.unwrap().due, lab.now() + 500);
    lab.tick_after(499).await;
    assert!(lab.take("a").await.is_empty());
    lab.tick_after(1).await;
    assert_eq!(lab.take("a").await, ["j"]);
    lab.tick_after(399).await;
    assert_eq!(lab.state("j").await, Some(State::Running));
    lab.tick_after(1).await;
    assert_eq!((lab.state("j").await, lab.result("j").await), (Some(State::Failed), "deadline".into()));
}

async fn a_job_that_is_lost_at_its_deadline_is_kept(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    lab.tick().await;
    let deadline = lab.now() + 3_000;
    let attempts_and_deadline = |kind: &mut Kind| (kind.max, kind.deadline) = (1, deadline);
    lab.add_one("a", "j", attempts_and_deadline).await;
    lab.take("a").await;
    // One tick finds that its lease and its time are over.
    lab.advance(3_000).await;
    assert!(matches!(lab.tick().await, Ticked::Done { lost: 1, .. }));
    for _ in 0..2 {
        assert_eq!(lab.state("j").await, Some(State::Failed));
        assert_eq!(lab.result("j").await, "lease expired");
        lab.tick().await;
    }
}

async fn a_job_fails_at_its_deadline(lab: Lab) {
    lab.listen("n1").await;
    let deadline = lab.now() + 1_000;
    for job in ["runs", "waits", "ends"] {
        lab.add_one("a", job, |kind| kind.deadline = deadline).await;
    }
    assert_eq!(lab.take_n("a", 1).await, ["runs"]);
    let token = lab.token.get();
    lab.tick_after(999).await;
    assert_eq!(lab.state("waits").await, Some(State::Ready));
    assert_eq!(lab.take_n("a", 1).await, ["waits"]);
    lab.settle("waits", Settle::GiveBack).await;
    lab.steer("ends", tenure_jobs::store::Steer::Remove).await;
    lab.tick_after(1).await;
    for job in ["runs", "waits"] {
        assert_eq!((lab.state(job).await, lab.result(job).await), (Some(State::Failed), "deadline".into()));
    }
    assert!(lab.heard().await.iter().any(|(_, hint)| *hint == Hint::Halted(id("runs"), token)));
    assert!(lab.take("a").await.is_empty());
    assert_eq!(lab.settle_as("runs", token, super::lab::done()).await, SettleReply::Halt);
}

async fn another_lease_holds_for_what_runs(which: Which) {
    let lab = Lab::new(which, &[("t", "lease=4000"), ("u", "lease=4000")]).await;
    lab.tick().await;
    lab.listen("n1").await;
    lab.add("t", &["j"]).await;
    lab.add("u", &["other"]).await;
    lab.take("t").await;
    lab.take("u").await;
    lab.advance(3_500).await;
    assert!(lab.declare("t", "lease=2000").await);
    assert_eq!(lab.heard().await.iter().filter(|(_, hint)| *hint == Hint::Extend).count(), 1);
    lab.tick_after(1_999).await;
    assert_eq!((lab.state("j").await, lab.state("other").await), (Some(State::Running), Some(State::Ready)));
    lab.tick_after(1).await;
    assert_eq!(lab.state("j").await, Some(State::Ready));
}

async fn a_tick_does_so_many_and_comes_again(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    let due = lab.now() + 10;
    let jobs: Vec<_> = (0..70).map(|i| format!("j{i}")).collect();
    for job in &jobs {
        lab.add_one("a", job, |kind| kind.due = due).await;
    }
    lab.advance(10).await;
    let Ticked::Done { next, promoted, .. } = lab.tick().await else { panic!() };
    assert_eq!((next, promoted), (0, 50));
    let Ticked::Done { next, promoted, .. } = lab.tick().await else { panic!() };
    assert_eq!((next, promoted), (9_000, 20));
}

async fn an_earlier_timer_is_told_to_the_node_on_duty(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=9000")]).await;
    lab.listen("n2").await;
    lab.tick_as("n2", 3_000, true).await;
    let due = lab.now() + 100;
    lab.add_one("a", "soon", |kind| kind.due = due).await;
    lab.add_one("a", "later", |kind| kind.due = due + 50).await;
    lab.add_one("a", "sooner", |kind| kind.due = due - 50).await;
    let heard = lab.heard().await;
    assert_eq!(heard, vec![("n2".to_owned(), Hint::Earlier); 2]);
    lab.advance(50).await;
    let Ticked::Done { next, promoted, .. } = lab.tick_as("n2", 3_000, true).await else { panic!() };
    assert_eq!((next, promoted), (50, 1));
}
