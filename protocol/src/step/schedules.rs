//! The arguments and answers of the steps of schedules and tickers.

use std::fmt;
use std::time::Duration;

use tenure_steps::{More, letters};

use super::performing::{read, step};
use crate::model::id::{Incarnation, JobKey, NodeName, ScheduleId, ScheduleName, Term};
use crate::model::record::Record;

/// The use of a schedule. A schedule and a ticker of the same name are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ScheduleKind {
    /// `s`: it plans jobs (`Node::schedule`).
    Plan,
    /// `t`: it only ticks (`Node::ticker`).
    Ticker,
}

/// A schedule or ticker, in any of its lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleKey {
    /// Its use.
    pub kind: ScheduleKind,
    /// Its name.
    pub name: ScheduleName,
}

impl ScheduleKey {
    /// Reads the field of a schedule's entry.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        let kind = match kind {
            "s" => ScheduleKind::Plan,
            "t" => ScheduleKind::Ticker,
            _ => return None,
        };
        Some(Self { kind, name: ScheduleName::new(name).ok()? })
    }
}

impl fmt::Display for ScheduleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ScheduleKind::Plan => 's',
            ScheduleKind::Ticker => 't',
        };
        write!(f, "{kind}:{}", self.name)
    }
}

/// The holder of a turn: a node, one of its schedules, and the life of that schedule on the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// The node.
    pub node: NodeName,
    /// A number that distinguishes this schedule of the node from every other.
    pub life: u64,
}

/// The stored entry of a schedule. It is text, with fields joined by `|`, version first:
/// `1|id|revision|period|next|ticks|incarnation|term|seq|node|life`. An unknown tail is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleEntry {
    /// This life of the schedule.
    pub id: ScheduleId,
    /// The count of changes of the period, from 1.
    pub revision: u64,
    /// The time from tick to tick, in whole ms.
    pub period: Duration,
    /// Server time, ms, at which the next tick is due.
    pub next: u64,
    /// The number of the last tick that a node got. 0 before the first.
    pub ticks: u64,
    /// The incarnation in which the turn was taken.
    pub incarnation: Incarnation,
    /// The last turn that a node took. 0 before the first.
    pub term: Term,
    /// How often its holder has renewed the turn.
    pub seq: u64,
    /// The holder of the turn.
    pub holder: Option<Holder>,
    /// Fields of a later version, with their leading `|`; kept as they are.
    pub tail: String,
}

impl ScheduleEntry {
    /// The version of entries that this crate writes, and the newest that it reads.
    pub const VERSION: u64 = 1;

    /// Reads an entry. `None` for another version or a damaged one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(12, '|');
        let mut next = || fields.next();
        if next()? != "1" {
            return None;
        }
        let mut number = || next()?.parse::<u64>().ok();
        let entry = Self {
            id: ScheduleId(number()?),
            revision: number()?,
            period: Duration::from_millis(number()?),
            next: number()?,
            ticks: number()?,
            incarnation: Incarnation(number()?),
            term: Term(number()?),
            seq: number()?,
            holder: None,
            tail: String::new(),
        };
        let holder = match (next()?, next()?) {
            ("", _) => None,
            (node, life) => Some(Holder { node: NodeName::new(node).ok()?, life: life.parse().ok()? }),
        };
        let tail = next().map(|tail| format!("|{tail}")).unwrap_or_default();
        Some(Self { holder, tail, ..entry })
    }
}

impl fmt::Display for ScheduleEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, revision, period, next, ticks, incarnation, term, seq, holder, tail } = self;
        write!(f, "1|{id}|{revision}|{}|{next}|{ticks}|{incarnation}|{term}|{seq}|", period.as_millis())?;
        if let Some(Holder { node, life }) = holder {
            write!(f, "{node}|{life}")?;
        } else {
            f.write_str("|")?;
        }
        f.write_str(tail)
    }
}

/// A change of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    /// Creates it, unless it exists.
    Create {
        /// The time from tick to tick, in whole ms.
        period: Duration,
        /// The time until the first tick.
        first: Duration,
    },
    /// Changes its period.
    Period {
        /// The life of the schedule.
        id: ScheduleId,
        /// The revision that the caller knows. Nothing is changed if it differs.
        revision: u64,
        /// The time from tick to tick, in whole ms.
        period: Duration,
    },
    /// Ends it on all nodes.
    End {
        /// The life of the schedule.
        id: ScheduleId,
        /// The caller's turn, if its planner ends the schedule.
        term: Option<Term>,
    },
}

/// sched's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleState {
    /// The schedule exists.
    Present {
        /// The server's clock, ms.
        now: u64,
        /// Its present entry.
        entry: ScheduleEntry,
    },
    /// That life of the schedule has ended, by this call or earlier.
    Ended,
    /// Its entry does not parse.
    Bad {
        /// The version of the entry, if a newer version of this crate wrote it.
        newer: Option<u64>,
    },
}

