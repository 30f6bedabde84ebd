//! The measured pool: a private Redis, a producer in this process, and worker processes.

use std::ops::Range;
use std::time::Duration;

use futures::future::try_join_all;
use redis::aio::MultiplexedConnection;
use tenure_pool::inspect::MemberState;
use tenure_pool::{JobInfo, JobSpec, JobState, Node};
use tenure_testing::{RedisServer, within};

use crate::Error;
use crate::clock::now_us;
use crate::floor::{self, Floor};
use crate::load;
use crate::options::Options;
use crate::process::WorkerProcess;
use crate::tally::{Counts, Event};
use crate::usage::Usage;
use crate::worker::Pool;

/// The payload of every job.
pub(crate) const PAYLOAD: [u8; 100] = [b'x'; 100];
/// The longest time for any step.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than a move takes from its end to its start, and than nodes lag behind each other.
const QUIET_MS: u64 = 500;
/// Callers that stop leftover jobs.
const CLEANERS: u64 = 1_000;

pub(crate) struct Arena {
    // Dropped from the top: the server last.
    pub(crate) producer: Node,
    pub(crate) workers: Vec<WorkerProcess>,
    pub(crate) redis: MultiplexedConnection,
    pool: Pool,
    quick: bool,
    /// The number of worker processes started.
    processes: usize,
    /// The number of keys used.
    keys: u64,
    pub(crate) server: RedisServer,
}

impl Arena {
    /// Two processes with two workers each.
    pub(crate) async fn open(options: &Options) -> Result<Self, Error> {
        // Scenarios open several at once.
        Box::pin(Self::with(options, |_| {})).await
    }

    /// Opens a pool with settings of its own.
    pub(crate) async fn with(options: &Options, settings: impl FnOnce(&mut Pool)) -> Result<Self, Error> {
        let mut arena = Self::without_workers(options, settings).await?;
        arena.add_processes(2, 2).await?;
        Ok(arena)
    }

    /// Opens a pool whose workers are still to be added.
    pub(crate) async fn without_workers(
        options: &Options,
        settings: impl FnOnce(&mut Pool),
    ) -> Result<Self, Error> {
        let server = options.server()?;
        let mut pool = Pool::new(server.url());
        settings(&mut pool);
        let redis = floor::connect(&server.url()).await?;
        let producer = pool.node("producer")?.client_only().join().await?;
        let quick = options.quick;
        Ok(Self { producer, workers: Vec::new(), redis, pool, quick, processes: 0, keys: 0, server })
    }

    /// Starts processes with a node and `workers` workers each. All of them are in the ring when this returns.
    pub(crate) async fn add_processes(&mut self, processes: usize, workers: usize) -> Result<(), Error> {
        self.add_nodes(processes, 1, workers).await
    }

    /// Starts processes with `nodes` nodes each, and `workers` workers on each node. All of them are in the ring when
    /// this returns.
    pub(crate) async fn add_nodes(
        &mut self,
        processes: usize,
        nodes: usize,
        workers: usize,
    ) -> Result<(), Error> {
        let up = self.up().await?;
        let pool = &self.pool;
        let names: Vec<_> =
            (self.processes..self.processes + processes).map(|n| format!("node-{n}")).collect();
        let started = names.iter().map(|name| WorkerProcess::start(pool, name, nodes, workers));
        self.workers.extend(try_join_all(started).await?);
        self.processes += processes;
        let all = up + processes * nodes * workers;
        let joined = async || self.up().await.is_ok_and(|now| now == all);
        Ok(within(PATIENCE, "the workers to be in the ring", joined).await?)
    }

    /// Starts one process. Its workers are members of the pool when this returns, but perhaps not yet in the ring.
    pub(crate) async fn add_process(&mut self, workers: usize) -> Result<(), Error> {
        let name = format!("node-{}", self.processes);
        self.workers.push(WorkerProcess::start(&self.pool, &name, 1, workers).await?);
        self.processes += 1;
        Ok(())
    }

    /// Workers in the ring.
    pub(crate) async fn up(&self) -> Result<usize, Error> {
        let workers = self.producer.inspect().workers().await?;
        Ok(workers.iter().filter(|worker| worker.state == MemberState::Up).count())
    }

