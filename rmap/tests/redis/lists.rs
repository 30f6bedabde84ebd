//! Lists as values.

use tenure_rmap::{Error, Layout};
use tenure_testing::{RedisServer, eventually};

use crate::{AT_ONCE, alone, client, converged, join, layout, run};

#[tokio::test]
async fn items_of_any_bytes_survive() {
    let server = RedisServer::start().unwrap();
    let (a, b) = (join(&server).await, join(&server).await);
    let long = vec![b'x'; 70_000];
    let items: [&[u8]; 9] =
        [b"a,b", b"\"q\"", b"line\nbreak", b"\0nul\0", b"\xff\xfe", b"", "é".as_bytes(), b"a,b", &long];
    assert_eq!(a.append("l", items).await.unwrap(), 9);
    eventually(AT_ONCE, "the list", async || b.contains("l")).await;
    assert_eq!(b.list("l").unwrap(), items, "in their order, with repetitions");
    assert_eq!(b.append("l", ["more"]).await.unwrap(), 10);
    assert_eq!(b.remove_values("l", [&b"a,b"[..], b"\xff\xfe", b"absent"]).await.unwrap(), 3);
    converged(&[&a, &b]).await;
    assert_eq!(a.list("l").unwrap().len(), 7);
    assert!(a.list("absent").unwrap().is_empty());
}

#[tokio::test]
async fn append_unique_appends_each_missing_item_once() {
    let (_server, _, map) = alone().await;
    assert_eq!(map.append_unique("l", ["a", "b", "a"]).await.unwrap(), 2);
    assert_eq!(map.append_unique("l", ["b", "c"]).await.unwrap(), 1);
    map.refresh().await.unwrap();
    let revision = map.snapshot().revision();
    assert_eq!(map.append_unique("l", ["a", "b", "c"]).await.unwrap(), 0);
    map.refresh().await.unwrap();
    assert_eq!(map.list("l").unwrap(), ["a", "b", "c"]);
    assert_eq!(map.snapshot().revision(), revision);
}

#[tokio::test]
async fn a_list_that_becomes_empty_is_deleted() {
    let (_server, _, map) = alone().await;
    map.append("l", ["a", "a", "b"]).await.unwrap();
    assert_eq!(map.remove_values("l", ["a"]).await.unwrap(), 2);
    assert_eq!(map.remove_values("l", ["b"]).await.unwrap(), 1);
    assert_eq!(map.remove_values("l", ["b"]).await.unwrap(), 0);
    map.refresh().await.unwrap();
    assert!(!map.contains("l"));
    assert_eq!(map.snapshot().revision(), 3, "nothing to remove is no change");
    assert_eq!(map.append::<&str>("l", []).await.unwrap(), 0);
    map.refresh().await.unwrap();
    assert!(!map.contains("l"), "nothing appended makes no list");
}

#[tokio::test]
async fn a_value_that_is_no_list_is_left_as_it_is() {
    let (_server, _, map) = alone().await;
    let values: [&[u8]; 24] = [
        b"\x80",
        b"\x81\x01\xa1v",
        b"\xde\x00\x00",
        b"\x91\xc0",
        b"\x90\xc0",
        b"\x90\x90",
        b"\x92\xa1a\xc0",
        b"\x92\xa1a\xa1b\xc0",
        b"\xdc\x00",
        b"\xdd\xff\xff\xff\xff",
        b"\xdd\x00\x00\x00\x01\x05",
        b"\xdc\x00\x01\xa1a\xa1b",
        b"text",
        b"",
        b"\x05",
        b"\x91\x05",
        b"\x81\xa1k\xa1v",
        b"\x91\xa1a\x91\xa1b",
        b"\x92\xa1a",
        b"\x93\xa1a\xc0\xa1b",
        b"\x91\xc4\x01a",
        b"\x91\xc5\x00\x01a",
        b"\x91\xc6\x00\x00\x00\x01a",
        b"\x92\xa1a\xc4\x01b",
    ];
    for value in values {
        let shown = value.escape_ascii();
        map.set_and_wait("k", value).await.unwrap();
        assert!(matches!(map.list("k"), Err(Error::NotAList { key }) if key == "k"), "{shown}");
        assert!(matches!(map.append("k", ["a"]).await, Err(Error::NotAList { .. })), "{shown}");
        assert!(matches!(map.append_unique("k", ["a"]).await, Err(Error::NotAList { .. })), "{shown}");
        assert!(matches!(map.remove_values("k", ["a"]).await, Err(Error::NotAList { .. })), "{shown}");
        map.refresh().await.unwrap();
        assert_eq!(map.get("k").as_deref(), Some(value), "{shown}");
    }
}

