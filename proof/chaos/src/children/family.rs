//! The processes of a node, as the machine lists them. All have a variable in their environment with the node's name.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use super::hosted::HOST;
use super::program::JOB;

/// The variable. The command leaves it to the programs of jobs, and they to all that they start.
pub(super) const MARK: &str = "CHAOS_NODE";

/// A process of a node.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) line: Vec<String>,
}

impl Member {
    /// Its role is the first argument.
    fn is(&self, role: &str) -> bool {
        self.line.get(1).is_some_and(|arg| arg == role)
    }

    /// Whether it is a guard or a node.
    pub(super) fn is_tenure(&self) -> bool {
        self.is("work") || self.is("host")
    }

    pub(super) fn is_keeper(&self) -> bool {
        self.is("__keeper")
    }

    /// Whether it is the program of a job, or of many.
    pub(super) fn is_program(&self) -> bool {
        self.is(JOB) || self.is(HOST)
    }

    /// Sends it a signal. One that has ended gets none.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }
}

/// The living processes of the node with this mark.
pub(super) fn of(mark: &str) -> Vec<Member> {
    let wanted = format!("{MARK}={mark}\0");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    pids.filter_map(|pid| member(pid, wanted.as_bytes())).collect()
}

/// The process, if it has this in its environment. One that has ended has none.
fn member(pid: Pid, wanted: &[u8]) -> Option<Member> {
    let read = |file: &str| fs::read(format!("/proc/{}/{file}", pid.as_raw_pid())).ok();
    let environment = read("environ")?;
    environment.windows(wanted.len()).any(|part| part == wanted).then_some(())?;
    let line = String::from_utf8_lossy(&read("cmdline")?).into_owned();
    let line = line.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
    Some(Member { pid, line })
}
