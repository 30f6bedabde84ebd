//! The pool's first promises, on both stores.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tenure_pool::{Backend, BoxError, Client, Job, JobHandler, MemoryStore, Node, Start, StopReason};
use tenure_testing::{RedisServer, eventually};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Log {
    fn add(&self, job: &Job, what: String) {
        self.0.lock().unwrap().entry(job.key().to_string()).or_default().push(what);
    }
    fn of(&self, key: &str) -> Vec<String> {
        self.0.lock().unwrap().get(key).cloned().unwrap_or_default()
    }
}

impl JobHandler for Log {
    async fn start(&self, job: Job) -> Start {
        self.add(&job, "start".into());
        Start::Started
    }
    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        self.add(job, format!("stop {why:?}"));
        Ok(())
    }
    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        self.add(job, format!("note {}", String::from_utf8_lossy(&body)));
        Ok(())
    }
}

#[tokio::test]
async fn in_memory_a_job_is_started_notified_moved_and_stopped() {
    a_job_is_started_notified_moved_and_stopped(MemoryStore::new().into()).await;
}

#[tokio::test]
async fn on_redis_a_job_is_started_notified_moved_and_stopped() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    a_job_is_started_notified_moved_and_stopped(client.into()).await;
}

async fn a_job_is_started_notified_moved_and_stopped(backend: Backend) {
    let _ = tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).with_test_writer().try_init();
    let build = |name: &str| {
        Node::builder("smoke", backend.clone())
            .name(name)
            .worker_ttl(Duration::from_secs(2))
            .join_settle(Duration::from_millis(50))
            .stable_after(Duration::from_millis(50))
            .assume_fresh(true)
    };
    let a = build("a").join().await.unwrap();
    let log = Log::default();
    let worker = a.add_worker(log.clone()).await.unwrap();
    a.dispatch("acme", "payload").await.unwrap();
    assert_eq!(log.of("acme"), ["start"]);
    for i in 0..40 {
        a.notify("acme", format!("{i}")).await.unwrap();
    }
    eventually(Duration::from_secs(5), "all notifications", async || log.of("acme").len() == 41).await;
    let b = build("b").join().await.unwrap();
    let other = b.add_worker(log.clone()).await.unwrap();
    eventually(Duration::from_secs(5), "b to be up", async || other.info().is_some_and(|i| i.slot.is_some())).await;
    assert!(a.close().await.unwrap().left.is_empty());
    assert_eq!(worker.id(), None);
    eventually(Duration::from_secs(5), "the job to move", async || log.of("acme").last().unwrap() == "start").await;
    b.stop_job("acme").await.unwrap();
    eventually(Duration::from_secs(5), "the job to stop", async || log.of("acme").last().unwrap() == "stop Stopped").await;
    eventually(Duration::from_secs(5), "the record to go", async || b.jobs().await.unwrap().is_empty()).await;
    b.dispatch("more", "x").await.unwrap();
    b.shutdown().await.unwrap();
    assert_eq!(log.of("more"), ["start", "stop Shutdown"]);
}
