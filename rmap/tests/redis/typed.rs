//! Maps whose values are of one type.

use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tenure_rmap::{Error, Exchange, Map, RawMap};
use tenure_testing::{RedisServer, eventually};

use crate::{AT_ONCE, client, in_time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Service {
    address: String,
    weight: u32,
    #[serde(default)]
    tags: Vec<String>,
}

fn service(address: &str, weight: u32) -> Service {
    Service { address: address.into(), weight, tags: vec!["a,b".into()] }
}

#[tokio::test]
async fn values_of_a_type_go_in_and_come_out() {
    let server = RedisServer::start().unwrap();
    let a: Map<Service> = Map::join(&client(&server), "m").await.unwrap();
    let b: Map<Service> = Map::builder(&client(&server), "m").join().await.unwrap();
    let (one, two) = (service("one", 1), service("two", 2));
    assert_eq!(a.get("k").unwrap(), None);
    a.set_and_wait("k", &one).await.unwrap();
    assert_eq!(a.get("k").unwrap(), Some(one.clone()));
    assert_eq!(b.set_if_absent("k", &two).await.unwrap(), Exchange::Kept(Some(one.clone())));
    assert_eq!(b.test_and_set("k", &two, &one).await.unwrap(), Exchange::Kept(Some(one.clone())));
    assert!(b.test_and_set("k", &one, &two).await.unwrap().is_written());
    a.set_many([("l", &one), ("m", &two)]).await.unwrap();
    eventually(AT_ONCE, "all of them", async || b.len() == 3).await;
    let all: Vec<_> = b.iter().map(|entry| entry.map(|(key, value)| (key, value.weight)).unwrap()).collect();
    assert_eq!(all, [("k".into(), 2), ("l".into(), 1), ("m".into(), 2)]);
    assert_eq!(b.decoded(b.raw().snapshot()).count(), 3);
    assert_eq!(b.test_and_delete("m", &one).await.unwrap(), Exchange::Kept(Some(two.clone())));
    assert!(b.test_and_delete("m", &two).await.unwrap().is_written());
    assert!(b.delete("l").await.unwrap() && !b.delete("l").await.unwrap());
    eventually(AT_ONCE, "one to be left", async || a.keys() == ["k"]).await;
    assert!(a.contains("k") && !a.is_empty());
}

#[tokio::test]
async fn a_value_of_another_type_is_an_error_and_hides_no_other() {
    let server = RedisServer::start().unwrap();
    let raw = RawMap::join(&client(&server), "m").await.unwrap();
    let map = raw.typed::<Service>();
    raw.set_many([("bad", "text"), ("worse", "")]).await.unwrap();
    map.set_and_wait("good", &service("one", 1)).await.unwrap();
    assert!(matches!(map.get("bad"), Err(Error::Decode { key, .. }) if key == "bad"));
    assert!(matches!(map.set_if_absent("bad", &service("x", 1)).await, Err(Error::Decode { .. })));
    let all: Vec<_> = map.iter().collect();
    assert_eq!((all.len(), all.iter().filter(|entry| entry.is_err()).count()), (3, 2));
    map.set_and_wait("bad", &service("mended", 1)).await.unwrap();
    assert_eq!(map.get("bad").unwrap().unwrap().address, "mended");
}

#[tokio::test]
async fn handles_of_several_types_share_one_copy() {
    let server = RedisServer::start().unwrap();
    let raw = RawMap::join(&client(&server), "m").await.unwrap();
    let numbers = raw.typed::<u64>();
    numbers.set_and_wait("n", &7).await.unwrap();
    assert_eq!(raw.get("n").as_deref(), Some(&[7_u8][..]));
    assert_eq!(numbers.clone().raw().typed::<u8>().get("n").unwrap(), Some(7));
}

#[tokio::test]
async fn a_typed_key_is_watched() {
    let server = RedisServer::start().unwrap();
    let map: Map<u32> = Map::join(&client(&server), "m").await.unwrap();
    let mut watch = map.watch();
    let mut key = map.watch_key("k");
    assert_eq!(key.value().unwrap(), None);
    map.set("k", &1).await.unwrap();
    assert_eq!(in_time(AT_ONCE, key.changed()).await.unwrap(), Some(1));
    in_time(AT_ONCE, watch.changed()).await.unwrap();
    map.raw().set("k", "text").await.unwrap();
    assert!(matches!(in_time(AT_ONCE, key.next()).await, Some(Err(Error::Decode { .. }))));
    map.set("k", &3).await.unwrap();
    assert!(matches!(in_time(AT_ONCE, key.next()).await, Some(Ok(Some(3)))));
    assert_eq!(key.value().unwrap(), Some(3));
    map.close().await;
    assert!(in_time(AT_ONCE, key.next()).await.is_none());
}
