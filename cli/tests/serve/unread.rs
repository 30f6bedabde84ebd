//! Nobody reads what the server tells.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use tenure_testing::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::stderr::Unread;
use super::world::{PATIENCE, World, tenure};

/// The status of the answer to a change, or None if nobody answers.
async fn change(path: &Path, token: &str, body: &str) -> Option<u16> {
    let mut stream = UnixStream::connect(path).await.ok()?;
    let head = "POST /v1/job/park HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json";
    let length = body.len();
    let request =
        format!("{head}\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("it answers or hangs up").ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_made_whatever_becomes_of_the_log() {
    let World { server, node, .. } = World::new(1).await;
    let folder = tempfile::tempdir().unwrap();
    let made = tenure(&server).args(["serve", "--new-token", "anna"]).output().await.unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    let of = |name: &str| made.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    let (token, tokens) = (of("token:"), folder.path().join("tokens"));
    std::fs::write(&tokens, of("line:")).unwrap();
    for kind in Unread::ALL {
        let (stderr, _reader) = kind.stderr();
        let path = folder.path().join(format!("{kind:?}"));
        let mut serve = tenure(&server);
        serve.arg("serve").arg("--unix").arg(&path).arg("--token-file").arg(&tokens).stderr(stderr);
        let mut serve = serve.spawn().unwrap();
        eventually(PATIENCE, "its socket", || async { path.exists() }).await;
        for key in ["one", "two"] {
            node.dispatch((key, "x")).await.unwrap();
            // The log says who has done so.
            let body = format!(r#"{{"key":"{key}","reason":"no stock"}}"#);
            assert_eq!(change(&path, &token, &body).await, Some(200), "{kind:?} {key}");
            node.stop_job(key).until_stopped().await.unwrap();
        }
        kill_process(Pid::from_raw(serve.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
        let ended = timeout(PATIENCE, serve.wait()).await.expect("it ends").unwrap();
        assert_eq!(ended.code(), Some(0), "{kind:?}");
    }
}
