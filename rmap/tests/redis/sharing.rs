//! Concurrent sets, which share calls.

use std::time::Duration;

use futures::future::join_all;
use redis::Value;
use tenure_connection::Client;
use tenure_rmap::{Error, Layout, RawMap};
use tenure_testing::proxy::Direction;
use tenure_testing::{Proxy, RedisServer, eventually};

use crate::{AT_ONCE, SOON, alone, bytes, client, converged, in_time, join, layout, run};

const MANY: usize = 64;
/// This many sets have a call in flight; further ones wait.
const ALONE: usize = 5;

async fn set_each(
    map: &RawMap,
    entries: impl Iterator<Item = (String, String)>,
) -> Vec<Result<Option<bytes::Bytes>, Error>> {
    in_time(SOON, join_all(entries.map(|(key, value)| async { map.set(key, value).await }))).await
}

fn numbered(value: &str) -> impl Iterator<Item = (String, String)> {
    (0..MANY).map(move |n| (n.to_string(), format!("{value}{n}")))
}

#[tokio::test]
async fn concurrent_sets_share_calls_and_learn_the_previous_values() {
    let server = RedisServer::start().unwrap();
    let (map, other) = (join(&server).await, join(&server).await);
    map.set_many((0..MANY).filter(|n| n % 3 > 0).map(|n| (n.to_string(), format!("before{n}"))))
        .await
        .unwrap();
    let found = set_each(&map, numbered("after")).await;
    for (n, found) in found.into_iter().enumerate() {
        let before = (n % 3 > 0).then(|| format!("before{n}").into());
        assert_eq!(found.unwrap(), before, "{n}");
    }
    converged(&[&map, &other]).await;
    for (key, value) in numbered("after") {
        assert_eq!(other.get(&key), bytes(&value));
    }
    let revisions = other.snapshot().revision();
    assert!(revisions < 10, "one for many of them: {revisions}");
    // The life of the map begins in the same way.
    map.destroy().await.unwrap();
    assert!(set_each(&map, numbered("again")).await.into_iter().all(|found| found.unwrap().is_none()));
    converged(&[&map, &other]).await;
    assert_eq!(other.len(), MANY);
}

#[tokio::test]
async fn concurrent_sets_of_one_key_happen_one_after_the_other() {
    let server = RedisServer::start().unwrap();
    let (map, other) = (join(&server).await, join(&server).await);
    map.set("k", "before").await.unwrap();
    let calls = (0..MANY).map(|n| (if n % 8 == 7 { "l" } else { "k" }.into(), n.to_string()));
    let mut last = [bytes("before"), None];
    for (n, found) in set_each(&map, calls).await.into_iter().enumerate() {
        let last = &mut last[usize::from(n % 8 == 7)];
        assert_eq!(found.unwrap(), *last, "{n}");
        *last = bytes(&n.to_string());
    }
    converged(&[&map, &other]).await;
    assert_eq!([other.get("k"), other.get("l")], last);
}

#[tokio::test]
async fn concurrent_sets_wait_to_be_seen_together() {
    let (_server, _, map) = alone().await;
    // The first set whose script the server does not know is overtaken while it is loaded.
    map.set("first", "x").await.unwrap();
    let seen = (0..MANY).map(|n| {
        let map = &map;
        async move {
            let (key, value) = ((n % 40).to_string(), n.to_string());
            map.set_and_wait(&key, &value).await.unwrap();
            let has = map.get(&key);
            assert!(has == bytes(&value) || has == bytes(&(n + 40).to_string()), "{n}: {has:?}");
        }
    });
    in_time(SOON, join_all(seen)).await;
}

