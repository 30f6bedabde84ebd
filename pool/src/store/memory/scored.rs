//! A set whose members have scores, in the order of (score, member).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Members with their scores.
#[derive(Clone, Debug)]
pub(super) struct Scored<M> {
    scores: BTreeMap<M, u64>,
    order: BTreeMap<u64, BTreeSet<M>>,
}

impl<M> Default for Scored<M> {
    fn default() -> Self {
        Self { scores: BTreeMap::new(), order: BTreeMap::new() }
    }
}

impl<M: Ord + Clone> Scored<M> {
    /// Adds a member or changes its score.
    pub(super) fn put(&mut self, member: M, score: u64) {
        self.remove(&member);
        self.order.entry(score).or_default().insert(member.clone());
        self.scores.insert(member, score);
    }

    /// Removes a member.
    pub(super) fn remove(&mut self, member: &M) {
        let Some(score) = self.scores.remove(member) else { return };
        if let Some(equals) = self.order.get_mut(&score) {
            equals.remove(member);
            if equals.is_empty() {
                self.order.remove(&score);
            }
        }
    }

    /// Whether it is a member.
    pub(super) fn contains(&self, member: &M) -> bool {
        self.scores.contains_key(member)
    }

    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// The score of a member.
    pub(super) fn score(&self, member: &M) -> Option<u64> {
        self.scores.get(member).copied()
    }

    /// All members in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &M)> {
        self.order.iter().flat_map(|(score, members)| members.iter().map(|member| (*score, member)))
    }

    /// The first score.
    pub(super) fn first(&self) -> Option<u64> {
        self.order.first_key_value().map(|(score, _)| *score)
    }

    /// Members with `above < score <= upto`, in order. Without `above`, from the lowest score on.
    pub(super) fn range(&self, above: Option<u64>, upto: u64) -> impl Iterator<Item = &M> {
        let above = above.map_or(Unbounded, |above| Excluded(above.min(upto)));
        self.order.range((above, Included(upto))).flat_map(|(_, members)| members)
    }
}
