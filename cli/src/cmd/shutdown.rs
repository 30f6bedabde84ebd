//! `tenure shutdown`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::Session;
use crate::args::{Steer, time};
use crate::exit::{Code, Failure};

/// End the pool: its jobs stop, and every key is deleted
#[derive(Args, Debug)]
pub(crate) struct Shutdown {
    /// How long accepted jobs may still begin
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    closing: Duration,
    /// Drop at once all jobs that have not begun
    #[arg(long, conflicts_with = "closing")]
    drop_queued: bool,
    /// How long to wait for the end. The shutdown goes on after that
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    within: Duration,
    #[command(flatten)]
    steer: Steer,
}

#[derive(Serialize)]
struct Answer {
    pool: String,
    dry_run: bool,
    jobs: u64,
    complete: bool,
    dropped: u64,
    left: Vec<u64>,
}

impl Shutdown {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { closing, drop_queued, within, steer } = self;
        let place = session.place()?;
        let figures = place.inspector().await?.figures().await?;
        let (jobs, workers) = (figures.jobs, figures.workers.len());
        let ends = format!("the pool {} with {jobs} jobs and {workers} workers", place.pool);
        let mut answer = Answer {
            pool: place.pool.clone(),
            dry_run: steer.dry_run,
            jobs,
            complete: false,
            dropped: 0,
            left: vec![],
        };
        if steer.dry_run {
            session.out.one(&answer, format!("would end {ends}"))?;
            return Ok(Code::Done);
        }
        steer.type_out(&format!("This ends {ends}, for good."), &place.pool)?;
        let node = place.full_node().await?;
        let shutdown = node.shutdown().within(within);
        let shutdown = if drop_queued { shutdown.drop_queued() } else { shutdown.closing(closing) };
        let report = shutdown.await?;
        answer.complete = report.complete;
        answer.dropped = report.dropped_here;
        answer.left = report.left.iter().map(|worker| worker.0).collect();
        if report.complete {
            session.out.one(&answer, format!("the pool {} has ended", place.pool))?;
            Ok(Code::Done)
        } else {
            let text = format!("the pool {} is still ending: workers {:?} are left", place.pool, answer.left);
            session.out.one(&answer, text)?;
            Ok(Code::Late)
        }
    }
}
