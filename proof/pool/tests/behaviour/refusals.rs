//! A server that answers and refuses: it has become a replica, is loading its data, or has no memory left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_pool::{DispatchError, Error, Job, Node};
use tenure_testing::RedisServer;
use tenure_testing::history::boottime_ns;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::recorder::Act;
use crate::world::{Holders, World, until, workers_on};

/// A busy machine that pauses for half of it costs no lease.
const TTL: Duration = Duration::from_secs(4);

impl World {
    /// Sends the server this command, over a connection that is not the pool's.
    fn tell(&self, words: &[&str]) {
        redis::cmd(words[0]).arg(&words[1..]).query::<redis::Value>(&mut self.client()).unwrap();
    }

    /// The server refuses writes, like a replica without its master.
    fn read_only(&self) {
        self.tell(&["REPLICAOF", "127.0.0.1", "1"]);
    }

    fn writable(&self) {
        self.tell(&["REPLICAOF", "NO", "ONE"]);
    }

    /// The commands, refusals and connections of the server so far.
    fn traffic(&self) -> u64 {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut self.client()).unwrap();
        let of = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            lines.next().unwrap().trim().parse::<u64>().unwrap()
        };
        of("total_commands_processed") + of("total_error_replies") + of("total_connections_received")
    }
}

/// A dispatch whose caller waits for as long as tests do.
fn dispatch(world: &World, node: &Node, key: &'static str) -> JoinHandle<Result<(), DispatchError>> {
    world.history().submitted(key);
    let node = node.clone();
    tokio::spawn(async move { node.dispatch((key, "")).await })
}

