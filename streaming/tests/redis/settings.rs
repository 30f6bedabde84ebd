//! The settings that the sinks of a group must share.

use std::time::{Duration, SystemTime};

use futures::StreamExt;
use redis::{Value, cmd};
use tenure_connection::Client;
use tenure_streaming::{AddOptions, Entry, EntryId, Error, Filter, Sink, SinkBuilder, Start, Stream};
use tenure_testing::eventually;

use crate::support::{LONG, SOON, consumers, fill, ids, keys, pending, served, stream};

const GRACE: Duration = Duration::from_millis(200);

fn builder(client: &Client) -> SinkBuilder {
    Sink::builder(client, "g").stream("s").ack_grace(LONG)
}

async fn batch(sink: &mut Sink) -> Vec<Entry> {
    tokio::time::timeout(SOON, sink.next_batch(100)).await.expect("in time").unwrap()
}

/// The setting with both values.
fn refused(result: Result<Sink, Error>) -> [String; 3] {
    match result {
        Err(Error::SettingMismatch { name, theirs, ours, .. }) => [name, theirs, ours],
        other => panic!("{other:?}"),
    }
}

/// The server's whole state of a stream and its groups, except the consumers' idle times.
async fn state(client: &Client) -> String {
    let info = client.commands().command(cmd("DUMP").arg("s")).await.unwrap();
    let groups = client.commands().command(cmd("XINFO").arg("GROUPS").arg("s")).await.unwrap();
    format!("{:?} {info:?} {groups:?}", keys(&client.commands()).await)
}

#[tokio::test]
async fn a_filtered_sink_takes_nothing_from_one_that_wants_all() {
    let (_server, client, _) = served();
    let mut all = builder(&client).open().await.unwrap();
    let filtered = builder(&client).filter(Filter::topic("a")).open().await;
    let Error::SettingMismatch { stream: of, group, name, theirs, ours } = filtered.unwrap_err() else {
        panic!("another error")
    };
    assert_eq!((&*of, &*group, &*name), ("s", "g", "filter"));
    assert_eq!((&*theirs, &*ours), ("none", "topic \"a\""));
    let mut same = builder(&client).open().await.unwrap();
    let mut added = Vec::new();
    for n in 0..10 {
        let topic = if n % 2 == 0 { "a" } else { "b" };
        let add = AddOptions::new().topic(topic);
        added.push(stream(&client, "s").add_with(add, &[("n", topic)]).await.unwrap().unwrap().id);
    }
    let mut got = Vec::new();
    for sink in [&mut all, &mut same] {
        let entries = tokio::time::timeout(SOON, sink.next_batch(5)).await.expect("in time").unwrap();
        sink.ack(&entries).await.unwrap();
        got.extend(ids(&entries));
    }
    assert_eq!(got, added, "each one");
    assert_eq!(pending(&client.commands(), "s", "g").await, 0);
}

#[tokio::test]
async fn each_setting_is_compared_before_anything_is_written() {
    let (_server, client, _) = served();
    fill(&client, "s", 3).await;
    let sink = builder(&client).filter(Filter::topic("b")).filter(Filter::pattern("a.*"));
    let mut first = sink.clone().start(Start::After(EntryId::MIN)).open().await.unwrap();
    let sink = sink.start(Start::After(EntryId::new(5, 0)));
    let before = state(&client).await;
    let cases = [
        (sink.clone().filter(Filter::topic("c")), ["filter", "pattern \"a.*\", topic \"b\""]),
        (builder(&client).start(Start::After(EntryId::MIN)), ["filter", "pattern \"a.*\", topic \"b\""]),
        (sink.clone().no_ack(), ["no_ack", "false"]),
        (sink.clone().ack_grace(GRACE), ["ack_grace", "600000 ms"]),
        (sink.clone().start(Start::Newest), ["start", "after an entry"]),
        (sink.clone().start(Start::At(SystemTime::now())), ["start", "after an entry"]),
        (sink.clone().recreate_at(Start::Newest), ["recreate_at", "oldest"]),
    ];
    for (other, [name, theirs]) in cases {
        let error = refused(other.clone().open().await);
        assert_eq!([&error[0], &error[1]], [name, theirs]);
        // The sink is refused in another stream as well, where it could be the first.
        assert_eq!(refused(other.stream("new").open().await), error);
    }
    assert_eq!(state(&client).await, before);
    // The same filters in another order, with one of them twice.
    let same = builder(&client).filter(Filter::pattern("a.*")).filter(Filter::topic("b"));
    let same = same.filter(Filter::topic("b")).start(Start::After(EntryId::MAX));
    let mut same = same.dead_after(LONG * 2).count(3).block(Duration::ZERO).open().await.unwrap();
    assert_eq!((batch(&mut first).await.len(), batch(&mut same).await.len()), (0, 0));
    let long = Filter::topic("x".repeat(16 << 10));
    let result = Sink::builder(&client, "new").stream("new").filter(long).open().await;
    assert!(matches!(result, Err(Error::TooLarge { .. })));
    assert_eq!(keys(&client.commands()).await, ["s"]);
}

