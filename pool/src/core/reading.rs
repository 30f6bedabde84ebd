//! What the node reads: one blocking read over the streams of all its workers and its own. When the set of
//! streams or a cursor changes, a new read takes the place of the one that waits. That one does not wait, and neither
//! does one after an error: a read that is replaced while it waits is never answered, and a node whose workers come
//! and go would be taken for deaf.

use std::time::Duration;

use tenure_streaming::EntryId;

use super::call::{Call, READ_BLOCK};
use super::ctx::Ctx;
use super::time::Time;
use crate::store::{Cursors, NodeEvents, Result};

const RETRY: Duration = Duration::from_millis(50);

/// The node's reader.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    round: u64,
    waiting: Option<Cursors>,
    node: EntryId,
    retry_at: Option<Time>,
    /// When a read was last answered, or the first one sent.
    progressed: Option<Time>,
}

impl Reading {
    /// The node's stream is another one now.
    pub(crate) fn reset(&mut self) {
        self.round += 1;
        self.node = EntryId::default();
        self.waiting = None;
        self.progressed = None;
    }

    /// The node's stream may have been made anew: with lower ids than the last one read, where the server's clock has stepped
    /// back. It is read from its beginning; what comes again changes nothing.
    pub(crate) fn reopened(&mut self) {
        self.node = EntryId::default();
    }

    /// When a read was last answered, or the first one sent; `None` before.
    pub(crate) fn progressed(&self) -> Option<Time> {
        self.progressed
    }

    /// The events of this read; `None` for a read that was replaced.
    pub(crate) fn on_read(
        &mut self,
        ctx: &Ctx,
        round: u64,
        answer: Result<NodeEvents>,
    ) -> Result<Option<NodeEvents>> {
        if round != self.round {
            return Ok(None);
        }
        self.waiting = None;
        let events = answer.inspect_err(|_| self.retry_at = Some(ctx.now + RETRY))?;
        self.progressed = Some(ctx.now);
        if let Some((last, _)) = events.outcomes.last() {
            self.node = self.node.max(*last);
        }
        Ok(Some(events))
    }

    /// Reads on, from these cursors of the workers.
    pub(crate) fn flush(
        &mut self,
        ctx: &mut Ctx,
        workers: impl Iterator<Item = (crate::id::WorkerId, EntryId)>,
    ) {
        if self.retry_at.is_some_and(|at| ctx.now < at) {
            return;
        }
        let failed = self.retry_at.take().is_some();
        let cursors = Cursors { workers: workers.collect(), node: self.node };
        if self.waiting.as_ref() == Some(&cursors) {
            return;
        }
        self.progressed.get_or_insert(ctx.now);
        self.round += 1;
        let replaces = self.waiting.replace(cursors.clone()).is_some();
        let block = if replaces || failed { Duration::ZERO } else { READ_BLOCK };
        ctx.call(Call::ReadNode { round: self.round, cursors, block });
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        self.retry_at
    }
}
