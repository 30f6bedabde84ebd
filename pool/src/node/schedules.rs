//! What a node does again and again, for the whole pool.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};

use super::calls::PATIENCE;
use super::place::shard_of;
use super::{Node, Shard};
use crate::bounds::check_time;
use crate::core::input::{Command, LocalSchedule, NewSchedule};
use crate::error::{BoxError, Error};
use crate::id::{JobKey, ScheduleName};
use crate::plan::{Plan, Planner, Tick};
use crate::runtime::driver::Message;
use crate::runtime::planners::{Part, Purpose};
use crate::schedule::{InShard, Schedule, Ticker};
use crate::settings::InvalidSetting;
use crate::store::{ScheduleKey, ScheduleKind};

impl Node {
    /// Has the planner say every so often which jobs there are to be, beginning at once, unless another node plans
    /// already. Any number of nodes, also client-only ones, may schedule a planner under the same name
    /// (`[A-Za-z0-9_:.-]{1,64}`): one of them plans at a time. Another takes over when it closes, and about a worker TTL
    /// after it has died, and plans then. A node that has workers learns at once of one that closes, if they are no more
    /// than 64; others do within about a quarter of the worker TTL.
    ///
    /// Ticks are `every` apart (1 ms to 365 days, whole ms), each a little late by chance, at most a tenth; those that
    /// were missed are not made up for. The last node that schedules says how often.
    ///
    /// Each of several shards asks the planner by itself, perhaps on different nodes and at the same time. It carries out
    /// what concerns its own keys. So the planner must want the same whichever asks. A [`Tick`]'s number and term are those
    /// of one shard, and a plan that [ends](Plan::end) the schedule ends it in the shard that has asked.
    ///
    /// See [`Planner`] for an example.
    ///
    /// # Errors
    /// The name or the period is not valid; the pool is shutting down; the node is closed; no answer within 20 s. After
    /// an error the node does not take part, in any shard.
    ///
    /// # Cancel safety
    /// Yes: the node does not take part when the call is dropped. The schedule may have been made, and is then there for
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
        let scheduled = join_all(scheduling).await;
        if scheduled.iter().any(Result::is_err) {
            // A shard that does not answer is left as soon as it can be.
            join_all(scheduled.iter().flatten().map(InShard::close)).await;
        }
        Ok(Schedule::new(name, scheduled.into_iter().collect::<Result<Vec<_>, _>>()?))
    }

    /// A ticker, as a stream: of all nodes that have a ticker of this name (`[A-Za-z0-9_:.-]{1,64}`), one gets each tick.
    /// The first one comes after `every` (1 ms to 365 days, whole ms). While the holder of the turn lives it gets all of
    /// them; another takes over when it closes, as with [`schedule`](Self::schedule), and about a worker TTL after it has
    /// died: a tick that a node got and did not act upon before it died is lost. It lives in one shard, by its name. The last node that makes it says how often it ticks.
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
    /// Yes: the node does not take part when the call is dropped.
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

/// The planner of one of several shards: it plans the keys of that shard.
struct OfShard<P> {
    planner: Arc<P>,
    index: usize,
    shards: usize,
}

impl<P: Planner> Planner for OfShard<P> {
    fn plan(&self, tick: Tick) -> impl Future<Output = Result<Plan, BoxError>> + Send {
        let Self { planner, index, shards } = self;
        // The first shard says what is wrong with a job that has no valid key.
        let of = |key: Option<&JobKey>| key.map_or(0, |key| shard_of(key.as_bytes(), *shards));
        async move {
            let plan = planner.plan(tick).await?;
            Ok(if *shards == 1 { plan } else { plan.only(|key| of(key) == *index) })
        }
    }
}

impl Shard {
    async fn schedule(
        &self,
        name: &ScheduleName,
        planner: impl Planner,
        every: Duration,
    ) -> Result<InShard, Error> {
        let (living, ended) = watch::channel(());
        let purpose = Purpose::Plan { planner: Arc::new(planner), _living: living };
        let (local, cares) = self.take_part(ScheduleKind::Plan, name, every, purpose).await?;
        // It stays when the schedule's handle is dropped. A node that has ended meanwhile does not listen.
        let _ = cares.send(());
        Ok(InShard { shard: self.clone(), local, ended })
    }

    /// The node takes part until what is given back is dropped without a word, as it is when the call is dropped or
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
