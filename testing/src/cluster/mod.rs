//! A Redis Cluster of three masters on 127.0.0.1, with replicas if a test wants them.
//!
//! `builder.rs` brings the nodes together, `migration.rs` moves slots in steps.

mod builder;
mod migration;

use std::time::Duration;

use redis::{Value, cmd};
use tokio::time::Instant;

pub use builder::Builder;
pub use migration::Migration;

use crate::{
    Error, RedisServer,
    address::{Login, url_of_many},
    inspect::set_user,
    settle::{ask, settled},
};

/// How many masters there are, each of which begins with a third of the slots.
pub const MASTERS: usize = 3;

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// How long the nodes may take to be in the state that was awaited.
const SETTLED: Duration = Duration::from_secs(60);
/// The nodes call a fail-over off that was ordered five seconds ago.
const CALLED_OFF: Duration = Duration::from_secs(6);

/// A cluster; all its nodes are killed and removed when it is dropped.
///
/// Nodes are named by their number: first the masters, then the replicas of the first master, of the second, and so on.
/// After a fail-over they keep their numbers.
pub struct Cluster {
    nodes: Vec<Node>,
    login: Option<Login>,
}

struct Node {
    server: RedisServer,
    port: u16,
    bus: u16,
    id: String,
}

impl Cluster {
    /// Starts three masters without replicas.
    ///
    /// # Errors
    /// As [`Builder::start`].
    ///
    /// # Cancel safety
    /// As [`Builder::start`].
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// A cluster with settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The address: `redis+cluster://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c` with the masters that it began with, and the
    /// password if there is one.
    pub fn url(&self) -> String {
        self.url_of(self.login.as_ref())
    }

    /// Makes a user on every node, as [`RedisServer::acl_user`] does, and gives the address by which it connects to the
    /// cluster.
    ///
    /// # Errors
    /// When a node does not answer or does not know a right.
    pub fn acl_user(&self, name: &str, password: &str, rights: &[&str]) -> Result<String, Error> {
        let login = Login { user: name.to_owned(), password: password.to_owned() };
        for node in &self.nodes {
            node.server.query::<()>(&set_user(&login, rights))?;
        }
        Ok(self.url_of(Some(&login)))
    }

