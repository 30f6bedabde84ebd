//! What the proofs break on purpose: a property that no breakage violates is one that nothing tests.
//!
//! A [`Breakage`] leaves out one line of the protocol. Which ones are in force is part of a node's configuration and of
//! a [`MemoryStore`](crate::MemoryStore)'s state; without the feature `sim` none can be, and the questions cost nothing.
//! A script on Redis is broken by a [`ScriptPatch`].

#[cfg(feature = "sim")]
use std::collections::BTreeSet;

/// One line of the protocol that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breakage {
    /// A worker whose lease has run out goes on: its handlers are neither asked to end nor aborted.
    NoSelfFence,
    /// `begin` takes jobs whoever owns them, under whatever token.
    BeginUnchecked,
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
    pub fn has(&self, breakage: Breakage) -> bool {
        self.0.contains(&breakage)
    }

    /// Whether the line is left out: never, without the feature `sim`.
    #[cfg(not(feature = "sim"))]
    pub const fn has(&self, _: Breakage) -> bool {
        false
    }
}

/// A text in a script, or in one of the parts that scripts share, and what stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPatch {
    /// The script's name, as in `begin`; if empty, every script that has the text, as it comes from a shared part.
    pub script: &'static str,
    /// What stands there.
    pub from: &'static str,
    /// What is to stand there.
    pub to: &'static str,
}
