//! A client's knowledge of its cluster, and the questions that extend it.
//!
//! Invariants:
//! - Each runtime has at most one question under way; all callers that need the answer wait for it. It goes on without
//!   them, and ends with the client. Runtimes do not wait for each other, because one may stand still.
//! - All questions are paced together: there is a pause between two, and a growing one after failures.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::ready;
use tokio::runtime;
use tokio::time::{Instant, sleep_until};

use crate::address::Address;
use crate::flight::{Flight, Outcome};
use crate::link::{self, Settings, Step};
use crate::reach::reach;
use crate::topology::Topology;
use crate::turns::first_answer;
use crate::{Backoff, Error};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// The least time between two questions.
const QUESTION_EVERY: Duration = Duration::from_millis(100);

pub(crate) struct Directory {
    seeds: Vec<Address>,
    settings: Arc<Settings>,
    state: Mutex<State>,
    /// Counts the questions: each begins with another node.
    turn: AtomicUsize,
}

struct State {
    topology: Arc<Topology>,
    /// When the question behind the topology was asked.
    asked_at: Option<Instant>,
    questions: Vec<(runtime::Id, Flight<Result<(), Error>>)>,
    backoff: Backoff,
    next_question: Option<Instant>,
}

impl Directory {
    pub(crate) fn new(seeds: Vec<Address>, settings: Arc<Settings>) -> Arc<Self> {
        let state = State {
            topology: Arc::new(Topology::unknown()),
            asked_at: None,
            questions: Vec::new(),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            next_question: None,
        };
        Arc::new(Self { seeds, settings, state: Mutex::new(state), turn: AtomicUsize::new(0) })
    }

    pub(crate) fn seeds(&self) -> &[Address] {
        &self.seeds
    }

    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.lock().topology.clone()
    }

    /// A node has said that a slot is elsewhere.
    pub(crate) fn moved(&self, slot: u16, owner: Address) {
        let mut state = self.lock();
        if state.topology.owner(Some(slot)) != Some(&owner) {
            state.topology = Arc::new(state.topology.with_owner(slot, owner));
        }
    }

    /// Asks the nodes, unless they were asked after `since`. The answer comes even if nobody waits for it.
    pub(crate) fn ask(self: &Arc<Self>, since: Instant) -> Outcome<Result<(), Error>> {
        let here = runtime::Handle::current().id();
        let mut state = self.lock();
        state.questions.retain(|(_, question)| !question.is_over());
        if let Some((_, question)) = state.questions.iter().find(|(runtime, _)| *runtime == here) {
            return question.outcome();
        }
        if state.is_newer_than(since) {
            return ready(Ok(())).boxed().shared();
        }
        let now = Instant::now();
        let at = state.next_question.map_or(now, |next| next.max(now)) + state.backoff.pause();
        // An answer resets this.
        state.backoff.fail();
        state.next_question = Some(at + QUESTION_EVERY);
        let question = Flight::start(Self::question(Arc::downgrade(self), since, at));
        let outcome = question.outcome();
        state.questions.push((here, question));
        outcome
    }

    async fn question(directory: Weak<Self>, since: Instant, at: Instant) -> Result<(), Error> {
        if at > Instant::now() {
            sleep_until(at).await;
        }
        let Some((nodes, settings)) = directory.upgrade().and_then(|directory| directory.to_ask(since))
        else {
            return Ok(());
        };
        let asked_at = Instant::now();
        let questions = nodes.iter().map(|node| ask(node, &settings).boxed()).collect();
        let (_, topology) = first_answer(questions, settings.connect_timeout).await?;
        if let Some(directory) = directory.upgrade() {
            let mut state = directory.lock();
            state.backoff.reset();
            // The answer to an older question must not replace that to a newer one.
            if !state.is_newer_than(asked_at) {
                (state.topology, state.asked_at) = (Arc::new(topology), Some(asked_at));
            }
        }
        Ok(())
    }

    /// The nodes to ask, in order; `None` when another runtime has asked meanwhile.
    fn to_ask(&self, since: Instant) -> Option<(Vec<Address>, Arc<Settings>)> {
        let state = self.lock();
        if state.is_newer_than(since) {
            return None;
        }
        let known = state.topology.masters();
        let mut nodes = known.to_vec();
        nodes.extend(self.seeds.iter().filter(|seed| !known.contains(seed)).cloned());
        let start = self.turn.fetch_add(1, Ordering::Relaxed) % nodes.len().max(1);
        nodes.rotate_left(start);
        Some((nodes, self.settings.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_newer_than(&self, since: Instant) -> bool {
        self.asked_at.is_some_and(|at| at > since)
    }
}

async fn ask(node: &Address, settings: &Settings) -> Result<Topology, Error> {
    told_by(node, settings).await.inspect_err(|error| {
        let error = error as &dyn std::error::Error;
        tracing::debug!(%node, error, "a node does not name the owners of the slots");
    })
}

async fn told_by(node: &Address, settings: &Settings) -> Result<Topology, Error> {
    let mut steps = settings.login();
    steps.push((Step::Question, redis::cmd("CLUSTER").arg("SLOTS").take()));
    let steps = &steps;
    let asked = reach(node, settings, |mut wire| async move { link::ask(&mut wire, steps).await });
    let reply = asked.await?;
    let topology = Topology::parse(&reply, node).map_err(Error::during_setup)?;
    if topology.masters().is_empty() {
        // A node that was just reset, or has met no other yet.
        return Err(Error::unreachable("the node knows no owner of any slot"));
    }
    Ok(topology)
}
