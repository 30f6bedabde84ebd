//! The keeper of a job: the process above the job's program, from which none of the job's processes gets away.
//!
//! It is a subreaper, so each of them stays below it. It kills them all when the node says so, when the node has gone,
//! when the lease has run out, and when the program itself has ended. It ends when there is none left. So a job has
//! ended when its keeper has.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, wait,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdin};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::book::{Reader, in_memory};
use super::clock;
use super::launch::{Command, End, Launch, Order, SHIM, THIS_PROGRAM, Word, line};
use super::tree;
use crate::journal;

/// How often it looks at the memory of its processes, if that is bounded and the kernel does not do it.
const LOOK: Duration = Duration::from_millis(250);

/// How soon it looks again for processes that were killed and have not ended.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// Keeps a job until none of its processes is left. The arguments are the job's program and its arguments.
pub(super) fn run(args: impl Iterator<Item = OsString>) -> u8 {
    match Keeper::new(args.collect()).and_then(Keeper::keep) {
        Ok(()) => 0,
        Err(error) => {
            // There is no node, or no memory. Its standard error may be the node's own, so nothing waits for its reader.
            let _ = journal::start();
            journal::tell(format_args!("tenure: a job cannot be kept: {error}"));
            1
        }
    }
}

struct Keeper {
    node: UnixStream,
    /// The beginning of a line from the node.
    said: Vec<u8>,
    ended: UnixStream,
    timer: OwnedFd,
    lease: Reader,
    cgroup: Option<PathBuf>,
    /// The bound of its processes' memory, and when it looks at that again.
    memory: Option<(u64, Instant)>,
    /// The shim's report, until the program runs or cannot.
    report: Option<UnixStream>,
    /// The program's input, until the shim has opened it.
    input: Option<OwnedFd>,
    main: Main,
    kills: bool,
    /// Nothing is heard from the node any more.
    is_alone: bool,
}

/// The job's program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Main {
    Runs(Pid),
    Ended,
}

