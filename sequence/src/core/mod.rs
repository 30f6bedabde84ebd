//! The deciding part: which indexes begin, which are done, how far the progress is, and what must be stored.
//!
//! Plain state without I/O, clock or log. The consumer calls it under one lock, and does what it says.
//!
//! ```text
//!            stored      progress                          begun
//!  ...done......|...done....|  X  .  X  X  .  .  X  .  .  .  |  not begun
//!                              X: begun and not done; '.': done ahead of the hole
//! ```
//!
//! Invariants:
//! - Each index up to the progress is done. The index after it is not done: it runs, or has not begun.
//! - Only the unfinished indexes are kept, and there are at most `limit`. So nothing grows with what is done ahead of a
//!   hole.
//! - An index begins once, in order, and only within `ahead` of the progress.
//! - The stored progress never exceeds the progress, and never falls.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

/// The most jobs of one look.
const LOOK_MAX: usize = 1_000;

/// The numbers of a consumer. `R` is what the caller keeps about each running job.
#[derive(Debug)]
pub(crate) struct Core<R> {
    /// The most unfinished jobs.
    limit: usize,
    /// How far the highest begun index may be ahead of the progress; 0 is unlimited.
    ahead: u64,
    on: bool,
    /// The highest index that has begun; the stored progress when none has.
    begun: u64,
    /// Begun and not done.
    unfinished: BTreeMap<u64, R>,
    stored: u64,
    is_saving: bool,
    /// Somebody looks into the source.
    is_looking: bool,
    /// A look may find something that the last one has not found.
    is_wanted: bool,
    /// The most jobs of the next look: fewer while the source is slow.
    most: usize,
    last: Option<Ended>,
}

/// How the last look has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All that it had room for was there.
    Full,
    /// This index was not there.
    Missing(u64),
    /// The source failed. Nothing began.
    Failed,
}

/// A look into the source that somebody must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "no other look begins before this one has ended"]
pub(crate) struct Look {
    pub(crate) first: u64,
    pub(crate) most: usize,
}

/// An index that has just been done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finished<R> {
    pub(crate) kept: R,
    /// Whether the progress has moved.
    pub(crate) moved: bool,
}

impl<R> Core<R> {
    pub(crate) fn new(limit: usize, ahead: u64) -> Self {
        Self {
            limit,
            ahead,
            on: false,
            begun: 0,
            unfinished: BTreeMap::new(),
            stored: 0,
            is_saving: false,
            is_looking: false,
            is_wanted: false,
            most: LOOK_MAX,
            last: None,
        }
    }

    /// Begins behind the stored progress. A look is wanted from then on.
    pub(crate) fn start(&mut self, stored: u64) {
        (self.begun, self.stored) = (stored, stored);
        (self.on, self.is_wanted) = (true, true);
    }

    /// Nothing begins any more.
    pub(crate) fn stop(&mut self) {
        (self.on, self.is_wanted) = (false, false);
    }

    /// Asks for a look. Any number of these make one. Before the start and after a stop it does nothing.
    pub(crate) fn want(&mut self) {
        self.is_wanted = self.on;
    }

    /// A look, if one is wanted, nobody looks, and there is room.
    pub(crate) fn look(&mut self) -> Option<Look> {
        if !self.is_due() {
            return None;
        }
        (self.is_looking, self.is_wanted) = (true, false);
        Some(Look { first: self.begun + 1, most: self.room().min(self.most) })
    }

    /// The look has found this many jobs. Returns how many of them begin: all, or none after a stop.
    pub(crate) fn found(&mut self, look: Look, count: usize, mut kept: impl FnMut(u64) -> R) -> usize {
        self.is_looking = false;
        let count = count.min(look.most);
        self.last =
            Some(if count < look.most { Ended::Missing(look.first + count as u64) } else { Ended::Full });
        if !self.on {
            return 0;
        }
        // Slots that have become free meanwhile were not looked for.
        self.is_wanted |= count == look.most;
        for _ in 0..count {
            self.begun += 1;
            self.unfinished.insert(self.begun, kept(self.begun));
        }
        count
    }

