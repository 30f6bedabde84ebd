//! The answers are as the description says.

use serde_json::Value;
use tenure_pool::{JobSpec, RestartPolicy};
use tenure_testing::eventually;

use super::schema::faults;
use super::world::{PATIENCE, World};

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_is_as_the_description_says() {
    let world = World::serving(2, &["--show-payloads", "--queues", "shop"]).await;
    let client = tenure_jobs::Client::open(&world.server.url()).unwrap();
    let jobs = tenure_jobs::Jobs::builder("shop", client).queues(["mail"]).join().await.unwrap();
    jobs.add("mail", &1).await.unwrap();
    for key in ["acme", "bob", "zenith"] {
        world.node.dispatch((key, "x")).await.unwrap();
    }
    let failing = JobSpec::new("fails", "fail").restart(RestartPolicy::OnFailure);
    let _ = world.node.submit(failing).await;
    world.node.operate().park("bob", "no stock").await.unwrap();
    eventually(PATIENCE, "an event", async || {
        !world.json("/v1/events").await["items"].as_array().unwrap().is_empty()
    })
    .await;

    let description = world.json("/openapi.json").await;
    let (schemas, mut found) = (&description["components"]["schemas"], Vec::new());
    let bearer = format!("Bearer {}", world.page.token.as_deref().unwrap());
    for (path, of) in description["paths"].as_object().unwrap() {
        let Some(get) = of.get("get") else { continue };
        let content = get["responses"]["200"]["content"].as_object().unwrap();
        let Some(schema) = content.get("application/json").map(|kind| &kind["schema"]) else {
            continue;
        };
        let tried: &[&str] = match path.as_str() {
            path if path.starts_with("/v1/job/") || path == "/v1/job" => &["?key=acme", "?key64=Ym9i"],
            "/v1/ring" => &["", "?key=acme"],
            "/v1/simulate" => &["", "?add=2&remove=n1"],
            "/v1/jobs" => &["", "?failing=true", "?worker=1", "?state=running,queued&match=*e*&limit=2"],
            "/v1/events" => &["", "?since=1h&kind=asked,parked&key=bob&limit=3"],
            _ => &[""],
        };
        for query in tried {
            let address = format!("{path}{query}");
            let answer = world.page.ask("GET", &address, &[("authorization", &bearer)], None).await;
            assert_eq!(answer.status, 200, "{address}: {answer:?}");
            faults(schema, &answer.json(), schemas, &address, &mut found);
        }
    }
    // Problems, too.
    for path in ["/v1/job?key=nobody", "/v1/job", "/nothing", "/v1/jobs?limit=0"] {
        let answer = world.get(path).await;
        assert!(answer.head.contains("application/problem+json"), "{answer:?}");
        faults(&schemas["Problem"], &answer.json(), schemas, path, &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documents_are_those_of_the_commands() {
    let world = World::new(1).await;
    for key in ["acme", "zenith"] {
        world.node.dispatch((key, "x")).await.unwrap();
    }
    // An age is another one at each look.
    let timeless = |mut document: Value| {
        if let Some(items) = document["items"].as_array_mut() {
            items.sort_by_key(|item| item["key"].to_string());
            for name in ["renewed_ms", "up_ms", "trouble"] {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| drop(item.remove(name)));
            }
        }
        for name in ["next", "scanned", "noted_since", "dropped", "lasting_ms", "age_ms", "text"] {
            document.as_object_mut().unwrap().remove(name);
        }
        document["owner"].as_object_mut().map(|owner| owner.remove("renewed_ms"));
        document
    };
    for (path, command) in [
        ("/v1/jobs", &["ls"][..]),
        ("/v1/job?key=acme", &["get", "acme"]),
        ("/v1/job/explain?key=acme", &["explain", "acme"]),
        ("/v1/ring?key=acme", &["ring", "--key", "acme"]),
        ("/v1/ring", &["ring"]),
        ("/v1/settings", &["settings", "ls"]),
        ("/v1/simulate?add=1", &["simulate", "--add", "1"]),
    ] {
        let (page, printed) = (timeless(world.json(path).await), timeless(world.command(command).await));
        assert_eq!(page, printed, "{path}");
    }
    let same = async || {
        let (page, printed) = (world.json("/v1/workers").await, world.command(&["workers"]).await);
        (timeless(page) == timeless(printed)).then_some(())
    };
    eventually(PATIENCE, "the node to have said what it is", same).await;
}
