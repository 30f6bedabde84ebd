//! `tenure get`.

use clap::Args;
use serde::Serialize;
use tenure_pool::JobKey;

use super::Session;
use crate::args::KeyArg;
use crate::exit::{Code, Failure};
use crate::out::{Row, shown};
use crate::view::jobs::Shown;
use crate::view::payload::Payload;

/// Print one job
#[derive(Args, Debug)]
pub(crate) struct Get {
    /// The job's key
    #[arg(value_parser = KeyArg)]
    key: JobKey,
    /// Print its payload, too
    #[arg(long)]
    payload: bool,
    /// Print its checkpoint, too
    #[arg(long)]
    checkpoint: bool,
}

#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    job: Shown,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Payload>,
}

impl Get {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { key, payload, checkpoint } = self;
        let pool = session.place()?.inspector().await?;
        let absent = || Failure::new(Code::NotFound, format!("no job has the key {}", shown::key(&key)));
        let job = Shown::from(pool.job(&key).await?.ok_or_else(absent)?);
        let payload = if payload { pool.payload(&key).await?.map(|bytes| Payload::of(&bytes)) } else { None };
        let checkpoint = if checkpoint {
            pool.checkpoint_of(&key).await?.map(|kept| Payload::of(kept.bytes()))
        } else {
            None
        };
        let utc = session.out.utc;
        let heads = Shown::COLUMNS.iter().map(|column| column.head.to_lowercase());
        let mut lines: Vec<_> = heads.zip(job.cells(utc)).map(|(head, cell)| (head, cell.text)).collect();
        lines.extend(payload.as_ref().map(|payload| ("payload".to_owned(), payload.to_string())));
        lines.extend(checkpoint.as_ref().map(|kept| ("checkpoint".to_owned(), kept.to_string())));
        let text =
            lines.iter().map(|(head, text)| format!("{head:<11} {text}")).collect::<Vec<_>>().join("\n");
        let answer = Answer { job, payload, checkpoint };
        session.out.one(&answer, text)?;
        Ok(Code::Done)
    }
}
