//! The jobs of one connection, and whether a word of the host about them may be said. It knows no socket and no clock.
//!
//! A host has the last word on each of its jobs: `failed`, `refused`, `stopped` or `ended`. Until then the job is here, and
//! after it nothing of the job runs. A word that answers nothing is a breach: the host has lost count of its jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::wire::up::Up;

/// How many unanswered asks of a job are kept.
const ASKS: usize = 1_024;

/// How a start came out.
#[derive(Debug, PartialEq)]
pub(super) enum Began {
    Started,
    Failed {
        error: String,
        park: bool,
    },
    Refused {
        retry: Option<Duration>,
        elsewhere: bool,
    },
    /// It has ended before it ran.
    Over(End),
}

/// How a job has ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    /// As it was told to.
    Stopped,
    /// By itself.
    Ended { error: Option<String>, park: bool, lost: bool },
    /// Its host has gone, for this reason.
    Gone(String),
}

/// A host's answer to a notification.
#[derive(Debug, PartialEq)]
pub(super) struct Noted {
    pub(super) retry: Option<Duration>,
    pub(super) error: Option<String>,
}

/// A host's answer to another payload.
#[derive(Debug, PartialEq)]
pub(super) struct Updated {
    pub(super) restart: bool,
    pub(super) error: Option<String>,
}

