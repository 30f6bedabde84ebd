//! Randomness from a seed: splitmix64 (Steele, Lea, Flood, OOPSLA 2014), so that a seed is a run.

/// A stream of numbers that depends only on its seed.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

/// What happens in some runs only. It draws from a stream of its own, so that other draws do not depend on it.
#[derive(Debug)]
pub(super) struct Habit {
    pub(super) rng: Rng,
    pub(super) happen: bool,
}

impl Habit {
    /// The stream is the seed's, turned by so many bits. The share is that of the runs in which it happens, of 10,000.
    pub(super) fn of(seed: u64, turned: u32, share: u64) -> Self {
        let mut rng = Rng::new(!seed.rotate_left(turned));
        let happen = rng.chance(share);
        Self { rng, happen }
    }
}

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next() % limit }
    }

    /// A number from `from` up to `to`.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// True in `share` of 10,000 cases.
    pub(super) fn chance(&mut self, share: u64) -> bool {
        share > 0 && self.below(10_000) < share
    }

    /// One of them.
    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len() as u64) as usize;
        all.get(at).copied()
    }
}
