//! Every documented metric is emitted with its labels, and no other metric is. Spans have their documented fields.
//! All tests share one process, because it has one recorder and one subscriber.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tenure_pool::job::{NewPayload, NotYet, TraceContext};
use tenure_pool::{
    BoxError, Job, JobEnd, JobHandler, MemoryStore, Node, NodeBuilder, Plan, Start, StopReason, Tick,
};
use tenure_testing::eventually;
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

const PATIENCE: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(50);
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The metrics that were emitted: by name, the kind and the names of the labels; and the values of counters by all
/// labels.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, (String, u64)>>>, Arc<Mutex<BTreeMap<String, f64>>>);

/// One metric. It is noted on its use, not on its registration.
struct Used {
    seen: Seen,
    name: String,
    kind: String,
    /// Its name with that of the node.
    of_node: String,
}

impl Used {
    fn of(seen: &Seen, kind: &str, key: &Key) -> Arc<Self> {
        let labels: Vec<_> = key.labels().map(|label| label.key().to_owned()).collect();
        let own: Vec<_> = key.labels().map(|label| label.value().to_owned()).skip(2).collect();
        let name = own.iter().fold(key.name().to_owned(), |name, value| format!("{name}/{value}"));
        let node = key.labels().find(|label| label.key() == "node").unwrap().value();
        let of_node = format!("{} of {node}", key.name());
        Arc::new(Self { seen: seen.clone(), name, kind: format!("{kind} {}", labels.join(",")), of_node })
    }

    fn note(&self, by: u64) {
        let mut seen = self.seen.0.lock().unwrap();
        seen.entry(self.name.clone()).or_insert_with(|| (self.kind.clone(), 0)).1 += by;
    }
}

impl CounterFn for Used {
    fn increment(&self, value: u64) {
        self.note(value);
    }
    fn absolute(&self, value: u64) {
        self.note(value);
    }
}

impl GaugeFn for Used {
    fn increment(&self, _: f64) {
        self.note(1);
    }
    fn decrement(&self, _: f64) {
        self.note(1);
    }
    fn set(&self, value: f64) {
        self.note(1);
        self.seen.1.lock().unwrap().insert(self.of_node.clone(), value);
    }
}

impl HistogramFn for Used {
    fn record(&self, value: f64) {
        assert!((0.0..3600.0).contains(&value));
        self.note(1);
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Used::of(self, "counter", key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Used::of(self, "gauge", key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Used::of(self, "histogram", key))
    }
}

impl Seen {
    fn count(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).map_or(0, |(_, count)| *count)
    }

    /// Waits until this node's gauge has such a value.
    async fn shows(&self, name: &str, node: &str, wanted: impl Fn(f64) -> bool) {
        let name = format!("tenure_pool_{name} of {node}");
        eventually(PATIENCE, &format!("{name} to have the value"), async || {
            let value = self.1.lock().unwrap().get(&name).copied();
            if value.is_some_and(&wanted) { Ok(()) } else { Err(value) }
        })
        .await;
    }

    async fn counts(&self, name: &str) {
        eventually(PATIENCE, &format!("{name} to count"), async || self.count(name) > 0).await;
    }
}

/// Every span as a line: its parents' names, its own, its fields.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeSet<String>>>, Arc<Mutex<BTreeSet<u64>>>);

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        struct Fields(String);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                write!(self.0, " {}={value:?}", field.name()).unwrap();
            }
        }
        let mut fields = Fields(String::new());
        attributes.record(&mut fields);
        let scope =
            context.span_scope(id).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root);
        let path: Vec<_> = scope.map(|span| span.name()).collect();
        self.0.lock().unwrap().insert(format!("{}{}", path.join("/"), fields.0));
        // Ids are used again.
        self.1.lock().unwrap().remove(&id.into_u64());
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        self.1.lock().unwrap().insert(id.into_u64());
    }
}

impl Spans {
    /// The hook of a node for the spans of its jobs.
    fn hook(&self) -> impl Fn(&tracing::Span, &TraceContext) + Send + Sync + use<> {
        let spans = self.clone();
        move |span, trace| {
            let entered = spans.1.lock().unwrap().contains(&span.id().unwrap().into_u64());
            let name = span.metadata().unwrap().name();
            spans.0.lock().unwrap().insert(format!("hook {name} entered={entered} {}", trace.traceparent()));
        }
    }

    fn has(&self, parts: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|line| parts.iter().all(|part| line.contains(part)))
    }
}

/// Does with a job what its key says.
struct ByKey;

