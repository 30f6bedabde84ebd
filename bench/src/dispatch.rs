//! Jobs dispatched until started: one node that dispatches, two nodes with two workers each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tenure_pool::{Client, Job, JobHandler, Node, Start};
use tenure_testing::RedisServer;

use crate::figures::{median, percentile_ms};
use crate::floor::{self, Floor};

type Error = Box<dyn std::error::Error>;

/// A handler that does nothing, at once.
struct Idle;

impl JobHandler for Idle {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }
}

/// One load, measured.
struct Figure {
    callers: u64,
    jobs_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    redis_us_per_job: f64,
    commands_per_job: f64,
}

pub(crate) async fn run(as_json: bool, runs: u32) -> Result<(), Error> {
    let server = RedisServer::start()?;
    let client = Client::open(&server.url())?;
    let mut redis = floor::connect(&server.url()).await?;
    let node = |name: &str| {
        let builder =
            Node::builder("bench", client.clone()).name(name).max_queued(1_000_000).assume_fresh(true);
        builder.join_settle(Duration::from_millis(10)).join()
    };
    let producer = node("producer").await?;
    let mut fleet = Vec::new();
    for name in ["first", "second"] {
        let node = node(name).await?;
        for _ in 0..2 {
            node.add_worker(Idle).await?;
        }
        fleet.push(node);
    }
    while producer.workers().iter().filter(|w| w.slot.is_some()).count() < 4 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let floor = floor::measure(&mut redis).await?;
    let keys = Arc::new(AtomicU64::new(0));
    let mut figures = Vec::new();
    for (callers, jobs) in [(1, 1_500), (16, 8_000), (256, 40_000), (1_000, 60_000)] {
        measure(&producer, &mut redis, &keys, callers, jobs / 4).await?;
        let mut repeated = Vec::new();
        for _ in 0..runs {
            repeated.push(measure(&producer, &mut redis, &keys, callers, jobs).await?);
        }
        figures.push(middle(&repeated));
    }
    report(as_json, &floor, &figures);
    producer.shutdown().await?;
    Ok(())
}

async fn measure(
    producer: &Node,
    redis: &mut redis::aio::MultiplexedConnection,
    keys: &Arc<AtomicU64>,
    callers: u64,
    jobs: u64,
) -> Result<Figure, Error> {
    let payload = bytes_of(100);
    let (cpu, commands) = floor::server_use(redis).await?;
    let began = Instant::now();
    let tasks = (0..callers).map(|_| {
        let (producer, keys, payload) = (producer.clone(), keys.clone(), payload.clone());
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..jobs.div_ceil(callers) {
                let key = format!("job:{:015}", keys.fetch_add(1, Ordering::Relaxed));
                let began = Instant::now();
                producer.dispatch(key, payload.clone()).await?;
                times.push(began.elapsed());
            }
            Ok::<_, tenure_pool::DispatchError>(times)
        })
    });
    let mut times = Vec::new();
    for task in futures::future::join_all(tasks).await {
        times.extend(task??);
    }
    let elapsed = began.elapsed().as_secs_f64();
    let (cpu_after, commands_after) = floor::server_use(redis).await?;
    times.sort_unstable();
    let count = times.len() as f64;
    Ok(Figure {
        callers,
        jobs_per_s: count / elapsed,
        p50_ms: percentile_ms(&times, 0.5),
        p99_ms: percentile_ms(&times, 0.99),
        redis_us_per_job: (cpu_after - cpu) * 1e6 / count,
        commands_per_job: (commands_after - commands) / count,
    })
}

fn bytes_of(len: usize) -> Vec<u8> {
    vec![b'x'; len]
}

fn middle(runs: &[Figure]) -> Figure {
    let of = |field: fn(&Figure) -> f64| median(runs.iter().map(field).collect());
    Figure {
        callers: runs.first().map_or(0, |f| f.callers),
        jobs_per_s: of(|f| f.jobs_per_s),
        p50_ms: of(|f| f.p50_ms),
        p99_ms: of(|f| f.p99_ms),
        redis_us_per_job: of(|f| f.redis_us_per_job),
        commands_per_job: of(|f| f.commands_per_job),
    }
}

fn report(as_json: bool, floor: &Floor, figures: &[Figure]) {
    if as_json {
        let rows: Vec<_> = figures
            .iter()
            .map(|f| {
                json!({"callers": f.callers, "jobs_per_s": f.jobs_per_s.round(), "p50_ms": f.p50_ms, "p99_ms": f.p99_ms,
                    "redis_us_per_job": f.redis_us_per_job, "commands_per_job": f.commands_per_job,
                    "floor_ratio": f.jobs_per_s / floor.xadd_per_s})
            })
            .collect();
        println!(
            "{}",
            json!({"ping_p50_ms": floor.ping_ms, "xadd_per_s": floor.xadd_per_s.round(), "dispatch": rows})
        );
        return;
    }
    println!("floor: PING p50 {:.3} ms, XADD pipelined by 100 {:.0}/s", floor.ping_ms, floor.xadd_per_s);
    println!("callers    jobs/s   p50 ms   p99 ms   Redis us/job   commands/job   of XADD");
    for f in figures {
        let ratio = f.jobs_per_s / floor.xadd_per_s;
        let Figure { callers, jobs_per_s, p50_ms, p99_ms, redis_us_per_job: us, commands_per_job: commands } =
            f;
        println!(
            "{callers:7} {jobs_per_s:9.0} {p50_ms:8.3} {p99_ms:8.3} {us:14.1} {commands:14.2} {ratio:9.3}"
        );
    }
}
