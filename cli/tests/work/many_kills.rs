//! The ends of 100 keys with three processes each, within bounds of time: of the processes, and until the keys run elsewhere.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tenure_pool::JobSpec;
use tenure_testing::eventually;

use super::processes::Sleepers;
use super::world::{PATIENCE, SCRIPT, Worker, World, signal};

const KEYS: usize = 100;
const TTL: Duration = Duration::from_secs(5);
/// A job that has run for so long is no suspect.
const PROVEN: Duration = Duration::from_millis(100);
/// How long after a kill the last process has ended.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// How long after the last renewal the last process has ended while the node hangs.
fn after_stop() -> Duration {
    TTL * 4 / 5 + Duration::from_millis(200)
}

/// How long after a fault all keys run elsewhere.
fn elsewhere() -> Duration {
    TTL * 13 / 10
}

/// A process in the foreground, one in its group, and one that has left its session and its parents.
fn script(sleep: &str) -> String {
    format!("{sleep} & (setsid sh -c '({sleep} &)' </dev/null >/dev/null 2>&1 &); exec {sleep}")
}

/// One of the workers suffers. Prints how long things take, and fails on their bounds.
async fn suffers(name: &str, in_namespace: bool, bound: Duration, fault: impl Fn(&Worker)) {
    let world = World::with_ttl(TTL).await;
    world.node.operate().change_settings(|settings| settings.stable_run = PROVEN).await.unwrap();
    // In a namespace a killed guard would leave its cgroup to nobody.
    let cgroup = if in_namespace { "off" } else { "auto" };
    let args = [&["--logs", "null", "--cgroup", cgroup][..], &SCRIPT].concat();
    let worker = if in_namespace {
        let Some(worker) = world.start_in_namespace("first", args) else { return };
        worker
    } else {
        world.start("first", args)
    };
    world.up("first").await;
    // Nothing moves to the other one before the fault.
    world.node.operate().cordon("other").await.unwrap();
    let _other = world.worker("other", ["--logs", "null"].iter().chain(&SCRIPT)).await;
    let sleepers = Sleepers::new();
    let (all, sleep) = (3 * KEYS, sleepers.sleep());
    let jobs = (0..KEYS).map(move |number| JobSpec::new(format!("key-{number}"), script(&sleep)));
    let started = world.node.dispatch_many(jobs).deadline(PATIENCE).await;
    assert!(started.iter().all(Result::is_ok));
    eventually(PATIENCE, "all processes run", || async { sleepers.alive().len() == all }).await;
    // A worker that is lost is no fault of jobs that have run for long, and they do not pause.
    let have_proven_themselves = || async {
        let jobs = world.node.inspect().jobs().await.unwrap();
        jobs.iter().all(|job| job.since.elapsed().is_ok_and(|ago| ago > PROVEN * 2))
    };
    eventually(PATIENCE, "all have run for long enough", have_proven_themselves).await;
    let first: BTreeSet<_> = sleepers.alive().into_iter().map(Pid::as_raw_pid).collect();
    let (node, guard) = (worker.node(), worker.guard());

    let begun = Instant::now();
    fault(&worker);
    let of_first = || async {
        match sleepers.alive().iter().filter(|pid| first.contains(&pid.as_raw_pid())).count() {
            0 => Ok(()),
            left => Err(left),
        }
    };
    eventually(PATIENCE, "its processes end", of_first).await;
    let ended = begun.elapsed();
    world.node.operate().uncordon("other").await.unwrap();
    eventually(PATIENCE, "all keys run elsewhere", || async { sleepers.alive().len() == all }).await;
    let ran = begun.elapsed();
    let place = if in_namespace { "in a pid namespace" } else { "on the host" };
    println!(
        "{name} {place}: {all} processes have ended after {ended:?}, and {KEYS} keys run elsewhere after {ran:?}"
    );
    // One that was stopped would take no signal.
    for pid in [node, guard] {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
    assert!(ended < bound, "{name} {place}: they have ended after {ended:?}");
    assert!(ran < elsewhere(), "{name} {place}: they run after {ran:?}");
}

macro_rules! bounds {
    ($($name:ident: $said:literal, $bound:expr, $fault:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "a check of speed: run it alone, with --release"]
        async fn $name() {
            for in_namespace in [false, true] {
                suffers($said, in_namespace, $bound, $fault).await;
            }
        }
    )*};
}

bounds! {
    a_killed_node_s_100_keys_end_and_run_elsewhere_in_time:
        "a killed node", AFTER_KILL, |worker: &Worker| signal(worker.node(), Signal::KILL);
    a_killed_guard_s_100_keys_end_and_run_elsewhere_in_time:
        "a killed guard", AFTER_KILL, |worker: &Worker| signal(worker.guard(), Signal::KILL);
    a_stopped_node_s_100_keys_end_and_run_elsewhere_in_time:
        "a stopped node", after_stop(), |worker: &Worker| signal(worker.node(), Signal::STOP);
}
