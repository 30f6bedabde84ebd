//! Streams on a real Redis.

use std::time::Duration;

use redis::{Value, cmd};
use tenure_connection::{Client, Connection};
use tenure_streaming::{
    AddOptions, EntryId, Error, MAX_BATCH, MAX_ENTRY_BYTES, NewEntry, Start, Stream, TOPIC_FIELD,
};
use tenure_testing::{RedisServer, eventually};

use crate::support::{SOON, calls, client, keys, served, stream, values};

async fn pttl(redis: &Connection, key: &str) -> i64 {
    match redis.command(cmd("PTTL").arg(key)).await.unwrap() {
        Value::Int(ttl) => ttl,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn entries_are_added_looked_at_and_removed() {
    let (_server, client, _) = served();
    let stream = stream(&client, "s");
    assert_eq!((stream.len().await.unwrap(), stream.oldest().await.unwrap()), (0, None));
    let first = stream.add(&[("s", &b"\xff\0"[..]), ("t", b"7"), ("s", b"")]).await.unwrap();
    let second = stream.add(&[("n", "2")]).await.unwrap();
    assert!(first < second && first.ms > 1_600_000_000_000);
    let oldest = stream.oldest().await.unwrap().unwrap();
    assert_eq!((oldest.id, &*oldest.stream, oldest.topic(), oldest.deliveries()), (first, "s", None, 1));
    let age = oldest.time().elapsed().unwrap_or_default();
    assert!(age < Duration::from_secs(300), "ids carry their time: {age:?}");
    let fields: Vec<_> = oldest.fields.iter().map(|(n, v)| (&n[..], &v[..])).collect();
    assert_eq!(fields, [(&b"s"[..], &b"\xff\0"[..]), (b"t", b"7"), (b"s", b"")]);
    assert_eq!(stream.newest().await.unwrap().map(|entry| entry.id), Some(second));
    assert_eq!(stream.range(first, second, 10).await.unwrap().len(), 2);
    assert_eq!(stream.range(EntryId::MIN, EntryId::MAX, 1).await.unwrap(), [oldest]);
    assert_eq!(stream.range(EntryId::MIN, EntryId::MAX, 0).await.unwrap(), []);
    assert_eq!(stream.range(EntryId::MIN, EntryId::MAX, u64::MAX).await.unwrap().len(), 2);
    assert_eq!(stream.trim(u64::MAX).await.unwrap() + stream.trim_before(EntryId::MIN).await.unwrap(), 0);
    assert_eq!(stream.remove(&[first, EntryId::new(1, 1)]).await.unwrap(), 1);
    assert_eq!(stream.remove(&[]).await.unwrap(), 0);
    assert_eq!(stream.oldest().await.unwrap().map(|entry| entry.id), Some(second));
    assert!(!stream.is_empty().await.unwrap());
    assert!(stream.destroy().await.unwrap() && !stream.destroy().await.unwrap());
}

#[tokio::test]
async fn a_topic_goes_along_and_only_if_exists_creates_nothing() {
    let (_server, client, _) = served();
    for stream in [
        stream(&client, "s"),
        Stream::builder(&client, "s").sliding_ttl(Duration::from_secs(60)).build().unwrap(),
    ] {
        let hint = AddOptions::new().topic("orders.new").only_if_exists();
        assert_eq!(stream.add_with(hint, &[("n", "0")]).await.unwrap(), None);
        assert_eq!(stream.add_with(hint.once("id"), &[("n", "0")]).await.unwrap(), None);
        assert_eq!(keys(&client.commands()).await, [""; 0]);
        stream.add(&[("n", "1")]).await.unwrap();
        let added = stream.add_with(hint, &[("n", "2"), ("n", "3")]).await.unwrap().unwrap();
        let entry = stream.newest().await.unwrap().unwrap();
        assert_eq!((entry.id, entry.topic(), entry.fields.len()), (added.id, Some("orders.new"), 2));
        assert!(!added.repeated);
        stream.destroy().await.unwrap();
    }
}

#[tokio::test]
async fn a_batch_is_added_in_order_in_one_step() {
    let (_server, client, _) = served();
    let stream = Stream::builder(&client, "s").max_len_exact(600).build().unwrap();
    let batch: Vec<_> = (0..1000)
        .map(|n| {
            let entry = NewEntry::new().field("n", n.to_string());
            if n % 2 == 0 { entry.topic("even") } else { entry.field("more", "x") }
        })
        .collect();
    let ids = stream.add_many(&batch).await.unwrap();
    assert_eq!(ids.len(), 1000);
    assert!(ids.is_sorted());
    assert_eq!(calls(&client.commands(), "evalsha").await, 2, "one call, and one that found no script");
    let entries = stream.range(EntryId::MIN, EntryId::MAX, 2000).await.unwrap();
    assert_eq!(entries.len(), 600);
    assert_eq!(values(&entries), (400..1000).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(entries.iter().step_by(2).all(|entry| entry.topic() == Some("even")));
    assert_eq!(stream.add_many(&[]).await.unwrap(), []);

    let bad = [NewEntry::new().field("n", "1"), NewEntry::new()];
    assert!(matches!(stream.add_many(&bad).await, Err(Error::NoFields)));
    assert_eq!(stream.newest().await.unwrap().unwrap().id, ids[999], "all or none");
}

#[tokio::test]
async fn oversized_and_misnamed_entries_are_refused_before_sending() {
    let (_server, client, _) = served();
    let stream = stream(&client, "s");
    for name in [String::new(), "x".repeat(513)] {
        assert!(matches!(Stream::new(&client, name), Err(Error::Name { .. })));
    }
    for builder in [
        Stream::builder(&client, "s").max_len(0),
        Stream::builder(&client, "s").sliding_ttl(Duration::ZERO),
        Stream::builder(&client, "s").absolute_ttl(Duration::ZERO),
        Stream::builder(&client, "s").once_window(Duration::ZERO),
    ] {
        assert!(matches!(builder.build(), Err(Error::Config { .. })));
    }
    assert!(matches!(stream.add::<&str, &str>(&[]).await, Err(Error::NoFields)));
    assert!(matches!(stream.add(&[(TOPIC_FIELD, "x")]).await, Err(Error::ReservedField)));
    let topic = AddOptions::new().topic("");
    assert!(matches!(stream.add_with(topic, &[("n", "1")]).await, Err(Error::Name { .. })));
    assert!(matches!(stream.add_once("", &[("n", "1")]).await, Err(Error::Name { .. })));
    let large = "x".repeat(MAX_ENTRY_BYTES);
    assert!(matches!(stream.add(&[("n", &large)]).await, Err(Error::TooLarge { .. })));
    let many = vec![NewEntry::new().field("n", "1"); MAX_BATCH + 1];
    assert!(matches!(stream.add_many(&many).await, Err(Error::TooLarge { .. })));
    let heavy = vec![NewEntry::new().field("n", vec![0; MAX_ENTRY_BYTES - 1]); 9];
    assert!(matches!(stream.add_many(&heavy).await, Err(Error::TooLarge { .. })));
    let empty = (0..1024).fold(NewEntry::new(), |entry, _| entry.field("", ""));
    assert!(
        matches!(stream.add_many(&vec![empty; 300]).await, Err(Error::TooLarge { .. })),
        "work, if no bytes"
    );
    let untagged = Stream::new(&client, "a}b").unwrap();
    assert!(matches!(untagged.add_once("id", &[("n", "1")]).await, Err(Error::NoSibling { .. })));
    untagged.add(&[("n", "1")]).await.unwrap();
    assert!(untagged.destroy().await.unwrap());
    assert_eq!(keys(&client.commands()).await, [""; 0]);
}

#[tokio::test]
async fn a_stream_has_a_greatest_length() {
    let (_server, client, _) = served();
    let about = Stream::builder(&client, "s").max_len(100).build().unwrap();
    for n in 0..500 {
        about.add(&[("n", n.to_string())]).await.unwrap();
    }
    assert!((100..300).contains(&about.len().await.unwrap()));
    let endless = Stream::builder(&client, "s").max_len_exact(u64::MAX).build().unwrap();
    endless.add(&[("n", "0")]).await.unwrap();
    let exactly = Stream::builder(&client, "s").max_len_exact(10).build().unwrap();
    exactly.add_once("id", &[("n", "500")]).await.unwrap();
    assert_eq!(exactly.len().await.unwrap(), 10);
    assert_eq!(about.trim(5).await.unwrap(), 5);
    let newest = about.newest().await.unwrap().unwrap().id;
    assert_eq!(about.trim_before(newest).await.unwrap(), 4);
    assert_eq!((about.len().await.unwrap(), about.oldest().await.unwrap().unwrap().id), (1, newest));
}

#[tokio::test]
async fn each_entry_extends_a_sliding_life_but_not_an_absolute_one() {
    let (_server, client, redis) = served();
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    stream(&client, "s").add(&[("n", "0")]).await.unwrap();
    assert_eq!(pttl(&redis, "s").await, -1);
    let sliding = |ttl| Stream::builder(&client, "s").sliding_ttl(ttl).build().unwrap();
    let absolute = |ttl| Stream::builder(&client, "a").absolute_ttl(ttl).build().unwrap();
    for (ttl, lives) in [(minute, 1..=60_000), (hour, 60_001..=3_600_000)] {
        sliding(ttl).add(&[("n", "1")]).await.unwrap();
        assert!(lives.contains(&pttl(&redis, "s").await));
        absolute(ttl).add(&[("n", "1")]).await.unwrap();
        assert!((1..=60_000).contains(&pttl(&redis, "a").await), "counted from the first");
    }
    sliding(minute).add_many(&[NewEntry::new().field("n", "1")]).await.unwrap();
    assert!((1..=60_000).contains(&pttl(&redis, "s").await));
    sliding(hour).add_once("id", &[("n", "1")]).await.unwrap();
    assert!((60_001..=3_600_000).contains(&pttl(&redis, "s").await));
    absolute(hour).add_once("id", &[("n", "1")]).await.unwrap();
    assert!((1..=60_000).contains(&pttl(&redis, "a").await));
    let begun = Stream::builder(&client, "o").absolute_ttl(minute).build().unwrap();
    begun.add_once("id", &[("n", "1")]).await.unwrap();
    assert!((1..=60_000).contains(&pttl(&redis, "o").await), "begun with an id");
    sliding(Duration::MAX).add(&[("n", "1")]).await.unwrap();
    assert!(pttl(&redis, "s").await > 1_000_000_000);

    let moment = Stream::builder(&client, "m").absolute_ttl(Duration::from_millis(50)).build().unwrap();
    moment.add(&[("n", "1")]).await.unwrap();
    eventually(SOON, "the stream to expire", async || moment.is_empty().await.unwrap()).await;
    moment.add(&[("n", "2")]).await.unwrap();
    assert!((1..=50).contains(&pttl(&redis, "m").await) || moment.is_empty().await.unwrap(), "begun anew");
}

#[tokio::test]
async fn an_entry_is_added_once_for_an_id() {
    let (_server, client, _) = served();
    let stream = stream(&client, "s");
    let first = stream.add_once("id", &[("n", "1"), ("m", "")]).await.unwrap();
    assert!(!first.repeated);
    let again = stream.add_once("id", &[("n", "1"), ("m", "")]).await.unwrap();
    assert_eq!((again.id, again.repeated), (first.id, true));
    // The same bytes with other borders are other content.
    for other in
        [&[("n", "2"), ("m", "")][..], &[("n", "1")], &[("n1", ""), ("m", "")], &[("n", "1m"), ("", "")]]
    {
        match stream.add_once("id", other).await {
            Err(Error::Conflict { entry }) => assert_eq!(entry, first.id),
            result => panic!("{result:?}"),
        }
    }
    let topic = AddOptions::new().topic("t").once("id");
    let conflict = stream.add_with(topic, &[("n", "1"), ("m", "")]).await;
    assert!(matches!(conflict, Err(Error::Conflict { .. })));
    let other = stream.add_once(b"\xff\0", &[("n", "1")]).await.unwrap();
    assert!(!other.repeated && other.id > first.id);
    assert_eq!(stream.len().await.unwrap(), 2);
    stream.remove(&[first.id]).await.unwrap();
    assert!(stream.add_once("id", &[("n", "1"), ("m", "")]).await.unwrap().repeated, "also when removed");

    assert_eq!(keys(&client.commands()).await, ["s", "{s}:once", "{s}:once:due"]);
    assert!(stream.destroy().await.unwrap());
    assert_eq!(keys(&client.commands()).await, [""; 0], "destroyed with its ids");
    assert!(!stream.add_once("id", &[("n", "2")]).await.unwrap().repeated);
}

#[tokio::test]
async fn ids_are_forgotten_when_their_window_is_over() {
    let (_server, client, redis) = served();
    let short = Stream::builder(&client, "s").once_window(Duration::from_millis(30)).build().unwrap();
    let long = Stream::builder(&client, "s").once_window(Duration::from_secs(60)).build().unwrap();
    let kept = long.add_once("long", &[("n", "1")]).await.unwrap();
    for n in 0..40 {
        short.add_once(format!("short {n}"), &[("n", "1")]).await.unwrap();
    }
    eventually(SOON, "the window to end", async || {
        !short.add_once("short 0", &[("n", "1")]).await.unwrap().repeated
    })
    .await;
    eventually(SOON, "the rest to be forgotten", async || {
        short.add_once("short 0", &[("n", "1")]).await.unwrap();
        let left = redis.command(cmd("ZCARD").arg("{s}:once:due")).await.unwrap();
        left == redis.command(cmd("HLEN").arg("{s}:once")).await.unwrap() && left == Value::Int(2)
    })
    .await;
    assert_eq!(long.add_once("long", &[("n", "1")]).await.unwrap().id, kept.id);
    assert!((30_000..=60_000).contains(&pttl(&redis, "{s}:once").await), "not shortened by the short window");
    assert!((30_000..=60_000).contains(&pttl(&redis, "{s}:once:due").await));
}

#[tokio::test]
async fn many_concurrent_add_once_calls_add_one_entry() {
    let (_server, client, _) = served();
    let added = futures::future::join_all((0..50).map(|_| {
        let stream = stream(&client, "s");
        async move { stream.add_once("id", &[("n", "1")]).await.unwrap() }
    }))
    .await;
    assert_eq!(added.iter().filter(|added| !added.repeated).count(), 1);
    assert!(added.iter().all(|one| one.id == added[0].id));
    assert_eq!(stream(&client, "s").len().await.unwrap(), 1);
}

#[tokio::test]
async fn another_kind_of_key_is_a_typed_error() {
    let (_server, client, _) = served();
    client.commands().command(cmd("SET").arg("text").arg("v")).await.unwrap();
    let text = Stream::builder(&client, "text").sliding_ttl(SOON).build().unwrap();
    let wrong = |error: Error| {
        assert_eq!(error.code(), Some("WRONGTYPE"), "{error:?}");
        assert!(!error.is_transient() && !error.may_have_executed());
    };
    wrong(text.position(Start::Newest).await.unwrap_err());
    wrong(text.len().await.unwrap_err());
    wrong(text.add(&[("n", "1")]).await.unwrap_err());
    wrong(text.add_once("id", &[("n", "1")]).await.unwrap_err());
    wrong(text.add_many(&[NewEntry::new().field("n", "1")]).await.unwrap_err());
    assert_eq!(pttl(&client.commands(), "text").await, -1, "it lives as before");
    assert_eq!(keys(&client.commands()).await, ["text"], "and nothing is known of the id");
}

#[tokio::test]
async fn an_add_that_fails_in_part_adds_nothing_however_often_tried() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let client = client(&server);
    let redis = client.commands();
    let sure = stream(&client, "s");
    for key in ["{s}:once", "{s}:once:due"] {
        redis.command(cmd("SET").arg(key).arg("v")).await.unwrap();
        for _ in 0..2 {
            let error = sure.add_once("id", &[("n", "1")]).await.unwrap_err();
            assert_eq!((error.code(), error.may_have_executed()), (Some("WRONGTYPE"), false));
        }
        assert_eq!(keys(&redis).await, [key], "no stream");
        redis.command(cmd("DEL").arg(key)).await.unwrap();
    }
    let all = ["~*", "+@all"];
    for right in ["-hset", "-zadd", "-pexpire", "-xlen", "-pttl"] {
        let user = server.acl_user(right, "secret", &[&all[..], &[right]].concat()).unwrap();
        let user = Client::open(&user).unwrap();
        let mortal = Stream::builder(&user, "s").sliding_ttl(SOON).build().unwrap();
        let error = mortal.add_once("id", &[("n", "1")]).await.unwrap_err();
        assert!(!error.may_have_executed() && !error.is_transient(), "{right}: {error:?}");
        if right == "-pexpire" {
            mortal.add(&[("n", "1")]).await.unwrap_err();
        }
        assert!(sure.is_empty().await.unwrap(), "{right}");
    }
    // No id is left for another entry.
    let last = EntryId::MAX.to_string();
    redis.command(cmd("XADD").arg("s").arg(last).arg("n").arg("0")).await.unwrap();
    sure.add_once("id", &[("n", "1")]).await.unwrap_err();
    redis.command(cmd("DEL").arg("s")).await.unwrap();
    let added = sure.add_once("id", &[("n", "other")]).await.unwrap();
    assert!(!added.repeated, "it was not added before");
    assert!(sure.add_once("id", &[("n", "other")]).await.unwrap().repeated);

    redis.command(cmd("SET").arg("text").arg("v")).await.unwrap();
    let text = Stream::builder(&client, "text").sliding_ttl(SOON).build().unwrap();
    text.add(&[("n", "1")]).await.unwrap_err();
    text.add_once("id", &[("n", "1")]).await.unwrap_err();
    assert_eq!(pttl(&redis, "text").await, -1, "nobody else's key expires");
}

#[tokio::test]
async fn streams_with_the_same_hash_tag_know_their_own_ids_only() {
    let (_server, client, _) = served();
    for name in ["s", "{s}", "{s}:a", "b{s}"] {
        assert!(!stream(&client, name).add_once("id", &[("n", "1")]).await.unwrap().repeated, "{name}");
    }
    for name in ["s", "{s}", "{s}:a", "b{s}"] {
        assert!(stream(&client, name).add_once("id", &[("n", "1")]).await.unwrap().repeated, "{name}");
        stream(&client, name).destroy().await.unwrap();
    }
    assert_eq!(keys(&client.commands()).await, [""; 0]);
}
