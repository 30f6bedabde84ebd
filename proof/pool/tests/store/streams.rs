//! Reads: start events by many consumers, a node's own streams, and reads that wait.

use std::time::Duration;

use tenure_pool::store::{
    ClaimPool, CleanUp, Cursors, DispatchReply, PruneConsumers, ReadNode, ReadPool, Renew, RestoreGroup,
    Route, RouteReply, ShutDown, Tell, WorkerEvent,
};
use tenure_protocol::model::id::WorkerId;
use tenure_streaming::EntryId;

use super::lab::{Lab, id, key, ms, node, renew};

const LONG: Duration = Duration::from_secs(60);

scenarios! {
    consumers_share_the_start_events,
    entries_of_another_consumer_are_claimed,
    a_lost_group_is_restored_from_the_beginning,
    a_consumer_that_holds_events_is_not_forgotten,
    a_read_waits_for_a_start_event,
    a_read_ends_when_the_pool_does,
    a_nodes_events_come_in_order_from_its_cursors,
    a_read_waits_for_a_nodes_events,
    a_dropped_read_does_not_hold_up_the_next,
    a_read_that_finds_nothing_ends_in_time,
    a_read_at_once_passes_one_that_waits,
}

async fn consumers_share_the_start_events(lab: Lab) {
    for name in ["a", "b", "c"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    let read = async |name, max| {
        lab.read(&ReadPool { consumer: node(name), max, block: ms(0) }).await.unwrap().unwrap()
    };
    let (first, second) = (read("n1", 2).await, read("n2", 2).await);
    assert_eq!((first.len(), second.len()), (2, 1));
    assert!(first[0].entry < first[1].entry && first[1].entry < second[0].entry);
    assert!(read("n1", 2).await.is_empty());
}

async fn entries_of_another_consumer_are_claimed(lab: Lab) {
    for name in ["a", "b", "c"] {
        lab.dispatch(name, &format!("node1.{name}")).await;
    }
    let read = lab.read(&ReadPool { consumer: node("gone"), max: 10, block: ms(0) }).await.unwrap().unwrap();
    let claim = async |idle, max| {
        lab.read(&ClaimPool { consumer: node("heir"), min_idle: idle, max }).await.unwrap().unwrap()
    };
    assert!(claim(LONG, 10).await.is_empty(), "they were read just now");
    assert_eq!(claim(ms(0), 2).await, read[..2]);
    assert_eq!(lab.field("starts.routers", "heir").await.as_deref(), Some("2"));
    assert_eq!(claim(ms(0), 10).await, read);
    let entries: Vec<_> = read.iter().map(|event| event.entry).collect();
    lab.step(&Route { ring: lab.revision().await, entries, jobs: Vec::new() }).await.unwrap();
    assert!(claim(ms(0), 10).await.is_empty());
}

async fn a_lost_group_is_restored_from_the_beginning(lab: Lab) {
    lab.dispatch("a", "node1.a").await;
    lab.dispatch("b", "node1.b").await;
    let read = lab.starts().await;
    lab.step(&Route { ring: lab.revision().await, entries: vec![read[0].0], jobs: Vec::new() })
        .await
        .unwrap();
    lab.backend.destroy_group().await;
    assert_eq!(lab.read(&ReadPool { consumer: node("n1"), max: 10, block: ms(0) }).await.unwrap(), None);
    assert_eq!(lab.read(&ClaimPool { consumer: node("n1"), min_idle: ms(0), max: 10 }).await.unwrap(), None);
    lab.step(&PruneConsumers { idle: ms(0) }).await.unwrap();
    lab.step(&RestoreGroup).await.unwrap();
    assert_eq!(lab.starts().await, read[1..], "handled entries are gone");
    lab.step(&RestoreGroup).await.unwrap();
    assert!(lab.starts().await.is_empty(), "a group that is there stays as it is");
}

async fn a_consumer_that_holds_events_is_not_forgotten(lab: Lab) {
    lab.dispatch("a", "node1.a").await;
    assert_eq!(
        lab.read(&ReadPool { consumer: node("holds"), max: 1, block: ms(0) }).await.unwrap().unwrap().len(),
        1
    );
    assert!(
        lab.read(&ReadPool { consumer: node("idle"), max: 1, block: ms(0) })
            .await
            .unwrap()
            .unwrap()
            .is_empty()
    );
    lab.step(&PruneConsumers { idle: ms(0) }).await.unwrap();
    assert_eq!(lab.field("starts.routers", "holds").await.as_deref(), Some("1"));
    assert_eq!(
        lab.read(&ClaimPool { consumer: node("heir"), min_idle: ms(0), max: 10 })
            .await
            .unwrap()
            .unwrap()
            .len(),
        1
    );
}

async fn a_read_waits_for_a_start_event(lab: Lab) {
    let store = lab.store().clone();
    let reader =
        tokio::spawn(
            async move { store.read(&ReadPool { consumer: node("n1"), max: 10, block: LONG }).await },
        );
    tokio::task::yield_now().await;
    assert_eq!(lab.dispatch("k", "node1.g").await, DispatchReply::Accepted);
    let events = reader.await.unwrap().unwrap().unwrap();
    assert_eq!(events[0].jobs, [(key("k"), 0)]);
}

async fn a_read_ends_when_the_pool_does(lab: Lab) {
    let store = lab.store().clone();
    let reader =
        tokio::spawn(
            async move { store.read(&ReadPool { consumer: node("n1"), max: 10, block: LONG }).await },
        );
    tokio::task::yield_now().await;
    let drop_queued = tenure_pool::store::ShutdownMode::DropQueued;
    lab.step(&ShutDown { by: node("n1"), mode: drop_queued }).await.unwrap();
    lab.step(&CleanUp { tombstone: LONG }).await.unwrap();
    assert_eq!(reader.await.unwrap().unwrap(), None);
}

fn cursors(workers: &[(WorkerId, EntryId)]) -> Cursors {
    Cursors { workers: workers.iter().copied().collect(), ..Cursors::default() }
}

async fn a_nodes_events_come_in_order_from_its_cursors(lab: Lab, first: WorkerId, second: WorkerId) {
    let start = Cursors::default().node;
    for (name, worker) in [("a", first), ("b", second), ("c", first), ("d", first)] {
        lab.dispatch(name, &format!("node1.{name}")).await;
        lab.route(name, worker).await;
    }
    let read = async |cursors: &Cursors, max| {
        let events = lab
            .read(&ReadNode { node: node("node1"), cursors: cursors.clone(), max, block: ms(0) })
            .await
            .unwrap();
        events.workers
    };
    let keys = |events: &[(WorkerId, EntryId, WorkerEvent)]| -> Vec<_> {
        let keys = events.iter().flat_map(|(worker, _, event)| match event {
            WorkerEvent::Start { keys, .. } => keys.iter().map(|key| (*worker, key.to_string())).collect(),
            _ => Vec::new(),
        });
        keys.collect()
    };
    let of = |worker, name: &str| (worker, name.to_owned());
    let all = read(&cursors(&[(first, start), (second, start)]), 100).await;
    assert_eq!(keys(&all), [of(first, "a"), of(first, "c"), of(first, "d"), of(second, "b")]);
    let page = read(&cursors(&[(first, start), (second, start)]), 1).await;
    assert_eq!(keys(&page), [of(first, "a"), of(second, "b")], "so many of each stream");
    let rest = read(&cursors(&[(first, all[1].1)]), 100).await;
    assert_eq!(keys(&rest), [of(first, "d")]);
    assert!(read(&cursors(&[(WorkerId(5), start)]), 100).await.is_empty());
}

async fn a_read_waits_for_a_nodes_events(lab: Lab, worker: WorkerId) {
    lab.step(&Renew { node: Some(node("node1")), ..renew(&[worker]) }).await.unwrap();
    let opened = lab
        .read(&ReadNode { node: node("node1"), cursors: Cursors::default(), max: 10, block: ms(0) })
        .await
        .unwrap()
        .outcomes;
    let last = opened.last().map_or(Cursors::default().node, |(entry, _)| *entry);
    let waiting = Cursors { node: last, ..cursors(&[(worker, Cursors::default().node)]) };
    let read = |cursors: Cursors| {
        let store = lab.store().clone();
        tokio::spawn(async move {
            store.read(&ReadNode { node: node("node1"), cursors, max: 10, block: LONG }).await.unwrap()
        })
    };
    let reader = read(waiting);
    tokio::task::yield_now().await;
    lab.dispatch("k", "node1.g").await;
    assert_eq!(lab.route("k", worker).await, RouteReply::Routed);
    let events = reader.await.unwrap();
    assert_eq!((events.workers.len(), events.outcomes.len()), (1, 0));
    let reader = read(Cursors { node: last, ..cursors(&[(worker, events.workers[0].1)]) });
    tokio::task::yield_now().await;
    lab.read(&Tell { outcomes: vec![(id("node1.g"), "ok".to_owned())] }).await.unwrap();
    let events = reader.await.unwrap();
    assert_eq!((events.workers.len(), events.outcomes.len()), (0, 1));
    assert_eq!(events.outcomes[0].1, [(id("node1.g"), "ok".to_owned())]);
}

async fn a_dropped_read_does_not_hold_up_the_next(lab: Lab, worker: WorkerId) {
    let all = cursors(&[(worker, Cursors::default().node)]);
    let step = ReadNode { node: node("node1"), cursors: all, max: 10, block: LONG };
    assert!(tokio::time::timeout(ms(20), lab.read(&step)).await.is_err(), "nothing is there yet");
    lab.assign("k", "node1.g", worker).await;
    let events =
        tokio::time::timeout(LONG / 4, lab.read(&step)).await.expect("the dropped read blocks").unwrap();
    assert_eq!(events.workers.len(), 1);
}

async fn a_read_that_finds_nothing_ends_in_time(lab: Lab) {
    assert_eq!(
        lab.read(&ReadPool { consumer: node("n1"), max: 10, block: ms(20) }).await.unwrap(),
        Some(Vec::new())
    );
    let events = lab
        .read(&ReadNode { node: node("n1"), cursors: Cursors::default(), max: 10, block: ms(20) })
        .await
        .unwrap();
    assert!(events.workers.is_empty() && events.outcomes.is_empty());
}

/// A worker that leaves reads what came last while its node waits for more.
async fn a_read_at_once_passes_one_that_waits(lab: Lab, worker: WorkerId) {
    lab.assign("k", "node1.k", worker).await;
    let (none, all) = (EntryId::MAX, Cursors::default().node);
    let cursors = |from| Cursors { workers: [(worker, from)].into(), node: none };
    let (waits, at_once) = (cursors(none), cursors(all));
    let reader = node("node1");
    let step = ReadNode { node: reader.clone(), cursors: waits, max: 10, block: LONG };
    let waiting = lab.read(&step);
    let reading = async {
        // The other read is on its way first.
        tokio::task::yield_now().await;
        lab.read(&ReadNode { node: reader, cursors: at_once, max: 10, block: ms(0) }).await.unwrap()
    };
    tokio::select! {
        biased;
        found = waiting => panic!("it waits for what nobody sends: {found:?}"),
        events = reading => assert_eq!(events.workers.len(), 1),
    }
}
