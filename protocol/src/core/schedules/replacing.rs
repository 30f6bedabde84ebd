//! The payloads of a plan's jobs that have changed since this node last saw them kept.
//!
//! A digest of each wanted payload is remembered, with the generation that the job had it in. While both are as they were,
//! nothing is sent. The memory is that of one turn: in the next one, other nodes may have planned meanwhile.

use std::collections::BTreeMap;

use crate::core::batcher::Batcher;
use crate::core::time::Time;
use crate::model::id::JobKey;
use crate::model::record::Record;
use crate::model::wire;
use crate::step::{DispatchItem, Result, Turn, UpdateItem, UpdateReply};

/// For the digest of a key: that of the payload, and the generation that the job has it in.
type Kept = BTreeMap<u64, (u64, u64)>;

/// The memory of a planner from one plan to the next.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    turn: Option<Turn>,
    kept: Kept,
}

/// The payloads that one plan replaces.
#[derive(Debug, Default)]
pub(super) struct Replacing {
    /// As the plan before left it.
    before: Kept,
    /// The payloads that this plan has seen kept.
    now: Kept,
    updates: Batcher<UpdateItem>,
}

impl Replacing {
    pub(super) fn new(turn: &Turn, remembered: Remembered) -> Self {
        let before = if remembered.turn.as_ref() == Some(turn) { remembered.kept } else { Kept::new() };
        Self { before, ..Self::default() }
    }

    /// The memory for the next plan in this turn.
    pub(super) fn remembered(&mut self, turn: &Turn) -> Remembered {
        Remembered { turn: Some(turn.clone()), kept: std::mem::take(&mut self.now) }
    }

    /// A wanted job of the plan is there.
    pub(super) fn compare(&mut self, item: DispatchItem, record: Record) {
        let (key, payload) = wire::digests(&item.key, &item.payload);
        let kept = (payload, record.generation());
        if self.before.get(&key) == Some(&kept) {
            self.now.insert(key, kept);
            return;
        }
        let DispatchItem { key, payload, .. } = item;
        let (id, generation, guess) = (record.id, kept.1, record.owner);
        self.updates.push(UpdateItem { key, id, generation, guess, payload });
    }

    /// A wanted job was dispatched with its payload.
    pub(super) fn dispatched(&mut self, item: &DispatchItem) {
        let (key, payload) = wire::digests(&item.key, &item.payload);
        self.now.insert(key, (payload, 0));
    }

    /// Returns the jobs whose payload cannot be replaced, each with the reason.
    pub(super) fn on_answer(
        &mut self,
        now: Time,
        items: Vec<UpdateItem>,
        answer: Result<Vec<UpdateReply>>,
    ) -> Result<Vec<(JobKey, &'static str)>> {
        let replies = match answer {
            Ok(replies) => replies,
            Err(error) => return self.updates.failed_whole(now, items, error).map(|()| Vec::new()),
        };
        self.updates.answered();
        let mut failed = Vec::new();
        for (item, reply) in items.into_iter().zip(replies) {
            match reply {
                UpdateReply::Kept(generation) | UpdateReply::Equal(generation) => {
                    let (key, payload) = wire::digests(&item.key, &item.payload);
                    self.now.insert(key, (payload, generation));
                }
                UpdateReply::Owner(guess) => self.updates.push(UpdateItem { guess, ..item }),
                UpdateReply::TooLong => failed.push((item.key, "its payload is too long")),
                UpdateReply::Bad => failed.push((item.key, "its record cannot be read")),
                // It has changed meanwhile: the next plan looks again.
                UpdateReply::Conflict(_)
                | UpdateReply::Absent
                | UpdateReply::Stopping
                | UpdateReply::Recovering => {}
            }
        }
        Ok(failed)
    }

    /// The next payloads to send.
    pub(super) fn next(&mut self, now: Time) -> Option<Vec<UpdateItem>> {
        self.updates.batch(now, |item| item.payload.len() + item.key.as_bytes().len())
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.updates.deadline()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.updates.is_idle()
    }
}
