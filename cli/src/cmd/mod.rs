//! The commands, one file each: its options, and what it does.

#![allow(clippy::doc_markdown, reason = "these texts are the help")]
#![allow(clippy::large_enum_variant, reason = "there is one command in a process")]

mod completions;
mod cordon;
mod ctx;
mod get;
mod jobs;
mod ls;
mod man;
mod nodes;
mod payload;
mod shutdown;
mod version;
mod watch;

use std::time::Duration;

use clap::Subcommand;
use tenure_pool::Node;

use crate::args::Global;
use crate::connect::Place;
use crate::exit::{Code, Failure};
use crate::out::Out;

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(ls::Ls),
    Get(get::Get),
    /// Give no new job to a node's workers: they keep what they have
    Cordon(cordon::Cordon),
    /// Lift the cordon of a node
    Uncordon(cordon::Cordon),
    Shutdown(shutdown::Shutdown),
    #[command(subcommand)]
    Ctx(ctx::Ctx),
    Completions(completions::Completions),
    Man(man::Man),
    Version(version::Version),
}

/// How long a node of this process may take to leave. It holds nothing.
const LEAVING: Duration = Duration::from_secs(2);

/// Leaves the pool. The command has its answer, so nobody has to know how it went.
pub(crate) async fn close(node: &Node) {
    let _ = node.close_within(LEAVING).await;
}

/// The global options and the output of a command.
pub(crate) struct Session {
    pub(crate) global: Global,
    pub(crate) out: Out,
}

impl Session {
    /// The pool that is meant.
    ///
    /// # Errors
    /// None is named.
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        Place::of(&self.global)
    }
}

impl Command {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// The command failed.
    pub(crate) fn run(self, global: Global) -> Result<Code, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut session = Session { out: Out::new(&global), global };
        let done = runtime.block_on(self.run_in(&mut session));
        let flushed = session.out.flush();
        // A look-up of a host name may hang, and nothing waits for it.
        runtime.shutdown_background();
        let code = done?;
        flushed?;
        Ok(code)
    }

    async fn run_in(self, session: &mut Session) -> Result<Code, Failure> {
        match self {
            Self::Ls(ls) => ls.run(session).await,
            Self::Get(get) => get.run(session).await,
            Self::Cordon(cordon) => cordon.run(session, true).await,
            Self::Uncordon(cordon) => cordon.run(session, false).await,
            Self::Shutdown(shutdown) => shutdown.run(session).await,
            Self::Ctx(ctx) => ctx.run(session),
            Self::Completions(completions) => completions.run(session),
            Self::Man(man) => man.run(session),
            Self::Version(version::Version {}) => version::run(session),
        }
    }
}
