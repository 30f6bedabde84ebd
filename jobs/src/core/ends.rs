//! The ends of a worker's executions, until the store knows the ends. Damaged data refuse an end for a while. The
//! worker says a refused end again alone, so a refused end holds up no others. A refused end keeps its slot, so few
//! pile up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Time;
use super::execution::End;
use super::filling::one_call;

/// The pause before the node repeats an end that was refused alone.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest grace after a loss of data. A lease and a grace after a refused end, the job runs again.
const GRACE: Duration = Duration::from_secs(60);

/// The ends in the order in which the node says them.
#[derive(Debug, Default)]
pub(super) struct Ends {
    fresh: VecDeque<End>,
    refused: VecDeque<Refused>,
    /// The last call was about a refused end: now new ends come first.
    was_refused: bool,
}

#[derive(Debug)]
struct Refused {
    end: End,
    since: Time,
    /// When the worker says the end again.
    next: Time,
}

/// The ends of one call.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) ends: Arc<[End]>,
    /// The first refusal of a refused end.
    since: Option<Time>,
}

impl Ends {
    pub(super) fn push(&mut self, end: End) {
        self.fresh.push_back(end);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.refused.is_empty()
    }

    /// How many slots refused ends take.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.refused.len()).unwrap_or(u32::MAX)
    }

    /// Whether the worker has ends to say now.
    pub(super) fn are_due(&self, now: Time) -> bool {
        !self.fresh.is_empty() || self.next().is_some_and(|next| next <= now)
    }

    /// When the worker says a refused end again.
    pub(super) fn next(&self) -> Option<Time> {
        self.refused.front().map(|refused| refused.next)
    }

    /// The ends of the next call: in turns a refused end and all new ends.
    pub(super) fn next_call(&mut self, now: Time) -> Said {
        let is_due = self.next().is_some_and(|next| next <= now);
        self.was_refused = is_due && (!self.was_refused || self.fresh.is_empty());
        if self.was_refused
            && let Some(refused) = self.refused.pop_front()
        {
            return Said { ends: [refused.end].into(), since: Some(refused.since) };
        }
        let count = one_call(self.fresh.iter().map(|end| end.settle.size()));
        Said { ends: self.fresh.drain(..count).collect(), since: None }
    }

    /// The store did nothing: the ends go once more, first.
    pub(super) fn put_back(&mut self, said: &Said, now: Time) {
        for end in said.ends.iter().rev().cloned() {
            match said.since {
                Some(since) => self.refused.push_front(Refused { end, since, next: now }),
                None => self.fresh.push_front(end),
            }
        }
    }

    /// Damaged data refuse the ends, and the store did nothing. The ends of the call now go one by one, so the sound
    /// ends come through. An end refused alone goes again after a pause. Returns false when the worker gives the end
    /// up, since the job runs again.
    pub(super) fn refuse(&mut self, said: &Said, now: Time) -> bool {
        let since = said.since.unwrap_or(now);
        if let [end] = &*said.ends {
            let lasts = now.saturating_sub(since) <= end.lease + GRACE;
            if lasts {
                self.refused.push_back(Refused { end: end.clone(), since, next: now + PAUSE });
            }
            return lasts;
        }
        for end in said.ends.iter().rev() {
            self.refused.push_front(Refused { end: end.clone(), since, next: now });
        }
        true
    }
}
