//! What every part of the core gets to see of the whole: time, settings, and where its effects go.

use std::collections::BTreeMap;
use std::time::Duration;

use super::call::Call;
use super::effect::{Effect, Notice};
use super::input::{Answer, ReplyTo};
use super::lease::Timing;
use super::time::{Jitter, Time};
use crate::breakage::Breakages;
use crate::id::{Incarnation, NodeName, WorkerId};
use crate::settings::{Given, Settings};

/// The pause before what failed or could not be done yet is tried again.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// What a node joins for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be part of a pool; it makes the pool when there is none.
    #[default]
    Part,
    /// The same, and the other shards of the pool have ended in whose first shard this incarnation is.
    PartAfter(Incarnation),
    /// To see the end of a pool that is there; it makes none.
    End,
}

/// What a node runs with.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) node: NodeName,
    /// What tells this life of the node from another.
    pub(crate) nonce: u64,
    pub(crate) settings: Settings,
    /// Which of the settings it was given: what it was not, it takes from the pool.
    pub(crate) given: Given,
    /// The keys of the placement hash, for the pool that the node makes while it was given none and knows none.
    pub(crate) drawn_keys: (u64, u64),
    pub(crate) timing: Timing,
    /// How long a changed ring must stay as it is before jobs are moved.
    pub(crate) stable_after: Duration,
    /// How many jobs of a worker are on the move at once.
    pub(crate) handoff_parallel: usize,
    pub(crate) start_timeout: Duration,
    pub(crate) stop_timeout: Duration,
    /// How long a planner may take.
    pub(crate) plan_timeout: Duration,
    /// How long a cancelled start, and then an aborted handler, may take to end.
    pub(crate) abort_grace: Duration,
    /// How many start handlers of a worker run at once.
    pub(crate) start_permits: usize,
    /// It takes jobs in and runs none: it neither routes nor watches what it does not need itself.
    pub(crate) client_only: bool,
    /// The store is known to be new: no waiting before the pool opens.
    pub(crate) assume_fresh: bool,
    /// It joins a pool that is there, and makes none.
    pub(crate) must_exist: bool,
    /// What it joins for.
    pub(crate) purpose: Purpose,
    /// What a proof has broken on purpose.
    pub(crate) broken: Breakages,
}

impl Config {
    /// The settings that a worker joins with: not the keys that this node has from the pool, which may be another pool by then.
    pub(crate) fn demands(&self) -> Settings {
        let hash_keys = self.settings.hash_keys.filter(|_| self.given.has("k1"));
        Settings { hash_keys, ..self.settings.clone() }
    }

    /// What a pool is made with: the keys that this node goes by, so that no job moves when the data are lost.
    pub(crate) fn founding(&self) -> Settings {
        Settings { hash_keys: self.settings.hash_keys.or(Some(self.drawn_keys)), ..self.settings.clone() }
    }
}

/// The time, what is known to all, and where effects go.
#[derive(Debug)]
pub(crate) struct Ctx {
    /// The time of this step.
    pub(crate) now: Time,
    pub(crate) config: Config,
    /// The incarnation that steps are sent in; 0 while none is known.
    pub(crate) incarnation: Incarnation,
    /// The pool's data are gone, and it waits for a node with workers to make it again.
    pub(crate) pool_is_gone: bool,
    /// When the lease of each living worker passes its soft deadline, as far as renewals have been heard of.
    pub(crate) leases: BTreeMap<WorkerId, Time>,
    pub(crate) jitter: Jitter,
    pub(crate) out: Vec<Effect>,
}

impl Ctx {
    pub(crate) fn call(&mut self, call: Call) {
        self.out.push(Effect::Call { incarnation: self.incarnation, call });
    }

    pub(crate) fn report(&mut self, notice: Notice) {
        self.out.push(Effect::Report(notice));
    }

    pub(crate) fn reply(&mut self, to: ReplyTo, answer: Answer) {
        self.out.push(Effect::Reply { to, answer });
    }

    /// A hint: the handler is checked against the lease itself just before it starts.
    pub(crate) fn lease_holds(&self, worker: WorkerId) -> bool {
        self.leases.get(&worker).is_some_and(|&soft_at| self.now < soft_at)
    }
}
