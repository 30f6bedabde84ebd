//! Listings of a pool, from any node: workers, jobs and payloads, in pages.

use std::collections::BTreeSet;

use futures::future::join_all;
use futures::stream::TryStreamExt;
use tenure_pool::inspect::{Cursor, MemberState};
use tenure_pool::{Error, JobSpec, JobState, RestartPolicy, Token};

use crate::recorder::Act;
use crate::world::{World, on_both_stores, until};

on_both_stores!(
    every_node_lists_the_workers_and_what_they_are_called,
    a_node_without_workers_lists_a_job_and_its_payload,
    a_listing_comes_in_pages_and_leaves_no_job_out,
    a_worker_lists_its_own_jobs,
    a_job_that_waits_says_why_and_until_when,
    a_removed_worker_leaves_its_jobs_and_may_be_removed_again,
);

async fn every_node_lists_the_workers_and_what_they_are_called(world: World) {
    let (a, client) = (world.node("a").await, world.node("client").await);
    let worker = a.add_worker(world.recorder.clone()).meta("zone-1").await.unwrap();
    let other = a.add_worker(world.recorder.clone()).await.unwrap();
    until("both to be up", async || {
        let listed = client.inspect().workers().await.unwrap();
        listed.len() == 2 && listed.iter().all(|worker| worker.state == MemberState::Up)
    })
    .await;
    let listed = client.inspect().workers().await.unwrap();
    let named: BTreeSet<_> = listed.iter().map(|w| (w.id, w.node.as_str(), w.meta.as_str())).collect();
    assert_eq!(named, [(worker.id().unwrap(), "a", "zone-1"), (other.id().unwrap(), "a", "")].into());
    let refused = a.add_worker(world.recorder.clone()).meta("no|pipes").await;
    assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
    assert_eq!(client.inspect().workers().await.unwrap().len(), 2);
}

async fn a_node_without_workers_lists_a_job_and_its_payload(world: World) {
    let (a, client) = (world.node_with("a", 1).await, world.node("client").await);
    world.dispatch_one(&client, "key").await;
    let job = client.inspect().job("key").await.unwrap().unwrap();
    assert_eq!((job.key.to_string().as_str(), job.state, job.attempts), ("key", JobState::Running, 1));
    assert_eq!(job.owner, Some(a.inspect().workers().await.unwrap()[0].id));
    assert!(job.token > Token(0) && job.since >= job.created, "{job:?}");
    assert_eq!(job.id.node(), "client");
    assert_eq!(client.inspect().jobs().await.unwrap(), std::slice::from_ref(&job));
    assert_eq!(client.inspect().payload("key").await.unwrap().unwrap(), "payload of key");
    assert_eq!(client.inspect().job("another").await.unwrap(), None);
    assert_eq!(client.inspect().payload("another").await.unwrap(), None);
}

async fn a_listing_comes_in_pages_and_leaves_no_job_out(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let keys: BTreeSet<_> = (0..700).map(|i| format!("job-{i}")).collect();
    for submitted in join_all(keys.iter().map(|key| a.submit((key, "payload")).into_future())).await {
        submitted.unwrap();
    }
    let (mut found, mut cursor, mut pages) = (BTreeSet::new(), None, 0);
    loop {
        let page = b.inspect().jobs_page(cursor, 100).await.unwrap();
        assert!(page.items.len() < 250, "{} jobs in a page", page.items.len());
        assert!(page.items.iter().all(|job| job.state == JobState::Queued));
        found.extend(page.items.iter().map(|job| job.key.to_string()));
        pages += 1;
        // A program that shows pages elsewhere passes the cursor on as text.
        let Some(next) = page.next else { break };
        cursor = Some(next.to_string().parse::<Cursor>().unwrap());
    }
    assert_eq!(found, keys);
    assert!(pages >= 5, "{pages} pages");
    let streamed: Vec<_> = b.inspect().job_stream().try_collect().await.unwrap();
    assert_eq!(streamed.iter().map(|job| job.key.to_string()).collect::<BTreeSet<_>>(), keys);
    assert_eq!(b.inspect().jobs().await.unwrap().len(), keys.len());
}

async fn a_worker_lists_its_own_jobs(world: World) {
    let a = world.node("a").await;
    let workers = [world.add_worker(&a).await, world.add_worker(&a).await];
    let (_, holders) = world.dispatch_placed(&a, 30).await;
    for worker in &workers {
        let id = worker.id().unwrap();
        let listed = worker.jobs(None, 1000).await.unwrap();
        assert!(listed.iter().all(|job| job.owner == Some(id)));
        let listed: Vec<_> = listed.iter().map(|job| job.key.to_string()).collect();
        let held: Vec<_> = crate::world::held_by(&holders, &[id.0]);
        assert_eq!(listed, held, "ordered by key");
        let first = worker.jobs(None, 1).await.unwrap().remove(0);
        let rest = worker.jobs(Some(&first.key), 1000).await.unwrap();
        assert_eq!(rest.len(), held.len() - 1);
    }
}

async fn a_removed_worker_leaves_its_jobs_and_may_be_removed_again(world: World) {
    let a = world.node("a").await;
    let (stays, goes) = (world.add_worker(&a).await, world.add_worker(&a).await);
    let (keys, _) = world.dispatch_placed(&a, 30).await;
    goes.drain().await.unwrap();
    assert_eq!((goes.id(), goes.info()), (None, None));
    assert_eq!(goes.jobs(None, 10).await.unwrap(), []);
    let holders = world.placed(&a, &keys).await;
    assert!(holders.values().all(|held| held.owner == stays.id().unwrap().0));
    goes.drain().await.unwrap();
    assert_eq!(a.inspect().workers().await.unwrap().len(), 1);
    world.assert_clean();
}

async fn a_job_that_waits_says_why_and_until_when(world: World) {
    let (node, client) = (world.node("a").await, world.node("client").await);
    let failing = world.recorder.acting(|job| match job.key().as_str() {
        Some("key") => Act::Fail("no route to the feed"),
        _ => Act::Run,
    });
    node.add_worker(failing).await.unwrap();
    node.submit(JobSpec::new("key", "payload").restart(RestartPolicy::OnFailure)).await.unwrap();
    // Between two attempts. The pause grows, so one of the looks falls into it.
    let seen = std::sync::Mutex::new(None);
    until("the job to wait after it failed", async || {
        let waits = |job: &tenure_pool::JobInfo| job.state == JobState::Queued && job.error.is_some();
        let job = client.inspect().job("key").await.ok().flatten().filter(waits);
        *seen.lock().unwrap() = job;
        seen.lock().unwrap().is_some()
    })
    .await;
    let job = seen.into_inner().unwrap().unwrap();
    assert_eq!(job.error.as_deref(), Some("no route to the feed"));
    assert!(job.attempts > 0 && job.next_try.is_some_and(|at| at > job.since), "{job:?}");
    let json = serde_json::to_value(&job).unwrap();
    assert_eq!((&json["key"], &json["state"]), (&"key".into(), &"queued".into()));
    assert!(json["next_try"].as_u64() > json["since"].as_u64(), "{json}");
    world.dispatch_one(&client, "another").await;
    assert_eq!(client.inspect().job("another").await.unwrap().unwrap().node.as_deref(), Some("a"));
    let health = serde_json::to_value(client.health()).unwrap();
    assert!(health["reasons"].as_array().is_some_and(Vec::is_empty), "{health}");
}
