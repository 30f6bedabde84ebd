//! The same behaviour in every kind of deployment.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use redis::{Value, cmd};
use tenure_connection::Client;
use tenure_streaming::{AddOptions, Entry, EntryId, Error, Filter, NewEntry, Reader, Sink, Start, Stream};
use tenure_testing::tls::Authority;
use tenure_testing::{Cluster, RedisServer, Sentinels, eventually};

use crate::support::{LONG, SOON, client, stream};

const STREAMS: [&str; 4] = ["orders", "users", "payments", "{orders}returns"];

type Known = BTreeSet<(String, EntryId)>;

fn known(entry: &Entry) -> (String, EntryId) {
    (entry.stream.to_string(), entry.id)
}

async fn collect<S: futures::Stream<Item = Result<Entry, Error>> + Unpin>(
    entries: &mut S,
    wanted: &Known,
) -> Vec<Entry> {
    let mut left = wanted.clone();
    let (mut collected, mut last) = (Vec::new(), None);
    let all = async {
        while !left.is_empty() {
            match entries.next().await.expect("endless") {
                Ok(entry) => {
                    left.remove(&known(&entry));
                    collected.push(entry);
                }
                Err(error) => {
                    assert!(error.is_transient(), "{error:?}");
                    last = Some(error);
                }
            }
        }
    };
    let in_time = tokio::time::timeout(SOON, all).await.is_ok();
    assert!(in_time, "{left:?} of {wanted:?} did not come; {collected:?} did; last error: {last:?}");
    collected
}

/// Adds entries in every way to every stream.
async fn add(client: &Client, once: &str) -> Known {
    let mut added = Known::new();
    for name in STREAMS {
        let plain = stream(client, name);
        let bounded = Stream::builder(client, name).max_len(1000).sliding_ttl(LONG).build().unwrap();
        let options = AddOptions::new().topic("a.new").only_if_exists();
        let mut ids = vec![plain.add(&[("n", "1")]).await.unwrap()];
        ids.push(bounded.add_with(options, &[("n", "2")]).await.unwrap().unwrap().id);
        ids.extend(
            bounded
                .add_many(&[NewEntry::new().field("n", "3"), NewEntry::new().field("n", "4")])
                .await
                .unwrap(),
        );
        ids.push(bounded.add_once(once, &[("n", "5")]).await.unwrap().id);
        assert!(bounded.add_once(once, &[("n", "5")]).await.unwrap().repeated);
        assert_eq!(plain.len().await.unwrap(), 5);
        added.extend(ids.into_iter().map(|id| (name.to_owned(), id)));
    }
    added
}

/// Uses everything, over streams in several slots of a cluster.
async fn everything_works(client: &Client) {
    let reader = Reader::builder(client).stream(STREAMS[0], Start::Newest);
    let mut reader = reader.open().await.unwrap();
    let mut filtered = Reader::builder(client).filter(Filter::pattern("*.new"));
    for name in STREAMS {
        filtered = filtered.stream(name, Start::Oldest);
    }
    let mut filtered = filtered.open().await.unwrap();
    let sink = || Sink::builder(client, "g").stream(STREAMS[0]).ack_grace(Duration::from_millis(200));
    let mut dead = sink().open().await.unwrap();
    let mut sink = sink().dead_after(Duration::from_millis(200)).open().await.unwrap();
    for name in &STREAMS[1..] {
        reader.handle().add_stream(name, Start::Newest).await.unwrap();
        sink.handle().add_stream(name).await.unwrap();
        dead.handle().add_stream(name).await.unwrap();
    }
    let added = add(client, "first").await;

    assert_eq!(collect(&mut reader, &added).await.len(), added.len());
    let topics = filtered.by_ref().take(STREAMS.len()).map(|entry| known(&entry.unwrap())).collect::<Known>();
    let topics = tokio::time::timeout(SOON, topics).await.unwrap();
    assert!(topics.len() == STREAMS.len() && topics.is_subset(&added));
    assert!(!tokio::time::timeout(SOON, dead.next_batch(3)).await.unwrap().unwrap().is_empty());
    drop(dead);
    let entries = collect(&mut sink, &added).await;
    assert!(entries.iter().any(|entry| entry.deliveries() > 1), "the dead consumer's entries");
    sink.handle().keep(&entries).await.unwrap();
    sink.ack(&entries[..3]).await.unwrap();
    sink.ack_and_remove(&entries).await.unwrap();
    for name in STREAMS {
        assert!(stream(client, name).is_empty().await.unwrap());
    }
    let handle = reader.handle();
    assert!(STREAMS.iter().all(|name| handle.remove_stream(name)));
    let again = add(client, "second").await;
    for name in STREAMS {
        let after = again.iter().find(|(stream, _)| stream == name).unwrap().1.previous();
        handle.add_stream(name, Start::After(after)).await.unwrap();
    }
    assert_eq!(collect(&mut reader, &again).await.len(), again.len(), "removed and added");
    collect(&mut sink, &again).await;
    sink.close().await.unwrap();
    for name in STREAMS {
        assert!(stream(client, name).destroy().await.unwrap());
    }
}

