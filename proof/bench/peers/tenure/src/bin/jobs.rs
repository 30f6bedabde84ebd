//! `tenure-jobs`: one queue without groups, done jobs are gone.

use std::time::{Duration, Instant};

use tenure_jobs::{Client, Ctx, Jobs, Queue};
use tenure_peers::{Asked, Count, Error, PAYLOAD, asked, print_latency, print_throughput, url};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let asked = asked()?;
    let jobs = Jobs::builder("peers", Client::open(&url()?)?).queue(Queue::new("plain")).join().await?;
    let (count, payload) = (Count::default(), "x".repeat(PAYLOAD));
    let done = count.clone();
    let handler = move |_: Ctx, _: String| {
        done.up();
        std::future::ready(Ok(()))
    };
    let slots = if let Asked::Throughput { slots, .. } = asked { slots } else { 16 };
    let worker = jobs.worker("plain", handler).slots(slots).start()?;
    match asked {
        Asked::Throughput { jobs: many, .. } => {
            let began = Instant::now();
            let add = jobs.add_many("plain", (0..many).map(|_| &payload));
            let (added, ()) = tokio::join!(add, count.until(many));
            added?;
            print_throughput(many, began.elapsed());
        }
        Asked::Latency { jobs: many } => {
            let mut times = Vec::new();
            for n in 1..=many {
                let began = Instant::now();
                jobs.add("plain", &payload).await?;
                count.until(n).await;
                times.push(began.elapsed());
            }
            print_latency(times);
        }
    }
    worker.close(Duration::from_secs(30)).await?;
    jobs.close();
    Ok(())
}
