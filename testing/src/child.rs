//! A test that runs itself once more, in a process that may be killed.

use std::env;
use std::io;
use std::process::{Child, Command, Stdio};

/// A process that does not outlive its test.
#[derive(Debug)]
pub struct ChildProcess(pub Child);

impl ChildProcess {
    /// Runs the test of this name, of the same binary, with a variable that tells it that it is the child.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn of_test(name: &str, variable: (&str, &str), stdout: Stdio) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["--exact", name, "--nocapture"]).env(variable.0, variable.1);
        command.stdout(stdout).spawn().map(Self)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
