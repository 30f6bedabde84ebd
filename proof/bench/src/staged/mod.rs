//! The cost of a dispatch's steps by themselves: the same atomic steps in batches of 128, stage by stage. They go over
//! one connection, and nobody waits. Below them are the bare writes that they make. One pass goes through a router; the
//! other has dispatches that name their workers, as most do.

mod bare;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use redis::aio::MultiplexedConnection;
use tenure_pool::Settings;
use tenure_pool::store::{
    BATCH_MAX, Begin, BeginReply, Bootstrap, Cursors, Dispatch, DispatchItem, DispatchReply, EntryId,
    Granted, Join, JoinRequest, OpenNormal, Placing, PoolState, ReadIdentity, ReadNode, ReadPool, ReadState,
    ReadTime, RedisStore, Release, ReleaseItem, ReleaseMode, Renew, Route, RouteReply, Seen, Settle, Started,
    StartedItem, Store, WorkerBegins, WorkerBegun, WorkerEvent, WorkerStarts,
};
use tenure_protocol::model::id::{
    DispatchId, Incarnation, JobKey, NodeName, Nonce, PoolName, Revision, Token, WorkerId,
};

use crate::Error;
use crate::arena::{PAYLOAD, key};
use crate::floor;
use crate::options::Options;
use crate::report::Report;
use crate::usage::redis_us;

/// The most batches on their way at once.
const PIPELINED: usize = 8;
/// The most entries read at once.
const READ: usize = 8;
const WORKERS: usize = 4;
const STAGES: [&str; 4] = ["dispatch", "route", "begin", "started"];

/// The steps of one repetition.
struct Run {
    /// Through a router.
    routed: Pass,
    /// With dispatches that name their workers.
    placed: Pass,
    /// The first pass's writes as bare commands, in µs of Redis's CPU for each job.
    bare: f64,
}

/// Jobs from their dispatch to their start.
struct Pass {
    /// µs of Redis's CPU for each job, as in [`STAGES`].
    stages: [f64; 4],
    /// The same figure for the reads between them.
    reads: f64,
    /// The rate of the stages by the clock.
    jobs_per_s: f64,
}

impl Pass {
    fn total(&self) -> f64 {
        self.stages.iter().sum()
    }
}

/// Adds the cost of the steps, and the distance of the whole pool from it.
pub(crate) async fn report(report: &mut Report, options: &Options) -> Result<(), Error> {
    let server = options.server()?;
    let mut redis = floor::connect(&server.url()).await?;
    let batches = options.sized(60, 4);
    let mut lab = Lab::open(&server.url()).await?;
    let mut runs = Vec::new();
    for run in 0..=options.runs() {
        let measured = lab.run(&mut redis, batches).await?;
        if run > 0 {
            runs.push(measured);
        }
    }
    lab.store.close().await;
    let of = |field: fn(&Run) -> f64| runs.iter().map(field).collect::<Vec<_>>();
    for (stage, name) in STAGES.iter().enumerate() {
        report.figure(format!("staged_{name}_us"), runs.iter().map(|run| run.routed.stages[stage]).collect());
    }
    report.beside("staged_us_per_job", of(|run| run.routed.total()), of(|run| run.bare));
    report.figure("staged_reads_us_per_job", of(|run| run.routed.reads));
    report.figure("staged_jobs_per_s", of(|run| run.routed.jobs_per_s));
    report.figure("staged_placed_dispatch_us", of(|run| run.placed.stages[0]));
    let placed = of(|run| run.placed.total());
    report.figure("staged_placed_us_per_job", placed.clone());
    if let Some(whole) = report.median("redis_us_per_job") {
        report.figure("staged_ratio", placed.iter().map(|staged| whole / staged).collect());
    }
    Ok(())
}

/// A pool with four workers that nobody runs.
struct Lab {
    store: Store,
    incarnation: Incarnation,
    node: NodeName,
    workers: Vec<WorkerId>,
    cursors: Cursors,
    /// The number of keys used.
    keys: u64,
}

