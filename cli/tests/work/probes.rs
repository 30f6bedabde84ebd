//! A worker answers probes over HTTP.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use tenure_testing::{RedisServer, eventually};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::world::{PATIENCE, SCRIPT, Worker, World};

/// A worker of this command that serves, and its address.
async fn serving(mut command: Command) -> (Worker, String) {
    command.args(["--log-level", "info", "--listen", "127.0.0.1:0"]).args(SCRIPT);
    served(command).await
}

/// As [`serving`], with all of its arguments.
async fn served(mut command: Command) -> (Worker, String) {
    command.stderr(Stdio::piped());
    let mut worker = Worker { guard: command.spawn().unwrap() };
    let mut lines = BufReader::new(worker.guard.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next_line().await.unwrap().expect("it says where it serves");
        if let Some((_, address)) = line.split_once("address=") {
            break address.trim().to_owned();
        }
    };
    // It must be able to go on logging.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (worker, address)
}

/// The head and the body of an answer.
async fn answer(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The status and the body of an answer.
async fn get(address: &str, request: &str) -> (u16, String) {
    let (head, body) = answer(address, &format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
}

/// Waits until the node is ready: the pool knows a worker before the node has heard so.
async fn ready(address: &str) {
    let ready = || async {
        let answer = get(address, "GET /readyz").await;
        if answer.0 == 200 { Ok(()) } else { Err(answer.1) }
    };
    eventually(PATIENCE, "it is ready", ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_tells_its_health_and_its_metrics() {
    let world = World::new().await;
    let (worker, address) = serving(world.command("w")).await;
    world.up("w").await;
    ready(&address).await;
    let (status, health) = get(&address, "GET /livez").await;
    let health: serde_json::Value = serde_json::from_str(&health).unwrap();
    assert_eq!((status, &health["reasons"]), (200, &serde_json::json!([])));

    world.node.dispatch(("acme", "exec sleep 1000")).await.unwrap();
    let line = "tenure_pool_starts_total{pool=\"feeds\",node=\"w\"} 1\n";
    let told = async || get(&address, "GET /metrics").await.1.contains(line);
    eventually(PATIENCE, "the start is counted", told).await;
    let (_, metrics) = get(&address, "GET /metrics").await;
    assert!(metrics.contains("tenure_pool_store_call_seconds_bucket{"), "{metrics}");

    assert_eq!(get(&address, "GET /else").await.0, 404);
    assert_eq!(get(&address, "POST /livez").await.0, 405);
    // Each answer ends its connection, and says so.
    for request in ["GET /livez HTTP/1.1\r\n", "POST /livez HTTP/1.1\r\ncontent-length: 20\r\n"] {
        let (head, _) = answer(&address, &format!("{request}host: x\r\n\r\n")).await;
        assert!(head.contains("connection: close"), "{request}: {head}");
    }
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_say_nothing_leave_room_for_a_probe() {
    let world = World::new().await;
    let (worker, address) = serving(world.command("w")).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    // All of them are shown out in time.
    assert_eq!(get(&address, "GET /livez").await.0, 200);
    drop(silent);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_is_told_before_a_join() {
    let world = World::new().await;
    world.server.kill().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = world.command("w").args(["--listen", &address]).args(SCRIPT).output().await.unwrap();
    // Supervisors start it again: the address may be free by then.
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(&format!("nobody can be served at {address}")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_has_not_joined_is_alive_and_not_ready() {
    let world = World::new().await;
    // A pool opens after a worker TTL on a server that does not know it.
    let empty = RedisServer::start().unwrap();
    let mut command = world.command("w");
    command.env("REDIS_URL", empty.url()).args(["--ttl", "600s"]);
    let (_worker, address) = serving(command).await;
    let (status, why) = get(&address, "GET /readyz").await;
    assert_eq!((status, why.contains("has not joined")), (503, true), "{why}");
    assert_eq!(get(&address, "GET /livez").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_can_run_no_job_is_refused_at_its_start() {
    let world = World::new().await;
    let said = async |mut command: Command, status| {
        let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it is refused").unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{told}");
        told
    };
    let script = world.file("script");
    std::fs::write(&script, "#!/bin/sh\r\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (program, why) in [("/none/program", "No such file"), (script.to_str().unwrap(), "carriage return")] {
        let mut command = world.command("w");
        command.args(["--", program]);
        let told = said(command, 78).await;
        assert!(told.contains("the program cannot be started") && told.contains(why), "{told}");
    }
    let long = world.file(&"x".repeat(100));
    std::fs::create_dir(&long).unwrap();
    let mut command = world.command("w");
    command.args(SCRIPT).env("TMPDIR", &long);
    let told = said(command, 2).await;
    assert!(told.contains("paths of sockets") && told.contains("TMPDIR"), "{told}");
}

/// The reason stands in all that an operator, and a caller who waits, can look at.
async fn refused_with_a_reason(world: &World) {
    let late =
        world.node.dispatch(("late", "")).deadline(std::time::Duration::from_secs(4)).await.unwrap_err();
    assert!(
        late.to_string().contains("the last worker refused it") && late.to_string().contains("No such file"),
        "{late}"
    );
    for (args, words) in [
        (&["explain", "acme"][..], ["refused it", "No such file", "to do: mend the cause"]),
        (&["ls", "--refused"], ["acme", "refused: ", "No such file"]),
        (&["doctor", "--only", "pool"], ["pool.refused", "were refused by a worker", "No such file"]),
    ] {
        let says = async || {
            let done = world.tenure().args(args).args(["--pool", "feeds"]).output().await.unwrap();
            let told = String::from_utf8_lossy(&done.stdout).into_owned();
            if words.iter().all(|word| told.contains(word)) { Ok(()) } else { Err(told) }
        };
        eventually(PATIENCE, args[0], says).await;
    }
    // It has not failed: what an operator does to failing jobs leaves it alone.
    for args in [&["ls", "--failing"][..], &["stop", "--failing", "--yes"]] {
        let done = world.tenure().args(args).args(["--pool", "feeds", "-o", "name"]).output().await.unwrap();
        assert_eq!((done.status.code(), &*String::from_utf8_lossy(&done.stdout)), (Some(0), ""), "{args:?}");
    }
    assert!(world.node.inspect().job("acme").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_ready_while_it_can_start_no_program() {
    let world = World::new().await;
    let program = world.file("program");
    let there = || std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    there();
    let mut command = world.command("w");
    command.args(["--log-level", "info", "--listen", "127.0.0.1:0", "--payload", "none", "--"]);
    command.arg(&program).arg("1000");
    let (worker, address) = served(command).await;
    world.up("w").await;
    ready(&address).await;
    std::fs::remove_file(&program).unwrap();
    world.node.submit(("acme", "")).await.unwrap();
    let lacks = || async { Some(get(&address, "GET /readyz").await).filter(|(status, _)| *status == 503) };
    let (_, why) = eventually(PATIENCE, "it is not ready", lacks).await;
    assert!(
        why.contains("the last program could not be started here") && why.contains("No such file"),
        "{why}"
    );
    assert_eq!(get(&address, "GET /livez").await.0, 200);
    refused_with_a_reason(&world).await;
    there();
    ready(&address).await;
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_ready_when_the_program_of_one_key_is_missing() {
    let world = World::new().await;
    std::os::unix::fs::symlink("/bin/sleep", world.file("there")).unwrap();
    let mut command = world.command("w");
    command.args(["--log-level", "info", "--listen", "127.0.0.1:0", "--payload", "none", "--"]);
    command.arg(world.file("{key}")).arg("1000");
    let (worker, address) = served(command).await;
    world.up("w").await;
    ready(&address).await;
    world.node.submit(("missing", "")).await.unwrap();
    let refused = async || {
        let args = ["ls", "--refused", "--pool", "feeds"];
        let done = world.tenure().args(args).output().await.unwrap();
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        if told.contains("refused: ") && told.contains("No such file") { Ok(()) } else { Err(told) }
    };
    eventually(PATIENCE, "the job is refused", refused).await;
    // No program was started before, so nothing else can have made the node ready again.
    let (status, why) = get(&address, "GET /readyz").await;
    assert_eq!(status, 200, "{why}");
    world.node.dispatch(("there", "")).await.unwrap();
    worker.leave().await;
}
