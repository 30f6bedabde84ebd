//! Other payloads for jobs that are there.

use std::future::IntoFuture;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use super::calls::{MARGIN, PATIENCE};
use super::{Node, Shard};
use crate::clock;
use crate::core::input::{Answer, Command, NewUpdate};
use crate::error::Error;
use crate::job::spec::JobSpec;
use crate::model::id::DispatchId;

/// Another payload for a job, made by [`Node::update`]. Await it: it returns the job's generation.
///
/// # Cancel safety
/// After a dropped future the job may have the payload or not. Updating it again with the same payload is fine.
#[derive(Clone, Debug)]
#[must_use = "nothing is updated until it is awaited"]
pub struct Update {
    shard: Shard,
    job: JobSpec,
    of: Option<DispatchId>,
    expected: Option<u64>,
    patience: Duration,
}

impl Node {
    /// Gives a job that is there another payload, given as `(key, payload)` or as a [`JobSpec`]. The payload, the restart
    /// policy and the progress timeout are from then on those of the spec. The job keeps its dispatch, its notifications
    /// and its checkpoint. An [id](JobSpec::id) in the spec names the dispatch that is meant. A trace in it says nothing here.
    ///
    /// Awaited, it returns when the pool has the payload. A job that waits or is parked starts with it later. The handler
    /// of a job that runs may take it in place ([`JobHandler::update`](crate::JobHandler::update)). Otherwise the job is
    /// stopped, with [`StopReason::Updated`](crate::StopReason::Updated), and starts again with it on the same worker,
    /// unless the ring has changed. Of several updates in a row the last one wins, and the job may never run with those
    /// between.
    ///
    /// The answer is the job's generation: how often the pool has changed its payload, from 0 at the dispatch. The payload that the job has already changes nothing.
    ///
    /// ```no_run
    /// # async fn example(node: tenure_pool::Node) -> Result<(), tenure_pool::Error> {
    /// use tenure_pool::{Error, JobSpec, RestartPolicy};
    ///
    /// let generation = node.update(("acme", "rate=10")).await?;
    /// let next = JobSpec::new("acme", "rate=20").restart(RestartPolicy::OnFailure);
    /// match node.update(next).expect_generation(generation).await {
    ///     Ok(generation) => println!("acme has generation {generation}"),
    ///     Err(Error::OtherGeneration { generation, .. }) => println!("somebody else was faster: {generation}"),
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - The key or an option is not valid, or the payload is too long or cannot be encoded. Nothing was written.
    /// - [`Error::JobNotFound`]: there is no such job, or it is being stopped.
    /// - [`Error::OtherDispatch`]: the job is another dispatch than the one [meant](Update::of_dispatch).
    /// - [`Error::OtherGeneration`]: the job has another generation than the one [expected](Update::expect_generation),
    ///   and another payload.
    /// - [`Error::UpdateInDoubt`]: an answer was lost, and the key has another job by now. The former one may have had the
    ///   payload or not. The same holds for `Error::JobNotFound` after a lost answer.
    /// - [`Error::Deadline`]: there is no answer by the deadline. The job may have the payload or not.
    /// - [`Error::NodeClosed`], or another reason why the node has ended.
    pub fn update(&self, job: impl Into<JobSpec>) -> Update {
        let job = job.into();
        Update { shard: self.of(job.key()).clone(), job, of: None, expected: None, patience: PATIENCE }
    }
}

impl Update {
    /// Updates the job only if it is this dispatch, as [`Inspector::job`](crate::Inspector::job) names it.
    /// Each dispatch counts its generations from 0.
    /// So a caller who expects a generation may also want to name the dispatch that it belongs to.
    pub fn of_dispatch(self, id: DispatchId) -> Self {
        Self { of: Some(id), ..self }
    }

    /// Updates the job only if it has this generation. A call whose answer was lost, and which is made again, succeeds if the
    /// job has the payload.
    pub fn expect_generation(self, generation: u64) -> Self {
        Self { expected: Some(generation), ..self }
    }

    /// How long to wait for the answer. The default is 20 s.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { patience: deadline, ..self }
    }

    async fn send(self) -> Result<u64, Error> {
        let Self { shard, job, of, expected, patience } = self;
        let named = job.dispatch_of(&shard.shared.name)?;
        let (key, payload) = job.seal_update(shard.settings().payload_max as usize)?;
        let new = NewUpdate {
            key: key.clone(),
            payload,
            of: of.or(named),
            expected,
            deadline: clock::now() + patience,
        };
        let call = shard.ask(|reply| Command::Update { reply, new });
        let result = match tokio::time::timeout(patience.saturating_add(MARGIN), call).await {
            Ok(Some(Answer::Updated(result))) => result,
            Ok(Some(Answer::Late { .. })) | Err(_) => Err(shard.late(patience)),
            Ok(_) => Err(shard.gone().await.into()),
        };
        shard.named(&key, None, result).await
    }
}

impl IntoFuture for Update {
    type Output = Result<u64, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.send().boxed()
    }
}
