//! The whole life of a job. Its handler is either a start, a stop and a notify, or one async closure.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tenure_pool::inspect::MemberState;
use tenure_pool::{Job, JobEnd, JobHandler, JobSpec, RestartPolicy, Start, StopReason};

use crate::recorder::Act;
use crate::world::{World, on_both_stores, until};

on_both_stores!(
    a_job_is_started_notified_moved_and_stopped,
    a_closures_job_is_notified_moved_and_stopped,
    a_job_knows_its_dispatch_and_its_lease,
    a_job_without_a_future_ends_by_its_own_word,
);

async fn a_job_is_started_notified_moved_and_stopped(world: World) {
    let handler = world.recorder.acting(|_| Act::Hold);
    let recorder = &world.recorder;
    let (a, b) = (world.node("a").await, world.node("b").await);
    let old = a.add_worker(handler.clone()).await.unwrap();
    world.dispatch_one(&a, "acme").await;
    assert!(recorder.is_running("acme"));
    for i in 0..40 {
        b.notify("acme", i.to_string()).await.unwrap();
    }
    let bodies: Vec<_> = (0..40).map(|i| i.to_string()).collect();
    until("all notifications", async || recorder.notes("acme") == bodies).await;

    let new = b.add_worker(handler).await.unwrap();
    let is_up = async || new.info().is_some_and(|info| info.state == MemberState::Up);
    until("the second worker to be up", is_up).await;
    assert!(a.close().await.unwrap().complete);
    assert_eq!(old.id(), None);
    world.placed(&b, &["acme".to_owned()]).await;
    assert_eq!(recorder.payloads("acme"), ["payload of acme"; 2]);
    assert!(matches!(recorder.stops("acme")[..], [StopReason::Moved | StopReason::Draining]));

    world.stop(&b, "acme").await;
    until("the record to go", async || b.inspect().jobs().await.unwrap().is_empty()).await;
    assert_eq!(recorder.stops("acme")[1..], [StopReason::Stopped]);
    world.assert_clean();
    world.dispatch_one(&b, "more").await;
    b.operate().shutdown().await.unwrap();
    assert_eq!(recorder.stops("more"), [StopReason::Shutdown]);
    assert!(recorder.running().is_empty());
}

/// Starts jobs without futures, and shows them.
struct Shows(tokio::sync::mpsc::UnboundedSender<Job>);

impl JobHandler for Shows {
    async fn start(&self, job: Job) -> Start {
        let _ = self.0.send(job);
        Start::Started
    }
}

async fn a_job_without_a_future_ends_by_its_own_word(world: World) {
    let (to, mut started) = tokio::sync::mpsc::unbounded_channel();
    let node = world.node("a").await;
    node.add_worker(Shows(to)).await.unwrap();
    node.dispatch(("well", "")).await.unwrap();
    started.recv().await.unwrap().end(Ok(()));
    until("the record to go", async || node.inspect().job("well").await.unwrap().is_none()).await;
    let job = JobSpec::new("bad", "").restart(RestartPolicy::OnFailure);
    node.dispatch(job).await.unwrap();
    started.recv().await.unwrap().end(Err("bad luck".into()));
    // It runs again after its pause.
    let again = started.recv().await.unwrap();
    assert_eq!((again.key().to_string(), again.attempts()), ("bad".to_owned(), 2));
    again.end(Err(JobEnd::Park("no such plan".to_owned()).into()));
    let parked = async || node.inspect().parked().await.unwrap().pop();
    assert_eq!(until("it is parked", parked).await.error, "no such plan");
}

/// A closure's runs: their tokens, their notifications, and how many are over.
#[derive(Default)]
struct Runs {
    tokens: Vec<u64>,
    heard: Vec<Bytes>,
    over: usize,
}

async fn a_closures_job_is_notified_moved_and_stopped(world: World) {
    let runs = Arc::new(Mutex::new(Runs::default()));
    let handler = || {
        let runs = runs.clone();
        tenure_pool::run(move |job: Job| {
            let runs = runs.clone();
            async move {
                {
                    let mut runs = runs.lock().unwrap();
                    assert_eq!(runs.over, runs.tokens.len(), "one at a time");
                    runs.tokens.push(job.token().0);
                }
                loop {
                    tokio::select! {
                        () = job.cancelled() => break,
                        body = job.notified() => runs.lock().unwrap().heard.push(body),
                    }
                }
                runs.lock().unwrap().over += 1;
                Ok(())
            }
        })
    };
    let (a, b) = (world.node("a").await, world.node("b").await);
    let worker = a.add_worker(handler()).await.unwrap();
    a.dispatch(("acme", "payload")).await.unwrap();
    b.notify("acme", "one").await.unwrap();
    until("the first", async || runs.lock().unwrap().heard == ["one"]).await;
    b.add_worker(handler()).await.unwrap();
    worker.drain().await.unwrap();
    b.notify("acme", "two").await.unwrap();
    until("the second", async || runs.lock().unwrap().heard == ["one", "two"]).await;
    b.stop_job("acme").await.unwrap();
    until("the record to go", async || b.inspect().jobs().await.unwrap().is_empty()).await;
    let runs = runs.lock().unwrap();
    assert_eq!((runs.tokens.len(), runs.over), (2, 2));
    assert!(runs.tokens[0] < runs.tokens[1]);
}

async fn a_job_knows_its_dispatch_and_its_lease(world: World) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = tenure_pool::run({
        let seen = seen.clone();
        move |job: Job| {
            seen.lock().unwrap().push((
                job.dispatch_id().clone(),
                (job.created_at(), job.begun_at()),
                job.worker(),
                job.lease().check(),
                job.lease().remaining(),
            ));
            async move {
                job.cancelled().await;
                Ok(())
            }
        }
    });
    let (a, b) = (world.node("a").await, world.node("b").await);
    a.add_worker(handler).await.unwrap();
    b.dispatch(("acme", "")).await.unwrap();
    let job = b.inspect().job("acme").await.unwrap().unwrap();
    let (id, times, worker, held, remaining) = seen.lock().unwrap().remove(0);
    assert_eq!((id, times, Some(worker)), (job.id, (job.created, job.since), job.owner));
    assert!(held && !remaining.is_zero() && remaining < world.ttl(), "{remaining:?}");
}
