//! The end of workers that drain, as one sees it who only looks: they left in order, or they were lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tenure_pool::event::{EventCursor, EventKind};
use tenure_pool::inspect::WorkerInfo;
use tenure_pool::{Inspector, WorkerId};

use crate::exit::{Code, Failure};
use crate::out::progress::Progress;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);
/// How many events are read at once.
const PAGE: usize = 256;

/// A worker in its shard.
type Place = (usize, WorkerId);

/// The last that was seen of a worker.
#[derive(Clone, Copy, Debug, Default)]
struct Sight {
    /// It last renewed its lease between these two moments. A look takes time. `None` if it has not yet.
    renewed: Option<(Instant, Instant)>,
    jobs: u64,
}

impl Sight {
    /// Whether its lease may be over by now. If it is not, nobody else has ended the worker.
    fn may_be_over(&self, ttl: Duration, now: Instant) -> bool {
        self.renewed.is_none_or(|(from, _)| now.saturating_duration_since(from) >= ttl)
    }

    /// Whether its lease is over for sure.
    fn is_over(&self, ttl: Duration, now: Instant) -> bool {
        self.renewed.is_some_and(|(_, till)| now.saturating_duration_since(till) >= ttl)
    }
}

/// Workers that are looked at until they have gone.
pub(super) struct Leaving<'a> {
    pool: &'a Inspector,
    workers: &'a [WorkerInfo],
    ttl: Duration,
    here: BTreeMap<Place, Sight>,
    lost: BTreeMap<Place, Sight>,
}

impl<'a> Leaving<'a> {
    /// Looks at them before they are told to drain: the first may have gone soon after that.
    ///
    /// # Errors
    /// The pool cannot be read.
    pub(super) async fn begin(pool: &'a Inspector, workers: &'a [WorkerInfo]) -> Result<Self, Failure> {
        let ttl = pool.settings().await?.worker_ttl;
        let here = workers.iter().map(|worker| ((worker.shard, worker.id), Sight::default())).collect();
        let mut leaving = Self { pool, workers, ttl, here, lost: BTreeMap::new() };
        let (seen, _) = leaving.look().await?;
        leaving.here.extend(seen);
        Ok(leaving)
    }

    /// Those of them that are there, and when that was answered.
    async fn look(&self) -> Result<(BTreeMap<Place, Sight>, Instant), Failure> {
        let begun = Instant::now();
        let figures = self.pool.figures().await?;
        let answered = Instant::now();
        let mut seen = BTreeMap::new();
        for of in figures.workers {
            let place = (of.shard, of.worker);
            if let Some(before) = self.here.get(&place) {
                let renewed =
                    of.renewed.and_then(|ago| Some((begun.checked_sub(ago)?, answered.checked_sub(ago)?)));
                // Older data than those of the look before say nothing new.
                seen.insert(place, Sight { renewed: renewed.max(before.renewed), jobs: of.jobs });
            }
        }
        Ok((seen, answered))
    }

    /// Looks until each of them has gone.
    ///
    /// # Errors
    /// Some were lost, or the pool cannot be read.
    pub(super) async fn gone(&mut self) -> Result<(), Failure> {
        let mut progress = Progress::new();
        loop {
            let (mut seen, now) = self.look().await?;
            let mut doubtful = BTreeMap::new();
            for (place, last) in &self.here {
                match seen.get(place) {
                    // Its node is dead, hangs or is cut off. It may be that nobody is left who would end it.
                    Some(sight) if sight.is_over(self.ttl, now) => {
                        self.lost.insert(*place, *sight);
                        seen.remove(place);
                    }
                    None if last.may_be_over(self.ttl, now) => {
                        doubtful.insert(*place, *last);
                    }
                    _ => {}
                }
            }
            self.lost.append(&mut not_left(self.pool, doubtful, self.ttl).await?);
            self.here = seen;
            if self.here.is_empty() {
                return self.all_gone();
            }
            let jobs: u64 = self.here.values().map(|sight| sight.jobs).sum();
            progress.show(|| format!("{} workers have {jobs} jobs left", self.here.len()));
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Why nobody waits any longer, and which workers were lost until then.
    pub(super) fn unfinished(&self, code: Code, why: &str) -> Failure {
        let lost = self.lost().map_or(String::new(), |lost| format!("; {lost}"));
        Failure::new(code, format!("{why}{lost}"))
    }

    fn all_gone(&self) -> Result<(), Failure> {
        let Some(lost) = self.lost() else { return Ok(()) };
        let code = if self.lost.len() == self.workers.len() { Code::Failed } else { Code::SomeFailed };
        Err(Failure::new(code, lost))
    }

    /// The workers that were lost.
    fn lost(&self) -> Option<String> {
        let names = self.workers.iter().filter_map(|worker| {
            let Sight { jobs, .. } = self.lost.get(&(worker.shard, worker.id))?;
            Some(format!("worker {} of node {}, with {jobs} jobs", worker.id, worker.node))
        });
        let names: Vec<_> = names.collect();
        let (it, its) = match names.len() {
            0 => return None,
            1 => ("it", "its lease is"),
            _ => ("they", "their leases are"),
        };
        let names = names.join("; ");
        Some(format!("lost before {it} had drained: {names}; {its} over, and the jobs go to other workers"))
    }
}

/// Those of these workers that were lost, by the words of the nodes. A worker that nobody has a word about counts as lost.
async fn not_left(
    pool: &Inspector,
    mut gone: BTreeMap<Place, Sight>,
    ttl: Duration,
) -> Result<BTreeMap<Place, Sight>, Failure> {
    let (mut lost, mut left) = (BTreeMap::new(), BTreeSet::new());
    let (mut next, begun) = (EventCursor::default(), Instant::now());
    while !gone.is_empty() {
        let page = pool.events(&next, PAGE).await?;
        for event in page.events {
            let Some(place) = event.worker.map(|worker| (event.shard, worker)) else { continue };
            match event.kind {
                EventKind::Left => {
                    left.insert(place);
                }
                EventKind::Lost => lost.extend(gone.remove(&place).map(|sight| (place, sight))),
                _ => {}
            }
        }
        next = page.next;
        if page.is_last {
            // A node that was lost may say later that its worker left.
            gone.retain(|place, _| !left.contains(place));
            // A node notes a thing soon after it, if the pool keeps notes at all.
            if begun.elapsed() >= ttl {
                lost.append(&mut gone);
            } else if !gone.is_empty() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    Ok(lost)
}
