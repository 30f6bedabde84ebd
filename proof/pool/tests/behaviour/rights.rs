//! A node whose user has exactly the rights that the protocol names can do everything that a node does.

use std::time::Duration;

use futures::StreamExt;
use tenure_pool::{
    BoxError, Client, DispatchError, Error, JobSpec, JobState, Node, Plan, RestartPolicy, Tick,
};
use tenure_testing::RedisServer;

use crate::recorder::Act;
use crate::world::{POOL, World, moved, until};

const PROTOCOL: &str = include_str!("../../../../docs/protocol/limits.md");
const SECURITY: &str = include_str!("../../../../SECURITY.md");

/// The text between these two.
fn words(text: &str, from: &str, to: &str) -> Vec<String> {
    let (_, after) = text.split_once(from).unwrap();
    let (between, _) = after.split_once(to).unwrap();
    between.split_whitespace().map(str::to_owned).collect()
}

/// The documented rights, and no others.
fn documented_rights() -> Vec<String> {
    words(&PROTOCOL.replace("<pool>", POOL), "```acl\n", "```")
}

/// Those of a user who only looks: the second list.
pub(crate) fn documented_rights_to_look() -> Vec<String> {
    let (_, after) = PROTOCOL.split_once("```acl\n").unwrap();
    words(&after.replace("<pool>", POOL), "```acl\n", "```")
}

#[test]
fn the_security_page_gives_the_rights_of_the_protocol() {
    let documented = words(&PROTOCOL.replace("<pool>", "feeds"), "```acl\n", "```");
    assert_eq!(words(SECURITY, ">PASSWORD", "```"), documented);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_for_a_whole_life() {
    let server = RedisServer::start().unwrap();
    let rights = documented_rights();
    let rights: Vec<_> = rights.iter().map(String::as_str).collect();
    let url = server.acl_user("node", "secret", &rights).unwrap();
    let world = World::elsewhere(&Client::open(&url).unwrap()).with_ttl(Duration::from_secs(2));

    let (a, b) = (world.node_with("a", 1).await, world.node("b").await);
    let client = world.builder("client").client_only().join().await.unwrap();
    let keys = world.dispatch(&client, 20).await;
    let placed = world.placed(&a, &keys).await;
    b.dispatch(("own", "")).id("order-17").await.unwrap();
    b.dispatch(("own", "")).id("order-17").await.unwrap();
    b.notify(&*keys[0], "hello").await.unwrap();
    until("the notification", async || world.recorder.notes(&keys[0]) == ["hello"]).await;

    let second = world.add_worker(&b).await;
    let spread = world.placed(&b, &keys).await;
    assert!(!moved(&placed, &spread).is_empty());
    second.drain().await.unwrap();
    until("the drained worker to be gone", async || a.inspect().workers().await.unwrap().len() == 1).await;

    let mut ticker = client.ticker("beat", Duration::from_millis(20)).await.unwrap();
    assert_eq!(ticker.next().await.unwrap().number, 1);
    ticker.set_period(Duration::from_millis(10)).await.unwrap();
    ticker.stop().await.unwrap();
    let planner = |tick: Tick| async move {
        let key = format!("planned-{}", tick.number % 2);
        Ok::<_, BoxError>(Plan::exactly([JobSpec::new(key, "")]))
    };
    let schedule = client.schedule("plan", planner, Duration::from_millis(50)).await.unwrap();
    for key in ["planned-0", "planned-1"] {
        until("a planned job", async || world.recorder.starts_of(key) > 0).await;
    }
    schedule.end().await.unwrap();

    let settings = b.operate().change_settings(|settings| settings.max_attempts = 1).await.unwrap();
    assert_eq!(settings.max_attempts, 1);
    let failing = b.add_worker(world.recorder.acting(|_| Act::Fail("as it was told"))).await.unwrap();
    world.placed(&a, &[]).await;
    for key in 0..20 {
        let spec = JobSpec::new(format!("failing-{key}"), "").restart(RestartPolicy::OnFailure);
        client.submit(spec).await.unwrap();
    }
    until("a parked job", async || !client.inspect().parked().await.unwrap().is_empty()).await;
    let parked = client.inspect().parked().await.unwrap().remove(0);
    failing.drain().await.unwrap();
    client.operate().unpark(parked.key.clone()).await.unwrap();
    until("the un-parked job to run", async || {
        let job = client.inspect().job(parked.key.clone()).await.unwrap().unwrap();
        job.state == JobState::Running
    })
    .await;
    assert!(client.inspect().payload(parked.key).await.unwrap().is_some());
    a.inspect().jobs_of(&a.inspect().workers().await.unwrap()[0], None, 10).await.unwrap();

    client.operate().bounce(&*keys[0]).await.unwrap();
    client.operate().restart(&*keys[0]).await.unwrap();
    client.operate().park(&*keys[0], "ticket 17").await.unwrap();
    client.operate().retry(&*keys[0]).await.unwrap();
    client.stop_job(&*keys[0]).until_stopped().await.unwrap();
    let queued = client.submit(("cancelled", "")).await.unwrap();
    client.cancel(&queued).await.unwrap();
    a.abandon();
    b.add_worker(world.recorder.clone()).await.unwrap();
    let report = b.operate().shutdown().await.unwrap();
    assert!(report.complete, "{report:?}");
    client.closed().await;
    let denied: Vec<redis::Value> = server.query(redis::cmd("ACL").arg("LOG")).unwrap();
    assert!(denied.is_empty(), "{denied:?}");
    let (tombstone, of_the_dead) = (format!("tenure:{{{POOL}}}:pool"), format!("tenure:{{{POOL}}}:node:a"));
    assert_eq!(server.keys().unwrap(), [of_the_dead, tombstone], "the former expires");
}

/// The user has lost the right since the join.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_named_at_once_and_is_no_damage() {
    let server = RedisServer::start().unwrap();
    let world = World::elsewhere(&Client::open(&server.url()).unwrap()).with_ttl(Duration::from_secs(2));
    let whole = world.node_with("whole", 1).await;
    let keys = world.dispatch(&whole, 1).await;
    let rights = documented_rights();
    let mut rights: Vec<_> = rights.iter().map(String::as_str).collect();
    let user = Client::open(&server.acl_user("poor", "secret", &rights).unwrap()).unwrap();
    let client = Node::builder(POOL, user).client_only().must_exist();
    let client = client.worker_ttl(Duration::from_secs(2)).join().await.unwrap();
    rights.push("-hset");
    server.acl_user("poor", "secret", &rights).unwrap();
    let dispatched = client.dispatch(("new", "")).await;
    assert!(
        matches!(&dispatched, Err(DispatchError::Store(error)) if error.is_forbidden()),
        "{dispatched:?}"
    );
    let refused = client.notify(&*keys[0], "hello").await.unwrap_err();
    client.abandon();
    assert!(matches!(&refused, Error::Store(error) if error.is_forbidden()), "{refused:?}");
    assert!(!refused.to_string().contains("stored data"), "{refused}");
}
