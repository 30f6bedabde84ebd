//! The contract of every store, step by step: each scenario runs on the store in memory and on Redis.
//!
//! [`mutants`] sees that the scenarios notice each line that a promise rests on. [`refinement`] compares both stores, and
//! [`golden`] has the data of the one on Redis.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::pin::Pin;

/// A scenario, with its name.
type Scenario = (&'static str, fn(lab::Which) -> Pin<Box<dyn Future<Output = ()>>>);

/// Makes two tests of each scenario, one per store, and a list of the scenarios. A scenario gets what it names
/// ([`lab::Opens`]).
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(crate) const ALL: &[crate::Scenario] = &[$((stringify!($name), |which| Box::pin(crate::lab::play($name, which)))),*];

        mod memory {
            use crate::lab::{Which, play};
            $(#[tokio::test] async fn $name() { play(super::$name, Which::Memory).await; })*
        }
        mod redis {
            use crate::lab::{Which, play};
            $(#[tokio::test] async fn $name() { play(super::$name, Which::Redis).await; })*
        }
    };
}

mod again;
mod children;
mod costs;
mod damage;
mod ending;
mod golden;
mod groups;
mod lab;
mod lanes;
mod losing;
mod mending;
mod mutants;
mod notes;
mod pinning;
mod refinement;
mod rights;
mod settings;
mod steering;
mod taking;
mod timing;
mod waking;
mod watching;

const SUITES: &[&[Scenario]] = &[
    again::ALL,
    children::ALL,
    ending::ALL,
    groups::ALL,
    lanes::ALL,
    losing::ALL,
    mending::ALL,
    notes::ALL,
    settings::ALL,
    steering::ALL,
    pinning::ALL,
    taking::ALL,
    timing::ALL,
    waking::ALL,
    watching::ALL,
];
