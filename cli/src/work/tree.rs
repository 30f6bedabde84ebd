//! Process trees: all that has come from a process, and its end.
//!
//! Every process below a subreaper stays below it, whatever it does: one that leaves its group, its session or its
//! parent gets the subreaper as its parent. So a subreaper without children has no descendants either.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};

/// How often a tree is looked through for processes that were born meanwhile. Each look stops all that it finds, so only
/// those that a look misses can have children.
const LOOKS: usize = 100;

/// Kills all that has come from this process, and returns how many there were. Those that are born while it looks may
/// be left, so call it until there is none. All are stopped before the first one is killed: otherwise some would have
/// children faster than they are found.
pub(crate) fn kill_below(root: Pid) -> usize {
    kill(|| below(&children(root)))
}

/// Kills all children of `root` but `spared`, and all that has come from them. Returns how many there were.
pub(crate) fn kill_strays(root: Pid, spared: Pid) -> usize {
    kill(|| {
        let strays: Vec<_> = children(root).into_iter().filter(|pid| *pid != spared).collect();
        below(&strays)
    })
}

fn kill(found: impl Fn() -> Vec<Pid>) -> usize {
    let mut stopped = HashSet::new();
    for _ in 0..LOOKS {
        let new: Vec<_> = found().into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            // It may have ended by now. Its number is not given away so soon, because numbers are given in turn.
            let _ = kill_process(pid, Signal::STOP);
            stopped.insert(pid);
        }
    }
    for pid in &stopped {
        let _ = kill_process(*pid, Signal::KILL);
    }
    stopped.len()
}

/// These processes and all that has come from them, as far as they live.
fn below(roots: &[Pid]) -> Vec<Pid> {
    let (mut found, mut next) = (Vec::new(), roots.to_vec());
    while let Some(pid) = next.pop() {
        if is_alive(pid) {
            found.push(pid);
            next.extend(children(pid));
        }
    }
    found
}

/// How many bytes of memory all that has come from this process has, if it is more than `limit`. None if it is not.
///
/// Pages that several of them share count once, and those of files not at all.
pub(crate) fn memory_beyond(limit: u64, root: Pid) -> Option<u64> {
    let all = below(&children(root));
    // It counts shared pages for each process, and costs much less.
    let at_most: u64 = all.iter().map(|pid| private(*pid)).sum();
    if at_most <= limit {
        return None;
    }
    let exactly = all.iter().map(|pid| share(*pid)).sum();
    (exactly > limit).then_some(exactly)
}

/// The memory of a process that is not of files, in bytes. 0 if it has ended.
fn private(pid: Pid) -> u64 {
    let Ok(statm) = fs::read_to_string(format!("/proc/{}/statm", pid.as_raw_pid())) else { return 0 };
    let mut pages = statm.split(' ').skip(1).map(|pages| pages.parse::<u64>().unwrap_or(0));
    let (resident, of_files) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    resident.saturating_sub(of_files) * rustix::param::page_size() as u64
}

/// The same, with its part of each page that others have as well.
fn share(pid: Pid) -> u64 {
    let sums = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_pid())).unwrap_or_default();
    let of = |name: &str| {
        let line = sums.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
    };
    // A kernel may not have them, or not let us read them.
    of("Pss_Anon:").map_or_else(|| private(pid), |anonymous| anonymous * 1024)
}

/// The children of a process. None if it has ended.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    static LISTED: OnceLock<bool> = OnceLock::new();
    // The kernel may be built without these lists.
    if *LISTED.get_or_init(|| Path::new("/proc/thread-self/children").exists()) {
        listed_children(parent)
    } else {
        all_with_parent(parent)
    }
}

fn listed_children(parent: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{}/task", parent.as_raw_pid()));
    let lists = tasks.into_iter().flatten().flatten().map(|task| task.path().join("children"));
    let lists: Vec<_> = lists.filter_map(|list| fs::read_to_string(list).ok()).collect();
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(number).collect()
}

fn all_with_parent(parent: Pid) -> Vec<Pid> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| number(entry.file_name().to_str()?));
    all.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == Some(parent))).collect()
}

/// Whether a process has come from `root`, as far as its ancestors live.
pub(crate) fn is_below(pid: Pid, root: Pid) -> bool {
    let parents = std::iter::successors(Some(pid), |pid| stat(*pid)?.1);
    // Bounded, because numbers may be given anew while it looks.
    parents.take(LOOKS).any(|pid| pid == root)
}

/// Whether it has not ended.
fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X' | 'x'))
}

/// The state and the parent of a process. None once its number is free.
fn stat(pid: Pid) -> Option<(char, Option<Pid>)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    // The name may have blanks and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next().and_then(number)))
}

fn number(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn().unwrap()
    }

    fn pid(child: &Child) -> Pid {
        Pid::from_child(child)
    }

    #[test]
    fn both_ways_to_find_children_find_the_same() {
        let mut child = shell("sleep 60 & sleep 60 & sleep 60 & wait");
        let mut found = Vec::new();
        while found.len() < 3 {
            found = all_with_parent(pid(&child));
            thread::sleep(Duration::from_millis(1));
        }
        let mut listed = children(pid(&child));
        listed.sort_unstable_by_key(|pid| pid.as_raw_pid());
        found.sort_unstable_by_key(|pid| pid.as_raw_pid());
        assert_eq!(listed, found);
        while kill_below(pid(&child)) > 0 {}
        child.wait().unwrap();
    }

    #[test]
    fn memory_that_processes_share_counts_once() {
        // The subshells of a shell that holds 16 MiB share them.
        let held = "x=$(head -c 16777216 /dev/zero | tr '\\0' x)";
        let inner = format!("{held}; (sleep 60; :) & (sleep 60; :) & (sleep 60; :) & wait");
        let mut outer = Command::new("sh");
        outer.args(["-c", "sh -c \"$INNER\" & wait"]).env("INNER", inner).stdin(Stdio::null());
        let mut child = outer.spawn().unwrap();
        let root = pid(&child);
        let began = std::time::Instant::now();
        while below(&children(root)).len() < 7 {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", below(&children(root)));
            thread::sleep(Duration::from_millis(1));
        }
        let all = below(&children(root));
        let each: u64 = all.iter().map(|it| private(*it)).sum();
        let together: u64 = all.iter().map(|it| share(*it)).sum();
        assert!(together > 16 << 20 && each > together + (24 << 20), "{each} {together}");
        assert_eq!(memory_beyond(1 << 40, root), None);
        assert!(memory_beyond(16 << 20, root).is_some());
        assert_eq!(memory_beyond(together + (8 << 20), root), None, "{together}");
        while kill_below(root) > 0 {}
        child.wait().unwrap();
    }

    #[test]
    fn all_below_a_process_end_while_they_still_fork() {
        // Each of them forks on and on, in sessions of its own. The parent lives on.
        let script = "for i in 1 2 3; do setsid sh -c 'while :; do sleep 60 & done' & done; read never";
        let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        while below(&children(pid(&child))).len() < 50 {
            thread::sleep(Duration::from_millis(1));
        }
        while kill_below(pid(&child)) > 0 {}
        assert_eq!(below(&children(pid(&child))), []);
        assert!(child.try_wait().unwrap().is_none(), "it was spared");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
