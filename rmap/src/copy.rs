//! One map's copy, shared by the task that follows the original and by the readers.
//!
//! The lock is held only to look one thing up, to take a snapshot or to apply one change, and never across an await.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::Snapshot;
use crate::clock::ServerClock;
use crate::mutation::{Mutation, Mutations};
use crate::replica::{Applied, Change, Replica};
use crate::snapshot::{Content, Place};

#[derive(Debug)]
pub(crate) struct Copy {
    /// Local moments count from here.
    epoch: Instant,
    pub(crate) broken: Mutations,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    replica: Replica,
    clock: ServerClock,
    /// The last local moment, in µs, at which the copy is known to have equalled the map.
    confirmed: u64,
}

impl Copy {
    pub(crate) fn new(broken: Mutations) -> Self {
        Self { epoch: Instant::now(), broken, state: RwLock::default() }
    }

    pub(crate) fn place(&self) -> Option<Place> {
        self.read().replica.content().place
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Bytes> {
        let state = self.read();
        state.replica.content().get(key, self.now(&state)).cloned()
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let state = self.read();
        state.replica.content().get(key, self.now(&state)).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        let state = self.read();
        state.replica.content().len(self.now(&state))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.read();
        Snapshot::taken(state.replica.content().clone(), self.now(&state))
    }

    pub(crate) fn apply(&self, change: Change) -> Applied {
        let arrived = self.local();
        let (stamp, after) = (change.place.stamp, change.after);
        let mut state = self.write();
        let applied = if self.broken.has(Mutation::GapsApplied) || self.broken.has(Mutation::RevisionsOnly) {
            state.replica.apply_if_newer(change)
        } else {
            state.replica.apply(change)
        };
        if applied == Applied::Done && stamp < after {
            state.clock.was_set_back(stamp, arrived);
        } else if applied == Applied::Done {
            state.clock.heard(stamp, arrived);
        }
        applied
    }

    /// Takes the result of a read that was sent at the local moment `sent`: the content, unless it is unchanged, and
    /// the end of the map. Returns whether anything is new.
    pub(crate) fn install(
        &self,
        content: Option<Arc<Content>>,
        end: Option<u64>,
        time: u64,
        sent: u64,
    ) -> bool {
        let received = self.local();
        // Dropped after the lock: it may be big.
        let _before;
        let mut state = self.write();
        state.clock.answered(time, sent, received);
        state.confirmed = sent;
        match content {
            Some(content)
                if self.broken.has(Mutation::RevisionsOnly) && !state.replica.is_older(&content) =>
            {
                false
            }
            Some(content) => {
                let (differs, before) = state.replica.replace(content);
                _before = before;
                differs
            }
            None => state.replica.set_end(end),
        }
    }

    /// How outdated the copy may be: the time since it is known to have equalled the map.
    pub(crate) fn staleness(&self) -> Duration {
        let confirmed = self.read().confirmed;
        Duration::from_micros(self.local().saturating_sub(confirmed))
    }

    /// Takes the server's time from the reply to a call that was sent at the local moment `sent`.
    pub(crate) fn set_clock(&self, time: u64, sent: u64) {
        let received = self.local();
        self.write().clock.answered(time, sent, received);
    }

    /// When the next entry ends, and when the map ends, as far as the server's clock is known.
    pub(crate) fn ends(&self) -> (Option<Instant>, Option<Instant>) {
        let state = self.read();
        let content = state.replica.content();
        let local = |millis: Option<u64>| Some(self.at(state.clock.local(millis?)?));
        (local(content.first_deadline()), local(content.end.map(gone_after)))
    }

    /// The end that comes next after the server's time `told`, of an entry or of the map: in server ms, and as a local
    /// moment.
    pub(crate) fn next_end(&self, told: u64) -> Option<(u64, Instant)> {
        let state = self.read();
        let content = state.replica.content();
        let map = content.end.map(gone_after).filter(|end| *end > told);
        let next = content.first_deadline_after(told).into_iter().chain(map).min()?;
        Some((next, self.at(state.clock.local(next)?)))
    }

    /// The server's time in ms, as readers use it.
    pub(crate) fn time(&self) -> u64 {
        self.now(&self.read())
    }

    /// The present local moment in µs.
    pub(crate) fn local(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn now(&self, state: &State) -> u64 {
        state.clock.millis(self.local())
    }

    fn at(&self, local: u64) -> Instant {
        /// Longer than any process lives, and short enough for every clock.
        const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);
        self.epoch + Duration::from_micros(local).min(FAR)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A map exists until the end of the millisecond in which it ends.
fn gone_after(end: u64) -> u64 {
    end.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Entry;

    #[test]
    fn a_change_older_than_the_one_before_it_sets_the_clock_back() {
        let copy = Copy::new(Mutations::default());
        let place = |revision, stamp| Place::new(1, revision, stamp);
        let content =
            Content::new(place(1, 9_000_000), None, None, [("k".into(), Entry::new("v", Some(8_000)))]);
        let sent = copy.local();
        assert!(copy.install(Some(Arc::new(content)), None, 9_000_000, sent));
        assert_eq!(copy.get(b"k"), None, "it has ended");
        let change = Change::new(place(2, 2_000_000), 9_000_000, false, vec![]);
        assert_eq!(copy.apply(change), Applied::Done);
        assert_eq!(copy.get(b"k"), Some("v".into()), "by this clock it has not");
    }
}
