//! Heartbeat counters, for observers.

use std::collections::BTreeMap;

use super::reply::Values;
use super::steps::Steps;
use crate::model::id::WorkerId;
use crate::store::Result;

pub(super) async fn read(steps: &Steps, workers: Option<&[WorkerId]>) -> Result<BTreeMap<WorkerId, u64>> {
    match workers {
        Some([]) => Ok(BTreeMap::new()),
        Some(workers) => of_workers(steps, workers).await,
        None => of_all(steps).await,
    }
}

async fn of_workers(steps: &Steps, workers: &[WorkerId]) -> Result<BTreeMap<WorkerId, u64>> {
    let mut command = redis::cmd("HMGET");
    command.arg(steps.keys.named("heartbeats"));
    for worker in workers {
        command.arg(worker.0);
    }
    let mut values = Values::of("HMGET", steps.command(&command).await?)?;
    let mut counters = BTreeMap::new();
    for worker in workers {
        if let Some(counter) = values.bytes_or_nil()?.as_deref().and_then(number) {
            counters.insert(*worker, counter);
        }
    }
    Ok(counters)
}

async fn of_all(steps: &Steps) -> Result<BTreeMap<WorkerId, u64>> {
    let reply = steps.command(redis::cmd("HGETALL").arg(steps.keys.named("heartbeats"))).await?;
    let mut values = Values::of("HGETALL", reply)?;
    let mut counters = BTreeMap::new();
    while values.len() > 0 {
        let (worker, counter) = (values.bytes()?, values.bytes()?);
        if let (Some(worker), Some(counter)) = (number(&worker), number(&counter)) {
            counters.insert(WorkerId(worker), counter);
        }
    }
    Ok(counters)
}

/// A counter or a worker. Any other text is not the pool's.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
