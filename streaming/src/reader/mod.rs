//! Reading many streams at once, each behind a cursor of its own.
//!
//! - `lane`: a sequence of blocking reads, the only place that calls Redis.
//! - `ahead`: detects a cursor ahead of its stream.
//! - `taking`: entries that were read and not yet handed out. Pure.
//! - `shared`: the cursors, shared by the reader and its handles.
//! - `builder`: settings.

mod ahead;
mod builder;
mod lane;
mod shared;
mod taking;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt as _;
use tenure_connection::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::lanes::Lanes;
use crate::{Cursors, Entry, Error, Filter};

pub use builder::ReaderBuilder;
pub use shared::ReaderHandle;

use lane::Lane;
use shared::Shared;
use taking::{Item, Taking};

/// Reads several streams at once. Independent readers each see all entries.
///
/// It is a [`futures::Stream`] of entries; an error is an item, after which the stream continues. It skips nothing: a
/// cursor moves only over entries that were handed out or that the filters do not want. It reads Redis again only when
/// all entries of the last read have been taken. A [`ReaderHandle`] changes streams and cursors at any time.
///
/// It has no task: it reads while it is polled, and dropping it closes its connection.
pub struct Reader {
    client: Client,
    shared: Arc<Shared>,
    changes: watch::Receiver<()>,
    settings: Settings,
    lanes: Lanes<Lane, Result<Vec<Item>, Error>>,
    taking: Taking,
}

#[derive(Clone, Debug)]
struct Settings {
    filters: Arc<[Filter]>,
    count: u64,
    block: Duration,
}

impl Reader {
    /// Settings of a reader, which at first reads no stream.
    pub fn builder(client: &Client) -> ReaderBuilder {
        ReaderBuilder::new(client)
    }

    fn new(client: Client, shared: Arc<Shared>, settings: Settings) -> Self {
        let mut changes = shared.watch();
        // Makes the first lanes.
        changes.mark_changed();
        Self { client, shared, changes, settings, lanes: Lanes::new(), taking: Taking::default() }
    }

    /// A handle that changes the streams and cursors.
    pub fn handle(&self) -> ReaderHandle {
        ReaderHandle::new(self.shared.clone())
    }

    /// The next entries of all streams, in order within each; an empty batch when none came within the wait.
    ///
    /// # Errors
    /// [`Error::Redis`]: no cursor has moved, and the next call continues, after a pause that grows while it fails.
    /// [`Error::CursorAhead`], once, when a stream has been begun anew with lower ids. [`Error::Malformed`] for a reply
    /// that does not fit the read. [`Error::Closed`] for a closed reader.
    ///
    /// # Cancel safety
    /// Safe: the read goes on with the next call, and entries that were not returned come with it.
    pub async fn next_batch(&mut self) -> Result<Vec<Entry>, Error> {
        let until = Instant::now() + self.settings.block;
        let mut has_read = false;
        loop {
            if self.shared.is_closed() {
                return Err(Error::Closed);
            }
            let entries = self.taking.take_all(&mut self.shared.cursors());
            let left = until.saturating_duration_since(Instant::now());
            // Entries that no filter wants do not prolong the wait.
            if !entries.is_empty() || has_read && left.is_zero() {
                return Ok(entries);
            }
            poll_fn(|cx| self.poll_round(cx, left)).await?;
            has_read = true;
        }
    }

    /// Stops reading and returns the cursors: another reader that begins behind them continues without a gap.
    pub fn close(self) -> Cursors {
        self.shared.close();
        self.shared.cursors().clone()
    }

    /// Drives the reads until one of them ends.
    fn poll_round(&mut self, cx: &mut Context<'_>, block: Duration) -> Poll<Result<(), Error>> {
        let Self { client, shared, changes, settings, lanes, taking } = self;
        if changes.has_changed().unwrap_or(true) {
            changes.mark_unchanged();
            lanes.arrange(shared.slots(), || Lane::new(client.blocking(), shared));
        }
        lanes.start(|slot, lane| lane.round(slot, settings.clone(), block).boxed());
        taking.put(ready!(lanes.poll(cx))?);
        Poll::Ready(Ok(()))
    }
}

impl futures::Stream for Reader {
    type Item = Result<Entry, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reader = self.get_mut();
        // A reader with a wait of zero does wait here: a stream cannot report that there is nothing.
        let block = if reader.settings.block.is_zero() { builder::BLOCK } else { reader.settings.block };
        loop {
            if reader.shared.is_closed() {
                reader.lanes.clear();
                return Poll::Ready(None);
            }
            if let Some(entry) = reader.taking.take(&mut reader.shared.cursors()) {
                return Poll::Ready(Some(Ok(entry)));
            }
            if let Err(error) = ready!(reader.poll_round(cx, block)) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("cursors", &*self.shared.cursors()).finish_non_exhaustive()
    }
}