/// A node's request about the turn of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermItem {
    /// The schedule.
    pub schedule: ScheduleKey,
    /// The life of the schedule.
    pub id: ScheduleId,
    /// A number that distinguishes the node's schedule from every other.
    pub life: u64,
    /// The node gives the turn up, or does not want it.
    pub leave: bool,
    /// The pair that the node has seen unchanged for the time to live: the turn of a dead holder.
    pub seen: Option<(Term, u64)>,
}

letters! {
    /// term's answer for one schedule.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum TermReply {
        /// It is the caller's turn.
        b'H': Held(ScheduleEntry),
        /// Another node has the turn, or none has.
        b'O': Other(ScheduleEntry),
        /// That life of the schedule has ended.
        b'N': Ended,
        /// Its entry does not parse.
        b'X': Bad,
        /// The pool has no tokens left for a turn.
        b'T': OutOfTokens,
    }
}

/// The text behind the letter of an answer.
pub struct Rest<'a>(pub &'a str);

impl More<ScheduleEntry, ()> for Rest<'_> {
    fn more(&mut self) -> Result<ScheduleEntry, ()> {
        ScheduleEntry::parse(std::mem::take(&mut self.0)).ok_or(())
    }
}

/// term's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The server's clock, ms.
    pub now: u64,
    /// One reply for each item.
    pub replies: Vec<TermReply>,
}

/// A turn to plan. Calls in its name are refused once it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The plan.
    pub plan: ScheduleName,
    /// The life of its schedule.
    pub id: ScheduleId,
    /// Its fencing number.
    pub term: Term,
}

/// tick's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickReply {
    /// Whether the tick is the caller's. If not, it is not due yet, or its number is not the next one.
    pub due: bool,
    /// The server's clock, ms.
    pub now: u64,
    /// The present entry of the schedule.
    pub entry: ScheduleEntry,
}

/// A page of a plan's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedPage {
    /// Where the next page begins. `None` after the last.
    pub next: Option<JobKey>,
    /// The jobs and their records. `None` for a record that is missing or does not parse.
    pub jobs: Vec<(JobKey, Option<Record>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_the_round_trip_with_an_unknown_tail() {
        for text in [
            "1|7|1|5000|1700000000000|0|0|0|0||",
            "1|7|3|5000|1700000000000|12|1690000000000|901|4|node-1|18446744073709551615",
            "1|7|3|5000|1700000000000|12|1690000000000|901|4|||later|field",
        ] {
            assert_eq!(ScheduleEntry::parse(text).map(|entry| entry.to_string()).as_deref(), Some(text));
        }
    }

    #[test]
    fn another_version_or_damage_is_no_entry() {
        for text in ["", "rubbish", "2|7|1|5000|1|0|0|0|0||", "1|7|1|5000|1|0|0|0|0|", "1|x|1|5|1|0|0|0|0||"]
        {
            assert_eq!(ScheduleEntry::parse(text), None, "{text}");
        }
    }
}

/// All schedules and tickers with a readable entry.
#[derive(Clone, Debug)]
pub struct ReadSchedules;

read!(ReadSchedules: "schedules" -> Vec<(ScheduleKey, ScheduleEntry)>);

/// Creates a schedule, changes its period, or ends it.
#[derive(Clone, Debug)]
pub struct ChangeSchedule {
    /// The schedule.
    pub schedule: ScheduleKey,
    /// The change.
    pub change: ScheduleChange,
}

step!(ChangeSchedule: "sched" -> ScheduleState);

/// Holds, takes over or leaves turns to plan.
#[derive(Clone, Debug)]
pub struct HoldTurns {
    /// The planning node.
    pub node: NodeName,
    /// The schedules.
    pub items: Vec<TermItem>,
}

step!(HoldTurns: "term" -> Terms);

/// Asks for the tick of this number, in the caller's turn. After a lost answer, ask for the same number again.
#[derive(Clone, Debug)]
pub struct TakeTick {
    /// The schedule.
    pub schedule: ScheduleKey,
    /// The schedule's id, and the caller's term.
    pub turn: (ScheduleId, Term),
    /// The number of the tick.
    pub number: u64,
}

step!(TakeTick: "tick" -> TickReply);

/// A page of a plan's jobs.
#[derive(Clone, Debug)]
pub struct ListPlanned {
    /// The plan.
    pub plan: ScheduleName,
    /// Where the page begins; `None`: with the first job.
    pub after: Option<JobKey>,
    /// The most jobs of the page.
    pub limit: usize,
}

step!(ListPlanned: "planned" -> PlannedPage);
