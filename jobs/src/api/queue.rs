//! A queue as its users describe it.

use std::time::Duration;

use crate::error::Error;
use crate::model::backoff::Backoff;
use crate::model::id::QueueName;
use crate::model::queue::{Settings, Terms};

/// The shortest lease: nodes must have the time to renew it.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);
/// The shortest lease of jobs that are taken by hand: no node renews it.
const SHORTEST_BY_HAND: Duration = Duration::from_secs(1);
/// The longest time of a setting: a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The groups of a queue: they take turns, so that a big tenant does not hold up small ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    limit: u32,
    window: Duration,
    concurrency: u32,
}

impl Groups {
    /// Groups without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most jobs of a group that begin in each window of this length. Windows begin at multiples of their length
    /// since the Unix epoch.
    #[must_use]
    pub fn limit(mut self, jobs: u32, window: Duration) -> Self {
        (self.limit, self.window) = (jobs, window);
        self
    }

    /// The most jobs of a group that run at once. With one, the jobs of a group run strictly in order.
    #[must_use]
    pub fn concurrency(mut self, jobs: u32) -> Self {
        self.concurrency = jobs;
        self
    }
}

/// The settings of a queue. The last node that joins with a `Queue` declares all settings for all nodes. The store
/// keeps the settings, and gives them to the workers of the queue with every job. Whether a queue has groups is decided
/// once.
///
/// Producers and other workers need no settings. A node names a queue with
/// [`JobsBuilder::queues`](crate::JobsBuilder::queues), or not at all.
#[derive(Clone, Debug)]
pub struct Queue {
    pub(crate) name: String,
    settings: Settings,
    lease: Option<Duration>,
    times: [(&'static str, Duration); 3],
    by_hand: bool,
    backoff: Backoff,
    timeout: Option<Duration>,
    activity: Option<Duration>,
    next: Option<String>,
    keep: Option<Duration>,
}

impl Queue {
    /// A queue with the defaults: a lease of 30 s, 25 attempts, dead letters kept for 7 days.
    pub fn new(name: impl Into<String>) -> Self {
        let times = ["step", "window of the queue", "window of groups"].map(|what| (what, Duration::ZERO));
        Self {
            name: name.into(),
            settings: Settings::default(),
            lease: None,
            times,
            by_hand: false,
            backoff: Backoff::default(),
            timeout: None,
            activity: None,
            next: None,
            keep: None,
        }
    }

    /// The time without a word after which an execution is lost and the job runs again. At least 3 s.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Its jobs are taken by hand alone, with [`QueueHandle::accept`](crate::QueueHandle::accept): a lease has at least
    /// 1 s then, since it is renewed by whoever took the job.
    #[must_use]
    pub fn by_hand(mut self) -> Self {
        self.by_hand = true;
        self
    }

    /// The most attempts of a job, those included whose node crashed; 0: any number.
    #[must_use]
    pub fn attempts(mut self, most: u32) -> Self {
        self.settings.max = most;
        self
    }

    /// The pauses between attempts: after an error, a panic, an execution that took too long, and missing heartbeats. A lost
    /// lease has taken its time already, so the job runs again at once.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// The whole time of an execution, at least 1 ms. Then the handler is cancelled, and aborted half a second later;
    /// the attempt has failed.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A handler has to call [`Ctx::heartbeat`](crate::Ctx::heartbeat) at least so often. One that does not has failed.
    /// Without this, an execution lives as long as its handler's future.
    #[must_use]
    pub fn heartbeat(mut self, within: Duration) -> Self {
        self.activity = Some(within);
        self
    }

    /// The most jobs that are ready or delayed; 0: any number. An add and a replay that would go over it are refused with
    /// [`Error::Full`]. A job that was accepted is never lost for it: one that moves on to this queue, is tried again, is
    /// given back or is resumed goes over it.
    #[must_use]
    pub fn capacity(mut self, jobs: u32) -> Self {
        self.settings.capacity = jobs;
        self
    }

    /// The most jobs that run at once on all nodes; 0: any number.
    #[must_use]
    pub fn concurrency(mut self, jobs: u32) -> Self {
        self.settings.concurrency = jobs;
        self
    }

    /// The most jobs that begin in each window of this length.
    #[must_use]
    pub fn limit(mut self, jobs: u32, window: Duration) -> Self {
        self.settings.limit = jobs;
        self.times[1].1 = window;
        self
    }

    /// Its jobs have groups that take turns.
    #[must_use]
    pub fn groups(mut self, groups: Groups) -> Self {
        self.settings.grouped = true;
        self.settings.group_limit = groups.limit;
        self.settings.group_concurrency = groups.concurrency;
        self.times[2].1 = groups.window;
        self
    }

    /// Its jobs have groups, and only the owner of a group takes its jobs: one at a time and in order. With the feature
    /// `pool` the owner is the worker that has the pool's key of that name. Each job needs a group. Limits are those of
    /// its groups, not its own.
    ///
    /// A job that waits for its next attempt is overtaken. So give such a queue [`Backoff::none`], or let the handler
    /// hold up its whole group with [`Outcome::limited_until`](crate::Outcome::limited_until).
    #[must_use]
    pub fn pinned(self, groups: Groups) -> Self {
        let mut queue = self.groups(groups.concurrency(1));
        queue.settings.pinned = true;
        queue
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.settings.pinned
    }

    /// The head start of a job for each step of its priority: one of priority 2 goes before those of priority 0 that
    /// came up to two of these times earlier. So nobody starves. 60 s by default.
    #[must_use]
    pub fn head_start(mut self, step: Duration) -> Self {
        self.times[0].1 = step;
        self
    }

    /// A higher priority always goes first; the lowest may starve.
    #[must_use]
    pub fn strict_priorities(self) -> Self {
        // Three years for each step.
        self.head_start(Duration::from_secs(100_000_000))
    }

    /// The queue that jobs go on to, if neither the handler nor the job's flow names another one.
    #[must_use]
    pub fn next(mut self, queue: impl Into<String>) -> Self {
        self.next = Some(queue.into());
        self
    }

    /// How long dead letters and cancelled jobs are kept. Zero: not at all; 7 days by default.
    #[must_use]
    pub fn keep_failed(mut self, time: Duration) -> Self {
        self.settings.keep_failed = kept(time);
        self
    }

    /// How long the store keeps a job that has succeeded, unless the add has set a time. Not at all by default. The
    /// time holds for later adds of all nodes.
    #[must_use]
    pub fn keep(mut self, time: Duration) -> Self {
        self.keep = Some(time);
        self
    }

    pub(crate) fn checked(&self) -> Result<(QueueName, Settings), Error> {
        let name = QueueName::new(&self.name)?;
        let mut settings = self.settings.clone();
        if self.times.iter().map(|(_, time)| *time).chain(self.lease).any(|time| time > LONGEST) {
            return Err(Error::Setting("a time of more than a hundred years is none"));
        }
        let [step, window, group_window] = self.times.map(|(_, time)| time);
        let (shortest, refusal) = if self.by_hand {
            (SHORTEST_BY_HAND, "a lease by hand has at least 1 s")
        } else {
            (SHORTEST_LEASE, "a lease has at least 3 s")
        };
        if self.lease.is_some_and(|lease| lease < shortest) {
            return Err(Error::Setting(refusal));
        }
        let windows = [(settings.limit, window), (settings.group_limit, group_window)];
        if windows.iter().any(|(limit, window)| *limit > 0 && window.as_millis() == 0) {
            return Err(Error::Setting("a limit needs a window of at least 1 ms"));
        }
        let of_all = settings.concurrency > 0 || settings.limit > 0;
        if settings.pinned && (of_all || !settings.grouped || settings.group_concurrency != 1) {
            return Err(Error::Setting(
                "a pinned queue has limits for its groups alone, which run one job at a time",
            ));
        }
        if [self.timeout, self.activity].into_iter().flatten().any(|time| time.as_millis() == 0) {
            return Err(Error::Setting("an execution needs some time"));
        }
        let capped = |time: Duration| Duration::from_millis(millis(time));
        let (first, longest) = self.backoff.bounds();
        settings.terms = Terms {
            timeout: self.timeout.map(capped),
            heartbeat: self.activity.map(capped),
            backoff: Backoff::new(capped(first), capped(longest)),
            next: self.next.as_ref().map(QueueName::new).transpose()?,
        };
        settings.keep = self.keep.map_or(0, kept);
        if let Some(lease) = self.lease {
            settings.lease = millis(lease);
        }
        if !step.is_zero() {
            settings.step = millis(step);
        }
        (settings.window, settings.group_window) = (millis(window), millis(group_window));
        Ok((name, settings))
    }
}

/// How long something is kept, ms.
pub(crate) fn kept(time: Duration) -> i64 {
    i64::try_from(millis(time)).unwrap_or(i64::MAX)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.min(LONGEST).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let second = Duration::from_secs(1);
        for queue in [
            Queue::new("a b"),
            Queue::new("a").lease(second),
            Queue::new("a").lease(Duration::ZERO),
            Queue::new("a").lease(Duration::MAX),
            Queue::new("a").by_hand().lease(second / 2),
            Queue::new("a").limit(5, Duration::ZERO),
            Queue::new("a").groups(Groups::new().limit(5, Duration::from_micros(5))),
            Queue::new("a").timeout(Duration::ZERO),
            Queue::new("a").pinned(Groups::new()).concurrency(5),
            Queue::new("a").pinned(Groups::new()).groups(Groups::new()),
        ] {
            assert!(queue.checked().is_err(), "{queue:?}");
        }
        assert!(Queue::new("a").by_hand().lease(second).checked().is_ok());
        let (_, settings) = Queue::new("a").strict_priorities().keep_failed(second).checked().unwrap();
        assert_eq!(settings.to_string(), "-|30000||25|1000|0|0|100000000000|0|0|0|0|0|0");
    }
}
