//! Background jobs with 100 bytes of payload: added and processed until done, in several numbers of slots. All of it is in
//! one process: producer and worker share its cores with Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tenure_jobs::{Ctx, Flow, Groups, Jobs, Outcome, Queue, Worker};
use tokio::sync::Notify;

use crate::figures::{percentile_ms, short};
use crate::options::Options;
use crate::report::Report;
use crate::usage::{Usage, redis_bytes, redis_us};
use crate::{Error, floor};

const SLOTS: [u32; 4] = [1, 16, 256, 1_000];
const PATIENCE: Duration = Duration::from_secs(60);

/// The sizes of one repetition.
#[derive(Clone, Copy)]
struct Sizes {
    jobs: u64,
    /// Jobs of one slot, one after the other.
    single: u64,
    waiting: u64,
    delayed: u64,
    idle: Duration,
}

const SIZES: Sizes = Sizes {
    jobs: 20_000,
    single: 2_000,
    waiting: 1_000_000,
    delayed: 100_000,
    idle: Duration::from_secs(20),
};
const QUICK: Sizes =
    Sizes { jobs: 300, single: 30, waiting: 500, delayed: 200, idle: Duration::from_millis(300) };

/// Counts what handlers have done.
#[derive(Clone, Default)]
struct Count(Arc<(AtomicU64, Notify)>);

impl Count {
    fn up(&self) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
        self.0.1.notify_one();
    }

    async fn until(&self, count: u64) {
        while self.0.0.load(Ordering::Acquire) < count {
            self.0.1.notified().await;
        }
    }

    fn reset(&self) {
        self.0.0.store(0, Ordering::Release);
    }
}

struct Bench {
    jobs: Jobs,
    redis: MultiplexedConnection,
    done: Count,
    sizes: Sizes,
}

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let server = options.server()?;
    let sizes = options.sized(SIZES, QUICK);
    let mut report = Report::new("jobs");
    let mut bench = Bench {
        jobs: Jobs::builder("bench", floor::client(&server.url())?)
            .queue(Queue::new("plain"))
            .queue(Queue::new("other"))
            .queue(Queue::new("groups").groups(Groups::new()))
            .queues(["first", "second", "third"])
            .flow(Flow::new("three").then("first").then("second").then("third"))
            .join()
            .await?,
        redis: floor::connect(&server.url()).await?,
        done: Count::default(),
        sizes,
    };
    let idle = bench.idle().await?;
    let mut figures: Vec<(String, Vec<f64>)> = Vec::new();
    let mut add = |name: String, value: f64| match figures.iter_mut().find(|(known, _)| *known == name) {
        Some((_, values)) => values.push(value),
        None => figures.push((name, vec![value])),
    };
    for _ in 0..options.runs() {
        for slots in SLOTS {
            let count = if slots == 1 { sizes.single } else { sizes.jobs };
            let (per_s, us) = bench.process("plain", slots, count).await?;
            add(format!("jobs_per_s_{}_slots", short(slots.into())), per_s);
            add(format!("redis_us_per_job_{}_slots", short(slots.into())), us);
        }
        let (per_s, us) = bench.process("groups", 256, sizes.jobs).await?;
        add("group_jobs_per_s".into(), per_s);
        add("group_redis_us_per_job".into(), us);
        add("flow_redis_us_per_stage".into(), bench.flow().await?);
        add("wakeup_ms_p50".into(), bench.wake_up().await?);
        add("ping_ms_p50".into(), floor::Floor::measure(&mut bench.redis, options.quick).await?.ping_ms);
        add("delayed_jobs_per_s".into(), bench.delayed().await?);
    }
    let (bytes, beside) = bench.beside_waiting().await?;
    add(format!("redis_us_per_job_beside_{}_waiting", short(sizes.waiting)), beside);
    add("redis_bytes_per_waiting_job".into(), bytes);
    add("idle_commands_per_s".into(), idle);
    for (name, values) in figures {
        report.figure(name, values);
    }
    bench.jobs.close();
    Ok(report)
}

impl Bench {
    /// A worker whose handler counts.
    fn worker(&self, queue: &str, slots: u32) -> Result<Worker, Error> {
        let done = self.done.clone();
        let worker = self.jobs.worker(queue, move |_: Ctx, _: String| {
            done.up();
            std::future::ready(Ok(()))
        });
        Ok(worker.slots(slots).start()?)
    }

    async fn add(&self, queue: &str, count: u64) -> Result<(), Error> {
        let payload = "x".repeat(100);
        if queue == "groups" {
            let mut added = futures::stream::FuturesUnordered::new();
            for n in 0..count {
                let (jobs, payload) = (&self.jobs, &payload);
                added.push(async move { jobs.add("groups", payload).group(format!("g{}", n % 50)).await });
            }
            while let Some(added) = futures::StreamExt::next(&mut added).await {
                added?;
            }
        } else {
            self.jobs.add_many(queue, (0..count).map(|_| &payload)).await?;
        }
        Ok(())
    }

