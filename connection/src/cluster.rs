//! Commands to a cluster: each goes to the owner of its slot, over one shared connection per node.
//!
//! Invariants:
//! - Only commands that were not executed are sent again: when no connection could be made, and when a node answered
//!   with a redirect. This happens within the caller's deadline, and a command follows a bounded number of redirects.
//! - The nodes are asked who owns the slots when nothing is known yet, after a redirect, and after a node could not be
//!   reached or stopped answering.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use redis::Value;
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::deadline::Deadline;
use crate::directory::Directory;
use crate::flight::Outcome;
use crate::link::{Access, Connector, Link, Target};
use crate::request::Request;
use crate::shared::{Patience, Shared};
use crate::topology::{AT_ONCE, REDIRECTS, Redirect, Topology};
use crate::{Backoff, Error, routing};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

type Answer = Result<Value, Error>;

pub(crate) struct Cluster {
    directory: Arc<Directory>,
    access: Access,
    /// Counts the calls: commands that any node may answer go to each node in turn.
    turn: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    nodes: HashMap<Address, Arc<Shared>>,
    /// The topology that the nodes were last compared with.
    seen: Arc<Topology>,
}

/// A request on its way to its answer.
struct Journey {
    slot: Option<u16>,
    /// The number of the node for a request whose slot has no owner. It changes when no connection could be made.
    turn: usize,
    /// The node that the request's slot is moving to.
    ask: Option<Address>,
    redirects: u32,
    pauses: Backoff,
    /// The reason why it has no answer yet.
    last: Option<Error>,
    answer: Option<Answer>,
}

/// The next move of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    AtOnce,
    Later,
}

/// A completed part of some requests' journeys.
enum Done {
    Rested(Vec<usize>),
    Visited { node: Address, started: Instant, answers: Vec<(usize, Answer)> },
}

impl Cluster {
    pub(crate) fn new(directory: Arc<Directory>, access: Access) -> Arc<Self> {
        let state = State { nodes: HashMap::new(), seen: directory.topology() };
        Arc::new(Self { directory, access, turn: AtomicUsize::new(0), state: Mutex::new(state) })
    }

    /// Sends each request to the owner of its slot, those for one node in one write. The answers are in the order of
    /// the requests. A request that must go on does so when its own node has answered, without waiting for other nodes.
    pub(crate) async fn send_all(
        self: &Arc<Self>,
        requests: &[Request<'_>],
        deadline: Deadline,
        patience: Patience,
    ) -> Vec<Answer> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut journeys: Vec<_> = requests.iter().map(|request| Journey::new(request, turn)).collect();
        if let Err(error) = self.topology(deadline, patience).await {
            return journeys.into_iter().map(|journey| journey.end(&error)).collect();
        }
        let mut ready: Vec<usize> = (0..journeys.len()).collect();
        let mut under_way = FuturesUnordered::new();
        loop {
            // A request that could not be answered in time is not sent: its last error stands.
            if Instant::now() < deadline.at {
                for (node, asking, indexes) in self.groups(&journeys, &ready) {
                    under_way.push(self.visit(node, asking, indexes, requests, deadline).boxed());
                }
            }
            ready = match under_way.next().await {
                None => break,
                Some(Done::Rested(indexes)) => indexes,
                Some(Done::Visited { node, started, answers }) => {
                    let (mut learn, mut at_once, mut later) = (false, Vec::new(), Vec::new());
                    let mut pauses: Option<&Backoff> = None;
                    for (index, answer) in answers {
                        let Some(journey) = journeys.get_mut(index) else { continue };
                        match journey.arrive(&node, answer, &self.directory, &mut learn) {
                            Next::Nothing => {}
                            Next::AtOnce => at_once.push(index),
                            Next::Later => later.push(index),
                        }
                    }
                    let question = learn.then(|| self.directory.ask(started));
                    for journey in later.iter().filter_map(|&index| journeys.get(index)) {
                        if pauses.is_none_or(|longest| longest.failures() < journey.pauses.failures()) {
                            pauses = Some(&journey.pauses);
                        }
                    }
                    if let Some(pauses) = pauses {
                        under_way.push(rest(later, pauses.clone(), question, deadline).boxed());
                    }
                    at_once
                }
            };
        }
        let late = Error::connect_timed_out();
        journeys.into_iter().map(|journey| journey.end(&late)).collect()
    }

