//! A thread for the engine of a node and its connections: no task of the user holds them up.
//!
//! Handlers run on their user's runtime. So a handler that blocks its thread delays other tasks on the same thread, and never
//! an engine. A node without handlers runs on its user's runtime: a call and its answer need not wake another thread.

use std::any::Any;
use std::io;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::task::{AbortHandle, JoinError};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// A runtime, mostly on a thread of its own. The thread ends with this handle, or with a
/// [driver](Self::drive). The rest of its runtime is then dropped.
#[derive(Debug)]
pub struct Thread {
    runtime: Handle,
    over: CancellationToken,
    /// The runtime is the caller's.
    is_here: bool,
    end: DropGuard,
}

impl Thread {
    /// The present runtime in place of an own thread. Spawned futures end with this handle, or with [`stop`](Self::stop).
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn here() -> Self {
        Self::of(Handle::current(), true)
    }

    /// Starts a thread of this name.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub fn start(name: String) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = Self::of(runtime.handle().clone(), false);
        let over = thread.over.clone();
        std::thread::Builder::new().name(name).spawn(move || {
            runtime.block_on(over.cancelled());
            // A lookup of a host name may hang, so the thread does not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(thread)
    }

    fn of(runtime: Handle, is_here: bool) -> Self {
        let over = CancellationToken::new();
        Self { runtime, end: over.clone().drop_guard(), over, is_here }
    }

    /// Within this guard, tasks are spawned on the thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }

    /// Runs a future in the background.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.is_here {
            let over = self.over.clone();
            self.runtime.spawn(async move { over.run_until_cancelled_owned(work).await });
        } else {
            self.runtime.spawn(work);
        }
    }

    /// Ends all [spawned](Self::spawn) futures.
    pub fn stop(&self) {
        self.over.cancel();
    }

    /// Runs a future on the thread, and waits for it.
    ///
    /// # Errors
    /// The future has panicked.
    ///
    /// # Cancel safety
    /// A dropped call ends the future at its next await.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        AbortOnDropHandle::new(self.runtime.spawn(work)).await
    }

    /// Runs a driver on the thread, which ends with the driver. If the caller's runtime ends, the driver is aborted.
    /// `ended` gets the driver's panic, if there was one.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn drive(
        self,
        driver: impl Future<Output = ()> + Send + 'static,
        ended: impl FnOnce(Option<Box<dyn Any + Send>>) + Send + 'static,
    ) -> AbortHandle {
        let Self { runtime, end, .. } = self;
        let driver = runtime.spawn(async move {
            let _end = end;
            driver.await;
        });
        let abort = driver.abort_handle();
        let guest = Guest(abort.clone());
        tokio::spawn(async move {
            let _guest = guest;
            ended(driver.await.err().and_then(|error| error.try_into_panic().ok()));
        });
        abort
    }
}

/// Aborts a driver when the runtime of the caller ends, and drops the guest.
struct Guest(AbortHandle);

impl Drop for Guest {
    fn drop(&mut self) {
        // An abort of an ended driver has no effect.
        self.0.abort();
    }
}
