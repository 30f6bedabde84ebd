//! Attach mode: hosts that somebody else runs, and that nothing of the node can kill.
//!
//! The judge of a peer that vanishes is the time that it was last told. The peer writes that down, and the next host of a key
//! writes down when it has started the key. Both go by the clock of the machine.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal};
use rustix::time::{ClockId, clock_gettime};
use tenure_pool::JobState;
use tenure_testing::eventually;
use tokio::process::{Child, Command};

use super::world::{Host, PATIENCE, SHORT, World, python, raw, signal};

impl World {
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("attach")
    }

    /// Starts a node for hosts that attach, and waits for its socket.
    pub(crate) async fn attach(&self, name: &str, workers: usize, args: &[&str]) -> Host {
        let mut node = self.command(name, workers, args);
        node.arg("--attach").arg(self.socket());
        let host = Host { guard: node.spawn().unwrap() };
        // It has a name before it listens.
        eventually(PATIENCE, "it listens", || async { UnixStream::connect(self.socket()).is_ok() }).await;
        host
    }

    /// Starts a host that nobody but the test can end, with this variable for the socket.
    pub(crate) fn peer(&self, variable: &str, command: &[String]) -> Child {
        let mut peer = Command::new(&command[0]);
        peer.args(&command[1..]).env(variable, self.socket()).env("FOLDER", self.folder.path());
        peer.stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap()
    }

    fn obedient(&self) -> Child {
        self.peer("TENURE_SOCKET", &raw("obeys"))
    }

    /// A node with one worker, and its host, which keeps to the leases that it is told.
    async fn obeyed(&self, args: &[&str]) -> (Host, Child) {
        let node = self.attach("a", 1, args).await;
        let host = self.obedient();
        self.up("a", 1).await;
        (node, host)
    }

    /// Until when a process was told at last that its lease lasts.
    fn told(&self, peer: u32) -> u64 {
        let lines = self.lines("leases");
        let of_peer = lines.iter().filter_map(|line| line.strip_prefix(&format!("{peer} ")));
        of_peer.map(|until| until.parse().unwrap()).max().expect("it was told of a lease")
    }

    /// From when on the jobs of a process that has vanished may run elsewhere.
    fn free(&self, peer: u32) -> u64 {
        self.told(peer) + u64::try_from(SHORT.as_millis()).unwrap() / 5
    }

    /// When which key was started by another process than this one, for the first time.
    fn starts_beside(&self, peer: u32) -> BTreeMap<String, u64> {
        let mut starts = BTreeMap::new();
        for line in self.lines("times") {
            let words: Vec<_> = line.split(' ').collect();
            if words[1] != peer.to_string() {
                starts.entry(words[0].to_owned()).or_insert(words[2].parse().unwrap());
            }
        }
        starts
    }

    fn keys_of(&self, peer: u32) -> Vec<String> {
        let starts = self.lines("starts");
        let of_peer = starts.iter().filter(|line| line.ends_with(&format!(" {peer}")));
        of_peer.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    /// Waits until each of these keys has run beside this process. None may have started before its lease was over.
    async fn moved_in_time(&self, peer: u32, keys: &[String]) {
        let all = || async {
            let starts = self.starts_beside(peer);
            keys.iter().all(|key| starts.contains_key(key)).then_some(starts)
        };
        let starts = eventually(PATIENCE, "all its keys run again", all).await;
        let free = self.free(peer);
        for key in keys {
            assert!(starts[key] >= free, "{key} was started {} ms too early", free - starts[key]);
        }
        assert_eq!(self.lines("overlaps"), Vec::<String>::new());
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000 + u64::try_from(now.tv_nsec).unwrap() / 1_000_000
}

/// A peer goes in this way, and another takes its worker.
async fn keys_wait_for_the_told_lease(how: &str) {
    let world = World::with_ttl(SHORT).await;
    let (node, first) = world.obeyed(&["--host-deadline", "2s"]).await;
    // It takes the worker in the moment in which the first one vanishes.
    let second = world.obedient();
    world.line("waits", &second.id().unwrap().to_string()).await;
    let peer = first.id().unwrap();
    for number in 0..5 {
        world.node.dispatch((format!("key-{number}"), "")).await.unwrap();
    }
    let keys = world.keys_of(peer);
    assert_eq!(keys.len(), 5);
    let _ = world.node.notify("key-0", how.to_owned()).await;
    world.line("misbehaves", how).await;
    world.moved_in_time(peer, &keys).await;
    node.leave().await;
}

macro_rules! vanishing {
    ($($name:ident: $how:literal,)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            keys_wait_for_the_told_lease($how).await;
        }
    )*};
}

