//! A key, and the calls of its only user about it.

use tenure_pool::error::NotHandled;
use tenure_pool::{AskError, DispatchError, Error, JobSpec, Node};
use tenure_testing::history::{Event, boottime_ns};
use tokio::time::timeout;

use super::books::{Books, DEADLINE, Question};
use super::steered::PROGRESS;
use crate::manner::Manner;

/// Jobs of keys whose number this divides have a progress timeout.
pub(super) const HANGS_EACH: usize = 8;

/// A user's knowledge of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// No job of it exists, as far as known.
    Gone,
    /// Its job was accepted.
    Lives,
    /// A call failed.
    Unknown,
}

pub(super) struct Key {
    pub(super) name: String,
    pub(super) known: Known,
    /// Whether its jobs have a progress timeout.
    progresses: bool,
    notified: u64,
    asked: u64,
    /// The number of the last payload that the pool may have.
    payload: u64,
    /// The generation of its job, if known.
    generation: Option<u64>,
}

impl Key {
    /// A key that has never been used. Some keys' jobs have a progress timeout, by their numbers.
    pub(super) fn new(kind: &str, number: usize) -> Self {
        Self {
            name: format!("{kind}-{number}"),
            known: Known::Gone,
            progresses: number.is_multiple_of(HANGS_EACH),
            notified: 0,
            asked: 0,
            payload: 0,
            generation: None,
        }
    }

    /// A job of the key with the next payload.
    fn next_job(&mut self) -> JobSpec {
        self.payload += 1;
        let job = JobSpec::new(&*self.name, self.payload.to_string());
        if self.progresses { job.progress_timeout(PROGRESS) } else { job }
    }

    /// Returns the call that failed, if any did.
    pub(super) async fn try_all(&mut self, node: &Node, books: &Books) -> Option<String> {
        self.dispatch(node, books).await;
        let dispatched = self.known == Known::Lives;
        let updated = dispatched && self.update(node, books, true).await;
        let notified = dispatched && self.notify(node, books).await;
        let answered = dispatched && self.ask(node, books, Manner::Answer, true).await;
        self.stop(node, books, true).await;
        let failed = match (dispatched, updated, notified, answered, self.known) {
            (true, true, true, true, Known::Gone) => return None,
            (false, ..) => "dispatch",
            (true, false, ..) => "update",
            (true, true, false, ..) => "notify",
            (true, true, true, false, _) => "ask",
            _ => "stop",
        };
        Some(format!("{}: the {failed} did not succeed while all was at rest", self.name))
    }

    pub(super) async fn submit(&mut self, node: &Node, books: &Books) {
        let (job, asked) = (self.next_job(), self.about_to_submit(books));
        let answer = books.within("a submit", &self.name, node.submit(job).deadline(DEADLINE)).await;
        self.was_submitted(answer.map(|answer| answer.map(drop)), asked, books);
    }

    pub(super) async fn dispatch(&mut self, node: &Node, books: &Books) {
        let (job, asked) = (self.next_job(), self.about_to_submit(books));
        let answer = books.within("a dispatch", &self.name, node.dispatch(job).deadline(DEADLINE)).await;
        self.was_submitted(answer, asked, books);
    }

    fn about_to_submit(&self, books: &Books) -> u64 {
        let asked = boottime_ns();
        books.history.submitted(&self.name);
        asked
    }

    fn was_submitted(&mut self, answer: Option<Result<(), DispatchError>>, asked: u64, books: &Books) {
        let (key, number) = (self.name.clone(), self.payload);
        if !matches!(answer, Some(Err(DispatchError::JobExists { .. }))) {
            self.generation = None;
        }
        self.known = match answer {
            Some(Ok(()) | Err(DispatchError::Deadline { accepted: true, .. })) => {
                books.history.accepted(&key);
                books.history.record(Event::PayloadAccepted { key, number, asked, generation: None });
                self.generation = Some(0);
                Known::Lives
            }
            Some(Err(DispatchError::JobExists { .. })) => {
                books.history.record(Event::Existed { key, asked });
                if self.known == Known::Lives { Known::Lives } else { Known::Unknown }
            }
            Some(Err(DispatchError::Deadline { .. } | DispatchError::Store(_))) | None => Known::Unknown,
            Some(Err(other)) => {
                books.strange(format!("{key}: a dispatch was answered: {other}"));
                Known::Unknown
            }
        };
    }

    /// Gives its job the next payload, and says which generation it must have if `expecting`. Returns whether the pool has
    /// taken it.
    pub(super) async fn update(&mut self, node: &Node, books: &Books, expecting: bool) -> bool {
        let (job, asked) = (self.next_job(), boottime_ns());
        let (key, number, before) = (self.name.clone(), self.payload, self.generation.take());
        let update = node.update(job).deadline(DEADLINE);
        let update = match before.filter(|_| expecting) {
            Some(generation) => update.expect_generation(generation),
            None => update,
        };
        match books.within("an update", &key, update).await {
            Some(Ok(generation)) => {
                self.generation = Some(generation);
                let accepted = Event::PayloadAccepted { key, number, asked, generation: Some(generation) };
                books.history.record(accepted);
                return true;
            }
            Some(Err(Error::JobNotFound(_))) => self.known = self.was_not_found(asked, books),
            Some(Err(Error::Deadline { .. } | Error::Store(_))) | None => {}
            Some(Err(other)) => {
                books.strange(format!("{key}: an update of {before:?} was answered: {other}"));
            }
        }
        false
    }

    pub(super) async fn stop(&mut self, node: &Node, books: &Books, until_stopped: bool) {
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
            Some(Err(Error::Deadline { .. } | Error::Store(_))) | None => Known::Unknown,
            Some(Err(other)) => {
                books.strange(format!("{}: a stop was answered: {other}", self.name));
                Known::Unknown
            }
        };
    }

    /// Returns whether the notification was accepted.
    pub(super) async fn notify(&mut self, node: &Node, books: &Books) -> bool {
        let asked = boottime_ns();
        self.notified += 1;
        let (key, number) = (self.name.clone(), self.notified);
        match timeout(DEADLINE * 3, node.notify(&*key, number.to_string())).await {
            Ok(Ok(())) => {
                books.history.record(Event::NotifyAccepted { key, number, asked });
                return true;
            }
            Ok(Err(Error::JobNotFound(_))) => self.known = self.was_not_found(asked, books),
            Ok(Err(Error::Deadline { .. } | Error::Store(_) | Error::NotifyFull(_))) => {}
            Ok(Err(other)) => books.strange(format!("{key}: a notification was answered: {other}")),
            Err(_) => books.silent(format!("{key}: a notification was not answered")),
        }
        false
    }

    /// Returns whether the job has answered.
    pub(super) async fn ask(&mut self, node: &Node, books: &Books, manner: Manner, idempotent: bool) -> bool {
        let asked = boottime_ns();
        self.asked += 1;
        let (key, id) = (self.name.clone(), format!("{}:{}", self.name, self.asked));
        let answer = books.ask(node, Question { key, id, manner, idempotent, patience: DEADLINE }).await;
        if matches!(answer, Some(Err(AskError::NotHandled(NotHandled::NoJob)))) {
            self.known = self.was_not_found(asked, books);
        }
        matches!(answer, Some(Ok(())))
    }

    fn was_not_found(&self, asked: u64, books: &Books) -> Known {
        books.history.record(Event::NotFound { key: self.name.clone(), asked });
        Known::Gone
    }
}
