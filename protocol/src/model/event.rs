//! The events of a pool, as its nodes say them: entries of the stream `history`. An entry is a `MessagePack` map
//! `{v, node, life, n, dropped, events}`, version first. Fields with default values are left out, and a reader skips those
//! of later versions.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::id::{JobKey, WorkerId};
use super::serial;
use super::why::Cause;

/// The version of entries that this crate writes, and the newest that it reads.
pub const VERSION: u64 = 1;
/// How many keys an event names, at most. It may be about more jobs.
pub const KEYS_MAX: usize = 8;
/// The longest text of an event, bytes.
pub const TEXT_MAX: usize = 256;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A job's handler failed, or took too long.
    Failed,
    /// A job was parked.
    Parked,
    /// A job that ran was paused.
    Paused,
    /// Jobs left their worker, and go on. [`Event::why`] says why they did.
    Moved,
    /// A worker was silent for its time to live, and is expired; or jobs were taken from such a worker.
    Lost,
    /// A worker of the node has lost its lease. Its jobs are ended there.
    Fenced,
    /// A handler does not end: its worker keeps the job.
    Stuck,
    /// A worker has joined.
    Joined,
    /// A worker has left.
    Left,
    /// The pool is being opened: it is new, or its data may have been lost.
    Opening,
    /// The pool is open.
    Open,
    /// A worker has said what it runs, after a possible loss of data.
    Reported,
    /// A key of the pool was lost or is damaged.
    Damaged,
    /// An operator has asked for something.
    Asked,
    /// A job has started. Only with `Settings::history_all`.
    Started,
    /// A job that ran has ended for good, or was stopped: [`Event::text`] has its outcome, or is empty. Only with that setting, and
    /// not for every one: that of a release whose answer was lost, or of a worker that is lost, is missing.
    Ended,
    /// A kind that this version does not know.
    #[serde(other)]
    Unknown,
}

impl EventKind {
    /// Its word, as in JSON.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Parked => "parked",
            Self::Paused => "paused",
            Self::Moved => "moved",
            Self::Lost => "lost",
            Self::Fenced => "fenced",
            Self::Stuck => "stuck",
            Self::Joined => "joined",
            Self::Left => "left",
            Self::Opening => "opening",
            Self::Open => "open",
            Self::Reported => "reported",
            Self::Damaged => "damaged",
            Self::Asked => "asked",
            Self::Started => "started",
            Self::Ended => "ended",
            Self::Unknown => "unknown",
        }
    }

    /// All kinds that this version knows.
    pub const ALL: [Self; 16] = [
        Self::Failed,
        Self::Parked,
        Self::Paused,
        Self::Moved,
        Self::Lost,
        Self::Fenced,
        Self::Stuck,
        Self::Joined,
        Self::Left,
        Self::Opening,
        Self::Open,
        Self::Reported,
        Self::Damaged,
        Self::Asked,
        Self::Started,
        Self::Ended,
    ];
}

/// Something notable that has happened in a pool, as one of its nodes said it. When serialized, times are milliseconds
/// since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// When, by the store's clock. It is as exact as the time that the message to the store took.
    #[serde(serialize_with = "serial::time")]
    pub at: SystemTime,
    /// The shard, from 0.
    pub shard: usize,
    /// The node that says so.
    pub node: String,
    /// Its kind.
    pub kind: EventKind,
    /// The jobs that it is about: the first 8 of them. Empty if the node does not know them, or it is about none.
    pub keys: Vec<JobKey>,
    /// How many jobs it is about.
    pub count: u64,
    /// The worker that had them, or that it is about.
    pub worker: Option<WorkerId>,
    /// Why jobs left their worker.
    pub why: Option<Cause>,
    /// An error, a reason or a name, at most 256 bytes. May be empty.
    pub text: String,
}

/// An event that a node has not said yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The kind.
    pub kind: EventKind,
    /// Some of the jobs.
    pub keys: Vec<JobKey>,
    /// How many jobs, or how often.
    pub count: u64,
    /// The worker.
    pub worker: Option<WorkerId>,
    /// The cause of a move.
    pub why: Option<Cause>,
    /// The text.
    pub text: String,
}

impl News {
    /// News of this kind, about nothing so far.
    pub fn new(kind: EventKind) -> Self {
        Self { kind, keys: Vec::new(), count: 0, worker: None, why: None, text: String::new() }
    }

    /// Of one job.
    pub fn of_job(kind: EventKind, key: JobKey) -> Self {
        Self { keys: vec![key], count: 1, ..Self::new(kind) }
    }

    /// The news, about this worker.
    #[must_use]
    pub fn at(self, worker: WorkerId) -> Self {
        Self { worker: Some(worker), ..self }
    }

