//! The entries that this consumer has received and not acknowledged. Pure.
//!
//! After a reply was lost, the entries that are pending with the consumer and not held here are those of that reply. An
//! entry that is forgotten here too early comes again too early. One that is remembered for too long comes again when
//! any consumer may claim it. Neither is lost.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::EntryId;

/// The most entries of a stream that are remembered: older ones are forgotten first.
const REMEMBERED: usize = 65_536;

/// The entries held of each stream, and since when.
#[derive(Debug, Default)]
pub(super) struct Held {
    streams: BTreeMap<Arc<str>, Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    since: HashMap<EntryId, Duration>,
    /// The entries in order of arrival. Acknowledged ones stay here for a while.
    order: VecDeque<(EntryId, Duration)>,
}

impl Held {
    /// Adds entries that were delivered now.
    pub(super) fn add(&mut self, stream: &Arc<str>, ids: impl IntoIterator<Item = EntryId>, now: Duration) {
        if !self.streams.contains_key(stream) {
            self.streams.insert(stream.clone(), Entries::default());
        }
        let Some(entries) = self.streams.get_mut(stream) else { return };
        for id in ids {
            entries.since.insert(id, now);
            entries.order.push_back((id, now));
            while entries.since.len() > REMEMBERED {
                entries.forget_oldest();
            }
            if entries.order.len() > 2 * REMEMBERED {
                let Entries { since, order } = entries;
                order.retain(|(id, at)| since.get(id) == Some(at));
            }
        }
    }

    /// Removes entries that are no longer pending with this consumer.
    pub(super) fn remove(&mut self, stream: &str, ids: impl IntoIterator<Item = EntryId>) {
        if let Some(entries) = self.streams.get_mut(stream) {
            for id in ids {
                entries.since.remove(&id);
            }
        }
    }

    /// Whether the user has the entry, or the sink holds it for the user.
    pub(super) fn contains(&self, stream: &str, id: EntryId) -> bool {
        self.streams.get(stream).is_some_and(|entries| entries.since.contains_key(&id))
    }

    /// Forgets entries that were delivered before `time`: by now any consumer may claim them.
    pub(super) fn forget_before(&mut self, time: Duration) {
        for entries in self.streams.values_mut() {
            while entries.order.front().is_some_and(|(id, since)| {
                // An entry that was acknowledged, or delivered again since, is not the oldest any more.
                *since < time || entries.since.get(id) != Some(since)
            }) {
                entries.forget_oldest();
            }
        }
        self.streams.retain(|_, entries| !entries.order.is_empty());
    }
}

impl Entries {
    fn forget_oldest(&mut self) {
        if let Some((id, since)) = self.order.pop_front()
            && self.since.get(&id) == Some(&since)
        {
            self.since.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn id(ms: u64) -> EntryId {
        EntryId::new(ms, 0)
    }

    #[test]
    fn a_held_entry_is_known_until_it_is_acknowledged_or_old() {
        let (mut held, stream) = (Held::default(), "s".into());
        held.add(&stream, [id(1), id(2), id(3)], at(10));
        held.remove("s", [id(2), id(9)]);
        held.remove("other", [id(1)]);
        assert_eq!([1, 2, 3].map(|ms| held.contains("s", id(ms))), [true, false, true]);
        held.add(&stream, [id(1)], at(20));
        held.forget_before(at(15));
        assert!(held.contains("s", id(1)), "delivered again since");
        assert!(!held.contains("s", id(3)) && !held.contains("other", id(1)));
        held.forget_before(at(21));
        assert!(held.streams.is_empty());
    }

    #[test]
    fn memory_is_bounded() {
        let (mut held, stream) = (Held::default(), "s".into());
        let most = REMEMBERED as u64;
        held.add(&stream, (0..most + 5).map(id), at(1));
        assert!(!held.contains("s", id(4)) && held.contains("s", id(5)) && held.contains("s", id(most)));
        held.add(&stream, [id(5)], at(2));
        held.add(&stream, (most + 10..2 * most).map(id), at(3));
        assert!(held.contains("s", id(5)), "not forgotten with its first delivery");
        let entries = &held.streams[&stream];
        assert!(entries.order.len() <= 2 * REMEMBERED && entries.since.len() <= REMEMBERED);
    }

    #[test]
    fn an_acknowledged_entry_takes_no_room() {
        let (mut held, stream) = (Held::default(), "s".into());
        held.add(&stream, [id(0)], at(1));
        for ms in 1..3 * REMEMBERED as u64 {
            held.add(&stream, [id(ms)], at(1));
            held.remove("s", [id(ms)]);
        }
        assert!(held.contains("s", id(0)), "the only one that is held");
        assert!(held.streams[&stream].order.len() <= 2 * REMEMBERED);
    }
}
