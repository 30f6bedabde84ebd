//! `pool-worker`: the requests to a worker's handler, from a job's start to its stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure_examples::text;
use tenure_pool::{BoxError, Client, Job, JobHandler, Node, Start, StopReason};
use tenure_testing::{Endpoint, Failure};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const POOL: &str = "example-worker";

/// Looks after one shop per job.
struct Shops {
    rested: AtomicBool,
    told: UnboundedSender<String>,
}

impl Shops {
    fn tell(&self, what: String) {
        let _ = self.told.send(what);
    }
}

impl JobHandler for Shops {
    async fn start(&self, job: Job) -> Start {
        let (shop, sells) = (job.key(), text(Some(&job.payload())));
        if sells == "nothing" {
            return Start::Failed("there is nothing to sell".into());
        }
        if sells == "dreams" && !self.rested.swap(true, Ordering::Relaxed) {
            self.tell(format!("{shop} is refused: not now"));
            return Start::Refused { backoff: Some(Duration::from_millis(100)) };
        }
        self.tell(format!("{shop} opens and sells {sells}"));
        Start::Started
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.tell(format!("{} hears: {}", job.key(), text(Some(&body))));
        Ok(())
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.tell(format!("{} closes: {why:?}", job.key()));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let private = redis.private().is_some();
    let node = Node::builder(POOL, Client::open(redis.url())?)
        .name("high-street")
        .assume_fresh(private)
        .join()
        .await?;
    let (told, mut shops) = unbounded_channel();
    node.add_worker(Shops { rested: AtomicBool::new(false), told }).await?;

    // A dispatch returns when the handler has started the job, or could not.
    node.dispatch(("acme", "anvils")).await?;
    hear(&mut shops, 1).await;
    if let Err(error) = node.dispatch(("bubbles", "nothing")).await {
        println!("bubbles: {error}");
    }
    node.dispatch(("cloud", "dreams")).await?;
    hear(&mut shops, 2).await;

    // The notifications of one key arrive in order, independent of other keys.
    for what in ["a customer", "another customer", "a thief"] {
        node.notify("acme", what).await?;
    }
    hear(&mut shops, 3).await;

    node.stop_job("acme").await?;
    hear(&mut shops, 1).await;
    node.operate().shutdown().await?;
    hear(&mut shops, 1).await;
    Ok(())
}

/// Prints the handler's messages.
async fn hear(shops: &mut UnboundedReceiver<String>, lines: usize) {
    for _ in 0..lines {
        println!("{}", shops.recv().await.unwrap_or_default());
    }
}
