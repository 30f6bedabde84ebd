//! The room of one worker for jobs of all shards of a pool. Each shard has a driver of its own; they share the count of its jobs.
//! A driver looks at it before each step. So shards that are given jobs at the same time may take a few more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The share of one shard in it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    taken: Arc<AtomicUsize>,
    /// The jobs of this shard.
    here: usize,
}

impl Room {
    /// The same room, for another shard.
    pub(crate) fn of_another_shard(&self) -> Self {
        Self { taken: self.taken.clone(), here: 0 }
    }

    /// The jobs of the other shards.
    pub(crate) fn taken_beside(&self) -> usize {
        self.taken.load(Ordering::Relaxed).saturating_sub(self.here)
    }

    /// This shard now has `here` jobs.
    pub(crate) fn take(&mut self, here: usize) {
        if here > self.here {
            self.taken.fetch_add(here - self.here, Ordering::Relaxed);
        } else {
            self.taken.fetch_sub(self.here - here, Ordering::Relaxed);
        }
        self.here = here;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.take(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_sees_the_jobs_of_the_others_until_they_have_left() {
        let mut one = Room::default();
        let (mut two, mut three) = (one.of_another_shard(), one.of_another_shard());
        one.take(5);
        two.take(3);
        three.take(1);
        assert_eq!([&one, &two, &three].map(Room::taken_beside), [4, 6, 8]);
        one.take(2);
        drop(two);
        assert_eq!((one.taken_beside(), three.taken_beside()), (1, 2));
    }
}
