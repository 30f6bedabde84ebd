//! `FencePolicy::AbortProcess`: a process whose handler outlives its lease is aborted, because nothing else can end
//! it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tenure_pool::{Client, FencePolicy, Job, Node};
use tenure_testing::{ChildProcess, Proxy, RedisServer, eventually};

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
        node.submit("key", "").await.unwrap();
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
    let mut child = ChildProcess::of_test(name, (CHILD, &proxy.url()), Stdio::piped()).unwrap();
    let said = BufReader::new(child.0.stdout.take().unwrap());
    let mut lines = said.lines();
    assert!(tokio::task::block_in_place(|| lines.any(|line| line.unwrap().contains("blocked"))));
    assert_eq!(child.0.try_wait().unwrap(), None, "it holds its lease");
    proxy.pause();
    let ended =
        eventually(PATIENCE, "the process to end", async || child.0.try_wait().unwrap().ok_or("it runs"))
            .await;
    assert_eq!(ended.signal(), Some(Signal::ABORT.as_raw()));
}
