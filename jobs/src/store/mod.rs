//! The seam: the steps of the protocol, each atomic and idempotent, with two stores behind it. A step is a value: a struct
//! with its arguments. [`Transition`] performs the step in memory, [`OnRedis`] on Redis.
//!
//! A step that changes jobs belongs to a lane: a numbered sequence of calls with one in flight. A call that was not
//! answered is sent again unchanged, and takes effect once.

mod asked;
mod breakage;
mod dump;
mod error;
pub(crate) mod letters;
mod listing;
// Moments and counts are far below 2^63.
#[allow(clippy::cast_possible_wrap)]
pub(crate) mod memory;
pub(crate) mod redis;
mod steps;

use bytes::Bytes;
pub use tenure_steps::{ScriptPatch, Step};

pub use self::asked::{
    AddMode, AddReply, Adding, Attesting, Data, Kind, NewJob, Request, Settle, SettleReply, Settling, Steer,
    SteerReply,
};
pub use self::breakage::Breakage;
pub use self::dump::{Content, Dump};
pub use self::error::{Result, StoreError};
#[cfg(feature = "sim")]
pub use self::memory::Snapshot;
pub use self::memory::{Edit, MemoryStore, Transition};
pub use self::redis::{OnRedis, RedisStore};
pub use self::steps::*;
use crate::model::id::{GroupName, Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::{Settings, Terms};
use crate::model::record::Record;

/// The most jobs of one call.
pub const MOST: usize = 128;

/// An answer with more bytes of data than this ends there.
pub(crate) const FULL: usize = 1_048_576;

/// The most ends of children in an answer.
pub(crate) const MOST_ENDS: usize = 4_096;

/// A call within a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lane {
    /// The name of the lane, unique among all that ever used the set.
    pub name: String,
    /// The number of the call; each new call has a higher one.
    pub number: u128,
}

impl Lane {
    /// The first call of a lane.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), number: 1 }
    }

    /// The lane of a group of a pinned queue, for its owner under this token. All owners share it: the calls of a former
    /// one come too late.
    pub fn of_owner(queue: &QueueName, group: &GroupName, token: u64) -> Self {
        Self { name: format!("owner.{queue}/{group}"), number: (u128::from(token) << 64) + 1 }
    }

    /// A new lane, used by nobody. A late call on the lane of a single caller means damaged data.
    pub fn renew(&mut self) {
        self.name.push('~');
        self.number = 1;
    }

    /// The next call of the lane.
    pub fn advance(&mut self) {
        self.number += 1;
    }
}

/// The data of a set, as `boot` has found or made them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Booted {
    /// They were there.
    Exists {
        /// Their incarnation.
        incarnation: Incarnation,
        /// The identity of the server that they were last known to live on.
        server: Box<str>,
        /// Whether a recovery has begun this incarnation.
        recovered: bool,
    },
    /// This call has made them.
    Created {
        /// Their incarnation.
        incarnation: Incarnation,
    },
}

/// A wish for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taking {
    /// The node that will run them.
    pub node: NodeName,
    /// The registration as waiting that the last answer gave.
    pub registration: Option<Box<str>>,
    /// The most jobs in all; a call gives at most [`MOST`].
    pub want: u32,
    /// How many slots wait when there are fewer; 0: the node does not wait.
    pub slots: u32,
    /// Only jobs that are scheduled until then, in ms. Queues with groups know no such bound.
    /// Nodes with a bound are woken after those without, and the latest bound first.
    pub until: Option<u64>,
    /// The queues in their order, and the most jobs of each.
    pub queues: Vec<(QueueName, u32)>,
    /// Only jobs of this group, of pinned queues. The lane is then [`Lane::of_owner`].
    pub group: Option<GroupName>,
}

impl Taking {
    /// A wish for this many jobs of one queue, without waiting.
    pub fn new(node: NodeName, queue: QueueName, want: u32) -> Self {
        Self {
            node,
            registration: None,
            want,
            slots: 0,
            until: None,
            queues: vec![(queue, want)],
            group: None,
        }
    }
}

/// A job that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenJob {
    /// Its id.
    pub id: JobId,
    /// Its record, with the token of this execution.
    pub record: Record,
    /// Its data.
    pub body: Bytes,
    /// The notes of the job's handlers; empty for a job without notes.
    pub notes: Bytes,
    /// The time without a word after which the execution is lost, in ms.
    pub lease: u64,
    /// The terms of its queue.
    pub terms: Terms,
}

/// The answer to a [`Taking`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakeReply {
    /// Jobs that begin.
    Taken {
        /// The jobs.
        jobs: Vec<TakenJob>,
        /// The node's registration as waiting, if it waits. The next call takes it back.
        registration: Option<Box<str>>,
        /// More jobs are ready than one answer can hold.
        more: bool,
    },
    /// No job begins for this time in ms, after a loss of data.
    Hold(u64),
}

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extended {
    /// The shortest lease of the jobs that go on, in ms; 0 when none does.
    pub lease: u64,
    /// One for each execution: [`SettleReply::GoesOn`], [`SettleReply::Asked`], [`SettleReply::ToCancel`] or
    /// [`SettleReply::Halt`].
    pub replies: Vec<SettleReply>,
}

/// The answer to a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ticked {
    /// All that was due is done.
    Done {
        /// The time to the next tick, in ms.
        next: u64,
        /// Executions whose lease was over.
        lost: u64,
        /// Delayed jobs that became ready.
        promoted: u64,
        /// Jobs that were forgotten, or whose deadline has passed.
        gone: u64,
    },
    /// Another node is on duty for this time in ms.
    OnDuty(u64),
}

