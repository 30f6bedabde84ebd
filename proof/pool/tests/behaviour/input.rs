//! Mistakes of users: each gets a typed error, and nothing is written.

use std::time::Duration;

use tenure_connection::Error as ConnectionError;
use tenure_pool::store::{StoreError, UnsuitableServer};
use tenure_pool::{Client, DispatchError, Error, Node, NodeBuilder};
use tenure_protocol::model::id::IdError;
use tenure_testing::tls::Authority;
use tenure_testing::{Proxy, RedisServer};

use crate::world::{PATIENCE, POOL, World, on_both_stores, until};

on_both_stores!(
    a_bad_key_is_refused,
    a_payload_that_is_too_long_is_refused,
    a_bad_name_is_refused,
    a_setting_out_of_range_is_refused,
    a_join_with_another_setting_is_refused,
    a_node_for_a_pool_that_must_exist_makes_none,
);

async fn a_bad_key_is_refused(world: World) {
    // Without a worker, so that nothing changes unasked.
    let node = world.node("a").await;
    let before = world.data_but_readers().await;
    for key in [String::new(), "k".repeat(600)] {
        let dispatch = node.dispatch((key.as_str(), "")).await;
        assert!(matches!(dispatch, Err(DispatchError::Key(_))), "{dispatch:?}");
        let submit = node.submit((key.as_str(), "")).await;
        assert!(matches!(submit, Err(DispatchError::Key(_))), "{submit:?}");
        for result in [node.stop_job(key.as_str()).await, node.notify(key.as_str(), "").await] {
            assert!(matches!(result, Err(Error::Name(_))), "{result:?}");
        }
    }
    let long = node.dispatch(("k".repeat(600).as_str(), "")).await.unwrap_err();
    assert!(matches!(long, DispatchError::Key(IdError::TooLong { len: 600, max: 512, .. })), "{long:?}");
    assert_eq!(world.data_but_readers().await, before);
}

async fn a_payload_that_is_too_long_is_refused(world: World) {
    let node = world.node("a").await;
    let before = world.data_but_readers().await;
    let refused = node.dispatch(("key", vec![0; 2 << 20])).await.unwrap_err();
    assert!(
        matches!(refused, DispatchError::PayloadTooLong { len, max } if len >= 2 << 20 && max == 512 << 10)
    );
    let refused = node.notify("key", vec![0; 2 << 20]).await.unwrap_err();
    assert!(matches!(refused, Error::TooLong { .. }), "{refused:?}");
    assert_eq!(world.data_but_readers().await, before);
    world.add_worker(&node).await;
    node.dispatch(("key", vec![0; 500 << 10])).await.unwrap();
    assert_eq!(world.recorder.payloads("key")[0].len(), 500 << 10);
}

async fn a_bad_name_is_refused(world: World) {
    for name in ["with.dot", "with{brace", "", "with space"] {
        let refused = world.builder(name).join().await.unwrap_err();
        assert!(matches!(refused, Error::Name(_)), "{name}: {refused:?}");
    }
    assert_eq!(world.data().await, [""; 0]);
}

async fn a_setting_out_of_range_is_refused(world: World) {
    let builders: [fn(NodeBuilder) -> NodeBuilder; 5] = [
        |builder| builder.worker_ttl(Duration::from_millis(1)),
        |builder| builder.max_queued(0),
        |builder| builder.handoff_parallel(0),
        |builder| builder.start_timeout(Duration::ZERO),
        |builder| builder.stop_timeout(Duration::ZERO),
    ];
    for set in builders {
        let refused = set(world.builder("a")).join().await.unwrap_err();
        assert!(matches!(refused, Error::Setting(_)), "{refused:?}");
    }
    assert_eq!(world.data().await, [""; 0]);
}

