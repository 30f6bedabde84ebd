//! The placement of keys, computed independently of the pool: a jump hash over the slots. A key that meets a hole is
//! hashed again with the next counter.

use std::hash::{Hash, Hasher};

use jumphash::JumpHasher;

struct Probe<'a>(&'a str, u32);

impl Hash for Probe<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.0.as_bytes());
        state.write(&self.1.to_le_bytes());
    }
}

/// The ring: a slot for every worker that was ever up at the same time, and the workers that are up now.
#[derive(Default)]
pub(crate) struct Slots(Vec<Option<u64>>);

impl Slots {
    /// Takes the slots and the workers that are up now. A ring never shrinks.
    pub(crate) fn fill(&mut self, up: impl IntoIterator<Item = (u32, u64)>) {
        self.0.fill(None);
        for (slot, worker) in up {
            let slot = slot as usize;
            self.0.resize(self.0.len().max(slot + 1), None);
            self.0[slot] = Some(worker);
        }
    }

    pub(crate) fn worker_of(&self, key: &str, (k1, k2): (u64, u64)) -> Option<u64> {
        let (hasher, size) = (JumpHasher::new_with_keys(k1, k2), u32::try_from(self.0.len()).ok()?);
        let slot = |counter| self.0[hasher.slot(&Probe(key, counter), size) as usize];
        (0..64 * size).find_map(slot)
    }
}
