//! The bounds of every setting of a pool and every option of a node. One table serves the checks, the document that
//! lists the bounds, and the test of all of them.

use std::fmt;
use std::time::Duration;

use crate::settings::{InvalidSetting, field};

/// A day, in ms: longer than any wait here, and short enough for sums without overflow.
const DAY: u64 = 86_400_000;

/// The unit of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Ms,
    Bytes,
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

/// The bounds of one setting, by its name in the store, or of one option, by the name of its method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) name: &'static str,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) unit: Unit,
}

const fn bound(name: &'static str, least: u64, most: u64, unit: Unit) -> Bound {
    Bound { name, least, most, unit }
}

/// All bounds: first the settings that a pool shares, then the options of a node.
pub(crate) const BOUNDS: [Bound; 23] = [
    bound("ttl", 500, 600_000, Unit::Ms),
    bound("max_queued", 1, 10_000_000, Unit::Count),
    bound("route_ms", 1, 240_000, Unit::Ms),
    bound("assign_ms", 1, 240_000, Unit::Ms),
    bound("stop_ms", 1, 240_000, Unit::Ms),
    bound("late_ms", 1_000, 240_000, Unit::Ms),
    bound("od_ms", 1_000, DAY, Unit::Ms),
    bound("max_attempts", 1, 1_000_000, Unit::Count),
    bound("stable_ms", 1, DAY, Unit::Ms),
    bound("strikes", 1, 1_000_000, Unit::Count),
    bound("nt_cap", 1, 1_000, Unit::Count),
    bound("nt_bytes", 1, 16 << 20, Unit::Bytes),
    bound("join_settle", 0, 600_000, Unit::Ms),
    bound("payload_max", 1, 512 << 10, Unit::Bytes),
    bound("shards", 1, 1_024, Unit::Count),
    bound("stable_after", 0, DAY, Unit::Ms),
    bound("handoff_parallel", 1, 1_000_000, Unit::Count),
    bound("start_permits", 1, 1_000_000, Unit::Count),
    bound("start_timeout", 1, DAY, Unit::Ms),
    bound("stop_timeout", 1, DAY, Unit::Ms),
    bound("plan_timeout", 1, DAY, Unit::Ms),
    bound("join_timeout", 1, DAY, Unit::Ms),
    bound("period", 1, 365 * DAY, Unit::Ms),
];

/// Refuses a value outside the bounds of that name. The error has the name that users know.
pub(crate) fn check(name: &'static str, value: u128) -> Result<(), InvalidSetting> {
    let Some(Bound { least, most, unit, .. }) = BOUNDS.into_iter().find(|bound| bound.name == name) else {
        return Ok(());
    };
    if (u128::from(least)..=u128::from(most)).contains(&value) {
        return Ok(());
    }
    let why = format!("must be from {least} to {most}{unit}").into();
    Err(InvalidSetting { name: field(name), value: format!("{value}{unit}"), why })
}

