//! The recorder: in memory for one process, or as lines of JSON in a file that many processes share.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::time::{ClockId, clock_gettime};

use super::{Entry, Event};

/// The machine's monotonic clock that continues in suspension, in nanoseconds.
pub fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // Both parts are positive: the clock counts from the machine's start.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Records events; shared by reference between threads and tasks.
#[derive(Debug, Default)]
pub struct History {
    entries: Mutex<Vec<Entry>>,
    file: Option<File>,
}

impl History {
    /// An empty history in memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends to a file, which other processes may append to as well. Nothing is kept in memory: [`load`](Self::load)
    /// reads the whole file.
    ///
    /// # Errors
    /// When the file cannot be opened or made.
    pub fn append_to(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { entries: Mutex::default(), file: Some(file) })
    }

    /// Reads a file of events.
    ///
    /// # Errors
    /// When the file cannot be read or a line is not an event; the error names the line.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let text = fs::read_to_string(path)?;
        let entries = text
            .lines()
            .enumerate()
            .map(|(index, line)| {
                serde_json::from_str(line).map_err(|source| LoadError::Line { line: index + 1, source })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { entries: Mutex::new(entries), file: None })
    }

    /// The entries in memory, in the order of time.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone();
        entries.sort_by_key(|entry| entry.at);
        entries
    }

    /// Records an event at a given moment.
    ///
    /// # Panics
    /// When the file cannot be written: a history with holes proves nothing.
    pub fn record_at(&self, at: u64, event: Event) {
        let entry = Entry { at, event };
        let Some(mut file) = self.file.as_ref() else {
            self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
            return;
        };
        let written = serde_json::to_string(&entry).map_err(io::Error::from).and_then(|line| {
            let line = line + "\n";
            // One write: lines of several processes never mix.
            if file.write(line.as_bytes())? == line.len() {
                Ok(())
            } else {
                Err(io::ErrorKind::WriteZero.into())
            }
        });
        if let Err(error) = written {
            panic!("cannot append to the history: {error}");
        }
    }

    /// Records an event now.
    pub fn record(&self, event: Event) {
        self.record_at(boottime_ns(), event);
    }

    /// A handler is about to start.
    pub fn started(&self, key: &str, token: u64, worker: &str) {
        self.record(Event::Started { key: key.into(), token, worker: worker.into() });
    }

    /// A handler has stopped.
    pub fn stopped(&self, key: &str, token: u64, worker: &str) {
        self.record(Event::Stopped { key: key.into(), token, worker: worker.into() });
    }

    /// A caller is about to submit the job.
    pub fn submitted(&self, key: &str) {
        self.record(Event::Submitted { key: key.into() });
    }

    /// The pool has accepted the job.
    pub fn accepted(&self, key: &str) {
        self.record(Event::Accepted { key: key.into() });
    }

    /// A caller is about to ask for a stop.
    pub fn stop_requested(&self, key: &str) {
        self.record(Event::StopRequested { key: key.into() });
    }

    /// The pool has said that the job is gone.
    pub fn stop_acknowledged(&self, key: &str) {
        self.record(Event::StopAcknowledged { key: key.into() });
    }

    /// The worker's process is paused.
    pub fn paused(&self, worker: &str) {
        self.record(Event::Paused { worker: worker.into() });
    }

    /// The worker's process is about to go on.
    pub fn resumed(&self, worker: &str) {
        self.record(Event::Resumed { worker: worker.into() });
    }

    /// The worker's process is gone.
    pub fn worker_dead(&self, worker: &str) {
        self.record(Event::WorkerDead { worker: worker.into() });
    }

    /// The pool has come to rest.
    pub fn settled(&self) {
        self.record(Event::Settled);
    }
}

/// A history file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the history")]
    Read(#[from] io::Error),
    /// A line is not an event.
    #[error("line {line} of the history is not an event")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The reason why the line is no event.
        #[source]
        source: serde_json::Error,
    },
}