impl Lab {
    async fn open(url: &str) -> Result<Self, Error> {
        let settings = Settings { max_queued: 1_000_000, ..Settings::default() };
        let store = Store::from(RedisStore::open(&floor::client(url)?, &PoolName::new("staged")?));
        let server = store.read(&ReadIdentity).await?.run_id;
        let incarnation = store
            .read(&Bootstrap {
                seen: Seen::default(),
                run_id: server.clone(),
                settings: Box::new(settings.clone()),
            })
            .await?
            .incarnation;
        store.bless(&server);
        store.run(incarnation, &OpenNormal).await?;
        let node = NodeName::new("node")?;
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            let request = JoinRequest {
                nonce: Nonce::new(format!("worker-{number}"))?,
                node: node.clone(),
                meta: String::new(),
                address: String::new(),
                preferred: None,
                settings: settings.clone(),
            };
            let worker = store.run(incarnation, &Join { request: Box::new(request) }).await?.worker;
            workers.push(store.run(incarnation, &Settle { worker }).await?.worker);
        }
        // Creates the stream that carries outcomes.
        store
            .run(
                incarnation,
                &Renew {
                    seen: Seen::default(),
                    node: Some(node.clone()),
                    workers: workers.clone(),
                    status: Bytes::new(),
                    looks_at_memory: false,
                },
            )
            .await?;
        let cursors = Cursors {
            workers: workers.iter().map(|&worker| (worker, EntryId::default())).collect(),
            node: EntryId::default(),
        };
        Ok(Self { store, incarnation, node, workers, cursors, keys: 0 })
    }

    async fn run(&mut self, redis: &mut MultiplexedConnection, batches: usize) -> Result<Run, Error> {
        let routed = self.pass(redis, batches, false).await?;
        let placed = self.pass(redis, batches, true).await?;
        let bare = bare::writes(redis, batches, WORKERS).await?;
        Ok(Run { routed, placed, bare })
    }

    async fn pass(
        &mut self,
        redis: &mut MultiplexedConnection,
        batches: usize,
        placed: bool,
    ) -> Result<Pass, Error> {
        let count = batches * BATCH_MAX;
        let ring = self.ring().await?;
        let mut watch = Watch::default();
        let items = self.items(batches, placed).await?;
        let (mut route, mut reads) = (0.0, 0.0);

        watch.start(redis).await?;
        self.dispatch(ring, &items).await?;
        let dispatch = watch.stop(redis).await?;

        if !placed {
            watch.read(redis).await?;
            let events = self.start_events(count).await?;
            reads += watch.stop_read(redis).await?;

            watch.start(redis).await?;
            self.route(ring, &events).await?;
            route = watch.stop(redis).await?;
        }
        watch.read(redis).await?;
        let assigned = self.assignments(count).await?;
        reads += watch.stop_read(redis).await?;

        watch.start(redis).await?;
        self.begin(&assigned).await?;
        let begin = watch.stop(redis).await?;

        watch.start(redis).await?;
        self.started(&assigned).await?;
        let started = watch.stop(redis).await?;

        let elapsed = watch.elapsed.as_secs_f64();
        self.release(&assigned).await?;
        let jobs = count as f64;
        let stages = [dispatch, route, begin, started].map(|us| us / jobs);
        Ok(Pass { stages, reads: reads / jobs, jobs_per_s: jobs / elapsed })
    }

    /// The revision of the ring, from the pool's state: the maps that follow it lag behind.
    async fn ring(&self) -> Result<Revision, Error> {
        match self.store.read(&ReadState).await? {
            PoolState::Present { members, .. } => Ok(members),
            other => Err(format!("the pool is {other:?}").into()),
        }
    }

    /// New jobs, in batches.
    async fn items(&mut self, batches: usize, placed: bool) -> Result<Vec<Vec<DispatchItem>>, Error> {
        let not_after = self.store.read(&ReadTime).await? + 20_000;
        let mut workers = self.workers.clone().into_iter().cycle();
        let mut all = Vec::with_capacity(batches);
        for _ in 0..batches {
            let mut batch = Vec::with_capacity(BATCH_MAX);
            for _ in 0..BATCH_MAX {
                self.keys += 1;
                batch.push(DispatchItem {
                    key: JobKey::new(key(self.keys))?,
                    id: DispatchId::of_node(&self.node, &format!("{:026}", self.keys))?,
                    not_after,
                    hash: String::new(),
                    payload: Bytes::from_static(&PAYLOAD),
                    worker: if placed { workers.next() } else { None },
                    awaited: true,
                });
            }
            all.push(batch);
        }
        Ok(all)
    }

    async fn dispatch(&self, ring: Revision, batches: &[Vec<DispatchItem>]) -> Result<(), Error> {
        let calls = stream::iter(batches).map(|items| async move {
            let step = Dispatch { by: Placing::Ring(ring), items: items.clone() };
            self.store.run(self.incarnation, &step).await
        });
        let replies: Vec<_> = calls.buffered(PIPELINED).try_collect().await?;
        all(replies, &DispatchReply::Accepted)
    }

    async fn start_events(&self, jobs: usize) -> Result<Vec<(EntryId, Vec<JobKey>)>, Error> {
        let (mut events, mut found) = (Vec::new(), 0);
        while found < jobs {
            let read = self
                .store
                .read(&ReadPool { consumer: self.node.clone(), max: READ, block: Duration::from_secs(1) })
                .await?;
            for event in read.filter(|events| !events.is_empty()).ok_or("no start events")? {
                found += event.jobs.len();
                events.push((event.entry, event.jobs.into_iter().map(|(key, _)| key).collect()));
            }
        }
        Ok(events)
    }

    async fn route(&self, ring: Revision, events: &[(EntryId, Vec<JobKey>)]) -> Result<(), Error> {
        let calls = stream::iter(events).map(|(entry, keys)| async move {
            let workers = self.workers.iter().cycle();
            let jobs: Vec<_> = keys.iter().cloned().zip(workers.map(|&worker| Some(worker))).collect();
            self.store.run(self.incarnation, &Route { ring, entries: vec![*entry], jobs }).await
        });
        let replies: Vec<_> = calls.buffered(PIPELINED).try_collect().await?;
        all(replies, &RouteReply::Routed)
    }

    async fn assignments(&mut self, jobs: usize) -> Result<Vec<Assigned>, Error> {
        let mut found = 0;
        // Entries are small, each with jobs of one worker: they are combined into batches.
        let mut open: BTreeMap<(WorkerId, bool), Assigned> = BTreeMap::new();
        let mut assigned = Vec::new();
        while found < jobs {
            let read = self
                .store
                .read(&ReadNode {
                    node: self.node.clone(),
                    cursors: self.cursors.clone(),
                    max: READ,
                    block: Duration::from_secs(1),
                })
                .await?;
            if read.workers.is_empty() {
                return Err("no assignments".into());
            }
            for (worker, entry, event) in read.workers {
                self.cursors.workers.insert(worker, entry);
                let (granted, token, keys) = match event {
                    WorkerEvent::Start { token, keys } => (false, token, keys),
                    WorkerEvent::Grant(Granted { token, jobs, .. }) => {
                        (true, token, jobs.into_iter().map(|of| of.key).collect())
                    }
                    _ => continue,
                };
                found += keys.len();
                let empty = || Assigned { worker, granted, entries: Vec::new(), jobs: Vec::new() };
                let batch = open.entry((worker, granted)).or_insert_with(empty);
                batch.entries.push(entry);
                batch.jobs.extend(keys.into_iter().map(|key| (key, token)));
                if batch.jobs.len() + BATCH_MAX / WORKERS > BATCH_MAX {
                    assigned.extend(open.remove(&(worker, granted)));
                }
            }
        }
        assigned.extend(open.into_values());
        Ok(assigned)
    }

    async fn begin(&self, assigned: &[Assigned]) -> Result<(), Error> {
        let asked = assigned.iter().filter(|of| !of.granted);
        let calls = stream::iter(asked).map(|Assigned { worker, entries, jobs, .. }| async move {
            let begins = WorkerBegins { worker: *worker, finished: entries.clone(), jobs: jobs.clone() };
            self.store.run(self.incarnation, &Begin { begins: vec![begins] }).await
        });
        let replies: Vec<_> = calls.buffered(PIPELINED).try_collect().await?;
        let begun = |reply: &_| matches!(reply, BeginReply::Begun(_));
        let all_begun = |of: &WorkerBegun| of.as_ref().is_ok_and(|replies| replies.iter().all(begun));
        if replies.iter().flatten().all(all_begun) { Ok(()) } else { Err("a job was not begun".into()) }
    }

    async fn started(&self, assigned: &[Assigned]) -> Result<(), Error> {
        let calls = stream::iter(assigned).map(|Assigned { worker, granted, entries, jobs }| async move {
            let item = |(key, token): &(JobKey, Token)| StartedItem {
                key: key.clone(),
                token: *token,
                tell: Some(self.node.clone()),
            };
            let items: Vec<_> = jobs.iter().map(item).collect();
            let finished = if *granted { entries.clone() } else { Vec::new() };
            self.store
                .run(
                    self.incarnation,
                    &Started { starts: vec![WorkerStarts { worker: *worker, finished, items }] },
                )
                .await
        });
        let replies: Vec<_> = calls.buffered(PIPELINED).try_collect().await?;
        all(replies, &true)
    }

    /// Makes room for the next repetition; not measured.
    async fn release(&self, assigned: &[Assigned]) -> Result<(), Error> {
        for Assigned { worker, jobs, .. } in assigned {
            let item = |(key, token): &(JobKey, Token)| ReleaseItem {
                ran: None,
                rests: String::new(),
                key: key.clone(),
                token: *token,
                mode: ReleaseMode::Delete,
                cause: tenure_pool::inspect::Cause::Moved,
                delay: Duration::ZERO,
                tell: None,
                tell_stopper: None,
                result: String::new(),
            };
            let items: Vec<_> = jobs.iter().map(item).collect();
            self.store
                .run(self.incarnation, &Release { worker: *worker, finished: Vec::new(), items })
                .await?;
        }
        Ok(())
    }
}