impl JobHandler for ByKey {
    async fn start(&self, job: Job) -> Start {
        tracing::info_span!("own").in_scope(|| ());
        match job.key().to_string().as_str() {
            "fails" => Start::Failed("as it was told".into()),
            "refuses" => Start::Refused { backoff: Some(SHORT) },
            "ends-badly" => Start::Running(Box::pin(async { Err("as it was told".into()) })),
            "is-lost" => Start::Failed(JobEnd::Lost("as it was told".into()).into()),
            "hangs" => std::future::pending().await,
            "traced" => {
                assert_eq!(job.trace().map(TraceContext::traceparent), Some(TRACE));
                Start::Started
            }
            _ => Start::Started,
        }
    }

    async fn notify(&self, _: &Job, body: Bytes) -> Result<(), BoxError> {
        if body == "not yet" { Err(NotYet::after(Duration::from_secs(60)).into()) } else { Ok(()) }
    }

    async fn update(&self, _: &Job, _: NewPayload) -> Result<(), BoxError> {
        Ok(())
    }

    async fn stop(&self, job: &Job, _: StopReason) -> Result<(), BoxError> {
        drop(job.checkpoint(vec![0; 65_537]));
        if job.key().as_bytes() == b"stops-badly" { Err("as it was told".into()) } else { Ok(()) }
    }
}

fn builder(store: &MemoryStore, name: &str) -> NodeBuilder {
    let builder =
        Node::builder("observed", store).name(name).assume_fresh(true).worker_ttl(Duration::from_secs(3));
    builder.join_settle(SHORT).stable_after(SHORT).start_timeout(Duration::from_secs(1)).stop_timeout(SHORT)
}

/// The table of the documentation: names, with their kind and labels.
fn documented() -> BTreeMap<String, String> {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `tenure_pool_"));
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        let label = cells[4].split('`').nth(1).map(|label| format!(",{label}")).unwrap_or_default();
        (name, format!("{} pool,node{label}", cells[2]))
    };
    rows.map(row).collect()
}

