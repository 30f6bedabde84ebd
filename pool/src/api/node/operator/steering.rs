//! An operator's word to single jobs: park, pause, resume, bounce, restart, retry.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::Operator;
use crate::api::node::Shard;
use crate::api::node::calls::AGAIN;
use crate::api::node::shards::is_silence;
use crate::clock;
use crate::core::input::Command;
use crate::error::Error;
use crate::model::event::{EventKind, News};
use crate::model::id::{IdError, JobKey};
use crate::model::paused::{Paused, check_by};
use crate::model::settings::InvalidSetting;
use crate::store::{ReadTime, Way};

/// The default time of a [`Steer`]: longer than the 30 s that a handler may take to stop.
const DEFAULT: Duration = Duration::from_secs(60);
/// The longest reason for which a job is parked or paused, in bytes. That of a pause is with the name of who wants it.
const REASON_MAX: usize = 1_024;
/// How long a pause with an end lasts, at least and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1_000 * 86_400);

/// A word to a single job, made by [`Operator::park`], [`Operator::pause`], [`Operator::resume`], [`Operator::bounce`],
/// [`Operator::restart`] or [`Operator::retry`]. Await it: it returns when the record shows what was wanted.
///
/// It is about the job that it finds: no later job of the key is touched, and none that has gone on meanwhile. If the job
/// moves before the word reaches its worker, a park and a pause follow it. A bounce and a restart are done then. If the
/// record shows that somebody has undone it before it returns, it is not done again.
///
/// # Errors
/// - The key or a name is not valid, a pause would last too long, or a reason has more than 1 KiB. Nothing was changed.
/// - [`Error::JobNotFound`]: there is no such job, it is being stopped, or it has ended meanwhile.
/// - [`Error::Parked`]: it is parked, so nothing of it runs. Only of a bounce, a restart and a resume.
/// - [`Error::Paused`]: it is paused, and a resume starts it. Of all but a pause and a resume.
/// - [`Error::NotWaiting`]: a worker has it. Only of a retry.
/// - [`Error::BadRecord`], [`Error::NewerVersion`]: its record cannot be read.
/// - [`Error::OwnHandler`]: the job's own handler would wait for the end of the job. Of all but a resume and a retry. A task
///   that the handler has spawned is not recognised: it may wait, and the handler must not wait for the task.
/// - [`Error::ShuttingDown`]: the pool stops its jobs.
/// - [`Error::Deadline`]: there is no answer in time. It may still happen: the worker may have been told.
/// - [`Error::NodeClosed`], or another reason why the node has ended.
///
/// # Cancel safety
/// After a dropped future it may have happened, or may still happen. The same word again is fine.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is awaited"]
pub struct Steer {
    operator: Operator,
    key: Result<JobKey, IdError>,
    way: Way,
    by: Option<String>,
    reason: String,
    /// How long a pause lasts.
    lasts: Option<Duration>,
    patience: Duration,
}

