//! Commands to the nodes of a cluster: each to the owner of its slot, over one shared connection per node.
//!
//! Invariants:
//! - Only what was not executed is sent again: what no connection could be made for, and what a node answered with a
//!   redirect. All of it happens within the caller's deadline, and a command follows a bounded number of redirects.
//! - Who owns what is asked after a redirect, after a node could not be reached or stopped answering, and when nothing
//!   is known yet.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use redis::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::address::Address;
use crate::deadline::Deadline;
use crate::directory::Directory;
use crate::link::{Access, Connector, Link, Target};
use crate::request::Request;
use crate::shared::{Patience, Shared};
use crate::topology::{REDIRECTS, Redirect, Topology};
use crate::{Backoff, Error, routing};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

type Answer = Result<Value, Error>;

pub(crate) struct Cluster {
    directory: Arc<Directory>,
    access: Access,
    state: Mutex<State>,
}

struct State {
    nodes: HashMap<Address, Arc<Shared>>,
    /// What the nodes were last compared with.
    seen: Arc<Topology>,
}

/// A request on its way to its answer.
struct Journey {
    slot: Option<u16>,
    /// Where its slot is on its way to.
    ask: Option<Address>,
    redirects: u32,
    /// How often no connection could be made for it.
    failures: usize,
    /// Why it has no answer yet.
    last: Option<Error>,
    answer: Option<Answer>,
}

/// What a round found out about the way to go on.
#[derive(Default)]
struct Outcome {
    learn: bool,
    wait: bool,
}

impl Cluster {
    pub(crate) fn new(directory: Arc<Directory>, access: Access) -> Arc<Self> {
        let state = State { nodes: HashMap::new(), seen: directory.topology() };
        Arc::new(Self { directory, access, state: Mutex::new(state) })
    }

    /// Sends each request to the owner of its slot, those of one node in one write; the answers are in their order.
    pub(crate) async fn send_all(
        self: &Arc<Self>,
        requests: &[Request<'_>],
        deadline: Deadline,
    ) -> Vec<Answer> {
        let mut journeys: Vec<_> = requests.iter().map(Journey::new).collect();
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let started = Instant::now();
            let groups = match self.groups(&journeys, deadline).await {
                Ok(groups) => groups,
                Err(error) => return journeys.into_iter().map(|journey| journey.end(&error)).collect(),
            };
            if groups.is_empty() {
                break;
            }
            let rounds = groups.into_iter().map(|(node, asking, indexes)| {
                let chosen: Vec<_> =
                    indexes.iter().filter_map(|&index| requests.get(index)).copied().collect();
                async move {
                    let answers = self.send_to(&node, asking, &chosen, deadline).await;
                    (node, indexes, answers)
                }
            });
            let mut outcome = Outcome::default();
            for (node, indexes, answers) in join_all(rounds).await {
                for (index, answer) in indexes.into_iter().zip(answers) {
                    if let Some(journey) = journeys.get_mut(index) {
                        journey.arrive(&node, answer, &self.directory, &mut outcome);
                    }
                }
            }
            let question = outcome.learn.then(|| self.directory.ask(started));
            if outcome.wait {
                pauses.fail();
                let pause = async {
                    sleep(pauses.pause()).await;
                    if let Some(question) = question {
                        // What it found out is tried in any case.
                        let _ = question.await;
                    }
                };
                if timeout_at(deadline.at, pause).await.is_err() {
                    let late = Error::connect_timed_out();
                    return journeys.into_iter().map(|journey| journey.end(&late)).collect();
                }
            }
        }
        let missing = Error::Reply { expected: "one reply for each command" };
        journeys.into_iter().map(|journey| journey.end(&missing)).collect()
    }

