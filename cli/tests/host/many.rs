//! Many jobs in a host that dies.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_pool::{JobInfo, JobKey, JobSpec, JobState, RestartPolicy};
use tenure_testing::eventually;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::world::{Host, PATIENCE, World, raw};

/// At least half of them are in the host that dies.
const KEYS: usize = 10_000;
/// How soon they run again.
const BOUND: Duration = Duration::from_secs(10);

/// The lines that a node writes to its standard error, as they come.
fn errors(host: &mut Host) -> Arc<Mutex<Vec<String>>> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let (mut lines, to) = (BufReader::new(host.guard.stderr.take().unwrap()).lines(), said.clone());
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            to.lock().unwrap().push(line);
        }
    });
    said
}

async fn jobs(world: &World) -> BTreeMap<JobKey, JobInfo> {
    world.node.inspect().jobs().await.unwrap().into_iter().map(|job| (job.key.clone(), job)).collect()
}

/// How often each key was started.
fn starts(world: &World) -> BTreeMap<String, usize> {
    let mut starts = BTreeMap::new();
    for line in world.lines("starts") {
        *starts.entry(line.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    starts
}

/// Prints how long it takes, and fails on its bound.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a check of speed: run it alone, with --release"]
async fn a_host_that_dies_with_5000_jobs_loses_none_and_harms_none() {
    let world = World::new().await;
    let args = ["--log-level", "error", "--logs", "null", "--limit", "nofile=20000", "--drain", "300s"];
    let mut command = world.command("h", 2, &args);
    command.args(["--", "env", "MAX_JOBS=20000"]).args(raw("good")).stderr(Stdio::piped());
    let mut host = Host { guard: command.spawn().unwrap() };
    let said = errors(&mut host);
    world.up("h", 2).await;
    // A job that had failed would be gone.
    let specs =
        (0..KEYS).map(|number| JobSpec::new(format!("key-{number}"), "").restart(RestartPolicy::Never));
    let started = world.node.dispatch_many(specs).deadline(PATIENCE).await;
    assert!(started.iter().all(Result::is_ok), "{:?}", started.iter().find(|it| it.is_err()));

    let before = jobs(&world).await;
    let mut owned = BTreeMap::<_, Vec<_>>::new();
    for job in before.values() {
        owned.entry(job.owner.unwrap()).or_default().push(job.key.clone());
    }
    assert_eq!(owned.len(), 2);
    let (dying, of_dying) = owned.into_iter().max_by_key(|(_, keys)| keys.len()).unwrap();
    let begun = Instant::now();
    world.node.notify(&of_dying[0], "dies").await.unwrap();
    let run_again = || async {
        let now = jobs(&world).await;
        let again = |key: &JobKey| {
            now.get(key).is_some_and(|job| job.state == JobState::Running && job.token > before[key].token)
        };
        match of_dying.iter().filter(|key| !again(key)).count() {
            0 => Ok(now),
            left => Err(format!("{left} of {} jobs do not run again", of_dying.len())),
        }
    };
    let after = eventually(PATIENCE, "all run again", run_again).await;
    let took = begun.elapsed();
    println!("{} jobs of a host that died run again after {took:?}", of_dying.len());

    let counts = starts(&world);
    for (key, job) in &before {
        let (now, count) = (&after[key], counts[key.as_str().unwrap()]);
        if job.owner == Some(dying) {
            assert_eq!(count, 2, "{key} was lost with its host");
        } else {
            let unchanged = (job.owner, job.token, JobState::Running);
            assert_eq!((now.owner, now.token, now.state), unchanged, "{key} has another host");
            assert_eq!(count, 1, "{key} has another host");
        }
    }
    assert_eq!(world.lines("overlaps"), Vec::<String>::new());
    let said = said.lock().unwrap().clone();
    let gone: Vec<_> = said.iter().filter(|line| line.contains("a host has gone")).collect();
    assert!(gone.len() == 1 && gone[0].contains("exit status 3"), "{said:?}");
    assert!(took < BOUND, "they took {took:?}");
    host.leave().await;
}
