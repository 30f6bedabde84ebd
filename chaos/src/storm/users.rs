//! The users who dispatch, stop, notify and ask, one call after the other, each with keys of its own; and their answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenure_pool::{AskError, DispatchError, Error, Node, NotHandled};
use tenure_testing::history::{Event, History, boottime_ns};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The longest time for a dispatch or a stop.
const DEADLINE: Duration = Duration::from_secs(8);
/// An answer that is later than its deadline by this much counts as missing.
const LATE: Duration = Duration::from_secs(10);
/// The pause between two calls of a user, in ms.
const PAUSE_MS: std::ops::Range<u64> = 20..160;

/// A user's knowledge of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// No job of it exists, as far as known.
    Gone,
    /// Its job was accepted.
    Lives,
    /// A call failed.
    Unknown,
}

/// A forbidden answer, or a missing one.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// The moment, in nanoseconds of `CLOCK_BOOTTIME`.
    pub(super) at: u64,
    pub(super) what: String,
    /// Whether the answer is missing, which no loss of data excuses.
    pub(super) silent: bool,
}

/// The records of all users.
#[derive(Debug)]
struct Books {
    history: History,
    strange: Mutex<Vec<Told>>,
    /// While somebody holds it exclusively, nobody calls.
    calling: Arc<RwLock<()>>,
}

/// All users; they end when this is dropped.
pub(super) struct Users {
    books: Arc<Books>,
    tasks: JoinSet<()>,
    /// The key with which each of them makes a trial at rest.
    trials: Vec<(Node, Key)>,
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
        let books = Arc::new(Books { history, strange: Mutex::default(), calling: Arc::default() });
        let (mut tasks, mut trials) = (JoinSet::new(), Vec::new());
        for number in 0..users {
            let keys = (number..keys).step_by(users).map(|key| Key::new(format!("key-{key}")));
            let node = &nodes[number % nodes.len()];
            trials.push((node.clone(), Key::new(format!("trial-{number}"))));
            let user = User {
                node: node.clone(),
                keys: keys.collect(),
                random: StdRng::from_rng(random),
                books: Arc::clone(&books),
            };
            tasks.spawn(user.go_on());
        }
        Self { books, tasks, trials }
    }

    /// Waits until every call is answered; nobody calls while the guard lives.
    pub(super) async fn silence(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.books.calling).write_owned().await
    }

    /// Dispatches, notifies and stops one job as each user, which must succeed at rest. Returns the failures.
    pub(super) async fn try_all(&mut self) -> Vec<String> {
        let books = &self.books;
        let trials = self.trials.iter_mut().map(|(node, key)| key.try_all(node, books));
        join_all(trials).await.into_iter().flatten().collect()
    }

    /// The forbidden and the missing answers.
    pub(super) fn strange(&self) -> Vec<Told> {
        self.books.strange.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether all users still run; a panic would end one.
    pub(super) fn all_live(&mut self) -> bool {
        self.tasks.try_join_next().is_none()
    }
}

struct Key {
    name: String,
    known: Known,
    notified: u64,
    asked: u64,
    /// The highest token under which an ask was answered.
    answered: u64,
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
        let chance = self.random.random_range(0..100);
        let Self { node, keys, books, .. } = self;
        let key = &mut keys[index];
        let _calling = books.calling.read().await;
        match (key.known, chance) {
            _ if only_submit => key.submit(node, books).await,
            // The answer does not matter: no job is ever parked here.
            (_, 99) => drop(timeout(DEADLINE, node.parked()).await),
            (Known::Gone, 0..30) => key.submit(node, books).await,
            // A dispatch of an existing job is refused.
            (Known::Gone, _) | (Known::Lives, 0..5) => key.dispatch(node, books).await,
            (Known::Unknown, _) | (Known::Lives, 5..13) => key.stop(node, books, true).await,
            (Known::Lives, 13..20) => key.stop(node, books, false).await,
            (Known::Lives, 20..50) => drop(key.ask(node, books).await),
            (Known::Lives, _) => drop(key.notify(node, books).await),
        }
    }
}

impl Key {
    fn new(name: String) -> Self {
        Self { name, known: Known::Gone, notified: 0, asked: 0, answered: 0 }
    }

    /// Returns the call that failed, if any did.
    async fn try_all(&mut self, node: &Node, books: &Books) -> Option<String> {
        self.dispatch(node, books).await;
        let dispatched = self.known == Known::Lives;
        let notified = dispatched && self.notify(node, books).await;
        let answered = dispatched && self.ask(node, books).await;
        self.stop(node, books, true).await;
        let failed = match (dispatched, notified, answered, self.known) {
            (true, true, true, Known::Gone) => return None,
            (false, ..) => "dispatch",
            (true, false, ..) => "notify",
            (true, true, false, _) => "ask",
            _ => "stop",
        };
        Some(format!("{}: the {failed} did not succeed while all was at rest", self.name))
    }

    async fn submit(&mut self, node: &Node, books: &Books) {
        let asked = self.about_to_submit(books);
        let answer = node.submit((&*self.name, &b"payload"[..])).deadline(DEADLINE);
        let answer = books.within("a submit", &self.name, answer).await;
        self.was_submitted(answer.map(|answer| answer.map(drop)), asked, books);
    }

