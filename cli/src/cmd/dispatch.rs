//! `tenure dispatch`, `ensure` and `submit`: one job.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tenure_pool::{JobKey, JobSpec, Node, RestartPolicy};

use super::{Session, bulk, close};
use crate::args::{Body, KeyArg, number, time};
use crate::exit::{Code, Failure};
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
    /// The fate of the job.
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

/// A job, or many in a file.
#[derive(Args, Debug)]
pub(crate) struct Dispatch {
    /// The job's key
    #[arg(value_parser = KeyArg, value_name = "KEY", required_unless_present = "file")]
    key: Option<JobKey>,
    #[command(flatten)]
    body: Body,
    /// An id of your own: the same dispatch again starts no second job
    #[arg(long, conflicts_with = "file")]
    id: Option<String>,
    /// When the job runs again after it has ended by itself
    #[arg(long, value_enum, default_value_t)]
    policy: Policy,
    /// How long the job may make no progress before it starts anew
    #[arg(long, value_name = "TIME", value_parser = time)]
    progress_timeout: Option<Duration>,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    many: Many,
}

/// The options for many jobs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Many jobs")]
pub(crate) struct Many {
    /// Take the jobs from this file, `-` for stdin: JSON lines, or CSV with a line of names. The fields are key or key64,
    /// and payload or payload64, id and policy where wanted. The command reads and checks the whole file before the first job
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["key", "text", "body_file"])]
    pub(crate) file: Option<PathBuf>,
    /// Keep the progress in this file. The same command again goes on where it was, and starts no job twice
    #[arg(long, value_name = "STATEFILE", requires = "file")]
    pub(crate) resume: Option<PathBuf>,
    /// Go on after a failed job. A file with an error is refused as a whole, and no job is tried
    #[arg(long = "continue", requires = "file")]
    pub(crate) go_on: bool,
    /// At most this many jobs in a second
    #[arg(long, value_name = "COUNT", requires = "file", value_parser = number(NonZeroU32::MIN..=NonZeroU32::MAX))]
    pub(crate) rate: Option<NonZeroU32>,
}

/// The fate of one job.
#[derive(Serialize)]
pub(crate) struct Dispatched {
    key: Option<String>,
    key64: Option<String>,
    outcome: &'static str,
    dry_run: bool,
    /// The dispatch, where it is known.
    pub(crate) id: Option<String>,
}

impl Dispatched {
    /// A job with this fate.
    pub(crate) fn of(key: &JobKey, how: How) -> Self {
        let (key, key64) = shown::key_fields(key);
        Self { key, key64, outcome: how.outcome(), dry_run: false, id: None }
    }
}

impl Dispatch {
    pub(crate) async fn run(self, session: &mut Session, how: How) -> Result<Code, Failure> {
        let Self { key, body, id, policy, progress_timeout, dry_run, many } = self;
        let place = session.place()?;
        let with = |job: JobSpec| match progress_timeout {
            Some(timeout) => job.progress_timeout(timeout),
            None => job,
        };
        let Some(key) = key else {
            let jobs = bulk::Bulk { how, policy, many, dry_run };
            return jobs.run(session, &place, with).await;
        };
        let mut answer = Dispatched { dry_run, ..Dispatched::of(&key, how) };
        let job = with(JobSpec::new(key.clone(), body.read()?).restart(policy.into()));
        let job = match &id {
            Some(id) => job.id(id),
            None => job,
        };
        let title = shown::key(&key);
        if dry_run {
            // It also finds out that there is such a pool.
            place.inspector().await?;
            session.out.one(&answer, format!("{title} would be dispatched"))?;
            return Ok(Code::Done);
        }
        let node = place.node().await?;
        let done = one(&node, job, how, session.global.timeout).await;
        close(&node).await;
        answer.id = done?;
        let named = answer.id.as_ref().map(|id| format!(" as {id}")).unwrap_or_default();
        session.out.one(&answer, format!("{title} is {}{named}", how.outcome()))?;
        Ok(Code::Done)
    }
}

/// Dispatches a job. Returns its dispatch if the pool names it.
pub(crate) async fn one(
    node: &Node,
    job: JobSpec,
    how: How,
    within: Duration,
) -> Result<Option<String>, tenure_pool::DispatchError> {
    match how {
        How::Dispatch => node.dispatch(job).deadline(within).await.map(|()| None),
        How::Ensure => node.ensure(job).deadline(within).await.map(|()| None),
        How::Submit => node.submit(job).deadline(within).await.map(|ticket| Some(ticket.id.to_string())),
    }
}
