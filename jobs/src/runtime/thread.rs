//! The thread of a node.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A runtime on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    #[cfg(feature = "sim")]
    over: CancellationToken,
    _end: DropGuard,
}

impl Thread {
    /// Starts a thread of this name.
    pub(crate) fn start(name: String) -> io::Result<Self> {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        #[cfg(feature = "sim")]
        let known = over.clone();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(over.cancelled());
            // A lookup of a host name may hang, so the thread does not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            runtime: handle,
            #[cfg(feature = "sim")]
            over: known,
            _end: end,
        })
    }

    /// Ends all that runs on it.
    #[cfg(feature = "sim")]
    pub(crate) fn stop(&self) {
        self.over.cancel();
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(work)
    }
}
