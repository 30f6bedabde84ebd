//! Faults of the network, the server and its operators, on a real Redis.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use redis::cmd;
use tenure_connection::Client;
use tenure_streaming::{Entry, EntryId, Error, NewEntry, Reader, Sink, SinkBuilder, Start, Stream};
use tenure_testing::proxy::{Cut, Direction};
use tenure_testing::{Data, Proxy, RedisServer, eventually};

use crate::support::{LONG, SOON, calls, client, fill, pending, served, stream};

const ENTRIES: usize = 6;

fn impatient(url: &str) -> Client {
    Client::builder(url).response_timeout(Duration::from_millis(500)).build().unwrap()
}

/// With this grace, only entries that are found again at once come within a test.
fn patient_sink(client: &Client) -> SinkBuilder {
    Sink::builder(client, "g").stream("s").ack_grace(LONG).count(2)
}

async fn tcp() -> (RedisServer, Proxy) {
    let server = RedisServer::builder().tcp().start().unwrap();
    let proxy = Proxy::start(&server).await.unwrap();
    (server, proxy)
}

/// The next entry, after any errors.
async fn next<S: futures::Stream<Item = Result<Entry, Error>> + Unpin>(entries: &mut S, what: &str) -> Entry {
    let next = async {
        loop {
            match entries.next().await.expect("endless") {
                Ok(entry) => return entry,
                Err(error) => assert!(error.is_transient(), "{what}: {error:?}"),
            }
        }
    };
    tokio::time::timeout(SOON, next).await.unwrap_or_else(|_| panic!("in time: {what}"))
}

/// Places to cut, both early and late in the bytes of a session.
fn places() -> impl Iterator<Item = (Direction, u64)> {
    let both = [Direction::ToServer, Direction::ToClient];
    both.into_iter().flat_map(|direction| (0..700).step_by(37).map(move |bytes| (direction, bytes)))
}

#[tokio::test]
async fn a_sink_cut_at_any_byte_loses_nothing_and_needs_no_grace() {
    let (server, proxy) = tcp().await;
    let outside = client(&server);
    let redis = outside.commands();
    let through = impatient(&proxy.url());
    for (direction, bytes) in places() {
        let what = format!("{direction:?} {bytes}");
        stream(&outside, "s").destroy().await.unwrap();
        let mut sink = eventually(SOON, "a sink", async || patient_sink(&through).open().await).await;
        let mut added: BTreeSet<_> = fill(&outside, "s", ENTRIES).await.into_iter().collect();
        // Both of its connections exist.
        let first = next(&mut sink, &what).await;
        eventually(SOON, "the first ack", async || sink.ack([&first]).await).await;
        added.remove(&first.id);
        proxy.cut_open(Cut::after(direction, bytes));
        while !added.is_empty() {
            let entry = next(&mut sink, &what).await;
            assert!(added.remove(&entry.id), "{what}: {} came again although it was in our hands", entry.id);
            eventually(SOON, "an ack", async || sink.ack([&entry]).await).await;
        }
        assert_eq!(pending(&redis, "s", "g").await, 0, "{what}");
    }
}

#[tokio::test]
async fn a_reader_cut_at_any_byte_skips_and_repeats_nothing() {
    let (server, proxy) = tcp().await;
    let added = fill(&client(&server), "s", ENTRIES).await;
    let through = impatient(&proxy.url());
    for (direction, bytes) in places() {
        let what = format!("{direction:?} {bytes}");
        proxy.cut_next(Cut::after(direction, bytes));
        let mut reader = Reader::builder(&through).stream("s", Start::Oldest).count(2).open().await.unwrap();
        for id in &added {
            assert_eq!(next(&mut reader, &what).await.id, *id, "{what}");
        }
        proxy.resume();
    }
}

#[tokio::test]
async fn add_once_cut_at_any_byte_adds_one_entry() {
    let (server, proxy) = tcp().await;
    let outside = stream(&client(&server), "s");
    let through = Stream::builder(&impatient(&proxy.url()), "s").absolute_ttl(LONG).build().unwrap();
    for (n, (direction, bytes)) in places().enumerate() {
        proxy.cut_open(Cut::after(direction, bytes));
        let once = format!("{n}");
        let added = eventually(SOON, "it to be added", async || {
            let result = through.add_once(&once, &[("n", &once)]).await;
            assert!(result.as_ref().err().is_none_or(Error::is_transient), "{result:?}");
            result
        })
        .await;
        assert_eq!(outside.newest().await.unwrap().unwrap().id, added.id);
        assert_eq!(outside.len().await.unwrap(), n as u64 + 1, "{direction:?} {bytes}");
    }
}

