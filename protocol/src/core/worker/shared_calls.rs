//! Calls that a node's workers share: begins and notes of starts. One call of each kind is in flight for all of them,
//! so that a node with many workers sends no more calls than one with few. The next call takes whatever did not fit.
//! A job that was set aside goes alone, without those of other workers.

use std::collections::BTreeMap;

use super::{Gate, Worker};
use crate::core::batcher::Width;
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::input::LocalWorker;
use crate::core::time::Time;
use crate::step::{Begin, Started, WorkerBegins, WorkerStarts};

/// The shared calls.
#[derive(Debug, Default)]
pub(in crate::core) struct SharedCalls {
    pub(in crate::core) in_flight: InFlight,
    pub(in crate::core) begins: Width,
    pub(in crate::core) starts: Width,
    first_to_begin: LocalWorker,
    first_to_note: LocalWorker,
}

/// The shared calls that are in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::core) struct InFlight {
    pub(in crate::core) begins: bool,
    pub(in crate::core) starts: bool,
}

impl SharedCalls {
    /// Sends the items that have come since the last call of their kind, unless that is in flight.
    pub(in crate::core) fn flush(
        &mut self,
        ctx: &mut Ctx,
        workers: &mut BTreeMap<LocalWorker, Worker>,
        gate: Gate,
    ) {
        let now = ctx.now;
        if !self.in_flight.begins {
            let alone = workers.values_mut().find_map(|worker| worker.begin_alone(now, gate));
            let begins = alone.map_or_else(
                || {
                    gather(workers, &mut self.first_to_begin, self.begins, |worker, room| {
                        let begins = worker.begins(now, gate, room)?;
                        Some((begins.jobs.len().max(begins.finished.len()), begins))
                    })
                },
                |begin| vec![begin],
            );
            if !begins.is_empty() {
                self.in_flight.begins = true;
                ctx.call(Call::Begin(Begin { begins }));
            }
        }
        if !self.in_flight.starts {
            // A call that goes anyway takes the notes along for which nobody waits.
            if workers.values().any(|worker| worker.jobs.has_due_start(now)) {
                for worker in workers.values_mut() {
                    worker.jobs.hurry_starts();
                }
            }
            let alone = workers.values_mut().find_map(|worker| worker.start_alone(now, gate));
            let starts = alone.map_or_else(
                || {
                    gather(workers, &mut self.first_to_note, self.starts, |worker, room| {
                        let starts = worker.starts(now, gate, room)?;
                        Some((starts.items.len().max(starts.finished.len()), starts))
                    })
                },
                |start| vec![start],
            );
            if !starts.is_empty() {
                self.in_flight.starts = true;
                ctx.call(Call::Started(Started { starts }));
            }
        }
    }
}

/// Collects items from all workers up to one call's limit. The starting worker rotates, because whatever does not fit
/// is cut from the end.
fn gather<T>(
    workers: &mut BTreeMap<LocalWorker, Worker>,
    first: &mut LocalWorker,
    width: Width,
    mut say: impl FnMut(&mut Worker, usize) -> Option<(usize, T)>,
) -> Vec<T> {
    let (mut said, mut room, mut begins_with) = (Vec::new(), width.most(), None);
    let mut ask = |local: LocalWorker, worker: &mut Worker| {
        if room > 0
            && let Some((size, words)) = say(worker, room)
        {
            begins_with.get_or_insert(local);
            room = room.saturating_sub(size);
            said.push(words);
        }
    };
    let from = *first;
    workers.range_mut(from..).for_each(|(local, worker)| ask(*local, worker));
    if from != LocalWorker::default() {
        workers.range_mut(..from).for_each(|(local, worker)| ask(*local, worker));
    }
    let several = room == 0 || said.len() > 1;
    if !said.is_empty() {
        let next = begins_with.filter(|_| several).map(|LocalWorker(number)| LocalWorker(number + 1));
        *first = next.unwrap_or_default();
    }
    said
}

impl Worker {
    fn may_begin(&self, gate: Gate) -> bool {
        self.member_id().is_some() && self.is_served(gate)
    }

    fn begins(&mut self, now: Time, gate: Gate, most: usize) -> Option<WorkerBegins> {
        self.may_begin(gate).then(|| self.jobs.next_begins(now, most)).flatten()
    }

    fn begin_alone(&mut self, now: Time, gate: Gate) -> Option<WorkerBegins> {
        self.may_begin(gate).then(|| self.jobs.next_begin_alone(now)).flatten()
    }

    fn may_note(&self, gate: Gate) -> bool {
        self.member_id().is_some() && gate.is_known()
    }

    fn starts(&mut self, now: Time, gate: Gate, most: usize) -> Option<WorkerStarts> {
        self.may_note(gate).then(|| self.jobs.next_starts(now, most)).flatten()
    }

    fn start_alone(&mut self, now: Time, gate: Gate) -> Option<WorkerStarts> {
        self.may_note(gate).then(|| self.jobs.next_start_alone(now)).flatten()
    }
}
