//! An estimate of the server's clock, from the times in its messages and replies. Pure: local moments are arguments.
//!
//! Invariant: the estimate is never ahead of the server. A time in a message or a reply was past when it arrived; the
//! latest of them, advanced by the local clock, is the estimate. A reply also gives an upper bound, which reveals a
//! server's clock that was set back, and another server.

/// Microseconds since the Unix epoch by the server's clock, for local moments in microseconds of any steady clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    /// Server time minus local time.
    offset: Option<i64>,
}

impl ServerClock {
    /// Takes the time in a message that arrived at the moment `local`.
    pub(crate) fn heard(&mut self, server: u64, local: u64) {
        let least = difference(server, local);
        self.offset = Some(self.offset.map_or(least, |offset| offset.max(least)));
    }

    /// Takes the time in a message that arrived at the moment `local`, and that itself shows that the clock was set
    /// back.
    pub(crate) fn was_set_back(&mut self, server: u64, local: u64) {
        let least = difference(server, local);
        self.offset = Some(self.offset.map_or(least, |offset| offset.min(least)));
    }

    /// Takes the time in the reply to a call that was sent and answered at these moments.
    pub(crate) fn answered(&mut self, server: u64, sent: u64, received: u64) {
        let least = difference(server, received);
        let most = difference(server, sent);
        self.offset = Some(match self.offset {
            Some(offset) if (least..=most).contains(&offset) => offset,
            _ => least,
        });
    }

    /// The server's time in ms; 0 before the server has told any time.
    pub(crate) fn millis(&self, local: u64) -> u64 {
        self.offset.map_or(0, |offset| local.saturating_add_signed(offset) / 1000)
    }

    /// The local moment at which the server's clock shows this time in ms; `None` before the server has told any time.
    pub(crate) fn local(&self, server_millis: u64) -> Option<u64> {
        let micros = server_millis.saturating_mul(1000);
        self.offset.map(|offset| micros.saturating_add_signed(offset.saturating_neg()))
    }
}

fn difference(server: u64, local: u64) -> i64 {
    i64::try_from(i128::from(server) - i128::from(local)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_followed_by_the_next_reply() {
        let mut clock = ServerClock::default();
        assert_eq!((clock.millis(5), clock.local(9)), (0, None));
        clock.heard(10_000_000, 0);
        assert_eq!((clock.millis(2_000_000), clock.local(12_000)), (12_000, Some(2_000_000)));
        clock.heard(4_000_000, 2_000_000);
        assert_eq!(clock.millis(2_000_000), 12_000, "a late message says nothing");
        clock.answered(4_100_000, 2_000_000, 2_100_000);
        assert_eq!(clock.millis(2_100_000), 4_100);
        clock.was_set_back(3_000_000, 2_100_000);
        assert_eq!(clock.millis(2_100_000), 3_000);
        clock.was_set_back(3_500_000, 2_100_000);
        assert_eq!(clock.millis(2_100_000), 3_000, "never ahead");
    }

    #[test]
    fn times_out_of_all_bounds_do_no_harm() {
        let mut clock = ServerClock::default();
        clock.heard(u64::MAX, 0);
        clock.answered(0, u64::MAX, u64::MAX);
        assert_eq!(clock.local(u64::MAX), Some(u64::MAX));
        let _ = clock.millis(u64::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_estimate_is_never_ahead_and_lags_by_one_way_at_most(
            real_offset in 0_u64..1 << 50,
            heard in proptest::collection::vec((1_u64..50_000, 0_u64..50_000, 0_u64..50_000, any::<bool>()), 1..40),
        ) {
            let (mut clock, mut local, mut shortest) = (ServerClock::default(), 1_u64, u64::MAX);
            for (pause, there, back, is_reply) in heard {
                local += pause;
                let said = local + there + real_offset;
                let received = local + there + back;
                if is_reply {
                    clock.answered(said, local, received);
                } else {
                    clock.heard(said, received);
                }
                local = received;
                shortest = shortest.min(back);
                let offset = clock.offset.unwrap_or(0);
                prop_assert!(offset <= real_offset.cast_signed());
                prop_assert!(offset >= (real_offset - shortest.min(real_offset)).cast_signed() - 50_000);
                prop_assert!(clock.millis(local) <= (local + real_offset) / 1000);
            }
        }
    }
}
