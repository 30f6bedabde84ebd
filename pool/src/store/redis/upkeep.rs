//! Repair and the end of a pool: sweep, shutdown, purge, cleanup, and the consumer group of the pool's stream.

use std::time::Duration;

use super::reply::Values;
use super::steps::Steps;
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Token, WorkerId};
use crate::model::settings::ShutdownFlag;
use crate::store::{
    HeldState, Inspected, Outcome, Result, ShutdownMode, Swept, check_batch, millis_of_a_day,
};

pub(super) async fn sweep(steps: &Steps, inc: Incarnation, limit: usize, kick: bool) -> Result<Swept> {
    let mut call = steps.scripts.sweep.call(&[]);
    call.arg(inc.0).arg(limit).arg(u8::from(kick));
    let reply = steps.run("sweep", call).await?;
    let backlog = reply.code() == b"BACKLOG";
    let mut values = if backlog { reply.values() } else { reply.ok()? };
    let count = values.number()? as usize;
    let next_due = values.number_or_empty()?;
    let now = values.number()?;

    let stops = values.groups(3, |stop| {
        let (key, id) = (stop.key()?, stop.parsed("a dispatch", |text| text.parse().ok())?);
        Ok((key, id, WorkerId(stop.number()?)))
    })?;
    let outcomes = values.outcomes()?;
    let bad = values.groups(1, Values::key)?;
    let mut dead = values.groups(1, |worker| worker.number().map(WorkerId))?;
    dead.sort_unstable();
    let forgets_more = values.number()? == 1;
    let parked = values.number()?;
    steps.tell(&values);
    let next_in = next_due.map(|due| Duration::from_millis(due.saturating_sub(now)));
    Ok(Swept { count, backlog, next_due, next_in, stops, outcomes, bad, dead, forgets_more, parked })
}

pub(super) async fn inspect(
    steps: &Steps,
    inc: Incarnation,
    cursor: u64,
    limit: usize,
    held: &[(WorkerId, JobKey, Token)],
) -> Result<Inspected> {
    check_batch(held.len())?;
    let mut call = steps.scripts.inspect.call(&[]);
    call.arg(inc.0).arg(cursor).arg(limit);
    for (worker, key, token) in held {
        call.arg(worker.0).arg(key.as_bytes()).arg(token.0);
    }
    let mut values = steps.run("inspect", call).await?.ok()?;
    let (next, strangers) = (values.number()?, values.number()? as usize);
    let letters = values.bytes()?;
    let state = |letter: &u8| match letter {
        b'O' => HeldState::Outranked,
        b'M' => HeldState::Missing,
        _ => HeldState::Kept,
    };
    Ok(Inspected { next, strangers, held: letters.iter().map(state).collect() })
}

pub(super) async fn shutdown(
    steps: &Steps,
    inc: Incarnation,
    by: &NodeName,
    mode: ShutdownMode,
) -> Result<Option<ShutdownFlag>> {
    let (mode, closing) = match mode {
        ShutdownMode::Closing(time) => ("closing", time),
        ShutdownMode::DropQueued => ("drop_queued", Duration::ZERO),
        ShutdownMode::Advance => ("advance", Duration::ZERO),
    };
    let mut call = steps.scripts.shutdown.call(&[]);
    call.arg(inc.0).arg(by.as_str()).arg(mode).arg(millis_of_a_day(closing));
    let flag = steps.run("shutdown", call).await?.ok()?.text()?;
    Ok(ShutdownFlag::parse(&flag))
}

pub(super) async fn purge(
    steps: &Steps,
    inc: Incarnation,
    limit: usize,
) -> Result<Vec<(DispatchId, Outcome)>> {
    let mut call = steps.scripts.purge.call(&[]);
    call.arg(inc.0).arg(limit);
    let mut values = steps.run("purge", call).await?.ok()?;
    let outcomes = values.outcomes()?;
    steps.tell(&values);
    Ok(outcomes)
}

pub(super) async fn cleanup(steps: &Steps, inc: Incarnation, tombstone: Duration) -> Result<u64> {
    let mut call = steps.scripts.cleanup.call(&[]);
    call.arg(inc.0).arg(millis_of_a_day(tombstone));
    steps.run("cleanup", call).await?.ok()?.number()
}

pub(super) async fn restore_group(steps: &Steps, inc: Incarnation) -> Result<()> {
    let mut call = steps.scripts.restore_group.call(&[]);
    call.arg(inc.0);
    steps.run("restore_group", call).await?.ok().map(|_| ())
}

pub(super) async fn prune_consumers(steps: &Steps, inc: Incarnation, idle: Duration) -> Result<()> {
    let mut call = steps.scripts.prune_consumers.call(&[]);
    call.arg(inc.0).arg(millis_of_a_day(idle));
    steps.run("prune_consumers", call).await?.ok().map(|_| ())
}