impl Operator {
    /// Parks a job: it ends where it runs, and nobody runs it before a [`retry`](Self::retry). It keeps its dispatch, its
    /// payload, its notifications and its checkpoint. Listings show the reason as its error. The run that is ended counts
    /// as no attempt. A job that is parked already stays so, with the reason that it has.
    ///
    /// A running job is stopped with [`StopReason::Parked`](crate::StopReason::Parked).
    ///
    /// ```no_run
    /// # async fn example(feeds: tenure_pool::Operator) -> Result<(), tenure_pool::Error> {
    /// feeds.park("acme", "the feed sends rubbish, see ticket 1742").await?;
    /// // Later, when that is mended.
    /// feeds.retry("acme").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn park<K>(&self, key: K, reason: impl Into<String>) -> Steer
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        Steer { reason: reason.into(), ..self.steer(key, Way::Park) }
    }

    /// Pauses a job: it ends where it runs, and nobody runs it before a [`resume`](Self::resume). It keeps its dispatch,
    /// its payload, its notifications and its checkpoint, whatever becomes of its worker. Meanwhile:
    /// - A dispatch of its key gets [`DispatchError::JobExists`](crate::DispatchError::JobExists). An `ensure`, and who waits
    ///   for its first start, gets [`DispatchError::Paused`](crate::DispatchError::Paused).
    /// - An update is kept, and so are notifications. An ask is [not handled](crate::error::NotHandled::Paused).
    /// - A plan that wants it counts it as there. A [`retry`](Self::retry) or [`unpark`](Self::unpark) does not start it.
    /// - A stop ends it, and so does a shutdown.
    ///
    /// [`Steer::lasting`] gives it an end: the job then goes on by itself, as if it were resumed.
    ///
    /// The run that is ended counts as no attempt. A job that is paused already stays so, with the reason that it has. If that
    /// pause is over sooner than this one would be, this one takes its place. One
    /// that is parked is paused, and its error goes. [`JobInfo::paused`](crate::JobInfo::paused) says who has paused a job,
    /// until when, and why. After a loss of data the job is as the data have it, unless its worker can say that it was paused.
    ///
    /// A running job is stopped with [`StopReason::Paused`](crate::StopReason::Paused).
    ///
    /// ```no_run
    /// # async fn example(feeds: tenure_pool::Operator) -> Result<(), tenure_pool::Error> {
    /// feeds.pause("acme", "their database is being moved").by("anna").await?;
    /// // Later.
    /// feeds.resume("acme").by("anna").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn pause<K>(&self, key: K, reason: impl Into<String>) -> Steer
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        Steer { reason: reason.into(), ..self.steer(key, Way::Pause) }
    }

    /// Starts a paused job again: it begins as soon as there is a worker. Its attempts count from zero. A job that nobody
    /// has paused stays as it is, and that is no error.
    pub fn resume<K>(&self, key: K) -> Steer
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.steer(key, Way::Resume)
    }

    /// Sends a job elsewhere: it ends where it runs, and begins anew on the next worker of its chain. It stays there
    /// while the ring is the same. With one worker it begins anew on that. The run that is ended counts as no attempt. A
    /// job that nobody has begun goes to another worker, too, and one that waits for a pause begins at once.
    ///
    /// A running job is stopped with [`StopReason::Bounced`](crate::StopReason::Bounced).
    pub fn bounce<K>(&self, key: K) -> Steer
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.steer(key, Way::Elsewhere)
    }

    /// Starts a job anew at home, as [`bounce`](Self::bounce) does elsewhere. A job that was turned away from its home, or
    /// bounced, goes back. Its attempts count from zero.
    pub fn restart<K>(&self, key: K) -> Steer
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.steer(key, Way::Home)
    }

    /// Starts a job now that waits for the end of a pause, or is parked. The attempts of a parked job count from zero,
    /// as after an [`unpark`](Self::unpark). Those of one that waits go on.
    pub fn retry<K>(&self, key: K) -> Steer
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.steer(key, Way::Now)
    }

    fn steer<K>(&self, key: K, way: Way) -> Steer
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into);
        Steer {
            operator: self.clone(),
            key,
            way,
            by: None,
            reason: String::new(),
            lasts: None,
            patience: DEFAULT,
        }
    }
}

impl Steer {
    /// How long to wait for it. The default is a minute: a handler may take its time to stop.
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Names the one who wants it: 1 to 64 visible ASCII characters without `|`. The default is the name of the node. The pool's events
    /// say it, and so does a paused job.
    pub fn by(self, who: impl Into<String>) -> Self {
        Self { by: Some(who.into()), ..self }
    }