async fn on_one(server: &RedisServer, client: Client) {
    everything_works(&client).await;
    assert_eq!(server.keys().unwrap(), [""; 0]);
    drop(client);
    eventually(SOON, "no connections", async || server.clients().unwrap().is_empty()).await;
    let tasks = tokio::runtime::Handle::current().metrics();
    eventually(SOON, "no tasks", async || tasks.num_alive_tasks() == 0).await;
}

#[tokio::test]
async fn everything_works_on_a_unix_socket() {
    let server = RedisServer::start().unwrap();
    on_one(&server, client(&server)).await;
}

#[tokio::test]
async fn everything_works_on_a_port_with_a_password() {
    let server = RedisServer::builder().tcp().password("se cret").start().unwrap();
    on_one(&server, client(&server)).await;
}

#[tokio::test]
async fn everything_works_over_tls() {
    let authority = Authority::new().unwrap();
    let server = RedisServer::builder().tls(&authority).unwrap().start().unwrap();
    let client = Client::builder(&server.url()).ca_certificate(authority.ca_pem()).build().unwrap();
    on_one(&server, client).await;
}

#[tokio::test]
async fn everything_works_in_several_slots_of_a_cluster() {
    let cluster = Cluster::start().await.unwrap();
    let client = Client::open(&cluster.url()).unwrap();
    let owners = futures::future::join_all(
        STREAMS.iter().map(async |name| cluster.owner(cluster.slot(name).unwrap()).await.unwrap()),
    )
    .await;
    assert!(owners.iter().collect::<BTreeSet<_>>().len() > 1, "on several nodes: {owners:?}");
    everything_works(&client).await;
    for node in 0..cluster.size() {
        assert_eq!(cluster.node(node).keys().unwrap(), [""; 0]);
    }
    drop(client);
    let tasks = tokio::runtime::Handle::current().metrics();
    eventually(SOON, "no tasks", async || tasks.num_alive_tasks() == 0).await;
}

#[tokio::test]
async fn everything_works_behind_sentinels() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = Client::open(&sentinels.url()).unwrap();
    everything_works(&client).await;
    assert_eq!(sentinels.master().await.unwrap().keys().unwrap(), [""; 0]);
}

async fn add_soon(client: &Client) -> Known {
    let stream = stream(client, "s");
    let id = eventually(SOON, "to add", async || stream.add(&[("n", "1")]).await).await;
    Known::from([("s".to_owned(), id)])
}