    /// The news, with this text.
    #[must_use]
    pub fn saying(self, text: &str) -> Self {
        let mut end = text.len().min(TEXT_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self { text: text.get(..end).unwrap_or_default().to_owned(), ..self }
    }

    /// Its size in an entry, about, in bytes.
    pub fn size(&self) -> usize {
        48 + self.text.len() + self.keys.iter().map(|key| key.as_bytes().len() + 3).sum::<usize>()
    }
}

/// An entry as it is stored.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the entry.
    pub v: u64,
    /// The node that writes it.
    pub node: String,
    /// Tells one process of the node from another, and the entries of a process from each other. An entry that was sent
    /// again has the same.
    pub life: u64,
    /// The number of the entry for its writer.
    pub n: u64,
    /// How many events before these the node has dropped, because it could not write them in time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dropped: u64,
    /// The events, oldest first.
    pub events: Vec<Line>,
}

/// An event in an entry.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    kind: EventKind,
    /// How long before the entry was written, ms.
    #[serde(default, skip_serializing_if = "is_default")]
    age: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<ByteBuf>,
    #[serde(default, skip_serializing_if = "is_default")]
    count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<u64>,
    /// The letter of the cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Line {
    /// The line of news that are this old.
    pub fn of(news: &News, age: Duration) -> Self {
        Self {
            kind: news.kind,
            age: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            keys: news.keys.iter().map(|key| ByteBuf::from(key.as_bytes())).collect(),
            count: news.count,
            worker: news.worker.map(|worker| worker.0),
            why: news.why.map(|why| why.letter().to_owned()),
            text: news.text.clone(),
        }
    }

    /// When it happened, if its entry was written at this time, by the store's clock, ms.
    pub fn at(&self, written: u64) -> u64 {
        written.saturating_sub(self.age)
    }

    /// The event, which happened at this time, ms.
    pub fn event(self, shard: usize, node: &str, at: u64) -> Event {
        Event {
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(at),
            shard,
            node: node.to_owned(),
            kind: self.kind,
            keys: self.keys.into_iter().filter_map(|key| JobKey::new(key.into_vec()).ok()).collect(),
            count: self.count,
            worker: self.worker.map(WorkerId),
            why: self.why.and_then(|letter| Cause::of(&letter)),
            text: self.text,
        }
    }
}

impl Entry {
    /// Its bytes. Empty if they cannot be written, which no value leads to.
    pub fn encode(&self) -> Bytes {
        rmp_serde::to_vec_named(self).unwrap_or_default().into()
    }

    /// Reads an entry. `None` for one of a later version, and for a damaged one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        rmp_serde::from_slice(bytes).ok().filter(|entry: &Self| entry.v == VERSION)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn news() -> News {
        let keys = vec![JobKey::new(&b"acme"[..]).unwrap(), JobKey::new(&b"\xff"[..]).unwrap()];
        let (worker, why) = (Some(WorkerId(17)), Some(Cause::Moved));
        News { kind: EventKind::Moved, keys, count: 9, worker, why, text: String::new() }
    }

    fn entry(events: Vec<Line>) -> Entry {
        Entry { v: VERSION, node: "n1".to_owned(), life: 7, n: 1, dropped: 0, events }
    }

    #[test]
    fn an_event_survives_the_round_trip() {
        let sent = entry(vec![Line::of(&news(), Duration::from_millis(250))]);
        let mut read = Entry::decode(&sent.encode()).unwrap();
        assert_eq!(read, sent);
        let line = read.events.remove(0);
        let at = line.at(1_000);
        let event = line.event(2, "n1", at);
        let News { kind, keys, count, worker, why, text } = news();
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(750);
        let node = "n1".to_owned();
        assert_eq!(event, Event { at, shard: 2, node, kind, keys, count, worker, why, text });
    }

    #[test]
    fn an_entry_has_these_bytes() {
        let line = Line::of(&News::of_job(EventKind::Stuck, JobKey::new(&b"k"[..]).unwrap()), Duration::ZERO);
        let bytes = b"\x85\xa1v\x01\xa4node\xa2n1\xa4life\x07\xa1n\x01\xa6events\x91\x83\xa4kind\xa5stuck\xa4keys\x91\xc4\x01k\xa5count\x01";
        assert_eq!(entry(vec![line]).encode().escape_ascii().to_string(), bytes.escape_ascii().to_string());
    }

    #[test]
    fn a_later_versions_fields_and_kinds_are_passed_over() {
        let bytes = b"\x86\xa1v\x01\xa4node\xa2n1\xa4life\x07\xa1n\x01\xa5later\x07\xa6events\x91\x82\xa4kind\xa6latest\xa5later\x07";
        let read = Entry::decode(bytes).unwrap();
        assert_eq!(read.events[0].kind, EventKind::Unknown);
        for bytes in [&b"\x85\xa1v\x02\xa4node\xa2n1\xa4life\x07\xa1n\x01\xa6events\x90"[..], b"", b"rubbish"]
        {
            assert_eq!(Entry::decode(bytes), None);
        }
    }

    #[test]
    fn a_text_is_kept_short() {
        let text = News::new(EventKind::Failed).saying(&"ü".repeat(200)).text;
        assert_eq!((text.len(), text.chars().count()), (256, 128));
        assert_eq!(News::new(EventKind::Failed).saying(&format!("x{}", "ü".repeat(200))).text.len(), 255);
    }

    #[test]
    fn a_kind_has_one_word() {
        for kind in EventKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
    }
}
