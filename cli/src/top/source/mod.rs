//! Reads the pool for the screens. A read takes the same bounded set of commands, however many jobs the pool has. It has a
//! deadline, and joins nothing.

mod news;
mod supposing;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use tenure_pool::event::{Event, EventCursor};
use tenure_pool::inspect::{
    Explanation, Figures, NodeStatus, Overview, PoolPhase, RingView, ShardState, WorkerInfo,
};
use tenure_pool::{Error, Inspector, JobKey};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use self::news::News;
use self::supposing::Supposing;
use self::walk::{Of, Walk};
use super::model::Msg;
use super::picture::{Chain, Counts, Explained, Happening, Picture, Said, Wanted, Worker};
use crate::out::shown;
use crate::view::events::cause;
use crate::view::explain::tone;

/// The most time that a read may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// The least time between two reads.
const GAP: Duration = Duration::from_millis(100);
/// How far back the first events are.
const PAST: Duration = Duration::from_secs(3_600);

/// Reads again and again, and at once when something else is wanted, until nobody listens any more.
pub(super) async fn run(
    pool: Inspector,
    every: Duration,
    mut wanted: watch::Receiver<Wanted>,
    to: mpsc::Sender<Msg>,
) {
    let mut source = Source::new(pool);
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        let now = wanted.borrow_and_update().clone();
        if !now.paused {
            let msg = match timeout(DEADLINE, source.read(&now)).await {
                Ok(Ok(picture)) => Msg::Read(Box::new(picture)),
                Ok(Err(error)) => Msg::Silent(error.to_string()),
                Err(_) => Msg::Silent(format!("no answer within {} s", DEADLINE.as_secs())),
            };
            if to.send(msg).await.is_err() {
                return;
            }
        }
        tokio::select! {
            _ = ticks.tick() => {}
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
                sleep(GAP).await;
            }
        }
    }
}

struct Source {
    pool: Inspector,
    news: News,
    jobs: Walk,
    parked: Walk,
    supposing: Option<Supposing>,
}

impl Source {
    fn new(pool: Inspector) -> Self {
        let past = SystemTime::now().checked_sub(PAST).map(EventCursor::since);
        let (jobs, parked) = (Walk::new(Of::Jobs), Walk::new(Of::Parked));
        let news = News::after(past.unwrap_or_default(), &pool);
        Self { pool, news, jobs, parked, supposing: None }
    }

    /// One picture. After an error, or if the call is dropped, the next one goes on where this one began.
    async fn read(&mut self, wanted: &Wanted) -> Result<Picture, Error> {
        let pool = &self.pool;
        let (seen, ()) = tokio::try_join!(pool.overview(), self.news.hear().map(Ok))?;
        let Overview { shards, settings, workers, figures, statuses, .. } = seen;
        let rings = if wanted.ring { pool.rings().await? } else { Vec::new() };
        let jobs = match &wanted.jobs {
            Some(filter) => Some(self.jobs.go_on(pool, filter, &workers).await?),
            None => None,
        };
        let parked = match &wanted.parked {
            Some(filter) => Some(self.parked.go_on(pool, filter, &workers).await?),
            None => None,
        };
        let explained = match &wanted.explained {
            Some(key) => Some(explained(&pool.explain(key).await?)),
            None => None,
        };
        let simulated = match &wanted.supposed {
            Some(supposed) => Some(Supposing::go_on(&mut self.supposing, pool, supposed, &workers).await?),
            None => None,
        };
        let chain = wanted.chain.as_ref().and_then(|key| chain(pool, &rings, key));
        let (events, dropped) = self.news.take();
        Ok(Picture {
            phase: phase(&shards),
            server_changed: shards.iter().any(|state| state.server_changed),
            hold: settings.hold,
            ttl: settings.worker_ttl,
            counts: counts(&figures),
            workers: rows(workers, &figures, &statuses),
            news: events.into_iter().map(happening).collect(),
            dropped,
            jobs,
            parked,
            explained,
            rings: rings.iter().map(slots).collect(),
            chain,
            simulated,
        })
    }
}

/// The phase of the shard that is furthest from open.
fn phase(states: &[ShardState]) -> PoolPhase {
    let far = states.iter().map(|state| state.phase).find(|phase| *phase != PoolPhase::Open);
    far.unwrap_or(PoolPhase::Open)
}

fn counts(figures: &Figures) -> Counts {
    let Figures { jobs, queued, waiting, parked, oldest_queued, .. } = *figures;
    Counts { jobs, queued, waiting, parked, oldest: oldest_queued }
}

fn rows(workers: Vec<WorkerInfo>, figures: &Figures, said: &[NodeStatus]) -> Vec<Worker> {
    let said: BTreeMap<_, _> = said.iter().map(|of| ((of.shard, &*of.node), of)).collect();
    let jobs: BTreeMap<_, _> = figures.workers.iter().map(|of| ((of.shard, of.worker), of.jobs)).collect();
    let row = |worker: WorkerInfo| {
        let of = said.get(&(worker.shard, &*worker.node));
        let said = of.map(|of| {
            let own = of.workers.iter().find(|counts| counts.worker == worker.id);
            let (to_start, to_move, stuck) =
                own.map(|own| (own.to_start, own.to_move, own.stuck)).unwrap_or_default();
            let (host, version) = (shown::plain(&of.host), shown::plain(&of.version));
            Said { host, pid: of.pid, version, up: of.up, to_start, to_move, stuck }
        });
        Worker {
            shard: worker.shard,
            id: worker.id.0,
            jobs: jobs.get(&(worker.shard, worker.id)).copied().unwrap_or_default(),
            node: worker.node,
            state: worker.state,
            cordoned: worker.cordoned,
            said,
        }
    };
    workers.into_iter().map(row).collect()
}

fn happening(event: Event) -> Happening {
    let why = match (event.why, &*event.text) {
        (Some(why), "") => cause(why).to_owned(),
        (_, text) => shown::plain(text),
    };
    Happening {
        at: event.at,
        kind: event.kind,
        keys: event.keys,
        count: event.count,
        worker: event.worker.map(|worker| worker.0),
        why,
        node: shown::plain(&event.node),
    }
}

fn explained(seen: &Explanation) -> Explained {
    Explained {
        key: seen.key.clone(),
        text: seen.to_string(),
        tone: tone(&seen.verdict),
        paused: seen.paused.is_some(),
        remedy: seen.remedy(),
    }
}

fn slots(ring: &RingView) -> Vec<Option<u64>> {
    ring.slots().into_iter().map(|worker| worker.map(|worker| worker.0)).collect()
}

fn chain(pool: &Inspector, rings: &[RingView], key: &JobKey) -> Option<Chain> {
    let shard = pool.shard_of(key).ok()?;
    let workers = rings.get(shard)?.chain(key).into_iter().map(|worker| worker.0).collect();
    Some(Chain { key: key.clone(), shard, workers })
}
