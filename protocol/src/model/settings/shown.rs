//! The values of settings as users know them: with units.

use std::time::Duration;

use super::bounds::{Unit, unit_of};

/// A stored value with its unit; what is no number, as it stands there.
pub fn shown(name: &str, value: &str) -> String {
    match (unit_of(name), value.parse::<u64>()) {
        (Some(Unit::Ms), Ok(ms)) => format!("{:?}", Duration::from_millis(ms)),
        (Some(Unit::Bytes), Ok(bytes)) => format!("{bytes} bytes"),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_value_is_shown_with_its_unit() {
        let values = [
            ("worker_ttl", "5000"),
            ("join_settle", "50"),
            ("notify_bytes", "100"),
            ("strikes", "3"),
            ("worker_ttl", "x"),
            ("hash_keys", "1/2"),
            ("later", "7"),
        ];
        let shown = values.map(|(name, value)| shown(name, value));
        assert_eq!(shown, ["5s", "50ms", "100 bytes", "3", "x", "1/2", "7"]);
    }
}
