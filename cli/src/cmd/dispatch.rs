//! `tenure dispatch`, `ensure` and `submit`: one job.

use std::time::Duration;

use clap::Args;
use tenure_pool::{JobKey, JobSpec};

use super::bulk::{self, Many};
use super::{Session, close};
use crate::act::{Dispatched, How, Policy, one};
use crate::args::{Body, KeyArg, time};
use crate::exit::{Code, Failure};
use crate::out::shown;

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
        let mut answer = Dispatched::of(&key, how);
        answer.dry_run = dry_run;
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
        let taken = done?;
        let named = taken.id.as_ref().map(|id| format!(" as {id}")).unwrap_or_default();
        let text = format!("{title} is {}{named}", taken.outcome);
        session.out.one(&answer.taken(taken), text)?;
        Ok(Code::Done)
    }
}
