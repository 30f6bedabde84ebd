//! The metrics of a node, through the `metrics` facade. Keys of jobs and names of groups are never labels.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label, Unit};

use crate::model::id::{NodeName, QueueName, SetName};
use crate::store::{AddReply, SettleReply};

/// The ends of executions, as the label `outcome` has them.
const OUTCOMES: [&str; 7] = ["done", "failed", "cancelled", "again", "moved", "waits", "halted"];

fn outcome(reply: SettleReply) -> Option<usize> {
    Some(match reply {
        SettleReply::Ended => 0,
        SettleReply::Failed => 1,
        SettleReply::Cancelled => 2,
        SettleReply::Pending | SettleReply::Delayed => 3,
        SettleReply::Moved => 4,
        SettleReply::Waits => 5,
        SettleReply::Halt => 6,
        // It is not the end.
        _ => return None,
    })
}

/// The metrics of one queue.
struct OfQueue {
    added: Counter,
    begun: Counter,
    ended: [Counter; OUTCOMES.len()],
    run: Histogram,
}

/// One node's metrics.
pub(crate) struct Metrics {
    own: [Label; 2],
    queues: Mutex<BTreeMap<QueueName, Arc<OfQueue>>>,
    running: Gauge,
    lost: Counter,
    promoted: Counter,
    losses: Counter,
}

impl Metrics {
    /// This node's metrics in the recorder that is installed now.
    pub(crate) fn new(set: &SetName, node: &NodeName) -> Self {
        describe();
        let own = [Label::new("set", set.to_string()), Label::new("node", node.to_string())];
        let labels = own.to_vec();
        Self {
            running: metrics::gauge!("tenure_jobs_running", labels.clone()),
            lost: metrics::counter!("tenure_jobs_lost_leases_total", labels.clone()),
            promoted: metrics::counter!("tenure_jobs_promoted_total", labels.clone()),
            losses: metrics::counter!("tenure_jobs_data_losses_total", labels),
            queues: Mutex::default(),
            own,
        }
    }

    fn of(&self, queue: &QueueName) -> Arc<OfQueue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = queues.get(queue) {
            return known.clone();
        }
        let mut labels = self.own.to_vec();
        labels.push(Label::new("queue", queue.to_string()));
        let ended = OUTCOMES.map(|outcome| {
            let mut labels = labels.clone();
            labels.push(Label::new("outcome", outcome));
            metrics::counter!("tenure_jobs_ended_total", labels)
        });
        let of = Arc::new(OfQueue {
            added: metrics::counter!("tenure_jobs_added_total", labels.clone()),
            begun: metrics::counter!("tenure_jobs_begun_total", labels.clone()),
            ended,
            run: metrics::histogram!("tenure_jobs_run_seconds", labels),
        });
        queues.insert(queue.clone(), of.clone());
        of
    }

    pub(crate) fn added<'a>(&self, jobs: impl Iterator<Item = (&'a QueueName, AddReply)>) {
        let mut last: Option<(&QueueName, u64)> = None;
        let count = |queue: &QueueName, jobs: u64| self.of(queue).added.increment(jobs);
        for (queue, reply) in jobs {
            if !matches!(reply, AddReply::Added | AddReply::Anew) {
                continue;
            }
            match &mut last {
                Some((known, jobs)) if *known == queue => *jobs += 1,
                _ => {
                    if let Some((known, jobs)) = last.replace((queue, 1)) {
                        count(known, jobs);
                    }
                }
            }
        }
        if let Some((queue, jobs)) = last {
            count(queue, jobs);
        }
    }

    pub(crate) fn begins(&self, queue: &QueueName) {
        self.of(queue).begun.increment(1);
        self.running.increment(1.0);
    }

    /// A slot is free again.
    pub(crate) fn leaves(&self) {
        self.running.decrement(1.0);
    }

    pub(crate) fn ends(&self, queue: &QueueName, reply: SettleReply, after: Duration) {
        if let Some(at) = outcome(reply) {
            let of = self.of(queue);
            of.ended[at].increment(1);
            of.run.record(after.as_secs_f64());
        }
    }

    pub(crate) fn ticked(&self, lost: u64, promoted: u64) {
        self.lost.increment(lost);
        self.promoted.increment(promoted);
    }

    pub(crate) fn data_are_lost(&self) {
        self.losses.increment(1);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("own", &self.own).finish_non_exhaustive()
    }
}

fn describe() {
    let counter =
        |name: &'static str, text: &'static str| metrics::describe_counter!(name, Unit::Count, text);
    counter("tenure_jobs_added_total", "jobs that this node has added, or added anew");
    counter("tenure_jobs_begun_total", "executions that have begun on this node");
    counter("tenure_jobs_ended_total", "executions of this node whose end was said");
    counter("tenure_jobs_lost_leases_total", "executions of any node whose lease this node found to be over");
    counter("tenure_jobs_promoted_total", "delayed jobs that this node has made ready");
    counter(
        "tenure_jobs_data_losses_total",
        "losses of data, or of a server, that this node has come through",
    );
    metrics::describe_gauge!("tenure_jobs_running", Unit::Count, "handlers of this node that are there");
    metrics::describe_histogram!(
        "tenure_jobs_run_seconds",
        Unit::Seconds,
        "the time from the begin of an execution to its answered end"
    );
}