    /// Adds jobs while they are processed: jobs a second, and µs of Redis a job.
    async fn process(&mut self, queue: &str, slots: u32, count: u64) -> Result<(f64, f64), Error> {
        self.done.reset();
        let worker = self.worker(queue, slots)?;
        let (began, before) = (Instant::now(), redis_us(&mut self.redis).await?);
        let (added, ()) = tokio::join!(self.add(queue, count), self.done.until(count));
        added?;
        let took = began.elapsed();
        worker.close(PATIENCE).await?;
        let us = redis_us(&mut self.redis).await? - before;
        Ok((count as f64 / took.as_secs_f64(), us / count as f64))
    }

    /// Jobs go through three queues: µs of Redis a stage.
    async fn flow(&mut self) -> Result<f64, Error> {
        self.done.reset();
        let go_on = async |_: Ctx, _: String| Ok(Outcome::go_on());
        let workers = [
            self.jobs.worker("first", go_on).slots(256).start()?,
            self.jobs.worker("second", go_on).slots(256).start()?,
            self.worker("third", 256)?,
        ];
        let count = self.sizes.jobs / 4;
        let before = redis_us(&mut self.redis).await?;
        let payload = "x".repeat(100);
        let starts = (0..count).map(|_| async { self.jobs.start("three", &payload).await });
        let starts = async { futures::future::try_join_all(starts).await };
        let (started, ()) = tokio::join!(starts, self.done.until(count));
        let ids: Vec<_> = started?.into_iter().map(|added| added.id).collect();
        for worker in workers {
            worker.close(PATIENCE).await?;
        }
        let us = redis_us(&mut self.redis).await? - before;
        for id in ids {
            self.jobs.remove(&id).await?;
        }
        Ok(us / (count * 3) as f64)
    }

    /// From the add until a waiting worker's handler begins.
    async fn wake_up(&mut self) -> Result<f64, Error> {
        self.done.reset();
        let worker = self.worker("plain", 4)?;
        let mut times = Vec::new();
        for n in 1..=self.sizes.single / 4 {
            let began = Instant::now();
            self.jobs.add("plain", "x").await?;
            self.done.until(n).await;
            times.push(began.elapsed());
        }
        worker.close(PATIENCE).await?;
        times.sort_unstable();
        Ok(percentile_ms(&times, 0.5))
    }

    /// Many jobs are due at the same moment: jobs a second from then until all are done.
    async fn delayed(&mut self) -> Result<f64, Error> {
        self.done.reset();
        let (count, worker) = (self.sizes.delayed, self.worker("plain", 256)?);
        let due = std::time::SystemTime::now() + Duration::from_secs(if count > 1_000 { 30 } else { 1 });
        let payload = "x".repeat(100);
        for _ in 0..count.div_ceil(1_000) {
            let adds =
                (0..1_000.min(count)).map(|_| async { self.jobs.add("plain", &payload).at(due).await });
            futures::future::try_join_all(adds).await?;
        }
        let count = count.div_ceil(1_000) * 1_000.min(count);
        if let Ok(left) = due.duration_since(std::time::SystemTime::now()) {
            tokio::time::sleep(left).await;
        }
        let began = Instant::now();
        self.done.until(count).await;
        let took = began.elapsed();
        worker.close(PATIENCE).await?;
        Ok(count as f64 / took.as_secs_f64())
    }

    /// Bytes of Redis a waiting job, and µs of Redis a job of another queue beside them.
    async fn beside_waiting(&mut self) -> Result<(f64, f64), Error> {
        let before = redis_bytes(&mut self.redis).await?;
        self.add("other", self.sizes.waiting).await?;
        let bytes = (redis_bytes(&mut self.redis).await? - before) / self.sizes.waiting as f64;
        let (_, us) = self.process("plain", 256, self.sizes.jobs).await?;
        Ok((bytes, us))
    }

    /// The commands a second of a node with a worker that has nothing to do.
    async fn idle(&mut self) -> Result<f64, Error> {
        let worker = self.worker("plain", 16)?;
        tokio::time::sleep(self.sizes.idle / 4).await;
        let before = Usage::now(&mut self.redis, &[]).await?;
        tokio::time::sleep(self.sizes.idle).await;
        let after = Usage::now(&mut self.redis, &[]).await?;
        worker.close(PATIENCE).await?;
        Ok((after.commands - before.commands) / self.sizes.idle.as_secs_f64())
    }
}
