//! A node in a process of its own, from the conductor's point of view: it can be killed, paused and asked to leave.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::Result;
use crate::node::NodePlan;

/// The longest time until a killed process has ended.
const GONE: Duration = Duration::from_secs(10);

/// A running node; killed when dropped.
#[derive(Debug)]
pub struct NodeProcess {
    plan: NodePlan,
    child: Child,
    ready: watch::Receiver<bool>,
    /// The node ends when this closes. It is kept apart from the child, which would close it when its end is awaited.
    _stdin: ChildStdin,
}

impl NodeProcess {
    /// Starts a node, and returns at once: [`ready`](Self::ready) tells when its workers are members of the pool. Its
    /// log from this level on is appended to this file. `RUST_LOG` overrides the level.
    ///
    /// # Errors
    /// The process or its log cannot be created.
    pub fn start(plan: NodePlan, log: &Path, level: &str) -> Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("node")
            .arg(serde_json::to_string(&plan)?)
            .env("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| level.to_owned()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // In its own group: when the conductor dies, the kernel wakes and ends a paused node.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the process has no input or output".into());
        };
        let (says, ready) = watch::channel(false);
        // This task ends with the process, which closes its output.
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if line == READY {
                    says.send_replace(true);
                }
            }
        });
        Ok(Self { plan, child, ready, _stdin: stdin })
    }

    /// The node's settings.
    pub fn plan(&self) -> &NodePlan {
        &self.plan
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Its process; `None` after its end was noticed.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether its workers are members of the pool.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until its workers are members of the pool.
    ///
    /// # Errors
    /// They are not members in time, or the process has ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ready(&mut self, patience: Duration) -> Result<()> {
        let ready = timeout(patience, self.ready.wait_for(|&ready| ready)).await.map(|ready| ready.is_ok());
        match ready {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{} ended before it was ready", self.name()).into()),
            Err(_) => Err(format!("{} was not ready within {} s", self.name(), patience.as_secs()).into()),
        }
    }

    /// Asks the node to leave (SIGTERM), and waits until it has ended. Returns whether it ended well.
    ///
    /// # Errors
    /// The process had ended by itself, or does not end in time.
    ///
    /// # Cancel safety
    /// The node may have been asked; it can be asked again.
    pub async fn leave(&mut self, patience: Duration) -> Result<bool> {
        self.signal(Signal::TERM)?;
        match timeout(patience, self.child.wait()).await {
            Ok(status) => Ok(status?.success()),
            Err(_) => Err(format!("{} did not leave within {} s", self.name(), patience.as_secs()).into()),
        }
    }

    /// Kills the process (SIGKILL), and returns when it is gone. Does nothing when it is gone already.
    ///
    /// # Errors
    /// The process cannot be killed.
    ///
    /// # Cancel safety
    /// The process may have been killed.
    pub async fn kill(&mut self) -> Result<()> {
        if self.child.id().is_some() {
            self.child.start_kill()?;
        }
        match timeout(GONE, self.child.wait()).await {
            Ok(status) => status.map(drop).map_err(Into::into),
            Err(_) => Err(format!("{} cannot be killed", self.name()).into()),
        }
    }

    /// Pauses the process (SIGSTOP); none of its threads runs any more when this returns.
    ///
    /// # Errors
    /// The process has ended by itself.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let paused = waitid(WaitId::Pid(self.living()?), WaitIdOptions::STOPPED)?;
        match paused {
            Some(status) if status.stopped() => Ok(()),
            _ => Err(format!("{} does not pause", self.name()).into()),
        }
    }

    /// Wakes the process up.
    ///
    /// # Errors
    /// The process has ended by itself.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Whether the process runs, as far as known without waiting.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.living()?, signal).map_err(Into::into)
    }

    fn living(&self) -> Result<Pid> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        pid.ok_or_else(|| format!("{} has ended by itself", self.name()).into())
    }
}

/// The line by which a node reports that its workers are members of the pool.
pub(crate) const READY: &str = "ready";
