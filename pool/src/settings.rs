//! The pool-wide settings, stored with the pool in the replicated map `cf` and equal on every node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::bounds::{check, check_time};
use crate::id::{Incarnation, Revision};
use crate::store::SettingChange;

mod given;
mod shown;

pub(crate) use given::Given;
pub(crate) use shown::{field, shown};

/// The protocol's major number; members with another one cannot run together.
pub const PROTOCOL: u64 = 2;

/// The settings that all nodes of a pool share. A node takes those that it was not given from its pool; one that was given
/// another value than the pool's is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// T: how long a worker without a heartbeat keeps its jobs. 10 s.
    pub worker_ttl: Duration,
    /// How many accepted jobs that were never begun the pool holds. 10,000.
    pub max_queued: u64,
    /// After how long a start event that nobody routed is sent again. 2 s.
    pub route_timeout: Duration,
    /// How long a worker may take from assignment to begin. 5 s.
    pub assign_timeout: Duration,
    /// After how long a stop is sent again. 2 s.
    pub stop_retry: Duration,
    /// How long a dispatch whose acceptance is not known is handed in again, and ended ones are remembered. It may only grow
    /// while the pool lives. 30 s.
    pub max_dispatch_deadline: Duration,
    /// How long the outcome of a caller's own id is kept; at least `max_dispatch_deadline`. 10 min.
    pub outcome_retention: Duration,
    /// Begins without success after which a job is parked. 20.
    pub max_attempts: u32,
    /// A job that ran this long counts as healthy again. 10 min.
    pub stable_run: Duration,
    /// Refusals and assignment time-outs that send a key to the next worker of its chain. 3.
    pub strikes: u32,
    /// Waiting notifications per job. 64.
    pub notify_cap: u32,
    /// Bytes of waiting notifications per job. 1 MiB.
    pub notify_bytes: u64,
    /// How long a new worker waits for a slot to be handed on before it takes one of its own. 5 s.
    pub join_settle: Duration,
    /// The longest payload, with its envelope, in bytes. 512 KiB.
    pub payload_max: u64,
    /// Keys of the placement hash. `None`, the default, when a node is started: the pool's, whatever they are. They are drawn
    /// at random when a pool is made, so that nobody can choose job keys that all lie on one worker.
    pub hash_keys: Option<(u64, u64)>,
    /// Which of several [shards](crate::NodeBuilder::shards) these settings are of; `None` for a pool of one. The join says
    /// it: a builder does not look at what stands here.
    pub shard: Option<ShardId>,
}

