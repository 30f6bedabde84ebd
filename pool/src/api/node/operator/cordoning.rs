//! Nodes that get no new jobs.

use futures::future::try_join_all;

use super::Operator;
use crate::api::node::Shard;
use crate::error::Error;
use crate::model::event::{EventKind, News};
use crate::model::id::NodeName;
use crate::store::{Cordon, Refusal, StoreError};

impl Operator {
    /// Cordons the node with this name: no worker of it gets a new job from now on. Its workers keep the jobs that they
    /// have, and nobody moves these. Use it to look at a node that behaves oddly, or before work on it. The cordon names
    /// the node, so it lasts when the node is started anew. It ends with [`uncordon`](Self::uncordon), with the pool, or
    /// with a loss of its members. A node without workers can be cordoned, too.
    ///
    /// A whole node is the unit, because its workers share its process. Their ids end with it, so a cordon of one of them
    /// would not last. The node of a worker is [`WorkerInfo::node`](crate::inspect::WorkerInfo::node). To empty one worker,
    /// [`drain`](Self::drain) it.
    ///
    /// The call returns when the cordon is recorded. A job that a worker was assigned before may still begin there.
    ///
    /// ```no_run
    /// # async fn example(feeds: tenure_pool::Operator) -> Result<(), tenure_pool::Error> {
    /// feeds.cordon("feeds-7").await?;
    /// // Look at it, or drain it for good: feeds.drain_node("feeds-7").await?;
    /// feeds.uncordon("feeds-7").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`Error::Name`]: that is no name of a node. Nothing was written.
    /// - The pool was shut down, or the node is closed.
    /// - There is no answer within 20 s: the cordon may be recorded, with several shards also in some only. Call it again.
    ///
    /// # Cancel safety
    /// After a dropped call the cordon may be recorded or not, with several shards also in some only.
    pub async fn cordon(&self, node: &str) -> Result<(), Error> {
        self.set_cordon(node, true).await
    }

    /// Lifts the [cordon](Self::cordon) of the node with this name. Jobs that belong there move there when the ring has
    /// been stable for a while. A node that is not cordoned stays so.
    ///
    /// # Errors
    /// As `cordon`.
    ///
    /// # Cancel safety
    /// After a dropped call the cordon may be lifted or not, with several shards also in some only.
    pub async fn uncordon(&self, node: &str) -> Result<(), Error> {
        self.set_cordon(node, false).await
    }

    async fn set_cordon(&self, node: &str, on: bool) -> Result<(), Error> {
        let node = NodeName::new(node).map_err(Error::Name)?;
        let shards = &self.node().await?.shards;
        let set = shards.iter().map(|shard| shard.patiently(shard.set_cordon(&node, on)));
        try_join_all(set).await?;
        Ok(())
    }
}

impl Shard {
    async fn set_cordon(&self, node: &NodeName, on: bool) -> Result<(), Error> {
        self.insist(|store, incarnation| async move {
            let seen = store.members().borrow().revision;
            match store.run(incarnation, &Cordon { seen, node: node.clone(), on }).await {
                // This node has not yet heard of the last change.
                Err(StoreError::Refused(Refusal::StaleRing(present))) => {
                    store.run(incarnation, &Cordon { seen: present, node: node.clone(), on }).await
                }
                answer => answer,
            }
        })
        .await?;
        let asked = if on { format!("cordon of {node}") } else { format!("no cordon of {node}") };
        self.note(News::new(EventKind::Asked).saying(&asked));
        Ok(())
    }
}
