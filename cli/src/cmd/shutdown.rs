//! `tenure shutdown`.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tenure_pool::{Inspector, PoolPhase, ShardState};
use tokio::time::{Instant, sleep};

use super::{Session, close};
use crate::args::{Steer, time};
use crate::connect::Place;
use crate::exit::{Code, Failure};

/// The pause between two looks at a pool that ends.
const PAUSE: Duration = Duration::from_millis(100);

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
        let pool = place.inspector().await?;
        let was_asked = pool.pool_state().await?.iter().any(ends);
        let figures = pool.figures().await;
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
        let node = if was_asked { None } else { place.full_node().await? };
        if let Some(node) = node {
            let shutdown = node.shutdown().within(within);
            let shutdown = if drop_queued { shutdown.drop_queued() } else { shutdown.closing(closing) };
            let report = shutdown.await?;
            answer.complete = report.complete;
            answer.dropped = report.dropped_here;
            answer.left = report.left.iter().map(|worker| worker.0).collect();
        } else {
            if drop_queued {
                hasten(&place).await?;
            }
            answer.complete = follow(&place, &pool, within).await?;
            if !answer.complete {
                let left = pool.workers().await.unwrap_or_default();
                answer.left = left.iter().map(|worker| worker.id.0).collect();
            }
        }
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

/// Drops what has not begun in a pool that is shutting down. It may have ended meanwhile.
async fn hasten(place: &Place) -> Result<(), Failure> {
    match place.hasten_shutdown().await {
        Err(failure) if failure.code != Code::NotFound => Err(failure),
        _ => Ok(()),
    }
}

/// Waits until a pool that shuts down has ended. False if the time was up before.
async fn follow(place: &Place, pool: &Inspector, within: Duration) -> Result<bool, Failure> {
    // Perhaps nobody lives in the pool. Then a node that joins ends it.
    let joins = async {
        loop {
            if let Ok(Some(node)) = place.full_node().await {
                close(&node).await;
            }
            sleep(PAUSE * 10).await;
        }
    };
    tokio::select! {
        ended = has_ended(pool, within) => ended,
        () = joins => Ok(false),
    }
}

/// Looks until the pool has ended. While Redis fails, it looks again; a failure of the last look is the answer.
async fn has_ended(pool: &Inspector, within: Duration) -> Result<bool, Failure> {
    let is_open = |shards: &[ShardState]| {
        shards.iter().any(|shard| shard.phase == PoolPhase::Open) && !shards.iter().any(ends)
    };
    let began = Instant::now();
    loop {
        let looked = match pool.pool_state().await.map_err(Failure::from) {
            // The first of several shards ends last.
            Ok(shards) if shards.first().is_some_and(|first| first.phase == PoolPhase::Closed) => {
                return Ok(true);
            }
            Ok(shards) if is_open(&shards) => {
                let text = "the pool is open: it was created anew, or its data were lost";
                return Err(Failure::new(Code::Failed, text));
            }
            Err(failure) if failure.code != Code::Redis => return Err(failure),
            looked => looked.map(|_| false),
        };
        if began.elapsed() >= within {
            return looked;
        }
        sleep(PAUSE).await;
    }
}
