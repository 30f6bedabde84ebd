//! Pinned queues on a pool.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_jobs::{Backoff, Client, Ctx, Error, Groups, Jobs, MemoryStore, Outcome, Queue, State, on_pool};
use tenure_pool::{DispatchError, Job, Node, RestartPolicy};
use tenure_testing::{RedisServer, eventually};
use tokio::sync::Semaphore;

use super::world::{MINUTE, SECOND, Said};

/// Says that a handler is gone.
struct Gone(Said, String);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.say(format!("{} is gone", self.1));
    }
}

fn pinned() -> Queue {
    Queue::new("orders").pinned(Groups::new()).backoff(Backoff::none()).lease(3 * SECOND)
}

async fn pool(store: &tenure_pool::MemoryStore, name: &str) -> Node {
    let builder = Node::builder("test", store).name(name).worker_ttl(2 * SECOND);
    builder.join_settle(Duration::from_millis(100)).assume_fresh(true).join().await.unwrap()
}

/// A worker whose jobs say when they begin, and end when the gate lets them. Returns a gate that opens when a key moves.
async fn serve(
    node: &Node,
    jobs: &Jobs,
    name: &'static str,
    grace: Duration,
    said: &Said,
    gate: &Arc<Semaphore>,
) -> Arc<Semaphore> {
    let moves = Arc::new(Semaphore::new(0));
    let (jobs, said, gate, told) = (jobs.clone(), said.clone(), gate.clone(), moves.clone());
    let handler = on_pool(move |key: Job| {
        let (jobs, said, gate, told) = (jobs.clone(), said.clone(), gate.clone(), told.clone());
        async move {
            tokio::spawn(async move {
                key.cancelled().await;
                told.add_permits(1);
            });
            let worker = jobs.worker("orders", move |ctx: Ctx, order: u32| {
                let (said, gate) = (said.clone(), gate.clone());
                async move {
                    let what = format!("{name} {}{order}", ctx.group().unwrap_or_default());
                    said.say(what.clone());
                    let gone = Gone(said, what);
                    gate.acquire().await?.forget();
                    std::mem::forget(gone);
                    Ok(())
                }
            });
            Ok(worker.grace(grace))
        }
    });
    node.add_worker(handler).await.unwrap();
    moves
}

