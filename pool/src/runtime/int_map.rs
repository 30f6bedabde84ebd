//! Maps by consecutive numbers that the process or the pool gives out. No user chooses the numbers, so one
//! multiplication spreads them. A user's key is hashed with a secret instead.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by such numbers.
pub(super) type IntMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;

/// 2^64 divided by the golden ratio: it puts neighbours far apart.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads one number.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(8) ^ number).wrapping_mul(SPREAD);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn neighbours_differ_in_the_bits_that_tables_look_at() {
        let hashes: Vec<u64> =
            (0..1024_u64).map(|number| BuildHasherDefault::<IntHasher>::default().hash_one(number)).collect();
        let different =
            |bits: &dyn Fn(u64) -> u64| hashes.iter().map(|hash| bits(*hash)).collect::<HashSet<_>>().len();
        assert_eq!(different(&|hash| hash % 1024), 1024);
        assert_eq!(different(&|hash| hash >> 57), 128);
    }
}
