//! A worker's process from its parent's point of view.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tenure_testing::ChildProcess;

use crate::Error;
use crate::tally::{Counts, Event};
use crate::worker::{Pool, READY, Request};

/// The longest time until an answer: leaving with many jobs takes its time, and so does joining in many nodes.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running process; killed when dropped.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    pub(crate) pid: u32,
    process: ChildProcess,
}

impl WorkerProcess {
    /// Starts the process, with this number of nodes, and of workers on each. They are members of the pool when this
    /// returns.
    pub(crate) async fn start(pool: &Pool, name: &str, nodes: usize, workers: usize) -> Result<Self, Error> {
        let (pool, nodes, workers) = (serde_json::to_string(pool)?, nodes.to_string(), workers.to_string());
        let args = ["worker", "--name", name, "--pool", &pool, "--nodes", &nodes, "--workers", &workers];
        let process = started(name, args).await?;
        Ok(Self { pid: process.id().ok_or("a worker's process has ended")?, process })
    }

    pub(crate) async fn counts(&mut self) -> Result<Counts, Error> {
        self.ask(Request::Counts).await
    }

    pub(crate) async fn events(&mut self) -> Result<Vec<Event>, Error> {
        self.ask(Request::Events).await
    }

    /// Makes each of its jobs give a checkpoint, and returns their number when all are kept.
    pub(crate) async fn checkpoint(&mut self) -> Result<u64, Error> {
        self.ask(Request::Checkpoint).await
    }

    /// Makes its first worker hand its jobs off and leave.
    pub(crate) async fn drain(&mut self) -> Result<Vec<Event>, Error> {
        self.ask(Request::Drain).await
    }

    /// Makes the process hand all its jobs off, leave and end.
    pub(crate) async fn leave(mut self) -> Result<Vec<Event>, Error> {
        let events = self.ask(Request::Leave).await?;
        self.kill().await?;
        Ok(events)
    }

    /// Kills the process (SIGKILL), and returns when it is gone.
    pub(crate) async fn kill(mut self) -> Result<(), Error> {
        Ok(self.process.kill().await?)
    }

    async fn ask<T: DeserializeOwned>(&mut self, request: Request) -> Result<T, Error> {
        self.process.tell(&serde_json::to_string(&request)?).await?;
        Ok(serde_json::from_str(&self.process.line(PATIENCE).await?)?)
    }
}

/// Starts this program once more, and returns when it has said that it is ready.
pub(crate) async fn started(name: &str, args: impl IntoIterator<Item = &str>) -> Result<ChildProcess, Error> {
    let mut process = ChildProcess::of_this_program(name, args, &[])?;
    match process.line(PATIENCE).await?.as_str() {
        READY => Ok(process),
        said => Err(format!("{name} said {said:?}").into()),
    }
}