async fn ordered(jobs: &Jobs, group: &str, orders: std::ops::Range<u32>) {
    for order in orders {
        jobs.add("orders", &order).group(group).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_a_key_run_in_order_where_it_is_pinned() {
    let (store, said, gate) =
        (tenure_pool::MemoryStore::new(), Said::default(), Arc::new(Semaphore::new(1_000)));
    let jobs = Jobs::in_memory(MemoryStore::new()).queue(pinned()).join().await.unwrap();
    let nodes = [("a", pool(&store, "a").await), ("b", pool(&store, "b").await)];
    for (name, node) in &nodes {
        serve(node, &jobs, name, SECOND, &said, &gate).await;
    }
    // Jobs of a key that the pool does not have wait.
    ordered(&jobs, "x", 0..5).await;
    for key in ["x", "y", "z"] {
        nodes[0].1.ensure((key, "")).await.unwrap();
    }
    ordered(&jobs, "y", 0..20).await;
    ordered(&jobs, "x", 5..20).await;
    ordered(&jobs, "z", 0..20).await;
    let all = said.until(60).await;
    for key in ["x", "y", "z"] {
        let of: Vec<_> = all.iter().filter(|line| line[2..].starts_with(key)).cloned().collect();
        let orders: Vec<_> = of.iter().map(|line| line[2..].to_owned()).collect();
        assert_eq!(orders, (0..20).map(|order| format!("{key}{order}")).collect::<Vec<_>>());
        // A key may move to the worker that has joined last, but not back.
        let mut owners: Vec<_> = of.iter().map(|line| &line[..1]).collect();
        owners.dedup();
        assert!(owners.len() <= 2, "{owners:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_moves_when_its_job_in_hand_has_ended() {
    let (store, said, gate) = (tenure_pool::MemoryStore::new(), Said::default(), Arc::new(Semaphore::new(0)));
    let jobs = Jobs::in_memory(MemoryStore::new()).queue(pinned()).join().await.unwrap();
    let first = pool(&store, "first").await;
    let moves = serve(&first, &jobs, "first", 10 * SECOND, &said, &gate).await;
    first.ensure(("x", "")).await.unwrap();
    ordered(&jobs, "x", 0..2).await;
    assert_eq!(said.until(1).await, ["first x0"]);
    let second = pool(&store, "second").await;
    serve(&second, &jobs, "second", SECOND, &said, &gate).await;
    let closing = tokio::spawn(async move { first.close().await });
    tokio::time::timeout(MINUTE, moves.acquire()).await.unwrap().unwrap().forget();
    assert_eq!(said.all(), ["first x0"], "the key stays where its job is");
    gate.add_permits(2);
    // The worker may take another job before it hears of the move.
    let all = said.until(2).await;
    assert!(all[0] == "first x0" && all[1].ends_with(" x1"), "{all:?}");
    closing.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_does_not_end_is_given_back_before_its_key_moves() {
    let (store, said, gate) = (tenure_pool::MemoryStore::new(), Said::default(), Arc::new(Semaphore::new(0)));
    let jobs = Jobs::in_memory(MemoryStore::new()).queue(pinned().lease(MINUTE)).join().await.unwrap();
    let first = pool(&store, "first").await;
    serve(&first, &jobs, "first", Duration::from_millis(50), &said, &gate).await;
    first.ensure(("x", "")).await.unwrap();
    ordered(&jobs, "x", 0..2).await;
    said.until(1).await;
    let second = pool(&store, "second").await;
    serve(&second, &jobs, "second", SECOND, &said, &gate).await;
    first.close().await.unwrap();
    gate.add_permits(2);
    // Its lease would last much longer.
    assert_eq!(said.until(4).await, ["first x0", "first x0 is gone", "second x0", "second x1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_hangs_has_no_other_one_beside_it() {
    let (store, said) = (tenure_pool::MemoryStore::new(), Said::default());
    let queue = pinned().lease(MINUTE).timeout(Duration::from_millis(50));
    let jobs = Jobs::in_memory(MemoryStore::new()).queue(queue).join().await.unwrap();
    let node = pool(&store, "n").await;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (own, told, released) = (jobs.clone(), said.clone(), Arc::new(Mutex::new(released)));
    let handler = on_pool(move |_: Job| {
        let (jobs, said, released) = (own.clone(), told.clone(), released.clone());
        async move {
            Ok(jobs.worker("orders", move |ctx: Ctx, order: u32| {
                let (said, released) = (said.clone(), released.clone());
                async move {
                    said.say(format!("{order} begins {}", ctx.attempt()));
                    if order == 0 && ctx.attempt() == 1 {
                        // No abort reaches it here.
                        tokio::task::block_in_place(|| released.lock().unwrap().recv_timeout(MINUTE))?;
                        said.say("0 goes on");
                    }
                    Ok(())
                }
            }))
        }
    });
    node.add_worker(handler).await.unwrap();
    for key in ["x", "y"] {
        node.ensure((key, "")).await.unwrap();
    }
    let id = jobs.add("orders", &0u32).group("x").await.unwrap().id;
    said.until(1).await;
    eventually(MINUTE, "its time is over", async || {
        let state = jobs.get(&id).await.unwrap().unwrap().state();
        if state == State::Ready || said.all().len() > 1 { Ok(()) } else { Err(state) }
    })
    .await;
    // Meanwhile another key goes on.
    ordered(&jobs, "y", 1..2).await;
    said.until(2).await;
    release.send(()).unwrap();
    assert_eq!(said.until(4).await, ["0 begins 1", "1 begins 1", "0 goes on", "0 begins 2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lease_ends_the_job_in_hand_while_redis_is_away() {
    let (server, said, gate) = (RedisServer::start().unwrap(), Said::default(), Arc::new(Semaphore::new(0)));
    let client = Client::open(&server.url()).unwrap();
    // The lease of the job lasts much longer than that of the pool.
    let jobs = Jobs::builder("s", client.clone()).queue(pinned().lease(MINUTE)).join().await.unwrap();
    let node = Node::builder("test", client).worker_ttl(2 * SECOND).assume_fresh(true).join().await.unwrap();
    serve(&node, &jobs, "n", MINUTE, &said, &gate).await;
    node.ensure(("x", "")).await.unwrap();
    ordered(&jobs, "x", 0..2).await;
    said.until(1).await;
    server.pause().unwrap();
    assert_eq!(said.until(2).await, ["n x0", "n x0 is gone"]);
    server.resume().unwrap();
    gate.add_permits(2);
    // It was given back: it goes first again.
    assert_eq!(said.until(4).await[2..], ["n x0", "n x1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pinned_queue_is_for_owners_and_groups() {
    let store = tenure_pool::MemoryStore::new();
    let (queues, store_of_jobs) = ([pinned(), Queue::new("plain")], MemoryStore::new());
    let builder =
        queues.into_iter().fold(Jobs::in_memory(store_of_jobs.clone()), tenure_jobs::JobsBuilder::queue);
    let jobs = builder.join().await.unwrap();
    let refused = jobs.worker("orders", async |_: Ctx, _: u32| Ok(())).start();
    assert!(matches!(refused, Err(Error::Setting(_))), "{refused:?}");
    // Also from a node that does not know how the queue was declared.
    let stranger = Jobs::in_memory(store_of_jobs).join().await.unwrap();
    for jobs in [&jobs, &stranger] {
        assert!(matches!(jobs.add("orders", &1u32).await, Err(Error::NoGroup(_))));
        assert!(matches!(jobs.add_many("orders", [1u32]).await, Err(Error::NoGroup(_))));
    }
    let group = jobs.queue("orders").unwrap().group("x").unwrap();
    assert!(matches!(group.concurrency(2).await, Err(Error::Pinned(_))));
    // A job that would go there without a group fails.
    let mover = jobs.worker("plain", async |_: Ctx, _: u32| Ok(Outcome::go_on().to("orders")));
    let mover = mover.start().unwrap();
    let moved = jobs.add("plain", &1u32).await.unwrap().id;
    let failed = eventually(MINUTE, "it fails", async || {
        let view = jobs.get(&moved).await.unwrap();
        view.filter(|view| view.state() == State::Failed).ok_or(())
    });
    let why = "its handler named a pinned queue, and it has no group";
    assert_eq!(failed.await.error().as_deref(), Some(why));
    mover.close(MINUTE).await.unwrap();
    let node = pool(&store, "n").await;
    let own = jobs.clone();
    node.add_worker(on_pool(move |_: Job| {
        let jobs = own.clone();
        async move { Ok(jobs.worker("plain", async |_: Ctx, _: u32| Ok(()))) }
    }))
    .await
    .unwrap();
    let parked = node.dispatch(("x", "")).restart(RestartPolicy::OnFailure).await;
    assert!(matches!(parked, Err(DispatchError::Parked)), "{parked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_takes_no_batches() {
    let store = tenure_pool::MemoryStore::new();
    let jobs = Jobs::in_memory(MemoryStore::new()).queue(pinned()).join().await.unwrap();
    let node = pool(&store, "n").await;
    let handler = on_pool(move |_: Job| {
        let jobs = jobs.clone();
        let all = async |orders: Vec<(Ctx, u32)>| orders.iter().map(|_| Ok(())).collect::<Vec<_>>();
        async move { Ok(jobs.batches("orders", 2, SECOND, all)) }
    });
    node.add_worker(handler).await.unwrap();
    let parked = node.dispatch(("x", "")).restart(RestartPolicy::OnFailure).await;
    assert!(matches!(parked, Err(DispatchError::Parked)), "{parked:?}");
    let parked = node.inspect().parked().await.unwrap();
    assert!(parked[0].error.contains("not in batches"), "{parked:?}");
}
