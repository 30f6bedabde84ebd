//! A pool for the command, and its processes.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_pool::{Client, Node};
use tenure_testing::{RedisServer, eventually};
use tokio::process::{Child, Command};

use crate::processes;

/// Long enough for everything on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for a node with thousands of jobs to leave.
const LEAVING: Duration = Duration::from_secs(360);
/// A worker TTL for tests of leases.
pub(crate) const SHORT: Duration = Duration::from_secs(2);
/// A worker TTL that no test outlives: no lease ends, so nothing ends because of one.
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) struct World {
    pub(crate) server: RedisServer,
    /// It has no workers.
    pub(crate) node: Node,
    pub(crate) folder: TempDir,
}

impl World {
    /// A pool whose leases do not end.
    pub(crate) async fn new() -> Self {
        Self::with_ttl(LONG).await
    }

    pub(crate) async fn with_ttl(ttl: Duration) -> Self {
        let server = RedisServer::start().unwrap();
        let client = Client::open(&server.url()).unwrap();
        let builder = Node::builder("feeds", client).name("asks").assume_fresh(true).worker_ttl(ttl);
        let builder = builder.join_settle(Duration::ZERO).stable_after(Duration::from_millis(50));
        let node = builder.join().await.unwrap();
        Self { server, node, folder: tempfile::tempdir().unwrap() }
    }

    /// Waits until there is no such job.
    pub(crate) async fn gone(&self, key: &str) {
        let gone = || async { self.node.inspect().job(key).await.unwrap().is_none() };
        eventually(PATIENCE, "the job is gone", gone).await;
    }

    /// The command, beside this pool.
    pub(crate) fn beside(&self, mut command: Command) -> Command {
        command.env("REDIS_URL", self.server.url());
        for name in ["TENURE_POOL", "TENURE_CONTEXT", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "POD_NAME"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// The command for a node of this pool, in a folder that goes with the test.
    pub(crate) fn in_folder(&self, command: Command) -> Command {
        let mut command = self.beside(command);
        command.env("FOLDER", self.folder.path()).env("TMPDIR", self.folder.path());
        command
    }
}

/// A node as a process. When it is dropped, its guard is killed.
pub(crate) struct Process {
    pub(crate) guard: Child,
}

impl Process {
    pub(crate) fn guard(&self) -> Pid {
        let pid = Pid::from_raw(self.guard.id().expect("it runs").cast_signed()).unwrap();
        if processes::makes_namespace(pid) { processes::children(pid)[0] } else { pid }
    }

    pub(crate) fn node(&self) -> Pid {
        processes::children(self.guard())[0]
    }

    /// The keepers of its jobs or hosts.
    pub(crate) fn keepers(&self) -> Vec<Pid> {
        processes::children(self.node()).into_iter().filter(|pid| processes::is_keeper(*pid)).collect()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(LEAVING, self.guard.wait()).await.expect("it ends").unwrap()
    }

    /// Asks it to leave. It must leave in order.
    pub(crate) async fn leave(mut self) {
        signal(self.guard(), Signal::TERM);
        assert_eq!(self.ended().await.code(), Some(0));
    }
}

pub(crate) fn signal(pid: Pid, signal: Signal) {
    kill_process(pid, signal).unwrap();
}
