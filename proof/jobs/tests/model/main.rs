//! Every interleaving of the steps at a small scope: one queue, two nodes, two jobs. Each step is one transition of the store
//! in memory. Nodes lose answers, are late, and end what has lost its lease. Leases end, the data go back, and somebody
//! removes a job.
//!
//! The limits of the model: a node runs one job at a time, time passes by half a lease, and there is one loss of data at
//! most. A node that follows a loss attests and repeats its journal in one transition. The simulator covers the rest.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod world;

use stateright::{Checker, HasDiscoveries, Model};
use tenure_jobs::store::Breakage;

use self::world::{Scope, Set};

/// Walks every state of a scope: nothing may be violated, and each of these must be seen.
fn holds(name: &str, scope: Scope, seen: &[&'static str]) {
    let checker = Set::new(scope, None).checker().threads(2).spawn_bfs().join();
    println!("{name}: {} states, depth {}", checker.unique_state_count(), checker.max_depth());
    let path = checker.discovery("nothing is violated").map(|path| {
        let violated = path.last_state().violations();
        (violated, path.into_actions())
    });
    assert!(path.is_none(), "{name}: {path:#?}");
    for word in seen {
        assert!(checker.discovery(word).is_some(), "{name}: it never happens that {word}");
    }
}

/// Walks a broken protocol until it violates something in these words.
fn fails(scope: Scope, breakage: Breakage, words: &str) {
    let set = Set::new(scope, Some(breakage));
    let checker = set.checker().threads(2).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let path = checker.discovery("nothing is violated").expect("a violation");
    let violated = path.last_state().violations();
    assert!(violated.iter().any(|what| what.contains(words)), "{breakage:?}: {violated:?}");
    println!("{breakage:?}: {violated:?} after {} steps", path.into_actions().len());
}

const OFTEN: [&str; 2] = ["both jobs end", "a lease is lost"];

#[test]
fn lost_answers_and_late_words_do_no_harm() {
    let scope = Scope { takes: 3, retries: 1, lost_answers: 1, halves: 2, ..Scope::default() };
    holds("lost answers", scope, &[&OFTEN[..], &["a late word is halted"]].concat());
}

#[test]
fn what_runs_runs_on_through_a_loss_of_data() {
    let scope = Scope { takes: 2, halves: 2, losses: 1, ..Scope::default() };
    holds("losses", scope, &["both jobs end", "an execution runs on through a loss"]);
}

#[test]
fn a_removed_job_stays_removed() {
    let scope = Scope { takes: 1, halves: 1, losses: 1, removals: 1, ..Scope::default() };
    holds("removals", scope, &["a late word is halted", "an execution runs on through a loss"]);
}

#[test]
fn mutants_of_steps_violate_a_property() {
    let answers = Scope { takes: 3, retries: 1, lost_answers: 1, halves: 3, ..Scope::default() };
    fails(answers, Breakage::AnyTokenSettles, "of another token was accepted");
    fails(answers, Breakage::CallsTwice, "was answered otherwise");
    fails(answers, Breakage::TokensRepeat, "a token came again");
    fails(answers, Breakage::LeasesTakenEarly, "two handlers");
    let losses = Scope { takes: 2, halves: 2, losses: 1, ..Scope::default() };
    fails(losses, Breakage::NoJournal, "ran after its end");
    fails(losses, Breakage::NothingAttested, "ended by a loss");
}
