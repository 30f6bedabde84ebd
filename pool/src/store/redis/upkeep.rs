//! Repair and the end of a pool: sweep, shutdown, purge, cleanup, and the consumer group of the pool's stream.

use std::time::Duration;

use tenure_connection::Letters as _;

use super::RedisStore;
use super::reply::Values;
use crate::model::id::{DispatchId, Incarnation, WorkerId};
use crate::model::settings::ShutdownFlag;
use crate::store::{
    CleanUp, HeldState, Inspect, Inspected, OnRedis, Outcome, PruneConsumers, Purge, RestoreGroup, Result,
    ShutDown, ShutdownMode, Sweep, Swept, millis_of_a_day,
};

impl OnRedis for Sweep {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Swept> {
        let &Self { limit, kick } = self;
        let mut call = store.steps.scripts.sweep.call(&[]);
        call.arg(inc.0).arg(limit).arg(kick.map_or_else(String::new, |after| after.to_string()));
        let reply = store.steps.run("sweep", call).await?;
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
        store.steps.tell(&values);
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
}

impl OnRedis for Inspect {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Inspected> {
        let &Self { cursor, limit, ref held } = self;
        let mut call = store.steps.scripts.inspect.call(&[]);
        call.arg(inc.0).arg(cursor).arg(limit);
        for (worker, key, token) in held {
            call.arg(worker.0).arg(key.as_bytes()).arg(token.0);
        }
        let mut values = store.steps.run("inspect", call).await?.ok()?;
        let (next, strangers) = (values.number()?, values.number()? as usize);
        let letters = values.bytes()?;
        let state = |letter: &u8| HeldState::of_letter(*letter).unwrap_or(HeldState::Kept);
        Ok(Inspected { next, strangers, held: letters.iter().map(state).collect() })
    }
}

impl OnRedis for ShutDown {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Option<ShutdownFlag>> {
        let &Self { ref by, mode } = self;
        let (mode, closing) = match mode {
            ShutdownMode::Closing(time) => ("closing", time),
            ShutdownMode::DropQueued => ("drop_queued", Duration::ZERO),
            ShutdownMode::Advance => ("advance", Duration::ZERO),
        };
        let mut call = store.steps.scripts.shutdown.call(&[]);
        call.arg(inc.0).arg(by.as_str()).arg(mode).arg(millis_of_a_day(closing));
        let flag = store.steps.run("shutdown", call).await?.ok()?.text()?;
        Ok(ShutdownFlag::parse(&flag))
    }
}

impl OnRedis for Purge {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<Vec<(DispatchId, Outcome)>> {
        let &Self { limit } = self;
        let mut call = store.steps.scripts.purge.call(&[]);
        call.arg(inc.0).arg(limit);
        let mut values = store.steps.run("purge", call).await?.ok()?;
        let outcomes = values.outcomes()?;
        store.steps.tell(&values);
        Ok(outcomes)
    }
}

impl OnRedis for CleanUp {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<u64> {
        let &Self { tombstone } = self;
        let mut call = store.steps.scripts.cleanup.call(&[]);
        call.arg(inc.0).arg(millis_of_a_day(tombstone));
        store.steps.run("cleanup", call).await?.ok()?.number()
    }
}

impl OnRedis for RestoreGroup {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<()> {
        let mut call = store.steps.scripts.restore_group.call(&[]);
        call.arg(inc.0);
        store.steps.run("restore_group", call).await?.ok().map(|_| ())
    }
}

impl OnRedis for PruneConsumers {
    async fn on_redis(&self, store: &RedisStore, inc: Incarnation) -> Result<()> {
        let &Self { idle } = self;
        let mut call = store.steps.scripts.prune_consumers.call(&[]);
        call.arg(inc.0).arg(millis_of_a_day(idle));
        store.steps.run("prune_consumers", call).await?.ok().map(|_| ())
    }
}
