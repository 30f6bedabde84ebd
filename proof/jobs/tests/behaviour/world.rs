//! A set on either store, and what handlers have done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use tenure_jobs::{BoxError, Client, Ctx, IntoOutcome, Jobs, JobsBuilder, MemoryStore, WorkerBuilder};
use tenure_testing::RedisServer;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

static SERVER: OnceLock<RedisServer> = OnceLock::new();
static SETS: AtomicU64 = AtomicU64::new(0);

/// Where the nodes of a test meet.
pub(crate) enum World {
    Memory(MemoryStore),
    Redis(String),
}

impl World {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryStore::paused())
    }

    pub(crate) fn redis() -> Self {
        Self::Redis(format!("world{}", SETS.fetch_add(1, Ordering::SeqCst)))
    }

    /// The time of the store.
    pub(crate) fn now(&self) -> SystemTime {
        match self {
            Self::Memory(store) => store.now(),
            Self::Redis(_) => SystemTime::now(),
        }
    }

    pub(crate) fn node(&self, name: &str) -> JobsBuilder {
        let builder = match self {
            Self::Memory(store) => Jobs::in_memory(store.clone()),
            Self::Redis(set) => {
                let server = SERVER.get_or_init(|| RedisServer::start().unwrap());
                Jobs::builder(set, Client::open(&server.url()).unwrap())
            }
        };
        builder.name(name)
    }
}

/// The words of the handlers, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    /// A worker whose handler says words.
    pub(crate) fn worker<T, F, Fut, O>(&self, jobs: &Jobs, queue: &str, handler: F) -> WorkerBuilder
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Self, Ctx, T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, BoxError>> + Send + 'static,
        O: IntoOutcome + Send + 'static,
    {
        let said = self.clone();
        jobs.worker(queue, move |ctx, data| handler(said.clone(), ctx, data))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    /// Waits until the handlers have said this many words.
    pub(crate) async fn until(&self, count: usize) -> Vec<String> {
        tenure_testing::eventually(MINUTE, "handlers say it", async || {
            let all = self.all();
            if all.len() >= count { Ok(all) } else { Err(all) }
        })
        .await
    }
}
