//! A walk through the jobs of a pool: some pages with each picture, and again from the beginning after the last one.

use std::collections::BTreeMap;
use std::time::SystemTime;

use tenure_pool::inspect::{Cursor, ParkedJob, WorkerInfo};
use tenure_pool::{Error, Inspector, JobInfo, JobKey, JobState};

use crate::top::filter::Filter;
use crate::top::picture::{Found, Job};

/// How many pages are read for one picture.
const PAGES: usize = 8;
/// How many jobs a page has, about.
const PAGE: usize = 512;
/// How many jobs are kept, at most.
const KEPT: usize = 2_000;

/// The jobs that are walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Jobs,
    Parked,
}

pub(super) struct Walk {
    of: Of,
    text: String,
    filter: Filter,
    place: Place,
    /// The findings of this pass, and those of the last whole one.
    pass: Pass,
    last: Option<Pass>,
}

/// Where the pass goes on.
#[derive(Clone, Debug)]
enum Place {
    /// In the whole pool.
    Pool(Option<Cursor>),
    /// With a worker, by its number among those that are meant.
    Worker(usize, Option<JobKey>),
}

/// The findings of one way through the pool.
#[derive(Clone, Debug, Default)]
struct Pass {
    looked: u64,
    /// A job that is met again counts again.
    matching: u64,
    found: BTreeMap<JobKey, Job>,
}

impl Pass {
    fn take(&mut self, job: Job, filter: &Filter, now: SystemTime) {
        self.looked += 1;
        if !filter.means(&job, now) {
            return;
        }
        let is_new = self.found.insert(job.key.clone(), job).is_none();
        self.matching += u64::from(is_new);
        if self.found.len() > KEPT {
            self.found.pop_last();
        }
    }
}

impl Walk {
    pub(super) fn new(of: Of) -> Self {
        let (text, filter, place) = (String::new(), Filter::default(), Place::Pool(None));
        Self { of, text, filter, place, pass: Pass::default(), last: None }
    }

    /// Goes on, and returns what is found: of the last whole pass if there is one, else of this one. After an error the pass
    /// goes on where it was.
    pub(super) async fn go_on(
        &mut self,
        pool: &Inspector,
        text: &str,
        workers: &[WorkerInfo],
    ) -> Result<Found, Error> {
        if self.text != text {
            // A filter that cannot be read was refused where it was typed.
            let filter = Filter::parse(text).unwrap_or_default();
            *self = Self { text: text.to_owned(), filter, ..Self::new(self.of) };
            self.begin();
        }
        let owner = self.filter.owner();
        let meant = |worker: &&WorkerInfo| owner.as_ref().is_some_and(|named| named.means(worker));
        let meant: Vec<_> = workers.iter().filter(meant).collect();
        let now = SystemTime::now();
        for _ in 0..PAGES {
            match self.page(pool, &meant).await {
                Ok((jobs, next)) => {
                    for job in jobs {
                        self.pass.take(job, &self.filter, now);
                    }
                    if let Some(next) = next {
                        self.place = next;
                    } else {
                        self.begin_after();
                        break;
                    }
                }
                // The server that lists has changed: the places in its listing are gone.
                Err(Error::StaleCursor) => self.begin(),
                Err(error) => return Err(error),
            }
        }
        Ok(self.found())
    }

    fn begin(&mut self) {
        self.pass = Pass::default();
        let in_pool = self.of == Of::Parked || self.filter.owner().is_none();
        self.place = if in_pool { Place::Pool(None) } else { Place::Worker(0, None) };
    }

    fn begin_after(&mut self) {
        self.last = Some(std::mem::take(&mut self.pass));
        self.begin();
    }

    fn found(&self) -> Found {
        let Pass { found, matching, .. } = self.last.as_ref().unwrap_or(&self.pass);
        Found {
            filter: self.text.clone(),
            jobs: found.values().cloned().collect(),
            matching: *matching,
            looked: Some(self.pass.looked).filter(|looked| *looked > 0),
        }
    }

    /// A page, and where the next one begins.
    async fn page(
        &self,
        pool: &Inspector,
        workers: &[&WorkerInfo],
    ) -> Result<(Vec<Job>, Option<Place>), Error> {
        let next = |cursor: Option<Cursor>| cursor.map(|cursor| Place::Pool(Some(cursor)));
        match (&self.place, self.of) {
            (Place::Pool(at), Of::Jobs) => {
                let page = pool.jobs_page(*at, PAGE).await?;
                let jobs = page.items.into_iter().map(|job| listed(pool, job)).collect();
                Ok((jobs, next(page.next)))
            }
            (Place::Pool(at), Of::Parked) => {
                let page = pool.parked_page(*at, PAGE).await?;
                let jobs = page
                    .items
                    .into_iter()
                    .filter(|job| job.paused.is_none())
                    .map(|job| parked(pool, job))
                    .collect();
                Ok((jobs, next(page.next)))
            }
            (Place::Worker(at, after), _) => {
                let Some(worker) = workers.get(*at) else { return Ok((Vec::new(), None)) };
                let page = pool.jobs_of(worker, after.as_ref(), PAGE).await?;
                let next = match page.last() {
                    Some(last) => Place::Worker(*at, Some(last.key.clone())),
                    None => Place::Worker(at + 1, None),
                };
                Ok((page.into_iter().map(|job| listed(pool, job)).collect(), Some(next)))
            }
        }
    }
}

fn shard(pool: &Inspector, key: &JobKey) -> usize {
    pool.shard_of(key).unwrap_or_default()
}

fn listed(pool: &Inspector, job: JobInfo) -> Job {
    Job {
        shard: shard(pool, &job.key),
        key: job.key,
        state: job.state,
        worker: job.owner.map(|worker| worker.0),
        node: job.node,
        token: job.token.0,
        attempts: job.attempts,
        since: job.since,
        plan: job.plan,
        error: job.error,
        refusal: job.refusal,
        paused: job.paused.map(|pause| (pause.by, pause.reason, pause.until)),
    }
}

fn parked(pool: &Inspector, job: ParkedJob) -> Job {
    Job {
        shard: shard(pool, &job.key),
        key: job.key,
        state: JobState::Parked,
        worker: None,
        node: None,
        token: 0,
        attempts: job.attempts,
        since: job.since,
        plan: None,
        error: Some(job.error),
        refusal: None,
        paused: None,
    }
}