/// Acknowledges each entry, until the task is aborted.
async fn work(mut sink: Sink) {
    while let Some(item) = sink.next().await {
        if let Ok(entry) = item {
            // An entry that is not acknowledged comes again.
            let _ = sink.ack([&entry]).await;
        }
    }
}

#[tokio::test]
async fn sinks_that_are_cut_and_killed_repeatedly_lose_nothing() {
    let (server, proxy) = tcp().await;
    let outside = client(&server);
    let redis = outside.commands();
    let through = impatient(&proxy.url());
    let grace = Duration::from_millis(400);
    let builder = || Sink::builder(&through, "g").stream("s").ack_grace(grace).dead_after(grace).count(10);
    let mut sinks = Vec::new();
    for round in 0..12 {
        let sink = eventually(SOON, "a sink", async || builder().open().await).await;
        sinks.push(tokio::spawn(work(sink)));
        fill(&outside, "s", 20).await;
        match round % 4 {
            0 => proxy.kill_all(),
            1 => proxy.cut_open(Cut::after(Direction::ToClient, 500)),
            2 => proxy.cut_open(Cut::after(Direction::ToServer, 700)),
            _ => {
                let killed = sinks.swap_remove(0);
                killed.abort();
                let _ = killed.await;
            }
        }
    }
    eventually(SOON, "all to be read and acknowledged", async || {
        let info: Vec<redis::Value> =
            server.query(cmd("XINFO").arg("GROUPS").arg("s")).map_err(|error| format!("{error:?}"))?;
        let read = format!("{info:?}").contains("bulk-string('\"entries-read\"'), int(240)");
        let left = pending(&redis, "s", "g").await;
        if read && left == 0 { Ok(()) } else { Err(format!("{left} pending, {info:?}")) }
    })
    .await;
    for sink in &sinks {
        sink.abort();
    }
    futures::future::join_all(sinks).await;
    drop(through);
    eventually(SOON, "no connection but the outside's", async || server.clients().unwrap().len() == 1).await;
}

#[tokio::test]
async fn a_server_that_hangs_is_an_error_in_time_and_nothing_is_lost() {
    let server = RedisServer::start().unwrap();
    let through = impatient(&server.url());
    let added = fill(&through, "s", 1).await;
    let mut sink = patient_sink(&through).open().await.unwrap();
    let mut reader = Reader::builder(&through).stream("s", Start::Oldest).open().await.unwrap();
    assert_eq!(
        (next(&mut sink, "sink").await.id, next(&mut reader, "reader").await.id),
        (added[0], added[0])
    );
    let closing = patient_sink(&through).open().await.unwrap();
    server.pause().unwrap();
    let deadline = Duration::from_secs(20);
    let error = tokio::time::timeout(deadline, sink.next()).await.expect("in time").unwrap().unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let error = tokio::time::timeout(deadline, reader.next()).await.expect("in time").unwrap().unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let error = stream(&through, "s").add(&[("n", "1")]).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let error = tokio::time::timeout(deadline, closing.close()).await.expect("in time").unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    server.resume().unwrap();
    let marker = eventually(SOON, "to add", async || stream(&through, "s").add(&[("n", "2")]).await).await;
    let mut last = EntryId::MIN;
    while last < marker {
        last = next(&mut sink, "sink").await.id;
        assert!(last > added[0], "an entry in our hands does not come again");
    }
    last = EntryId::MIN;
    while last < marker {
        last = next(&mut reader, "reader").await.id;
    }
}

#[tokio::test]
async fn lost_and_late_replies_lose_and_repeat_no_entry() {
    let (server, proxy) = tcp().await;
    let outside = client(&server);
    let redis = outside.commands();
    let through = impatient(&proxy.url());
    let mut sink = patient_sink(&through).open().await.unwrap();
    let mut reader = Reader::builder(&through)
        .stream("s", Start::Oldest)
        .block(Duration::from_millis(100))
        .open()
        .await
        .unwrap();
    let switches: [(&str, &dyn Fn()); 3] = [
        ("lost", &|| proxy.drop_replies()),
        ("late", &|| proxy.pause_one_way(Direction::ToClient)),
        ("all late", &|| proxy.pause()),
    ];
    for (what, switch) in switches {
        let before = fill(&outside, "s", 1).await[0];
        let held = next(&mut sink, what).await;
        assert_eq!((held.id, next(&mut reader, what).await.id), (before, before), "{what}");
        // A read is under way and takes the first entry with it.
        let waiting = tokio::time::timeout(Duration::from_millis(20), sink.next()).await;
        assert!(waiting.is_err(), "{what}: {waiting:?}");
        switch();
        let mut added = fill(&outside, "s", ENTRIES).await;
        for entries in [&mut sink as &mut (dyn futures::Stream<Item = _> + Unpin + Send), &mut reader] {
            let failed = async {
                while entries.next().await.is_some_and(|item: Result<Entry, Error>| item.is_ok()) {}
            };
            tokio::time::timeout(SOON, failed).await.unwrap_or_else(|_| panic!("an error: {what}"));
        }
        proxy.resume();
        for id in &added {
            assert_eq!(next(&mut reader, what).await.id, *id, "{what}");
        }
        let mut acked = vec![held];
        while !added.is_empty() {
            let entry = next(&mut sink, what).await;
            let place = added.iter().position(|id| *id == entry.id);
            added.remove(place.unwrap_or_else(|| panic!("{what}: {entry:?} again")));
            acked.push(entry);
        }
        eventually(SOON, "to ack", async || sink.ack(&acked).await).await;
        assert_eq!(pending(&redis, "s", "g").await, 0, "{what}");
    }
}

