//! Repair and the end of a pool: sweep, shutdown, purge, cleanup, and the consumer group of the pool's stream.

use std::time::Duration;

use async_trait::async_trait;

use super::RedisStore;
use super::reply::Values;
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Token, WorkerId};
use crate::model::settings::ShutdownFlag;
use crate::store::{
    HeldState, Inspected, Outcome, Result, ShutdownMode, Swept, Upkeep, check_batch, millis_of_a_day,
};

#[async_trait]
impl Upkeep for RedisStore {
    async fn sweep(&self, inc: Incarnation, limit: usize, kick: Option<usize>) -> Result<Swept> {
        let mut call = self.steps.scripts.sweep.call(&[]);
        call.arg(inc.0).arg(limit).arg(kick.map_or_else(String::new, |after| after.to_string()));
        let reply = self.steps.run("sweep", call).await?;
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
        let (parked, passed) = (values.number()?, values.number()? as usize);
        self.steps.tell(&values);
        let next_in = next_due.map(|due| Duration::from_millis(due.saturating_sub(now)));
        Ok(Swept {
            count,
            passed,
            backlog,
            next_due,
            next_in,
            stops,
            outcomes,
            bad,
            dead,
            forgets_more,
            parked,
        })
    }

    async fn inspect(
        &self,
        inc: Incarnation,
        cursor: u64,
        limit: usize,
        held: &[(WorkerId, JobKey, Token)],
    ) -> Result<Inspected> {
        check_batch(held.len())?;
        let mut call = self.steps.scripts.inspect.call(&[]);
        call.arg(inc.0).arg(cursor).arg(limit);
        for (worker, key, token) in held {
            call.arg(worker.0).arg(key.as_bytes()).arg(token.0);
        }
        let mut values = self.steps.run("inspect", call).await?.ok()?;
        let (next, strangers) = (values.number()?, values.number()? as usize);
        let letters = values.bytes()?;
        let state = |letter: &u8| match letter {
            b'O' => HeldState::Outranked,
            b'M' => HeldState::Missing,
            _ => HeldState::Kept,
        };
        Ok(Inspected { next, strangers, held: letters.iter().map(state).collect() })
    }

    async fn shutdown(
        &self,
        inc: Incarnation,
        by: &NodeName,
        mode: ShutdownMode,
    ) -> Result<Option<ShutdownFlag>> {
        let (mode, closing) = match mode {
            ShutdownMode::Closing(time) => ("closing", time),
            ShutdownMode::DropQueued => ("drop_queued", Duration::ZERO),
            ShutdownMode::Advance => ("advance", Duration::ZERO),
        };
        let mut call = self.steps.scripts.shutdown.call(&[]);
        call.arg(inc.0).arg(by.as_str()).arg(mode).arg(millis_of_a_day(closing));
        let flag = self.steps.run("shutdown", call).await?.ok()?.text()?;
        Ok(ShutdownFlag::parse(&flag))
    }

    async fn purge(&self, inc: Incarnation, limit: usize) -> Result<Vec<(DispatchId, Outcome)>> {
        let mut call = self.steps.scripts.purge.call(&[]);
        call.arg(inc.0).arg(limit);
        let mut values = self.steps.run("purge", call).await?.ok()?;
        let outcomes = values.outcomes()?;
        self.steps.tell(&values);
        Ok(outcomes)
    }

    async fn cleanup(&self, inc: Incarnation, tombstone: Duration) -> Result<u64> {
        let mut call = self.steps.scripts.cleanup.call(&[]);
        call.arg(inc.0).arg(millis_of_a_day(tombstone));
        self.steps.run("cleanup", call).await?.ok()?.number()
    }

    async fn restore_group(&self, inc: Incarnation) -> Result<()> {
        let mut call = self.steps.scripts.restore_group.call(&[]);
        call.arg(inc.0);
        self.steps.run("restore_group", call).await?.ok().map(|_| ())
    }

    async fn prune_consumers(&self, inc: Incarnation, idle: Duration) -> Result<()> {
        let mut call = self.steps.scripts.prune_consumers.call(&[]);
        call.arg(inc.0).arg(millis_of_a_day(idle));
        self.steps.run("prune_consumers", call).await?.ok().map(|_| ())
    }
}
