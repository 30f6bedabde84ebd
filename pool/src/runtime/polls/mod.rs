//! Watches how handlers use their threads: which polls are under way, and which do not end.
//!
//! Each thread that polls handlers has a place that names the polled job. It does two stores before a poll and one
//! after it, on a cache line of its own. The lease thread looks at the places at intervals. A job costs nothing
//! between polls, and a poll reads no clock. The cost of a look grows with the threads, not with the jobs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;

use crate::core::time::Time;
use crate::job::Job;
use crate::model::id::{JobKey, NodeName, WorkerId};
use crate::model::serial;

/// A poll of this length blocks its thread.
const BLOCKED: Duration = Duration::from_secs(1);
/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A job whose handler blocks its thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockedJob {
    /// Its key.
    pub key: JobKey,
    /// The worker that runs it.
    pub worker: WorkerId,
    /// How long it has blocked the thread, at least.
    #[serde(serialize_with = "serial::lapse")]
    pub lasted: Duration,
}

/// The place where a thread names the job that it polls.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Place {
    /// Counts the polls.
    turn: AtomicU64,
    /// The job whose handler is being polled: zero for none.
    job: AtomicUsize,
}

/// The places of all threads of the process.
static PLACES: Mutex<Vec<Weak<Place>>> = Mutex::new(Vec::new());

thread_local! {
    static HERE: Arc<Place> = Place::of_this_thread();
}

impl Place {
    fn of_this_thread() -> Arc<Self> {
        let place = Arc::<Self>::default();
        let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
        places.retain(|place| place.strong_count() > 0);
        places.push(Arc::downgrade(&place));
        place
    }

    /// The job whose handler is being polled, and the number of the poll.
    fn polled(&self) -> Option<(u64, usize)> {
        let (turn, job) = (self.turn.load(Ordering::Relaxed), self.job.load(Ordering::Relaxed));
        (job != 0).then_some((turn, job))
    }
}

/// A poll of a job's handler on this thread, until it is dropped.
pub(super) struct Poll {
    /// None on a thread that is about to end.
    place: Option<Arc<Place>>,
    /// The poll that this one is nested in.
    outer: usize,
}

impl Poll {
    pub(super) fn of(job: &Job) -> Self {
        let place = HERE.try_with(Arc::clone).ok();
        let outer = place.as_ref().map_or(0, |place| {
            place.turn.store(place.turn.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            let outer = place.job.load(Ordering::Relaxed);
            place.job.store(job.address(), Ordering::Relaxed);
            outer
        });
        Self { place, outer }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            place.job.store(self.outer, Ordering::Relaxed);
        }
    }
}

/// Looks at the places, for one node.
#[derive(Debug, Default)]
pub(super) struct Observer {
    looked: Time,
    /// The polls that were under way at the last look.
    under_way: Vec<UnderWay>,
}

/// A poll that was under way at a look.
#[derive(Debug)]
struct UnderWay {
    place: Arc<Place>,
    polled: (u64, usize),
    /// The sum of the times between looks. So it does not grow while the whole process is stopped.
    lasted: Duration,
    blocks: Blocks,
}

/// Whether a poll blocks its thread.
#[derive(Debug)]
enum Blocks {
    NotYet,
    /// A poll of this job.
    Job(Job),
    /// A poll of another node in this process.
    Other,
}

impl Observer {
    /// Looks, if it is time. Logs polls that have begun to block a thread, and those that have ended. `find` returns
    /// the node's job for a place.
    pub(super) fn look(&mut self, now: Time, node: &NodeName, find: impl Fn(usize) -> Option<Job>) {
        let since = now.since(self.looked);
        if since < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let places: Vec<_> = {
            let places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
            places.iter().filter_map(Weak::upgrade).collect()
        };
        let mut before = std::mem::take(&mut self.under_way);
        for place in places {
            let Some(polled) = place.polled() else { continue };
            let same = |old: &UnderWay| Arc::ptr_eq(&old.place, &place) && old.polled == polled;
            let Some(old) = before.iter().position(same) else {
                let (lasted, blocks) = (Duration::ZERO, Blocks::NotYet);
                self.under_way.push(UnderWay { place, polled, lasted, blocks });
                continue;
            };
            let mut poll = before.swap_remove(old);
            poll.lasted += since.min(2 * LOOK_EVERY);
            if poll.lasted >= BLOCKED && matches!(poll.blocks, Blocks::NotYet) {
                poll.blocks = find(poll.polled.1).map_or(Blocks::Other, Blocks::Job);
                if let Blocks::Job(job) = &poll.blocks {
                    let (key, worker, blocked) = (job.key(), job.worker().0, poll.lasted);
                    tracing::warn!(
                        %node, %key, worker, ?blocked,
                        "a handler blocks its thread: nothing else runs on that thread"
                    );
                }
            }
            self.under_way.push(poll);
        }
        for poll in &before {
            if let Blocks::Job(job) = &poll.blocks {
                let (key, worker, blocked) = (job.key(), job.worker().0, poll.lasted);
                tracing::info!(%node, %key, worker, ?blocked, "a handler has let go of the thread that it blocked");
            }
        }
    }

    /// The node's jobs whose handlers block their threads.
    pub(super) fn blocked(&self) -> Vec<BlockedJob> {
        let blocked = self.under_way.iter().filter_map(|poll| match &poll.blocks {
            Blocks::Job(job) => {
                Some(BlockedJob { key: job.key().clone(), worker: job.worker(), lasted: poll.lasted })
            }
            _ => None,
        });
        blocked.collect()
    }
}

#[cfg(test)]
mod tests;
