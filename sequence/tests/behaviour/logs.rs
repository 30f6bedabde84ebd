//! Logs in memory and in Redis, as sources and as the output of a consumer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tenure_connection::Client;
use tenure_sequence::{
    BoxError, Consumer, Delivery, Error, LogError, MemoryLog, MemoryProgress, RedisLog, RedisLogs, Source,
    SourceError,
};
use tenure_testing::{RedisServer, eventually};
use tokio::time::timeout;

use crate::{PATIENCE, by_hand, started};

fn client(server: &RedisServer) -> Client {
    Client::builder(&server.url()).response_timeout(Duration::from_secs(8)).build().unwrap()
}

fn logs(server: &RedisServer) -> RedisLogs {
    RedisLogs::open(&client(server), "set").unwrap()
}

/// A server, and a log on it.
fn served(name: &str) -> (RedisServer, RedisLog) {
    let server = RedisServer::start().unwrap();
    let log = logs(&server).log(name).unwrap();
    (server, log)
}

/// A delivery of this index, whose consumer has stored the index before it.
async fn delivery(index: u64) -> (Consumer, Delivery<u64>) {
    let log = MemoryLog::new();
    log.append(1..=index);
    let builder = Consumer::builder(log, MemoryProgress::new()).default_index(index - 1);
    let (consumer, mut jobs, _) = by_hand(builder).await;
    let delivery = jobs.next().await.unwrap();
    (consumer, delivery)
}

#[tokio::test]
async fn a_log_numbers_its_bodies_without_a_hole() {
    let server = RedisServer::start().unwrap();
    let (log, other) = (logs(&server).log("acme").unwrap(), logs(&server).log("globex").unwrap());
    assert_eq!((log.head().await.unwrap(), log.at(1).await.unwrap()), (0, None));
    assert_eq!(log.append(["a", "b", "c"]).await.unwrap().indexes, 1..4);
    assert_eq!(other.append(["x"]).await.unwrap().indexes, 1..2);
    assert_eq!(log.append(["d"]).await.unwrap().indexes, 4..5);
    assert!(log.append(Vec::<Bytes>::new()).await.unwrap().indexes.is_empty());
    assert_eq!(log.head().await.unwrap(), 4);
    assert_eq!(log.read(2, 2).await.unwrap(), ["b", "c"]);
    assert_eq!(log.read(3, 9).await.unwrap(), ["c", "d"]);
    assert_eq!(log.read(5, 9).await.unwrap(), Vec::<Bytes>::new());
    assert_eq!(log.at(1).await.unwrap(), Some(Bytes::from_static(b"a")));
}

#[tokio::test]
async fn a_read_of_no_bodies_has_none() {
    let server = RedisServer::start().unwrap();
    let (redis, memory) = (logs(&server).log("acme").unwrap(), MemoryLog::new());
    for _ in 0..2 {
        assert_eq!(redis.read(1, 0).await.unwrap(), Vec::<Bytes>::new());
        assert_eq!(memory.read(1, 0).await.unwrap(), Vec::<&str>::new());
        redis.append(["a"]).await.unwrap();
        memory.append(["a"]);
    }
}

#[tokio::test]
async fn a_trimmed_index_is_gone_and_not_missing() {
    let (_server, log) = served("acme");
    log.append(["a", "b", "c"]).await.unwrap();
    log.trim(2).await.unwrap();
    let gone = log.read(1, 9).await;
    assert!(matches!(gone, Err(SourceError::Gone { index: 1, left: Some(3) })), "{gone:?}");
    assert_eq!(log.read(3, 9).await.unwrap(), ["c"]);
    log.trim(3).await.unwrap();
    let gone = log.at(2).await;
    assert!(matches!(gone, Err(SourceError::Gone { index: 2, left: None })), "{gone:?}");
    assert_eq!(log.at(4).await.unwrap(), None);
    assert_eq!(log.append(["d"]).await.unwrap().indexes, 4..5, "numbers go on");

    let memory = MemoryLog::new();
    memory.append(["a", "b", "c"]);
    memory.trim(2);
    for gone in [memory.at(2).await.err(), memory.read(1, 9).await.err()] {
        assert!(matches!(gone, Some(SourceError::Gone { left: Some(3), .. })), "{gone:?}");
    }
    assert_eq!((memory.at(3).await.unwrap(), memory.append(["d"])), (Some("c"), 4..5));
}

