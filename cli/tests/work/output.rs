//! The output of programs.

use std::process::Stdio;

use tenure_testing::eventually;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::world::{PATIENCE, SCRIPT, Worker, World};

/// The next line of the worker's output that has this text.
async fn line_with(lines: &mut tokio::io::Lines<impl AsyncBufReadExt + Unpin>, text: &str) -> String {
    let find = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the output goes on");
            if line.contains(text) {
                return line;
            }
        }
    };
    tokio::time::timeout(PATIENCE, find).await.expect("the line comes")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_has_its_key() {
    let world = World::new().await;
    let mut worker = world.worker("w", ["--logs", "prefix"].iter().chain(&SCRIPT)).await;
    let mut lines = BufReader::new(worker.guard.stdout.take().unwrap()).lines();
    world.node.dispatch(("acme", "echo hello; printf 'no end'; exec sleep 0.01")).await.unwrap();
    assert_eq!(line_with(&mut lines, "hello").await, "acme | hello");
    assert_eq!(line_with(&mut lines, "no end").await, "acme | no end");
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_documents_where_no_terminal_reads_them() {
    let world = World::new().await;
    let mut worker = world.worker("w", SCRIPT).await;
    let mut lines = BufReader::new(worker.guard.stdout.take().unwrap()).lines();
    world.node.dispatch(("acme", "echo 'a \"b\"' >&2; exec sleep 1000")).await.unwrap();
    let line: serde_json::Value = serde_json::from_str(&line_with(&mut lines, "b").await).unwrap();
    assert_eq!(
        (&line["key"], &line["stream"], &line["line"]),
        (&"acme".into(), &"stderr".into(), &"a \"b\"".into())
    );
    assert!(line["token"].is_u64() && line["ts"].as_str().unwrap().ends_with('Z'));
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_key_has_a_file_in_a_folder() {
    let world = World::new().await;
    let target = format!("dir:{}", world.file("logs").display());
    let worker = world.worker("w", ["--logs", &*target].iter().chain(&SCRIPT)).await;
    world.node.dispatch(("eu/acme", "echo one; echo two >&2; exec sleep 1000")).await.unwrap();
    let path = world.file("logs").join("eu%2facme.log");
    let both = || async {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.contains("one\n") && text.contains("two\n")
    };
    eventually(PATIENCE, "both lines", both).await;
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_nobody_reads_blocks_no_program() {
    let world = World::new().await;
    // Nobody reads the worker's own output.
    let worker = world.worker("w", ["--logs", "prefix"].iter().chain(&SCRIPT)).await;
    let script = "head -c 20000000 /dev/zero | tr '\\0' 'x'; yes | head -n 2000000; echo done > $FOLDER/done; exec sleep 1000";
    world.node.dispatch(("acme", script)).await.unwrap();
    world.line_in("done").await;
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gone_standard_output_costs_no_error_line() {
    let world = World::new().await;
    let mut command = world.command("w");
    command.args(["--log-level", "warn", "--logs", "prefix"]).args(SCRIPT).stderr(Stdio::piped());
    let mut worker = Worker { guard: command.spawn().unwrap() };
    drop(worker.guard.stdout.take());
    let mut lines = BufReader::new(worker.guard.stderr.take().unwrap()).lines();
    world.up("w").await;
    let script = "echo out; until [ -e $FOLDER/go ]; do sleep 0.05; done; echo err >&2; exec sleep 1000";
    world.node.dispatch(("acme", script)).await.unwrap();
    line_with(&mut lines, "Broken pipe").await;
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(line_with(&mut lines, "| err").await, "acme | err");
    worker.leave().await;
}