#[tokio::test]
async fn a_loading_server_is_awaited() {
    // The server takes its time for each key, and answers meanwhile.
    let slow = RedisServer::builder().config("key-load-delay", "500");
    let server = slow.config("loading-process-events-interval-bytes", "1024").start().unwrap();
    let through = client(&server);
    let fill_up = "for n = 1, 8000 do redis.call('SET', n, n) end";
    server.query::<()>(cmd("EVAL").arg(fill_up).arg(0)).unwrap();
    let added = fill(&through, "s", 1).await;
    let mut sink = patient_sink(&through).open().await.unwrap();
    let mut reader = Reader::builder(&through).stream("s", Start::Oldest).open().await.unwrap();
    assert_eq!(
        (next(&mut sink, "sink").await.id, next(&mut reader, "reader").await.id),
        (added[0], added[0])
    );
    let restart = std::thread::spawn(move || {
        server.restart(Data::Keep).unwrap();
        server
    });
    let is_loading = |error: &Error| {
        assert!(error.is_transient() && !error.may_have_executed() || error.code().is_none(), "{error:?}");
        error.code() == Some("LOADING")
    };
    let adder = stream(&through, "s");
    let mut loading = [false; 3];
    let all = async {
        while loading != [true; 3] {
            loading[0] |= sink.next().await.unwrap().is_err_and(|error| is_loading(&error));
            loading[1] |= reader.next().await.unwrap().is_err_and(|error| is_loading(&error));
            loading[2] |= adder.add(&[("n", "1")]).await.is_err_and(|error| is_loading(&error));
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(60), all).await;
    assert!(seen.is_ok(), "{loading:?}");
    let _server = restart.join().unwrap();
    let later = eventually(SOON, "to add", async || adder.add(&[("n", "2")]).await).await;
    while next(&mut sink, "sink").await.id < later {}
    while next(&mut reader, "reader").await.id < later {}
}

#[tokio::test]
async fn a_server_that_returns_empty_gets_its_group_and_is_read() {
    let server = RedisServer::start().unwrap();
    let through = client(&server);
    fill(&through, "s", 3).await;
    let mut sink = patient_sink(&through).open().await.unwrap();
    let mut reader = Reader::builder(&through).stream("s", Start::Oldest).open().await.unwrap();
    for _ in 0..3 {
        next(&mut sink, "sink").await;
        next(&mut reader, "reader").await;
    }
    server.restart(Data::Wipe).unwrap();
    let added = eventually(SOON, "to add", async || stream(&through, "s").add(&[("n", "2")]).await).await;
    assert_eq!(next(&mut sink, "sink").await.id, added);
    assert_eq!(next(&mut reader, "reader").await.id, added);
}

#[tokio::test]
async fn killed_connections_are_renewed_and_nothing_is_lost() {
    let server = RedisServer::start().unwrap();
    let outside = client(&server);
    let through = client(&server);
    let mut sink = patient_sink(&through).open().await.unwrap();
    let mut reader = Reader::builder(&through).stream("s", Start::Oldest).open().await.unwrap();
    for _ in 0..5 {
        for id in fill(&outside, "s", ENTRIES).await {
            let entry = next(&mut sink, "sink").await;
            assert_eq!(entry.id, id, "neither skipped nor doubled");
            eventually(SOON, "an ack", async || sink.ack([&entry]).await).await;
            assert_eq!(next(&mut reader, "reader").await.id, id);
            server.query::<i64>(cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal")).unwrap();
            eventually(SOON, "the outside", async || outside.commands().command(&cmd("PING")).await).await;
        }
    }
}

#[tokio::test]
async fn scripts_that_are_flushed_are_loaded_again() {
    let (server, client, _) = served();
    let bounded = Stream::builder(&client, "s").sliding_ttl(LONG).build().unwrap();
    let flush = || server.query::<()>(cmd("SCRIPT").arg("FLUSH")).unwrap();
    let mut sink = patient_sink(&client).consumer("c").open().await.unwrap();
    for n in 0..3 {
        flush();
        bounded.add_once(format!("{n}"), &[("n", "1")]).await.unwrap();
        flush();
        bounded.add_many(&[NewEntry::new().field("n", "2")]).await.unwrap();
        for _ in 0..2 {
            flush();
            let entry = next(&mut sink, "sink").await;
            flush();
            assert_eq!(sink.handle().keep([&entry]).await.unwrap(), 1);
            flush();
            assert_eq!(sink.ack_and_remove([&entry]).await.unwrap(), 1);
        }
    }
    flush();
    sink.close().await.unwrap();
    assert_eq!(bounded.len().await.unwrap(), 0);
}

#[tokio::test]
async fn a_full_server_refuses_to_add_but_reads_acks_and_removes() {
    let (server, client, _) = served();
    let added = fill(&client, "s", 4).await;
    let builder = Sink::builder(&client, "g").stream("s").ack_grace(Duration::from_millis(100));
    let mut sink = builder.clone().open().await.unwrap();
    let mut dead = builder.open().await.unwrap();
    assert_eq!(dead.next_batch(1).await.unwrap()[0].id, added[0]);
    server.query::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(1)).unwrap();
    let full = |error: Error| {
        assert_eq!(error.code(), Some("OOM"), "{error:?}");
        assert!(error.is_transient() && !error.may_have_executed());
    };
    let bounded = Stream::builder(&client, "s").sliding_ttl(LONG).build().unwrap();
    full(stream(&client, "s").add(&[("n", "1")]).await.unwrap_err());
    full(bounded.add(&[("n", "1")]).await.unwrap_err());
    full(bounded.add_once("id", &[("n", "1")]).await.unwrap_err());
    full(bounded.add_many(&[NewEntry::new().field("n", "1")]).await.unwrap_err());
    full(Sink::builder(&client, "other").stream("s").open().await.unwrap_err());

    let mut reader = Reader::builder(&client).stream("s", Start::Oldest).open().await.unwrap();
    assert_eq!(next(&mut reader, "reader").await.id, added[0]);
    let mut left: BTreeSet<_> = added.iter().copied().collect();
    while !left.is_empty() {
        let entry = next(&mut sink, "sink").await;
        left.remove(&entry.id);
        sink.handle().keep([&entry]).await.unwrap();
        sink.ack_and_remove([&entry]).await.unwrap();
    }
    dead.close().await.unwrap();
    assert!(stream(&client, "s").destroy().await.unwrap());
    server.query::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(0)).unwrap();
    let later = stream(&client, "s").add(&[("n", "1")]).await.unwrap();
    assert_eq!(next(&mut sink, "sink").await.id, later);
    for id in added[1..].iter().chain([&later]) {
        assert_eq!(next(&mut reader, "reader").await.id, *id);
    }
}

