//! Positions in streams. Pure: no I/O, no clock.
//!
//! Invariant: a cursor moves only over entries that have been handed out, or where somebody puts it on purpose. A move
//! is a comparison with the place where the reader believes the cursor to be. So entries that were read before somebody
//! moved the cursor are never handed out.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_steps::EntryId;

/// The positions of a reader in its streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    after: BTreeMap<Arc<str>, EntryId>,
}

impl Cursors {
    /// Puts the cursor of a stream after an entry, and adds the stream if it is new. Returns whether that changed
    /// anything.
    pub fn put(&mut self, stream: &str, after: EntryId) -> bool {
        if let Some(cursor) = self.after.get_mut(stream) {
            return std::mem::replace(cursor, after) != after;
        }
        self.after.insert(stream.into(), after);
        true
    }

    /// Forgets a stream. Returns whether it was known.
    pub fn remove(&mut self, stream: &str) -> bool {
        self.after.remove(stream).is_some()
    }

    /// The last entry of a stream that was handed out.
    pub fn get(&self, stream: &str) -> Option<EntryId> {
        self.after.get(stream).copied()
    }

    /// Moves the cursor of a stream from `from` to `to`, because the entries between have been handed out. Returns
    /// `false` and moves nothing when the cursor is no longer at `from`: these entries must not be handed out.
    #[must_use]
    pub fn advance(&mut self, stream: &str, from: EntryId, to: EntryId) -> bool {
        match self.after.get_mut(stream) {
            Some(cursor) if *cursor == from && to >= from => {
                *cursor = to;
                true
            }
            _ => false,
        }
    }

    /// The streams with their cursors, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, EntryId)> {
        self.after.iter().map(|(stream, after)| (stream, *after))
    }

    /// A stream by its name, with its cursor.
    pub(crate) fn find(&self, stream: &[u8]) -> Option<(&Arc<str>, EntryId)> {
        let (stream, after) = self.after.get_key_value(std::str::from_utf8(stream).ok()?)?;
        Some((stream, *after))
    }

    /// Forgets the unwanted streams.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.after.retain(|stream, _| wanted(stream));
    }

    /// Whether there are no streams.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_that_was_put_elsewhere_does_not_move() {
        let mut cursors = Cursors::default();
        assert!(cursors.put("s", EntryId::new(5, 0)));
        assert!(!cursors.put("s", EntryId::new(5, 0)));
        assert!(cursors.advance("s", EntryId::new(5, 0), EntryId::new(7, 0)));
        assert!(cursors.put("s", EntryId::MIN));
        assert!(!cursors.advance("s", EntryId::new(7, 0), EntryId::new(8, 0)));
        assert_eq!(cursors.get("s"), Some(EntryId::MIN));
        assert!(cursors.remove("s") && !cursors.remove("s"));
        assert!(!cursors.advance("s", EntryId::MIN, EntryId::new(8, 0)), "a removed stream");
        assert!(cursors.is_empty());
    }
}
