//! `tenure notify`, `ask` and `update`: bytes for one job.

use clap::Args;
use serde::Serialize;
use tenure_pool::{JobKey, JobSpec};

use super::{Session, close};
use crate::act::Policy;
use crate::args::{Body, KeyArg, number};
use crate::exit::{Code, Failure};
use crate::out::shown;
use crate::view::payload::Payload;

#[derive(Serialize)]
struct Said {
    key: Option<String>,
    key64: Option<String>,
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Payload>,
}

impl Said {
    fn of(key: &JobKey, dry_run: bool) -> Self {
        let (text, key64) = shown::key_fields(key);
        Self { key: text, key64, dry_run, generation: None, answer: None }
    }
}

/// Looks for the job, for a dry run.
async fn look(session: &mut Session, key: &JobKey, would: &str) -> Result<Code, Failure> {
    let title = shown::key(key);
    let job = session.place()?.inspector().await?.job(key).await?;
    job.ok_or_else(|| Failure::new(Code::NotFound, format!("no job has the key {title}")))?;
    session.out.one(&Said::of(key, true), format!("{title} would be {would}"))?;
    Ok(Code::Done)
}

/// Leave a notification for a job
#[derive(Args, Debug)]
pub(crate) struct Notify {
    /// The job's key
    #[arg(value_parser = KeyArg)]
    key: JobKey,
    #[command(flatten)]
    body: Body,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Notify {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { key, body, dry_run } = self;
        let body = body.read()?;
        if dry_run {
            return look(session, &key, "notified").await;
        }
        let node = session.place()?.node().await?;
        let done = node.notify(&key, body).await;
        close(&node).await;
        done?;
        session.out.one(&Said::of(&key, false), format!("{} is notified", shown::key(&key)))?;
        Ok(Code::Done)
    }
}

/// Ask the owner of a job something, and print its answer
#[derive(Args, Debug)]
pub(crate) struct Ask {
    /// The job's key
    #[arg(value_parser = KeyArg)]
    key: JobKey,
    #[command(flatten)]
    body: Body,
    /// The question may be asked twice: it is asked again if its answer is lost
    #[arg(long)]
    idempotent: bool,
}

impl Ask {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { key, body, idempotent } = self;
        let body = body.read()?;
        let node = session.place()?.node().await?;
        let ask = node.ask(&key, body).deadline(session.global.timeout);
        let done = if idempotent { ask.idempotent().await } else { ask.await };
        close(&node).await;
        let payload = Payload::of(&done?);
        let text = payload.lines();
        session.out.one(&Said { answer: Some(payload), ..Said::of(&key, false) }, text)?;
        Ok(Code::Done)
    }
}

/// Give a job another payload: one that runs takes it, or starts anew with it
#[derive(Args, Debug)]
pub(crate) struct Update {
    /// The job's key
    #[arg(value_parser = KeyArg)]
    key: JobKey,
    #[command(flatten)]
    body: Body,
    /// When the job runs again after it has ended by itself: it replaces the policy that the job has
    #[arg(long, value_enum, default_value_t)]
    policy: Policy,
    /// Only if the pool has changed its payload this many times since its dispatch
    #[arg(long, value_name = "COUNT", value_parser = number(0..=u64::MAX))]
    expect_generation: Option<u64>,
    /// Say what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Update {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { key, body, policy, expect_generation, dry_run } = self;
        if !body.is_given() {
            return Err(Failure::usage("give the payload as TEXT, or in a --body-file"));
        }
        let body = body.read()?;
        if dry_run {
            return look(session, &key, "updated").await;
        }
        let node = session.place()?.node().await?;
        let job = JobSpec::new(key.clone(), body).restart(policy.into());
        let update = node.update(job).deadline(session.global.timeout);
        let done = match expect_generation {
            Some(generation) => update.expect_generation(generation).await,
            None => update.await,
        };
        close(&node).await;
        let generation = done?;
        let text = format!("{} has the payload of generation {generation}", shown::key(&key));
        session.out.one(&Said { generation: Some(generation), ..Said::of(&key, false) }, text)?;
        Ok(Code::Done)
    }
}
