//! The memory of a running job, without its handler's state: the growth of a pool that runs some already.

use std::time::Duration;

use tokio::time::sleep;

use crate::Error;
use crate::arena::Arena;
use crate::options::Options;
use crate::report::Report;
use crate::usage::{redis_bytes, resident};

/// Longer than any immediate after-effect of a start.
const REST: Duration = Duration::from_secs(1);

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let (some, many) = options.sized((20_000, 100_000), (200, 1_000));
    let (mut workers, mut redis) = (Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        let mut arena = Arena::open(&options).await?;
        arena.fill(some).await?;
        let before = memory(&mut arena).await?;
        arena.fill(many).await?;
        let after = memory(&mut arena).await?;
        workers.push((after.0 - before.0) / many as f64);
        redis.push((after.1 - before.1) / many as f64);
    }
    let mut report = Report::new("held");
    report.figure("worker_bytes_per_job", workers);
    report.figure("redis_bytes_per_job", redis);
    Ok(report)
}

/// The bytes of all worker processes, and of Redis.
async fn memory(arena: &mut Arena) -> Result<(f64, f64), Error> {
    sleep(REST).await;
    let workers = arena.pids().into_iter().map(resident).sum::<Result<u64, _>>()?;
    Ok((workers as f64, redis_bytes(&mut arena.redis).await?))
}
