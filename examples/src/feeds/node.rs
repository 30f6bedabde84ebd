//! A node of the story: two workers that connect tenants to the feed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tenure_pool::node::Backend;
use tenure_pool::{CloseReport, Error, Node};
use tenure_testing::history::History;

use super::failed::{Context, Failed};
use super::handler::FeedHandler;

/// Workers on each node.
pub const WORKERS: usize = 2;
/// The time in which a process that is told to end must hand its tenants off.
const LEAVE: Duration = Duration::from_secs(30);

/// The pool's times, short enough for a story.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct Timings {
    /// The time for which a worker without a heartbeat keeps its tenants, in milliseconds.
    #[arg(long, default_value_t = 2_000)]
    pub ttl_ms: u64,
    /// The time for which a new worker waits before it takes a slot of its own, in milliseconds.
    #[arg(long, default_value_t = 300)]
    pub join_settle_ms: u64,
    /// The time for which the ring must be unchanged before tenants move, in milliseconds.
    #[arg(long, default_value_t = 300)]
    pub stable_after_ms: u64,
}

impl Timings {
    /// The time for which a worker without a heartbeat keeps its tenants.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// The time for which a new worker waits before it takes a slot of its own.
    pub fn join_settle(&self) -> Duration {
        Duration::from_millis(self.join_settle_ms)
    }

    /// The time for which the ring must be unchanged before tenants move.
    pub fn stable_after(&self) -> Duration {
        Duration::from_millis(self.stable_after_ms)
    }
}

/// Joins the pool without workers.
///
/// # Errors
/// An error of the pool.
///
/// # Cancel safety
/// As [`NodeBuilder::join`](tenure_pool::NodeBuilder::join).
pub async fn join(backend: Backend, pool: &str, name: &str, timings: &Timings) -> Result<Node, Error> {
    Node::builder(pool, backend)
        .name(name)
        // Nodes crash again and again here: a tenant that has run for a while must not be delayed for it.
        .stable_run(timings.ttl())
        .worker_ttl(timings.ttl())
        .join_settle(timings.join_settle())
        .stable_after(timings.stable_after())
        .assume_fresh(true)
        .join()
        .await
}

fn whole(closed: Result<CloseReport, Error>) -> Result<(), Failed> {
    let report = closed.context("the node could not leave the pool")?;
    let left = || Failed::new(format!("the node still holds {} tenants", report.left.len()));
    if report.complete { Ok(()) } else { Err(left()) }
}

/// A node with its workers.
#[derive(Debug)]
pub struct FeedNode {
    node: Node,
    handlers: Vec<FeedHandler>,
}

impl FeedNode {
    /// Joins the pool with [`WORKERS`] workers that connect to this feed server. They record in the history when they
    /// attend to which tenant.
    ///
    /// # Errors
    /// An error of the pool; the node has left again then, or is expired.
    ///
    /// # Cancel safety
    /// Not safe: a node that has joined continues.
    pub async fn start(
        backend: Backend,
        pool: &str,
        name: &str,
        timings: &Timings,
        feed: SocketAddr,
        history: Option<Arc<History>>,
    ) -> Result<Self, Error> {
        let node = Self::join(backend, pool, name, timings, feed, history).await?;
        node.work().await?;
        Ok(node)
    }

    /// Joins like `start`, without the workers: the moment to begin to listen for signals.
    ///
    /// # Errors
    /// An error of the pool.
    ///
    /// # Cancel safety
    /// Not safe: a node that has joined continues.
    pub async fn join(
        backend: Backend,
        pool: &str,
        name: &str,
        timings: &Timings,
        feed: SocketAddr,
        history: Option<Arc<History>>,
    ) -> Result<Self, Error> {
        let node = join(backend, pool, name, timings).await?;
        let handler = |number| {
            let handler = FeedHandler::new(feed, name, number);
            match &history {
                Some(history) => handler.recorded_in(history.clone()),
                None => handler,
            }
        };
        let handlers = (0..WORKERS).map(handler).collect();
        Ok(Self { node, handlers })
    }

    /// Adds the workers.
    ///
    /// # Errors
    /// An error of the pool.
    ///
    /// # Cancel safety
    /// Not safe: workers that were added continue.
    pub async fn work(&self) -> Result<(), Error> {
        // All at once: the ring then changes once, and no tenant moves twice.
        let added = self.handlers.iter().map(|handler| self.node.add_worker(handler.clone()).into_future());
        futures::future::try_join_all(added).await?;
        Ok(())
    }

    /// Hands all tenants off and leaves the pool. This also works when the pool has been shut down.
    ///
    /// # Errors
    /// An error of the pool, or that it still holds tenants.
    ///
    /// # Cancel safety
    /// As [`Node::close`].
    pub async fn close(&self) -> Result<(), Failed> {
        whole(self.node.close().await)
    }

    /// Hands all tenants off and leaves the pool when the process is told to end. It listens from this call on.
    ///
    /// # Errors
    /// As `close`.
    ///
    /// # Cancel safety
    /// As [`Node::close_on_signal`].
    pub fn close_on_signal(&self) -> impl Future<Output = Result<(), Failed>> + use<> {
        let serving = self.node.close_on_signal(LEAVE);
        async move { whole(serving.await) }
    }

    /// Ends like a dying process: the pool is told nothing, and all connections break off.
    pub fn crash(self) {
        self.node.abandon();
        for handler in &self.handlers {
            handler.cut();
        }
    }
}
