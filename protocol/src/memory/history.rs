//! The pool's history.

use bytes::Bytes;
use tenure_steps::EntryId;

use super::state::State;
use crate::model::id::Incarnation;
use crate::step::{HISTORY_MAX, HistoryPage, Refusal};

impl State {
    /// Appends an entry, and keeps at most `most` of them.
    pub(super) fn note(
        &mut self,
        now: u64,
        inc: Incarnation,
        most: u64,
        entry: &Bytes,
    ) -> Result<(), Refusal> {
        self.guard(inc)?;
        self.appended += 1;
        self.history.append(now, entry.clone());
        self.history.trim(most.clamp(1, HISTORY_MAX) as usize);
        Ok(())
    }

    /// A page of the entries after this one.
    pub(super) fn history(&self, after: EntryId, limit: usize) -> Result<HistoryPage, Refusal> {
        if self.meta.incarnation.is_none() {
            return Err(if self.tombstone.is_some() { Refusal::Closed } else { Refusal::NoPool });
        }
        let entries = self.history.after(after).take(limit.max(1));
        let entries = entries.map(|(id, entry)| (id, entry.clone())).collect();
        Ok(HistoryPage { oldest: self.history.oldest(), entries })
    }
}
