//! Consumers as the jobs of a pool.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tenure_connection::Client;
use tenure_pool::{Job, MemoryStore, Node, RestartPolicy};
use tenure_sequence::{
    BoxError, CheckpointProgress, Consumer, Delivery, Irrecoverable, MemoryLog, MemoryProgress, Progress,
    RedisLogs, Source, on_pool,
};
use tenure_testing::{RedisServer, eventually};

const PATIENCE: Duration = Duration::from_secs(30);

async fn join(store: &MemoryStore, name: &str) -> Node {
    let builder = Node::builder("test", store).name(name).worker_ttl(Duration::from_secs(2));
    builder.join_settle(Duration::from_millis(100)).assume_fresh(true).join().await.unwrap()
}

/// The deeds of the jobs: node, index.
type Done = Arc<Mutex<Vec<(String, u64)>>>;

/// A worker whose consumers read this log, and keep their progress as the job's checkpoint. A job of the body 13 is
/// irrecoverable.
async fn serve(node: &Node, name: &str, log: &MemoryLog<u64>, done: &Done) {
    let (name, log, done) = (name.to_owned(), log.clone(), done.clone());
    let handler = on_pool(move |job: Job| {
        let (name, log, done) = (name.clone(), log.clone(), done.clone());
        async move {
            let builder = Consumer::builder(log, CheckpointProgress::of(&job)).name(job.key().to_string());
            let consumer = builder.concurrency(3).build(move |delivery: Delivery<u64>| {
                let (name, done) = (name.clone(), done.clone());
                async move {
                    if *delivery.job() == 13 {
                        return Err(Irrecoverable::new("13 is bad luck").into());
                    }
                    done.lock().unwrap().push((name, delivery.index()));
                    Ok::<_, BoxError>(())
                }
            });
            Ok(consumer?)
        }
    });
    node.add_worker(handler).await.unwrap();
}

fn highest(done: &Done) -> u64 {
    done.lock().unwrap().iter().map(|(_, index)| *index).max().unwrap_or(0)
}