#[tokio::test]
async fn one_of_two_different_sinks_that_open_at_once_is_refused() {
    let (_server, client, _) = served();
    for round in 0..20 {
        let of = |topic| {
            let sink = Sink::builder(&client, "g").stream(format!("s{round}")).stream(format!("t{round}"));
            sink.filter(Filter::topic(topic)).open()
        };
        let opened = tokio::join!(of("a"), of("b"), of("a"), of("b"));
        let opened = [opened.0, opened.1, opened.2, opened.3];
        let is_open = opened.each_ref().map(Result::is_ok);
        assert!(!(is_open[0] || is_open[2]) || !(is_open[1] || is_open[3]), "{is_open:?}");
        for opened in opened {
            let _ =
                opened.map_err(|error| assert!(matches!(error, Error::SettingMismatch { .. }), "{error:?}"));
        }
    }
}

#[tokio::test]
async fn when_all_have_left_the_next_sink_brings_its_settings() {
    let (_server, client, _) = served();
    let added = fill(&client, "s", 2).await;
    let mut first = builder(&client).consumer("a").open().await.unwrap();
    assert_eq!(ids(&batch(&mut first).await), added);
    let second = builder(&client).open().await.unwrap();
    let other = builder(&client).consumer("a").ack_grace(GRACE);
    refused(other.clone().open().await);
    second.close().await.unwrap();
    // A dead consumer does not block a successor of the same name.
    drop(first);
    let mut other = other.open().await.unwrap();
    assert_eq!(ids(&batch(&mut other).await), added, "its unacknowledged entries");
    refused(builder(&client).open().await);
    other.close().await.unwrap();
    assert_eq!(consumers(&client.commands(), "s", "g").await, ["tenure:left"]);
    let mut last = builder(&client).no_ack().open().await.unwrap();
    last.handle().add_stream("t").await.unwrap();
    let error = Sink::builder(&client, "g").stream("t").open().await;
    assert_eq!(refused(error)[0], "no_ack", "of each stream");
    let later = fill(&client, "s", 1).await;
    assert_eq!(ids(&batch(&mut last).await), later);
    let sink = Sink::builder(&client, "g").open().await.unwrap();
    let error = sink.handle().add_stream("t").await.unwrap_err();
    assert!(matches!(error, Error::SettingMismatch { .. }) && !error.is_transient(), "{error:?}");
    assert!(!error.may_have_executed() && sink.handle().streams().is_empty());
}

