//! The ownership record of a job: the truth about which worker runs it. It is text, with fields joined by `|`,
//! version first: `1|state|owner|token|attempts|begun|since|id|created|ainc|strikes|plan`. A job that was given another
//! payload also has its generation behind the plan, and one that has left a worker says why behind that. An unknown tail is
//! kept.

use std::fmt;

use crate::model::id::{DispatchId, Incarnation, Token, WorkerId};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JobState {
    /// `Q`: it has no owner and needs a worker.
    Queued,
    /// `A`: a worker was chosen and has not begun it.
    Assigned,
    /// `R`: begun by its owner.
    Running,
    /// `S`: its owner must end it.
    Stopping,
    /// `P`: it failed too often and waits for an operator.
    Parked,
}

impl JobState {
    /// The letter of the state in a record.
    pub fn letter(self) -> char {
        match self {
            Self::Queued => 'Q',
            Self::Assigned => 'A',
            Self::Running => 'R',
            Self::Stopping => 'S',
            Self::Parked => 'P',
        }
    }

    fn from_letter(text: &str) -> Option<Self> {
        Some(match text {
            "Q" => Self::Queued,
            "A" => Self::Assigned,
            "R" => Self::Running,
            "S" => Self::Stopping,
            "P" => Self::Parked,
            _ => return None,
        })
    }
}

/// The furthest that a job has come, on any worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(
    clippy::enum_variant_names,
    reason = "the words of the protocol; without features the enum is private"
)]
pub enum Begun {
    /// Never begun: it counts towards the pool's limit of queued jobs.
    Never,
    /// A worker has begun it.
    Begun,
    /// Its start handler has succeeded.
    Started,
}

/// A job's ownership record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The state of the job.
    pub state: JobState,
    /// The worker that owns it (assigned, running, stopping).
    pub owner: Option<WorkerId>,
    /// The token of its last assignment; 0 before the first.
    pub token: Token,
    /// The number of begins since the last event that counts as a success.
    pub attempts: u32,
    /// The furthest that it has come.
    pub begun: Begun,
    /// Server time, ms, at which it was last begun or became free.
    pub since: u64,
    /// The dispatch that made it.
    pub id: DispatchId,
    /// Server time, ms, at which it was accepted.
    pub created: u64,
    /// The incarnation in which its worker attested it, if any.
    pub attested: Option<Incarnation>,
    /// The strikes against its present placement.
    pub strikes: u32,
    /// The schedule whose plan dispatched it, or empty.
    pub plan: String,
    /// The generation if it is not 0, the reason why the job is where it is, and fields of a later version, with their
    /// leading `|`.
    pub tail: String,
}

impl Record {
    /// The version of records that this crate writes, and the newest that it reads.
    pub const VERSION: u64 = 1;

    /// The version of a record that is newer than what this crate reads.
    pub fn newer_version(bytes: &[u8]) -> Option<u64> {
        let first = bytes.split(|&byte| byte == b'|').next()?;
        decimal(std::str::from_utf8(first).ok()?).filter(|&version| version > Self::VERSION)
    }

    /// The highest generation: what has more digits is none.
    pub const LAST_GENERATION: u64 = 999_999_999_999_999;

    /// How often the job was given another payload. A field that is no such number counts as 0.
    pub fn generation(&self) -> u64 {
        if self.tail.is_empty() {
            return 0;
        }
        let field = self.tail.strip_prefix('|').map_or("", |fields| fields.split('|').next().unwrap_or(""));
        if field.len() > 15 { 0 } else { decimal(field).unwrap_or(0) }
    }

    /// Sets the generation, and keeps the fields behind it.
    pub fn set_generation(&mut self, generation: u64) {
        let behind = self.tail.get(1..).and_then(|fields| fields.split_once('|'));
        let behind = behind.map(|(_, fields)| format!("|{fields}")).unwrap_or_default();
        self.tail = format!("|{generation}{behind}");
    }

