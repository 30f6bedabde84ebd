//! What a client knows about its cluster, and how it learns more. Only data is shared: whoever needs to know asks by
//! itself, on its own runtime.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use tokio::time::Instant;

use crate::Error;
use crate::address::Address;
use crate::link::{self, Settings, Step};
use crate::topology::Topology;
use crate::turns::first_answer;

pub(crate) struct Directory {
    seeds: Vec<Address>,
    known: Mutex<Known>,
    /// Counts the questions: each begins with another node.
    turn: AtomicUsize,
}

struct Known {
    topology: Arc<Topology>,
    asked_at: Option<Instant>,
}

impl Directory {
    pub(crate) fn new(seeds: Vec<Address>) -> Arc<Self> {
        let known = Known { topology: Arc::new(Topology::unknown()), asked_at: None };
        Arc::new(Self { seeds, known: Mutex::new(known), turn: AtomicUsize::new(0) })
    }

    pub(crate) fn seeds(&self) -> &[Address] {
        &self.seeds
    }

    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.lock().topology.clone()
    }

    /// A node said that a slot is elsewhere.
    pub(crate) fn moved(&self, slot: u16, owner: Address) {
        let mut known = self.lock();
        known.topology = Arc::new(known.topology.with_owner(slot, owner));
    }

    /// Asks the nodes, within the connect timeout, unless somebody did after `since`.
    pub(crate) async fn refresh(&self, since: Instant, settings: &Settings) -> Result<(), Error> {
        let known = self.topology();
        if self.lock().asked_at.is_some_and(|at| at > since) {
            return Ok(());
        }
        let mut nodes: Vec<&Address> = known.masters().iter().collect();
        nodes.extend(self.seeds.iter().filter(|seed| !known.masters().contains(seed)));
        let start = self.turn.fetch_add(1, Ordering::Relaxed) % nodes.len().max(1);
        nodes.rotate_left(start);
        let asked_at = Instant::now();
        let questions = nodes.into_iter().map(|node| ask(node, settings).boxed()).collect();
        let (_, topology) = first_answer(questions, settings.connect_timeout).await?;
        let mut known = self.lock();
        // An answer to an older question must not replace that to a newer one.
        if known.asked_at.is_none_or(|at| at < asked_at) {
            *known = Known { topology: Arc::new(topology), asked_at: Some(asked_at) };
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(node: &Address, settings: &Settings) -> Result<Topology, Error> {
    told_by(node, settings).await.inspect_err(|error| {
        let error = error as &dyn std::error::Error;
        tracing::debug!(%node, error, "a node does not tell who owns the slots");
    })
}

async fn told_by(node: &Address, settings: &Settings) -> Result<Topology, Error> {
    let mut wire = link::open(node, settings).await?;
    let mut steps = settings.login();
    steps.push((Step::Question, redis::cmd("CLUSTER").arg("SLOTS").take()));
    let reply = link::ask(&mut wire, &steps).await.map_err(Error::during_setup)?;
    let topology = Topology::parse(&reply, node).map_err(Error::during_setup)?;
    if topology.masters().is_empty() {
        // A node that was just reset or has met nobody yet.
        return Err(Error::unreachable("the node knows no owner of any slot"));
    }
    Ok(topology)
}