#[tokio::test]
async fn a_consumer_goes_on_where_its_former_owner_has_stopped() {
    let (store, log, done) = (MemoryStore::new(), MemoryLog::new(), Done::default());
    let first = join(&store, "first").await;
    serve(&first, "first", &log, &done).await;
    first.dispatch(("acme", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    log.append(vec![0; 20]);
    eventually(PATIENCE, "20 to be done", async || done.lock().unwrap().len() == 20).await;
    let second = join(&store, "second").await;
    serve(&second, "second", &log, &done).await;
    first.close().await.unwrap();
    log.append(vec![0; 20]);
    eventually(PATIENCE, "40 to be done", async || highest(&done) == 40 && done.lock().unwrap().len() == 40)
        .await;
    let mut all = done.lock().unwrap().clone();
    all.sort_by_key(|(_, index)| *index);
    let expected = (1..=40).map(|index| ((if index <= 20 { "first" } else { "second" }).to_owned(), index));
    assert!(all.into_iter().eq(expected), "a hand-off stores the last progress: nothing runs twice");
    second.close().await.unwrap();
}

#[tokio::test]
async fn a_consumer_whose_node_has_crashed_skips_nothing() {
    let (store, log, done) = (MemoryStore::new(), MemoryLog::new(), Done::default());
    let (first, second) = (join(&store, "first").await, join(&store, "second").await);
    serve(&first, "first", &log, &done).await;
    serve(&second, "second", &log, &done).await;
    first.dispatch(("acme", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    log.append(vec![0; 30]);
    eventually(PATIENCE, "all to be done", async || highest(&done) == 30).await;
    // The owner is who has done the last one.
    let owner = eventually(PATIENCE, "an owner", async || {
        log.append([0]);
        let owner = first.inspect().owner("acme").await.ok().flatten()?.node?;
        let last = done.lock().unwrap().last()?.0.clone();
        (last == owner).then_some(owner)
    })
    .await;
    let before = log.head().await.unwrap();
    let (crashes, stays) = if owner == "first" { (first, second) } else { (second, first) };
    crashes.abandon();
    log.append(vec![0; 30]);
    eventually(PATIENCE, "the other node to go on", async || {
        log.append([0]);
        done.lock().unwrap().iter().any(|(node, index)| *node != owner && *index > before)
    })
    .await;
    let head = log.head().await.unwrap();
    eventually(PATIENCE, "all to be done", async || {
        let indexes: std::collections::BTreeSet<_> = done.lock().unwrap().iter().map(|done| done.1).collect();
        indexes.into_iter().eq(1..=head)
    })
    .await;
    stays.close().await.unwrap();
}

/// A consumer of this node with a job that does not end. With a handle of ours it outlives whatever the pool drops.
async fn hung<P: Progress>(node: &Node, progress: impl Fn(&Job) -> P + Send + Sync + 'static) -> Consumer {
    let log = MemoryLog::new();
    log.append([1_u64]);
    let kept = Arc::new(Mutex::new(None));
    let keeps = kept.clone();
    node.add_worker(on_pool(move |job: Job| {
        let (log, keeps, progress) = (log.clone(), keeps.clone(), progress(&job));
        async move {
            // Longer than the pool waits.
            let builder = Consumer::builder(log, progress).grace(Duration::from_secs(24 * 3_600));
            let consumer = builder
                .build(async |_: Delivery<u64>| std::future::pending::<Result<(), BoxError>>().await)?;
            *keeps.lock().unwrap() = Some(consumer.clone());
            Ok(consumer)
        }
    }))
    .await
    .unwrap();
    node.dispatch(("acme", "")).await.unwrap();
    let consumer: Consumer = kept.lock().unwrap().clone().unwrap();
    eventually(PATIENCE, "the job to run", async || consumer.running() == 1).await;
    consumer
}

#[tokio::test]
async fn a_lost_lease_drops_the_jobs_without_grace() {
    let server = RedisServer::start().unwrap();
    let builder = Node::builder("test", Client::open(&server.url()).unwrap()).name("first");
    let builder = builder.worker_ttl(Duration::from_secs(2)).join_settle(Duration::from_millis(100));
    let node = builder.assume_fresh(true).join().await.unwrap();
    let consumer = hung(&node, |_| MemoryProgress::new()).await;
    server.pause().unwrap();
    let error = tokio::time::timeout(PATIENCE, consumer.ended()).await.unwrap().unwrap_err();
    let fenced = tenure_sequence::ProgressError::Fenced { by: None };
    assert_eq!(error.to_string(), tenure_sequence::Error::Progress(fenced).to_string());
    server.resume().unwrap();
    node.abandon();
}

#[tokio::test]
async fn a_job_that_the_pool_drops_ends_its_consumer() {
    let builder = Node::builder("test", MemoryStore::new()).name("first");
    let builder = builder.worker_ttl(Duration::from_secs(2)).join_settle(Duration::from_millis(100));
    let node = builder.stop_timeout(Duration::from_millis(100)).assume_fresh(true).join().await.unwrap();
    let consumer = hung(&node, CheckpointProgress::of).await;
    let _ = node.close().await;
    // Another worker may begin the job by now, whatever handle is kept.
    let ended = tokio::time::timeout(PATIENCE, consumer.ended()).await.expect("an end").unwrap();
    assert_eq!((ended.progress, ended.unfinished), (0, 1));
}

/// A source that tells of nothing.
struct Quiet(Arc<Mutex<u64>>);
impl tenure_sequence::Source for Quiet {
    type Job = ();
    async fn at(&self, index: u64) -> Result<Option<()>, tenure_sequence::SourceError> {
        Ok((index <= *self.0.lock().unwrap()).then_some(()))
    }
    async fn head(&self) -> Result<u64, tenure_sequence::SourceError> {
        Ok(*self.0.lock().unwrap())
    }
}

#[tokio::test]
async fn a_notification_is_a_check_and_an_ask_an_explanation() {
    let (store, seen) = (MemoryStore::new(), Arc::new(Mutex::new(0_u64)));
    let node = join(&store, "first").await;
    let (head, last) = (Arc::new(Mutex::new(0_u64)), seen.clone());
    let there = head.clone();
    let handler = on_pool(move |job: Job| {
        let (source, last) = (Quiet(there.clone()), last.clone());
        async move {
            let builder = Consumer::builder(source, CheckpointProgress::of(&job)).name("acme");
            Ok(builder.build(move |delivery: Delivery<()>| {
                *last.lock().unwrap() = delivery.index();
                async { Ok::<_, BoxError>(()) }
            })?)
        }
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("acme", "")).await.unwrap();
    let waits =
        async || node.ask("acme", "how are you").deadline(PATIENCE).await.map(|answer| answer.to_vec());
    let explains = async || String::from_utf8(waits().await.unwrap()).unwrap();
    eventually(PATIENCE, "it to wait", async || explains().await.contains("it waits for index 1")).await;
    *head.lock().unwrap() = 7;
    node.notify("acme", "").await.unwrap();
    eventually(PATIENCE, "all to be done", async || *seen.lock().unwrap() == 7).await;
    eventually(PATIENCE, "it to wait", async || explains().await.contains("it waits for index 8")).await;
    node.close().await.unwrap();
}

#[tokio::test]
async fn a_consumer_that_can_never_go_on_has_its_key_parked() {
    let (store, log, done) = (MemoryStore::new(), MemoryLog::new(), Done::default());
    let node = join(&store, "first").await;
    serve(&node, "first", &log, &done).await;
    node.dispatch(("acme", "")).restart(RestartPolicy::OnFailure).await.unwrap();
    log.append([1, 2, 13, 4]);
    eventually(PATIENCE, "the key to be parked", async || {
        node.inspect().parked().await.unwrap().iter().any(|parked| parked.key == "acme")
    })
    .await;
    let kept = node.inspect().checkpoint_of("acme").await.unwrap().unwrap();
    assert_eq!(kept.bytes(), "sequence 1 2", "its progress stays before the bad job");
    node.close().await.unwrap();
}

#[tokio::test]
async fn a_job_without_a_consumer_has_not_started() {
    let store = MemoryStore::new();
    let node = join(&store, "first").await;
    node.add_worker(on_pool(async |_: Job| Err("no such tenant".into()))).await.unwrap();
    let error = node.dispatch(("acme", "")).await.unwrap_err();
    assert!(error.to_string().contains("no such tenant"), "{error}");
    node.close().await.unwrap();
}

#[tokio::test]
async fn a_later_owner_fences_the_progress_in_redis() {
    let server = RedisServer::start().unwrap();
    let logs = RedisLogs::open(&Client::open(&server.url()).unwrap(), "events").unwrap();
    let (store, ends) = (MemoryStore::new(), Arc::new(Mutex::new(Vec::new())));
    let node = join(&store, "first").await;
    let (of_jobs, told) = (logs.clone(), ends.clone());
    let handler = on_pool(move |job: Job| {
        let (logs, told) = (of_jobs.clone(), told.clone());
        async move {
            let progress = logs.progress("acme")?.fenced(job.token().0);
            told.lock().unwrap().push(job.token().0);
            let builder = Consumer::builder(logs.log("acme")?, progress);
            Ok(builder.build(async |_: Delivery<Bytes>| Ok::<_, BoxError>(()))?)
        }
    });
    node.add_worker(handler).await.unwrap();
    node.dispatch(("acme", "")).await.unwrap();
    let log = logs.log("acme").unwrap();
    log.append(["a"]).await.unwrap();
    let progress = logs.progress("acme").unwrap();
    eventually(PATIENCE, "it to be done", async || progress.load().await.unwrap() == Some(1)).await;
    // Somebody with a later token claims it. The consumer ends as lost, and each further start is refused by the fence.
    let later = progress.clone().fenced(u64::MAX);
    later.init(0).await.unwrap();
    log.append(["b"]).await.unwrap();
    eventually(PATIENCE, "another start", async || ends.lock().unwrap().len() > 1).await;
    assert_eq!(progress.load().await.unwrap(), Some(1));
    drop(node);
}