    /// A connection to the present owner of a slot.
    pub(crate) async fn owner(
        self: &Arc<Self>,
        slot: u16,
        deadline: Deadline,
        patience: Patience,
    ) -> Result<(Arc<Shared>, Arc<Link>), Error> {
        let mut last = None;
        loop {
            match timeout_at(deadline.at, self.directory.ask(Instant::now())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.is_transient() && patience.lasts() => {
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
                Err(error) if error.is_transient() && patience.lasts() && Instant::now() < deadline.at => {
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a topology is known.
    async fn topology(&self, deadline: Deadline, patience: Patience) -> Result<(), Error> {
        let mut last = None;
        while self.directory.topology().masters().is_empty() {
            match timeout_at(deadline.at, self.directory.ask(Instant::now())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.is_transient() && patience.lasts() => last = Some(error),
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(last.unwrap_or_else(Error::connect_timed_out)),
            }
        }
        Ok(())
    }

    /// Groups the requests without an answer by node.
    fn groups(&self, journeys: &[Journey], ready: &[usize]) -> Vec<(Address, bool, Vec<usize>)> {
        let topology = self.directory.topology();
        let mut groups: Vec<(Address, bool, Vec<usize>)> = Vec::new();
        let mut places: HashMap<(&Address, bool), usize> = HashMap::new();
        for &index in ready {
            let Some(journey) = journeys.get(index).filter(|journey| journey.answer.is_none()) else {
                continue;
            };
            let owner = || topology.owner(journey.slot).or_else(|| topology.any(journey.turn));
            let Some(node) = journey.ask.as_ref().or_else(owner) else { continue };
            let place = *places.entry((node, journey.ask.is_some())).or_insert_with(|| {
                groups.push((node.clone(), journey.ask.is_some(), Vec::new()));
                groups.len() - 1
            });
            if let Some((_, _, indexes)) = groups.get_mut(place) {
                indexes.push(index);
            }
        }
        groups
    }

    /// Sends some of the requests to a node.
    async fn visit(
        &self,
        address: Address,
        asking: bool,
        indexes: Vec<usize>,
        requests: &[Request<'_>],
        deadline: Deadline,
    ) -> Done {
        let (started, node) = (Instant::now(), self.node(&address));
        let chosen: Vec<_> = indexes.iter().filter_map(|&index| requests.get(index)).copied().collect();
        let answers = match node.link(deadline, Patience::OneAttempt).await {
            Ok(link) => node.send_all(&link, &chosen, asking, deadline).await,
            Err(error) => vec![Err(error); chosen.len()],
        };
        Done::Visited { node: address, started, answers: indexes.into_iter().zip(answers).collect() }
    }

    fn node(&self, address: &Address) -> Arc<Shared> {
        let topology = self.directory.topology();
        let mut state = self.lock();
        if !Arc::ptr_eq(&state.seen, &topology) {
            // A node without any slot may be gone for good.
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

/// Waits before some requests go on. None goes on after the deadline.
async fn rest(
    indexes: Vec<usize>,
    pauses: Backoff,
    question: Option<Outcome<Result<(), Error>>>,
    deadline: Deadline,
) -> Done {
    let pause = async {
        pauses.wait().await;
        if let Some(question) = question {
            // The topology is used, whatever came of the question.
            let _ = question.await;
        }
    };
    let in_time = timeout_at(deadline.at, pause).await.is_ok();
    Done::Rested(if in_time { indexes } else { Vec::new() })
}

impl Journey {
    fn new(request: &Request<'_>, turn: usize) -> Self {
        let (slot, answer) = match routing::slot_of(request.command) {
            Ok(slot) => (slot, None),
            Err(error) => (None, Some(Err(error))),
        };
        let pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        Self { slot, turn, ask: None, redirects: 0, pauses, last: None, answer }
    }

    /// Takes a node's answer, or decides on the next move.
    fn arrive(&mut self, node: &Address, answer: Answer, directory: &Directory, learn: &mut bool) -> Next {
        let asked = self.ask.take().is_some();
        let error = match answer {
            Err(error) => error,
            value => return self.end_with(value),
        };
        let next = match Redirect::read(&error, node) {
            Some(Redirect::Later) => {
                // The request went to the right node, which does not have all keys yet; an `ASK` brings it back here.
                self.redirects = self.redirects.saturating_sub(u32::from(asked));
                Next::Later
            }
            Some(Redirect::Down) => {
                *learn = true;
                Next::Later
            }
            Some(redirect) if self.redirects < REDIRECTS => {
                self.redirects += 1;
                match redirect {
                    Redirect::Moved { slot, owner } => {
                        // The node knows better where the command's keys are.
                        self.slot = Some(slot);
                        directory.moved(slot, owner);
                        *learn = true;
                    }
                    Redirect::Ask(target) => self.ask = Some(target),
                    Redirect::Later | Redirect::Down => {}
                }
                if self.redirects <= AT_ONCE { Next::AtOnce } else { Next::Later }
            }
            // The request was not sent: another node may own the slots of a dead one already.
            None if matches!(error, Error::Unreachable(_)) => {
                *learn = true;
                self.turn = self.turn.wrapping_add(1);
                Next::Later
            }
            _ => {
                *learn |= matches!(error, Error::Lost(_) | Error::TimedOut(_) | Error::OtherServer { .. });
                return self.end_with(Err(error));
            }
        };
        if next == Next::Later {
            self.pauses.fail();
        }
        self.last = Some(error);
        next
    }

    fn end_with(&mut self, answer: Answer) -> Next {
        self.answer = Some(answer);
        Next::Nothing
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
