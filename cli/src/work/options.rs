//! The options of `tenure work`.

#![allow(clippy::doc_markdown, reason = "these texts are the help")]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::Signal;

use super::launch::{MEMORY, resource, signal_named};
use super::logs::Target;
use crate::args::{number, time};

/// Run a program for each key: a worker whose jobs are processes
#[derive(Args, Clone, Debug)]
pub(crate) struct Work {
    /// The program and its arguments. `{key}`, `{token}` and `{worker}` are replaced; there is no shell
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
    #[command(flatten)]
    pub(crate) place: Membership,
    #[command(flatten)]
    pub(crate) start: Starting,
    #[command(flatten)]
    pub(crate) stop: Stopping,
    #[command(flatten)]
    pub(crate) confine: Confining,
    #[command(flatten)]
    pub(crate) log: Logging,
}

/// How the node takes part in its pool.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The node")]
pub(crate) struct Membership {
    /// The node's name, unique in the pool. Else POD_NAME, else the host's name and the process's number
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// How many workers it has. More of them get a larger share of the keys
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = number(1..=u16::MAX))]
    pub(crate) workers: u16,
    /// How many jobs each worker takes. Others go to other workers
    #[arg(long, value_name = "COUNT", value_parser = number(1..=1_000_000_u32))]
    pub(crate) max_jobs: Option<u32>,
    /// How long a silent worker keeps its jobs: the pool's worker TTL. One that exists has to have the same
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) ttl: Option<Duration>,
    /// How long the jobs may take to move away when the node is told to end
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "25s")]
    pub(crate) drain: Duration,
    /// Serve /livez, /readyz and /metrics here over HTTP, such as 127.0.0.1:9464. Nowhere, if it is not given
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
}

/// When a program counts as ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ready {
    /// When it runs, and has not failed within --min-run
    Exec,
    /// When it says so: READY=1 by systemd's protocol, or `tenure ctl ready`
    Notify,
}

/// How a program gets the payload of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PayloadTo {
    /// On its standard input, which then ends
    Stdin,
    /// In a file, which TENURE_PAYLOAD_FILE names
    File,
    /// In TENURE_PAYLOAD: text of at most 64 KiB
    Env,
    /// Not at all
    None,
}

/// How jobs are started.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Start")]
pub(crate) struct Starting {
    /// When a program counts as ready. A dispatch returns at that moment
    #[arg(long, value_enum, value_name = "WHEN", default_value = "exec")]
    pub(crate) ready: Ready,
    /// A program that fails within this time has failed to start, and its dispatcher gets the error
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "200ms")]
    pub(crate) min_run: Duration,
    /// How long a program may take to be ready
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
    pub(crate) start_timeout: Duration,
    /// How many processes are started at once. Twice the processors, if it is not given
    #[arg(long, value_name = "COUNT", value_parser = number(1..=u16::MAX))]
    pub(crate) start_parallel: Option<u16>,
    /// How a program gets the payload
    #[arg(long, value_enum, value_name = "HOW", default_value = "stdin")]
    pub(crate) payload: PayloadTo,
    /// Leave this variable of the node's environment to the programs. REDIS_URL and TENURE_* are taken away else
    #[arg(long, value_name = "NAME")]
    pub(crate) pass_env: Vec<String>,
    /// Run this shell command for each notification of a key, with the notification on its standard input. It is done
    /// at exit status 0, and comes again after any other. Without this a program takes them by `tenure ctl next`
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_notify: Option<String>,
    /// Run this shell command for each ask of a key, with the question on its standard input. Its standard output is the
    /// answer, if it ends with exit status 0. With 75 the ask goes to the key's next owner. Without this nobody takes asks, and
    /// those who ask hear that
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_ask: Option<String>,
}

/// To which processes of a job its stop signal goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StopTo {
    /// To the program and those that it has started in its group
    Group,
    /// To the program alone
    Main,
}

/// How jobs are stopped.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Stop")]
pub(crate) struct Stopping {
    /// The signal that asks a program to end
    #[arg(long, value_name = "SIGNAL", value_parser = signal, default_value = "TERM")]
    pub(crate) stop_signal: Signal,
    /// To whom it goes
    #[arg(long, value_enum, value_name = "WHOM", default_value = "group")]
    pub(crate) stop_to: StopTo,
    /// How long it may take to end. Then all processes of the job are killed, and sooner if the lease ends
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub(crate) grace: Duration,
    /// Park a job whose program ends with one of these statuses
    #[arg(long, value_name = "STATUS", value_parser = number(0..=u8::MAX), value_delimiter = ',', default_value = "78")]
    pub(crate) park_exit: Vec<u8>,
    /// Kill a program that gives no sign of life for this long: WATCHDOG=1, or `tenure ctl progress`
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) watchdog: Option<Duration>,
}

/// Whether each job has a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CgroupMode {
    /// If this machine lets the node make them
    Auto,
    /// No
    Off,
    /// Yes, and the node does not run without
    Require,
}

/// The bounds of jobs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits")]
pub(crate) struct Confining {
    /// Limit a resource of each process: as, core, cpu, data, fsize, memlock, nofile, nproc or stack. `memory` limits
    /// what all processes of a job have together
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit, value_delimiter = ',')]
    pub(crate) limit: Vec<(String, u64)>,
    /// Run jobs with this niceness
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = number(0..=19_i32))]
    pub(crate) nice: i32,
    /// Keep each job in a cgroup of its own
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    pub(crate) cgroup: CgroupMode,
}

/// Where output goes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output of programs")]
pub(crate) struct Logging {
    /// Where it goes: prefix, json, dir:FOLDER, inherit or null. Prefix on a terminal, else json, if it is not given
    #[arg(long, value_name = "WHERE")]
    pub(crate) logs: Option<Target>,
    /// When a file of dir:FOLDER is full. One full file is kept for each key
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "10M")]
    pub(crate) log_max: u64,
    /// How much the node itself tells on standard error: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: tracing::Level,
}

fn signal(name: &str) -> Result<Signal, String> {
    signal_named(name).ok_or_else(|| "no such signal".to_owned())
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("a limit is NAME=VALUE")?;
    if name != MEMORY {
        resource(name).ok_or_else(|| format!("there is no limit {name:?}"))?;
    }
    Ok((name.to_owned(), size(value)?))
}

/// A number, perhaps of K, M or G.
fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let size = number.parse::<u64>().ok().and_then(|size| size.checked_mul(unit));
    size.ok_or_else(|| {
        format!("a size is a whole number from 0 to {}, such as 500, 64K, 10M or 2G", u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_limits_are_numbers_with_units() {
        assert_eq!(size("10M"), Ok(10 << 20));
        assert_eq!(size("7"), Ok(7));
        assert!(size("M").is_err() && size("99999999999G").is_err() && size("1é").is_err());
        assert_eq!(limit("nofile=2K"), Ok(("nofile".into(), 2048)));
        assert_eq!(limit("memory=1G"), Ok(("memory".into(), 1 << 30)));
        assert!(limit("rss=1").is_err() && limit("nofile").is_err());
    }
}
