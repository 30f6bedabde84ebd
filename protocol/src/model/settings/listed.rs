//! Settings one by one, for tools that list and change them by name.

use super::bounds::{BOUNDS, Unit, check, unit_of};
use super::{InvalidSetting, Settings, Value, is_fixed, shown};

/// A setting of a pool, as a tool shows it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SettingInfo {
    /// Its name, as in [`Settings`].
    pub name: &'static str,
    /// Its value, with its unit: `10s`, `65536 bytes`, `20`.
    pub value: String,
    /// Its value as the store has it: ms, bytes or a count; 0 or 1 for a switch.
    pub stored: u64,
    /// The value that it has in a pool that was given none, with its unit.
    pub default: String,
    /// Whether it can be changed while the pool runs.
    pub changeable: bool,
    /// The unit of `stored`: `ms`, `bytes`, or nothing for a count.
    pub unit: &'static str,
    /// The least value that it may have, in that unit.
    pub least: u64,
    /// The greatest value that it may have, in that unit.
    pub most: u64,
}

impl Settings {
    /// All settings that have one value, in a fixed order.
    #[must_use]
    pub fn list(&self) -> Vec<SettingInfo> {
        let (mut own, mut defaults) = (self.clone(), Self::default());
        let pairs = own.table().into_iter().zip(defaults.table());
        let listed = pairs.map(|((name, value), (_, default))| {
            let bound = BOUNDS.into_iter().find(|bound| bound.name == name);
            let unit = match unit_of(name) {
                Some(Unit::Ms) => "ms",
                Some(Unit::Bytes) => "bytes",
                Some(Unit::Count) | None => "",
            };
            let (value, default) = (value.stored(), default.stored());
            SettingInfo {
                name,
                value: shown(name, &value),
                stored: value.parse().unwrap_or_default(),
                default: shown(name, &default),
                changeable: !is_fixed(name),
                unit,
                least: bound.map_or(0, |bound| bound.least),
                most: bound.map_or(u64::MAX, |bound| bound.most),
            }
        });
        listed.collect()
    }

    /// Sets the setting of this name to a value, in the unit that [`list`](Self::list) names. `false` if there is no setting
    /// of that name.
    ///
    /// # Errors
    /// The value is outside its bounds. The settings are as they were.
    pub fn set(&mut self, name: &str, value: u64) -> Result<bool, InvalidSetting> {
        let Some((name, to)) = self.table().into_iter().find(|(known, _)| *known == name) else {
            return Ok(false);
        };
        check(name, value.into())?;
        match to {
            Value::Time(time) => *time = std::time::Duration::from_millis(value),
            Value::Number(number) => *number = value,
            // The bounds of a count fit.
            Value::Count(count) => *count = u32::try_from(value).unwrap_or(u32::MAX),
            Value::Switch(on) => *on = value != 0,
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_listed_and_set_by_its_name() {
        let mut settings = Settings::default();
        for setting in settings.list() {
            let value = if setting.stored == setting.least { setting.most } else { setting.least };
            assert_eq!(settings.set(setting.name, value), Ok(true), "{}", setting.name);
            let listed = settings.list().into_iter().find(|now| now.name == setting.name);
            let listed = listed.map(|now| (now.stored, now.default));
            assert_eq!(listed, Some((value, setting.value)), "{}", setting.name);
        }
        assert_eq!(settings.set("rubbish", 1), Ok(false));
    }

    #[test]
    fn a_value_outside_its_bounds_is_refused_and_nothing_changed() {
        let mut settings = Settings::default();
        assert!(settings.set("strikes", 0).is_err() && settings.set("worker_ttl", 499).is_err());
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn a_listed_setting_has_its_unit() {
        let listed = Settings::default().list();
        let of = |name: &str| {
            let setting = listed.iter().find(|setting| setting.name == name)?;
            Some((setting.value.as_str(), setting.stored, setting.unit, setting.changeable))
        };
        assert_eq!(of("worker_ttl"), Some(("10s", 10_000, "ms", false)));
        assert_eq!(of("checkpoint_max"), Some(("65536 bytes", 65_536, "bytes", true)));
        assert_eq!(of("max_attempts"), Some(("20", 20, "", true)));
    }
}
