//! The metrics of hosts. docs/observability.md has a table.

use metrics::{Counter, Gauge, Label, Unit};

const RESTARTS: &str = "tenure_host_restarts_total";
const UP: &str = "tenure_host_up";
const SILENCE: &str = "tenure_host_silence_seconds";

/// The metrics of the hosts of a worker. Without a recorder the metrics cost nothing.
#[derive(Clone)]
pub(super) struct Figures {
    pool: String,
    node: String,
    up: Gauge,
    silence: Gauge,
}

impl Figures {
    pub(super) fn new(pool: &str, node: &str, worker: u16) -> Self {
        metrics::describe_counter!(RESTARTS, Unit::Count, "Hosts that have gone, or that did not come.");
        metrics::describe_gauge!(UP, Unit::Count, "1 while the worker has a host.");
        metrics::describe_gauge!(SILENCE, Unit::Seconds, "How long a ping of the host has been unanswered.");
        let labels = || {
            let own = [("pool", pool.to_owned()), ("node", node.to_owned()), ("worker", worker.to_string())];
            own.into_iter().map(|(name, value)| Label::new(name, value)).collect::<Vec<_>>()
        };
        let (up, silence) = (metrics::gauge!(UP, labels()), metrics::gauge!(SILENCE, labels()));
        up.set(0.0);
        Self { pool: pool.to_owned(), node: node.to_owned(), up, silence }
    }

    /// The worker has a host now, or has none.
    pub(super) fn has_host(&self, has: bool) {
        self.up.set(f64::from(u8::from(has)));
    }

    /// A ping has been unanswered for this long.
    pub(super) fn silent_for(&self, seconds: f64) {
        self.silence.set(seconds);
    }

    /// Counts an ended host, by the reason.
    pub(super) fn restart(&self, why: &'static str) {
        let own = [("pool", self.pool.clone()), ("node", self.node.clone())];
        let mut labels: Vec<_> = own.into_iter().map(|(name, value)| Label::new(name, value)).collect();
        labels.push(Label::from_static_parts("why", why));
        let restarts: Counter = metrics::counter!(RESTARTS, labels);
        restarts.increment(1);
    }
}
