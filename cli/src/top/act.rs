//! Changes of the pool, and what they would do. A change joins the pool as a client, as the commands do, and leaves it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use tenure_pool::{Error, Inspector, JobKey, Operator, WorkerId};

use super::model::{Act, Forecast};
use crate::act::{By, Change, Verb};
use crate::args::Named;
use crate::connect::Place;
use crate::exit::Failure;
use crate::out::shown;

/// How many jobs a forecast looks at.
const SAMPLE: usize = 4_096;
/// The most time that a forecast may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Carries out a change, and says what was done.
///
/// # Errors
/// Says what was not done, and why.
pub(super) async fn carry_out(place: &Place, within: Duration, act: Act) -> Result<String, String> {
    let title = act.title();
    let done = async {
        let pool = place.operator().await.map_err(|failure| failure.to_string())?;
        pool.node().await.map_err(|error| Failure::from(error).to_string())?;
        let done = match act {
            Act::Drain(named) => drain(&pool, &named).await,
            Act::Cordon { node: name, on } => cordon(&pool, &name, on).await,
            Act::Jobs { verb, keys } => jobs(&pool, within, verb, keys).await,
        };
        pool.close().await;
        done
    };
    done.await.map_err(|error| format!("{title}: {error}"))
}

async fn drain(pool: &Operator, named: &Named) -> Result<String, String> {
    let workers = pool.inspect().workers().await.map_err(|error| error.to_string())?;
    let leaving: Vec<_> = workers.into_iter().filter(|worker| named.means(worker)).collect();
    match pool.drain_all(&leaving).await {
        Ok(0) => Err("it has left".to_owned()),
        Ok(count) => Ok(format!("{named} drains; its workers: {count}")),
        Err(error) => Err(error.to_string()),
    }
}

async fn cordon(pool: &Operator, name: &str, on: bool) -> Result<String, String> {
    let done = if on { pool.cordon(name).await } else { pool.uncordon(name).await };
    done.map_err(|error| error.to_string())?;
    Ok(format!("node {name} is {}", if on { "cordoned" } else { "not cordoned" }))
}

async fn jobs(pool: &Operator, within: Duration, verb: Verb, keys: Vec<JobKey>) -> Result<String, String> {
    let (count, single) = (keys.len(), keys.first().map(shown::key).unwrap_or_default());
    let change = Change { verb, by: By::default().name(), within };
    let results: Vec<_> = change.each(pool, keys).collect().await;
    let failed: Vec<_> = results.into_iter().filter_map(|(_, done)| done.err()).collect();
    match (failed.first(), count) {
        (None, 1) => Ok(format!("{single} is {}", change.verb.done())),
        (None, count) => Ok(format!("{count} jobs are {}", change.verb.done())),
        (Some(error), 1) => Err(error.to_string()),
        (Some(error), count) => Err(format!("{} of {count} jobs failed, the first: {error}", failed.len())),
    }
}

/// Where the jobs of these workers go when they drain: those of the first 4,096 jobs.
///
/// # Errors
/// Says why it is not known.
pub(super) async fn forecast(pool: &Inspector, named: &Named) -> Result<Forecast, String> {
    match tokio::time::timeout(DEADLINE, counted(pool, named)).await {
        Ok(counted) => counted.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

async fn counted(pool: &Inspector, named: &Named) -> Result<Forecast, Error> {
    let (rings, workers) = tokio::try_join!(pool.rings(), pool.workers())?;
    let mut gets: BTreeMap<Option<WorkerId>, u64> = BTreeMap::new();
    let (mut left, mut more) = (SAMPLE, false);
    for ring in rings {
        let of_shard = workers.iter().filter(|worker| worker.shard == ring.shard() && named.means(worker));
        let leaving: Vec<_> = of_shard.collect();
        let later = ring.without(leaving.iter().map(|worker| worker.id));
        for worker in leaving {
            let mut after = None;
            loop {
                // One job more would be the sign that there are more.
                let page = pool.jobs_of(worker, after.as_ref(), left.clamp(1, 512)).await?;
                let Some(last) = page.last() else { break };
                if left == 0 {
                    more = true;
                    break;
                }
                after = Some(last.key.clone());
                left = left.saturating_sub(page.len());
                for job in page {
                    *gets.entry(later.place(&job.key, job.strikes)).or_default() += 1;
                }
            }
        }
    }
    Ok(Forecast {
        gets: gets.into_iter().map(|(worker, jobs)| (worker.map(|worker| worker.0), jobs)).collect(),
        more,
    })
}
