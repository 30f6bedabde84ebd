//! What a reader shares with its handles: the cursors.

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
    /// Where cursors were when it was told that they are ahead.
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

    /// Where the reader is. Not held across an await.
    pub(super) fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last id that a stream ever gave, if there is one.
    pub(super) async fn last_id(&self, stream: &str) -> Result<Option<EntryId>, Error> {
        last_id(&self.redis, stream).await
    }

    /// Whether it was told of this cursor that it is ahead.
    pub(super) fn is_told(&self, stream: &str, cursor: EntryId) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).get(stream) == Some(cursor)
    }

    /// It is told of this cursor that it is ahead, unless it is elsewhere by now.
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

    /// Is told of every change since it was made or last looked.
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

/// Changes what a [`Reader`](crate::Reader) reads, from any task. A change takes effect at once: a read that waits is
/// interrupted, and entries that were read but not handed out before it are dropped where they no longer fit.
#[derive(Clone)]
pub struct ReaderHandle {
    shared: Arc<Shared>,
}

impl ReaderHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Adds a stream. One that is read already is read from there. With [`Start::Newest`] nothing is missed that is
    /// added after this returns.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::Redis`], only for [`Start::Newest`]. Nothing has changed then.
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

    /// The last entry of a stream that was handed out or not wanted, or where its cursor was put since.
    pub fn cursor(&self, stream: &str) -> Option<EntryId> {
        self.shared.cursors().get(stream)
    }

    /// The streams that are read, with their cursors.
    pub fn cursors(&self) -> Cursors {
        self.shared.cursors().clone()
    }

    /// Ends the reader: its stream is over, `next_batch` answers [`Error::Closed`], and its connection is closed when
    /// it is next polled or dropped. Cursors stay where they are.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl fmt::Debug for ReaderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReaderHandle").field("cursors", &*self.shared.cursors()).finish()
    }
}
