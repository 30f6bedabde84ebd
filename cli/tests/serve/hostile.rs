//! Callers that mean harm, or that are broken.

use serde_json::json;
use tenure_testing::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::world::{PATIENCE, Page, World, tenure};

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_ours_are_refused() {
    let world = World::new(1).await;
    world.node.dispatch(("acme", "x")).await.unwrap();
    let (page, token) = (&world.page, world.page.token.clone().unwrap());
    let bearer = format!("Bearer {token}");
    let own = format!("http://{}", page.address);
    let body = json!({"key": "acme"}).to_string();

    // A name that is bound to this address now, as an attacker can do with his.
    let rebound = page.ask("GET", "/v1/pool", &[("host", "evil.com:7450")], None).await;
    assert_eq!((rebound.status, rebound.json()["name"].clone()), (421, json!("host")));
    let twice =
        format!("GET / HTTP/1.1\r\nhost: {}\r\nhost: evil.com\r\nconnection: close\r\n\r\n", page.address);
    for raw in ["GET / HTTP/1.1\r\nconnection: close\r\n\r\n".to_owned(), twice] {
        assert!(matches!(page.send(raw.as_bytes()).await.status, 400 | 421), "{raw}");
    }

    // A page of another site, with everything else right.
    let post = async |headers: &[(&str, &str)], body: &str| {
        page.ask("POST", "/v1/job/stop", headers, Some(body)).await
    };
    let (auth, typed) = (("authorization", bearer.as_str()), ("content-type", "application/json"));
    assert_eq!(post(&[auth, typed, ("origin", "http://evil.com")], &body).await.status, 403);
    assert_eq!(post(&[auth, typed, ("origin", "null")], &body).await.status, 403);
    assert_eq!(post(&[auth, typed, ("sec-fetch-site", "cross-site")], &body).await.status, 403);
    // A form needs no permission to be sent, and has no such type or header.
    assert_eq!(post(&[auth, ("content-type", "text/plain")], &body).await.status, 415);
    assert_eq!(post(&[auth], &body).await.status, 415);
    assert_eq!(post(&[typed, ("cookie", &format!("token={token}"))], &body).await.status, 401);
    let preflight = page.ask("OPTIONS", "/v1/job/stop", &[("origin", &own)], None).await;
    assert!(preflight.status == 405 && !preflight.head.contains("access-control"), "{preflight:?}");

    for wrong in [
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Basic eDp4",
        &format!("Bearer {token}x"),
        &bearer[..bearer.len() - 1],
    ] {
        assert_eq!(post(&[("authorization", wrong), typed], &body).await.status, 401, "{wrong}");
    }
    for (path, status) in [
        ("/../../etc/passwd", 404),
        ("/%2e%2e/%2e%2e/etc/passwd", 404),
        ("//etc/passwd", 404),
        ("/v1/../page/app.js", 404),
        ("/page/app.js/", 404),
        ("/page/", 404),
        ("/page/mod.rs", 404),
        ("/page/%2e%2e%2fapp.js", 404),
        ("/page/%ff", 404),
        ("/app.js", 404),
        ("/v1/job?key=..%2f..%2fetc%2fpasswd", 404),
        ("/v1/job?key=%00", 404),
        ("/v1/pool?x=1", 400),
    ] {
        assert_eq!(page.ask("GET", path, &[], None).await.status, status, "{path}");
    }
    for method in ["DELETE", "PUT", "POST", "PATCH", "TRACE"] {
        assert_eq!(page.ask(method, "/v1/pool", &[], None).await.status, 405, "{method}");
    }
    assert_eq!(page.ask("GET", "/v1/job/stop", &[], None).await.status, 405);
    for strange in
        ["", "[]", "null", "{\"key\":7}", "{\"key\":\"acme\",\"colour\":1}", "{\"key\":\"\"}", "\u{0}"]
    {
        assert_eq!(post(&[auth, typed], strange).await.status, 400, "{strange}");
    }
    // It is refused before it comes, or as soon as it is too long.
    assert_eq!(post(&[auth, typed, ("content-length", "1000000")], "{").await.status, 413);
    let chunk = format!("{:x}\r\n{}\r\n", 100_000, "x".repeat(100_000));
    let head = format!("host: {}\r\nauthorization: {bearer}\r\ncontent-type: application/json", page.address);
    let chunked =
        format!("POST /v1/job/stop HTTP/1.1\r\n{head}\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
    assert!(matches!(page.send(chunked.as_bytes()).await.status, 413 | 0));
    let long = "x".repeat(64 * 1_024);
    assert!(matches!(page.ask("GET", "/", &[("x-long", &long)], None).await.status, 431 | 0));
    let many = "x: y\r\n".repeat(500);
    let many = format!("GET / HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{many}\r\n", page.address);
    assert!(matches!(page.send(many.as_bytes()).await.status, 431 | 0));
    assert!(matches!(page.send(b"\x16\x03\x01\x02\x00rubbish\r\n\r\n").await.status, 400 | 0));

    // Nothing of all that had an effect.
    assert!(world.node.inspect().job("acme").await.unwrap().is_some());
    assert_eq!(post(&[auth, typed, ("origin", &own)], &body).await.status, 200, "its own page may");
}

/// The files that a page uses, and those that they import.
async fn files(world: &World, page: &str) -> Vec<String> {
    let named = |text: &str, before: &str| -> Vec<String> {
        let after = text.split(before).skip(1);
        after.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
    };
    let (mut names, mut files) = (named(page, "\"page/"), Vec::new());
    while let Some(name) = names.get(files.len()) {
        let answer = world.get(&format!("/page/{name}")).await;
        let is_style = name.rsplit_once('.').is_some_and(|(_, kind)| kind == "css");
        let kind = if is_style { "text/css" } else { "text/javascript" };
        assert!(answer.status == 200 && answer.head.contains(kind), "{name}: {answer:?}");
        for import in named(&answer.body, "from \"./") {
            if !names.contains(&import) {
                names.push(import);
            }
        }
        files.push(answer.body);
    }
    assert!(files.len() > 20, "{names:?}");
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_in_keys_and_errors_stays_text() {
    let world = World::new(1).await;
    let key = "<script>alert(1)</script>\u{202e}\n";
    world.node.dispatch((key, "x")).await.unwrap();
    world.node.operate().park(key, "<img src=x onerror=alert(1)>").await.unwrap();
    let jobs = world.get("/v1/jobs").await;
    assert_eq!(jobs.json()["items"][0]["key"], json!(key));
    assert!(jobs.head.contains("content-type: application/json"), "{jobs:?}");
    for path in ["/v1/jobs", "/", "/page/app.js", "/page/nothing", "/nothing", "/metrics"] {
        let head = world.get(path).await.head;
        for line in [
            "x-content-type-options: nosniff",
            "content-security-policy: default-src 'none'",
            "x-frame-options: deny",
            "cache-control: no-store",
        ] {
            assert!(head.contains(line), "{path}: {line}: {head}");
        }
        assert!(
            !head.contains("unsafe-") && !head.contains("set-cookie") && !head.contains("access-control"),
            "{head}"
        );
    }
    // The page knows no way to turn a text into markup, and fetches nothing from elsewhere.
    let page = world.get("/").await.body;
    let files = files(&world, &page).await;
    for way in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
        "javascript:",
    ] {
        for text in files.iter().chain([&page]) {
            assert!(!text.contains(way), "{way}");
        }
    }
    assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" onclick="));
    let namespaces = ["http://www.w3.org/2000/svg"];
    for text in files.iter().chain([&page]) {
        let own = namespaces.iter().fold(text.clone(), |text, space| text.replace(space, ""));
        assert!(!own.contains("http://") && !own.contains("https://") && !own.contains("@import"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_say_nothing_leave_room_for_others() {
    let world = World::new(0).await;
    let mut silent = Vec::new();
    // More than are served at once.
    for n in 0..400 {
        let Ok(mut stream) = TcpStream::connect(&world.page.address).await else { continue };
        if n % 2 == 0 {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: lo").await;
        }
        silent.push(stream);
    }
    // All of them are shown out in time.
    assert_eq!(world.get("/livez").await.status, 200);
    // A body that never comes holds its own request only.
    let head = format!(
        "POST /v1/pool/hold HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{{",
        world.page.address,
        world.page.token.as_deref().unwrap()
    );
    let (slow, quick) = tokio::join!(world.page.send(head.as_bytes()), world.get("/livez"));
    assert_eq!((slow.status, quick.status), (408, 200), "{slow:?}");
    drop(silent);
    eventually(PATIENCE, "an answer", async || (world.get("/v1/pool").await.status == 200).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_takes_no_answer_is_hung_up_on() {
    let world = World::serving(0, &["--stall", "300ms"]).await;
    let host = &world.page.address;
    // The reader of a stream may leave it unread: what waits for him is little.
    let mut stream = TcpStream::connect(host).await.unwrap();
    let follow = format!("GET /v1/events/stream HTTP/1.1\r\nhost: {host}\r\n\r\n");
    stream.write_all(follow.as_bytes()).await.unwrap();
    // More answers than the buffers between the two take.
    let mut slow = TcpStream::connect(host).await.unwrap();
    let ask = format!("GET /openapi.json HTTP/1.1\r\nhost: {host}\r\n\r\n").repeat(500);
    slow.write_all(ask.as_bytes()).await.unwrap();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while slow.write_all(b"x").await.is_ok() {
        assert!(tokio::time::Instant::now() < deadline, "it still holds its connection");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    world.node.operate().cordon("n1").await.unwrap();
    let (mut said, mut piece) = (String::new(), [0; 4_096]);
    while !said.contains("cordon") {
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut piece)).await.expect("an event").unwrap();
        assert!(read > 0, "the stream has ended: {said}");
        said.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_an_array_changes_nothing() {
    let world = World::new(1).await;
    world.node.dispatch(("acme", "x")).await.unwrap();
    let (page, token) = (&world.page, world.page.token.clone().unwrap());
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let described: serde_json::Value =
        serde_json::from_str(include_str!("../../src/serve/openapi.json")).unwrap();
    let mut tried = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        if methods.get("post").is_none() {
            continue;
        }
        tried += 1;
        for body in ["[]", " [\"acme\"]", "\"acme\"", "null", "7"] {
            let answer = page.ask("POST", path, &headers, Some(body)).await;
            assert_eq!(answer.status, 400, "{path} {body}");
        }
    }
    assert!(tried > 10, "{tried}");
    assert!(world.node.inspect().job("acme").await.unwrap().is_some_and(|job| job.owner.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_redis_is_told_to_nobody_without_a_token() {
    let world = World::new(1).await;
    let made = tenure(&world.server).args(["serve", "--new-token", "anna"]).output().await.unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    let of = |name: &str| made.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), of("line:")).unwrap();
    let page = Page::start(&world.server, &["--token-file", file.path().to_str().unwrap()]).await;
    world.server.kill().unwrap();
    let bearer = format!("Bearer {}", of("token:"));
    let detail = async |headers: &[(&str, &str)]| {
        let answer = page.ask("GET", "/readyz", headers, None).await;
        (answer.status == 503).then(|| answer.json()["detail"].as_str().unwrap().to_owned())
    };
    let told = eventually(PATIENCE, "an error", async || detail(&[("authorization", &bearer)]).await).await;
    assert_ne!(told, "the pool cannot be read");
    let stranger = eventually(PATIENCE, "an error", async || detail(&[]).await).await;
    assert_eq!(stranger, "the pool cannot be read");
    let forged =
        eventually(PATIENCE, "an error", async || detail(&[("authorization", "Bearer x")]).await).await;
    assert_eq!(forged, "the pool cannot be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_answer_says_that_the_connection_ends() {
    let world = World::new(0).await;
    let bearer = format!("authorization: Bearer {}\r\n", world.page.token.as_deref().unwrap());
    let typed = "content-type: application/json\r\n";
    let cases = [
        (401, "/v1/pool/hold", typed.to_owned(), 20),
        (415, "/v1/pool/hold", bearer.clone(), 20),
        (413, "/v1/pool/hold", format!("{bearer}{typed}"), 1_000_000),
        (404, "/nothing", String::new(), 20),
        (405, "/v1/pool", String::new(), 20),
        (421, "/v1/pool", "host: evil.com\r\n".to_owned(), 20),
    ];
    for (status, path, headers, length) in cases {
        let host = if headers.contains("host:") { String::new() } else { "host: localhost\r\n".to_owned() };
        let head = format!("POST {path} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\n\r\n");
        let answer = world.page.send(head.as_bytes()).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.head.contains("connection: close"), "{answer:?}");
    }
}
