//! The words that a worker still owes the store before a job may leave its hands.
//!
//! A job goes on elsewhere only after the store knows its start, its deliveries and its last checkpoint. A release that
//! overtakes the start leaves the dispatcher waiting, and the job looks as if it never ran. One that overtakes the others
//! gives the next owner notifications that were already delivered, or a state that is too old.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::core::call::ToRelease;
use crate::model::id::{JobKey, Token};

/// Something that the store may not know yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// The start has succeeded.
    Start = 1,
    /// Notifications were delivered to a job on its way out.
    Deliveries = 2,
    /// The newest checkpoint.
    Checkpoint = 4,
}

/// The ledger of one worker.
#[derive(Debug, Default)]
pub(super) struct Unsaid {
    words: BTreeMap<(JobKey, Token), u8>,
    /// Jobs to give back once all their words are said.
    held_back: BTreeMap<(JobKey, Token), ToRelease>,
}

impl Unsaid {
    /// The store may not know this of the job.
    pub(super) fn add(&mut self, id: (JobKey, Token), word: Word) {
        *self.words.entry(id).or_default() |= word as u8;
    }

    /// Whether the store may not know this of the job.
    pub(super) fn has(&self, id: &(JobKey, Token), word: Word) -> bool {
        !self.words.is_empty() && self.words.get(id).is_some_and(|words| words & word as u8 != 0)
    }

    /// Whether the release of this job must wait.
    pub(super) fn holds(&self, id: &(JobKey, Token)) -> bool {
        self.words.contains_key(id)
    }

    /// Keeps the release of a job until all is said.
    pub(super) fn hold_back(&mut self, id: (JobKey, Token), release: ToRelease) {
        self.held_back.insert(id, release);
    }

    /// The store knows this of the job, or never will. Returns the release of the job, if it has waited and all is
    /// said now.
    pub(super) fn said(&mut self, id: (JobKey, Token), word: Word) -> Option<ToRelease> {
        let Entry::Occupied(mut words) = self.words.entry(id) else { return None };
        *words.get_mut() &= !(word as u8);
        if *words.get() != 0 {
            return None;
        }
        let (id, _) = words.remove_entry();
        if self.held_back.is_empty() { None } else { self.held_back.remove(&id) }
    }

    /// Those of which the store may not know this.
    pub(super) fn all(&self, word: Word) -> Vec<(JobKey, Token)> {
        let has = self.words.iter().filter(|(_, words)| **words & word as u8 != 0);
        has.map(|(id, _)| id.clone()).collect()
    }

    /// The releases that wait.
    pub(super) fn waiting(&mut self) -> impl Iterator<Item = &mut ToRelease> {
        self.held_back.values_mut()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::{ReleaseItem, ReleaseMode};

    fn id(key: &str) -> (JobKey, Token) {
        (JobKey::try_from(key).unwrap_or_else(|error| panic!("{error}")), Token(1))
    }

    fn release((key, token): (JobKey, Token)) -> ToRelease {
        let (mode, delay, result) = (ReleaseMode::HandOff, Duration::ZERO, String::new());
        (ReleaseItem { key, token, mode, delay, tell: None, tell_stopper: None, result }, Vec::new())
    }

    #[test]
    fn a_release_waits_for_the_last_word() {
        let mut unsaid = Unsaid::default();
        unsaid.add(id("a"), Word::Start);
        unsaid.add(id("a"), Word::Deliveries);
        unsaid.add(id("b"), Word::Start);
        unsaid.hold_back(id("a"), release(id("a")));
        assert!(unsaid.said(id("a"), Word::Start).is_none());
        assert!(!unsaid.has(&id("a"), Word::Start) && unsaid.has(&id("a"), Word::Deliveries));
        assert!(unsaid.said(id("b"), Word::Start).is_none(), "nothing waits for it");
        let (item, _) = unsaid.said(id("a"), Word::Deliveries).unwrap_or_else(|| panic!("it waits"));
        assert_eq!((item.key, item.token), id("a"));
        assert!(unsaid.said(id("a"), Word::Deliveries).is_none(), "it goes once");
    }

    #[test]
    fn a_word_that_nobody_owes_frees_nothing() {
        let mut unsaid = Unsaid::default();
        unsaid.add(id("a"), Word::Start);
        unsaid.hold_back(id("a"), release(id("a")));
        assert!(unsaid.said(id("a"), Word::Deliveries).is_none());
        assert_eq!(unsaid.all(Word::Start), [id("a")]);
        assert_eq!(unsaid.waiting().count(), 1);
    }
}
