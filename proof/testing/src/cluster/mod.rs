//! A Redis Cluster of three masters on 127.0.0.1, with optional replicas.
//!
//! `builder.rs` forms the cluster, `migration.rs` moves slots in steps.

mod builder;
mod migration;

use std::{ops::RangeInclusive, time::Duration};

use redis::{FromRedisValue, Value, cmd};
use tokio::time::Instant;

pub use builder::Builder;
pub use migration::Migration;

use crate::{
    Error, RedisServer,
    address::{Login, url_of_many},
    ask::ask,
    inspect::set_user,
    within,
};

/// The number of masters, each of which begins with a third of the slots.
pub const MASTERS: usize = 3;

/// The number of slots.
pub const SLOTS: u16 = 16_384;

/// The longest time in which the nodes may reach the awaited state.
const SETTLED: Duration = Duration::from_secs(60);
/// After this time the nodes have cancelled an ordered fail-over, which they do after five seconds.
const CALLED_OFF: Duration = Duration::from_secs(6);

/// A cluster; dropping it kills and removes all its nodes.
///
/// Nodes have numbers: first the masters, then the replicas of the first master, of the second, and so on. They keep
/// their numbers after a fail-over.
pub struct Cluster {
    nodes: Vec<Node>,
    login: Option<Login>,
    tls: bool,
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

    /// Settings for a cluster.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The address: `redis+cluster://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c` with the initial masters, and the password if
    /// there is one; `rediss+cluster://` with TLS.
    pub fn url(&self) -> String {
        self.url_of(self.login.as_ref())
    }

    /// Makes a user on every node, like [`RedisServer::acl_user`], and returns the address by which that user connects
    /// to the cluster.
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

    /// The number of nodes, replicas included.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// A node by its number: to pause, kill and restart it, or for its own address. After a restart with
    /// [`Data::Wipe`](crate::Data::Wipe) the node has forgotten the cluster.
    ///
    /// # Panics
    /// When no such node exists.
    pub fn node(&self, number: usize) -> &RedisServer {
        &self.nodes[number].server
    }

    /// The slot of a key, as the nodes compute it.
    ///
    /// # Errors
    /// When the first node does not answer.
    pub fn slot(&self, key: &str) -> Result<u16, Error> {
        self.nodes[0].server.query(cmd("CLUSTER").arg("KEYSLOT").arg(key))
    }

