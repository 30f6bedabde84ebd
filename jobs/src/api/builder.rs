//! Joining a set.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_connection::{Client, Thread, follows_a_test};
use tokio::sync::{Notify, mpsc, oneshot};

use super::flow::Flow;
use super::jobs::{Jobs, Shared};
use super::queue::Queue;
use crate::error::Error;
use crate::model::id::{NodeName, QueueName, SetName};
use crate::model::queue::Settings;
use crate::runtime::driver::Driver;
use crate::runtime::handle::Handles;
use crate::runtime::link::{In, Link};
use crate::runtime::{batcher, ticker};
use crate::store::{Breakage, Declare, MemoryStore, ReadFigures, RedisStore, Store, StoreError};

/// How long joining waits for the node's subscription.
const HEARS: Duration = Duration::from_secs(2);

/// The settings of a node of a set of queues.
#[must_use = "a node joins with join"]
pub struct JobsBuilder {
    set: String,
    backend: Backend,
    node: Option<String>,
    queues: Vec<Queue>,
    named: Vec<String>,
    flows: Vec<Flow>,
    breakage: Option<Breakage>,
}

pub(crate) enum Backend {
    Redis(Client),
    Memory(MemoryStore),
    /// Any store, on the caller's runtime.
    #[cfg(feature = "sim")]
    Given(Arc<dyn Store>),
}

impl Backend {
    /// The store, and the thread of a node over it.
    fn open(self, set: &SetName, node: &NodeName) -> Result<(Arc<dyn Store>, Thread), Error> {
        let engine_thread = || Thread::shared().map_err(|error| StoreError::Unusable(Arc::new(error)));
        Ok(match self {
            Self::Redis(client) => {
                let client = client.with_name(&format!("{node} jobs"));
                (Arc::new(RedisStore::open(&client, set)), engine_thread()?)
            }
            Self::Memory(store) if follows_a_test() => (Arc::new(store), Thread::here()),
            Self::Memory(store) => (Arc::new(store), engine_thread()?),
            #[cfg(feature = "sim")]
            Self::Given(store) => {
                tenure_connection::paused::follow_if_paused();
                (store, Thread::here())
            }
        })
    }
}

impl JobsBuilder {
    pub(crate) fn over(set: String, backend: Backend) -> Self {
        Self {
            set,
            backend,
            node: None,
            queues: Vec::new(),
            named: Vec::new(),
            flows: Vec::new(),
            breakage: None,
        }
    }

    /// Leaves out a line of the protocol: for proofs.
    #[cfg(feature = "sim")]
    pub fn break_with(mut self, breakage: Breakage) -> Self {
        self.breakage = Some(breakage);
        self
    }

    /// The name of this node, unique in its set. By default it gets one of its own.
    pub fn name(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// A queue. The join declares the queue's settings for all nodes.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queues.push(queue);
        self
    }

    /// Names queues, and changes none. So a producer and a further worker leave the settings of the fleet alone. Where
    /// there is no queue of a name, the join makes a queue without groups, with the default settings, until a node
    /// declares the queue with [`queue`](Self::queue). A merely named queue refuses jobs with groups, and may be
    /// declared with groups until the first job comes.
    pub fn queues<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.named.extend(names.into_iter().map(Into::into));
        self
    }

    /// A flow through queues. Each node with a worker for one of its stages names the flow. A node that does not know the
    /// flow of a job leaves it to others for 5 s, before its handler runs, and without an attempt.
    pub fn flow(mut self, flow: Flow) -> Self {
        self.flows.push(flow);
        self
    }

    /// Joins: finds the set or makes it, and declares the queues.
    ///
    /// # Errors
    /// [`Error::Name`] and [`Error::Setting`] for what cannot be, [`Error::SameStage`] for a flow that names a queue twice,
    /// [`Error::Groups`], and [`Error::Store`] when the store does not answer.
    ///
    /// # Cancel safety
    /// A dropped future may have declared queues, and has no other effect.
    pub async fn join(self) -> Result<Jobs, Error> {
        let set = SetName::new(&self.set)?;
        let node = NodeName::new(self.node.unwrap_or_else(|| ulid::Ulid::generate().to_string()))?;
        let (mut configs, mut declared) = (HashMap::new(), Vec::new());
        for queue in self.queues {
            let (name, settings) = queue.checked()?;
            declared.push((name.clone(), Some(settings)));
            configs.insert(name, queue);
        }
        for name in self.named {
            let name = QueueName::new(name)?;
            if !configs.contains_key(&name) {
                declared.push((name, None));
            }
        }
        for flow in &self.flows {
            flow.check()?;
        }
        let (store, thread) = self.backend.open(&set, &node)?;
        let link = Link::new(store, &set, node.clone(), self.breakage);
        let own = link.apart();
        let ((batcher, requests), (driver, messages)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let (handles, tick) = (Handles::default(), Arc::new(Notify::new()));
        // This call finds the set, or makes it. Later calls need not.
        link.call_within(super::jobs::PATIENCE, &ReadFigures(Vec::new())).await?;
        for (name, settings) in declared {
            declare(&link, name, settings).await?;
        }

        let (hears, heard) = oneshot::channel();
        let engine = Driver::new(own.clone(), handles.clone(), driver.clone(), tick.clone(), hears);
        thread.spawn(batcher::run(own.clone(), requests));
        thread.spawn(engine.run(messages));
        thread.spawn(ticker::run(own.clone(), tick));
        // A node that cannot hear yet works all the same: it looks for itself. One that may not is told.
        if let Ok(Ok(Err(error))) = tokio::time::timeout(HEARS, heard).await {
            own.closed().cancel();
            return Err(error.into());
        }
        let shared = Shared {
            link,
            own,
            thread,
            batcher,
            driver,
            #[cfg(feature = "test-util")]
            handles,
            configs,
            flows: self.flows,
            numbers: AtomicU64::default(),
            failures: Mutex::default(),
            warned: Mutex::default(),
            lanes: Mutex::default(),
        };
        Ok(Jobs { shared: Arc::new(shared) })
    }
}

/// Declares a queue, or names a queue without settings, also in each later incarnation.
pub(crate) async fn declare(link: &Link, name: QueueName, settings: Option<Settings>) -> Result<(), Error> {
    link.remember(&name, settings.as_ref());
    let declare = In(Declare(name.clone(), settings));
    let (inc, done) = link.call_within(super::jobs::PATIENCE, &declare).await?;
    if !done {
        return Err(Error::Groups(name));
    }
    link.declared(&name, inc);
    Ok(())
}

impl fmt::Debug for JobsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (set, queues) = (&self.set, &self.queues);
        f.debug_struct("JobsBuilder").field("set", set).field("queues", queues).finish_non_exhaustive()
    }
}
