//! After a loss of data: what runs is told, and recent ends are repeated.

use super::bench::{Bench, damaged, done, job};
use crate::store::SettleReply;

/// A worker whose job `a` has ended while `b` runs.
fn ended() -> Bench {
    let mut bench = Bench::running([job("a"), job("b")]);
    bench.ends("a", done());
    bench.settles([SettleReply::Ended], true);
    bench.seen();
    bench
}

#[test]
fn recent_ends_are_repeated_before_the_next_take() {
    let mut bench = ended();
    bench.loses_data();
    assert_eq!(bench.seen(), ["renew b@7", "1: journal1#1 again a@7 done"]);
    bench.settles([SettleReply::Ended], false);
    assert_eq!(bench.seen(), ["1: take1#3 take 1 of q"]);
    bench.takes([]);
    assert_eq!(bench.after(1_000).seen(), [""; 0], "the data know it now");
}

#[test]
fn another_loss_meanwhile_is_repeated_to_as_well() {
    let mut bench = ended();
    bench.loses_data();
    bench.loses_data();
    bench.seen();
    bench.settles([SettleReply::Ended], false);
    assert_eq!(bench.seen(), ["1: journal1#2 again a@7 done"]);
}

#[test]
fn refused_ends_are_repeated_for_a_minute() {
    let mut bench = ended();
    bench.renews(30_000, [SettleReply::GoesOn]);
    bench.loses_data();
    bench.renews(86_400_000, [SettleReply::GoesOn]);
    let (began, mut refusals) = (bench.now, 0);
    while bench.seen().iter().any(|line| line.contains("again a@7 done")) {
        refusals += 1;
        bench.worked(Some(Err(damaged())), None);
        if bench.seen().iter().any(|line| line.contains("take 1 of q")) {
            bench.takes([]);
        }
        bench.advance(1_000);
    }
    assert_eq!((bench.now.saturating_sub(began).as_secs(), refusals), (61, 61));
}

#[test]
fn an_old_end_is_forgotten() {
    let mut bench = ended();
    for _ in 0..7 {
        bench.advance(9_000);
        bench.renews(30_000, [SettleReply::GoesOn]);
        if bench.seen().iter().any(|line| line.contains("take")) {
            bench.takes([]);
        }
    }
    bench.ends("b", done());
    bench.settles([SettleReply::Ended], true);
    bench.seen();
    bench.loses_data();
    assert_eq!(
        bench.seen(),
        ["1: journal1#1 again b@7 done"],
        "two leases are over since the end of the other"
    );
}
