//! Lines of the log as an operator sees them. All tests share one process, because the subscriber and signals belong
//! to it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod metering;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Signal, getpid, kill_process};
use tenure_pool::{BoxError, Job, JobHandler, MemoryStore, Node, Start, StopReason};
use tenure_testing::{Lines, eventually};
use tokio::sync::Semaphore;

const PATIENCE: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(50);

/// The lines of all tests so far.
fn log() -> Vec<String> {
    static LOG: LazyLock<Lines> = LazyLock::new(|| {
        let lines = Lines::default();
        let writer = lines.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).init();
        lines
    });
    LOG.all()
}

/// The line that has all these parts.
async fn line_with(parts: &[&str]) -> String {
    let found = || log().into_iter().find(|line| parts.iter().all(|part| line.contains(part)));
    eventually(PATIENCE, &format!("a line with {parts:?}"), async || found().is_some()).await;
    found().unwrap()
}

async fn join(name: &str) -> Node {
    let _ = log();
    let builder = Node::builder("logs", MemoryStore::new()).name(name).assume_fresh(true);
    builder.join_settle(SHORT).stable_after(SHORT).join().await.unwrap()
}

/// It panics when it is dropped.
struct Brittle;

impl JobHandler for Brittle {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        panic!("cannot let go");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_in_its_drop_is_logged() {
    let node = join("brittle").await;
    let worker = node.add_worker(Brittle).await.unwrap();
    worker.drain().await.unwrap();
    let line = line_with(&["ERROR", "cannot let go"]).await;
    assert!(line.contains("panicked while it was dropped"), "{line}");
    node.close().await.unwrap();
}

/// Its notifications fail, with texts of several lines.
struct Forger;

impl JobHandler for Forger {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }

    async fn notify(&self, _: &Job, body: Bytes) -> Result<(), BoxError> {
        assert!(&body[..] != b"panic", "first\nFORGED by panic");
        Err("first\nFORGED by error".into())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_break_of_a_handlers_makes_no_line() {
    let node = join("forger").await;
    node.add_worker(Forger).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    for body in ["error", "panic"] {
        node.notify("key", body).await.unwrap();
        line_with(&["a notification", "first", body]).await;
    }
    let forged: Vec<_> = log().into_iter().filter(|line| line.starts_with("FORGED")).collect();
    assert_eq!(forged, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_panics_says_so_with_its_text() {
    let panics = metering::panics();
    let armed = metrics::set_default_local_recorder(&panics);
    let node = join("panicking").await;
    drop(armed);
    node.add_worker(Forger).await.unwrap();
    node.dispatch(("key", "")).await.unwrap();
    let _ = node.notify("key", "hello").await;
    let line = line_with(&["the engine failed", "panicking"]).await;
    assert!(line.contains("ERROR") && line.contains("as it was told"), "{line}");
}

/// Leaves too long a state, and looks at no result.
struct LeavesMuch;

impl JobHandler for LeavesMuch {
    async fn start(&self, _: Job) -> Start {
        Start::Started
    }

    async fn stop(&self, job: &Job, _: StopReason) -> Result<(), BoxError> {
        drop(job.checkpoint(vec![0; 65_537]));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_state_that_is_refused_is_logged_though_nobody_looks() {
    let node = join("much").await;
    node.add_worker(LeavesMuch).await.unwrap();
    node.dispatch(("hoarder", "")).await.unwrap();
    // After the end of the node nothing logs any more.
    node.close().await.unwrap();
    let line = log().into_iter().find(|line| line.contains("hoarder") && line.contains("WARN"));
    let line = line.unwrap_or_else(|| panic!("{:?}", log()));
    assert!(line.contains("65537 bytes") && line.contains("65536 at most"), "{line}");
}

/// Ends its jobs only when the semaphore allows it.
fn stubborn(allowed: &Arc<Semaphore>) -> impl JobHandler + use<> {
    let allowed = allowed.clone();
    tenure_pool::run(move |_: Job| {
        let allowed = allowed.clone();
        async move {
            allowed.acquire().await?.forget();
            Ok(())
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_told_to_end_says_how_it_left() {
    let allowed = Arc::new(Semaphore::new(0));
    let (slow, quick) = (join("slow").await, join("quick").await);
    slow.add_worker(stubborn(&allowed)).await.unwrap();
    slow.dispatch(("its-job", "")).await.unwrap();
    let leaving = (slow.close_on_signal(Duration::from_millis(300)), quick.close_on_signal(PATIENCE));
    kill_process(getpid(), Signal::TERM).unwrap();
    let (left, gone) = tokio::join!(leaving.0, leaving.1);
    assert!(!left.unwrap().complete && gone.unwrap().complete);
    let line = line_with(&["not left its pool in time", "slow"]).await;
    assert!(line.contains("WARN") && line.contains("jobs=1") && line.contains("its-job"), "{line}");
    let line = line_with(&["has left its pool", "quick"]).await;
    assert!(line.contains("INFO") && line.contains("took="), "{line}");
    allowed.add_permits(1);
}
