//! The lines of the following of a map that proofs leave out on purpose. Without the feature `sim` none can be left
//! out, and the checks cost nothing.

#[cfg(feature = "sim")]
use std::collections::BTreeSet;

/// A line of the following that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutation {
    /// Applies a change that is newer than the copy, even when changes before it were missed.
    GapsApplied,
    /// Does not read after a new subscription, and compares no places: only a gap leads to a read.
    NoResync,
    /// Takes a change or content without a higher revision for old, whatever its incarnation and stamp.
    RevisionsOnly,
    /// A watcher reports only changes that happen while it is awaited.
    WatchesAnew,
}

/// The mutations in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutations(#[cfg(feature = "sim")] BTreeSet<Mutation>);

impl Mutations {
    /// Leaves out exactly these lines.
    #[cfg(feature = "sim")]
    pub fn of(mutations: impl IntoIterator<Item = Mutation>) -> Self {
        Self(mutations.into_iter().collect())
    }

    /// Whether the line is left out.
    #[cfg(feature = "sim")]
    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.0.contains(&mutation)
    }

    /// Whether the line is left out: never without the feature `sim`.
    #[cfg(not(feature = "sim"))]
    #[expect(clippy::unused_self, reason = "with the feature there is something to look at")]
    pub(crate) const fn has(&self, _: Mutation) -> bool {
        false
    }
}