vanishing! {
    keys_of_a_killed_peer_wait_for_its_lease: "is killed",
    keys_of_a_peer_that_closes_wait_for_its_lease: "closes",
    keys_of_a_peer_that_writes_garbage_wait_for_its_lease: "garbage",
    keys_of_a_peer_that_hangs_run_again_after_its_lease: "hangs",
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_a_vanished_peer_go_elsewhere_after_its_lease() {
    let world = World::with_ttl(SHORT).await;
    let (node, first) = world.obeyed(&[]).await;
    let other = world.host("b", 1, &["--logs", "null"], &raw("obeys")).await;
    world.one_each().await;
    let peer = first.id().unwrap();
    let keys = world.keys_of(peer);
    let _ = world.node.notify(&*keys[0], "closes").await;
    world.line("misbehaves", "closes").await;
    world.moved_in_time(peer, &keys).await;
    // Without a host its worker is no member, and takes no keys.
    world.up("a", 0).await;
    for number in 0..5 {
        world.node.dispatch((format!("later-{number}"), "")).await.unwrap();
    }
    let _second = world.obedient();
    world.up("a", 1).await;
    node.leave().await;
    other.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_job_of_a_peer_is_free_after_its_lease() {
    let world = World::with_ttl(SHORT).await;
    let (node, first) = world.obeyed(&["--grace", "500ms"]).await;
    for key in ["stuck", "acme"] {
        world.node.dispatch((key, "")).await.unwrap();
    }
    let peer = first.id().unwrap();
    world.node.stop_job("stuck").until_stopped().await.unwrap();
    let stopped = now();
    assert!(stopped >= world.free(peer), "it was free {} ms too early", world.free(peer) - stopped);
    // The other one was handed on, in order, and runs where the next peer is. A peer that comes before the place is free is
    // refused.
    world.up("a", 0).await;
    let _second = world.obedient();
    let again = || async { world.starts_beside(peer).contains_key("acme") };
    eventually(PATIENCE, "the other one runs again", again).await;
    assert!(world.lines("stops").contains(&"acme draining".to_owned()), "{:?}", world.lines("stops"));
    assert_eq!(world.lines("overlaps"), Vec::<String>::new());
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_peer_waits_for_a_stuck_job_that_is_alone() {
    let world = World::with_ttl(SHORT).await;
    let (node, first) = world.obeyed(&["--grace", "500ms"]).await;
    world.node.dispatch(("stuck", "")).await.unwrap();
    let peer = first.id().unwrap();
    let _second = world.obedient();
    world.node.stop_job("stuck").await.unwrap();
    world.node.submit(("acme", "")).await.unwrap();
    world.moved_in_time(peer, &["acme".to_owned()]).await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_peer_has_a_worker_and_one_more_is_refused() {
    let world = World::new().await;
    let node = world.attach("a", 2, &[]).await;
    let _pair = [world.peer("TENURE_SOCKET", &raw("good")), world.peer("TENURE_SOCKET", &raw("good"))];
    world.up("a", 2).await;
    world.one_each().await;
    let mut third = world.peer("TENURE_SOCKET", &raw("good"));
    assert_eq!(third.wait().await.unwrap().code(), Some(78));
    assert_eq!(world.lines("refused"), ["each worker of this node has a host"]);
    // One of another version is refused for good, and the node goes on.
    let mut old = world.peer("TENURE_SOCKET", &raw("v99"));
    assert_eq!(old.wait().await.unwrap().code(), Some(78));
    world.up("a", 2).await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_peer_takes_no_keys() {
    let world = World::new().await;
    let node = world.attach("a", 1, &[]).await;
    // It answers once it has joined.
    let mut old = world.peer("TENURE_SOCKET", &raw("v99"));
    assert_eq!(old.wait().await.unwrap().code(), Some(78));
    world.node.submit(("acme", "")).await.unwrap();
    let good = world.host("good", 1, &["--logs", "null"], &raw("good")).await;
    assert_eq!(world.running("acme").await.attempts, 1);
    for number in 0..5 {
        world.node.dispatch((format!("key-{number}"), "")).await.unwrap();
    }
    assert!(world.node.inspect().workers().await.unwrap().iter().all(|worker| worker.node != "a"));
    good.leave().await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_end_stops_its_peers_jobs() {
    let world = World::new().await;
    let node = world.attach("a", 1, &["--socket-mode", "660"]).await;
    let mode = std::fs::metadata(world.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let mut peer = world.peer("TENURE_SOCKET", &raw("good"));
    world.up("a", 1).await;
    world.node.dispatch(("acme", "")).await.unwrap();
    node.leave().await;
    assert_eq!(world.lines("stops"), ["acme draining"]);
    assert_eq!(peer.wait().await.unwrap().code(), Some(0), "it was told that there is nothing more to do");
    assert!(!world.socket().exists());
    assert_eq!(world.node.inspect().job("acme").await.unwrap().unwrap().state, JobState::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_attaches_again_after_its_node_was_killed() {
    let world = World::with_ttl(SHORT).await;
    // It waits for the socket.
    let mut peer = world.peer("TENURE_ATTACH", &python());
    let mut node = world.attach("a", 1, &[]).await;
    world.up("a", 1).await;
    world.node.dispatch(("acme", r#"{"do":"run"}"#)).await.unwrap();
    assert_eq!(world.ask("acme", "hi").await.unwrap(), "acme:hi");
    let token = world.running("acme").await.token;
    signal(node.guard(), Signal::KILL);
    node.ended().await;
    assert!(world.socket().exists(), "it had no time to remove it");
    // The node ends after its guard.
    eventually(PATIENCE, "nobody listens", || async { UnixStream::connect(world.socket()).is_err() }).await;
    let node = world.attach("b", 1, &[]).await;
    let again =
        || async { world.node.inspect().job("acme").await.unwrap().is_some_and(|job| job.token > token) };
    eventually(PATIENCE, "the job runs again", again).await;
    assert_eq!(world.ask("acme", "hi").await.unwrap(), "acme:hi");
    // It hands its jobs on before it ends.
    signal(Pid::from_raw(peer.id().unwrap().cast_signed()).unwrap(), Signal::TERM);
    assert_eq!(peer.wait().await.unwrap().code(), Some(0));
    assert_eq!(world.node.inspect().job("acme").await.unwrap().unwrap().state, JobState::Queued);
    node.leave().await;
}

#[tokio::test]
async fn a_node_has_a_program_or_a_socket_for_its_hosts() {
    let world = World::new().await;
    for args in
        [&["--attach", "x", "--", "true"][..], &["--attach", "x", "--check"], &[], &["--socket-mode", "660"]]
    {
        let mut node = Host { guard: world.command("a", 1, args).spawn().unwrap() };
        assert_eq!(node.ended().await.code(), Some(2), "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_replaces_no_file_and_no_socket_in_use() {
    let world = World::new().await;
    let refused = async |code| {
        let mut node = world.command("a", 1, &[]);
        node.arg("--attach").arg(world.socket());
        let mut node = Host { guard: node.spawn().unwrap() };
        assert_eq!(node.ended().await.code(), Some(code));
    };
    std::fs::write(world.socket(), "mine").unwrap();
    refused(2).await;
    assert_eq!(std::fs::read_to_string(world.socket()).unwrap(), "mine");
    std::fs::remove_file(world.socket()).unwrap();
    let _listener = UnixListener::bind(world.socket()).unwrap();
    refused(1).await;
    assert!(world.socket().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_leave_a_worker_whose_peers_fail_in_a_loop() {
    let world = World::with_ttl(SHORT).await;
    let node = world.attach("a", 1, &[]).await;
    let looper = world.peer("TENURE_SOCKET", &raw("loops"));
    world.up("a", 1).await;
    let good = world.host("good", 1, &["--logs", "null"], &raw("good")).await;
    let (pid, keys) = (looper.id().unwrap(), (0..10).map(|number| format!("key-{number}")));
    let keys: Vec<_> = keys.collect();
    for key in &keys {
        world.node.submit((&**key, "")).await.unwrap();
    }
    let breached = || async { world.keys_of(pid).len() };
    eventually(PATIENCE, "it got a key", || async { breached().await > 0 }).await;
    let mine = |line: &String| line.ends_with(&format!(" {pid}"));
    let arrived = || async {
        let starts = world.lines("starts");
        let elsewhere =
            |key: &String| starts.iter().any(|line| !mine(line) && line.starts_with(&format!("{key} ")));
        keys.iter().all(elsewhere)
    };
    eventually(PATIENCE, "all keys run at the good node", arrived).await;
    node.leave().await;
    good.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_hangs_after_its_hello_gets_no_keys() {
    let world = World::new().await;
    let node = world.attach("a", 1, &["--host-deadline", "1s"]).await;
    let _frozen = world.peer("TENURE_SOCKET", &raw("frozen"));
    world.line("ends", "frozen").await;
    // A worker that had joined would still keep its place.
    assert!(world.node.inspect().workers().await.unwrap().iter().all(|worker| worker.node != "a"));
    let _good = world.obedient();
    world.up("a", 1).await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_comes_while_its_node_leaves_is_refused() {
    let world = World::new().await;
    let mut node = world.attach("a", 2, &["--grace", "600s"]).await;
    let mut first = world.peer("TENURE_SOCKET", &raw("good"));
    world.up("a", 1).await;
    world.node.dispatch(("stuck", "")).await.unwrap();
    signal(node.guard(), Signal::TERM);
    world.line("stops", "stuck draining").await;
    let mut late = world.peer("TENURE_SOCKET", &raw("good"));
    assert_eq!(late.wait().await.unwrap().code(), Some(78));
    assert_eq!(world.lines("refused"), ["the node is leaving"]);
    // The node still cares for the other one.
    assert_eq!(first.try_wait().unwrap(), None);
    assert_eq!(node.guard.try_wait().unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_comes_as_its_node_leaves_holds_nothing_up() {
    let world = World::new().await;
    world.node.submit(("acme", "")).await.unwrap();
    for round in 1..=10 {
        let mut node = world.attach("a", 1, &[]).await;
        let mut peer = world.peer("TENURE_SOCKET", &raw("good"));
        // It connects now.
        let comes = || async { world.lines("hosts").len() == round };
        eventually(PATIENCE, "a host comes", comes).await;
        signal(node.guard(), Signal::TERM);
        assert_eq!(node.ended().await.code(), Some(0), "round {round}");
        peer.wait().await.unwrap();
        assert_eq!(world.node.inspect().job("acme").await.unwrap().unwrap().state, JobState::Queued);
    }
    assert_eq!(world.lines("overlaps"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_names_no_version_is_told_so() {
    let world = World::new().await;
    let node = world.attach("a", 1, &[]).await;
    let mut peer = world.peer("TENURE_SOCKET", &raw("no version"));
    assert_eq!(peer.wait().await.unwrap().code(), Some(78));
    let why = "this node speaks version 1 of the host protocol, the host names none";
    assert_eq!(world.lines("refused"), [why]);
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_keep_no_peer_out() {
    let world = World::new().await;
    let node = world.attach("a", 1, &["--hello-timeout", "600s"]).await;
    let _silent: Vec<_> = (0..70).map(|_| UnixStream::connect(world.socket()).unwrap()).collect();
    let _peer = world.obedient();
    world.up("a", 1).await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_wait_for_the_told_lease_while_the_node_leaves() {
    let world = World::with_ttl(SHORT).await;
    let (mut node, first) = world.obeyed(&[]).await;
    let other = world.host("b", 1, &["--logs", "null"], &raw("obeys")).await;
    world.one_each().await;
    let peer = first.id().unwrap();
    let keys = world.keys_of(peer);
    let _ = world.node.notify(&*keys[0], "closes").await;
    world.line("misbehaves", "closes").await;
    signal(node.guard(), Signal::TERM);
    world.moved_in_time(peer, &keys).await;
    assert_eq!(node.ended().await.code(), Some(0), "it has left in order");
    other.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_node_at_a_socket_ends_and_the_first_serves_on() {
    let world = World::new().await;
    let node = world.attach("a", 1, &[]).await;
    let mut second = world.command("b", 1, &[]);
    second.arg("--attach").arg(world.socket());
    let mut second = Host { guard: second.spawn().unwrap() };
    assert_eq!(second.ended().await.code(), Some(1));
    let _peer = world.obedient();
    world.up("a", 1).await;
    node.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_socket_was_removed_hands_on_and_ends() {
    let world = World::new().await;
    let mut node = world.attach("a", 1, &[]).await;
    let mut peer = world.peer("TENURE_SOCKET", &raw("good"));
    world.up("a", 1).await;
    world.node.dispatch(("acme", "")).await.unwrap();
    std::fs::remove_file(world.socket()).unwrap();
    assert_eq!(node.ended().await.code(), Some(1));
    assert_eq!(world.lines("stops"), ["acme draining"]);
    assert_eq!(peer.wait().await.unwrap().code(), Some(0));
}
