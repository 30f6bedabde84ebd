//! A node is ready when each of its workers has a host, so that a rollout stops at a program that does not work.

use std::process::Stdio;
use std::time::Duration;

use tenure_pool::{JobSpec, RestartPolicy};
use tenure_testing::eventually;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::world::{Host, PATIENCE, World, raw};

const SERVES: [&str; 4] = ["--log-level", "info", "--listen", "127.0.0.1:0"];

/// Starts a node that serves, and returns its address, too.
async fn serving(mut command: Command) -> (Host, String) {
    let mut host = Host { guard: command.stderr(Stdio::piped()).spawn().unwrap() };
    let mut lines = BufReader::new(host.guard.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next_line().await.unwrap().expect("it says where it serves");
        if let Some((_, address)) = line.split_once("address=") {
            break address.trim().to_owned();
        }
    };
    // It must be able to go on logging.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (host, address)
}

/// The status and the body of an answer.
async fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Waits until the node says this of its readiness, with this status.
async fn readiness(address: &str, status: u16, says: &str) {
    let said = || async {
        let answer = get(address, "/readyz").await;
        if answer.0 == status && answer.1.contains(says) { Ok(()) } else { Err(format!("{answer:?}")) }
    };
    eventually(PATIENCE, says, said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_ready_when_each_worker_has_a_peer() {
    let world = World::new().await;
    let mut command = world.command("a", 2, &SERVES);
    command.arg("--attach").arg(world.socket());
    let (node, address) = serving(command).await;
    readiness(&address, 503, "0 of 2 workers have a host").await;
    assert_eq!(get(&address, "/livez").await.0, 200);
    let _first = world.peer("TENURE_SOCKET", &raw("good"));
    readiness(&address, 503, "1 of 2 workers have a host").await;
    let _second = world.peer("TENURE_SOCKET", &raw("good"));
    readiness(&address, 200, "\"reasons\":[]").await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_program_does_not_work_is_not_ready() {
    let world = World::new().await;
    let mut command = world.command("a", 1, &SERVES);
    command.args(["--logs", "null", "--"]).args(raw("exits"));
    let (node, address) = serving(command).await;
    world.line("hosts", "exits").await;
    readiness(&address, 503, "0 of 1 workers have a host").await;
    assert_eq!(get(&address, "/livez").await.0, 200);
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_programs_work_is_ready() {
    let world = World::new().await;
    let mut command = world.command("a", 2, &SERVES);
    command.args(["--logs", "null", "--"]).args(raw("good"));
    let (node, address) = serving(command).await;
    readiness(&address, 200, "\"reasons\":[]").await;
    node.leave().await;
}

/// Waits until the metrics have this line.
async fn counts(address: &str, line: &str) {
    let said = || async {
        let (_, metrics) = get(address, "/metrics").await;
        let name = line.split('{').next().unwrap_or_default();
        let lines: Vec<_> = metrics.lines().filter(|it| it.starts_with(name)).collect();
        if lines.contains(&line) { Ok(()) } else { Err(lines.join("; ")) }
    };
    eventually(PATIENCE, line, said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_go_are_counted_by_their_reason() {
    let world = World::new().await;
    let mut command =
        world.command("a", 1, &[&SERVES[..], &["--logs", "null", "--host-deadline", "2s"]].concat());
    command.arg("--").args(raw("good"));
    let (node, address) = serving(command).await;
    counts(&address, r#"tenure_host_up{pool="feeds",node="a",worker="0"} 1"#).await;
    let ways = [
        ("dies", "exited"),
        ("is killed", "signal"),
        ("garbage", "breach"),
        ("hangs", "silent"),
        ("bye", "bye"),
    ];
    for (how, word) in ways {
        world
            .node
            .dispatch(JobSpec::new(word, "").restart(RestartPolicy::Always))
            .deadline(PATIENCE)
            .await
            .unwrap();
        world.node.notify(word, how.to_owned()).await.unwrap();
        counts(&address, &format!(r#"tenure_host_restarts_total{{pool="feeds",node="a",why="{word}"}} 1"#))
            .await;
        // It is given again, and does nothing then.
        let taken = || async { world.node.inspect().notifications(word).await.unwrap().is_empty() };
        eventually(PATIENCE, "it is taken", taken).await;
        std::fs::remove_file(world.folder.path().join("misbehaves")).unwrap();
    }
    counts(&address, r#"tenure_host_up{pool="feeds",node="a",worker="0"} 1"#).await;
    counts(&address, r#"tenure_host_silence_seconds{pool="feeds",node="a",worker="0"} 0"#).await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_full_when_its_host_is() {
    // Figures of the pool come with renewals.
    let world = World::with_ttl(Duration::from_secs(10)).await;
    let mut command = world.command("a", 1, &[&SERVES[..], &["--logs", "null"]].concat());
    command.env("MAX_JOBS", "1").arg("--").args(raw("good"));
    let (node, address) = serving(command).await;
    world.up("a", 1).await;
    world.node.dispatch(("first", "")).deadline(PATIENCE).await.unwrap();
    world.node.submit(("second", "")).deadline(PATIENCE).await.unwrap();
    counts(&address, r#"tenure_pool_full_workers{pool="feeds",node="a"} 1"#).await;
    counts(&address, r#"tenure_pool_queued_jobs{pool="feeds",node="a"} 1"#).await;
    assert!(
        world.node.inspect().job("second").await.unwrap().is_some_and(|job| job.attempts == 0),
        "it has never begun"
    );
    node.leave().await;
}
