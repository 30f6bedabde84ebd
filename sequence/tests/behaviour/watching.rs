//! Explanations, metrics and log lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use tenure_sequence::{BoxError, Consumer, Delivery, MemoryProgress, Verdict};
use tenure_testing::{Lines, eventually};

use crate::{PATIENCE, Shelf, by_hand, started};

#[tokio::test(start_paused = true)]
async fn a_stuck_head_is_named_with_what_it_holds_up() {
    let shelf = Shelf::with(1..=20);
    let builder = Consumer::builder(shelf, MemoryProgress::new()).name("acme").concurrency(3).look_ahead(9);
    let (consumer, _jobs, finisher) = builder.manual().unwrap();
    assert_eq!(consumer.explain().verdict, Verdict::NotStarted);
    consumer.start().await.unwrap();
    consumer.settled().await;
    assert_eq!(consumer.explain().verdict, Verdict::Full);
    tokio::time::sleep(Duration::from_secs(90)).await;
    for index in 2..=9 {
        finisher.finish(index).await.unwrap();
    }
    let seen = consumer.explain();
    assert_eq!((seen.verdict.clone(), seen.held_up, seen.begun), (Verdict::HeldUp { head: 1 }, 8, 9));
    let expected = "acme: job 1 is not done, and the look-ahead ends here\n  \
                    done up to 0, stored up to 0, begun up to 9\n  \
                    1 run; the head is 1, since 90.0 s, attempt 1, and holds up 8 that are done";
    assert_eq!(seen.to_string(), expected);
    finisher.finish(1).await.unwrap();
    assert_eq!(consumer.explain().progress, 9);
    consumer.shutdown().await.unwrap();
    assert_eq!(consumer.explain().verdict, Verdict::Ended { error: None });
}

/// The metrics of this test, by name and label.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, f64>>>);

struct Used(Seen, String);

impl CounterFn for Used {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value as f64;
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Used {
    fn increment(&self, _: f64) {}

    fn decrement(&self, _: f64) {}

    fn set(&self, value: f64) {
        self.0.0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl Seen {
    fn used(&self, key: &Key) -> Arc<Used> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Used(self.clone(), format!("{} {}", key.name(), labels.join(" "))))
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.used(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.used(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test(start_paused = true)]
async fn the_metrics_of_the_readme_are_counted() {
    let seen = Seen::default();
    let _local = metrics::set_default_local_recorder(&seen);
    let shelf = Shelf::with(1..=5);
    shelf.fail(6, true);
    let builder = Consumer::builder(shelf.clone(), MemoryProgress::new()).name("acme").concurrency(2);
    let builder =
        builder.retry(tenure_sequence::Retry::forever(Duration::from_millis(1), Duration::from_millis(1)));
    let consumer = started(builder, async |delivery: Delivery<u64>| match delivery.index() {
        2 if delivery.attempt() == 1 => Err("once".into()),
        4 => std::future::pending().await,
        _ => Ok::<_, BoxError>(()),
    })
    .await;
    eventually(PATIENCE, "3 to be done", async || consumer.stored() == 3).await;
    shelf.fail(6, false);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let readme = include_str!("../../README.md");
    let all = seen.0.lock().unwrap().clone();
    for name in all.keys().map(|name| name.split(' ').next().unwrap()) {
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in the README");
    }
    let value = |name: &str| all.get(&format!("tenure_sequence_{name}")).copied();
    assert_eq!(value("done_total consumer=acme"), Some(4.0));
    assert_eq!(value("failures_total consumer=acme"), Some(1.0));
    assert_eq!(value("progress consumer=acme"), Some(3.0));
    assert_eq!(value("ahead consumer=acme"), Some(2.0));
    assert_eq!(value("running consumer=acme"), Some(1.0));
    assert!(value("head_age_seconds consumer=acme").unwrap() >= 50.0);
    for outcome in ["found", "missing", "failed"] {
        assert!(value(&format!("looks_total consumer=acme outcome={outcome}")).is_some(), "{outcome}");
    }
    assert!(value("saves_total consumer=acme outcome=saved").unwrap() >= 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_log_names_a_stuck_head_once_and_is_quiet_otherwise() {
    let lines = Lines::default();
    let written = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).finish();
    // While there is only one, other threads without any switch its lines off.
    let _second = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(std::io::sink).finish());
    let _local = tracing::subscriber::set_default(subscriber);
    let builder = Consumer::builder(Shelf::with(1..=3), MemoryProgress::new()).name("acme");
    let (consumer, _jobs, finisher) = by_hand(builder).await;
    consumer.settled().await;
    finisher.finish(1).await.unwrap();
    finisher.finish(3).await.unwrap();
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(lines.all(), Vec::<String>::new());
    tokio::time::sleep(Duration::from_secs(600)).await;
    let all = lines.all();
    assert_eq!(all.len(), 1, "{all:?}");
    for part in
        ["WARN", "does not end", "index=2", "held_up=1", "consumer=\"acme\"", "nothing further is stored"]
    {
        assert!(all[0].contains(part), "{part}: {all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn gauges_move_during_a_stop_and_go_with_the_consumer() {
    let (seen, lines) = (Seen::default(), Lines::default());
    let _recorder = metrics::set_default_local_recorder(&seen);
    let written = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || written.clone()).finish();
    // While there is only one, other threads without any switch its lines off.
    let _second = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(std::io::sink).finish());
    let _local = tracing::subscriber::set_default(subscriber);
    let builder = Consumer::builder(Shelf::with(1..=3), MemoryProgress::new()).name("acme").concurrency(3);
    let (consumer, _jobs, finisher) = by_hand(builder).await;
    consumer.settled().await;
    let mut stop = Box::pin(consumer.stop());
    assert!(futures::FutureExt::now_or_never(&mut stop).is_none());
    finisher.finish(1).await.unwrap();
    finisher.finish(3).await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    let value = |name: &str| seen.0.lock().unwrap()[&format!("tenure_sequence_{name} consumer=acme")];
    assert_eq!((value("progress"), value("ahead"), value("running")), (1.0, 2.0, 1.0));
    assert!(value("head_age_seconds") >= 80.0);
    assert_eq!(lines.all().len(), 1, "the head is stuck: {:?}", lines.all());
    consumer.shutdown().await.unwrap();
    let left = ["progress", "ahead", "running", "head_age_seconds"].map(|name| value(name).to_string());
    assert_eq!(left, ["1", "0", "0", "0"], "only the progress stays");
}
