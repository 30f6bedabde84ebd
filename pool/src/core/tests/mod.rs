//! The engine's rules, one test each, by the exact effects: no I/O, no clock, no tasks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attesting;
mod beginning;
mod bench;
mod clients;
mod dispatching;
mod ending;
mod fencing;
mod idling;
mod joining;
mod leaving;
mod mutants;
mod notifying;
mod observing;
mod opening;
mod overtaking;
mod rebalancing;
mod render;
mod requesting;
mod restarting;
mod routing;
mod scheduling;
mod shutting_down;
mod stopping;
mod sweeping;
mod timing_out;
