//! The commands that change jobs: stop, retry, bounce, park, pause, resume, update, notify, ask, dispatch and wait.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tenure_pool::{Job, JobSpec, JobState};
use tenure_testing::eventually;

use crate::world::{PATIENCE, World, add_worker, assert, printed, said, status};

async fn state(world: &World, key: &str) -> Option<JobState> {
    world.node.inspect().job(key).await.unwrap().map(|job| job.state)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_parked_explained_and_retried() {
    let world = World::running(1, &["acme"]).await;
    let done = world.run(&["park", "acme", "--reason", "feed sends rubbish"]).await.success();
    assert_eq!(printed(&done), "KEY   OUTCOME  WHY\nacme  parked   -\n");
    assert_eq!(state(&world, "acme").await, Some(JobState::Parked));
    let text = printed(&world.run(&["explain", "acme"]).await.success());
    assert!(text.starts_with("acme: parked for "), "{text}");
    assert!(text.contains("feed sends rubbish") && text.contains("to do: mend the cause"), "{text}");
    let seen = world.json(&["explain", "acme"]).await;
    assert_eq!((&seen["verdict"], &seen["state"]), (&json!("parked"), &json!("parked")));
    assert!(seen["remedy"].as_str().unwrap().contains("tenure retry acme"));
    assert_eq!((&seen["opening"], &seen["shutdown"]), (&json!(null), &json!(null)), "the pool is open");
    assert_eq!(status(&world.run(&["bounce", "acme"]).await), Some(4), "nothing of it runs");
    world.run(&["retry", "acme"]).await.success();
    world.run(&["wait", "acme"]).await.success();
    assert_eq!(state(&world, "acme").await, Some(JobState::Running));
    let done = world.run(&["retry", "acme"]).await;
    assert_eq!(status(&done), Some(4), "it runs");
    assert!(said(&done).contains("nothing to retry"), "{}", said(&done));
    assert_eq!(status(&world.run(&["retry", "none"]).await), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_is_explained_with_the_time_that_is_left() {
    let world = World::with_workers(1).await;
    let other = world.another("n2").await;
    world.node.operate().hold(true).await.unwrap();
    world.node.submit(("acme", "x")).await.unwrap();
    let ends = tokio::spawn({
        let node = world.node.clone();
        async move { node.operate().shutdown().closing(PATIENCE).await }
    });
    let shutdown = async || {
        let seen = world.json(&["explain", "acme"]).await;
        (!seen["shutdown"].is_null()).then_some(seen)
    };
    let seen = eventually(PATIENCE, "the shutdown to be named", shutdown).await;
    assert_eq!((&seen["verdict"], &seen["shutdown"]["by"]), (&json!("on_hold"), &json!("n1")), "{seen}");
    assert!(seen["shutdown"]["left_ms"].as_u64().is_some_and(|left| left > 0), "{seen}");
    assert!(other.operate().shutdown().drop_queued().await.unwrap().complete);
    assert!(ends.await.unwrap().unwrap().complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_paused_explained_and_resumed() {
    let world = World::running(1, &["acme"]).await;
    let done = world.run(&["pause", "acme", "--by", "anna", "--reason", "db moves"]).await.success();
    assert_eq!(printed(&done), "KEY   OUTCOME  WHY\nacme  paused   -\n");
    let listed = printed(&world.run(&["ls", "--state", "paused"]).await.success());
    assert!(listed.contains("acme  paused") && listed.contains("by anna: db moves"), "{listed}");
    assert!(!printed(&world.run(&["ls", "--state", "parked"]).await.success()).contains("acme"));
    let seen = world.json(&["explain", "acme"]).await;
    assert_eq!((&seen["verdict"], &seen["state"]), (&json!("paused"), &json!("paused")));
    assert_eq!(seen["paused"], json!({ "by": "anna", "reason": "db moves", "until": null }));
    assert!(seen["remedy"].as_str().unwrap().contains("tenure resume acme"));
    let job = world.json(&["get", "acme"]).await;
    assert_eq!((&job["state"], &job["paused_by"]), (&json!("paused"), &json!("anna")));
    for refused in [&["retry", "acme"][..], &["bounce", "acme"], &["dispatch", "acme"], &["ask", "acme", "x"]]
    {
        let done = world.run(refused).await;
        assert_eq!(status(&done), Some(4), "{refused:?}");
        assert!(said(&done).contains("paused"), "{}", said(&done));
    }
    let doctor = printed(&world.run(&["doctor", "--only", "pool"]).await);
    assert!(doctor.contains("no job is parked, and 1 are paused"), "{doctor}");
    let events = printed(&world.run(&["events", "--key", "acme"]).await.success());
    assert!(events.contains("pause by anna: db moves"), "{events}");
    world.run(&["resume", "acme"]).await.success();
    world.run(&["wait", "acme"]).await.success();
    assert_eq!(state(&world, "acme").await, Some(JobState::Running));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_paused_for_some_time() {
    let world = World::running(1, &["acme"]).await;
    world.run(&["pause", "acme", "--for", "2h", "--by", "anna", "--reason", "db moves"]).await.success();
    let listed = printed(&world.run(&["ls", "--state", "paused"]).await.success());
    assert!(listed.contains("by anna, for another 1h59m: db moves"), "{listed}");
    let text = printed(&world.run(&["explain", "acme"]).await.success());
    assert!(text.contains("it goes on by itself in 1 h 59 min, or when it is resumed"), "{text}");
    let (job, seen) = (world.json(&["get", "acme"]).await, world.json(&["explain", "acme"]).await);
    assert!(job["paused_until"].as_str().unwrap().ends_with('Z'), "{job}");
    assert_eq!(seen["paused"]["until"], job["paused_until"]);
    assert_eq!(status(&world.run(&["pause", "acme", "--for", "soon"]).await), Some(2));
    world.run(&["resume", "acme"]).await.success();
    world.run(&["pause", "acme", "--for", "100ms"]).await.success();
    let goes_on = async || state(&world, "acme").await == Some(JobState::Running);
    eventually(PATIENCE, "the pause to be over", goes_on).await;
    assert_eq!(world.json(&["get", "acme"]).await["why"], json!("pause_over"));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_paused_and_those_of_them_resumed() {
    let world = World::running(1, &["eu-1", "eu-2", "us-1"]).await;
    world.run(&["park", "eu-2"]).await.success();
    let done = world.run(&["pause", "--match", "eu-*"]).await;
    assert!(said(&done).contains("2 jobs are meant: pause them all?"), "{}", said(&done));
    assert_eq!(state(&world, "eu-1").await, Some(JobState::Running));
    world.run(&["pause", "--match", "eu-*", "--yes"]).await.success();
    world.run(&["pause", "--match", "eu-*", "--yes"]).await.success();
    assert_eq!(printed(&world.run(&["ls", "--state", "paused", "-o", "name"]).await), "eu-1\neu-2\n");
    // No paused job is of a node.
    world.run(&["resume", "--node", "n1", "--yes"]).await.failure().code(2);
    let resumed = world.json(&["resume", "--match", "*", "--yes"]).await;
    let keys: Vec<_> = resumed["items"].as_array().unwrap().iter().map(|item| &item["key"]).collect();
    assert_eq!(keys.len(), 2, "{resumed}");
    for key in ["eu-1", "eu-2", "us-1"] {
        world.run(&["wait", key]).await.success();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_bounced_to_another_worker_and_home() {
    let world = World::running(2, &["acme"]).await;
    let owner = async || world.node.inspect().job("acme").await.unwrap().unwrap().owner;
    let home = owner().await;
    for (args, goes_home) in [(&["bounce", "acme"][..], false), (&["bounce", "acme", "--home"], true)] {
        world.run(args).await.success();
        eventually(PATIENCE, "the job to run there", async || {
            let now = owner().await;
            now.is_some()
                && (now == home) == goes_home
                && state(&world, "acme").await == Some(JobState::Running)
        })
        .await;
    }
    let chain = world.json(&["ring", "--key", "acme"]).await;
    assert_eq!(chain["items"][0]["worker"], json!(home.unwrap().0));
    assert_eq!(chain["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_steered_by_a_filter_that_is_confirmed() {
    let world = World::running(1, &["eu-1", "eu-2", "us-1"]).await;
    let done = world.run(&["park"]).await;
    assert_eq!(status(&done), Some(2), "no job is named");
    let done = world.run(&["park", "us-1", "--match", "eu-*"]).await;
    assert_eq!(status(&done), Some(2), "keys and a filter are one too many");
    let done = world.run(&["park", "--match", "eu-*"]).await;
    assert_eq!(status(&done), Some(2));
    assert!(said(&done).contains("2 jobs are meant: park them all? Say --yes"), "{}", said(&done));
    let would = world.json(&["park", "--match", "eu-*", "--dry-run"]).await;
    assert_eq!(would["items"][1]["outcome"], json!("would_park"));
    assert_eq!(state(&world, "eu-1").await, Some(JobState::Running));
    let parked = world.json(&["park", "--match", "eu-*", "--yes"]).await;
    assert_eq!((&parked["kind"], &parked["items"][0]["outcome"]), (&json!("outcomes"), &json!("parked")));
    assert_eq!(state(&world, "us-1").await, Some(JobState::Running));
    let done = world.run(&["retry", "eu-1", "eu-2", "us-1"]).await;
    assert_eq!(status(&done), Some(8), "some of many failed");
    assert!(said(&done).contains("1 of 3 jobs failed"), "{}", said(&done));
    let none = world.run(&["stop", "--match", "asia-*", "--yes"]).await.success();
    assert_eq!(printed(&none), "KEY  OUTCOME  WHY\n");
    world.run(&["stop", "--state", "running", "--yes", "--until-stopped"]).await.success();
    assert_eq!(world.node.inspect().jobs().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_dispatched_ensured_submitted_and_waited_for() {
    let world = World::with_workers(1).await;
    let started = world.json(&["dispatch", "acme", r#"{"plan":"gold"}"#, "--policy", "always"]).await;
    assert_eq!((&started["key"], &started["outcome"]), (&json!("acme"), &json!("started")));
    assert_eq!(status(&world.run(&["dispatch", "acme"]).await), Some(4), "it exists");
    let done = world.run(&["ensure", "acme"]).await.success();
    assert_eq!(printed(&done), "acme is there\n");
    let done = world.run(&["ensure", "globex"]).await.success();
    assert_eq!(printed(&done), "globex is started\n");
    let accepted = world.json(&["submit", "zenith", "x", "--id", "mine"]).await;
    assert!(accepted["id"].as_str().unwrap().ends_with(".!mine"), "{accepted}");
    let done = world.run(&["wait", "zenith", "--id", "mine"]).await.success();
    assert_eq!(printed(&done), "zenith has started\n");
    assert_eq!(world.json(&["dispatch", "new", "--dry-run"]).await["dry_run"], json!(true));
    assert_eq!(state(&world, "new").await, None);
    assert_eq!(status(&world.run(&["wait", "zenith", "--for", "gone", "--within", "300ms"]).await), Some(5));
    world.run(&["stop", "zenith"]).await.success();
    world.run(&["wait", "zenith", "--for", "gone"]).await.success();
    assert_eq!(status(&world.run(&["wait", "zenith"]).await), Some(3));
    let failing = world.run(&["dispatch", "bad", "fail", "--timeout", "30s"]).await.success();
    assert_eq!(printed(&failing), "bad is started\n", "the run of this handler is its start");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_with_settings_of_its_own_is_served_as_it_is() {
    let ttl = Duration::from_secs(5);
    let mut own = tenure_pool::Settings::default();
    (own.worker_ttl, own.max_attempts, own.notify_cap) = (ttl, 3, 2);
    let world = World::shaped(|builder| builder.settings(own.clone())).await;
    world.add_worker().await;
    let before = world.json(&["settings", "ls"]).await;
    for args in [
        &["dispatch", "acme", "x"][..],
        &["ensure", "acme"],
        &["submit", "zenith"],
        &["wait", "zenith"],
        &["notify", "acme", "hello"],
        &["pause", "zenith"],
        &["stop", "acme", "--until-stopped"],
        &["cordon", "n1"],
        &["drain", "n1", "--yes", "--wait"],
    ] {
        world.run(args).await.success();
    }
    assert_eq!(world.json(&["settings", "ls"]).await, before);
    assert_eq!(world.node.settings().worker_ttl, ttl);
    world.run(&["shutdown", "--yes", "--drop-queued"]).await.success();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_updated_notified_and_asked() {
    let world = World::new().await;
    let serve = |job: Job| async move {
        loop {
            tokio::select! {
                ask = job.asked() => {
                    let answer = format!("{} of {}", String::from_utf8_lossy(ask.body()), job.key());
                    ask.answer(answer);
                }
                () = job.cancelled() => return Ok::<(), tenure_pool::BoxError>(()),
            }
        }
    };
    let worker = world.node.add_worker(tenure_pool::run(serve)).await.unwrap();
    eventually(PATIENCE, "the worker", async || worker.info().is_some_and(|info| info.slot.is_some())).await;
    world.node.dispatch(("acme", "one")).await.unwrap();
    let updated = world.json(&["update", "acme", "two", "--expect-generation", "0"]).await;
    assert_eq!(updated["generation"], json!(1));
    assert_eq!(status(&world.run(&["update", "acme", "three", "--expect-generation", "0"]).await), Some(4));
    assert_eq!(status(&world.run(&["update", "acme"]).await), Some(2), "no payload is named");
    assert_eq!(world.json(&["get", "acme", "--payload"]).await["payload"], json!({"text": "two"}));
    let answer = world.run(&["ask", "acme", "how many?"]).await.success();
    assert_eq!(printed(&answer), "how many? of acme\n");
    assert_eq!(world.json(&["ask", "acme", "x"]).await["answer"], json!({"text": "x of acme"}));
    assert_eq!(status(&world.run(&["ask", "none", "x"]).await), Some(3));
    // This handler takes none, so no ask comes after it.
    world.run(&["notify", "acme", "hello"]).await.success();
    assert_eq!(world.node.inspect().notifications("acme").await.unwrap().len(), 1);
    assert_eq!(status(&world.run(&["notify", "none", "hello"]).await), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_dispatched_from_a_file() {
    let world = World::with_workers(1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.csv").to_string_lossy().into_owned();
    fs::write(&file, "key,payload\na,1\nb,2\nc,3\n").unwrap();
    assert_eq!(world.json(&["dispatch", "-f", &file, "--dry-run"]).await["jobs"], json!(3));
    let done = world.run(&["dispatch", "-f", &file]).await.success();
    assert_eq!(printed(&done), "3 jobs started\n");
    let done = world.run(&["dispatch", "-f", &file, "--continue"]).await;
    assert_eq!(status(&done), Some(8));
    assert!(said(&done).contains("3 jobs failed"), "{}", said(&done));
    let rows = world.json(&["ensure", "-f", &file]).await;
    assert_eq!(rows["items"].as_array().unwrap().len(), 3);
    let jobs = "{\"key\":\"d\",\"payload\":{\"n\":1}}\n{\"key\":\"e\"}\n";
    let stdin = world.tenure(["dispatch", "-f", "-", "--rate", "1000"]).stdin(jobs);
    assert_eq!(printed(&assert(stdin).await.success()), "2 jobs started\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_job_of_a_file_with_an_error_is_started() {
    let world = World::with_workers(1).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs").to_string_lossy().into_owned();
    for (text, why) in [
        ("key\nf\n\"\"\n", "job 2: it has no key"),
        ("{\"key\":\"f\"}\nno JSON\n", "job 2: "),
        ("[{\"key\":\"f\"}]", "it is a JSON array"),
        ("f,x", "\"f\" is unknown"),
        ("key,payload\n", "has no jobs"),
        ("", "has no jobs"),
    ] {
        fs::write(&file, text).unwrap();
        for (from, more) in [(&*file, &["--continue"][..]), (&*file, &["--dry-run"]), ("-", &[])] {
            let bad = world.tenure(["dispatch", "-f", from].iter().chain(more)).stdin(text);
            let done = assert(bad).await;
            assert_eq!(status(&done), Some(2), "{text:?} {from} {more:?}: {}", said(&done));
            assert!(said(&done).contains(why), "{text:?} {from} {more:?}: {}", said(&done));
        }
    }
    assert!(world.node.inspect().job("f").await.unwrap().is_none_or(|job| job.owner.is_none()));
    // Some editors put a mark before the first byte.
    fs::write(&file, "\u{feff}{\"key\":\"g\"}").unwrap();
    assert_eq!(printed(&world.run(&["dispatch", "-f", &file]).await.success()), "1 jobs started\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_dispatch_of_many_goes_on_and_starts_no_job_twice() {
    let world = World::new().await;
    let starts = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::new()));
    let seen = starts.clone();
    let count = move |job: Job| {
        let seen = seen.clone();
        async move {
            *seen.lock().unwrap().entry(job.key().to_string()).or_insert(0) += 1;
            job.cancelled().await;
            Ok::<(), tenure_pool::BoxError>(())
        }
    };
    let worker = world.node.add_worker(tenure_pool::run(count)).await.unwrap();
    eventually(PATIENCE, "the worker", async || worker.info().is_some_and(|info| info.slot.is_some())).await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (file, state) = (path("jobs"), path("state"));
    let lines: Vec<_> = (0..1_000).map(|n| json!({"key": format!("job-{n}")}).to_string()).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    let args = ["dispatch", "-f", &*file, "--resume", &*state, "--rate", "500"];
    let mut child = std::process::Command::new(snapbox::cmd::cargo_bin!("tenure"));
    child.args(args).env("REDIS_URL", world.server.url()).env("TENURE_POOL", "feeds");
    let mut child = child.stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually(PATIENCE, "some jobs to be done", async || {
        fs::read_to_string(&state).is_ok_and(|text| text.lines().count() > 50)
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    let before = fs::read_to_string(&state).unwrap().lines().count();
    assert!(before < 1_000, "it was killed before its end");
    let done = world.run(&args[..5]).await.success();
    assert!(printed(&done).contains("were done before"), "{}", printed(&done));
    eventually(PATIENCE, "all to run", async || starts.lock().unwrap().len() == 1_000).await;
    assert!(starts.lock().unwrap().values().all(|count| *count == 1), "each was started once");
    let again = world.run(&args[..5]).await.success();
    assert_eq!(printed(&again), "0 jobs started, 1000 were done before\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_moves_is_waited_for() {
    let world = World::with_workers(1).await;
    world.node.dispatch(JobSpec::new("acme", "x")).await.unwrap();
    let other = world.another("n2").await;
    add_worker(&other).await;
    let moved = tokio::spawn(assert(world.tenure(["wait", "acme", "--for", "moved", "--within", "20s"])));
    // Each bounce is a move, whenever the command has first looked.
    let bounced = async || {
        let _ = world.node.operate().bounce("acme").await;
        moved.is_finished()
    };
    eventually(PATIENCE, "the command to see a move", bounced).await;
    assert_eq!(printed(&moved.await.unwrap().success()), "acme has moved\n");
}