/// One of the several [shards](crate::NodeBuilder::shards) of a pool. As text, and in the store, `index/count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId {
    /// Which one, from 0.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl ShardId {
    /// The setting's name in the store.
    pub(crate) const SETTING: &'static str = "shard";
    /// Reads it as it stands in the store.
    pub(crate) fn parse(text: &str) -> Option<Self> {
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
            hash_keys: None,
            shard: None,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {name} is {value}: {why}")]
pub struct InvalidSetting {
    /// The setting's name, as in [`Settings`] and the builders.
    pub name: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// What is wrong with it.
    pub why: Cow<'static, str>,
}

impl Settings {
    /// Checks what the proofs and the scripts rely on.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), InvalidSetting> {
        check_time("ttl", self.worker_ttl)?;
        check("max_queued", self.max_queued.into())?;
        check_time("route_ms", self.route_timeout)?;
        check_time("assign_ms", self.assign_timeout)?;
        check_time("stop_ms", self.stop_retry)?;
        check_time("late_ms", self.max_dispatch_deadline)?;
        check_time("od_ms", self.outcome_retention)?;
        if self.outcome_retention < self.max_dispatch_deadline {
            // A dispatch that is handed in again after its outcome was forgotten would start a second time.
            let value = format!("{} ms", self.outcome_retention.as_millis());
            let why = "must be at least max_dispatch_deadline".into();
            return Err(InvalidSetting { name: "outcome_retention", value, why });
        }
        check("max_attempts", self.max_attempts.into())?;
        check_time("stable_ms", self.stable_run)?;
        check("strikes", self.strikes.into())?;
        check("nt_cap", self.notify_cap.into())?;
        check("nt_bytes", self.notify_bytes.into())?;
        check_time("join_settle", self.join_settle)?;
        check("payload_max", self.payload_max.into())?;
        if let Some(shard) = self.shard {
            check("shards", if shard.index < shard.count { shard.count.into() } else { 0 })?;
        }
        Ok(())
    }

    /// The fields as they stand in the store, in a fixed order.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let ms = |d: Duration| d.as_millis().to_string();
        let mut fields = vec![
            ("proto", PROTOCOL.to_string()),
            ("ttl", ms(self.worker_ttl)),
            ("max_queued", self.max_queued.to_string()),
            ("route_ms", ms(self.route_timeout)),
            ("assign_ms", ms(self.assign_timeout)),
            ("stop_ms", ms(self.stop_retry)),
            ("late_ms", ms(self.max_dispatch_deadline)),
            ("od_ms", ms(self.outcome_retention)),
            ("max_attempts", self.max_attempts.to_string()),
            ("stable_ms", ms(self.stable_run)),
            ("strikes", self.strikes.to_string()),
            ("nt_cap", self.notify_cap.to_string()),
            ("nt_bytes", self.notify_bytes.to_string()),
            ("join_settle", ms(self.join_settle)),
            ("payload_max", self.payload_max.to_string()),
        ];
        fields.extend(
            self.hash_keys.into_iter().flat_map(|(k1, k2)| [("k1", k1.to_string()), ("k2", k2.to_string())]),
        );
        fields.extend(self.shard.map(|shard| (ShardId::SETTING, shard.to_string())));
        fields
    }
}

/// The settings that a pool keeps for its life: its leases and its placement rest on them.
pub(crate) fn is_fixed(name: &str) -> bool {
    matches!(name, "proto" | "ttl" | "k1" | "k2" | ShardId::SETTING)
}

impl Settings {
    /// These settings, with what may change as it is stored; what is stored and cannot be used is left out.
    pub(crate) fn adopting(&self, stored: &BTreeMap<String, String>) -> Self {
        self.taking(stored, |name| !is_fixed(name))
    }

    /// The same, and the stored keys of the placement hash, if the node was given none. They are fixed for a pool's life, but
    /// nothing that the node holds rests on them, and a pool that was made anew may have others.
    pub(crate) fn following(&self, stored: &BTreeMap<String, String>, given: &Given) -> Self {
        let adopted = self.adopting(stored);
        if given.has("k1") { adopted } else { adopted.placed_as(stored) }
    }

    /// These settings as a node that comes to a pool goes by them: all that it was not given is the pool's.
    pub(crate) fn joining(&self, stored: &BTreeMap<String, String>, given: &Given) -> Self {
        let adopted = self.taking(stored, |name| !given.has(name));
        if given.has("k1") { adopted } else { adopted.placed_as(stored) }
    }

    fn taking(&self, stored: &BTreeMap<String, String>, takes: impl Fn(&str) -> bool) -> Self {
        let mut adopted = self.clone();
        // Twice: what does not fit the others may fit them as they will be.
        for (name, value) in stored.iter().chain(stored).filter(|(name, _)| takes(name)) {
            let mut next = adopted.clone();
            if next.take(name, value).is_some() && next.validate().is_ok() {
                adopted = next;
            }
        }
        adopted
    }

    /// The same with the stored keys of the placement hash, if they can be read.
    fn placed_as(self, stored: &BTreeMap<String, String>) -> Self {
        let key = |name| stored.get(name)?.parse().ok();
        Self { hash_keys: key("k1").zip(key("k2")).or(self.hash_keys), ..self }
    }

