//! A process of a test or a story, from its parent's point of view: it can be spoken to, paused, killed and asked to
//! leave.
//!
//! Its standard input is a pipe from its parent. A program that calls [`end_with_parent`] ends when that closes. So
//! nothing is left when the parent is gone, for any reason.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{ExitStatus, Stdio, exit};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Error;

/// The longest time until a killed process has ended.
const GONE: Duration = Duration::from_secs(10);
/// The exit status of a process whose parent is gone.
const ORPHANED: i32 = 3;

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    child: Child,
    /// Kept apart from the child, which would close it as soon as its end is awaited.
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl ChildProcess {
    /// Starts a program. Errors call it by `name`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(name: &str, mut command: Command) -> Result<Self, Error> {
        let failed = |source| Error::Process { name: name.to_owned(), source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // In its own group: Ctrl-C reaches only the parent, which then ends in order. When the parent dies, the kernel
        // wakes a paused child, which then ends, too.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { name: name.to_owned(), child, input, output: BufReader::new(output).lines() })
            }
            _ => Err(failed(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Starts this program once more, with other arguments.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn of_this_program(
        name: &str,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        variables: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let program =
            env::current_exe().map_err(|source| Error::Process { name: name.to_owned(), source })?;
        let mut command = Command::new(program);
        command.args(args).envs(variables.iter().copied());
        Self::start(name, command)
    }

    /// Runs the test of this name once more, with a variable that tells it that it is the child.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn of_test(name: &str, variable: (&str, &str)) -> Result<Self, Error> {
        Self::of_this_program(name, ["--exact", name, "--nocapture"], &[variable])
    }

    /// The name that errors call it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process's id; `None` after its end was noticed.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// The next line that it writes.
    ///
    /// # Errors
    /// It has closed its output, as by its end, or writes no line in time.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn line(&mut self, patience: Duration) -> Result<String, Error> {
        match timeout(patience, self.output.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(self.unexpected("it has ended".to_owned())),
            Ok(Err(source)) => Err(self.failed(source)),
            Err(_) => Err(self.unexpected(format!("it said nothing for {patience:?}"))),
        }
    }

    /// Writes a line to its input.
    ///
    /// # Errors
    /// It has closed its input, as by its end.
    ///
    /// # Cancel safety
    /// A part of the line may have been written.
    pub async fn tell(&mut self, line: &str) -> Result<(), Error> {
        let written = self.input.write_all(format!("{line}\n").as_bytes()).await;
        written.map_err(|source| self.failed(source))
    }

    /// Whether it runs, as far as known without waiting.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It still runs.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn ended(&mut self, patience: Duration) -> Result<ExitStatus, Error> {
        match timeout(patience, self.child.wait()).await {
            Ok(status) => status.map_err(|source| self.failed(source)),
            Err(_) => Err(self.unexpected(format!("it did not end within {patience:?}"))),
        }
    }

    /// Asks it to leave (SIGTERM), and waits until it has ended.
    ///
    /// # Errors
    /// It had ended by itself, or still runs.
    ///
    /// # Cancel safety
    /// It may have been asked; it can be asked again.
    pub async fn leave(&mut self, patience: Duration) -> Result<ExitStatus, Error> {
        self.signal(Signal::TERM)?;
        self.ended(patience).await
    }

    /// Asks it to leave, and waits until it has ended well.
    ///
    /// # Errors
    /// As [`leave`](Self::leave), or its status tells of a failure.
    ///
    /// # Cancel safety
    /// As [`leave`](Self::leave).
    pub async fn leave_well(&mut self, patience: Duration) -> Result<(), Error> {
        let status = self.leave(patience).await?;
        if status.success() { Ok(()) } else { Err(self.unexpected(format!("it ended with {status}"))) }
    }

    /// Kills it (SIGKILL), and waits until it is gone. Does nothing when it is gone already.
    ///
    /// # Errors
    /// It cannot be killed.
    ///
    /// # Cancel safety
    /// It may have been killed.
    pub async fn kill(&mut self) -> Result<(), Error> {
        if self.child.id().is_some() {
            self.child.start_kill().map_err(|source| self.failed(source))?;
        }
        self.ended(GONE).await.map(drop)
    }

    /// Pauses it (SIGSTOP); none of its threads runs any more when this returns.
    ///
    /// # Errors
    /// It has ended by itself.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let paused = waitid(WaitId::Pid(self.living()?), WaitIdOptions::STOPPED);
        match paused.map_err(|errno| self.failed(errno.into()))? {
            Some(status) if status.stopped() => Ok(()),
            _ => Err(self.unexpected("it does not pause".to_owned())),
        }
    }

    /// Wakes it up.
    ///
    /// # Errors
    /// It has ended by itself.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        kill_process(self.living()?, signal).map_err(|errno| self.failed(errno.into()))
    }

    fn living(&self) -> Result<Pid, Error> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        pid.ok_or_else(|| self.unexpected("it has ended by itself".to_owned()))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Process { name: self.name.clone(), source }
    }

    fn unexpected(&self, what: String) -> Error {
        Error::Unexpected { name: self.name.clone(), what }
    }
}

/// Ends this process at once when its standard input closes. It uses a thread of its own, because the process must end
/// even when its runtime hangs.
pub fn end_with_parent() {
    thread::spawn(|| {
        let mut input = io::stdin().lock();
        let mut bytes = [0; 64];
        loop {
            match input.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => exit(ORPHANED),
                Ok(_) => {}
            }
        }
    });
}