#[tokio::test]
async fn a_log_that_has_lost_its_end_ends_its_consumers() {
    let server = RedisServer::start().unwrap();
    let set = logs(&server);
    let log = set.log("acme").unwrap();
    let build = || {
        let builder = Consumer::builder(set.log("acme").unwrap(), set.progress("acme").unwrap());
        builder.build(async |_: Delivery<Bytes>| Ok::<_, BoxError>(())).unwrap()
    };
    let consumer = build();
    consumer.start().await.unwrap();
    log.append(["a", "b", "c"]).await.unwrap();
    eventually(PATIENCE, "3 to be done", async || consumer.stored() == 3).await;
    // A loss of data: the next bodies get the numbers 1 to 3 again, and must not be left out.
    log.destroy().await.unwrap();
    consumer.check();
    let error = timeout(PATIENCE, consumer.ended()).await.expect("an end").unwrap_err();
    assert!(matches!(error, Error::Source(SourceError::Broken(_))), "{error:?}");
    assert!(tenure_testing::describe(&error).contains("the log ends at 0, before 3"), "{error:?}");
    log.append(["d"]).await.unwrap();
    let next = build();
    assert_eq!(next.start().await.unwrap(), 3);
    let error = timeout(PATIENCE, next.ended()).await.expect("an end").unwrap_err();
    assert!(tenure_testing::describe(&error).contains("the log ends at 1, before 3"), "{error:?}");
    // To ask for one is no look: it is not there.
    assert_eq!(log.at(77).await.unwrap(), None);
    log.append(["e", "f"]).await.unwrap();
    assert_eq!(log.read(4, 9).await.unwrap(), Vec::<Bytes>::new());
}

#[tokio::test]
async fn indexes_that_a_loss_has_freed_are_not_taken_for_those_read() {
    let server = RedisServer::start().unwrap();
    let set = logs(&server);
    let log = set.log("acme").unwrap();
    log.append(["a", "b"]).await.unwrap();
    log.append(["c"]).await.unwrap();
    let (reads, waits, knows_nothing) =
        (set.log("acme").unwrap(), set.log("acme").unwrap(), set.log("acme").unwrap());
    assert_eq!(reads.read(1, 2).await.unwrap(), ["a", "b"]);
    assert_eq!(reads.read(3, 9).await.unwrap(), ["c"]);
    assert!(waits.read(4, 9).await.unwrap().is_empty(), "it has begun behind 3");
    let consumer = Consumer::builder(set.log("acme").unwrap(), MemoryProgress::new());
    let consumer = started(consumer, async |_: Delivery<Bytes>| Ok::<_, BoxError>(())).await;
    eventually(PATIENCE, "3 to be done", async || consumer.stored() == 3).await;
    // A loss of data, and indexes 1 to 5 are given to others.
    log.destroy().await.unwrap();
    log.append(["d", "e", "f", "g", "h"]).await.unwrap();
    for log in [&reads, &waits] {
        let error = log.read(4, 9).await.unwrap_err();
        assert!(matches!(error, SourceError::Broken(_)), "{error:?}");
        assert!(tenure_testing::describe(&error).contains("index 3 was given again"), "{error:?}");
    }
    consumer.check();
    let error = timeout(PATIENCE, consumer.ended()).await.expect("an end").unwrap_err();
    assert!(matches!(error, Error::Source(SourceError::Broken(_))), "{error:?}");
    // A consumer that begins by now cannot tell.
    assert_eq!(knows_nothing.read(4, 9).await.unwrap(), ["g", "h"]);
    assert_eq!(reads.clone().read(4, 9).await.unwrap(), ["g", "h"], "a clone is for another consumer");
}