    /// Takes one stored field over; `None` for one that is unknown, no number, or not up to the pool.
    fn take(&mut self, name: &str, value: &str) -> Option<()> {
        let number: u64 = value.parse().ok()?;
        let ms = Duration::from_millis(number);
        match name {
            "ttl" => self.worker_ttl = ms,
            "max_queued" => self.max_queued = number,
            "route_ms" => self.route_timeout = ms,
            "assign_ms" => self.assign_timeout = ms,
            "stop_ms" => self.stop_retry = ms,
            "late_ms" => self.max_dispatch_deadline = ms,
            "od_ms" => self.outcome_retention = ms,
            "max_attempts" => self.max_attempts = u32::try_from(number).ok()?,
            "stable_ms" => self.stable_run = ms,
            "strikes" => self.strikes = u32::try_from(number).ok()?,
            "nt_cap" => self.notify_cap = u32::try_from(number).ok()?,
            "nt_bytes" => self.notify_bytes = number,
            "join_settle" => self.join_settle = ms,
            "payload_max" => self.payload_max = number,
            _ => return None,
        }
        Some(())
    }

    /// What is to be changed in the store to come from these settings to others.
    ///
    /// # Errors
    /// The name of one that cannot change.
    pub(crate) fn changes_to(&self, other: &Self) -> Result<Vec<SettingChange>, &'static str> {
        if self.shard != other.shard {
            return Err(ShardId::SETTING);
        }
        if self.hash_keys.is_some() != other.hash_keys.is_some() {
            return Err("k1");
        }
        let pairs = self.fields().into_iter().zip(other.fields());
        let differing = pairs.filter(|((_, from), (_, to))| from != to);
        let change = |((name, from), (_, to)): ((&'static str, _), (_, _))| {
            if is_fixed(name) { Err(name) } else { Ok(SettingChange { name: name.to_owned(), from, to }) }
        };
        differing.map(change).collect()
    }
}

/// How far a shutdown has come; absent while the pool is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShutdownFlag {
    /// `C`: nothing new is accepted; what was accepted is still begun.
    Closing {
        /// Server time, ms, at which it turns into stopping.
        deadline_ms: u64,
        /// The node that asked.
        by: String,
    },
    /// `S`: every job is stopped and everything is cleaned up.
    Stopping {
        /// Server time, ms, until which what was accepted was to begin; `None`: it was dropped at once.
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

    /// True from the moment that every job is to be stopped.
    pub fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping { .. })
    }
}

/// The stored settings at one revision, as read: every field, also those this version does not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSettings {
    /// The incarnation they belong to; `None` when there is no pool.
    pub incarnation: Option<Incarnation>,
    /// The map's revision.
    pub revision: Revision,
    /// All fields.
    pub fields: BTreeMap<String, String>,
}

impl StoredSettings {
    /// The shutdown flag, if set.
    pub fn flag(&self) -> Option<ShutdownFlag> {
        self.fields.get("sd").and_then(|text| ShutdownFlag::parse(text))
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
    fn what_may_change_is_adopted_and_what_may_not_is_left() {
        let ours = Settings { hash_keys: Some((7, 8)), ..Settings::default() };
        let mut theirs = ours.clone();
        for (name, value) in ours.fields() {
            let changed = value.parse::<u64>().map_or(value.clone(), |value| (value - 1).to_string());
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
        assert_eq!(changes.len(), ours.fields().len() - 4);
        let stored = changes.into_iter().map(|change| (change.name, change.to)).collect();
        assert_eq!(ours.adopting(&stored), theirs);
        let other = Settings { worker_ttl: Duration::from_secs(1), ..ours.clone() };
        assert_eq!(ours.changes_to(&other), Err("ttl"));
        for (hash_keys, name) in [(None, "k1"), (Some((8, 8)), "k1"), (Some((7, 9)), "k2")] {
            assert_eq!(ours.changes_to(&Settings { hash_keys, ..ours.clone() }), Err(name));
        }
        let other = Settings { shard: Some(ShardId { index: 0, count: 1 }), ..ours.clone() };
        assert_eq!(ours.changes_to(&other), Err("shard"));
    }

    #[test]
    fn a_shard_is_one_of_so_many() {
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
    fn what_cannot_be_used_is_not_adopted() {
        let ours = Settings::default();
        for (name, value) in
            [("strikes", "0"), ("payload_max", "99999999"), ("nt_cap", "x"), ("max_attempts", "-1")]
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
