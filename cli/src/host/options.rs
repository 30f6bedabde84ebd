//! The options of `tenure host`.

#![allow(clippy::doc_markdown, reason = "these texts are the help")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::args::time;
use crate::work::options::{Confining, Logging, Membership};

/// Run a program that hosts thousands of keys: one process per worker, in any language
///
/// The program is a host: it speaks the host protocol on a Unix socket. The SDKs for Python, TypeScript and Go do that for
/// you, and docs/host-protocol.md is for all other languages. `--check` says whether a host keeps to the protocol.
///
/// With `--attach` no program is started. Hosts that somebody else runs, as in another container, connect to a socket.
#[derive(Args, Clone, Debug)]
pub(crate) struct Host {
    /// The program and its arguments. There is no shell
    #[arg(last = true, required_unless_present = "attach", value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
    /// Play the scenarios of the protocol against the program, and say which it passes. No pool and no Redis are
    /// needed. The program has to do as docs/host-protocol.md asks. Add `--logs prefix` to see what it prints
    #[arg(long, help_heading = "Check")]
    pub(super) check: bool,
    /// Play only the scenarios with this in their names
    #[arg(long, value_name = "TEXT", requires = "check", help_heading = "Check")]
    pub(super) only: Option<String>,
    #[command(flatten)]
    pub(super) attach: Attaching,
    #[command(flatten)]
    pub(super) place: Membership,
    #[command(flatten)]
    pub(super) time: Timing,
    #[command(flatten)]
    pub(super) confine: Confining,
    #[command(flatten)]
    pub(super) log: Logging,
    /// Leave this variable of the node's environment to the hosts. REDIS_URL and TENURE_* are taken away else
    #[arg(long, value_name = "NAME", help_heading = "The node")]
    pub(super) pass_env: Vec<String>,
}

/// How hosts connect that somebody else runs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Attach")]
pub(super) struct Attaching {
    /// Start no program. Make this socket, and let each host that connects to it take a worker that has none. A host that
    /// vanishes is taken to run its jobs until the lease that it was told is over: nothing here can kill it
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["command", "check", "pass_env", "limit", "nice", "cgroup", "logs", "log_max"]
    )]
    pub(super) attach: Option<PathBuf>,
    /// The permissions of the socket, in octal. All who may write to it can host the keys. With 660 the group may, too
    #[arg(long, value_name = "MODE", value_parser = mode, default_value = "600", requires = "attach")]
    pub(super) socket_mode: u32,
}

fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("permissions are an octal number of at most 777, such as 660".to_owned()),
    }
}

/// How long things may take.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Times")]
pub(super) struct Timing {
    /// How long a new host may take to say hello
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub(super) hello_timeout: Duration,
    /// How long a host may leave a ping unanswered. Then it hangs, and is killed and made anew, or parted from
    /// if it has attached
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub(super) host_deadline: Duration,
    /// How long a job may take to start
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub(super) start_timeout: Duration,
    /// How long a job may take to stop. Then its host hands all others on, and is killed and made anew, or
    /// parted from if it has attached
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub(super) grace: Duration,
    /// How long the jobs of a host that is to end may take to move away
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    pub(super) handoff: Duration,
}