#[tokio::test]
async fn a_log_that_is_trimmed_up_to_the_progress_is_read_on() {
    let server = RedisServer::start().unwrap();
    let set = logs(&server);
    let (log, reads) = (set.log("acme").unwrap(), set.log("acme").unwrap());
    log.append(["a", "b", "c"]).await.unwrap();
    assert_eq!(reads.read(1, 9).await.unwrap(), ["a", "b", "c"]);
    let others = set.log("acme").unwrap();
    assert_eq!(others.read(1, 9).await.unwrap(), ["a", "b", "c"]);
    log.trim(3).await.unwrap();
    assert!(reads.read(4, 9).await.unwrap().is_empty() && others.read(4, 9).await.unwrap().is_empty());
    log.append(["d", "e", "f"]).await.unwrap();
    assert_eq!(reads.read(4, 2).await.unwrap(), ["d", "e"], "no more than were asked for");
    assert_eq!(reads.read(6, 2).await.unwrap(), ["f"]);
    // One that has read what is trimmed notices a loss all the same.
    log.destroy().await.unwrap();
    log.append(["g", "h", "i", "j"]).await.unwrap();
    assert!(matches!(others.read(4, 9).await, Err(SourceError::Broken(_))));
}

#[tokio::test]
async fn an_entry_without_a_mark_is_read_like_any() {
    let server = RedisServer::start().unwrap();
    let set = logs(&server);
    let reads = set.log("acme").unwrap();
    let redis = client(&server).commands();
    for (head, body) in [(1, "a"), (2, "b")] {
        let mut add = redis::cmd("XADD");
        add.arg("tenure:sequence:{set}:log:acme").arg("0-*").arg("b").arg(body);
        redis.command(&add).await.unwrap();
        assert_eq!(reads.read(head, 9).await.unwrap(), [body]);
    }
    reads.append(["c"]).await.unwrap();
    assert_eq!(reads.read(3, 9).await.unwrap(), ["c"]);
}

#[tokio::test]
async fn a_progress_above_the_head_of_a_log_ends_its_consumer() {
    let server = RedisServer::start().unwrap();
    let (redis, memory) = (logs(&server).log("acme").unwrap(), MemoryLog::new());
    redis.append(["a", "b", "c"]).await.unwrap();
    memory.append(["a", "b", "c"]);
    memory.trim(2);
    for read in [redis.read(5, 9).await.err(), memory.read(5, 9).await.err()] {
        let error = read.unwrap();
        assert!(matches!(error, SourceError::Broken(_)), "{error:?}");
        assert!(tenure_testing::describe(&error).contains("the log ends at 3, before 4"), "{error:?}");
    }
    for read in [redis.read(u64::MAX, 9).await.err(), memory.read(u64::MAX, 9).await.err()] {
        let text = tenure_testing::describe(&read.unwrap());
        assert!(text.contains("before 18446744073709551614"), "{text}");
    }
    assert_eq!(redis.at(u64::MAX).await.unwrap(), None);
    assert!(redis.read(4, 9).await.unwrap().is_empty() && memory.read(4, 9).await.unwrap().is_empty());
    assert_eq!(memory.at(77).await.unwrap(), None, "to ask for one is no look");
    for (source, default_index) in [(memory, 7), (MemoryLog::new(), 1)] {
        let consumer = Consumer::builder(source, MemoryProgress::new()).default_index(default_index);
        let consumer = started(consumer, async |_: Delivery<&str>| Ok::<_, BoxError>(())).await;
        let error = timeout(PATIENCE, consumer.ended()).await.expect("an end").unwrap_err();
        assert!(matches!(error, Error::Source(SourceError::Broken(_))), "{error:?}");
    }
}

#[tokio::test]
async fn a_hole_in_a_log_ends_the_read_before_it() {
    let (server, log) = served("acme");
    log.append(["a", "b", "c"]).await.unwrap();
    let mut delete = redis::cmd("XDEL");
    client(&server)
        .commands()
        .command(delete.arg("tenure:sequence:{set}:log:acme").arg("0-2"))
        .await
        .unwrap();
    assert_eq!(log.read(1, 9).await.unwrap(), ["a"]);
    assert!(matches!(log.read(2, 9).await, Err(SourceError::Gone { index: 2, left: Some(3) })));
}

