//! The words that a worker still owes the store before a job may leave its hands.
//!
//! A job goes on elsewhere only after the store knows its start, its deliveries and its last checkpoint. A release that
//! overtakes the start leaves the dispatcher waiting, and the job looks as if it never ran. One that overtakes the others
//! gives the next owner notifications that were already delivered, or a state that is too old.
//!
//! A held job has its words with it. The ledger has those of the jobs on their way out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::ToRelease;
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
    /// The answers of its handler to asks.
    Replies = 8,
}

/// The words that the store may not know of one job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words(u8);

impl Words {
    pub(super) fn add(&mut self, word: Word) {
        self.0 |= word as u8;
    }

    pub(super) fn remove(&mut self, word: Word) {
        self.0 &= !(word as u8);
    }

    pub(super) fn has(self, word: Word) -> bool {
        self.0 & word as u8 != 0
    }

    /// These words alone, as far as they are among them.
    pub(super) fn only(self, word: Word) -> Self {
        Self(self.0 & word as u8)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A job on its way out that owes words.
#[derive(Debug, Default)]
struct Owing {
    words: Words,
    /// Its release, once that waits for them.
    release: Option<ToRelease>,
}

/// The ledger of one worker.
#[derive(Debug, Default)]
pub(super) struct Unsaid {
    owing: BTreeMap<(JobKey, Token), Owing>,
}

impl Unsaid {
    /// The store may not know this of the leaving job.
    pub(super) fn add(&mut self, id: (JobKey, Token), word: Word) {
        self.owing.entry(id).or_default().words.add(word);
    }

    /// Whether the store may not know this of the leaving job.
    pub(super) fn has(&self, id: &(JobKey, Token), word: Word) -> bool {
        self.owing.get(id).is_some_and(|owing| owing.words.has(word))
    }

    /// No leaving job owes a word.
    pub(super) fn is_empty(&self) -> bool {
        self.owing.is_empty()
    }

    /// Whether the release of this job must wait.
    pub(super) fn holds(&self, id: &(JobKey, Token)) -> bool {
        self.owing.contains_key(id)
    }

    /// Keeps the release of a job until these words are said, and all that it owed before.
    pub(super) fn hold_back(&mut self, id: (JobKey, Token), words: Words, release: ToRelease) {
        let owing = self.owing.entry(id).or_default();
        owing.words.0 |= words.0;
        owing.release = Some(release);
    }

    /// The store knows this of the job, or never will. Returns the release of the job, if it has waited and all is
    /// said now.
    pub(super) fn said(&mut self, id: (JobKey, Token), word: Word) -> Option<ToRelease> {
        if self.owing.is_empty() {
            return None;
        }
        let Entry::Occupied(mut owing) = self.owing.entry(id) else { return None };
        owing.get_mut().words.remove(word);
        if owing.get().words.is_empty() { owing.remove().release } else { None }
    }

    /// The jobs of which the store may not know this.
    pub(super) fn all(&self, word: Word) -> Vec<(JobKey, Token)> {
        let has = self.owing.iter().filter(|(_, owing)| owing.words.has(word));
        has.map(|(id, _)| id.clone()).collect()
    }

    /// The release of this job, if it waits.
    pub(super) fn release_of(&mut self, id: &(JobKey, Token)) -> Option<&mut ToRelease> {
        self.owing.get_mut(id)?.release.as_mut()
    }

    /// Takes the release of this job, if it waits. The job owes its words all the same.
    pub(super) fn take_release(&mut self, id: &(JobKey, Token)) -> Option<ToRelease> {
        self.owing.get_mut(id)?.release.take()
    }

    /// The releases that wait.
    pub(super) fn waiting(&mut self) -> impl Iterator<Item = &mut ToRelease> {
        self.owing.values_mut().filter_map(|owing| owing.release.as_mut())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.owing.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::why::Cause;
    use crate::step::{ReleaseItem, ReleaseMode};

    fn id(key: &str) -> (JobKey, Token) {
        (JobKey::try_from(key).unwrap_or_else(|error| panic!("{error}")), Token(1))
    }

    fn release((key, token): (JobKey, Token)) -> ToRelease {
        (ReleaseItem::new(key, token, ReleaseMode::HandOff, Cause::Moved), Vec::new())
    }

    fn words(of: &[Word]) -> Words {
        let mut words = Words::default();
        for word in of {
            words.add(*word);
        }
        words
    }

    #[test]
    fn a_release_waits_for_the_last_word() {
        let mut unsaid = Unsaid::default();
        unsaid.hold_back(id("a"), words(&[Word::Start]), release(id("a")));
        unsaid.add(id("a"), Word::Deliveries);
        unsaid.add(id("b"), Word::Start);
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
        unsaid.hold_back(id("a"), words(&[Word::Start]), release(id("a")));
        assert!(unsaid.said(id("a"), Word::Deliveries).is_none());
        assert_eq!(unsaid.all(Word::Start), [id("a")]);
        assert_eq!(unsaid.waiting().count(), 1);
    }
}
