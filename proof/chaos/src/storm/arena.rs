//! The targets of the faults: the servers, the proxies before them, and the node processes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use tenure_connection::Client;
use tenure_pool::store::RedisStore;
use tenure_protocol::model::id::PoolName;
use tenure_testing::history::History;
use tenure_testing::{Proxy, RedisServer, Sentinels, sentinels};

use crate::Result;
use crate::node::{NodePlan, PoolPlan, Watched};
use crate::process::NodeProcess;

/// The number of node processes.
pub(super) const NODES: usize = 5;
/// The number of users' nodes, in the conductor's process.
pub(super) const USERS: usize = 2;
/// The longest time for a node to leave.
const LEAVE: Duration = Duration::from_secs(60);

/// The pool's Redis.
pub(super) enum Ground {
    /// A server, and a proxy before it for each node and each user.
    One {
        server: RedisServer,
        proxies: Vec<Proxy>,
    },
    Sentinels(Sentinels),
}

impl Ground {
    /// A server that keeps its data on its disk.
    pub(super) async fn one() -> Result<Self> {
        let server = RedisServer::builder().append_only().start()?;
        let mut proxies = Vec::new();
        for _ in 0..NODES + USERS {
            proxies.push(Proxy::start(&server).await?);
        }
        Ok(Self::One { server, proxies })
    }

    pub(super) async fn sentinels() -> Result<Self> {
        Ok(Self::Sentinels(sentinels::Builder::default().start().await?))
    }

    /// The address of Redis for the node or user of this place.
    pub(super) fn url(&self, place: usize) -> String {
        match self {
            Self::One { proxies, .. } => proxies[place].url(),
            Self::Sentinels(sentinels) => sentinels.url(),
        }
    }

    /// The address without proxies.
    pub(super) fn plain_url(&self) -> String {
        match self {
            Self::One { server, .. } => server.url(),
            Self::Sentinels(sentinels) => sentinels.url(),
        }
    }

    /// The server that accepts writes.
    pub(super) async fn server(&self) -> Result<&RedisServer> {
        match self {
            Self::One { server, .. } => Ok(server),
            Self::Sentinels(sentinels) => Ok(sentinels.master().await?),
        }
    }
}

/// A place for a node, and its inhabitant.
struct Place {
    lives: usize,
    node: Option<NodeProcess>,
}

/// The ground and the nodes on it.
pub(super) struct Arena {
    pub(super) ground: Ground,
    pool: PoolPlan,
    resource: SocketAddr,
    dir: PathBuf,
    /// The conductor's actions on nodes.
    pub(super) history: Arc<History>,
    places: Vec<Place>,
    /// The forbidden actions of nodes.
    pub(super) strange: Vec<String>,
    /// The names of all scripts, by their hashes in Redis.
    scripts: BTreeMap<String, String>,
}

impl Arena {
    /// An arena without running nodes.
    pub(super) fn new(ground: Ground, pool: PoolPlan, resource: SocketAddr, dir: PathBuf) -> Result<Self> {
        let history = Arc::new(History::append_to(dir.join("conductor.history"))?);
        let places = (0..NODES).map(|_| Place { lives: 0, node: None }).collect();
        let store = RedisStore::open(&Client::open(&ground.plain_url())?, &PoolName::new(&pool.pool)?);
        let scripts = store.script_hashes().into_iter().map(|(name, hash)| (hash, name)).collect();
        Ok(Self { ground, pool, resource, dir, history, places, strange: Vec::new(), scripts })
    }

    /// The number of lost replies for each script.
    pub(super) fn lost_replies(&self) -> BTreeMap<String, u64> {
        let mut lost: BTreeMap<_, _> = self.scripts.values().map(|name| (name.clone(), 0)).collect();
        let Ground::One { proxies, .. } = &self.ground else { return BTreeMap::new() };
        for (hash, count) in proxies.iter().flat_map(Proxy::lost_replies) {
            if let Some(sum) = self.scripts.get(&hash).and_then(|name| lost.get_mut(name)) {
                *sum += count;
            }
        }
        lost
    }

