//! Layers of `tower` around handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tenure_jobs::{BoxError, Ctx, Fatal, Jobs, MemoryStore, Outcome, Queue, State};
use tokio::sync::Semaphore;
use tower::limit::ConcurrencyLimitLayer;
use tower::timeout::TimeoutLayer;
use tower::{Layer, Service};

const MINUTE: Duration = Duration::from_secs(60);

async fn node() -> Jobs {
    let queue = Queue::new("q").attempts(1).keep(MINUTE).keep_failed(MINUTE);
    Jobs::in_memory(MemoryStore::new()).queue(queue).join().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_tower_holds_for_all_executions() {
    let jobs = node().await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = most.clone();
    let worker = jobs.worker("q", move |_: Ctx, (): ()| {
        let (running, most) = (running.clone(), most.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let _worker = worker.slots(16).layer(ConcurrencyLimitLayer::new(3)).start().unwrap();
    let added = jobs.add_many("q", vec![(); 40]).await.unwrap();
    for job in added {
        assert!(jobs.wait(&job.id).await.unwrap().is_done());
    }
    assert_eq!(highest.load(Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_a_layer_is_one_of_the_handler() {
    let jobs = node().await;
    let worker = jobs.worker("q", async |_: Ctx, (): ()| {
        std::future::pending::<()>().await;
        Ok(())
    });
    let _worker = worker.layer(TimeoutLayer::new(Duration::from_millis(20))).start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    let ended = jobs.wait(&id).await.unwrap();
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some("request timed out")));
}

/// Lets in whom the list names, and counts the calls on their way through.
#[derive(Clone)]
struct Guard<S> {
    inner: S,
    calls: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Guarded(Arc<AtomicUsize>);

impl<S> Layer<S> for Guarded {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, calls: self.0.clone() }
    }
}

impl<S> Service<Ctx> for Guard<S>
where
    S: Service<Ctx, Response = Outcome, Error = BoxError, Future: Send + 'static>,
{
    type Response = Outcome;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Outcome, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, ctx: Ctx) -> Self::Future {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if ctx.data::<String>().is_ok_and(|name| name == "mallory") {
            return Box::pin(async { Err(Fatal::new("mallory may not").into()) });
        }
        Box::pin(self.inner.call(ctx))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_of_ones_own_sees_each_execution() {
    let jobs = node().await;
    let (calls, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let handled = served.clone();
    let worker = jobs.worker("q", move |_: Ctx, _: String| {
        let handled = handled.clone();
        async move {
            handled.add_permits(1);
            Ok(())
        }
    });
    // The one that comes later is around the other one.
    let builder = worker.layer(ConcurrencyLimitLayer::new(1)).layer(Guarded(calls.clone()));
    let _worker = builder.start().unwrap();
    let (alice, mallory) = (jobs.add("q", "alice").await.unwrap(), jobs.add("q", "mallory").await.unwrap());
    assert!(jobs.wait(&alice.id).await.unwrap().is_done());
    let ended = jobs.wait(&mallory.id).await.unwrap();
    assert_eq!((ended.state(), ended.error().as_deref()), (State::Failed, Some("mallory may not")));
    assert_eq!((calls.load(Ordering::SeqCst), served.available_permits()), (2, 1));
}
