//! The thread of a node.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A runtime on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    over: CancellationToken,
    /// It is not on a thread of its own.
    is_here: bool,
    _end: DropGuard,
}

impl Thread {
    /// Starts a thread of this name.
    pub(crate) fn start(name: String) -> io::Result<Self> {
        let over = CancellationToken::new();
        let ended = over.clone();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(ended.cancelled());
            // A lookup of a host name may hang, so the thread does not wait for it.
            runtime.shutdown_background();
        })?;
        let end = over.clone().drop_guard();
        Ok(Self { runtime: handle, over, is_here: false, _end: end })
    }

    /// The caller's own runtime in its place: for tests and proofs, whose time is not that of the clock.
    #[cfg(any(feature = "sim", feature = "test-util"))]
    pub(crate) fn here() -> Self {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        Self { runtime: Handle::current(), over, is_here: true, _end: end }
    }

    /// Ends all that runs on it.
    #[cfg(any(feature = "sim", feature = "test-util"))]
    pub(crate) fn stop(&self) {
        self.over.cancel();
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.is_here {
            let over = self.over.clone();
            self.runtime.spawn(async move { over.run_until_cancelled_owned(work).await });
        } else {
            self.runtime.spawn(work);
        }
    }
}
