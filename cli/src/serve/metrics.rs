//! The figures of the pool for Prometheus. The nodes have their own, so nothing is counted twice.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use tenure_pool::inspect::{MemberState, PoolPhase};

use super::ask::Params;
use super::problem::Problem;
use super::read::{Shared, phase};
use crate::view::fleet::Fleet;

/// The text that Prometheus reads.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Begins a metric.
    fn gauge(&mut self, name: &str, what: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {what}\n# TYPE {name} gauge");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.0, "{name}{{{}}} {value}", labels.join(","));
    }

    /// A metric with one value.
    fn one(&mut self, name: &str, what: &str, pool: &str, value: impl Display) {
        self.gauge(name, what);
        self.value(name, &[("pool", pool)], value);
    }
}

pub(super) async fn metrics(State(app): Shared, uri: Uri) -> Result<Response, Problem> {
    Params::of(&uri, &[])?;
    let (name, mut page, mut queues) = (app.source.pool.pool_name(), Page::default(), Page::default());
    // Together: a silent Redis takes one deadline, and who scrapes waits for that long.
    let (fleet, ()) = tokio::join!(app.source.fleet(), of_queues(&mut queues, &app));
    page.one("tenure_serve_up", "1 if the pool could be read.", name, u8::from(fleet.is_ok()));
    if let Ok(fleet) = fleet {
        of_pool(&mut page, name, &fleet);
    }
    page.0.push_str(&queues.0);
    let streams = super::stream::STREAMS - app.streams.available_permits();
    page.one("tenure_serve_event_streams", "Streams of events that are read.", name, streams);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response())
}

fn of_pool(page: &mut Page, pool: &str, fleet: &Fleet) {
    let figures = &fleet.seen.figures;
    let is_open = phase(&fleet.seen.shards) == PoolPhase::Open;
    page.one("tenure_serve_open", "1 while the pool is open.", pool, u8::from(is_open));
    page.gauge("tenure_serve_jobs", "Jobs, by who has them.");
    let owned = figures.jobs.saturating_sub(figures.waiting + figures.parked);
    for (state, count) in [("owned", owned), ("waiting", figures.waiting), ("parked", figures.parked)] {
        page.value("tenure_serve_jobs", &[("pool", pool), ("state", state)], count);
    }
    page.one(
        "tenure_serve_queued_jobs",
        "Jobs that wait for their first start: never begun, or refused or handed on before it.",
        pool,
        figures.queued,
    );
    let oldest = figures.oldest_queued.unwrap_or_default();
    let what = "The age of the oldest job that waits for its first start.";
    page.one("tenure_serve_oldest_queued_seconds", what, pool, oldest.as_secs_f64());

    let rows = fleet.workers();
    page.gauge("tenure_serve_workers", "Workers, by state.");
    for (word, state) in
        [("up", MemberState::Up), ("standby", MemberState::Standby), ("draining", MemberState::Draining)]
    {
        let count = rows.iter().filter(|row| row.shard == 0 && row.state == state).count();
        page.value("tenure_serve_workers", &[("pool", pool), ("state", word)], count);
    }
    let stuck: u64 = rows.iter().filter_map(|row| row.stuck).sum();
    page.one("tenure_serve_stuck_jobs", "Jobs whose handler does not end.", pool, stuck);
    page.gauge("tenure_serve_worker_jobs", "Jobs of a worker.");
    for of in &figures.workers {
        let (shard, worker) = (of.shard.to_string(), of.worker.to_string());
        let labels = [("pool", pool), ("shard", &shard), ("worker", &worker), ("node", &of.node)];
        page.value("tenure_serve_worker_jobs", &labels, of.jobs);
    }
    // The oldest lease of each node: its workers renew together.
    let mut leases: BTreeMap<&str, Duration> = BTreeMap::new();
    for of in &figures.workers {
        if let Some(renewed) = of.renewed {
            let oldest = leases.entry(&of.node).or_default();
            *oldest = renewed.max(*oldest);
        }
    }
    page.gauge(
        "tenure_serve_lease_age_seconds",
        "How long ago the workers of a node renewed their leases, at most.",
    );
    for (node, age) in leases {
        page.value("tenure_serve_lease_age_seconds", &[("pool", pool), ("node", node)], age.as_secs_f64());
    }
    let up: Vec<_> =
        figures.workers.iter().filter(|of| of.state == MemberState::Up).map(|of| of.jobs).collect();
    let what = "The jobs of the fullest worker, over those of the mean one.";
    page.one("tenure_serve_imbalance_ratio", what, pool, imbalance(&up));
}

#[allow(clippy::cast_precision_loss, reason = "it is a ratio of counts")]
fn imbalance(jobs: &[u64]) -> f64 {
    let (most, all) = (jobs.iter().copied().max().unwrap_or_default(), jobs.iter().sum::<u64>());
    if all == 0 { 1.0 } else { most as f64 * jobs.len() as f64 / all as f64 }
}

async fn of_queues(page: &mut Page, app: &super::App) {
    if app.source.sets().next().is_none() {
        return;
    }
    page.gauge("tenure_serve_queue_jobs", "Jobs of a queue, by state.");
    for set in app.source.sets() {
        // A set that cannot be read has no figures, and the others have.
        let Ok(queues) = app.source.queues(set).await else { continue };
        for queue in queues.as_array().into_iter().flatten() {
            let name = queue["queue"].as_str().unwrap_or_default();
            for state in ["ready", "running", "delayed", "waiting", "dead"] {
                let labels = [("set", set), ("queue", name), ("state", state)];
                page.value("tenure_serve_queue_jobs", &labels, &queue[state]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line() {
        let mut page = Page::default();
        page.value("m", &[("node", "a\"b\\c\nd")], 1);
        assert_eq!(page.0, "m{node=\"a\\\"b\\\\c\\nd\"} 1\n");
    }

    #[test]
    fn the_imbalance_is_that_of_the_fullest() {
        assert!((imbalance(&[30, 10, 20]) - 1.5).abs() < 1e-9);
        assert!((imbalance(&[]) - 1.0).abs() < 1e-9 && (imbalance(&[0, 0]) - 1.0).abs() < 1e-9);
    }
}
