//! An operator: it changes a pool, through a node or by itself.

mod cordoning;
mod draining;
mod hastening;
mod level;
mod notifications;
mod parking;
mod settings;
mod shutdown;
mod steering;

pub(super) use shutdown::CLOSING;
pub use shutdown::{Shutdown, ShutdownReport};
pub use steering::Steer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::{Node, PATIENCE};
use crate::api::builder::{Backend, NodeBuilder};
use crate::api::inspector::Inspector;
use crate::error::Error;

/// How long the client of an operator may take to leave. It holds nothing.
const LEAVING: Duration = Duration::from_secs(2);

/// Changes a pool, for tools and pages of operators: its jobs, workers, nodes and settings, and its end.
///
/// [`Node::operate`] gives the operator of a node. An operator that is [opened](Self::open) by itself finds out the number
/// of shards from the pool. It looks through [an inspector](Self::inspect) of its own, and [joins](Self::node) the pool as
/// a client with the first change.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tenure_pool::{Client, Operator};
///
/// let feeds = Operator::open("feeds", Client::open("redis://127.0.0.1")?).await?;
/// feeds.pause("acme", "their database is being moved").by("anna").await?;
/// println!("{}", feeds.inspect().explain("acme").await?);
/// feeds.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Operator {
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    /// Through a node of the caller.
    Node(Node),
    Alone(Arc<Alone>),
}

/// A pool that no node of the caller is in.
#[derive(Debug)]
struct Alone {
    /// It has the number of shards, and a name.
    builder: NodeBuilder,
    inspector: Inspector,
    client: OnceCell<Node>,
}

impl Node {
    /// Changes the pool, through this node: its jobs, workers, nodes and settings, and its end.
    pub fn operate(&self) -> Operator {
        Operator { way: Way::Node(self.clone()) }
    }
}

impl NodeBuilder {
    /// Opens the pool for an operator, with this name, these options and this [`join_timeout`](Self::join_timeout).
    /// Nothing is joined yet, and the pool must exist. The number of shards need not be given.
    ///
    /// # Errors
    /// - A name or setting is not valid.
    /// - As [`Inspector::open`](crate::Inspector::open), within the `join_timeout` if one is given.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn operate(self) -> Result<Operator, Error> {
        self.validate()?;
        let inspector = self.inspector(PATIENCE).await?;
        let builder = self.shards(u32::try_from(inspector.shards()).unwrap_or(u32::MAX)).must_exist().named();
        Ok(Operator { way: Way::Alone(Arc::new(Alone { builder, inspector, client: OnceCell::new() })) })
    }
}

impl Operator {
    /// Opens the pool of this name, on a [`Client`](crate::Client) or a [`MemoryStore`](crate::MemoryStore).
    /// [`NodeBuilder::operate`] has options.
    ///
    /// # Errors
    /// As [`Inspector::open`](crate::Inspector::open).
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn open(pool: &str, backend: impl Into<Backend>) -> Result<Self, Error> {
        Node::builder(pool, backend).operate().await
    }

    /// Looks at the pool. Through a node, as [`Node::inspect`] does.
    pub fn inspect(&self) -> &Inspector {
        match &self.way {
            Way::Node(node) => node.inspect(),
            Way::Alone(alone) => &alone.inspector,
        }
    }

    /// The node that makes the changes, for what stands on a node: it dispatches, asks and stops jobs. An operator that
    /// was opened by itself joins the pool as a client, once. Each change does so first, and the time of the join does not
    /// count for the time of the change.
    ///
    /// # Errors
    /// As [`NodeBuilder::join`].
    ///
    /// # Cancel safety
    /// As [`NodeBuilder::join`].
    pub async fn node(&self) -> Result<&Node, Error> {
        match &self.way {
            Way::Node(node) => Ok(node),
            Way::Alone(alone) => {
                alone.client.get_or_try_init(|| alone.builder.clone().client_only().join()).await
            }
        }
    }

    /// Leaves the pool, if the operator has joined it by itself, and waits up to 2 s. All clones have left then. The
    /// operator of a node leaves the node as it is. An operator that is dropped leaves in the background.
    ///
    /// # Cancel safety
    /// Safe to drop at any time: the operator goes on leaving.
    pub async fn close(&self) {
        if let Way::Alone(alone) = &self.way
            && let Some(client) = alone.client.get()
        {
            // It holds nothing, so nobody has to know how it went.
            let _ = client.close_within(LEAVING).await;
        }
    }
}
