//! A read that meets a change after its look at the pool.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::FutureExt;

use super::Inspector;
use crate::api::node::Node;
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
