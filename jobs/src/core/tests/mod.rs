//! Exact effects of the core: a clock that only the test moves, calls that the test answers, effects as lines.
#![allow(clippy::unwrap_used)]

mod bench;
mod leasing;
mod refusing;
mod render;
mod repeating;
mod subscribing;
mod working;
