//! Other payloads for jobs that are there: a running job is restarted with it, any other begins with it.

use std::time::Duration;

use futures::FutureExt;
use redis::Commands;
use tenure_pool::{Error, Job, JobEnd, JobSpec, JobState, RestartPolicy, StopReason};

use crate::recorder::Act;
use crate::world::{POOL, World, on_both_stores, until};

on_both_stores!(
    a_running_job_is_restarted_where_it_runs,
    a_job_that_waits_begins_with_its_last_payload,
    a_parked_job_begins_with_its_last_payload,
    an_update_may_expect_a_generation,
    an_update_may_name_its_dispatch,
    an_update_of_nothing_says_so,
    every_shard_updates_its_jobs,
    an_updated_job_keeps_its_payload_when_data_are_lost,
    an_update_replaces_the_policy_too,
);

async fn runs_with(world: &World, key: &str, payloads: &[&str]) {
    until("the job to run with its last payload", async || {
        let seen = world.recorder.payloads(key);
        if seen == payloads && world.recorder.is_running(key) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

async fn a_running_job_is_restarted_where_it_runs(world: World) {
    let (a, b) = (world.node_with("a", 2).await, world.node_with("b", 2).await);
    let (keys, before) = world.dispatch_placed(&a, 12).await;
    let key = keys[0].as_str();
    assert_eq!(b.update((key, "two")).await.unwrap(), 1);
    runs_with(&world, key, &["payload of job-0", "two"]).await;
    assert_eq!(a.update((key, "three")).await.unwrap(), 2);
    runs_with(&world, key, &["payload of job-0", "two", "three"]).await;
    let after = world.placed(&a, &keys).await;
    assert_eq!(after[key].owner, before[key].owner, "it stays at home");
    assert!(after[key].token > before[key].token);
    assert_eq!(world.recorder.stops(key), [StopReason::Updated; 2]);
    let job = b.inspect().job(key).await.unwrap().unwrap();
    assert_eq!((job.generation, job.attempts), (2, 1));
    assert!(b.inspect().explain(key).await.unwrap().to_string().contains("payload of generation 2"));
    assert_eq!(b.update((key, "three")).await.unwrap(), 2, "it has this payload already");
    for key in &keys[1..] {
        assert_eq!((world.recorder.starts_of(key), after[key]), (1, before[key]), "{key}");
    }
    world.assert_clean();
}

async fn a_job_that_waits_begins_with_its_last_payload(world: World) {
    let node = world.node("a").await;
    node.submit(("key", "one")).await.unwrap();
    assert_eq!(node.update(("key", "two")).await.unwrap(), 1);
    assert_eq!(node.update(("key", "three")).await.unwrap(), 2);
    world.add_worker(&node).await;
    runs_with(&world, "key", &["three"]).await;
}

async fn a_parked_job_begins_with_its_last_payload(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    let parks = |job: &Job| match &*job.payload() {
        b"bad" => Act::Body(|_| async { Err(JobEnd::Park("no such feed".into()).into()) }.boxed()),
        _ => Act::Run,
    };
    a.add_worker(world.recorder.acting(parks)).await.unwrap();
    b.submit(("key", "bad")).await.unwrap();
    let is_parked =
        async || b.inspect().job("key").await.unwrap().is_some_and(|job| job.state == JobState::Parked);
    until("it to be parked", is_parked).await;
    assert_eq!(b.update(("key", "good")).await.unwrap(), 1);
    assert!(is_parked().await);
    b.operate().unpark("key").await.unwrap();
    runs_with(&world, "key", &["bad", "good"]).await;
}

async fn an_update_may_expect_a_generation(world: World) {
    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    world.dispatch_one(&a, "key").await;
    let early = b.update(("key", "two")).expect_generation(1).await;
    assert!(matches!(early, Err(Error::OtherGeneration { generation: 0, .. })), "{early:?}");
    assert_eq!(b.update(("key", "two")).expect_generation(0).await.unwrap(), 1);
    assert_eq!(a.update(("key", "two")).expect_generation(0).await.unwrap(), 1, "said again");
    let late = a.update(("key", "three")).expect_generation(0).await;
    assert!(matches!(late, Err(Error::OtherGeneration { generation: 1, .. })), "{late:?}");
    runs_with(&world, "key", &["payload of key", "two"]).await;
}

async fn an_update_may_name_its_dispatch(world: World) {
    let node = world.node_with("a", 1).await;
    node.submit(JobSpec::new("key", "one").id("order-1")).await.unwrap();
    let id = node.inspect().job("key").await.unwrap().unwrap().id;
    let other = node.update(JobSpec::new("key", "two").id("order-2")).await;
    assert!(matches!(&other, Err(Error::OtherDispatch { id: present, .. }) if *present == id), "{other:?}");
    assert_eq!(node.update(JobSpec::new("key", "two").id("order-1")).await.unwrap(), 1);
    node.stop_job("key").until_stopped().await.unwrap();
    node.dispatch(("key", "one")).await.unwrap();
    let former = node.update(("key", "three")).of_dispatch(id).expect_generation(0).await;
    assert!(matches!(former, Err(Error::OtherDispatch { .. })), "{former:?}");
}

async fn an_update_of_nothing_says_so(world: World) {
    let node = world.node_with("a", 1).await;
    let nothing = node.update(("key", "two")).await;
    assert!(matches!(nothing, Err(Error::JobNotFound(_))), "{nothing:?}");
    let max = node.settings().payload_max as usize;
    let long = node.update(("key", vec![b'x'; max])).await;
    assert!(matches!(long, Err(Error::TooLong { what: "the payload", .. })), "{long:?}");
    let unnamed = node.update(("", "two")).await;
    assert!(matches!(unnamed, Err(Error::Name(_))), "{unnamed:?}");
    let hasty = JobSpec::new("key", "two").progress_timeout(Duration::from_millis(1));
    let hasty = node.update(hasty).await;
    assert!(matches!(hasty, Err(Error::Setting(_))), "{hasty:?}");
    node.close().await.unwrap();
    let closed = node.update(("key", "two")).await;
    assert!(matches!(closed, Err(Error::NodeClosed)), "{closed:?}");
}

async fn every_shard_updates_its_jobs(world: World) {
    let world = world.with_shards(3);
    let node = world.node_with("a", 1).await;
    let keys = world.dispatch(&node, 9).await;
    for key in &keys {
        assert_eq!(node.update((key.as_str(), "two")).await.unwrap(), 1);
    }
    for key in &keys {
        runs_with(&world, key, &[&format!("payload of {key}"), "two"]).await;
    }
}

async fn an_updated_job_keeps_its_payload_when_data_are_lost(world: World) {
    let world = world.with_ttl(crate::server_loss::TTL);
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let (keys, _) = world.dispatch_placed(&b, 6).await;
    for key in &keys {
        b.update((key.as_str(), "two")).await.unwrap();
    }
    for key in &keys {
        runs_with(&world, key, &[&format!("payload of {key}"), "two"]).await;
    }
    let before = world.placed(&b, &keys).await;
    world.wipe();
    world.dispatch_one(&b, "another").await;
    assert_eq!(crate::world::moved(&before, &world.placed(&b, &keys).await), [""; 0]);
    for key in &keys {
        assert_eq!(b.inspect().job(key.as_str()).await.unwrap().unwrap().generation, 1, "{key}");
    }
    a.close().await.unwrap();
    world.placed(&b, &keys).await;
    for key in &keys {
        assert_eq!(world.recorder.payloads(key).last().unwrap(), "two", "{key}");
    }
    world.assert_clean();
}

async fn an_update_replaces_the_policy_too(world: World) {
    let node = world.node("a").await;
    let acts = |job: &Job| if &*job.payload() == b"end" { Act::End } else { Act::Run };
    node.add_worker(world.recorder.acting(acts)).await.unwrap();
    world.dispatch_one(&node, "key").await;
    node.update(JobSpec::new("key", "end").restart(RestartPolicy::Always)).await.unwrap();
    until("it to run again and again", async || world.recorder.starts_of("key") > 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_missed_an_update_finds_it_in_the_record() {
    let world = World::on_redis().with_ttl(Duration::from_secs(2));
    let node = world.node_running("a", "key").await;
    node.dispatch(("like", "two")).await.unwrap();
    // An update whose event was lost.
    let mut redis = world.client();
    let (jobs, payloads) = (format!("tenure:{{{POOL}}}:jobs"), format!("tenure:{{{POOL}}}:payloads"));
    let record: String = redis.hget(&jobs, "key").unwrap();
    let payload: Vec<u8> = redis.hget(&payloads, "like").unwrap();
    let () = redis.hset(&payloads, "key", payload).unwrap();
    let () = redis.hset(&jobs, "key", format!("{record}|1")).unwrap();
    runs_with(&world, "key", &["payload of key", "two"]).await;
    assert_eq!(world.recorder.stops("key"), [StopReason::Updated]);
}
