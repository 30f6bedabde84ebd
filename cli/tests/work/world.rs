//! A pool, and workers of the command.

use std::ffi::OsStr;
use std::path::PathBuf;

use tenure_testing::eventually;
use tokio::process::Command;

pub(crate) use super::pool::{LONG, PATIENCE, Process as Worker, SHORT, World, signal};

/// Runs the payload as a script.
pub(crate) const SCRIPT: [&str; 6] = ["--payload", "env", "--", "sh", "-c", "eval \"$TENURE_PAYLOAD\""];

/// The options of `unshare` for a pid namespace that ends with it.
const NAMESPACE: [&str; 5] = ["--pid", "--fork", "--mount-proc", "--kill-child", "--"];

impl World {
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

    /// A pool with a worker of this name.
    pub(crate) async fn with_worker<A: AsRef<OsStr>>(
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> (Self, Worker) {
        let world = Self::new().await;
        let worker = world.worker(name, args).await;
        (world, worker)
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
        let mut command = self.in_folder(command);
        command.args(["work", "--pool", "feeds", "--name", name]);
        command
    }

    /// The command, beside this pool.
    pub(crate) fn tenure(&self) -> Command {
        self.beside(Command::new(snapbox::cmd::cargo_bin!("tenure")))
    }
}
