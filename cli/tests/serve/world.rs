//! A private Redis, a pool whose node lives in the test's process, and `tenure serve` over it.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_pool::{Client, Node};
use tenure_testing::RedisServer;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

pub(crate) use super::workers::{PATIENCE, add_worker};

pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) node: Node,
    pub(crate) page: Page,
}

/// A process that serves. It is killed when this is dropped.
pub(crate) struct Page {
    _process: Child,
    /// It has the token.
    _folder: TempDir,
    pub(crate) address: String,
    /// None where it makes none.
    pub(crate) token: Option<String>,
    /// All that it has logged.
    log: Arc<Mutex<Vec<String>>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl World {
    /// A pool with this number of workers, which is served.
    pub(crate) async fn new(workers: usize) -> Self {
        Self::serving(workers, &[]).await
    }

    pub(crate) async fn serving(workers: usize, args: &[&str]) -> Self {
        let server = RedisServer::start().unwrap();
        let client = Client::open(&server.url()).unwrap();
        let builder = Node::builder("feeds", client).name("n1").assume_fresh(true);
        let builder = builder.join_settle(Duration::ZERO).stable_after(Duration::from_millis(50));
        let node = builder.join().await.unwrap();
        for _ in 0..workers {
            add_worker(&node).await;
        }
        let page = Page::start(&server, args).await;
        Self { server, node, page }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.page.ask("GET", path, &[], None).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// A change, with the token that was printed.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.page.post(path, self.page.token.as_deref(), body).await
    }

    /// How often the server of the pool has run a command.
    pub(crate) fn calls(&self, command: &str) -> u64 {
        let stats: String = self.server.query(redis::cmd("INFO").arg("commandstats")).unwrap();
        let of = format!("cmdstat_{command}:calls=");
        let calls = stats.lines().find_map(|line| line.strip_prefix(&of)?.split(',').next());
        calls.map_or(0, |calls| calls.parse().unwrap())
    }

    /// The output of a command, as JSON.
    pub(crate) async fn command(&self, args: &[&str]) -> Value {
        let output = tenure(&self.server).args(args).args(["-o", "json"]).output().await.unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The command, for this pool.
pub(crate) fn tenure(server: &RedisServer) -> Command {
    let mut command = Command::new(snapbox::cmd::cargo_bin!("tenure"));
    for name in ["TENURE_CONTEXT", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").env("REDIS_URL", server.url()).env("TENURE_POOL", "feeds");
    command.kill_on_drop(true);
    command
}

/// The token in the file that this line names.
pub(crate) fn token_of(line: &str) -> String {
    let path = line.split_once("take the token in ").unwrap_or_else(|| panic!("{line}")).1;
    std::fs::read_to_string(path).unwrap().trim().to_owned()
}

impl Page {
    pub(crate) async fn start(server: &RedisServer, args: &[&str]) -> Self {
        let mut command = tenure(server);
        let folder = tempfile::tempdir().unwrap();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args).env("TMPDIR", folder.path());
        command.stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let first = lines.next_line().await.unwrap().expect("it says where it serves");
        let address = first.split_once("http://").unwrap_or_else(|| panic!("{first}")).1;
        let address = address.split('/').next().unwrap().to_owned();
        let has_token = !args.iter().any(|arg| matches!(*arg, "--token-file" | "--read-only"));
        let token = if has_token {
            let line = lines.next_line().await.unwrap().expect("it says where the token is");
            Some(token_of(&line))
        } else {
            None
        };
        let log = Arc::new(Mutex::new(Vec::new()));
        let into = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                into.lock().unwrap().push(line);
            }
        });
        Self { _process: process, _folder: folder, address, token, log }
    }

    /// Whether it has logged a line with both.
    pub(crate) fn has_logged(&self, one: &str, other: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(one) && line.contains(other))
    }

    pub(crate) async fn post(&self, path: &str, token: Option<&str>, body: &Value) -> Answer {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        self.ask("POST", path, &headers, Some(&body.to_string())).await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        let mut head = vec![format!("{method} {path} HTTP/1.1"), "connection: close".to_owned()];
        let has = |wanted: &str| headers.iter().any(|(name, _)| *name == wanted);
        if !has("host") {
            head.push(format!("host: {}", self.address));
        }
        head.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if let Some(body) = body.filter(|_| !has("content-length")) {
            head.push(format!("content-length: {}", body.len()));
        }
        let request = format!("{}\r\n\r\n{}", head.join("\r\n"), body.unwrap_or_default());
        self.send(request.as_bytes()).await
    }

    /// Sends these bytes, and reads to the end. A server that refuses may hang up while it is still spoken to.
    pub(crate) async fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        let _ = read.expect("an answer, or its end");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}
