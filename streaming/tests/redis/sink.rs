//! Consumer groups on a real Redis.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use redis::{Value, cmd};
use tenure_connection::{Client, Connection};
use tenure_streaming::{AddOptions, Entry, EntryId, Error, Filter, Sink, SinkBuilder, Start};
use tenure_testing::{Data, RedisServer, eventually};

use crate::support::{
    LONG, SOON, blocked, calls, client, connections, consumers, fill, ids, keys, pending, served, stream,
    values,
};

/// Short enough for a test to wait for.
const GRACE: Duration = Duration::from_millis(200);

fn builder(client: &Client) -> SinkBuilder {
    Sink::builder(client, "g").stream("s")
}

/// A sink whose entries no other sink gets within a test.
async fn open(client: &Client, consumer: &'static str) -> Sink {
    builder(client).consumer(consumer).ack_grace(LONG).open().await.unwrap()
}

async fn batch(sink: &mut Sink, max: usize) -> Vec<Entry> {
    tokio::time::timeout(SOON, sink.next_batch(max)).await.expect("in time").unwrap()
}

async fn take(sink: &mut Sink) -> Entry {
    tokio::time::timeout(SOON, sink.next()).await.expect("in time").expect("endless").unwrap()
}

/// Collects this many entries.
async fn collect(sink: &mut Sink, entries: usize) -> Vec<Entry> {
    let mut collected = Vec::new();
    while collected.len() < entries {
        collected.push(take(sink).await);
    }
    collected
}

#[tokio::test]
async fn consumers_share_a_cursor_and_other_groups_get_copies() {
    let (_server, client, redis) = served();
    let added = fill(&client, "s", 10).await;
    let (mut a, mut b) = (open(&client, "a").await, open(&client, "b").await);
    let of_a = batch(&mut a, 6).await;
    let of_b = batch(&mut b, 6).await;
    assert_eq!([ids(&of_a), ids(&of_b)].concat(), added, "nothing skipped, nothing twice");
    assert_eq!(pending(&redis, "s", "g").await, 10);
    assert_eq!(a.ack(&of_a).await.unwrap(), 6);
    assert_eq!((a.ack(&of_a).await.unwrap(), a.ack(&[]).await.unwrap()), (0, 0));
    assert_eq!(b.handle().ack_ids("s", &ids(&of_b)[..1]).await.unwrap(), 1);
    assert_eq!(b.ack_and_remove(&of_b).await.unwrap(), 3);
    assert_eq!(b.ack_and_remove([]).await.unwrap(), 0);
    assert_eq!(pending(&redis, "s", "g").await, 0);
    assert_eq!(stream(&client, "s").len().await.unwrap(), 6);

    let other = Sink::builder(&client, "other").stream("s").start(Start::After(added[2]));
    let mut other = other.open().await.unwrap();
    assert_eq!(ids(&batch(&mut other, 100).await), added[3..6], "another group has its own cursor");
    assert_eq!((a.consumer(), a.group()), ("a", "g"));
}

#[tokio::test]
async fn a_new_group_begins_where_it_is_told_to() {
    let (_server, client, _) = served();
    for ms in [1000, 2000, 3000] {
        let add = cmd("XADD").arg("s").arg(format!("{ms}-5")).arg("n").arg(ms).take();
        client.commands().command(&add).await.unwrap();
    }
    let at = Start::At(SystemTime::UNIX_EPOCH + Duration::from_secs(2));
    let newest = Sink::builder(&client, "newest").stream("s").start(Start::Newest).open().await.unwrap();
    fill(&client, "s", 1).await;
    for (group, start, expected) in [
        ("oldest", Start::Oldest, &["1000", "2000", "3000", "0"][..]),
        ("after", Start::After(EntryId::new(2000, 5)), &["3000", "0"]),
        ("at", at, &["2000", "3000", "0"]),
        ("newest", Start::Newest, &["0"]),
    ] {
        let mut sink = Sink::builder(&client, group).stream("s").start(start).open().await.unwrap();
        assert_eq!(values(&batch(&mut sink, 10).await), expected, "{group}");
    }
    drop(newest);
}

