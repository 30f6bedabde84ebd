//! A worker's process from its parent's point of view.

use std::process::Stdio;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Error;
use crate::tally::{Counts, Event};
use crate::worker::{Pool, READY, Request};

/// The longest time until an answer: leaving with many jobs takes its time.
const PATIENCE: Duration = Duration::from_secs(150);

/// A running process; killed when dropped.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    pub(crate) pid: u32,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    /// Starts the process. Its workers are members of the pool when this returns.
    pub(crate) async fn start(pool: &Pool, name: &str, workers: usize) -> Result<Self, Error> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", "--name", name, "--pool", &serde_json::to_string(pool)?, "--workers"])
            .arg(workers.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or("a worker's process has ended")?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a worker's process has no input or output".into());
        };
        let mut process = Self { pid, child, input, output: BufReader::new(output).lines() };
        let ready = process.line().await?;
        if ready == READY { Ok(process) } else { Err(format!("a worker's process said {ready:?}").into()) }
    }

    pub(crate) async fn counts(&mut self) -> Result<Counts, Error> {
        self.ask(Request::Counts).await
    }

    pub(crate) async fn events(&mut self) -> Result<Vec<Event>, Error> {
        self.ask(Request::Events).await
    }

    /// Makes its first worker hand its jobs on and leave.
    pub(crate) async fn drain(&mut self) -> Result<Vec<Event>, Error> {
        self.ask(Request::Drain).await
    }

    /// Makes the process hand all its jobs on, leave and end.
    pub(crate) async fn leave(mut self) -> Result<Vec<Event>, Error> {
        let events = self.ask(Request::Leave).await?;
        self.kill().await?;
        Ok(events)
    }

    /// Kills the process (SIGKILL), and returns when it is gone.
    pub(crate) async fn kill(mut self) -> Result<(), Error> {
        Ok(self.child.kill().await?)
    }

    async fn ask<T: DeserializeOwned>(&mut self, request: Request) -> Result<T, Error> {
        self.input.write_all(format!("{}\n", serde_json::to_string(&request)?).as_bytes()).await?;
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    async fn line(&mut self) -> Result<String, Error> {
        let line =
            timeout(PATIENCE, self.output.next_line()).await.map_err(|_| "a worker's process is silent")?;
        line?.ok_or_else(|| "a worker's process has ended".into())
    }
}
