//! The end of workers that drain, as one sees it who only looks: they left in order, or they were lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tenure_pool::{EventCursor, EventKind, Inspector, WorkerId, WorkerInfo};

use crate::exit::{Code, Failure};
use crate::out::progress::Progress;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(300);
/// How many events are read at once.
const PAGE: usize = 256;

/// A worker in its shard.
type Place = (usize, WorkerId);

/// The last that was seen of a worker.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// When it last renewed its lease, or earlier. `None` if it has not yet.
    renewed: Option<Instant>,
    jobs: u64,
}

impl Sight {
    /// Whether its lease may be over by now. If it is not, nobody else has ended the worker.
    fn may_be_over(&self, ttl: Duration, now: Instant) -> bool {
        self.renewed.is_none_or(|at| now.saturating_duration_since(at) >= ttl)
    }
}

/// Looks until each of these workers has gone.
///
/// # Errors
/// Some were lost, or the pool cannot be read.
pub(super) async fn gone(pool: &Inspector, leaving: &[WorkerInfo]) -> Result<(), Failure> {
    let ttl = pool.settings().await?.worker_ttl;
    let mut progress = Progress::new();
    let mut here: BTreeMap<Place, Sight> =
        leaving.iter().map(|worker| ((worker.shard, worker.id), Sight { renewed: None, jobs: 0 })).collect();
    let mut lost = BTreeMap::new();
    loop {
        let begun = Instant::now();
        let figures = pool.figures().await?;
        let mut seen = BTreeMap::new();
        for of in figures.workers {
            let place = (of.shard, of.worker);
            if let Some(before) = here.get(&place) {
                let renewed = of.renewed.and_then(|ago| begun.checked_sub(ago)).max(before.renewed);
                seen.insert(place, Sight { renewed, jobs: of.jobs });
            }
        }
        let now = Instant::now();
        let mut doubtful = BTreeMap::new();
        for (place, last) in here {
            match seen.get(&place) {
                // Its node is dead, hangs or is cut off. It may be that nobody is left who would end it.
                Some(sight) if sight.renewed.is_some() && sight.may_be_over(ttl, now) => {
                    lost.insert(place, *sight);
                    seen.remove(&place);
                }
                None if last.may_be_over(ttl, now) => {
                    doubtful.insert(place, last);
                }
                _ => {}
            }
        }
        lost.append(&mut not_left(pool, doubtful, ttl).await?);
        here = seen;
        if here.is_empty() {
            return told(leaving, &lost);
        }
        let jobs: u64 = here.values().map(|sight| sight.jobs).sum();
        progress.show(|| format!("{} workers have {jobs} jobs left", here.len()));
        tokio::time::sleep(PAUSE).await;
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

/// Says which workers were lost.
fn told(leaving: &[WorkerInfo], lost: &BTreeMap<Place, Sight>) -> Result<(), Failure> {
    let names = leaving.iter().filter_map(|worker| {
        let Sight { jobs, .. } = lost.get(&(worker.shard, worker.id))?;
        Some(format!("worker {} of node {}, with {jobs} jobs", worker.id, worker.node))
    });
    let names: Vec<_> = names.collect();
    let (it, its) = match names.len() {
        0 => return Ok(()),
        1 => ("it", "its lease is"),
        _ => ("they", "their leases are"),
    };
    let code = if names.len() == leaving.len() { Code::Failed } else { Code::SomeFailed };
    let names = names.join("; ");
    let text = format!("lost before {it} had drained: {names}; {its} over, and the jobs go to other workers");
    Err(Failure::new(code, text))
}
