//! The members of a pool, in the replicated map `workers`: worker id → `state|slot|ttl|nonce|node|meta|level|address`.
//! `cordon:<node>` stands there for a cordoned node.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::level;
use crate::model::id::{Incarnation, NodeName, Nonce, Revision, WorkerId};

/// All slots are below this number. A larger one is damage, and would make the ring huge.
pub const SLOTS: u32 = 65_536;

/// Before the name of a cordoned node, in the map of the members.
pub const CORDON: &str = "cordon:";

/// Whether a worker is in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum MemberState {
    /// `U`: in the ring, with a slot.
    Up,
    /// `P`: joined, without a slot yet.
    Standby,
    /// `G`: leaving; out of the ring, still owns its jobs.
    Draining,
}

impl MemberState {
    /// The letter of the state in an entry.
    pub fn letter(self) -> char {
        match self {
            Self::Up => 'U',
            Self::Standby => 'P',
            Self::Draining => 'G',
        }
    }

    /// Reads the letter.
    pub fn from_letter(text: &str) -> Option<Self> {
        Some(match text {
            "U" => Self::Up,
            "P" => Self::Standby,
            "G" => Self::Draining,
            _ => return None,
        })
    }
}

/// One worker's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Whether it is in the ring.
    pub state: MemberState,
    /// Its slot. A draining worker keeps its slot. `None` for a standby.
    pub slot: Option<u32>,
    /// The time to live of its heartbeat.
    pub ttl: Duration,
    /// Distinguishes its join from any other.
    pub nonce: Nonce,
    /// The node it lives on.
    pub node: NodeName,
    /// Free text of its owner: `[A-Za-z0-9_:.-]{0,64}`.
    pub meta: String,
    /// The level of its node. 1 for an entry that names none, or none that can be read.
    pub level: u32,
    /// The address that its node publishes, or empty.
    pub address: String,
}

impl Member {
    /// Reads an entry. `None` for a damaged one. Fields of a later version are skipped here, and the scripts keep
    /// them.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(bytes).ok()?.split('|');
        let mut next = || fields.next();
        Some(Self {
            state: MemberState::from_letter(next()?)?,
            slot: match next()? {
                "-" => None,
                slot => Some(slot.parse().ok().filter(|slot| *slot < SLOTS)?),
            },
            ttl: Duration::from_millis(next()?.parse().ok()?),
            nonce: Nonce::new(next()?).ok()?,
            node: NodeName::new(next()?).ok()?,
            meta: next()?.to_owned(),
            level: next().and_then(level::parse).unwrap_or(level::LOWEST),
            address: next().filter(|text| level::is_address(text)).unwrap_or_default().to_owned(),
        })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|", self.state.letter())?;
        match self.slot {
            Some(slot) => write!(f, "{slot}")?,
            None => f.write_str("-")?,
        }
        let Self { ttl, nonce, node, meta, level, address, .. } = self;
        write!(f, "|{}|{nonce}|{node}|{meta}|{level}|{address}", ttl.as_millis())
    }
}

/// The members at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The incarnation that they belong to. `None` if there is no pool.
    pub incarnation: Option<Incarnation>,
    /// The map's revision, which is the version of the ring.
    pub revision: Revision,
    /// The number of slots in the ring, holes included. It never shrinks.
    pub ring_size: u32,
    /// The nodes whose workers get no job from the ring.
    pub cordoned: BTreeSet<NodeName>,
    /// All entries that can be read. A damaged one is left out: it holds no slot, and expires like any silent worker.
    pub entries: BTreeMap<WorkerId, Member>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_the_round_trip() {
        for text in
            ["U|0|10000|nn|n1|m|1|", "P|-|10000|nn|n1||2|http://10.0.0.7:80", "G|7|2000|a.b|n:1|zone-1|1|x"]
        {
            assert_eq!(Member::parse(text.as_bytes()).map(|m| m.to_string()).as_deref(), Some(text));
        }
        let read = |text: &str| Member::parse(text.as_bytes()).map(|m| m.to_string());
        let (plain, later) = ("G|7|2000|a.b|n:1|zone-1", "G|7|2000|a.b|n:1|zone-1|1|");
        assert_eq!(read(plain).as_deref(), Some(later), "an entry without a level has the lowest");
        assert_eq!(read("G|7|2000|a.b|n:1|zone-1|weight|a b").as_deref(), Some(later));
        assert_eq!(read(&format!("{later}|weight|more")).as_deref(), Some(later));
        assert_eq!(Member::parse(b"X|0|1|n|n|"), None);
    }

    #[test]
    fn a_slot_out_of_range_is_damage() {
        assert!(Member::parse(b"U|65535|10000|nn|n1|").is_some());
        for slot in ["65536", "4294967295", "4294967296", "-1"] {
            assert_eq!(Member::parse(format!("U|{slot}|10000|nn|n1|").as_bytes()), None, "{slot}");
        }
    }
}
