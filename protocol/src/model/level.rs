//! Levels of the protocol: what a node's version knows, and what a pool may use.
//!
//! A step, a field or a letter belongs to a level. A pool has a floor: the store refuses every script of a lower level.
//! So nothing above the floor is used before all members know it, and no older script touches it afterwards.

use super::member::Members;
use super::settings::InvalidSetting;

/// The lowest level: that of a pool or a member which names none.
pub const LOWEST: u32 = 1;

/// The level of this version. The scripts have the same number (`parts/base.lua`).
pub const OWN: u32 = 1;

/// The longest address that a node publishes, in bytes.
pub const ADDRESS_MAX: usize = 128;

/// The levels of a pool, as one node sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Level {
    /// The level of this node's version.
    pub own: u32,
    /// The floor of the pool: nodes of a lower level are refused. Of several shards, the lowest.
    pub floor: u32,
    /// The lowest level of a member, or `None` without members. `raise_level` reaches this
    /// level.
    pub lowest_member: Option<u32>,
}

impl Level {
    /// The levels of one shard.
    #[doc(hidden)]
    pub fn of(own: u32, floor: u32, members: &Members) -> Self {
        let lowest_member = members.entries.values().map(|member| member.level).min();
        Self { own, floor, lowest_member }
    }

    /// The levels of two shards.
    #[doc(hidden)]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let members = self.lowest_member.into_iter().chain(other.lowest_member);
        Self { floor: self.floor.min(other.floor), lowest_member: members.min(), ..self }
    }
}

/// A level, from its text, as scripts read it. `None` if the text has none.
pub fn parse(text: &str) -> Option<u32> {
    let sound = text.len() < 10 && text.starts_with(|first| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| sound)
}

/// The pool needs a level that the caller does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[error("the pool needs level {floor}, this node has level {level}")]
#[non_exhaustive]
pub struct TooOld {
    /// The floor of the pool.
    pub floor: u32,
    /// The level of the caller.
    pub level: u32,
}

impl TooOld {
    /// The caller's level is below the floor.
    #[doc(hidden)]
    pub fn new(floor: u32, level: u32) -> Self {
        Self { floor, level }
    }
}

/// Whether a node may publish this address: at most 128 visible ASCII characters without `|`. Empty is none.
pub fn is_address(text: &str) -> bool {
    text.len() <= ADDRESS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|')
}

/// Refuses a level that a version with the level `own` does not know.
///
/// # Errors
/// The level is unknown.
pub fn check(level: u32, own: u32) -> Result<(), InvalidSetting> {
    if (LOWEST..=own).contains(&level) {
        return Ok(());
    }
    let why = format!("must be from {LOWEST} to {own}, the level of this version").into();
    Err(InvalidSetting { name: "level", value: level.to_string(), why })
}

/// Refuses an address that cannot be published.
///
/// # Errors
/// The address cannot be published.
pub fn check_address(text: &str) -> Result<(), InvalidSetting> {
    if is_address(text) {
        return Ok(());
    }
    let value = text.chars().take(ADDRESS_MAX).collect();
    let why = format!("must be at most {ADDRESS_MAX} visible ASCII characters without |").into();
    Err(InvalidSetting { name: "address", value, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_have_the_level_of_this_version() {
        let base = include_str!("../../../pool/src/store/lua/parts/base.lua");
        assert!(base.contains(&format!("\nlocal LEVEL = {OWN}\n")));
    }

    #[test]
    fn an_address_is_visible_ascii_without_a_bar() {
        for text in ["", "http://10.0.0.7:8080", "[::1]:80/{a}~", &"x".repeat(128)] {
            assert!(check_address(text).is_ok(), "{text}");
        }
        for text in ["a b", "a|b", "é", "a\n", &"x".repeat(129)] {
            assert!(check_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_level_is_read_as_scripts_read_it() {
        for (text, level) in [("1", Some(1)), ("20", Some(20)), ("999999999", Some(999_999_999))] {
            assert_eq!(parse(text), level);
        }
        for text in ["", "0", "02", "+2", "1x", "-1", "1000000000"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_known_levels_can_be_asked_for() {
        assert!(check(1, 2).is_ok() && check(2, 2).is_ok());
        for level in [0, 3, u32::MAX] {
            assert!(check(level, 2).is_err(), "{level}");
        }
    }
}
