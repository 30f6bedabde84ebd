//! One run of something that many wait for. It goes on while nobody does, and ends when it is dropped.

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::task::JoinHandle;

/// What a run comes to, for any number of waiters.
pub(crate) type Outcome<T> = Shared<BoxFuture<'static, T>>;

pub(crate) struct Flight<T> {
    outcome: Outcome<T>,
    task: JoinHandle<()>,
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Starts it, on the runtime of the caller.
    pub(crate) fn start(run: impl Future<Output = T> + Send + 'static) -> Self {
        let outcome = run.boxed().shared();
        let task = tokio::spawn(outcome.clone().map(|_| ()));
        Self { outcome, task }
    }

    pub(crate) fn outcome(&self) -> Outcome<T> {
        self.outcome.clone()
    }

    /// Whether it has come to something, or its runtime has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.peek().is_some() || self.task.is_finished()
    }
}

impl<T> Drop for Flight<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
