//! A node in a process of its own, which can be killed, paused and drained.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use tenure_examples::feeds::node::WORKERS;
use tenure_testing::ChildProcess;
use tokio::process::Command;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a node, and returns when its workers are members of the pool.
pub(crate) async fn start(name: &str, args: &[String], redis_url: &str, log: &Path) -> ChildProcess {
    let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_feeds"));
    command.arg("node").arg(format!("--name={name}")).args(args).stderr(log);
    command.env("REDIS_URL", redis_url).env("RUST_LOG", "info");
    let mut node = ChildProcess::start(name, command).unwrap();
    assert_eq!(node.line(PATIENCE).await.unwrap(), "ready");
    node
}

/// The names under which a node's workers write their histories.
pub(crate) fn workers(node: &ChildProcess) -> impl Iterator<Item = String> {
    (0..WORKERS).map(|number| format!("{}/{number}", node.name()))
}
