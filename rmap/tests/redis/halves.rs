//! Writes that fail before they begin, half way, and after they were done.

use std::time::Duration;

use redis::Value;
use tenure_connection::{Client, Script};
use tenure_rmap::{Error, Expiry, Layout, RawMap, lua};
use tenure_testing::{RedisServer, eventually};

use crate::{SOON, bytes, client, join, layout, run};

/// The result of `mapput` in a script that this user sends.
async fn change(
    user: &Client,
    layout: &Layout,
    changes: &str,
    deadlines: &str,
) -> Result<Value, tenure_connection::Error> {
    let Layout { name, hash, meta, channel, .. } = layout;
    let source = format!(
        "#!lua\n{}\nlocal inc = redis.call('HGET', KEYS[2], 'inc')\n\
         return mapput('{name}', KEYS[1], KEYS[2], 'rev', '{channel}', inc, {changes}, {deadlines})",
        lua::CHANGE
    );
    let keys = [hash, meta, layout.deadlines.as_ref().unwrap_or(hash)];
    user.commands().script::<_, &str>(&Script::new("own", &source), &keys, &[]).await
}

fn user_without(server: &RedisServer, right: &str) -> Client {
    let url = server.acl_user("poor", "secret", &["~*", "&*", "+@all", right]).unwrap();
    Client::open(&url).unwrap()
}

#[tokio::test]
async fn a_write_that_fails_half_way_is_seen_by_every_copy() {
    let server = RedisServer::builder().tcp().start().unwrap();
    for right in ["-zrem", "-zadd", "-hset", "-hdel", "-spublish", "-pexpireat", "-unlink"] {
        let user = user_without(&server, right);
        for changes in
            ["{ 'k', '2', 'l', false }", "{ 'k', { '3', '9999999999999' } }", "{ 'k', '4', clear = true }"]
        {
            let map = RawMap::builder(&client(&server), "m")
                .expiry(Expiry::Sliding(SOON * 100))
                .join()
                .await
                .unwrap();
            map.set_many([("k", "1"), ("l", "1")]).await.unwrap();
            map.refresh().await.unwrap();
            let _ = change(&user, map.layout(), changes, "KEYS[3]").await;
            map.refresh().await.unwrap();
            assert_eq!(map.snapshot(), join(&server).await.snapshot(), "{right} {changes}");
            map.destroy().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_found_before_anything_is_written() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let map = join(&server).await;
    map.set_and_wait("k", "1").await.unwrap();
    let Layout { meta, hash, deadlines, .. } = layout();
    let stored = async || (run(&redis, &["HGETALL", &meta]).await, run(&redis, &["HGETALL", &hash]).await);
    let before = stored().await;
    let deadlines = deadlines.unwrap();
    run(&redis, &["SET", &deadlines, "text"]).await;
    for changes in ["{ 'k', '2' }", "{ 'k', false }", "{ 'k', { '2', '9999999999999' } }"] {
        let result = change(&client, &layout(), changes, "KEYS[3]").await;
        assert!(matches!(&result, Err(e) if e.code() == Some("WRONGTYPE")), "{result:?}");
        assert_eq!(stored().await, before);
    }
    run(&redis, &["DEL", &deadlines]).await;
    let dated = change(&client, &layout(), "{ 'k', { '2', '9999999999999' } }", "nil").await;
    assert!(dated.is_err(), "a deadline that nothing would keep");
    assert_eq!(stored().await, before);
    map.refresh().await.unwrap();
    assert_eq!(map.get("k"), bytes("1"));
}

#[tokio::test]
async fn a_script_that_raises_half_way_may_have_been_executed() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let poor = RawMap::join(&user_without(&server, "-spublish"), "m").await.unwrap();
    let result = poor.set("k", "1").await;
    assert!(matches!(&result, Err(error) if error.may_have_executed()), "{result:?}");
    poor.refresh().await.unwrap();
    assert_eq!(poor.get("k"), bytes("1"), "it was");
    let result = poor.destroy().await;
    assert!(matches!(&result, Err(error) if error.may_have_executed()), "{result:?}");
    let refused = RawMap::join(&user_without(&server, "-zadd"), "m").await.unwrap();
    assert!(refused.set("k", vec![0; Layout::MAX_VALUE + 1]).await.is_err_and(|e| !e.may_have_executed()));
}

/// A user without the rights to hear of changes and to read them.
#[tokio::test]
async fn a_write_that_was_done_but_not_seen_says_so() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let url = server.acl_user("poor", "secret", &["~*", "&*", "+@all"]).unwrap();
    let poor = Client::builder(&url).response_timeout(Duration::from_secs(1)).build().unwrap();
    let map = RawMap::join(&poor, "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    let redis = client(&server).commands();
    run(&redis, &["ACL", "SETUSER", "poor", "-ssubscribe", "-hgetall", "-multi"]).await;
    run(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let result = map.set_and_wait("k", "2").await;
    let Err(error @ Error::NotSeen(_)) = &result else { panic!("{result:?}") };
    assert!(error.may_have_executed());
    assert!(std::error::Error::source(error).is_some());
    assert_eq!(map.get("k"), bytes("1"));
    run(&redis, &["ACL", "SETUSER", "poor", "+@all"]).await;
    eventually(SOON, "the write to be seen", async || map.get("k") == bytes("2")).await;
    assert_eq!(run(&redis, &["HGET", &layout().hash, "k"]).await, Value::BulkString(b"2".to_vec()));
}

#[tokio::test]
async fn a_map_closed_while_a_write_is_awaited_does_not_deny_it() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let url = server.acl_user("deaf", "secret", &["~*", "&*", "+@all"]).unwrap();
    let deaf = Client::builder(&url).response_timeout(SOON).build().unwrap();
    let map = RawMap::join(&deaf, "m").await.unwrap();
    map.set_and_wait("k", "1").await.unwrap();
    let redis = client(&server).commands();
    run(&redis, &["ACL", "SETUSER", "deaf", "-ssubscribe", "-hgetall", "-multi"]).await;
    run(&redis, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let waiting = tokio::spawn({
        let map = map.clone();
        async move { map.set_and_wait("k", "2").await }
    });
    eventually(SOON, "the write", async || {
        run(&redis, &["HGET", &layout().hash, "k"]).await == Value::BulkString(b"2".to_vec())
    })
    .await;
    map.close().await;
    let result = waiting.await.unwrap();
    assert!(
        matches!(&result, Err(Error::NotSeen(source)) if matches!(**source, Error::Closed)),
        "{result:?}"
    );
}
