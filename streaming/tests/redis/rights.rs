//! Users with exactly the rights that the README lists.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use redis::{Value, cmd};
use tenure_connection::Client;
use tenure_streaming::{EntryId, NewEntry, Reader, Sink, Start, Stream};
use tenure_testing::{RedisServer, eventually};

use crate::support::{LONG, SOON, client, fill, stream};

const GRACE: Duration = Duration::from_millis(100);

/// A client of a user with the rights that the README lists for `what`.
fn user(server: &RedisServer, what: &str) -> Client {
    let (_, list) = include_str!("../../README.md").split_once("```text").unwrap();
    let (list, _) = list.split_once("```").unwrap();
    let (mut rights, mut section) = (Vec::new(), "");
    for line in list.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace().peekable();
        if !line.starts_with(' ') {
            section = words.next().unwrap();
        }
        if section == what || section == "keys" {
            rights.extend(words);
        }
    }
    assert!(rights.len() > 4, "{rights:?}");
    Client::open(&server.acl_user(what, "secret", &rights).unwrap()).unwrap()
}

#[tokio::test]
async fn a_publisher_needs_no_rights_but_those_of_the_readme() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let client = user(&server, "Stream");
    let plain = stream(&client, "orders");
    plain.add(&[("n", "1")]).await.unwrap();
    let sliding = Stream::builder(&client, "orders").sliding_ttl(LONG).max_len(1000).build().unwrap();
    sliding.add(&[("n", "1")]).await.unwrap();
    let absolute = Stream::builder(&client, "orders").absolute_ttl(LONG).max_len_exact(1000).build().unwrap();
    absolute.add_many(&[NewEntry::new().field("n", "1")]).await.unwrap();
    let once = Stream::builder(&client, "orders").once_window(Duration::from_millis(1)).build().unwrap();
    for n in 0..10 {
        once.add_once(format!("{n}"), &[("n", "1")]).await.unwrap();
    }
    let last = sliding.add_once("id", &[("n", "1")]).await.unwrap().id;
    assert!(absolute.add_once("id", &[("n", "1")]).await.unwrap().repeated);
    assert_eq!((plain.len().await.unwrap(), plain.position(Start::Newest).await.unwrap()), (14, last));
    assert!(plain.oldest().await.unwrap().unwrap().id < plain.newest().await.unwrap().unwrap().id);
    assert_eq!(plain.range(EntryId::MIN, EntryId::MAX, 100).await.unwrap().len(), 14);
    plain.trim(3).await.unwrap();
    plain.trim_before(last).await.unwrap();
    plain.remove(&[last]).await.unwrap();
    assert!(plain.destroy().await.unwrap());
    assert_eq!(server.keys().unwrap(), [""; 0]);

    let forbidden = stream(&client, "others").add(&[("n", "1")]).await.unwrap_err();
    assert_eq!(forbidden.code(), Some("NOPERM"));
    assert!(!forbidden.is_transient() && !forbidden.may_have_executed());
}

#[tokio::test]
async fn a_reader_needs_no_rights_but_those_of_the_readme() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let reader = Reader::builder(&user(&server, "Reader")).stream("orders", Start::Newest);
    let mut reader = reader.open().await.unwrap();
    let added = fill(&client(&server), "orders", 1).await;
    let entry = tokio::time::timeout(SOON, reader.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(entry.id, added[0]);
    reader.handle().add_stream("others", Start::Oldest).await.unwrap();
    let error = tokio::time::timeout(SOON, reader.next()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.code(), Some("NOPERM"));
}

#[tokio::test]
async fn a_sink_needs_no_rights_but_those_of_the_readme() {
    let server = RedisServer::builder().tcp().start().unwrap();
    let client = user(&server, "Sink");
    let builder = Sink::builder(&client, "g").stream("orders").ack_grace(GRACE).dead_after(GRACE);
    let builder = builder.recreate_at(Start::Newest);
    let mut doomed = builder.clone().consumer("doomed").open().await.unwrap();
    let mut sink = builder.open().await.unwrap();
    let added: BTreeSet<_> = fill(&self::client(&server), "orders", 10).await.into_iter().collect();
    let batch = tokio::time::timeout(SOON, doomed.next_batch(5)).await.unwrap().unwrap();
    assert_eq!(batch.len(), 5);
    drop(doomed);
    let mut seen = BTreeSet::new();
    while seen != added {
        let entry = tokio::time::timeout(SOON, sink.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(sink.handle().keep([&entry]).await.unwrap(), 1);
        assert_eq!(sink.handle().release([&entry]).await.unwrap(), 1);
        seen.insert(entry.id);
        match seen.len() % 2 {
            0 => sink.ack([&entry]).await.unwrap(),
            _ => sink.ack_and_remove([&entry]).await.unwrap(),
        };
    }
    // One of the consumers represents the settings.
    let consumers = || {
        let list = server.query::<Vec<Value>>(cmd("XINFO").arg("CONSUMERS").arg("orders").arg("g"));
        list.map_or(0, |list| list.len() - 1)
    };
    eventually(SOON, "the doomed one to be deleted", async || {
        let _ = tokio::time::timeout(GRACE, sink.next()).await.map(|item| item.unwrap().unwrap());
        consumers() == 1
    })
    .await;
    server.query::<()>(cmd("XGROUP").arg("DESTROY").arg("orders").arg("g")).unwrap();
    eventually(SOON, "the group to be there again", async || {
        let _ = tokio::time::timeout(GRACE, sink.next()).await.map(|item| item.unwrap().unwrap());
        server.query::<Vec<Value>>(cmd("XINFO").arg("GROUPS").arg("orders")).unwrap().len() == 1
    })
    .await;
    // The consumer returns under its name and finds its entries.
    let name = sink.consumer().to_owned();
    let held = fill(&self::client(&server), "orders", 1).await;
    let entry = tokio::time::timeout(SOON, sink.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(entry.id, held[0]);
    drop(sink);
    let again = Sink::builder(&client, "g").stream("orders").consumer(name).ack_grace(LONG);
    let mut again = again.open().await.unwrap();
    let entry = tokio::time::timeout(SOON, again.next()).await.unwrap().unwrap().unwrap();
    assert_eq!((entry.id, entry.deliveries()), (held[0], 2));
    again.ack([&entry]).await.unwrap();
    again.close().await.unwrap();
    assert_eq!(consumers(), 0);
}
