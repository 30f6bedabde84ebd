//! Calls that were executed and whose answers were lost: each takes effect once, and a repetition says so.

use tenure_connection::Client;
use tenure_pool::{Error, JobState, Node, RestartPolicy, Settings};
use tenure_testing::Proxy;
use tenure_testing::proxy::{Cut, Direction};

use crate::recorder::Act;
use crate::world::{PATIENCE, POOL, SHORT, World, until};

/// A pool on Redis, a node that sees the true state, and one that reaches the server through a proxy.
struct Scene {
    world: World,
    watcher: Node,
    proxy: Proxy,
    node: Node,
}

impl Scene {
    /// A job is parked at its first failure.
    async fn start() -> Self {
        let world = World::on_redis();
        let settings =
            Settings { worker_ttl: world.ttl(), join_settle: SHORT, max_attempts: 1, ..Settings::default() };
        let watcher = world.builder("watcher").settings(settings.clone()).join().await.unwrap();
        let proxy = Proxy::start(world.server()).await.unwrap();
        let client = Client::open(&proxy.url()).unwrap();
        let node = Node::builder(POOL, client).name("cut").settings(settings).join().await.unwrap();
        Self { world, watcher, proxy, node }
    }

    /// The result of a call whose answers are lost until `done`. The server must know its scripts.
    async fn lost<R: Send + 'static>(
        &self,
        call: impl Future<Output = R> + Send + 'static,
        done: impl AsyncFn() -> bool,
    ) -> R {
        self.proxy.drop_replies();
        let call = tokio::spawn(call);
        until("the call to be carried out", async || done().await).await;
        assert!(!call.is_finished(), "an answer came through");
        self.proxy.resume();
        tokio::time::timeout(PATIENCE, call).await.expect("an answer").unwrap()
    }

    async fn is_gone(&self, key: &str) -> bool {
        self.watcher.inspect().job(key).await.unwrap().is_none()
    }

    /// Cuts the node's connections after this many bytes of answers.
    fn cut_after(&self, bytes: u64) {
        self.proxy.cut_open(Cut::after(Direction::ToClient, bytes).reset());
    }
}

