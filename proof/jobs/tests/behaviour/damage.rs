//! Somebody else damages the data while a node works. The node goes on, or begins another incarnation.

use std::sync::Arc;
use std::time::Duration;

use tenure_jobs::{BoxError, Client, Ctx, Error, Groups, Jobs, Queue, State};
use tenure_testing::{RedisServer, eventually};
use tokio::sync::Semaphore;

use super::world::{MINUTE, Said};

#[tokio::test]
async fn a_node_goes_on_after_damage_to_head_lanes_and_waiters() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let jobs = Jobs::builder("s", client).name("n").queue(Queue::new("q")).join().await.unwrap();
    let said = Said::default();
    let heard = said.clone();
    let worker = jobs.worker("q", move |_: Ctx, n: u64| {
        heard.say(n.to_string());
        async { Ok::<_, BoxError>(()) }
    });
    let _worker = worker.start().unwrap();
    let eval = |script: &str| server.query::<redis::Value>(redis::cmd("EVAL").arg(script).arg(0)).unwrap();
    let damages = [
        "return redis.call('HSET', 'tenure:{s}:q:meta', 'incarnation', 'x')",
        "return redis.call('HSET', 'tenure:{s}:q:meta', 'token', 'x')",
        "return redis.call('HDEL', 'tenure:{s}:q:meta', 'incarnation')",
        "return redis.call('HSET', 'tenure:{s}:q:meta', 'server', '\\255', 'incarnation', '\\255')",
        "for _, k in ipairs(redis.call('KEYS', '*:lane:*')) do redis.call('SET', k, 'x') end",
        // A number that the node will not come to.
        "for _, k in ipairs(redis.call('KEYS', '*:lane:*')) do redis.call('SET', k, '99999999999999999999|K') end",
        // The waiting node is forgotten.
        "return redis.call('DEL', 'tenure:{s}:q:waiting')",
    ];
    for (n, damage) in damages.iter().enumerate() {
        eval(damage);
        jobs.add("q", &(n as u64)).await.unwrap();
        said.until(n + 1).await;
        eventually(MINUTE, "it has ended", async || {
            let figures = jobs.queue("q").unwrap().figures().await.unwrap();
            if figures.done == n as u64 + 1 { Ok(()) } else { Err(figures) }
        })
        .await;
    }
    assert_eq!(said.count(), damages.len(), "nothing runs twice");
    jobs.close();
}

/// Puts a text at a key until `damaged` has returned.
async fn with_another_type(server: &RedisServer, key: &str, damaged: impl AsyncFnOnce()) {
    let key = format!("tenure:{{s}}:q:{key}");
    let aside = format!("aside:{key}");
    let damage = "redis.call('RENAME', KEYS[1], KEYS[2]) redis.call('SET', KEYS[1], 'garbage')";
    server.query::<()>(redis::cmd("EVAL").arg(damage).arg(2).arg(&key).arg(&aside)).unwrap();
    damaged().await;
    server.query::<()>(redis::cmd("RENAME").arg(&aside).arg(&key)).unwrap();
}

#[tokio::test]
async fn ends_that_damaged_data_refuse_are_said_later() {
    let server = RedisServer::builder().config("slowlog-log-slower-than", "0").start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    // A lease that ends by itself would come too late.
    let queue = Queue::new("q").concurrency(2).lease(Duration::from_secs(600));
    let jobs = Jobs::builder("s", client).name("n").queue(queue).join().await.unwrap();
    let (said, may_end) = (Said::default(), Arc::new(Semaphore::new(0)));
    let (heard, gate) = (said.clone(), may_end.clone());
    let worker = jobs.worker("q", move |_: Ctx, n: u64| {
        heard.say(n.to_string());
        let gate = gate.clone();
        async move {
            gate.acquire().await?.forget();
            Ok::<_, BoxError>(())
        }
    });
    let _worker = worker.slots(2).start().unwrap();
    for n in 0..4_u64 {
        jobs.add("q", &n).await.unwrap();
    }
    said.until(2).await;
    with_another_type(&server, "queues", async || {
        server.query::<()>(redis::cmd("SLOWLOG").arg("RESET")).unwrap();
        may_end.add_permits(4);
        eventually(MINUTE, "an end is refused", async || {
            let calls = server.query::<redis::Value>(redis::cmd("SLOWLOG").arg("GET").arg(128)).unwrap();
            let calls = format!("{calls:?}");
            if calls.contains("settle") { Ok(()) } else { Err(calls) }
        })
        .await;
    })
    .await;
    eventually(MINUTE, "all have ended", async || {
        let figures = jobs.queue("q").unwrap().figures().await.unwrap();
        if figures.done == 4 && figures.running == 0 { Ok(()) } else { Err(figures) }
    })
    .await;
    assert_eq!(said.count(), 4, "nothing runs twice: {:?}", said.all());
    jobs.close();
}

