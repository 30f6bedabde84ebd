//! A local copy of a map that follows it, for reading.

use std::array;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tenure_connection::Client;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::mirror::{Mirror, Request};
use crate::{Error, Layout, Snapshot};

/// A local copy of a map, kept up to date in the background. Reads are local. Clones share it.
///
/// The background task ends with the last view of the maps that were joined together, or with [`View::close`].
#[derive(Clone)]
pub struct View {
    shared: Arc<Shared>,
    map: usize,
    copy: watch::Receiver<Arc<Snapshot>>,
}

struct Shared {
    requests: mpsc::UnboundedSender<Request>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl View {
    /// Joins maps that lie in the given places, over one subscription, and returns when each has been read once.
    ///
    /// # Errors
    /// [`Error::Redis`] when Redis cannot be reached in time or refuses; [`Error::Malformed`] when a place holds
    /// something else. Nothing is left behind.
    ///
    /// # Cancel safety
    /// Safe: nothing was written, and nothing is left behind.
    pub async fn join<const N: usize>(client: &Client, layouts: [Layout; N]) -> Result<[Self; N], Error> {
        let mirror = Mirror::start(client, layouts.into()).await?;
        let copies = mirror.watch();
        let (requests, received) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(mirror.run(received, stop.clone()));
        tasks.close();
        let shared = Arc::new(Shared { requests, stop, tasks });
        Ok(array::from_fn(|map| Self { shared: shared.clone(), map, copy: copies[map].clone() }))
    }

    /// The value of a key, as the copy has it.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.copy.borrow().get(key).cloned()
    }

    /// How many entries the copy has.
    pub fn len(&self) -> usize {
        self.copy.borrow().len()
    }

    /// Whether the copy has no entries.
    pub fn is_empty(&self) -> bool {
        self.copy.borrow().is_empty()
    }

    /// The whole copy. Cheap: nothing is copied.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.copy.borrow().clone()
    }

    /// Tells of every change from now on. Many changes may come as one, none is missed. It ends when the map is
    /// closed.
    pub fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        let mut watch = self.copy.clone();
        watch.mark_unchanged();
        watch
    }

    /// Takes a hint from elsewhere about where the map is. When the copy is not there, it is read again at once.
    pub fn expect(&self, incarnation: Option<u64>, revision: u64) {
        if !self.copy.borrow().is_at(incarnation, revision) {
            // A closed map reads no more.
            let _ = self.shared.requests.send(Request { map: self.map, done: None });
        }
    }

    /// Reads the map again and returns when the copy is at least as new as this call.
    ///
    /// # Errors
    /// [`Error::Redis`] when this attempt failed; others follow in the background. [`Error::Closed`] after
    /// [`View::close`].
    ///
    /// # Cancel safety
    /// Safe: the map is read all the same.
    pub async fn refresh(&self) -> Result<(), Error> {
        let (done, answer) = oneshot::channel();
        let request = Request { map: self.map, done: Some(done) };
        self.shared.requests.send(request).map_err(|_| Error::Closed)?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Stops following this map and those joined together with it, ends their watchers, and returns when the
    /// background task is gone. The copies stay readable.
    ///
    /// # Cancel safety
    /// Safe: the task ends all the same.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.wait().await;
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.snapshot();
        f.debug_struct("View")
            .field("incarnation", &snapshot.incarnation)
            .field("revision", &snapshot.revision)
            .field("entries", &snapshot.len())
            .finish_non_exhaustive()
    }
}
