//! What a consumer does next. Pure: time comes in as an argument, counted from any moment.
//!
//! Invariants, for each stream:
//! - What a lost reply may have delivered is looked for before anything new is read, and again until nothing of the
//!   lost read can be under way in Redis any more.
//! - What nobody has acknowledged for the grace is claimed every so often, however much there is to read.
//! - A group that is gone is created before anything else is asked of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::EntryId;

/// Of many entries that are pending and young, no more pages are looked at in a row.
const YOUNG_PAGES: u32 = 8;

/// How often things are done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Between two looks for what was not acknowledged; no read waits for longer.
    pub(super) claim_every: Duration,
    /// Between two looks for dead consumers.
    pub(super) bury_every: Duration,
    /// Whether entries are pending until they are acknowledged.
    pub(super) acks: bool,
    /// Whether the consumer may have been here before.
    pub(super) returning: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the group anew.
    Create { stream: Arc<str> },
    /// Take what is pending with this consumer behind `after` and not held.
    Recover { stream: Arc<str>, after: EntryId },
    /// Claim what has been pending for longer than the grace, from there.
    Claim { stream: Arc<str>, from: EntryId },
    /// Delete dead consumers.
    Bury { stream: Arc<str> },
    /// Read what is new in all streams, for no longer than this.
    Read { wait: Duration },
}

/// The state of one slot's streams.
#[derive(Debug)]
pub(super) struct Plan {
    pace: Pace,
    streams: BTreeMap<Arc<str>, Course>,
}

#[derive(Debug)]
struct Course {
    group_lost: bool,
    recover: Option<EntryId>,
    /// Until when a read whose reply was lost may still deliver, as long as nobody has looked since.
    ghost: Option<Duration>,
    claim_from: EntryId,
    claim_at: Duration,
    /// Pages of pending entries in a row of which none had been pending for long.
    young_pages: u32,
    bury_at: Duration,
}

impl Plan {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, streams: BTreeMap::new() }
    }

    /// These streams are read from now on, and no others.
    pub(super) fn arrange(&mut self, streams: &[Arc<str>], now: Duration) {
        self.streams.retain(|stream, _| streams.contains(stream));
        for stream in streams {
            if !self.streams.contains_key(stream) {
                let course = Course {
                    group_lost: false,
                    recover: self.pace.returning.then_some(EntryId::MIN),
                    // Its former self may be reading still.
                    ghost: self.pace.returning.then_some(now + self.pace.claim_every),
                    claim_from: EntryId::MIN,
                    claim_at: now,
                    young_pages: 0,
                    bury_at: now + self.pace.bury_every,
                };
                self.streams.insert(stream.clone(), course);
            }
        }
    }

    /// The streams, by name.
    pub(super) fn streams(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.streams.keys()
    }

    /// The next step.
    pub(super) fn next(&self, now: Duration) -> Step {
        let first = |due: &dyn Fn(&Course) -> bool| self.streams.iter().find(|(_, course)| due(course));
        if let Some((stream, _)) = first(&|course| course.group_lost) {
            return Step::Create { stream: stream.clone() };
        }
        if self.pace.acks {
            for (stream, course) in &self.streams {
                if let Some(after) = course.recover {
                    return Step::Recover { stream: stream.clone(), after };
                }
            }
            if let Some((stream, course)) = first(&|course| course.claim_at <= now) {
                return Step::Claim { stream: stream.clone(), from: course.claim_from };
            }
        }
        if let Some((stream, _)) = first(&|course| course.bury_at <= now) {
            return Step::Bury { stream: stream.clone() };
        }
        let mut wait = self.pace.claim_every;
        for course in self.streams.values() {
            if self.pace.acks {
                wait = wait.min(course.claim_at.saturating_sub(now));
            }
            wait = wait.min(course.bury_at.saturating_sub(now));
        }
        Step::Read { wait }
    }

    /// The group is there again.
    pub(super) fn created(&mut self, stream: &str) {
        if let Some(course) = self.streams.get_mut(stream) {
            course.group_lost = false;
            course.recover = None;
            course.claim_from = EntryId::MIN;
        }
    }

    /// The group of this stream is gone, or that of any when it is not known which.
    pub(super) fn group_lost(&mut self, stream: Option<&str>) {
        for (name, course) in &mut self.streams {
            course.group_lost |= stream.is_none_or(|stream| **name == *stream);
        }
    }

    /// A page of what is pending with this consumer was taken; `last` is its end when there may be more.
    pub(super) fn recovered(&mut self, stream: &str, last: Option<EntryId>) {
        if let Some(course) = self.streams.get_mut(stream) {
            course.recover = last;
        }
    }

    /// Entries were claimed, or not; `next` is where to go on.
    pub(super) fn claimed(&mut self, stream: &str, next: EntryId, any: bool, now: Duration) {
        let Some(course) = self.streams.get_mut(stream) else { return };
        course.claim_from = next;
        course.young_pages = if any { 0 } else { course.young_pages + 1 };
        if next != EntryId::MIN && course.young_pages < YOUNG_PAGES {
            return;
        }
        course.young_pages = 0;
        course.claim_at = now + self.pace.claim_every;
        if let Some(until) = course.ghost {
            course.recover = Some(EntryId::MIN);
            course.ghost = (now < until).then_some(until);
        }
    }

    /// Dead consumers were deleted, or not. What they had pending may be claimed.
    pub(super) fn buried(&mut self, stream: &str, moved: bool, now: Duration) {
        let Some(course) = self.streams.get_mut(stream) else { return };
        if moved {
            // There may be more of it.
            (course.claim_from, course.claim_at) = (EntryId::MIN, now);
        } else {
            course.bury_at = now + self.pace.bury_every;
        }
    }

    /// A reply that may have delivered entries was lost. What it was waiting for ends by itself within a read's wait.
    pub(super) fn reply_lost(&mut self, now: Duration) {
        for course in self.streams.values_mut() {
            course.recover = Some(EntryId::MIN);
            course.ghost = Some(now + self.pace.claim_every);
        }
    }
}
