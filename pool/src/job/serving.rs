//! The jobs that run on a node, by key, for code beside the handlers: servers that answer for a key.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Job;
use crate::model::id::{JobKey, Token};

/// So many callers at once rarely wait for each other.
const PARTS: usize = 16;

/// The started jobs of a node. Kept only if the node [serves](crate::NodeBuilder::serves).
#[derive(Debug, Default)]
pub(crate) struct Served {
    parts: [Mutex<HashMap<JobKey, Arc<Entry>>>; PARTS],
    hasher: RandomState,
}

#[derive(Debug)]
struct Entry {
    job: Job,
    /// The job has left the index.
    over: AtomicBool,
    left: Notify,
}

impl Served {
    fn part(&self, key: &JobKey) -> MutexGuard<'_, HashMap<JobKey, Arc<Entry>>> {
        let at = self.hasher.hash_one(key) as usize % PARTS;
        self.parts[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job's start has succeeded.
    pub(crate) fn enter(&self, job: &Job) {
        let entry = Entry { job: job.clone(), over: AtomicBool::new(false), left: Notify::new() };
        let former = self.part(job.key()).insert(job.key().clone(), Arc::new(entry));
        if let Some(former) = former {
            former.leave();
        }
    }

    /// The job ends, or has ended.
    pub(crate) fn leave(&self, job: &Job) {
        let mut part = self.part(job.key());
        if part.get(job.key()).is_some_and(|entry| entry.job.address() == job.address())
            && let Some(entry) = part.remove(job.key())
        {
            entry.leave();
        }
    }

    /// The job with this key, if it may still act for the key.
    pub(crate) fn get(&self, key: &JobKey) -> Option<Serving> {
        let serving = Serving { entry: self.part(key).get(key)?.clone() };
        serving.check().then_some(serving)
    }

    /// The node has ended.
    pub(crate) fn clear(&self) {
        for part in &self.parts {
            for (_, entry) in part.lock().unwrap_or_else(PoisonError::into_inner).drain() {
                entry.leave();
            }
        }
    }
}

impl Entry {
    fn leave(&self) {
        self.over.store(true, Ordering::Release);
        self.left.notify_waiters();
    }
}

/// A job that runs on this node now, from [`Node::serving`](crate::Node::serving).
#[derive(Clone, Debug)]
pub struct Serving {
    entry: Arc<Entry>,
}

impl Serving {
    /// The job.
    pub fn job(&self) -> &Job {
        &self.entry.job
    }

    /// The fencing token of the ownership. Put it into each answer: an answer with a lower token than one that was
    /// seen for the key comes from a former owner.
    pub fn token(&self) -> Token {
        self.entry.job.token()
    }

    /// Whether the job still runs here and its lease lasts. Check it after each pause, and before the answer is sent.
    pub fn check(&self) -> bool {
        let Entry { job, over, .. } = &*self.entry;
        !over.load(Ordering::Acquire) && !job.is_ending() && job.lease().check()
    }

    /// Waits until the job must end, or has ended. Close long connections then: their clients find the next owner.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn ended(&self) {
        let Entry { job, over, left } = &*self.entry;
        let left = left.notified();
        let mut left = std::pin::pin!(left);
        left.as_mut().enable();
        if !over.load(Ordering::Acquire) {
            tokio::select! {
                () = left => {}
                () = job.ending() => {}
            }
        }
    }
}
