//! `couch-style`: an index is built by whoever accepts its job, and somebody asks for it again while it is built.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_couch::{Accept, Couch, CouchError, CouchState};
use tenure_examples::PATIENCE;
use tenure_jobs::{Client, Jobs};
use tenure_testing::{Endpoint, Failure};

const SET: &str = "example-couch";

#[derive(Debug, Serialize, Deserialize)]
struct Progress {
    sequence: u32,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let redis = Endpoint::from_env()?;
    let jobs = Jobs::builder(SET, Client::open(redis.url())?).join().await?;
    let couch = Couch::new(jobs);
    let view = ("db1", "by_date");

    match couch.add("views", view, &Progress { sequence: 0 }, None).await {
        Err(error @ CouchError::NoTypeTimeout) => println!("at first: {error}"),
        other => println!("at first: {other:?}"),
    }
    couch.set_type_timeout("views", Duration::from_secs(20)).await?;
    couch.add("views", view, &Progress { sequence: 0 }, None).await?;
    let subscribed = couch.subscribe("views", view).await?;
    println!("added: {:?}", subscribed.state());
    let Some(mut subscription) = subscribed.subscription() else { return Ok(()) };

    for run in 1.. {
        let Some(mut job) = couch.accept("views", Accept::new().timeout(Duration::from_millis(200))).await?
        else {
            break;
        };
        let from = job.data::<Progress>()?.sequence;
        for sequence in from + 1..=from + 2 {
            if run == 1 && sequence == 2 {
                couch.add("views", view, &Progress { sequence: 0 }, None).await?;
            }
            let again = job.update(Some(&Progress { sequence })).await?;
            println!("run {run} is at {sequence}, asked for again: {again}");
        }
        job.finish(None::<&Progress>).await?;
        println!("run {run} has finished: {:?}", couch.state("views", view).await?);
    }

    let mut states = Vec::new();
    while let Some(event) = subscription.wait(PATIENCE).await? {
        states.extend(event.state.filter(|state| states.last() != Some(state)));
        if states.iter().filter(|state| **state == CouchState::Finished).count() == 1 {
            break;
        }
    }
    println!("the subscriber saw: {states:?}");

    couch.add("views", view, &Progress { sequence: 0 }, None).await?;
    let Some(mut job) = couch.accept("views", Accept::new().timeout(PATIENCE)).await? else { return Ok(()) };
    couch.remove("views", view).await?;
    match job.update(None::<&Progress>).await.map_err(CouchError::from) {
        Err(error) => println!("removed while it runs: {error}"),
        Ok(_) => println!("removed while it runs: it goes on"),
    }
    Ok(())
}
