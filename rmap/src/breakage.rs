//! What proofs break on purpose in how a copy follows its map. Without the feature `sim` nothing can be broken, and the
//! questions cost nothing.

#[cfg(feature = "sim")]
use std::collections::BTreeSet;

/// One line of the following that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breakage {
    /// A change is applied if it is newer than the copy, whatever was missed in between.
    GapsApplied,
    /// A new subscription is not followed by a read, and places are not compared: only a gap is.
    NoResync,
    /// What has no higher revision than the copy is old, of whatever incarnation, and when it was read.
    RevisionsOnly,
    /// A watcher tells only of what changes while it is asked.
    WatchesAnew,
}

/// The breakages in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakages(#[cfg(feature = "sim")] BTreeSet<Breakage>);

impl Breakages {
    /// These and no others.
    #[cfg(feature = "sim")]
    pub fn of(breakages: impl IntoIterator<Item = Breakage>) -> Self {
        Self(breakages.into_iter().collect())
    }

    /// Whether the line is left out.
    #[cfg(feature = "sim")]
    pub(crate) fn has(&self, breakage: Breakage) -> bool {
        self.0.contains(&breakage)
    }

    /// Whether the line is left out: never, without the feature `sim`.
    #[cfg(not(feature = "sim"))]
    #[expect(clippy::unused_self, reason = "with the feature there is something to look at")]
    pub(crate) const fn has(&self, _: Breakage) -> bool {
        false
    }
}