#[tokio::test]
async fn an_input_appends_once() {
    let (server, log) = served("out");
    let memory = MemoryLog::new();
    let (_five, input) = delivery(5).await;
    let first = log.append_for(&input, ["a", "b"]).await.unwrap();
    assert_eq!((first.indexes, first.repeated), (1..3, false));
    let again = log.append_for(&input, ["other"]).await.unwrap();
    assert_eq!((again.indexes, again.repeated), (1..3, true));
    assert_eq!(log.head().await.unwrap(), 2);
    let first = memory.append_for(&input, ["a", "b"]).unwrap();
    assert_eq!(memory.append_for(&input, ["other"]).unwrap().indexes, first.indexes);
    // An input without an output counts, too.
    let (_seven, next) = delivery(7).await;
    let none = log.append_for(&next, Vec::<Bytes>::new()).await.unwrap();
    assert!(none.indexes.is_empty() && log.append_for(&next, ["late"]).await.unwrap().repeated);
    assert!(memory.append_for(&next, []).unwrap().indexes.is_empty());
    // The feeder has stored 6: a former owner's word about 5 comes late.
    let late = log.append_for(&input, ["c"]).await;
    assert!(matches!(late, Err(LogError::Late { input: 5, floor: 6 })), "{late:?}");
    assert!(matches!(memory.append_for(&input, ["c"]), Err(LogError::Late { input: 5, floor: 6 })));
    assert_eq!((log.head().await.unwrap(), memory.head().await.unwrap()), (2, 2));
    let mut count = redis::cmd("ZCARD");
    let kept = client(&server).commands();
    let kept = kept.command(count.arg("tenure:sequence:{set}:inputs:out")).await.unwrap();
    assert_eq!(kept, redis::Value::Int(1), "what is below the floor is forgotten");
}

#[tokio::test]
async fn an_append_tells_the_consumer_of_the_log_at_once() {
    let server = RedisServer::start().unwrap();
    let mut consumers = Vec::new();
    let (reading, writing) = (logs(&server), logs(&server));
    for name in ["acme", "globex"] {
        let builder = Consumer::builder(reading.log(name).unwrap(), reading.progress(name).unwrap());
        let consumer = started(builder, async |_: Delivery<Bytes>| Ok::<_, BoxError>(())).await;
        consumers.push((writing.log(name).unwrap(), consumer));
    }
    // Far less than the pause after which a consumer looks in any case.
    let soon = Duration::from_secs(20);
    for round in 1..=20 {
        for (log, consumer) in &consumers {
            log.append(["x"]).await.unwrap();
            eventually(soon, "it to be done", async || consumer.stored() == round).await;
        }
    }
    let connections = server.clients().unwrap();
    let listening = connections
        .iter()
        .filter(|client| client.flags.contains('P') || client.command.starts_with("ssubscribe"));
    assert_eq!(listening.count(), 1, "{connections:?}");
}

#[tokio::test]
async fn a_log_is_looked_at_after_an_outage() {
    let server = RedisServer::builder().append_only().config("appendfsync", "always").start().unwrap();
    let set = logs(&server);
    let log = set.log("acme").unwrap();
    let consumer = Consumer::builder(set.log("acme").unwrap(), set.progress("acme").unwrap());
    let consumer = started(consumer, async |_: Delivery<Bytes>| Ok::<_, BoxError>(())).await;
    log.append(["a"]).await.unwrap();
    eventually(PATIENCE, "1 to be done", async || consumer.stored() == 1).await;
    server.kill().unwrap();
    server.restart(tenure_testing::Data::Keep).unwrap();
    logs(&server).log("acme").unwrap().append(["b"]).await.unwrap();
    eventually(PATIENCE, "2 to be done", async || consumer.stored() == 2).await;
}

