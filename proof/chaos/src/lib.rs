//! Faults on real processes, judged; and a long run under load, measured. `README.md` explains the output.
//!
//! - [`soak`] runs a pool for long, with little trouble, and finds growing resources.
//! - [`bounds`] measures how soon the jobs of a crashed or drained node run elsewhere.
//! - [`storm`] inflicts faults on a pool, one after the other, and judges the effects.
//! - [`poison`] damages the keys of a living pool, beside a neighbour on the same server.
//! - [`jobs`] does the same to nodes of background jobs.
//! - [`children`] does it to nodes of `tenure work` and `tenure host`, whose jobs are processes.
//! - [`node`] is the process of a node, [`broken`] breaks one on purpose, and [`process`] controls one from outside.
//!   [`resource`] is the world outside, to which its jobs write.

pub mod bounds;
pub mod broken;
pub mod children;
pub mod cli;
mod handler;
pub mod jobs;
mod losses;
mod manner;
pub mod node;
pub mod poison;
pub mod process;
pub mod resource;
pub mod soak;
pub mod storm;

/// The result of a run; an error says that it cannot be executed.
pub type Result<T> = std::result::Result<T, tenure_pool::BoxError>;
