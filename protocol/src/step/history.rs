//! The answer of history.

use bytes::Bytes;

use super::EntryId;
use super::performing::{read, step};
use std::time::Duration;

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

/// Appends an entry, and keeps at most `most` entries, from 1 to [`HISTORY_MAX`](super::HISTORY_MAX). A repeated call appends
/// the entry twice: readers go by the number in the entry.
#[derive(Clone, Debug)]
pub struct Note {
    /// How many entries the history keeps.
    pub most: u64,
    /// The entry.
    pub entry: Bytes,
}

step!(Note: "note" -> ());

/// A page of the entries after `after`.
#[derive(Clone, Debug)]
pub struct ReadHistory {
    /// The entry before the page.
    pub after: EntryId,
    /// The most entries of the page.
    pub limit: usize,
}

read!(ReadHistory: "history" -> HistoryPage);

/// Waits for an entry after `after`. False: no entry came, or there is no pool. A dropped wait leaves nothing behind. A store
/// waits once at a time: for a second wait, take another client.
#[derive(Clone, Debug)]
pub struct AwaitHistory {
    /// The last known entry.
    pub after: EntryId,
    /// How long the wait lasts.
    pub block: Duration,
}

read!(AwaitHistory: "await_history" -> bool);