#[tokio::test]
async fn too_much_is_refused_before_anything_is_sent() {
    let (_server, log) = served("acme");
    let many = log.append(vec!["x"; 1_001]).await;
    assert!(matches!(many, Err(LogError::TooLarge { what: "bodies", is: 1_001, limit: 1_000 })), "{many:?}");
    let long = log.append([vec![0; (4 << 20) + 1]]).await;
    assert!(matches!(long, Err(LogError::TooLarge { what: "bytes", .. })), "{long:?}");
    assert_eq!(log.head().await.unwrap(), 0);
    log.append(vec!["x"; 1_000]).await.unwrap();
    assert_eq!(log.read(1, 5_000).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn names_that_fit_into_no_key_are_refused() {
    let server = RedisServer::start().unwrap();
    for bad in ["", "a{b", "a}b", "a\nb", &"x".repeat(257)] {
        assert!(matches!(RedisLogs::open(&client(&server), bad), Err(Error::Setting { name: "set", .. })));
        assert!(matches!(logs(&server).log(bad), Err(Error::Setting { name: "log", .. })), "{bad:?}");
        assert!(matches!(logs(&server).progress(bad), Err(Error::Setting { name: "consumer", .. })));
    }
}

#[tokio::test]
async fn a_destroyed_log_leaves_no_key() {
    let (server, log) = served("acme");
    let (_one, input) = delivery(1).await;
    log.append(["a"]).await.unwrap();
    log.append_for(&input, ["b"]).await.unwrap();
    log.destroy().await.unwrap();
    assert_eq!(server.keys().unwrap(), Vec::<String>::new());
    assert_eq!(log.append(["a"]).await.unwrap().indexes, 1..2);
}

#[tokio::test]
async fn keys_of_another_kind_are_found_before_anything_is_written() {
    let (server, log) = served("acme");
    let redis = client(&server).commands();
    let (_one, input) = delivery(1).await;
    for key in ["log:acme", "heads"] {
        let key = format!("tenure:sequence:{{set}}:{key}");
        redis.command(redis::cmd("SET").arg(&key).arg("x")).await.unwrap();
        assert!(matches!(log.append_for(&input, ["a"]).await, Err(LogError::Redis(_))), "{key}");
        assert_eq!(server.keys().unwrap(), [key.as_str()]);
        redis.command(redis::cmd("DEL").arg(&key)).await.unwrap();
    }
    assert!(!log.append_for(&input, ["a"]).await.unwrap().repeated);
    log.destroy().await.unwrap();
    // Without an input, too.
    for key in ["log:acme", "heads"] {
        let key = format!("tenure:sequence:{{set}}:{key}");
        redis.command(redis::cmd("SET").arg(&key).arg("x")).await.unwrap();
        assert!(matches!(log.append(["a"]).await, Err(LogError::Redis(_))), "{key}");
        assert_eq!(server.keys().unwrap(), [key.as_str()]);
        redis.command(redis::cmd("DEL").arg(&key)).await.unwrap();
    }
}

/// A source that has every index.
struct Endless;

impl Source for Endless {
    type Job = u64;

    async fn at(&self, index: u64) -> Result<Option<u64>, SourceError> {
        Ok(Some(index))
    }

    async fn head(&self) -> Result<u64, SourceError> {
        Ok(u64::MAX)
    }
}

#[tokio::test]
async fn inputs_above_2_to_53_are_refused_and_not_mixed_up() {
    let (_server, log) = served("out");
    let highest = 1 << 53;
    let builder = Consumer::builder(Endless, MemoryProgress::new()).default_index(highest - 1).concurrency(2);
    let (_consumer, mut jobs, _) = by_hand(builder).await;
    let (last, above) = (jobs.next().await.unwrap(), jobs.next().await.unwrap());
    assert_eq!((last.index(), above.index()), (highest, highest + 1));
    assert!(!log.append_for(&last, ["a"]).await.unwrap().repeated);
    let refused = log.append_for(&above, ["b"]).await;
    assert!(matches!(refused, Err(LogError::InputTooHigh { input }) if input == highest + 1), "{refused:?}");
    assert_eq!(log.head().await.unwrap(), 1);
}

#[test]
fn an_iterator_of_jobs_may_use_the_log_that_it_is_for() {
    let (says, appended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let log = MemoryLog::new();
        let own = log.clone();
        let jobs = (0..3).map(|job| own.append([job + 10]).end + job);
        says.send(log.append(jobs)).unwrap();
    });
    assert_eq!(appended.recv_timeout(PATIENCE).unwrap(), 4..7);
}

/// Three stages: lines, their words, and how often each word came.
#[tokio::test]
async fn a_pipeline_has_each_output_once_although_its_stages_crash() {
    let server = RedisServer::start().unwrap();
    let set = logs(&server);
    let (lines, words) = (set.log("lines").unwrap(), set.log("words").unwrap());
    let counted = Arc::new(Mutex::new(Vec::new()));
    for number in 1..=40 {
        lines.append([format!("w{number}a w{number}b")]).await.unwrap();
    }
    for life in 1..=6 {
        let out = words.clone();
        let split = move |line: Delivery<Bytes>| {
            let out = out.clone();
            async move {
                let text = String::from_utf8(line.job().to_vec())?;
                out.append_for(&line, text.split(' ')).await?;
                // It crashes between its output and its end: the job runs again.
                if life < 6 && line.index().is_multiple_of(5) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, BoxError>(())
            }
        };
        let sink = counted.clone();
        let count = move |word: Delivery<Bytes>| {
            sink.lock().unwrap().push((word.index(), word.job().clone()));
            async { Ok::<_, BoxError>(()) }
        };
        let first = Consumer::builder(set.log("lines").unwrap(), set.progress("split").unwrap().fenced(life));
        let first = first.concurrency(4).look_ahead(9).build(split).unwrap();
        let second =
            Consumer::builder(set.log("words").unwrap(), set.progress("count").unwrap().fenced(life));
        let second = second.build(count).unwrap();
        first.start().await.unwrap();
        second.start().await.unwrap();
        let done = async || {
            let (first, second) = (first.explain(), second.explain());
            (life < 6 && !first.running.is_empty() && first.progress >= 4) || second.stored == 80
        };
        eventually(PATIENCE, "some to be done", done).await;
        // Both crash.
    }
    let mut seen = counted.lock().unwrap().clone();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.iter().map(|(index, _)| *index).collect::<Vec<_>>(), (1..=80).collect::<Vec<_>>());
    let mut words: Vec<_> = seen.into_iter().map(|(_, word)| word).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), 80, "no word came twice into the log");
}

