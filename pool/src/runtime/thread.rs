//! The thread of a node's engine: the driver, with all its connections to the store.
//!
//! Handlers run on the runtime that the node was joined on, its home. The engine of a full node has a thread of its
//! own, and so has the guard of several shards. So a handler that blocks its thread delays other tasks on that thread,
//! and never the engine. Leases are renewed, jobs are routed, and no job of the node moves. A client has no handlers, so
//! its engine runs at home: a call and its answer need not wake another thread.

use std::io;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::task::{AbortHandle, JoinError};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::actor::panicked;

/// A runtime for one engine. A thread of its own ends when this is dropped, or when its driver has ended. The rest of
/// its runtime is then dropped.
#[derive(Debug)]
pub(crate) struct EngineThread {
    runtime: Handle,
    end: DropGuard,
}

impl EngineThread {
    /// Uses the present runtime instead of an own thread.
    pub(crate) fn home() -> Self {
        Self { runtime: Handle::current(), end: CancellationToken::new().drop_guard() }
    }

    /// Starts a thread of this name.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub(crate) fn start(name: String) -> io::Result<Self> {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(over.cancelled());
            // A lookup of a host name may hang, so the thread does not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Self { runtime: handle, end })
    }

    /// Within this guard, tasks are spawned on the thread.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Runs a future on the thread, and waits for it.
    ///
    /// # Errors
    /// The future has panicked.
    ///
    /// # Cancel safety
    /// A dropped call ends what it runs at its next await.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        AbortOnDropHandle::new(self.runtime.spawn(work)).await
    }

    /// Runs the driver on the thread, which ends with the driver. If the caller's runtime ends, the driver is
    /// aborted. `ended` gets the text of the driver's panic, if there was one.
    pub(crate) fn drive(
        self,
        driver: impl Future<Output = ()> + Send + 'static,
        ended: impl FnOnce(Option<String>) + Send + 'static,
    ) -> AbortHandle {
        let Self { runtime, end } = self;
        let driver = runtime.spawn(async move {
            let _end = end;
            driver.await;
        });
        let abort = driver.abort_handle();
        let guest = Guest(abort.clone());
        tokio::spawn(async move {
            let _guest = guest;
            let panic = driver.await.err().and_then(|error| error.try_into_panic().ok());
            ended(panic.map(|panic| panicked(&*panic)));
        });
        abort
    }
}

/// A driver whose handlers run on the runtime that drops this.
struct Guest(AbortHandle);

impl Drop for Guest {
    fn drop(&mut self) {
        // An abort of an ended driver has no effect.
        self.0.abort();
    }
}
