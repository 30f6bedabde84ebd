//! A pool, and workers of the command.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_pool::{Client, Node};
use tenure_testing::{RedisServer, eventually};
use tokio::process::{Child, Command};

use super::processes;

/// Long enough for everything on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A worker TTL for tests of leases.
pub(crate) const SHORT: Duration = Duration::from_secs(2);
/// A worker TTL that no test outlives: no lease ends, so nothing ends because of one.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// Runs the payload as a script.
pub(crate) const SCRIPT: [&str; 6] = ["--payload", "env", "--", "sh", "-c", "eval \"$TENURE_PAYLOAD\""];

/// The options of `unshare` for a pid namespace that ends with it.
const NAMESPACE: [&str; 5] = ["--pid", "--fork", "--mount-proc", "--kill-child", "--"];

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

    /// A file for programs.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of a file, once a program has written a line into it.
    pub(crate) async fn line_in(&self, name: &str) -> String {
        let path = self.file(name);
        let read = || async { std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n')) };
        eventually(PATIENCE, "a line", read).await
    }

    /// Starts a worker of this name, and waits until it is in the ring.
    pub(crate) async fn worker<A: AsRef<OsStr>>(
        &self,
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Worker {
        let worker = self.start(name, args);
        self.up(name).await;
        worker
    }

    /// Waits until the workers of this node are in the ring.
    pub(crate) async fn up(&self, name: &str) {
        let up = || async {
            self.node.inspect().workers().await.unwrap().iter().any(|it| it.node == name && it.slot.is_some())
        };
        eventually(PATIENCE, "the worker is up", up).await;
    }

    /// Stops a job, and returns when it is gone. A program that fails at that moment by itself has ended, too.
    pub(crate) async fn stop(&self, key: &str) {
        match self.node.stop_job(key).until_stopped().await {
            Ok(()) | Err(tenure_pool::Error::StopFailed { .. }) => {}
            Err(error) => panic!("{key}: {error}"),
        }
    }

    pub(crate) fn start<A: AsRef<OsStr>>(&self, name: &str, args: impl IntoIterator<Item = A>) -> Worker {
        let mut command = self.command(name);
        Worker { guard: command.args(["--log-level", "warn"]).args(args).spawn().unwrap() }
    }

    /// As [`start`](Self::start), in a pid namespace of its own, as in a container. `None`, with a word, where this machine does
    /// not let one be made.
    pub(crate) fn start_in_namespace<A: AsRef<OsStr>>(
        &self,
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Option<Worker> {
        let made = std::process::Command::new("unshare").args(NAMESPACE).arg("true").output();
        if !made.is_ok_and(|made| made.status.success()) {
            println!("skipped: this machine lets nobody make a pid namespace");
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(NAMESPACE).arg(snapbox::cmd::cargo_bin!("tenure"));
        let mut command = self.work(command, name);
        Some(Worker { guard: command.args(["--log-level", "warn"]).args(args).spawn().unwrap() })
    }

    /// The command of a worker of this name.
    pub(crate) fn command(&self, name: &str) -> Command {
        self.work(Command::new(snapbox::cmd::cargo_bin!("tenure")), name)
    }

    fn work(&self, command: Command, name: &str) -> Command {
        let mut command = self.beside(command);
        command.args(["work", "--pool", "feeds", "--name", name]).env("FOLDER", self.folder.path());
        // In a folder that goes with the test.
        command.env("TMPDIR", self.folder.path());
        command
    }

    /// The command, beside this pool.
    pub(crate) fn tenure(&self) -> Command {
        self.beside(Command::new(snapbox::cmd::cargo_bin!("tenure")))
    }

    fn beside(&self, mut command: Command) -> Command {
        command.env("REDIS_URL", self.server.url());
        for name in ["TENURE_POOL", "TENURE_CONTEXT", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "POD_NAME"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// A worker as a process. When it is dropped, its guard is killed.
pub(crate) struct Worker {
    pub(crate) guard: Child,
}

impl Worker {
    pub(crate) fn guard(&self) -> Pid {
        let pid = Pid::from_raw(self.guard.id().expect("it runs").cast_signed()).unwrap();
        if processes::makes_namespace(pid) { processes::children(pid)[0] } else { pid }
    }

    /// Its node.
    pub(crate) fn node(&self) -> Pid {
        processes::children(self.guard())[0]
    }

    /// The keepers of its jobs.
    pub(crate) fn keepers(&self) -> Vec<Pid> {
        processes::children(self.node()).into_iter().filter(|pid| processes::is_keeper(*pid)).collect()
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(PATIENCE, self.guard.wait()).await.expect("it ends").unwrap()
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
