//! The leases under which a host's jobs run. The host is told of each renewal. A keeper kills it at the end of the first one
//! that ends. One without a keeper is taken to run its jobs until the last time that it was told, and for a margin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tenure_pool::{Job, LeaseGuard, WorkerId};

use super::tether::Tether;
use super::wire::down::Down;

/// A worker of the pool, in its shard: it has one lease while it has this id.
pub(super) type Holder = (usize, WorkerId);

/// The leases of a host's jobs.
#[derive(Debug)]
pub(super) struct Leases {
    tether: Arc<Tether>,
    held: HashMap<Holder, Held>,
    last: u64,
    /// The host is told of no further renewal, and gets no further job.
    is_closed: bool,
    /// A renewal that adds less than this is not told.
    least: Duration,
    /// How long a host may take to end its jobs when a lease is over.
    margin: Duration,
}

#[derive(Debug)]
struct Held {
    number: u64,
    lease: LeaseGuard,
    jobs: usize,
    told_until: u64,
}

/// The time by `CLOCK_MONOTONIC`, in milliseconds.
pub(super) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long jobs may still run whose holders' hosts were told of these ends: those of this holder, or all.
fn left(told: impl Iterator<Item = (Holder, u64)>, of: Option<Holder>, margin: u64, now: u64) -> Duration {
    let told = told.filter(|(holder, _)| of.is_none_or(|of| of == *holder));
    match told.map(|(_, until)| until).max() {
        // A millisecond more, for both times are cut.
        Some(until) => Duration::from_millis((until + margin + 1).saturating_sub(now)),
        None => Duration::ZERO,
    }
}

impl Held {
    /// The message that tells how long the lease lasts. None if it is over, or there is little to tell.
    fn news(&mut self, least: u64) -> Option<Down> {
        // The clock is read first: what comes between makes the time earlier.
        let now = monotonic();
        let left_ms = millis(self.lease.remaining());
        let until_ms = now + left_ms;
        if left_ms == 0 || until_ms < self.told_until + least {
            return None;
        }
        self.told_until = until_ms;
        Some(Down::Lease { lease: self.number, left_ms, until_ms })
    }
}

impl Leases {
    pub(super) fn new(tether: Arc<Tether>, ttl: Duration) -> Self {
        // The margin ends before the pool gives the jobs of a silent worker to others: 0.6 T and 0.2 T are less than T.
        let (least, margin) = (ttl / 20, ttl / 5);
        Self { tether, held: HashMap::new(), last: 0, is_closed: false, least, margin }
    }

    /// From now on the host is told of no renewal, and gets no job.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// How long jobs may still run that nobody ends but the host: those of this holder, or all. It shrinks once this is
    /// closed.
    pub(super) fn left(&self, of: Option<Holder>) -> Duration {
        let told = self.held.iter().map(|(holder, held)| (*holder, held.told_until));
        left(told, of, millis(self.margin), monotonic())
    }

    /// Enters a job that will run under its lease. Returns the lease's number, and a message if the host must hear before
    /// the job how long the lease lasts. None if the lease is over, or the host cannot be bound to it.
    pub(super) fn enter(&mut self, holder: Holder, job: &Job) -> Option<(u64, Option<Down>)> {
        if self.is_closed {
            return None;
        }
        let least = millis(self.least);
        if let Some(held) = self.held.get_mut(&holder) {
            held.jobs += 1;
            return Some((held.number, held.news(least)));
        }
        let (number, lease) = (self.last + 1, job.lease().clone());
        // A keeper must know of the lease before the host knows of the job.
        if !self.tether.bind(number, &lease) {
            return None;
        }
        self.last = number;
        let mut held = Held { number, lease, jobs: 1, told_until: 0 };
        let Some(news) = held.news(0) else {
            self.tether.loosen(number);
            return None;
        };
        self.held.insert(holder, held);
        Some((number, Some(news)))
    }

    /// A job under this lease has ended, or was given up. Once this is closed the host may run on what was given up, so the
    /// end that it was told still counts.
    pub(super) fn leave(&mut self, holder: Holder) {
        let Some(held) = self.held.get_mut(&holder) else { return };
        held.jobs = held.jobs.saturating_sub(1);
        if held.jobs == 0 {
            self.tether.loosen(held.number);
            if !self.is_closed {
                self.held.remove(&holder);
            }
        }
    }

    /// The messages about renewals.
    pub(super) fn news(&mut self) -> Vec<Down> {
        if self.is_closed {
            return Vec::new();
        }
        let least = millis(self.least);
        self.held.values_mut().filter_map(|held| held.news(least)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tenure_pool::{MemoryStore, Node};
    use tokio::sync::mpsc;

    use super::*;

    /// A job that runs, and its node.
    async fn running() -> (Node, Job) {
        let node = Node::builder("leases", MemoryStore::new()).assume_fresh(true).join().await.unwrap();
        let (begins, mut begun) = mpsc::unbounded_channel();
        let handler = tenure_pool::run(move |job: Job| {
            let begins = begins.clone();
            async move {
                let _ = begins.send(job.clone());
                job.cancelled().await;
                Ok(())
            }
        });
        node.add_worker(handler).await.unwrap();
        node.submit(("key", "")).await.unwrap();
        (node, begun.recv().await.unwrap())
    }

    #[tokio::test]
    async fn a_job_that_was_given_up_may_run_until_the_told_end() {
        let (node, job) = running().await;
        let holder: Holder = (0, job.worker());
        for given_up in [false, true] {
            let mut leases = Leases::new(Arc::new(Tether::Told), Duration::from_secs(60));
            assert!(leases.enter(holder, &job).is_some());
            if given_up {
                leases.close();
            }
            assert!(!leases.left(None).is_zero());
            leases.leave(holder);
            for of in [None, Some(holder)] {
                assert_eq!(!leases.left(of).is_zero(), given_up, "of {of:?}");
            }
        }
        node.close().await.unwrap();
    }

    #[test]
    fn jobs_may_run_until_the_last_told_end_and_a_margin() {
        let (one, other): (Holder, Holder) = ((0, WorkerId(1)), (1, WorkerId(1)));
        let told = || [(one, 1_000), (other, 1_500)].into_iter();
        let of = |of, now| left(told(), of, 400, now).as_millis();
        assert_eq!(of(Some(one), 900), 501, "the lease of another holder does not count");
        assert_eq!(of(Some(other), 900), 1_001);
        assert_eq!(of(None, 900), 1_001, "the last of all");
        assert_eq!(of(Some(one), 1_401), 0);
        assert_eq!(of(None, u64::MAX), 0);
        assert_eq!(of(Some((2, WorkerId(9))), 0), 0, "it has no job");
    }
}
