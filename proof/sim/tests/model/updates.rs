//! Other payloads for a job that is there: each run is given the last one, and none is undone.

use bytes::Bytes;
use tenure_protocol::step::{BeginReply, BegunJob, ReleaseMode, Update, UpdateItem, UpdateReply};

use super::act::Act;
use super::world::{Call, Hand, Held, Offer, Pool, Then, World};

/// The judge's knowledge of a job's payloads after its first one, by generation.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Payloads(Vec<u8>);

impl Payloads {
    /// Whether it is the last one under the right number. The first one is empty.
    pub(crate) fn is_the_last(&self, generation: u64, payload: &[u8]) -> bool {
        let last = self.0.last().map_or(&[][..], std::slice::from_ref);
        generation == self.0.len() as u64 && payload == last
    }

    /// That of this generation, as bytes.
    pub(crate) fn of(&self, generation: u64) -> Bytes {
        let at = usize::try_from(generation).ok().and_then(|number| number.checked_sub(1));
        let payload = at.and_then(|at| self.0.get(at));
        payload.map_or_else(Bytes::new, |payload| Bytes::copy_from_slice(&[*payload]))
    }

    /// Those after this generation are lost.
    pub(crate) fn lose_after(&mut self, generation: u64) {
        self.0.truncate(usize::try_from(generation).unwrap_or_default());
    }

    /// Whether there is one after this generation.
    pub(crate) fn has_later(&self, generation: u64) -> bool {
        generation < self.0.len() as u64
    }
}

impl Pool {
    pub(crate) fn acts_of_updates(&self, world: &World, acts: &mut Vec<Act>) {
        if world.left.updates == 0 {
            return;
        }
        let alive = world.fates.iter().enumerate().filter(|(_, fate)| fate.accepted && !fate.over);
        for (dispatch, _) in alive {
            let Some(record) = world.store.record(&self.keys[self.scope.dispatches[dispatch]]) else {
                continue;
            };
            let (seen, owner) = (record.generation(), record.owner);
            let offer = Offer { dispatch, seen, owner, payload: world.left.updates };
            acts.push(Act::Update(offer));
            if world.left.copies > 0 && !world.copies.contains(&(world.inc, Call::Update(offer))) {
                acts.push(Act::Copy(Call::Update(offer)));
            }
        }
    }

    pub(crate) fn update(&self, world: &mut World, offer: Offer) {
        let key = self.scope.dispatches[offer.dispatch];
        let item = UpdateItem {
            key: self.keys[key].clone(),
            id: self.ids[offer.dispatch].clone(),
            generation: offer.seen,
            guess: offer.owner,
            payload: Bytes::copy_from_slice(&[offer.payload]),
        };
        let replies = world.on(&Update { turn: None, items: vec![item] });
        if let Ok([UpdateReply::Kept(generation)]) = replies.as_deref() {
            let Payloads(payloads) = &mut world.payloads[key];
            // A payload is made once. Its second execution is a late copy.
            if payloads.contains(&offer.payload) {
                world.broke = Some("S17");
            }
            payloads.push(offer.payload);
            if *generation != payloads.len() as u64 {
                world.broke = Some("S17");
            }
        }
    }

    pub(crate) fn read(
        &self,
        world: &mut World,
        worker: usize,
        key: usize,
        taken: bool,
        lost: bool,
    ) -> Option<()> {
        let Hand::Running(held) = world.workers[worker].hands[key] else { return None };
        let id = world.workers[worker].id;
        let answer = self.call_begin(world, id, key, held.token);
        if lost {
            world.left.lost -= 1;
            return Some(());
        }
        let Ok(BeginReply::Begun(BegunJob { record, .. })) = answer else { return Some(()) };
        let (ran, told) = (record.generation(), held.told.max(record.generation()));
        let hand = &mut world.workers[worker].hands[key];
        *hand = if taken {
            Hand::Running(Held { ran, told, ..held })
        } else {
            Hand::Stopping(held, Then::Release(ReleaseMode::HandOff))
        };
        Some(())
    }
}

/// A worker that has heard of another payload begins the job once more, which answers with that payload.
pub(crate) fn acts_of_reading(world: &World, worker: usize, key: usize, held: Held, acts: &mut Vec<Act>) {
    if held.told <= held.ran {
        return;
    }
    for taken in [true, false] {
        acts.push(Act::Read { worker, key, taken, lost: false });
    }
    if world.left.lost > 0 {
        acts.push(Act::Read { worker, key, taken: true, lost: true });
    }
}
