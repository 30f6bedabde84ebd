//! What is known of every dispatch.

use std::collections::{BTreeMap, BTreeSet};

use super::notes::Notes;
use crate::id::{DispatchId, JobKey, WorkerId};
use crate::policy::RestartPolicy;

/// One dispatch, from the moment somebody made it.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) key: JobKey,
    /// As it was handed in first.
    pub(super) id: DispatchId,
    pub(super) policy: RestartPolicy,
    /// When its record was first seen, and when it was seen no more.
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    /// When the life before under the same id of a caller's own was seen no more.
    pub(super) earlier: Option<u64>,
    pub(super) started: bool,
    pub(super) failed: bool,
    pub(super) parked: bool,
    /// The store has lost data since, and either that is not repaired yet, or this is what was lost.
    pub(super) tainted: bool,
    /// It had ended or was lost, and a loss of data has brought back its record: a later job of its key ends it.
    pub(super) returned: bool,
    /// Somebody has asked for its end.
    pub(super) to_stop: bool,
    /// Its end is its handler's own doing.
    pub(super) may_end: bool,
    pub(super) notes: Notes,
    /// When its worker ended it last, and which that was, if that worker knows.
    pub(super) ended: Option<(u64, WorkerId)>,
    /// Workers that have heard that it is to stop.
    pub(super) told: BTreeSet<WorkerId>,
    /// Data were lost when it had been ended within the journal's reach by a worker that still lives.
    pub(super) in_journal: Option<WorkerId>,
    /// Somebody has cancelled it who was told that it will not be accepted any more.
    pub(super) cancelled: bool,
    /// What was handed in under a caller's own id, and which of it was accepted.
    pub(super) hashes: BTreeSet<String>,
    pub(super) hash: Option<String>,
    /// Data were lost since: what the id stands for may be forgotten.
    pub(super) any_hash: bool,
    /// When a caller's own id came to an outcome.
    pub(super) settled: Option<u64>,
    /// The pool may have forgotten it, and it is handed in again: until then it may begin another life.
    pub(super) again_until: u64,
}

impl Life {
    pub(super) fn new(key: &JobKey, id: &DispatchId, policy: RestartPolicy) -> Self {
        Self {
            key: key.clone(),
            id: id.clone(),
            policy,
            from: None,
            to: None,
            earlier: None,
            started: false,
            failed: false,
            parked: false,
            tainted: false,
            returned: false,
            to_stop: false,
            may_end: false,
            notes: Notes::default(),
            ended: None,
            told: BTreeSet::new(),
            in_journal: None,
            cancelled: false,
            hashes: BTreeSet::new(),
            hash: None,
            any_hash: false,
            settled: None,
            again_until: 0,
        }
    }

    /// Its record may be gone: it has come to its end, or is to.
    pub(super) fn may_go(&self) -> bool {
        self.to_stop || self.may_end
    }
}

/// The dispatches. One with a caller's own id is one, from whatever node it comes.
#[derive(Debug, Default)]
pub(super) struct Lives(BTreeMap<DispatchId, Life>);

impl Lives {
    fn name(id: &DispatchId) -> DispatchId {
        let own = || format!("own.!{}", id.caller_id()?).parse().ok();
        own().unwrap_or_else(|| id.clone())
    }

    pub(super) fn insert(&mut self, id: &DispatchId, life: Life) {
        self.0.insert(Self::name(id), life);
    }

    pub(super) fn get(&self, id: &DispatchId) -> Option<&Life> {
        self.0.get(&Self::name(id))
    }

    pub(super) fn get_mut(&mut self, id: &DispatchId) -> Option<&mut Life> {
        self.0.get_mut(&Self::name(id))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Life> {
        self.0.values()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Life> {
        self.0.values_mut()
    }

    /// The ids as they were handed in first.
    pub(super) fn ids(&self) -> Vec<DispatchId> {
        self.values().map(|life| life.id.clone()).collect()
    }
}
