#![allow(clippy::unwrap_used)]

use super::*;
use crate::core::input::Input;
use crate::model::id::{Incarnation, JobKey, NodeName, WorkerId};
use crate::model::why::Cause;
use crate::store::{Bootstrap, EntryId, MemoryStore, ReadHistory, ReadIdentity, Seen, Store};

fn keeping(history_max: u64) -> Settings {
    Settings { history_max, ..Settings::default() }
}

fn chronicle() -> Chronicle {
    let mut chronicle = Chronicle::new(NodeName::new("n").unwrap(), 7, &keeping(100));
    chronicle.live_in(Incarnation(1));
    chronicle
}

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn key(n: usize) -> JobKey {
    JobKey::try_from(format!("k{n}")).unwrap()
}

fn moved(n: usize, worker: u64) -> News {
    let news = News::of_job(EventKind::Moved, key(n)).at(WorkerId(worker));
    News { why: Some(Cause::Drained), ..news }
}

fn failed(n: usize) -> News {
    News::of_job(EventKind::Failed, key(n)).saying("no route")
}

#[test]
fn jobs_that_move_alike_are_told_together() {
    let mut chronicle = chronicle();
    for n in 0..10_000 {
        chronicle.add(at(1), moved(n, 1 + n as u64 % 3));
    }
    assert_eq!(chronicle.waiting.len(), 3);
    let (_, first) = &chronicle.waiting[0];
    assert_eq!((first.count, first.keys.len()), (3_334, KEYS_MAX));
    assert_eq!(chronicle.bytes, chronicle.waiting.iter().map(|(_, news)| news.size()).sum::<usize>());
    chronicle.add(at(1), failed(1));
    chronicle.add(at(1), failed(1));
    assert_eq!(chronicle.waiting.len(), 5, "each failure has its error");
}

#[test]
fn a_full_queue_forgets_the_oldest_and_counts() {
    let mut chronicle = chronicle();
    for n in 0..WAITING_MAX + 3 {
        chronicle.add(at(1), failed(n));
    }
    assert_eq!((chronicle.waiting.len(), chronicle.dropped), (WAITING_MAX, 3));
    assert_eq!(chronicle.waiting[0].1.keys, [key(3)]);
}

fn started(n: usize) -> Input {
    let (worker, token) = (WorkerId(1), crate::model::id::Token(2));
    Input::Handler { worker, key: key(n), token, event: crate::core::input::HandlerEvent::Started }
}

#[test]
fn starts_are_told_where_the_pool_wants_all_to_be_told() {
    let mut chronicle = chronicle();
    chronicle.hear(at(1), &started(1));
    assert_eq!(chronicle.waiting.len(), 0);
    chronicle.go_by(&Settings { history_all: true, ..keeping(100) });
    chronicle.hear(at(1), &started(1));
    let (_, news) = &chronicle.waiting[0];
    assert_eq!((news.kind, &*news.keys, news.worker), (EventKind::Started, &[key(1)][..], Some(WorkerId(1))));
}

#[test]
fn a_flood_of_starts_is_counted_and_leaves_room_for_failures() {
    let mut chronicle = chronicle();
    chronicle.go_by(&Settings { history_all: true, ..keeping(100) });
    chronicle.add(at(1), failed(0));
    for n in 0..100_000 {
        chronicle.hear(at(n as u64 / 10), &started(n));
    }
    assert_eq!((chronicle.waiting.len(), chronicle.dropped), (ORDINARY_MAX, 100_001 - ORDINARY_MAX as u64));
    chronicle.add(at(1), failed(1));
    let kinds = [chronicle.waiting.front(), chronicle.waiting.back()].map(|news| news.unwrap().1.kind);
    assert_eq!(kinds, [EventKind::Failed; 2], "no start takes the place of a failure");
}

#[test]
fn a_thousand_starts_a_second_are_told_and_the_others_counted() {
    let mut chronicle = chronicle();
    chronicle.go_by(&Settings { history_all: true, ..keeping(100) });
    for n in 0..1_500 {
        chronicle.hear(at(0), &started(n));
    }
    assert_eq!((chronicle.waiting.len(), chronicle.dropped), (1_000, 500));
    chronicle.hear(at(999), &started(1_500));
    chronicle.hear(at(1_000), &started(1_501));
    assert_eq!((chronicle.waiting.len(), chronicle.dropped), (1_001, 501));
}

#[test]
fn a_batch_is_due_when_it_is_full_or_old() {
    let mut chronicle = chronicle();
    assert_eq!(chronicle.due, None);
    chronicle.add(at(10), failed(0));
    assert_eq!(chronicle.due, Some(at(210)));
    for n in 1..BATCH {
        chronicle.add(at(20), failed(n));
    }
    assert_eq!(chronicle.due, Some(at(20)), "so many");
    let mut chronicle = self::chronicle();
    let long = "x".repeat(1_000);
    for n in 0..40 {
        chronicle.add(at(20), failed(n).saying(&long));
    }
    assert_eq!(chronicle.due, Some(at(20)), "so many bytes");
}

