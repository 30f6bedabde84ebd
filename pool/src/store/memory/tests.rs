//! Tests of the memory store's own parts: availability, processes, rollback, blessing. Its steps are tested by the
//! conformance suite.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::MemoryStore;
use crate::model::id::NodeName;
use crate::store::{
    Bootstrap, PoolState, ReadIdentity, ReadPool, ReadState, ReadTime, Seen, Store, StoreError,
};

/// A client of a pool, and the server that both are on.
async fn blessed() -> (Store, MemoryStore) {
    let memory = MemoryStore::new();
    let store = Store::from(memory.clone());
    let run_id = store.read(&ReadIdentity).await.unwrap().run_id;
    store.bless(&run_id);
    let step = Bootstrap { seen: Seen::default(), run_id, settings: Box::default() };
    store.read(&step).await.unwrap();
    (store, memory)
}

#[tokio::test]
async fn while_switched_off_nothing_is_executed() {
    let (store, memory) = blessed().await;
    memory.set_available(false);
    assert!(matches!(store.read(&ReadTime).await, Err(StoreError::NotExecuted(_))));
    assert!(matches!(store.read(&ReadState).await, Err(StoreError::NotExecuted(_))));
    memory.set_available(true);
    store.read(&ReadTime).await.unwrap();
}

#[tokio::test]
async fn switching_off_ends_a_blocked_read() {
    let (store, memory) = blessed().await;
    let (consumer, block) = (NodeName::new("n1").unwrap(), Duration::from_secs(60));
    let read = tokio::spawn(async move { store.read(&ReadPool { consumer, max: 8, block }).await });
    tokio::task::yield_now().await;
    memory.set_available(false);
    assert!(matches!(read.await.unwrap(), Err(StoreError::NotExecuted(_))));
}

#[tokio::test]
async fn another_process_is_refused_until_it_is_blessed() {
    let (store, memory) = blessed().await;
    let lease = store.apart();
    memory.new_process();
    let identity = store.read(&ReadIdentity).await.unwrap();
    assert!(identity.uptime < Duration::from_secs(3_600));
    for client in [&lease, &store] {
        match client.read(&ReadTime).await {
            Err(StoreError::OtherServer { run_id }) => assert_eq!(run_id, identity.run_id),
            other => panic!("{other:?}"),
        }
    }
    store.bless(&identity.run_id);
    lease.read(&ReadTime).await.expect("the lease shares its store's blessing");
}

#[tokio::test]
async fn a_clone_is_a_client_of_its_own() {
    let (store, memory) = blessed().await;
    let other = Store::from(memory.clone());
    assert!(matches!(other.read(&ReadTime).await, Err(StoreError::OtherServer { .. })));
    assert_eq!(other.read(&ReadState).await.unwrap(), store.read(&ReadState).await.unwrap());
    other.close().await;
    store.read(&ReadTime).await.unwrap();
}

#[tokio::test]
async fn a_wipe_and_a_rollback_are_silent() {
    let (store, memory) = blessed().await;
    let (before, members) = (memory.tamper(|server| server.snapshot()), store.members());
    let present = store.read(&ReadState).await.unwrap();
    memory.tamper(tenure_protocol::memory::Server::wipe);
    assert_eq!(store.read(&ReadState).await.unwrap(), PoolState::Absent);
    assert!(store.read(&ReadIdentity).await.unwrap().flushed);
    assert!(!members.has_changed().unwrap());
    memory.tamper(|server| server.restore(before));
    assert_eq!(store.read(&ReadState).await.unwrap(), present);
}
