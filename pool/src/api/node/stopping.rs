//! Stops of jobs.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::calls::PATIENCE;
use super::{Node, Shard};
use crate::clock;
use crate::core::input::{Command, Until};
use crate::error::Error;
use crate::model::id::{IdError, JobKey};

/// The stop of a job, made by [`Node::stop_job`]. Await it.
///
/// # Cancel safety
/// After a dropped future the job may be stopped or not. Stopping it again is fine.
#[derive(Clone, Debug)]
#[must_use = "nothing is stopped until it is awaited"]
pub struct StopJob {
    shard: Shard,
    key: Result<JobKey, IdError>,
    until: Until,
    patience: Duration,
}

impl Node {
    /// Stops the job at any point of its life, and keeps it from coming back. Awaited, it returns when the stop is
    /// recorded: from then on no worker begins the job. Its handler may still be ending. If the job was begun just
    /// before, a start may still come and is ended at once. Stopping a job again is fine.
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
    /// The key is not valid; there is no such job; or there is no answer by the deadline. With `until_stopped`, also
    /// if the job has not ended by then, or if its handler failed to stop it well.
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
    /// Returns only when the job is gone: its handler has ended, and the key is free. An error of the stop handler, or
    /// of the job's future at its end, is returned as [`Error::StopFailed`]; it says that the job is gone, too. If
    /// several nodes wait for the stop of a job, the error reaches the one that asked last. It reaches nobody if the
    /// owner crashes, if the pool loses data, or if the answer to this call itself was lost and the job ended
    /// meanwhile. A handler that exceeds its stop timeout is aborted, which is no error here. A handler that waits for the end of
    /// its own job gets [`Error::OwnHandler`] at once.
    pub fn until_stopped(self) -> Self {
        Self { until: Until::Gone, ..self }
    }

    /// How long to wait. The default is 20 s. At the deadline the error is [`Error::Deadline`], or
    /// [`Error::StillStopping`] if the stop is known to be recorded. A recorded stop stays recorded.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { patience: deadline, ..self }
    }

    async fn send(self) -> Result<(), Error> {
        let Self { shard, key, until, patience } = self;
        let key = key?;
        let deadline = clock::now() + patience;
        if until == Until::Gone {
            shard.refuse_own_handler(&key, patience).await?;
        }
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
