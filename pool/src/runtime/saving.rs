//! The jobs of a node whose checkpoints are on their way.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::core::input::{HandlerEvent, Input};
use crate::job::checkpoint::Slot;
use crate::model::id::{JobKey, Token, WorkerId};
use crate::model::unsaved::NotSaved;

/// Their slots. Those that wait for one of them hear it when this is dropped.
pub(super) struct Saving {
    /// Jobs that have given a checkpoint which the engine has not taken.
    given: mpsc::UnboundedReceiver<Arc<Slot>>,
    slots: Slots,
}

type Slots = HashMap<(WorkerId, JobKey, Token), Arc<Slot>>;

impl Saving {
    pub(super) fn new(given: mpsc::UnboundedReceiver<Arc<Slot>>) -> Self {
        Self { given, slots: HashMap::new() }
    }

    /// The next checkpoint for the engine. Waits for ever once nobody can give one.
    pub(super) async fn next(&mut self) -> Input {
        while let Some(slot) = self.given.recv().await {
            if let Some(input) = take(&mut self.slots, slot) {
                return input;
            }
        }
        std::future::pending().await
    }

    /// The checkpoints that wait for the engine now. Those that come meanwhile wait for the next look: handlers may give
    /// checkpoints without end.
    pub(super) fn present(&mut self) -> impl Iterator<Item = Input> {
        let Self { given, slots } = self;
        (0..given.len()).map_while(|_| given.try_recv().ok()).filter_map(|slot| take(slots, slot))
    }

    /// The store has the checkpoint of this number.
    pub(super) fn keep(&mut self, worker: WorkerId, key: JobKey, token: Token, number: u64) {
        let place = (worker, key, token);
        if self.slots.get(&place).is_some_and(|slot| slot.keep(number)) {
            self.slots.remove(&place);
        }
    }

    /// Nobody waits any longer for the checkpoints up to this number.
    pub(super) fn lose(&mut self, place: &(WorkerId, JobKey, Token), number: u64, why: NotSaved) {
        if self.slots.get(place).is_some_and(|slot| slot.lose(number, why)) {
            self.slots.remove(place);
        }
    }
}

/// Takes a job's newest checkpoint, unless the engine has it.
fn take(slots: &mut Slots, slot: Arc<Slot>) -> Option<Input> {
    let (number, bytes) = slot.take()?;
    let (worker, key, token) = (slot.worker, slot.key.clone(), slot.token);
    slots.insert((worker, key.clone(), token), slot);
    Some(Input::Handler { worker, key, token, event: HandlerEvent::Checkpoint { number, bytes } })
}

impl Drop for Saving {
    fn drop(&mut self) {
        self.given.close();
        let given = std::iter::from_fn(|| self.given.try_recv().ok());
        for slot in given.chain(self.slots.drain().map(|(_, slot)| slot)) {
            slot.lose(u64::MAX, NotSaved::JobGone);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::job::checkpoint::Savers;

    fn slot() -> Arc<Slot> {
        let key = JobKey::try_from("k").unwrap_or_else(|error| panic!("{error}"));
        Arc::new(Slot::new(WorkerId(1), key, Token(1)))
    }

    fn savers(to: mpsc::UnboundedSender<Arc<Slot>>) -> Savers {
        Savers::new((to, mpsc::unbounded_channel().0), 8, Box::new(|_, _| {}))
    }

    #[tokio::test]
    async fn whoever_waits_hears_that_the_node_has_ended() {
        let (to, given) = mpsc::unbounded_channel();
        let (savers, mut saving) = (savers(to), Saving::new(given));
        let (taken, waiting) = (slot(), slot());
        let first = taken.give(&savers, "a".into());
        assert!(saving.present().next().is_some());
        let second = waiting.give(&savers, "b".into());
        drop(saving);
        let third = waiting.give(&savers, "c".into());
        for saving in [first, second, third] {
            assert_eq!(saving.await, Err(NotSaved::JobGone));
        }
    }

    #[tokio::test]
    async fn a_checkpoint_after_a_refused_one_may_be_kept() {
        let (to, given) = mpsc::unbounded_channel();
        let (savers, mut saving) = (savers(to), Saving::new(given));
        let slot = slot();
        let first = slot.give(&savers, "a".into());
        assert!(saving.present().next().is_some());
        let place = (slot.worker, slot.key.clone(), slot.token);
        let why = NotSaved::Refused("full".into());
        saving.lose(&place, 1, why.clone());
        assert_eq!(first.await, Err(why));
        assert!(saving.slots.is_empty(), "its job may have left, and nothing names it again");
        let second = slot.give(&savers, "b".into());
        assert!(saving.present().next().is_some());
        saving.keep(place.0, place.1, place.2, 2);
        assert_eq!(second.await, Ok(()));
    }

    #[test]
    fn all_that_wait_are_taken_at_once() {
        let (to, given) = mpsc::unbounded_channel();
        let (savers, mut saving) = (savers(to), Saving::new(given));
        let slots: Vec<_> = (0..3).map(|_| slot()).collect();
        for slot in &slots {
            drop(slot.give(&savers, "a".into()));
        }
        assert!(slots[1].take().is_some(), "the engine has it");
        assert_eq!(saving.present().count(), 2);
    }

    #[test]
    fn handlers_that_save_without_end_end_each_look() {
        let (to, given) = mpsc::unbounded_channel();
        let (savers, mut saving) = (savers(to), Saving::new(given));
        let slot = slot();
        drop(slot.give(&savers, "a".into()));
        let again = |_: Input| drop(slot.give(&savers, "b".into()));
        assert_eq!(saving.present().map(again).take(10).count(), 1);
    }
}
