//! A set on a cluster: it works there as on one server, also while its slot moves to another one.

use std::collections::BTreeSet;

use futures::future::join_all;
use tenure_jobs::{Client, Ctx, Flow, JobId, Jobs, Outcome, Queue, Worker};
use tenure_testing::{Cluster, eventually};

use super::world::{MINUTE, Said};

const SET: &str = "clustered";
/// The children of each job.
const CHILDREN: usize = 3;

async fn node(cluster: &Cluster, name: &str) -> Jobs {
    let flow = Flow::new("order").then("check").then("pack");
    let builder = Jobs::builder(SET, Client::open(&cluster.url()).unwrap()).name(name);
    builder.queues(["check", "fetch"]).queue(Queue::new("pack").keep(MINUTE)).flow(flow).join().await.unwrap()
}

/// Workers for each stage and for the children. They say which job has run in which queue.
fn workers(jobs: &Jobs, said: &Said) -> [Worker; 2] {
    let heard = said.clone();
    let fetch = jobs.worker("fetch", move |ctx: Ctx, (): ()| {
        heard.say(ctx.id().as_str());
        async { Ok(()) }
    });
    let stages = jobs.worker_of(["check", "pack"], async |ctx: Ctx, (): ()| {
        if *ctx.queue() == "check" {
            return Ok(Outcome::go_on());
        }
        let children = ctx.children().await?.unwrap_or_default();
        if children.len() == CHILDREN {
            return Ok(Outcome::result(&children.len())?);
        }
        for child in 0..CHILDREN {
            ctx.spawn("fetch", &child.to_string(), &()).await?;
        }
        Ok(Outcome::wait())
    });
    [fetch.start().unwrap(), stages.slots(20).start().unwrap()]
}

async fn all_are_done(jobs: &Jobs, ids: &[JobId]) {
    let ends = join_all(ids.iter().map(|id| jobs.wait(id)));
    for ended in tokio::time::timeout(2 * MINUTE, ends).await.unwrap() {
        assert_eq!(ended.unwrap().result::<usize>().unwrap(), CHILDREN);
    }
}

/// How often a server has refused a call with this error, because a slot moves or has moved.
fn refused(cluster: &Cluster, node: usize, error: &str) -> u64 {
    let told: String = cluster.node(node).query(redis::cmd("INFO").arg("errorstats")).unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{error}:count=")));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// Waits until a server has refused a call so.
async fn one_is_refused(cluster: &Cluster, node: usize, error: &str) {
    eventually(MINUTE, "a call meets the moving slot", async || match refused(cluster, node, error) {
        0 => Err(error),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_run_while_their_slot_moves_to_another_server() {
    let cluster = Cluster::start().await.unwrap();
    let (jobs, other, said) = (node(&cluster, "a").await, node(&cluster, "b").await, Said::default());
    let _workers = (workers(&jobs, &said), workers(&other, &said));
    let add = async |count: usize| {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(jobs.start("order", &()).await.unwrap().id);
        }
        ids
    };
    let before = add(10).await;
    all_are_done(&other, &before).await;

    let slot = cluster.slot(&format!("{{{SET}}}")).unwrap();
    let to = (cluster.owner(slot).await.unwrap() + 1) % cluster.size();
    let migration = cluster.begin_migration(slot, to).await.unwrap();
    let from = migration.from();
    assert_eq!(["TRYAGAIN", "ASK", "MOVED"].map(|error| refused(&cluster, from, error)), [0; 3]);
    // Some keys are here and some there: a script that would see only a part of them is refused.
    assert_eq!(migration.move_keys(2).unwrap(), 2);
    let moves = async {
        one_is_refused(&cluster, from, "TRYAGAIN").await;
        while migration.move_keys(2).unwrap() > 0 {
            tokio::task::yield_now().await;
        }
        // All are there, and the slot is not.
        one_is_refused(&cluster, from, "ASK").await;
        migration.finish().await.unwrap();
        one_is_refused(&cluster, from, "MOVED").await;
    };
    let (during, ()) = tokio::join!(add(30), moves);
    all_are_done(&other, &during).await;
    assert_eq!(cluster.owner(slot).await.unwrap(), to);
    let after = add(10).await;
    all_are_done(&jobs, &after).await;

    // A job runs at least once, and ends once.
    let orders = before.len() + during.len() + after.len();
    let ran: BTreeSet<_> = said.all().into_iter().collect();
    assert_eq!(ran.len(), CHILDREN * orders);
    for (queue, ended) in [("fetch", CHILDREN * orders), ("pack", orders)] {
        let figures = jobs.queue(queue).unwrap().figures().await.unwrap();
        let (ready, running, delayed) = (figures.ready, figures.running, figures.delayed);
        assert_eq!((figures.done, figures.failed, figures.cancelled), (ended as u64, 0, 0), "{queue}");
        assert_eq!((ready, running, delayed, figures.waiting), (0, 0, 0, 0), "{queue}");
    }
}
