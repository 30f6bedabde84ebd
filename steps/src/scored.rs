//! A sorted set of Redis, for stores in memory.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

/// A set whose members have scores, in the order of (score, member).
#[derive(Clone, Debug)]
pub struct Scored<M> {
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
    pub fn put(&mut self, member: M, score: u64) {
        self.remove(&member);
        self.order.entry(score).or_default().insert(member.clone());
        self.scores.insert(member, score);
    }

    /// Removes a member.
    pub fn remove<Q: Ord + ?Sized>(&mut self, member: &Q)
    where
        M: Borrow<Q>,
    {
        let Some(score) = self.scores.remove(member) else { return };
        if let Some(equals) = self.order.get_mut(&score) {
            equals.remove(member);
            if equals.is_empty() {
                self.order.remove(&score);
            }
        }
    }

    /// Whether it is a member.
    pub fn contains<Q: Ord + ?Sized>(&self, member: &Q) -> bool
    where
        M: Borrow<Q>,
    {
        self.scores.contains_key(member)
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        self.scores.len()
    }

    /// The score of a member.
    pub fn score<Q: Ord + ?Sized>(&self, member: &Q) -> Option<u64>
    where
        M: Borrow<Q>,
    {
        self.scores.get(member).copied()
    }

    /// All members in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &M)> {
        self.order.iter().flat_map(|(score, members)| members.iter().map(|member| (*score, member)))
    }

    /// The first score.
    pub fn first(&self) -> Option<u64> {
        self.order.first_key_value().map(|(score, _)| *score)
    }

    /// Members with `above < score <= upto`, in order. Without `above`, from the lowest score on.
    pub fn range(&self, above: Option<u64>, upto: u64) -> impl Iterator<Item = &M> {
        let above = above.map_or(Unbounded, |above| Excluded(above.min(upto)));
        self.order.range((above, Included(upto))).flat_map(|(_, members)| members)
    }
}

#[cfg(test)]
mod tests {
    use super::Scored;

    #[test]
    fn members_stand_in_the_order_of_scores() {
        let mut set = Scored::default();
        for (member, score) in [("c", 1), ("b", 7), ("a", 7), ("d", 3), ("d", 9)] {
            set.put(member.to_owned(), score);
        }
        set.remove("c");
        assert_eq!(
            (set.first(), set.count(), set.score("d"), set.contains("c")),
            (Some(7), 3, Some(9), false)
        );
        assert_eq!(set.range(None, 8).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(set.range(Some(7), 9).collect::<Vec<_>>(), ["d"]);
        assert!(set.iter().map(|(score, _)| score).eq([7, 7, 9]));
    }
}
