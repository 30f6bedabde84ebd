//! How a worker is started: by `nohup`, and before Redis is up.

use std::process::Stdio;

use rustix::process::{Pid, Signal};
use tenure_testing::{Data, eventually};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::world::{PATIENCE, SCRIPT, SHORT, Worker, World, signal};

/// The signals that a process ignores, as a mask.
fn ignored(pid: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

const KEPT: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::QUIT];

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let mask = KEPT.iter().fold(0, |mask, signal| mask | 1 << (signal.as_raw() - 1));
    let world = World::new().await;
    let command = world.command("w");
    let command = command.as_std();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP INT QUIT; exec \"$0\" \"$@\""]).arg(command.get_program());
    shell.args(command.get_args()).args(SCRIPT).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let worker = Worker { guard: shell.spawn().unwrap() };
    world.up("w").await;
    let script = "grep SigIgn /proc/self/status > $FOLDER/ignored; exec sleep 1000";
    world.node.dispatch(("acme", script)).await.unwrap();
    assert_eq!(ignored(worker.guard()) & mask, mask, "the guard ignores them");
    for number in KEPT {
        signal(worker.guard(), number);
    }
    // Its programs have the usual reactions.
    let line = world.line_in("ignored").await;
    let theirs = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(theirs & mask, 0, "{line}");
    let node = worker.node();
    world.node.dispatch(("other", "exec sleep 1000")).await.unwrap();
    assert_eq!(worker.node(), node);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_for_a_server_that_starts_later() {
    let world = World::with_ttl(SHORT).await;
    world.server.kill().unwrap();
    let mut command = world.command("w");
    command.args(["--ttl", "2s"]).args(SCRIPT).stderr(Stdio::piped());
    let mut worker = Worker { guard: command.spawn().unwrap() };
    let mut lines = BufReader::new(worker.guard.stderr.take().unwrap()).lines();
    let told = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("it waits");
            if line.contains("cannot be reached yet") {
                return line;
            }
        }
    };
    let line = tokio::time::timeout(PATIENCE, told).await.expect("it says that it waits");
    assert!(line.contains("pool=\"feeds\"") && line.contains("error="), "{line}");
    world.server.restart(Data::Keep).unwrap();
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let known = || async { world.node.workers().iter().any(|it| it.node == "w") };
    eventually(PATIENCE, "it joins", known).await;
}
