//! The counts of a node.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, SharedString, Unit};
use tenure_jobs::{Backoff, Ctx, Fatal, Jobs, MemoryStore, Outcome, Queue};

const MINUTE: Duration = Duration::from_secs(60);

/// Keeps the value of each counter and gauge, and the number of values of each histogram, by name and labels.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Book {
    fn cell(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key
            .labels()
            .filter(|label| !matches!(label.key(), "set" | "node"))
            .map(metrics::Label::value)
            .collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        self.0.lock().unwrap().entry(name.trim().to_owned()).or_default().clone()
    }

    /// The counts that are not zero.
    fn values(&self) -> BTreeMap<String, u64> {
        let book = self.0.lock().unwrap();
        let values = book.iter().map(|(name, cell)| (name.clone(), cell.load(Ordering::SeqCst)));
        values.filter(|(_, value)| *value > 0).collect()
    }
}

struct Cell(Arc<AtomicU64>);

impl GaugeFn for Cell {
    fn increment(&self, by: f64) {
        self.0.fetch_add(by as u64, Ordering::SeqCst);
    }

    fn decrement(&self, by: f64) {
        self.0.fetch_sub(by as u64, Ordering::SeqCst);
    }

    fn set(&self, to: f64) {
        self.0.store(to as u64, Ordering::SeqCst);
    }
}

impl HistogramFn for Cell {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl metrics::Recorder for Book {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Cell(self.cell(key))))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Cell(self.cell(key))))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_counts_what_its_jobs_come_to() {
    let book = Book::default();
    metrics::set_global_recorder(book.clone()).ok().unwrap();
    let store = MemoryStore::new();
    let queue = |name: &str| Queue::new(name).backoff(Backoff::none()).keep(MINUTE);
    let jobs = Jobs::in_memory(store.clone()).queue(queue("q")).queue(queue("next")).join().await.unwrap();
    let worker = jobs.worker_of(["q", "next"], async |ctx: Ctx, act: String| match &*act {
        "fails" => Err(Fatal::new("no").into()),
        "again" if ctx.attempt() == 1 => Err("once more".into()),
        "moves" if *ctx.queue() == "q" => Ok(Outcome::go_on().to("next")),
        _ => Ok(Outcome::done()),
    });
    let worker = worker.start().unwrap();
    for act in ["is done", "fails", "again", "moves"] {
        let id = jobs.add("q", act).await.unwrap().id;
        jobs.wait(&id).await.unwrap();
    }
    let later = jobs.add("q", "is done").delay(Duration::from_millis(50)).await.unwrap().id;
    jobs.wait(&later).await.unwrap();
    jobs.add("q", "is done").id(later.as_str()).await.unwrap();
    worker.close(MINUTE).await.unwrap();
    store.wipe();
    jobs.add("q", "is done").await.unwrap();
    let expected = [
        ("tenure_jobs_added_total q", 6),
        ("tenure_jobs_begun_total next", 1),
        ("tenure_jobs_begun_total q", 6),
        ("tenure_jobs_data_losses_total", 1),
        ("tenure_jobs_ended_total next done", 1),
        ("tenure_jobs_ended_total q again", 1),
        ("tenure_jobs_ended_total q done", 3),
        ("tenure_jobs_ended_total q failed", 1),
        ("tenure_jobs_ended_total q moved", 1),
        ("tenure_jobs_promoted_total", 1),
        ("tenure_jobs_run_seconds next", 1),
        ("tenure_jobs_run_seconds q", 6),
    ];
    assert_eq!(book.values(), expected.map(|(name, value)| (name.to_owned(), value)).into());
}