    /// How many nodes there are, replicas included.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// A node, by its number: to pause, kill and restart it, or for its own address. A node that is restarted with
    /// [`Data::Wipe`](crate::Data::Wipe) has forgotten the cluster.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node(&self, number: usize) -> &RedisServer {
        &self.nodes[number].server
    }

    /// The slot of a key, as the nodes count it.
    ///
    /// # Errors
    /// When the first node does not answer.
    pub fn slot(&self, key: &str) -> Result<u16, Error> {
        self.nodes[0].server.query(cmd("CLUSTER").arg("KEYSLOT").arg(key))
    }

    /// The number of the node that owns a slot, by the word of all nodes that run and are not paused.
    ///
    /// # Errors
    /// When they do not agree at this moment.
    ///
    /// # Cancel safety
    /// Only asks.
    pub async fn owner(&self, slot: u16) -> Result<usize, Error> {
        settled(Duration::ZERO, "the nodes' agreement on a slot's owner", async || {
            self.named_owner(slot).await
        })
        .await
    }

    /// Waits until all nodes that run and are not paused name another owner of the slot than `old`, and are fine.
    /// Gives its number.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Only asks.
    pub async fn await_new_owner(&self, slot: u16, old: usize) -> Result<usize, Error> {
        let owner =
            settled(SETTLED, "another owner of the slot", async || match self.named_owner(slot).await? {
                owner if owner == old => Err(format!("it is still the node {old}")),
                owner => Ok(owner),
            })
            .await?;
        self.await_state("ok").await?;
        Ok(owner)
    }

    /// Waits until all nodes that run and are not paused say that the cluster's state is this: `ok`, or `fail` when
    /// slots are without a node.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Only asks.
    pub async fn await_state(&self, state: &str) -> Result<(), Error> {
        let expected = format!("cluster_state:{state}");
        settled(SETTLED, "the cluster's state", async || {
            for node in self.running() {
                let info: String = ask(node.server.control(), cmd("CLUSTER").arg("INFO")).await?;
                if !info.lines().any(|line| line == expected) {
                    return Err(info);
                }
            }
            Ok(())
        })
        .await
    }

    /// Makes a replica the master, in good order (`CLUSTER FAILOVER`), and waits until all nodes know. Gives the number
    /// of the master that it was a replica of, and that is now its replica.
    ///
    /// # Errors
    /// When the node is no replica, or the fail-over does not happen in time.
    ///
    /// # Cancel safety
    /// When dropped, the fail-over may still happen.
    pub async fn promote(&self, replica: usize) -> Result<usize, Error> {
        let (master, slot) = settled(SETTLED, "a master that knows its replica", async || {
            let (port, own) = (self.nodes[replica].port, &self.nodes[replica].server);
            let known = ranges(own).await?.into_iter().find(|range| range.replicas.contains(&port));
            let range = known.ok_or("it is no replica of a master with slots")?;
            let master =
                self.nodes.iter().position(|node| node.port == range.port).ok_or("unknown master")?;
            let word = ranges(&self.nodes[master].server).await?;
            let is_known = word.iter().any(|range| range.replicas.contains(&port));
            is_known.then_some((master, range.first)).ok_or_else(|| "its master does not know it".to_owned())
        })
        .await?;
        let order = cmd("CLUSTER").arg("FAILOVER").to_owned();
        // A busy machine may need longer than the nodes allow, which then call it off.
        let mut ordered: Option<Instant> = None;
        settled(SETTLED, "a fail-over on order", async || {
            if ordered.is_none_or(|at| at.elapsed() > CALLED_OFF) {
                ask::<()>(self.nodes[replica].server.control(), &order).await?;
                ordered = Some(Instant::now());
            }
            match self.named_owner(slot).await? {
                owner if owner == replica => Ok(()),
                owner => Err(format!("it is still the node {owner}")),
            }
        })
        .await?;
        self.await_state("ok").await?;
        Ok(master)
    }

    /// Begins to move a slot from its owner to another master. Keys that are not there yet are answered with `ASK` from
    /// now on.
    ///
    /// # Errors
    /// When the nodes do not agree on the slot's owner, or `to` is no other master.
    ///
    /// # Cancel safety
    /// When dropped, one of the two nodes may be told already; to begin anew is fine.
    pub async fn begin_migration(&self, slot: u16, to: usize) -> Result<Migration<'_>, Error> {
        Migration::begin(self, slot, to).await
    }

    /// Moves a slot with all its keys to another master, and waits until all nodes know.
    ///
    /// # Errors
    /// As for [`begin_migration`](Self::begin_migration) and the steps of a [`Migration`].
    ///
    /// # Cancel safety
    /// When dropped, the slot may be half moved.
    pub async fn migrate_slot(&self, slot: u16, to: usize) -> Result<(), Error> {
        let migration = self.begin_migration(slot, to).await?;
        while migration.move_keys(100)? > 0 {}
        migration.finish().await
    }

    fn url_of(&self, login: Option<&Login>) -> String {
        url_of_many("redis+cluster", login, self.nodes.iter().take(MASTERS).map(|node| node.port))
    }

    fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.server.is_running())
    }

    async fn named_owner(&self, slot: u16) -> Result<usize, String> {
        let mut named = Vec::new();
        for node in self.running() {
            let ranges = ranges(&node.server).await?;
            named.push(
                ranges
                    .iter()
                    .find(|range| (range.first..=range.last).contains(&slot))
                    .map(|range| range.port),
            );
        }
        let owner = named.first().copied().flatten();
        let owner = self.nodes.iter().position(|node| Some(node.port) == owner);
        match owner {
            Some(owner) if named.iter().all(|port| Some(port) == named.first()) => Ok(owner),
            _ => Err(format!("the nodes name {named:?}")),
        }
    }
}

/// Slots next to each other that one master owns.
struct Range {
    first: u16,
    last: u16,
    port: u16,
    replicas: Vec<u16>,
}

/// What a node says about who owns what.
async fn ranges(server: &RedisServer) -> Result<Vec<Range>, String> {
    let slots: Vec<Vec<Value>> = ask(server.control(), cmd("CLUSTER").arg("SLOTS")).await?;
    slots
        .iter()
        .map(|range| match range.as_slice() {
            [Value::Int(first), Value::Int(last), master, replicas @ ..] => Some(Range {
                first: u16::try_from(*first).ok()?,
                last: u16::try_from(*last).ok()?,
                port: port(master.as_sequence()?)?,
                replicas: replicas.iter().map(|node| port(node.as_sequence()?)).collect::<Option<_>>()?,
            }),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| format!("unexpected slots: {slots:?}"))
}

/// The port of a node: an array that begins with its address and its port.
fn port(node: &[Value]) -> Option<u16> {
    match node.get(1)? {
        Value::Int(port) => u16::try_from(*port).ok(),
        _ => None,
    }
}