#[tokio::test]
async fn the_rights_of_the_readme_suffice() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let readme = include_str!("../../README.md").split("```acl\n").nth(1).unwrap();
    let rights = readme.split("```").next().unwrap().replace("<set>", "set");
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER")
        .arg("app")
        .arg("on")
        .arg(">secret")
        .arg(rights.split_whitespace().collect::<Vec<_>>());
    client(&server).commands().command(&user).await.unwrap();
    let set = RedisLogs::open(
        &Client::open(&server.url().replace("redis://", "redis://app:secret@")).unwrap(),
        "set",
    );
    let set = set.unwrap();
    let (log, progress) = (set.log("acme").unwrap(), set.progress("acme").unwrap());
    let consumer = Consumer::builder(set.log("acme").unwrap(), progress.clone());
    let consumer = started(consumer, async |_: Delivery<Bytes>| Ok::<_, BoxError>(())).await;
    consumer.settled().await;
    let (_one, input) = delivery(1).await;
    log.append(["a"]).await.unwrap();
    log.append_for(&input, ["b"]).await.unwrap();
    // Sooner than it looks without being told.
    eventually(Duration::from_secs(20), "both to be done", async || consumer.stored() == 2).await;
    assert_eq!(log.head().await.unwrap(), 2);
    consumer.stop().await.unwrap();
    log.trim(1).await.unwrap();
    log.destroy().await.unwrap();
    assert_eq!(tenure_sequence::Progress::load(&progress).await.unwrap(), Some(2));
    progress.forget().await.unwrap();
    assert_eq!(server.keys().unwrap(), Vec::<String>::new());
}
