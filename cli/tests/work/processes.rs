//! Processes of this machine, as tests see them.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Processes that sleep for a time that nobody else sleeps for: those of one test. Those that are left are killed at the end.
pub(crate) struct Sleepers(String);

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self(format!("{}", 1_000_000 + rand::random::<u32>() / 2))
    }

    /// The command for one of them.
    pub(crate) fn sleep(&self) -> String {
        format!("sleep {}", self.0)
    }

    /// Those that live.
    pub(crate) fn alive(&self) -> Vec<Pid> {
        all().filter(|pid| args(*pid).is_some_and(|args| args == ["sleep", &*self.0])).collect()
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for pid in self.alive() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

/// The arguments of a process; none of one that has ended.
fn args(pid: Pid) -> Option<Vec<String>> {
    let line = fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_pid())).ok()?;
    Some(line.trim_end_matches('\0').split('\0').map(str::to_owned).collect())
}

/// The children of a process, of which each has one thread.
pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid())).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<_> = lists.collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(number).collect()
}

/// Whether it has made a namespace for its only child.
pub(crate) fn makes_namespace(pid: Pid) -> bool {
    args(pid).is_some_and(|args| args[0] == "unshare")
}

/// Whether it is a keeper of a job.
pub(crate) fn is_keeper(pid: Pid) -> bool {
    args(pid).is_some_and(|args| args.get(1).is_some_and(|arg| arg == "__keeper"))
}

pub(crate) fn number(text: &str) -> Option<Pid> {
    text.trim().parse().ok().and_then(Pid::from_raw)
}

/// The number that a program has written into this file.
pub(crate) fn number_in(file: &Path) -> Option<Pid> {
    fs::read_to_string(file).ok().filter(|text| text.ends_with('\n')).and_then(|text| number(&text))
}
