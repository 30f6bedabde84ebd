//! The whole state of a store as a comparable picture, for tests: both stores draw the same one.
//!
//! Names are the keys of `docs/protocol/data.md` without their prefix. Left out: what legitimately differs between two
//! stores that took the same steps (the blessed process, the ids of stream entries, times to live).

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

/// Bytes that print as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub Bytes);

impl<T: AsRef<[u8]>> From<T> for Text {
    fn from(bytes: T) -> Self {
        Self(Bytes::copy_from_slice(bytes.as_ref()))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The content of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A hash: `pool` without `server`, `workers`, `expired`, `heartbeats`, `settings`, `jobs`, `payloads`, `errors`,
    /// `notifications`, `schedules`. `outcomes` has its values as `key|hash|id|outcome|at` (empty while there is none).
    /// `starts.routers` is consumer → number of its pending entries, without those that have none.
    Hash(BTreeMap<Text, Text>),
    /// A sorted set: `owners`, `queue`, `parked`, `ended`, `planned`.
    Scores(BTreeMap<Text, u64>),
    /// A stream, also an empty one: `starts`, `history`, `worker:<worker>`, `node:<node>`; per entry its fields and values in order.
    Entries(Vec<Vec<Text>>),
}

/// The content of every key; an empty hash or sorted set is no key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Dump(BTreeMap<String, Content>);

impl Dump {
    /// Adds a hash, if it has fields.
    pub fn hash<F: Into<Text>, V: Into<Text>>(
        &mut self,
        name: &str,
        fields: impl IntoIterator<Item = (F, V)>,
    ) {
        let fields: BTreeMap<_, _> = fields.into_iter().map(|(f, v)| (f.into(), v.into())).collect();
        if !fields.is_empty() {
            self.0.insert(name.to_owned(), Content::Hash(fields));
        }
    }

    /// Adds a sorted set, if it has members.
    pub fn scores<M: Into<Text>>(&mut self, name: &str, members: impl IntoIterator<Item = (M, u64)>) {
        let members: BTreeMap<_, _> = members.into_iter().map(|(m, s)| (m.into(), s)).collect();
        if !members.is_empty() {
            self.0.insert(name.to_owned(), Content::Scores(members));
        }
    }

    /// Adds a stream.
    pub fn entries(&mut self, name: &str, entries: impl IntoIterator<Item = Vec<Text>>) {
        self.0.insert(name.to_owned(), Content::Entries(entries.into_iter().collect()));
    }

    /// The content of a key.
    pub fn get(&self, name: &str) -> Option<&Content> {
        self.0.get(name)
    }

    /// The names of all keys, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// One line per field, member and entry, in order.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, content) in &self.0 {
            match content {
                Content::Hash(fields) => {
                    lines.extend(fields.iter().map(|(f, v)| format!("{name} {f} = {v}")));
                }
                Content::Scores(members) => {
                    lines.extend(members.iter().map(|(m, s)| format!("{name} {m} @ {s}")));
                }
                Content::Entries(entries) => {
                    lines.push(format!("{name} has {} entries", entries.len()));
                    lines.extend(
                        entries.iter().enumerate().map(|(i, entry)| format!("{name}[{i}] {entry:?}")),
                    );
                }
            }
        }
        lines
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
