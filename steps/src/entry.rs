//! The ids of entries in streams.

use std::fmt;
use std::str::FromStr;

/// The id of an entry: the server's time in milliseconds when it was added, and a count within that millisecond. The
/// ids of a stream only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Milliseconds since 1970 by the server's clock.
    pub ms: u64,
    /// The number of the entry within its millisecond.
    pub seq: u64,
}

impl EntryId {
    /// Before every entry.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// After every entry.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// An id from its parts.
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// The id just before this one; that of [`EntryId::MIN`] is itself.
    #[must_use]
    pub const fn previous(self) -> Self {
        match (self.ms, self.seq) {
            (0, 0) => Self::MIN,
            (ms, 0) => Self { ms: ms - 1, seq: u64::MAX },
            (ms, seq) => Self { ms, seq: seq - 1 },
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// The text is not the id of an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an entry id: two decimal numbers joined by a dash")]
pub struct EntryIdError {
    text: String,
}

impl FromStr for EntryId {
    type Err = EntryIdError;

    fn from_str(text: &str) -> Result<Self, EntryIdError> {
        let number = |part: &str| {
            let decimal = part.bytes().all(|b| b.is_ascii_digit());
            if decimal { part.parse().ok() } else { None }
        };
        text.split_once('-')
            .and_then(|(ms, seq)| Some(Self { ms: number(ms)?, seq: number(seq)? }))
            .ok_or_else(|| EntryIdError { text: text.chars().take(64).collect() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_that_is_no_id_is_refused() {
        for bad in ["", "-", "5", "5-", "-5", "5-x", "+5-1", "5-1-2", "18446744073709551616-0", " 5-1"] {
            assert!(bad.parse::<EntryId>().is_err(), "{bad}");
        }
        let long = "9".repeat(1000).parse::<EntryId>().unwrap_err();
        assert!(long.to_string().len() < 150);
    }

    proptest! {
        #[test]
        fn ids_survive_their_text_and_order_by_time(a: (u64, u64), b: (u64, u64)) {
            let (x, y) = (EntryId::new(a.0, a.1), EntryId::new(b.0, b.1));
            prop_assert_eq!(x.to_string().parse::<EntryId>(), Ok(x));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }

        #[test]
        fn nothing_lies_between_an_id_and_the_one_before_it(ms: u64, seq in prop_oneof![Just(0), any::<u64>()]) {
            let id = EntryId::new(ms, seq);
            let joined = |id: EntryId| (u128::from(id.ms) << 64) | u128::from(id.seq);
            prop_assert_eq!(joined(id.previous()), joined(id).saturating_sub(1));
        }
    }
}
