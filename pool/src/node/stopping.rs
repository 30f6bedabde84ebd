//! Jobs that are to end.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::calls::PATIENCE;
use super::{Node, Shard};
use crate::core::input::{Command, Until};
use crate::error::Error;
use crate::id::{IdError, JobKey};
use crate::runtime::clock;

/// The stop of a job, to be awaited. Made by [`Node::stop_job`].
///
/// # Cancel safety
/// A dropped future leaves open whether the job is being stopped; to stop it again is fine.
#[derive(Clone, Debug)]
#[must_use = "nothing is stopped until it is awaited"]
pub struct StopJob {
    shard: Shard,
    key: Result<JobKey, IdError>,
    until: Until,
    patience: Duration,
}

impl Node {
    /// Stops the job, wherever it is in its life, and keeps it from coming back. Awaited, it returns when that is
    /// recorded: from then on nobody begins the job. The handler may still be on its way out, or, if the job was begun
    /// just before, on its way to a start that is ended at once. Stopping a job that is being stopped is fine.
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// node.stop_job("acme").await?;
    /// node.stop_job("zenith").until_stopped().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The key is not valid; no such job; no answer by the deadline; or, with `until_stopped`, the job has not ended by then.
    pub fn stop_job<K>(&self, key: K) -> StopJob
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        let key = key.try_into().map_err(Into::into);
        StopJob { shard: self.of(key.as_ref().ok()).clone(), key, until: Until::Recorded, patience: PATIENCE }
    }
}

impl StopJob {
    /// Returns only when the job is gone: its handler has ended, and the key is free.
    pub fn until_stopped(self) -> Self {
        Self { until: Until::Gone, ..self }
    }

    /// How long to wait: 20 s unless it is said here. Then the answer is [`Error::Deadline`], or
    /// [`Error::StillStopping`] where the stop is known to be recorded; one that was recorded stays recorded.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { patience: deadline, ..self }
    }

    async fn send(self) -> Result<(), Error> {
        let Self { shard, key, until, patience } = self;
        let key = key?;
        let deadline = clock::now() + patience;
        let command = |reply| Command::StopJob { reply, key: key.clone(), id: None, until, deadline };
        let result = shard.request(patience, command).await;
        shard.named(&key, None, result).await
    }
}

impl IntoFuture for StopJob {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
