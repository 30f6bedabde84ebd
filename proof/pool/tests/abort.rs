//! `FencePolicy::AbortProcess`: a process whose handler outlives its lease is aborted, because nothing else can end
//! it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::Signal;
use tenure_pool::node::FencePolicy;
use tenure_pool::{Client, Job, Node};
use tenure_testing::{ChildProcess, Proxy, RedisServer};

const PATIENCE: Duration = Duration::from_secs(20);
const CHILD: &str = "TENURE_ABORTING_PROCESS";

/// A process whose only job blocks its thread for ever.
fn blocked_process(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let builder = Node::builder("abort", Client::open(url).unwrap()).worker_ttl(Duration::from_secs(1));
        let node = builder.assume_fresh(true).fence_policy(FencePolicy::AbortProcess).join().await.unwrap();
        let blocks = tenure_pool::run(|_: Job| async {
            println!("blocked");
            loop {
                std::thread::park();
            }
        });
        node.add_worker(blocks).await.unwrap();
        node.submit(("key", "")).await.unwrap();
        node.closed().await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_handler_outlives_its_lease_is_aborted() {
    if let Ok(url) = std::env::var(CHILD) {
        std::thread::spawn(move || blocked_process(&url)).join().unwrap();
        return;
    }
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    let name = "a_process_whose_handler_outlives_its_lease_is_aborted";
    let mut child = ChildProcess::of_test(name, (CHILD, &proxy.url())).unwrap();
    while !child.line(PATIENCE).await.unwrap().contains("blocked") {}
    assert!(child.is_running(), "it holds its lease");
    proxy.pause();
    let ended = child.ended(PATIENCE).await.unwrap();
    assert_eq!(ended.signal(), Some(Signal::ABORT.as_raw()));
}
