//! `tenure-pool`: jobs are dispatched and started, each key by its own worker. All run until the pool is shut down.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use tenure_peers::{Asked, Error, PAYLOAD, asked, print_latency, print_throughput, url};
use tenure_pool::{Client, Job, Node};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let asked = asked()?;
    let node = Node::builder("peers", Client::open(&url()?)?)
        .join_settle(Duration::ZERO)
        .assume_fresh(true)
        .join()
        .await?;
    let run = |job: Job| async move {
        job.cancelled().await;
        Ok::<(), tenure_pool::BoxError>(())
    };
    let worker = node.add_worker(tenure_pool::run(run)).await?;
    while worker.info().is_none_or(|info| info.slot.is_none()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let payload = "x".repeat(PAYLOAD);
    match asked {
        Asked::Throughput { jobs, slots } => {
            let began = Instant::now();
            let dispatches = (0..jobs).map(|n| {
                let (node, payload) = (&node, payload.clone());
                async move { node.dispatch((format!("k{n}"), payload)).await }
            });
            stream::iter(dispatches).buffer_unordered(slots as usize).try_collect::<Vec<_>>().await?;
            print_throughput(jobs, began.elapsed());
        }
        Asked::Latency { jobs } => {
            let mut times = Vec::new();
            for n in 0..jobs {
                let began = Instant::now();
                node.dispatch((format!("k{n}"), payload.clone())).await?;
                times.push(began.elapsed());
            }
            print_latency(times);
        }
    }
    node.operate().shutdown().await?;
    Ok(())
}
