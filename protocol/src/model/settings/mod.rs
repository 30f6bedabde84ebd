//! The pool-wide settings. They are stored with the pool in the replicated map `settings`, and are equal on every node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use self::bounds::{check, check_time};
use crate::model::id::{Incarnation, Revision};

pub mod bounds;
mod given;
mod listed;
mod shown;

pub use given::Given;
pub use listed::SettingInfo;
pub use shown::shown;

/// The protocol's major number. Members with different numbers cannot run together.
pub const PROTOCOL: u64 = 2;

/// The name of [`Settings::hash_keys`] in the store. The value is both numbers with a `/` between.
pub const HASH_KEYS: &str = "hash_keys";

/// The settings that all nodes of a pool share. A node that was not given a setting takes the pool's. A node that was
/// given another value than the pool's is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// T: how long a worker without a heartbeat keeps its jobs. 10 s.
    pub worker_ttl: Duration,
    /// How many accepted jobs that have never begun the pool may hold. 10,000.
    pub max_queued: u64,
    /// A start event that no node has routed is sent again after this time. 2 s.
    pub route_timeout: Duration,
    /// How long a worker may take from assignment to begin. 5 s.
    pub assign_timeout: Duration,
    /// A stop is sent again after this time. 2 s.
    pub stop_retry: Duration,
    /// How long a dispatch is retried while its acceptance is unknown, and how long ended dispatches are remembered.
    /// It may only grow while the pool lives. 30 s.
    pub max_dispatch_deadline: Duration,
    /// How long the outcome of a dispatch with the caller's own id is kept. At least `max_dispatch_deadline`. 10 min.
    pub outcome_retention: Duration,
    /// A job is parked after this many begins without success. 20.
    pub max_attempts: u32,
    /// A job that has run for this long counts as healthy again. 10 min.
    pub stable_run: Duration,
    /// A key goes to the next worker of its chain after this many refusals and assignment time-outs. 3.
    pub strikes: u32,
    /// Waiting notifications per job. 64.
    pub notify_cap: u32,
    /// Bytes of waiting notifications per job. 1 MiB.
    pub notify_bytes: u64,
    /// How long a new worker waits for the slot of a leaving worker before it takes a new one. 5 s.
    pub join_settle: Duration,
    /// The longest payload, with its envelope, in bytes. 512 KiB.
    pub payload_max: u64,
    /// The longest checkpoint of a job, in bytes. 64 KiB.
    pub checkpoint_max: u64,
    /// The longest payload, with its envelope, in bytes, that travels to a worker with the news of a new job. The worker
    /// starts such a job without asking first. 4 KiB; 0: none does; at most 16 KiB.
    pub grant_max: u64,
    /// How many entries of the pool's history are kept; 0: nothing is noted. 4,096. See
    /// `Inspector::events`.
    pub history_max: u64,
    /// The history also has each start and each end of a job. Off: it has only what is notable, and costs nothing for a job that
    /// starts, runs and ends. On, the history reaches back less far: what is notable goes out with the rest. A node tells of 1,000
    /// starts and ends a second at most, and counts the others.
    pub history_all: bool,
    /// While it is set, no worker is given a job: see `Operator::hold`. Off.
    pub hold: bool,
    /// How many jobs of the whole pool are asked in a second to move, because the ring has changed; 0, the default: no limit.
    /// Each worker of each shard moves its equal share of them at most. See `Operator::limit_moves`.
    pub move_rate: u32,
    /// How often somebody has asked for all moves at once: see `Operator::move_now`. 0.
    pub move_now: u64,
    /// The keys of the placement hash. `None`, the default, takes those of the pool. They are drawn at random when a
    /// pool is created, so that nobody can choose job keys that all belong to one worker.
    pub hash_keys: Option<(u64, u64)>,
    /// The shard that these settings belong to. `None` for a pool with one shard. The
    /// join sets it.
    pub shard: Option<ShardId>,
}

/// One of the shards of a pool. As text, and in the store: `index/count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId {
    /// Its index, from 0.
    pub index: u32,
    /// The number of shards.
    pub count: u32,
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl ShardId {
    /// The setting's name in the store.
    pub const SETTING: &'static str = "shard";
    /// Reads the text that the store has.
    pub fn parse(text: &str) -> Option<Self> {
        let (index, count) = text.split_once('/')?;
        Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            worker_ttl: Duration::from_secs(10),
            max_queued: 10_000,
            route_timeout: Duration::from_secs(2),
            assign_timeout: Duration::from_secs(5),
            stop_retry: Duration::from_secs(2),
            max_dispatch_deadline: Duration::from_secs(30),
            outcome_retention: Duration::from_secs(600),
            max_attempts: 20,
            stable_run: Duration::from_secs(600),
            strikes: 3,
            notify_cap: 64,
            notify_bytes: 1 << 20,
            join_settle: Duration::from_secs(5),
            payload_max: 512 << 10,
            checkpoint_max: 64 << 10,
            grant_max: 4 << 10,
            history_max: 4_096,
            history_all: false,
            hold: false,
            move_rate: 0,
            move_now: 0,
            hash_keys: None,
            shard: None,
        }
    }
}

