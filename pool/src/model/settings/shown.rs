//! The settings as users know them: by the names of the builders, and with units.

use std::time::Duration;

enum Unit {
    Count,
    Millis,
    Bytes,
}

/// A setting's name in the store, its name in [`Settings`](super::Settings), and what it counts.
const NAMES: [(&str, &str, Unit); 17] = [
    ("proto", "protocol", Unit::Count),
    ("ttl", "worker_ttl", Unit::Millis),
    ("max_queued", "max_queued", Unit::Count),
    ("route_ms", "route_timeout", Unit::Millis),
    ("assign_ms", "assign_timeout", Unit::Millis),
    ("stop_ms", "stop_retry", Unit::Millis),
    ("late_ms", "max_dispatch_deadline", Unit::Millis),
    ("od_ms", "outcome_retention", Unit::Millis),
    ("max_attempts", "max_attempts", Unit::Count),
    ("stable_ms", "stable_run", Unit::Millis),
    ("strikes", "strikes", Unit::Count),
    ("nt_cap", "notify_cap", Unit::Count),
    ("nt_bytes", "notify_bytes", Unit::Bytes),
    ("join_settle", "join_settle", Unit::Millis),
    ("payload_max", "payload_max", Unit::Bytes),
    ("k1", "hash_keys", Unit::Count),
    ("k2", "hash_keys", Unit::Count),
];

/// The name that users know the setting by; one of a later version has only that in the store.
pub(crate) fn field(stored: &str) -> &str {
    NAMES.iter().find(|(name, ..)| *name == stored).map_or(stored, |(_, field, _)| field)
}

/// A stored value with its unit; what is no number, as it stands there.
pub(crate) fn shown(stored: &str, value: &str) -> String {
    let unit = NAMES.iter().find(|(name, ..)| *name == stored).map(|(.., unit)| unit);
    match (unit, value.parse::<u64>()) {
        (Some(Unit::Millis), Ok(ms)) => format!("{:?}", Duration::from_millis(ms)),
        (Some(Unit::Bytes), Ok(bytes)) => format!("{bytes} bytes"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::settings::Settings;

    #[test]
    fn every_setting_has_a_name_that_users_know() {
        let settings = Settings { hash_keys: Some((1, 2)), ..Settings::default() };
        for (name, _) in settings.fields() {
            assert!(NAMES.iter().any(|(stored, ..)| *stored == name), "{name}");
        }
        assert_eq!([field("ttl"), field("shard"), field("later")], ["worker_ttl", "shard", "later"]);
    }

    #[test]
    fn a_value_is_shown_with_its_unit() {
        let values =
            [("ttl", "5000"), ("join_settle", "50"), ("nt_bytes", "100"), ("strikes", "3"), ("ttl", "x")];
        let shown = values.map(|(name, value)| shown(name, value));
        assert_eq!(shown, ["5s", "50ms", "100 bytes", "3", "x"]);
    }
}
