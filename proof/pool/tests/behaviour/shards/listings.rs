//! Listings of all shards: whole, in pages and as a stream; parked jobs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use tenure_pool::inspect::{Cursor, PoolPhase};
use tenure_pool::{Error, Inspector, JobState, RestartPolicy, Settings};

use super::{SHARDS, builder, node_with_worker, on_both_stores};
use crate::recorder::Act;
use crate::world::{POOL, SHORT, World, until};

on_both_stores!(
    every_job_is_listed_once,
    parked_jobs_of_all_shards_are_listed_and_tried_again,
    an_inspector_finds_the_shards,
);

async fn an_inspector_finds_the_shards(world: World) {
    let missing = Inspector::open(POOL, world.backend()).await;
    assert!(matches!(missing, Err(Error::NoPool { .. })), "{missing:?}");
    let (node, _) = node_with_worker(&world, "a").await;
    let keys = world.dispatch(&node, 60).await;
    let seen = Inspector::open(POOL, world.backend()).await.unwrap();
    assert_eq!((seen.pool_name(), seen.shards()), (POOL, SHARDS as usize));
    assert_eq!(seen.jobs().await.unwrap(), node.inspect().jobs().await.unwrap());
    assert_eq!(seen.workers().await.unwrap(), node.inspect().workers().await.unwrap());
    let nodes = seen.nodes().await.unwrap();
    assert_eq!((nodes.len(), nodes[0].workers.len()), (1, SHARDS as usize));
    let streamed = seen.job_stream().map(|job| job.unwrap().key.to_string()).collect::<BTreeSet<_>>().await;
    assert_eq!(streamed, keys.iter().cloned().collect());
    for key in &keys[..10] {
        assert_eq!(seen.shard_of(key).unwrap(), node.inspect().shard_of(key).unwrap());
        assert_eq!(seen.job(key).await.unwrap(), node.inspect().job(key).await.unwrap());
        assert!(seen.owner(key).await.unwrap().is_some());
    }
    let figures = seen.figures().await.unwrap();
    assert_eq!((figures.jobs, figures.workers.len()), (60, SHARDS as usize));
    assert_eq!(figures.workers.iter().map(|worker| worker.jobs).sum::<u64>(), 60);
    let states = seen.pool_state().await.unwrap();
    assert_eq!(states.iter().map(|state| state.shard).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(states.iter().all(|state| state.phase == PoolPhase::Open));
    assert!(node.operate().shutdown().await.unwrap().complete);
    let read = seen.jobs().await;
    assert!(matches!(read, Err(Error::PoolClosed)), "{read:?}");
}

async fn every_job_is_listed_once(world: World) {
    let (node, _) = node_with_worker(&world, "a").await;
    let mut keys = world.dispatch(&node, 60).await;
    keys.sort();
    let listed: Vec<_> = node.inspect().jobs().await.unwrap().iter().map(|job| job.key.to_string()).collect();
    assert_eq!(listed, keys, "in order");
    let (mut paged, mut cursor, mut shards) = (Vec::new(), None::<Cursor>, BTreeSet::new());
    loop {
        let page = node.inspect().jobs_page(cursor, 5).await.unwrap();
        let of: BTreeSet<_> =
            page.items.iter().map(|job| node.inspect().shard_of(&job.key).unwrap()).collect();
        assert!(of.len() <= 1, "a page has jobs of one shard");
        shards.extend(of);
        paged.extend(page.items.iter().map(|job| job.key.to_string()));
        // The cursor survives as text.
        let Some(next) = page.next else { break };
        cursor = Some(next.to_string().parse().unwrap());
    }
    paged.sort();
    assert_eq!((paged, shards.len()), (keys.clone(), 3));
    let mut streamed: Vec<_> =
        node.inspect().job_stream().map(|job| job.unwrap().key.to_string()).collect().await;
    streamed.sort();
    assert_eq!(streamed, keys);
    let refused = node.inspect().jobs_page(Some("3:0".parse().unwrap()), 5).await;
    assert!(matches!(refused, Err(Error::Name(_))), "{refused:?}");
    node.abandon();
}

async fn parked_jobs_of_all_shards_are_listed_and_tried_again(world: World) {
    let settings = Settings { max_attempts: 1, join_settle: SHORT, ..Settings::default() };
    let node = builder(&world, "a", SHARDS).settings(settings).join().await.unwrap();
    let fails = Arc::new(AtomicBool::new(true));
    let told = fails.clone();
    let handler = world
        .recorder
        .acting(move |_| if told.load(Ordering::SeqCst) { Act::Fail("no route") } else { Act::Run });
    node.add_worker(handler).await.unwrap();
    let keys: Vec<_> = (0..12).map(|i| format!("job-{i:03}")).collect();
    for key in &keys {
        node.submit((key, "")).restart(RestartPolicy::OnFailure).await.unwrap();
    }
    until("all to be parked", async || node.inspect().parked().await.unwrap().len() == 12).await;
    let parked = node.inspect().parked().await.unwrap();
    assert!(parked.is_sorted_by_key(|job| job.since));
    assert!(parked.iter().all(|job| job.error.contains("no route")));
    let (mut paged, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = node.inspect().parked_page(cursor, 2).await.unwrap();
        paged.extend(page.items.into_iter().map(|job| job.key.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged.into_iter().collect::<Vec<_>>(), keys);
    fails.store(false, Ordering::SeqCst);
    for key in &keys {
        node.operate().unpark(key).await.unwrap();
    }
    until("all to run", async || {
        node.inspect().jobs().await.unwrap().iter().filter(|job| job.state == JobState::Running).count() == 12
    })
    .await;
}
