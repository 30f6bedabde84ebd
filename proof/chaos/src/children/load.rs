//! The users who dispatch and stop during the faults, each with keys of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenure_pool::{DispatchError, Error, JobSpec, Node, RestartPolicy};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::traces::Traces;

/// The number of users.
const USERS: usize = 4;
/// The longest time for a call, and by how much its answer may be late.
const DEADLINE: Duration = Duration::from_secs(20);
const LATE: Duration = Duration::from_secs(20);
/// The pause between two calls of a user, in ms.
const PAUSE_MS: std::ops::Range<u64> = 100..700;

/// A user's knowledge of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// No job of it exists.
    Gone,
    /// Its job was accepted.
    Lives,
    /// A call failed.
    Unknown,
}

/// The knowledge of the users at the end.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The keys whose jobs were accepted and not stopped.
    pub(super) alive: Vec<String>,
    /// Forbidden and missing answers.
    pub(super) strange: Vec<String>,
    pub(super) calls: u64,
}

/// The users; they end when this is dropped.
pub(super) struct Load {
    stop: CancellationToken,
    tasks: JoinSet<Vec<Key>>,
    strange: Arc<Mutex<Vec<String>>>,
}

impl Load {
    /// Makes the users call, with this many keys in all.
    pub(super) fn start(node: &Node, traces: &Traces, seed: u64, keys: usize) -> Self {
        let (stop, strange) = (CancellationToken::new(), Arc::<Mutex<Vec<String>>>::default());
        let (mut tasks, mut random) = (JoinSet::new(), StdRng::seed_from_u64(seed ^ 1));
        for number in 0..USERS {
            let keys = (number..keys).step_by(USERS).map(|key| Key {
                name: format!("key-{key}"),
                known: Known::Gone,
                calls: 0,
            });
            let user = User {
                node: node.clone(),
                traces: traces.clone(),
                keys: keys.collect(),
                random: StdRng::from_rng(&mut random),
                strange: strange.clone(),
            };
            tasks.spawn(user.go_on(stop.clone()));
        }
        Self { stop, tasks, strange }
    }

    /// Ends the calls, and returns what the users know.
    pub(super) async fn stop(mut self) -> Heard {
        self.stop.cancel();
        let mut known = Heard::default();
        while let Some(user) = self.tasks.join_next().await {
            match user {
                Ok(keys) => {
                    known.calls += keys.iter().map(|key| key.calls).sum::<u64>();
                    let alive = keys.into_iter().filter(|key| key.known == Known::Lives);
                    known.alive.extend(alive.map(|key| key.name));
                }
                Err(error) => known.strange.push(format!("a user has failed: {error}")),
            }
        }
        known.strange.append(&mut self.strange.lock().unwrap_or_else(PoisonError::into_inner));
        known
    }
}

struct Key {
    name: String,
    known: Known,
    calls: u64,
}

struct User {
    node: Node,
    traces: Traces,
    keys: Vec<Key>,
    random: StdRng,
    strange: Arc<Mutex<Vec<String>>>,
}

impl User {
    /// Calls until it is told to stop, and finishes the last call.
    async fn go_on(mut self, stop: CancellationToken) -> Vec<Key> {
        for at in 0..self.keys.len() {
            self.call(at).await;
        }
        while !stop.is_cancelled() {
            let at = self.random.random_range(0..self.keys.len());
            // Most jobs live for longer than a fault.
            if self.keys[at].known != Known::Lives || self.random.random_ratio(1, 5) {
                self.call(at).await;
            }
            sleep(Duration::from_millis(self.random.random_range(PAUSE_MS))).await;
        }
        self.keys
    }

    async fn call(&mut self, at: usize) {
        let (key, known) = (self.keys[at].name.clone(), self.keys[at].known);
        let now = match known {
            Known::Gone => self.dispatch(&key).await,
            Known::Lives | Known::Unknown => self.stop(&key, known).await,
        };
        self.keys[at].known = now;
        self.keys[at].calls += 1;
    }

    async fn dispatch(&self, key: &str) -> Known {
        let job = JobSpec::new(key, "").restart(RestartPolicy::Always);
        match timeout(DEADLINE + LATE, self.node.dispatch(job).deadline(DEADLINE)).await {
            Ok(Ok(()) | Err(DispatchError::Deadline { accepted: true, .. })) => Known::Lives,
            Ok(Err(DispatchError::JobExists { .. })) => {
                self.says(format!("{key}: it was stopped, and exists"))
            }
            Ok(Err(_)) => Known::Unknown,
            Err(_) => self.says(format!("{key}: a dispatch was not answered")),
        }
    }

    async fn stop(&self, key: &str, known: Known) -> Known {
        let stop = self.node.stop_job(key).deadline(DEADLINE).until_stopped();
        match timeout(DEADLINE + LATE, stop).await {
            Ok(Ok(()) | Err(Error::StopFailed { .. })) => match self.traces.is_free(key) {
                Ok(true) => Known::Gone,
                Ok(false) => self.says(format!("{key}: a process of it ran after its stop had returned")),
                Err(error) => self.says(format!("{key}: nobody knows whether it runs: {error}")),
            },
            Ok(Err(Error::JobNotFound(_))) if known == Known::Lives => {
                self.says(format!("{key}: it was accepted, and is lost"));
                Known::Gone
            }
            Ok(Err(Error::JobNotFound(_))) => Known::Gone,
            Ok(Err(_)) => Known::Unknown,
            Err(_) => self.says(format!("{key}: a stop was not answered")),
        }
    }

    fn says(&self, what: String) -> Known {
        self.strange.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        Known::Unknown
    }
}
