//! Exit statuses, and what is said about failures.

use tenure_testing::RedisServer;

use crate::world::{World, assert, printed, said, status, tenure};

#[tokio::test(flavor = "multi_thread")]
async fn a_mistyped_pool_is_not_found_and_creates_no_key() {
    let server = RedisServer::start().unwrap();
    let commands: &[&[&str]] = &[
        &["ls"],
        &["get", "acme"],
        &["explain", "acme"],
        &["dispatch", "acme"],
        &["dispatch", "acme", "--dry-run"],
        &["ensure", "acme"],
        &["submit", "acme"],
        &["wait", "acme"],
        &["stop", "acme"],
        &["retry", "acme"],
        &["bounce", "acme"],
        &["park", "acme"],
        &["pause", "acme"],
        &["resume", "acme"],
        &["update", "acme", "x"],
        &["notify", "acme", "x"],
        &["ask", "acme", "x"],
        &["workers"],
        &["nodes"],
        &["ring"],
        &["simulate", "--add", "1"],
        &["drain", "n1", "--yes"],
        &["cordon", "n1"],
        &["rebalance"],
        &["rebalance", "--now", "--yes"],
        &["hold", "--yes"],
        &["settings", "ls"],
        &["settings", "set", "strikes=4", "--yes"],
        &["schedules"],
        &["doctor"],
        &["shutdown", "--yes"],
    ];
    for args in commands.iter().copied() {
        let command = tenure(args).env("REDIS_URL", server.url()).env("TENURE_POOL", "typo");
        let done = assert(command).await;
        assert_eq!(status(&done), Some(3), "{args:?}");
        assert_eq!(said(&done), "tenure: there is no pool \"typo\"; nothing was written\n");
    }
    let keys = tenure_pool::Client::open(&server.url()).unwrap().commands();
    let keys = keys.command(&redis::cmd("DBSIZE")).await.unwrap();
    assert_eq!(keys, redis::Value::Int(0));
}

#[test]
fn a_redis_that_is_not_there_is_status_7() {
    let done = tenure(["ls", "--url", "redis://127.0.0.1:1", "-p", "feeds"]).assert();
    assert_eq!(status(&done), Some(7));
    let server = ". The server is redis://127.0.0.1:1\n";
    assert!(said(&done).starts_with("tenure: ") && said(&done).ends_with(server), "{}", said(&done));
    let done = tenure(["ls", "--url", "redis://anna:secret@127.0.0.1:1", "-p", "feeds"]).assert();
    assert!(said(&done).contains("is redis://anna:***@127.0.0.1:1"), "{}", said(&done));
}

