//! The move of a slot from one master to another, in the real steps, so that a test can look in between.

use std::time::Duration;

use redis::cmd;

use super::{Cluster, Node, SETTLED};
use crate::{Error, within};

/// The longest time in which the source may hand keys over.
const HAND_OVER: Duration = Duration::from_secs(10);

/// A slot that is moving. Dropping this changes nothing: the slot stays half moved.
#[must_use]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl<'a> Migration<'a> {
    pub(super) async fn begin(cluster: &'a Cluster, slot: u16, to: usize) -> Result<Self, Error> {
        let from = cluster.owner(slot).await?;
        let this = Self { cluster, slot, from, to };
        this.set_slot(this.to, &["IMPORTING", &this.node(from).id])?;
        this.set_slot(this.from, &["MIGRATING", &this.node(to).id])?;
        Ok(this)
    }

    /// The number of the slot's source node.
    pub fn from(&self) -> usize {
        self.from
    }

    /// Moves at most `most` keys. Returns how many; 0 says that none are left.
    ///
    /// # Errors
    /// When a node does not answer, or the source cannot hand a key over.
    pub fn move_keys(&self, most: usize) -> Result<usize, Error> {
        let (from, to) = (self.node(self.from), self.node(self.to));
        let mut question = cmd("CLUSTER");
        question.arg("GETKEYSINSLOT").arg(self.slot).arg(most);
        let keys: Vec<Vec<u8>> = from.server.query(&question)?;
        if keys.is_empty() {
            return Ok(0);
        }
        let mut migrate = cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(to.port).arg("").arg(0).arg(HAND_OVER.as_millis() as u64);
        if let Some(login) = &self.cluster.login {
            migrate.arg("AUTH").arg(&login.password);
        }
        migrate.arg("KEYS").arg(&keys);
        from.server.query::<()>(&migrate)?;
        Ok(keys.len())
    }

    /// Gives the slot to its new owner, and waits until all nodes know. The old owner must have no keys left.
    ///
    /// # Errors
    /// When a node does not answer, or the nodes do not agree in time.
    ///
    /// # Cancel safety
    /// When dropped, only some nodes may know; you can finish again.
    pub async fn finish(&self) -> Result<(), Error> {
        // The new owner comes first: otherwise nobody has the slot for a moment.
        self.give(self.to)?;
        self.give(self.from)?;
        for (number, node) in self.cluster.nodes.iter().enumerate() {
            if number != self.to && number != self.from && node.server.is_running() {
                // A replica refuses this: its master tells it.
                let _ = self.give(number);
            }
        }
        within(SETTLED, "the nodes' agreement on the slot's new owner", async || -> Result<(), String> {
            match self.cluster.named_owner(self.slot).await? {
                owner if owner == self.to => Ok(()),
                owner => Err(format!("they name the node {owner}")),
            }
        })
        .await
    }

    /// Cancels the move: the slot stays where it was. Clients lose the keys that have moved.
    ///
    /// # Errors
    /// When a node does not answer.
    pub fn call_off(self) -> Result<(), Error> {
        self.set_slot(self.from, &["STABLE"])?;
        self.set_slot(self.to, &["STABLE"])
    }

    fn give(&self, number: usize) -> Result<(), Error> {
        self.set_slot(number, &["NODE", &self.node(self.to).id])
    }

    fn set_slot(&self, number: usize, words: &[&str]) -> Result<(), Error> {
        self.node(number).server.query(cmd("CLUSTER").arg("SETSLOT").arg(self.slot).arg(words))
    }

    fn node(&self, number: usize) -> &Node {
        &self.cluster.nodes[number]
    }
}
