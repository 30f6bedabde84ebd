//! The ways in which pools of dedicated workers go wrong: one test for each, and one that shows it can fail.
//!
//! `docs/failures.md` has the table. Every case sets up the interleaving in which a job is lost, doubled, hung or
//! leaked elsewhere, on a Redis of its own, with real nodes. It is registered once ([`ground::cases`]) and makes two
//! tests: itself, and `mutants::<its name>`. The second leaves out the line that prevents the failure. Then the same
//! body must fail, for the reason that the registration names. Lines that keep other parts of the body apart have
//! broken runs of their own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod asks;
mod books;
mod brakes;
mod checkpoints;
mod damage;
mod duplicates;
mod grants;
mod ground;
mod handlers;
mod life;
mod losses;
mod maps;
#[path = "../behaviour/one_thread.rs"]
mod one_thread;
#[allow(dead_code, reason = "shared with the behaviour tests")]
#[path = "../behaviour/recorder.rs"]
mod recorder;
mod stops;