/// A setting with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {name} is {value}: {why}")]
#[non_exhaustive]
pub struct InvalidSetting {
    /// The setting's name, as in [`Settings`] and the builders.
    pub name: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// Why the value is invalid.
    pub why: Cow<'static, str>,
}

impl InvalidSetting {
    /// This value of the setting is invalid.
    #[doc(hidden)]
    pub fn new(name: &'static str, value: String, why: impl Into<Cow<'static, str>>) -> Self {
        Self { name, value, why: why.into() }
    }
}

impl Settings {
    /// Checks the values that the proofs and the scripts rely on.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        for (name, value) in self.clone().table() {
            match value {
                Value::Time(time) => check_time(name, *time)?,
                Value::Number(number) => check(name, (*number).into())?,
                Value::Count(count) => check(name, (*count).into())?,
                Value::Switch(_) => {}
            }
        }
        if self.outcome_retention < self.max_dispatch_deadline {
            // If an outcome were forgotten earlier, a retry of its dispatch would start the job a second time.
            let value = format!("{} ms", self.outcome_retention.as_millis());
            let why = "must be at least max_dispatch_deadline".into();
            return Err(InvalidSetting { name: "outcome_retention", value, why });
        }
        if let Some(shard) = self.shard {
            check("shards", if shard.index < shard.count { shard.count.into() } else { 0 })?;
        }
        Ok(())
    }

    /// The fields as the store has them, in a fixed order.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("protocol", PROTOCOL.to_string())];
        fields.extend(self.clone().table().map(|(name, value)| (name, value.stored())));
        fields.extend(self.hash_keys.map(|(k1, k2)| (HASH_KEYS, format!("{k1}/{k2}"))));
        fields.extend(self.shard.map(|shard| (ShardId::SETTING, shard.to_string())));
        fields
    }
}

