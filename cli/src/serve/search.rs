//! Search over jobs, a bounded part at a time: the answer says where the next part begins.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tenure_pool::inspect::{Cursor, WorkerInfo};
use tenure_pool::{Inspector, JobInfo, JobKey, WorkerId};
use tokio::time::Instant;

use super::problem::Problem;
use super::source::look;
use crate::args::Which;

/// The most jobs that one answer has, about.
pub(super) const LIMIT: usize = 1_000;
/// How many jobs are read at once.
const PAGE: usize = 512;
/// How many jobs are looked at for one answer, and for how long.
const LOOKED_AT: usize = 20_000;
const TIME: Duration = Duration::from_secs(2);

/// A part of the jobs that are meant.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) jobs: Vec<JobInfo>,
    /// How many were looked at.
    pub(super) scanned: usize,
    /// Where the next part begins. None after the last one.
    pub(super) next: Option<String>,
}

impl Part {
    fn is_full(&self, limit: usize, began: Instant) -> bool {
        self.jobs.len() >= limit || self.scanned >= LOOKED_AT || began.elapsed() >= TIME
    }

    fn take(&mut self, jobs: Vec<JobInfo>, which: &Which, now: SystemTime) {
        self.scanned += jobs.len();
        self.jobs.extend(jobs.into_iter().filter(|job| which.means(job, now)));
    }
}

/// Where a search among the jobs of workers goes on: `SHARD:WORKER:KEY`, the key in base 64.
fn place(worker: &WorkerInfo, after: Option<&JobKey>) -> String {
    let after = after.map(|key| URL_SAFE_NO_PAD.encode(key.as_bytes())).unwrap_or_default();
    format!("w{}:{}:{after}", worker.shard, worker.id)
}

fn placed(text: &str) -> Option<(usize, WorkerId, Option<JobKey>)> {
    let mut parts = text.strip_prefix('w')?.split(':');
    let (shard, worker) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let after = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
    let after = if after.is_empty() { None } else { Some(JobKey::new(after).ok()?) };
    parts.next().is_none().then_some((shard, WorkerId(worker), after))
}

/// The jobs that are meant, from a place on.
///
/// # Errors
/// The place is none, or the pool cannot be read.
pub(super) async fn part(
    pool: &Inspector,
    which: &Which,
    from: Option<&str>,
    limit: usize,
) -> Result<Part, Problem> {
    if which.worker.is_some() || which.node.is_some() {
        of_workers(pool, which, from, limit).await
    } else {
        of_all(pool, which, from, limit).await
    }
}

fn strange(from: &str) -> Problem {
    Problem::usage(format!("{from:?} is no place in this list"))
}

async fn of_all(pool: &Inspector, which: &Which, from: Option<&str>, limit: usize) -> Result<Part, Problem> {
    let (began, now, mut part) = (Instant::now(), SystemTime::now(), Part::default());
    let mut at: Option<Cursor> = from.map(|from| from.parse().map_err(|_| strange(from))).transpose()?;
    loop {
        let page = look(pool.jobs_page(at, limit.min(PAGE))).await?;
        part.take(page.items, which, now);
        part.next = page.next.map(|next| next.to_string());
        if page.next.is_none() || part.is_full(limit, began) {
            return Ok(part);
        }
        at = page.next;
    }
}

async fn of_workers(
    pool: &Inspector,
    which: &Which,
    from: Option<&str>,
    limit: usize,
) -> Result<Part, Problem> {
    let (began, now, mut part) = (Instant::now(), SystemTime::now(), Part::default());
    let from = from.map(|from| placed(from).ok_or_else(|| strange(from))).transpose()?;
    let mut workers = look(pool.workers()).await?;
    workers.retain(|worker| which.means_worker(worker));
    workers.sort_by_key(|worker| (worker.shard, worker.id));
    for worker in workers {
        let own = (worker.shard, worker.id);
        let mut after = match &from {
            Some((shard, id, _)) if own < (*shard, *id) => continue,
            Some((shard, id, after)) if own == (*shard, *id) => after.clone(),
            _ => None,
        };
        loop {
            if part.is_full(limit, began) {
                part.next = Some(place(&worker, after.as_ref()));
                return Ok(part);
            }
            let page = look(pool.jobs_of(&worker, after.as_ref(), limit.min(PAGE))).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            part.take(page, which, now);
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_place_among_the_jobs_of_workers_is_plain_text() {
        let key = JobKey::new(&b"a:\xff"[..]).unwrap();
        assert_eq!(placed("w2:17:YTr_"), Some((2, WorkerId(17), Some(key))));
        assert_eq!(placed("w0:1:"), Some((0, WorkerId(1), None)));
        for text in ["", "17", "w", "w1:2", "w1:2:*", "w1:2::", "wx:2:"] {
            assert_eq!(placed(text), None, "{text}");
        }
    }
}
