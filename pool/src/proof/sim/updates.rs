//! Users that give jobs another payload: in some runs they do so now and then. At rest every job runs with the payload that
//! its record has (L10). Some handlers take another payload while their jobs run; others do not, or hang.

use std::time::Duration;

use super::judge::Judge;
use super::rng::Rng;
use super::users::Ask;
use super::world::{MS, World};
use crate::core::call::{Call, Done};
use crate::core::input::{Command, NewUpdate, NotTaken};
use crate::model::id::JobKey;
use crate::model::wire::{self, Envelope};
use crate::store::UpdateReply;

/// The source of updates. It is their own, so that other draws do not depend on them.
#[derive(Debug)]
pub(super) struct Updates {
    rng: Rng,
    happen: bool,
    /// The handlers of this run take none.
    never_taken: bool,
    given: u64,
}

impl Updates {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::new(!seed.rotate_left(40));
        let (happen, never_taken) = (rng.chance(3_000), rng.chance(2_000));
        Self { rng, happen, never_taken, given: 0 }
    }
}

/// The reception of another payload by a handler.
#[derive(Clone, Debug)]
pub(super) enum Reception {
    /// It takes it after this time.
    Takes(u64),
    /// It wants to start anew.
    Restarts,
    /// It takes none.
    Never,
    Fails(u64),
    Hangs,
}

impl Reception {
    /// How long it has the payload in hand. `None`: for ever.
    pub(super) fn takes(&self) -> Option<u64> {
        match self {
            Self::Takes(time) | Self::Fails(time) => Some(*time),
            Self::Restarts | Self::Never => Some(0),
            Self::Hangs => None,
        }
    }

    /// The answer. `None`: there is none.
    pub(super) fn result(&self) -> Option<Result<(), NotTaken>> {
        match self {
            Self::Takes(_) => Some(Ok(())),
            Self::Restarts => Some(Err(NotTaken::Restart)),
            Self::Never => Some(Err(NotTaken::Never)),
            Self::Fails(_) => Some(Err(NotTaken::Failed("it is odd".to_owned()))),
            Self::Hangs => None,
        }
    }
}

impl Updates {
    pub(super) fn receive(&mut self, healed: bool) -> Reception {
        match self.rng.below(100) {
            _ if self.never_taken => Reception::Never,
            0..10 => Reception::Restarts,
            10..15 => Reception::Fails(self.rng.below(10 * MS)),
            15..20 if !healed => Reception::Hangs,
            20..35 if !healed => Reception::Takes(self.rng.below(3_000 * MS)),
            _ => Reception::Takes(self.rng.below(10 * MS)),
        }
    }
}

impl World {
    /// A user gives a job another payload, with the options that it has.
    pub(super) fn update(&mut self) {
        if !self.updates.happen || self.healed || !self.updates.rng.chance(1_000) {
            return;
        }
        let may_ask = |at: &usize| {
            let node = &self.nodes[*at];
            node.alive && !node.paused && node.attached && !node.closing
        };
        let usable: Vec<usize> = (0..self.nodes.len()).filter(may_ask).collect();
        let (at, number) = (self.updates.rng.pick(&usable), self.updates.rng.below(self.options.keys));
        let (Some(at), Ok(key)) = (at, JobKey::new(format!("k{number}"))) else { return };
        let Some(present) = self.store.payload_of(&key) else { return };
        let Ok(present) = wire::open(&present) else { return };
        self.updates.given += 1;
        let body = self.updates.given.to_be_bytes();
        let envelope =
            Envelope { policy: present.policy, progress: present.progress, ..Envelope::new(&body) };
        let Ok(payload) = envelope.seal() else { return };
        let deadline = self.local(at) + Duration::from_millis(self.updates.rng.between(500, 5_000));
        let what = Ask::Update { key: key.clone() };
        let new = NewUpdate { key, payload, of: None, expected: None, deadline };
        self.ask(at, what, Some(deadline), |reply| Command::Update { reply, new });
    }

    /// The job runs with another payload than the pool has for it.
    pub(super) fn runs_with_another(&self, key: &JobKey) -> bool {
        let Some(kept) = self.store.payload_of(key) else { return false };
        let Ok(kept) = wire::open(&kept) else { return false };
        self.actors.values().any(|actor| {
            actor.key == *key && actor.may_have_a_payload_in_hand() && actor.payload != kept.body
        })
    }
}

impl Judge {
    /// Updates that were kept: a job may have another policy from then on.
    pub(super) fn saw_update(&mut self, call: &Call, done: &Done) {
        let (Call::Update(items), Done::Update(Ok(replies))) = (call, done) else { return };
        for (item, reply) in items.iter().zip(replies) {
            let (Some(life), Ok(new)) = (self.lives.get_mut(&item.id), wire::open(&item.payload)) else {
                continue;
            };
            if matches!(reply, UpdateReply::Kept(_)) && !life.updated.contains(&new.policy) {
                life.updated.push(new.policy);
            }
        }
    }
}