#[tokio::test]
async fn a_list_does_not_grow_beyond_the_longest_value() {
    let (_server, _, map) = alone().await;
    let half = vec![b'x'; Layout::MAX_VALUE / 2];
    map.append("l", [&half]).await.unwrap();
    let too_long = map.append("l", [&half]).await;
    assert!(
        matches!(too_long, Err(Error::Value { len, max: Layout::MAX_VALUE }) if len > Layout::MAX_VALUE),
        "{too_long:?}"
    );
    assert!(map.append_unique("l", ["small"]).await.is_ok());
    map.refresh().await.unwrap();
    assert_eq!(map.list("l").unwrap().len(), 2);
}

#[tokio::test]
async fn a_list_that_is_too_long_may_be_shortened() {
    let server = RedisServer::start().unwrap();
    let (map, redis) = (join(&server).await, client(&server).commands());
    map.set("l", "").await.unwrap();
    // As another writer could leave them behind: both stay too long with an item less.
    let strings = |count: usize, length: usize| -> Vec<u8> {
        let head = [&[0xdd][..], &u32::try_from(count).unwrap().to_be_bytes()].concat();
        let item = |n: usize| {
            let mut item = [&[0xdb][..], &u32::try_from(length).unwrap().to_be_bytes()].concat();
            item.resize(5 + length, b'x');
            item[5..9].copy_from_slice(&u32::try_from(n).unwrap().to_be_bytes());
            item
        };
        head.into_iter().chain((0..count).flat_map(item)).collect()
    };
    for (count, length) in [(Layout::MAX_ITEMS + 9, 4), (9, Layout::MAX_VALUE / 4)] {
        let list = strings(count, length);
        let set = redis::cmd("HSET").arg(layout().hash).arg("l").arg(&list).to_owned();
        redis.command(&set).await.unwrap();
        assert!(map.append("l", ["more"]).await.is_err());
        let item = &list[10..][..length];
        assert_eq!(map.remove_values("l", [item]).await.unwrap(), 1);
        assert!(map.append("l", ["more"]).await.is_err(), "it is too long yet");
    }
}

#[tokio::test]
async fn a_list_grows_with_each_kind_of_header() {
    let (_server, _, map) = alone().await;
    for length in [15, 16, 17] {
        let new = length - map.append("l", [""; 0]).await.unwrap();
        assert_eq!(map.append("l", vec!["x"; new]).await.unwrap(), length);
    }
    map.refresh().await.unwrap();
    assert_eq!(map.list("l").unwrap().len(), 17);
}

#[tokio::test]
async fn a_list_is_a_plain_messagepack_array_of_strings() {
    let (server, _, map) = alone().await;
    map.set("l", b"\x92\xd9\x02\xff\x00\xda\x00\x01a").await.unwrap();
    assert_eq!(map.append("l", ["b"]).await.unwrap(), 3);
    let raw = run(&client(&server).commands(), &["HGET", &layout().hash, "l"]).await;
    assert_eq!(raw, redis::Value::BulkString(b"\x93\xa2\xff\x00\xa1a\xa1b".to_vec()));
}

#[tokio::test]
async fn a_list_does_not_grow_beyond_the_most_items() {
    let (_server, _, map) = alone().await;
    // As another writer could leave it behind: one item above the limit.
    let mut long = vec![0xdd, 0x00, 0x01, 0x00, 0x01];
    for n in 0..=Layout::MAX_ITEMS {
        long.extend_from_slice(&[0xa4]);
        long.extend_from_slice(&u32::try_from(n).unwrap().to_be_bytes());
    }
    map.set_and_wait("l", &long).await.unwrap();
    assert_eq!(map.list("l").unwrap().len(), Layout::MAX_ITEMS + 1);
    let count = Layout::MAX_ITEMS + 2;
    for grown in [map.append("l", ["x"]).await, map.append_unique("l", ["x"]).await] {
        assert!(
            matches!(&grown, Err(Error::ManyItems { key, count: c }) if key == "l" && *c == count),
            "{grown:?}"
        );
        assert!(!grown.unwrap_err().may_have_executed());
    }
    let first = |n: u32| n.to_be_bytes();
    assert_eq!(map.remove_values("l", [first(0)]).await.unwrap(), 1, "it may shrink");
    assert!(map.append("l", ["x"]).await.is_err());
    assert_eq!(map.remove_values("l", [first(1)]).await.unwrap(), 1);
    assert_eq!(map.append("l", ["x"]).await.unwrap(), Layout::MAX_ITEMS);
}
