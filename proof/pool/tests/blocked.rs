//! Three processes have one runtime thread each. A handler blocks one of them for longer than two leases. The other
//! processes are not affected, and no job of its node moves or is aborted.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_pool::{Client, Job, Node, NodeBuilder};
use tenure_testing::{RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(30);
/// A busy machine that pauses for half of it costs no lease.
const TTL: Duration = Duration::from_secs(4);
const CHILD: &str = "TENURE_BLOCKED_PROCESS";
const URL: &str = "TENURE_BLOCKED_URL";
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

fn builder(url: &str, name: &str) -> NodeBuilder {
    let builder = Node::builder("blocked", Client::open(url).unwrap()).name(name).worker_ttl(TTL);
    builder.join_settle(Duration::from_millis(50)).assume_fresh(true)
}

/// Reports the end of the job when it is dropped.
struct Ends(Job);

impl Drop for Ends {
    fn drop(&mut self) {
        println!("ended {}", self.0.key());
    }
}

/// A process that runs jobs on one thread, and prints what they do, line by line.
fn process(name: &str, url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = builder(url, name).join().await.unwrap();
        let handler = tenure_pool::run(|job: Job| async move {
            println!("begun {}", job.key());
            let _ends = Ends(job.clone());
            loop {
                let body = tokio::select! {
                    () = job.cancelled() => return Ok(()),
                    body = job.notified() => body,
                };
                if body == "block" {
                    println!("blocks {}", job.key());
                    // The parent process decides when the block ends.
                    std::io::stdin().read_line(&mut String::new()).unwrap();
                }
                println!("heard {}", job.key());
            }
        });
        node.add_worker(handler).await.unwrap();
        node.closed().await;
    });
}

/// One of the processes, which does not outlive its test.
struct Process {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Process {
    fn start(name: &str, url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_that_is_blocked_keeps_its_jobs_and_hurts_no_other", "--nocapture"])
            .env(CHILD, name)
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let heard = said.clone();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line));
        });
        Self { child, said }
    }

    /// How often it has printed this about a job.
    fn said(&self, what: &str, key: &str) -> usize {
        let line = format!("{what} {key}");
        self.said.lock().unwrap().iter().filter(|said| **said == line).count()
    }

    fn let_go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_blocked_keeps_its_jobs_and_hurts_no_other() {
    if let (Ok(name), Ok(url)) = (std::env::var(CHILD), std::env::var(URL)) {
        std::thread::spawn(move || process(&name, &url)).join().unwrap();
        return;
    }
    let server = RedisServer::builder().tcp().start().unwrap();
    let caller = builder(&server.url(), "caller").join().await.unwrap();
    let mut processes: BTreeMap<_, _> =
        NAMES.iter().map(|&name| (name.to_owned(), Process::start(name, &server.url()))).collect();
    eventually(PATIENCE, "all workers to be up", async || {
        let workers = caller.inspect().workers().await.unwrap();
        if workers.iter().filter(|w| w.slot.is_some()).count() == 3 { Ok(()) } else { Err(workers) }
    })
    .await;
    let keys: Vec<_> = (0..12).map(|i| format!("job-{i}")).collect();
    for key in &keys {
        caller.dispatch((key.as_str(), "")).await.unwrap();
    }
    let owners = async || {
        let (jobs, workers) =
            (caller.inspect().jobs().await.unwrap(), caller.inspect().workers().await.unwrap());
        let node = |owner| workers.iter().find(|w| Some(w.id) == owner).map(|w| w.node.clone());
        jobs.into_iter()
            .map(|job| (job.key.to_string(), (node(job.owner), job.token)))
            .collect::<BTreeMap<_, _>>()
    };
    let before = owners().await;
    let on = |name: &str| {
        let theirs = before.iter().filter(|(_, (node, _))| node.as_deref() == Some(name));
        theirs.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let (blocked, theirs) =
        NAMES.iter().map(|name| (*name, on(name))).max_by_key(|(_, keys)| keys.len()).unwrap();
    let others: Vec<_> = keys.iter().filter(|key| !theirs.contains(*key)).collect();
    assert!(theirs.len() > 1 && !others.is_empty(), "{before:?}");

    caller.notify(theirs[0].as_str(), "block").await.unwrap();
    eventually(PATIENCE, "its thread to be blocked", async || {
        processes[blocked].said("blocks", &theirs[0]) == 1
    })
    .await;
    caller.notify(theirs[1].as_str(), "hello").await.unwrap();
    let since = tokio::time::Instant::now();
    let mut rounds = 0;
    while since.elapsed() < 2 * TTL + TTL / 2 {
        rounds += 1;
        for key in &others {
            caller.notify(key.as_str(), "hello").await.unwrap();
        }
        eventually(PATIENCE, "all other jobs to hear", async || {
            let heard =
                |key: &&String| processes.values().any(|process| process.said("heard", key) == rounds);
            others.iter().all(heard)
        })
        .await;
        assert_eq!(owners().await, before, "nothing moves");
    }
    assert_eq!(processes[blocked].said("heard", &theirs[1]), 0, "its thread is blocked");

    processes.get_mut(blocked).unwrap().let_go();
    eventually(PATIENCE, "what was said meanwhile", async || {
        theirs[..2].iter().all(|key| processes[blocked].said("heard", key) == 1)
    })
    .await;
    let said = |what| {
        keys.iter().map(|key| processes.values().map(|p| p.said(what, key)).sum::<usize>()).sum::<usize>()
    };
    assert_eq!((said("begun"), said("blocks"), said("ended")), (12, 1, 0), "each runs on as it was");
}