    /// The look has failed: nothing changes.
    pub(crate) fn failed(&mut self) {
        self.is_looking = false;
        self.last = Some(Ended::Failed);
    }

    /// The look took too long: the next one asks for half as many.
    pub(crate) fn narrow(&mut self, look: Look) {
        self.most = (look.most / 2).max(1);
    }

    /// The look found all that it asked for, soon: the next one may ask for twice as many.
    pub(crate) fn widen(&mut self, look: Look) {
        if look.most == self.most {
            self.most = self.most.saturating_mul(2).min(LOOK_MAX);
        }
    }

    /// This index is done. `None`, and no change, if it does not run.
    pub(crate) fn finish(&mut self, index: u64) -> Option<Finished<R>> {
        let before = self.progress();
        let kept = self.unfinished.remove(&index)?;
        self.want();
        Some(Finished { kept, moved: self.progress() > before })
    }

    /// The progress to store next, if it is another one and no save is under way.
    pub(crate) fn save(&mut self) -> Option<u64> {
        let due = !self.is_saving && self.progress() > self.stored;
        self.is_saving |= due;
        due.then(|| self.progress())
    }

    /// The save under way has stored this.
    pub(crate) fn saved(&mut self, stored: u64) {
        (self.is_saving, self.stored) = (false, self.stored.max(stored));
    }

    /// The save under way is given up: it may or may not be stored.
    pub(crate) fn not_saved(&mut self) {
        self.is_saving = false;
    }

    /// All indexes up to this one are done.
    pub(crate) fn progress(&self) -> u64 {
        self.unfinished.first_key_value().map_or(self.begun, |(first, _)| first - 1)
    }

    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    /// The jobs that run, from the lowest index.
    pub(crate) fn running(&self) -> impl Iterator<Item = (u64, &R)> {
        self.unfinished.iter().map(|(index, kept)| (*index, kept))
    }

    pub(crate) fn running_count(&self) -> usize {
        self.unfinished.len()
    }

    pub(crate) fn is_running(&self, index: u64) -> bool {
        self.unfinished.contains_key(&index)
    }

    pub(crate) fn running_mut(&mut self, index: u64) -> Option<&mut R> {
        self.unfinished.get_mut(&index)
    }

    /// How many indexes are done ahead of the progress.
    pub(crate) fn done_ahead(&self) -> u64 {
        self.begun - self.progress() - self.unfinished.len() as u64
    }

    /// How many further jobs may begin.
    pub(crate) fn room(&self) -> usize {
        let slots = self.limit.saturating_sub(self.unfinished.len());
        let window = match self.ahead {
            0 => u64::MAX,
            ahead => ahead.saturating_sub(self.begun - self.progress()),
        };
        usize::try_from(window.min(u64::MAX - self.begun)).unwrap_or(usize::MAX).min(slots)
    }

    /// Whether the look-ahead alone keeps the next index from beginning.
    pub(crate) fn is_held_up(&self) -> bool {
        self.room() == 0 && self.unfinished.len() < self.limit
    }

    /// Whether somebody should look now.
    pub(crate) fn is_due(&self) -> bool {
        self.on && self.is_wanted && !self.is_looking && self.room() > 0
    }

    /// How the last look has ended, if no other one is wanted or under way.
    pub(crate) fn rests(&self) -> Option<Ended> {
        if self.is_looking || self.is_wanted { None } else { self.last }
    }

    /// How the last look has ended.
    pub(crate) fn last(&self) -> Option<Ended> {
        self.last
    }

    /// Whether there is nothing to do but to run the jobs that run.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_looking && !self.is_due() && !self.is_saving && self.stored == self.progress()
    }
}
