//! Lists that are printed again and again.

use std::time::Duration;

use clap::Args;

use super::Session;
use crate::args::time;
use crate::exit::{Code, Failure};

/// Whether a list is printed once, or until Ctrl-C.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Pool and output")]
pub(crate) struct Watch {
    /// Print it anew all the time
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// The time from print to print with --watch
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2s", requires = "watch")]
    pub(crate) every: Duration,
}

impl Watch {
    /// Prints once, or until the reader has gone.
    ///
    /// # Errors
    /// The first print that fails ends it.
    pub(crate) async fn run(
        self,
        session: &mut Session,
        mut print: impl AsyncFnMut(&mut Session) -> Result<Code, Failure>,
    ) -> Result<Code, Failure> {
        if !self.watch {
            return print(session).await;
        }
        loop {
            session.out.clear()?;
            print(session).await?;
            session.out.flush()?;
            tokio::time::sleep(self.every).await;
        }
    }
}