#[tokio::test]
async fn each_set_has_the_time_to_live_of_its_handle() {
    let server = RedisServer::start().unwrap();
    let (map, other) = (join(&server).await, join(&server).await);
    let brief = map.with_entry_ttl(Duration::from_secs(3600));
    set_each(&brief, numbered("brief")).await.into_iter().for_each(|found| drop(found.unwrap()));
    converged(&[&map, &other]).await;
    assert!(numbered("").all(|(key, _)| other.snapshot().deadline(&key).is_some()));
    // The sets take two ways at once.
    let (stay, end) = tokio::join!(
        set_each(&map, numbered("stay").step_by(2)),
        set_each(&brief, numbered("end").skip(1).step_by(2))
    );
    for found in stay.into_iter().chain(end) {
        assert!(found.unwrap().unwrap().starts_with(b"brief"));
    }
    converged(&[&map, &other]).await;
    // Redis has forgotten those deadlines too.
    for copy in [other, join(&server).await] {
        for (n, (key, _)) in numbered("").enumerate() {
            assert_eq!(copy.snapshot().deadline(&key).is_some(), n % 2 == 1, "{n}");
        }
    }
}

/// More entries are due than one call deletes.
#[tokio::test]
async fn a_value_past_its_deadline_is_no_previous_value() {
    let (server, _, map) = alone().await;
    let redis = client(&server).commands();
    let set = |key: String| async { map.set(key, "x").await.unwrap() };
    map.set("there", "1").await.unwrap();
    let Layout { hash, deadlines, .. } = layout();
    // As if no copy had come to delete them.
    for key in (0..200).map(|n| format!("{n:03}")) {
        run(&redis, &["HSET", &hash, &key, "old"]).await;
        run(&redis, &["ZADD", deadlines.as_ref().unwrap(), "5", &key]).await;
    }
    let keys = (180..200).map(|n| format!("{n:03}")).chain(["there".into()]);
    let found = in_time(SOON, join_all(keys.map(set))).await;
    assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), ["1"]);
}

#[tokio::test]
async fn a_set_that_cannot_be_written_fails_alone() {
    let (_server, _, map) = alone().await;
    let sets = (0..MANY).map(|n| {
        let map = &map;
        async move {
            match n % 8 {
                5 => map.set("", "x").await,
                6 => map.set(n.to_string(), vec![0; Layout::MAX_VALUE + 1]).await,
                _ => map.set(n.to_string(), "x").await,
            }
        }
    });
    for (n, result) in in_time(SOON, join_all(sets)).await.into_iter().enumerate() {
        match n % 8 {
            5 => assert!(matches!(result, Err(Error::Key { len: 0, .. })), "{n}"),
            6 => assert!(matches!(result, Err(Error::Value { .. })), "{n}"),
            _ => assert_eq!(result.unwrap(), None, "{n}"),
        }
    }
    map.refresh().await.unwrap();
    assert_eq!(map.len(), MANY / 8 * 6);
}

#[tokio::test]
async fn an_error_reaches_all_who_share_the_call_and_no_others() {
    let (server, _, map) = alone().await;
    let redis = client(&server).commands();
    map.set("k", "v").await.unwrap();
    let Layout { hash, .. } = layout();
    run(&redis, &["RENAME", &hash, "{m}:away"]).await;
    run(&redis, &["SET", &hash, "text"]).await;
    for result in set_each(&map, numbered("x")).await {
        let Err(Error::Redis(error)) = &result else { panic!("{result:?}") };
        assert_eq!(error.code(), Some("WRONGTYPE"));
    }
    let revision = run(&redis, &["HGET", &layout().meta, "rev"]).await;
    assert!(map.set_many([("k", "w")]).await.is_err());
    assert_eq!(run(&redis, &["HGET", &layout().meta, "rev"]).await, revision, "nothing was written");
    run(&redis, &["DEL", &hash]).await;
    assert!(set_each(&map, numbered("y")).await.iter().all(Result::is_ok));
}

/// A map behind a proxy.
async fn far(server: &RedisServer, timeout: Duration) -> (RawMap, Proxy) {
    let proxy = Proxy::start(server).await.unwrap();
    let client = Client::builder(&proxy.url()).response_timeout(timeout).build().unwrap();
    (RawMap::join(&client, "m").await.unwrap(), proxy)
}

type Call = tokio::task::JoinHandle<Result<Option<bytes::Bytes>, Error>>;