#[tokio::test]
async fn settings_last_as_long_as_their_group() {
    let (_server, client, redis) = served();
    let (of_a, of_b) = (builder(&client).filter(Filter::topic("a")), builder(&client));
    // A group that somebody else made, with a reader in it: the first sink's settings count.
    redis.command(cmd("XGROUP").arg(&["CREATE", "s", "g", "$", "MKSTREAM"])).await.unwrap();
    redis.command(cmd("XGROUP").arg(&["CREATECONSUMER", "s", "g", "old"])).await.unwrap();
    let first = of_a.clone().open().await.unwrap();
    refused(of_b.clone().open().await);
    let short = Stream::builder(&client, "s").sliding_ttl(Duration::from_millis(300)).build().unwrap();
    let lose: [&dyn AsyncLose; 3] = [
        &async || drop(redis.command(cmd("XGROUP").arg(&["DESTROY", "s", "g"])).await.unwrap()),
        &async || assert!(stream(&client, "s").destroy().await.unwrap()),
        &async || {
            short.add(&[("n", "1")]).await.unwrap();
            eventually(SOON, "the stream to end", async || short.is_empty().await.unwrap()).await;
        },
    ];
    let mut sinks = vec![first];
    for (lose, next) in lose.into_iter().zip([&of_b, &of_a, &of_b]) {
        lose.lose().await;
        sinks.push(next.clone().open().await.unwrap());
    }
    refused(of_a.open().await);
    stream(&client, "s").destroy().await.unwrap();
    assert_eq!(keys(&redis).await, [""; 0], "nothing is left");
}

/// A way to lose a group.
trait AsyncLose {
    fn lose(&self) -> futures::future::LocalBoxFuture<'_, ()>;
}

impl<F: AsyncFn()> AsyncLose for F {
    fn lose(&self) -> futures::future::LocalBoxFuture<'_, ()> {
        Box::pin(self())
    }
}

#[tokio::test]
async fn a_renewed_group_has_the_settings_of_its_creator() {
    let (_server, client, redis) = served();
    let mut first = builder(&client).block(Duration::ZERO).open().await.unwrap();
    redis.command(cmd("XGROUP").arg(&["DESTROY", "s", "g"])).await.unwrap();
    eventually(SOON, "the group to be there again", async || {
        assert!(batch(&mut first).await.is_empty());
        redis.command(cmd("XINFO").arg(&["GROUPS", "s"])).await.unwrap() != Value::Array(Vec::new())
    })
    .await;
    let other = builder(&client).filter(Filter::topic("a"));
    refused(other.clone().open().await);

    assert!(matches!(stream(&client, "s").destroy().await, Ok(true)));
    let other = other.open().await.unwrap();
    other.close().await.unwrap();
    let added = fill(&client, "s", 1).await;
    let mut first = first;
    let entry = eventually(SOON, "its own again", async || first.next().await.unwrap()).await;
    assert_eq!(entry.id, added[0]);
}

#[tokio::test]
async fn a_sink_notices_that_its_group_has_other_settings() {
    let (_server, client, redis) = served();
    for no_ack in [false, true] {
        let sink = |topic| {
            let sink = Sink::builder(&client, "g").stream("s").filter(Filter::topic(topic));
            let sink = sink.ack_grace(GRACE).dead_after(GRACE);
            if no_ack { sink.no_ack() } else { sink }
        };
        let mut first = sink("a").block(Duration::from_millis(20)).open().await.unwrap();
        assert!(first.next_batch(1).await.unwrap().is_empty());
        // Between two of the sink's reads, so that it misses the loss of its group.
        redis.command(cmd("XGROUP").arg(&["DESTROY", "s", "g"])).await.unwrap();
        let other = sink("b").open().await.unwrap();
        fill(&client, "s", 5).await;
        let swapped = std::time::Instant::now();
        eventually(SOON, "its next look to be due", async || swapped.elapsed() > GRACE).await;
        for _ in 0..2 {
            let error = tokio::time::timeout(SOON, first.next()).await.expect("in time").unwrap();
            assert!(matches!(error, Err(Error::SettingMismatch { .. })), "{error:?}");
        }
        let groups = format!("{:?}", redis.command(cmd("XINFO").arg(&["GROUPS", "s"])).await.unwrap());
        assert!(groups.contains("\"0-0\""), "it has read nothing: {groups}");
        // When the last sink with other settings has left, the group has its settings again.
        other.close().await.unwrap();
        let goes_on = async || first.next_batch(1).await;
        assert!(eventually(SOON, "it to go on", goes_on).await.is_empty(), "no topic that it wants");
        assert_eq!(refused(sink("b").open().await)[0], "filter");
        stream(&client, "s").destroy().await.unwrap();
    }
}
