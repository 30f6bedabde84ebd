//! `tenure host`: a worker whose jobs live in a process of any language, thousands in each.
//!
//! Each worker of the node has one such process, its host. It speaks the host protocol: JSON lines on a Unix socket.
//!
//! ```text
//! guard ── node ── keeper ── the host (first as the shim) ── all that it starts
//! ```
//!
//! Guard, keeper and shim are those of `tenure work`. `wire` has the messages, `table` the rules of who may say what and
//! when, `link` the state of one host, `leases` and `tether` what holds it to the leases of its jobs, `talk` the talk with
//! it, `child` its process, `figures` its metrics. `hosts` gets one, `handler` gives a worker's jobs to its host, and `worker` gets a host anew when
//! one has gone.
//!
//! In attach mode a host is no child: somebody else runs it, and it connects to the socket of the node. `socket` is that file,
//! and `peer` such a host. All else is the same, but nothing can kill it.
//!
//! - A job is the pool's again only after its host's last word on it, or when nothing of the host is left. A peer has nothing
//!   left when the lease that it was told is over, and a margin with it.
//! - A child ends with the first lease of its jobs that ends, whether the node lives, hangs or has gone.

mod calls;
mod check;
mod child;
mod figures;
mod handler;
mod hosts;
mod lately;
mod leases;
mod link;
mod means;
mod members;
mod node;
mod options;
mod peer;
mod table;
mod talk;
mod tether;
mod wire;
mod worker;

pub(crate) use options::Host;

use crate::args::Global;
use crate::exit::{Code, Failure};
use crate::journal;
use crate::work::guard::{self, Guarded};

impl Host {
    /// Runs the worker until it is told to end, or the check. The first process of the command becomes the guard, and ends
    /// with the exit status of its node.
    ///
    /// # Errors
    /// The node cannot be started, or fails.
    pub(crate) fn run(self, global: &Global) -> Result<Code, Failure> {
        match Guarded::here() {
            Some(guarded) if self.check => check::run(self, global.output, &guarded),
            Some(guarded) => node::run(self, global, &guarded),
            None => match guard::run() {
                Ok(code) => journal::exit(code),
                Err(error) => Err(Failure::new(Code::Failed, format!("the node cannot be started: {error}"))),
            },
        }
    }
}
