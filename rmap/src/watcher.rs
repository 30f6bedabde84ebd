//! Waiting for changes of a map.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use tokio::sync::watch;
use tokio_util::sync::ReusableBoxFuture;

use crate::copy::Copy;
use crate::mutation::Mutation;
use crate::{Error, Snapshot};

/// Reports every change of a map since its creation. Many changes may come as one, but none is missed: after the last
/// change it reports once more, and a snapshot taken then contains that change.
///
/// It ends when the map is closed or its last handle dropped; it does not keep the map joined itself. As a stream, it
/// yields a snapshot for each report.
pub struct Watcher {
    copy: Arc<Copy>,
    /// Completes with the next change, or with an error when the task that follows the map has ended.
    next: ReusableBoxFuture<'static, (Result<(), watch::error::RecvError>, watch::Receiver<()>)>,
    has_ended: bool,
}

impl Watcher {
    pub(crate) fn new(copy: Arc<Copy>, mut changes: watch::Receiver<()>) -> Self {
        changes.mark_unchanged();
        let next = ReusableBoxFuture::new(next(changes, false));
        Self { copy, next, has_ended: false }
    }

    /// Returns when the map has changed since the last report, or since the watcher was made.
    ///
    /// # Errors
    /// [`Error::Closed`] when the map is closed: nothing will change any more.
    ///
    /// # Cancel safety
    /// Safe: the next call reports a change that was not reported.
    pub async fn changed(&mut self) -> Result<(), Error> {
        poll_fn(|context| self.poll_changed(context)).await
    }

    /// The local copy as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.copy.snapshot()
    }

    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.has_ended {
            return Poll::Ready(Err(Error::Closed));
        }
        let (result, changes) = ready!(self.next.poll(context));
        self.next.set(next(changes, self.copy.broken.has(Mutation::WatchesAnew)));
        self.has_ended = result.is_err();
        Poll::Ready(result.map_err(|_| Error::Closed))
    }
}

/// With `anew`, changes before the first poll do not count.
async fn next(
    mut changes: watch::Receiver<()>,
    anew: bool,
) -> (Result<(), watch::error::RecvError>, watch::Receiver<()>) {
    if anew {
        changes.mark_unchanged();
    }
    let result = changes.changed().await;
    (result, changes)
}

impl Stream for Watcher {
    type Item = Snapshot;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Snapshot>> {
        Poll::Ready(ready!(self.poll_changed(context)).ok().map(|()| self.snapshot()))
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}

/// Reports when the value of one key differs from the last reported one. Values in between may be skipped, but never
/// the last one.
///
/// The first value is the one at the time of creation; [`KeyWatcher::value`] returns it. As a stream, it yields the new
/// values, `None` when the key is gone, and ends when the map is closed.
#[derive(Debug)]
pub struct KeyWatcher {
    map: Watcher,
    key: Bytes,
    last: Option<Bytes>,
}

impl KeyWatcher {
    pub(crate) fn new(map: Watcher, key: &[u8]) -> Self {
        let last = map.copy.get(key);
        Self { map, key: Bytes::copy_from_slice(key), last }
    }

    /// The key.
    pub fn key(&self) -> &Bytes {
        &self.key
    }

    /// The value that was reported last; at first, the value at the time of creation.
    pub fn value(&self) -> Option<&Bytes> {
        self.last.as_ref()
    }

    /// Returns the value when it differs from the last one; `None` when the key is gone.
    ///
    /// # Errors
    /// [`Error::Closed`] when the map is closed: nothing will change any more.
    ///
    /// # Cancel safety
    /// Safe: the next call reports a change that was not reported.
    pub async fn changed(&mut self) -> Result<Option<Bytes>, Error> {
        poll_fn(|context| self.poll_changed(context)).await
    }

    pub(crate) fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        loop {
            ready!(self.map.poll_changed(context))?;
            let value = self.map.copy.get(&self.key);
            if value != self.last {
                self.last.clone_from(&value);
                return Poll::Ready(Ok(value));
            }
        }
    }
}

impl Stream for KeyWatcher {
    type Item = Option<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Option<Bytes>>> {
        Poll::Ready(ready!(self.poll_changed(context)).ok())
    }
}