#[tokio::test]
async fn a_demoted_master_is_an_error_until_there_is_a_master_again() {
    let (server, client, _) = served();
    let first = fill(&client, "s", 1).await[0];
    let mut sink = patient_sink(&client).open().await.unwrap();
    let held = next(&mut sink, "sink").await;
    assert_eq!(held.id, first);
    server.query::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(1)).unwrap();
    let read_only = |error: Error| {
        assert_eq!(error.code(), Some("READONLY"), "{error:?}");
        assert!(error.is_transient() && !error.may_have_executed());
    };
    read_only(stream(&client, "s").add(&[("n", "1")]).await.unwrap_err());
    read_only(sink.ack([&held]).await.unwrap_err());
    let error = sink.next().await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let before = calls(&client.commands(), "xreadgroup").await;
    let loops = async {
        loop {
            assert!(sink.next().await.unwrap().is_err());
        }
    };
    assert!(tokio::time::timeout(Duration::from_millis(300), loops).await.is_err());
    let made = calls(&client.commands(), "xreadgroup").await - before;
    assert!(made <= 5, "no busy loop: {made}");
    server.query::<()>(cmd("REPLICAOF").arg("NO").arg("ONE")).unwrap();
    let later = eventually(SOON, "to add", async || stream(&client, "s").add(&[("n", "1")]).await).await;
    assert_eq!(next(&mut sink, "sink").await.id, later);
    assert_eq!(eventually(SOON, "an ack", async || sink.ack([&held]).await).await, 1);
}
