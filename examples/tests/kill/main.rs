//! Random rounds of kills, pauses, drains and joins, with real processes and a private Redis. There are three judges:
//! the histories of all processes, the feed server, and the pool's own listing.
//!
//! `KILL_ROUNDS` and `KILL_SEED` choose the number of rounds and their order; the seed of a run is printed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod arena;
mod fault;
mod process;
mod totals;

use std::env;

use rand::SeedableRng;
use rand::rngs::StdRng;

use arena::Arena;
use fault::Fault;
use totals::Totals;

const ROUNDS: u64 = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_tenant_is_held_twice_or_lost_under_any_fault() {
    let rounds = number("KILL_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("KILL_SEED").unwrap_or_else(rand::random);
    println!("KILL_SEED={seed} KILL_ROUNDS={rounds}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut totals = Totals::default();
    let mut arena = Arena::open().await;
    for round in 1..=rounds {
        let fault = Fault::choose(&mut random, arena.size());
        let moves = arena.suffer(&format!("round {round}, {fault}"), fault, &mut random).await;
        totals.add(fault, &moves);
    }
    let verdict = arena.judge().await;
    println!("{totals}\n{verdict}");
    verdict.assert_clean();
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text:?}")))
}
