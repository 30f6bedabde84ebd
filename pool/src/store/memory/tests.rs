//! Tests of the memory store's own parts: availability, processes, rollback, blessing. Its steps are tested by the
//! conformance suite.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::MemoryStore;
use crate::model::id::NodeName;
use crate::model::settings::Settings;
use crate::store::{Events, Membership, PoolState, Seen, Store, StoreError};

async fn blessed() -> MemoryStore {
    let store = MemoryStore::new();
    let run_id = store.server_identity().await.unwrap().run_id;
    store.bless(&run_id);
    store.bootstrap(Seen::default(), &run_id, &Settings::default()).await.unwrap();
    store
}

#[tokio::test]
async fn while_switched_off_nothing_is_executed() {
    let store = blessed().await;
    store.set_available(false);
    assert!(matches!(store.server_time().await, Err(StoreError::NotExecuted(_))));
    assert!(matches!(store.pool_state().await, Err(StoreError::NotExecuted(_))));
    store.set_available(true);
    store.server_time().await.unwrap();
}

#[tokio::test]
async fn switching_off_ends_a_blocked_read() {
    let store = blessed().await;
    let (reader, node) = (store.clone(), NodeName::new("n1").unwrap());
    reader.bless("memory0");
    let read = tokio::spawn(async move { reader.pool_events(&node, 8, Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    store.set_available(false);
    assert!(matches!(read.await.unwrap(), Err(StoreError::NotExecuted(_))));
}

#[tokio::test]
async fn another_process_is_refused_until_it_is_blessed() {
    let store = blessed().await;
    let lease = store.apart();
    store.new_process();
    let identity = store.server_identity().await.unwrap();
    assert!(identity.uptime < Duration::from_secs(3_600));
    for client in [&*lease, &store as &dyn Store] {
        match client.server_time().await {
            Err(StoreError::OtherServer { run_id }) => assert_eq!(run_id, identity.run_id),
            other => panic!("{other:?}"),
        }
    }
    store.bless(&identity.run_id);
    lease.server_time().await.expect("the lease shares its store's blessing");
}

#[tokio::test]
async fn a_clone_is_a_client_of_its_own() {
    let store = blessed().await;
    let other = store.clone();
    assert!(matches!(other.server_time().await, Err(StoreError::OtherServer { .. })));
    assert_eq!(other.pool_state().await.unwrap(), store.pool_state().await.unwrap());
    other.close().await;
    store.server_time().await.unwrap();
}

#[tokio::test]
async fn a_wipe_and_a_rollback_are_silent() {
    let store = blessed().await;
    let (before, members) = (store.snapshot(), store.members());
    let present = store.pool_state().await.unwrap();
    store.wipe();
    assert_eq!(store.pool_state().await.unwrap(), PoolState::Absent);
    assert!(store.server_identity().await.unwrap().flushed);
    assert!(!members.has_changed().unwrap());
    store.restore(before);
    assert_eq!(store.pool_state().await.unwrap(), present);
}