    /// Ends a pause by itself this long after the call, by the store's clock: 1 ms to 1,000 days. Only of a pause. It takes one
    /// more round trip. To make a pause shorter, resume the job and pause it again.
    ///
    /// ```no_run
    /// # async fn example(feeds: tenure_pool::Operator) -> Result<(), tenure_pool::Error> {
    /// let two_hours = std::time::Duration::from_secs(2 * 3600);
    /// feeds.pause("acme", "their database is being moved").lasting(two_hours).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lasting(self, time: Duration) -> Self {
        Self { lasts: Some(time), ..self }
    }

    async fn send(self) -> Result<(), Error> {
        let Self { operator, key, way, by, reason, lasts, patience } = self;
        let key = key?;
        by.as_deref().map_or(Ok(()), check_by).map_err(Error::Setting)?;
        lasts.map_or(Ok(()), |lasts| check_lasting(way, lasts)).map_err(Error::Setting)?;
        let asked = Asked { way, by: by.as_deref(), lasts, reason: &reason }.to_string();
        if reason.len() > REASON_MAX {
            return Err(Error::TooLong { what: "the reason", len: reason.len(), max: REASON_MAX });
        }
        let node = operator.node().await?;
        let (shard, began) = (node.of(&key), clock::now());
        if !matches!(way, Way::Now | Way::Resume) {
            shard.refuse_own_handler(&key, patience).await?;
        }
        let end = match lasts {
            Some(lasts) => {
                let now = tokio::time::timeout(patience, shard.server_time());
                let now = now.await.unwrap_or_else(|_| Err(shard.late(patience)))?;
                Some(now.saturating_add(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)))
            }
            None => None,
        };
        let patience = patience.saturating_sub(clock::now().since(began));
        let reason = match way {
            Way::Pause => Paused::text(by.as_deref().unwrap_or(node.name()), end, &reason),
            _ => reason,
        };
        if reason.len() > REASON_MAX {
            return Err(Error::TooLong { what: "the reason", len: reason.len(), max: REASON_MAX });
        }
        shard.steer(key, (way, reason), patience, &asked).await
    }
}

impl IntoFuture for Steer {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}

/// A word as the events of the pool say it: `pause by anna: their database is being moved`.
struct Asked<'a> {
    way: Way,
    by: Option<&'a str>,
    lasts: Option<Duration>,
    reason: &'a str,
}

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.way {
            Way::Now => "retry",
            Way::Home => "restart",
            Way::Elsewhere => "bounce",
            Way::Park => "park",
            Way::Pause => "pause",
            Way::Resume => "resume",
        })?;
        if let Some(by) = self.by {
            write!(f, " by {by}")?;
        }
        if let Some(lasts) = self.lasts {
            write!(f, " for {lasts:?}")?;
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// Refuses a length of a pause that cannot be kept.
fn check_lasting(way: Way, lasts: Duration) -> Result<(), InvalidSetting> {
    let refused = |why: &'static str| InvalidSetting::new("for", format!("{lasts:?}"), why);
    match way {
        Way::Pause if (SHORTEST..=LONGEST).contains(&lasts) => Ok(()),
        Way::Pause => Err(refused("a pause lasts from 1 ms to 1,000 days")),
        _ => Err(refused("only a pause has an end")),
    }
}

impl Shard {
    /// The store's clock, ms. Asks again while the store does not answer.
    async fn server_time(&self) -> Result<u64, Error> {
        loop {
            match self.store().read(&ReadTime).await {
                Err(error) if is_silence(&error) && !self.shared.messages.is_closed() => {}
                Err(_) if self.shared.messages.is_closed() => return Err(self.gone().await.into()),
                answer => return Ok(answer?),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// `asked`: the word as the events say it.
    async fn steer(
        &self,
        key: JobKey,
        (way, reason): (Way, String),
        patience: Duration,
        asked: &str,
    ) -> Result<(), Error> {
        let deadline = clock::now() + patience;
        let named = key.clone();
        let result =
            self.request(patience, |reply| Command::Steer { reply, key, way, reason, deadline }).await;
        if result.is_ok() {
            self.note(News::of_job(EventKind::Asked, named.clone()).saying(asked));
        }
        self.named(&named, None, result).await
    }
}
