//! Changes through the interface, and who may make them.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tenure_pool::JobState;
use tenure_testing::eventually;

use super::world::{PATIENCE, Page, World, add_worker, tenure};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_steers_a_job_and_is_named() {
    let world = World::new(2).await;
    world.node.dispatch(("acme", "x")).await.unwrap();
    let state = async || world.node.inspect().job("acme").await.unwrap().map(|job| job.state);
    let parked = world.post("/v1/job/park", &json!({"key": "acme", "reason": "no stock"})).await;
    assert_eq!((parked.status, &parked.json()["outcome"]), (200, &json!("parked")), "{parked:?}");
    assert_eq!(state().await, Some(JobState::Parked));
    assert_eq!(world.post("/v1/job/bounce", &json!({"key": "acme"})).await.status, 409, "it is parked");
    assert_eq!(world.post("/v1/job/retry", &json!({"key64": "YWNtZQ=="})).await.status, 200);
    eventually(PATIENCE, "it to run", async || (state().await == Some(JobState::Running)).then_some(()))
        .await;
    let paused = world.post("/v1/job/pause", &json!({"key": "acme", "reason": "their move"})).await;
    assert_eq!((paused.status, &paused.json()["outcome"]), (200, &json!("paused")), "{paused:?}");
    let pause = world.node.inspect().job("acme").await.unwrap().and_then(|job| job.paused);
    assert_eq!(pause.map(|pause| (pause.by, pause.reason)), Some(("local".into(), "their move".into())));
    assert_eq!(world.post("/v1/job/retry", &json!({"key": "acme"})).await.status, 409, "it is paused");
    assert_eq!(world.json("/v1/parked").await["items"], json!([]), "it is not parked");
    assert_eq!(world.post("/v1/job/resume", &json!({"key": "acme"})).await.status, 200);
    eventually(PATIENCE, "it to run", async || (state().await == Some(JobState::Running)).then_some(()))
        .await;
    for way in ["bounce", "restart"] {
        let done = world.post(&format!("/v1/job/{way}"), &json!({"key": "acme"})).await;
        assert_eq!(done.status, 200, "{way}: {done:?}");
    }
    assert_eq!(world.post("/v1/job/stop", &json!({"key": "acme"})).await.status, 200);
    eventually(PATIENCE, "it to be gone", async || state().await.is_none().then_some(())).await;
    assert_eq!(world.post("/v1/job/stop", &json!({"key": "acme"})).await.status, 404);
    let asked = async || {
        let events = world.json("/v1/events?kind=asked&key=acme").await;
        let of = |event: &Value| event["node"].as_str().is_some_and(|node| node.starts_with("serve-local-"));
        events["items"].as_array().unwrap().iter().any(of).then_some(())
    };
    eventually(PATIENCE, "the events to name the token", asked).await;
    let logged = async || world.page.has_logged("parked acme", "local").then_some(());
    eventually(PATIENCE, "the log to say so", logged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_with_an_end_is_over_by_itself() {
    let world = World::new(1).await;
    world.node.dispatch(("acme", "x")).await.unwrap();
    let job = async || world.node.inspect().job("acme").await.unwrap().unwrap();
    let from = SystemTime::now();
    let hour = json!({"key": "acme", "reason": "their move", "for_ms": 3_600_000});
    assert_eq!(world.post("/v1/job/pause", &hour).await.status, 200);
    let until = job().await.paused.unwrap().until.unwrap();
    // The store's clock is this machine's, and counts whole milliseconds.
    let earliest = from + Duration::from_secs(3_600) - Duration::from_millis(1);
    assert!(until >= earliest && until <= SystemTime::now() + Duration::from_secs(3_600), "{until:?}");
    assert_eq!(world.post("/v1/job/resume", &json!({"key": "acme"})).await.status, 200);
    eventually(PATIENCE, "it to run", async || (job().await.state == JobState::Running).then_some(())).await;
    let token = job().await.token;
    assert_eq!(world.post("/v1/job/pause", &json!({"key": "acme", "for_ms": 1})).await.status, 200);
    let again = async || {
        let job = job().await;
        (job.state == JobState::Running && job.token != token).then_some(())
    };
    eventually(PATIENCE, "it to run again", again).await;
    for (way, body) in [
        ("park", json!({"key": "acme", "for_ms": 1_000})),
        ("retry", json!({"key": "acme", "for_ms": 1_000})),
        ("pause", json!({"key": "acme", "for_ms": "1h"})),
        ("pause", json!({"key": "acme", "for_ms": -1})),
        ("pause", json!({"key": "acme", "for_ms": u64::MAX})),
    ] {
        let refused = world.post(&format!("/v1/job/{way}"), &body).await;
        assert!((400..500).contains(&refused.status), "{way} {body}: {refused:?}");
    }
    assert_eq!(job().await.state, JobState::Running);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_dispatches_a_job_once() {
    let world = World::new(1).await;
    let dispatch = async |body: Value| world.post("/v1/job/dispatch", &body).await;
    let asked = json!({"key": "acme", "payload": "x", "policy": "on-failure", "id": "ticket-7"});
    let started = dispatch(asked.clone()).await;
    assert_eq!(started.status, 200, "{started:?}");
    let wanted =
        json!({"v": 1, "key": "acme", "key64": null, "outcome": "started", "dry_run": false, "id": null});
    assert_eq!(started.json(), wanted);
    let job = world.node.inspect().job("acme").await.unwrap().unwrap();
    assert_eq!(job.state, JobState::Running);
    assert_eq!(dispatch(asked.clone()).await.status, 200, "it is the same one");
    let mut other = asked;
    other["policy"] = json!("always");
    assert_eq!(dispatch(other).await.status, 409, "its id is of another job");
    let token = world.node.inspect().job("acme").await.unwrap().map(|job| job.token);
    assert_eq!(token, Some(job.token));
    assert_eq!(dispatch(json!({"key": "acme"})).await.status, 409, "another one is there");
    assert_eq!(dispatch(json!({"key": "acme", "how": "ensure"})).await.json()["outcome"], "there");
    let bytes = dispatch(json!({"key64": "/w==", "payload64": "/w==", "how": "submit"})).await;
    assert_eq!((bytes.status, &bytes.json()["outcome"]), (200, &json!("accepted")), "{bytes:?}");
    for wrong in [
        json!({}),
        json!({"key": "a", "key64": "YQ=="}),
        json!({"key": "a", "payload": "x", "payload64": "eA=="}),
        json!({"key": "a", "payload64": "*"}),
        json!({"key": "a", "policy": "sometimes"}),
        json!({"key": "a", "how": "soon"}),
        json!({"key": "x".repeat(513)}),
    ] {
        assert_eq!(dispatch(wrong.clone()).await.status, 400, "{wrong}");
    }
    assert_eq!(world.node.inspect().job("a").await.unwrap().map(|job| job.state), None);
    assert_eq!(world.page.post("/v1/job/dispatch", None, &json!({"key": "b"})).await.status, 401);
    let logged = async || world.page.has_logged("dispatched acme", "local").then_some(());
    eventually(PATIENCE, "the log to say so", logged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_jobs_are_retried_by_their_error() {
    let world = World::new(1).await;
    for n in 0..6 {
        world.node.dispatch((format!("k{n}"), "x")).await.unwrap();
        let why = if n < 4 { "no stock [east]" } else { "no login" };
        world.node.operate().park(format!("k{n}"), why).await.unwrap();
    }
    let first = world.json("/v1/parked?limit=100").await;
    assert_eq!(first["items"].as_array().unwrap().len(), 6);
    let some = world.post("/v1/parked/retry", &json!({"error": "no stock \\[*", "limit": 3})).await.json();
    assert_eq!((&some["retried"], &some["more"]), (&json!(3), &json!(true)), "{some}");
    let rest = world.post("/v1/parked/retry", &json!({"error": "no stock*"})).await.json();
    assert_eq!((&rest["retried"], &rest["more"]), (&json!(1), &json!(false)), "{rest}");
    assert_eq!(world.json("/v1/parked").await["items"].as_array().unwrap().len(), 2);
    let last = world.post("/v1/parked/retry", &json!({"match": "k5"})).await.json();
    assert_eq!((&last["retried"], &last["failed"]), (&json!(1), &json!(0)), "{last}");
    assert_eq!(world.post("/v1/parked/retry", &json!({"match": "["})).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_cordoned_and_drained_and_the_pool_is_held() {
    let world = World::new(1).await;
    let client = tenure_pool::Client::open(&world.server.url()).unwrap();
    let other = tenure_pool::Node::builder("feeds", client).name("n2").join().await.unwrap();
    add_worker(&other).await;
    for n in 0..8 {
        world.node.dispatch((format!("k{n}"), "x")).await.unwrap();
    }
    let cordoned = world.post("/v1/nodes/cordon", &json!({"node": "n2"})).await.json();
    assert_eq!((&cordoned["cordoned"], &cordoned["workers"]), (&json!(true), &json!(1)));
    eventually(PATIENCE, "the cordon to be seen", async || {
        let nodes = world.json("/v1/nodes").await;
        nodes["items"].as_array().unwrap().iter().any(|node| node["cordoned"] == json!(true)).then_some(())
    })
    .await;
    assert_eq!(world.post("/v1/nodes/uncordon", &json!({"node": "n2"})).await.status, 200);
    let held = world.post("/v1/pool/hold", &json!({})).await.json();
    assert_eq!(held["on_hold"], json!(true));
    let on_hold = async || (world.json("/v1/pool").await["on_hold"] == json!(true)).then_some(());
    eventually(PATIENCE, "the hold to be seen", on_hold).await;
    assert_eq!(world.post("/v1/pool/unhold", &json!({})).await.status, 200);

    let drained = world.post("/v1/workers/drain", &json!({"node": "n2"})).await.json();
    assert_eq!(drained["drained"], json!(1), "{drained}");
    // Nobody has to look at the right moment: the worker is gone in the end.
    eventually(PATIENCE, "the worker to be gone", async || {
        (world.json("/v1/drains").await["kind"] == json!("drains")).then_some(())?;
        let workers = world.json("/v1/workers").await;
        workers["items"].as_array().unwrap().iter().all(|worker| worker["node"] != json!("n2")).then_some(())
    })
    .await;
    for (path, body, status) in [
        ("/v1/workers/drain", json!({"node": "n9"}), 404),
        ("/v1/workers/drain", json!({"worker": 1, "node": "n1"}), 400),
        ("/v1/workers/drain", json!({}), 400),
        ("/v1/nodes/cordon", json!({}), 400),
        ("/v1/nodes/cordon", json!({"node": "no name!"}), 400),
    ] {
        let answer = world.post(path, &body).await;
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_file_say_who_may_do_what() {
    let world = World::serving(1, &["--read-only"]).await;
    world.node.dispatch(("acme", "secret")).await.unwrap();
    assert_eq!(world.json("/v1/pool").await["you"]["read_only"], json!(true));
    assert_eq!(
        world.page.post("/v1/job/stop", None, &json!({"key": "acme"})).await.status,
        404,
        "no such route"
    );

    let token = async |named: &str| {
        let output = tenure(&world.server).args(["serve", "--new-token", named]).output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let after = |word: &str| {
            let line = text.lines().find(|line| line.starts_with(word)).unwrap();
            line.split_once(':').unwrap().1.trim().to_owned()
        };
        (after("token"), after("line"))
    };
    let ((anna, first), (eve, second)) = (token("anna").await, token("eve:view").await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, format!("# ours\n{first}\n\n{second}\n")).unwrap();
    let file = file.to_string_lossy().into_owned();
    let page = Page::start(&world.server, &["--token-file", &file]).await;
    let get = async |path: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        page.ask("GET", path, &headers, None).await.status
    };
    assert_eq!((get("/", None).await, get("/livez", None).await), (200, 200));
    for path in ["/v1/pool", "/v1/jobs", "/metrics", "/v1/events/stream"] {
        assert_eq!((get(path, None).await, get(path, Some("wrong")).await), (401, 401), "{path}");
    }
    assert_eq!((get("/v1/pool", Some(&eve)).await, get("/metrics", Some(&anna)).await), (200, 200));
    assert_eq!(get("/v1/job/payload?key=acme", Some(&anna)).await, 403, "payloads are not shown");
    let stop = json!({"key": "acme"});
    assert_eq!(page.post("/v1/job/stop", None, &stop).await.status, 401);
    assert_eq!(page.post("/v1/job/stop", Some(&eve), &stop).await.status, 403);
    assert_eq!(page.post("/v1/job/stop", Some(&anna), &stop).await.status, 200);

    // The whole network is let in by name only.
    let open = tenure(&world.server).args(["serve", "--listen", "0.0.0.0:0"]).output().await.unwrap();
    assert_eq!(open.status.code(), Some(2), "{open:?}");
    let proxied = ["serve", "--listen", "127.0.0.1:0", "--host", "pool.example.com"];
    let proxied = tenure(&world.server).args(proxied).output().await.unwrap();
    assert_eq!(proxied.status.code(), Some(2), "a name is for others: {proxied:?}");
    std::fs::write(folder.path().join("bad"), "anna:operate:short\n").unwrap();
    let bad = folder.path().join("bad").to_string_lossy().into_owned();
    let bad = tenure(&world.server).args(["serve", "--token-file", &bad]).output().await.unwrap();
    assert_eq!(bad.status.code(), Some(2), "{bad:?}");
    let typo = tenure(&world.server)
        .args(["serve", "--pool", "typo", "--listen", "127.0.0.1:0"])
        .output()
        .await
        .unwrap();
    assert_eq!(typo.status.code(), Some(3), "{typo:?}");
}
