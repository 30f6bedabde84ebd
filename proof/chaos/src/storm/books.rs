//! The records of all users and askers, and their forbidden answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tenure_pool::{AskError, Error, Node};
use tenure_testing::history::{AskEnd, Event, History, boottime_ns};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

use crate::cli::named;
use crate::manner::Manner;

/// The longest time for a dispatch, an update or a stop.
pub(super) const DEADLINE: Duration = Duration::from_secs(8);
/// An answer that is later than its deadline by this much counts as missing.
const LATE: Duration = Duration::from_secs(10);

/// A forbidden answer, or a missing one.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// The moment, in nanoseconds of `CLOCK_BOOTTIME`.
    pub(super) at: u64,
    pub(super) what: String,
    /// Whether the answer is missing, which no loss of data excuses.
    pub(super) silent: bool,
}

/// An ask of the book.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) key: String,
    /// Unique.
    pub(super) id: String,
    pub(super) manner: Manner,
    pub(super) idempotent: bool,
    pub(super) patience: Duration,
}

/// The records of all users and askers.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) history: History,
    strange: Mutex<Vec<Told>>,
    /// While somebody holds it exclusively, nobody calls.
    pub(super) calling: Arc<RwLock<()>>,
}

impl Books {
    pub(super) fn new(history: History) -> Self {
        Self { history, strange: Mutex::default(), calling: Arc::default() }
    }

    /// Waits until every call is answered; nobody calls while the guard lives.
    pub(super) async fn silence(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.calling).write_owned().await
    }

    /// The forbidden and the missing answers.
    pub(super) fn all_strange(&self) -> Vec<Told> {
        self.strange.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks, and records the ask and its end. Returns the end, if it comes.
    pub(super) async fn ask(&self, node: &Node, question: Question) -> Option<Result<(), AskError>> {
        let Question { key, id, manner, idempotent, patience } = question;
        self.history.record(Event::AskMade { key: key.clone(), id: id.clone(), idempotent });
        let ask = node.ask(&*key, named(&manner)).id(id.clone()).deadline(patience);
        let ask = if idempotent { ask.idempotent() } else { ask };
        let answer = self.within("an ask", &key, ask).await?;
        let end = match &answer {
            Ok(words) => AskEnd::Answered(String::from_utf8_lossy(words).into_owned()),
            Err(AskError::Refused(words)) => AskEnd::Refused(words.clone()),
            Err(AskError::NotHandled(why)) => AskEnd::NotHandled(format!("{why:?}")),
            Err(AskError::Unknown { .. }) => AskEnd::Unknown,
            // A full Redis refuses an ask at once, and a handler must not see it.
            Err(AskError::Failed(Error::Store(error))) if error.is_full() => {
                AskEnd::NotHandled("Redis is full".to_owned())
            }
            Err(other) => {
                self.strange(format!("{key}: ask {id} was answered: {other}"));
                AskEnd::NotHandled(other.to_string())
            }
        };
        self.history.record(Event::AskEnded { key, id, end });
        Some(answer.map(drop))
    }

    /// The answer, if it comes. One that comes long after its deadline is a fault.
    pub(super) async fn within<T>(
        &self,
        what: &str,
        key: &str,
        call: impl IntoFuture<Output = T>,
    ) -> Option<T> {
        let asked = Instant::now();
        let answer = timeout(DEADLINE + LATE, call).await.ok();
        if answer.is_none() {
            self.silent(format!("{key}: {what} was not answered within {} s", asked.elapsed().as_secs()));
        }
        answer
    }

    pub(super) fn strange(&self, what: String) {
        self.tell(Told { at: boottime_ns(), what, silent: false });
    }

    pub(super) fn silent(&self, what: String) {
        self.tell(Told { at: boottime_ns(), what, silent: true });
    }

    fn tell(&self, told: Told) {
        self.strange.lock().unwrap_or_else(PoisonError::into_inner).push(told);
    }
}
