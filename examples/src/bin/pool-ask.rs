//! `pool-ask`: a counter for each tenant lives in a worker's memory, and any node asks for it. A second node takes over.

use std::time::Duration;

use tenure_examples::PATIENCE;
use tenure_pool::{AskError, BoxError, Client, Job, Node};
use tenure_testing::{Endpoint, Failure};

const POOL: &str = "example-ask";

/// One tenant's counter. It goes on from its last checkpoint.
async fn count(job: Job) -> Result<(), BoxError> {
    let mut seats: u8 = job.checkpointed().and_then(|kept| kept.bytes().first().copied()).unwrap_or(3);
    loop {
        let ask = tokio::select! {
            () = job.cancelled() => return Ok(()),
            ask = job.asked() => ask,
        };
        match &**ask.body() {
            b"take one" if seats > 0 => {
                seats -= 1;
                // Nobody hears of a seat that the next owner would not know of. The seat of an error may be kept or
                // not: the job runs again with what is kept, and the ask ends as unknown.
                job.checkpoint(vec![seats]).await?;
                ask.answer(format!("taken, {seats} are left"));
            }
            b"take one" => ask.refuse("no seat is left"),
            b"how many" => ask.answer(format!("{seats} are left")),
            _ => ask.refuse("nobody knows that question"),
        }
    }
}

/// Asks, and prints what comes of it.
async fn ask(node: &Node, question: &'static str) -> Result<(), AskError> {
    match node.ask("acme", question).deadline(PATIENCE).await {
        Ok(answer) => println!("{question}: {}", String::from_utf8_lossy(&answer)),
        Err(AskError::Refused(why)) => println!("{question}: no, {why}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let private = redis.private().is_some();
    let node = async |name: &str| {
        let settle = Duration::from_millis(100);
        let builder = Node::builder(POOL, Client::open(redis.url())?).name(name).join_settle(settle);
        Ok::<_, Failure>(builder.assume_fresh(private).join().await?)
    };
    let (first, front) = (node("first").await?, node("front").await?);
    first.add_worker(tenure_pool::run(count)).await?;
    front.ensure(("acme", "three seats")).await?;

    ask(&front, "how many").await?;
    ask(&front, "take one").await?;

    println!("the worker of the first node leaves");
    let second = node("second").await?;
    second.add_worker(tenure_pool::run(count)).await?;
    first.close().await?;
    for question in ["how many", "take one", "take one", "take one", "who is there"] {
        ask(&front, question).await?;
    }
    match front.ask("globex", "how many").await {
        Err(error @ AskError::NotHandled(_)) => println!("globex: {error}"),
        other => println!("globex: {other:?}"),
    }
    second.operate().shutdown().await?;
    Ok(())
}
