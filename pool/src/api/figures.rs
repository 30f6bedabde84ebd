//! How many jobs a pool has, and where: for dashboards and autoscalers.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;
use serde::Serialize;

use crate::api::explain::EARLIEST;
use crate::error::Error;
use crate::model::id::WorkerId;
use crate::model::member::MemberState;
use crate::model::serial;
use crate::model::status::NodeStatus;
use crate::store::{LOOK_MAX, ReadFigures, ReadHeartbeats, Store};

/// How many jobs a pool has, and where, at one moment: the answer of [`Inspector::figures`](crate::Inspector::figures). The
/// counts of several shards are added up. When serialized, times are
/// milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// All jobs, in any state.
    pub jobs: u64,
    /// Jobs that wait for their first start and have not failed: never begun, or [`returned`](Self::returned).
    pub queued: u64,
    /// Jobs of `queued` that came back from a worker before the first start: refused, handed on, or unparked. A job is
    /// not among them while a failed or lost attempt counts. A shard with more than 1,024 jobs to take up counts
    /// returned jobs among 1,024. [`Settings::max_queued`](crate::Settings::max_queued) limits the other queued jobs.
    pub returned: u64,
    /// Jobs that no worker has: new, handed on, or between two attempts. Parked and paused ones are not among them.
    pub waiting: u64,
    /// Jobs that wait for an operator: they failed too often, or were parked or paused.
    pub parked: u64,
    /// How long ago the oldest queued job was accepted. `None` if none is queued.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub oldest_queued: Option<Duration>,
    /// There may be an older one: a shard has more than 1,024 jobs to take up, and 1,024 of them were looked at.
    pub older_possible: bool,
    /// The jobs of each worker, shard by shard.
    pub workers: Vec<WorkerJobs>,
}

/// How many jobs a worker has in one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerJobs {
    /// The shard, from 0.
    pub shard: usize,
    /// The worker.
    pub worker: WorkerId,
    /// The node that it lives on.
    pub node: String,
    /// Whether it is in the ring.
    pub state: MemberState,
    /// Its jobs: assigned, running and stopping ones.
    pub jobs: u64,
    /// Its [capacity](crate::node::AddWorker::capacity), for its jobs in all shards together. `None` if it takes all that it is
    /// given, and before its node has said it with a renewal.
    pub capacity: Option<u32>,
    /// How long ago it renewed its lease. `None` if it has not yet.
    #[serde(serialize_with = "serial::maybe_lapse")]
    pub renewed: Option<Duration>,
}

impl Figures {
    /// Those of all shards, without the capacities.
    pub(crate) async fn read(stores: &[Store]) -> Result<Self, Error> {
        let shards = stores.iter().enumerate().map(|(shard, store)| of_shard(shard, store));
        Ok(try_join_all(shards).await?.into_iter().fold(Self::default(), Self::and))
    }

    /// Adds what the nodes of the workers say of them.
    pub(crate) fn hear(&mut self, said: &[NodeStatus]) {
        let of_workers = said.iter().flat_map(|of| of.workers.iter().map(|worker| (of.shard, worker)));
        let capacities = of_workers.filter_map(|(shard, of)| Some(((shard, of.worker), of.capacity?)));
        let capacities: BTreeMap<_, _> = capacities.collect();
        for worker in &mut self.workers {
            worker.capacity = capacities.get(&(worker.shard, worker.worker)).copied();
        }
    }

    fn and(mut self, shard: Self) -> Self {
        self.workers.extend(shard.workers);
        Self {
            jobs: self.jobs + shard.jobs,
            queued: self.queued + shard.queued,
            returned: self.returned + shard.returned,
            waiting: self.waiting + shard.waiting,
            parked: self.parked + shard.parked,
            oldest_queued: self.oldest_queued.max(shard.oldest_queued),
            older_possible: self.older_possible | shard.older_possible,
            workers: self.workers,
        }
    }
}

async fn of_shard(shard: usize, store: &Store) -> Result<Figures, Error> {
    let members = store.members().borrow().clone();
    let ids: Vec<_> = members.entries.keys().copied().collect();
    // The counters first: none of them is ahead of the clock of the counts.
    let heard = store.read(&ReadHeartbeats { workers: Some(ids.clone()) }).await?;
    let counts = store.read(&ReadFigures { look: LOOK_MAX, workers: ids }).await?;
    let renewed = |at: &u64| Duration::from_millis(counts.now.saturating_sub(*at));
    let workers = members.entries.iter().zip(counts.of_workers).map(|((&worker, member), jobs)| WorkerJobs {
        shard,
        worker,
        node: member.node.to_string(),
        state: member.state,
        jobs,
        capacity: None,
        renewed: heard.get(&worker).filter(|at| **at >= EARLIEST).map(renewed),
    });
    Ok(Figures {
        jobs: counts.jobs,
        queued: counts.queued + counts.returned,
        returned: counts.returned,
        waiting: counts.jobs.saturating_sub(counts.owned + counts.parked),
        parked: counts.parked,
        oldest_queued: counts.oldest.map(|at| Duration::from_millis(counts.now.saturating_sub(at))),
        older_possible: counts.more,
        workers: workers.collect(),
    })
}
