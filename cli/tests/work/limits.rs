//! A job beyond its limits hurts its own key only, and its error names the limit.

use tenure_pool::{JobSpec, JobState, RestartPolicy};
use tenure_testing::eventually;

use super::processes::Sleepers;
use super::world::{PATIENCE, SCRIPT, Worker, World};

/// A worker with these options, whose jobs run beside one that sleeps.
struct Stage {
    world: World,
    worker: Worker,
    neighbour: Sleepers,
}

impl Stage {
    async fn new(args: &[&str]) -> Self {
        let (world, worker) = World::with_worker("w", args.iter().chain(&SCRIPT)).await;
        let neighbour = Sleepers::new();
        world.node.dispatch(("neighbour", format!("exec {}", neighbour.sleep()))).await.unwrap();
        Self { world, worker, neighbour }
    }

    /// The error of a job that runs this script until it fails.
    async fn error_of(&self, script: &str) -> String {
        let job = JobSpec::new("greedy", script.to_owned()).restart(RestartPolicy::OnFailure);
        self.world.node.submit(job).await.unwrap();
        let error =
            || async { self.world.node.inspect().job("greedy").await.unwrap().and_then(|job| job.error) };
        let error = eventually(PATIENCE, "it fails", error).await;
        self.world.stop("greedy").await;
        error
    }

    async fn end(self) {
        let neighbour = self.world.node.inspect().job("neighbour").await.unwrap().unwrap();
        assert_eq!((neighbour.state, neighbour.attempts), (JobState::Running, 1));
        assert_eq!(self.neighbour.alive().len(), 1);
        self.worker.leave().await;
    }
}

/// It takes 100 MB, in a process of another session, and keeps them.
const GREEDY: &str = r#"setsid sh -c 'x=$(head -c 100000000 /dev/zero | tr "\0" x); sleep 1000; :' & wait"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_too_much_memory_fails_and_names_the_limit() {
    for cgroup in ["auto", "off"] {
        let stage = Stage::new(&["--limit", "memory=64M", "--cgroup", cgroup]).await;
        let error = stage.error_of(GREEDY).await;
        assert!(error.starts_with("over its limit memory=64M"), "{cgroup}: {error}");
        stage.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_within_its_memory_is_left_alone() {
    let stage = Stage::new(&["--limit", "memory=64M", "--cgroup", "off"]).await;
    // Each has its memory for longer than the keeper's looks are apart, one after the other.
    let script =
        r#"for n in 1 2 3; do (x=$(head -c 10000000 /dev/zero | tr "\0" x); sleep 0.4); done; exit 9"#;
    assert_eq!(stage.error_of(script).await, "exit status 9");
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_beyond_a_limit_of_the_kernel_names_it() {
    let stage = Stage::new(&["--limit", "cpu=1,fsize=64K"]).await;
    assert_eq!(stage.error_of("while :; do :; done").await, "over its limit cpu=1");
    let script = "exec head -c 1000000 /dev/zero > $FOLDER/long";
    assert_eq!(stage.error_of(script).await, "over its limit fsize=64K");
    stage.end().await;
}