#[tokio::test]
async fn a_sink_is_a_stream_with_back_pressure() {
    let (_server, client, redis) = served();
    let added = fill(&client, "s", 30).await;
    let mut sink = builder(&client).ack_grace(LONG).count(10).open().await.unwrap();
    for n in 1..=30 {
        let entry = take(&mut sink).await;
        assert_eq!(entry.id, added[n - 1]);
        assert_eq!(pending(&redis, "s", "g").await, i64::try_from((n - 1) / 10 * 10 + 10).unwrap(), "{n}");
    }
    let handle = sink.handle();
    let mut waiting = sink.next();
    tokio::select! {
        item = &mut waiting => panic!("{item:?}"),
        () = eventually(SOON, "a read that waits", async || blocked(&redis).await == 1) => {}
    }
    let later = fill(&client, "s", 1).await[0];
    let entry = waiting.await.unwrap().unwrap();
    assert_eq!(entry.id, later);
    assert_eq!(handle.ack([&entry]).await.unwrap(), 1, "from anywhere");
}

#[tokio::test]
async fn a_batch_has_at_most_the_asked_number_and_may_be_empty() {
    let (_server, client, redis) = served();
    fill(&client, "s", 5).await;
    let mut sink = builder(&client).ack_grace(LONG).block(Duration::ZERO).open().await.unwrap();
    assert_eq!(batch(&mut sink, 3).await.len(), 3);
    assert_eq!(pending(&redis, "s", "g").await, 3, "no more than that was read");
    assert_eq!(batch(&mut sink, usize::MAX).await.len(), 2);
    fill(&client, "s", 1).await;
    assert_eq!(batch(&mut sink, 0).await.len(), 1);
    assert!(batch(&mut sink, 100).await.is_empty());
    let mut idle = Sink::builder(&client, "g").block(Duration::from_millis(1)).open().await.unwrap();
    assert!(batch(&mut idle, 100).await.is_empty(), "no streams");
}

#[tokio::test]
async fn unacknowledged_entries_go_to_others_after_the_grace() {
    let (_server, client, _) = served();
    let added = fill(&client, "s", 50).await;
    let mut dead = builder(&client).consumer("dead").ack_grace(GRACE).open().await.unwrap();
    assert_eq!(batch(&mut dead, 50).await.len(), 50);
    drop(dead);
    // One entry is deleted meanwhile: it neither comes again nor blocks the others.
    let trimmed = stream(&client, "s");
    assert_eq!(
        trimmed.trim_before(added[10]).await.unwrap() + trimmed.remove(&added[10..20]).await.unwrap(),
        20
    );
    let mut heir = builder(&client).ack_grace(GRACE).count(3).open().await.unwrap();
    let entries = collect(&mut heir, 30).await;
    assert_eq!(ids(&entries), added[20..], "each one");
    assert!(entries.iter().all(|entry| entry.deliveries() == 2));
    heir.ack(&entries).await.unwrap();
    assert_eq!(pending(&client.commands(), "s", "g").await, 0);
}

#[tokio::test]
async fn entries_stay_where_they_are_until_the_grace_is_over() {
    let (_server, client, redis) = served();
    fill(&client, "s", 3).await;
    let mut holder = open(&client, "holder").await;
    assert_eq!(batch(&mut holder, 10).await.len(), 3);
    let mut other = builder(&client).ack_grace(LONG).block(Duration::ZERO).open().await.unwrap();
    assert!(batch(&mut other, 10).await.is_empty());
    assert!(calls(&redis, "xautoclaim").await >= 2, "they have looked");
}

