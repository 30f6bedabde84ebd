//! Stores of progress for the tests, and what all of them promise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_sequence::{MemoryProgress, Progress, ProgressError};
use tokio::sync::watch;

use crate::traces::{Kept, Store};

/// A progress of each kind, with this name. They live as long as their stores, which come second.
pub(crate) async fn each_store(name: &str) -> (Vec<Kept>, Vec<Store>) {
    let stores = vec![Store::Memory, Store::file().await, Store::redis()];
    (stores.iter().map(|store| store.of(name)).collect(), stores)
}

/// A progress in memory whose calls wait at a gate.
#[derive(Clone)]
pub(crate) struct Gated {
    kept: MemoryProgress,
    open: watch::Receiver<bool>,
    waits: Arc<watch::Sender<bool>>,
    saves: Arc<AtomicUsize>,
}

/// The gate of a [`Gated`].
pub(crate) struct Gate {
    open: watch::Sender<bool>,
    waits: watch::Receiver<bool>,
}

impl Gate {
    pub(crate) fn close(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// Somebody waits at the gate.
    pub(crate) async fn waited_for(&self) {
        self.waits.clone().wait_for(|waits| *waits).await.unwrap();
    }
}

impl Gated {
    pub(crate) fn new() -> (Self, Gate) {
        let (opens, open) = watch::channel(true);
        let (says, waits) = watch::channel(false);
        let kept = MemoryProgress::new();
        (Self { kept, open, waits: Arc::new(says), saves: Arc::default() }, Gate { open: opens, waits })
    }

    /// How often it was saved.
    pub(crate) fn saves(&self) -> usize {
        self.saves.load(Ordering::SeqCst)
    }

    async fn pass(&self) {
        self.waits.send_replace(!*self.open.borrow());
        let _ = self.open.clone().wait_for(|open| *open).await;
        self.waits.send_replace(false);
    }
}

impl Progress for Gated {
    async fn load(&self) -> Result<Option<u64>, ProgressError> {
        self.kept.load().await
    }

    async fn init(&self, default: u64) -> Result<u64, ProgressError> {
        self.pass().await;
        self.kept.init(default).await
    }

    async fn save(&self, index: u64) -> Result<(), ProgressError> {
        self.pass().await;
        self.saves.fetch_add(1, Ordering::SeqCst);
        self.kept.save(index).await
    }
}

#[tokio::test]
async fn a_stored_progress_is_never_lowered() {
    let (each, _stores) = each_store("lower").await;
    for progress in each {
        progress.init(0).await.unwrap();
        for index in [5, 3, 5, 0, 4] {
            progress.save(index).await.unwrap();
            assert_eq!(progress.load().await.unwrap(), Some(5));
        }
        progress.save(u64::MAX - 1).await.unwrap();
        progress.save(9).await.unwrap();
        assert_eq!(progress.load().await.unwrap(), Some(u64::MAX - 1), "to the last digit");
    }
}

#[tokio::test]
async fn consumers_of_one_store_do_not_share_their_progress() {
    for store in [Store::file().await, Store::redis()] {
        let (one, other) = (store.of("one"), store.of("other"));
        one.init(3).await.unwrap();
        assert_eq!(other.load().await.unwrap(), None);
        other.save(1).await.unwrap();
        assert_eq!((one.load().await.unwrap(), other.load().await.unwrap()), (Some(3), Some(1)));
    }
}

#[tokio::test]
async fn a_progress_that_was_lost_is_stored_again() {
    let store = Store::redis();
    let progress = store.of("lost");
    progress.init(0).await.unwrap();
    progress.save(7).await.unwrap();
    let Store::Redis(client, _server) = &store else { unreachable!() };
    client.commands().command(&redis::cmd("FLUSHALL")).await.unwrap();
    progress.save(8).await.unwrap();
    assert_eq!(progress.load().await.unwrap(), Some(8));
}

#[tokio::test]
async fn a_progress_that_is_forgotten_begins_anew() {
    let server = tenure_testing::RedisServer::start().unwrap();
    let client = tenure_connection::Client::open(&server.url()).unwrap();
    let progress = tenure_sequence::RedisProgress::new(&client, "set", "acme").unwrap();
    progress.clone().fenced(9).init(4).await.unwrap();
    progress.forget().await.unwrap();
    assert_eq!((progress.load().await.unwrap(), server.keys().unwrap()), (None, Vec::<String>::new()));
    assert_eq!(progress.init(1).await.unwrap(), 1);
}

#[tokio::test]
async fn a_file_is_open_in_one_place_only() {
    let Store::File(_open, folder) = Store::file().await else { unreachable!() };
    let again = tenure_sequence::FileStore::open(folder.path().join("progress")).await;
    assert!(matches!(again, Err(ProgressError::Broken(_))), "{again:?}");
    let nowhere = tenure_sequence::FileStore::open(folder.path().join("no folder/progress")).await;
    assert!(matches!(nowhere, Err(ProgressError::Broken(_))), "{nowhere:?}");
}
