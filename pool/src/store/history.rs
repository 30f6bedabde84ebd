//! The answer of history.

use bytes::Bytes;

use super::EntryId;

/// How many entries a history keeps, at most.
pub const HISTORY_MAX: u64 = 100_000;

/// A page of a pool's history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryPage {
    /// The oldest entry that there is.
    pub oldest: Option<EntryId>,
    /// The entries of the page, in order. An entry that has no bytes is empty.
    pub entries: Vec<(EntryId, Bytes)>,
}
