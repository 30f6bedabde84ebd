//! A private Redis with a pool, whose nodes live in the test's process, and the command beside it.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use snapbox::cmd::{Command, OutputAssert};
use tenure_pool::inspect::WorkerInfo;
use tenure_pool::{Client, Node, NodeBuilder};
use tenure_testing::RedisServer;

pub(crate) use super::workers::{PATIENCE, add_worker};

/// The command, without anything of the environment that it could take a pool from.
pub(crate) fn tenure<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let command = Command::new(snapbox::cmd::cargo_bin!("tenure")).args(args);
    let command = ["REDIS_URL", "TENURE_POOL", "TENURE_CONTEXT", "XDG_CONFIG_HOME", "CLICOLOR_FORCE"]
        .into_iter()
        .fold(command, Command::env_remove);
    command.env("HOME", "/nonexistent").env("COLUMNS", "100").timeout(PATIENCE)
}

/// As [`tenure`], with contexts of its own.
pub(crate) fn tenure_with_home(home: &Path, args: &[&str]) -> Command {
    tenure(args).env("HOME", home)
}

pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) node: Node,
}

impl World {
    /// A pool of this shape, without workers.
    pub(crate) async fn shaped(shape: impl Fn(NodeBuilder) -> NodeBuilder) -> Self {
        let server = RedisServer::start().unwrap();
        let client = Client::open(&server.url()).unwrap();
        let builder = Node::builder("feeds", client).name("n1").assume_fresh(true);
        let builder = builder.join_settle(Duration::ZERO).stable_after(Duration::from_millis(50));
        let node = shape(builder).join().await.unwrap();
        Self { server, node }
    }

    pub(crate) async fn new() -> Self {
        Self::shaped(|builder| builder).await
    }

    /// A pool with this number of workers that are up.
    pub(crate) async fn with_workers(count: usize) -> Self {
        let world = Self::new().await;
        for _ in 0..count {
            world.add_worker().await;
        }
        world
    }

    /// The same, and these jobs run.
    pub(crate) async fn running(workers: usize, keys: &[&str]) -> Self {
        let world = Self::with_workers(workers).await;
        for key in keys {
            world.node.dispatch((*key, "x")).await.unwrap();
        }
        world
    }

    /// Another node of the pool.
    pub(crate) async fn another(&self, name: &str) -> Node {
        let builder = Node::builder("feeds", self.client()).name(name);
        builder.stable_after(Duration::from_millis(50)).join().await.unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::open(&self.server.url()).unwrap()
    }

    /// Adds a worker to the first node, and waits until it is in the ring.
    pub(crate) async fn add_worker(&self) -> WorkerInfo {
        add_worker(&self.node).await
    }

    /// The command, for this pool.
    pub(crate) fn tenure<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        tenure(args).env("REDIS_URL", self.server.url()).env("TENURE_POOL", "feeds")
    }

    /// Runs the command, off the test's runtime.
    pub(crate) async fn run(&self, args: &[&str]) -> OutputAssert {
        assert(self.tenure(args)).await
    }

    /// The output of a successful command, as JSON.
    pub(crate) async fn json(&self, args: &[&str]) -> serde_json::Value {
        let args: Vec<_> = args.iter().copied().chain(["-o", "json"]).collect();
        let done = self.run(&args).await.success();
        serde_json::from_slice(&done.get_output().stdout).unwrap()
    }
}

pub(crate) async fn assert(command: Command) -> OutputAssert {
    tokio::task::spawn_blocking(move || command.assert()).await.unwrap()
}

/// The status of an ended command.
pub(crate) fn status(done: &OutputAssert) -> Option<i32> {
    done.get_output().status.code()
}

/// Its text on stderr.
pub(crate) fn said(done: &OutputAssert) -> String {
    String::from_utf8_lossy(&done.get_output().stderr).into_owned()
}

/// Its text on stdout.
pub(crate) fn printed(done: &OutputAssert) -> String {
    String::from_utf8_lossy(&done.get_output().stdout).into_owned()
}
