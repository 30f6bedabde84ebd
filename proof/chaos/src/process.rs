//! A node in a process of its own, from the conductor's point of view.

use std::fs::OpenOptions;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use serde::Serialize;
use tenure_testing::ChildProcess;
use tokio::process::Command;

use crate::Result;
use crate::node::NodePlan;

/// The line by which a node reports that its workers are members of the pool.
pub(crate) const READY: &str = "ready";

/// Starts this program's command with this plan. Its log from this level on is appended to this file. `RUST_LOG` overrides
/// the level.
///
/// # Errors
/// The process or its log cannot be created.
pub(crate) fn start(
    command: &str,
    name: &str,
    plan: &impl Serialize,
    log: &Path,
    level: &str,
) -> Result<ChildProcess> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let mut process = Command::new(std::env::current_exe()?);
    process.arg(command).arg(serde_json::to_string(plan)?).stderr(log);
    process.env("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| level.to_owned()));
    Ok(ChildProcess::start(name, process)?)
}

/// A running node; killed when dropped.
#[derive(Debug)]
pub struct NodeProcess {
    plan: NodePlan,
    process: ChildProcess,
    ready: bool,
}

impl NodeProcess {
    /// Starts a node, and returns at once: [`ready`](Self::ready) tells when its workers are members of the pool. Its
    /// log from this level on is appended to this file. `RUST_LOG` overrides the level.
    ///
    /// # Errors
    /// The process or its log cannot be created.
    pub fn start(plan: NodePlan, log: &Path, level: &str) -> Result<Self> {
        let process = start("node", &plan.name, &plan, log, level)?;
        Ok(Self { plan, process, ready: false })
    }

    /// The node's settings.
    pub fn plan(&self) -> &NodePlan {
        &self.plan
    }

    /// Whether its workers are members of the pool, as far as known without waiting.
    pub fn is_ready(&mut self) -> bool {
        if !self.ready {
            let line = self.process.line(Duration::MAX).now_or_never();
            self.ready = matches!(line, Some(Ok(line)) if line == READY);
        }
        self.ready
    }

    /// Waits until its workers are members of the pool.
    ///
    /// # Errors
    /// They are not members in time, or the process has ended.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ready(&mut self, patience: Duration) -> Result<()> {
        while !self.ready {
            self.ready = self.process.line(patience).await? == READY;
        }
        Ok(())
    }
}

/// It can be spoken to, paused and killed as any process.
impl Deref for NodeProcess {
    type Target = ChildProcess;

    fn deref(&self) -> &ChildProcess {
        &self.process
    }
}

impl DerefMut for NodeProcess {
    fn deref_mut(&mut self) -> &mut ChildProcess {
        &mut self.process
    }
}
