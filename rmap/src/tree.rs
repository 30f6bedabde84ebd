//! An ordered map whose copies share their common parts. Pure.
//!
//! Sorted leaves behind one list of pointers. A copy clones the list. A change clones only the leaf that it touches,
//! and only if a copy still holds that leaf. So a reader can keep any number of snapshots of a big map, and no change
//! costs more than the list and a leaf.
//!
//! Invariants: no leaf is empty, none has more than `LEAF` entries, and keys rise strictly from the first leaf to the
//! last.

use std::borrow::Borrow;
use std::sync::Arc;

const LEAF: usize = 128;
/// Leaves are made with room for changes: the next entry splits a full leaf.
const FILLED: usize = 112;
/// A leaf with fewer entries looks for a neighbour to merge with.
const SPARSE: usize = LEAF / 4;
const MERGED: usize = LEAF * 3 / 4;

type Leaf<K, V> = Vec<(K, V)>;

#[derive(Clone, Debug)]
pub(crate) struct Tree<K, V> {
    leaves: Vec<Arc<Leaf<K, V>>>,
    len: usize,
}

/// A place between two entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    leaf: usize,
    entry: usize,
}

impl<K, V> Default for Tree<K, V> {
    fn default() -> Self {
        Self { leaves: Vec::new(), len: 0 }
    }
}

