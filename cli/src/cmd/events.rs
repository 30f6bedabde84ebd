//! `tenure events` and `tenure history`.

use std::time::{Duration, SystemTime};

use clap::Args;
use futures::TryStreamExt;
use serde::Serialize;
use serde_json::json;
use tenure_pool::{Cause, Event, EventCursor, EventKind, Inspector, JobKey, Verdict};

use super::Session;
use crate::args::{KeyArg, KindArg, time};
use crate::exit::{Code, Failure};
use crate::out::when::{as_stamp, since, stamp};
use crate::out::{Cell, Column, Format, List, Out, Row, Tone, shown};

/// How many entries a page has.
const PAGE: usize = 256;

/// List what has happened in the pool: failures, moves, losses, and what operators asked for
#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Print those that come, too, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only events of the last time, such as `1h`
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,
    /// Only events that name this key
    #[arg(long, value_name = "KEY", value_parser = KeyArg)]
    key: Option<JobKey>,
    /// Only events of these kinds
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<KindArg>,
    /// Only events of this worker
    #[arg(long, value_name = "ID")]
    worker: Option<u64>,
    /// Only events that this node has noted
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

/// Say what has happened to one key: its events, and where it is now
///
/// An event that tells of many jobs names 8 of them. It does not show under the keys of the others.
#[derive(Args, Debug)]
pub(crate) struct History {
    /// The job's key
    #[arg(value_parser = KeyArg)]
    key: JobKey,
    /// Only events of the last time, such as `1h`
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,
}

/// An event as it is printed.
#[derive(Serialize)]
struct Shown {
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
fn kind(kind: EventKind) -> Cell {
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
fn cause(why: Cause) -> &'static str {
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
    fn line(&self, utc: bool) -> String {
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

/// The events of a pool, from a time on.
struct Found {
    events: Vec<Event>,
    next: EventCursor,
    oldest: Option<SystemTime>,
    dropped: u64,
    unread: u64,
}

impl Found {
    async fn read(pool: &Inspector, past: Option<Duration>) -> Result<Self, Failure> {
        let from = past.and_then(|past| SystemTime::now().checked_sub(past));
        let mut next = from.map(EventCursor::since).unwrap_or_default();
        let (mut events, mut dropped, mut unread) = (Vec::new(), 0, 0);
        loop {
            let page = pool.events(&next, PAGE).await?;
            events.extend(page.events);
            next = page.next;
            dropped += page.dropped;
            unread += page.unread;
            if page.is_last {
                return Ok(Self { events, next, oldest: page.oldest, dropped, unread });
            }
        }
    }

    /// How far back they go, and what is missing.
    fn reach(&self) -> String {
        let since = self
            .oldest
            .map_or_else(|| "nothing is noted".to_owned(), |at| format!("noted since {}", stamp(at)));
        let dropped =
            if self.dropped > 0 { format!(", {} were dropped", self.dropped) } else { String::new() };
        let unread =
            if self.unread > 0 { format!(", {} entries cannot be read", self.unread) } else { String::new() };
        format!("{since}{dropped}{unread}")
    }
}

impl Events {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        if self.follow && session.out.format == Format::Json {
            return Err(Failure::new(
                Code::Usage,
                "one JSON document never ends with --follow: take -o jsonl",
            ));
        }
        let pool = session.place()?.inspector().await?;
        let mut found = Found::read(&pool, self.since).await?;
        let events = std::mem::take(&mut found.events);
        let meant = events.into_iter().filter(|event| self.means(event)).map(Shown::from);
        if !session.out.format.is_data() {
            eprintln!("{}", found.reach());
        }
        if !self.follow {
            List::print(&mut session.out, meant)?;
            return Ok(Code::Done);
        }
        let mut printed = false;
        for event in meant {
            print_line(&mut session.out, &event, &mut printed)?;
        }
        session.out.flush()?;
        let mut coming = pool.follow(found.next);
        while let Some(event) = coming.try_next().await? {
            if self.means(&event) {
                print_line(&mut session.out, &Shown::from(event), &mut printed)?;
                session.out.flush()?;
            }
        }
        Ok(Code::Done)
    }

    fn means(&self, event: &Event) -> bool {
        self.key.as_ref().is_none_or(|key| event.keys.contains(key))
            && (self.kind.is_empty() || self.kind.contains(&KindArg(event.kind)))
            && self.worker.is_none_or(|worker| event.worker.is_some_and(|its| its.0 == worker))
            && self.node.as_ref().is_none_or(|node| event.node == *node)
    }
}

/// Prints an event at once. `printed`: another one was before it.
fn print_line(out: &mut Out, event: &Shown, printed: &mut bool) -> Result<(), Failure> {
    match out.format {
        Format::Table | Format::Wide => {
            let line = event.line(out.utc);
            out.line(line)?;
        }
        _ => List::go_on(out, usize::from(*printed)).row(event)?,
    }
    *printed = true;
    Ok(())
}

impl History {
    pub(crate) async fn run(self, session: &mut Session) -> Result<Code, Failure> {
        let Self { key, since } = self;
        let pool = session.place()?.inspector().await?;
        let seen = pool.explain(&key).await?;
        let mut found = Found::read(&pool, since).await?;
        let events = std::mem::take(&mut found.events);
        let events: Vec<_> =
            events.into_iter().filter(|event| event.keys.contains(&key)).map(Shown::from).collect();
        let is_absent = matches!(seen.verdict, Verdict::Absent | Verdict::Ended { .. }) && events.is_empty();
        if session.out.format.is_data() {
            let (name, name64) = shown::key_fields(&key);
            session.out.document(&json!({
                "key": name,
                "key64": name64,
                "events": events,
                "noted_since": found.oldest.map(stamp),
                "dropped": found.dropped,
                "explain": super::explain::fields(&seen),
            }))?;
        } else {
            eprintln!("{}", found.reach());
            if !events.is_empty() {
                List::print(&mut session.out, events)?;
                session.out.line("")?;
            }
            session.out.line(&seen)?;
        }
        Ok(if is_absent { Code::NotFound } else { Code::Done })
    }
}
