//! `tenure events` and `tenure history`.

use std::time::{Duration, SystemTime};

use clap::Args;
use futures::TryStreamExt;
use tenure_pool::event::{Event, EventCursor};
use tenure_pool::inspect::Verdict;
use tenure_pool::{Error, Inspector, JobKey};

use super::Session;
use crate::args::{KeyArg, KindArg, number, time};
use crate::exit::{Code, Failure};
use crate::journal;
use crate::out::when::stamp;
use crate::out::{Format, List, Out};
use crate::view::events::{Shown, history};

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
    #[arg(long, value_name = "ID", value_parser = number(0..=u64::MAX))]
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

/// The events of a pool, from a time on.
pub(super) struct Found {
    pub(super) events: Vec<Event>,
    next: EventCursor,
    oldest: Option<SystemTime>,
    dropped: u64,
    unread: u64,
}

impl Found {
    /// Reads the events of this time, or all events.
    ///
    /// # Errors
    /// The pool cannot be read.
    ///
    /// # Cancel safety
    /// Safe: the call only reads.
    pub(super) async fn read(pool: &Inspector, past: Option<Duration>) -> Result<Self, Error> {
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
            journal::tell(found.reach());
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
            let document = history(&key, &events, found.oldest, found.dropped, &seen);
            session.out.document(&document)?;
        } else {
            journal::tell(found.reach());
            if !events.is_empty() {
                List::print(&mut session.out, events)?;
                session.out.line("")?;
            }
            session.out.line(&seen)?;
        }
        Ok(if is_absent { Code::NotFound } else { Code::Done })
    }
}
