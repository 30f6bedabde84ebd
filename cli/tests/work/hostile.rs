//! A hostile program hurts its own key only.

use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use rustix::process::Pid;
use tenure_pool::JobSpec;
use tenure_testing::eventually;

use super::processes::{Sleepers, number_in};
use super::world::{PATIENCE, SCRIPT, Worker, World};

/// A worker with a job beside which others misbehave.
struct Neighbour {
    world: World,
    worker: Worker,
    good: Pid,
    token: tenure_pool::Token,
}

impl Neighbour {
    async fn new(args: &[&str]) -> Self {
        let world = World::new().await;
        let always = ["--grace", "300ms", "--logs", "prefix"];
        let worker = world.worker("w", always.iter().chain(args).chain(&SCRIPT)).await;
        world.node.dispatch(("good", "echo $$ > $FOLDER/good; exec sleep 1000")).await.unwrap();
        world.line_in("good").await;
        let good = number_in(&world.file("good")).unwrap();
        let token = world.node.inspect().job("good").await.unwrap().unwrap().token;
        Self { world, worker, good, token }
    }

    /// The neighbour runs as before, and others start and stop.
    async fn is_well(&self, beside: &str) {
        let node = &self.world.node;
        let job = node.inspect().job("good").await.unwrap().unwrap();
        assert_eq!(job.token, self.token, "beside {beside}");
        rustix::process::test_kill_process(self.good).unwrap();
        node.dispatch(("probe", "exec sleep 1000")).await.unwrap();
        node.stop_job("probe").until_stopped().await.unwrap();
    }

    /// Runs this script under a key of its own until it has some sleepers, looks at the neighbour, and stops it.
    async fn beside(&self, name: &str, sleepers: usize, script: impl Fn(&str) -> String) {
        let own = Sleepers::new();
        self.world.node.submit((name, script(&own.sleep()))).await.unwrap();
        eventually(PATIENCE, name, || async { own.alive().len() >= sleepers }).await;
        self.is_well(name).await;
        self.world.stop(name).await;
        assert_eq!(own.alive(), [], "{name}");
    }

