//! A hostile host hurts its own worker only: the jobs of others go on, its own run again, and a new host takes its place.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use tenure_pool::{JobInfo, JobSpec, JobState, RestartPolicy};
use tenure_testing::eventually;

use super::world::{Host, PATIENCE, World, raw};

/// Two workers with a host each, and a key in each.
struct Pair {
    world: World,
    host: Host,
    bad: JobInfo,
    good: JobInfo,
}

impl Pair {
    async fn new(args: &[&str]) -> Self {
        let world = World::new().await;
        let host = world.host("h", 2, &[&["--logs", "null"], args].concat(), &raw("good")).await;
        let [bad, good] = world.one_each().await;
        Self { world, host, bad, good }
    }

    /// The neighbour runs as before, and answers.
    async fn is_well(&self, beside: &str) {
        let job = self.world.running(self.good.key.as_str().unwrap()).await;
        assert_eq!(job.token, self.good.token, "beside {beside}");
        let answer = self.world.ask(self.good.key.as_str().unwrap(), "who").await.unwrap();
        assert_eq!(answer, self.good.key.as_bytes(), "beside {beside}");
    }

    /// The bad host is made anew, and its job runs again.
    async fn is_anew(&mut self, how: &str) {
        let key = self.bad.key.as_str().unwrap().to_owned();
        let again = || async {
            let job = self.world.node.inspect().job(&*key).await.unwrap();
            job.filter(|job| job.state == JobState::Running && job.token > self.bad.token)
        };
        self.bad = eventually(PATIENCE, &format!("{key} runs again: {how}"), again).await;
    }
}

/// Each of these in a run of its own: the second in a row makes a worker leave until its host is ready.
async fn hurts_its_own_worker_only(how: &str) {
    // Every other one is noticed by what it does.
    let args: &[&str] = if how == "hangs" { &["--host-deadline", "5s"] } else { &[] };
    let mut pair = Pair::new(args).await;
    let _ = pair.world.node.notify(&pair.bad.key, how.to_owned()).await;
    pair.world.line("misbehaves", how).await;
    pair.is_anew(how).await;
    pair.is_well(how).await;
    assert_eq!(pair.world.lines("overlaps"), Vec::<String>::new(), "{how}");
    pair.host.leave().await;
}

macro_rules! hostile {
    ($($name:ident: $how:literal,)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            hurts_its_own_worker_only($how).await;
        }
    )*};
}

