//! The tools that a count depends on, besides the code.

use std::fmt;
use std::process::Command;
use std::str::FromStr;

/// The tools that made a program and counted its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MadeWith {
    /// Counts from different kinds of processor cannot be compared.
    pub(crate) processor: String,
    pub(crate) rustc: String,
    pub(crate) libc: String,
    pub(crate) valgrind: String,
}

impl MadeWith {
    /// The tools of this machine.
    pub(crate) fn here() -> Result<Self, String> {
        Ok(Self {
            processor: std::env::consts::ARCH.to_owned(),
            rustc: first_line("rustc", "--version")?,
            libc: first_line("getconf", "GNU_LIBC_VERSION").unwrap_or_else(|_| "unknown libc".to_owned()),
            valgrind: first_line("valgrind", "--version")?,
        })
    }
}

fn first_line(program: &str, argument: &str) -> Result<String, String> {
    let output =
        Command::new(program).arg(argument).output().map_err(|error| format!("{program}: {error}"))?;
    let line = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().trim().to_owned();
    if line.is_empty() { Err(format!("{program} {argument} says nothing")) } else { Ok(line) }
}

impl fmt::Display for MadeWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, rustc, libc, valgrind } = self;
        write!(f, "{rustc}; {libc}; {valgrind}; {processor}")
    }
}

impl FromStr for MadeWith {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split("; ").map(str::to_owned);
        let mut next = || parts.next().ok_or_else(|| format!("{text:?} does not say what it was made with"));
        let (rustc, libc, valgrind, processor) = (next()?, next()?, next()?, next()?);
        Ok(Self { processor, rustc, libc, valgrind })
    }
}
