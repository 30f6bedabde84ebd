//! Maps in the keys of another, changed by scripts with the library's Lua.

use redis::Value;
use tenure_connection::Script;
use tenure_rmap::{Layout, View, lua};
use tenure_testing::{RedisServer, eventually};

use crate::{AT_ONCE, alone, bytes, client, in_time, join, layout, run, served};

#[tokio::test]
async fn maps_in_the_keys_of_another_share_meta_and_channel() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let layout = |name: &str, rev_field: &str| Layout {
        name: name.into(),
        hash: format!("{{p}}:{name}"),
        meta: "{p}:pool".into(),
        inc_field: "inc".into(),
        rev_field: rev_field.into(),
        deadlines: None,
        channel: "{p}:changes".into(),
    };
    let [workers, settings] =
        View::join(&client, [layout("workers", "workers_revision"), layout("settings", "settings_revision")])
            .await
            .unwrap();
    assert_eq!(workers.snapshot().incarnation(), None);
    run(&redis, &["HSET", "{p}:pool", "inc", "7", "workers_revision", "1", "settings_revision", "1"]).await;
    run(&redis, &["HSET", "{p}:settings", "ttl", "10"]).await;
    run(&redis, &["EVAL", "return redis.call('SPUBLISH', '{p}:changes', cmsgpack.pack({'*', '7'}))", "0"])
        .await;
    eventually(AT_ONCE, "the new life", async || settings.get("ttl") == bytes("10")).await;
    eventually(AT_ONCE, "in both", async || workers.snapshot().is_at(Some(7), 1)).await;

    let source = format!(
        "{}\nmapput('workers', KEYS[1], KEYS[2], 'workers_revision', '{{p}}:changes', '7', {{ '1', 'a', '2', 'b' }})\n\
         return mapput('workers', KEYS[1], KEYS[2], 'workers_revision', '{{p}}:changes', '7', {{ '1', false, '3', 'c' }})",
        lua::CHANGE
    );
    let script = Script::new("both", &source);
    let mut watch = workers.watch();
    assert_eq!(
        redis.script::<_, &str>(&script, &["{p}:workers", "{p}:pool"], &[]).await.unwrap(),
        Value::BulkString(b"3".to_vec())
    );
    while watch.snapshot().revision() < 3 {
        in_time(AT_ONCE, watch.changed()).await.unwrap();
    }
    assert_eq!((workers.get("1"), workers.get("2"), workers.get("3")), (None, bytes("b"), bytes("c")));
    assert!(settings.snapshot().is_at(Some(7), 1), "the other map is where it was");

    run(&redis, &["DEL", "{p}:pool", "{p}:workers", "{p}:settings"]).await;
    run(
        &redis,
        &["EVAL", "return redis.call('SPUBLISH', '{p}:changes', cmsgpack.pack({'closed', '7'}))", "0"],
    )
    .await;
    eventually(AT_ONCE, "the end of both", async || {
        [&workers, &settings].iter().all(|view| view.is_empty() && view.snapshot().incarnation().is_none())
    })
    .await;
}

#[tokio::test]
async fn a_custom_script_changes_a_map_with_deadlines_and_clears_it() {
    let (server, redis, map) = alone().await;
    map.set_many([("a", "1"), ("b", "2")]).await.unwrap();
    map.refresh().await.unwrap();
    let Layout { name, hash, meta, rev_field, deadlines, channel, .. } = layout();
    let deadlines = deadlines.unwrap();
    let change = async |changes: &str| {
        let source = format!(
            "#!lua\n{}\nlocal time = redis.call('TIME')\nlocal now = time[1] * 1000\n\
             local inc = redis.call('HGET', KEYS[2], 'inc')\n\
             local function after(ms) return string.format('%.0f', now + ms) end\n\
             return mapput('{name}', KEYS[1], KEYS[2], '{rev_field}', '{channel}', inc, {changes}, KEYS[3])",
            lua::CHANGE
        );
        let script = Script::new("own", &source);
        redis.script::<_, &str>(&script, &[&hash, &meta, &deadlines], &[]).await.unwrap();
    };
    change("{ 'short', { 'x', after(-10) }, 'long', { 'y', after(3600000) }, 'a', false }").await;
    eventually(AT_ONCE, "the change", async || map.snapshot().deadline("long").is_some()).await;
    assert_eq!((map.get("short"), map.get("long"), map.get("a")), (None, bytes("y"), None));
    assert_eq!(map.len(), 2);
    change("{ 'new', 'z', clear = true }").await;
    eventually(AT_ONCE, "all else to go", async || map.keys() == ["new"]).await;
    assert_eq!(run(&redis, &["EXISTS", &deadlines]).await, Value::Int(0));
    assert_eq!(join(&server).await.snapshot(), map.snapshot());
}

