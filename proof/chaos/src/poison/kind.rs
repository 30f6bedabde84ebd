//! The kinds of damage: a key of a pool or of a set of jobs, and a manner.

use std::fmt;
use std::str::FromStr;

use crate::cli::named;

/// The target of damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// A pool.
    #[default]
    Pool,
    /// A set of background jobs.
    Set,
}

/// The type of the value under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Fields and values.
    Hash,
    /// Members and scores.
    Sorted,
    /// Entries.
    Stream,
    /// A text.
    Text,
    /// Nothing is kept.
    Channel,
}

/// A manner of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Manner {
    /// Bytes of a value, or a score, are changed.
    Mutate,
    /// A field, a member or an entry goes away.
    Lose,
    /// A field, a member, an entry or a message of garbage comes.
    Stray,
    /// Another type of value stands there for a while.
    Mistype,
    /// The whole key goes away.
    Delete,
}

/// A kind of damage: `jobs-lose` is a record that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The key's name within its pool or set; `worker` and `node` stand for the streams of workers and nodes, and `lane` for the
    /// lanes of callers.
    pub key: &'static str,
    /// The kind of values at this key.
    pub shape: Shape,
    /// The manner of the damage.
    pub manner: Manner,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.key, named(&self.manner))
    }
}

/// All keys of a pool, as docs/protocol/data.md, section 3, lists them.
const KEYS: [(&str, Shape); 23] = [
    ("pool", Shape::Hash),
    ("workers", Shape::Hash),
    ("expired", Shape::Hash),
    ("heartbeats", Shape::Hash),
    ("settings", Shape::Hash),
    ("jobs", Shape::Hash),
    ("payloads", Shape::Hash),
    ("owners", Shape::Sorted),
    ("queue", Shape::Sorted),
    ("parked", Shape::Sorted),
    ("errors", Shape::Hash),
    ("notifications", Shape::Hash),
    ("checkpoints", Shape::Hash),
    ("starts", Shape::Stream),
    ("ended", Shape::Sorted),
    ("outcomes", Shape::Hash),
    ("schedules", Shape::Hash),
    ("planned", Shape::Sorted),
    ("history", Shape::Stream),
    ("nodes", Shape::Hash),
    ("worker", Shape::Stream),
    ("node", Shape::Stream),
    ("changes", Shape::Channel),
];

/// All keys of a set, as docs/jobs.md lists them.
const KEYS_OF_A_SET: [(&str, Shape); 14] = [
    ("meta", Shape::Hash),
    ("queues", Shape::Hash),
    ("counts", Shape::Hash),
    ("jobs", Shape::Hash),
    ("bodies", Shape::Hash),
    ("extras", Shape::Hash),
    ("ready", Shape::Sorted),
    ("timers", Shape::Sorted),
    ("leases", Shape::Sorted),
    ("groups", Shape::Hash),
    ("turns", Shape::Sorted),
    ("waiting", Shape::Sorted),
    ("index", Shape::Sorted),
    ("lane", Shape::Text),
];

/// All kinds of damage to a target, in the order of the keys.
pub fn all(target: Target) -> Vec<Kind> {
    let manners = |shape| match shape {
        Shape::Hash | Shape::Sorted => {
            &[Manner::Mutate, Manner::Lose, Manner::Stray, Manner::Mistype, Manner::Delete][..]
        }
        Shape::Stream => &[Manner::Lose, Manner::Stray, Manner::Mistype, Manner::Delete][..],
        Shape::Text => &[Manner::Mutate, Manner::Lose][..],
        Shape::Channel => &[Manner::Stray][..],
    };
    let of_key =
        |&(key, shape): &(_, _)| manners(shape).iter().map(move |&manner| Kind { key, shape, manner });
    let keys = match target {
        Target::Pool => &KEYS[..],
        Target::Set => &KEYS_OF_A_SET[..],
    };
    keys.iter().flat_map(of_key).collect()
}

/// A choice among the kinds: a key (`jobs`), a manner (`lose`), or both (`jobs-lose`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(String);

impl Choice {
    /// Whether it means this kind.
    pub fn includes(&self, kind: Kind) -> bool {
        self.0 == kind.key || self.0 == named(&kind.manner) || self.0 == kind.to_string()
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choice = Self(text.to_owned());
        let kinds = [Target::Pool, Target::Set].map(all).into_iter().flatten();
        if kinds.into_iter().any(|kind| choice.includes(kind)) {
            return Ok(choice);
        }
        Err("neither a key (jobs), nor a manner (mutate, lose, stray, mistype, delete), nor both (jobs-lose)"
            .into())
    }
}

/// The chosen kinds of damage; all of them without a choice.
pub fn chosen(target: Target, only: &[Choice]) -> Vec<Kind> {
    let mut kinds = all(target);
    kinds.retain(|&kind| only.is_empty() || only.iter().any(|choice| choice.includes(kind)));
    kinds
}
