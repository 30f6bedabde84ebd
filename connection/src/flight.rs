//! A run that many may await. It goes on while nobody waits, and ends when it is dropped.

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::task::JoinHandle;

/// The result of a run, for any number of waiters.
pub(crate) type Outcome<T> = Shared<BoxFuture<'static, T>>;

pub(crate) struct Flight<T> {
    outcome: Outcome<T>,
    task: JoinHandle<()>,
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Starts the run on the caller's runtime.
    pub(crate) fn start(run: impl Future<Output = T> + Send + 'static) -> Self {
        let outcome = run.boxed().shared();
        let task = tokio::spawn(outcome.clone().map(|_| ()));
        Self { outcome, task }
    }

    pub(crate) fn outcome(&self) -> Outcome<T> {
        self.outcome.clone()
    }

    /// Whether the run has a result, or its runtime has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.peek().is_some() || self.task.is_finished()
    }
}

impl<T> Drop for Flight<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