    /// The number of the node that owns a slot, according to all running nodes that are not paused.
    ///
    /// # Errors
    /// When they disagree at this moment.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn owner(&self, slot: u16) -> Result<usize, Error> {
        let what = "the nodes' agreement on a slot's owner";
        self.named_owner(slot).await.map_err(|seen| Error::late(what, seen))
    }

    /// Waits until all running nodes that are not paused name another owner of the slot than `old`, and report a
    /// healthy cluster. Returns the owner's number.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn await_new_owner(&self, slot: u16, old: usize) -> Result<usize, Error> {
        let owner = within(SETTLED, "another owner of the slot", async || -> Result<usize, String> {
            match self.named_owner(slot).await? {
                owner if owner == old => Err(format!("it is still the node {old}")),
                owner => Ok(owner),
            }
        })
        .await?;
        self.await_state("ok").await?;
        Ok(owner)
    }

    /// Waits until all running nodes that are not paused report this cluster state: `ok`, or `fail` when slots have no
    /// node.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn await_state(&self, state: &str) -> Result<(), Error> {
        let expected = format!("cluster_state:{state}");
        within(SETTLED, "the cluster's state", async || -> Result<(), String> {
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

    /// Waits until a node is a replica in step with its master, and all running nodes that are not paused know it as
    /// one. Returns the number of its master.
    ///
    /// # Errors
    /// When that does not happen in time.
    ///
    /// # Cancel safety
    /// Safe: it only asks.
    pub async fn await_replica(&self, number: usize) -> Result<usize, Error> {
        let node = &self.nodes[number];
        within(SETTLED, "a replica that all nodes know", async || {
            let info: String = ask(node.server.control(), cmd("INFO").arg("replication")).await?;
            if !info.lines().any(|line| line == "master_link_status:up") {
                return Err(info);
            }
            let mut masters = Vec::new();
            for other in self.running() {
                let known =
                    ranges(&other.server).await?.into_iter().find(|range| range.replicas.contains(&node.id));
                masters.push(known.map(|range| range.owner));
            }
            self.agreed(&masters)
        })
        .await
    }

    /// Makes a replica the master, in good order (`CLUSTER FAILOVER`), and waits until all nodes know. Returns the
    /// number of its former master, which is now its replica.
    ///
    /// # Errors
    /// As [`await_replica`](Self::await_replica), or when the fail-over does not happen in time.
    ///
    /// # Cancel safety
    /// When dropped, the fail-over may still happen.
    pub async fn promote(&self, replica: usize) -> Result<usize, Error> {
        let master = self.await_replica(replica).await?;
        let order = cmd("CLUSTER").arg("FAILOVER").to_owned();
        // A busy machine may need longer than the nodes allow; they then cancel the fail-over.
        let mut ordered: Option<Instant> = None;
        within(SETTLED, "a fail-over on order", async || -> Result<(), String> {
            if ordered.is_none_or(|at| at.elapsed() > CALLED_OFF) {
                ask::<()>(self.nodes[replica].server.control(), &order).await?;
                ordered = Some(Instant::now());
            }
            for node in self.running() {
                let ranges = ranges(&node.server).await?;
                if ranges.iter().any(|range| range.owner == self.nodes[master].id) {
                    return Err(format!("a node says that the node {master} is a master"));
                }
            }
            Ok(())
        })
        .await?;
        self.await_state("ok").await?;
        Ok(master)
    }

    /// Begins to move a slot from its owner to another master. From now on, nodes answer `ASK` for keys that the slot
    /// does not have yet.
    ///
    /// # Errors
    /// When the nodes disagree on the slot's owner, or `to` is not another master.
    ///
    /// # Cancel safety
    /// When dropped, one of the two nodes may know already; you can begin again.
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
        let scheme = if self.tls { "rediss+cluster" } else { "redis+cluster" };
        url_of_many(scheme, login, self.nodes.iter().take(MASTERS).map(|node| node.port))
    }

    fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.server.is_running())
    }

    async fn named_owner(&self, slot: u16) -> Result<usize, String> {
        let mut named = Vec::new();
        for node in self.running() {
            let ranges = ranges(&node.server).await?;
            named.push(ranges.into_iter().find(|range| range.slots.contains(&slot)).map(|range| range.owner));
        }
        self.agreed(&named)
    }

    /// The number of the node whose id all name.
    fn agreed(&self, named: &[Option<String>]) -> Result<usize, String> {
        let numbers: Vec<_> =
            named.iter().map(|id| self.nodes.iter().position(|node| Some(&node.id) == id.as_ref())).collect();
        match numbers.first() {
            Some(Some(first)) if numbers.iter().all(|number| *number == Some(*first)) => Ok(*first),
            _ => Err(format!("the nodes name {numbers:?}")),
        }
    }
}

/// Neighbouring slots of one master.
struct Range {
    slots: RangeInclusive<u16>,
    /// The master's id.
    owner: String,
    /// The ids of its replicas.
    replicas: Vec<String>,
}

/// A node's view of the owners of slots.
async fn ranges(server: &RedisServer) -> Result<Vec<Range>, String> {
    // A range is its first slot, its last, its master and its replicas; a node is its address, its port, its id, …
    let slots: Vec<Vec<Value>> = ask(server.control(), cmd("CLUSTER").arg("SLOTS")).await?;
    let id = |node: &Value| String::from_redis_value(node.as_sequence()?.get(2)?.clone()).ok();
    slots
        .iter()
        .map(|range| match range.as_slice() {
            [Value::Int(first), Value::Int(last), master, replicas @ ..] => Some(Range {
                slots: u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?,
                owner: id(master)?,
                replicas: replicas.iter().map(id).collect::<Option<_>>()?,
            }),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| format!("unexpected slots: {slots:?}"))
}
