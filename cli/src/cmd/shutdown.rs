//! `tenure shutdown`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tenure_pool::{Error, Figures, Inspector, PoolPhase};
use tokio::time::{Instant, sleep};

use super::Session;
use crate::args::{Steer, time};
use crate::connect::Place;
use crate::exit::{Code, Failure};

/// The pause between two looks at a pool that ends.
const PAUSE: Duration = Duration::from_millis(100);

/// End the pool: its jobs stop, and every key is deleted
///
/// The end of a pool that is shutting down already is waited for, and comes sooner with --drop-queued.
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
    /// None: a part of the pool has ended.
    jobs: Option<u64>,
    complete: bool,
    dropped: u64,
    left: Vec<u64>,
}

impl Shutdown {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { closing, drop_queued, within, steer } = self;
        let place = session.place()?;
        let pool = place.inspector().await?;
        let (jobs, ends) = match pool.figures().await {
            Ok(Figures { jobs, workers, .. }) => {
                let with = format!("with {jobs} jobs and {} workers", workers.len());
                (Some(jobs), format!("the pool {} {with}", place.pool))
            }
            // The first of several shards is there, and another one has ended.
            Err(Error::PoolClosed | Error::NoPool { .. }) => {
                (None, format!("the rest of the pool {}", place.pool))
            }
            Err(error) => return Err(error.into()),
        };
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
        if let Some(node) = place.full_node().await? {
            let shutdown = node.shutdown().within(within);
            let shutdown = if drop_queued { shutdown.drop_queued() } else { shutdown.closing(closing) };
            let report = shutdown.await?;
            answer.complete = report.complete;
            answer.dropped = report.dropped_here;
            answer.left = report.left.iter().map(|worker| worker.0).collect();
        } else {
            // Somebody has asked for the end before.
            let left = match hasten(&place, &pool, drop_queued, within).await {
                Err(failure) if failure.code == Code::NotFound => None,
                left => left?,
            };
            answer.complete = left.is_none();
            answer.left = left.unwrap_or_default();
        }
        if answer.complete {
            session.out.one(&answer, format!("the pool {} has ended", place.pool))?;
            Ok(Code::Done)
        } else {
            let text = format!("the pool {} is still ending", place.pool);
            let left = format!("{text}: workers {:?} are left", answer.left);
            session.out.one(&answer, if answer.left.is_empty() { text } else { left })?;
            Ok(Code::Late)
        }
    }
}

/// Waits for the end of a pool that is shutting down already, and makes it come sooner if `drop_queued`. Returns what
/// [`left_after`] does.
async fn hasten(
    place: &Place,
    pool: &Inspector,
    drop_queued: bool,
    within: Duration,
) -> Result<Option<Vec<u64>>, Failure> {
    if drop_queued {
        place.hasten_shutdown().await?;
    }
    left_after(pool, within).await
}

/// Waits until a pool that shuts down has ended. If the time is up before, returns the workers that are left, as far as all
/// shards still say.
async fn left_after(pool: &Inspector, within: Duration) -> Result<Option<Vec<u64>>, Failure> {
    let began = Instant::now();
    loop {
        let shards = pool.pool_state().await?;
        if !shards.iter().any(|shard| matches!(shard.phase, PoolPhase::Closing | PoolPhase::Stopping)) {
            return Ok(None);
        }
        if began.elapsed() >= within {
            let workers = pool.workers().await.unwrap_or_default();
            return Ok(Some(workers.iter().map(|worker| worker.id.0).collect()));
        }
        sleep(PAUSE).await;
    }
}
