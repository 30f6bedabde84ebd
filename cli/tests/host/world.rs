//! A pool, and nodes of `tenure host`.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use tenure_pool::{AskError, JobInfo, JobState};
use tenure_testing::eventually;
use tokio::process::Command;

pub(crate) use super::pool::{LONG, PATIENCE, Process as Host, SHORT, World, signal};

/// The project's folder.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The command of the test's own host, which keeps to the protocol until it is told not to.
pub(crate) fn raw(mode: &str) -> Vec<String> {
    let host = project().join("cli/tests/host/host.py");
    vec!["python3".to_owned(), "-u".to_owned(), host.display().to_string(), mode.to_owned()]
}

/// The command of the check's host in Python.
pub(crate) fn python() -> Vec<String> {
    let host = project().join("sdk/python/examples/check.py");
    vec!["python3".to_owned(), "-u".to_owned(), host.display().to_string()]
}

impl World {
    /// The lines of a file that hosts write.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits for a line that begins so.
    pub(crate) async fn line(&self, name: &str, begins: &str) -> String {
        let found = || async { self.lines(name).into_iter().find(|line| line.starts_with(begins)) };
        eventually(PATIENCE, &format!("{begins} in {name}"), found).await
    }

    /// Starts a node of this name, and waits until its workers are in the ring.
    pub(crate) async fn host(&self, name: &str, workers: usize, args: &[&str], command: &[String]) -> Host {
        let host = self.start(name, workers, args, command);
        self.up(name, workers).await;
        host
    }

    /// Waits until this number of workers of the node are in the ring.
    pub(crate) async fn up(&self, name: &str, workers: usize) {
        let up = || async {
            let infos = self.node.inspect().workers().await.unwrap();
            infos.iter().filter(|it| it.node == name && it.slot.is_some()).count() == workers
        };
        eventually(PATIENCE, "the workers are up", up).await;
    }

    pub(crate) fn start(&self, name: &str, workers: usize, args: &[&str], command: &[String]) -> Host {
        let mut host = self.command(name, workers, args);
        host.arg("--").args(command);
        Host { guard: host.spawn().unwrap() }
    }

    /// The command of a node, which yet has to be told of its hosts.
    pub(crate) fn command(&self, name: &str, workers: usize, args: &[&str]) -> Command {
        let mut host = self.in_folder(Command::new(snapbox::cmd::cargo_bin!("tenure")));
        host.args(["host", "--pool", "feeds", "--name", name]);
        if !args.contains(&"--log-level") {
            host.args(["--log-level", "warn"]);
        }
        host.arg("--workers").arg(workers.to_string()).args(args);
        host
    }

    /// Asks the owner of a job, and waits for its answer however slow this machine is.
    pub(crate) async fn ask(&self, key: &str, question: &str) -> Result<Bytes, AskError> {
        self.node.ask(key, question.to_owned()).deadline(PATIENCE).await
    }

    /// A job that runs.
    pub(crate) async fn running(&self, key: &str) -> JobInfo {
        let runs = || async {
            let job = self.node.inspect().job(key).await.unwrap();
            job.filter(|job| job.state == JobState::Running)
        };
        eventually(PATIENCE, &format!("{key} runs"), runs).await
    }

    /// Dispatches keys that begin so, until each of two workers has one. Returns both.
    pub(crate) async fn one_each(&self) -> [JobInfo; 2] {
        let mut first: Option<JobInfo> = None;
        for number in 0..200 {
            let key = format!("key-{number}");
            self.node.dispatch((&*key, "")).await.unwrap();
            let job = self.running(&key).await;
            match &first {
                None => first = Some(job),
                Some(other) if other.owner != job.owner => return [first.take().unwrap(), job],
                Some(_) => {}
            }
        }
        panic!("one worker has all keys");
    }
}
