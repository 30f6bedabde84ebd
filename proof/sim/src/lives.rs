//! The known facts of every dispatch.

use std::collections::{BTreeMap, BTreeSet};

use super::notes::Notes;
use super::saves::States;
use tenure_protocol::model::id::{DispatchId, JobKey, Token, WorkerId};
use tenure_protocol::model::policy::RestartPolicy;

/// One dispatch, from its creation.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) key: JobKey,
    /// The id of the first sending.
    pub(super) id: DispatchId,
    pub(super) policy: RestartPolicy,
    /// The policies of updates that were kept.
    pub(super) updated: Vec<RestartPolicy>,
    /// When its record was first seen, and when it was found gone.
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    /// When the former life under the same caller's own id was found gone.
    pub(super) earlier: Option<u64>,
    /// A user has asked for the end of such a former life.
    pub(super) earlier_to_stop: bool,
    pub(super) started: bool,
    pub(super) failed: bool,
    pub(super) parked: bool,
    /// The store has lost data since, and this dispatch was lost, or the loss is not yet repaired.
    pub(super) tainted: bool,
    /// It had ended or was lost, and a loss of data has brought back its record: a later job of its key ends it.
    pub(super) returned: bool,
    /// A user has asked for its end.
    pub(super) to_stop: bool,
    /// A user has asked for its end after it was over. A caller's own id may begin another life before the call arrives.
    pub(super) next_to_stop: bool,
    /// Its handler may end it by itself.
    pub(super) may_end: bool,
    pub(super) notes: Notes,
    pub(super) states: States,
    /// When a worker last ended it, that worker, if it knows, and the token of its run.
    pub(super) ended: Option<(u64, WorkerId, Token)>,
    /// Workers that have heard that it must stop.
    pub(super) told: BTreeSet<WorkerId>,
    /// Data were lost after a worker had ended it. That worker still lives, and its journal reaches back that far.
    pub(super) in_journal: Option<WorkerId>,
    /// A user has cancelled it, and was told that it can no longer be accepted.
    pub(super) cancelled: bool,
    /// The jobs that were sent under a caller's own id, and the accepted one.
    pub(super) hashes: BTreeSet<String>,
    pub(super) hash: Option<String>,
    /// Data were lost since: the pool may have forgotten the id's job.
    pub(super) any_hash: bool,
    /// When a caller's own id got its outcome.
    pub(super) settled: Option<u64>,
    /// The pool may have forgotten it, and its caller sends it again: until then it may begin another life.
    pub(super) again_until: u64,
}

impl Life {
    /// A run may have a policy of this kind. A late update leaves the present run its own.
    pub(super) fn may_have(&self, kind: impl Fn(RestartPolicy) -> bool) -> bool {
        self.updated.iter().chain([&self.policy]).any(|policy| kind(*policy))
    }

    pub(super) fn new(key: &JobKey, id: &DispatchId, policy: RestartPolicy) -> Self {
        Self {
            key: key.clone(),
            id: id.clone(),
            policy,
            updated: Vec::new(),
            from: None,
            to: None,
            earlier: None,
            earlier_to_stop: false,
            started: false,
            failed: false,
            parked: false,
            tainted: false,
            returned: false,
            to_stop: false,
            next_to_stop: false,
            may_end: false,
            notes: Notes::default(),
            states: States::default(),
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

    /// Its record may be gone: it has ended, or must end.
    pub(super) fn may_go(&self) -> bool {
        self.to_stop || self.may_end
    }
}

/// The dispatches. A caller's own id is one dispatch on all nodes.
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

    /// The ids of the first sendings.
    pub(super) fn ids(&self) -> Vec<DispatchId> {
        self.values().map(|life| life.id.clone()).collect()
    }
}