/// A setting's value, by the kind of its number.
enum Value<'a> {
    /// In the store: ms.
    Time(&'a mut Duration),
    Number(&'a mut u64),
    Count(&'a mut u32),
    /// In the store: 0 or 1.
    Switch(&'a mut bool),
}

impl Value<'_> {
    fn stored(&self) -> String {
        match self {
            Self::Time(time) => time.as_millis().to_string(),
            Self::Number(number) => number.to_string(),
            Self::Count(count) => count.to_string(),
            Self::Switch(on) => u8::from(**on).to_string(),
        }
    }
}

/// Whether a pool keeps this setting for its life, because its leases or its placement rest on it.
pub fn is_fixed(name: &str) -> bool {
    matches!(name, "protocol" | "worker_ttl" | HASH_KEYS | ShardId::SETTING)
}

impl Settings {
    /// These settings, with the stored values of all that may change. Unusable stored values are ignored.
    #[doc(hidden)]
    #[must_use]
    pub fn adopting(&self, stored: &BTreeMap<String, String>) -> Self {
        self.taking(stored, |name| !is_fixed(name))
    }

    /// Like `adopting`, and with the stored keys of the placement hash if the node was given none. A pool never
    /// changes them. But no state of the node rests on them, and a pool that is created again may have other keys.
    #[doc(hidden)]
    #[must_use]
    pub fn following(&self, stored: &BTreeMap<String, String>, given: &Given) -> Self {
        let adopted = self.adopting(stored);
        if given.has(HASH_KEYS) { adopted } else { adopted.placed_as(stored) }
    }

    /// These settings for a node that joins a pool: each setting that the node was not given is the pool's.
    #[doc(hidden)]
    #[must_use]
    pub fn joining(&self, stored: &BTreeMap<String, String>, given: &Given) -> Self {
        let adopted = self.taking(stored, |name| !given.has(name));
        if given.has(HASH_KEYS) { adopted } else { adopted.placed_as(stored) }
    }

    fn taking(&self, stored: &BTreeMap<String, String>, takes: impl Fn(&str) -> bool) -> Self {
        let mut adopted = self.clone();
        // Two passes, because a value that is invalid beside the old values may be valid beside the new ones.
        for (name, value) in stored.iter().chain(stored).filter(|(name, _)| takes(name)) {
            let mut next = adopted.clone();
            if next.take(name, value).is_some() && next.validate().is_ok() {
                adopted = next;
            }
        }
        adopted
    }

    /// These settings, with the stored keys of the placement hash if they can be read.
    fn placed_as(self, stored: &BTreeMap<String, String>) -> Self {
        let keys = stored.get(HASH_KEYS).and_then(|text| text.split_once('/'));
        let keys = keys.and_then(|(k1, k2)| Some((k1.parse().ok()?, k2.parse().ok()?)));
        Self { hash_keys: keys.or(self.hash_keys), ..self }
    }

    /// Takes over one stored field. `None` if the field is unknown, is no number, or is no setting of this kind.
    fn take(&mut self, name: &str, stored: &str) -> Option<()> {
        let number: u64 = stored.parse().ok()?;
        let (_, value) = self.table().into_iter().find(|(known, _)| *known == name)?;
        match value {
            Value::Time(time) => *time = Duration::from_millis(number),
            Value::Number(old) => *old = number,
            Value::Count(count) => *count = u32::try_from(number).ok()?,
            Value::Switch(on) => *on = [false, true].get(usize::try_from(number).ok()?).copied()?,
        }
        Some(())
    }

    /// Every setting that is stored as one number, by its name.
    fn table(&mut self) -> [(&'static str, Value<'_>); 21] {
        [
            ("worker_ttl", Value::Time(&mut self.worker_ttl)),
            ("max_queued", Value::Number(&mut self.max_queued)),
            ("route_timeout", Value::Time(&mut self.route_timeout)),
            ("assign_timeout", Value::Time(&mut self.assign_timeout)),
            ("stop_retry", Value::Time(&mut self.stop_retry)),
            ("max_dispatch_deadline", Value::Time(&mut self.max_dispatch_deadline)),
            ("outcome_retention", Value::Time(&mut self.outcome_retention)),
            ("max_attempts", Value::Count(&mut self.max_attempts)),
            ("stable_run", Value::Time(&mut self.stable_run)),
            ("strikes", Value::Count(&mut self.strikes)),
            ("notify_cap", Value::Count(&mut self.notify_cap)),
            ("notify_bytes", Value::Number(&mut self.notify_bytes)),
            ("join_settle", Value::Time(&mut self.join_settle)),
            ("payload_max", Value::Number(&mut self.payload_max)),
            ("checkpoint_max", Value::Number(&mut self.checkpoint_max)),
            ("grant_max", Value::Number(&mut self.grant_max)),
            ("history_max", Value::Number(&mut self.history_max)),
            ("history_all", Value::Switch(&mut self.history_all)),
            ("hold", Value::Switch(&mut self.hold)),
            ("move_rate", Value::Count(&mut self.move_rate)),
            ("move_now", Value::Number(&mut self.move_now)),
        ]
    }

    /// The changes to the store that turn these settings into `other`.
    ///
    /// # Errors
    /// The name of a setting that cannot change.
    #[doc(hidden)]
    pub fn changes_to(&self, other: &Self) -> Result<Vec<SettingChange>, &'static str> {
        if self.shard != other.shard {
            return Err(ShardId::SETTING);
        }
        if self.hash_keys.is_some() != other.hash_keys.is_some() {
            return Err(HASH_KEYS);
        }
        let pairs = self.fields().into_iter().zip(other.fields());
        let differing = pairs.filter(|((_, from), (_, to))| from != to);
        let change = |((name, from), (_, to)): ((&'static str, _), (_, _))| {
            if is_fixed(name) { Err(name) } else { Ok(SettingChange { name: name.to_owned(), from, to }) }
        };
        differing.map(change).collect()
    }
}

/// A setting to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The setting's name in the store.
    pub name: String,
    /// The value that the caller knows. Empty for a setting that the pool does not have yet.
    pub from: String,
    /// The new value: a whole number.
    pub to: String,
}

/// The progress of a shutdown. Absent while the pool is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShutdownFlag {
    /// `C`: no new jobs are accepted; accepted jobs may still begin.
    Closing {
        /// Server time, ms, at which it becomes `Stopping`.
        deadline_ms: u64,
        /// The node that asked.
        by: String,
    },
    /// `S`: every job is stopped and everything is cleaned up.
    Stopping {
        /// Server time, ms, until which accepted jobs could begin. `None` if they were dropped at once.
        deadline_ms: Option<u64>,
        /// The node that asked.
        by: String,
    },
}

impl ShutdownFlag {
    /// Reads the flag; `None` for an empty or damaged one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, '|');
        let (state, deadline, by) = (fields.next()?, fields.next()?, fields.next()?.to_owned());
        match state {
            "C" => Some(Self::Closing { deadline_ms: deadline.parse().ok()?, by }),
            "S" => Some(Self::Stopping { deadline_ms: deadline.parse().ok(), by }),
            _ => None,
        }
    }

    /// Whether every job must be stopped.
    pub fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping { .. })
    }
}

/// The stored settings at one revision, as read: all fields, including those that this version does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSettings {
    /// The incarnation that they belong to. `None` if there is no pool.
    pub incarnation: Option<Incarnation>,
    /// The map's revision.
    pub revision: Revision,
    /// All fields.
    pub fields: BTreeMap<String, String>,
}

