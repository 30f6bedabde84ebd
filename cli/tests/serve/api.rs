//! Reads through the interface.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};
use tenure_testing::eventually;

use super::world::{PATIENCE, World};

/// All keys of a search, part by part.
async fn all(world: &World, query: &str) -> (BTreeSet<String>, usize) {
    let (mut keys, mut parts, mut cursor) = (BTreeSet::new(), 0, String::new());
    loop {
        let part = world.json(&format!("/v1/jobs?limit=100&{query}{cursor}")).await;
        let items = part["items"].as_array().unwrap();
        assert!(items.len() < 1_000, "a part is bounded");
        keys.extend(items.iter().map(|job| job["key"].as_str().unwrap().to_owned()));
        parts += 1;
        let Some(next) = part["next"].as_str() else { return (keys, parts) };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_comes_in_parts_and_finds_each_job() {
    let world = World::new(2).await;
    // Enough for the server to hand them out in parts.
    let keys: Vec<_> = (0..700).map(|n| format!("k{n}")).collect();
    join_all(keys.iter().map(|key| async { world.node.dispatch((key.clone(), "x")).await.unwrap() })).await;
    let (found, parts) = all(&world, "").await;
    assert_eq!((found.len(), parts > 3), (700, true), "{parts} parts");
    let (found, _) = all(&world, "match=k*7").await;
    assert_eq!(found.len(), 70);
    // Those of one worker, read from that worker.
    let workers = world.json("/v1/workers").await;
    let mut of_workers = BTreeSet::new();
    for worker in workers["items"].as_array().unwrap() {
        let (found, parts) = all(&world, &format!("worker={}", worker["worker"])).await;
        assert_eq!((found.len() as u64, parts > 1), (worker["jobs"].as_u64().unwrap(), true));
        of_workers.extend(found);
    }
    let (of_node, _) = all(&world, "node=n1&state=running").await;
    assert_eq!((of_workers.len(), of_node.len()), (700, 700));
    assert_eq!(all(&world, "node=n2").await.0.len(), 0);

    let sample = world.json("/v1/ring/keys").await;
    let shown = sample["items"].as_array().unwrap().len();
    assert!(shown > 0 && shown <= 512 && sample["all"] == json!(700), "{shown}");
    let scale = world.json("/v1/scale?target=300").await;
    assert_eq!(
        (&scale["jobs"], &scale["workers"], &scale["desired"], &scale["jobs_per_worker"]),
        (&json!(700), &json!(2), &json!(3), &json!(350))
    );
    for query in ["cursor=rubbish", "worker=1&cursor=w0", "limit=1001", "colour=red", "match=%5B", "target=1"]
    {
        assert_eq!(world.get(&format!("/v1/jobs?{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_probes_are_those_of_the_pool() {
    let world = World::new(2).await;
    world.node.dispatch(("acme", "x")).await.unwrap();
    world.node.submit(("zenith", "x")).await.unwrap();
    world.node.operate().park("zenith", "no stock").await.unwrap();
    assert_eq!((world.get("/livez").await.status, world.get("/readyz").await.status), (200, 200));
    let told = async || {
        let text = world.get("/metrics").await.body;
        let lines = [
            "tenure_serve_up{pool=\"feeds\"} 1\n",
            "tenure_serve_open{pool=\"feeds\"} 1\n",
            "tenure_serve_jobs{pool=\"feeds\",state=\"owned\"} 1\n",
            "tenure_serve_jobs{pool=\"feeds\",state=\"parked\"} 1\n",
            "tenure_serve_workers{pool=\"feeds\",state=\"up\"} 2\n",
            "tenure_serve_lease_age_seconds{pool=\"feeds\",node=\"n1\"} ",
        ];
        lines.iter().all(|line| text.contains(line)).then_some(text)
    };
    let text = eventually(PATIENCE, "all figures", told).await;
    // Each line is a comment, or a name with labels and a number.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once("} ").unwrap_or_else(|| panic!("{line}"));
        assert!(name.starts_with("tenure_serve_") && value.parse::<f64>().is_ok(), "{line}");
    }
    world.server.kill().unwrap();
    let silent = async || (world.get("/readyz").await.status == 503).then_some(());
    eventually(PATIENCE, "the pool not to be ready", silent).await;
    assert_eq!(world.get("/livez").await.status, 200);
    let metrics = world.get("/metrics").await;
    assert!(
        metrics.status == 200 && metrics.body.contains("tenure_serve_up{pool=\"feeds\"} 0\n"),
        "{metrics:?}"
    );
    let problem = world.get("/v1/workers").await;
    assert_eq!((problem.status, &problem.json()["name"]), (503, &json!("redis")), "{problem:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_look_at_the_server_is_enough_for_a_picture() {
    let world = World::new(1).await;
    // The node's own looks end with it.
    world.node.abandon();
    world.node.closed().await;
    let before = world.calls("info");
    for path in ["/v1/pool", "/metrics"] {
        world.get(path).await;
    }
    // One to follow the server, one of the pool's state, and that of the count before. The second path may take two more.
    let after = world.calls("info");
    assert!(after <= before + 5, "{before} to {after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_said_within_seconds() {
    let world = World::new(1).await;
    world.json("/v1/pool").await;
    world.server.pause().unwrap();
    let asked = ["/v1/pool", "/v1/workers", "/v1/nodes", "/v1/ring", "/v1/drains", "/v1/scale"];
    let asked = asked.iter().cycle().take(30);
    let answers = tokio::time::timeout(PATIENCE / 2, join_all(asked.map(|path| world.get(path)))).await;
    let answers = answers.expect("all of them are answered");
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 503)), "{answers:?}");
    assert!(answers.iter().any(|answer| answer.status == 503), "{answers:?}");
    world.server.resume().unwrap();
    let fine = async || (world.get("/v1/pool").await.status == 200).then_some(());
    eventually(PATIENCE, "the pool to be there again", fine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_shown_and_a_mistyped_set_makes_none() {
    let world = World::serving(0, &["--queues", "shop", "--queues", "typo"]).await;
    let client = tenure_jobs::Client::open(&world.server.url()).unwrap();
    let jobs =
        tenure_jobs::Jobs::builder("shop", client.clone()).queues(["mail", "bills"]).join().await.unwrap();
    jobs.add_many("mail", 0..3).await.unwrap();
    jobs.queue("bills").unwrap().pause().await.unwrap();
    let shop = world.json("/v1/queues?set=shop").await;
    let row = |name: &str| {
        let rows = shop["items"].as_array().unwrap();
        rows.iter().find(|row| row["queue"] == json!(name)).unwrap().clone()
    };
    assert_eq!((&row("mail")["ready"], &row("mail")["paused"]), (&json!(3), &json!(false)));
    assert_eq!((&row("bills")["ready"], &row("bills")["paused"]), (&json!(0), &json!(true)));
    assert_eq!(world.get("/v1/queues?set=typo").await.status, 404);
    assert_eq!(world.get("/v1/queues?set=other").await.status, 404);
    let again = tenure_jobs::Inspector::open("typo", &client).unwrap().queues().await;
    assert!(matches!(again, Err(tenure_jobs::Error::Store(tenure_jobs::StoreError::NoSet))), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_is_told_with_its_verdict() {
    let world = World::new(2).await;
    world.node.dispatch(("acme", "x")).await.unwrap();
    world.node.operate().bounce("acme").await.unwrap();
    world.node.operate().park("acme", "no stock").await.unwrap();
    let told = async || {
        let history = world.json("/v1/job/history?key=acme").await;
        let asked = |event: &Value| event["text"] == json!("park: no stock");
        let is_told = history["events"].as_array().unwrap().iter().any(asked);
        is_told.then_some(history)
    };
    let history = eventually(PATIENCE, "the park to be noted", told).await;
    assert_eq!(history["explain"]["verdict"], json!("parked"));
    let kinds: Vec<_> = history["events"].as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert!(kinds.contains(&&json!("moved")), "{kinds:?}");
    let moves = world.json("/v1/moves").await;
    assert!(
        moves["jobs"].as_u64().unwrap() >= 1 && moves["minutes"].as_array().unwrap().len() == 60,
        "{moves}"
    );
    assert!(moves["why"].as_array().unwrap().iter().any(|why| why["why"] == json!("bounced")), "{moves}");
}
