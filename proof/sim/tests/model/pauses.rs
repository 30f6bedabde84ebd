//! Pauses of a job: while one holds nobody begins it. No late copy of a pause or a resume undoes what came after it.

use std::collections::BTreeSet;

use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::{Steer, SteerItem, SteerReply, Unpark, Way};

use super::act::Act;
use super::judge::Cause;
use super::world::{Call, Pool, World};

/// A pause or a resume, by somebody who has seen the record like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Wish {
    resume: bool,
    dispatch: usize,
    token: Token,
    since: u64,
    owner: Option<WorkerId>,
    /// How many pauses and resumes there were before.
    seen: u8,
}

/// The judge's knowledge of a job's pauses.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Pauses {
    /// How many pauses and resumes its record has seen.
    changes: u8,
    /// The tokens whose owners were told of a pause.
    told: BTreeSet<Token>,
}

impl Pauses {
    /// It was paused, and resumed since.
    pub(crate) fn is_resumed(&self) -> bool {
        self.changes >= 2
    }

    /// The record of a job has changed.
    pub(crate) fn saw(&mut self, old: &Record, new: &Record, cause: Cause) -> Option<&'static str> {
        if old.is_paused() == new.is_paused() {
            return None;
        }
        let seen = self.changes;
        self.changes += 1;
        let fits = match cause {
            Cause::Steer(wish) => wish.seen == seen && wish.resume == old.is_paused(),
            Cause::Release => new.is_paused() && self.told.contains(&old.token),
            _ => false,
        };
        (!fits).then_some("S22")
    }
}

impl Pool {
    pub(crate) fn acts_of_pauses(&self, world: &World, acts: &mut Vec<Act>) {
        if self.scope.left.pauses == 0 {
            return;
        }
        let Some(record) = world.store.record(&self.keys[0]) else { return };
        if record.is_paused() {
            acts.push(Act::Unpark);
        }
        if world.left.pauses == 0 || record.state == JobState::Stopping {
            return;
        }
        let wish = Wish {
            resume: record.is_paused(),
            dispatch: self.dispatch_of(record),
            token: record.token,
            since: record.since,
            owner: record.owner,
            seen: world.pauses.changes,
        };
        acts.push(Act::Steer(wish));
        if world.left.copies > 0 && !world.copies.contains(&(world.inc, Call::Steer(wish))) {
            acts.push(Act::Copy(Call::Steer(wish)));
        }
    }

    pub(crate) fn steer(&self, world: &mut World, wish: Wish) {
        let item = SteerItem {
            key: self.keys[0].clone(),
            id: self.ids[wish.dispatch].clone(),
            token: wish.token,
            since: wish.since,
            way: if wish.resume { Way::Resume } else { Way::Pause },
            guess: wish.owner,
            reason: "n|why".to_owned(),
        };
        let replies = world.on(&Steer { items: vec![item] });
        if let Ok([SteerReply::Told]) = replies.as_deref() {
            world.pauses.told.insert(wish.token);
        }
    }

    /// Somebody retries parked jobs: those that are paused stay as they are.
    pub(crate) fn unpark(&self, world: &mut World) -> Option<()> {
        let id = world.store.record(&self.keys[0])?.id.clone();
        world.on(&Unpark { jobs: vec![(self.keys[0].clone(), id)] }).ok()?;
        Some(())
    }
}
