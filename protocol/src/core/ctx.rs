//! The context that every part of the core sees: time, settings, and the list of effects.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::batcher::is_of_an_item;
use super::call::Call;
use super::effect::{Effect, Notice};
use super::input::{Answer, ReplyTo};
use super::lease::Timing;
use super::time::{Jitter, Time};
use crate::model::id::{Incarnation, JobKey, NodeName, WorkerId};
use crate::model::settings::{Given, HASH_KEYS, Settings};
use crate::mutation::Mutations;
use crate::step::{Result, StoreError};

/// The pause before a failed or impossible action is tried again.
pub const RETRY: Duration = Duration::from_millis(100);

/// The reason why a node joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To take part in a pool; the node creates the pool if there is none.
    #[default]
    Part,
    /// The same, and the other shards of the pool have ended in whose first shard this incarnation is.
    PartAfter(Incarnation),
    /// To see the end of an existing pool; the node creates none.
    End,
}

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the node.
    pub node: NodeName,
    /// Tells this life of the node from another.
    pub nonce: u64,
    /// The settings of the pool as the node knows them.
    pub settings: Settings,
    /// The settings that the node was given; it takes all others from the pool.
    pub given: Given,
    /// The keys of the placement hash for a pool that the node creates. They apply if it was given none and knows
    /// none.
    pub drawn_keys: (u64, u64),
    /// The times of the node's leases.
    pub timing: Timing,
    /// How long a changed ring must stay as it is before jobs are moved.
    pub stable_after: Duration,
    /// How many jobs of a worker may move at once.
    pub handoff_parallel: usize,
    /// How long a start may take.
    pub start_timeout: Duration,
    /// How long a stop may take.
    pub stop_timeout: Duration,
    /// How long a planner may take.
    pub plan_timeout: Duration,
    /// How long a cancelled start may take to end, and then an aborted handler.
    pub abort_grace: Duration,
    /// How many start handlers of a worker run at once.
    pub start_permits: usize,
    /// How many start handlers of a worker are called in a second.
    pub starts_per_second: Option<NonZeroU32>,
    /// How many jobs of a worker are asked in a second to move, because the ring has changed.
    pub moves_per_second: Option<NonZeroU32>,
    /// The node dispatches jobs and runs none. It routes and watches only if it needs that itself.
    pub client_only: bool,
    /// The store is known to be new: the pool opens without a wait.
    pub assume_fresh: bool,
    /// The node joins an existing pool, and creates none.
    pub must_exist: bool,
    /// The address that its workers publish, or empty.
    pub address: String,
    /// The reason why the node joins.
    pub purpose: Purpose,
    /// The lines that a test has broken on purpose.
    pub broken: Mutations,
}

impl Config {
    /// The settings that a worker joins with. They leave out keys taken from the pool, which may be another pool by
    /// then.
    pub fn demands(&self) -> Settings {
        let hash_keys = self.settings.hash_keys.filter(|_| self.given.has(HASH_KEYS));
        Settings { hash_keys, ..self.settings.clone() }
    }

    /// The settings of a pool that this node creates. They include the keys that it knows, so that no job moves after
    /// a loss of data.
    pub fn founding(&self) -> Settings {
        Settings { hash_keys: self.settings.hash_keys.or(Some(self.drawn_keys)), ..self.settings.clone() }
    }
}

/// The time, the facts that all parts share, and the effects of this step.
#[derive(Debug)]
pub struct Ctx {
    /// The time of this step.
    pub now: Time,
    pub(crate) config: Config,
    /// The incarnation that steps are sent in; 0 while the node knows none.
    pub incarnation: Incarnation,
    /// The last incarnation that the node has seen in phase N. No step leads it back to phase R.
    pub open_in: Option<Incarnation>,
    /// The pool's data are gone. The node waits for a node with workers to create the pool again.
    pub pool_is_gone: bool,
    /// When the lease of each living worker passes its soft deadline, by the last renewal that the engine has seen.
    pub leases: BTreeMap<WorkerId, Time>,
    /// How many workers the ring gives jobs.
    pub workers_up: u32,
    pub(crate) jitter: Jitter,
    pub(crate) out: Vec<Effect>,
}

impl Ctx {
    pub(crate) fn call(&mut self, call: Call) {
        self.out.push(Effect::Call { incarnation: self.incarnation, call });
    }

    /// The incarnation, if the pool is known to be in phase N: what is read from now on is not of phase R.
    pub fn settled_in(&self) -> Option<Incarnation> {
        self.open_in.filter(|&open| open == self.incarnation)
    }

    pub(crate) fn report(&mut self, notice: Notice) {
        self.out.push(Effect::Report(notice));
    }

    /// A call has failed. Reports only news, and names the key of an item that was set aside.
    ///
    /// # Errors
    /// The failure of a call that concerns more than an item.
    pub fn heard(&mut self, news: bool, key: Option<JobKey>, error: StoreError) -> Result<()> {
        match key {
            _ if !news && is_of_an_item(&error) => Ok(()),
            Some(key) if is_of_an_item(&error) => {
                self.report(Notice::SetAside { key, error });
                Ok(())
            }
            _ => Err(error),
        }
    }

    pub(crate) fn reply(&mut self, to: ReplyTo, answer: Answer) {
        self.out.push(Effect::Reply { to, answer });
    }

    /// A hint: the lease itself is checked just before the handler starts.
    pub fn lease_holds(&self, worker: WorkerId) -> bool {
        self.leases.get(&worker).is_some_and(|&soft_at| self.now < soft_at)
    }
}
