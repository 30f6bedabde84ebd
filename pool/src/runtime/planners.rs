//! The planners and tickers of a node. Planners run as tasks of their own, and ticks go to their listeners.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::actor::panicked;
use super::driver::drop_at;
use crate::core::effect::NewTick;
use crate::core::input::{Input, LocalSchedule, Planned};
use crate::error::whole;
use crate::job::plan::{AnyPlanner, Tick};
use crate::model::id::NodeName;

/// How long aborted planners may take to end when the node ends.
const GRACE: Duration = Duration::from_secs(5);

/// A new schedule of the node.
pub(crate) struct Part {
    pub(crate) local: LocalSchedule,
    pub(crate) purpose: Purpose,
    /// Its other end is dropped with the user's last handle. A message from there makes the schedule stay.
    pub(crate) cared_for: oneshot::Receiver<()>,
}

/// The purpose of a node's schedule.
pub(crate) enum Purpose {
    /// Plans are asked for; watchers of `_living` learn of the end.
    Plan { planner: Arc<dyn AnyPlanner>, _living: watch::Sender<()> },
    /// Ticks are handed off.
    Tick(mpsc::Sender<Tick>),
}

/// The planners and tickers of one node.
pub(super) struct Planners {
    node: NodeName,
    /// The runtime of the planners.
    home: Handle,
    known: HashMap<LocalSchedule, Purpose>,
    tasks: JoinSet<Planned>,
    running: HashMap<Id, (LocalSchedule, u64, AbortHandle)>,
    /// Waits for the end of each schedule's last handle; a schedule that stays gives nothing.
    unheard: FuturesUnordered<BoxFuture<'static, Option<LocalSchedule>>>,
}

impl Planners {
    pub(super) fn new(node: NodeName, home: Handle) -> Self {
        Self {
            node,
            home,
            known: HashMap::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            unheard: FuturesUnordered::new(),
        }
    }

    pub(super) fn add(&mut self, part: Part) {
        let Part { local, purpose, cared_for } = part;
        self.unheard.push(cared_for.map(move |word| word.is_err().then_some(local)).boxed());
        self.known.insert(local, purpose);
    }

    /// Runs the planner.
    pub(super) fn plan(&mut self, local: LocalSchedule, run: u64, tick: NewTick, payload_max: usize) {
        let Some(Purpose::Plan { planner, .. }) = self.known.get(&local) else { return };
        let (planner, node) = (planner.clone(), self.node.clone());
        let planning = async move {
            match planner.plan(shown(tick)).await {
                Ok(plan) => plan.ready(&node, payload_max),
                Err(error) => Planned::Failed(whole(&*error)),
            }
        };
        let task = self.tasks.spawn_on(planning, &self.home);
        self.running.insert(task.id(), (local, run, task));
    }

    pub(super) fn abort(&mut self, local: LocalSchedule) {
        for (_, _, task) in self.running.values().filter(|(own, ..)| *own == local) {
            task.abort();
        }
    }

    /// Hands a tick off. An earlier tick that was not yet taken replaces this one. False if the ticker has no listener
    /// left.
    pub(super) fn tick(&mut self, local: LocalSchedule, tick: NewTick) -> bool {
        let Some(Purpose::Tick(ticks)) = self.known.get(&local) else { return false };
        !matches!(ticks.try_send(shown(tick)), Err(TrySendError::Closed(_)))
    }

    pub(super) fn end(&mut self, local: LocalSchedule) {
        self.abort(local);
        if let Some(purpose) = self.known.remove(&local) {
            drop_at(&self.home, purpose);
        }
    }

    /// The result of a planner, or a ticker that lost its listener. Waits until there is one.
    pub(super) async fn next(&mut self) -> Input {
        loop {
            tokio::select! {
                Some(end) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                    if let Some(input) = self.on_end(end) {
                        return input;
                    }
                }
                Some(unheard) = self.unheard.next(), if !self.unheard.is_empty() => {
                    if let Some(local) = unheard {
                        return Input::Unheard(local);
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    fn on_end(&mut self, end: Result<(Id, Planned), JoinError>) -> Option<Input> {
        let (id, planned) = match end {
            Ok((id, planned)) => (id, planned),
            Err(error) => {
                let id = error.id();
                let planned = error
                    .try_into_panic()
                    .map_or(Planned::Aborted, |panic| Planned::Failed(panicked(&*panic)));
                (id, planned)
            }
        };
        let (local, run, _) = self.running.remove(&id)?;
        Some(Input::Planned { local, run, planned })
    }

    /// Forgets all schedules, but not the running planners.
    fn let_go(&mut self) {
        for (_, purpose) in self.known.drain() {
            drop_at(&self.home, purpose);
        }
    }

    /// Ends all planners. Waits only a bounded time for one that blocks its thread.
    pub(super) async fn shut_down(&mut self) {
        self.let_go();
        if tokio::time::timeout(GRACE, self.tasks.shutdown()).await.is_err() {
            tracing::error!(node = %self.node, "a planner does not end when aborted: it is left behind");
        }
    }
}

impl Drop for Planners {
    fn drop(&mut self) {
        self.let_go();
    }
}

fn shown(tick: NewTick) -> Tick {
    let NewTick { number, term, at_ms } = tick;
    Tick { number, term, at: SystemTime::UNIX_EPOCH + Duration::from_millis(at_ms) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::id::Term;

    const LOCAL: LocalSchedule = LocalSchedule(1);

    fn part(ticks: mpsc::Sender<Tick>) -> (Part, oneshot::Sender<()>) {
        let (cares, cared_for) = oneshot::channel();
        (Part { local: LOCAL, purpose: Purpose::Tick(ticks), cared_for }, cares)
    }

    #[tokio::test]
    async fn a_tick_that_nobody_can_take_is_told() {
        let mut planners = Planners::new(NodeName::new("n").unwrap(), Handle::current());
        let (sender, ticks) = mpsc::channel(1);
        let (part, cares) = part(sender);
        planners.add(part);
        let tick = |number| NewTick { number, term: Term(1), at_ms: 0 };
        assert!(planners.tick(LOCAL, tick(1)));
        assert!(planners.tick(LOCAL, tick(2)), "the first one waits");
        drop(ticks);
        assert!(!planners.tick(LOCAL, tick(3)));
        drop(cares);
        assert!(matches!(planners.next().await, Input::Unheard(LOCAL)));
        planners.end(LOCAL);
        assert!(!planners.tick(LOCAL, tick(4)));
    }

    #[tokio::test]
    async fn a_part_that_stays_outlives_its_handle() {
        let mut planners = Planners::new(NodeName::new("n").unwrap(), Handle::current());
        let (part, cares) = part(mpsc::channel(1).0);
        planners.add(part);
        cares.send(()).unwrap();
        assert!(planners.next().now_or_never().is_none());
    }
}
