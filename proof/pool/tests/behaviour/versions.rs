//! Nodes of several versions in one pool. Older data stay usable, and errors name newer data.

use std::time::Duration;

use redis::cmd;
use tenure_pool::{Client, DispatchError, Error, Node};

use crate::recorder::Act;
use crate::world::{POOL, World, until};

/// Writes a field of the pool's data.
fn write(world: &World, hash: &str, field: &str, value: &[u8]) {
    let key = format!("tenure:{{{POOL}}}:{hash}");
    let () = cmd("HSET").arg(key).arg(field).arg(value).query(&mut world.client()).unwrap();
}

fn names_version_2(error: &Error) -> bool {
    matches!(error, Error::NewerVersion { version: 2, known: 1, .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_record_is_named_by_every_call_and_left_as_it_is() {
    let world = World::on_redis();
    let node = world.node_with("a", 1).await;
    node.dispatch(("good", "")).await.unwrap();
    write(&world, "jobs", "key", b"2|anything|else");
    for error in [
        node.stop_job("key").await.unwrap_err(),
        node.notify("key", "x").await.unwrap_err(),
        node.inspect().job("key").await.unwrap_err(),
    ] {
        assert!(names_version_2(&error), "{error:?}");
        let text = "the job's record has version 2, this node reads up to 1; it was left as it is";
        assert_eq!(error.to_string(), text);
    }
    for error in [
        node.dispatch(("key", "")).await.unwrap_err(),
        node.submit(("key", "")).await.unwrap_err(),
        node.dispatch(("key", "")).id("order-17").await.unwrap_err(),
    ] {
        assert!(matches!(error, DispatchError::NewerVersion { version: 2, known: 1, .. }), "{error:?}");
    }
    let ticket = node.ticket("key", "order-17").unwrap();
    let cancelled = node.cancel(&ticket).await.unwrap_err();
    assert!(names_version_2(&cancelled), "{cancelled:?}");
    let waited = node.wait(&ticket).await.unwrap_err();
    assert!(matches!(waited, DispatchError::NewerVersion { version: 2, .. }), "{waited:?}");
    let jobs = format!("tenure:{{{POOL}}}:jobs");
    let record: String = cmd("HGET").arg(jobs).arg("key").query(&mut world.client()).unwrap();
    assert_eq!(record, "2|anything|else");
    write(&world, "jobs", "key", b"rubbish");
    let damaged = node.stop_job("key").await.unwrap_err();
    assert!(matches!(damaged, Error::BadRecord { .. }), "{damaged:?}");
    assert!(matches!(node.dispatch(("key", "")).await, Err(DispatchError::BadRecord(_))));
    node.stop_job("good").until_stopped().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_entry_of_an_id_is_named_and_left_as_it_is() {
    let world = World::on_redis();
    let node = world.node_with("a", 1).await;
    let newer = b"\x82\xa1v\x02\xa5later\x07";
    write(&world, "outcomes", "order-17", newer);
    let ticket = node.ticket("key", "order-17").unwrap();
    for error in [
        node.dispatch(("key", "")).id("order-17").await.unwrap_err(),
        node.submit(("key", "")).id("order-17").await.unwrap_err(),
        node.wait(&ticket).await.unwrap_err(),
    ] {
        let text = "the record of the id has version 2, this node reads up to 1; it was left as it is";
        assert_eq!(error.to_string(), text);
    }
    let cancelled = node.cancel(&ticket).await.unwrap_err();
    assert!(names_version_2(&cancelled), "{cancelled:?}");
    let outcomes = format!("tenure:{{{POOL}}}:outcomes");
    let entry: Vec<u8> = cmd("HGET").arg(outcomes).arg("order-17").query(&mut world.client()).unwrap();
    assert_eq!(entry, newer);
    let no_outcome = b"\x83\xa1v\x01\xa3key\xa3key\xa7outcome\xc2";
    for damaged in [&b"rubbish"[..], no_outcome] {
        write(&world, "outcomes", "order-17", damaged);
        assert!(matches!(node.submit(("key", "")).id("order-17").await, Err(DispatchError::BadRecord(_))));
    }
    assert_eq!(node.inspect().jobs().await.unwrap(), vec![]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_of_another_version_is_run_if_it_can_be_read() {
    let world = World::on_redis();
    let node = world.node("a").await;
    let envelopes: [(&str, &[u8]); 3] = [
        ("first", b"\x82\xa1v\x01\xa4body\xc4\x02hi"),
        ("later", b"\x84\xa1v\x01\xa5later\xa1x\xa4type\xa4feed\xa4body\xc4\x02hi"),
        ("newer", b"\x82\xa1v\x02\xa5parts\x90"),
    ];
    for (key, envelope) in envelopes {
        node.submit((key, "")).await.unwrap();
        write(&world, "payloads", key, envelope);
    }
    let unreadable = node.inspect().payload("newer").await.unwrap_err();
    assert!(names_version_2(&unreadable), "{unreadable:?}");
    assert_eq!(node.inspect().payload("later").await.unwrap().unwrap(), "hi");
    world.add_worker(&node).await;
    until("what can be read to run", async || world.recorder.running().len() == 2).await;
    for key in ["first", "later"] {
        assert_eq!(world.recorder.payloads(key), ["hi"]);
    }
    // It moves from worker to worker until one can read it, and is never lost.
    assert!(node.inspect().job("newer").await.unwrap().is_some());
    write(&world, "payloads", "newer", envelopes[0].1);
    until("it to run", async || world.recorder.is_running("newer")).await;
    assert_eq!(
        node.inspect().job("newer").await.unwrap().unwrap().attempts,
        1,
        "none of it counted as an attempt"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_another_major_number_is_not_joined() {
    let world = World::on_redis();
    let node = world.node("a").await;
    write(&world, "settings", "protocol", b"3");
    let client = Client::open(&world.server().url()).unwrap();
    let join = Node::builder(POOL, client).join_timeout(Duration::from_secs(15)).assume_fresh(true);
    match join.join().await.unwrap_err() {
        Error::SettingMismatch { name, theirs, ours } => {
            assert_eq!((name.as_str(), theirs.as_str(), ours.as_str()), ("protocol", "3", "2"));
        }
        other => panic!("{other:?}"),
    }
    drop(node);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_members_of_a_later_version_disturb_nobody() {
    let world = World::on_redis();
    let a = world.node("a").await;
    write(&world, "settings", "later", b"7");
    let b = world.node("b").await;
    let worker = b.add_worker(world.recorder.acting(|_| Act::Run)).await.unwrap();
    until("the worker to be up", async || worker.info().is_some_and(|w| w.slot.is_some())).await;
    let id = worker.id().unwrap().0.to_string();
    let workers = format!("tenure:{{{POOL}}}:workers");
    let entry: String = cmd("HGET").arg(workers).arg(&id).query(&mut world.client()).unwrap();
    write(&world, "workers", &id, format!("{entry}|later").as_bytes());
    let c = world.node("c").await;
    assert_eq!(c.inspect().workers().await.unwrap().len(), 1);
    c.dispatch(("key", "")).await.unwrap();
    a.close().await.unwrap();
    assert!(world.recorder.is_running("key"));
}
