//! The streams: start events of the pool with their consumer group, events of each worker, outcomes for each node.

use std::collections::{BTreeMap, btree_map};
use std::time::Duration;

use tenure_steps::EntryId;

use super::log::Log;
use super::state::State;
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, WorkerId};
use crate::step::{
    AskId, BATCH_MAX, Cursors, NODE_STREAM_MAX, NodeEvents, Outcome, PoolEvent, Refusal, Said, WorkerEvent,
};

/// The shortest time for which a node's stream outlives its last renewal, ms.
const NODE_STREAM_KEPT: u64 = 60_000;

/// The jobs of one start event, with the strikes against their placement.
pub(super) type Starts = Vec<(JobKey, u32)>;

/// The pool's stream.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolStream {
    pub(super) log: Log<Starts>,
    /// `None` if the group is gone, or never existed.
    pub(super) group: Option<Group>,
}

/// The routers' consumer group.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    delivered: EntryId,
    pub(super) pending: BTreeMap<EntryId, Pending>,
    /// When each consumer was last heard of.
    consumers: BTreeMap<NodeName, u64>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) consumer: NodeName,
    delivered_at: u64,
}

/// A node's stream.
#[derive(Clone, Debug)]
pub(super) struct NodeStream {
    pub(super) log: Log<NodeEntry>,
    pub(super) until: u64,
}

