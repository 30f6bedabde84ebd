//! How a worker is started: by `nohup`, and before Redis is up.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
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

/// A worker by way of a shell that does this first.
fn by_shell(first: &str, command: &std::process::Command) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{first}; exec \"$0\" \"$@\"")).arg(command.get_program());
    shell.args(command.get_args()).args(SCRIPT).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

const KEPT: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::QUIT];

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let mask = KEPT.iter().fold(0, |mask, signal| mask | 1 << (signal.as_raw() - 1));
    let world = World::new().await;
    let command = world.command("w");
    let mut shell = by_shell("trap '' HUP INT QUIT", command.as_std());
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
    let known = || async { world.node.inspect().workers().await.unwrap().iter().any(|it| it.node == "w") };
    eventually(PATIENCE, "it joins", known).await;
}

/// The folders of nodes in this one.
fn folders(world: &World) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(world.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("tenure-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_a_node_is_its_users_whatever_the_umask() {
    let world = World::new().await;
    let command = world.command("w");
    let worker = Worker { guard: by_shell("umask 000", command.as_std()).spawn().unwrap() };
    world.up("w").await;
    let [folder] = folders(&world).try_into().unwrap();
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    worker.leave().await;
    assert_eq!(folders(&world), [] as [PathBuf; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_node_removes_what_killed_ones_have_left() {
    let world = World::with_ttl(SHORT).await;
    let args = || ["--payload", "file", "--", "sleep", "1000"];
    let mut killed = world.worker("killed", args()).await;
    world.node.dispatch(("acme", "secret")).await.unwrap();
    let lives = world.worker("lives", args()).await;
    assert_eq!(folders(&world).len(), 2);
    let node = killed.node();
    signal(killed.guard(), Signal::STOP);
    signal(node, Signal::KILL);
    signal(killed.guard(), Signal::KILL);
    killed.ended().await;
    assert_eq!(folders(&world).len(), 2, "nobody could remove it");
    let next = world.worker("next", args()).await;
    assert_eq!(folders(&world).len(), 2, "that of the killed one has gone");
    next.leave().await;
    lives.leave().await;
    assert_eq!(folders(&world).len(), 0);
}