/// Jobs, and for each the place at which the answers to a call are cut off. The call first reads a record, which is
/// about that long, and then writes. So some of these places lie between the two answers.
fn places() -> impl Iterator<Item = (u64, String)> {
    (0..13).map(|place| (100 + 8 * place, format!("job-{place}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_a_queued_job() {
    let scene = Scene::start().await;
    for (place, key) in places() {
        scene.watcher.submit((&*key, "")).await.unwrap();
        scene.cut_after(place);
        scene.node.stop_job(&*key).await.unwrap();
        assert!(scene.is_gone(&key).await, "{key}");
        assert!(matches!(scene.node.stop_job(&*key).await, Err(Error::JobNotFound(_))));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_of_a_running_job() {
    let scene = Scene::start().await;
    scene.world.add_worker(&scene.watcher).await;
    for (place, key) in places() {
        scene.world.dispatch_one(&scene.watcher, &key).await;
        scene.world.history().stop_requested(&key);
        scene.cut_after(place);
        scene.node.stop_job(&*key).await.unwrap();
    }
    until("all to end", async || scene.watcher.inspect().jobs().await.unwrap().is_empty()).await;
    for (_, key) in places() {
        assert!(matches!(scene.node.stop_job(&*key).await, Err(Error::JobNotFound(_))));
        assert_eq!(scene.world.recorder.stops(&key).len(), 1);
        scene.world.history().stop_acknowledged(&key);
    }
    scene.world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpark() {
    let scene = Scene::start().await;
    let failing = scene.world.recorder.acting(|_| Act::Fail("as it was told"));
    let failing = scene.watcher.add_worker(failing).await.unwrap();
    for (_, key) in places() {
        scene.watcher.submit((&*key, "")).restart(RestartPolicy::OnFailure).await.unwrap();
    }
    let jobs = places().count();
    until("all to be parked", async || scene.watcher.inspect().parked().await.unwrap().len() == jobs).await;
    failing.drain().await.unwrap();
    scene.world.add_worker(&scene.watcher).await;
    for (place, key) in places() {
        scene.cut_after(place);
        scene.node.operate().unpark(&*key).await.unwrap();
    }
    until("all to run", async || scene.world.recorder.running().len() == jobs).await;
    assert!(scene.world.recorder.starts().values().all(|&starts| starts == 2));
    assert!(matches!(scene.node.operate().unpark("job-0").await, Err(Error::NotParked(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_park_a_retry_and_a_bounce() {
    let scene = Scene::start().await;
    for _ in 0..2 {
        scene.world.add_worker(&scene.watcher).await;
    }
    let all_run = async |starts: usize| {
        until("all to run", async || {
            let recorder = &scene.world.recorder;
            places().all(|(_, key)| recorder.is_running(&key) && recorder.starts_of(&key) == starts)
        })
        .await;
    };
    for (place, key) in places() {
        scene.world.dispatch_one(&scene.watcher, &key).await;
        scene.cut_after(place);
        scene.node.operate().park(&*key, "ticket 17").await.unwrap();
        let job = scene.watcher.inspect().job(&*key).await.unwrap().unwrap();
        assert_eq!((job.state, job.error.as_deref()), (JobState::Parked, Some("ticket 17")));
        scene.cut_after(place);
        scene.node.operate().retry(&*key).await.unwrap();
    }
    all_run(2).await;
    for (place, key) in places() {
        scene.cut_after(place);
        scene.node.operate().bounce(&*key).await.unwrap();
    }
    all_run(3).await;
    scene.world.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications() {
    let scene = Scene::start().await;
    scene.world.add_worker(&scene.watcher).await;
    scene.world.dispatch_one(&scene.watcher, "key").await;
    scene.node.notify("key", "0").await.unwrap();
    for round in 0..3 {
        let bodies: Vec<_> = (round * 4 + 1..round * 4 + 5).map(|i: usize| i.to_string()).collect();
        let (node, first) = (scene.node.clone(), bodies[0].clone());
        let notify = async move {
            for body in bodies {
                node.notify("key", body).await?;
            }
            Ok::<_, Error>(())
        };
        scene.lost(notify, async || scene.world.recorder.notes("key").contains(&first)).await.unwrap();
    }
    until("the last", async || scene.world.recorder.notes("key").contains(&"12".to_owned())).await;
    let mut heard = Vec::new();
    for note in scene.world.recorder.notes("key") {
        if !heard.contains(&note) {
            heard.push(note);
        }
    }
    assert_eq!(heard, (0..13).map(|i| i.to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_starts_its_job() {
    let scene = Scene::start().await;
    let ends = |job: tenure_pool::Job| async move {
        job.notified().await;
        Ok(())
    };
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = runs.clone();
    let handler = tenure_pool::run(move |job| {
        seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        ends(job)
    });
    scene.watcher.add_worker(handler).await.unwrap();
    scene.node.notify("first", "x").or_start(("first", "")).await.unwrap();
    until("the end", async || scene.is_gone("first").await).await;
    for round in 2..5 {
        let sent = scene.node.notify("key", "x").or_start(("key", "")).into_future();
        let ended =
            async || runs.load(std::sync::atomic::Ordering::SeqCst) == round && scene.is_gone("key").await;
        scene.lost(sent, ended).await.unwrap();
        assert!(scene.is_gone("key").await, "the answer to the second sending tells of the first");
        assert_eq!(runs.load(std::sync::atomic::Ordering::SeqCst), round, "the job was started twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_settings() {
    let scene = Scene::start().await;
    scene.node.operate().change_settings(|settings| settings.strikes = 7).await.unwrap();
    let before = scene.node.settings().max_queued;
    for round in 1..3 {
        let node = scene.node.clone();
        let change = async move { node.operate().change_settings(|settings| settings.max_queued += 1).await };
        let settings = scene
            .lost(change, async || scene.watcher.settings().max_queued > before + round - 1)
            .await
            .unwrap();
        assert_eq!((settings.max_queued, settings.strikes), (before + round, 7), "it was made once");
    }
    assert_eq!(scene.watcher.settings(), scene.node.settings());
}
