//! A node's clock. It has its own zero and its own rate, which is at most 1 % off.

use tenure_protocol::core::time::Time;

/// A clock that showed `shown` at the true time `at`, and has run `ppb` billionths faster than true time since.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeClock {
    at: u64,
    shown: u64,
    ppb: i64,
}

/// The largest rate error, in billionths: the bound that the leases count on.
pub(super) const RHO_PPB: i64 = 10_000_000;

impl NodeClock {
    pub(super) fn new(now: u64, shown: u64, ppb: i64) -> Self {
        Self { at: now, shown, ppb: ppb.clamp(-RHO_PPB, RHO_PPB) }
    }

    /// The clock's time at the true time `now`.
    pub(super) fn read(&self, now: u64) -> Time {
        let passed = i128::from(now.saturating_sub(self.at));
        let shown = passed + passed * i128::from(self.ppb) / 1_000_000_000;
        Time(self.shown.saturating_add(u64::try_from(shown).unwrap_or(0)))
    }

    /// When it will show `local`; now, if it has.
    pub(super) fn when(&self, now: u64, local: Time) -> u64 {
        let ahead = i128::from(local.0) - i128::from(self.shown);
        if ahead <= 0 {
            return now;
        }
        let rate = 1_000_000_000 + i128::from(self.ppb);
        let passed = (ahead * 1_000_000_000 + rate - 1) / rate;
        let at = self.at.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        // Rounding must not wake the node a moment too early.
        if self.read(at) < local { at + 1 } else { at }.max(now)
    }

    /// Changes the rate from now on.
    pub(super) fn drift(&mut self, now: u64, ppb: i64) {
        *self = Self::new(now, self.read(now).0, ppb);
    }
}
