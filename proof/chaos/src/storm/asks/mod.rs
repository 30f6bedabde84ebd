//! The book of asks: what was asked, handed over, said and heard.
//!
//! Each rule is one function over one ask, with what else is known of its key.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_testing::history::{AskEnd, AskWord, Entry, Event};

use super::excuse::Losses;
use crate::manner::Words;

/// An ask in the hands of a handler.
#[derive(Debug)]
struct Handed<'a> {
    at: u64,
    token: u64,
    worker: &'a str,
}

#[derive(Debug, Default)]
pub(super) struct Ask<'a> {
    pub(super) key: &'a str,
    pub(super) made: u64,
    idempotent: bool,
    handed: Vec<Handed<'a>>,
    said: Vec<(u64, AskWord)>,
    pub(super) ended: Option<(u64, &'a AskEnd)>,
}

impl Ask<'_> {
    /// The words that its caller heard, if a handler said some.
    pub(super) fn heard(&self) -> Option<&str> {
        match self.ended?.1 {
            AskEnd::Answered(words) | AskEnd::Refused(words) => Some(words),
            _ => None,
        }
    }

    /// How often handlers have said one of these under this token; under any token without one.
    fn count(&self, of: &[AskWord], token: Option<u64>) -> usize {
        let counts =
            |said: &&(u64, AskWord)| token.is_none_or(|token| token == said.0) && of.contains(&said.1);
        self.said.iter().filter(counts).count()
    }

    fn last_handed(&self) -> u64 {
        self.handed.last().map_or(self.made, |handed| handed.at)
    }

    /// The times that it was handed over and not sent on.
    fn kept(&self) -> usize {
        self.handed.len().saturating_sub(self.count(&[AskWord::SentOn], None))
    }
}

/// All asks, by their ids.
pub(super) fn by_id(entries: &[Entry]) -> BTreeMap<&str, Ask<'_>> {
    let mut asks: BTreeMap<&str, Ask<'_>> = BTreeMap::new();
    for Entry { at, event, .. } in entries {
        match event {
            Event::AskMade { key, id, idempotent } => {
                let ask = asks.entry(id).or_default();
                (ask.key, ask.made, ask.idempotent) = (key, *at, *idempotent);
            }
            Event::AskHanded { id, token, worker, .. } => {
                asks.entry(id).or_default().handed.push(Handed { at: *at, token: *token, worker });
            }
            Event::AskSaid { id, token, said, .. } => asks.entry(id).or_default().said.push((*token, *said)),
            Event::AskEnded { id, end, .. } => asks.entry(id).or_default().ended = Some((*at, end)),
            _ => {}
        }
    }
    asks
}

/// The starts, notifications and pauses beside the asks.
#[derive(Default)]
struct Known<'a> {
    /// The starts of each key: the moment and the token.
    starts: BTreeMap<&'a str, Vec<(u64, u64)>>,
    /// The accepted notifications of each key: when they were about to be sent and when they were accepted.
    notes: BTreeMap<&'a str, Vec<(u64, u64, u64)>>,
    /// When each notification was first taken.
    taken: BTreeMap<(&'a str, u64), u64>,
    /// When the process of each worker stood still.
    pauses: BTreeMap<&'a str, Vec<(u64, u64)>>,
}

impl<'a> Known<'a> {
    fn of(entries: &'a [Entry]) -> Self {
        let mut known = Self::default();
        for Entry { at, event, .. } in entries {
            match event {
                Event::Started { key, token, .. } => known.starts.entry(key).or_default().push((*at, *token)),
                Event::NotifyAccepted { key, number, asked } => {
                    known.notes.entry(key).or_default().push((*number, *asked, *at));
                }
                Event::Notified { key, number } => {
                    known.taken.entry((key, *number)).or_insert(*at);
                }
                Event::Paused { worker } => known.pauses.entry(worker).or_default().push((*at, u64::MAX)),
                Event::Resumed { worker } => {
                    if let Some(pause) = known.pauses.get_mut(&**worker).and_then(|pauses| pauses.last_mut())
                    {
                        pause.1 = *at;
                    }
                }
                _ => {}
            }
        }
        known
    }

    fn starts(&self, key: &str) -> &[(u64, u64)] {
        self.starts.get(key).map_or(&[], Vec::as_slice)
    }

    /// The first start of a later owner than this one before this moment.
    fn later_start(&self, key: &str, token: u64, before: u64) -> Option<(u64, u64)> {
        self.starts(key).iter().copied().find(|&(at, later)| later > token && at < before)
    }

    fn stood_still(&self, worker: &str, at: u64, grace: u64) -> bool {
        let pauses = self.pauses.get(worker).map_or(&[][..], Vec::as_slice);
        pauses.iter().any(|&(from, to)| from <= at && at <= to.saturating_add(grace))
    }
}

