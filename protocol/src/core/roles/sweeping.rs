//! The sweeper restarts due work that was not done. Events may be lost; records are not.
//!
//! All nodes sweep, together about twice a second. A sweep is atomic, so there is no leader.

use std::time::Duration;

use crate::core::call::{CONSUMER_IDLE, Call, PAGE};
use crate::core::ctx::Ctx;
use crate::core::one_call::OneCall;
use crate::core::time::Time;
use crate::step::{PruneConsumers, Result, StopItem, Sweep, Swept};

/// One node's sweeper.
#[derive(Debug, Default)]
pub(in crate::core) struct Sweeping {
    call: OneCall,
    rounds: u64,
    /// Also wake the jobs that wait for a worker, until none is left. Those that pause are left as they are: the number
    /// that this kick has passed over.
    kick: Option<usize>,
}

/// The number of sweeps between two removals of dead consumers of the pool's stream.
const PRUNE_EVERY: u64 = 120;
/// The number of sweeps between two claims of other routers' entries. A sweep also announces the jobs of old entries
/// again.
const CLAIM_EVERY: u64 = 4;

impl Sweeping {
    /// The pool has its first worker or was opened: wakes the jobs that wait for one.
    pub(in crate::core) fn kick(&mut self) {
        self.kick = Some(0);
        self.call.set(Time(0));
    }

    /// Returns the finds of the sweep.
    pub(in crate::core) fn on_swept(
        &mut self,
        ctx: &mut Ctx,
        nodes: usize,
        kick: Option<usize>,
        answer: Result<Swept>,
    ) -> Result<Swept> {
        let period = Duration::from_millis(500) * u32::try_from(nodes.max(2)).unwrap_or(u32::MAX);
        let mut next = ctx.now + ctx.jitter.stretch(period);
        self.call.is_back();
        self.call.set(next);
        let swept = answer.inspect_err(|_| self.kick = self.kick.or(kick.map(|_| 0)))?;
        if swept.backlog {
            self.kick = self.kick.or(kick);
        }
        if swept.count >= PAGE || swept.forgets_more {
            next = ctx.now;
            if swept.count >= PAGE {
                self.kick = self.kick.or(kick.map(|passed| passed + swept.passed));
            }
        } else if let Some(wait) = swept.next_in {
            next = next.min(ctx.now + wait.max(Duration::from_millis(1)));
        }
        self.call.set(next);
        Ok(swept)
    }

    /// Returns true if it is time to claim other routers' entries.
    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx) -> bool {
        if !self.call.begin(ctx.now) {
            return false;
        }
        self.rounds += 1;
        ctx.call(Call::Sweep(Sweep { limit: PAGE, kick: self.kick.take() }));
        if self.rounds.is_multiple_of(PRUNE_EVERY) {
            ctx.call(Call::PruneConsumers(PruneConsumers { idle: CONSUMER_IDLE }));
        }
        self.rounds.is_multiple_of(CLAIM_EVERY)
    }

    pub(in crate::core) fn deadline(&self) -> Option<Time> {
        self.call.deadline()
    }
}

/// The unfinished stops that a sweep found, as the step takes them.
pub(in crate::core) fn stops_again(swept: &mut Swept) -> Vec<StopItem> {
    let stops = std::mem::take(&mut swept.stops);
    stops
        .into_iter()
        .map(|(key, id, owner)| StopItem { key, id, guess: Some(owner), forbid: false })
        .collect()
}
