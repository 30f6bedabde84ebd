//! Notifications to jobs.

use std::future::IntoFuture;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};

use super::calls::PATIENCE;
use super::starting::ToStart;
use super::{Node, Shard};
use crate::clock;
use crate::core::input::Command;
use crate::error::Error;
use crate::job::spec::JobSpec;
use crate::job::typed::{self, Payload};
use crate::model::id::{IdError, JobKey};

/// A notification, made by [`Node::notify`]. Await it.
///
/// # Cancel safety
/// After a dropped future it is not known whether the notification was kept.
#[derive(Clone, Debug)]
#[must_use = "nothing is kept until it is awaited"]
pub struct NotifyJob {
    shard: Shard,
    key: Result<JobKey, IdError>,
    body: Result<Bytes, Error>,
    start: Option<JobSpec>,
}

impl Node {
    /// Keeps a notification for the job. The job's present or later owner passes it to the handler, in order and at
    /// least once.
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// node.notify("acme", "reload").await?;
    /// node.notify("acme", "order 17").or_start(("acme", "payload")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The key is not valid; there is no such job; too many notifications wait; it is too long; or there is no answer
    /// within 20 s.
    pub fn notify<K>(&self, key: K, body: impl Into<Bytes>) -> NotifyJob
    where
        K: TryInto<JobKey>,
        K::Error: Into<IdError>,
    {
        self.notifying(key, Ok(body.into()))
    }

    /// Like [`notify`](Self::notify), with a value: [`Job::notified_as`](crate::Job::notified_as) gives it to a job that is one
    /// future, and [`Payload::from_body`] reads it in a handler.
    ///
    /// # Errors
    /// As there. A value that cannot be encoded is not sent.
    pub fn notify_as<T: Payload>(
        &self,
        key: impl TryInto<JobKey, Error: Into<IdError>>,
        message: &T,
    ) -> NotifyJob {
        let refused = |error| Error::Encode { what: "the notification", error: Arc::new(error) };
        self.notifying(key, typed::seal(T::TYPE, message).map(Bytes::from).map_err(refused))
    }

    fn notifying(
        &self,
        key: impl TryInto<JobKey, Error: Into<IdError>>,
        body: Result<Bytes, Error>,
    ) -> NotifyJob {
        let key = key.try_into().map_err(Into::into);
        NotifyJob { shard: self.of(key.as_ref().ok()).clone(), key, body, start: None }
    }
}

impl NotifyJob {
    /// Starts this job if there is none with the key. The notification is the first that its handler gets. Both are
    /// accepted in one step, and nothing waits for the start. So a message to a key needs no job that stands by.
    ///
    /// A job that is there gets the notification, also one that is parked. If it is being stopped, the call waits for its
    /// end. The job has the key of the notification, and no [id](JobSpec::id) of its own. It is started once, however often
    /// the call is sent. The notification may be delivered more than once, as every other.
    ///
    /// A job that ends takes along what it was not given, as ever. So a job that is to end when it is idle should end soon
    /// after a notification, or its senders must know from the job itself that theirs was handled.
    ///
    /// # Errors
    /// Those of [`Node::notify`], but for a job that is not there, and:
    /// - [`Error::WrongStart`]: the job has another key, or an id. Nothing was written.
    /// - [`Error::NotStarted`]: the job is not valid, or the queue of the pool is full. Nothing was kept.
    /// - [`Error::ShuttingDown`]: the pool takes no more jobs. Nothing was kept.
    pub fn or_start(self, job: impl Into<JobSpec>) -> Self {
        Self { start: Some(job.into()), ..self }
    }

    async fn send(self) -> Result<(), Error> {
        let Self { shard, key, body, start } = self;
        let (key, body) = (key?, body?);
        let max = shard.settings().notify_bytes as usize;
        if body.len() > max {
            return Err(Error::TooLong { what: "the notification", len: body.len(), max });
        }
        let start = match start {
            Some(job) => Some(Box::new(ToStart::check(&shard, &key, job)?.item(&shard)?)),
            None => None,
        };
        let deadline = clock::now() + PATIENCE;
        let command = |reply| Command::Notify { reply, key: key.clone(), body, start, deadline };
        let result = shard.request(PATIENCE, command).await;
        shard.named(&key, None, result).await
    }
}

impl IntoFuture for NotifyJob {
    type Output = Result<(), Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
