//! Nothing is left behind: no task, no connection, no key.

use redis::Value;
use tenure_rmap::{Error, RawMap};
use tenure_testing::{RedisServer, eventually};

use crate::{SOON, bytes, client, in_time, run};

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

#[tokio::test]
async fn nothing_is_left_of_a_dropped_or_closed_map() {
    let server = RedisServer::start().unwrap();
    let watcher = client(&server).commands();
    let connected = async || match run(&watcher, &["CLIENT", "LIST"]).await {
        Value::BulkString(text) => String::from_utf8(text).unwrap().lines().count(),
        other => panic!("{other:?}"),
    };
    eventually(SOON, "the server's starter to be gone", async || connected().await == 1).await;
    let before = tasks();

    let dropped = RawMap::join(&client(&server), "m").await.unwrap();
    let mut watch = dropped.watch();
    assert_eq!(connected().await, 3);
    drop(dropped.clone());
    dropped.set_and_wait("k", "v").await.unwrap();
    drop(dropped);
    eventually(SOON, "the connections to end", async || connected().await == 1).await;
    eventually(SOON, "the tasks to end", async || tasks() == before).await;
    assert!(watch.changed().await.is_ok(), "the last change");
    assert!(matches!(watch.changed().await, Err(Error::Closed)), "then the end");
    assert!(watch.changed().await.is_err(), "and again");

    let closed = RawMap::join(&client(&server), "m").await.unwrap();
    let mut watch = closed.watch();
    closed.close().await;
    closed.close().await;
    assert!(in_time(SOON, watch.changed()).await.is_err());
    assert_eq!(closed.get("k"), bytes("v"), "the copy stays readable");
    assert!(matches!(closed.refresh().await, Err(Error::Closed)));
    closed.view().expect(None, 99);
    drop(closed);
    eventually(SOON, "the connections to end", async || connected().await == 1).await;
    eventually(SOON, "the tasks to end", async || tasks() == before).await;
}

#[tokio::test]
async fn a_closed_map_refuses_every_write() {
    let server = RedisServer::start().unwrap();
    let map = RawMap::join(&client(&server), "m").await.unwrap();
    let typed = map.typed::<u32>();
    typed.close().await;
    let closed = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Closed)), "{result:?}");
    closed(map.set("k", "v").await.map(drop));
    closed(map.set_and_wait("k", "v").await.map(drop));
    closed(map.set_if_absent("k", "v").await.map(drop));
    closed(map.test_and_set("k", "v", "w").await.map(drop));
    closed(map.test_and_delete("k", "v").await.map(drop));
    closed(map.test_and_reset("k", "v").await.map(drop));
    closed(map.increment("k", 1).await.map(drop));
    closed(map.append("k", ["v"]).await.map(drop));
    closed(map.append_unique("k", ["v"]).await.map(drop));
    closed(map.remove_values("k", ["v"]).await.map(drop));
    closed(map.set_many([("k", "v")]).await);
    closed(map.delete_many(["k"]).await.map(drop));
    closed(map.delete("k").await.map(drop));
    closed(map.reset().await);
    closed(map.destroy().await.map(drop));
    closed(map.with_entry_ttl(SOON).set("k", "v").await.map(drop));
    closed(typed.set("k", &1).await);
    assert_eq!(run(&client(&server).commands(), &["DBSIZE"]).await, Value::Int(0));
}

#[tokio::test]
async fn a_join_that_is_given_up_leaves_nothing() {
    let server = RedisServer::start().unwrap();
    let watcher = client(&server).commands();
    run(&watcher, &["PING"]).await;
    let before = tasks();
    for polls in 0..20 {
        let client = client(&server);
        let mut join = Box::pin(RawMap::join(&client, "m"));
        for _ in 0..polls {
            if futures::poll!(&mut join).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    eventually(SOON, "the tasks to end", async || tasks() == before).await;
    eventually(SOON, "the connections to end", async || {
        let Value::BulkString(text) = run(&watcher, &["CLIENT", "LIST"]).await else { return false };
        String::from_utf8(text).unwrap().lines().count() == 1
    })
    .await;
}
