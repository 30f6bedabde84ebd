//! Times: how long ago for people, RFC 3339 in ms for programs.

use std::time::{Duration, SystemTime};

use serde::Serializer;

/// RFC 3339, UTC, ms.
pub(crate) fn stamp(time: SystemTime) -> String {
    // Beyond the year 9999 there is no such text.
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(time.min(last)).to_string()
}

/// For serde: RFC 3339, UTC, ms.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(crate) fn as_stamp<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&stamp(*time))
}

/// For serde: the same, if there is one.
#[allow(clippy::ref_option, reason = "serde gives a reference to the field")]
pub(crate) fn as_maybe_stamp<S: Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => as_stamp(time, to),
        None => to.serialize_none(),
    }
}

/// A length of time in its two largest units: `3s`, `2m10s`, `5h2m`, `3d4h`.
pub(crate) fn brief(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{s}s"),
        60..3_600 => format!("{}m{}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h{}m", s / 3_600, s / 60 % 60),
        _ => format!("{}d{}h", s / 86_400, s / 3_600 % 24),
    }
}

/// In ms.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long ago it was, or with `utc` when.
pub(crate) fn since(time: SystemTime, utc: bool) -> String {
    if utc { stamp(time) } else { brief(time.elapsed().unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_their_two_largest_units() {
        let cases =
            [(7, "7ms"), (3_200, "3s"), (130_000, "2m10s"), (18_120_000, "5h2m"), (273_600_000, "3d4h")];
        for (time, text) in cases {
            assert_eq!(brief(Duration::from_millis(time)), text);
        }
        assert_eq!(stamp(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500)), "1970-01-01T00:00:01.500Z");
        assert_eq!(stamp(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 45)), "9999-12-31T23:59:59.000Z");
    }
}