#[test]
fn a_short_timeout_hides_no_cause() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}", silent.local_addr().unwrap());
    for (url, cause) in [
        ("redis://127.0.0.1:1", "Connection refused"),
        ("redis://no..such.example", "the name no..such.example cannot be resolved"),
        (&silent, "no connection was made within 1s"),
    ] {
        for command in ["ls", "hold", "dispatch"] {
            let args = match command {
                "ls" => vec!["ls"],
                "hold" => vec!["hold", "--yes"],
                _ => vec!["dispatch", "acme"],
            };
            let done = tenure(args.iter().chain(&["--timeout", "2s", "--url", url, "-p", "feeds"])).assert();
            assert_eq!(status(&done), Some(7), "{command} {url}: {}", said(&done));
            assert!(said(&done).contains(cause), "{command} {url}: {}", said(&done));
            assert!(!said(&done).contains("executed"), "{command} {url}: {}", said(&done));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newline_at_the_end_of_a_url_is_left_out() {
    let world = World::new().await;
    let done = assert(world.tenure(["workers"]).env("REDIS_URL", format!("{}\n", world.server.url()))).await;
    assert_eq!(status(&done), Some(0), "{}", said(&done));
    let done = assert(tenure(["ls", "--url", " redis://127.0.0.1:1\n", "-p", "feeds"])).await;
    assert!(said(&done).ends_with(". The server is redis://127.0.0.1:1\n"), "{}", said(&done));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_is_named_at_once() {
    let world = World::new().await;
    world.node.submit(("acme", "x")).await.unwrap();
    let mut limit = redis::cmd("CONFIG");
    limit.arg("SET").arg("maxmemory").arg(1);
    let _: redis::Value = world.server.query(&limit).unwrap();
    for args in [&["hold", "--yes"][..], &["park", "acme"], &["notify", "acme", "hello"]] {
        let done = world.run(args).await;
        assert!(status(&done) != Some(0) && said(&done).contains("OOM"), "{args:?}: {}", said(&done));
        assert!(!said(&done).contains("no answer"), "{args:?}: {}", said(&done));
    }
}

#[test]
fn a_wrong_command_line_is_status_2() {
    let url = ["--url", "redis://127.0.0.1:1", "--pool", "feeds"];
    let wrong: [&[&str]; 6] = [
        &["rubbish"],
        &["get"],
        &["get", ""],
        &["ls", "--match", "["],
        &["ls", "--state", "odd"],
        &["ls", "-p", "a b"],
    ];
    for args in wrong {
        let done = tenure(args.iter().chain(&url)).assert();
        assert_eq!(status(&done), Some(2), "{args:?}: {}", said(&done));
    }
    for time in ["10x", "soon"] {
        let done = tenure(["ls", "--older", time].iter().chain(&url)).assert();
        assert_eq!(status(&done), Some(2));
        assert!(
            said(&done).contains("a time is a number with its unit, such as 500ms, 10s, 5m or 1h30m"),
            "{}",
            said(&done)
        );
    }
    let done = tenure(["ls"]).assert();
    assert_eq!(status(&done), Some(2));
    assert!(said(&done).contains("which pool?"), "{}", said(&done));
    assert_eq!(status(&tenure(["ls", "-p", "feeds"]).assert()), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_json_where_programs_read() {
    let world = World::new().await;
    let done = world.run(&["get", "acme", "-o", "json"]).await;
    let text = "no job has the key acme";
    let error = serde_json::json!({"v": 1, "error": {"code": 3, "name": "not_found", "text": text}});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&said(&done)).unwrap(), error);
    assert_eq!((status(&done), printed(&done)), (Some(3), String::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_the_pool_only_when_it_is_confirmed() {
    let world = World::running(1, &["acme"]).await;
    let done = world.run(&["shutdown"]).await;
    assert_eq!(status(&done), Some(2));
    assert!(said(&done).contains("Say --yes"), "{}", said(&done));
    let done = world.run(&["shutdown", "--dry-run"]).await.success();
    assert_eq!(printed(&done), "would end the pool feeds with 1 jobs and 1 workers\n");
    let done = world.run(&["shutdown", "--yes", "--drop-queued"]).await.success();
    assert_eq!(printed(&done), "the pool feeds has ended\n");
    world.node.closed().await;
    assert_eq!(status(&world.run(&["ls"]).await), Some(3));
}

/// A shutdown with an hour for a job that nobody begins.
const SLOW: [&str; 6] = ["shutdown", "--yes", "--closing", "1h", "--within", "1s"];

#[tokio::test(flavor = "multi_thread")]
async fn a_second_shutdown_hastens_the_first_or_waits_for_it() {
    for shards in [1, 3] {
        let world = World::shaped(|builder| builder.shards(shards)).await;
        world.add_worker().await;
        world.node.operate().hold(true).await.unwrap();
        world.node.submit(("acme", "x")).await.unwrap();
        assert_eq!(status(&world.run(&SLOW).await), Some(5));
        let again = world.run(&SLOW).await;
        assert_eq!(status(&again), Some(5), "{shards} shards: {}", said(&again));
        assert!(printed(&again).contains("the pool feeds is still ending"), "{}", printed(&again));
        let done = world.run(&["shutdown", "--dry-run"]).await.success();
        assert_eq!(printed(&done), "would end the pool feeds, which is shutting down already\n");
        let ended = world.json(&["shutdown", "--yes", "--drop-queued"]).await;
        assert_eq!((&ended["complete"], &ended["left"]), (&true.into(), &serde_json::json!([])), "{ended}");
        world.node.closed().await;
        assert_eq!(status(&world.run(&["shutdown", "--yes"]).await), Some(3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_that_nobody_carries_on_is_ended_by_the_next() {
    for lives in [true, false] {
        // Without a worker nobody hears a sign of life.
        let world = World::new().await;
        world.node.submit(("acme", "x")).await.unwrap();
        assert_eq!(status(&world.run(&SLOW).await), Some(5));
        if !lives {
            world.node.abandon();
        }
        let done = world.run(&["shutdown", "--yes", "--drop-queued"]).await;
        assert_eq!(printed(&done), "the pool feeds has ended\n", "{lives}: {}", said(&done));
    }
}
