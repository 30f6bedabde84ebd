//! A node whose user has exactly the rights that the documents name does all that a node does.

use std::time::Duration;

use tenure_jobs::{Client, Ctx, Error, Groups, Jobs, Outcome, Queue, StoreError};
use tenure_testing::RedisServer;

use super::world::{MINUTE, SECOND};

const DOCUMENT: &str = include_str!("../../../../docs/jobs.md");

/// The documented rights for a set.
fn documented() -> Vec<String> {
    let (_, after) = DOCUMENT.split_once("```acl\n").unwrap();
    let (rights, _) = after.split_once("```").unwrap();
    rights.replace("<set>", "shop").split_whitespace().map(str::to_owned).collect()
}

fn client(server: &RedisServer, name: &str, rights: &[String]) -> Client {
    let rights: Vec<_> = rights.iter().map(String::as_str).collect();
    Client::open(&server.acl_user(name, "secret", &rights).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_for_a_node() {
    let server = RedisServer::start().unwrap();
    let client = client(&server, "node", &documented());
    let queue = Queue::new("work").groups(Groups::new().limit(50, SECOND)).keep(MINUTE);
    let jobs = Jobs::builder("shop", client).queue(queue).queues(["child"]).join().await.unwrap();
    let worker = jobs.worker("work", async |ctx: Ctx, (): ()| {
        if ctx.children().await?.is_some() {
            return Ok(Outcome::result("all")?);
        }
        ctx.spawn("child", "one", &()).await?;
        Ok(Outcome::wait())
    });
    let worker = worker.start().unwrap();
    let children = jobs.worker("child", async |_: Ctx, (): ()| Ok(())).start().unwrap();
    let id = jobs.add("work", &()).group("a").lookup("user", 7).await.unwrap().id;
    assert_eq!(jobs.wait(&id).await.unwrap().result::<String>().unwrap(), "all");
    assert_eq!(jobs.find("user", 7).await.unwrap(), std::slice::from_ref(&id));
    let later = jobs.add("work", &()).group("a").delay(MINUTE).await.unwrap().id;
    jobs.cancel(&later, "no").await.unwrap();
    server.query::<()>(&redis::cmd("FLUSHALL")).unwrap();
    let id = jobs.add("work", &()).group("a").await.unwrap().id;
    assert!(jobs.wait(&id).await.unwrap().is_done());
    worker.close(MINUTE).await.unwrap();
    children.close(MINUTE).await.unwrap();
    let denied: Vec<redis::Value> = server.query(redis::cmd("ACL").arg("LOG")).unwrap();
    assert!(denied.is_empty(), "{denied:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_may_not_subscribe_does_not_join() {
    let server = RedisServer::start().unwrap();
    for (name, missing) in [("deaf", "+ssubscribe"), ("elsewhere", "&tenure:{shop}:q:n:*")] {
        let mut rights = documented();
        rights.retain(|right| right != missing);
        let joined = Jobs::builder("shop", client(&server, name, &rights)).queues(["q"]).join();
        match tokio::time::timeout(MINUTE, joined).await.unwrap() {
            Err(Error::Store(StoreError::Unusable(why))) => {
                assert!(why.to_string().contains("NOPERM"), "{why}");
            }
            other => panic!("{other:?} without {missing}"),
        }
    }
    let rights = documented();
    let jobs = Jobs::builder("shop", client(&server, "whole", &rights)).queues(["q"]).join();
    tokio::time::timeout(Duration::from_secs(60), jobs).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_add_that_lacks_a_right_ends_at_once() {
    let server = RedisServer::start().unwrap();
    let client = client(&server, "poor", &documented());
    let jobs = Jobs::builder("shop", client).queue(Queue::new("work")).join().await.unwrap();
    jobs.add("work", &()).await.unwrap();
    let say = |rights: &[&str]| {
        server.query::<()>(redis::cmd("ACL").arg(&["SETUSER", "poor"]).arg(rights)).unwrap();
    };
    for right in ["evalsha", "hmget"] {
        say(&[&format!("-{right}")]);
        let added = tokio::time::timeout(MINUTE, async { jobs.add("work", &()).await });
        match added.await.unwrap_or_else(|_| panic!("an add waits for the right to {right}")) {
            Err(Error::Store(StoreError::Unusable(_))) => {}
            other => panic!("{other:?} without {right}"),
        }
        say(&[&format!("+{right}")]);
        jobs.add("work", &()).await.unwrap();
    }
}
