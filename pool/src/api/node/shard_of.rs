//! Maps keys to shards.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The seed of the hash that picks the shard. `docs/protocol/sharding.md` fixes the hash and the seed: with others,
/// keys of one shard would start in another.
const SEED: u64 = 0x7465_6e75_7265_7368;

/// The shard of these bytes: XXH3 (64 bits) with its own seed, times `shards`, the upper 64 bits of the product. The
/// hash that places a key within its shard must be a different one. Otherwise the workers there would get unequal
/// shares.
pub(crate) fn shard_of(bytes: &[u8], shards: usize) -> usize {
    let product = u128::from(xxh3_64_with_seed(bytes, SEED)) * shards as u128;
    (product >> 64) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::core::ring::Ring;
    use crate::model::id::{NodeName, Nonce, WorkerId};
    use crate::model::member::{Member, MemberState, Members};
    use crate::model::settings::Settings;

    #[test]
    fn the_shard_of_a_key_never_changes() {
        let keys = ["acme", "zenith", "tenant-1", "tenant-2", "\u{e9}", "a"];
        assert_eq!(keys.map(|key| shard_of(key.as_bytes(), 1)), [0; 6]);
        assert_eq!(keys.map(|key| shard_of(key.as_bytes(), 4)), [1, 3, 0, 2, 0, 1]);
        assert_eq!(keys.map(|key| shard_of(key.as_bytes(), 1_000)), [440, 919, 132, 670, 219, 287]);
        assert_eq!(shard_of(&[0xff; 512], 1_000), 864);
    }

    /// How far the counts are from equal shares. For random counts it is about as large as their number.
    fn chi_squared(counts: &[u32]) -> f64 {
        let share = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        counts.iter().map(|&count| (f64::from(count) - share).powi(2) / share).sum()
    }

    fn ring(workers: u32) -> Ring {
        let member = |slot| Member {
            state: MemberState::Up,
            slot: Some(slot),
            ttl: Duration::from_secs(10),
            nonce: Nonce::new("x").unwrap(),
            node: NodeName::new("n").unwrap(),
            meta: String::new(),
            level: 1,
            address: String::new(),
        };
        let entries = (0..workers).map(|slot| (WorkerId(slot.into()), member(slot))).collect();
        Ring::new(&Members { entries, ring_size: workers, ..Members::default() }, &Settings::default())
    }

    /// If the shards used the ring's own hash, most workers of a shard would get next to nothing.
    #[test]
    fn shards_and_the_workers_within_each_get_equal_shares() {
        const SHARDS: usize = 8;
        for workers in [4, 8, 15] {
            let ring = ring(workers);
            let mut shards = vec![0; SHARDS];
            let mut within = vec![vec![0; workers as usize]; SHARDS];
            for i in 0..80_000 {
                let key = format!("tenant-{i}");
                let shard = shard_of(key.as_bytes(), SHARDS);
                shards[shard] += 1;
                within[shard][ring.pick(key.as_bytes(), 0).unwrap().0 as usize] += 1;
            }
            // Less than one random draw in 10,000 lies beyond these.
            assert!(chi_squared(&shards) < 30.0, "{shards:?}");
            for counts in &within {
                assert!(chi_squared(counts) < 45.0, "{counts:?}");
            }
        }
    }
}
