//! Events, as they are shown.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Value, json};
use tenure_pool::JobKey;
use tenure_pool::event::{Event, EventKind};
use tenure_pool::inspect::{Cause, Explanation};

use crate::out::when::{as_stamp, since, stamp};
use crate::out::{Cell, Column, Row, Tone, shown};

/// An event.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    #[serde(serialize_with = "as_stamp")]
    at: SystemTime,
    kind: EventKind,
    key: Option<String>,
    key64: Option<String>,
    more_keys: String,
    count: u64,
    shard: usize,
    worker: Option<u64>,
    why: Option<Cause>,
    text: String,
    node: String,
    #[serde(skip)]
    title: String,
}

impl From<Event> for Shown {
    fn from(event: Event) -> Self {
        let (key, key64) = event.keys.first().map(shown::key_fields).unwrap_or_default();
        let titles: Vec<_> = event.keys.iter().map(shown::key).collect();
        Self {
            at: event.at,
            kind: event.kind,
            key,
            key64,
            more_keys: titles.get(1..).unwrap_or_default().join(" "),
            count: event.count,
            shard: event.shard,
            worker: event.worker.map(|worker| worker.0),
            why: event.why,
            text: event.text,
            node: event.node,
            title: match (&titles[..], event.count) {
                ([one], 0 | 1) => one.clone(),
                (_, 0) => "-".to_owned(),
                (_, 1) => "1 job".to_owned(),
                (_, count) => format!("{count} jobs"),
            },
        }
    }
}

/// The word for a kind, and how it looks.
pub(crate) fn kind(kind: EventKind) -> Cell {
    Cell::new(kind.word()).tone(match kind {
        EventKind::Failed | EventKind::Parked | EventKind::Lost | EventKind::Fenced | EventKind::Damaged => {
            Tone::Bad
        }
        EventKind::Paused | EventKind::Stuck | EventKind::Opening | EventKind::Reported => Tone::Warn,
        EventKind::Joined | EventKind::Open => Tone::Good,
        _ => Tone::Plain,
    })
}

/// The word for a cause.
pub(crate) fn cause(why: Cause) -> &'static str {
    match why {
        Cause::Moved => "moved by the ring",
        Cause::Drained => "its worker left",
        Cause::Refused => "refused, or full",
        Cause::Bounced => "bounced",
        Cause::Updated => "updated",
        Cause::Failed => "failed",
        _ => "handed on",
    }
}

impl Shown {
    fn why(&self) -> Cell {
        match (self.why, &*self.text) {
            (None, "") => Cell::maybe(None::<String>),
            (Some(why), "") => Cell::new(cause(why)),
            (_, text) => Cell::new(shown::plain(text)),
        }
    }

    /// As one line, for those who follow.
    pub(crate) fn line(&self, utc: bool) -> String {
        let when =
            if utc { stamp(self.at) } else { stamp(self.at).get(11..19).unwrap_or_default().to_owned() };
        let worker = self.worker.map(|worker| format!("worker {worker}, ")).unwrap_or_default();
        let (kind, title, why, node) =
            (self.kind.word(), &self.title, self.why().text, shown::plain(&self.node));
        format!("{when}  {kind:<8}  {title}  {why}  ({worker}{node})")
    }
}

impl Row for Shown {
    const KIND: &'static str = "events";
    const COLUMNS: &'static [Column] = &[
        Column::new("AGO").right(),
        Column::new("KIND"),
        Column::new("KEY"),
        Column::new("MORE KEYS").wide(),
        Column::new("SHARD").right().wide(),
        Column::new("WORKER").right(),
        Column::new("WHY"),
        Column::new("NOTED BY"),
    ];

    fn cells(&self, utc: bool) -> Vec<Cell> {
        vec![
            Cell::new(since(self.at, utc)),
            kind(self.kind),
            Cell::new(&self.title),
            Cell::maybe(Some(&self.more_keys).filter(|keys| !keys.is_empty())),
            Cell::of(self.shard),
            Cell::maybe(self.worker),
            self.why(),
            Cell::new(shown::plain(&self.node)),
        ]
    }

    fn name(&self) -> String {
        self.kind.word().to_owned()
    }
}

/// The past of a key, and where it is now. `oldest`: how far back the events go.
pub(crate) fn history(
    key: &JobKey,
    events: &[Shown],
    oldest: Option<SystemTime>,
    dropped: u64,
    seen: &Explanation,
) -> Value {
    let (name, name64) = shown::key_fields(key);
    json!({
        "key": name,
        "key64": name64,
        "events": events,
        "noted_since": oldest.map(stamp),
        "dropped": dropped,
        "explain": super::explain::fields(seen),
    })
}
