//! Drains as they go on: how many jobs a worker had when it was first seen to drain, and how many it has left.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure_pool::{Figures, MemberState, WorkerId};

use crate::out::when::as_stamp;

/// For how long a drain is remembered after its end.
const REMEMBERED: Duration = Duration::from_secs(3_600);
/// The most drains that are remembered.
const MOST: usize = 1_024;

/// A drain of one worker.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Drain {
    shard: usize,
    worker: u64,
    node: String,
    /// Its jobs when it was first seen, and now.
    jobs_first: u64,
    jobs_left: u64,
    #[serde(serialize_with = "as_stamp")]
    seen_since: SystemTime,
    #[serde(serialize_with = "as_stamp")]
    seen_last: SystemTime,
    /// At the pace so far. None before a job has gone, and when it is over.
    left_ms: Option<u64>,
    gone: bool,
}

impl Drain {
    fn pace(&mut self) {
        let took = self.seen_last.duration_since(self.seen_since).unwrap_or_default().as_millis();
        let went = u128::from(self.jobs_first.saturating_sub(self.jobs_left));
        let left = (took * u128::from(self.jobs_left)).checked_div(went);
        self.left_ms = left.and_then(|left| u64::try_from(left).ok());
    }
}

/// All drains that were seen.
#[derive(Debug, Default)]
pub(super) struct Drains {
    seen: BTreeMap<(usize, WorkerId), Drain>,
}

impl Drains {
    /// Takes in what the workers have now.
    pub(super) fn see(&mut self, figures: &Figures, now: SystemTime) {
        // Those that are still there are seen anew below.
        for drain in self.seen.values_mut() {
            (drain.gone, drain.jobs_left, drain.left_ms) = (true, 0, None);
        }
        for of in figures.workers.iter().filter(|of| of.state == MemberState::Draining) {
            let drain = self.seen.entry((of.shard, of.worker)).or_insert_with(|| Drain {
                shard: of.shard,
                worker: of.worker.0,
                node: of.node.clone(),
                jobs_first: of.jobs,
                jobs_left: of.jobs,
                seen_since: now,
                seen_last: now,
                left_ms: None,
                gone: false,
            });
            drain.jobs_first = drain.jobs_first.max(of.jobs);
            (drain.jobs_left, drain.seen_last, drain.gone) = (of.jobs, now, false);
            drain.pace();
        }
        self.seen.retain(|_, drain| {
            !drain.gone || now.duration_since(drain.seen_last).is_ok_and(|ago| ago < REMEMBERED)
        });
        while self.seen.len() > MOST {
            self.seen.pop_first();
        }
    }

    /// All of them, the latest first.
    pub(super) fn list(&self) -> Vec<Drain> {
        let mut drains: Vec<_> = self.seen.values().cloned().collect();
        drains.sort_by_key(|drain| (drain.gone, std::cmp::Reverse(drain.seen_since)));
        drains
    }
}
