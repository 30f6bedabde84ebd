//! A read that meets a change after its look at the pool.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::FutureExt;

use super::Inspector;
use crate::api::listing::WorkerInfo;
use crate::api::node::{Node, PATIENCE};
use crate::model::id::WorkerId;
use crate::model::member::MemberState;
use crate::model::settings::StoredSettings;
use crate::store::MemoryStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_meets_another_server_begins_again() {
    let store = &MemoryStore::new();
    let node = Node::builder("p", store).assume_fresh(true).join().await.unwrap();
    let seen = Inspector::open("p", store).await.unwrap();
    let tries = &AtomicUsize::new(0);
    let read = seen.read(seen.reader.stores(), |reader| {
        async move {
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                store.new_process();
            }
            reader.jobs().await
        }
        .boxed()
    });
    assert_eq!((read.await.unwrap(), tries.load(Ordering::SeqCst)), (vec![], 2));
    node.abandon();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_asks_its_own_shard_alone() {
    let store = &MemoryStore::new();
    let node = Node::builder("p", store).assume_fresh(true).shards(3).join().await.unwrap();
    let seen = &Inspector::open("p", store).await.unwrap();
    store.shard(2).set_available(false);
    let worker = WorkerInfo {
        shard: 1,
        id: WorkerId(7),
        node: "a".to_owned(),
        state: MemberState::Up,
        slot: None,
        meta: String::new(),
        level: 1,
        address: String::new(),
        cordoned: false,
    };
    let reads = async {
        assert_eq!(seen.jobs_page(None, 5).await.unwrap().items, []);
        assert_eq!(seen.parked_page(Some("1:0".parse().unwrap()), 5).await.unwrap().items, []);
        assert_eq!(seen.jobs_of(&worker, None, 5).await.unwrap(), []);
    };
    tokio::time::timeout(PATIENCE / 4, reads).await.unwrap();
    node.abandon();
}

#[test]
fn a_number_of_shards_that_no_pool_has_is_refused() {
    let read = |text: &str| {
        let fields = [("shard".to_owned(), text.to_owned())].into();
        super::count(&StoredSettings { fields, ..StoredSettings::default() })
    };
    assert_eq!(["0/2", "0/1024"].map(read), [Some(2), Some(1_024)]);
    assert_eq!(["0/1025", "0/4294967295", "0/1", "0/0", "1/3", "3", ""].map(read), [None; 7]);
    assert_eq!(super::count(&StoredSettings::default()), None);
}
