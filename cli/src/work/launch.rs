//! The words between a node and a keeper, and between a keeper and its shim.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use rustix::process::{Resource, Signal, WaitStatus};
use serde::{Deserialize, Serialize};

/// The hidden commands of the process that keeps a job, and of the one that becomes its program.
pub(crate) const KEEPER: &str = "__keeper";
pub(crate) const SHIM: &str = "__shim";
/// The program that this process runs, even after its file was replaced.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

/// All that a keeper has to know. The bytes for the program's standard input follow it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The keeper's name in listings of processes.
    pub(crate) name: String,
    /// The book of leases, and the job's line in it.
    pub(crate) book: PathBuf,
    pub(crate) line: usize,
    /// The number of bytes of its input.
    pub(crate) input: usize,
    pub(crate) confines: Confines,
}

/// The limits of a job's program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Confines {
    /// The folder of its cgroup, if it has one.
    pub(crate) cgroup: Option<PathBuf>,
    /// How many bytes of memory all processes of the job may have together, if the keeper has to see to that.
    pub(crate) memory: Option<u64>,
    pub(crate) limits: BTreeMap<String, u64>,
    /// The soft limit of open files that the node itself was started with.
    pub(crate) nofile: Option<u64>,
    pub(crate) nice: i32,
}

/// All that a shim has to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The process that must be its parent.
    pub(crate) keeper: i32,
    /// The file with its standard input.
    pub(crate) input: PathBuf,
    pub(crate) confines: Confines,
}

impl Launch {
    /// Sends it, and the input.
    ///
    /// # Errors
    /// The keeper has gone.
    pub(crate) fn send(&self, input: &[u8], mut to: impl Write) -> io::Result<()> {
        let launch = serde_json::to_vec(self)?;
        let len = u32::try_from(launch.len()).map_err(io::Error::other)?;
        to.write_all(&len.to_le_bytes())?;
        to.write_all(&launch)?;
        to.write_all(input)
    }

    /// Receives it, and the input.
    ///
    /// # Errors
    /// The node has gone.
    pub(crate) fn receive(mut from: impl Read) -> io::Result<(Self, Vec<u8>)> {
        let mut len = [0; 4];
        from.read_exact(&mut len)?;
        let mut launch = vec![0; u32::from_le_bytes(len) as usize];
        from.read_exact(&mut launch)?;
        let launch: Self = serde_json::from_slice(&launch)?;
        let mut input = vec![0; launch.input];
        from.read_exact(&mut input)?;
        Ok((launch, input))
    }
}

/// The limit of the memory that all processes of a job have together.
pub(crate) const MEMORY: &str = "memory";

/// The resource of a limit by its name, as `ulimit` and systemd call it.
pub(crate) fn resource(name: &str) -> Option<Resource> {
    Some(match name {
        "as" => Resource::As,
        "core" => Resource::Core,
        "cpu" => Resource::Cpu,
        "data" => Resource::Data,
        "fsize" => Resource::Fsize,
        "memlock" => Resource::Memlock,
        "nofile" => Resource::Nofile,
        "nproc" => Resource::Nproc,
        "stack" => Resource::Stack,
        _ => return None,
    })
}

/// A word of either side, as a line.
pub(crate) fn line(word: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(word).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A word of a node to a keeper. The end of the node is a word, too: kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    /// Send this signal to the program, or to its whole group.
    Signal { signal: i32, to_group: bool },
    /// Look at the lease anew: it may end sooner.
    Look,
    /// Kill all processes of the job.
    Kill,
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Exit(i32),
    Signal(i32),
}

impl End {
    pub(crate) fn of(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Self::Exit(status),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "killed by SIG{name}"),
                None => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

/// A word of a keeper to its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    /// The program runs, under this number, which is that of its group, too.
    Started(i32),
    /// The program could not be started, for this reason.
    NotStarted(String),
    /// The processes hold this many bytes of memory, which is beyond their limit. They are killed.
    TooMuchMemory(u64),
    /// The program has ended. Other processes of the job may still run.
    Ended(End),
    /// No process of the job is left.
    Gone,
}

/// Signals by name, without their `SIG`.
const SIGNALS: [(&str, Signal); 19] = [
    ("ABRT", Signal::ABORT),
    ("ALRM", Signal::ALARM),
    ("BUS", Signal::BUS),
    ("CONT", Signal::CONT),
    ("FPE", Signal::FPE),
    ("HUP", Signal::HUP),
    ("ILL", Signal::ILL),
    ("INT", Signal::INT),
    ("KILL", Signal::KILL),
    ("PIPE", Signal::PIPE),
    ("QUIT", Signal::QUIT),
    ("SEGV", Signal::SEGV),
    ("SYS", Signal::SYS),
    ("TERM", Signal::TERM),
    ("TRAP", Signal::TRAP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
];

fn signal_name(number: i32) -> Option<&'static str> {
    SIGNALS.iter().find(|(_, signal)| signal.as_raw() == number).map(|(name, _)| *name)
}

/// The signal of this name, with or without its `SIG`.
pub(crate) fn signal_named(name: &str) -> Option<Signal> {
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_said() {
        let words = [
            Word::Started(1),
            Word::NotStarted("no such file,\nor folder".into()),
            Word::TooMuchMemory(5 << 32),
            Word::Ended(End::Exit(78)),
            Word::Ended(End::Signal(9)),
            Word::Gone,
        ];
        for word in words {
            assert_eq!(line(&word).iter().position(|byte| *byte == b'\n'), Some(line(&word).len() - 1));
            assert_eq!(serde_json::from_slice::<Word>(&line(&word)).unwrap(), word);
        }
        let signal = |to_group| Command::Signal { signal: Signal::TERM.as_raw(), to_group };
        for command in [signal(true), signal(false), Command::Look, Command::Kill] {
            assert_eq!(serde_json::from_slice::<Command>(&line(&command)).unwrap(), command);
        }
    }

    #[test]
    fn an_end_is_told_by_its_name() {
        assert_eq!(End::Exit(3).to_string(), "exit status 3");
        assert_eq!(End::Signal(11).to_string(), "killed by SIGSEGV");
        assert_eq!(End::Signal(40).to_string(), "killed by signal 40");
        assert_eq!(signal_named("sigint"), Some(Signal::INT));
        assert_eq!(signal_named("odd"), None);
    }
}
