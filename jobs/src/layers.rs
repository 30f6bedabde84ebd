//! Layers of `tower` around handlers.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use crate::api::ctx::Ctx;
use crate::api::outcome::Outcome;
use crate::api::worker::{Handler, WorkerBuilder};
use crate::error::BoxError;

/// A handler as a service of `tower`: its request is the execution. It is always ready.
#[derive(Clone, Debug)]
pub struct HandlerService(Handler);

impl Service<Ctx> for HandlerService {
    type Response = Outcome;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Outcome, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ctx: Ctx) -> Self::Future {
        self.0.call(ctx)
    }
}

impl WorkerBuilder {
    /// Puts a layer around the handler, and around the layers that it has. Each execution is a call of a clone of the
    /// service, once that is ready. An error of the layer is one of the handler: the job is tried again, or fails for good
    /// with a [`Fatal`](crate::Fatal) one.
    ///
    /// Panics, time-outs of executions, leases, traces and metrics are the worker's own, outside of all layers. An execution
    /// that waits for its layer holds a slot, and its time runs.
    ///
    /// ```
    /// use tenure_jobs::{Ctx, Jobs, MemoryStore, Queue};
    /// use tower::limit::ConcurrencyLimitLayer;
    ///
    /// # async fn run() -> Result<(), tenure_jobs::BoxError> {
    /// let jobs = Jobs::in_memory(MemoryStore::new()).queue(Queue::new("mail")).join().await?;
    /// let worker = jobs.worker("mail", async |_: Ctx, _: String| Ok(()));
    /// let _worker = worker.slots(50).layer(ConcurrencyLimitLayer::new(5)).start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService>,
        L::Service: Service<Ctx, Response = Outcome> + Clone + Send + 'static,
        <L::Service as Service<Ctx>>::Error: Into<BoxError>,
        <L::Service as Service<Ctx>>::Future: Send,
    {
        let service = Mutex::new(layer.layer(HandlerService(self.handler)));
        self.handler = Handler::of(move |ctx| {
            let mut service = service.lock().unwrap_or_else(PoisonError::into_inner).clone();
            async move {
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
                service.call(ctx).await.map_err(Into::into)
            }
            .boxed()
        });
        self
    }
}