/// A word that the host may not say.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Breach {
    /// It was never told of the job.
    #[error("{op} for the job {job}, which it never had")]
    UnknownJob { op: &'static str, job: u64 },
    /// It has said its last word on the job.
    #[error("{op} for the job {job}, which it has ended")]
    Twice { op: &'static str, job: u64 },
    /// It was not asked that.
    #[error("{op} for the job {job}, which answers nothing")]
    Unasked { op: &'static str, job: u64 },
    /// It was not given that number.
    #[error("{op} for number {n} of the job {job}, which it never had")]
    WrongNumber { op: &'static str, job: u64, n: u64 },
    /// It says hello again.
    #[error("a second hello")]
    SecondHello,
    /// A part of the message cannot be read.
    #[error("{op}, of which a part cannot be read: {why}")]
    Unreadable { op: &'static str, why: String },
}

/// A word of the host that is not for the table alone.
#[derive(Debug, PartialEq)]
pub(super) enum Heard<J, A> {
    /// It is done.
    Nothing,
    Pong(u64),
    /// The host wants to end.
    Bye,
    /// The job makes progress.
    Progress(J),
    Status(J, String),
    /// The job's last state; its end follows with [`Table::end`].
    Last {
        job: u64,
        of: J,
        state: Bytes,
    },
    Checkpoint {
        rid: u64,
        of: Option<J>,
        state: Bytes,
    },
    /// An answer, or a refusal.
    Answer(A, Result<Bytes, String>),
    /// The job's next owner shall have this ask.
    Moved(A),
    /// A request to the pool.
    Request(Up),
}

/// Is told of the ends of jobs for which nobody waits.
pub(super) type OnEnd<J> = Arc<dyn Fn(&J, End) + Send + Sync>;

/// The one that is told of a job's end.
enum Hears<J> {
    /// Its handler waits.
    One(oneshot::Sender<End>),
    /// It lives on, and nobody waits.
    All(OnEnd<J>),
}

struct Entry<J, A> {
    of: J,
    /// It was told to end.
    stops: bool,
    /// It was told so long ago.
    is_stuck: bool,
    began: Option<oneshot::Sender<Began>>,
    end: Hears<J>,
    note: Option<(u64, oneshot::Sender<Noted>)>,
    notes: u64,
    asks: HashMap<u64, A>,
    asked: u64,
    update: Option<(u64, oneshot::Sender<Updated>)>,
    updates: u64,
}

/// The jobs.
pub(super) struct Table<J, A> {
    jobs: HashMap<u64, Entry<J, A>>,
    last: u64,
}

/// The two moments of a job that its handler waits for.
pub(super) struct Waits {
    /// None once it was heard.
    pub(super) began: Option<oneshot::Receiver<Began>>,
    pub(super) end: oneshot::Receiver<End>,
}

impl<J: Clone, A> Table<J, A> {
    pub(super) fn new() -> Self {
        Self { jobs: HashMap::new(), last: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether the host has not said its last word on the job.
    pub(super) fn has(&self, job: u64) -> bool {
        self.jobs.contains_key(&job)
    }

    /// The job does not end, though it was told to.
    pub(super) fn is_stuck(&mut self, job: u64) {
        if let Some(entry) = self.jobs.get_mut(&job) {
            entry.is_stuck = true;
        }
    }

    /// Whether there are no jobs but those that do not end.
    pub(super) fn has_only_stuck(&self) -> bool {
        self.jobs.values().all(|entry| entry.is_stuck)
    }

    /// A new job is on its way to the host.
    pub(super) fn add(&mut self, of: J) -> (u64, Waits) {
        let ((to_began, began), (to_end, end)) = (oneshot::channel(), oneshot::channel());
        self.last += 1;
        let entry = Entry {
            of,
            stops: false,
            is_stuck: false,
            began: Some(to_began),
            end: Hears::One(to_end),
            note: None,
            notes: 0,
            asks: HashMap::new(),
            asked: 0,
            update: None,
            updates: 0,
        };
        self.jobs.insert(self.last, entry);
        (self.last, Waits { began: Some(began), end })
    }

    /// A job that has started lives on, and nobody waits for its end. False: it has ended.
    pub(super) fn lives_on(&mut self, job: u64, on_end: OnEnd<J>) -> bool {
        self.jobs.get_mut(&job).map(|entry| entry.end = Hears::All(on_end)).is_some()
    }

    /// Somebody waits for the job's end from now on. None: it has ended.
    pub(super) fn wait(&mut self, job: u64) -> Option<oneshot::Receiver<End>> {
        let entry = self.jobs.get_mut(&job)?;
        let (to, end) = oneshot::channel();
        entry.end = Hears::One(to);
        Some(end)
    }

    /// The job must end. False: it was told before, or has ended.
    pub(super) fn stop(&mut self, job: u64) -> bool {
        self.jobs.get_mut(&job).is_some_and(|entry| !std::mem::replace(&mut entry.stops, true))
    }

    /// A notification is on its way to the host. None: the job has ended.
    pub(super) fn note(&mut self, job: u64) -> Option<(u64, oneshot::Receiver<Noted>)> {
        let entry = self.jobs.get_mut(&job)?;
        let (to, noted) = oneshot::channel();
        entry.notes += 1;
        entry.note = Some((entry.notes, to));
        Some((entry.notes, noted))
    }

    /// An ask is on its way to the host. Gives it back if the job has ended, or has left too many unanswered.
    ///
    /// # Errors
    /// The ask.
    pub(super) fn ask(&mut self, job: u64, ask: A, is_open: impl Fn(&A) -> bool) -> Result<u64, A> {
        let Some(entry) = self.jobs.get_mut(&job) else { return Err(ask) };
        if entry.asks.len() >= ASKS {
            entry.asks.retain(|_, ask| is_open(ask));
        }
        if entry.asks.len() >= ASKS {
            return Err(ask);
        }
        entry.asked += 1;
        entry.asks.insert(entry.asked, ask);
        Ok(entry.asked)
    }

    /// Another payload is on its way to the host. None: the job has ended.
    pub(super) fn update(&mut self, job: u64) -> Option<(u64, oneshot::Receiver<Updated>)> {
        let entry = self.jobs.get_mut(&job)?;
        let (to, updated) = oneshot::channel();
        entry.updates += 1;
        entry.update = Some((entry.updates, to));
        Some((entry.updates, updated))
    }

    /// The host has gone, and nothing of it is left: all its jobs have ended.
    pub(super) fn gone(&mut self, why: &str) {
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.end(job, End::Gone(why.to_owned()));
        }
    }

    /// The job has ended.
    pub(super) fn end(&mut self, job: u64, end: End) {
        let Some(entry) = self.jobs.remove(&job) else { return };
        // A handler that nobody runs any more hears nothing.
        match (entry.began, entry.end) {
            (Some(began), _) => drop(began.send(Began::Over(end))),
            (None, Hears::One(to)) => drop(to.send(end)),
            (None, Hears::All(on_end)) => on_end(&entry.of, end),
        }
    }

    /// The host says a word.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn hear(&mut self, up: Up) -> Result<Heard<J, A>, Breach> {
        let millis = |ms: Option<u64>| ms.map(Duration::from_millis);
        match up {
            Up::Hello(_) => Err(Breach::SecondHello),
            Up::Started { job } => {
                let began = self.entry("started", job)?.began.take();
                let began = began.ok_or(Breach::Unasked { op: "started", job })?;
                let _ = began.send(Began::Started);
                Ok(Heard::Nothing)
            }
            Up::Failed { job, error, park } => self.not_begun("failed", job, Began::Failed { error, park }),
            Up::Refused { job, retry_ms, elsewhere } => {
                self.not_begun("refused", job, Began::Refused { retry: millis(retry_ms), elsewhere })
            }
            Up::Stopped { job, state } => {
                let entry = self.entry("stopped", job)?;
                if !entry.stops {
                    return Err(Breach::Unasked { op: "stopped", job });
                }
                let of = entry.of.clone();
                let state = state.bytes().map_err(|why| Breach::Unreadable { op: "stopped", why })?;
                if let Some(state) = state {
                    return Ok(Heard::Last { job, of, state });
                }
                self.end(job, End::Stopped);
                Ok(Heard::Nothing)
            }
            Up::Ended { job, error, park, lost } => {
                self.entry("ended", job)?;
                self.end(job, End::Ended { error, park, lost });
                Ok(Heard::Nothing)
            }
            Up::Ack { job, n, retry_ms, error } => {
                let Some(entry) = self.late("ack", job)? else { return Ok(Heard::Nothing) };
                if n == 0 || n > entry.notes {
                    return Err(Breach::WrongNumber { op: "ack", job, n });
                }
                // One that is not waited for any more goes to the job's next owner.
                if let Some((_, to)) = entry.note.take_if(|(number, _)| *number == n) {
                    let _ = to.send(Noted { retry: millis(retry_ms), error });
                }
                Ok(Heard::Nothing)
            }
            Up::Answer { job, n, moved, error, body } => {
                let Some(entry) = self.late("answer", job)? else { return Ok(Heard::Nothing) };
                if n == 0 || n > entry.asked {
                    return Err(Breach::WrongNumber { op: "answer", job, n });
                }
                let body = body.bytes().map_err(|why| Breach::Unreadable { op: "answer", why })?;
                let Some(ask) = entry.asks.remove(&n) else { return Ok(Heard::Nothing) };
                if moved {
                    return Ok(Heard::Moved(ask));
                }
                Ok(Heard::Answer(ask, error.map_or(Ok(body), Err)))
            }
            Up::Updated { job, n, restart, error } => {
                let Some(entry) = self.late("updated", job)? else { return Ok(Heard::Nothing) };
                if n == 0 || n > entry.updates {
                    return Err(Breach::WrongNumber { op: "updated", job, n });
                }
                if let Some((_, to)) = entry.update.take_if(|(number, _)| *number == n) {
                    let _ = to.send(Updated { restart, error });
                }
                Ok(Heard::Nothing)
            }
            Up::Pong { n } => Ok(Heard::Pong(n)),
            Up::Checkpoint { job, rid, body } => {
                let of = self.late("checkpoint", job)?.map(|entry| entry.of.clone());
                let state = body.bytes().map_err(|why| Breach::Unreadable { op: "checkpoint", why })?;
                Ok(Heard::Checkpoint { rid, of, state })
            }
            Up::Progress { job } => {
                let entry = self.late("progress", job)?;
                Ok(entry.map_or(Heard::Nothing, |entry| Heard::Progress(entry.of.clone())))
            }
            Up::Status { job, text } => {
                let entry = self.late("status", job)?;
                Ok(entry.map_or(Heard::Nothing, |entry| Heard::Status(entry.of.clone(), text)))
            }
            Up::Bye {} => Ok(Heard::Bye),
            request => Ok(Heard::Request(request)),
        }
    }

    fn not_begun(&mut self, op: &'static str, job: u64, how: Began) -> Result<Heard<J, A>, Breach> {
        let began = self.entry(op, job)?.began.take().ok_or(Breach::Unasked { op, job })?;
        let _ = began.send(how);
        self.jobs.remove(&job);
        Ok(Heard::Nothing)
    }

    /// The job of a word that no ended job has.
    fn entry(&mut self, op: &'static str, job: u64) -> Result<&mut Entry<J, A>, Breach> {
        let is_known = job != 0 && job <= self.last;
        let breach = if is_known { Breach::Twice { op, job } } else { Breach::UnknownJob { op, job } };
        self.jobs.get_mut(&job).ok_or(breach)
    }

    /// The job of a word that may cross its end.
    fn late(&mut self, op: &'static str, job: u64) -> Result<Option<&mut Entry<J, A>>, Breach> {
        match self.entry(op, job) {
            Ok(entry) => Ok(Some(entry)),
            Err(Breach::Twice { .. }) => Ok(None),
            Err(breach) => Err(breach),
        }
    }
}

#[cfg(test)]
mod tests;
