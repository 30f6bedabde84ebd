//! A job's processes, as the node sees them: a keeper that it talks to, and nothing that outlives this value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process_group, pidfd_open, waitid,
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::timeout;

use super::book::{Book, Line};
use super::cgroup::Group;
use super::launch::{self, Confines, End, KEEPER, Launch, MEMORY, THIS_PROGRAM, Word};
use super::tree;

/// How long a keeper may take to kill what it keeps, before the node does it.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a new keeper may take to listen.
const LISTENING: Duration = Duration::from_secs(10);
/// How soon it looks again for what it has killed.
const AGAIN: Duration = Duration::from_millis(2);

/// How many looks in a row must find nothing.
const LOOKS: usize = 3;

/// A job's program, and all that it is started with.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its name in listings of processes.
    pub(crate) name: String,
    pub(crate) line: Vec<OsString>,
    /// Variables that it has and the node has not, and those of the node that it has not.
    pub(crate) set: BTreeMap<&'static str, OsString>,
    pub(crate) unset: Vec<OsString>,
    pub(crate) input: Vec<u8>,
    pub(crate) confines: Confines,
}

/// Where a stream of a program's output goes.
pub(crate) enum Output {
    /// To the node, which reads it.
    Read,
    /// To where the node's own goes.
    Inherit,
    Null,
}

/// The ends of the output that the node reads.
pub(crate) type Read = (Option<OwnedFd>, Option<OwnedFd>);

/// The processes of a job. When this is dropped, they are killed, and the drop waits until none is left.
#[derive(Debug)]
pub(crate) struct Processes {
    keeper: Child,
    words: Lines<BufReader<OwnedReadHalf>>,
    /// None once the keeper was told to kill.
    node: Option<OwnedWriteHalf>,
    /// The group of the program.
    group: Option<Pid>,
    guard: Pid,
    gone: bool,
    /// The limits of the job, and how much memory it had when it had too much.
    limits: BTreeMap<String, u64>,
    had: Option<u64>,
    /// After the end of all processes the job's line and group are given back.
    _line: Arc<Line>,
    cgroup: Option<Group>,
}