/// A dispatch that is refused until its caller has waited long enough. Returns the reason.
async fn refused(world: &World, node: &Node, key: &str) -> String {
    world.history().submitted(key);
    match node.dispatch((key, "")).deadline(Duration::from_secs(1)).await {
        Err(DispatchError::Deadline { accepted: false, trouble: Some(trouble), .. }) => trouble.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Two nodes with a worker each, and this many running jobs.
async fn at_work(world: &World, jobs: usize) -> (Node, Node, Vec<String>, Holders) {
    let (a, b) = (world.node_with("a", 1).await, world.node_with("b", 1).await);
    let (keys, before) = world.dispatch_placed(&a, jobs).await;
    (a, b, keys, before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_server_ends_every_handler_until_it_takes_writes() {
    let world = World::on_redis().with_ttl(TTL);
    let (a, b, keys, before) = at_work(&world, 20).await;
    let old = [workers_on(&a).await, workers_on(&b).await].concat();
    let (traffic, since) = (world.traffic(), boottime_ns());
    world.read_only();
    let why = refused(&world, &b, "meanwhile").await;
    assert!(why.contains("READONLY"), "{why}");
    world.all_ended_in_time(since).await;
    // By now a node that retries without a pause has tried thousands of times.
    let (traffic, seconds) = (world.traffic() - traffic, (boottime_ns() - since) / 1_000_000_000 + 1);
    assert!(traffic < 400 * seconds, "{traffic} in {seconds} s");
    world.writable();
    until("new workers for the old ones", async || {
        let now = a.inspect().workers().await.unwrap();
        now.len() == 2 && now.iter().all(|worker| !old.contains(&worker.id.0) && worker.slot.is_some())
    })
    .await;
    let after = world.placed(&b, &keys).await;
    for (key, held) in after {
        assert!(held.token > before[&key].token, "{key}");
    }
    world.dispatch_one(&b, "another").await;
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_for_a_moment_moves_nothing() {
    let world = World::on_redis().with_ttl(2 * TTL);
    let (a, b, keys, before) = at_work(&world, 20).await;
    world.read_only();
    let meanwhile = dispatch(&world, &b, "meanwhile");
    tokio::time::sleep(world.ttl() / 5).await;
    assert!(!meanwhile.is_finished());
    world.writable();
    meanwhile.await.unwrap().unwrap();
    world.history().accepted("meanwhile");
    let mut after = world.placed(&a, &keys).await;
    after.remove("meanwhile");
    assert_eq!(after, before);
    assert!(world.recorder.starts().values().all(|starts| *starts == 1));
    world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_its_data_is_waited_for() {
    let server = RedisServer::builder()
        .config("enable-debug-command", "yes")
        .config("rdbcompression", "no")
        .config("loading-process-events-interval-bytes", "1024")
        .start()
        .unwrap();
    let world = World::on_server(server);
    let (a, b, keys, before) = at_work(&world, 20).await;
    for n in 0..10 {
        world.tell(&["SET", &format!("filler{n}"), &"x".repeat(1_500)]);
    }
    world.tell(&["CONFIG", "SET", "key-load-delay", "100000"]);
    let mut connection = world.client();
    let reload = tokio::task::spawn_blocking(move || {
        redis::cmd("DEBUG").arg("RELOAD").query::<()>(&mut connection).unwrap();
    });
    let mut asking = world.client();
    until("the server to load", async || {
        let refused = redis::cmd("GET").arg("filler0").query::<redis::Value>(&mut asking).err();
        refused.is_some_and(|error| error.code() == Some("LOADING"))
    })
    .await;
    let meanwhile = dispatch(&world, &b, "meanwhile");
    let note = tokio::spawn({
        let (a, key) = (a.clone(), keys[0].clone());
        async move { a.notify(key.as_str(), "hello").await }
    });
    reload.await.unwrap();
    meanwhile.await.unwrap().unwrap();
    world.history().accepted("meanwhile");
    note.await.unwrap().unwrap();
    until("the notification", async || world.recorder.notes(&keys[0]) == ["hello"]).await;
    let mut after = world.placed(&a, &keys).await;
    assert!(after.remove("meanwhile").is_some());
    assert_eq!(after, before, "nothing was lost, nothing has moved");
    assert!(world.recorder.starts().values().all(|starts| *starts == 1));
    world.assert_clean();
}

/// Requests that write are refused at once, and nobody waits for memory.
async fn every_request_names_the_full_memory(node: &Node, key: &str) {
    let refused = [
        ("notify", node.notify(key, "hello").await.map(drop)),
        ("hold", node.operate().hold(true).await),
        ("park", node.operate().park(key, "the feed is bad").await),
        ("pause", node.operate().pause(key, "until their database is moved").await),
        ("bounce", node.operate().bounce(key).await),
        ("update", node.update((key, "other")).await.map(drop)),
        ("limit_moves", node.operate().limit_moves(7).await),
    ];
    for (request, answer) in refused {
        let Err(Error::Store(error)) = answer else { panic!("{request}: {answer:?}") };
        assert!(error.is_full() && error.to_string().contains("OOM"), "{request}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_keeps_what_runs_and_lets_it_end() {
    let world = World::on_redis().with_ttl(TTL);
    let (a, told) = (world.node("a").await, Arc::new(Notify::new()));
    let act = Act::StartWhenTold(told.clone());
    let slow = move |job: &Job| if job.key().as_bytes() == b"slow" { act.clone() } else { Act::Run };
    let worker = a.add_worker(world.recorder.acting(slow)).await.unwrap();
    let (keys, _) = world.dispatch_placed(&a, 20).await;
    let starting = dispatch(&world, &a, "slow");
    until("it to be starting", async || world.recorder.is_running("slow")).await;
    let b = world.node_with("b", 1).await;
    let mut before = world.placed(&a, &keys).await;
    before.remove("slow");
    let own = workers_on(&a).await;
    let stayed: Vec<_> = keys.iter().filter(|key| own.contains(&before[*key].owner)).collect();
    assert!(stayed.len() > 2);

    world.tell(&["CONFIG", "SET", "maxmemory", "1"]);
    let full = Instant::now();
    every_request_names_the_full_memory(&b, stayed[0]).await;
    let why = refused(&world, &b, "meanwhile").await;
    assert!(why.contains("OOM"), "{why}");
    // The caller learns that the job was begun. That does not wait for memory.
    told.notify_one();
    starting.await.unwrap().unwrap();
    world.history().accepted("slow");
    until("two leases to be over", async || full.elapsed() > 2 * world.ttl()).await;
    let mut after = world.holders(&b).await;
    after.remove("slow");
    assert_eq!(after, before, "all run on");
    let stopped = stayed[1].as_str();
    world.history().stop_requested(stopped);
    b.stop_job(stopped).until_stopped().await.unwrap();
    assert!(!world.recorder.is_running(stopped));
    // Its jobs end here, and begin elsewhere when they can be routed.
    worker.drain().await.unwrap();
    let running = world.recorder.running();
    assert!(stayed.iter().all(|key| !running.contains(*key)));

    world.tell(&["CONFIG", "SET", "maxmemory", "0"]);
    b.notify(stayed[0].as_str(), "hello").await.unwrap();
    until("the notification", async || world.recorder.notes(stayed[0]) == ["hello"]).await;
    world.dispatch_one(&b, "another").await;
    let left: Vec<_> = keys.iter().filter(|key| *key != stopped).cloned().collect();
    world.placed(&b, &left).await;
    world.assert_clean();
}
