//! The dispatch of a job.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tenure_pool::node::Ensured;
use tenure_pool::{DispatchError, JobKey, JobSpec, Node, RestartPolicy};

use crate::out::shown;

/// How a job is dispatched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum How {
    /// It must be new, and is waited for until it has started.
    #[default]
    Dispatch,
    /// It may be there already.
    Ensure,
    /// It must be new, and is waited for until the pool has accepted it.
    Submit,
}

impl How {
    /// The fate of jobs that the pool has taken.
    pub(crate) fn outcome(self) -> &'static str {
        match self {
            Self::Dispatch => "started",
            Self::Ensure => "there",
            Self::Submit => "accepted",
        }
    }
}

/// When a job runs again that ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    /// Never
    #[default]
    Never,
    /// After a failure
    OnFailure,
    /// Always
    Always,
}

impl From<Policy> for RestartPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Never => Self::Never,
            Policy::OnFailure => Self::OnFailure,
            Policy::Always => Self::Always,
        }
    }
}

/// The fate of one job.
#[derive(Serialize)]
pub(crate) struct Dispatched {
    key: Option<String>,
    key64: Option<String>,
    outcome: &'static str,
    /// Nothing was done.
    pub(crate) dry_run: bool,
    /// The dispatch, where it is known.
    id: Option<String>,
}

impl Dispatched {
    /// A job with this fate.
    pub(crate) fn of(key: &JobKey, how: How) -> Self {
        let (key, key64) = shown::key_fields(key);
        Self { key, key64, outcome: how.outcome(), dry_run: false, id: None }
    }

    /// The same job, which the pool has taken.
    pub(crate) fn taken(self, Taken { outcome, id }: Taken) -> Self {
        Self { outcome, id, ..self }
    }
}

/// A job that the pool has taken.
pub(crate) struct Taken {
    /// Its fate.
    pub(crate) outcome: &'static str,
    /// The dispatch, if it is not waited for.
    pub(crate) id: Option<String>,
}

/// Dispatches a job.
pub(crate) async fn one(
    node: &Node,
    job: JobSpec,
    how: How,
    within: Duration,
) -> Result<Taken, DispatchError> {
    let taken = |outcome| Taken { outcome, id: None };
    match how {
        How::Dispatch => node.dispatch(job).deadline(within).await.map(|()| taken("started")),
        How::Ensure => node
            .ensure(job)
            .deadline(within)
            .await
            .map(|found| taken(if found == Ensured::Started { "started" } else { how.outcome() })),
        How::Submit => {
            let ticket = node.submit(job).deadline(within).await?;
            Ok(Taken { outcome: how.outcome(), id: Some(ticket.id.to_string()) })
        }
    }
}
