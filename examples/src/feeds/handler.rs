//! The job of the story: one connection to the feed server, as one tenant, under the job's token.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_pool::{BoxError, Job, JobHandler, JobKey, Start, StopReason, Token};
use tenure_testing::history::History;

use super::attendance::Attendance;
use super::session::SessionError;
use super::subscription::Subscription;
use super::tenants::Tenant;
use super::wire::Hello;

/// Connects tenants to the feed, for one worker. Clones share their connections.
#[derive(Clone, Debug)]
pub struct FeedHandler {
    feed: SocketAddr,
    node: String,
    worker: String,
    history: Option<Arc<History>>,
    subscriptions: Arc<Mutex<Subscriptions>>,
}

type Subscriptions = HashMap<(JobKey, Token), Subscription>;

impl FeedHandler {
    /// A handler for the worker of this number on this node.
    pub fn new(feed: SocketAddr, node: &str, number: usize) -> Self {
        Self {
            feed,
            node: node.to_owned(),
            worker: format!("{node}/{number}"),
            history: None,
            subscriptions: Arc::default(),
        }
    }

    /// Records in this history when the handler attends to which tenant.
    #[must_use]
    pub fn recorded_in(mut self, history: Arc<History>) -> Self {
        self.history = Some(history);
        self
    }

    /// Breaks all connections off, as a dying process does.
    pub fn cut(&self) {
        for (_, subscription) in self.subscriptions().drain() {
            subscription.cut();
        }
    }

    fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn subscribe(&self, job: &Job) -> Result<Subscription, SubscribeError> {
        let tenant: Tenant = serde_json::from_slice(&job.payload())?;
        let hello = Hello {
            tenant: tenant.id,
            token: job.token().0,
            node: self.node.clone(),
            worker: self.worker.clone(),
            symbol: tenant.symbol,
        };
        let attendance = self.history.clone().map(|history| Attendance::begin(history, &hello));
        Ok(Subscription::open(attendance, self.feed, hello, job).await?)
    }
}

#[derive(Debug, thiserror::Error)]
enum SubscribeError {
    #[error("the payload is no tenant")]
    Payload(#[from] serde_json::Error),
    #[error("the feed server did not take the tenant")]
    Session(#[from] SessionError),
}

fn id(job: &Job) -> (JobKey, Token) {
    (job.key().clone(), job.token())
}

impl JobHandler for FeedHandler {
    async fn start(&self, job: Job) -> Start {
        match self.subscribe(&job).await {
            Ok(subscription) => {
                self.subscriptions().insert(id(&job), subscription);
                Start::Started
            }
            // Another attempt, here or elsewhere, may find the server in a better state.
            Err(SubscribeError::Session(SessionError::Link(_) | SessionError::Closed)) => {
                Start::Refused { backoff: None }
            }
            Err(error) => Start::Failed(error.into()),
        }
    }

    async fn stop(&self, job: &Job, _why: StopReason) -> Result<(), BoxError> {
        let subscription = self.subscriptions().remove(&id(job));
        if let Some(subscription) = subscription {
            subscription.end().await;
        }
        Ok(())
    }

    async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
        let number = serde_json::from_slice(&body)?;
        let notifier = self.subscriptions().get(&id(job)).map(Subscription::notifier);
        notifier.ok_or("the job has no subscription")?.note(number).await?;
        Ok(())
    }
}
