//! `apalis` on Redis, with its own defaults beside the number of slots.

use std::time::Instant;

use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use tenure_peers::{Asked, Count, Error, PAYLOAD, asked, print_latency, print_throughput, url};

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
        .backend(storage.clone())
        .data(count.clone())
        .concurrency(slots)
        .build(handle);
    let running = tokio::spawn(worker.run());
    match asked {
        Asked::Throughput { jobs, .. } => {
            let began = Instant::now();
            let add = async {
                for part in 0..jobs.div_ceil(1_000) {
                    let many = (jobs - part * 1_000).min(1_000);
                    storage.push_bulk((0..many).map(|_| payload.clone()).collect()).await?;
                }
                Ok::<_, Error>(())
            };
            let (added, ()) = tokio::join!(add, count.until(jobs));
            added?;
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
    running.abort();
    Ok(())
}
