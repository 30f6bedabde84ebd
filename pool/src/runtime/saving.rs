//! The jobs of a node whose checkpoints are on their way.

use std::collections::HashMap;
use std::sync::Arc;

use crate::core::input::{HandlerEvent, Input};
use crate::job::checkpoint::Slot;
use crate::model::id::{JobKey, Token, WorkerId};

/// Their slots. Whoever waits for one of them hears it when this is dropped.
#[derive(Default)]
pub(super) struct Saving {
    slots: HashMap<(WorkerId, JobKey, Token), Arc<Slot>>,
}

impl Saving {
    /// Takes a job's newest checkpoint for the engine, unless the engine has it.
    pub(super) fn give(&mut self, slot: Arc<Slot>) -> Option<Input> {
        let (number, bytes) = slot.take()?;
        let (worker, key, token) = (slot.worker, slot.key.clone(), slot.token);
        self.slots.insert((worker, key.clone(), token), slot);
        Some(Input::Handler { worker, key, token, event: HandlerEvent::Checkpoint { number, bytes } })
    }

    /// The store has the checkpoint of this number.
    pub(super) fn keep(&mut self, worker: WorkerId, key: JobKey, token: Token, number: u64) {
        let place = (worker, key, token);
        if self.slots.get(&place).is_some_and(|slot| slot.keep(number)) {
            self.slots.remove(&place);
        }
    }

    /// The job keeps no other checkpoint.
    pub(super) fn lose(&mut self, worker: WorkerId, key: JobKey, token: Token) {
        if let Some(slot) = self.slots.remove(&(worker, key, token)) {
            slot.lose();
        }
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        for slot in self.slots.values() {
            slot.lose();
        }
    }
}
