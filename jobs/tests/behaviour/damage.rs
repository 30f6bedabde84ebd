//! Somebody else damages the data while a node works. The node goes on, or begins another incarnation.

use tenure_jobs::{BoxError, Client, Ctx, Jobs, Queue};
use tenure_testing::{RedisServer, eventually};

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
