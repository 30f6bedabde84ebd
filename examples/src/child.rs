//! A process of a story, started by its conductor. Its standard input is a pipe from its parent, and it ends when that
//! closes. So nothing is left when the conductor is gone, for any reason.

use std::env;
use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{ExitStatus, Stdio, exit};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// The longest time until a process is ready.
const READY: Duration = Duration::from_secs(15);
/// The longest time until a process has ended after it was asked to.
const LEAVE: Duration = Duration::from_secs(15);
/// The exit status of a process whose parent is gone.
const ORPHANED: i32 = 3;

/// A process does not behave as it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChildError {
    /// The process could not be started, signalled or awaited.
    #[error("{name}: the process cannot be handled")]
    Process {
        /// The process.
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// The process ended or continued when it should not have.
    #[error("{name}: {what}")]
    Unexpected {
        /// The process.
        name: String,
        /// The unexpected behaviour.
        what: String,
    },
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    child: Child,
    /// Kept apart from the child, which would close it as soon as its end is awaited.
    _stdin: ChildStdin,
}

impl ChildProcess {
    /// Starts this program with other arguments and waits until it reports, in one line, that it is ready. Returns the
    /// line as well.
    ///
    /// # Errors
    /// The process could not be started, ended early, or was not ready in time; it does not run then.
    ///
    /// # Cancel safety
    /// The process is killed when the future is dropped.
    pub async fn start(
        name: &str,
        args: impl IntoIterator<Item = OsString>,
        variables: &[(&str, &str)],
    ) -> Result<(Self, String), ChildError> {
        let process = |source| ChildError::Process { name: name.to_owned(), source };
        let unexpected = |what: String| ChildError::Unexpected { name: name.to_owned(), what };
        let mut child = Command::new(env::current_exe().map_err(process)?)
            .args(args)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // In its own group, so that Ctrl-C reaches only the conductor, which then ends the story in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(process)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(unexpected("it has no input or output".to_owned()));
        };
        let mut line = String::new();
        let read = timeout(READY, BufReader::new(output).read_line(&mut line)).await;
        match read {
            Ok(Ok(0)) => Err(unexpected("it ended before it was ready".to_owned())),
            Ok(Ok(_)) => Ok((Self { name: name.to_owned(), child, _stdin: input }, line.trim().to_owned())),
            Ok(Err(source)) => Err(process(source)),
            Err(_) => Err(unexpected(format!("it was not ready within {} s", READY.as_secs()))),
        }
    }

    /// Asks the process to leave (SIGTERM), and waits until it has ended well.
    ///
    /// # Errors
    /// The process ended with an error, or did not end in time; it does not run then.
    ///
    /// # Cancel safety
    /// The process is killed when the future is dropped.
    pub async fn leave(mut self) -> Result<(), ChildError> {
        self.signal(Signal::TERM)?;
        let Ok(status) = timeout(LEAVE, self.child.wait()).await else {
            return Err(self.unexpected(format!("it did not end within {} s", LEAVE.as_secs())));
        };
        let status = status.map_err(|source| self.failed(source))?;
        if status.success() { Ok(()) } else { Err(self.unexpected(ended(status))) }
    }

    /// Kills the process (SIGKILL), and waits until it is gone.
    ///
    /// # Errors
    /// The process could not be killed.
    ///
    /// # Cancel safety
    /// The process is killed when the future is dropped.
    pub async fn kill(mut self) -> Result<(), ChildError> {
        self.child.kill().await.map_err(|source| self.failed(source))
    }

    fn signal(&self, signal: Signal) -> Result<(), ChildError> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.ok_or_else(|| self.unexpected("it has ended by itself".to_owned()))?;
        kill_process(pid, signal).map_err(|errno| self.failed(errno.into()))
    }

    fn failed(&self, source: io::Error) -> ChildError {
        ChildError::Process { name: self.name.clone(), source }
    }

    fn unexpected(&self, what: String) -> ChildError {
        ChildError::Unexpected { name: self.name.clone(), what }
    }
}

fn ended(status: ExitStatus) -> String {
    format!("it ended with {status}")
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
