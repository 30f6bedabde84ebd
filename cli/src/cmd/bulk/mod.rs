//! Many jobs from a file, which can be killed at any point and run again.

mod lines;
mod resume;

use std::cell::Cell as Flag;
use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use futures::{StreamExt, stream};
use serde::Serialize;
use tenure_pool::{DispatchError, JobKey, JobSpec};

use self::lines::{Line, Lines};
use self::resume::Resume;
use super::{Session, close};
use crate::act::{How, Policy, one};
use crate::args::number;
use crate::connect::Place;
use crate::exit::{Code, Failure};
use crate::out::progress::Progress;
use crate::out::{Cell, Column, List, Row, Tone, shown};

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

/// How many jobs are under way at a time.
const WINDOW: usize = 256;

/// Jobs of a file.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub(crate) how: How,
    pub(crate) policy: Policy,
    pub(crate) many: Many,
    pub(crate) dry_run: bool,
}

/// The fate of a line.
#[derive(Serialize)]
struct Answer {
    line: u64,
    key: Option<String>,
    key64: Option<String>,
    outcome: &'static str,
    error: Option<String>,
    #[serde(skip)]
    title: String,
}

impl Row for Answer {
    const KIND: &'static str = "dispatches";
    const COLUMNS: &'static [Column] =
        &[Column::new("LINE").right(), Column::new("KEY"), Column::new("OUTCOME"), Column::new("WHY")];

    fn cells(&self, _: bool) -> Vec<Cell> {
        let tone = if self.error.is_some() { Tone::Bad } else { Tone::Good };
        let why = self.error.as_deref().map(shown::plain);
        vec![
            Cell::of(self.line),
            Cell::new(&self.title),
            Cell::new(self.outcome).tone(tone),
            Cell::maybe(why),
        ]
    }

    fn name(&self) -> String {
        self.title.clone()
    }
}

impl Answer {
    fn new(line: u64, key: &JobKey, outcome: &'static str, error: Option<String>) -> Self {
        let (text, key64) = shown::key_fields(key);
        Self { line, key: text, key64, outcome, error, title: shown::key(key) }
    }
}

impl Bulk {
    pub(crate) async fn run(
        self,
        session: &mut Session,
        place: &Place,
        with: impl Fn(JobSpec) -> JobSpec,
    ) -> Result<Code, Failure> {
        let Self { how, policy, many: Many { file, resume, go_on, rate }, dry_run } = self;
        let file = file.unwrap_or_default();
        let (lines, count) = Lines::open(&file, policy)?;
        if dry_run {
            place.inspector().await?;
            session.out.one(
                &serde_json::json!({"dry_run": true, "jobs": count}),
                format!("would dispatch {count} jobs"),
            )?;
            return Ok(Code::Done);
        }
        let node = place.node().await?;
        let mut resume = match resume {
            Some(path) => Some(Resume::open(&path, &file)?),
            None => None,
        };
        let run = resume.as_ref().map(|resume| resume.run().to_owned());
        let skipped = resume.as_ref().map(Resume::taken).unwrap_or_default();
        let (stops, broken) = (Flag::new(false), Flag::new(None));
        let wanted = lines.map_while(|line| match line {
            Ok(line) if !stops.get() => Some(line),
            Ok(_) => None,
            Err(failure) => {
                broken.set(Some(failure));
                None
            }
        });
        let wanted = wanted.filter(|line| !skipped.contains(&line.number));
        let pace = rate.map(|rate| tokio::time::interval(Duration::from_secs(1) / rate.get()));
        let paced = stream::unfold((wanted, pace), async |(mut wanted, mut pace)| {
            let line = wanted.next()?;
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            Some((line, (wanted, pace)))
        });
        let (within, node_, run_) = (session.global.timeout, &node, run.as_deref());
        let acts = paced.map(|line| {
            let Line { number, key, payload, id, policy } = line;
            let job = with(JobSpec::new(key.clone(), payload).restart(policy.into()));
            // An id that the same line has in each run: so no job starts twice.
            let id = id.or_else(|| run_.map(|run| format!("{run}.{number}")));
            let job = match id {
                Some(id) => job.id(id),
                None => job,
            };
            async move { (number, key, one(node_, job, how, within).await) }
        });
        let mut acts = Box::pin(acts.buffer_unordered(WINDOW));
        let (mut done, mut failures, mut first) = (0_u64, 0_u64, None::<DispatchError>);
        let is_data = session.out.format.is_data();
        let (mut list, mut progress) = (List::new(&mut session.out)?, Progress::new());
        let mut kept: io::Result<()> = Ok(());
        while let Some((number, key, result)) = acts.next().await {
            progress.show(|| format!("{done} jobs {}, {failures} failures", how.outcome()));
            match result {
                Ok(taken) => {
                    done += 1;
                    if let Some(resume) = &mut resume
                        && kept.is_ok()
                    {
                        kept = resume.done(number);
                        stops.set(stops.get() | kept.is_err());
                    }
                    if is_data {
                        list.row(&Answer::new(number, &key, taken.outcome, None))?;
                    }
                }
                Err(error) => {
                    failures += 1;
                    stops.set(!go_on);
                    list.row(&Answer::new(number, &key, "failed", Some(error.to_string())))?;
                    first.get_or_insert(error);
                }
            }
        }
        drop(acts);
        drop(progress);
        if is_data || failures > 0 {
            list.end()?;
        } else {
            drop(list);
        }
        close(&node).await;
        kept.map_err(|error| {
            Failure::new(Code::Failed, format!("the state file cannot be written: {error}"))
        })?;
        let taken = skipped.len();
        let before = if taken > 0 { format!(", {taken} were done before") } else { String::new() };
        let summary = format!("{done} jobs {}{before}", how.outcome());
        if let Some(failure) = broken.take() {
            return Err(Failure::new(failure.code, format!("{failure}; {summary}")));
        }
        if failures > 0 {
            let first = first.map(|error| format!(", the first with: {error}")).unwrap_or_default();
            return Err(Failure::new(Code::SomeFailed, format!("{failures} jobs failed{first}; {summary}")));
        }
        if !is_data {
            session.out.line(summary)?;
        }
        Ok(Code::Done)
    }
}
