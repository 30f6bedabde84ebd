//! The world outside refuses old tokens, and counts what it should have refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tenure_chaos::resource::{Access, Counts, Ledger, Resource};

#[test]
fn a_token_below_the_highest_is_refused() {
    let mut ledger = Ledger::default();
    let writes = [("a", 5, true), ("a", 7, true), ("a", 5, false), ("b", 5, true), ("a", 7, true)];
    for (at, (key, token, taken)) in (1..).zip(writes) {
        assert_eq!(ledger.write(key, token, &format!("w{token}"), at), taken, "{key} {token}");
    }
    assert_eq!(ledger.counts(), Counts { accepted: 4, refused: 1, stale_accepted: 0 });
}

#[test]
fn a_holder_that_writes_after_its_successor_is_counted() {
    let mut ledger = Ledger::default();
    for holder in ["w1", "w2", "w2", "w1", "w1", "w2"] {
        assert!(ledger.write("a", 5, holder, 0));
    }
    assert_eq!(ledger.counts(), Counts { accepted: 6, refused: 0, stale_accepted: 2 });
}

#[test]
fn a_holder_that_wrote_before_and_after_a_moment_ran_at_it() {
    let mut ledger = Ledger::default();
    for (token, at) in [(5, 10), (5, 20), (7, 30), (5, 40), (7, 50)] {
        ledger.write("a", token, "w", at);
    }
    assert!([30, 40, 50].iter().all(|&at| ledger.wrote_around("a", 7, at)));
    assert!([29, 51].iter().all(|&at| !ledger.wrote_around("a", 7, at)));
    assert!(!ledger.wrote_around("a", 5, 15) && !ledger.wrote_around("b", 7, 40));
}

#[test]
fn all_runs_of_a_key_are_kept() {
    let mut ledger = Ledger::default();
    for (token, holder, at) in [(5, "w1", 10), (5, "w1", 20), (7, "w2", 30), (5, "w1", 40), (9, "w3", 50)] {
        ledger.write("a", token, holder, at);
    }
    let runs: Vec<_> =
        ledger.runs("a").iter().map(|run| (run.token, &*run.holder, run.from, run.to, run.writes)).collect();
    assert_eq!(runs, [(5, "w1", 10, 20, 2), (7, "w2", 30, 30, 1), (9, "w3", 50, 50, 1)]);
    assert!(ledger.runs("b").is_empty() && ledger.keys_of_one_token().is_empty());
    ledger.write("a", 9, "w4", 60);
    assert_eq!(ledger.keys_of_one_token(), ["a"]);
}

#[tokio::test]
async fn writes_arrive_over_the_network_in_order() {
    let resource = Resource::start().await.unwrap();
    let access = Access::open(resource.address()).await.unwrap();
    assert!(access.write("a", 5, "w1").await);
    access.beat("a", 6, "w2");
    assert!(!access.write("a", 5, "w1").await);
    assert_eq!(resource.ledger().counts(), Counts { accepted: 2, refused: 1, stale_accepted: 0 });
}
