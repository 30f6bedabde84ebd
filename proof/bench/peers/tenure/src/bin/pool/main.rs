//! `tenure-pool`: jobs are dispatched and started, each key by its own worker. All run until the input ends. `keys` has the same in
//! several processes.

mod keys;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use tenure_peers::{Asked, Error, PAYLOAD, asked, print_latency, print_throughput, url};
use tenure_pool::{Client, Job, Node, NodeBuilder, Worker};

/// The pool of this comparison, with the defaults. The server has just been emptied.
fn pool() -> Result<NodeBuilder, Error> {
    Ok(Node::builder("peers", Client::open(&url()?)?).join_settle(Duration::ZERO).assume_fresh(true))
}

/// Waits until a worker is in the ring.
async fn placed(worker: &Worker) {
    while worker.info().is_none_or(|info| info.slot.is_none()) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the input of this process ends.
async fn until_the_input_ends() -> Result<(), Error> {
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    Ok(())
}

/// Counts when it is dropped: an aborted handler ends nowhere else.
struct CountedEnd(Arc<AtomicU64>);

impl Drop for CountedEnd {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", log, pause_ms] => keys::work(log, Duration::from_millis(pause_ms.parse()?)).await,
        ["dispatch", jobs] => keys::dispatch(jobs.parse()?).await,
        _ => measure(asked()?).await,
    }
}

async fn measure(asked: Asked) -> Result<(), Error> {
    let node = pool()?.join().await?;
    let ended = Arc::new(AtomicU64::new(0));
    let ends = ended.clone();
    let run = move |job: Job| {
        let end = CountedEnd(ends.clone());
        async move {
            job.cancelled().await;
            drop(end);
            Ok::<(), tenure_pool::BoxError>(())
        }
    };
    let worker = node.add_worker(tenure_pool::run(run)).await?;
    placed(&worker).await;
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
    until_the_input_ends().await?;
    println!("{}", serde_json::json!({"ended": ended.load(Ordering::Acquire)}));
    node.operate().shutdown().await?;
    Ok(())
}
