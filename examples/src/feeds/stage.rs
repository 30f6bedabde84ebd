//! The stage of the story: a store, the feed server, the fleet, and the conductor's own node.

use std::net::SocketAddr;
use std::time::Duration;

use tenure_connection::Client;
use tenure_pool::node::Backend;
use tenure_pool::{MemoryStore, Node};
use tenure_testing::{ChildProcess, Endpoint};
use tokio::time::timeout;

use super::failed::{Context, Failed};
use super::fleet::{Fleet, Plan};
use super::judge::Fencing;
use super::keyspace::Keyspace;
use super::node::{Timings, join};
use super::server::FeedServer;
use super::session::Control;
use super::view::View;
use crate::PATIENCE;

/// The longest time for the shutdown of the whole pool.
const SHUTDOWN: Duration = Duration::from_secs(15);

pub(super) const NO_JUDGE: &str = "the judge cannot be asked";
const NO_FEED: &str = "the feed server could not be started";
const POOL_FAILED: &str = "the pool failed";

/// The name of the pool in memory.
const IN_MEMORY: &str = "feeds";

/// The name of the conductor's node.
const CONDUCTOR: &str = "conductor";

/// The store from the conductor's point of view.
enum Ground {
    Redis { keys: Box<Keyspace>, _endpoint: Endpoint },
    Memory(MemoryStore),
}

/// Keeps the feed server running.
enum Feed {
    Process { _child: Box<ChildProcess> },
    Task { _server: FeedServer },
}

/// Everything that runs.
pub struct Stage {
    ground: Ground,
    _feed: Feed,
    /// The judge.
    pub control: Control,
    /// The nodes with workers; none at first.
    pub fleet: Fleet,
    /// The conductor's node, without workers.
    pub node: Node,
}

impl Stage {
    /// A stage on the Redis of `REDIS_URL` or on a private one. The feed server and the nodes are processes.
    ///
    /// # Errors
    /// The part that could not be started; nothing runs then.
    ///
    /// # Cancel safety
    /// Nothing runs when the future is dropped. Keys of a new pool may be left in a Redis that is not private.
    pub async fn over_redis(timings: &Timings) -> Result<Self, Failed> {
        let endpoint = Endpoint::from_env().context("no redis server could be started")?;
        let client = Client::open(endpoint.url()).context("redis cannot be used")?;
        let (child, line) = feed_server().await.context(NO_FEED)?;
        let feed = Feed::Process { _child: Box::new(child) };
        let address = line.parse().context(format!("the feed server's process gave no address: {line:?}"))?;
        // A pool of its own: the Redis may be somebody's, and other stories may run on it.
        let plan = plan(format!("feeds-{:08x}", rand::random::<u32>()), address, timings);
        let fleet = Fleet::of_processes(plan.clone(), endpoint.url().to_owned());
        let keys = Box::new(Keyspace::new(client.clone(), &plan.pool));
        let ground = Ground::Redis { keys, _endpoint: endpoint };
        Self::open(plan, ground, client.into(), feed, fleet).await
    }

    /// A stage without Redis: the feed server and the nodes are tasks of this process.
    ///
    /// # Errors
    /// The part that could not be started; nothing runs then.
    ///
    /// # Cancel safety
    /// Nothing runs when the future is dropped.
    pub async fn in_memory(timings: &Timings) -> Result<Self, Failed> {
        let store = MemoryStore::new();
        let server = FeedServer::start(Fencing::Enforced).await.context(NO_FEED)?;
        let plan = plan(IN_MEMORY.to_owned(), server.address(), timings);
        let fleet = Fleet::of_tasks(plan.clone(), store.clone());
        let backend = store.clone().into();
        Self::open(plan, Ground::Memory(store), backend, Feed::Task { _server: server }, fleet).await
    }

    async fn open(
        plan: Plan,
        ground: Ground,
        backend: Backend,
        feed: Feed,
        fleet: Fleet,
    ) -> Result<Self, Failed> {
        let control = Control::new(plan.feed);
        let node = join(backend, &plan.pool, CONDUCTOR, &plan.timings).await.context(POOL_FAILED)?;
        Ok(Self { ground, _feed: feed, control, fleet, node })
    }

    /// Looks at the pool and the judge.
    ///
    /// # Errors
    /// The pool or the judge cannot be queried.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn look(&mut self) -> Result<View, Failed> {
        let stats = self.control.stats().await.context(NO_JUDGE)?;
        let workers = self.node.inspect().workers().await.context(POOL_FAILED)?;
        Ok(View::new(stats, &workers, &self.node.inspect().jobs().await.context(POOL_FAILED)?))
    }

    /// Shuts the pool down, and lets the nodes end.
    ///
    /// # Errors
    /// The pool is not shut down, or a node did not end well; use [`clear`](Self::clear) then.
    ///
    /// # Cancel safety
    /// Not safe: a shutdown that was begun continues.
    pub async fn shut_down(&mut self) -> Result<(), Failed> {
        let shutdown = timeout(SHUTDOWN, self.node.operate().shutdown()).await;
        let late = || Failed::new(format!("the pool was not shut down within {} s", SHUTDOWN.as_secs()));
        let report = shutdown.map_err(|_| late())?.context(POOL_FAILED)?;
        if !report.complete {
            let left = report.left.len();
            return Err(Failed::new(format!("the shutdown is not complete, {left} workers have not left")));
        }
        for name in self.fleet.names() {
            self.fleet.drain(&name).await?;
        }
        Ok(())
    }

    /// The keys that the pool left in the store, without its tombstone. In memory: the pool's name, if it is still
    /// there.
    ///
    /// # Errors
    /// The store cannot be queried.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn keys_left(&self) -> Result<Vec<String>, Failed> {
        match &self.ground {
            Ground::Memory(store) => {
                match Node::builder(IN_MEMORY, store).client_only().must_exist().join().await {
                    Ok(_) => Ok(vec![IN_MEMORY.to_owned()]),
                    Err(tenure_pool::Error::NoPool { .. }) => Ok(Vec::new()),
                    Err(error) => Err(error).context(POOL_FAILED),
                }
            }
            Ground::Redis { keys, .. } => keys.left().await,
        }
    }

    /// Kills the processes that still run, and removes the pool's keys, even after a failed story.
    ///
    /// # Errors
    /// A process cannot be killed, or Redis cannot be queried.
    ///
    /// # Cancel safety
    /// Safe: it can be called again.
    pub async fn clear(&mut self) -> Result<(), Failed> {
        for name in self.fleet.names() {
            self.fleet.kill(&name).await?;
        }
        self.node.abandon();
        if let Ground::Redis { keys, .. } = &self.ground {
            keys.remove().await?;
        }
        Ok(())
    }
}

/// Starts a feed server, which says its address.
async fn feed_server() -> Result<(ChildProcess, String), tenure_testing::Error> {
    let mut child = ChildProcess::of_this_program("feed server", ["server"], &[])?;
    let line = child.line(PATIENCE).await?;
    Ok((child, line))
}

fn plan(pool: String, feed: SocketAddr, timings: &Timings) -> Plan {
    Plan { pool, feed, timings: timings.clone() }
}
