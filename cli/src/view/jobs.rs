//! Jobs, as they are found and shown.

use std::time::SystemTime;

use futures::{Stream, StreamExt, stream};
use serde::Serialize;
use tenure_pool::inspect::{Cause, Why};
use tenure_pool::{Error, Inspector, JobInfo, JobState};

use crate::args::Which;
use crate::out::when::{as_maybe_stamp, as_stamp, brief, since};
use crate::out::{Cell, Column, Row, Tone, shown};

/// How many jobs of a worker are read at once.
const PAGE: usize = 4_096;

/// A job as it is printed.
#[derive(Serialize)]
pub(crate) struct Shown {
    key: Option<String>,
    key64: Option<String>,
    state: &'static str,
    worker: Option<u64>,
    node: Option<String>,
    token: u64,
    attempts: u32,
    #[serde(serialize_with = "as_stamp")]
    since: SystemTime,
    error: Option<String>,
    /// Since when is `since`.
    paused_by: Option<String>,
    pause_reason: Option<String>,
    #[serde(serialize_with = "as_maybe_stamp")]
    paused_until: Option<SystemTime>,
    #[serde(serialize_with = "as_maybe_stamp")]
    next_try: Option<SystemTime>,
    id: String,
    #[serde(serialize_with = "as_stamp")]
    created: SystemTime,
    generation: u64,
    plan: Option<String>,
    why: Option<Cause>,
    former_worker: Option<u64>,
    #[serde(skip)]
    because: Option<Why>,
    #[serde(skip)]
    title: String,
}

impl From<JobInfo> for Shown {
    fn from(job: JobInfo) -> Self {
        let (key, key64) = shown::key_fields(&job.key);
        let error = trouble(job.error.as_deref(), job.refusal.as_deref());
        Self {
            key,
            key64,
            state: word(job.state, job.paused.is_some()),
            worker: job.owner.map(|worker| worker.0),
            node: job.node,
            token: job.token.0,
            attempts: job.attempts,
            since: job.since,
            error,
            paused_by: job.paused.as_ref().map(|paused| paused.by.clone()),
            paused_until: job.paused.as_ref().and_then(|paused| paused.until),
            pause_reason: job.paused.map(|paused| paused.reason),
            next_try: job.next_try,
            id: job.id.to_string(),
            created: job.created,
            generation: job.generation,
            plan: job.plan,
            why: job.why.map(|why| why.cause),
            former_worker: job.why.and_then(|why| why.former).map(|worker| worker.0),
            because: job.why,
            title: shown::key(&job.key),
        }
    }
}

/// Why a job does not run that should: its error, or the reason of its last refusal.
pub(crate) fn trouble(error: Option<&str>, refusal: Option<&str>) -> Option<String> {
    let refusal = refusal.map(|why| format!("refused: {why}"));
    refusal.or_else(|| error.map(str::to_owned))
}

/// The word for the state of a job, and how it looks.
pub(crate) fn state(state: JobState, is_paused: bool) -> Cell {
    toned(word(state, is_paused))
}

/// How the word for a state looks.
fn toned(state: &'static str) -> Cell {
    Cell::new(state).tone(match state {
        "running" => Tone::Good,
        "parked" => Tone::Bad,
        _ => Tone::Warn,
    })
}

/// The word for the state of a job.
fn word(state: JobState, is_paused: bool) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Assigned => "assigned",
        JobState::Running => "running",
        JobState::Stopping => "stopping",
        JobState::Parked if is_paused => "paused",
        JobState::Parked => "parked",
        _ => "unknown",
    }
}

/// A pause in words: who wants it, why, and how long it still lasts.
pub(crate) type PauseSeen<'a> = (&'a str, &'a str, Option<SystemTime>);

/// The last error of a job, or its pause.
pub(crate) fn why(pause: Option<PauseSeen<'_>>, error: Option<&str>) -> Cell {
    match (pause, error) {
        (Some((by, reason, until)), _) => Cell::new(paused(by, reason, until)).tone(Tone::Warn),
        (None, Some(error)) => Cell::new(shown::plain(error)).tone(Tone::Bad),
        (None, None) => Cell::maybe(None::<String>),
    }
}

