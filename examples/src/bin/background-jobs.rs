//! `background-jobs`: pictures are made smaller in the background, with progress, retries and a dead letter.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_examples::PATIENCE;
use tenure_jobs::{Backoff, BoxError, Client, Ctx, Fatal, Jobs, Outcome, Queue};
use tenure_testing::{Endpoint, Failure};

const SET: &str = "example-jobs";

#[derive(Serialize, Deserialize)]
struct Picture {
    name: String,
    widths: Vec<u32>,
}

async fn resize(ctx: Ctx, picture: Picture) -> Result<Outcome, BoxError> {
    if Path::new(&picture.name).extension().is_none_or(|ending| ending != "png") {
        return Err(Fatal::new(format!("{} is no picture", picture.name)).into());
    }
    let done = ctx.checkpointed::<usize>()?.unwrap_or_default();
    for at in done..picture.widths.len() {
        // The first attempt breaks off half way. The second one goes on from there.
        if at == 2 && ctx.attempt() == 1 {
            return Err("the disk is full".into());
        }
        ctx.checkpoint(&(at + 1)).await?;
    }
    Ok(Outcome::result(&format!("{} sizes at attempt {}", picture.widths.len(), ctx.attempt()))?)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let queue = Queue::new("resize")
        .attempts(3)
        .backoff(Backoff::new(Duration::from_millis(20), Duration::from_secs(1)))
        .keep(PATIENCE)
        .keep_failed(PATIENCE);
    let jobs = Jobs::builder(SET, Client::open(redis.url())?).queue(queue).join().await?;

    let picture = |name: &str| Picture { name: name.to_owned(), widths: vec![64, 256, 1_024, 4_096] };
    let cat = jobs.add("resize", &picture("cat.png")).id("cat").await?;
    println!("the cat is added: {:?}", cat.how);
    println!("added once more: {:?}", jobs.add("resize", &picture("cat.png")).id("cat").await?.how);
    let dog = jobs.add("resize", &picture("dog.txt")).id("dog").await?;

    let mut watch = jobs.watch(&cat.id).await?;
    let worker = jobs.worker("resize", resize).slots(4).start()?;
    while watch.state().is_some_and(|state| !state.is_over()) {
        if let Some(done) = watch.next().await?.checkpoint::<usize>()? {
            println!("cat.png: {done} of 4");
        }
    }
    println!("the cat has {}", watch.ended().await?.result::<String>()?);

    let ended = jobs.wait(&dog.id).await?;
    println!("the dog: {:?}, {}", ended.state(), ended.error().unwrap_or_default());
    println!("dead letters: {:?}", jobs.queue("resize")?.dead().await?);
    println!("given back at the end: {}", worker.close(PATIENCE).await?.given_back);
    for id in [cat.id, dog.id] {
        jobs.remove(&id).await?;
    }
    Ok(())
}