impl<K, V> Tree<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry after a place, and the place after that entry.
    pub(crate) fn at(&self, cursor: Cursor) -> Option<(&K, &V, Cursor)> {
        let leaf = self.leaves.get(cursor.leaf)?;
        if let Some((key, value)) = leaf.get(cursor.entry) {
            return Some((key, value, Cursor { entry: cursor.entry + 1, ..cursor }));
        }
        let next = cursor.leaf + 1;
        let (key, value) = self.leaves.get(next)?.first()?;
        Some((key, value, Cursor { leaf: next, entry: 1 }))
    }

    pub(crate) fn iter_from(&self, mut cursor: Cursor) -> impl Iterator<Item = (&K, &V)> {
        std::iter::from_fn(move || {
            let (key, value, next) = self.at(cursor)?;
            cursor = next;
            Some((key, value))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.iter_from(Cursor::default())
    }
}

impl<K: Ord + Clone, V: Clone> Tree<K, V> {
    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let leaf = self.leaves.get(self.leaf_of(key)?)?;
        let entry = leaf.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        leaf.get(entry).map(|(_, value)| value)
    }

    /// The place before the first entry that is not less than `key`.
    pub(crate) fn seek<Q: Ord + ?Sized>(&self, key: &Q) -> Cursor
    where
        K: Borrow<Q>,
    {
        let Some(leaf) = self.leaf_of(key) else { return Cursor::default() };
        let entry = self.leaves[leaf].partition_point(|(k, _)| k.borrow() < key);
        Cursor { leaf, entry }
    }

    /// Inserts an entry. Returns the replaced value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(at) = self.leaf_of(&key).or_else(|| (!self.leaves.is_empty()).then_some(0)) else {
            self.leaves.push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return None;
        };
        let leaf = Arc::make_mut(&mut self.leaves[at]);
        match leaf.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(entry) => return Some(std::mem::replace(&mut leaf[entry].1, value)),
            Err(entry) => {
                if leaf.len() == leaf.capacity() {
                    leaf.reserve_exact(if leaf.len() < SPARSE { SPARSE } else { LEAF - leaf.len() });
                }
                leaf.insert(entry, (key, value));
            }
        }
        self.len += 1;
        if leaf.len() >= LEAF {
            let upper = leaf.split_off(LEAF / 2);
            leaf.shrink_to(FILLED);
            self.leaves.insert(at + 1, Arc::new(upper));
        }
        None
    }

    /// Removes an entry. Returns its value.
    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.leaf_of(key)?;
        let entry = self.leaves[at].binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        let leaf = Arc::make_mut(&mut self.leaves[at]);
        let (_, value) = leaf.remove(entry);
        self.len -= 1;
        if leaf.is_empty() {
            self.leaves.remove(at);
        } else if leaf.len() < SPARSE {
            self.merge(at);
        }
        Some(value)
    }

    /// Merges a sparse leaf with a neighbour, when one leaf can hold both.
    fn merge(&mut self, at: usize) {
        let fits = |a: usize, b: usize| match (self.leaves.get(a), self.leaves.get(b)) {
            (Some(a), Some(b)) => a.len() + b.len() <= MERGED,
            _ => false,
        };
        let lower = if fits(at, at + 1) {
            at
        } else if at > 0 && fits(at - 1, at) {
            at - 1
        } else {
            return;
        };
        let upper = Arc::unwrap_or_clone(self.leaves.remove(lower + 1));
        Arc::make_mut(&mut self.leaves[lower]).extend(upper);
    }

    /// The last leaf that begins at or before `key`; `None` when all begin after it.
    fn leaf_of<Q: Ord + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let begins = |leaf: &Arc<Leaf<K, V>>| leaf.first().is_some_and(|(k, _)| k.borrow() <= key);
        self.leaves.partition_point(begins).checked_sub(1)
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Tree<K, V> {
    /// Of several entries with one key the last one counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut sorted: Vec<_> = entries.into_iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut tree = Self::default();
        let mut leaf: Leaf<K, V> = Vec::new();
        let mut left = sorted.len();
        for (key, value) in sorted {
            if leaf.last().is_some_and(|(last, _)| *last == key) {
                leaf.pop();
                tree.len -= 1;
            } else if leaf.len() >= FILLED {
                tree.leaves.push(Arc::new(std::mem::take(&mut leaf)));
            }
            if leaf.capacity() == 0 {
                leaf.reserve_exact(left.min(FILLED));
            }
            leaf.push((key, value));
            tree.len += 1;
            left -= 1;
        }
        if !leaf.is_empty() {
            tree.leaves.push(Arc::new(leaf));
        }
        tree
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Tree<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for Tree<K, V> {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u8),
        Remove(u16),
        /// Removes all keys from the first up to the second.
        Drain(u16, u16),
        Copy,
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0_u16..600;
        prop_oneof![
            12 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Step::Insert(k, v)),
            6 => key.clone().prop_map(Step::Remove),
            1 => (key.clone(), key).prop_map(|(a, b)| Step::Drain(a.min(b), a.max(b))),
            1 => Just(Step::Copy),
        ]
    }

    fn check(tree: &Tree<u16, u8>, model: &BTreeMap<u16, u8>) {
        assert_eq!(tree.len(), model.len());
        assert!(tree.iter().eq(model.iter()));
        assert!(tree.leaves.iter().all(|leaf| (1..LEAF).contains(&leaf.len())));
        for probe in [0, 1, 255, 599, 600] {
            assert_eq!(tree.get(&probe), model.get(&probe));
            assert!(tree.iter_from(tree.seek(&probe)).eq(model.range(probe..)), "from {probe}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn is_an_ordered_map_whose_copies_stay_as_they_were(
            first in proptest::collection::vec((0_u16..600, any::<u8>()), 0..600),
            steps in proptest::collection::vec(step(), 1..400),
        ) {
            let mut model: BTreeMap<_, _> = first.iter().copied().collect();
            let mut tree: Tree<_, _> = first.into_iter().collect();
            check(&tree, &model);
            let mut copies = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(k, v) => assert_eq!(tree.insert(k, v), model.insert(k, v)),
                    Step::Remove(k) => assert_eq!(tree.remove(&k), model.remove(&k)),
                    Step::Drain(a, b) => for k in a..b {
                        assert_eq!(tree.remove(&k), model.remove(&k));
                    },
                    Step::Copy => copies.push((tree.clone(), model.clone())),
                }
                check(&tree, &model);
            }
            for (tree, model) in &copies {
                check(tree, model);
            }
        }
    }

    #[test]
    fn a_change_after_a_copy_clones_one_leaf() {
        let mut tree: Tree<u32, u32> = (0..10_000).map(|n| (n, n)).collect();
        let copy = tree.clone();
        tree.insert(5_000, 0);
        let shared = tree.leaves.iter().zip(&copy.leaves).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, tree.leaves.len() - 1);
    }

    #[test]
    fn removals_leave_no_sparse_leaves() {
        let mut tree: Tree<u32, u32> = (0..10_000).map(|n| (n, n)).collect();
        for n in (0..10_000).filter(|n| n % 50 != 0) {
            tree.remove(&n);
        }
        assert!(tree.leaves.len() <= 200 / (SPARSE / 2), "{} leaves for 200 entries", tree.leaves.len());
    }
}
