//! Drains as they go on: how many jobs a worker had when it was first seen to drain, and how many it has left.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure_pool::WorkerId;

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
    /// Takes in which workers drain now, each with its node and its jobs.
    pub(super) fn see<'a>(
        &mut self,
        draining: impl IntoIterator<Item = ((usize, WorkerId), &'a str, u64)>,
        now: SystemTime,
    ) {
        // Those that are still there are seen anew below.
        for drain in self.seen.values_mut() {
            (drain.gone, drain.jobs_left, drain.left_ms) = (true, 0, None);
        }
        for ((shard, worker), node, jobs) in draining {
            let drain = self.seen.entry((shard, worker)).or_insert_with(|| Drain {
                shard,
                worker: worker.0,
                node: node.to_owned(),
                jobs_first: jobs,
                jobs_left: jobs,
                seen_since: now,
                seen_last: now,
                left_ms: None,
                gone: false,
            });
            drain.jobs_first = drain.jobs_first.max(jobs);
            (drain.jobs_left, drain.seen_last, drain.gone) = (jobs, now, false);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(s)
    }

    #[test]
    fn a_drain_is_followed_from_its_first_sight_to_its_end() {
        let (mut drains, worker) = (Drains::default(), (0, WorkerId(7)));
        drains.see([(worker, "n1", 80)], at(100));
        drains.see([(worker, "n1", 60)], at(110));
        let seen = |drains: &Drains| {
            drains.list().pop().map(|of| (of.jobs_first, of.jobs_left, of.left_ms, of.gone))
        };
        assert_eq!(seen(&drains), Some((80, 60, Some(30_000), false)), "2 jobs a second");
        drains.see([], at(112));
        assert_eq!(seen(&drains), Some((80, 0, None, true)));
        drains.see([((1, WorkerId(9)), "n2", 5)], at(3_000));
        assert_eq!(drains.list().iter().map(|of| of.worker).collect::<Vec<_>>(), [9, 7], "the latest first");
        drains.see([], at(3_710));
        assert_eq!(
            drains.list().iter().map(|of| of.worker).collect::<Vec<_>>(),
            [9],
            "an hour after its end"
        );
    }
}