/// An entry of a node's stream.
#[derive(Clone, Debug)]
pub(super) enum NodeEntry {
    /// The one that opens the stream has none.
    Outcomes(Vec<(DispatchId, Outcome)>),
    Replies(Vec<(AskId, Said)>),
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl State {
    /// Appends start events to the pool's stream.
    pub(super) fn emit(&mut self, now: u64, starts: &[(JobKey, u32)]) {
        for jobs in starts.chunks(BATCH_MAX) {
            self.pool_stream.log.append(now, jobs.to_vec());
            self.appended += 1;
        }
    }

    /// Appends an event to a worker's stream.
    pub(super) fn send(&mut self, now: u64, worker: WorkerId, event: WorkerEvent) {
        self.worker_streams.entry(worker).or_default().append(now, event);
        self.appended += 1;
    }

    /// Appends an event to the stream of a job's owner, if the owner is a member. Nobody would read or delete another
    /// stream.
    pub(super) fn send_to_owner(&mut self, now: u64, owner: WorkerId, event: WorkerEvent) {
        if self.worker_streams.contains_key(&owner) || self.members.contains_key(&owner) {
            self.send(now, owner, event);
        }
    }

    /// Deletes entries that a worker has finished.
    pub(super) fn finish(&mut self, worker: WorkerId, entries: &[EntryId]) {
        if let Some(log) = self.worker_streams.get_mut(&worker) {
            log.delete(entries);
        }
    }

    /// Appends outcomes to the existing streams of nodes, one entry for each node.
    pub(super) fn tell_nodes(
        &mut self,
        now: u64,
        outcomes: impl IntoIterator<Item = (NodeName, DispatchId, Outcome)>,
    ) {
        let mut entries: BTreeMap<NodeName, Vec<(DispatchId, Outcome)>> = BTreeMap::new();
        for (node, id, outcome) in outcomes {
            entries.entry(node).or_default().push((id, outcome));
        }
        for (node, entry) in entries {
            if let Some(stream) = self.node_streams.get_mut(&node) {
                stream.log.append(now, NodeEntry::Outcomes(entry));
                stream.log.trim(NODE_STREAM_MAX);
                self.appended += 1;
            }
        }
    }

    /// Creates a node's stream, if it is missing, and keeps it for a while. Returns whether it was missing.
    pub(super) fn keep_node_stream(&mut self, now: u64, node: &NodeName) -> bool {
        let until = now + NODE_STREAM_KEPT.max(2 * self.limit("worker_ttl"));
        match self.node_streams.entry(node.clone()) {
            btree_map::Entry::Occupied(stream) => {
                stream.into_mut().until = until;
                false
            }
            btree_map::Entry::Vacant(place) => {
                let mut log = Log::default();
                log.append(now, NodeEntry::Outcomes(Vec::new()));
                place.insert(NodeStream { log, until });
                true
            }
        }
    }

    /// Drops expired node streams and tombstones.
    pub(super) fn expire_keys(&mut self, now: u64) {
        self.node_streams.retain(|_, stream| stream.until > now);
        self.tombstone.take_if(|tombstone| tombstone.until <= now);
    }

    /// New start events for a consumer. `None` if the group is gone.
    pub(super) fn pool_events(
        &mut self,
        now: u64,
        consumer: &NodeName,
        max: usize,
    ) -> Option<Vec<PoolEvent>> {
        let PoolStream { log, group } = &mut self.pool_stream;
        let group = group.as_mut()?;
        group.consumers.insert(consumer.clone(), now);
        let new = log.after(group.delivered).take(max);
        let events: Vec<_> = new.map(|(entry, jobs)| PoolEvent { entry, jobs: jobs.clone() }).collect();
        for event in &events {
            group.delivered = event.entry;
            group.pending.insert(event.entry, Pending { consumer: consumer.clone(), delivered_at: now });
        }
        Some(events)
    }

    /// Start events that other consumers have kept for `min_idle`. `None` if the group is gone.
    pub(super) fn claim_events(
        &mut self,
        now: u64,
        consumer: &NodeName,
        min_idle: Duration,
        max: usize,
    ) -> Option<Vec<PoolEvent>> {
        let PoolStream { log, group } = &mut self.pool_stream;
        let group = group.as_mut()?;
        group.consumers.insert(consumer.clone(), now);
        group.pending.retain(|entry, _| log.get(*entry).is_some());
        let idle = ms(min_idle);
        let left = group.pending.iter_mut().filter(|(_, p)| now.saturating_sub(p.delivered_at) >= idle);
        let mut events = Vec::new();
        for (&entry, pending) in left.take(max) {
            *pending = Pending { consumer: consumer.clone(), delivered_at: now };
            let jobs = log.get(entry).cloned().unwrap_or_default();
            events.push(PoolEvent { entry, jobs });
        }
        Some(events)
    }

    /// Acknowledges and deletes start events.
    pub(super) fn acknowledge(&mut self, entries: &[EntryId]) {
        if let Some(group) = &mut self.pool_stream.group {
            for entry in entries {
                group.pending.remove(entry);
            }
        }
        self.pool_stream.log.delete(entries);
    }

    /// Creates the consumer group again, from the beginning, if it is missing.
    pub(super) fn restore_group(&mut self, inc: Incarnation) -> Result<(), Refusal> {
        self.guard(inc)?;
        self.pool_stream.group.get_or_insert_default();
        Ok(())
    }

    /// Forgets consumers that hold nothing and were silent for `idle`.
    pub(super) fn prune_consumers(
        &mut self,
        now: u64,
        inc: Incarnation,
        idle: Duration,
    ) -> Result<(), Refusal> {
        self.guard(inc)?;
        if let Some(Group { pending, consumers, .. }) = &mut self.pool_stream.group {
            consumers.retain(|name, heard| {
                now.saturating_sub(*heard) < ms(idle) || pending.values().any(|p| p.consumer == *name)
            });
        }
        Ok(())
    }

    /// New entries of a node's streams, at most `max` of each.
    pub(super) fn node_events(&self, node: &NodeName, cursors: &Cursors, max: usize) -> NodeEvents {
        let mut events = NodeEvents::default();
        for (&worker, &cursor) in &cursors.workers {
            let new =
                self.worker_streams.get(&worker).into_iter().flat_map(|log| log.after(cursor)).take(max);
            events.workers.extend(new.map(|(entry, event)| (worker, entry, event.clone())));
        }
        if let Some(stream) = self.node_streams.get(node) {
            let new = stream.log.after(cursors.node).take(max);
            for (entry, said) in new {
                let outcomes = match said {
                    NodeEntry::Outcomes(outcomes) => outcomes.clone(),
                    NodeEntry::Replies(replies) => {
                        events.replies.extend_from_slice(replies);
                        Vec::new()
                    }
                };
                events.outcomes.push((entry, outcomes));
            }
        }
        events
    }
}
