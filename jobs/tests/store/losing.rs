//! Loss of data, and servers that change.

use tenure_jobs::Token;
use tenure_jobs::store::{StoreError, TakeReply, Taking};

use super::lab::{Lab, Which, is_stale, node, queue};

scenarios! {
    tokens_rise_also_after_a_loss_of_all_data,
    the_first_of_many_recovers,
    no_job_begins_and_no_lease_is_lost_right_after_a_recovery,
    steps_on_no_data_say_so,
}

async fn tokens_rise_also_after_a_loss_of_all_data(which: Which) {
    let lab = Lab::new(which, &[("a", "")]).await;
    lab.add("a", &["j"]).await;
    lab.take("a").await;
    let before = lab.token.get();
    lab.wipe().await;
    lab.set_clock(lab.now() - 3_600_000).await;
    lab.boot().await;
    lab.declare("a", "").await;
    lab.add("a", &["j"]).await;
    lab.take("a").await;
    assert!(lab.token.get() > before, "{:?} after {before:?}", lab.token.get());
}

async fn the_first_of_many_recovers(which: Which) {
    let lab = Lab::new(which, &[("a", "")]).await;
    let old = lab.inc.get();
    let new = lab.store.recover(old, Token(0), "other", 10, 10).await.unwrap();
    assert!(new > old);
    assert!(is_stale(&lab.store.recover(old, Token(0), "other", 10, 10).await.unwrap_err()));
    let stale = lab.store.figures(old, &[queue("a")]).await.unwrap_err();
    assert!(matches!(stale, StoreError::Stale(inc) if inc == new), "{stale:?}");
    let far = Token(lab.token.get().0.max(1 << 52));
    lab.store.recover(new, far, "other", 0, 0).await.unwrap();
    lab.boot().await;
    lab.add("a", &["j"]).await;
    lab.take("a").await;
    assert!(lab.token.get() > far);
}

async fn no_job_begins_and_no_lease_is_lost_right_after_a_recovery(which: Which) {
    let lab = Lab::new(which, &[("a", "lease=3000")]).await;
    lab.add("a", &["j", "k"]).await;
    lab.take_n("a", 1).await;
    lab.tick().await;
    let inc = lab.store.recover(lab.inc.get(), Token(0), "other", 2_000, 5_000).await.unwrap();
    lab.inc.set(inc);
    let taking = Taking::new(node("n1"), queue("a"), 1);
    let reply = lab.store.take(inc, &lab.lane("an1"), &taking).await.unwrap();
    assert_eq!(reply, TakeReply::Hold(2_000));
    lab.advance(4_000).await;
    lab.tick().await;
    assert_eq!(lab.state("j").await, Some(tenure_jobs::State::Running));
    assert_eq!(lab.take("a").await, ["k"]);
    lab.advance(1_000).await;
    lab.tick().await;
    assert_eq!(lab.state("j").await, Some(tenure_jobs::State::Ready));
}

async fn steps_on_no_data_say_so(which: Which) {
    let lab = Lab::new(which, &[("a", "")]).await;
    lab.wipe().await;
    let none = lab.store.figures(lab.inc.get(), &[queue("a")]).await;
    assert!(matches!(none, Err(StoreError::NoSet)), "{none:?}");
    let none = lab.store.tick(lab.inc.get(), &node("n"), 5, 3_000, 0, true).await;
    assert!(matches!(none, Err(StoreError::NoSet)), "{none:?}");
}
