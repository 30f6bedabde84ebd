//! The guard: a small shell process that owns one server and its folder, so that neither outlives its parent.
//!
//! Invariant: only [`Guard`] holds the write end of the guard's stdin, and that is close-on-exec. However the holder's
//! process ends, the guard reads the end of its stdin, kills the server and removes the folder. `guard.sh` has the
//! other half; only `server.rs` uses this.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::Error;

const SCRIPT: &str = include_str!("guard.sh");

/// A running guard.
pub(crate) struct Guard {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    dir: PathBuf,
    server: Option<Pid>,
}

impl Guard {
    /// Starts a guard with its own folder in `base`, for a server with this command line. No server runs yet.
    pub(crate) fn spawn(base: &Path, command: &[String]) -> Result<Self, Error> {
        let doing = "start";
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, "tenure-redis-guard"])
            .arg(base)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of its own: a signal to the parent's group must not end the guard.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Guard { doing, source })?;
        let commands = child.stdin.take();
        let Some(stdout) = child.stdout.take() else {
            return Err(Error::Guard { doing, source: io::ErrorKind::BrokenPipe.into() });
        };
        let mut guard =
            Self { child, commands, answers: BufReader::new(stdout), dir: PathBuf::new(), server: None };
        guard.dir = guard.answer("make its folder")?.into();
        Ok(guard)
    }

    /// The private folder: `data/`, `log` and the socket.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The server's process, if it was started and not killed through the guard.
    pub(crate) fn server(&self) -> Option<Pid> {
        self.server
    }

    /// Runs the server. The previous one must have been killed.
    pub(crate) fn start(&mut self) -> Result<Pid, Error> {
        let doing = "start the server";
        let pid = self
            .ask("start", doing)?
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| Error::Guard { doing, source: io::ErrorKind::InvalidData.into() })?;
        self.server = Some(pid);
        Ok(pid)
    }

    /// Kills the server with SIGKILL and waits until it is gone. Does nothing when none runs.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        self.ask("kill", "kill the server")?;
        self.server = None;
        Ok(())
    }

    /// Sends `signal` to the server.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = self.server.ok_or(Error::NotRunning)?;
        kill_process(pid, signal).map_err(|errno| Error::Signal(errno.into()))
    }

    /// The kernel's state letter for the server: `T` is stopped; `Z` and `None` are gone.
    pub(crate) fn server_state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.server?.as_raw_nonzero())).ok()?;
        // The name before it is in parentheses, and may contain anything.
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn ask(&mut self, command: &str, doing: &'static str) -> Result<String, Error> {
        let written = match &mut self.commands {
            Some(pipe) => pipe.write_all(format!("{command}\n").as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|source| Error::Guard { doing, source })?;
        self.answer(doing)
    }

    fn answer(&mut self, doing: &'static str) -> Result<String, Error> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) => Err(Error::Guard { doing, source: io::ErrorKind::UnexpectedEof.into() }),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(source) => Err(Error::Guard { doing, source }),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.commands = None;
        // The guard's end removes the server and the folder. Nobody could be told of a failure.
        let _ = self.child.wait();
    }
}
