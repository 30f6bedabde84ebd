//! How a program ends is what becomes of its job.

use rustix::process::Signal;
use tenure_pool::{DispatchError, JobSpec, JobState};
use tenure_testing::eventually;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::processes::{Sleepers, number_in};
use super::world::{PATIENCE, SCRIPT, Worker, World, signal};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_at_once_tells_its_dispatcher_why() {
    let (world, worker) = World::with_worker("w", ["--min-run", "10s"].iter().chain(&SCRIPT)).await;
    let error = world.node.dispatch(("acme", "echo cannot connect >&2; exit 3")).await.unwrap_err();
    assert!(error.to_string().contains("exit status 3: cannot connect"), "{error}");
    let error = world.node.dispatch(("segv", "kill -SEGV $$")).await.unwrap_err();
    assert!(error.to_string().contains("killed by SIGSEGV"), "{error}");
    assert!(world.node.inspect().jobs().await.unwrap().is_empty());
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_78_parks_the_job() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let error = world.node.dispatch(("acme", "echo no such plan >&2; exit 78")).await.unwrap_err();
    assert!(matches!(error, DispatchError::Parked), "{error}");
    let parked = world.node.inspect().parked().await.unwrap();
    assert_eq!(parked[0].error, "exit status 78: no such plan");
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_75_sends_the_job_back_without_an_attempt() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let script = "test -e $FOLDER/open && exec sleep 1000
        for line in $(seq 200); do echo \"trace $line\" >&2; done; printf '\\033[1mno licence\\n\\n' >&2; exit 75";
    world.node.submit(("acme", script)).await.unwrap();
    let refused = || async {
        world.node.inspect().job("acme").await.unwrap().and_then(|job| job.refusal).ok_or("not refused")
    };
    let told = eventually(PATIENCE, "the reason", refused).await;
    assert_eq!(told, "exit status 75: \\u{1b}[1mno licence");
    std::fs::write(world.file("open"), "").unwrap();
    let runs = || async {
        world.node.inspect().job("acme").await.unwrap().filter(|job| job.state == JobState::Running)
    };
    assert_eq!(eventually(PATIENCE, "it runs", runs).await.attempts, 1);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_its_work_ends_its_job() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    world.node.dispatch(("acme", "echo $TENURE_TOKEN > $FOLDER/done")).await.unwrap();
    world.line_in("done").await;
    world.gone("acme").await;
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_somebody_kills_runs_again() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let script = "echo $TENURE_TOKEN > $FOLDER/token; echo $$ > $FOLDER/pid; exec sleep 1000";
    world.node.dispatch(("acme", script)).await.unwrap();
    let (token, pid) = (world.line_in("token").await, number_in(&world.file("pid")));
    std::fs::remove_file(world.file("token")).unwrap();
    signal(pid.unwrap(), Signal::KILL);
    let again = world.line_in("token").await;
    assert!(again.trim().parse::<u64>().unwrap() > token.trim().parse().unwrap());
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_the_program_leaves_its_jobs_to_others() {
    let world = World::new().await;
    let program = world.file("program");
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    let lacks = world.worker("lacks", ["--", program.to_str().unwrap(), "{key}"]).await;
    std::fs::remove_file(program).unwrap();
    let has = world.worker("has", SCRIPT).await;
    for number in 0..8 {
        let job = JobSpec::new(format!("key-{number}"), "exec sleep 1000");
        world.node.dispatch(job).await.unwrap();
    }
    let jobs = world.node.inspect().jobs().await.unwrap();
    assert!(jobs.len() == 8 && jobs.iter().all(|job| job.node.as_deref() == Some("has")), "{jobs:?}");
    lacks.leave().await;
    has.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_leaves_ends_with_it() {
    let (world, worker) = World::with_worker("w", SCRIPT).await;
    let sleepers = Sleepers::new();
    let sleep = sleepers.sleep();
    let script = format!("(setsid {sleep} </dev/null >/dev/null 2>&1 &); {sleep} & exit 0");
    world.node.dispatch(("acme", script)).await.unwrap();
    world.gone("acme").await;
    assert_eq!(sleepers.alive(), []);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_silent_for_too_long_is_killed() {
    let (world, worker) = World::with_worker("w", ["--watchdog", "1s"].iter().chain(&SCRIPT)).await;
    let sleepers = Sleepers::new();
    world.node.dispatch(("acme", sleepers.sleep())).await.unwrap();
    world.gone("acme").await;
    assert_eq!(sleepers.alive(), []);
    worker.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_by_another_node_ends_the_worker() {
    let world = World::new().await;
    let mut worker = world.worker("w", SCRIPT).await;
    assert_eq!(world.node.operate().drain_node("w").await.unwrap(), 1);
    assert_eq!(worker.ended().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_told_to_end_before_it_joins_ends_in_order() {
    let world = World::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let redis = format!("redis://{}", silent.local_addr().unwrap());
    let mut command = world.command("w");
    let mut worker = Worker { guard: command.args(SCRIPT).env("REDIS_URL", redis).spawn().unwrap() };
    let _connection = timeout(PATIENCE, silent.accept()).await.expect("it connects").unwrap();
    signal(worker.guard(), Signal::TERM);
    assert_eq!(worker.ended().await.code(), Some(0));
}