/// Jobs of one worker, at most a batch.
struct Assigned {
    worker: WorkerId,
    /// They start without a begin.
    granted: bool,
    entries: Vec<EntryId>,
    jobs: Vec<(JobKey, Token)>,
}

fn all<T: PartialEq + std::fmt::Debug>(replies: Vec<Vec<T>>, wanted: &T) -> Result<(), Error> {
    match replies.into_iter().flatten().find(|reply| reply != wanted) {
        Some(reply) => Err(format!("a step was answered {reply:?}").into()),
        None => Ok(()),
    }
}

/// CPU of Redis in a stage, and the time of all stages.
#[derive(Default)]
struct Watch {
    cpu: f64,
    began: Option<Instant>,
    elapsed: Duration,
}

impl Watch {
    async fn start(&mut self, redis: &mut MultiplexedConnection) -> Result<(), Error> {
        self.read(redis).await?;
        self.began = Some(Instant::now());
        Ok(())
    }

    async fn stop(&mut self, redis: &mut MultiplexedConnection) -> Result<f64, Error> {
        self.elapsed += self.began.take().map(|began| began.elapsed()).unwrap_or_default();
        self.stop_read(redis).await
    }

    async fn read(&mut self, redis: &mut MultiplexedConnection) -> Result<(), Error> {
        self.cpu = redis_us(redis).await?;
        Ok(())
    }

    async fn stop_read(&self, redis: &mut MultiplexedConnection) -> Result<f64, Error> {
        Ok(redis_us(redis).await? - self.cpu)
    }
}
