//! The events of a pool, and the history of a key.

use serde_json::json;
use tenure_pool::{JobSpec, RestartPolicy};
use tenure_testing::eventually;

use crate::world::{PATIENCE, World, printed, said, status};

#[tokio::test(flavor = "multi_thread")]
async fn events_are_listed_and_filtered() {
    let world = World::running(1, &["acme"]).await;
    world.node.operate().park("acme", "bad feed").await.unwrap();
    world.node.operate().cordon("n7").await.unwrap();
    let asked = async || {
        let list = world.json(&["events", "--kind", "asked"]).await;
        (list["items"].as_array().unwrap().len() == 2).then_some(list)
    };
    let list = eventually(PATIENCE, "what was asked for", asked).await;
    assert_eq!((&list["v"], &list["kind"]), (&json!(1), &json!("events")));
    let [park, cordon] = &list["items"].as_array().unwrap()[..] else { panic!("{list}") };
    assert_eq!(
        (&park["kind"], &park["key"], &park["text"], &park["node"]),
        (&json!("asked"), &json!("acme"), &json!("park: bad feed"), &json!("n1"))
    );
    assert_eq!((&cordon["key"], &cordon["count"]), (&json!(null), &json!(0)));
    let at = park["at"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
    let done = world.run(&["events", "--key", "acme"]).await.success();
    assert!(said(&done).starts_with("noted since 20"), "{}", said(&done));
    let table = printed(&done);
    assert!(
        table.lines().next().is_some_and(|heads| heads
            .split_whitespace()
            .eq(["AGO", "KIND", "KEY", "WORKER", "WHY", "NOTED", "BY"])),
        "{table}"
    );
    assert!(table.contains("acme") && table.contains("park: bad feed") && !table.contains("n7"), "{table}");
    let none = world.json(&["events", "--since", "1h", "--node", "n9"]).await;
    assert_eq!(none["items"], json!([]));
    let csv = printed(&world.run(&["events", "--kind", "asked", "-o", "csv"]).await.success());
    assert!(csv.starts_with("at,kind,key,key64,more_keys,count,shard,worker,why,text,node\n"), "{csv}");
    assert_eq!(status(&world.run(&["events", "--kind", "rubbish"]).await), Some(2));
    assert_eq!(status(&world.run(&["events", "-f", "-o", "json"]).await), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_key_ends_with_where_it_is() {
    let world = World::with_workers(1).await;
    world.node.dispatch(JobSpec::new("acme", "x").restart(RestartPolicy::OnFailure)).await.unwrap();
    world.node.operate().park("acme", "bad feed").await.unwrap();
    let noted = async || {
        let history = world.json(&["history", "acme"]).await;
        let texts: Vec<_> = history["events"].as_array().unwrap().iter().map(|e| e["text"].clone()).collect();
        texts.contains(&json!("park: bad feed")).then_some(history)
    };
    let history = eventually(PATIENCE, "what was asked for", noted).await;
    assert_eq!((&history["key"], &history["explain"]["state"]), (&json!("acme"), &json!("parked")));
    assert_eq!(history["explain"]["why"], json!("parked"));
    assert_eq!(
        history["explain"]["former_worker"],
        json!(world.node.inspect().workers().await.unwrap()[0].id.0)
    );
    let text = printed(&world.run(&["history", "acme"]).await.success());
    assert!(text.contains("park: bad feed") && text.contains("here because an operator parked it"), "{text}");
    assert_eq!(status(&world.run(&["history", "nobody"]).await), Some(3));
    let job = world.json(&["get", "acme"]).await;
    assert_eq!(job["why"], json!("parked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_follows_sees_events_as_they_come() {
    use std::io::{BufRead, BufReader};
    let world = World::with_workers(1).await;
    let mut follower = std::process::Command::new(snapbox::cmd::cargo_bin!("tenure"))
        .args(["events", "-f", "-o", "jsonl", "--kind", "asked"])
        .env("REDIS_URL", world.server.url())
        .env("TENURE_POOL", "feeds")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(follower.stdout.take().unwrap());
    world.node.operate().cordon("first").await.unwrap();
    let lines =
        tokio::task::spawn_blocking(move || out.lines().take(2).map(Result::unwrap).collect::<Vec<_>>());
    world.node.operate().cordon("second").await.unwrap();
    let lines = tokio::time::timeout(PATIENCE, lines).await.unwrap().unwrap();
    follower.kill().unwrap();
    follower.wait().unwrap();
    let texts: Vec<_> = lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].clone())
        .collect();
    assert_eq!(texts, [json!("cordon of first"), json!("cordon of second")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_asked_to_end_notes_that_it_left() {
    let world = World::new().await;
    let mut command = tokio::process::Command::new(snapbox::cmd::cargo_bin!("tenure"));
    command.args([
        "work",
        "--pool",
        "feeds",
        "--name",
        "leaver",
        "--log-level",
        "warn",
        "--",
        "sleep",
        "1000",
    ]);
    command.env("REDIS_URL", world.server.url());
    for name in ["TENURE_POOL", "TENURE_CONTEXT", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "POD_NAME"] {
        command.env_remove(name);
    }
    let output = std::process::Stdio::piped();
    let mut worker =
        command.stdin(std::process::Stdio::null()).stdout(output).kill_on_drop(true).spawn().unwrap();
    let up = async || {
        world
            .node
            .inspect()
            .workers()
            .await
            .unwrap()
            .iter()
            .any(|it| it.node == "leaver" && it.slot.is_some())
    };
    eventually(PATIENCE, "the worker to be up", up).await;
    let pid = rustix::process::Pid::from_raw(worker.id().unwrap().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = tokio::time::timeout(PATIENCE, worker.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(0));
    let list = world.json(&["events", "--kind", "left", "--node", "leaver"]).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
}