/// The documented values for the label of a metric. `None` if the documentation describes them in other words.
fn documented_values() -> BTreeMap<String, Option<BTreeSet<String>>> {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `tenure_pool_"));
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let values = cells[4].split_once(": ").map_or("", |(_, values)| values);
        let values: BTreeSet<_> = values.split(", ").map(str::to_owned).collect();
        let is_list = values.iter().all(|value| !value.contains(' '));
        (cells[1].trim_matches('`').to_owned(), is_list.then_some(values))
    };
    rows.map(row).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_metrics_are_emitted_and_spans_name_their_jobs() {
    let (seen, spans) = (Seen::default(), Spans::default());
    metrics::set_global_recorder(seen.clone()).unwrap();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans.clone())).unwrap();

    let store = MemoryStore::new();
    let a = builder(&store, "a").on_job_span(spans.hook()).join().await.unwrap();
    a.add_worker(ByKey).await.unwrap();
    let trace = TraceContext::new(TRACE, "").unwrap();
    a.dispatch(("traced", "")).trace(trace).await.unwrap();
    a.dispatch(("stops-badly", "")).await.unwrap();
    a.notify("traced", "hello").await.unwrap();
    seen.counts("tenure_pool_notifications_total").await;
    a.notify("traced", "not yet").await.unwrap();
    seen.counts("tenure_pool_refused_notifications_total").await;
    a.dispatch(("updated", "")).await.unwrap();
    a.update(("updated", "new")).await.unwrap();
    seen.counts("tenure_pool_taken_updates_total").await;
    a.submit(("is-lost", "")).await.unwrap();
    a.dispatch(("fails", "")).await.unwrap_err();
    a.dispatch(("traced", "")).await.unwrap_err();
    a.submit(("ends-badly", "")).await.unwrap();
    a.submit(("refuses", "")).await.unwrap();
    a.submit(("hangs", "")).await.unwrap();
    a.submit(("stalls", "")).progress_timeout(Duration::from_secs(1)).await.unwrap();
    a.stop_job("stops-badly").await.unwrap();
    let plan = |_: Tick| async { Ok::<_, BoxError>(Plan::new()) };
    a.schedule("plan", plan, SHORT).await.unwrap();
    let _ticker = a.ticker("ticker", SHORT).await.unwrap();
    for counted in [
        "tenure_pool_plans_total/made",
        "tenure_pool_ticks_total",
        "tenure_pool_dispatches_total/ok",
        "tenure_pool_dispatches_total/exists",
        "tenure_pool_dispatches_total/start_failed",
        "tenure_pool_starts_total",
        "tenure_pool_failures_total/start",
        "tenure_pool_failures_total/run",
        "tenure_pool_failures_total/stalled",
        "tenure_pool_failures_total/lost",
        "tenure_pool_failures_total/stop",
        "tenure_pool_unsaved_checkpoints_total/too_long",
        "tenure_pool_releases_total/ended",
        "tenure_pool_releases_total/refused",
        "tenure_pool_routed_total/routed",
        "tenure_pool_stops_total/stopped",
        "tenure_pool_stops_total/stalled",
        "tenure_pool_store_call_seconds/renew",
        "tenure_pool_store_call_seconds/begin",
        "tenure_pool_start_wait_seconds",
        "tenure_pool_swept_total",
    ] {
        seen.counts(counted).await;
    }
    assert_eq!(seen.count("tenure_pool_dispatches_total/exists"), 1);
    a.stop_job("hangs").await.unwrap();
    a.stop_job("refuses").await.unwrap();
    a.stop_job("is-lost").await.unwrap();

    // Another node takes over: jobs move, and a worker leaves.
    for n in 0..40 {
        a.dispatch((format!("moves-{n}"), "")).await.unwrap();
    }
    let b = builder(&store, "b").moves_per_second(700).starts_per_second(800).join().await.unwrap();
    b.add_worker(ByKey).await.unwrap();
    seen.counts("tenure_pool_moves_total").await;
    for (gauge, value) in [("move_pace", 700.0), ("start_pace", 800.0), ("move_rate", 0.0)] {
        seen.shows(gauge, "b", |shown| shown.total_cmp(&value).is_eq()).await;
        seen.shows(gauge, "a", |shown| shown == 0.0).await;
    }
    a.operate().limit_moves(900).await.unwrap();
    for node in ["a", "b"] {
        seen.shows("move_rate", node, |shown| shown.total_cmp(&900.0).is_eq()).await;
    }
    seen.shows("open", "a", |open| open > 0.0).await;
    seen.shows("jobs", "a", |jobs| jobs > 0.0).await;
    seen.shows("lease_age_seconds", "a", |age| age > 0.0).await;
    assert!(a.close().await.unwrap().complete);
    let gauges =
        ["open", "jobs", "workers", "open_dispatches", "queued_jobs", "move_rate", "lease_age_seconds"];
    for gauge in gauges {
        seen.shows(gauge, "a", |value| value == 0.0).await;
    }
    seen.counts("tenure_pool_releases_total/handed_off").await;
    // One vanishes, and the store is away for longer than a lease.
    let c = builder(&store, "c").join().await.unwrap();
    c.add_worker(ByKey).await.unwrap();
    c.abandon();
    seen.counts("tenure_pool_expired_workers_total").await;
    store.new_process();
    seen.counts("tenure_pool_attested_jobs_total/kept").await;
    store.set_available(false);
    seen.counts("tenure_pool_fenced_workers_total").await;
    store.set_available(true);
    seen.counts("tenure_pool_store_errors_total/not_executed").await;

    let emitted: BTreeMap<_, _> = {
        let seen = seen.0.lock().unwrap();
        let base = |name: &String| name.split('/').next().unwrap().to_owned();
        seen.iter().map(|(name, (kind, _))| (base(name), kind.clone())).collect()
    };
    assert_eq!(emitted, documented());
    let values = documented_values();
    assert!(values["tenure_pool_dispatches_total"].as_ref().is_some_and(|values| values.contains("ok")));
    for name in seen.0.lock().unwrap().keys() {
        if let Some((base, value)) = name.split_once('/')
            && let Some(values) = &values[base]
        {
            assert!(values.contains(value), "{name} is not documented");
        }
    }

    let job = ["key=traced", "token=", "worker=", "attempt=1", TRACE];
    assert!(spans.has(&job), "{:#?}", spans.0.lock().unwrap());
    let hooked = ["hook job", TRACE];
    assert!(spans.has(&hooked) && !spans.has(&["hook", "entered=true"]), "{:#?}", spans.0.lock().unwrap());
    for path in [
        "dispatch node=",
        "route node=",
        "job/start",
        "job/start/own",
        "job/notify",
        "job/update generation=1",
        "job/stop",
        "job/hand_off",
    ] {
        assert!(spans.has(&[path]), "{path} in {:#?}", spans.0.lock().unwrap());
    }
}
