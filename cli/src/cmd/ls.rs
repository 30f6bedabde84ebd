//! `tenure ls`.

use std::future::ready;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use futures::StreamExt;
use tenure_pool::{Error, Inspector, JobInfo};

use super::Session;
use super::watch::Watch;
use crate::args::{Which, number};
use crate::exit::{Code, Failure};
use crate::out::List;
use crate::view::jobs::{Shown, all_meant, meant};

/// List the jobs
#[derive(Args, Debug)]
pub(crate) struct Ls {
    #[command(flatten)]
    which: Which,
    /// Only jobs that wait because a worker refused them with a reason
    #[arg(long)]
    refused: bool,
    /// The order. Without one, programs get each job as it is found, and perhaps twice
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    sort: Sort,
    /// At most this many
    #[arg(long, value_name = "COUNT", value_parser = number(0..=usize::MAX))]
    limit: Option<usize>,
    #[command(flatten)]
    watch: Watch,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// By key
    #[default]
    Key,
    /// Those first that have been as they are for longest
    Since,
    /// Queued jobs alone, those first that are tried again soonest
    Next,
    /// In no order
    None,
}

impl Ls {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let pool = session.place()?.inspector().await?;
        self.watch.run(session, async |session| self.print(&pool, session).await).await
    }

    fn shows(&self, job: &JobInfo) -> bool {
        !self.refused || job.refusal.is_some()
    }

    async fn next_tries(&self, pool: &Inspector) -> Result<Vec<JobInfo>, Error> {
        let (mut jobs, now) = (pool.next_tries(usize::MAX).await?, SystemTime::now());
        jobs.retain(|job| self.which.means(job, now));
        Ok(jobs)
    }

    async fn print(&self, pool: &Inspector, session: &mut Session) -> Result<Code, Failure> {
        let limit = self.limit.unwrap_or(usize::MAX);
        let mut list = List::new(&mut session.out)?;
        if self.sort == Sort::None {
            let jobs = Box::pin(meant(pool, &self.which).await?);
            let shows =
                |job: &Result<JobInfo, Error>| ready(job.as_ref().map_or(true, |job| self.shows(job)));
            let mut jobs = jobs.filter(shows).take(limit);
            while let Some(job) = jobs.next().await {
                list.row(&Shown::from(job?))?;
            }
        } else {
            let jobs = match self.sort {
                Sort::Next => self.next_tries(pool).await?,
                sort => {
                    let mut jobs = all_meant(pool, &self.which).await?;
                    if sort == Sort::Since {
                        jobs.sort_by_key(|job| job.since);
                    }
                    jobs
                }
            };
            for job in jobs.into_iter().filter(|job| self.shows(job)).take(limit) {
                list.row(&Shown::from(job))?;
            }
        }
        list.end()?;
        Ok(Code::Done)
    }
}
