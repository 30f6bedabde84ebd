//! The guard: the process that the user starts. It passes signals on to the node, which is its child, and outlives it.
//!
//! It is a subreaper: what loses its keeper comes to it. When the node has ended, for any reason, it kills all that is
//! left, and only then does it end.

use std::env;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::cgroup::Groups;
use super::launch::{End, THIS_PROGRAM};
use super::{place, tree};
use crate::journal;
use crate::signals::heard;

/// The exit status when the node was lost.
pub(crate) const LOST: u8 = 70;
/// Names the guard to its node.
const GUARD: &str = "TENURE_GUARD";
/// Names the node's folder for sockets and files.
const FOLDER: &str = "TENURE_FOLDER";
/// How soon it looks again for what it has killed.
const AGAIN: Duration = Duration::from_millis(5);
/// After this time it says what does not end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The guard, as its node sees it.
#[derive(Clone, Debug)]
pub(crate) struct Guarded {
    pub(crate) guard: Pid,
    pub(crate) folder: std::path::PathBuf,
}

impl Guarded {
    /// The guard of this process. None if it has none, and has to become one.
    pub(crate) fn here() -> Option<Self> {
        let guard = env::var(GUARD).ok()?.parse().ok().and_then(Pid::from_raw);
        let guard = guard.filter(|guard| rustix::process::getppid() == Some(*guard))?;
        Some(Self { guard, folder: env::var_os(FOLDER)?.into() })
    }
}

/// Runs this command once more as its node, and returns the exit status.
///
/// # Errors
/// The node cannot be started.
pub(crate) fn run() -> io::Result<u8> {
    // First of all: a signal from now on waits for the node.
    let mut signals = Signals::new(heard([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP]))?;
    set_child_subreaper(Some(getpid()))?;
    journal::start()?;
    let (folder, _lock) = place::make()?;
    // Its other end closes when this process ends, however it does.
    let (theirs, _ours) = io::pipe()?;
    let mut node = Command::new(THIS_PROGRAM);
    node.args(env::args_os().skip(1))
        .env(GUARD, getpid().as_raw_pid().to_string())
        .env(FOLDER, folder.path());
    // In a group of its own: the terminal's signals come to the guard alone.
    let node = node.stdin(Stdio::from(theirs)).process_group(0).spawn()?;
    let node = Pid::from_child(&node);
    let (status, told) = stay(node, &mut signals);
    end_all();
    Ok(match status.map(End::of) {
        Some(End::Exit(status)) => u8::try_from(status).unwrap_or(LOST),
        // It was told to end before it listened. It listens before it has a worker.
        Some(End::Signal(SIGTERM)) if told => 0,
        Some(end @ End::Signal(_)) => {
            journal::tell(format_args!("tenure: the node was {end}; all its processes were killed"));
            LOST
        }
        None => LOST,
    })
}

/// Serves the node until it has ended. Says how it did, and whether it was told to.
fn stay(node: Pid, signals: &mut Signals) -> (Option<WaitStatus>, bool) {
    let mut told = false;
    for signal in signals.forever() {
        match signal {
            SIGCHLD => {
                if let Reaped::Node(status) = reap(Some(node)) {
                    return (Some(status), told);
                }
            }
            // A stopped guard could not pass the next signal on.
            SIGTSTP => {}
            _ => {
                // It has ended if this fails, and SIGCHLD comes.
                told |= kill_process(node, Signal::TERM).is_ok();
            }
        }
    }
    (None, told)
}

enum Reaped {
    Node(WaitStatus),
    Others,
    /// There is no child left.
    All,
}

fn reap(node: Option<Pid>) -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if Some(pid) == node => return Reaped::Node(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Reaped::Others,
            Err(_) => return Reaped::All,
        }
    }
}

/// Kills all that is left, and waits until it has ended.
fn end_all() {
    let (begun, mut told) = (Instant::now(), false);
    let groups = Groups::of(getpid());
    while !matches!(reap(None), Reaped::All) {
        if let Some(groups) = &groups {
            groups.kill();
        }
        let left = tree::kill_below(getpid());
        if !told && begun.elapsed() > PATIENCE {
            told = true;
            journal::tell(format_args!("tenure: {left} processes do not end, though they were killed"));
        }
        thread::sleep(AGAIN);
    }
    if let Some(groups) = groups {
        groups.remove();
    }
}
