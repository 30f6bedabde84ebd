//! Jobs of all shards: each key belongs to its shard on every node.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_pool::{DispatchError, Error, JobSpec, Payload};

use super::{SHARDS, builder, node_with_worker, on_both_stores, stop_requested};
use crate::recorder::Act;
use crate::world::{Home, POOL, World, until};

on_both_stores!(
    a_job_lives_its_life_in_the_shard_of_its_key,
    a_batch_is_answered_in_its_order_whatever_the_shards,
    invalid_input_is_refused_before_anything_is_written,
    a_client_only_node_takes_jobs_in_and_runs_none,
);

#[derive(Serialize, Deserialize)]
struct Feed {
    url: String,
}

impl Payload for Feed {
    const TYPE: &'static str = "feed";
}

async fn a_job_lives_its_life_in_the_shard_of_its_key(world: World) {
    let ((a, _), b) = (node_with_worker(&world, "a").await, world.node("b").await);
    assert_eq!((a.name(), a.inspect().shards(), a.settings().worker_ttl), ("a", 3, Duration::from_secs(10)));
    let mut seen = [false; SHARDS as usize];
    for i in 0..12 {
        let key = format!("user:{i}");
        let shard = a.inspect().shard_of(&key).unwrap();
        assert_eq!(b.inspect().shard_of(&key).unwrap(), shard);
        seen[shard] = true;
        world.dispatch_one(&b, &key).await;
        if let Home::Redis(_) = &world.home {
            let mut redis = world.client();
            let stored: bool = redis::cmd("HEXISTS")
                .arg(format!("tenure:{{{POOL}#{shard}}}:jobs"))
                .arg(&key)
                .query(&mut redis)
                .unwrap();
            assert!(stored, "{key} in {shard}");
        }
        assert_eq!(a.inspect().job(&key).await.unwrap().unwrap().key.to_string(), key);
        assert_eq!(a.inspect().payload(&key).await.unwrap().unwrap(), format!("payload of {key}"));
        assert!(matches!(a.dispatch((&key, "")).await, Err(DispatchError::JobExists { .. })));
        a.ensure((&key, "")).await.unwrap();
        a.notify(&key, "hello").await.unwrap();
        until("the notification", async || world.recorder.notes(&key) == ["hello"]).await;
        let id = format!("order-{i}");
        let ticket = a.ticket(&key, &id).unwrap();
        assert!(matches!(b.wait(&ticket).await, Err(DispatchError::Unknown)));
        stop_requested(&world, std::slice::from_ref(&key));
        b.stop_job(&key).until_stopped().await.unwrap();
        assert!(a.inspect().job(&key).await.unwrap().is_none());
        assert!(matches!(b.stop_job(&key).await, Err(Error::JobNotFound(_))));
        let ticket = a.submit((&key, "")).id(&id).await.unwrap();
        b.wait(&b.ticket(&key, &id).unwrap()).await.unwrap();
        b.cancel(&ticket).await.unwrap();
        until("the cancelled one to end", async || !world.recorder.is_running(&key)).await;
    }
    assert_eq!(seen, [true; 3], "keys of all shards were tried");
    a.dispatch(JobSpec::typed("typed", &Feed { url: "x".into() })).await.unwrap();
    a.dispatch(JobSpec::typed("typed too", &Feed { url: "x".into() })).await.unwrap();
    a.submit(JobSpec::new("plain", "")).await.unwrap();
    a.ensure(JobSpec::new("plain", "")).await.unwrap();
    assert_eq!(a.inspect().jobs().await.unwrap().len(), 3);
}

async fn a_batch_is_answered_in_its_order_whatever_the_shards(world: World) {
    let node = world.node("a").await;
    let handler =
        world.recorder.acting(|job| if job.key().as_ref() == b"fails" { Act::Fail("no") } else { Act::Run });
    node.add_worker(handler).await.unwrap();
    let jobs = (0..90).map(|i| match i {
        17 => JobSpec::new("", ""),
        41 => JobSpec::new("fails", ""),
        _ => JobSpec::new(format!("job-{i:03}"), ""),
    });
    for (i, result) in node.dispatch_many(jobs).await.into_iter().enumerate() {
        match (i, result) {
            (17, Err(DispatchError::Key(_))) | (41, Err(DispatchError::StartFailed(_))) => {}
            (17 | 41, other) => panic!("{other:?}"),
            (_, result) => result.unwrap(),
        }
    }
    let tickets = node.submit_many((0..90).map(|i| JobSpec::new(format!("late-{i:03}"), ""))).await;
    for (i, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.unwrap().key.to_string(), format!("late-{i:03}"));
    }
    until("all to run", async || world.recorder.running().len() == 178).await;
    assert!(node.dispatch_many([]).await.is_empty());
}

async fn invalid_input_is_refused_before_anything_is_written(world: World) {
    let node = world.node("a").await;
    assert!(matches!(node.dispatch(("", "")).await, Err(DispatchError::Key(_))));
    assert!(matches!(node.stop_job("").await, Err(Error::Name(_))));
    assert!(matches!(node.notify("", "").await, Err(Error::Name(_))));
    assert!(matches!(node.operate().unpark("").await, Err(Error::Name(_))));
    assert!(node.inspect().shard_of("").is_err());
    for shards in [0, 1_025] {
        match builder(&world, "b", shards).join().await {
            Err(Error::Setting(setting)) => assert_eq!(setting.name, "shards"),
            other => panic!("{other:?}"),
        }
    }
}

async fn a_client_only_node_takes_jobs_in_and_runs_none(world: World) {
    let (_node, _worker) = node_with_worker(&world, "a").await;
    let client = builder(&world, "c", SHARDS).client_only().join().await.unwrap();
    let keys = world.dispatch(&client, 20).await;
    assert_eq!(world.recorder.running().len(), keys.len());
    assert!(matches!(client.add_worker(world.recorder.clone()).await, Err(Error::ClientOnly)));
    assert!(matches!(client.operate().shutdown().await, Err(Error::ClientOnly)));
    client.close().await.unwrap();
    world.assert_clean();
}