    /// A connection to the owner of a slot, as the nodes say now.
    pub(crate) async fn owner(
        self: &Arc<Self>,
        slot: u16,
        deadline: Deadline,
    ) -> Result<(Arc<Shared>, Arc<Link>), Error> {
        let mut last = None;
        loop {
            match timeout_at(deadline.at, self.directory.ask(Instant::now())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.is_transient() => {
                    last = Some(error);
                    continue;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(last.unwrap_or_else(Error::connect_timed_out)),
            }
            let Some(node) = self.directory.topology().owner(Some(slot)).map(|node| self.node(node)) else {
                last = Some(unowned());
                continue;
            };
            match node.link(deadline, Patience::OneAttempt).await {
                Ok(link) => return Ok((node, link)),
                Err(error) if error.is_transient() && Instant::now() < deadline.at => last = Some(error),
                Err(error) => return Err(error),
            }
        }
    }

    /// Which requests without an answer go where. Waits until there is a topology.
    async fn groups(
        self: &Arc<Self>,
        journeys: &[Journey],
        deadline: Deadline,
    ) -> Result<Vec<(Address, bool, Vec<usize>)>, Error> {
        let mut last = None;
        while self.directory.topology().masters().is_empty() {
            match timeout_at(deadline.at, self.directory.ask(Instant::now())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.is_transient() => last = Some(error),
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(last.unwrap_or_else(Error::connect_timed_out)),
            }
        }
        let topology = self.directory.topology();
        let mut groups: Vec<(Address, bool, Vec<usize>)> = Vec::new();
        let mut places: HashMap<(&Address, bool), usize> = HashMap::new();
        for (index, journey) in journeys.iter().enumerate().filter(|(_, journey)| journey.answer.is_none()) {
            let owner = || topology.owner(journey.slot).or_else(|| topology.any(journey.failures));
            let Some(node) = journey.ask.as_ref().or_else(owner) else { continue };
            let place = *places.entry((node, journey.ask.is_some())).or_insert_with(|| {
                groups.push((node.clone(), journey.ask.is_some(), Vec::new()));
                groups.len() - 1
            });
            if let Some((_, _, indexes)) = groups.get_mut(place) {
                indexes.push(index);
            }
        }
        Ok(groups)
    }

    async fn send_to(
        &self,
        node: &Address,
        asking: bool,
        requests: &[Request<'_>],
        deadline: Deadline,
    ) -> Vec<Answer> {
        let node = self.node(node);
        match node.link(deadline, Patience::OneAttempt).await {
            Ok(link) => node.send_all(&link, requests, asking, deadline).await,
            Err(error) => vec![Err(error); requests.len()],
        }
    }

    fn node(&self, address: &Address) -> Arc<Shared> {
        let topology = self.directory.topology();
        let mut state = self.lock();
        if !Arc::ptr_eq(&state.seen, &topology) {
            // A node that owns nothing any more may be gone for good.
            state.nodes.retain(|address, _| topology.masters().contains(address));
            state.seen = topology;
        }
        if let Some(node) = state.nodes.get(address) {
            return node.clone();
        }
        let connector = Connector { target: Target::Server(address.clone()), access: self.access.clone() };
        let node = Shared::new(connector);
        state.nodes.insert(address.clone(), node.clone());
        node
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journey {
    fn new(request: &Request<'_>) -> Self {
        let slot = request.slot.map_or_else(|| routing::slot_of(request.command), |slot| Ok(Some(slot)));
        let (slot, answer) = match slot {
            Ok(slot) => (slot, None),
            Err(error) => (None, Some(Err(error))),
        };
        Self { slot, ask: None, redirects: 0, failures: 0, last: None, answer }
    }

    /// Takes an answer of a node, or goes on.
    fn arrive(&mut self, node: &Address, answer: Answer, directory: &Directory, outcome: &mut Outcome) {
        self.ask = None;
        let error = match answer {
            Err(error) => error,
            value => return self.answer = Some(value),
        };
        match Redirect::read(&error, node) {
            Some(redirect)
                if self.redirects < REDIRECTS || matches!(redirect, Redirect::Later | Redirect::Down) =>
            {
                match redirect {
                    Redirect::Moved { slot, owner } => {
                        self.redirects += 1;
                        // The node knows better where the keys of the command are in it.
                        self.slot = Some(slot);
                        directory.moved(slot, owner);
                        outcome.learn = true;
                    }
                    Redirect::Ask(target) => {
                        self.redirects += 1;
                        self.ask = Some(target);
                    }
                    Redirect::Later => outcome.wait = true,
                    Redirect::Down => (outcome.learn, outcome.wait) = (true, true),
                }
                self.last = Some(error);
            }
            // It was not sent: the slots of a node that is down may have another owner already.
            None if matches!(error, Error::Unreachable(_)) => {
                (outcome.learn, outcome.wait) = (true, true);
                self.failures += 1;
                self.last = Some(error);
            }
            _ => {
                outcome.learn |=
                    matches!(error, Error::Lost(_) | Error::TimedOut(_) | Error::OtherServer { .. });
                self.answer = Some(Err(error));
            }
        }
    }

    fn end(self, otherwise: &Error) -> Answer {
        self.answer.unwrap_or_else(|| Err(self.last.unwrap_or_else(|| otherwise.clone())))
    }
}

fn unowned() -> Error {
    Error::Server { code: "CLUSTERDOWN".into(), detail: "no node owns the slot".into() }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("seeds", &self.directory.seeds()).finish_non_exhaustive()
    }
}