#[tokio::test]
async fn settings_that_are_lost_come_back_to_all_nodes() {
    let server = RedisServer::start().unwrap();
    let node = |name: &str| Jobs::builder("s", Client::open(&server.url()).unwrap()).name(name);
    let declares = node("declares").queue(Queue::new("few").concurrency(3)).queue(Queue::new("gone"));
    let declares = declares.queue(Queue::new("groups").groups(Groups::new().concurrency(1)));
    let declares = declares.join().await.unwrap();
    let names = ["few", "gone", "groups"];
    let works = node("works").queues(names).join().await.unwrap();
    let settings = async || {
        let mut found = Vec::new();
        for name in names {
            found.push(
                declares.queue(name).unwrap().figures().await.ok().and_then(|figures| figures.settings),
            );
        }
        found
    };
    let before = settings().await;
    declares.add("groups", &7_u64).group("a").await.unwrap();
    for (field, text) in [("few", "-|x"), ("groups", "")] {
        server.query::<()>(redis::cmd("HSET").arg("tenure:{s}:q:queues").arg(field).arg(text)).unwrap();
    }
    server.query::<()>(redis::cmd("HDEL").arg("tenure:{s}:q:queues").arg("gone")).unwrap();
    eventually(MINUTE, "the settings are there", async || {
        let now = settings().await;
        if now == before { Ok(()) } else { Err(now) }
    })
    .await;
    let said = Said::default();
    let heard = said.clone();
    let worker = works.worker_of(names, move |_: Ctx, n: u64| {
        heard.say(n.to_string());
        async { Ok::<_, BoxError>(()) }
    });
    let _worker = worker.start().unwrap();
    said.until(1).await;
    declares.add("few", &8_u64).await.unwrap();
    said.until(2).await;
    declares.close();
    works.close();
}

#[tokio::test]
async fn progress_beside_unreadable_notes_erases_nothing() {
    let server = RedisServer::start().unwrap();
    let client = Client::open(&server.url()).unwrap();
    let jobs = Jobs::builder("s", client).name("n").queue(Queue::new("q").attempts(2)).join().await.unwrap();
    let (said, may_go_on) = (Said::default(), Arc::new(Semaphore::new(0)));
    let (heard, gate) = (said.clone(), may_go_on.clone());
    let worker = jobs.worker("q", move |ctx: Ctx, (): ()| {
        let (heard, gate) = (heard.clone(), gate.clone());
        async move {
            if ctx.attempt() == 1 {
                ctx.checkpoint("page 3").await?;
                heard.say("checkpointed");
                gate.acquire().await?.forget();
                return Err::<(), BoxError>("the first attempt fails".into());
            }
            heard.say(format!("{:?}", matches!(ctx.progress(&50_u8).await, Err(Error::Decode(_)))));
            gate.acquire().await?.forget();
            // The next checkpoint replaces damaged notes.
            ctx.checkpoint("page 4").await?;
            ctx.progress(&60_u8).await?;
            Ok(())
        }
    });
    let _worker = worker.start().unwrap();
    let id = jobs.add("q", &()).keep(MINUTE).await.unwrap().id;
    said.until(1).await;
    jobs.queue("q").unwrap().pause().await.unwrap();
    may_go_on.add_permits(1);
    eventually(MINUTE, "the first attempt has failed", async || {
        let state = jobs.get(&id).await.unwrap().unwrap().state();
        if state == State::Running { Err(state) } else { Ok(()) }
    })
    .await;
    let (extras, notes) = ("tenure:{s}:q:extras", format!("n:{id}"));
    server.query::<()>(redis::cmd("HSET").arg(extras).arg(&notes).arg("rubbish")).unwrap();
    jobs.queue("q").unwrap().resume().await.unwrap();
    assert_eq!(said.until(2).await, ["checkpointed", "true"]);
    assert_eq!(server.query::<String>(redis::cmd("HGET").arg(extras).arg(&notes)).unwrap(), "rubbish");
    may_go_on.add_permits(1);
    assert!(jobs.wait(&id).await.unwrap().is_done());
    let view = jobs.get(&id).await.unwrap().unwrap();
    assert_eq!(view.checkpoint::<String>().unwrap().as_deref(), Some("page 4"));
    jobs.close();
}