async fn a_join_with_another_setting_is_refused(world: World) {
    let node = world.node("a").await;
    let before = world.data_but_readers().await;
    let other = world.builder("b").worker_ttl(Duration::from_secs(7));
    match other.join().await.unwrap_err() {
        Error::SettingMismatch { name, theirs, ours } => {
            assert_eq!((name.as_str(), theirs.as_str(), ours.as_str()), ("worker_ttl", "10s", "7s"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.data_but_readers().await, before);
    drop(node);
}

/// The error of a join on this server.
async fn refusal(url: &str) -> Error {
    let client = Client::open(url).unwrap();
    let join = Node::builder(POOL, client).join_timeout(Duration::from_secs(5)).join();
    join.await.expect_err("this server cannot be used")
}

fn keys_on(server: &RedisServer) -> u64 {
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    redis::cmd("DBSIZE").query(&mut connection).unwrap()
}

#[tokio::test]
async fn a_url_that_is_none_is_refused() {
    for url in ["", "nonsense", "http://127.0.0.1"] {
        let refused = Client::open(url).expect_err("no address of a Redis");
        assert!(matches!(refused, ConnectionError::Config { .. }), "{refused:?}");
    }
}

/// The error of a join that may wait for a minute, and does not.
async fn told_at_once(url: &str) -> Error {
    let join = Node::builder(POOL, Client::open(url).unwrap()).join_timeout(10 * PATIENCE).join();
    tokio::time::timeout(PATIENCE, join).await.expect("an answer").unwrap_err()
}

#[tokio::test]
async fn a_right_that_is_missing_ends_a_join_at_once() {
    let server = RedisServer::start().unwrap();
    let keys = format!("~tenure:{{{POOL}}}:*");
    let channel = format!("&tenure:{{{POOL}}}:changes");
    for (user, word, rights) in [
        ("keys", "noperm", ["~tenure:{other}:*", &channel, "+@all"]),
        ("channel", "channel", [&*keys, "&tenure:{other}:changes", "+@all"]),
    ] {
        let refused = told_at_once(&server.acl_user(user, "secret", &rights).unwrap()).await;
        assert!(matches!(refused, Error::Store(StoreError::Unusable(_))), "{user}: {refused:?}");
        assert!(refused.to_string().to_lowercase().contains(word), "{user}: {refused}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_refused_ends_a_join_at_once() {
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let file = server.dir().join("other.pem");
    std::fs::write(&file, other.ca_pem()).unwrap();
    let refused = told_at_once(&format!("{}?ca={}", server.url(), file.display())).await;
    assert!(matches!(refused, Error::Store(StoreError::Unusable(_))), "{refused:?}");
    assert!(refused.to_string().contains("certificate is refused"), "{refused}");
}

#[tokio::test]
async fn a_join_that_ran_out_of_time_says_what_kept_it() {
    let server = RedisServer::start().unwrap();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).query(&mut connection).unwrap();
    let refused = refusal(&server.url()).await;
    let Error::NotJoined { last: Some(last), .. } = &refused else { panic!("{refused:?}") };
    assert!(last.to_string().contains("READONLY"), "{last}");
    assert_eq!(refused.to_string().matches("READONLY").count(), 1, "{refused}");
}

async fn a_node_for_a_pool_that_must_exist_makes_none(world: World) {
    let tool = || Node::builder(POOL, world.backend()).client_only().must_exist();
    let refused = tool().join().await.unwrap_err();
    assert!(matches!(&refused, Error::NoPool { pool } if pool == POOL), "{refused:?}");
    assert_eq!(world.data().await, [""; 0]);
    let node = world.node_with("a", 1).await;
    assert_eq!(tool().join().await.unwrap().inspect().jobs().await.unwrap(), []);
    assert!(node.operate().shutdown().await.unwrap().complete);
    let ended = tool().join().await.unwrap_err();
    assert!(matches!(ended, Error::NoPool { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_so() {
    // Nothing listens at port 1. The join fails at once, and not at the end of its time.
    for url in ["redis+unix:///nowhere/redis.sock", "redis://127.0.0.1:1"] {
        let builder = Node::builder(POOL, Client::open(url).unwrap()).join_timeout(10 * PATIENCE);
        let refused = tokio::time::timeout(PATIENCE, builder.join()).await.expect("an answer").unwrap_err();
        assert!(matches!(refused, Error::Store(StoreError::NotExecuted(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn a_join_waits_for_a_server_that_does_not_answer_yet() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    proxy.pause();
    let timeout = Duration::from_millis(300);
    let client = Client::builder(&proxy.url()).connect_timeout(timeout).response_timeout(timeout);
    let node = Node::builder(POOL, client.build().unwrap()).assume_fresh(true);
    let join = tokio::spawn(node.join());
    until("several calls without an answer", async || proxy.counts().accepted >= 5).await;
    assert!(!join.is_finished(), "{:?}", join.await);
    proxy.resume();
    join.await.unwrap().unwrap().close().await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_refused() {
    let server = RedisServer::builder().password("right").start().unwrap();
    for url in [server.url().replace("right", "wrong"), server.url().replace("?pass=right", "")] {
        let refused = refusal(&url).await;
        let Error::Store(StoreError::Unusable(source)) = &refused else { panic!("{refused:?}") };
        let source = source.downcast_ref::<ConnectionError>();
        assert!(matches!(source, Some(ConnectionError::Auth(_))), "{refused:?}");
    }
    assert_eq!(keys_on(&server), 0);
    let node =
        Node::builder(POOL, Client::open(&server.url()).unwrap()).assume_fresh(true).join().await.unwrap();
    node.close().await.unwrap();
}

#[tokio::test]
async fn a_server_that_evicts_keys_is_refused() {
    let server = RedisServer::builder().config("maxmemory-policy", "allkeys-lru").start().unwrap();
    let refused = refusal(&server.url()).await;
    let Error::Store(StoreError::Unusable(source)) = &refused else { panic!("{refused:?}") };
    let expected = UnsuitableServer::Evicts { policy: "allkeys-lru".into() };
    assert_eq!(source.downcast_ref::<UnsuitableServer>(), Some(&expected));
    assert_eq!(keys_on(&server), 0);
}