    async fn end(self) {
        self.is_well("nobody").await;
        self.worker.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_forks_and_forks_ends_when_it_is_stopped() {
    for cgroup in ["auto", "off"] {
        let good = Neighbour::new(&["--cgroup", cgroup]).await;
        let many = |sleep: &str| format!("for i in $(seq 200); do setsid {sleep} & done; wait");
        good.beside("200 sessions", 200, many).await;
        let bomb = |sleep: &str| {
            format!("for i in 1 2; do setsid sh -c 'while :; do {sleep} & sleep 0.003; done' & done; wait")
        };
        good.beside("forks on", 50, bomb).await;
        good.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ignores_signals_is_killed() {
    let good = Neighbour::new(&[]).await;
    good.beside("ignores", 1, |sleep| {
        format!("trap '' TERM INT HUP QUIT; {sleep} & while :; do wait; sleep 1; done")
    })
    .await;
    let stops =
        |sleep: &str| format!("{sleep} & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP 0; wait");
    good.beside("stops itself", 1, stops).await;
    good.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_floods_its_output_hurts_itself_only() {
    let good = Neighbour::new(&[]).await;
    good.beside("yes", 1, |sleep| format!("{sleep} & yes & yes >&2 & wait")).await;
    good.beside("one line", 1, |sleep| format!("{sleep} & cat /dev/zero & wait")).await;
    good.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_closes_its_files_hurts_itself_only() {
    let good = Neighbour::new(&[]).await;
    good.beside("closes all", 1, |sleep| format!("exec 0<&- 1>&- 2>&-; exec {sleep}")).await;
    good.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fights_its_keeper_hurts_itself_only() {
    let good = Neighbour::new(&[]).await;
    good.beside("stops its keeper", 2, |sleep| format!("{sleep} & setsid {sleep} & kill -STOP $PPID; wait"))
        .await;
    // It runs again and again, until it is stopped.
    good.beside("kills its keeper", 1, |sleep| {
        format!("(setsid {sleep} &); {sleep} & sleep 0.3; kill -KILL $PPID; wait")
    })
    .await;
    good.beside("kills its group", 1, |sleep| format!("setsid {sleep} & sleep 0.3; kill -KILL 0")).await;
    good.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_never_ready_hurts_itself_only() {
    let world = World::new().await;
    let args = ["--ready", "notify", "--start-timeout", "1s", "--grace", "100ms"];
    let worker = world.worker("w", args.iter().chain(&SCRIPT)).await;
    let own = Sleepers::new();
    let script =
        format!("trap '' TERM; echo $TENURE_ATTEMPT > $FOLDER/attempt; {0} & {0} & wait", own.sleep());
    world.node.submit(("mute", script)).await.unwrap();
    // It is tried again, so the first attempt has ended.
    let again = || async { std::fs::read_to_string(world.file("attempt")).is_ok_and(|text| text == "2\n") };
    eventually(PATIENCE, "it is tried again", again).await;
    let tenure = snapbox::cmd::cargo_bin!("tenure");
    world.node.dispatch(("good", format!("{} ctl ready; exec sleep 1000", tenure.display()))).await.unwrap();
    world.node.stop_job("mute").until_stopped().await.unwrap();
    assert_eq!(own.alive(), []);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_at_once_hurts_itself_only() {
    let good = Neighbour::new(&["--min-run", "0s"]).await;
    for number in 0..50 {
        let job =
            JobSpec::new(format!("short-{number}"), "exit 1").restart(tenure_pool::RestartPolicy::OnFailure);
        good.world.node.submit(job).await.unwrap();
    }
    good.is_well("many that fail").await;
    good.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_its_payload_hurts_nobody() {
    let (world, worker) =
        World::with_worker("w", ["--", "sh", "-c", "echo 1 > $FOLDER/on; exec sleep 1000"]).await;
    world.node.dispatch(("acme", vec![b'x'; 500_000])).await.unwrap();
    world.line_in("on").await;
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rubbish_at_the_desk_hurts_its_own_key_only() {
    let good = Neighbour::new(&["--watchdog", "10m"]).await;
    let own = Sleepers::new();
    let script = format!(
        "echo $NOTIFY_SOCKET > $FOLDER/notify; echo $TENURE_SOCKET > $FOLDER/desk; exec {}",
        own.sleep()
    );
    good.world.node.dispatch(("loud", script)).await.unwrap();
    let (desk, notify) = (good.world.line_in("desk").await, good.world.line_in("notify").await);
    let rubbish = UnixDatagram::unbound().unwrap();
    for bytes in [&b""[..], b"=", b"\xff\xfe", b"READY", &[b'='; 10_000]] {
        rubbish.send_to(bytes, notify.trim()).unwrap();
    }
    // More talks than are served, and none of them asks.
    let silent: Vec<_> = (0..40).map(|_| UnixStream::connect(desk.trim()).unwrap()).collect();
    for bytes in [
        &b"\n"[..],
        b"{}\n",
        b"{\"op\":\"rule\"}\n",
        b"\xff\n",
        b"{\"op\":\"checkpoint\",\"body64\":\"?\"}\n",
    ] {
        let mut talk = UnixStream::connect(desk.trim()).unwrap();
        talk.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        talk.write_all(bytes).unwrap();
    }
    good.is_well("rubbish").await;
    drop(silent);
    let mut long = UnixStream::connect(desk.trim()).unwrap();
    long.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let _ = long.write_all(&vec![b'x'; 4 << 20]);
    good.is_well("a long line").await;
    good.world.node.stop_job("loud").until_stopped().await.unwrap();
    assert_eq!(own.alive(), []);
    good.end().await;
}