/// Calls to a map whose server does not answer; each has come as far as it can.
async fn begun(map: &RawMap, keys: impl IntoIterator<Item = usize>) -> Vec<Call> {
    let mut calls = Vec::new();
    for key in keys {
        let map = map.clone();
        calls.push(tokio::spawn(async move { map.set(key.to_string(), "x").await }));
    }
    // The runtime has one thread: each call and the map's task have had a turn when this task has had as many.
    for _ in 0..calls.len() + 2 {
        tokio::task::yield_now().await;
    }
    calls
}

/// Calls to a map whose server does not answer: some have been sent, and others wait.
async fn stalled(map: &RawMap) -> Vec<Call> {
    let mut calls = Vec::new();
    for n in 0..ALONE {
        calls.extend(begun(map, n..=n).await);
    }
    calls.extend(begun(map, ALONE..MANY).await);
    calls
}

#[tokio::test]
async fn a_caller_that_goes_removes_its_own_waiting_set_only() {
    let server = RedisServer::start().unwrap();
    let (near, (map, proxy)) = (join(&server).await, far(&server, SOON).await);
    map.set_and_wait("k", "v").await.unwrap();
    proxy.pause_one_way(Direction::ToClient);
    let mut calls = stalled(&map).await;
    // A call that was sent, and some that wait.
    for gone in [40, 39, 20, 0] {
        let call = calls.remove(gone);
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    proxy.resume();
    for call in calls {
        assert_eq!(in_time(SOON, call).await.unwrap().unwrap(), None);
    }
    near.refresh().await.unwrap();
    assert_eq!(near.len(), 1 + MANY - 3, "the sent write was done");
    assert!(["39", "40", "20"].iter().all(|key| !near.contains(key)));
}

#[tokio::test]
async fn callers_that_go_leave_nobody_waiting_behind_them() {
    let server = RedisServer::start().unwrap();
    let (map, proxy) = far(&server, SOON).await;
    map.set_and_wait("k", "v").await.unwrap();
    proxy.pause_one_way(Direction::ToClient);
    let mut calls = stalled(&map).await;
    for sent in calls.drain(..ALONE * 2) {
        sent.abort();
    }
    proxy.resume();
    for call in calls {
        assert_eq!(in_time(SOON, call).await.unwrap().unwrap(), None);
    }
}

#[tokio::test]
async fn more_sets_than_fit_into_a_call_go_in_several_at_once() {
    let server = RedisServer::start().unwrap();
    let (near, (map, proxy)) = (join(&server).await, far(&server, SOON).await);
    map.set_and_wait("k", "v").await.unwrap();
    proxy.pause_one_way(Direction::ToClient);
    let calls = begun(&map, 0..300).await;
    eventually(AT_ONCE, "all of them, none of which was answered", async || {
        near.refresh().await.unwrap();
        near.len() == 301
    })
    .await;
    proxy.resume();
    for call in calls {
        assert_eq!(in_time(SOON, call).await.unwrap().unwrap(), None);
    }
}

#[tokio::test]
async fn a_lost_answer_is_an_error_of_those_who_share_the_call() {
    let server = RedisServer::start().unwrap();
    let (near, (map, proxy)) = (join(&server).await, far(&server, SOON).await);
    map.set_and_wait("k", "v").await.unwrap();
    proxy.pause();
    let calls = stalled(&map).await;
    proxy.kill_all();
    proxy.resume();
    let mut failed = 0;
    for call in calls {
        match in_time(SOON, call).await.unwrap() {
            Ok(found) => assert_eq!(found, None),
            Err(error) => {
                assert!(error.may_have_executed(), "{error}");
                failed += 1;
            }
        }
    }
    assert!((1..=ALONE).contains(&failed), "only those whose calls were in flight: {failed}");
    near.refresh().await.unwrap();
    assert!(near.len() > MANY - failed);
}

#[tokio::test]
async fn a_closing_map_refuses_waiting_sets_and_answers_sent_ones() {
    let server = RedisServer::start().unwrap();
    let (map, proxy) = far(&server, SOON).await;
    map.set_and_wait("k", "v").await.unwrap();
    proxy.pause_one_way(Direction::ToClient);
    let calls = stalled(&map).await;
    let closed = tokio::spawn({
        let map = map.clone();
        async move { map.close().await }
    });
    eventually(AT_ONCE, "the end to begin", async || map.view().is_closed()).await;
    proxy.resume();
    in_time(SOON, closed).await.unwrap();
    let mut refused = 0;
    for call in calls {
        match in_time(SOON, call).await.unwrap() {
            Ok(found) => assert_eq!(found, None),
            Err(Error::Closed) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(refused, MANY - ALONE);
    assert!(matches!(map.set("k", "x").await, Err(Error::Closed)));
    let near = join(&server).await;
    assert_eq!(near.len(), 1 + MANY - refused);
}

#[test]
fn nobody_waits_for_a_runtime_that_has_ended() {
    let server = RedisServer::start().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let map = first.block_on(join(&server));
    first.block_on(map.set("k", "v")).unwrap();
    drop(first);
    let all = async { in_time(SOON, set_each(&map, numbered("x"))).await };
    assert!(runtime().block_on(all).iter().any(Result::is_err), "the task that sends is no more");
}

#[test]
fn nobody_waits_for_a_runtime_that_stands_still() {
    let server = RedisServer::start().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (map, _proxy) = first.block_on(far(&server, Duration::from_millis(200)));
    first.block_on(map.set("k", "v")).unwrap();
    let all = async { in_time(SOON, set_each(&map, numbered("x"))).await };
    let errors: Vec<_> = runtime().block_on(all).into_iter().map(Result::unwrap_err).collect();
    assert!(
        errors[1..].iter().all(|error| !error.may_have_executed()),
        "only the first one was sent: {errors:?}"
    );
}

#[test]
fn a_set_sent_before_its_runtime_ended_may_have_been_done() {
    let server = RedisServer::start().unwrap();
    let first = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (map, proxy) = first.block_on(far(&server, SOON));
    first.block_on(map.set("k", "v")).unwrap();
    proxy.pause_one_way(Direction::ToClient);
    let second = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let near = second.block_on(join(&server));
    let calls = second.block_on(async {
        let calls = stalled(&map).await;
        eventually(SOON, "the second one", async || near.contains("1")).await;
        calls
    });
    drop((proxy, first));
    let mut may_have_executed = 0;
    for (n, call) in calls.into_iter().enumerate() {
        let error = second.block_on(in_time(SOON, call)).unwrap().unwrap_err();
        second.block_on(near.refresh()).unwrap();
        assert!(error.may_have_executed() || !near.contains(n.to_string()), "{n}: {error}");
        may_have_executed += usize::from(error.may_have_executed());
    }
    assert!(may_have_executed > 1, "those that were sent: {may_have_executed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_of_many_kinds_agree_with_every_copy() {
    let server = RedisServer::start().unwrap();
    let (map, other) = (join(&server).await, join(&server).await);
    let writers = (0..32).map(|writer: usize| {
        let map = map.clone();
        tokio::spawn(async move {
            for round in 0..40 {
                let key = ((writer * 7 + round) % 24).to_string();
                match (writer + round) % 5 {
                    0 => drop(map.delete(&key).await.unwrap()),
                    1 => drop(map.set_if_absent(&key, "x").await.unwrap()),
                    _ => drop(map.set(&key, format!("{writer}:{round}")).await.unwrap()),
                }
                // A key that no other writer touches: each set finds the value of the one before it.
                let own = format!("own{writer}");
                let before = map.set(&own, round.to_string()).await.unwrap();
                assert_eq!(before, (round > 0).then(|| (round - 1).to_string().into()));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        in_time(SOON * 3, writer).await.unwrap();
    }
    converged(&[&map, &other]).await;
    assert_eq!(join(&server).await.snapshot(), other.snapshot());
    assert_eq!(map.get("own31"), bytes("39"));
    let redis = client(&server).commands();
    let count = run(&redis, &["HLEN", &layout().hash]).await;
    assert_eq!(count, Value::Int(i64::try_from(map.len()).unwrap()));
}