hostile! {
    a_host_that_writes_garbage_is_made_anew: "garbage",
    a_host_that_says_an_unknown_word_is_made_anew: "no message",
    a_host_that_sends_a_line_of_2_mib_is_made_anew: "oversize",
    a_host_that_closes_in_mid_line_is_made_anew: "cut",
    a_host_that_closes_and_lives_on_is_made_anew: "closes",
    a_host_that_answers_for_another_job_is_made_anew: "unknown job",
    a_host_that_stops_what_it_should_not_is_made_anew: "unasked",
    a_host_that_acknowledges_a_wrong_number_is_made_anew: "wrong ack",
    a_host_that_answers_no_ping_of_ours_is_made_anew: "wrong pong",
    a_host_that_says_hello_again_is_made_anew: "second hello",
    a_host_whose_loop_is_blocked_is_made_anew: "hangs",
    a_host_that_exits_is_made_anew: "dies",
    a_host_that_is_killed_is_made_anew: "is killed",
    a_host_that_wants_to_go_is_made_anew: "bye",
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_ends_a_job_twice_is_made_anew() {
    let pair = Pair::new(&[]).await;
    let beside = (0..50).map(|number| format!("other-{number}"));
    for key in beside {
        pair.world.node.dispatch((&*key, "")).await.unwrap();
    }
    let hosts = |world: &World| {
        let starts = world.lines("starts");
        starts
            .iter()
            .filter_map(|line| line.rsplit(' ').next().map(str::to_owned))
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(hosts(&pair.world).len(), 2);
    pair.world.node.notify(&pair.bad.key, "twice").await.unwrap();
    // Its own job has ended well; all others of its host run again.
    eventually(PATIENCE, "a third host", || async { hosts(&pair.world).len() == 3 }).await;
    pair.is_well("twice").await;
    pair.host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_words_of_a_host_that_hears_nothing_count() {
    let pair = Pair::new(&[]).await;
    let key = pair.bad.key.as_str().unwrap().to_owned();
    let _ = pair.world.node.notify(&pair.bad.key, "last words").await;
    pair.world.line("misbehaves", "last words").await;
    let is_over = || async { pair.world.node.inspect().job(&*key).await.unwrap().is_none() };
    eventually(PATIENCE, "its job has ended", is_over).await;
    let starts = pair.world.lines("starts");
    let of_key = starts.iter().filter(|line| line.starts_with(&format!("{key} ")));
    assert_eq!(of_key.count(), 1, "it has ended, and was not lost");
    pair.is_well("last words").await;
    pair.host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_floods_hurts_its_own_worker_only() {
    let pair = Pair::new(&[]).await;
    pair.world.node.notify(&pair.bad.key, "floods").await.unwrap();
    pair.world.line("misbehaves", "floods").await;
    for _ in 0..20 {
        pair.is_well("floods").await;
    }
    pair.host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_host_beyond_256_are_refused_at_once() {
    let pair = Pair::new(&[]).await;
    pair.world.node.notify(&pair.bad.key, "asks itself").await.unwrap();
    let all = || async { pair.world.lines("answers").len() == 300 };
    eventually(PATIENCE, "each has its answer", all).await;
    let busy = pair.world.lines("answers").iter().filter(|code| *code == "busy").count();
    assert_eq!(busy, 300 - 256);
    // The host goes on.
    let bad = pair.bad.key.as_str().unwrap();
    assert_eq!(pair.world.running(bad).await.token, pair.bad.token);
    pair.is_well("asks itself").await;
    pair.host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_an_answer_costs_its_host_only() {
    let mut pair = Pair::new(&["--start-timeout", "5s", "--grace", "3s"]).await;
    // It is on the worker of the bad key, or of the good one.
    let error = pair.world.node.dispatch(("mute", "")).await.unwrap_err();
    assert!(error.to_string().contains("too long to start"), "{error}");
    let [first, second] = [&pair.bad, &pair.good].map(|job| job.key.as_str().unwrap().to_owned());
    let (first, second) = (pair.world.running(&first).await, pair.world.running(&second).await);
    assert!(first.token == pair.bad.token || second.token == pair.good.token, "one of both goes on");
    (pair.bad, pair.good) = (first, second);
    pair.world.up("h", 2).await;
    pair.host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_does_not_stop_costs_its_host_only() {
    let pair = Pair::new(&["--grace", "3s"]).await;
    let mut numbers = 0..;
    let stuck = loop {
        let key = format!("stuck-{}", numbers.next().unwrap());
        pair.world.node.dispatch((&*key, "")).await.unwrap();
        if pair.world.running(&key).await.owner == pair.bad.owner {
            break key;
        }
    };
    pair.world.node.stop_job(&*stuck).until_stopped().await.unwrap();
    // The rest of its worker was handed on, in order.
    pair.is_well("stuck").await;
    let bad = pair.bad.key.as_str().unwrap();
    pair.world.running(bad).await;
    assert_eq!(pair.world.lines("overlaps"), Vec::<String>::new());
    assert!(
        pair.world.lines("stops").contains(&format!("{bad} draining")),
        "{:?}",
        pair.world.lines("stops")
    );
    pair.world.up("h", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_host_refuses_further_jobs() {
    let world = World::new().await;
    // Its variable is the node's.
    let host = world
        .host(
            "h",
            1,
            &["--logs", "null"],
            &["env".to_owned(), "MAX_JOBS=2".to_owned()].into_iter().chain(raw("good")).collect::<Vec<_>>(),
        )
        .await;
    for key in ["a", "b", "c"] {
        world.node.submit((key, "")).await.unwrap();
    }
    let two = || async { world.lines("starts").len() == 2 };
    eventually(PATIENCE, "two run", two).await;
    let running = || async {
        let jobs = world.node.inspect().jobs().await.unwrap();
        let waits = jobs.iter().filter(|job| job.state == JobState::Queued && job.strikes > 0).count();
        jobs.len() == 3 && waits == 1
    };
    eventually(PATIENCE, "one was refused", running).await;
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_version_is_refused_once() {
    let world = World::new().await;
    let mut host = world.start("h", 1, &["--logs", "null"], &raw("v99"));
    assert_eq!(host.ended().await.code(), Some(78));
    assert_eq!(world.lines("refused"), ["this node speaks version 1 of the host protocol, the host [99]"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_be_started_ends_the_node() {
    let world = World::new().await;
    let mut host = world.start("h", 1, &["--logs", "null"], &["/no/such/host".to_owned()]);
    assert_eq!(host.ended().await.code(), Some(78));
}

/// A job waits for a good host, however hosts fail before their hello.
async fn fails_no_job(mode: &str, patience: &str) {
    let world = World::new().await;
    let bad = world.start("bad", 1, &["--logs", "null", "--hello-timeout", patience], &raw(mode));
    let job = tenure_pool::JobSpec::new("acme", "").restart(RestartPolicy::Never);
    world.node.submit(job).await.unwrap();
    eventually(PATIENCE, "three attempts", || async { world.lines("hosts").len() >= 3 }).await;
    let job = world.node.inspect().job("acme").await.unwrap().unwrap();
    assert_eq!((job.attempts, job.state), (0, JobState::Queued), "{mode}");
    drop(bad);
    let good = world.host("good", 1, &["--logs", "null"], &raw("good")).await;
    assert_eq!(world.running("acme").await.attempts, 1);
    good.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_exits_before_its_hello_fails_no_job() {
    fails_no_job("exits", "60s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_never_says_hello_fails_no_job() {
    fails_no_job("mute", "4s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_babbles_before_its_hello_fails_no_job() {
    fails_no_job("babbles", "60s").await;
    fails_no_job("early", "60s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_at_the_socket_is_refused() {
    let world = World::new().await;
    let wait =
        "echo $TENURE_SOCKET > $FOLDER/socket; until [ -e $FOLDER/go ]; do sleep 0.05; done; exec \"$@\"";
    let command: Vec<_> =
        ["sh", "-c", wait, "sh"].map(str::to_owned).into_iter().chain(raw("good")).collect();
    let host = world.start("h", 1, &["--logs", "null"], &command);
    let socket = PathBuf::from(world.line("socket", "/").await);
    let folder = std::fs::metadata(socket.parent().unwrap()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    // It is of the same user, but nobody has started it.
    let mut stranger = UnixStream::connect(&socket).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may be closed by then.
    let _ = stranger.write_all(b"{\"op\":\"hello\",\"v\":[1],\"sdk\":\"stranger\"}\n");
    let mut heard = Vec::new();
    // The connection is closed, or reset because its hello was not read.
    let _ = stranger.read_to_end(&mut heard);
    assert_eq!(String::from_utf8_lossy(&heard), "");
    std::fs::write(world.folder.path().join("go"), "").unwrap();
    world.up("h", 1).await;
    world.node.dispatch(("acme", "")).await.unwrap();
    assert!(UnixStream::connect(&socket).is_err(), "the socket takes one connection");
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_while_it_is_updated_runs_with_the_update() {
    let world = World::new().await;
    let host = world.host("h", 1, &["--logs", "null"], &raw("good")).await;
    world.node.dispatch(("acme", "")).await.unwrap();
    let token = world.running("acme").await.token;
    world.node.update(("acme", "true")).await.unwrap();
    let again =
        || async { world.node.inspect().job("acme").await.unwrap().is_some_and(|job| job.token > token) };
    eventually(PATIENCE / 2, "it starts again, and nothing waits for its update", again).await;
    assert_eq!(world.running("acme").await.generation, 1);
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_starts_and_ends_at_once_has_started() {
    let world = World::new().await;
    let host = world.host("h", 1, &["--logs", "null"], &raw("good")).await;
    let brief = JobSpec::new("brief", "").restart(RestartPolicy::Never);
    world.node.dispatch(brief).await.unwrap();
    world.gone("brief").await;
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_outlives_a_handoff_that_takes_too_long() {
    let world = World::new().await;
    // The time of the handoff is over long before the job counts as stuck.
    let args = ["--logs", "null", "--grace", "600s", "--handoff", "200ms"];
    let mut host = world.host("h", 1, &args, &raw("good")).await;
    for key in ["stuck", "acme"] {
        world.node.dispatch((key, "")).await.unwrap();
    }
    let _ = world.node.notify("acme", "bye").await;
    let again = || async {
        let starts = world.lines("starts");
        ["stuck ", "acme "].iter().all(|key| starts.iter().filter(|line| line.starts_with(key)).count() == 2)
    };
    eventually(PATIENCE, "both run again", again).await;
    assert_eq!(host.guard.try_wait().unwrap(), None, "the node lives");
    assert_eq!(world.lines("overlaps"), Vec::<String>::new());
}
