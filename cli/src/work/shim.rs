//! The shim: it puts its limits on itself, ties its life to its keeper, and becomes the program of a job.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, nice, set_parent_process_death_signal, setrlimit,
};
use rustix::stdio::{dup2_stdin, stdin};

use super::launch::{Confines, Order, resource};

/// The exit status of a shim that could not become its program. Nobody but its keeper sees it.
const NOT_RUN: u8 = 127;
/// How many seconds of processor time a program has for its end after SIGXCPU. Then the kernel kills it.
pub(super) const LAST_SECONDS: u64 = 2;
/// When memory is short, the kernel ends jobs before their node.
const OOM_SCORE: &[u8] = b"500";

/// Becomes the program. Returns only if it cannot. Its standard input is a socket for the reason.
pub(super) fn run(mut args: impl Iterator<Item = OsString>) -> u8 {
    let Ok(report) = fcntl_dupfd_cloexec(stdin(), 3) else { return NOT_RUN };
    let order = args.next().and_then(|order| serde_json::from_str(order.to_str()?).ok());
    let program = args.next();
    let why = match (order, program) {
        (Some(order), Some(program)) => {
            let name = program.to_string_lossy().into_owned();
            match prepare(&order) {
                Ok(()) => format!("{name}: {}", Command::new(program).args(args).exec()),
                Err(why) => why,
            }
        }
        _ => "the keeper's order cannot be read".to_owned(),
    };
    tell(report, &why);
    NOT_RUN
}

/// Says why there is no program. The keeper may have gone; then nobody has to know.
fn tell(report: OwnedFd, why: &str) {
    let _ = File::from(report).write_all(why.as_bytes());
}

fn prepare(order: &Order) -> Result<(), String> {
    // Before the check: a keeper that ends after it takes this process with it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    if getppid().map(Pid::as_raw_pid) != Some(order.keeper) {
        return Err("its keeper has ended".to_owned());
    }
    let input = File::open(&order.input).map_err(|error| format!("standard input: {error}"))?;
    dup2_stdin(&input).map_err(|error| format!("standard input: {error}"))?;
    fcntl_setfd(stdin(), FdFlags::empty()).map_err(|error| format!("standard input: {error}"))?;
    confine(&order.confines)
}

fn confine(confines: &Confines) -> Result<(), String> {
    let Confines { cgroup, limits, nofile, nice: by, .. } = confines;
    if let Some(cgroup) = cgroup {
        let joined = fs::write(cgroup.join("cgroup.procs"), "0");
        joined.map_err(|error| format!("its cgroup {} cannot be entered: {error}", cgroup.display()))?;
    }
    // It fails only where /proc is read-only, and then the node is not better off than its jobs.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    if let Some(soft) = nofile {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(*soft), maximum });
    }
    for (name, value) in limits {
        let limit = match name.as_str() {
            "cpu" => of_time(*value, getrlimit(Resource::Cpu).maximum),
            _ => Rlimit { current: Some(*value), maximum: Some(*value) },
        };
        let set = resource(name)
            .ok_or(io::ErrorKind::InvalidInput.into())
            .and_then(|resource| setrlimit(resource, limit).map_err(io::Error::from));
        set.map_err(|error| format!("the limit {name}={value} cannot be set: {error}"))?;
    }
    if *by != 0 {
        nice(*by).map_err(|error| format!("its niceness cannot be set: {error}"))?;
    }
    Ok(())
}

/// The limit of processor time below the hard one that the node has. At the greater of the two the kernel kills without a
/// word, so the soft one stays a second below it.
fn of_time(wanted: u64, hard: Option<u64>) -> Rlimit {
    let most = hard.map_or(u64::MAX, |hard| hard.saturating_sub(1).max(1));
    let maximum = wanted.saturating_add(LAST_SECONDS).min(hard.unwrap_or(u64::MAX));
    Rlimit { current: Some(wanted.min(most)), maximum: Some(maximum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_time_stays_below_the_hard_one() {
        for (hard, current, maximum) in [
            (None, 10, 12),
            (Some(60), 10, 12),
            (Some(12), 10, 12),
            (Some(11), 10, 11),
            (Some(10), 9, 10),
            (Some(3), 2, 3),
            (Some(1), 1, 1),
        ] {
            let Rlimit { current: soft, maximum: most } = of_time(10, hard);
            assert_eq!((soft, most), (Some(current), Some(maximum)), "{hard:?}");
        }
    }
}
