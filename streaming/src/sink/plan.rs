//! Chooses a consumer's next step. Pure: time is an argument, counted from any moment.
//!
//! Invariants, for each stream:
//! - Before anything new is read, the entries of a lost reply are looked for. That is repeated until the lost read can
//!   no longer be under way in Redis.
//! - Entries that nobody has acknowledged within the grace are claimed at intervals, however much there is to read. New
//!   entries are read at intervals, however much there is to claim.
//! - A missing group is created before any other call for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::EntryId;

/// The most pages of young pending entries that are looked at in a row.
const YOUNG_PAGES: u32 = 8;

/// After this many looks at others' entries, new entries are read.
const LOOKS_IN_A_ROW: u32 = 16;
/// Up to this many streams are looked at as often as a single one; more streams, proportionally more rarely.
const STREAMS_PER_LOOK: usize = 64;

/// The intervals of a consumer's work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The interval between looks for unacknowledged entries, and the longest wait of a read.
    pub(super) claim_every: Duration,
    /// The interval between looks for dead consumers.
    pub(super) bury_every: Duration,
    /// Whether entries are pending until they are acknowledged.
    pub(super) acks: bool,
    /// Whether the consumer may have existed before.
    pub(super) returning: bool,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the group anew, or get into the one that others have made.
    Create { stream: Arc<str> },
    /// Take the entries that are pending with this consumer behind `after` and not held.
    Recover { stream: Arc<str>, after: EntryId },
    /// Claim entries from `from` that have been pending for longer than the grace.
    Claim { stream: Arc<str>, from: EntryId },
    /// Delete dead consumers.
    Bury { stream: Arc<str> },
    /// Read new entries of all streams, and wait no longer than this.
    Read { wait: Duration },
}

/// The state of one slot's streams.
#[derive(Debug)]
pub(super) struct Plan {
    pace: Pace,
    streams: BTreeMap<Arc<str>, Course>,
    /// The number of looks since the last read.
    looks: u32,
}

#[derive(Debug)]
struct Course {
    group_lost: bool,
    recover: Option<EntryId>,
    /// Until when a read with a lost reply may still deliver, if nobody has looked since.
    ghost: Option<Duration>,
    claim_from: EntryId,
    claim_at: Duration,
    /// The number of pages in a row without an entry that has been pending for long.
    young_pages: u32,
    bury_at: Duration,
}

