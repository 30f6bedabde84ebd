//! Layers of `tower` around handlers.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use super::Job;
use super::asking::Ask;
use super::handler::{AnyHandler, JobHandler, Start};
use super::payload::NewPayload;
use crate::error::BoxError;
use crate::model::stop::StopReason;

/// The starts of a handler as a service of `tower`: its request is the job, and its answer the [`Start`]. It is always ready.
#[derive(Clone)]
pub struct StartService(Arc<dyn AnyHandler>);

impl std::fmt::Debug for StartService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StartService")
    }
}

impl Service<Job> for StartService {
    type Response = Start;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Start, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, job: Job) -> Self::Future {
        let handler = self.0.clone();
        async move { Ok(handler.start(job).await) }.boxed()
    }
}

/// Puts a layer around the starts of a handler. Each start is a call of a clone of the service, once that is ready. An error of
/// the layer is [`Start::Failed`]. A layer may also change what a start answers: it can wrap the future of
/// [`Start::Running`].
///
/// Stops, notifications, asks and updates pass the layer by: they come in order, and hold up the end of the job. Panics,
/// time-outs of starts, leases, traces and metrics are the pool's own, outside of all layers.
///
/// ```
/// use std::time::Duration;
/// use tenure_pool::{BoxError, Job, MemoryStore, Node};
/// use tower::limit::ConcurrencyLimitLayer;
///
/// async fn connect(job: Job) -> Result<(), BoxError> {
///     job.cancelled().await;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("feeds", &MemoryStore::new()).assume_fresh(true).join().await?;
/// // At most ten feeds connect at the same time.
/// node.add_worker(tenure_pool::job::layered(tenure_pool::run(connect), ConcurrencyLimitLayer::new(10))).await?;
/// node.dispatch(("acme", "")).await?;
/// # node.close().await?;
/// # Ok(())
/// # }
/// ```
pub fn layered<L>(handler: impl JobHandler, layer: L) -> impl JobHandler
where
    L: Layer<StartService>,
    L::Service: Service<Job, Response = Start> + Clone + Send + 'static,
    <L::Service as Service<Job>>::Error: Into<BoxError>,
    <L::Service as Service<Job>>::Future: Send,
{
    let handler: Arc<dyn AnyHandler> = Arc::new(handler);
    let service = Mutex::new(layer.layer(StartService(handler.clone())));
    Layered { handler, service }
}

struct Layered<S> {
    handler: Arc<dyn AnyHandler>,
    service: Mutex<S>,
}

impl<S> JobHandler for Layered<S>
where
    S: Service<Job, Response = Start> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    async fn start(&self, job: Job) -> Start {
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = poll_fn(|cx| service.poll_ready(cx)).await {
            return Start::Failed(error.into());
        }
        service.call(job).await.unwrap_or_else(|error| Start::Failed(error.into()))
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.handler.stop(job, why).await
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.handler.notify(job, body).await
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        self.handler.ask(job, ask).await;
    }

    async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
        self.handler.update(job, new).await
    }
}
