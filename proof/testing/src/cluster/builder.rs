//! Forms a cluster from nodes, without `redis-cli`.

use std::time::Duration;

use redis::cmd;

use super::{Cluster, MASTERS, Node, SETTLED, SLOTS, ranges};
use crate::{Error, ask::ask, builder as server, tls::Authority, within};

/// After this time without a sign of a node, the others call it failed.
const NODE_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Settings for starting a [`Cluster`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Builder {
    replicas: usize,
    /// The settings of every node.
    node: server::Builder,
    tls: bool,
}

impl Builder {
    /// Gives each master this many replicas.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// Requires this password on every node; it becomes part of [`Cluster::url`].
    pub fn password(mut self, password: impl Into<String>) -> Self {
        let password = password.into();
        self.node = self.node.password(&password).config("masterauth", &password);
        self
    }

    /// Makes clients and the nodes themselves speak TLS only, with certificates like those of [`crate::Builder::tls`].
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn tls(mut self, authority: &Authority) -> Result<Self, Error> {
        self.node = self.node.tls(authority)?.config("tls-cluster", "yes").config("tls-replication", "yes");
        self.tls = true;
        Ok(self)
    }

    /// Sets one directive of `redis.conf` on every node.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.node = self.node.config(name, value);
        self
    }

    /// Starts the nodes, and waits until each of them reports a healthy cluster and knows all others. That takes at
    /// least two seconds: a master never reports it sooner.
    ///
    /// # Errors
    /// When a node cannot be started, or the nodes do not find each other in time; nothing is left behind then.
    ///
    /// # Cancel safety
    /// A dropped start leaves nothing behind.
    pub async fn start(self) -> Result<Cluster, Error> {
        let size = MASTERS * (1 + self.replicas);
        let nodes: Vec<_> = (0..size).map(|_| self.node()).collect::<Result<_, _>>()?;
        for (number, node) in nodes.iter().enumerate() {
            node.server.query::<()>(cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(number + 1))?;
            if number < MASTERS {
                let (first, last) = share(number);
                node.server.query::<()>(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(first).arg(last))?;
            }
        }
        for (number, node) in nodes.iter().enumerate() {
            for other in &nodes[..number] {
                let mut meet = cmd("CLUSTER");
                meet.arg("MEET").arg("127.0.0.1").arg(other.port).arg(other.bus);
                node.server.query::<()>(&meet)?;
            }
        }
        for (number, replica) in nodes.iter().enumerate().skip(MASTERS) {
            let master = &nodes[(number - MASTERS) / self.replicas];
            within(SETTLED, "a replica that knows its master", async || {
                ask::<()>(replica.server.control(), cmd("CLUSTER").arg("REPLICATE").arg(&master.id)).await
            })
            .await?;
        }
        let login = nodes.first().and_then(|node| node.server.login().cloned());
        let cluster = Cluster { nodes, login, tls: self.tls };
        cluster.await_state("ok").await?;
        within(SETTLED, "nodes that know each other", async || -> Result<(), String> {
            for node in &cluster.nodes {
                self.knows_all(&cluster, node).await?;
            }
            Ok(())
        })
        .await?;
        Ok(cluster)
    }

    fn node(&self) -> Result<Node, Error> {
        let server = self
            .node
            .clone()
            .cluster()
            .config("cluster-node-timeout", &NODE_TIMEOUT.as_millis().to_string())
            .config("cluster-announce-ip", "127.0.0.1")
            // A replica may take over whatever it has missed, and it stays with its master.
            .config("cluster-replica-validity-factor", "0")
            .config("cluster-allow-replica-migration", "no")
            .config("repl-diskless-sync-delay", "0")
            .config("repl-ping-replica-period", "1")
            .start()?;
        // The line is: id, ip:port@bus, flags, …
        let line: String = server.query(cmd("CLUSTER").arg("NODES"))?;
        let mut words = line.split_ascii_whitespace();
        let id = words.next().unwrap_or_default().to_owned();
        let bus = words.next().and_then(|address| address.split(['@', ',']).nth(1)?.parse().ok());
        let Some(bus) = bus else {
            return Err(Error::late("a node's own line", line));
        };
        Ok(Node { port: server.address().port().unwrap_or_default(), bus, id, server })
    }

    /// Checks that a node knows the owner and the replicas of every slot, and is in step with its master if it has one.
    async fn knows_all(&self, cluster: &Cluster, node: &Node) -> Result<(), String> {
        let ranges = ranges(&node.server).await?;
        let slots: usize = ranges.iter().map(|range| range.slots.len()).sum();
        let nodes: usize = ranges.iter().map(|range| 1 + range.replicas.len()).sum();
        if slots != usize::from(SLOTS) || nodes != cluster.size() || ranges.len() != MASTERS {
            return Err(format!("a node knows {slots} slots and {nodes} nodes in {} ranges", ranges.len()));
        }
        let replication: String = ask(node.server.control(), cmd("INFO").arg("replication")).await?;
        let is_fine = |line: &str| line == "role:master" || line == "master_link_status:up";
        if replication.lines().any(is_fine) { Ok(()) } else { Err(replication) }
    }
}

/// The slots that a master begins with.
fn share(number: usize) -> (usize, usize) {
    let first = |number| number * usize::from(SLOTS) / MASTERS;
    (first(number), first(number + 1) - 1)
}
