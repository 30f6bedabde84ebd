//! One blocking read over many streams, each with a cursor of its own.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream;
use redis::Cmd;
use tenure_connection::{Backoff, Blocking, Client};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::stream::milliseconds;
use crate::{Batch, Cursors, Entry, EntryId, Error, reply};

const COUNT: u64 = 64;
const BLOCK: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Reads several streams at once on a connection of its own. Independent readers each see all entries.
///
/// Nothing is skipped: a cursor moves only over entries that have been handed out. Streams and cursors may be changed
/// at any time through a [`ReaderHandle`].
pub struct Reader {
    blocking: Blocking,
    shared: Arc<Shared>,
    count: u64,
    block: Duration,
    backoff: Backoff,
}

/// Changes what a [`Reader`] reads, from any task. A change takes effect at once: a read that blocks is interrupted,
/// and entries that were read but not handed out before it are dropped where they no longer fit.
#[derive(Clone)]
pub struct ReaderHandle {
    shared: Arc<Shared>,
}

struct Shared {
    cursors: Mutex<Cursors>,
    changed: Notify,
}

impl Reader {
    /// A reader of no streams yet.
    pub fn new(client: &Client) -> Self {
        let shared = Shared { cursors: Mutex::default(), changed: Notify::new() };
        Self {
            blocking: client.blocking(),
            shared: Arc::new(shared),
            count: COUNT,
            block: BLOCK,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }

    /// How many entries of each stream one read may bring. 64 by default, at least 1.
    #[must_use]
    pub fn with_count(mut self, entries: u64) -> Self {
        self.count = entries.max(1);
        self
    }

    /// How long a read waits for an entry when there is none. 5 s by default; zero does not wait.
    #[must_use]
    pub fn with_block(mut self, block: Duration) -> Self {
        self.block = block;
        self
    }

    /// What changes the streams and cursors.
    pub fn handle(&self) -> ReaderHandle {
        ReaderHandle { shared: self.shared.clone() }
    }

    /// The next entries, one batch for each stream that has some; none when the time to wait is over.
    ///
    /// # Errors
    /// [`Error::Redis`]; no cursor has moved, and the next call goes on. [`Error::Malformed`] for a reply that is
    /// no reply to a read.
    ///
    /// # Cancel safety
    /// Safe: entries that were not returned come with the next call.
    pub async fn next_batch(&mut self) -> Result<Vec<Batch>, Error> {
        let mut batches = self.read().await?;
        let mut cursors = self.shared.cursors();
        batches.retain(|Read { batch, from }| {
            let last = batch.entries.last().map_or(*from, |entry| entry.id);
            cursors.advance(&batch.stream, *from, last)
        });
        Ok(batches.into_iter().map(|read| read.batch).collect())
    }

    /// All entries one by one, for ever. Redis is read again only when the entries of the last read have been taken,
    /// and a cursor moves as its entries are.
    ///
    /// An error is an item; the stream goes on after it. A reader that was told not to wait does wait here.
    pub fn into_entries(mut self) -> impl futures::Stream<Item = Result<(Arc<str>, Entry), Error>> + Send {
        if self.block.is_zero() {
            self.block = BLOCK;
        }
        let state = (self, VecDeque::new());
        stream::unfold(state, |(mut reader, mut read): (Self, VecDeque<Single>)| async move {
            loop {
                while let Some(Single { stream, from, entry }) = read.pop_front() {
                    if reader.shared.cursors().advance(&stream, from, entry.id) {
                        return Some((Ok((stream, entry)), (reader, read)));
                    }
                }
                match reader.read().await {
                    Ok(batches) => read.extend(batches.into_iter().flat_map(Read::singles)),
                    Err(error) => return Some((Err(error), (reader, read))),
                }
            }
        })
    }

    /// Reads without moving any cursor. After a failure it waits a little first, so that a caller may simply loop.
    async fn read(&mut self) -> Result<Vec<Read>, Error> {
        let pause = self.backoff.pause();
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let result = self.read_now().await;
        match &result {
            Ok(_) => self.backoff.reset(),
            Err(_) => self.backoff.fail(),
        }
        result
    }

    async fn read_now(&mut self) -> Result<Vec<Read>, Error> {
        loop {
            // A change since the cursors were last looked at has left a permit: none is missed.
            let changed = self.shared.changed.notified();
            let cursors = self.shared.cursors().clone();
            if cursors.is_empty() {
                if timeout(self.block, changed).await.is_err() {
                    return Ok(Vec::new());
                }
                continue;
            }
            let command = self.command(&cursors);
            let reply = match interruptible(self.blocking.command(&command, self.block), changed).await {
                Some(reply) => reply?,
                None => continue,
            };
            let mut reads = Vec::new();
            for (name, entries) in reply::streams(reply)? {
                let Some((stream, from)) = cursors.find(&name) else {
                    return Err(Error::Malformed { expected: "stream that was asked for" });
                };
                if !entries.is_empty() {
                    reads.push(Read { batch: Batch { stream: stream.clone(), entries }, from });
                }
            }
            return Ok(reads);
        }
    }

    fn command(&self, cursors: &Cursors) -> Cmd {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(self.count);
        if !self.block.is_zero() {
            // Zero would mean for ever.
            command.arg("BLOCK").arg(milliseconds(self.block));
        }
        command.arg("STREAMS");
        for (stream, _) in cursors.iter() {
            command.arg(&**stream);
        }
        for (_, after) in cursors.iter() {
            command.arg(after.to_string());
        }
        command
    }
}

/// Entries as they were read, behind the cursor that was sent.
struct Read {
    batch: Batch,
    from: EntryId,
}

/// One entry of them, behind the one before it.
struct Single {
    stream: Arc<str>,
    from: EntryId,
    entry: Entry,
}

impl Read {
    fn singles(self) -> impl Iterator<Item = Single> {
        let Self { batch: Batch { stream, entries }, mut from } = self;
        entries.into_iter().map(move |entry| {
            let behind = std::mem::replace(&mut from, entry.id);
            Single { stream: stream.clone(), from: behind, entry }
        })
    }
}

/// What `work` gives, or `None` when it was interrupted first; then it is dropped.
async fn interruptible<T>(work: impl Future<Output = T>, interrupt: impl Future<Output = ()>) -> Option<T> {
    tokio::select! {
        biased;
        () = interrupt => None,
        result = work => Some(result),
    }
}

impl ReaderHandle {
    /// Adds a stream, to be read from behind `after`; see [`Stream::position`](crate::Stream::position) for other
    /// places. A stream that is read already goes there.
    pub fn add_stream(&self, stream: &str, after: EntryId) {
        self.shared.change(|cursors| cursors.put(stream, after));
    }

    /// Stops reading a stream. Returns whether it was read.
    pub fn remove_stream(&self, stream: &str) -> bool {
        self.shared.change(|cursors| cursors.remove(stream))
    }

    /// Puts the cursor of a stream behind `after`. Returns whether the stream is read at all.
    pub fn set_cursor(&self, stream: &str, after: EntryId) -> bool {
        let mut known = false;
        self.shared.change(|cursors| {
            known = cursors.get(stream).is_some();
            known && cursors.put(stream, after)
        });
        known
    }

    /// The last entry of a stream that was handed out, or where its cursor was put since.
    pub fn cursor(&self, stream: &str) -> Option<EntryId> {
        self.shared.cursors().get(stream)
    }

    /// The streams that are read, with their cursors.
    pub fn cursors(&self) -> Cursors {
        self.shared.cursors().clone()
    }
}

impl Shared {
    fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Cursors) -> bool) -> bool {
        let changed = change(&mut self.cursors());
        if changed {
            self.changed.notify_one();
        }
        changed
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("cursors", &*self.shared.cursors()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReaderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderHandle").field("cursors", &*self.shared.cursors()).finish()
    }
}
