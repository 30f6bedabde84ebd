//! `pool-messages`: orders come with their customer as the key. No job stands by: the first order of a customer starts one,
//! and it ends when no order has come for a while.

use std::time::Duration;

use tenure_examples::{PATIENCE, text};
use tenure_pool::{BoxError, Client, Job, Node};
use tenure_testing::{Endpoint, Failure};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const POOL: &str = "example-messages";
/// A job ends when it has heard nothing for so long. A service would rather take a minute.
const IDLE: Duration = Duration::from_millis(500);

/// Handles the orders of one customer, one after the other.
async fn orders(job: Job, told: UnboundedSender<String>) -> Result<(), BoxError> {
    let customer = job.key();
    told.send(format!("the desk of {customer} opens"))?;
    let mut count = 0;
    loop {
        tokio::select! {
            () = job.cancelled() => return Ok(()),
            order = job.notified() => {
                count += 1;
                told.send(format!("{customer} orders {}", text(Some(&order))))?;
            }
            // The caller knows by the answer that the order was handled.
            ask = job.asked() => {
                count += 1;
                told.send(format!("{customer} orders {}", text(Some(ask.body()))))?;
                ask.answer(format!("order {count} of {customer} is taken"));
            }
            () = tokio::time::sleep(IDLE) => {
                told.send(format!("the desk of {customer} closes after {count}"))?;
                return Ok(());
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let client = Client::open(redis.url())?;
    let private = redis.private().is_some();
    let node = |name: &str| Node::builder(POOL, &client).name(name).assume_fresh(private);
    let (told, mut desk) = unbounded_channel();
    let worker = node("worker").join().await?;
    worker.add_worker(tenure_pool::run(move |job: Job| orders(job, told.clone()))).await?;
    let shop = node("shop").client_only().join().await?;

    for order in ["two tables", "six chairs"] {
        shop.notify("acme", order).or_start(("acme", "")).await?;
    }
    for _ in 0..4 {
        println!("{}", desk.recv().await.unwrap_or_default());
    }

    println!("the next order starts another job, and wants to know");
    while worker.inspect().job("acme").await?.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let answer = shop.ask("acme", "a lamp").or_start(("acme", "")).deadline(PATIENCE).await?;
    for _ in 0..3 {
        println!("{}", desk.recv().await.unwrap_or_default());
    }
    println!("it heard: {}", text(Some(&answer)));
    worker.operate().shutdown().await?;
    Ok(())
}