/// The pause of a job, in words: `by anna, for another 1h59m: ticket 7`.
fn paused(by: &str, reason: &str, until: Option<SystemTime>) -> String {
    let by = if by.is_empty() { String::new() } else { format!("by {by}") };
    let rest = until.map(|until| until.duration_since(SystemTime::now()).unwrap_or_default());
    let rest = rest.map(|rest| format!("for another {}", brief(rest))).unwrap_or_default();
    let by = [by, rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    match (&*by, reason) {
        (by, "") => by.to_owned(),
        ("", reason) => shown::plain(reason),
        (by, reason) => format!("{by}: {}", shown::plain(reason)),
    }
}

impl Row for Shown {
    const KIND: &'static str = "jobs";
    const COLUMNS: &'static [Column] = &[
        Column::new("KEY"),
        Column::new("STATE"),
        Column::new("WORKER").right(),
        Column::new("NODE"),
        Column::new("TOKEN").right(),
        Column::new("ATT").right(),
        Column::new("SINCE").right(),
        Column::new("HERE BECAUSE").wide(),
        Column::new("ID").wide(),
        Column::new("CREATED").right().wide(),
        Column::new("GEN").right().wide(),
        Column::new("PLAN").wide(),
        Column::new("WHY"),
    ];

    fn cells(&self, utc: bool) -> Vec<Cell> {
        let pause = self.paused_by.as_deref().zip(self.pause_reason.as_deref());
        let pause = pause.map(|(by, reason)| (by, reason, self.paused_until));
        vec![
            Cell::new(&self.title),
            toned(self.state),
            Cell::maybe(self.worker),
            Cell::maybe(self.node.as_ref()),
            Cell::of(self.token),
            Cell::of(self.attempts),
            Cell::new(since(self.since, utc)),
            Cell::maybe(self.because),
            Cell::new(&self.id),
            Cell::new(since(self.created, utc)),
            Cell::of(self.generation),
            Cell::maybe(self.plan.as_ref()),
            why(pause, self.error.as_deref()),
        ]
    }

    fn name(&self) -> String {
        self.title.clone()
    }
}

/// The jobs that are meant, in no order. A job may come twice. Jobs of workers are read from those.
pub(crate) async fn meant<'a>(
    pool: &'a Inspector,
    which: &'a Which,
) -> Result<impl Stream<Item = Result<JobInfo, Error>> + use<'a>, Error> {
    let now = SystemTime::now();
    let all = if which.worker.is_none() && which.node.is_none() {
        pool.job_stream().left_stream()
    } else {
        let workers = pool.workers().await?.into_iter().filter(|worker| which.means_worker(worker));
        let workers: Vec<_> = workers.collect();
        stream::iter(workers).flat_map(|worker| of_worker(pool, worker)).right_stream()
    };
    let is_meant = move |job: &Result<JobInfo, Error>| {
        let fits = job.as_ref().map_or(true, |job| which.means(job, now));
        std::future::ready(fits)
    };
    Ok(all.filter(is_meant))
}

/// The jobs of a worker, page by page.
fn of_worker(
    pool: &Inspector,
    worker: tenure_pool::inspect::WorkerInfo,
) -> impl Stream<Item = Result<JobInfo, Error>> {
    let pages = stream::unfold(Some(None), move |after| {
        let worker = worker.clone();
        async move {
            let after = after?;
            let page = pool.jobs_of(&worker, after.as_ref(), PAGE).await;
            let last = page.as_ref().ok().and_then(|jobs| jobs.last()).map(|job| Some(job.key.clone()));
            Some((page, last))
        }
    });
    pages.flat_map(|page| match page {
        Ok(jobs) => stream::iter(jobs.into_iter().map(Ok).collect::<Vec<_>>()),
        Err(error) => stream::iter(vec![Err(error)]),
    })
}

/// All jobs that are meant, by key, each once.
pub(crate) async fn all_meant(pool: &Inspector, which: &Which) -> Result<Vec<JobInfo>, Error> {
    let mut found = Box::pin(meant(pool, which).await?);
    let mut jobs = Vec::new();
    while let Some(job) = found.next().await {
        jobs.push(job?);
    }
    jobs.sort_by(|a: &JobInfo, b| a.key.cmp(&b.key));
    jobs.dedup_by(|a, b| a.key == b.key);
    Ok(jobs)
}