/// Records entries, and acknowledges none of them.
async fn note<S: futures::Stream<Item = Result<Entry, Error>> + Unpin>(
    mut entries: S,
    seen: Arc<Mutex<Known>>,
) {
    while let Some(item) = entries.next().await {
        match item {
            Ok(entry) => {
                seen.lock().unwrap().insert(known(&entry));
            }
            // The former master's last entries may be lost after they were read.
            Err(Error::CursorAhead { .. }) => {}
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
}

/// The entries of the stream on a server.
fn there(server: &RedisServer) -> Option<Known> {
    let entries: Vec<(String, Value)> = server.query(cmd("XRANGE").arg("s").arg("-").arg("+")).ok()?;
    Some(entries.into_iter().map(|(id, _)| ("s".to_owned(), id.parse().unwrap())).collect())
}

#[tokio::test]
async fn a_fail_over_loses_no_replicated_entry() {
    let sentinels = Sentinels::start().await.unwrap();
    let client = Client::open(&sentinels.url()).unwrap();
    let reader = Reader::builder(&client).stream("s", Start::Oldest).open().await.unwrap();
    let sink =
        Sink::builder(&client, "g").stream("s").ack_grace(Duration::from_secs(1)).open().await.unwrap();
    let seen = [Arc::<Mutex<Known>>::default(), Arc::default()];
    let tasks = [tokio::spawn(note(reader, seen[0].clone())), tokio::spawn(note(sink, seen[1].clone()))];
    let all_seen = |wanted: &Known| seen.iter().all(|seen| wanted.is_subset(&seen.lock().unwrap()));
    for round in 0..3 {
        match round {
            0 => {}
            1 => drop(sentinels.fail_over().await.unwrap()),
            _ => {
                sentinels.await_replica().await.unwrap();
                sentinels.kill_master().await.unwrap();
            }
        }
        // Entries that only the former master had are lost with it: only the present master's entries must be seen.
        let marker = eventually(SOON, "an entry on the master", async || {
            let marker = add_soon(&client).await;
            let there = there(sentinels.master().await.unwrap())?;
            marker.is_subset(&there).then_some(marker)
        })
        .await;
        eventually(SOON, "it to be seen", async || all_seen(&marker)).await;
        if round < 2 {
            let replicated = async || {
                let there = there(sentinels.replica().await.unwrap())?;
                marker.is_subset(&there).then_some(())
            };
            eventually(SOON, "the replica to have it", replicated).await;
        }
    }
    let there = there(sentinels.master().await.unwrap()).unwrap();
    eventually(SOON, "all to be seen", async || all_seen(&there)).await;
    assert!(!there.is_empty() && tasks.iter().all(|task| !task.is_finished()));
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn reading_continues_after_a_cluster_node_dies() {
    let cluster = Cluster::builder().replicas(1).start().await.unwrap();
    let client = Client::open(&cluster.url()).unwrap();
    let mut reader = Reader::builder(&client).stream("s", Start::Oldest).open().await.unwrap();
    let mut sink = Sink::builder(&client, "g").stream("s").open().await.unwrap();
    let first = add_soon(&client).await;
    collect(&mut reader, &first).await;
    collect(&mut sink, &first).await;
    let slot = cluster.slot("s").unwrap();
    let owner = cluster.owner(slot).await.unwrap();
    cluster.node(owner).kill().unwrap();
    cluster.await_new_owner(slot, owner).await.unwrap();
    let later = add_soon(&client).await;
    collect(&mut reader, &later).await;
    collect(&mut sink, &later).await;
}

#[tokio::test]
async fn a_slot_that_moves_is_followed() {
    let cluster = Cluster::start().await.unwrap();
    let client = Client::open(&cluster.url()).unwrap();
    let mut reader = Reader::builder(&client).stream("s", Start::Oldest).open().await.unwrap();
    let sink = Sink::builder(&client, "g").stream("s").ack_grace(LONG);
    let mut sink = sink.open().await.unwrap();
    let slot = cluster.slot("s").unwrap();
    for round in 0..3 {
        let new = add_soon(&client).await;
        collect(&mut reader, &new).await;
        collect(&mut sink, &new).await;
        let to = (cluster.owner(slot).await.unwrap() + 1) % cluster.size();
        cluster.migrate_slot(slot, to).await.unwrap();
        let new = add_soon(&client).await;
        collect(&mut reader, &new).await;
        collect(&mut sink, &new).await;
        let entries = stream(&client, "s").range(EntryId::MIN, EntryId::MAX, 10).await.unwrap();
        assert_eq!(entries.len(), 2, "{round}");
        eventually(SOON, "an ack", async || sink.ack_and_remove(&entries).await).await;
    }
}
