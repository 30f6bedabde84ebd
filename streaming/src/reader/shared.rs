//! The cursors, shared by a reader and its handles.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_connection::{Client, Connection};
use tokio::sync::watch;

use crate::lanes::Placement;
use crate::start::last_id;
use crate::{Cursors, EntryId, Error, Start, keys};

pub(super) struct Shared {
    redis: Connection,
    placement: Placement,
    cursors: Mutex<Cursors>,
    /// The positions of the cursors that were reported as ahead.
    told: Mutex<Cursors>,
    closed: AtomicBool,
    changes: watch::Sender<()>,
}

impl Shared {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            redis: client.commands(),
            placement: Placement::of(client),
            cursors: Mutex::default(),
            told: Mutex::default(),
            closed: AtomicBool::new(false),
            changes: watch::Sender::new(()),
        }
    }

    /// Adds a stream, or moves its cursor.
    pub(super) async fn add_stream(&self, stream: &str, start: Start) -> Result<(), Error> {
        keys::check("stream name", stream)?;
        let after = start.resolve(&self.redis, stream).await?;
        self.change(|cursors| cursors.put(stream, after));
        Ok(())
    }

    /// The reader's positions. The lock is not held across an await.
    pub(super) fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last id that a stream has assigned, if it exists.
    pub(super) async fn last_id(&self, stream: &str) -> Result<Option<EntryId>, Error> {
        last_id(&self.redis, stream).await
    }

    /// Whether this cursor was reported as ahead.
    pub(super) fn is_told(&self, stream: &str, cursor: EntryId) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).get(stream) == Some(cursor)
    }

    /// Marks this cursor as reported. Returns `false` if it has moved meanwhile.
    pub(super) fn tell(&self, stream: &str, cursor: EntryId) -> bool {
        let cursors = self.cursors();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|stream| cursors.get(stream).is_some());
        cursors.get(stream) == Some(cursor) && told.put(stream, cursor)
    }

    /// The slots of the streams.
    pub(super) fn slots(&self) -> BTreeSet<u16> {
        self.placement.slots(self.cursors().iter().map(|(stream, _)| stream))
    }

    /// The streams of a slot with their cursors.
    pub(super) fn cursors_in(&self, slot: u16) -> Cursors {
        let mut cursors = self.cursors().clone();
        cursors.retain(|stream| self.placement.slot(stream) == slot);
        cursors
    }

    /// A receiver of all changes since it was made or last checked.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changes.send_replace(());
    }

    fn change(&self, change: impl FnOnce(&mut Cursors) -> bool) -> bool {
        let changed = change(&mut self.cursors());
        if changed {
            self.changes.send_replace(());
        }
        changed
    }
}

/// Changes the streams and cursors of a [`Reader`](crate::Reader), from any task. A change takes effect at once: it
/// interrupts a waiting read. Entries that were read before it and no longer fit are dropped.
#[derive(Clone)]
pub struct ReaderHandle {
    shared: Arc<Shared>,
}

impl ReaderHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Adds a stream. If it is read already, it is read from the new start. With [`Start::Newest`] the reader misses
    /// nothing that is added after this returns.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::Redis`], only for [`Start::Newest`]. Then nothing has changed.
    ///
    /// # Cancel safety
    /// Safe: the stream is added when this returns, or not at all.
    pub async fn add_stream(&self, stream: &str, start: Start) -> Result<(), Error> {
        self.shared.add_stream(stream, start).await
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

    /// The last entry of a stream that was handed out or not wanted, or the place where its cursor was put since.
    pub fn cursor(&self, stream: &str) -> Option<EntryId> {
        self.shared.cursors().get(stream)
    }

    /// The streams that are read, with their cursors.
    pub fn cursors(&self) -> Cursors {
        self.shared.cursors().clone()
    }

    /// Closes the reader: its stream ends, `next_batch` answers [`Error::Closed`], and its connection closes when the
    /// reader is next polled or dropped. Cursors stay where they are.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl fmt::Debug for ReaderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderHandle").field("cursors", &*self.shared.cursors()).finish()
    }
}