    /// Makes each node and each user lose the next reply of every script of which no reply was lost yet, and of one
    /// more.
    pub(super) fn lose_replies_to_the_unreached(&self, random: &mut StdRng) {
        let Ground::One { proxies, .. } = &self.ground else { return };
        let lost = self.lost_replies();
        let another = self.scripts.keys().choose(random);
        let unreached =
            self.scripts.iter().filter(|(_, name)| lost.get(*name).is_none_or(|&count| count == 0));
        let hashes: Vec<String> = unreached.map(|(hash, _)| hash).chain(another).cloned().collect();
        for proxy in proxies {
            proxy.lose_reply_to(hashes.iter().cloned());
        }
    }

    /// Starts a node at this place without waiting for it.
    pub(super) fn start(&mut self, place: usize) -> Result<()> {
        let node = self.new_life(place)?;
        self.places[place].node = Some(node);
        Ok(())
    }

    /// Starts another life of the node at this place, beside the present one.
    pub(super) fn new_life(&mut self, place: usize) -> Result<NodeProcess> {
        self.places[place].lives += 1;
        let name = format!("n{}-{}", place + 1, self.places[place].lives);
        let plan = NodePlan {
            url: self.ground.url(place),
            pool: self.pool.clone(),
            // Some nodes have two workers.
            workers: 1 + place % 2,
            watched: Some(Watched {
                history: self.dir.join(format!("{name}.history")),
                resource: Some(self.resource),
                // Longer than a hand-off takes, if a premature one must be found.
                longest_end_ms: if self.pool.broken.is_some() { 800 } else { 40 },
            }),
            name,
        };
        let log = self.dir.join(format!("{}.log", plan.name));
        NodeProcess::start(plan, &log, "error")
    }

    /// The node at this place, ready or not.
    pub(super) fn take(&mut self, place: usize) -> Option<NodeProcess> {
        self.places[place].node.take()
    }

    /// Puts a node at this place.
    pub(super) fn put(&mut self, place: usize, node: NodeProcess) {
        self.places[place].node = Some(node);
    }

    /// The places with a ready node, beginning with this one.
    pub(super) fn ready_from(&mut self, place: usize) -> Vec<usize> {
        let is_ready = |&place: &usize| self.places[place].node.as_mut().is_some_and(NodeProcess::is_ready);
        (0..NODES).map(|offset| (place + offset) % NODES).filter(is_ready).collect()
    }

    /// The places without a node.
    pub(super) fn empty(&self) -> Vec<usize> {
        (0..NODES).filter(|&place| self.places[place].node.is_none()).collect()
    }

    /// Kills a node, and records that.
    pub(super) async fn kill(&self, node: &mut NodeProcess) -> Result<()> {
        node.kill().await?;
        self.is_gone(node);
        Ok(())
    }

    /// Makes a node leave, and records that.
    pub(super) async fn leave(&mut self, mut node: NodeProcess) -> Result<()> {
        if !node.leave(LEAVE).await?.success() {
            self.strange.push(format!("{} left badly", node.name()));
        }
        self.is_gone(&node);
        Ok(())
    }

    /// Notes the nodes that have ended by themselves.
    pub(super) fn look_for_the_dead(&mut self) {
        for place in &mut self.places {
            if place.node.as_mut().is_some_and(|node| !node.is_running())
                && let Some(node) = place.node.take()
            {
                self.strange.push(format!("{} ended by itself", node.name()));
                node.plan().worker_names().for_each(|worker| self.history.worker_dead(&worker));
            }
        }
    }

    /// Whether all nodes have ended; ended ones are forgotten.
    pub(super) fn all_ended(&mut self) -> bool {
        for place in &mut self.places {
            if place.node.as_mut().is_some_and(|node| !node.is_running()) {
                place.node = None;
            }
        }
        self.empty().len() == NODES
    }

    fn is_gone(&self, node: &NodeProcess) {
        node.plan().worker_names().for_each(|worker| self.history.worker_dead(&worker));
    }
}

/// Kills `count` ready nodes, unless hardly one would be left.
pub(super) async fn kill(arena: &mut Arena, first: usize, count: usize) -> Result<bool> {
    let ready = arena.ready_from(first);
    if ready.len() < count + 2 {
        return Ok(false);
    }
    for &place in &ready[..count] {
        if let Some(mut node) = arena.take(place) {
            arena.kill(&mut node).await?;
        }
    }
    Ok(true)
}
