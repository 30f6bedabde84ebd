//! `tenure stop`, `retry`, `bounce`, `park`, `pause` and `resume`.

use std::time::Duration;

use clap::Args;

use super::Session;
use super::many::each;
use crate::act::{By, Verb};
use crate::args::{StateArg, Target, time};
use crate::exit::{Code, Failure};

/// Stop jobs: each ends where it runs, and is gone
#[derive(Args, Debug)]
pub(crate) struct Stop {
    /// Wait until their handlers have ended
    #[arg(long)]
    until_stopped: bool,
    #[command(flatten)]
    target: Target,
}

impl Stop {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { until_stopped, target } = self;
        each(session, target, Verb::Stop { until_stopped }, None).await
    }
}

/// Have jobs begin now that wait for a pause or are parked
#[derive(Args, Debug)]
pub(crate) struct Retry {
    #[command(flatten)]
    target: Target,
}

impl Retry {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        each(session, self.target, Verb::Retry, None).await
    }
}

/// Have jobs run elsewhere: on the next worker of their chain
#[derive(Args, Debug)]
pub(crate) struct Bounce {
    /// Have them begin anew at home instead
    #[arg(long)]
    home: bool,
    #[command(flatten)]
    target: Target,
}

impl Bounce {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { home, target } = self;
        each(session, target, if home { Verb::Restart } else { Verb::Bounce }, None).await
    }
}

/// Park jobs: each ends where it runs, and nobody runs it before a retry
#[derive(Args, Debug)]
pub(crate) struct Park {
    /// Why. Listings show it as the job's error
    #[arg(long, value_name = "TEXT", default_value = "parked by hand")]
    reason: String,
    #[command(flatten)]
    target: Target,
}

impl Park {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { reason, target } = self;
        each(session, target, Verb::Park(reason), None).await
    }
}

/// Pause jobs: each ends where it runs, and nobody runs it before a resume
#[derive(Args, Debug)]
pub(crate) struct Pause {
    /// Why. Listings show it
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// How long, such as `2h`: the job then goes on by itself. Without it, not before a resume
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasting: Option<Duration>,
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    target: Target,
}

impl Pause {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { reason, lasting, by, target } = self;
        each(session, target, Verb::Pause(reason, lasting), by.name()).await
    }
}

/// Have paused jobs run again
#[derive(Args, Debug)]
pub(crate) struct Resume {
    #[command(flatten)]
    by: By,
    #[command(flatten)]
    target: Target,
}

impl Resume {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { by, mut target } = self;
        if target.which.worker.is_some() || target.which.node.is_some() || target.which.failing {
            let text = "a paused job has no worker and no error, so --worker, --node and --failing mean none";
            return Err(Failure::usage(text));
        }
        if !target.which.is_empty() && target.which.state.is_empty() {
            target.which.state.push(StateArg::Paused);
        }
        each(session, target, Verb::Resume, by.name()).await
    }
}
