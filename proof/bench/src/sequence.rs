//! A consumer of indexed jobs beside a bare loop over the same source and the same store of progress. Then its memory with
//! a hole of a million. Times are CPU times of this process, which does nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use rustix::time::{ClockId, clock_gettime};
use tenure_sequence::{BoxError, Consumer, Delivery, MemoryProgress, Progress, Source, SourceError};
use tokio::sync::Notify;

use crate::Error;
use crate::options::Options;
use crate::report::Report;
use crate::usage::resident;

/// The jobs of one repetition.
const JOBS: (u64, u64) = (1_000_000, 2_000);
/// The indexes ahead of the hole.
const HOLE: (u64, u64) = (1_000_000, 5_000);
const CONCURRENCY: [usize; 3] = [1, 16, 256];

/// The numbers up to this one.
#[derive(Clone, Copy)]
struct Numbers(u64);

impl Source for Numbers {
    type Job = u64;

    async fn at(&self, index: u64) -> Result<Option<u64>, SourceError> {
        Ok((index <= self.0).then_some(index))
    }

    async fn head(&self) -> Result<u64, SourceError> {
        Ok(self.0)
    }
}

pub(crate) async fn run(options: Options) -> Result<Report, Error> {
    let jobs = options.sized(JOBS.0, JOBS.1);
    let mut report = Report::new("sequence");
    for concurrency in CONCURRENCY {
        let (mut each, mut floors, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.runs() {
            let floor = bare(Numbers(jobs), concurrency).await?;
            let own = consumed(Numbers(jobs), concurrency).await?;
            each.push(own);
            floors.push(floor);
            over.push(own - floor);
        }
        report.beside(format!("us_per_job_{concurrency}"), each, floors);
        report.figure(format!("overhead_us_per_job_{concurrency}"), over);
    }
    let (mut bytes, mut ahead) = (Vec::new(), Vec::new());
    for _ in 0..options.runs() {
        let hole = hole(options.sized(HOLE.0, HOLE.1)).await?;
        bytes.push(hole.0);
        ahead.push(hole.1);
    }
    report.figure("hole_done_ahead", ahead);
    report.figure("hole_bytes", bytes);
    Ok(report)
}

/// The CPU time of this process so far, µs.
fn cpu_us() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
}

/// A job: it lets the others run once.
async fn job(number: u64) {
    tokio::task::yield_now().await;
    std::hint::black_box(number);
}

/// A loop that runs the jobs in order, several at once, and saves after each. Returns the CPU time of each, µs.
async fn bare(source: Numbers, concurrency: usize) -> Result<f64, Error> {
    let progress = MemoryProgress::new();
    progress.init(0).await?;
    let began = cpu_us();
    let run = |index| async move {
        if let Some(number) = source.at(index).await? {
            job(number).await;
        }
        Ok::<_, SourceError>(index)
    };
    let mut done = futures::stream::iter(1..=source.0).map(run).buffered(concurrency);
    while let Some(index) = done.next().await {
        progress.save(index?).await?;
    }
    Ok((cpu_us() - began) / source.0 as f64)
}

/// A consumer of the same. Returns the CPU time of each job, µs.
async fn consumed(source: Numbers, concurrency: usize) -> Result<f64, Error> {
    let finished = Arc::new(Notify::new());
    let (tell, last) = (finished.clone(), source.0);
    let builder = Consumer::builder(source, MemoryProgress::new()).concurrency(concurrency);
    let consumer = builder
        .after(move |index| {
            if index == last {
                tell.notify_one();
            }
        })
        .build(async |delivery: Delivery<u64>| {
            job(*delivery.job()).await;
            Ok::<_, BoxError>(())
        })?;
    let began = cpu_us();
    consumer.start().await?;
    finished.notified().await;
    let elapsed = (cpu_us() - began) / source.0 as f64;
    consumer.stop().await?;
    Ok(elapsed)
}

/// The first job hangs while this many behind it are done. Returns the growth of this process, bytes, and how many are done
/// ahead.
async fn hole(ahead: u64) -> Result<(f64, f64), Error> {
    let (count, warm) = (Arc::new(AtomicU64::new(0)), ahead / 50);
    let (some, all) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (counted, told) = (count.clone(), [some.clone(), all.clone()]);
    let builder = Consumer::builder(Numbers(ahead + 1), MemoryProgress::new()).concurrency(16).look_ahead(0);
    let consumer = builder.build(move |delivery: Delivery<u64>| {
        let (count, told) = (counted.clone(), told.clone());
        async move {
            if delivery.index() == 1 {
                std::future::pending::<()>().await;
            }
            job(*delivery.job()).await;
            let done = count.fetch_add(1, Ordering::Relaxed) + 1;
            if done == warm {
                told[0].notify_one();
            }
            if done == ahead {
                told[1].notify_one();
            }
            Ok::<_, BoxError>(())
        }
    })?;
    consumer.start().await?;
    some.notified().await;
    let before = resident(std::process::id())?;
    all.notified().await;
    // The last ones have ended, and are about to count.
    let mut done = consumer.explain().held_up;
    while done < ahead {
        tokio::task::yield_now().await;
        done = consumer.explain().held_up;
    }
    consumer.settled().await;
    let after = resident(std::process::id())?;
    consumer.shutdown().await?;
    Ok((after as f64 - before as f64, done as f64))
}