    /// Reads a record; `None` for another version or a damaged one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = Some(std::str::from_utf8(bytes).ok()?);
        let mut next = || next_field(&mut rest);
        if next()? != "1" {
            return None;
        }
        let record = Self {
            state: JobState::from_letter(next()?)?,
            owner: optional(next()?, WorkerId)?,
            token: Token(decimal(next()?)?),
            attempts: u32::try_from(decimal(next()?)?).ok()?,
            begun: match next()? {
                "0" => Begun::Never,
                "1" => Begun::Begun,
                "2" => Begun::Started,
                _ => return None,
            },
            since: decimal(next()?)?,
            id: next()?.parse().ok()?,
            created: decimal(next()?)?,
            attested: optional(next()?, Incarnation)?,
            strikes: u32::try_from(decimal(next()?)?).ok()?,
            plan: next()?.to_owned(),
            tail: rest.map(|tail| format!("|{tail}")).unwrap_or_default(),
        };
        Some(record)
    }
}

/// Splits off the first field and its `|`. Fields are short, so a search byte by byte is fastest.
fn next_field<'a>(rest: &mut Option<&'a str>) -> Option<&'a str> {
    let text = (*rest)?;
    let Some(end) = text.bytes().position(|byte| byte == b'|') else { return rest.take() };
    *rest = text.get(end + 1..);
    text.get(..end)
}

pub(super) fn decimal(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.bytes().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit.into()) }
    })
}

/// The outer `None` says damaged, the inner one empty.
#[allow(clippy::option_option)]
fn optional<T>(text: &str, wrap: impl FnOnce(u64) -> T) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { decimal(text).map(|n| Some(wrap(n))) }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1|{}|", self.state.letter())?;
        if let Some(owner) = self.owner {
            write!(f, "{owner}")?;
        }
        let begun = match self.begun {
            Begun::Never => 0,
            Begun::Begun => 1,
            Begun::Started => 2,
        };
        let Self { token, attempts, since, id, created, strikes, plan, tail, .. } = self;
        write!(f, "|{token}|{attempts}|{begun}|{since}|{id}|{created}|")?;
        if let Some(attested) = self.attested {
            write!(f, "{attested}")?;
        }
        write!(f, "|{strikes}|{plan}{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_round_trip_with_an_unknown_tail() {
        for text in [
            "1|Q||0|0|0|1700000000000|n1.01ABC|1700000000000||0|",
            "1|Q||18446744073709551615|0|0|1|n1.01ABC|1||0||",
            "1|R|42|900|3|2|1700000000001|n1.!order|1700000000000|1700000000000|4|nightly|new|field",
        ] {
            let record = Record::parse(text.as_bytes()).map(|r| r.to_string());
            assert_eq!(record.as_deref(), Some(text));
        }
    }

    #[test]
    fn a_generation_is_a_number_behind_the_plan() {
        for (tail, generation, next) in [
            ("", 0, "|1"),
            ("|7", 7, "|8"),
            ("|7|new|field", 7, "|8|new|field"),
            ("|", 0, "|1"),
            ("||new", 0, "|1|new"),
            ("|new", 0, "|1"),
            ("|999999999999999", 999_999_999_999_999, "|1000000000000000"),
            ("|1000000000000000", 0, "|1"),
        ] {
            let text = format!("1|Q||0|0|0|1|n.i|1||0|nightly{tail}");
            let read = Record::parse(text.as_bytes()).map(|mut record| {
                let before = record.generation();
                record.set_generation(before + 1);
                (before, record.plan, record.tail)
            });
            assert_eq!(read, Some((generation, "nightly".to_owned(), next.to_owned())), "{tail}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        assert_eq!(Record::newer_version(b"2|Q|whatever"), Some(2));
        assert_eq!(Record::newer_version(b"17"), Some(17));
        for text in ["", "|", "1|Q", "0|Q", "rubbish", "x2|Q", "2x|Q"] {
            assert_eq!(Record::newer_version(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn another_version_or_damage_is_no_record() {
        for text in [
            "",
            "rubbish",
            "2|Q||0",
            "1|Z||0|0|0|1|n.i|1||0|",
            "1|Q||x|0|0|1|n.i|1||0|",
            "1|Q||+1|0|0|1|n.i|1||0|",
            "1|Q|||0|0|1|n.i|1||0|",
            "1|Q||18446744073709551616|0|0|1|n.i|1||0|",
            "1|Q||0|4294967296|0|1|n.i|1||0|",
            "1|Q||0|0|0|1|n.i|1|",
            "1|Q||0|0|0|1|n.i|1||0",
        ] {
            assert_eq!(Record::parse(text.as_bytes()), None, "{text}");
        }
    }
}
