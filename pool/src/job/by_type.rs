//! One handler for jobs of several kinds.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::Job;
use super::asking::Ask;
use super::handler::{AnyHandler, JobHandler, Start};
use super::payload::NewPayload;
use super::typed::Payload;
use super::verdict::Restart;
use crate::error::BoxError;
use crate::model::stop::StopReason;

/// A handler that picks another one by the type of the job's payload. So a pool may have jobs of several kinds, and each kind
/// has its own handler.
///
/// All workers of a pool are asked for every kind. A job of a kind that has no handler here is turned away as
/// [`Start::Unable`], with the name of the type: the next worker of its chain gets the job. So a new kind can be deployed
/// node by node.
///
/// An update with a payload of another type restarts the job: the other handler begins it.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tenure_pool::job::ByType;
/// use tenure_pool::{BoxError, Job, JobSpec, MemoryStore, Node, Payload};
///
/// #[derive(Serialize, Deserialize)]
/// struct Tenant { plan: String }
///
/// impl Payload for Tenant {
///     const TYPE: &'static str = "tenant";
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Mailbox { address: String }
///
/// impl Payload for Mailbox {
///     const TYPE: &'static str = "mailbox";
/// }
///
/// async fn tenant(job: Job) -> Result<(), BoxError> {
///     let Tenant { plan } = job.decode()?;
///     tracing::info!("{} has the plan {plan}", job.key());
///     job.cancelled().await;
///     Ok(())
/// }
///
/// async fn mailbox(job: Job) -> Result<(), BoxError> {
///     let Mailbox { address } = job.decode()?;
///     tracing::info!("{} reads {address}", job.key());
///     job.cancelled().await;
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let node = Node::builder("accounts", &MemoryStore::new()).assume_fresh(true).join().await?;
/// let handler = ByType::new().on::<Tenant>(tenure_pool::run(tenant)).on::<Mailbox>(tenure_pool::run(mailbox));
/// node.add_worker(handler).await?;
/// node.dispatch(JobSpec::typed("acme", &Tenant { plan: "gold".into() })).await?;
/// node.dispatch(JobSpec::typed("anna", &Mailbox { address: "anna@example.org".into() })).await?;
/// # node.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct ByType {
    handlers: BTreeMap<&'static str, Box<dyn AnyHandler>>,
    others: Option<Box<dyn AnyHandler>>,
}

impl ByType {
    /// Has no handler so far.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Jobs with a payload of this type have this handler, in place of an earlier one for the type.
    #[must_use]
    pub fn on<T: Payload>(mut self, handler: impl JobHandler) -> Self {
        self.handlers.insert(T::TYPE, Box::new(handler));
        self
    }

    /// All other jobs have this handler: payloads of another type, and of no type.
    #[must_use]
    pub fn otherwise(mut self, handler: impl JobHandler) -> Self {
        self.others = Some(Box::new(handler));
        self
    }

    fn pick(&self, kind: Option<&str>) -> Option<&dyn AnyHandler> {
        let named = kind.and_then(|kind| self.handlers.get(kind));
        named.or(self.others.as_ref()).map(|handler| &**handler)
    }

    fn of(&self, job: &Job) -> Option<&dyn AnyHandler> {
        self.pick(job.payload_type().as_deref())
    }
}

impl fmt::Debug for ByType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<_> = self.handlers.keys().collect();
        f.debug_struct("ByType").field("types", &types).field("others", &self.others.is_some()).finish()
    }
}

impl JobHandler for ByType {
    async fn start(&self, job: Job) -> Start {
        match (self.of(&job), job.payload_type()) {
            (Some(handler), _) => handler.start(job).await,
            (None, Some(kind)) => Start::Unable { why: format!("no handler for the payload type {kind:?}") },
            (None, None) => Start::Unable { why: "no handler for a payload without a type".to_owned() },
        }
    }

    async fn stop(&self, job: &Job, why: StopReason) -> Result<(), BoxError> {
        match self.of(job) {
            Some(handler) => handler.stop(job, why).await,
            None => Ok(()),
        }
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        match self.of(job) {
            Some(handler) => handler.notify(job, body).await,
            None => Ok(()),
        }
    }

    async fn ask(&self, job: &Job, ask: Ask) {
        match self.of(job) {
            Some(handler) => handler.ask(job, ask).await,
            None => ask.unhandled(),
        }
    }

    async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
        match self.of(job).filter(|_| new.payload_type() == job.payload_type().as_deref()) {
            Some(handler) => handler.update(job, new).await,
            None => Err(Restart.into()),
        }
    }
}
