//! The metrics of a consumer, through the `metrics` facade. Each is registered at the start, with the consumer's name as
//! its only label besides those of a fixed list. The README has the table.

use metrics::{Counter, Gauge, Label};
use tokio::time::Instant;

use crate::consumer::shared::State;

/// The handles of one consumer.
pub(crate) struct Metrics {
    pub(crate) done: Counter,
    pub(crate) failures: Counter,
    pub(crate) saves: [Counter; 2],
    pub(crate) looks: [Counter; 3],
    progress: Gauge,
    ahead: Gauge,
    running: Gauge,
    head_age: Gauge,
}

impl Metrics {
    pub(crate) fn register(name: &str) -> Self {
        let labels = || vec![Label::new("consumer", name.to_owned())];
        let with = |outcome: &'static str| [labels(), vec![Label::new("outcome", outcome)]].concat();
        Self {
            done: metrics::counter!("tenure_sequence_done_total", labels()),
            failures: metrics::counter!("tenure_sequence_failures_total", labels()),
            saves: ["saved", "failed"]
                .map(|outcome| metrics::counter!("tenure_sequence_saves_total", with(outcome))),
            looks: ["found", "missing", "failed"]
                .map(|outcome| metrics::counter!("tenure_sequence_looks_total", with(outcome))),
            progress: metrics::gauge!("tenure_sequence_progress", labels()),
            ahead: metrics::gauge!("tenure_sequence_ahead", labels()),
            running: metrics::gauge!("tenure_sequence_running", labels()),
            head_age: metrics::gauge!("tenure_sequence_head_age_seconds", labels()),
        }
    }

    /// Shows the state as it is.
    pub(crate) fn show(&self, state: &State, now: Instant) {
        let core = &state.core;
        self.progress.set(core.stored() as f64);
        self.ahead.set((core.begun() - core.progress()) as f64);
        self.running.set(core.running_count() as f64);
        let age = core.running().next().map_or(0.0, |(_, run)| (now - run.begun).as_secs_f64());
        self.head_age.set(age);
    }

    /// The consumer has ended. Only its progress stays.
    pub(crate) fn leave(&self, state: &State) {
        self.progress.set(state.core.stored() as f64);
        for gauge in [&self.ahead, &self.running, &self.head_age] {
            gauge.set(0.0);
        }
    }
}
