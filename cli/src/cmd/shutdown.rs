//! `tenure shutdown`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tenure_pool::inspect::{PoolPhase, ShardState};

use super::Session;
use crate::args::{Steer, time};
use crate::exit::{Code, Failure};

/// End the pool: its jobs stop, and every key is deleted
///
/// A pool that is shutting down already keeps its time for closing, or ends sooner with --drop-queued.
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
    /// None: one of several shards has ended.
    jobs: Option<u64>,
    complete: bool,
    dropped: u64,
    left: Vec<u64>,
}

impl Shutdown {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { closing, drop_queued, within, steer } = self;
        let place = session.place()?;
        let pool = place.operator().await?;
        let was_asked = pool.inspect().pool_state().await?.iter().any(ends);
        let figures = pool.inspect().figures().await;
        let jobs = figures.as_ref().ok().map(|figures| figures.jobs);
        let what = match (figures, was_asked) {
            (_, true) => format!("the pool {}, which is shutting down already", place.pool),
            (Ok(seen), _) => {
                let (jobs, workers) = (seen.jobs, seen.workers.len());
                format!("the pool {} with {jobs} jobs and {workers} workers", place.pool)
            }
            (Err(error), _) => return Err(error.into()),
        };
        let (pool_name, dry_run) = (place.pool.clone(), steer.dry_run);
        let mut answer = Answer { pool: pool_name, dry_run, jobs, complete: false, dropped: 0, left: vec![] };
        if dry_run {
            session.out.one(&answer, format!("would end {what}"))?;
            return Ok(Code::Done);
        }
        steer.type_out(&format!("This ends {what}, for good."), &place.pool)?;
        let shutdown = pool.shutdown().within(within);
        let shutdown = if drop_queued { shutdown.drop_queued() } else { shutdown.closing(closing) };
        let report = shutdown.await?;
        answer.complete = report.complete;
        answer.dropped = report.dropped_here;
        answer.left = report.left.iter().map(|worker| worker.0).collect();
        if answer.complete {
            session.out.one(&answer, format!("the pool {} has ended", place.pool))?;
            return Ok(Code::Done);
        }
        let text = match &*answer.left {
            [] => format!("the pool {} is still ending", place.pool),
            left => format!("the pool {} is still ending: workers {left:?} are left", place.pool),
        };
        session.out.one(&answer, text)?;
        Ok(Code::Late)
    }
}

/// Whether the shard is shutting down.
fn ends(shard: &ShardState) -> bool {
    matches!(shard.phase, PoolPhase::Closing | PoolPhase::Stopping)
}
