//! Checkpoints: a job's next owner begins with the last one that the owner before has left.

use bytes::Bytes;
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::step::{Checkpoint, ReleaseMode, Save, SaveItem, SaveReply};

use super::act::Act;
use super::scope::Lapse;
use super::world::{Hand, Held, Pool, World};

/// The judge's knowledge of a job's checkpoints: tokens and numbers.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct States {
    /// The newest one that was kept.
    kept: Option<(Token, u8)>,
    /// The last one of the owner that has left.
    left: Option<(Token, u8)>,
}

impl States {
    /// A handler ends, and its job moves.
    pub(crate) fn leave(&mut self, held: Held) {
        if held.given > 0 {
            self.left = Some((held.token, held.given));
        }
    }

    /// Whether a begin was given the newest one.
    pub(crate) fn is_what_is_left(&self, given: Option<(Token, u8)>) -> bool {
        given == self.kept && given >= self.left
    }

    /// Whether an owner under an earlier token has left one.
    pub(crate) fn is_of_before(&self, token: Token) -> bool {
        self.kept.is_some_and(|(of, _)| of < token)
    }
}

/// The token and the number of a checkpoint.
pub(crate) fn named(checkpoint: &Checkpoint) -> (Token, u8) {
    (checkpoint.token, checkpoint.number as u8)
}

impl Pool {
    /// A job that goes on elsewhere leaves when its last checkpoint is kept.
    pub(crate) fn may_leave(&self, held: Held, mode: ReleaseMode) -> bool {
        mode == ReleaseMode::Delete || held.saved == held.given || self.scope.lapses(Lapse::LeftBeforeKept)
    }

    pub(crate) fn keep(
        &self,
        world: &mut World,
        id: WorkerId,
        key: usize,
        token: Token,
        number: u8,
    ) -> Option<SaveReply> {
        let owns = world.store.record(&self.keys[key]).is_some_and(|record| {
            let runs = matches!(record.state, JobState::Running | JobState::Stopping);
            record.owner == Some(id) && record.token == token && runs
        });
        let name = self.keys[key].clone();
        let bytes = Bytes::copy_from_slice(&[number]);
        let item = SaveItem { key: name, token, given: token, number: u64::from(number), bytes };
        let reply = world.on(&Save { worker: id, items: vec![item] }).ok()?[0];
        if (reply == SaveReply::Kept) != owns {
            world.broke = Some("S15");
        }
        if reply == SaveReply::Kept {
            let kept = &mut world.states[key].kept;
            *kept = (*kept).max(Some((token, number)));
        }
        Some(reply)
    }

    pub(crate) fn keep_given(&self, world: &mut World, worker: usize, key: usize, lost: bool) -> Option<()> {
        let id = world.workers[worker].id;
        let held = world.workers[worker].hands[key].active()?;
        let reply = self.keep(world, id, key, held.token, held.given);
        if lost {
            world.left.lost -= 1;
        } else if reply == Some(SaveReply::Kept) {
            match &mut world.workers[worker].hands[key] {
                Hand::Running(held) | Hand::Stopping(held, _) => held.saved = held.given,
                _ => return None,
            }
        }
        Some(())
    }
}

pub(crate) fn give(world: &mut World, worker: usize, key: usize) -> Option<()> {
    let (Hand::Running(held) | Hand::Stopping(held, _)) = &mut world.workers[worker].hands[key] else {
        return None;
    };
    held.given += 1;
    world.left.states -= 1;
    Some(())
}

pub(crate) fn acts_of_states(world: &World, worker: usize, key: usize, held: Held, acts: &mut Vec<Act>) {
    if world.left.states > 0 {
        acts.push(Act::Give { worker, key });
    }
    if held.saved < held.given {
        acts.push(Act::Keep { worker, key, lost: false });
        if world.left.lost > 0 {
            acts.push(Act::Keep { worker, key, lost: true });
        }
    }
}
