//! A read that meets a change after its look at the pool.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::StreamExt;

use super::Inspector;
use crate::api::events::{EventCursor, EventPage};
use crate::api::listing::WorkerInfo;
use crate::api::node::{Node, PATIENCE};
use crate::error::Error;
use crate::model::event::{Entry, EventKind, Line, News, VERSION};
use crate::model::id::{Incarnation, WorkerId};
use crate::model::member::MemberState;
use crate::model::settings::StoredSettings;
use crate::store::{MemoryStore, Note, PoolState, ReadState, Store};

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

/// A pool without nodes, and somebody who writes into its history.
struct Desk {
    client: Store,
    incarnation: Incarnation,
}

impl Desk {
    async fn of(store: &MemoryStore) -> Self {
        let node = Node::builder("p", store).assume_fresh(true).client_only().join().await.unwrap();
        node.abandon();
        node.closed().await;
        let client = Store::from(store.clone());
        let state = client.read(&ReadState).await.unwrap();
        let PoolState::Present { incarnation, run_id, .. } = state else { panic!("no pool: {state:?}") };
        client.bless(&run_id);
        Self { client, incarnation }
    }

    async fn note(&self, n: u64) {
        let line = Line::of(&News::new(EventKind::Asked).saying(&format!("event {n}")), Duration::ZERO);
        let entry = Entry { v: VERSION, node: "a".to_owned(), life: 7, n, dropped: 0, events: vec![line] };
        self.client.run(self.incarnation, &Note { most: 100, entry: entry.encode() }).await.unwrap();
    }
}

#[tokio::test]
async fn a_follower_is_woken_and_does_not_look() {
    let store = &MemoryStore::new();
    let desk = Desk::of(store).await;
    let seen = Inspector::open("p", store).await.unwrap();
    let last = seen.events(&EventCursor::default(), 100).await.unwrap().next;
    let mut coming = seen.follow(last);
    // From now on, time only passes for one who sleeps.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    for n in 1..4 {
        let next = &mut std::pin::pin!(coming.next());
        assert!(futures::poll!(&mut *next).is_pending());
        desk.note(n).await;
        assert_eq!(next.await.unwrap().unwrap().text, format!("event {n}"));
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    // The end of the pool is no event.
    let next = &mut std::pin::pin!(coming.next());
    assert!(futures::poll!(&mut *next).is_pending());
    store.tamper(tenure_protocol::memory::Server::wipe);
    assert!(matches!(next.await, Some(Err(Error::NoPool { .. }))));
    assert!(coming.next().await.is_none());
}

#[tokio::test]
async fn a_follower_goes_on_after_a_call_that_was_dropped() {
    let store = &MemoryStore::new();
    let desk = Desk::of(store).await;
    desk.note(1).await;
    let mut follower = Inspector::open("p", store).await.unwrap().follower(EventCursor::default());
    let texts = |page: &EventPage| -> Vec<_> {
        page.events.iter().filter(|event| event.node == "a").map(|event| event.text.clone()).collect()
    };
    // From now on, time only passes for one who sleeps.
    tokio::time::pause();
    assert_eq!(texts(&follower.page().await.unwrap()), ["event 1"]);
    let began = tokio::time::Instant::now();
    assert_eq!(follower.page().await.unwrap().events, [], "the pool is there");
    // A timer has whole milliseconds.
    assert_eq!(began.elapsed().as_secs(), 10);
    store.set_available(false);
    // The deadlines of reads are of the machine's own clock.
    let silent = tokio::time::timeout(Duration::from_secs(15), follower.page()).await;
    assert!(!matches!(silent, Ok(Ok(_))), "{silent:?}");
    store.set_available(true);
    desk.note(2).await;
    assert_eq!(texts(&follower.page().await.unwrap()), ["event 2"]);
}
