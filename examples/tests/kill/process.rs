//! A node in a process of its own, which can be killed, paused and drained.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tenure_examples::feeds::node::WORKERS;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// A running node; killed when dropped.
pub(crate) struct NodeProcess {
    name: String,
    child: Child,
    /// The node ends when this closes.
    _stdin: ChildStdin,
}

impl NodeProcess {
    /// Starts a node, and returns when its workers are members of the pool.
    pub(crate) async fn start(name: &str, args: &[String], redis_url: &str, log: &Path) -> Self {
        let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_feeds"))
            .arg("node")
            .arg(format!("--name={name}"))
            .args(args)
            .env("REDIS_URL", redis_url)
            .env("RUST_LOG", "info")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // In its own group: when the test dies, the kernel wakes and ends a paused node.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        timeout(PATIENCE, output.read_line(&mut line)).await.expect("the node joins in time").unwrap();
        assert_eq!(line, "ready\n", "{name} does not join");
        Self { name: name.to_owned(), child, _stdin: stdin }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The names under which its workers write their histories.
    pub(crate) fn workers(&self) -> impl Iterator<Item = String> {
        (0..WORKERS).map(|number| format!("{}/{number}", self.name))
    }

    /// Kills the node; it may not be gone yet when this returns.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Asks the node to hand its tenants on and leave; it still runs when this returns.
    pub(crate) fn drain(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until the node is gone. Returns whether it ended well.
    pub(crate) async fn ended(&mut self) -> bool {
        timeout(PATIENCE, self.child.wait()).await.expect("the node ends in time").unwrap().success()
    }

    /// Pauses the node; none of its threads runs any more when this returns.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        let paused = waitid(WaitId::Pid(self.pid()), WaitIdOptions::STOPPED).unwrap();
        assert!(paused.is_some_and(|status| status.stopped()), "{} does not pause", self.name);
    }

    /// Wakes the node up.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        pid.unwrap_or_else(|| panic!("{} has ended by itself", self.name))
    }
}
