//! Notifications: a job's worker gets what was kept, in this order, until it has acknowledged it.

use bytes::Bytes;
use tenure_protocol::model::id::{Token, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::step::{Notify, NotifyItem, NotifyReply, Take, TakeItem};

use super::world::{Pool, World};

/// The most that may wait for one job.
pub(crate) const CAP: u32 = 2;

/// The judge's knowledge of a job's notifications.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Notes {
    /// All that were kept, in this order.
    kept: Vec<u8>,
    /// How many of them a runner has acknowledged.
    acked: usize,
}

/// The notifications that a runner has been given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Heard {
    /// Up to which number, as the store counts.
    ack: u64,
    /// Up to which place among all that were kept.
    pub(crate) next: usize,
}

impl Pool {
    pub(crate) fn notify(&self, world: &mut World, key: usize) {
        world.left.notes -= 1;
        let body = world.left.notes;
        let guess = world.store.record(&self.keys[key]).and_then(|record| record.owner);
        let item = NotifyItem { key: self.keys[key].clone(), guess, body: Bytes::copy_from_slice(&[body]) };
        let replies = world.on(&Notify { items: vec![item] });
        if replies.is_ok_and(|replies| replies[0] == NotifyReply::Kept) {
            let notes = &mut world.notes[key];
            notes.kept.push(body);
            if notes.kept.len() - notes.acked > CAP as usize {
                world.broke = Some("S11");
            }
        }
    }

    /// The answer of `take`, as far as it comes from a pool that is open: what its caller has heard then.
    pub(crate) fn take(
        &self,
        world: &mut World,
        id: WorkerId,
        key: usize,
        token: Token,
        heard: Heard,
    ) -> Option<Heard> {
        let record = world.store.record(&self.keys[key]);
        let runs = record.is_some_and(|record| {
            record.owner == Some(id) && record.token == token && record.state == JobState::Running
        });
        let item = TakeItem { key: self.keys[key].clone(), token, ack: heard.ack };
        let taken = world.on(&Take { worker: id, finished: Vec::new(), items: vec![item] }).ok()?.remove(0);
        if taken.is_some() != runs {
            world.broke = Some("S11");
        }
        let taken = taken?;
        let notes = &mut world.notes[key];
        notes.acked = notes.acked.max(heard.next);
        let waiting = notes.kept.get(notes.acked..).unwrap_or_default();
        if taken.bodies.iter().map(|body| body[0]).ne(waiting.iter().copied()) {
            world.broke = Some("S11");
        }
        if taken.bodies.is_empty() {
            return Some(heard);
        }
        Some(Heard { ack: taken.first + taken.bodies.len() as u64, next: notes.kept.len() })
    }
}
