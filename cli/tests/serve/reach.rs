//! Where the server is reached: a socket in the file system, and paths below another one.

use std::io::BufRead;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use tenure_testing::{Data, RedisServer};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use super::world::{PATIENCE, World, tenure};

fn at(server: &RedisServer, path: &Path) -> Command {
    let mut command = tenure(server);
    command.arg("serve").arg("--unix").arg(path).env("TMPDIR", path.parent().unwrap());
    command.stderr(Stdio::piped());
    command
}

/// A server at this path that says where it serves, and the lines after that.
async fn start(server: &RedisServer, path: &Path) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut process = at(server, path).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let first = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().expect("it serves");
    assert_eq!(first, format!("serving the pool feeds at {}", path.display()));
    (process, lines)
}

async fn ask(path: &Path, host: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let request = format!("GET /v1/pool HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_its_users_own_and_goes_with_the_server() {
    let World { server, node: _node, .. } = World::new(0).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.sock");
    let (mut process, mut lines) = start(&server, &path).await;
    let way = lines.next_line().await.unwrap().unwrap();
    let token = way.split_once("take the token in ").unwrap_or_else(|| panic!("{way}")).1.to_owned();
    assert_eq!(std::fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    let found = std::fs::metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!(ask(&path, "localhost").await.starts_with("HTTP/1.1 200"));
    assert!(ask(&path, "evil.com").await.starts_with("HTTP/1.1 421"));

    // A second server leaves the first one alone.
    let output = timeout(PATIENCE, at(&server, &path).output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("somebody serves there already"), "{said}");
    assert!(ask(&path, "localhost").await.starts_with("HTTP/1.1 200"));

    let pid = Pid::from_raw(process.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(timeout(PATIENCE, process.wait()).await.unwrap().unwrap().success());
    assert!(!path.exists() && !Path::new(&token).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_on_a_terminal_only() {
    let World { server, node: _node, page } = World::new(0).await;
    let token = page.token.clone().unwrap();
    assert_eq!(page.post("/v1/pool/hold", Some(&token), &serde_json::json!({})).await.status, 200);
    assert!(!page.has_logged("", &token));

    let pty = native_pty_system().openpty(PtySize::default()).unwrap();
    let mut command = CommandBuilder::new(snapbox::cmd::cargo_bin!("tenure"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--pool", "feeds", "--url", &server.url()]);
    let mut serve = pty.slave.spawn_command(command).unwrap();
    drop(pty.slave);
    let mut screen = std::io::BufReader::new(pty.master.try_clone_reader().unwrap());
    let shown = tokio::task::spawn_blocking(move || {
        let mut lines = (&mut screen).lines().map_while(Result::ok);
        lines.find(|line| line.contains("to change something, open http://127.0.0.1:"))
    });
    let shown = timeout(PATIENCE, shown).await.unwrap().unwrap().expect("an address with a token");
    assert!(shown.contains("/#token="), "{shown}");
    serve.kill().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_a_redis_that_starts_later() {
    let world = World::new(0).await;
    let server = &world.server;
    let _saved: String = server.query(&redis::cmd("SAVE")).unwrap();
    server.kill().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.sock");
    let mut process = at(server, &path).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().expect("it waits");
    assert!(line.contains("cannot be reached yet"), "{line}");
    server.restart(Data::Keep).unwrap();
    let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().expect("it serves");
    assert!(line.contains("serving the pool feeds"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_socket_gives_way_and_a_file_does_not() {
    let World { server, node: _node, .. } = World::new(0).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.sock");
    let (mut process, _lines) = start(&server, &path).await;
    process.kill().await.unwrap();
    assert!(path.exists(), "nobody has removed it");
    let (_process, _lines) = start(&server, &path).await;
    assert!(ask(&path, "localhost").await.starts_with("HTTP/1.1 200"));

    let file = folder.path().join("notes");
    std::fs::write(&file, "mine").unwrap();
    let output = timeout(PATIENCE, at(&server, &file).output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("something that is no socket"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_is_served_below_a_base_path() {
    let world = World::serving(0, &["--base-path", "/ops/feeds"]).await;
    for path in ["/", "/v1/pool", "/page/app.js", "/livez"] {
        assert_eq!(world.get(path).await.status, 404, "{path}");
        let below = world.get(&format!("/ops/feeds{path}")).await;
        assert_eq!(below.status, 200, "{path}: {below:?}");
        assert!(below.head.contains("content-security-policy"), "{path}");
    }
    // The page's addresses are relative, so it needs the slash.
    let moved = world.get("/ops/feeds").await;
    assert!(moved.status == 308 && moved.head.contains("location: /ops/feeds/"), "{moved:?}");
    let follow = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    for (path, status) in [("/ops/feeds", 308), ("/ops/feeds/", 200), ("/ops/feeds/v1/pool", 403)] {
        assert_eq!(world.page.ask("GET", path, &follow, None).await.status, status, "{path}");
    }
    let described = world.json("/ops/feeds/openapi.json").await;
    assert_eq!(described["servers"][0]["url"], "/ops/feeds");
    let held = world.post("/ops/feeds/v1/pool/hold", &serde_json::json!({})).await;
    assert_eq!(held.status, 200, "{held:?}");
}
