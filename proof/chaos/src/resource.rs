//! The world outside: a resource to which every handler writes, and which refuses a token below the highest it has
//! seen.
//!
//! It also checks whether that is enough: a write from a holder whom another one has already followed is an accepted
//! stale write. Messages are one JSON value per line in both directions; only writes with a number are answered.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tenure_testing::history::boottime_ns;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::Result;

/// The most writes of a process that may be on their way.
const QUEUE: usize = 16_384;

/// A write in the name of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Write {
    /// The write's number, if it needs an answer.
    pub(crate) number: Option<u64>,
    pub(crate) key: String,
    pub(crate) token: u64,
    pub(crate) holder: String,
}

/// The answer to a write with a number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) accepted: bool,
}

/// The resource's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted writes.
    pub accepted: u64,
    /// Refused writes, under a token below the highest of their key: they had no effect.
    pub refused: u64,
    /// Accepted writes of a holder whom another one had already followed. Must be 0.
    pub stale_accepted: u64,
}

/// A writer of a key, and its accepted writes. Moments are in nanoseconds of `CLOCK_BOOTTIME`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// The token of its writes.
    pub token: u64,
    /// The writer.
    pub holder: String,
    /// When it first wrote.
    pub from: u64,
    /// When it last wrote.
    pub to: u64,
    /// How often it wrote.
    pub writes: u64,
}

impl Run {
    fn is_by(&self, token: u64, holder: &str) -> bool {
        self.token == token && self.holder == holder
    }
}

/// Decides which writes are accepted.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The runs of each key, in the order of their first writes.
    keys: HashMap<String, Vec<Run>>,
    counts: Counts,
}

impl Ledger {
    /// Records a write at this moment. Returns whether it is accepted.
    pub fn write(&mut self, key: &str, token: u64, holder: &str, at: u64) -> bool {
        let runs = self.keys.entry(key.to_owned()).or_default();
        // No token is below that of an earlier run.
        if runs.last().is_some_and(|last| token < last.token) {
            self.counts.refused += 1;
            return false;
        }
        self.counts.accepted += 1;
        if let Some(last) = runs.last_mut().filter(|last| last.is_by(token, holder)) {
            (last.to, last.writes) = (at, last.writes + 1);
            return true;
        }
        let mut with_this_token = runs.iter().rev().take_while(|run| run.token == token);
        if with_this_token.any(|run| run.holder == holder) {
            self.counts.stale_accepted += 1;
        }
        runs.push(Run { token, holder: holder.to_owned(), from: at, to: at, writes: 1 });
        true
    }

    /// Whether the key's last writer has this token, and has written both before this moment and after it.
    pub fn wrote_around(&self, key: &str, token: u64, at: u64) -> bool {
        self.last_run(key).is_some_and(|last| last.token == token && last.from <= at && at <= last.to)
    }

    /// Whether a write of the key was accepted after this moment.
    pub fn wrote_after(&self, key: &str, at: u64) -> bool {
        self.last_run(key).is_some_and(|last| at < last.to)
    }

    /// The token and the holder of the key's last accepted write.
    pub fn last_writer(&self, key: &str) -> Option<(u64, String)> {
        self.last_run(key).map(|last| (last.token, last.holder.clone()))
    }

    fn last_run(&self, key: &str) -> Option<&Run> {
        self.runs(key).last()
    }

    /// All runs of a key, in the order of their first writes.
    pub fn runs(&self, key: &str) -> &[Run] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    /// The keys that two writers wrote under one token.
    pub fn keys_of_one_token(&self) -> Vec<String> {
        let shared = |runs: &[Run]| runs.windows(2).any(|pair| pair[0].token == pair[1].token);
        let mut keys: Vec<_> =
            self.keys.iter().filter(|(_, runs)| shared(runs)).map(|(key, _)| key.clone()).collect();
        keys.sort();
        keys
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// The running resource. It ends when this is dropped.
#[derive(Debug)]
pub struct Resource {
    address: SocketAddr,
    ledger: Arc<Mutex<Ledger>>,
    task: JoinHandle<()>,
}

impl Resource {
    /// Listens on a port of 127.0.0.1.
    ///
    /// # Errors
    /// A network error.
    ///
    /// # Cancel safety
    /// A dropped start leaves nothing behind.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, ledger) = (listener.local_addr()?, Arc::<Mutex<Ledger>>::default());
        let shared = Arc::clone(&ledger);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Ok(Self { address, ledger, task })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was written so far.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, ledger: Arc<Mutex<Ledger>>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    // A malformed line comes from a process that was killed while it wrote.
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(asked) = serde_json::from_str::<Write>(&line) else { return };
        let accepted = {
            let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.write(&asked.key, asked.token, &asked.holder, boottime_ns())
        };
        if let Some(number) = asked.number {
            let answer = serde_json::to_string(&Answer { number, accepted }).unwrap_or_default();
            if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// A process's connection to the resource. Its task ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Access {
    writes: mpsc::Sender<(Write, Option<oneshot::Sender<bool>>)>,
}

impl Access {
    /// Connects.
    ///
    /// # Errors
    /// A network error.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        let (writes, queue) = mpsc::channel(QUEUE);
        tokio::spawn(carry(stream, queue));
        Ok(Self { writes })
    }

    /// Writes, and returns whether the write was accepted; `false` also when the resource is gone.
    ///
    /// # Cancel safety
    /// When dropped, the write may have happened.
    pub async fn write(&self, key: &str, token: u64, holder: &str) -> bool {
        let (sender, answer) = oneshot::channel();
        let sent = self.writes.send((write_of(key, token, holder), Some(sender))).await;
        sent.is_ok() && answer.await.unwrap_or_default()
    }

    /// Writes without waiting for an answer.
    pub fn beat(&self, key: &str, token: u64, holder: &str) {
        // A missing write does not matter when the queue is full.
        let _ = self.writes.try_send((write_of(key, token, holder), None));
    }
}

/// A write that needs no answer.
pub(crate) fn write_of(key: &str, token: u64, holder: &str) -> Write {
    Write { number: None, key: key.to_owned(), token, holder: holder.to_owned() }
}

async fn carry(stream: TcpStream, mut queue: mpsc::Receiver<(Write, Option<oneshot::Sender<bool>>)>) {
    let (read, mut out) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut waiting = HashMap::new();
    let mut number = 0;
    loop {
        tokio::select! {
            next = queue.recv() => {
                let Some((mut write, answer)) = next else { return };
                if let Some(answer) = answer {
                    number += 1;
                    write.number = Some(number);
                    waiting.insert(number, answer);
                }
                let line = serde_json::to_string(&write).unwrap_or_default() + "\n";
                if out.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { return };
                let Ok(answer) = serde_json::from_str::<Answer>(&line) else { return };
                if let Some(waits) = waiting.remove(&answer.number) {
                    let _ = waits.send(answer.accepted);
                }
            }
        }
    }
}