impl Plan {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, streams: BTreeMap::new(), looks: 0 }
    }

    /// Sets the streams to read.
    pub(super) fn arrange(&mut self, streams: &BTreeSet<Arc<str>>, now: Duration) {
        self.streams.retain(|stream, _| streams.contains(stream));
        for stream in streams {
            if !self.streams.contains_key(stream) {
                let course = Course {
                    group_lost: false,
                    recover: self.pace.returning.then_some(EntryId::MIN),
                    // The consumer's former self may still be reading.
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

    /// A stream by its name.
    pub(super) fn find(&self, name: &[u8]) -> Option<Arc<str>> {
        let (stream, _) = self.streams.get_key_value(std::str::from_utf8(name).ok()?)?;
        Some(stream.clone())
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
            if self.looks >= LOOKS_IN_A_ROW {
                return Step::Read { wait: Duration::ZERO };
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

    /// The group exists again.
    pub(super) fn created(&mut self, stream: &str) {
        if let Some(course) = self.streams.get_mut(stream) {
            course.group_lost = false;
            course.recover = None;
            course.claim_from = EntryId::MIN;
        }
    }

    /// The group of this stream is missing, or that of any stream when it is unknown which.
    pub(super) fn group_lost(&mut self, stream: Option<&str>) {
        for (name, course) in &mut self.streams {
            course.group_lost |= stream.is_none_or(|stream| **name == *stream);
        }
    }

    /// A page of entries pending with this consumer was taken; `last` is its end when there may be more.
    pub(super) fn recovered(&mut self, stream: &str, last: Option<EntryId>) {
        if let Some(course) = self.streams.get_mut(stream) {
            course.recover = last;
        }
    }

    /// New entries were read.
    pub(super) fn has_read(&mut self) {
        self.looks = 0;
    }

    /// A claim ended, with entries or without; `next` is the id to continue at.
    pub(super) fn claimed(&mut self, stream: &str, next: EntryId, any: bool, now: Duration) {
        let rarer = u32::try_from(self.streams.len() / STREAMS_PER_LOOK).unwrap_or(u32::MAX);
        let pause = self.pace.claim_every * rarer.saturating_add(1);
        self.looks += 1;
        let Some(course) = self.streams.get_mut(stream) else { return };
        course.claim_from = next;
        course.young_pages = if any { 0 } else { course.young_pages + 1 };
        if next != EntryId::MIN && course.young_pages < YOUNG_PAGES {
            return;
        }
        course.young_pages = 0;
        course.claim_at = now + pause;
        if let Some(until) = course.ghost {
            course.recover = Some(EntryId::MIN);
            course.ghost = (now <= until).then_some(until);
        }
    }

    /// Dead consumers were deleted, or there were none.
    pub(super) fn buried(&mut self, stream: &str, now: Duration) {
        if let Some(course) = self.streams.get_mut(stream) {
            course.bury_at = now + self.pace.bury_every;
        }
    }

    /// The reply to a read that may have delivered entries was lost. The read ends in Redis by itself within its wait.
    pub(super) fn reply_lost(&mut self, now: Duration) {
        for course in self.streams.values_mut() {
            course.recover = Some(EntryId::MIN);
            course.ghost = Some(now + self.pace.claim_every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(1);

    fn plan(streams: &BTreeSet<Arc<str>>) -> Plan {
        let mut plan =
            Plan::new(Pace { claim_every: EVERY, bury_every: EVERY * 9, acks: true, returning: false });
        plan.arrange(streams, Duration::ZERO);
        plan
    }

    #[test]
    fn new_entries_are_read_however_many_there_are_to_claim() {
        let streams = BTreeSet::from(["a".into()]);
        let mut plan = plan(&streams);
        for _ in 0..3 {
            for look in 0..LOOKS_IN_A_ROW {
                let from = plan.streams["a"].claim_from;
                assert_eq!(plan.next(EVERY), Step::Claim { stream: "a".into(), from }, "{look}");
                plan.claimed("a", EntryId::new(u64::from(look) + 1, 0), true, EVERY);
            }
            assert_eq!(plan.next(EVERY), Step::Read { wait: Duration::ZERO });
            plan.has_read();
        }
    }

    #[test]
    fn a_read_waits_until_there_is_something_else_to_do() {
        let streams = BTreeSet::from(["a".into(), "b".into()]);
        let mut plan = plan(&streams);
        for stream in &streams {
            assert_eq!(plan.next(EVERY), Step::Claim { stream: stream.clone(), from: EntryId::MIN });
            plan.claimed(stream, EntryId::MIN, false, EVERY);
        }
        assert_eq!(plan.next(EVERY), Step::Read { wait: EVERY });
        assert_eq!(plan.next(EVERY * 3 / 2), Step::Read { wait: EVERY / 2 });
        plan.group_lost(Some("b"));
        assert_eq!(plan.next(EVERY * 3 / 2), Step::Create { stream: "b".into() });
        plan.created("b");
        plan.reply_lost(EVERY * 3 / 2);
        plan.arrange(&BTreeSet::from(["b".into()]), EVERY * 3 / 2);
        assert_eq!(plan.next(EVERY * 3 / 2), Step::Recover { stream: "b".into(), after: EntryId::MIN });
        plan.recovered("b", None);
        assert_eq!(plan.next(EVERY * 9), Step::Claim { stream: "b".into(), from: EntryId::MIN });
        plan.claimed("b", EntryId::MIN, false, EVERY * 9);
        assert_eq!(
            plan.next(EVERY * 9),
            Step::Recover { stream: "b".into(), after: EntryId::MIN },
            "once more"
        );
        plan.recovered("b", None);
        assert_eq!(plan.next(EVERY * 9), Step::Bury { stream: "b".into() });
        plan.buried("b", EVERY * 9);
        assert_eq!(plan.next(EVERY * 9), Step::Read { wait: EVERY });
    }

    #[test]
    fn many_streams_are_looked_at_more_rarely() {
        let streams: BTreeSet<Arc<str>> = (0..STREAMS_PER_LOOK * 3).map(|n| n.to_string().into()).collect();
        let mut plan = plan(&streams);
        for stream in &streams {
            plan.claimed(stream, EntryId::MIN, false, EVERY);
            plan.has_read();
        }
        assert_eq!(plan.next(EVERY), Step::Read { wait: EVERY }, "a read never waits for longer");
        assert_eq!(plan.streams["0"].claim_at, EVERY * 5);
    }

    #[test]
    fn many_young_pages_end_a_look() {
        let streams = BTreeSet::from(["a".into()]);
        let mut plan = plan(&streams);
        for page in 1..=u64::from(YOUNG_PAGES) {
            assert!(matches!(plan.next(EVERY), Step::Claim { .. }), "{page}");
            plan.claimed("a", EntryId::new(page, 0), false, EVERY);
        }
        assert!(matches!(plan.next(EVERY), Step::Read { .. }));
        let from = EntryId::new(u64::from(YOUNG_PAGES), 0);
        assert_eq!(plan.next(EVERY * 2), Step::Claim { stream: "a".into(), from }, "goes on where it was");
    }
}