    async fn dispatch(&mut self, node: &Node, books: &Books) {
        let asked = self.about_to_submit(books);
        let answer = node.dispatch((&*self.name, &b"payload"[..])).deadline(DEADLINE);
        let answer = books.within("a dispatch", &self.name, answer).await;
        self.was_submitted(answer, asked, books);
    }

    fn about_to_submit(&self, books: &Books) -> u64 {
        let asked = boottime_ns();
        books.history.submitted(&self.name);
        asked
    }

    fn was_submitted(&mut self, answer: Option<Result<(), DispatchError>>, asked: u64, books: &Books) {
        self.known = match answer {
            Some(Ok(()) | Err(DispatchError::Deadline { accepted: true, .. })) => {
                books.history.accepted(&self.name);
                Known::Lives
            }
            Some(Err(DispatchError::JobExists { .. })) => {
                books.history.record(Event::Existed { key: self.name.clone(), asked });
                if self.known == Known::Lives { Known::Lives } else { Known::Unknown }
            }
            Some(Err(DispatchError::Deadline { .. } | DispatchError::Store(_))) | None => Known::Unknown,
            Some(Err(other)) => {
                books.strange(format!("{}: a dispatch was answered: {other}", self.name));
                Known::Unknown
            }
        };
    }

    async fn stop(&mut self, node: &Node, books: &Books, until_stopped: bool) {
        let asked = boottime_ns();
        books.history.stop_requested(&self.name);
        let stop = node.stop_job(&*self.name).deadline(DEADLINE);
        let stop = if until_stopped { stop.until_stopped() } else { stop };
        self.known = match books.within("a stop", &self.name, stop).await {
            Some(Ok(())) => {
                if until_stopped {
                    books.history.stop_acknowledged(&self.name);
                    books.history.record(Event::Freed { key: self.name.clone() });
                } else {
                    // It may come between a job's beginning and its handler's start.
                    books.history.record(Event::StopRecorded { key: self.name.clone() });
                }
                Known::Gone
            }
            Some(Err(Error::JobNotFound(_))) => self.was_not_found(asked, books),
            Some(Err(Error::Deadline(_) | Error::Store(_))) | None => Known::Unknown,
            Some(Err(other)) => {
                books.strange(format!("{}: a stop was answered: {other}", self.name));
                Known::Unknown
            }
        };
    }

    /// Returns whether the notification was accepted.
    async fn notify(&mut self, node: &Node, books: &Books) -> bool {
        let asked = boottime_ns();
        self.notified += 1;
        let (key, number) = (self.name.clone(), self.notified);
        match timeout(DEADLINE * 3, node.notify(&*key, number.to_string())).await {
            Ok(Ok(())) => {
                books.history.record(Event::NotifyAccepted { key, number, asked });
                return true;
            }
            Ok(Err(Error::JobNotFound(_))) => self.known = self.was_not_found(asked, books),
            Ok(Err(Error::Deadline(_) | Error::Store(_) | Error::NotifyFull(_))) => {}
            Ok(Err(other)) => books.strange(format!("{key}: a notification was answered: {other}")),
            Err(_) => books.silent(format!("{key}: a notification was not answered")),
        }
        false
    }

    /// Returns whether the job has answered.
    async fn ask(&mut self, node: &Node, books: &Books) -> bool {
        let asked = boottime_ns();
        self.asked += 1;
        let question = self.asked.to_string();
        let ask = node.ask(&*self.name, question.clone()).deadline(DEADLINE);
        match books.within("an ask", &self.name, ask).await {
            Some(Ok(answer)) => {
                self.was_answered(&question, &String::from_utf8_lossy(&answer), books);
                return true;
            }
            Some(Err(AskError::NotHandled(NotHandled::NoJob))) => {
                self.known = self.was_not_found(asked, books);
            }
            Some(Err(AskError::NotHandled(_) | AskError::Unknown { .. })) | None => {}
            Some(Err(other)) => books.strange(format!("{}: an ask was answered: {other}", self.name)),
        }
        false
    }

    /// The owner answers what it was asked. Its token is not below that of an owner that has answered before.
    fn was_answered(&mut self, question: &str, answer: &str, books: &Books) {
        let token = answer.strip_prefix(question).and_then(|rest| rest.trim_start().parse().ok());
        match token {
            Some(token) if token >= self.answered => self.answered = token,
            _ => {
                let (key, before) = (&self.name, self.answered);
                books
                    .strange(format!("{key}: ask {question} was answered '{answer}', after one by {before}"));
            }
        }
    }

    fn was_not_found(&self, asked: u64, books: &Books) -> Known {
        books.history.record(Event::NotFound { key: self.name.clone(), asked });
        Known::Gone
    }
}

impl Books {
    /// The answer, if it comes. One that comes long after its deadline is a fault.
    async fn within<T>(&self, what: &str, key: &str, call: impl IntoFuture<Output = T>) -> Option<T> {
        let asked = Instant::now();
        let answer = timeout(DEADLINE + LATE, call).await.ok();
        if answer.is_none() {
            self.silent(format!("{key}: {what} was not answered within {} s", asked.elapsed().as_secs()));
        }
        answer
    }

    fn strange(&self, what: String) {
        self.tell(Told { at: boottime_ns(), what, silent: false });
    }

    fn silent(&self, what: String) {
        self.tell(Told { at: boottime_ns(), what, silent: true });
    }

    fn tell(&self, told: Told) {
        self.strange.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}
