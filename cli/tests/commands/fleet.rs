//! Workers, the ring, drains, settings, schedules, the doctor and the bench.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tenure_pool::{Inspector, Job, JobHandler, JobState, Start};
use tenure_testing::{Data, eventually};
use tokio::sync::Semaphore;

use crate::world::{PATIENCE, World, add_worker, assert, printed, said, status, tenure};

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_nodes_are_listed_with_their_jobs() {
    let world = World::running(1, &["acme"]).await;
    let other = world.another("n2").await;
    let second = add_worker(&other).await;
    other.operate().cordon("n2").await.unwrap();
    let workers = world.json(&["workers"]).await;
    let rows = workers["items"].as_array().unwrap();
    assert_eq!((&workers["kind"], rows.len()), (&json!("workers"), 2));
    let of = |node: &str| rows.iter().find(|row| row["node"] == json!(node)).unwrap();
    assert_eq!((&of("n1")["jobs"], &of("n1")["share_percent"]), (&json!(1), &json!(100.0)));
    assert_eq!((&of("n2")["jobs"], &of("n2")["cordoned"]), (&json!(0), &json!(true)));
    assert_eq!(of("n2")["worker"], json!(second.id.0));
    let table = printed(&world.run(&["workers", "--node", "n2"]).await.success());
    assert!(table.lines().count() == 2 && table.contains("up, cordoned"), "{table}");
    let said = async || {
        let nodes = world.json(&["nodes"]).await;
        nodes["items"].as_array().unwrap().iter().all(|node| !node["pid"].is_null()).then_some(nodes)
    };
    let nodes = eventually(PATIENCE, "both nodes to have said what they are", said).await;
    assert_eq!(nodes["items"][0]["pid"], json!(std::process::id()));
    assert_eq!(
        (&nodes["items"][0]["version"], &nodes["items"][0]["stuck"]),
        (&json!(env!("CARGO_PKG_VERSION")), &json!(0))
    );
    assert!(nodes["items"][0]["host"].as_str().is_some_and(|host| !host.is_empty()), "{nodes}");
    let table = printed(&world.run(&["nodes"]).await.success());
    assert!(table.contains("HOST") && table.contains("VERSION"), "{table}");
    assert_eq!(nodes["items"][0]["node"], json!("n1"));
    assert_eq!((&nodes["items"][0]["up"], &nodes["items"][1]["cordoned"]), (&json!(1), &json!(true)));
    let slots = world.json(&["ring"]).await;
    let places: Vec<_> = slots["items"].as_array().unwrap().iter().map(|row| &row["node"]).collect();
    assert_eq!(places, [&json!("n1"), &json!("n2")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_listed_with_its_capacity() {
    let world = World::with_workers(1).await;
    let other = world.another("n2").await;
    other.add_worker(tenure_pool::run(|_| async { Ok(()) })).capacity(10).await.unwrap();
    let table = async || {
        let table = printed(&world.run(&["workers", "--node", "n2"]).await.success());
        if table.contains("  0 of 10  ") { Ok(()) } else { Err(table) }
    };
    eventually(PATIENCE, "the worker to have said its capacity", table).await;
    for (node, capacity) in [("n1", json!(null)), ("n2", json!(10))] {
        let workers = world.json(&["workers", "--node", node]).await;
        let row = &workers["items"][0];
        assert_eq!((&workers["v"], &row["jobs"], &row["capacity"]), (&json!(1), &json!(0), &capacity));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capacity_for_two_shards_is_not_shown_as_that_of_one() {
    let world = World::shaped(|builder| builder.shards(2)).await;
    world.node.add_worker(tenure_pool::run(|_| async { Ok(()) })).capacity(10).await.unwrap();
    let said = async || world.json(&["workers"]).await["items"][1]["capacity"] == json!(10);
    eventually(PATIENCE, "the worker to have said its capacity", said).await;
    let table = printed(&world.run(&["workers"]).await.success());
    assert!(!table.contains(" of 10"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forecast_is_what_then_happens() {
    let world = World::with_workers(2).await;
    for n in 0..40 {
        world.node.dispatch((format!("k{n}"), "x")).await.unwrap();
    }
    let forecast = world.json(&["simulate", "--add", "1"]).await;
    let (moves, jobs) = (forecast["moves"].as_u64().unwrap(), forecast["jobs"].as_u64().unwrap());
    assert!(jobs == 40 && moves > 0 && moves < 40, "{forecast}");
    let done = world.run(&["simulate", "--add", "1", "--max-moves", "0.1%"]).await;
    assert_eq!(status(&done), Some(6), "more would move");
    let before = world.node.inspect().jobs().await.unwrap();
    let third = world.add_worker().await;
    eventually(PATIENCE, "the moves", async || {
        let jobs = world.node.inspect().jobs_of(&third, None, 100).await.unwrap();
        jobs.len() as u64 == moves
    })
    .await;
    let after = world.node.inspect().jobs().await.unwrap();
    let moved = before.iter().zip(&after).filter(|(was, is)| was.owner != is.owner).count();
    assert_eq!(moved as u64, moves, "key by key");
    assert_eq!(status(&world.run(&["simulate", "--remove", "none"]).await), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_drained_as_it_was_forecast() {
    let world = World::with_workers(1).await;
    let other = world.another("n2").await;
    add_worker(&other).await;
    for n in 0..30 {
        world.node.dispatch((format!("k{n}"), "x")).await.unwrap();
    }
    let would = world.json(&["drain", "n2", "--dry-run"]).await;
    let moves = would["moves"].as_u64().unwrap();
    assert_eq!(other.inspect().workers().await.unwrap().len(), 2);
    let done = world.run(&["drain", "n2"]).await;
    assert_eq!(status(&done), Some(2));
    assert!(said(&done).contains("workers to drain: 1"), "{}", said(&done));
    let before = world.node.inspect().jobs().await.unwrap();
    let done = world.run(&["drain", "n2", "--yes", "--wait"]).await.success();
    assert_eq!(printed(&done), "workers that have gone: 1\n");
    eventually(PATIENCE, "the node to hear of it", async || {
        world.node.inspect().workers().await.unwrap().len() == 1
    })
    .await;
    eventually(PATIENCE, "all to run on n1", async || {
        let jobs = world.node.inspect().jobs().await.unwrap();
        jobs.iter().all(|job| job.node.as_deref() == Some("n1"))
    })
    .await;
    let after = world.node.inspect().jobs().await.unwrap();
    let moved = before.iter().zip(&after).filter(|(was, is)| was.owner != is.owner).count();
    assert_eq!(moved as u64, moves);
    assert_eq!(status(&world.run(&["drain", "n9", "--yes"]).await), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_are_shown_limited_and_made_at_once() {
    let world = World::with_workers(1).await;
    for n in 0..30 {
        world.node.dispatch((format!("job-{n}"), "x")).await.unwrap();
    }
    let would = world.json(&["rebalance", "--rate", "1", "--dry-run"]).await;
    assert_eq!((&would["rate"], &would["astray"]), (&json!(null), &json!(0)));
    let limited = world.json(&["rebalance", "--rate", "1"]).await;
    assert_eq!((&limited["rate"], &limited["jobs"], &limited["astray"]), (&json!(1), &json!(30), &json!(0)));
    eventually(PATIENCE, "the node to hear of it", async || world.node.settings().move_rate == 1).await;
    world.add_worker().await;
    let seen = world.json(&["rebalance"]).await;
    assert!(seen["astray"].as_u64().unwrap() > 4 && seen["per_second"].is_number(), "{seen}");
    let share: i64 = seen["workers"][1]["after"].as_i64().unwrap();
    assert!(share > 4, "{seen}");
    let text = printed(&world.run(&["rebalance"]).await.success());
    assert!(
        text.contains(" of 30 jobs are to move; ") && text.contains("; at most 1 a second may"),
        "{text}"
    );
    assert_eq!(status(&world.run(&["rebalance", "--now"]).await), Some(2), "nobody confirms");
    let placed = world.json(&["rebalance", "--now", "--yes", "--wait"]).await;
    assert_eq!((&placed["astray"], &placed["rate"]), (&json!(0), &json!(1)));
    let lifted = world.json(&["rebalance", "--rate", "0"]).await;
    assert_eq!(lifted["rate"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_moves_ends_when_the_last_one_has_started() {
    let world = World::shaped(|builder| builder.worker_ttl(Duration::from_secs(2))).await;
    world.add_worker().await;
    for n in 0..20 {
        world.node.dispatch((format!("job-{n}"), "x")).await.unwrap();
    }
    let (other, go) = (world.another("n2").await, Arc::new(Semaphore::new(0)));
    let slow = other.add_worker(Slow(go.clone())).await.unwrap();
    let moved = async || {
        let jobs = world.node.inspect().jobs().await.unwrap();
        let runs = jobs.iter().all(|job| job.state == JobState::Running);
        let id = slow.info()?.id;
        (runs && jobs.iter().any(|job| job.owner == Some(id))).then_some(())
    };
    eventually(PATIENCE, "some jobs to be with the other worker", moved).await;
    let waits = tokio::spawn(assert(world.tenure(["rebalance", "--wait", "-o", "json"])));
    let (pool, heard) =
        (Inspector::open("feeds", &world.client()).await.unwrap(), Mutex::new(BTreeSet::new()));
    let heard_often = async || {
        for said in pool.statuses().await.unwrap().into_iter().filter(|said| said.node == "n2") {
            heard.lock().unwrap().insert(said.up);
        }
        heard.lock().unwrap().len() > 8
    };
    eventually(PATIENCE, "the other node to have spoken often", heard_often).await;
    assert!(!waits.is_finished(), "no job has started there");
    go.add_permits(100);
    let placed: serde_json::Value =
        serde_json::from_slice(&waits.await.unwrap().success().get_output().stdout).unwrap();
    assert_eq!((&placed["astray"], &placed["jobs"]), (&json!(0), &json!(20)));
}

/// A handler whose jobs start when somebody lets them.
struct Slow(Arc<Semaphore>);

impl JobHandler for Slow {
    async fn start(&self, job: Job) -> Start {
        let _go = self.0.acquire().await;
        Start::Running(Box::pin(async move {
            job.cancelled().await;
            Ok(())
        }))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_listed_and_changed_by_name() {
    let world = World::new().await;
    let listed = world.json(&["settings", "ls"]).await;
    let of = |list: &serde_json::Value, name: &str| {
        let all = list["items"].as_array().unwrap();
        all.iter().find(|setting| setting["name"] == json!(name)).cloned().unwrap()
    };
    assert_eq!(of(&listed, "max_attempts")["value"], json!("20"));
    assert_eq!(of(&listed, "worker_ttl")["changeable"], json!(false));
    let set = ["settings", "set", "max_attempts=5", "assign_timeout=9s"];
    let would = world.json(&[&set[..], &["--dry-run"]].concat()).await;
    assert_eq!(would["items"].as_array().unwrap().len(), 2);
    assert_eq!(world.node.settings().max_attempts, 20);
    world.run(&[&set[..], &["--yes"]].concat()).await.success();
    // A node hears of another one's change a moment later.
    eventually(PATIENCE, "the node to hear of it", async || {
        let settings = world.node.settings();
        (settings.max_attempts, settings.assign_timeout) == (5, Duration::from_secs(9))
    })
    .await;
    for wrong in ["rubbish=1", "strikes=0", "max_attempts=5s", "strikes"] {
        assert_eq!(status(&world.run(&["settings", "set", wrong, "--yes"]).await), Some(2), "{wrong}");
    }
    let done = world.run(&["settings", "set", "strikes=4x", "--yes"]).await;
    assert!(said(&done).contains("a value is a whole number from 0 to "), "{}", said(&done));
    assert_eq!(status(&world.run(&["settings", "set", "worker_ttl=9s", "--yes"]).await), Some(4));
    world.run(&["hold", "--yes"]).await.success();
    eventually(PATIENCE, "the hold", async || world.node.settings().hold).await;
    world.run(&["unhold"]).await.success();
    eventually(PATIENCE, "its end", async || !world.node.settings().hold).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_are_listed_with_their_holders() {
    let world = World::new().await;
    let ticker = world.node.ticker("beat", Duration::from_secs(60)).await.unwrap();
    eventually(PATIENCE, "its turn to be taken", async || {
        world
            .node
            .inspect()
            .schedules()
            .await
            .unwrap()
            .first()
            .is_some_and(|schedule| schedule.holder.is_some())
    })
    .await;
    let list = world.json(&["schedules"]).await;
    let beat = &list["items"][0];
    assert_eq!(
        (&beat["name"], &beat["kind"], &beat["holder"]),
        (&json!("beat"), &json!("ticker"), &json!("n1"))
    );
    assert_eq!(beat["period_ms"], json!(60_000));
    drop(ticker);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_what_is_wrong_and_what_to_do() {
    let world = World::new().await;
    let of = async |check: &str, extra: &[&str]| {
        let args: Vec<_> = ["doctor", "-o", "jsonl"].iter().chain(extra).copied().collect();
        let done = world.run(&args).await;
        let lines = printed(&done);
        let found = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let found = found.into_iter().find(|finding| finding["check"] == json!(check)).unwrap();
        (status(&done), found)
    };
    let (code, found) = of("pool.workers", &[]).await;
    assert_eq!((code, &found["severity"]), (Some(6), &json!("fail")), "no worker is up");
    assert_eq!(found["remedy"], json!("start a node with a worker"));
    world.add_worker().await;
    let (code, found) = of("pool.workers", &[]).await;
    assert_eq!((code, &found["severity"]), (Some(0), &json!("ok")));
    world.node.operate().cordon("n1").await.unwrap();
    let (_, found) = of("pool.workers", &[]).await;
    assert_eq!((&found["severity"], &found["remedy"]), (&json!("fail"), &json!("tenure uncordon NODE")));
    world.node.operate().uncordon("n1").await.unwrap();
    world.node.dispatch(("acme", "x")).await.unwrap();
    world.node.operate().park("acme", "bad feed").await.unwrap();
    let (code, found) = of("pool.parked", &[]).await;
    assert_eq!((code, &found["severity"]), (Some(0), &json!("warn")));
    assert!(found["text"].as_str().unwrap().contains("1 with: bad feed"), "{found}");
    assert_eq!(of("pool.parked", &["--fail-on", "warn"]).await.0, Some(6));
    world.node.operate().hold(true).await.unwrap();
    assert_eq!(of("pool.hold", &[]).await.1["severity"], json!("warn"));
    let (_, found) = of("server.eviction", &["--only", "server"]).await;
    assert_eq!(found["severity"], json!("ok"));
    let only = world.json(&["doctor", "--only", "server", "--fail-on", "fail"]).await;
    let all = only["items"].as_array().unwrap();
    assert!(all.iter().all(|finding| finding["check"].as_str().unwrap().starts_with("server.")), "{only}");
}

/// A finding of the doctor. Null while there is no pool.
async fn finding(world: &World, check: &str) -> serde_json::Value {
    let done = printed(&world.run(&["doctor", "--only", "pool", "-o", "jsonl"]).await);
    let found = done.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    found.into_iter().find(|finding| finding["check"] == json!(check)).unwrap_or_default()
}

/// Waits until the doctor says this.
async fn says(world: &World, check: &str, text: &str) -> serde_json::Value {
    let said = || async {
        let found = finding(world, check).await;
        if found["text"].as_str().is_some_and(|it| it.contains(text)) { Ok(found) } else { Err(found) }
    };
    eventually(PATIENCE, text, said).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_knows_jobs_that_fail_and_are_tried_again() {
    let world = World::new().await;
    let handler = tenure_pool::run(|job: tenure_pool::Job| async move {
        if job.key().as_bytes().starts_with(b"bad") {
            return Err("out of stock".into());
        }
        job.cancelled().await;
        Ok(())
    });
    world.node.add_worker(handler).await.unwrap();
    world.node.dispatch(("good", "")).await.unwrap();
    assert_eq!(finding(&world, "pool.failing").await["severity"], json!("ok"));
    for key in ["bad-1", "bad-2"] {
        let policy = tenure_pool::RestartPolicy::Always;
        world.node.submit((key, "")).restart(policy).await.unwrap();
    }
    let found = says(&world, "pool.failing", "2 of 3 jobs have failed").await;
    assert_eq!(found["severity"], json!("warn"));
    assert!(found["text"].as_str().unwrap().ends_with("2 with: out of stock"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_a_node_that_was_lost_and_is_not_back() {
    let ttl = Duration::from_secs(1);
    let world = World::shaped(|builder| builder.worker_ttl(ttl)).await;
    world.add_worker().await;
    assert_eq!(finding(&world, "pool.churn").await["severity"], json!("ok"));
    let other = world.another("n2").await;
    add_worker(&other).await;
    other.abandon();
    says(&world, "pool.churn", "are not back: n2").await;
    let back = world.another("n2").await;
    add_worker(&back).await;
    let found = says(&world, "pool.churn", "n2 (1 lost)").await;
    assert_eq!(found["severity"], json!("warn"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_knows_a_loss_of_data_after_it_is_over() {
    // A busy machine may take longer than a second to wipe the server. The pool opens when a lease would have ended.
    let ttl = Duration::from_secs(4);
    let world = World::shaped(|builder| builder.worker_ttl(ttl)).await;
    world.add_worker().await;
    world.node.dispatch(("acme", "")).await.unwrap();
    // Only a job that has begun outlives the data: its worker has it.
    let begun = async || {
        let job = world.node.inspect().job("acme").await.unwrap()?;
        (job.state == JobState::Running).then_some(())
    };
    eventually(PATIENCE, "the job to begin", begun).await;
    assert_eq!(finding(&world, "pool.losses").await["severity"], json!("ok"), "a new pool");
    world.server.restart(Data::Wipe).unwrap();
    let found = says(&world, "pool.losses", "workers reported 1 jobs").await;
    assert_eq!(found["severity"], json!("warn"));
}

/// The rights of the documents, by section: those of a node, and those of a user who only looks.
fn documented_rights(section: usize) -> Vec<String> {
    let page = include_str!("../../../docs/protocol/limits.md").replace("<pool>", "feeds");
    let list = page.split("```acl\n").nth(1 + section).unwrap().split("```").next().unwrap();
    list.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_each_right_that_is_missing() {
    let world = World::new().await;
    let found = async |name: &str, rights: &[String]| {
        let rights: Vec<_> = rights.iter().map(String::as_str).collect();
        let url = world.server.acl_user(name, "secret", &rights).unwrap();
        let doctor = world.tenure(["doctor", "--only", "server", "-o", "jsonl"]).env("REDIS_URL", url);
        let lines = printed(&crate::world::assert(doctor).await);
        let found = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        found.into_iter().find(|finding| finding["check"] == json!("server.rights")).unwrap()
    };
    let rights = documented_rights(0);
    assert_eq!(found("node", &rights).await["severity"], json!("ok"));
    assert_eq!(found("eye", &documented_rights(1)).await["severity"], json!("ok"));
    // One of each kind: for a script, for a look, for a write, with a subcommand, and the channel.
    for (number, missing) in [
        "+evalsha",
        "+hgetall",
        "+xadd",
        "+xgroup|create",
        "+spublish",
        "~tenure:{feeds}:*",
        "&tenure:{feeds}:changes",
    ]
    .into_iter()
    .enumerate()
    {
        let others: Vec<_> = rights.iter().filter(|right| *right != missing).cloned().collect();
        assert_eq!(others.len() + 1, rights.len(), "{missing}");
        let finding = found(&format!("user{number}"), &others).await;
        assert_eq!(finding["severity"], json!("fail"), "{missing}: {finding}");
        let remedy = finding["remedy"].as_str().unwrap();
        assert!(remedy.contains(missing), "{missing}: {finding}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_the_nodes_of_an_older_level() {
    let world = World::with_workers(1).await;
    let other = world.another("n2").await;
    let newer = add_worker(&other).await;
    let levels = async || {
        let list = world.json(&["doctor", "--only", "pool"]).await;
        let mut found = list["items"].as_array().unwrap().iter().cloned();
        found.find(|finding| finding["check"] == json!("pool.levels")).unwrap()
    };
    assert_eq!(levels().await["severity"], json!("ok"));
    let (members, id) = ("tenure:{feeds}:workers", newer.id.0);
    let member: String = world.server.query(redis::cmd("HGET").arg(members).arg(id)).unwrap();
    let of_next = member.replace(&format!("|{}|", newer.level), &format!("|{}|", newer.level + 1));
    assert_ne!(member, of_next);
    let () = world.server.query(redis::cmd("HSET").arg(members).arg(id).arg(of_next)).unwrap();
    let found = levels().await;
    assert_eq!(found["severity"], json!("warn"));
    let (older, newer) = (newer.level, newer.level + 1);
    let text = format!("nodes of the levels {older} to {newer} run side by side; the older ones are n1");
    assert_eq!(found["text"], json!(text));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_answers_monitors_in_their_forms() {
    let world = World::new().await;
    let nagios = async |extra: &[&str]| {
        let args: Vec<_> = ["doctor", "--format", "nagios"].iter().chain(extra).copied().collect();
        let done = world.run(&args).await;
        (status(&done), printed(&done))
    };
    let (code, text) = nagios(&[]).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.starts_with("TENURE CRITICAL - feeds: no worker is up: no job starts"), "{text}");
    assert!(
        text.contains("\nCRITICAL pool.workers: no worker is up: no job starts - start a node"),
        "{text}"
    );
    assert!(text.lines().next().unwrap().contains(" pool.parked=0;;;0"), "{text}");
    world.add_worker().await;
    // Whether the server keeps a file is not this test's matter.
    assert_eq!(nagios(&["--only", "pool"]).await.0, Some(0));
    world.node.dispatch(("acme", "x")).await.unwrap();
    world.node.operate().park("acme", "bad feed").await.unwrap();
    let (code, text) = nagios(&["--only", "pool"]).await;
    assert_eq!(code, Some(1));
    assert!(text.starts_with("TENURE WARNING - feeds: 1 jobs are parked"), "{text}");
    assert!(text.contains(" warn=1;0;;0 fail=0;;0;0 ") && text.contains(" pool.parked=1;;;0"), "{text}");
    let (code, text) = nagios(&["--pool", "typo"]).await;
    assert!(code == Some(2) && text.starts_with("TENURE CRITICAL - typo: "), "{text}");
    let (code, text) = nagios(&["--url", "nonsense"]).await;
    assert!(code == Some(3) && text.starts_with("TENURE UNKNOWN - "), "{text}");

    let done = world.run(&["doctor", "--format", "prometheus"]).await;
    let metrics = printed(&done);
    assert_eq!(status(&done), Some(0));
    for line in [
        "tenure_doctor_up{pool=\"feeds\"} 1",
        "# TYPE tenure_doctor_severity gauge",
        "tenure_doctor_severity{pool=\"feeds\",check=\"pool.parked\"} 1",
        "tenure_doctor_severity{pool=\"feeds\",check=\"pool.workers\"} 0",
        "tenure_doctor_jobs{pool=\"feeds\",check=\"pool.parked\"} 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    let done = world.run(&["doctor", "--format", "prometheus", "--pool", "typo"]).await;
    assert_eq!(status(&done), Some(3));
    assert!(printed(&done).contains("tenure_doctor_up{pool=\"typo\"} 0\n"));
    let both = world.run(&["doctor", "--format", "nagios", "--fail-on", "warn"]).await;
    assert_eq!(status(&both), Some(2), "one or the other");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bench_ends_the_pool_that_it_makes() {
    let server = tenure_testing::RedisServer::start().unwrap();
    let args = ["bench", "--jobs", "200", "--workers", "2", "-o", "json"];
    let done = crate::world::assert(tenure(args).env("REDIS_URL", server.url())).await.success();
    let figures: serde_json::Value = serde_json::from_str(&printed(&done)).unwrap();
    let phases: Vec<_> = figures["items"].as_array().unwrap().iter().map(|phase| &phase["phase"]).collect();
    assert_eq!(phases, [&json!("dispatch"), &json!("notify"), &json!("stop")]);
    assert!(figures["items"][0]["per_second"].as_f64().unwrap() > 0.0, "{figures}");
    let keys = tenure_pool::Client::open(&server.url()).unwrap().commands();
    let mut all = redis::cmd("KEYS");
    let keys = keys.command(all.arg("*")).await.unwrap();
    let keys: Vec<String> = redis::from_redis_value(keys).unwrap();
    assert!(keys.iter().all(|key| key.ends_with(":pool")), "a tombstone at most is left: {keys:?}");
}
