//! Nodes that die, servers that restart, and data that are lost.

use std::sync::Arc;
use std::time::Duration;

use tenure_couch::{Accept, Couch};
use tenure_jobs::{Backoff, BoxError, Client, Ctx, Jobs, MemoryStore, Outcome, Queue, State};
use tenure_testing::{Data, RedisServer};
use tokio::sync::Semaphore;

use super::world::{MINUTE, SECOND, Said, World};

stories! { the_jobs_of_a_node_that_dies_run_elsewhere }

fn worker(jobs: &Jobs, name: &'static str, said: &Said, hangs: bool) -> tenure_jobs::Worker {
    let builder = said.worker(jobs, "q", move |heard: Said, ctx: Ctx, (): ()| async move {
        heard.say(format!("{name} {}", ctx.attempt()));
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    });
    builder.start().unwrap()
}

async fn the_jobs_of_a_node_that_dies_run_elsewhere(world: World) {
    let queue = || Queue::new("q").lease(3 * SECOND).backoff(Backoff::none()).keep(MINUTE);
    let (first, second) = (
        world.node("first").queue(queue()).join().await.unwrap(),
        world.node("second").queue(queue()).join().await.unwrap(),
    );
    let said = Said::default();
    let _first = worker(&first, "first", &said, true);
    let id = second.add("q", &()).await.unwrap().id;
    said.until(1).await;
    // It stops in the middle: nothing renews its leases any more.
    first.abandon();
    let _second = worker(&second, "second", &said, false);
    let ended = tokio::time::timeout(MINUTE, second.wait(&id)).await.unwrap().unwrap();
    assert!(ended.is_done());
    assert_eq!(said.all(), ["first 1", "second 2"], "a crash counts as an attempt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_goes_on_after_a_restart_with_the_data() {
    let server = RedisServer::builder().append_only().start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    // Otherwise Redis may answer before it writes, and the job would be lost with the process.
    let mut always = ::redis::cmd("CONFIG");
    always.arg("SET").arg("appendfsync").arg("always");
    client.commands().command(&always).await.unwrap();
    let jobs = Jobs::builder("s", client).queue(Queue::new("q").keep(MINUTE));
    let jobs = jobs.join().await.unwrap();
    let said = Said::default();
    let before = jobs.add("q", &()).await.unwrap().id;
    server.kill().unwrap();
    server.restart(Data::Keep).unwrap();
    let _worker = worker(&jobs, "n", &said, false);
    assert!(tokio::time::timeout(MINUTE, jobs.wait(&before)).await.unwrap().unwrap().is_done());
    let after = jobs.add("q", &()).await.unwrap().id;
    assert!(jobs.wait(&after).await.unwrap().is_done());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_and_work_goes_on_after_a_loss_of_all_data() {
    let server = RedisServer::start().unwrap();
    let jobs = Jobs::builder("s", Client::open(&server.url()).unwrap()).queue(Queue::new("q").keep(MINUTE));
    let jobs = jobs.join().await.unwrap();
    let said = Said::default();
    let _worker = worker(&jobs, "n", &said, false);
    let first = jobs.add("q", &()).await.unwrap().id;
    assert!(jobs.wait(&first).await.unwrap().is_done());
    let token = jobs.get(&first).await.unwrap().unwrap().token();
    server.kill().unwrap();
    server.restart(Data::Wipe).unwrap();
    let second = jobs.add("q", &()).await.unwrap().id;
    assert!(tokio::time::timeout(MINUTE, jobs.wait(&second)).await.unwrap().unwrap().is_done());
    let view = jobs.get(&second).await.unwrap().unwrap();
    assert!(view.token() > token, "{:?} after {token:?}", view.token());
    assert!(jobs.get(&first).await.unwrap().is_none());
    let client = Client::open(&server.url()).unwrap();
    client.commands().command(&::redis::cmd("FLUSHALL")).await.unwrap();
    let third = jobs.add("q", &()).await.unwrap().id;
    assert!(tokio::time::timeout(MINUTE, jobs.wait(&third)).await.unwrap().unwrap().is_done());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_goes_on_through_a_short_outage() {
    let server = RedisServer::start().unwrap();
    let jobs = Jobs::builder("s", Client::open(&server.url()).unwrap()).queue(Queue::new("q").keep(MINUTE));
    let jobs = jobs.join().await.unwrap();
    let said = Said::default();
    let (heard, gate) = (said.clone(), Arc::new(Semaphore::new(0)));
    let opened = gate.clone();
    let builder = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let (heard, opened) = (heard.clone(), opened.clone());
        async move {
            heard.say(ctx.attempt().to_string());
            opened.acquire().await?.forget();
            heard.say("ended");
            Ok(())
        }
    });
    let _worker = builder.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    said.until(1).await;
    server.pause().unwrap();
    gate.add_permits(1);
    said.until(2).await;
    server.resume().unwrap();
    let ended = tokio::time::timeout(MINUTE, jobs.wait(&id)).await.unwrap().unwrap();
    assert_eq!((ended.state(), said.all()), (State::Done, vec!["1".to_owned(), "ended".to_owned()]));
}

/// A job that says when it has begun, and ends when a gate is opened.
fn gated(jobs: &Jobs, said: &Said, gate: &Arc<Semaphore>) -> tenure_jobs::Worker {
    let (heard, opened) = (said.clone(), gate.clone());
    let builder = jobs.worker("q", move |ctx: Ctx, name: String| {
        let (heard, opened) = (heard.clone(), opened.clone());
        async move {
            heard.say(format!("{name} {}", ctx.attempt()));
            opened.acquire().await?.forget();
            Ok(())
        }
    });
    builder.start().unwrap()
}

async fn is_in(jobs: &Jobs, id: &tenure_jobs::JobId, state: Option<State>) {
    tenure_testing::eventually(MINUTE, "the data know it", async || {
        let found = jobs.get(id).await.ok().map(|view| view.map(|view| view.state()));
        if found == Some(state) { Ok(()) } else { Err(found) }
    })
    .await;
}

async fn what_runs_goes_on_after(lose: impl AsyncFnOnce(&RedisServer)) {
    let server = RedisServer::start().unwrap();
    let join = async |name: &str| {
        let builder = Jobs::builder("s", Client::open(&server.url()).unwrap()).name(name);
        builder.queue(Queue::new("q").keep(MINUTE)).join().await.unwrap()
    };
    let (jobs, other) = (join("n").await, join("m").await);
    let (said, gate) = (Said::default(), Arc::new(Semaphore::new(0)));
    let _worker = gated(&jobs, &said, &gate);
    let runs = jobs.add("q", "runs").await.unwrap().id;
    said.until(1).await;
    let waits = jobs.add("q", "waits").delay(MINUTE).await.unwrap().id;
    lose(&server).await;
    let _other = gated(&other, &said, &gate);
    is_in(&jobs, &runs, Some(State::Running)).await;
    assert!(jobs.get(&waits).await.unwrap().is_none(), "what waits is lost");
    assert_eq!(jobs.get(&runs).await.unwrap().unwrap().data::<String>().unwrap(), "runs");
    gate.add_permits(1);
    is_in(&jobs, &runs, Some(State::Done)).await;
    assert_eq!(said.all(), ["runs 1"], "it ran on, and ran once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_goes_on_after_a_flush() {
    what_runs_goes_on_after(async |server| {
        let client = Client::open(&server.url()).unwrap();
        client.commands().command(&::redis::cmd("FLUSHALL")).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_goes_on_after_a_restart_without_data() {
    what_runs_goes_on_after(async |server| {
        server.kill().unwrap();
        server.restart(Data::Wipe).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_ended_does_not_run_again_when_the_data_go_back() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let jobs = Jobs::builder("s", client.clone()).queue(Queue::new("q").keep(MINUTE)).join().await.unwrap();
    let (said, gate) = (Said::default(), Arc::new(Semaphore::new(0)));
    let _worker = gated(&jobs, &said, &gate);
    let (first, second) =
        (jobs.add("q", "first").await.unwrap().id, jobs.add("q", "second").await.unwrap().id);
    said.until(2).await;
    // The copy that the server comes back with: both run.
    client.commands().command(&::redis::cmd("SAVE")).await.unwrap();
    gate.add_permits(1);
    let (ended, other) = tokio::select! {
        _ = jobs.wait(&first) => (&first, &second),
        _ = jobs.wait(&second) => (&second, &first),
    };
    server.kill().unwrap();
    server.restart(Data::Keep).unwrap();
    is_in(&jobs, ended, Some(State::Done)).await;
    is_in(&jobs, other, Some(State::Running)).await;
    gate.add_permits(1);
    is_in(&jobs, other, Some(State::Done)).await;
    // A later take gives nothing of these.
    let third = jobs.add("q", "third").await.unwrap().id;
    gate.add_permits(1);
    is_in(&jobs, &third, Some(State::Done)).await;
    let mut all = said.all();
    all.sort();
    assert_eq!(all, ["first 1", "second 1", "third 1"]);
}

#[tokio::test]
async fn a_checkpoint_outlives_a_loss_of_all_data() {
    let store = MemoryStore::new();
    let queue = Queue::new("q").backoff(Backoff::none()).keep(MINUTE);
    let jobs = Jobs::in_memory(store.clone()).queue(queue).join().await.unwrap();
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let store = store.clone();
        async move {
            if let Some(page) = ctx.checkpointed::<u8>()? {
                return Ok(Outcome::result(&page)?);
            }
            ctx.checkpoint(&9u8).await?;
            store.wipe();
            Err("once more".into())
        }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    is_in(&jobs, &id, Some(State::Done)).await;
    assert_eq!(jobs.wait(&id).await.unwrap().result::<u8>().unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_couch_job_keeps_a_checkpoint_through_a_loss() {
    let began = tokio::time::Instant::now();
    let store = MemoryStore::with_clock(move || 1_800_000_000_000 + began.elapsed().as_millis() as u64);
    let jobs = Jobs::over(Arc::new(store.clone())).name("n").join().await.unwrap();
    let couch = Couch::new(jobs.clone());
    couch.set_type_timeout("t", 5 * SECOND).await.unwrap();
    couch.add("t", "j", &(), None).await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let handler = move |ctx: Ctx, (): ()| {
        let heard = heard.clone();
        async move {
            if let Some(page) = ctx.checkpointed::<u8>()? {
                heard.say(page.to_string());
                return Ok::<_, BoxError>(());
            }
            ctx.checkpoint(&9u8).await?;
            heard.say("kept");
            std::future::pending().await
        }
    };
    let first = jobs.worker("t", handler.clone()).start().unwrap();
    said.until(1).await;
    assert_eq!(first.close(Duration::ZERO).await.unwrap().given_back, 1);
    let mut taken = couch.accept("t", Accept::new()).await.unwrap().unwrap();
    store.wipe();
    taken.update(None::<&()>).await.unwrap();
    // Nobody renews the lease of a taken job that is dropped.
    let id = taken.id().clone();
    drop(taken);
    let _second = jobs.worker("t", handler).start().unwrap();
    let ended = tokio::time::timeout(10 * MINUTE, jobs.wait(&id)).await;
    assert_eq!((ended.is_ok(), said.all()), (true, vec!["kept".to_owned(), "9".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_checkpoint_outlives_data_that_go_back() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let queue = Queue::new("q").backoff(Backoff::none()).keep(MINUTE);
    let jobs = Jobs::builder("s", client.clone()).queue(queue).join().await.unwrap();
    let (said, gate) = (Said::default(), Arc::new(Semaphore::new(0)));
    let (heard, opened) = (said.clone(), gate.clone());
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let (heard, opened) = (heard.clone(), opened.clone());
        async move {
            if let Some(page) = ctx.checkpointed::<u8>()? {
                heard.say(page.to_string());
                return Ok(());
            }
            for page in [8u8, 9] {
                ctx.checkpoint(&page).await?;
                heard.say("kept");
                opened.acquire().await?.forget();
            }
            Err("once more".into())
        }
    });
    let _worker = worker.start().unwrap();
    jobs.add("q", &()).await.unwrap();
    said.until(1).await;
    // The copy that the server comes back with.
    client.commands().command(&::redis::cmd("SAVE")).await.unwrap();
    gate.add_permits(1);
    said.until(2).await;
    server.kill().unwrap();
    server.restart(Data::Keep).unwrap();
    gate.add_permits(1);
    assert_eq!(said.until(3).await, ["kept", "kept", "9"]);
}

#[tokio::test]
async fn children_are_made_and_read_right_after_a_loss() {
    let store = MemoryStore::new();
    let jobs = Jobs::in_memory(store.clone()).queue(Queue::new("q").keep(MINUTE)).queue(Queue::new("c"));
    let jobs = jobs.join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let parent = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let (heard, store) = (heard.clone(), store.clone());
        async move {
            store.wipe();
            if let Some(children) = ctx.children().await? {
                heard.say(format!("{} children", children.len()));
                return Ok(Outcome::done());
            }
            ctx.spawn("c", "1", &()).await?;
            heard.say("made");
            Ok(Outcome::wait())
        }
    });
    let _parent = parent.start().unwrap();
    let _child = jobs.worker("c", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let id = jobs.add("q", &()).await.unwrap().id;
    is_in(&jobs, &id, Some(State::Done)).await;
    assert_eq!(said.all(), ["made", "0 children"], "their ends were lost, and nothing failed");
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_tells_its_ends_within_the_hold() {
    let began = tokio::time::Instant::now();
    let store = MemoryStore::with_clock(move || 1_800_000_000_000 + began.elapsed().as_millis() as u64);
    let node = async |name: &str| {
        let builder = Jobs::over(Arc::new(store.clone())).name(name).queue(Queue::new("q").keep(MINUTE));
        builder.join().await.unwrap()
    };
    let idle = node("idle").await;
    let _worker = idle.worker("q", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let id = idle.add("q", &()).await.unwrap().id;
    assert!(idle.wait(&id).await.unwrap().is_done());
    let other = node("other").await;
    store.wipe();
    // The other one notices, and begins the hold.
    other.add("q", &()).delay(MINUTE).await.unwrap();
    tokio::time::sleep(2 * SECOND).await;
    let known = store.dump_without_lanes().value("extras", &format!("a:{id}")).is_some();
    assert!(known, "the data know what has ended: {:?}", store.dump_without_lanes().lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_attestation_is_made_again_soon() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let say = async |words: &str| {
        let mut words = words.split(' ');
        let mut command = ::redis::cmd(words.next().unwrap());
        for word in words {
            command.arg(word);
        }
        client.commands().command(&command).await.unwrap()
    };
    // A third of its lease is longer than this test waits.
    let queue = Queue::new("q").keep(MINUTE).lease(20 * MINUTE);
    let jobs = Jobs::builder("s", client.clone()).queue(queue).join().await.unwrap();
    let (said, gate) = (Said::default(), Arc::new(Semaphore::new(0)));
    let _worker = gated(&jobs, &said, &gate);
    let id = jobs.add("q", "runs").await.unwrap().id;
    said.until(1).await;
    // A job cannot be made again without this.
    say("ACL SETUSER default -zlexcount").await;
    say("FLUSHALL").await;
    tenure_testing::eventually(MINUTE, "an attestation is refused", async || {
        let log = say("ACL LOG").await;
        if matches!(&log, ::redis::Value::Array(entries) if !entries.is_empty()) { Ok(()) } else { Err(log) }
    })
    .await;
    say("ACL SETUSER default +zlexcount").await;
    is_in(&jobs, &id, Some(State::Running)).await;
    gate.add_permits(1);
    is_in(&jobs, &id, Some(State::Done)).await;
    assert_eq!(said.all(), ["runs 1"]);
}