impl Processes {
    /// Starts the keeper of a job's program. It blocks for some milliseconds. Call it within the node's runtime.
    ///
    /// # Errors
    /// The machine has no more processes, memory or files. Nothing runs.
    pub(crate) fn start(
        program: Program,
        (book, line): (&Arc<Book>, Arc<Line>),
        cgroup: Option<Group>,
        (out, err): (&Output, &Output),
        guard: Pid,
    ) -> io::Result<(Self, Read)> {
        let (ours, theirs) = UnixStream::pair()?;
        let Program { name, line: words, set, unset, input, mut confines } = program;
        let mut keeper = Command::new(THIS_PROGRAM);
        keeper.arg(KEEPER).args(words);
        for name in unset {
            keeper.env_remove(name);
        }
        keeper.envs(set).stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0);
        keeper.stdout(out.stdio()).stderr(err.stdio());
        confines.cgroup = cgroup.as_ref().map(|group| group.path().to_owned());
        let mut limits = confines.limits.clone();
        limits.extend(confines.memory.map(|memory| (MEMORY.to_owned(), memory)));
        if cgroup.as_ref().is_some_and(Group::bounds_memory) {
            confines.memory = None;
        }
        let launch = Launch { name, book: book.path(), line: line.number(), input: input.len(), confines };
        let mut child = keeper.spawn()?;
        // It now has the only other end: its death is seen.
        drop(keeper);
        let read = (child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from));
        let sent = ours.set_write_timeout(Some(LISTENING)).and_then(|()| launch.send(&input, &ours));
        let talk = sent.and_then(|()| {
            ours.set_nonblocking(true)?;
            tokio::net::UnixStream::from_std(ours)
        });
        let talk = match talk {
            Ok(talk) => talk,
            Err(error) => {
                // It has started nothing: it has no program without a whole launch, and ends with the socket.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        let (hear, say) = talk.into_split();
        let words = BufReader::with_capacity(128, hear).lines();
        let (node, group, gone) = (Some(say), None, false);
        let processes =
            Self { keeper: child, words, node, group, guard, gone, limits, had: None, _line: line, cgroup };
        Ok((processes, read))
    }

    /// The next word of the keeper. The last one is [`Word::Gone`]: it comes again and again.
    ///
    /// # Cancel safety
    /// Safe: a word is taken only when it is returned.
    pub(crate) async fn next(&mut self) -> Word {
        while !self.gone {
            let word = match self.words.next_line().await {
                Ok(Some(line)) => serde_json::from_str(&line).map_err(drop),
                Ok(None) | Err(_) => Err(()),
            };
            match word {
                Ok(Word::Gone) => self.all_gone(),
                Ok(Word::TooMuchMemory(bytes)) => self.had = Some(bytes),
                Ok(Word::Started(group)) => {
                    self.group = Pid::from_raw(group);
                    return Word::Started(group);
                }
                Ok(word) => return word,
                // Somebody has killed the keeper.
                Err(()) => blocking(|| self.end()),
            }
        }
        Word::Gone
    }

    /// The limit for which a program that has ended in this way was killed, if it was.
    pub(crate) fn beyond(&self, end: End) -> Option<String> {
        let limit = |name: &str| {
            self.limits.get(name).map(|value| format!("over its limit {name}={}", short(*value)))
        };
        match (self.had, end) {
            (Some(had), _) => Some(format!("{}, it had {}", limit(MEMORY)?, short(had))),
            (None, End::Signal(signal)) if signal == Signal::XCPU.as_raw() => limit("cpu"),
            (None, End::Signal(signal)) if signal == Signal::XFSZ.as_raw() => limit("fsize"),
            _ if self.cgroup.as_ref().is_some_and(Group::was_out_of_memory) => limit(MEMORY),
            _ => None,
        }
    }

    /// How the program's end is told: the limit that it went beyond or its status, and the last of what it said.
    pub(crate) fn told(&self, end: End, last: &str) -> String {
        told(self.beyond(end).unwrap_or_else(|| end.to_string()), last)
    }

    /// Sends the program this signal.
    pub(crate) fn signal(&mut self, signal: Signal, to_group: bool) {
        self.say(launch::Command::Signal { signal: signal.as_raw(), to_group });
    }

    /// The number of the keeper's process.
    pub(crate) fn keeper(&self) -> Pid {
        Pid::from_child(&self.keeper)
    }

    /// Another way to the keeper, which needs no runtime.
    ///
    /// # Errors
    /// The machine has no more files, or the processes are being killed.
    pub(crate) fn reins(&self) -> io::Result<Reins> {
        let gone = || io::Error::from(io::ErrorKind::NotConnected);
        let node: &tokio::net::UnixStream = self.node.as_ref().ok_or_else(gone)?.as_ref();
        let node = UnixStream::from(node.as_fd().try_clone_to_owned()?);
        Ok(Reins { node, keeper: pidfd_open(self.keeper(), PidfdFlags::empty())? })
    }

    /// Kills all, and waits until none is left.
    ///
    /// # Cancel safety
    /// Safe: a drop does the rest.
    pub(crate) async fn kill(&mut self) {
        self.say(launch::Command::Kill);
        self.finish().await;
    }

    /// Waits for the end of all, after the program's own.
    ///
    /// # Cancel safety
    /// Safe.
    pub(crate) async fn finish(&mut self) {
        let gone = async { while self.next().await != Word::Gone {} };
        if timeout(PATIENCE, gone).await.is_err() {
            blocking(|| self.end());
        }
    }

    fn say(&mut self, command: launch::Command) {
        if let Some(node) = &self.node {
            // It has room for many more than are ever said. One that cannot be said ends the talk, and so the job.
            let line = launch::line(&command);
            if node.try_write(&line).ok() != Some(line.len()) {
                self.node = None;
            }
        }
    }

    fn all_gone(&mut self) {
        self.gone = true;
        // The keeper ends right after its last word.
        let _ = self.keeper.wait();
    }

    /// Kills all, and waits until none is left. The keeper does it, unless it cannot.
    fn end(&mut self) {
        // Its end is a word: kill.
        self.node = None;
        let until = Instant::now() + PATIENCE;
        loop {
            match self.keeper.try_wait() {
                // One that failed has not looked below it.
                Ok(Some(status)) if status.success() => break,
                Ok(None) if Instant::now() < until => thread::sleep(AGAIN),
                Ok(_) | Err(_) => {
                    self.end_without_keeper();
                    break;
                }
            }
        }
        self.gone = true;
    }

    /// The keeper is stopped or dead. The processes that it kept come to the guard.
    fn end_without_keeper(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // The keepers of other jobs are no children of the guard while this node lives. A look may miss one beside a
        // child that ends just then.
        let mut in_vain = 0;
        while in_vain < LOOKS {
            in_vain = if tree::kill_strays(self.guard, getpid()) > 0 { 0 } else { in_vain + 1 };
            thread::sleep(AGAIN);
        }
    }
}