/// A job as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// Its record.
    pub record: Record,
    /// Its data.
    pub body: Bytes,
    /// Its result, or its last error.
    pub result: Bytes,
    /// The notes of the job's handlers; empty for a job without notes.
    pub notes: Bytes,
}

/// Whether a node wants news of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watching {
    /// From now on. The answer has their data.
    Begin = 1,
    /// As before: perhaps the store has forgotten it. The answer has no data.
    Again = 2,
    /// No more. The answer has no data.
    End = 0,
}

/// The ends of children in an answer about jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ends {
    /// None.
    Without,
    /// Those of all jobs.
    With,
    /// The same, but the first job goes on: it has those behind this child, as [`Peeked::more`] names it, and no data.
    Behind(Box<str>),
}

/// A job as it is, with its surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peeked {
    /// The job.
    pub seen: Seen,
    /// The time, in ms, until which the limit of its group keeps a ready job from beginning; 0 when nothing does.
    pub begins_at: u64,
    /// The ends of its children: id, `C` done, `F` failed or `X` cancelled, and the result or the reason.
    pub children: Vec<(JobId, char, Bytes)>,
    /// The answer was full, and there are more ends behind this child; of an empty name: from the first one on.
    pub more: Option<Box<str>>,
}

impl Peeked {
    /// Goes on with another page of the same job. False, with nothing changed, when the job is gone or has begun another
    /// life: the ends of the former one are forgotten.
    pub(crate) fn goes_on(&mut self, page: Option<Self>) -> bool {
        let birth = &self.seen.record.birth;
        let Some(page) = page.filter(|page| page.seen.record.birth == *birth) else { return false };
        self.children.extend(page.children);
        self.more = page.more;
        true
    }
}

/// How many jobs a queue has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Its settings; `None` when it was never declared.
    pub settings: Option<Settings>,
    /// Jobs that are ready.
    pub ready: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that wait for their time.
    pub delayed: u64,
    /// Jobs that wait for their children, or are paused.
    pub waiting: u64,
    /// Dead letters that are kept.
    pub dead: u64,
    /// Executions that have succeeded, ever.
    pub done: u64,
    /// Jobs that have failed for good, ever.
    pub failed: u64,
    /// Jobs that were cancelled, ever.
    pub cancelled: u64,
}

/// A list of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listing {
    /// The dead letters of a queue, by place.
    Dead(QueueName),
    /// The jobs with an attribute, as `attribute=value`, by id.
    With(String),
    /// The ready jobs of a queue, by group and place.
    Ready(QueueName),
}

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The ids.
    pub ids: Vec<JobId>,
    /// The next page begins behind this one; `None` after the last one.
    pub next: Option<String>,
}

/// A message to a node. It may be lost or doubled, and only says where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// A queue has ready jobs; of a pinned one, this group.
    Ready(QueueName, Option<GroupName>),
    /// A timer is due earlier than the node on duty expects.
    Earlier,
    /// An execution is another's by now, or its job is gone.
    Halted(JobId, Token),
    /// Somebody wants an execution cancelled.
    Cancel(JobId, Token),
    /// A lease has become shorter.
    Extend,
    /// A watched job has come to another state, or has new data.
    News(News),
    /// The subscription was made, or made again: earlier messages may be lost.
    Subscribed,
    /// The server refuses the subscription, and somebody must mend that. Attempts go on.
    Refused(String),
}

/// A transition of a watched job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct News {
    /// The job.
    pub id: JobId,
    /// Its state; `None` when it is gone.
    pub state: Option<crate::model::record::State>,
    /// The token of its last execution.
    pub token: Token,
    /// The number of the transition: consecutive for one life of a job.
    pub number: u64,
    /// Its new data, if they have changed.
    pub body: Option<Bytes>,
    /// Its end, a letter and the result or reason, if it has come to it.
    pub outcome: Option<Bytes>,
    /// Its new notes, if they have changed.
    pub notes: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A page of a parent in the life that begins with `birth`, with the end of one child.
    fn page(birth: &str, child: &str, more: Option<&str>) -> Peeked {
        let record = format!("1|W|7|1|||c||0|0|q||1a3185c5000000000|0|0|0|{birth}|0|");
        let record = Record::parse(&record).unwrap();
        Peeked {
            seen: Seen { record, body: Bytes::new(), result: Bytes::new(), notes: Bytes::new() },
            begins_at: 0,
            children: vec![(JobId::new(child).unwrap(), 'C', Bytes::new())],
            more: more.map(Into::into),
        }
    }

    #[test]
    fn a_page_of_another_life_is_no_part_of_a_parent() {
        let (first, other) = ("1a3185c5000000000", "1a3185c5000000001");
        let mut parent = page(first, "p.1", Some("p.1"));
        let before = parent.clone();
        assert!(!parent.goes_on(None) && !parent.goes_on(Some(page(other, "p.2", None))));
        assert_eq!(parent, before);
        assert!(parent.goes_on(Some(page(first, "p.2", Some("p.2")))));
        assert!(parent.goes_on(Some(page(first, "p.3", None))));
        let ids: Vec<_> = parent.children.iter().map(|(id, ..)| id.as_str()).collect();
        assert_eq!((ids, parent.more), (vec!["p.1", "p.2", "p.3"], None));
    }
}
