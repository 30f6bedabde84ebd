//! The settings of a consumer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::consumer::engine::{Engine, Notifications};
use crate::consumer::handler::Handler;
use crate::consumer::manual::{Finisher, Jobs, Manual};
use crate::consumer::retry::Retry;
use crate::consumer::shared::{Settings, Shared};
use crate::consumer::throttle::Complaints;
use crate::consumer::{Consumer, Owner};
use crate::error::Error;
use crate::keys::NAME_MAX;
use crate::progress::Progress;
use crate::source::Source;

/// The most jobs at once.
const CONCURRENCY_MAX: usize = 65_536;
/// The longest time of any setting.
const TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Settings of a [`Consumer`], with their defaults.
#[must_use]
pub struct Builder<S, P> {
    source: S,
    progress: P,
    settings: Settings,
    notifications: Notifications,
}

impl<S: Source, P: Progress> Builder<S, P> {
    pub(crate) fn new(source: S, progress: P) -> Self {
        let settings = Settings {
            name: "sequence".into(),
            default_index: 0,
            concurrency: 8,
            look_ahead: 1_024,
            deadline: None,
            retry: Retry::never(),
            grace: Duration::from_millis(100),
            call_deadline: Duration::from_secs(5),
            stuck_after: Duration::from_secs(60),
        };
        Self { source, progress, settings, notifications: Notifications::default() }
    }

    /// The name in logs, metrics and explanations. `sequence` by default.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// The progress of a consumer without any: its first job is the one after it. 0 by default.
    ///
    /// Above the head of a log it ends the consumer, with [`SourceError::Broken`](crate::SourceError::Broken). The start has
    /// stored it by then. So another value changes nothing until that progress is forgotten
    /// ([`RedisProgress::forget`](crate::RedisProgress::forget)).
    pub fn default_index(mut self, index: u64) -> Self {
        self.settings.default_index = index;
        self
    }

    /// The most jobs that run at once, 1 to 65,536. 8 by default. Jobs that are done ahead of a hole do not count.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.settings.concurrency = jobs;
        self
    }

    /// How far the highest begun index may be ahead of the progress, stored or not. 1,024 by default; 0 is unlimited.
    ///
    /// It bounds what runs again after a crash, for as long as the progress can be stored. Memory does not grow with it.
    pub fn look_ahead(mut self, indexes: u64) -> Self {
        self.settings.look_ahead = indexes;
        self
    }

    /// The time that an attempt of a job may take, 1 ms to 7 days. Then it is dropped, and has failed. None by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = Some(deadline);
        self
    }

    /// Says whether and when a job that has failed is tried again. [`Retry::never`] by default.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.settings.retry = retry;
        self
    }

    /// How long a job may run on after it was asked to end, by a shutdown or because the consumer fails. Then it is
    /// dropped. 100 ms by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// The time that a call of the source or of the store of progress may take. 5 s by default. When all jobs of a
    /// consumer that ends have ended, and a save under way, the last progress is tried for as long.
    pub fn call_deadline(mut self, deadline: Duration) -> Self {
        self.settings.call_deadline = deadline;
        self
    }

    /// A job at the head that runs for longer is told in the log, once. 60 s by default.
    pub fn stuck_after(mut self, age: Duration) -> Self {
        self.settings.stuck_after = age;
        self
    }

    /// Called when a job is done, before it counts: in the order in which jobs end, at least once for each index. It must
    /// not block.
    pub fn before(mut self, told: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.notifications.before = Some(Box::new(told));
        self
    }

    /// Called for each index in order, when it and all below it are done, before that is stored: at least once for each
    /// index. It must not block; the progress is stored after it.
    pub fn in_order(mut self, told: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.notifications.in_order = Some(Box::new(told));
        self
    }

    /// Called for each index in order, after a progress that covers it was stored: at most once for each index. A crash in
    /// between leaves it out. It must not block.
    pub fn after(mut self, told: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.notifications.after = Some(Box::new(told));
        self
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |name, why| Err(Error::Setting { name, why });
        let Settings { name, concurrency, deadline, retry, grace, call_deadline, stuck_after, .. } =
            &self.settings;
        if name.is_empty() || name.len() > NAME_MAX {
            return wrong("name", "has 1 to 256 bytes");
        }
        if !(1..=CONCURRENCY_MAX).contains(concurrency) {
            return wrong("concurrency", "is 1 to 65,536");
        }
        if !retry.is_usable() {
            return wrong(
                "retry",
                "has at least one attempt, and a first pause no longer than the longest one",
            );
        }
        if *grace > TIME_MAX {
            return wrong("grace", "is at most 7 days");
        }
        let times = [
            ("deadline", *deadline),
            ("call_deadline", Some(*call_deadline)),
            ("stuck_after", Some(*stuck_after)),
        ];
        for (name, time) in times {
            if time.is_some_and(|time| time < Duration::from_millis(1) || time > TIME_MAX) {
                return wrong(name, "is 1 ms to 7 days");
            }
        }
        Ok(())
    }

    /// A consumer whose jobs this handler runs. Nothing begins before [`Consumer::start`].
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn build(self, handler: impl Handler<S::Job>) -> Result<Consumer, Error> {
        self.check()?;
        let Self { source, progress, settings, notifications } = self;
        let shared = Arc::new(Shared::new(settings));
        let engine = Arc::new(Engine {
            shared: shared.clone(),
            source,
            progress,
            handler,
            notifications,
            metrics: OnceLock::new(),
            complaints: Complaints::default(),
        });
        Ok(Consumer { owner: Arc::new(Owner { shared, engine }) })
    }

    /// A consumer without a handler. Its jobs come as a stream, and its [`Finisher`] is told when they are done. A job that
    /// is not done within the deadline comes again if the retry policy says so.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn manual(self) -> Result<(Consumer, Jobs<S::Job>, Finisher), Error> {
        self.check()?;
        let (handler, ends) = Manual::new(self.settings.concurrency);
        let consumer = self.build(handler)?;
        let (jobs, finisher) = ends(consumer.owner.shared.clone());
        Ok((consumer, jobs, finisher))
    }
}

impl<S, P> std::fmt::Debug for Builder<S, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