#[tokio::test]
async fn a_deadline_needs_a_key_for_deadlines() {
    let (_server, redis) = served();
    let source = format!(
        "{}\nreturn mapput('workers', KEYS[1], KEYS[2], 'r', '{{p}}:changes', '7', {{ 'k', {{ 'v', '99' }} }})",
        lua::CHANGE
    );
    let script = Script::new("dated", &source);
    redis.script::<_, &str>(&script, &["{p}:workers", "{p}:pool"], &[]).await.unwrap_err();
    assert_eq!(run(&redis, &["DBSIZE"]).await, Value::Int(0), "nothing was written");
}

#[tokio::test]
async fn a_damaged_map_does_not_hinder_its_neighbour() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    run(&redis, &["HSET", "{p}:pool", "inc", "7", "bad", "1", "good", "1"]).await;
    let layout = |name: &str| Layout {
        name: name.into(),
        hash: format!("{{p}}:{name}"),
        meta: "{p}:pool".into(),
        inc_field: "inc".into(),
        rev_field: name.into(),
        deadlines: None,
        channel: "{p}:changes".into(),
    };
    let [bad, good] = View::join(&client, [layout("bad"), layout("good")]).await.unwrap();
    run(&redis, &["HSET", "{p}:pool", "bad", "spoiled", "good", "2"]).await;
    run(&redis, &["HSET", "{p}:good", "k", "v"]).await;
    run(&redis, &["SPUBLISH", "{p}:changes", "\u{0}"]).await;
    eventually(AT_ONCE, "the good one", async || good.get("k") == bytes("v")).await;
    assert!(matches!(bad.refresh().await, Err(tenure_rmap::Error::Malformed { .. })));
    assert!(good.refresh().await.is_ok());
}

#[tokio::test]
async fn maps_in_several_slots_are_not_joined() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let layout = |name| Layout::stand_alone(name).unwrap();
    let refused = |result: Result<(), tenure_rmap::Error>| match result {
        Err(tenure_rmap::Error::Redis(tenure_connection::Error::Config { .. })) => {}
        other => panic!("{other:?}"),
    };
    refused(View::join(&client, [layout("a"), layout("b")]).await.map(drop));
    let alone = [
        Layout { hash: "elsewhere".into(), ..layout("a") },
        Layout { meta: "elsewhere".into(), ..layout("a") },
        Layout { deadlines: Some("elsewhere".into()), ..layout("a") },
        Layout { channel: "elsewhere".into(), ..layout("a") },
    ];
    for layout in alone {
        refused(View::join(&client, [layout]).await.map(drop));
    }
}

#[tokio::test]
async fn entries_end_in_the_keys_of_another_too() {
    let server = RedisServer::start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let layout = Layout {
        name: "workers".into(),
        hash: "{p}:workers".into(),
        meta: "{p}:pool".into(),
        inc_field: "i".into(),
        rev_field: "r".into(),
        deadlines: Some("{p}:d".into()),
        channel: "{p}:changes".into(),
    };
    run(&redis, &["HSET", "{p}:pool", "i", "7"]).await;
    let [view] = View::join(&client, [layout]).await.unwrap();
    let mut key = view.watch_key("short");
    let source = format!(
        "{}\nlocal time = redis.call('TIME')\n\
         local ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + 1000)\n\
         return mapput('workers', KEYS[1], KEYS[2], 'r', '{{p}}:changes', '7', {{ 'short', {{ 'x', ends }}, 'stays', 'y' }}, KEYS[3])",
        lua::CHANGE
    );
    let script = Script::new("dated", &source);
    redis.script::<_, &str>(&script, &["{p}:workers", "{p}:pool", "{p}:d"], &[]).await.unwrap();
    assert_eq!(in_time(AT_ONCE, key.changed()).await.unwrap(), bytes("x"));
    assert_eq!(in_time(AT_ONCE, key.changed()).await.unwrap(), None);
    eventually(AT_ONCE, "the entry to be deleted", async || view.snapshot().is_at(Some(7), 2)).await;
    assert_eq!(
        run(&redis, &["HKEYS", "{p}:workers"]).await,
        Value::Array(vec![Value::BulkString(b"stays".to_vec())])
    );
    assert_eq!(run(&redis, &["EXISTS", "{p}:d"]).await, Value::Int(0));
}