#[tokio::test]
async fn a_kept_entry_stays_and_a_released_one_goes_at_once() {
    let (_server, client, redis) = served();
    let added = fill(&client, "s", 2).await;
    let mut a = open(&client, "a").await;
    let entries = batch(&mut a, 10).await;
    let (kept, released) = (&entries[0], &entries[1]);
    assert_eq!(a.handle().release([released]).await.unwrap(), 1);
    let mut b = open(&client, "b").await;
    let got = take(&mut b).await;
    assert_eq!((got.id, got.deliveries()), (added[1], 2));
    assert_eq!(a.handle().release([released]).await.unwrap(), 0, "another one's by now");
    assert_eq!(a.handle().keep([kept, released]).await.unwrap(), 1);
    let idle = async |id: EntryId| {
        let pending = cmd("XPENDING").arg("s").arg("g").arg(id.to_string()).arg(id.to_string()).arg(1).take();
        let Value::Array(pending) = redis.command(&pending).await.unwrap() else { panic!() };
        match &pending[0] {
            Value::Array(words) => match words[2] {
                Value::Int(idle) => idle,
                _ => panic!("{words:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
    eventually(SOON, "some time to pass", async || idle(added[0]).await > 50).await;
    let before = idle(added[0]).await;
    assert_eq!(a.handle().keep([kept]).await.unwrap(), 1);
    assert!(idle(added[0]).await < before);
    b.ack([&got]).await.unwrap();
    assert_eq!(a.handle().keep([released]).await.unwrap(), 0, "acknowledged");
    redis.command(cmd("DEL").arg("s")).await.unwrap();
    assert_eq!(a.handle().keep([kept]).await.unwrap(), 0);
    assert_eq!(a.handle().release([kept]).await.unwrap(), 0);
    assert_eq!(a.ack([kept]).await.unwrap(), 0);
}

#[tokio::test]
async fn waiting_entries_stay_with_a_slow_sink() {
    let (_server, client, _) = served();
    let added = fill(&client, "s", 4).await;
    let mut slow = builder(&client).consumer("slow").ack_grace(GRACE).open().await.unwrap();
    let first = take(&mut slow).await;
    slow.ack([&first]).await.unwrap();
    // Longer than the grace, while nobody polls the slow sink: another takes all but one of its waiting entries.
    let mut other = builder(&client).ack_grace(GRACE).open().await.unwrap();
    let taken = collect(&mut other, 3).await;
    assert_eq!(ids(&taken), added[1..]);
    other.ack(&taken[..2]).await.unwrap();
    let handle = other.handle();
    handle.release(&taken[2..]).await.unwrap();
    drop(other);
    let again = take(&mut slow).await;
    assert_eq!(
        (again.id, again.deliveries()),
        (added[3], 3),
        "entries that the other has handled are not handed out"
    );
}

#[tokio::test]
async fn a_failing_stream_does_not_hold_up_entries_of_others() {
    let (_server, client, redis) = served();
    for name in ["bad", "good"] {
        fill(&client, name, 5).await;
    }
    let builder = Sink::builder(&client, "g").stream("bad").stream("good").ack_grace(GRACE);
    let mut sink = builder.open().await.unwrap();
    assert_eq!(&*take(&mut sink).await.stream, "bad");
    let read = std::time::Instant::now();
    redis.command(cmd("SET").arg("bad").arg("v")).await.unwrap();
    assert!(sink.handle().remove_stream("bad"));
    eventually(SOON, "the waiting entries to need a renewal", async || read.elapsed() > GRACE).await;
    let error = tokio::time::timeout(SOON, sink.next()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), Some("WRONGTYPE"));
    for entry in collect(&mut sink, 5).await {
        assert_eq!(&*entry.stream, "good", "and the error is told once");
    }
}

#[tokio::test]
async fn a_dead_consumer_is_deleted_when_its_entries_are_safe() {
    let (_server, client, redis) = served();
    let added = fill(&client, "s", 600).await;
    let of_group = |name: &'static str| builder(&client).consumer(name).ack_grace(GRACE);
    let mut dead = of_group("dead").open().await.unwrap();
    assert_eq!(batch(&mut dead, 600).await.len(), 600);
    let mut done = of_group("done").open().await.unwrap();
    drop(dead);
    stream(&client, "s").remove(&added[..10]).await.unwrap();
    let mut heir = of_group("heir").dead_after(GRACE).open().await.unwrap();
    let entries = collect(&mut heir, 590).await;
    let got: BTreeSet<_> = ids(&entries).into_iter().collect();
    assert_eq!(got, added[10..].iter().copied().collect(), "nothing lost");
    heir.ack(&entries).await.unwrap();
    let reading = tokio::spawn(async move {
        while let Some(Ok(entry)) = heir.next().await {
            heir.ack([&entry]).await.unwrap();
        }
    });
    eventually(SOON, "only the heir", async || consumers(&redis, "s", "g").await == ["heir"]).await;
    assert_eq!(pending(&redis, "s", "g").await, 0);
    reading.abort();
    let _ = reading.await;

    // A consumer that was alive after all continues, and its acknowledgements count.
    let more = fill(&client, "s", 1).await;
    let entry = take(&mut done).await;
    assert_eq!((entry.id, done.ack([&entry]).await.unwrap()), (more[0], 1));
    assert!(consumers(&redis, "s", "g").await.contains(&"done".to_owned()));
}

trait NowOrNever {
    async fn now_or_never_empty(self) -> bool;
}

impl<F: Future<Output = Result<Vec<Entry>, Error>>> NowOrNever for F {
    /// Whether the sink brings nothing within a moment.
    async fn now_or_never_empty(self) -> bool {
        match tokio::time::timeout(Duration::from_millis(20), self).await {
            Ok(result) => result.unwrap().is_empty(),
            Err(_) => true,
        }
    }
}

#[tokio::test]
async fn a_consumer_deleted_while_it_waits_continues_and_may_ack() {
    let (_server, client, redis) = served();
    let added = fill(&client, "s", 1).await;
    let mut sink = open(&client, "c").await;
    let held = take(&mut sink).await;
    let handle = sink.handle();
    let reading = tokio::spawn(async move { (take(&mut sink).await, sink) });
    eventually(SOON, "the read to block", async || blocked(&redis).await == 1).await;
    redis.command(cmd("XGROUP").arg("DELCONSUMER").arg("s").arg("g").arg("c")).await.unwrap();
    let later = fill(&client, "s", 1).await;
    let (entry, sink) = reading.await.unwrap();
    assert_eq!(ids(std::slice::from_ref(&entry)), later);
    assert_eq!(handle.ack([&entry]).await.unwrap(), 1);
    // Entries that somebody else took from the group are out of our control.
    assert_eq!(handle.ack([&held]).await.unwrap(), 0);
    assert_eq!(ids(&[held]), added);
    drop(sink);
}

#[tokio::test]
async fn close_hands_over_at_once_and_leaves_nothing() {
    let server = RedisServer::start().unwrap();
    let outside = client(&server);
    let redis = outside.commands();
    let added = fill(&outside, "s", 700).await;
    let mut closing = open(&client(&server), "closing").await;
    let first = take(&mut closing).await;
    closing.ack([&first]).await.unwrap();
    assert_eq!(batch(&mut closing, 700).await.len(), 63, "the entries that had been read");
    assert_eq!(batch(&mut closing, 700).await.len(), 636);
    tokio::time::timeout(SOON, closing.close()).await.unwrap().unwrap();
    eventually(SOON, "its connections to be closed", async || connections(&redis).await == 1).await;

    let mut heir = open(&client(&server), "heir").await;
    let entries = collect(&mut heir, 699).await;
    assert_eq!(ids(&entries), added[1..], "without waiting for the grace");
    heir.ack(&entries).await.unwrap();
    let tasks = tokio::runtime::Handle::current().metrics();
    heir.close().await.unwrap();
    eventually(SOON, "only the outside", async || connections(&redis).await == 1).await;
    eventually(SOON, "no task", async || tasks.num_alive_tasks() == 1).await;
    assert_eq!(consumers(&redis, "s", "g").await, ["tenure:left"], "represents all who had entries");
    assert!(stream(&outside, "s").destroy().await.unwrap());
    assert_eq!(keys(&redis).await, [""; 0]);
    open(&client(&server), "late").await.close().await.unwrap();
    stream(&outside, "s").destroy().await.unwrap();
    let reserved = builder(&outside).consumer("tenure:left").open().await.unwrap_err();
    assert!(matches!(reserved, Error::Config { .. }));
    let gone = open(&client(&server), "late").await;
    stream(&outside, "s").destroy().await.unwrap();
    gone.close().await.unwrap();
    assert_eq!(keys(&redis).await, [""; 0], "nothing to leave is fine, and nothing is made for it");
}

/// Opens sinks and closes them at many moments of a read.
async fn open_and_close(redis: &Connection, builder: SinkBuilder, times: u32) {
    for moment in 0..times {
        let mut sink = builder.clone().block(Duration::ZERO).open().await.unwrap();
        batch(&mut sink, 10).await;
        let until = async {
            for _ in 0..moment % 4 {
                redis.command(&cmd("PING")).await.unwrap();
            }
        };
        tokio::select! {
            biased;
            entry = sink.next() => drop(entry.unwrap().unwrap()),
            () = until => {}
        }
        tokio::time::timeout(SOON, sink.close()).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_under_way_when_the_sink_closes_leaves_nothing_behind() {
    let (_server, client, redis) = served();
    open_and_close(&redis, builder(&client).ack_grace(GRACE), 40).await;
    assert_eq!(consumers(&redis, "s", "g").await, [""; 0], "there was nothing to leave to others");

    let adding = tokio::spawn({
        let client = client.clone();
        async move {
            loop {
                fill(&client, "s", 1).await;
            }
        }
    });
    open_and_close(&redis, builder(&client).ack_grace(LONG), 100).await;
    adding.abort();
    let _ = adding.await;
    // An entry that may be claimed at once has been pending since 1970.
    let entries = redis.command(cmd("XPENDING").arg(&["s", "g", "-", "+", "100000"])).await.unwrap();
    let Value::Array(entries) = entries else { panic!() };
    let held = entries.iter().filter(
        |entry| !matches!(entry, Value::Array(words) if matches!(words[2], Value::Int(idle) if idle > 1 << 40)),
    );
    assert_eq!(held.count(), 0, "of {}", entries.len());
    assert!(consumers(&redis, "s", "g").await.iter().all(|name| name == "tenure:left"));
}

#[tokio::test]
async fn a_returning_consumer_gets_its_unacknowledged_entries_at_once() {
    let (_server, client, _) = served();
    let added = fill(&client, "s", 300).await;
    let mut sink = open(&client, "c").await;
    let entries = batch(&mut sink, 300).await;
    sink.ack(&entries[..20]).await.unwrap();
    stream(&client, "s").remove(&added[20..30]).await.unwrap();
    drop(sink);
    let later = fill(&client, "s", 1).await;
    let mut sink = open(&client, "c").await;
    let entries = collect(&mut sink, 271).await;
    assert_eq!(ids(&entries), [&added[30..], &later].concat());
    assert_eq!((entries[0].deliveries(), entries[270].deliveries()), (2, 1));
    sink.ack(&entries).await.unwrap();
    assert_eq!(pending(&client.commands(), "s", "g").await, 0);
}

#[tokio::test]
async fn with_no_ack_each_entry_comes_once_and_nothing_is_pending() {
    let (_server, client, _) = served();
    let added = fill(&client, "s", 10).await;
    let sink = || builder(&client).no_ack().ack_grace(GRACE).dead_after(GRACE).count(5);
    let mut first = sink().open().await.unwrap();
    assert_eq!(take(&mut first).await.id, added[0]);
    drop(first);
    let mut second = sink().open().await.unwrap();
    let entries = collect(&mut second, 5).await;
    assert_eq!(ids(&entries), added[5..], "the entries that the first had read are lost with it");
    assert_eq!(pending(&client.commands(), "s", "g").await, 0);
    assert_eq!(second.ack(&entries).await.unwrap(), 0);
    second.close().await.unwrap();
}

#[tokio::test]
async fn only_wanted_topics_come_and_the_others_are_acknowledged() {
    let (_server, client, _) = served();
    let stream = stream(&client, "s");
    for topic in ["a.1", "b.1", "a.2", "c.1", "b.2"] {
        stream.add_with(AddOptions::new().topic(topic), &[("n", topic)]).await.unwrap();
    }
    stream.add(&[("n", "no topic")]).await.unwrap();
    let filtered = builder(&client).filter(Filter::pattern("a.*")).filter(Filter::topic("c.1"));
    let mut sink = filtered.ack_grace(LONG).block(Duration::from_millis(50)).open().await.unwrap();
    assert_eq!(values(&batch(&mut sink, 10).await), ["a.1", "a.2", "c.1"]);
    assert_eq!(pending(&client.commands(), "s", "g").await, 3);
    stream.add(&[("n", "no topic")]).await.unwrap();
    assert!(batch(&mut sink, 10).await.is_empty());
    assert_eq!(pending(&client.commands(), "s", "g").await, 3);
}

#[tokio::test]
async fn several_streams_are_read_added_and_removed() {
    let (_server, client, redis) = served();
    fill(&client, "a", 2).await;
    fill(&client, "b", 2).await;
    let both = Sink::builder(&client, "g").stream("a").stream("b").ack_grace(LONG);
    let mut sink = both.open().await.unwrap();
    let handle = sink.handle();
    let entries = collect(&mut sink, 4).await;
    assert_eq!(entries.iter().filter(|entry| &*entry.stream == "a").count(), 2);
    assert_eq!(sink.ack(&entries).await.unwrap(), 4);
    assert_eq!(pending(&redis, "a", "g").await + pending(&redis, "b", "g").await, 0);

    let reading = tokio::spawn(async move { (take(&mut sink).await, sink) });
    eventually(SOON, "the read to block", async || blocked(&redis).await == 1).await;
    let added = fill(&client, "c", 1).await;
    handle.add_stream("c").await.unwrap();
    let (entry, mut sink) = reading.await.unwrap();
    assert_eq!((&*entry.stream, entry.id), ("c", added[0]));
    assert!(handle.remove_stream("a") && !handle.remove_stream("a"));
    assert_eq!(handle.streams().len(), 2);
    fill(&client, "a", 1).await;
    let of_b = fill(&client, "b", 1).await;
    assert_eq!(take(&mut sink).await.id, of_b[0]);
    for bad in [String::new(), "x".repeat(513)] {
        assert!(matches!(handle.add_stream(&bad).await, Err(Error::Name { .. })));
        let result = Sink::builder(&client, bad.clone()).open().await;
        assert!(matches!(result, Err(Error::Name { .. })));
        let result = builder(&client).consumer(bad.clone()).open().await;
        assert!(matches!(result, Err(Error::Name { .. })));
        let result = Sink::builder(&client, "g").stream(bad).open().await;
        assert!(matches!(result, Err(Error::Name { .. })));
    }
}

#[tokio::test]
async fn a_lost_group_is_created_anew_and_nothing_is_missed() {
    let (_server, client, redis) = served();
    let mut added = fill(&client, "s", 3).await;
    let mut sink = open(&client, "c").await;
    for _ in 0..2 {
        let entries = collect(&mut sink, added.len()).await;
        assert_eq!(ids(&entries), added, "from the oldest entry again");
        sink.ack(&entries).await.unwrap();
        redis.command(cmd("XGROUP").arg("DESTROY").arg("s").arg("g")).await.unwrap();
        added.extend(fill(&client, "s", 1).await);
    }
    let entries = collect(&mut sink, added.len()).await;
    sink.ack(&entries[1..]).await.unwrap();

    sink.close().await.unwrap();
    let newest = builder(&client).consumer("n").ack_grace(LONG).recreate_at(Start::Newest);
    let mut newest = newest.open().await.unwrap();
    redis.command(cmd("XGROUP").arg("DESTROY").arg("s").arg("g")).await.unwrap();
    assert!(newest.next_batch(1).now_or_never_empty().await);
    eventually(SOON, "the group to be there", async || {
        let groups = redis.command(cmd("XINFO").arg("GROUPS").arg("s")).await.unwrap();
        let _ = newest.next_batch(1).now_or_never_empty().await;
        groups != Value::Array(Vec::new())
    })
    .await;
    let later = fill(&client, "s", 1).await;
    assert_eq!(take(&mut newest).await.id, later[0]);
}

#[tokio::test]
async fn a_group_lost_under_a_waiting_read_is_noticed() {
    let (_server, client, redis) = served();
    for how in [cmd("XGROUP").arg("DESTROY").arg("s").arg("g").take(), cmd("DEL").arg("s").take()] {
        let mut sink = open(&client, "c").await;
        let reading = tokio::spawn(async move { take(&mut sink).await.id });
        eventually(SOON, "it to wait", async || blocked(&redis).await == 1).await;
        redis.command(&how).await.unwrap();
        eventually(SOON, "it to wait again", async || blocked(&redis).await == 1).await;
        let added = fill(&client, "s", 1).await;
        assert_eq!(reading.await.unwrap(), added[0]);
        stream(&client, "s").destroy().await.unwrap();
    }
}

#[tokio::test]
async fn one_lost_group_of_many_holds_nothing_up() {
    let (_server, client, redis) = served();
    let names: Vec<_> = (0..200).map(|n| format!("s{n}")).collect();
    let many = names.iter().fold(Sink::builder(&client, "g"), |sink, name| sink.stream(name.as_str()));
    let mut sink = many.ack_grace(LONG).open().await.unwrap();
    redis.command(cmd("DEL").arg("s99")).await.unwrap();
    let added = fill(&client, "s7", 1).await;
    // A pause for each of them would add up to minutes.
    assert_eq!(take(&mut sink).await.id, added[0]);
    let added = fill(&client, "s99", 1).await;
    assert_eq!(take(&mut sink).await.id, added[0]);
}

#[tokio::test]
async fn a_group_lost_again_and_again_causes_no_busy_loop() {
    let (_server, client, redis) = served();
    let mut sink = open(&client, "c").await;
    let reading = tokio::spawn(async move { sink.next().await });
    // The pauses are at least 0, 25, 50, 100, 200 and 400 ms: the slowest machine makes fewer attempts.
    let end = std::time::Instant::now() + Duration::from_millis(500);
    while std::time::Instant::now() < end {
        redis.command(cmd("DEL").arg("s")).await.unwrap();
    }
    let created = calls(&redis, "xgroup|create").await;
    assert!(created <= 9, "{created}");
    reading.abort();
}

#[tokio::test]
async fn an_error_is_an_item_and_causes_no_busy_loop() {
    let (_server, client, redis) = served();
    let mut sink = open(&client, "c").await;
    redis.command(cmd("SET").arg("s").arg("v")).await.unwrap();
    for _ in 0..3 {
        let error = sink.next().await.expect("endless").unwrap_err();
        assert_eq!(error.code(), Some("WRONGTYPE"));
    }
    let asked = async || {
        calls(&redis, "xreadgroup").await + calls(&redis, "evalsha").await + calls(&redis, "xpending").await
    };
    let before = asked().await;
    let loops = tokio::time::timeout(Duration::from_millis(300), async {
        loop {
            let _ = sink.next().await;
        }
    });
    assert!(loops.await.is_err());
    // The pauses are at least 100 and 200 ms by now: the slowest machine makes fewer calls.
    let made = asked().await - before;
    assert!(made <= 3, "{made}");
    redis.command(cmd("DEL").arg("s")).await.unwrap();
    let added = fill(&client, "s", 1).await[0];
    let entry = eventually(SOON, "the entry", async || sink.next().await.expect("endless")).await;
    assert_eq!(entry.id, added);
}

#[tokio::test]
async fn a_dropped_call_and_a_restart_of_redis_lose_nothing() {
    let server = RedisServer::builder().append_only().config("appendfsync", "always").start().unwrap();
    let outside = client(&server);
    let redis = outside.commands();
    let mut sink = open(&client(&server), "c").await;
    tokio::select! {
        read = sink.next_batch(1) => panic!("{read:?}"),
        () = eventually(SOON, "the read to block", async || blocked(&redis).await == 1) => {}
    }
    let added = fill(&outside, "s", 2).await;
    assert_eq!(take(&mut sink).await.id, added[0], "the entry that the dropped call had asked for");
    server.restart(Data::Keep).unwrap();
    let entry = eventually(SOON, "the other", async || sink.next().await.unwrap()).await;
    assert_eq!(entry.id, added[1], "the first one is in our hands and does not come again");

    eventually(SOON, "the outside to be back", async || redis.command(&cmd("PING")).await).await;
    assert!(connections(&redis).await > 1);
    drop(sink);
    eventually(SOON, "only the outside", async || connections(&redis).await == 1).await;
}