impl StoredSettings {
    /// The shutdown flag, if set.
    pub fn flag(&self) -> Option<ShutdownFlag> {
        self.fields.get("shutdown").and_then(|text| ShutdownFlag::parse(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_the_limits_hold() {
        assert_eq!(Settings::default().validate(), Ok(()));
        let bad = Settings { worker_ttl: Duration::from_millis(10), ..Settings::default() };
        assert_eq!(bad.validate().map_err(|e| e.name), Err("worker_ttl"));
        let bad = Settings { strikes: 0, ..Settings::default() };
        assert_eq!(bad.validate().map_err(|e| e.name), Err("strikes"));
    }

    #[test]
    fn an_outcome_is_kept_while_its_dispatch_may_be_handed_in_again() {
        let with = |late, od| Settings {
            max_dispatch_deadline: Duration::from_secs(late),
            outcome_retention: Duration::from_secs(od),
            ..Settings::default()
        };
        assert_eq!(with(30, 30).validate(), Ok(()));
        assert_eq!(with(30, 29).validate().map_err(|e| e.name), Err("outcome_retention"));
        for (ours, theirs) in [(with(30, 40), with(50, 60)), (with(50, 60), with(30, 40))] {
            let stored = theirs.fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(ours.adopting(&stored), theirs);
        }
    }

    #[test]
    fn only_settings_that_may_change_are_adopted() {
        let ours = Settings { hash_keys: Some((7, 8)), ..Settings::default() };
        let mut theirs = ours.clone();
        for (name, value) in ours.fields() {
            let other = || "8/8".to_owned();
            let less = |value: u64| value.checked_sub(1).unwrap_or(1).to_string();
            let changed = value.parse().map_or_else(|_| other(), less);
            let stored = [(name.to_owned(), changed.clone())].into();
            let adopted = ours.adopting(&stored);
            let field =
                adopted.fields().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value);
            assert_eq!(field.as_ref() == Some(&changed), !is_fixed(name), "{name}");
            assert_eq!(field.is_some_and(|field| field == value), is_fixed(name), "{name}");
            if !is_fixed(name) {
                theirs.take(name, &changed);
            }
        }
        let changes = ours.changes_to(&theirs).unwrap_or_default();
        assert_eq!(changes.len(), ours.fields().len() - 3);
        let stored = changes.into_iter().map(|change| (change.name, change.to)).collect();
        assert_eq!(ours.adopting(&stored), theirs);
        let other = Settings { worker_ttl: Duration::from_secs(1), ..ours.clone() };
        assert_eq!(ours.changes_to(&other), Err("worker_ttl"));
        for hash_keys in [None, Some((8, 8)), Some((7, 9))] {
            assert_eq!(ours.changes_to(&Settings { hash_keys, ..ours.clone() }), Err(HASH_KEYS));
        }
        let other = Settings { shard: Some(ShardId { index: 0, count: 1 }), ..ours.clone() };
        assert_eq!(ours.changes_to(&other), Err("shard"));
    }

    #[test]
    fn the_index_of_a_shard_is_below_the_number_of_shards() {
        let of = |index, count| {
            Settings { shard: Some(ShardId { index, count }), ..Settings::default() }
                .validate()
                .map_err(|e| e.name)
        };
        assert_eq!([of(0, 1), of(1_023, 1_024)], [Ok(()), Ok(())]);
        assert_eq!([of(0, 0), of(2, 2), of(0, 1_025)], [Err("shards"); 3]);
        assert_eq!(ShardId::parse("3/8"), Some(ShardId { index: 3, count: 8 }));
        assert_eq!([ShardId::parse(""), ShardId::parse("3"), ShardId::parse("3/8/1")], [None; 3]);
    }

    #[test]
    fn unusable_settings_are_not_adopted() {
        let ours = Settings::default();
        for (name, value) in
            [("strikes", "0"), ("payload_max", "99999999"), ("notify_cap", "x"), ("max_attempts", "-1")]
        {
            assert_eq!(ours.adopting(&[(name.to_owned(), value.to_owned())].into()), ours, "{name}");
        }
    }

    #[test]
    fn the_flag_parses() {
        assert_eq!(
            ShutdownFlag::parse("C|17|n1"),
            Some(ShutdownFlag::Closing { deadline_ms: 17, by: "n1".into() })
        );
        assert_eq!(
            ShutdownFlag::parse("S||n1"),
            Some(ShutdownFlag::Stopping { deadline_ms: None, by: "n1".into() })
        );
        assert_eq!(
            ShutdownFlag::parse("S|17|n1"),
            Some(ShutdownFlag::Stopping { deadline_ms: Some(17), by: "n1".into() })
        );
        assert_eq!(ShutdownFlag::parse(""), None);
    }
}
