//! Events at a limited rate: after a pause a group of a tenth of a second's share at most, then one in each interval.
//!
//! Generic cell rate algorithm, as virtual scheduling: ITU-T I.371, annex A.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::core::time::Time;

/// After a pause, the events that are due within this time may happen at once.
const GROUP: Duration = Duration::from_millis(100);

/// The events of one kind.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When the next event is due, if all events keep their distance.
    due: Time,
    /// When an event that was refused may happen.
    refused_until: Option<Time>,
}

impl Throttle {
    /// Before a series of events that may happen: nothing is known to be refused.
    pub(super) fn look_again(&mut self) {
        self.refused_until = None;
    }

    /// Whether an event may happen now. If so, it counts. Without a limit it always may.
    pub(super) fn admits(&mut self, now: Time, per_second: Option<NonZeroU32>) -> bool {
        per_second.is_none_or(|limit| self.admits_each(now, Duration::from_secs(1) / limit.get()))
    }

    /// Like [`admits`](Self::admits), for one event in each interval.
    pub(super) fn admits_each(&mut self, now: Time, interval: Duration) -> bool {
        // A lower rate before may have put it later than this rate ever does.
        self.due = self.due.min(now + GROUP.max(interval));
        let from = self.due - GROUP.saturating_sub(interval);
        if now < from {
            self.refused_until = Some(from);
            return false;
        }
        self.due = self.due.max(now) + interval;
        true
    }

    /// When the last refused event may happen.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.refused_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times, ms, at which 100 events happen that are all wanted from the beginning.
    fn times(per_second: Option<u32>) -> Vec<u64> {
        let per_second = per_second.and_then(NonZeroU32::new);
        let (mut throttle, mut now, mut times) =
            (Throttle::default(), Time(0) + Duration::from_secs(60), vec![]);
        let began = now;
        while times.len() < 100 {
            throttle.look_again();
            if throttle.admits(now, per_second) {
                assert_eq!(throttle.deadline(), None);
                times.push(now.since(began).as_millis() as u64);
            } else {
                now = throttle.deadline().unwrap_or(now);
            }
        }
        times
    }

    #[test]
    fn events_come_at_their_rate_in_groups_of_a_tenth_of_a_second() {
        assert_eq!(times(None), [0; 100]);
        assert_eq!(times(Some(1)), (0..100).map(|n| 1_000 * n).collect::<Vec<_>>());
        assert_eq!(times(Some(10)), (0..100).map(|n| 100 * n).collect::<Vec<_>>());
        let fast = times(Some(200));
        assert_eq!((fast[19], fast[20], fast[99]), (0, 5, 400));
    }

    #[test]
    fn a_raised_rate_counts_from_the_next_event_on() {
        let (mut throttle, now) = (Throttle::default(), Time(0) + Duration::from_secs(60));
        let mut admits = |now, per_second| throttle.admits(now, NonZeroU32::new(per_second));
        assert!(admits(now, 1) && !admits(now, 1));
        let soon = now + Duration::from_millis(1);
        assert!(!admits(soon, 10));
        assert!(admits(soon + Duration::from_millis(100), 10), "not after a second");
        let soon = soon + Duration::from_millis(101);
        assert!(!admits(soon, 1) && !admits(soon, 200));
        assert!(admits(soon + Duration::from_millis(5), 200));
    }

    #[test]
    fn unused_time_is_not_saved_up() {
        let (mut throttle, rate) = (Throttle::default(), NonZeroU32::new(10));
        assert!(throttle.admits(Time(0) + Duration::from_secs(60), rate));
        let later = Time(0) + Duration::from_secs(600);
        assert!(throttle.admits(later, rate) && !throttle.admits(later, rate));
        assert_eq!(throttle.deadline(), Some(later + Duration::from_millis(100)));
    }
}
