//! The suspects among the jobs of a lost worker, and how long each waits before it begins again.

use super::state::State;
use crate::model::id::JobKey;
use crate::model::record::{JobState, Record};
use crate::mutation::Mutation;

/// A job that ran for this long is no suspect, ms.
const PROVEN: u64 = 45_000;

impl State {
    /// How long a job of a lost worker waits before it begins again, ms. A job that is no suspect counts from zero. A
    /// job that had only just begun waits from its second loss on, any other job from its fifth. `heard`: when the
    /// worker was last heard of.
    pub(super) fn suspect(&self, key: &JobKey, record: &mut Record, heard: u64) -> u64 {
        if record.state != JobState::Running {
            return 0;
        }
        let (proven, ttl) = (self.limit("stable_run").min(PROVEN), self.limit("worker_ttl"));
        let ran = heard.saturating_sub(record.since);
        if ran >= proven && !self.broken.has(Mutation::LossesNeverForgiven) {
            record.attempts = 1;
            return 0;
        }
        let first = if ran < ttl { 2 } else { 5 };
        if record.attempts < first || self.broken.has(Mutation::SuspectsTogether) {
            return 0;
        }
        let widest = (2 * ttl).saturating_mul(4_u64.pow((record.attempts - 2).min(10)));
        spread(key, record.attempts, widest.min(4 * proven))
    }
}

/// A pause from a tenth of `widest` to all of it. It depends on the key, and differs after each loss.
fn spread(key: &JobKey, losses: u32, widest: u64) -> u64 {
    const PRIME: u64 = 2_147_483_647;
    let n = u64::from(losses.min(50));
    let factor = 30_011 + 602 * n;
    let hash = key.as_bytes().iter().fold(n, |hash, byte| (hash * factor + u64::from(*byte)) % PRIME);
    let hash = (0..4).fold(hash, |h, _| (h % 65_536 * factor + h / 65_536 * 40_503 + 1) % PRIME);
    widest * (100 + hash % 901) / 1_000
}