/// Refuses a time outside the bounds of that name. Only its whole milliseconds count.
pub(crate) fn check_time(name: &'static str, time: Duration) -> Result<(), InvalidSetting> {
    check(name, time.as_millis())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Node;
    use crate::builder::NodeBuilder;
    use crate::error::Error;
    use crate::store::MemoryStore;

    /// A builder with this value of that name, and with other settings that are valid beside it.
    fn with(store: &MemoryStore, name: &str, value: u64) -> NodeBuilder {
        let builder = Node::builder("p", store).assume_fresh(true);
        let (time, count) = (Duration::from_millis(value), value as usize);
        let mut settings = crate::Settings::default();
        match name {
            "stable_after" => return builder.stable_after(time),
            "handoff_parallel" => return builder.handoff_parallel(count),
            "start_permits" => return builder.start_permits(count),
            "start_timeout" => return builder.start_timeout(time),
            "stop_timeout" => return builder.stop_timeout(time),
            "plan_timeout" => return builder.plan_timeout(time),
            "join_timeout" => return builder.join_timeout(time),
            "ttl" => settings.worker_ttl = time,
            "max_queued" => settings.max_queued = value,
            "route_ms" => settings.route_timeout = time,
            "assign_ms" => settings.assign_timeout = time,
            "stop_ms" => settings.stop_retry = time,
            "late_ms" => settings.max_dispatch_deadline = time,
            "od_ms" => {
                settings.max_dispatch_deadline = Duration::from_secs(1);
                settings.outcome_retention = time;
            }
            "max_attempts" => settings.max_attempts = value as u32,
            "stable_ms" => settings.stable_run = time,
            "strikes" => settings.strikes = value as u32,
            "nt_cap" => settings.notify_cap = value as u32,
            "nt_bytes" => settings.notify_bytes = value,
            "join_settle" => settings.join_settle = time,
            "payload_max" => settings.payload_max = value,
            other => panic!("{other} is set by nobody"),
        }
        builder.settings(settings)
    }

    fn refused(error: &Error, Bound { name, least, most, unit }: Bound, value: u64) {
        let name = field(name);
        let said = format!("setting {name} is {value}{unit}: must be from {least} to {most}{unit}");
        let Error::Setting(invalid) = error else { panic!("{error:?}, not {said}") };
        assert_eq!(invalid.to_string(), said);
    }

    #[tokio::test]
    async fn every_bound_is_kept_before_anything_is_written() {
        for bound in BOUNDS.into_iter().filter(|bound| !matches!(bound.name, "shards" | "period")) {
            let store = MemoryStore::new();
            for value in [bound.least, bound.most] {
                with(&store, bound.name, value).validate().unwrap();
            }
            for value in bound.least.checked_sub(1).into_iter().chain([bound.most + 1]) {
                refused(&with(&store, bound.name, value).join().await.unwrap_err(), bound, value);
            }
            assert!(store.dump().lines().is_empty(), "{}", bound.name);
        }
    }

    #[tokio::test]
    async fn a_pool_has_as_many_shards_as_it_may() {
        let bound = BOUNDS.into_iter().find(|bound| bound.name == "shards").unwrap();
        let store = MemoryStore::new();
        for value in [0, 1_025] {
            let joined = Node::builder("p", &store).shards(value).join().await;
            refused(&joined.unwrap_err(), bound, u64::from(value));
        }
        assert!(store.dump().lines().is_empty());
    }

    #[tokio::test]
    async fn a_period_is_from_a_millisecond_to_a_year() {
        let bound = BOUNDS.into_iter().find(|bound| bound.name == "period").unwrap();
        let store = MemoryStore::new();
        let node = Node::builder("p", &store).assume_fresh(true).join().await.unwrap();
        let before = store.dump().lines();
        for value in [bound.least - 1, bound.most + 1] {
            let ticker = node.ticker("t", Duration::from_millis(value)).await;
            refused(&ticker.err().unwrap(), bound, value);
            assert_eq!(store.dump().lines().len(), before.len());
        }
        for value in [bound.least, bound.most] {
            drop(node.ticker(format!("t{value}"), Duration::from_millis(value)).await.unwrap());
        }
    }

    #[test]
    fn every_setting_that_is_a_number_has_bounds() {
        for (name, _) in crate::Settings::default().fields() {
            let known = BOUNDS.iter().any(|bound| bound.name == name);
            assert_eq!(known, !matches!(name, "proto" | "k1" | "k2"), "{name}");
        }
    }

    #[tokio::test]
    async fn times_without_end_are_refused_by_name() {
        let store = MemoryStore::new();
        let never = Duration::MAX;
        let builder = || Node::builder("p", &store).assume_fresh(true);
        for (name, builder) in [
            ("ttl", builder().worker_ttl(never)),
            ("join_settle", builder().join_settle(never)),
            ("stable_after", builder().stable_after(never)),
            ("start_timeout", builder().start_timeout(never)),
            ("stop_timeout", builder().stop_timeout(never)),
            ("plan_timeout", builder().plan_timeout(never)),
            ("join_timeout", builder().join_timeout(never)),
        ] {
            match builder.join().await.unwrap_err() {
                Error::Setting(invalid) => assert_eq!(invalid.name, field(name)),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_protocol_lists_every_bound() {
        let protocol = include_str!("../../docs/protocol/limits.md");
        for Bound { name, least, most, unit } in BOUNDS {
            let row = format!("| {name} | {least} | {most} |{unit} |");
            assert!(protocol.contains(&row), "{row}");
        }
    }
}
