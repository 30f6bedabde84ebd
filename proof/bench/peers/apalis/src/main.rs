//! `apalis` on Redis, with its own defaults beside the number of slots.
//!
//! By itself it looks for jobs that come to an idle worker only at its heartbeat, every 30 s. So it is told to look more often.

use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};

#[path = "../../tenure/src/lib.rs"]
mod common;

use common::{Asked, Count, Error, PAYLOAD, asked, print_latency, print_throughput, url};

/// How often an idle worker looks.
const POLL: Duration = Duration::from_millis(100);
/// How many jobs are added in a call, and how many may then still wait. Version 1.0.0 fails where 8,000 are due.
const PART: u64 = 1_000;
const WAITING: u64 = 3_000;

async fn handle(_: String, done: Data<Count>) -> Result<(), BoxDynError> {
    done.up();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let asked = asked()?;
    let slots = if let Asked::Throughput { slots, .. } = asked { slots as usize } else { 16 };
    // It fetches at most a batch at a time: as many as it has slots.
    let config = Config::default().queue("plain").batch_size(slots);
    let mut storage = RedisStorage::new(apalis_redis::connect(url()?).await?).with_config(config);
    let (count, payload) = (Count::default(), "x".repeat(PAYLOAD));
    let worker = WorkerBuilder::new("peer")
        .backend(storage.clone().poll_with_interval(POLL))
        .data(count.clone())
        .concurrency(slots)
        .build(handle);
    let measured = async {
        match asked {
            Asked::Throughput { jobs, .. } => {
                let began = Instant::now();
                for part in 0..jobs.div_ceil(PART) {
                    let many = (jobs - part * PART).min(PART);
                    storage.push_bulk((0..many).map(|_| payload.clone()).collect()).await?;
                    count.until((part * PART).saturating_sub(WAITING)).await;
                }
                count.until(jobs).await;
                print_throughput(jobs, began.elapsed());
            }
            Asked::Latency { jobs } => {
                let mut times = Vec::new();
                for n in 1..=jobs {
                    let began = Instant::now();
                    storage.push(payload.clone()).await?;
                    count.until(n).await;
                    times.push(began.elapsed());
                }
                print_latency(times);
            }
        }
        Ok(())
    };
    let mut running = tokio::spawn(worker.run());
    tokio::select! {
        measured = measured => { running.abort(); measured }
        ended = &mut running => Err(format!("the worker ended early: {ended:?}").into()),
    }
}
