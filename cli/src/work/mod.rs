//! `tenure work`: a worker whose jobs are processes of any program.
//!
//! The guard is the process that the user starts. Its child, the node, is a member of the pool. For each job the node
//! has a keeper, and the job's processes are below that:
//!
//! ```text
//! guard ── node ── keeper ── the program (first as the shim) ── all that it starts
//! ```
//!
//! - A keeper kills all below it when the node says so or has gone, and when the lease has run out. It knows that time
//!   even while the node hangs, from the book of leases.
//! - The node does the same for a keeper that is stopped or killed.
//! - The node ends with its guard. The guard kills all that is left when the node has ended.

pub(crate) mod able;
pub(crate) mod book;
pub(crate) mod cgroup;
pub(crate) mod clock;
mod ctl;
mod desk;
pub(crate) mod folder;
pub(crate) mod guard;
mod handler;
mod keeper;
pub(crate) mod launch;
pub(crate) mod logs;
pub(crate) mod node;
mod notes;
pub(crate) mod options;
mod place;
pub(crate) mod plan;
pub(crate) mod process;
mod run;
mod shim;
pub(crate) mod starter;
pub(crate) mod tree;

use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) use ctl::Ctl;
pub(crate) use options::Work;

use crate::args::Global;
use crate::exit::{Code, Failure};
use crate::journal;

/// Runs this process as a part of `tenure work`, if it was started as one. It has no other command line.
pub(crate) fn part(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let part = args.nth(1)?;
    let code = match part.to_str()? {
        launch::KEEPER => keeper::run(args),
        launch::SHIM => shim::run(args),
        _ => return None,
    };
    Some(code.into())
}

impl Work {
    /// Runs the worker until it is told to end. The first process of the command becomes the guard, and ends with the
    /// exit status of its node.
    ///
    /// # Errors
    /// The node cannot be started, or fails.
    pub(crate) fn run(self, global: &Global) -> Result<Code, Failure> {
        match guard::Guarded::here() {
            Some(guarded) => node::run(self, global, &guarded),
            None => match guard::run() {
                Ok(code) => journal::exit(code),
                Err(error) => Err(Failure::new(Code::Failed, format!("the node cannot be started: {error}"))),
            },
        }
    }
}