impl Keeper {
    fn new(program: Vec<OsString>) -> io::Result<Self> {
        let mut node = UnixStream::from(fcntl_dupfd_cloexec(stdin(), 3)?);
        let (launch, input) = Launch::receive(&mut node)?;
        set_child_subreaper(Some(getpid()))?;
        name_process(&launch.name);
        let (ended, tell) = UnixStream::pair()?;
        ended.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, tell)?;
        // Only its node may end it. A program that it starts has the usual reactions.
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
        let lease = Reader::open(&launch.book, launch.line)?;
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let Launch { confines, .. } = launch;
        let cgroup = confines.cgroup.clone();
        let memory = confines.memory.map(|limit| (limit, Instant::now()));
        // Without a lease nothing starts: the first look at the timer would kill it at once.
        let (main, report, input) = if lease.until() > clock::now() {
            let (file, path) = in_memory(&input)?;
            let order = Order { keeper: getpid().as_raw_pid(), input: path, confines };
            let (report, theirs) = UnixStream::pair()?;
            let mut shim = std::process::Command::new(THIS_PROGRAM);
            shim.arg(SHIM).arg(serde_json::to_string(&order)?).args(program);
            let shim = shim.stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0).spawn()?;
            (Main::Runs(Pid::from_child(&shim)), Some(report), Some(file))
        } else {
            (&node).write_all(&line(&Word::NotStarted("its lease is over".to_owned())))?;
            (Main::Ended, None, None)
        };
        // The job's output ends with the job's processes.
        let null = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        node.set_nonblocking(true)?;
        if let Some(report) = &report {
            report.set_nonblocking(true)?;
        }
        let kills = main == Main::Ended;
        let (said, is_alone) = (Vec::new(), false);
        Ok(Self { node, said, ended, timer, lease, cgroup, memory, report, input, main, kills, is_alone })
    }

    fn keep(mut self) -> io::Result<()> {
        self.look_at_lease()?;
        loop {
            if !self.reap() {
                self.tell(&Word::Gone);
                return Ok(());
            }
            if self.kills {
                self.kill();
            }
            self.wait()?;
            self.look_at_report()?;
            self.listen();
            self.look_at_lease()?;
            self.look_at_memory();
        }
    }

    /// Waits for a word, an end or the time of the lease.
    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![
            PollFd::new(&self.ended, PollFlags::IN),
            PollFd::from_borrowed_fd(self.timer.as_fd(), PollFlags::IN),
        ];
        if !self.is_alone {
            fds.push(PollFd::new(&self.node, PollFlags::IN));
        }
        fds.extend(self.report.as_ref().map(|report| PollFd::new(report, PollFlags::IN)));
        let until = self.memory.map(|(_, at)| at.saturating_duration_since(Instant::now()));
        let pause = until.and_then(|until| Timespec::try_from(until).ok());
        match poll(&mut fds, if self.kills { Some(&AGAIN) } else { pause.as_ref() }) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 64];
        while (&self.ended).read(&mut bytes).is_ok_and(|len| len == bytes.len()) {}
        Ok(())
    }

    /// Collects those that have ended. Says whether any is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if self.main == Main::Runs(pid) => {
                    // The report is older than the end.
                    let _ = self.look_at_report();
                    self.main = Main::Ended;
                    self.kills = true;
                    self.tell(&Word::Ended(End::of(status)));
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Kills all that is left.
    fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            // Where it does not work, the tree is enough.
            let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        }
        if let Main::Runs(main) = self.main {
            let _ = kill_process_group(main, Signal::KILL);
            let _ = kill_process(main, Signal::KILL);
        }
        tree::kill_below(getpid());
    }

    fn look_at_lease(&mut self) -> io::Result<()> {
        if self.kills {
            return Ok(());
        }
        let until = self.lease.until();
        if until <= clock::now() {
            self.kills = true;
            return Ok(());
        }
        let at = Timespec {
            tv_sec: i64::try_from(until / 1_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(until % 1_000 * 1_000_000).unwrap_or(0),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Kills all if they have more memory than they may, and says so.
    fn look_at_memory(&mut self) {
        let Some((limit, at)) = &mut self.memory else { return };
        if self.kills || Instant::now() < *at {
            return;
        }
        *at = Instant::now() + LOOK;
        if let Some(bytes) = tree::memory_beyond(*limit, getpid()) {
            self.kills = true;
            self.tell(&Word::TooMuchMemory(bytes));
        }
    }

    /// The shim has become the program when its end of the report is closed, without a word.
    fn look_at_report(&mut self) -> io::Result<()> {
        let Some(report) = &self.report else { return Ok(()) };
        let mut bytes = [0; 1024];
        let word = match (report.as_fd(), (&*report).read(&mut bytes)) {
            (_, Ok(0)) => match self.main {
                Main::Runs(main) => Word::Started(main.as_raw_pid()),
                Main::Ended => return Ok(()),
            },
            (_, Ok(len)) => Word::NotStarted(String::from_utf8_lossy(&bytes[..len]).into_owned()),
            (_, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            (_, Err(error)) => return Err(error),
        };
        (self.report, self.input) = (None, None);
        self.tell(&word);
        Ok(())
    }

    fn listen(&mut self) {
        let mut bytes = [0; 256];
        while !self.is_alone {
            match self.node.read(&mut bytes) {
                Ok(len @ 1..) => self.said.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => {
                    self.is_alone = true;
                    self.kills = true;
                }
            }
        }
        while let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<_> = self.said.drain(..=end).collect();
            match (serde_json::from_slice(&line).ok(), self.main) {
                (Some(Command::Signal { signal, to_group }), Main::Runs(main)) => {
                    let send = if to_group { kill_process_group } else { kill_process };
                    // It has ended meanwhile if this fails.
                    let _ = Signal::from_named_raw(signal).map(|signal| send(main, signal));
                }
                // It looks at the lease after each word.
                (Some(Command::Look), _) | (Some(Command::Signal { .. }), Main::Ended) => {}
                (Some(Command::Kill) | None, _) => self.kills = true,
            }
        }
    }

    /// Tells the node, if there is one.
    fn tell(&self, word: &Word) {
        let _ = (&self.node).write_all(&line(word));
    }
}

/// Shows the job's key in listings of processes.
fn name_process(name: &str) {
    if let Ok(name) = CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}
