//! The contract of every store, step by step: each scenario runs on the store in memory and on Redis.
//!
//! [`mutants`] sees that the scenarios notice each line that a guarantee rests on. [`refinement`] compares both stores.
//! [`golden`] has the data of the one on Redis, and [`redis_store`] the mistakes that only it can make.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::pin::Pin;

/// A scenario, with its name.
type Scenario = (&'static str, fn(lab::Kind) -> Pin<Box<dyn Future<Output = ()>>>);

/// Makes two tests of each scenario, one per store, and a list of the scenarios. A scenario gets what it names
/// ([`lab::Scene`]).
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(crate) const ALL: &[crate::Scenario] = &[$((stringify!($name), |kind| Box::pin(crate::lab::play($name, kind)))),*];

        mod memory {
            use crate::lab::{Kind, play};
            $(#[tokio::test] async fn $name() { play(super::$name, Kind::Memory).await; })*
        }
        mod redis {
            use crate::lab::{Kind, play};
            $(#[tokio::test] async fn $name() { play(super::$name, Kind::Redis).await; })*
        }
    };
}

/// The refusals of these steps in an incarnation, in order. No step may change the state.
macro_rules! refusals {
    ($lab:expr, $inc:expr; $($step:expr),* $(,)?) => {
        vec![$($lab.refused($lab.store().run($inc, &$step)).await),*]
    };
}

mod asking;
mod attempts;
mod attending;
mod attesting;
mod backend;
mod bounds;
mod checkpoints;
mod closing;
mod cordoning;
mod damage;
mod dispatching;
mod elsewhere;
mod explaining;
mod figures;
mod golden;
mod granting;
mod history;
mod inspecting;
mod lab;
mod levels;
mod membership;
mod mutants;
mod notifications;
mod outcomes;
mod ownership;
mod parking;
mod pausing;
mod planning;
mod recovery;
mod redis_store;
mod refinement;
mod release;
mod repair;
mod replicas;
mod routing;
mod run_ends;
mod settings;
mod single;
mod starting;
mod statuses;
mod steering;
mod stopping;
mod streams;
mod suspicion;
mod tampering;
mod tokens;
mod updating;
mod why;

const SUITES: &[(&str, &[Scenario])] = &[
    ("asking", asking::ALL),
    ("attempts", attempts::ALL),
    ("attesting", attesting::ALL),
    ("attending", attending::ALL),
    ("bounds", bounds::ALL),
    ("checkpoints", checkpoints::ALL),
    ("closing", closing::ALL),
    ("cordoning", cordoning::ALL),
    ("damage", damage::ALL),
    ("dispatching", dispatching::ALL),
    ("elsewhere", elsewhere::ALL),
    ("explaining", explaining::ALL),
    ("figures", figures::ALL),
    ("granting", granting::ALL),
    ("history", history::ALL),
    ("inspecting", inspecting::ALL),
    ("levels", levels::ALL),
    ("membership", membership::ALL),
    ("notifications", notifications::ALL),
    ("outcomes", outcomes::ALL),
    ("ownership", ownership::ALL),
    ("parking", parking::ALL),
    ("pausing", pausing::ALL),
    ("planning", planning::ALL),
    ("recovery", recovery::ALL),
    ("release", release::ALL),
    ("repair", repair::ALL),
    ("replicas", replicas::ALL),
    ("routing", routing::ALL),
    ("run_ends", run_ends::ALL),
    ("settings", settings::ALL),
    ("starting", starting::ALL),
    ("statuses", statuses::ALL),
    ("steering", steering::ALL),
    ("stopping", stopping::ALL),
    ("streams", streams::ALL),
    ("suspicion", suspicion::ALL),
    ("tokens", tokens::ALL),
    ("updating", updating::ALL),
    ("why", why::ALL),
];
