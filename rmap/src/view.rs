//! A local copy that follows a map, for reading.

use std::array;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_connection::Client;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::copy::Copy;
use crate::mirror::{Mirror, Request};
use crate::mutation::Mutations;
use crate::snapshot::Place;
use crate::{Error, KeyWatcher, Layout, Snapshot, Watcher};

/// A local copy of a map, kept up to date in the background. Reads are local. Clones share the copy.
///
/// The background task ends with the last view of the maps that were joined together, or with [`View::close`].
#[derive(Clone)]
pub struct View {
    shared: Arc<Shared>,
    map: usize,
    copy: Arc<Copy>,
    changes: watch::Receiver<()>,
}

struct Shared {
    requests: mpsc::UnboundedSender<Request>,
    tasks: Tasks,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.tasks.stop.cancel();
    }
}

/// Where a view's tasks run, and the signal that ends them.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    pub(crate) stop: CancellationToken,
    tracker: TaskTracker,
    runtime: Handle,
}

impl Tasks {
    /// Tasks on the caller's runtime.
    pub(crate) fn new() -> Self {
        Self { stop: CancellationToken::new(), tracker: TaskTracker::new(), runtime: Handle::current() }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn_on(task, &self.runtime);
    }
}

impl View {
    /// Joins the maps at the given places over one subscription, and returns after the first read of each. All their
    /// keys and channels must be in one slot of a cluster, that is, have the same `{hash tag}`, even on a single
    /// server.
    ///
    /// If the layout has [`Layout::deadlines`], the copies delete entries past their deadlines in Redis. Otherwise a
    /// view never writes.
    ///
    /// # Errors
    /// [`Error::Redis`] when Redis cannot be reached in time or refuses, or the keys and channels are in several slots;
    /// [`Error::Malformed`] when a place holds something else. Nothing is left behind.
    ///
    /// # Cancel safety
    /// Safe: nothing was written, and nothing is left behind.
    pub async fn join<const N: usize>(client: &Client, layouts: [Layout; N]) -> Result<[Self; N], Error> {
        Self::join_with(client, layouts, Mutations::default()).await
    }

    /// Joins maps like [`View::join`], with copies that are broken on purpose, for proofs.
    ///
    /// # Errors
    /// As for [`View::join`].
    ///
    /// # Cancel safety
    /// As for [`View::join`].
    #[doc(hidden)]
    #[cfg(feature = "sim")]
    pub async fn join_broken<const N: usize>(
        client: &Client,
        layouts: [Layout; N],
        broken: Mutations,
    ) -> Result<[Self; N], Error> {
        Self::join_with(client, layouts, broken).await
    }

    async fn join_with<const N: usize>(
        client: &Client,
        layouts: [Layout; N],
        broken: Mutations,
    ) -> Result<[Self; N], Error> {
        if !layouts.iter().flat_map(Layout::slots).is_sorted_by(|a, b| a == b) {
            let what =
                "the keys and channels of maps that are joined together are in several slots of a cluster";
            return Err(tenure_connection::Error::Config { what, source: None }.into());
        }
        let mirror = Mirror::start(client, layouts.into(), broken).await?;
        let copies = mirror.copies();
        let (requests, received) = mpsc::unbounded_channel();
        let tasks = Tasks::new();
        tasks.spawn(mirror.run(received, tasks.stop.clone()));
        tasks.tracker.close();
        let shared = Arc::new(Shared { requests, tasks });
        Ok(array::from_fn(|map| {
            let (copy, changes) = copies[map].clone();
            Self { shared: shared.clone(), map, copy, changes }
        }))
    }

    /// The value of a key in the copy.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.copy.get(key.as_ref())
    }

    /// Whether the copy has the key.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.copy.contains(key.as_ref())
    }

    /// The number of entries in the copy.
    pub fn len(&self) -> usize {
        self.copy.len()
    }

    /// Whether the copy has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole copy as it is now. Cheap: nothing is copied, and a later change of the map copies only the part that
    /// it touches.
    pub fn snapshot(&self) -> Snapshot {
        self.copy.snapshot()
    }

    /// How outdated the copy may be at most: the time since the start of its last comparison with the map. Normally it
    /// stays below about six seconds, whether or not the map changes. It grows while Redis is out of reach, and after
    /// [`View::close`].
    pub fn staleness(&self) -> Duration {
        self.copy.staleness()
    }

    /// Watches every change from now on.
    pub fn watch(&self) -> Watcher {
        Watcher::new(self.copy.clone(), self.changes.clone())
    }

    /// Watches every change of a key's value from now on.
    pub fn watch_key(&self, key: impl AsRef<[u8]>) -> KeyWatcher {
        KeyWatcher::new(self.watch(), key.as_ref())
    }

    /// Takes a hint from elsewhere about the map's place. If the copy is at another place, it is read again at once.
    pub fn expect(&self, incarnation: Option<u64>, revision: u64) {
        let place = self.copy.place();
        let is_there = match place {
            Some(place) => (Some(place.incarnation), place.revision) == (incarnation, revision),
            None => incarnation.is_none(),
        };
        if !is_there {
            // A closed map is not read any more.
            let _ = self.shared.requests.send(Request { map: self.map, whole: false, done: None });
        }
    }

    /// Reads the map again in the background, even where the copy is at the map's place. A repair by hand changes
    /// entries without a revision, and nothing else tells a copy of it.
    pub fn reread(&self) {
        // A closed map is not read any more.
        let _ = self.shared.requests.send(Request { map: self.map, whole: true, done: None });
    }

    /// Compares the copy with the map, reads it if they differ, and returns when the copy is at least as new as this
    /// call.
    ///
    /// # Errors
    /// [`Error::Redis`] when this attempt failed; others follow in the background. [`Error::Closed`] after
    /// [`View::close`].
    ///
    /// # Cancel safety
    /// Safe: the map is read all the same.
    pub async fn refresh(&self) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        let request = Request { map: self.map, whole: false, done: Some(done) };
        self.shared.requests.send(request).map_err(|_| Error::Closed)?;
        // A request that comes while the task ends may be neither answered nor dropped.
        let answer = self.shared.tasks.stop.run_until_cancelled(answer).await;
        answer.and_then(Result::ok).unwrap_or(Err(Error::Closed))
    }

    /// Returns when the copy has reached a place of its present incarnation. Returns `false` when the copy is in
    /// another incarnation: only a read then tells whether it is newer.
    pub(crate) async fn reach(&self, place: Place) -> Result<bool, Error> {
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            match self.copy.place() {
                Some(now) if now.incarnation == place.incarnation => {
                    if now == place || now.revision > place.revision && now.stamp >= place.stamp {
                        return Ok(true);
                    }
                }
                _ => return Ok(false),
            }
            changes.changed().await.map_err(|_| Error::Closed)?;
        }
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.shared.tasks
    }

    /// Whether [`View::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.tasks.stop.is_cancelled()
    }

    /// Stops following this map and those joined together with it, ends their watchers, and returns when the background
    /// task is gone. The copies stay readable.
    ///
    /// # Cancel safety
    /// Safe: the task ends all the same.
    pub async fn close(&self) {
        self.shared.tasks.stop.cancel();
        self.shared.tasks.tracker.wait().await;
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("place", &self.copy.place())
            .field("entries", &self.len())
            .finish_non_exhaustive()
    }
}
