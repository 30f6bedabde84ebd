//! A forecast that grows: some pages of jobs with each picture, and again from the beginning after the last one.

use tenure_pool::inspect::{Cursor, WorkerInfo};
use tenure_pool::{Error, Inspector};

use crate::top::picture::{Simulated, Supposed};
use crate::view::moves::{Forecast, Tally};

/// How many pages are read for one picture.
const PAGES: usize = 8;
/// How many jobs a page has, about.
const PAGE: usize = 512;

/// The forecast of one supposition in a pool with these members.
pub(super) struct Supposing {
    supposed: Supposed,
    members: Vec<WorkerInfo>,
    /// This pass, where it goes on, and the last whole one.
    tally: Tally,
    place: Option<Cursor>,
    last: Option<Forecast>,
}

impl Supposing {
    /// The forecast of `before`, or of another one where something else is supposed or other workers are there.
    ///
    /// # Errors
    /// The rings cannot be read.
    async fn of(
        before: Option<Self>,
        pool: &Inspector,
        supposed: &Supposed,
        members: &[WorkerInfo],
    ) -> Result<Self, Error> {
        match before {
            Some(before) if before.supposed == *supposed && before.members == members => Ok(before),
            _ => {
                let tally = tally(pool, supposed, members).await?;
                let (supposed, members) = (supposed.clone(), members.to_vec());
                Ok(Self { supposed, members, tally, place: None, last: None })
            }
        }
    }

    /// Goes on, and returns what is known: of the last whole pass if there is one, else of this one. After an error the
    /// forecast begins anew.
    pub(super) async fn go_on(
        slot: &mut Option<Self>,
        pool: &Inspector,
        supposed: &Supposed,
        members: &[WorkerInfo],
    ) -> Result<Simulated, Error> {
        let mut now = Self::of(slot.take(), pool, supposed, members).await?;
        for _ in 0..PAGES {
            let page = match pool.jobs_page(now.place, PAGE).await {
                Ok(page) => page,
                // The server that lists has changed: the places in its listing are gone.
                Err(Error::StaleCursor) => {
                    (now.tally, now.place) = (tally(pool, supposed, members).await?, None);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for job in &page.items {
                now.tally.take(pool.shard_of(&job.key)?, job);
            }
            now.place = page.next;
            if now.place.is_none() {
                let next = tally(pool, supposed, members).await?;
                now.last = Some(std::mem::replace(&mut now.tally, next).forecast());
                break;
            }
        }
        let seen = match &now.last {
            Some(whole) => Simulated { supposed: supposed.clone(), forecast: whole.clone(), whole: true },
            None => {
                Simulated { supposed: supposed.clone(), forecast: now.tally.clone().forecast(), whole: false }
            }
        };
        *slot = Some(now);
        Ok(seen)
    }
}

async fn tally(pool: &Inspector, supposed: &Supposed, members: &[WorkerInfo]) -> Result<Tally, Error> {
    let goes = |worker: &WorkerInfo| supposed.goes.contains(&(worker.shard, worker.id.0));
    Ok(Tally::new(&pool.rings().await?, members, goes, supposed.joins))
}
