//! Workers that were granted jobs of which they have not read. Each test cuts the node of the worker off first.

use std::time::Duration;

use tenure_pool::{JobState, Node, NodeBuilder};
use tenure_testing::Proxy;

use crate::world::{POOL, World, beside, until, workers_on};

/// A node with the pool's only worker, behind a proxy, and one without workers.
struct CutOff {
    world: World,
    proxy: Proxy,
    far: Node,
    near: Node,
}

/// How long a lease lasts.
const TTL: Duration = Duration::from_secs(3);

impl CutOff {
    async fn new() -> Self {
        let world = World::on_redis().with_ttl(TTL);
        let proxy = Proxy::start(world.server()).await.unwrap();
        let client = tenure_pool::Client::open(&proxy.url()).unwrap();
        let far: NodeBuilder = world.builder_on(client.into(), "far");
        // Nothing moves when a node comes back.
        let rests = Duration::from_secs(60);
        let far = far.stable_after(rests).join().await.unwrap();
        world.add_worker(&far).await;
        let near = world.builder("near").stable_after(rests).join().await.unwrap();
        until("the ring to be known", async || near.guess("k").unwrap().is_some()).await;
        proxy.pause();
        // A read that waits at the server would still be answered.
        let () = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).query(&mut world.client()).unwrap();
        Self { world, proxy, far, near }
    }

    /// A job that was granted to the worker, and that the worker has not begun.
    async fn grant(&self, key: &str) {
        self.world.history().submitted(key);
        self.near.submit((key, "payload")).await.unwrap();
        self.world.history().accepted(key);
        assert_eq!(self.begun(key), Some(("R".to_owned(), "0".to_owned())));
    }

    /// The state of a job in its record, and how far it has come.
    fn begun(&self, key: &str) -> Option<(String, String)> {
        let jobs = format!("tenure:{{{POOL}}}:jobs");
        let record: Option<String> =
            redis::cmd("HGET").arg(jobs).arg(key).query(&mut self.world.client()).unwrap();
        let record = record?;
        let fields: Vec<_> = record.split('|').collect();
        Some((fields[1].to_owned(), fields[5].to_owned()))
    }

    async fn runs_on_near(&self, key: &str, attempt: u32) {
        until("the job to run elsewhere", async || {
            let job = self.near.inspect().job(key).await.unwrap();
            let (owner, own) = (job.as_ref().and_then(|job| job.owner), workers_on(&self.near).await);
            owner.is_some_and(|owner| own.contains(&owner.0))
                && self.begun(key) == Some(("R".to_owned(), "2".to_owned()))
        })
        .await;
        let job = self.near.inspect().job(key).await.unwrap().unwrap();
        assert_eq!((job.state, job.attempts), (JobState::Running, attempt));
        assert_eq!(self.world.recorder.starts_of(key), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_of_a_node_that_dies_runs_elsewhere() {
    let pool = CutOff::new().await;
    pool.grant("k").await;
    pool.far.abandon();
    pool.world.add_worker(&pool.near).await;
    // Nobody knows that the first worker has not begun it.
    pool.runs_on_near("k", 2).await;
    pool.world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_is_not_honoured_after_the_lease() {
    let pool = CutOff::new().await;
    pool.grant("k").await;
    pool.world.add_worker(&pool.near).await;
    pool.runs_on_near("k", 2).await;
    pool.proxy.resume();
    until("the worker to join anew", async || pool.far.health().is_ready()).await;
    pool.world.dispatch_one(&pool.far, "another").await;
    assert_eq!(pool.world.recorder.starts_of("k"), 1);
    pool.world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_grant_outlives_a_loss_of_data_by_its_caller() {
    let pool = CutOff::new().await;
    pool.world.history().submitted("k");
    let call =
        beside(&pool.near, |near| async move { near.dispatch(("k", "payload")).deadline(TTL * 10).await });
    until("the job to be granted", async || pool.begun("k").is_some()).await;
    pool.world.wipe();
    pool.proxy.resume();
    call.await.unwrap().unwrap();
    pool.world.history().accepted("k");
    assert_eq!(pool.world.recorder.starts_of("k"), 1);
    pool.world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_an_unread_grant_ends_it_before_it_starts() {
    let pool = CutOff::new().await;
    pool.grant("k").await;
    pool.world.history().stop_requested("k");
    pool.near.stop_job("k").await.unwrap();
    pool.proxy.resume();
    until("the job to be gone", async || pool.begun("k").is_none()).await;
    assert_eq!(pool.world.recorder.starts_of("k"), 0);
    pool.world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_turns_grants_off_while_the_pool_runs() {
    let pool = CutOff::new().await;
    pool.grant("k").await;
    let operator = pool.near.operate();
    operator.change_settings(|settings| settings.grant_max = 0).await.unwrap();
    pool.world.history().submitted("j");
    pool.near.submit(("j", "payload")).await.unwrap();
    pool.world.history().accepted("j");
    assert_eq!(pool.begun("j"), Some(("A".to_owned(), "0".to_owned())));
    pool.proxy.resume();
    until("both to run", async || pool.world.recorder.running().len() == 2).await;
    pool.world.assert_clean();
}