/// A way to a keeper beside that of its [`Processes`].
#[derive(Debug)]
pub(crate) struct Reins {
    node: UnixStream,
    keeper: OwnedFd,
}

impl Reins {
    /// Says that the lease may end sooner than it did. The keeper looks before it waits again.
    ///
    /// # Errors
    /// The keeper has gone, or does not listen.
    pub(crate) fn look(&self) -> io::Result<()> {
        // It does not block: there is room for many more than a keeper that listens leaves unread.
        (&self.node).write_all(&launch::line(&launch::Command::Look))
    }

    /// Tells the keeper to kill all that it keeps, and waits for its end. False: it took longer, or the keeper could not.
    pub(crate) fn end(&self, within: Duration) -> bool {
        // One that has gone hears nothing, and its end is seen below.
        let _ = (&self.node).write_all(&launch::line(&launch::Command::Kill));
        let until = Instant::now() + within;
        loop {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            match waitid(WaitId::PidFd(self.keeper.as_fd()), options) {
                // One that failed has not looked below it.
                Ok(Some(status)) => return status.exit_status() == Some(0),
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
            let left = until.saturating_duration_since(Instant::now());
            let Ok(left) = Timespec::try_from(left) else { return false };
            if left == Timespec::default() {
                return false;
            }
            // An error here is one above.
            let _ = poll(&mut [PollFd::new(&self.keeper, PollFlags::IN)], Some(&left));
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if !self.gone {
            blocking(|| self.end());
        }
    }
}

impl Output {
    fn stdio(&self) -> Stdio {
        match self {
            Self::Read => Stdio::piped(),
            Self::Inherit => Stdio::inherit(),
            Self::Null => Stdio::null(),
        }
    }
}

/// Runs work that blocks its thread, while others use the runtime's threads.
pub(crate) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// How a program's end is told, with the last of what it said.
pub(crate) fn told(end: String, last: &str) -> String {
    let last = last.trim();
    if last.is_empty() { end } else { format!("{end}: {last}") }
}

/// A number in the largest unit that leaves it whole, or nearly.
fn short(number: u64) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let fits = |unit: u64| number.is_multiple_of(unit) || number / unit >= 10;
    match units.into_iter().find(|(unit, _)| number >= *unit && fits(*unit)) {
        Some((unit, name)) => format!("{}{name}", number.div_ceil(unit)),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_bytes_is_short() {
        let cases = [
            (0, "0"),
            (1023, "1023"),
            (64 << 20, "64M"),
            (2 << 30, "2G"),
            ((65 << 20) + 1, "66M"),
            (1 << 10, "1K"),
        ];
        for (number, text) in cases {
            assert_eq!(short(number), text);
        }
    }
}