/// The broken promises, in words. `grace`: how long after a pause its process may still act for a lost lease.
pub(super) fn broken_promises(entries: &[Entry], losses: &Losses, grace: Duration) -> Vec<String> {
    let known = Known::of(entries);
    let grace = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
    let judged = by_id(entries).into_iter().flat_map(|(id, ask)| {
        let found = [
            handed_twice(&ask, losses),
            handed_unhandled(&ask, losses),
            answered_by_another(id, &ask),
            answered_by_a_former_owner(&ask, &known, losses),
            handed_to_a_former_owner(&ask, &known, grace),
            handed_before_a_notification(&ask, &known, losses, grace),
        ];
        found.into_iter().flatten().map(move |what| format!("{}: ask {id} {what}", ask.key))
    });
    judged.collect()
}

/// The number of asks for a single handler that came to several.
pub(super) fn handed_twice_in_all(entries: &[Entry], losses: &Losses) -> usize {
    by_id(entries).values().filter(|ask| !ask.idempotent && handed_twice(ask, losses).is_some()).count()
}

fn handed_twice(ask: &Ask<'_>, losses: &Losses) -> Option<String> {
    if losses.lie_between(ask.made, ask.last_handed()) {
        return None;
    }
    if !ask.idempotent {
        let tokens = || ask.handed.iter().map(|handed| handed.token).collect::<Vec<_>>();
        return (ask.kept() > 1)
            .then(|| format!("was handed over {} times, under {:?}", ask.kept(), tokens()));
    }
    let again = |token: u64| {
        let handed = ask.handed.iter().filter(|handed| handed.token == token).count();
        handed.saturating_sub(ask.count(&[AskWord::SentOn, AskWord::Nothing], Some(token))) > 1
    };
    let twice = ask.handed.iter().find(|handed| again(handed.token))?;
    Some(format!(
        "is idempotent, and came again to {}, which had neither dropped it nor sent it on",
        twice.token
    ))
}

fn handed_unhandled(ask: &Ask<'_>, losses: &Losses) -> Option<String> {
    let (at, AskEnd::NotHandled(why)) = ask.ended? else { return None };
    if ask.kept() == 0 || losses.lie_between(ask.made, at.max(ask.last_handed())) {
        return None;
    }
    Some(format!("ended as not handled ({why}), and was handed to {}", ask.handed[0].token))
}

fn answered_by_another(id: &str, ask: &Ask<'_>) -> Option<String> {
    let (heard, at) = (ask.heard()?, ask.ended?.0);
    let words: Option<Words> = heard.parse().ok();
    let fits = words.is_some_and(|words| {
        words.id == id && ask.handed.iter().any(|handed| handed.token == words.token && handed.at <= at)
    });
    (!fits).then(|| format!("has the answer '{heard}', which no handler gave to it"))
}

fn answered_by_a_former_owner(ask: &Ask<'_>, known: &Known<'_>, losses: &Losses) -> Option<String> {
    let words: Words = ask.heard()?.parse().ok()?;
    let (at, token) = known.later_start(ask.key, words.token, ask.made)?;
    let excused = losses.lie_between(at, ask.ended?.0);
    (!excused).then(|| format!("was answered by {}, and {token} had started before it was made", words.token))
}

fn handed_to_a_former_owner(ask: &Ask<'_>, known: &Known<'_>, grace: u64) -> Option<String> {
    ask.handed.iter().find_map(|handed| {
        let (at, token) = known.later_start(ask.key, handed.token, handed.at)?;
        let late = (handed.at - at) / 1_000_000;
        let excused = known.stood_still(handed.worker, handed.at, grace);
        (!excused).then(|| format!("was handed to {} {late} ms after the start of {token}", handed.token))
    })
}

/// A notification of the same run that was accepted before the ask was made comes before it.
fn handed_before_a_notification(
    ask: &Ask<'_>,
    known: &Known<'_>,
    losses: &Losses,
    grace: u64,
) -> Option<String> {
    let notes = known.notes.get(ask.key)?;
    ask.handed.iter().find_map(|handed| {
        // A process that wakes may act for a lease that it has lost, and a later run took the notification.
        let is_former = known.later_start(ask.key, handed.token, handed.at).is_some();
        if is_former && known.stood_still(handed.worker, handed.at, grace) {
            return None;
        }
        let started = known.starts(ask.key).iter().find(|&&(_, token)| token == handed.token)?.0;
        notes.iter().find_map(|&(number, asked, accepted)| {
            let concerns = started <= asked && accepted <= ask.made;
            let taken = known.taken.get(&(ask.key, number)).is_some_and(|&taken| taken <= handed.at);
            let missed = concerns && !taken && !losses.lie_between(asked, handed.at);
            missed.then(|| format!("was handed to {} before notification {number}", handed.token))
        })
    })
}

#[cfg(test)]
mod tests;
