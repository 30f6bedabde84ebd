//! The tenant's side of a connection: kept while the job runs, and renewed when it breaks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_examples::feeds::judge::Fencing;
use tenure_examples::feeds::link::Link;
use tenure_examples::feeds::node::{FeedNode, Timings, WORKERS, join};
use tenure_examples::feeds::server::FeedServer;
use tenure_examples::feeds::session::Control;
use tenure_examples::feeds::stats::Standing;
use tenure_examples::feeds::tenants::Tenant;
use tenure_examples::feeds::wire::{Hello, Reply, Request};
use tenure_pool::inspect::MemberState;
use tenure_pool::{MemoryStore, Node};
use tenure_testing::eventually;
use tenure_testing::history::{Event, History};
use tokio::net::TcpListener;

const PATIENCE: Duration = Duration::from_secs(10);

fn timings() -> Timings {
    Timings { ttl_ms: 2_000, join_settle_ms: 0, stable_after_ms: 10 }
}

fn payload() -> Vec<u8> {
    let tenant = Tenant { id: "acme".into(), name: "Acme".into(), region: "eu".into(), symbol: "ACM".into() };
    serde_json::to_vec(&tenant).unwrap()
}

/// A pool of one node with workers, and a node for calls. Its ring is complete: no job moves within the node later.
async fn pool(feed: SocketAddr, history: Option<Arc<History>>) -> (Node, FeedNode) {
    let store = MemoryStore::new();
    let node = join(store.clone().into(), "feeds", "conductor", &timings()).await.unwrap();
    let workers = FeedNode::start(store.into(), "feeds", "n1", &timings(), feed, history).await.unwrap();
    eventually(PATIENCE, "both workers are in the ring", async || {
        let up = node
            .inspect()
            .workers()
            .await
            .unwrap()
            .iter()
            .filter(|worker| worker.state == MemberState::Up)
            .count();
        up == WORKERS
    })
    .await;
    (node, workers)
}

async fn acme(control: &mut Control) -> Option<Standing> {
    control.stats().await.unwrap().tenants.get("acme").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_a_connection_that_beats_hears_and_ends() {
    let server = FeedServer::start(Fencing::Enforced).await.unwrap();
    let (node, _workers) = pool(server.address(), None).await;
    let mut control = Control::new(server.address());
    node.dispatch(("acme", payload())).await.unwrap();
    eventually(PATIENCE, "the tenant confirms lines", async || {
        acme(&mut control).await.is_some_and(|s| s.connected && s.line >= 2)
    })
    .await;
    node.notify("acme", "7").await.unwrap();
    eventually(PATIENCE, "the notification arrives", async || {
        acme(&mut control).await.is_some_and(|s| s.noted.contains_key(&7))
    })
    .await;
    node.stop_job("acme").await.unwrap();
    eventually(PATIENCE, "the job ends", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    let standing = acme(&mut control).await.unwrap();
    assert!(!standing.connected, "the connection has ended before the job is given up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_crashes_breaks_its_connections_off() {
    let server = FeedServer::start(Fencing::Enforced).await.unwrap();
    let (node, workers) = pool(server.address(), None).await;
    let mut control = Control::new(server.address());
    node.dispatch(("acme", payload())).await.unwrap();
    workers.crash();
    eventually(PATIENCE, "the connection ends", async || {
        acme(&mut control).await.is_some_and(|s| !s.connected)
    })
    .await;
    assert_eq!(node.inspect().jobs().await.unwrap().len(), 1, "the pool was told nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_renewed_under_the_same_token() {
    let feed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (node, _workers) = pool(feed.local_addr().unwrap(), None).await;
    node.submit(("acme", payload())).await.unwrap();
    let (first, hello) = welcome(&feed).await;
    drop(first);
    let (_second, again) = welcome(&feed).await;
    assert_eq!(hello, again);
    assert!(hello.token > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_has_both_ends_of_every_attendance() {
    let server = FeedServer::start(Fencing::Enforced).await.unwrap();
    let history = Arc::new(History::new());
    let (node, workers) = pool(server.address(), Some(history.clone())).await;
    node.dispatch(("acme", payload())).await.unwrap();
    node.stop_job("acme").await.unwrap();
    eventually(PATIENCE, "the job ends", async || node.inspect().jobs().await.unwrap().is_empty()).await;
    node.dispatch(("acme", payload())).await.unwrap();
    workers.crash();
    eventually(PATIENCE, "the connection is cut", async || history.entries().len() >= 4).await;
    let events: Vec<_> = history.entries().into_iter().map(|entry| entry.event).collect();
    let holders: Vec<_> = events.iter().filter_map(holder).collect();
    assert!(
        matches!(&holders[..], [(true, a), (false, b), (true, c), (false, d)] if a == b && c == d && a.1 < c.1)
    );
}

/// Whether the event is a start, and its tenant, token and worker.
fn holder(event: &Event) -> Option<(bool, (&str, u64, &str))> {
    match event {
        Event::Started { key, token, worker } => Some((true, (key, *token, worker))),
        Event::Stopped { key, token, worker } => Some((false, (key, *token, worker))),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_that_is_no_tenant_fails_the_dispatch() {
    let server = FeedServer::start(Fencing::Enforced).await.unwrap();
    let (node, _workers) = pool(server.address(), None).await;
    let error = node.dispatch(("acme", "no tenant")).await.unwrap_err();
    assert!(error.to_string().contains("the payload is no tenant"), "{error}");
}

/// Accepts a client like the feed server, and returns with its first heartbeat.
async fn welcome(feed: &TcpListener) -> (Link, Hello) {
    let (stream, _) = tokio::time::timeout(PATIENCE, feed.accept()).await.unwrap().unwrap();
    let mut link = Link::new(stream).unwrap();
    let Some(Request::Hello(hello)) = link.receive(PATIENCE).await.unwrap() else {
        panic!("the first line is a hello")
    };
    link.send(&Reply::Welcome).await.unwrap();
    let beat = link.receive(PATIENCE).await.unwrap();
    assert_eq!(beat, Some(Request::Beat { token: hello.token, line: 0 }));
    (link, hello)
}
