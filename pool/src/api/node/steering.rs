//! An operator's word to single jobs: park, bounce, restart, retry.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::{Node, Shard};
use crate::clock;
use crate::core::input::Command;
use crate::error::Error;
use crate::model::event::{EventKind, News};
use crate::model::id::{IdError, JobKey};
use crate::store::Way;

/// The default time of a [`Steer`]: longer than the 30 s that a handler may take to stop.
const DEFAULT: Duration = Duration::from_secs(60);
/// The longest reason for which a job is parked, in bytes.
const REASON_MAX: usize = 1_024;

/// A word to a single job, made by [`Node::park`], [`Node::bounce`], [`Node::restart`] or [`Node::retry`]. Await it: it
/// returns when the record shows what was wanted.
///
/// It is about the job that it finds: no later job of the key is touched, and none that has gone on meanwhile. If the job
/// moves before the word reaches its worker, a park follows it. A bounce and a restart are done then.
///
/// # Errors
/// - The key is not valid, or a reason has more than 1 KiB. Nothing was changed.
/// - [`Error::JobNotFound`]: there is no such job, it is being stopped, or it has ended meanwhile.
/// - [`Error::Parked`]: it is parked, so nothing of it runs. Only of a bounce and a restart.
/// - [`Error::NotWaiting`]: a worker has it. Only of a retry.
/// - [`Error::BadRecord`], [`Error::NewerVersion`]: its record cannot be read.
/// - [`Error::ShuttingDown`]: the pool stops its jobs.
/// - [`Error::Deadline`]: there is no answer in time. It may still happen: the worker may have been told.
/// - [`Error::NodeClosed`], or another reason why the node has ended.
///
/// # Cancel safety
/// After a dropped future it may have happened, or may still happen. The same word again is fine.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until it is awaited"]
pub struct Steer {
    node: Node,
    key: Result<JobKey, IdError>,
    way: Way,
    reason: String,
    patience: Duration,
}

impl Node {
    /// Parks a job: it ends where it runs, and nobody runs it before a [`retry`](Self::retry). It keeps its dispatch, its
    /// payload, its notifications and its checkpoint. Listings show the reason as its error. The run that is ended counts
    /// as no attempt. A job that is parked already stays so, with the reason that it has.
    ///
    /// A running job is stopped with [`StopReason::Parked`](crate::StopReason::Parked).
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// node.park("acme", "the feed sends rubbish, see ticket 1742").await?;
    /// // Later, when that is mended.
    /// node.retry("acme").await?;
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
        Steer { node: self.clone(), key, way, reason: String::new(), patience: DEFAULT }
    }
}

impl Steer {
    /// How long to wait for it. The default is a minute: a handler may take its time to stop.
    pub fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    async fn send(self) -> Result<(), Error> {
        let Self { node, key, way, reason, patience } = self;
        let key = key?;
        if reason.len() > REASON_MAX {
            return Err(Error::TooLong { what: "the reason", len: reason.len(), max: REASON_MAX });
        }
        node.of(&key).steer(key, way, reason, patience).await
    }
}

impl IntoFuture for Steer {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}

impl Shard {
    async fn steer(&self, key: JobKey, way: Way, reason: String, patience: Duration) -> Result<(), Error> {
        let deadline = clock::now() + patience;
        let named = key.clone();
        let asked = match way {
            Way::Now => "retry".to_owned(),
            Way::Home => "restart".to_owned(),
            Way::Elsewhere => "bounce".to_owned(),
            Way::Park if reason.is_empty() => "park".to_owned(),
            Way::Park => format!("park: {reason}"),
        };
        let result =
            self.request(patience, |reply| Command::Steer { reply, key, way, reason, deadline }).await;
        if result.is_ok() {
            self.note(News::of_job(EventKind::Asked, named.clone()).saying(&asked));
        }
        self.named(&named, None, result).await
    }
}
