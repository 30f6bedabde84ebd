//! The node's reader: one blocking read over its own stream and those of all its workers. When the set of streams or
//! a cursor changes, a new read replaces the waiting one. The new read does not wait, and neither does one after an
//! error. A read that is replaced while it waits gets no answer, so a node with changing workers would seem deaf.

use std::time::Duration;

use tenure_steps::EntryId;

use crate::core::call::{Call, READ_BLOCK, READ_ENTRIES, READ_ENTRIES_MAX, READ_RETRY};
use crate::core::ctx::Ctx;
use crate::core::time::Time;
use crate::step::{BATCH_BYTES, Cursors, NodeEvents, ReadNode, Result};

/// How much of the node's stream has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Up to this entry, but not yet to the end. Entries for an earlier process of this node's name may concern
    /// dispatch ids that are used again.
    Former(EntryId),
    /// Up to this entry, in this stream.
    After(EntryId),
    /// Up to this entry, if it still exists.
    Doubted(EntryId),
}

impl Place {
    fn cursor(self) -> EntryId {
        match self {
            Self::Former(last) | Self::After(last) => last,
            Self::Doubted(last) => last.previous(),
        }
    }

    /// The position after this read, which took up to `most` entries. Leaves only news in `events`.
    fn after(self, events: &mut NodeEvents, most: usize) -> Self {
        let outcomes = &mut events.outcomes;
        let first = outcomes.first().map(|(entry, _)| *entry);
        let last = outcomes.last().map(|(entry, _)| *entry);
        match (self, last) {
            (Self::Former(_), Some(last)) => {
                let is_all = outcomes.len() < most;
                outcomes.clear();
                if is_all { Self::After(last) } else { Self::Former(last) }
            }
            (Self::Former(end), None) => Self::After(end),
            (Self::After(before), last) => Self::After(last.map_or(before, |last| last.max(before))),
            // Another stream has lower ids, or this one is empty.
            (Self::Doubted(_), None) => Self::After(EntryId::MIN),
            (Self::Doubted(before), Some(last)) => {
                if first == Some(before) {
                    outcomes.remove(0);
                }
                Self::After(last)
            }
        }
    }
}

/// The node's reader.
#[derive(Debug)]
pub(in crate::core) struct Reading {
    round: u64,
    waiting: Option<Cursors>,
    place: Place,
    /// How many entries of each stream the read takes.
    entries: usize,
    retry_at: Option<Time>,
    /// When a read was last answered; before that, when the first was sent.
    progressed: Option<Time>,
}

impl Default for Reading {
    fn default() -> Self {
        let place = Place::Former(EntryId::MIN);
        Self { round: 0, waiting: None, place, entries: READ_ENTRIES, retry_at: None, progressed: None }
    }
}

impl Reading {
    /// The pool lives in another incarnation.
    pub(in crate::core) fn reset(&mut self) {
        self.round += 1;
        self.waiting = None;
        self.progressed = None;
        self.doubt();
    }

    /// The node's stream may be a new one, with lower ids if the server's clock has stepped back. Entries that were
    /// read must not count twice, because a dispatch id may be used again.
    pub(in crate::core) fn doubt(&mut self) {
        if let Place::After(last) = self.place
            && last != EntryId::MIN
        {
            self.place = Place::Doubted(last);
            self.round += 1;
            self.waiting = None;
        }
    }

    /// When a read was last answered, or the first one sent; `None` before.
    pub(in crate::core) fn progressed(&self) -> Option<Time> {
        self.progressed
    }

    /// The events of this read; `None` for a read that was replaced.
    pub(in crate::core) fn on_read(
        &mut self,
        ctx: &Ctx,
        round: u64,
        answer: Result<NodeEvents>,
    ) -> Result<Option<NodeEvents>> {
        if round != self.round {
            return Ok(None);
        }
        self.waiting = None;
        let mut events = answer.inspect_err(|_| {
            self.retry_at = Some(ctx.now + READ_RETRY);
            // The answer may have been too large for its time.
            self.entries = READ_ENTRIES;
        })?;
        self.progressed = Some(ctx.now);
        let most = std::mem::replace(&mut self.entries, next_entries(&events));
        self.place = self.place.after(&mut events, most);
        Ok(Some(events))
    }

    /// Reads on, from these cursors of the workers.
    pub(in crate::core) fn flush(
        &mut self,
        ctx: &mut Ctx,
        workers: impl Iterator<Item = (crate::model::id::WorkerId, EntryId)> + Clone,
    ) {
        if self.retry_at.is_some_and(|at| ctx.now < at) {
            return;
        }
        let failed = self.retry_at.take().is_some();
        let node = self.place.cursor();
        // Compares without a map of its own: most steps change no cursor.
        let is_this = |read: &Cursors| {
            let stands = |(worker, entry)| read.workers.get(&worker) == Some(&entry);
            read.node == node && workers.clone().count() == read.workers.len() && workers.clone().all(stands)
        };
        if self.waiting.as_ref().is_some_and(is_this) {
            return;
        }
        let cursors = Cursors { workers: workers.collect(), node };
        self.progressed.get_or_insert(ctx.now);
        self.round += 1;
        let replaces = self.waiting.replace(cursors.clone()).is_some();
        let looks = !matches!(self.place, Place::After(_));
        let block = if replaces || failed || looks { Duration::ZERO } else { READ_BLOCK };
        let (node, max) = (ctx.config.node.clone(), self.entries);
        ctx.call(Call::ReadNode(ReadNode { node, cursors, max, block }, self.round));
    }

    pub(in crate::core) fn deadline(&self) -> Option<Time> {
        self.retry_at
    }
}

/// How many entries of each stream to take after these: twice as many, because a node of a large fleet gets many with
/// one job each. But no more than come to the bytes of a batch, if they are as large as these.
fn next_entries(events: &NodeEvents) -> usize {
    if events.workers.len() + events.outcomes.len() <= READ_ENTRIES / 2 {
        return READ_ENTRIES;
    }
    let longest = events.longest();
    let each = events.bytes() / longest.max(1);
    (2 * longest).min(BATCH_BYTES / each.max(1)).clamp(READ_ENTRIES, READ_ENTRIES_MAX)
}
