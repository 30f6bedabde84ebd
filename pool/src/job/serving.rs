//! The jobs that run on a node, by key, for code beside the handlers: servers that answer for a key.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Job;
use crate::model::id::{JobKey, Token};

/// The number of locks: callers of different keys rarely meet at one.
const PARTS: usize = 16;

/// The started jobs of a node. Kept only if the node [serves](crate::NodeBuilder::serves).
#[derive(Debug, Default)]
pub(crate) struct Served {
    parts: [Mutex<HashMap<JobKey, Arc<Entry>>>; PARTS],
    hasher: RandomState,
    /// The node has ended.
    closed: AtomicBool,
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

    /// The job's start has succeeded. A start that comes late changes nothing: its job must end, or another worker of
    /// the node has the key under a higher token.
    pub(crate) fn enter(&self, job: &Job) {
        let mut part = self.part(job.key());
        let outranked = part.get(job.key()).is_some_and(|entry| entry.job.token() > job.token());
        if outranked || job.is_ending() || self.closed.load(Ordering::Acquire) {
            return;
        }
        let entry = Entry { job: job.clone(), over: AtomicBool::new(false), left: Notify::new() };
        if let Some(former) = part.insert(job.key().clone(), Arc::new(entry)) {
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
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clock;
    use crate::core::time::Time;
    use crate::job::Parts;
    use crate::job::checkpoint::Savers;
    use crate::job::guard::LeaseGuard;
    use crate::model::id::WorkerId;
    use crate::model::wire::{self, Envelope};

    fn job(token: u64, lease: &LeaseGuard) -> Job {
        Job::new(Parts {
            key: JobKey::new("key").unwrap(),
            payload: wire::open(&Envelope::new(b"").seal().unwrap()).unwrap(),
            token: Token(token),
            id: "node.id".parse().unwrap(),
            worker: WorkerId(1),
            attempts: 1,
            created_ms: 0,
            begun_ms: 0,
            lease: lease.clone(),
            savers: Savers::unheard(),
            checkpoint: None,
        })
    }

    fn lease() -> LeaseGuard {
        LeaseGuard::until(Time(clock::now().0 + 60_000_000_000))
    }

    fn token_of(served: &Served) -> Option<Token> {
        served.get(&JobKey::new("key").unwrap()).map(|serving| serving.token())
    }

    #[test]
    fn a_late_start_does_not_replace_the_next_owner() {
        let (served, lease) = (Served::default(), lease());
        let (former, next) = (job(5, &lease), job(7, &lease));
        served.enter(&next);
        served.enter(&former);
        assert_eq!(token_of(&served), Some(Token(7)));
        served.leave(&former);
        assert_eq!(token_of(&served), Some(Token(7)), "only its own entry");
        served.leave(&next);
        assert_eq!(token_of(&served), None);
    }

    #[test]
    fn a_job_without_a_lease_is_not_served() {
        let (served, lease) = (Served::default(), lease());
        let job = job(5, &lease);
        served.enter(&job);
        assert!(token_of(&served).is_some());
        lease.give_up();
        assert_eq!(token_of(&served), None);
        served.leave(&job);
        served.enter(&job);
        assert!(served.part(job.key()).is_empty(), "it has to end");
    }

    #[test]
    fn nothing_enters_when_the_node_has_ended() {
        let (served, lease) = (Served::default(), lease());
        served.close();
        served.enter(&job(5, &lease));
        assert_eq!(token_of(&served), None);
    }
}
