//! Reading many streams at once, each behind a cursor of its own.
//!
//! - `lane`: one blocking read after another; the only place that asks Redis.
//! - `ahead`: whether a cursor lies ahead of its stream.
//! - `taking`: what was read and is not handed out yet. Pure.
//! - `shared`: the cursors, which the reader and its handles share.
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
/// It is a [`futures::Stream`] of entries; an error is an item, and the stream goes on after it. Nothing is skipped: a
/// cursor moves only over what was handed out, or was not wanted by the filters. Redis is read again only when what
/// was read has been taken. Streams and cursors may be changed at any time through a [`ReaderHandle`].
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
    /// A reader with these settings; it reads nothing until it is told what.
    pub fn builder(client: &Client) -> ReaderBuilder {
        ReaderBuilder::new(client)
    }

    fn new(client: Client, shared: Arc<Shared>, settings: Settings) -> Self {
        let mut changes = shared.watch();
        // The first lanes are to be made.
        changes.mark_changed();
        Self { client, shared, changes, settings, lanes: Lanes::new(), taking: Taking::default() }
    }

    /// What changes the streams and cursors.
    pub fn handle(&self) -> ReaderHandle {
        ReaderHandle::new(self.shared.clone())
    }

    /// The next entries of all streams, in order within each; none when there were none for the time to wait.
    ///
    /// # Errors
    /// [`Error::Redis`]; no cursor has moved, and the next call goes on, after a pause that grows while it fails.
    /// [`Error::CursorAhead`], once, when a stream has been begun anew with lower ids. [`Error::Malformed`] for a reply
    /// that is no reply to a read. [`Error::Closed`].
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
            // What no filter wants does not prolong the wait.
            if !entries.is_empty() || has_read && left.is_zero() {
                return Ok(entries);
            }
            poll_fn(|cx| self.poll_round(cx, left)).await?;
            has_read = true;
        }
    }

    /// Stops reading and says where it was: another reader that begins behind these goes on without a gap.
    pub fn close(self) -> Cursors {
        self.shared.close();
        self.shared.cursors().clone()
    }

    /// Drives the reads until one of them has ended.
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
        // One that was told not to wait does wait here: a stream has no other way to say that there is nothing.
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