    /// The numbers of `count` unused keys.
    pub(crate) fn fresh(&mut self, count: u64) -> Range<u64> {
        let first = self.keys;
        self.keys += count;
        first..self.keys
    }

    /// Dispatches jobs, and returns when all of them have started.
    pub(crate) async fn fill(&mut self, jobs: u64) -> Result<Range<u64>, Error> {
        let numbers = self.fresh(jobs);
        let specs = numbers.clone().map(|number| JobSpec::new(key(number), PAYLOAD.as_slice()));
        for started in self.producer.dispatch_many(specs).deadline(PATIENCE).await {
            started?;
        }
        Ok(numbers)
    }

    /// Stops these jobs, and returns when all are gone.
    pub(crate) async fn clear(&self, numbers: Range<u64>) -> Result<(), Error> {
        let producer = self.producer.clone();
        let stop = move |number| {
            let stop = producer.stop_job(key(number)).until_stopped().deadline(PATIENCE);
            async move { stop.await.map_err(Error::from) }
        };
        load::call(CLEANERS, numbers, stop).await.map(drop)
    }

    /// The usage so far.
    pub(crate) async fn usage(&mut self) -> Result<Usage, Error> {
        let pids = self.pids();
        Usage::now(&mut self.redis, &pids).await
    }

    /// The best that the same Redis can do now.
    pub(crate) async fn floor(&mut self) -> Result<Floor, Error> {
        Floor::measure(&mut self.redis, self.quick).await
    }

    /// The worker processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.workers.iter().map(|worker| worker.pid).collect()
    }

    /// The counts of all processes' handlers.
    pub(crate) async fn counts(&mut self) -> Result<Counts, Error> {
        let mut all = Counts::default();
        for worker in &mut self.workers {
            let Counts { started, stopped, notified, last_us } = worker.counts().await?;
            all.started += started;
            all.stopped += stopped;
            all.notified += notified;
            all.last_us = all.last_us.max(last_us);
        }
        Ok(all)
    }

    /// Makes each job give a checkpoint, in all processes at once, and returns their number when all are kept.
    pub(crate) async fn checkpoint_all(&mut self) -> Result<u64, Error> {
        let given = try_join_all(self.workers.iter_mut().map(WorkerProcess::checkpoint)).await?;
        Ok(given.into_iter().sum())
    }

    /// Waits until the handlers have seen `count` events, and returns when they had.
    pub(crate) async fn seen(&mut self, what: fn(&Counts) -> u64, count: u64) -> Result<u64, Error> {
        let seen = within(PATIENCE, "handlers to have seen all", async || {
            let counts = self.counts().await.map_err(|error| error.to_string())?;
            if what(&counts) >= count {
                Ok(counts.last_us)
            } else {
                Err(format!("{} of {count}", what(&counts)))
            }
        });
        Ok(seen.await?)
    }

    /// The events that all processes have recorded since the last call.
    pub(crate) async fn events(&mut self) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        for worker in &mut self.workers {
            events.extend(worker.events().await?);
        }
        Ok(events)
    }

    /// Waits until every job runs where it belongs: nothing has moved for a while, and nothing will.
    pub(crate) async fn at_rest(&mut self) -> Result<(), Error> {
        let (began, quiet_us) = (now_us(), 1_000 * (self.pool.stable_after_ms + QUIET_MS));
        within(PATIENCE, "jobs to be where they belong", async || {
            let counts = self.counts().await;
            counts.is_ok_and(|counts| now_us().saturating_sub(counts.last_us.max(began)) > quiet_us)
        })
        .await?;
        let all_run = within(PATIENCE, "all jobs to run", async || {
            self.jobs().await.is_ok_and(|jobs| jobs.iter().all(|job| job.state == JobState::Running))
        });
        Ok(all_run.await?)
    }

    /// All jobs.
    pub(crate) async fn jobs(&self) -> Result<Vec<JobInfo>, Error> {
        Ok(self.producer.inspect().jobs().await?)
    }
}

/// The key of a job.
pub(crate) fn key(number: u64) -> String {
    format!("job:{number:012}")
}
