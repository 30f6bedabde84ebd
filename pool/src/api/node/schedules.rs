//! Schedules and tickers: work that a node repeats for the whole pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};

use super::calls::PATIENCE;
use super::{Node, Shard, shard_of};
use crate::api::schedule::{InShard, Schedule, Ticker};
use crate::core::input::{Command, LocalSchedule, NewSchedule};
use crate::error::{BoxError, Error};
use crate::job::plan::{Plan, Planner, Tick};
use crate::model::id::{JobKey, ScheduleName};
use crate::model::settings::InvalidSetting;
use crate::model::settings::bounds::check_time;
use crate::runtime::driver::Message;
use crate::runtime::planners::{Part, Purpose};
use crate::store::{ScheduleKey, ScheduleKind};

impl Node {
    /// Calls the planner at every tick, to say which jobs must run. Any number of nodes may schedule a planner under
    /// the same name (`[A-Za-z0-9_:.-]{1,64}`), including client-only ones. One of them plans at a time. The first
    /// tick comes at once, unless a node already plans.
    ///
    /// Another node takes over when the planning one closes, or about a worker TTL after it died, and plans at once.
    /// A node with workers hears of the close at once, if the pool has at most 64 such nodes. Other nodes hear of it
    /// within about a quarter of the worker TTL.
    ///
    /// Ticks are `every` apart (1 ms to 365 days, in whole ms). Each comes a little late by chance, at most a tenth.
    /// Missed ticks are not made up for. The last node that calls this sets the period.
    ///
    /// Each of several shards asks the planner separately, perhaps on different nodes and at the same time. It
    /// carries out the changes to its own keys. So the planner must return the same plan to each. A [`Tick`]'s number
    /// and term belong to one shard. A plan that [ends](Plan::end) the schedule ends it in the shard that has asked.
    ///
    /// See [`Planner`] for an example.
    ///
    /// # Errors
    /// The name or the period is not valid, the pool is shutting down, the node is closed, or there is no answer
    /// within 20 s. After an error the node does not take part, in any shard.
    ///
    /// # Cancel safety
    /// Safe to drop: the node then does not take part. The schedule may have been created, and is then there for
    /// other nodes that take part.
    pub async fn schedule(
        &self,
        name: impl AsRef<str>,
        planner: impl Planner,
        every: Duration,
    ) -> Result<Schedule, Error> {
        let (name, planner, shards) =
            (ScheduleName::new(name.as_ref())?, Arc::new(planner), self.shards.len());
        let scheduling = self.shards.iter().enumerate().map(|(index, shard)| {
            shard.schedule(&name, OfShard { planner: planner.clone(), index, shards }, every)
        });
        let (mut parts, mut caring, mut failed) = (Vec::with_capacity(shards), Vec::new(), None);
        for scheduled in join_all(scheduling).await {
            match scheduled {
                Ok((part, cares)) => {
                    parts.push(part);
                    caring.push(cares);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            // Each shard is left as soon as it answers, even if this call is dropped.
            drop(caring);
            join_all(parts.iter().map(InShard::close)).await;
            return Err(error);
        }
        // From here on every engine keeps the planner when the schedule's handle is dropped.
        for cares in caring {
            // A node that has ended does not listen.
            let _ = cares.send(());
        }
        Ok(Schedule::new(name, parts))
    }

    /// A ticker, as a stream. Of all nodes with a ticker of this name (`[A-Za-z0-9_:.-]{1,64}`), one gets each tick.
    /// The first comes after `every` (1 ms to 365 days, in whole ms). The node that holds the turn gets all ticks
    /// while it lives.
    ///
    /// Another node takes over when the holder closes, as with [`schedule`](Self::schedule), or about a worker TTL
    /// after it died. A tick is lost if its node dies before it acts on the tick. A ticker lives in one shard, chosen
    /// by its name. The last node that calls this sets the period.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// use futures::StreamExt;
    ///
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// let mut ticker = node.ticker("report", Duration::from_secs(60)).await?;
    /// while let Some(tick) = ticker.next().await {
    ///     println!("report {} is this node's to write", tick.number);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`schedule`](Self::schedule).
    ///
    /// # Cancel safety
    /// Safe to drop: the node then does not take part.
    pub async fn ticker(&self, name: impl AsRef<str>, every: Duration) -> Result<Ticker, Error> {
        let (sender, ticks) = mpsc::channel(1);
        let purpose = Purpose::Tick(sender);
        let name = ScheduleName::new(name.as_ref())?;
        let shard = shard_of(name.as_str().as_bytes(), self.shards.len());
        let taking = self.shards[shard].take_part(ScheduleKind::Ticker, &name, every, purpose);
        let (local, listening) = taking.await?;
        Ok(Ticker::new(self.clone(), shard, local, name, ticks, listening))
    }
}

/// The planner of one of several shards. It plans the keys of that shard.
struct OfShard<P> {
    planner: Arc<P>,
    index: usize,
    shards: usize,
}

impl<P: Planner> Planner for OfShard<P> {
    fn plan(&self, tick: Tick) -> impl Future<Output = Result<Plan, BoxError>> + Send {
        let Self { planner, index, shards } = self;
        // The first shard reports jobs that have no valid key.
        let of = |key: Option<&JobKey>| key.map_or(0, |key| shard_of(key.as_bytes(), *shards));
        async move {
            let plan = planner.plan(tick).await?;
            Ok(if *shards == 1 { plan } else { plan.only(|key| of(key) == *index) })
        }
    }
}

impl Shard {
    /// The node takes part until the returned sender is dropped without a value, as [`take_part`](Self::take_part).
    async fn schedule(
        &self,
        name: &ScheduleName,
        planner: impl Planner,
        every: Duration,
    ) -> Result<(InShard, oneshot::Sender<()>), Error> {
        let (living, ended) = watch::channel(());
        let purpose = Purpose::Plan { planner: Arc::new(planner), _living: living };
        let (local, cares) = self.take_part(ScheduleKind::Plan, name, every, purpose).await?;
        Ok((InShard { shard: self.clone(), local, ended }, cares))
    }

    /// The node takes part until the returned sender is dropped without a value, as it is when the call is dropped or
    /// fails.
    async fn take_part(
        &self,
        kind: ScheduleKind,
        name: &ScheduleName,
        period: Duration,
        purpose: Purpose,
    ) -> Result<(LocalSchedule, oneshot::Sender<()>), Error> {
        let period = checked(period)?;
        let local = LocalSchedule(self.shared.locals.fetch_add(1, Ordering::Relaxed));
        let life = ulid::Ulid::generate().random() as u64;
        let new = NewSchedule { key: ScheduleKey { kind, name: name.clone() }, period, life };
        let (cares, cared_for) = oneshot::channel();
        let part = Part { local, purpose, cared_for };
        let call = self.post(|reply, answer| {
            let command = Command::Schedule { reply, local, new };
            Message::Schedule { part, command, answer }
        });
        self.answered(PATIENCE, call).await?;
        Ok((local, cares))
    }

    pub(crate) async fn set_period(&self, local: LocalSchedule, period: Duration) -> Result<(), Error> {
        let period = checked(period)?;
        self.request(PATIENCE, |reply| Command::SetPeriod { reply, local, period }).await
    }

    pub(crate) async fn end_schedule(&self, local: LocalSchedule) -> Result<(), Error> {
        self.request(PATIENCE, |reply| Command::EndSchedule { reply, local }).await
    }
}

/// A period in whole ms, within its range.
fn checked(period: Duration) -> Result<Duration, InvalidSetting> {
    check_time("period", period)?;
    Ok(Duration::from_millis(u64::try_from(period.as_millis()).unwrap_or(u64::MAX)))
}