#[test]
fn a_history_that_keeps_nothing_costs_nothing() {
    let mut chronicle = Chronicle::new(NodeName::new("n").unwrap(), 7, &keeping(0));
    chronicle.add(at(1), failed(0));
    assert_eq!((chronicle.waiting.len(), chronicle.due), (0, None));
    let mut chronicle = self::chronicle();
    chronicle.add(at(1), failed(0));
    chronicle.go_by(&keeping(0));
    assert_eq!((chronicle.waiting.len(), chronicle.due), (0, None));
}

/// A store with a pool, and a chronicle of a node in it.
async fn pool() -> (Store, MemoryStore, Chronicle) {
    let memory = MemoryStore::new();
    let store: Store = memory.clone().into();
    let run_id = store.read(&ReadIdentity).await.unwrap().run_id;
    let found = Bootstrap { seen: Seen::default(), run_id: run_id.clone(), settings: Box::default() };
    let made = store.read(&found).await.unwrap();
    store.bless(&run_id);
    let mut chronicle = chronicle();
    chronicle.live_in(made.incarnation);
    (store, memory, chronicle)
}

async fn entries(store: &Store) -> Vec<Entry> {
    let page = store.read(&ReadHistory { after: EntryId::default(), limit: 100 }).await.unwrap();
    page.entries.iter().map(|(_, bytes)| Entry::decode(bytes).unwrap()).collect()
}

#[tokio::test]
async fn what_waits_is_written_at_the_end() {
    let (store, _, mut chronicle) = pool().await;
    for n in 0..=BATCH {
        chronicle.add(clock::now(), failed(n));
    }
    chronicle.finish(&store).await;
    let entries = entries(&store).await;
    assert_eq!(
        entries.iter().map(|entry| (entry.n, entry.events.len())).collect::<Vec<_>>(),
        [(1, 64), (2, 1)]
    );
    assert!(entries.iter().all(|entry| (&*entry.node, entry.life) == ("n", 7)));
}

#[tokio::test]
async fn an_entry_that_was_not_written_is_sent_again_under_its_number() {
    let (store, memory, mut chronicle) = pool().await;
    memory.set_available(false);
    let now = clock::now();
    chronicle.add(now, failed(0));
    chronicle.begin(now, &store);
    let answer = chronicle.writing.take().unwrap().await;
    chronicle.written(now, &answer);
    assert_eq!(chronicle.due, Some(now + AGAIN), "after a pause");
    memory.set_available(true);
    chronicle.add(clock::now(), failed(1));
    chronicle.begin(clock::now(), &store);
    let answer = chronicle.writing.take().unwrap().await;
    chronicle.written(clock::now(), &answer);
    let entries = entries(&store).await;
    assert_eq!((entries.len(), entries[0].n, entries[0].events.len()), (1, 1, 1));
    assert!(chronicle.due.is_some(), "the other one is next");
}

#[tokio::test]
async fn what_is_due_begins_at_the_first_poll() {
    let (store, _, mut chronicle) = pool().await;
    chronicle.add(Time(0), failed(0));
    assert!(chronicle.write(&store).now_or_never().is_none());
    assert!(chronicle.writing.is_some() || chronicle.next == 2);
}

#[tokio::test]
async fn a_busy_node_writes_what_is_due() {
    let (store, _, mut chronicle) = pool().await;
    let now = clock::now();
    chronicle.add(now, failed(0));
    chronicle.nudge(now, &store);
    assert!(chronicle.writing.is_none() && chronicle.next == 1, "not yet");
    let due = now + PATIENCE;
    while clock::now() < due {
        tokio::time::sleep(due.since(clock::now())).await;
    }
    while chronicle.next == 1 {
        chronicle.nudge(due, &store);
        tokio::task::yield_now().await;
    }
    assert_eq!(entries(&store).await.len(), 1);
}

#[tokio::test]
async fn an_entry_keeps_its_count_of_what_was_dropped() {
    let (store, memory, mut chronicle) = pool().await;
    let now = clock::now();
    let turn = async |chronicle: &mut Chronicle| {
        chronicle.begin(now, &store);
        let answer = chronicle.writing.take().unwrap().await;
        chronicle.written(now, &answer);
    };
    memory.set_available(false);
    for n in 0..WAITING_MAX + 3 {
        chronicle.add(now, failed(n));
    }
    turn(&mut chronicle).await;
    // While the first batch waits to be sent again, the queue overflows once more.
    for n in 0..BATCH + 5 {
        chronicle.add(now, failed(n));
    }
    memory.set_available(true);
    turn(&mut chronicle).await;
    turn(&mut chronicle).await;
    turn(&mut chronicle).await;
    let counts: Vec<_> = entries(&store).await.iter().map(|entry| (entry.n, entry.dropped)).collect();
    assert_eq!(counts, [(1, 3), (2, 5), (3, 0)]);
}

#[tokio::test]
async fn a_pool_that_has_ended_gets_no_history() {
    let (_, _, mut chronicle) = pool().await;
    let empty: Store = MemoryStore::new().into();
    empty.bless(&empty.read(&ReadIdentity).await.unwrap().run_id);
    chronicle.add(clock::now(), failed(0));
    chronicle.finish(&empty).await;
    assert_eq!((chronicle.batch.len(), chronicle.due), (0, None));
}
