//! The bounds of every setting of a pool, every option of a node, and the times of jobs and schedules. One table serves the checks, the document that
//! lists the bounds, and the test of all of them.

use std::fmt;
use std::time::Duration;

use super::InvalidSetting;

/// A day, in ms: longer than any wait here, and short enough for sums without overflow.
const DAY: u64 = 86_400_000;

/// The unit of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Ms,
    /// Bytes.
    Bytes,
    /// A number of things.
    Count,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ms => " ms",
            Self::Bytes => " bytes",
            Self::Count => "",
        })
    }
}

/// The bounds of one setting or option, by the name that users and the store know it by.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The name of the setting.
    pub name: &'static str,
    /// The least value.
    pub least: u64,
    /// The greatest value.
    pub most: u64,
    /// The unit of both.
    pub unit: Unit,
}

const fn bound(name: &'static str, least: u64, most: u64, unit: Unit) -> Bound {
    Bound { name, least, most, unit }
}

/// All bounds: first the settings that a pool shares, then the options of a node, a schedule and a job.
pub const BOUNDS: [Bound; 34] = [
    bound("worker_ttl", 500, 600_000, Unit::Ms),
    bound("max_queued", 1, 10_000_000, Unit::Count),
    bound("route_timeout", 1, 240_000, Unit::Ms),
    bound("assign_timeout", 1, 240_000, Unit::Ms),
    bound("stop_retry", 1, 240_000, Unit::Ms),
    bound("max_dispatch_deadline", 1_000, 240_000, Unit::Ms),
    bound("outcome_retention", 1_000, DAY, Unit::Ms),
    bound("max_attempts", 1, 1_000_000, Unit::Count),
    bound("stable_run", 1, DAY, Unit::Ms),
    bound("strikes", 1, 1_000_000, Unit::Count),
    bound("notify_cap", 1, 1_000, Unit::Count),
    bound("notify_bytes", 1, 16 << 20, Unit::Bytes),
    bound("join_settle", 0, 600_000, Unit::Ms),
    bound("payload_max", 1, 512 << 10, Unit::Bytes),
    bound("checkpoint_max", 1, 512 << 10, Unit::Bytes),
    bound("grant_max", 0, 16 << 10, Unit::Bytes),
    bound("history_max", 0, 100_000, Unit::Count),
    bound("history_all", 0, 1, Unit::Count),
    bound("hold", 0, 1, Unit::Count),
    bound("move_rate", 0, 1_000_000, Unit::Count),
    bound("move_now", 0, 1 << 52, Unit::Count),
    bound("shards", 1, 1_024, Unit::Count),
    bound("stable_after", 0, DAY, Unit::Ms),
    bound("handoff_parallel", 1, 1_000_000, Unit::Count),
    bound("start_permits", 1, 1_000_000, Unit::Count),
    bound("starts_per_second", 1, 1_000_000, Unit::Count),
    bound("moves_per_second", 1, 1_000_000, Unit::Count),
    bound("capacity", 1, 1_000_000, Unit::Count),
    bound("start_timeout", 1, DAY, Unit::Ms),
    bound("stop_timeout", 1, DAY, Unit::Ms),
    bound("plan_timeout", 1, DAY, Unit::Ms),
    bound("join_timeout", 1, DAY, Unit::Ms),
    bound("period", 1, 365 * DAY, Unit::Ms),
    bound("progress_timeout", 1_000, DAY, Unit::Ms),
];

/// The unit of the setting or option of that name.
pub fn unit_of(name: &str) -> Option<Unit> {
    BOUNDS.into_iter().find(|bound| bound.name == name).map(|bound| bound.unit)
}

/// Refuses a value outside the bounds of that name.
///
/// # Errors
/// The value is outside.
pub fn check(name: &'static str, value: u128) -> Result<(), InvalidSetting> {
    let Some(Bound { least, most, unit, .. }) = BOUNDS.into_iter().find(|bound| bound.name == name) else {
        return Ok(());
    };
    if (u128::from(least)..=u128::from(most)).contains(&value) {
        return Ok(());
    }
    let why = format!("must be from {least} to {most}{unit}").into();
    Err(InvalidSetting { name, value: format!("{value}{unit}"), why })
}

/// Refuses a time outside the bounds of that name. Only its whole milliseconds count.
///
/// # Errors
/// The time is outside.
pub fn check_time(name: &'static str, time: Duration) -> Result<(), InvalidSetting> {
    check(name, time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::settings::Settings;

    #[test]
    fn every_setting_that_is_a_number_has_bounds() {
        for (name, _) in Settings::default().fields() {
            let known = BOUNDS.iter().any(|bound| bound.name == name);
            assert_eq!(known, !matches!(name, "protocol"), "{name}");
        }
    }

    #[test]
    fn the_protocol_lists_every_bound() {
        let protocol = include_str!("../../../../docs/protocol/limits.md");
        for Bound { name, least, most, unit } in BOUNDS {
            let row = format!("| `{name}` | {least} | {most} |{unit} |");
            assert!(protocol.contains(&row), "{row}");
        }
    }
}
