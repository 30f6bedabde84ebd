//! Jobs, listed and read.

use serde_json::json;
use tenure_pool::JobSpec;

use crate::world::{World, printed, status};

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_by_key_for_people() {
    let world = World::running(1, &["zenith", "acme", "hooli"]).await;
    let table = printed(&world.run(&["ls"]).await.success());
    let rows: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["KEY", "STATE", "WORKER", "NODE", "TOKEN", "ATT", "SINCE", "WHY"]);
    let worker = world.node.inspect().workers().await.unwrap()[0].id.to_string();
    for (row, key) in rows[1..].iter().zip(["acme", "hooli", "zenith"]) {
        assert_eq!(
            (row[0], row[1], row[2], row[3], row[5], row[7]),
            (key, "running", &*worker, "n1", "1", "-")
        );
    }
    let place = |name: &str, line: &str| line.find(name);
    let mut lines = table.lines();
    let state = lines.next().and_then(|heads| place("STATE", heads));
    assert!(lines.all(|line| place("running", line) == state), "{table}");
    let wide = printed(&world.run(&["ls", "-o", "wide", "--limit", "1"]).await.success());
    assert!(wide.starts_with("KEY   STATE  "), "{wide}");
    assert!(wide.lines().count() == 2 && wide.contains("CREATED"), "{wide}");
    assert_eq!(printed(&world.run(&["ls", "-o", "name"]).await), "acme\nhooli\nzenith\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_for_programs_have_versions_and_rfc_3339() {
    let world = World::with_workers(1).await;
    world.node.dispatch(JobSpec::new("acme", "x").id("mine")).await.unwrap();
    world.node.dispatch((&b"\xff\n"[..], "x")).await.unwrap();
    let list = world.json(&["ls"]).await;
    assert_eq!((&list["v"], &list["kind"]), (&json!(1), &json!("jobs")));
    let [acme, odd] = &list["items"].as_array().unwrap()[..] else { panic!("{list}") };
    let worker = world.node.inspect().workers().await.unwrap()[0].id.0;
    assert_eq!(
        (&acme["key"], &acme["key64"], &acme["state"]),
        (&json!("acme"), &json!(null), &json!("running"))
    );
    assert_eq!(
        (&acme["worker"], &acme["node"], &acme["id"]),
        (&json!(worker), &json!("n1"), &json!("n1.!mine"))
    );
    assert_eq!((&odd["key"], &odd["key64"]), (&json!(null), &json!("/wo=")));
    let since = acme["since"].as_str().unwrap();
    assert!(since.len() == 24 && since.ends_with('Z') && since.as_bytes()[19] == b'.', "{since}");
    let lines = printed(&world.run(&["ls", "-o", "jsonl", "--sort", "none"]).await.success());
    for line in lines.lines() {
        assert_eq!(serde_json::from_str::<serde_json::Value>(line).unwrap()["v"], json!(1));
    }
    let csv = printed(&world.run(&["ls", "-o", "csv", "--match", "ac*"]).await.success());
    assert!(
        csv.starts_with(
            "key,key64,state,worker,node,token,attempts,since,error,paused_by,pause_reason,paused_until,next_try,id,"
        ),
        "{csv}"
    );
    assert!(csv.lines().count() == 2 && csv.contains("\nacme,,running,"), "{csv}");
    assert_eq!(world.json(&["ls", "--match", "none*"]).await, json!({"v": 1, "kind": "jobs", "items": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_leaves_what_it_names() {
    let world = World::running(1, &["acme"]).await;
    world.node.dispatch(("zenith", "x")).await.unwrap();
    let other = world.another("n2").await;
    // A worker of n2 takes no job of a cordoned node.
    other.operate().cordon("n1").await.unwrap();
    let worker = crate::world::add_worker(&other).await;
    other.dispatch(("hooli", "x")).await.unwrap();
    other.operate().hold(true).await.unwrap();
    other.submit(("late", "x")).await.unwrap();
    let names = async |args: &[&str]| {
        let args: Vec<_> = ["ls", "-o", "name"].iter().chain(args).copied().collect();
        printed(&world.run(&args).await.success())
    };
    assert_eq!(names(&["--state", "Q,parked"]).await, "late\n");
    assert_eq!(names(&["--worker", &worker.id.to_string()]).await, "hooli\n");
    assert_eq!(names(&["--node", "n1"]).await, "acme\nzenith\n");
    assert_eq!(names(&["--node", "n1", "--match", "{z,a}*", "--limit", "1"]).await, "acme\n");
    assert_eq!(names(&["--older", "1h"]).await, "");
    assert_eq!(names(&["--failing"]).await, "");
    assert_eq!(names(&["--plan", "tenants"]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_job_is_read_with_its_payload() {
    let world = World::with_workers(1).await;
    world.node.dispatch(("acme", r#"{"plan":"gold"}"#)).await.unwrap();
    let text = printed(&world.run(&["get", "acme", "--payload"]).await.success());
    assert!(text.starts_with("key         acme\nstate       running\n"), "{text}");
    assert!(text.ends_with("payload     {\"plan\":\"gold\"}\n"), "{text}");
    let job = world.json(&["get", "acme", "--payload"]).await;
    assert_eq!((&job["v"], &job["key"]), (&json!(1), &json!("acme")));
    assert_eq!(job["payload"], json!({"json": {"plan": "gold"}}));
    assert!(world.json(&["get", "acme"]).await.get("payload").is_none());
    assert_eq!(status(&world.run(&["get", "zenith"]).await), Some(3));
}
