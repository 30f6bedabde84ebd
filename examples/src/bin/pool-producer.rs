//! `pool-producer`: a node without workers dispatches jobs, talks to them, lists and stops them; another node runs
//! them.

use tenure_examples::text;
use tenure_pool::{Client, DispatchError, Job, JobSpec, Node, NodeBuilder};
use tenure_testing::{Endpoint, Failure};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

const POOL: &str = "example-producer";

type Result<T> = std::result::Result<T, Failure>;

#[tokio::main]
async fn main() -> Result<()> {
    let redis = Endpoint::from_env()?;
    let client = Client::open(redis.url())?;
    let private = redis.private().is_some();
    let node = |name: &str| -> NodeBuilder { Node::builder(POOL, &client).name(name).assume_fresh(private) };
    let (told, mut field) = unbounded_channel();
    let station = node("station").join().await?;
    station.add_worker(tenure_pool::run(move |job: Job| watch(job, told.clone()))).await?;
    // This node leaves routing and watching to the others.
    let office = node("office").client_only().join().await?;

    for city in ["cairo", "lima"] {
        office.dispatch((city, "every hour")).await?;
        hear(&mut field).await;
    }
    // Each job has an outcome of its own.
    let more = ["oslo", "lima", "tokyo"].map(|city| JobSpec::new(city, "every day"));
    for (city, outcome) in ["oslo", "lima", "tokyo"].iter().zip(office.submit_many(more).await) {
        match outcome {
            Ok(ticket) => {
                office.wait(&ticket).await?;
                println!("{city}: started");
            }
            Err(DispatchError::JobExists { .. }) => println!("{city}: it is watched already"),
            Err(error) => return Err(error.into()),
        }
    }
    office.ensure(("lima", "every day")).await?;
    println!("lima: it is watched, and that is fine");
    for _ in 0..2 {
        field.recv().await;
    }

    office.notify("oslo", "snow").await?;
    hear(&mut field).await;
    println!("oslo was dispatched with {:?}", text(office.inspect().payload("oslo").await?.as_ref()));
    let workers = office.inspect().workers().await?;
    for job in office.inspect().jobs().await? {
        let owner = workers.iter().find(|worker| Some(worker.id) == job.owner);
        println!("  {}: {:?} on {}", job.key, job.state, owner.map_or("no node", |worker| &worker.node));
    }

    office.stop_job("oslo").until_stopped().await?;
    hear(&mut field).await;
    if let Err(error) = office.notify("paris", "rain").await {
        println!("paris: {error}");
    }

    // Jobs belong to the pool, not to the node that dispatched them.
    office.close().await?;
    println!("the office closes, {} jobs go on", station.inspect().jobs().await?.len());
    station.operate().shutdown().await?;
    Ok(())
}

/// Watches the weather of a city until the job ends.
async fn watch(job: Job, told: UnboundedSender<String>) -> std::result::Result<(), tenure_pool::BoxError> {
    let city = job.key();
    told.send(format!("{city} is watched {}", text(Some(&job.payload()))))?;
    loop {
        tokio::select! {
            () = job.cancelled() => break,
            body = job.notified() => told.send(format!("{city} reports {}", text(Some(&body))))?,
        }
    }
    // Nobody listens when the pool is shut down at the end.
    let _ = told.send(format!("{city} is not watched any more"));
    Ok(())
}

/// Prints one message of a job.
async fn hear(field: &mut UnboundedReceiver<String>) {
    println!("{}", field.recv().await.unwrap_or_default());
}
