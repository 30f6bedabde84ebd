//! The users who dispatch, update, stop, notify and ask, one call after the other, each with keys of its own; and the
//! askers, who ask the owners of all keys beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tenure_pool::Node;
use tenure_testing::history::History;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::books::{Books, DEADLINE, Question, Told};
use super::key::{Key, Known};
use crate::manner::Manner;

/// The beginning of the ids of asks at rest.
pub(super) const REST: &str = "rest-";
/// The beginning of the keys that are tried at rest.
pub(super) const TRIAL: &str = "trial";
/// The number of askers.
const ASKERS: usize = 4;
/// The pause between two calls of a user, and between two of an asker, in ms.
const PAUSE_MS: std::ops::Range<u64> = 20..160;
/// The deadlines of an asker's asks, in ms.
const PATIENCE_MS: std::ops::Range<u64> = 200..6_000;

/// All users and askers; they end when this is dropped.
pub(super) struct Users {
    books: Arc<Books>,
    tasks: JoinSet<()>,
    /// The key with which each user makes a trial at rest.
    trials: Vec<(Node, Key)>,
    /// How often all jobs were asked at rest.
    rounds: u64,
}

impl Users {
    /// Makes this many users call, spread over these nodes, with this many keys in all.
    pub(super) fn start(
        nodes: &[Node],
        users: usize,
        keys: usize,
        history: History,
        random: &mut StdRng,
    ) -> Self {
        let books = Arc::new(Books::new(history));
        let (mut tasks, mut trials) = (JoinSet::new(), Vec::new());
        for number in 0..users {
            let keys = (number..keys).step_by(users).map(|key| Key::new("key", key));
            let node = &nodes[number % nodes.len()];
            trials.push((node.clone(), Key::new(TRIAL, number)));
            let user = User {
                node: node.clone(),
                keys: keys.collect(),
                random: StdRng::from_rng(random),
                books: Arc::clone(&books),
            };
            tasks.spawn(user.go_on());
        }
        for number in 0..ASKERS {
            let asker = Asker {
                node: nodes[number % nodes.len()].clone(),
                number,
                keys,
                random: StdRng::from_rng(random),
                books: Arc::clone(&books),
            };
            tasks.spawn(asker.go_on());
        }
        Self { books, tasks, trials, rounds: 0 }
    }

    /// Waits until every call is answered; nobody calls while the guard lives.
    pub(super) async fn silence(&self) -> OwnedRwLockWriteGuard<()> {
        self.books.silence().await
    }

    /// Dispatches, updates, notifies, asks and stops one job as each user, which must succeed at rest. Returns the failures.
    pub(super) async fn try_all(&mut self) -> Vec<String> {
        let books = &self.books;
        let trials = self.trials.iter_mut().map(|(node, key)| key.try_all(node, books));
        join_all(trials).await.into_iter().flatten().collect()
    }

    /// Asks all these jobs, which must answer at rest. Returns the failures.
    pub(super) async fn ask_all(&mut self, jobs: &BTreeMap<String, u64>) -> Vec<String> {
        self.rounds += 1;
        let asks = jobs.keys().zip(self.trials.iter().cycle()).map(async |(key, (node, _))| {
            let question = Question {
                key: key.clone(),
                id: format!("{REST}{}:{key}", self.rounds),
                manner: Manner::Answer,
                // A machine that stands still for a moment ends leases, and the next owner answers.
                idempotent: true,
                patience: DEADLINE,
            };
            let answer = self.books.ask(node, question).await;
            let failed = answer.is_none_or(|answer| answer.is_err());
            failed.then(|| format!("{key}: the ask of its owner did not succeed while all was at rest"))
        });
        join_all(asks).await.into_iter().flatten().collect()
    }

    /// The forbidden and the missing answers.
    pub(super) fn strange(&self) -> Vec<Told> {
        self.books.all_strange()
    }

    /// Whether all of them still run; a panic would end one.
    pub(super) fn all_live(&mut self) -> bool {
        self.tasks.try_join_next().is_none()
    }
}

struct User {
    node: Node,
    keys: Vec<Key>,
    random: StdRng,
    books: Arc<Books>,
}

impl User {
    async fn go_on(mut self) {
        for index in 0..self.keys.len() {
            self.call(index, true).await;
        }
        loop {
            sleep(Duration::from_millis(self.random.random_range(PAUSE_MS))).await;
            let index = self.random.random_range(0..self.keys.len());
            self.call(index, false).await;
        }
    }

    async fn call(&mut self, index: usize, only_submit: bool) {
        let (chance, way) = (self.random.random_range(0..100), self.random.random_range(0..3));
        let manner = choose(&mut self.random);
        let Self { node, keys, books, .. } = self;
        let key = &mut keys[index];
        let _calling = books.calling.read().await;
        match (key.known, chance) {
            _ if only_submit => key.submit(node, books).await,
            // The answer does not matter: no job is ever parked here.
            (_, 99) => drop(timeout(DEADLINE, node.inspect().parked()).await),
            (Known::Gone, 0..30) => key.submit(node, books).await,
            // A dispatch of an existing job is refused.
            (Known::Gone, _) | (Known::Lives, 0..5) => key.dispatch(node, books).await,
            (Known::Unknown, _) | (Known::Lives, 5..13) => key.stop(node, books, true).await,
            (Known::Lives, 13..20) => key.stop(node, books, false).await,
            (Known::Lives, 20..45) => drop(key.ask(node, books, manner, way == 0).await),
            (Known::Lives, 45..65) => drop(key.update(node, books, way == 0).await),
            (Known::Lives, _) => drop(key.notify(node, books).await),
        }
    }
}

/// Asks the owners of all keys, whoever uses them.
struct Asker {
    node: Node,
    number: usize,
    keys: usize,
    random: StdRng,
    books: Arc<Books>,
}

impl Asker {
    async fn go_on(mut self) {
        for count in 0_u64.. {
            sleep(Duration::from_millis(self.random.random_range(PAUSE_MS))).await;
            let question = Question {
                key: format!("key-{}", self.random.random_range(0..self.keys)),
                id: format!("asker-{}:{count}", self.number),
                manner: choose(&mut self.random),
                idempotent: self.random.random_range(0..3) == 0,
                patience: Duration::from_millis(self.random.random_range(PATIENCE_MS)),
            };
            let _calling = self.books.calling.read().await;
            drop(self.books.ask(&self.node, question).await);
        }
    }
}

fn choose(random: &mut StdRng) -> Manner {
    Manner::value_variants().choose(random).copied().unwrap_or(Manner::Answer)
}
