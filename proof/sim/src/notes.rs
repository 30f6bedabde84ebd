//! Notifications arrive in order, and none is lost while its job lives (S11). A loss of data removes waiting ones,
//! and brings delivered ones back.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::asks::Place;
use super::judge::Judge;
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::model::id::{DispatchId, JobKey};
use tenure_protocol::step::{NotifyOrStart, NotifyOrStartReply};

/// The notifications of one dispatch.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The kept notifications in order, and the number of delivered ones.
    kept: Vec<Bytes>,
    delivered: usize,
    /// Notifications that were kept before a loss of data: a handler may have them in hand.
    earlier: BTreeSet<Bytes>,
    /// How often they were lost.
    losses: u32,
}

impl Notes {
    /// Data were lost: these wait now, in this order.
    pub(super) fn lost(&mut self, waiting: Vec<Bytes>) {
        self.earlier.extend(std::mem::replace(&mut self.kept, waiting));
        self.delivered = 0;
        self.losses += 1;
    }

    /// The place after all that were kept.
    pub(super) fn place(&self) -> Place {
        (self.losses, self.kept.len())
    }

    /// Whether all before this place were delivered, or lost.
    pub(super) fn reached(&self, (losses, kept): Place) -> bool {
        losses != self.losses || kept <= self.delivered
    }
}

impl Judge {
    pub(super) fn kept(&mut self, key: &JobKey, body: &Bytes) {
        self.kept.insert(body.clone());
        let Some(id) = self.records.get(key).and_then(Option::as_ref).map(|record| record.id.clone()) else {
            return;
        };
        if let Some(life) = self.lives.get_mut(&id) {
            life.notes.kept.push(body.clone());
        }
    }

    /// Notifications that may start their jobs: those that this call has kept. The records that it made are looked at later.
    pub(super) fn saw_starts(&mut self, call: &Call, done: &Done) {
        let (Call::NotifyOrStart(NotifyOrStart { items, .. }), Done::NotifyOrStart(_, Ok(replies))) =
            (call, done)
        else {
            return;
        };
        for (item, reply) in items.iter().zip(replies) {
            let there = self.records.get(&item.start.key).and_then(Option::as_ref);
            let again = there.is_some_and(|record| record.id == item.start.id);
            let was_started = *reply == NotifyOrStartReply::Accepted && !again;
            if was_started || *reply == NotifyOrStartReply::Kept {
                self.to_keep.push((item.start.key.clone(), item.body.clone()));
            }
            // A user who cancels it gives it its end, though it never was.
            let cancelled = *reply == NotifyOrStartReply::Ended
                && self.lives.get(&item.start.id).is_some_and(|life| life.to_stop);
            if matches!(reply, NotifyOrStartReply::Accepted | NotifyOrStartReply::Ended)
                && !was_started
                && !cancelled
                && !self.was_kept(&item.body)
            {
                let (key, body) = (&item.start.key, &item.body);
                self.violations
                    .push(format!("S11: {body:?} of {key} is {reply:?} again, and was never kept"));
            }
        }
    }

    /// The records are as the last step has left them.
    pub(super) fn keep_all(&mut self) {
        for (key, body) in std::mem::take(&mut self.to_keep) {
            self.kept(&key, &body);
        }
    }

    /// The store has kept it at some time, for any dispatch of its key.
    pub(super) fn was_kept(&self, body: &Bytes) -> bool {
        self.kept.contains(body)
    }

    /// A handler is called with a notification: the next one, or a delivered one.
    pub(super) fn taking(&mut self, id: &DispatchId, body: &Bytes) {
        let Some(Notes { kept, delivered, earlier, .. }) = self.lives.get(id).map(|life| &life.notes) else {
            return;
        };
        if !earlier.contains(body) && !kept.iter().take(delivered + 1).any(|known| known == body) {
            let what = format!("S11: {id} gets {body:?} out of turn, {delivered} delivered of {kept:?}");
            self.violations.push(what);
        }
    }

    /// The handler has taken it.
    pub(super) fn delivered(&mut self, id: &DispatchId, body: &Bytes) {
        if let Some(life) = self.lives.get_mut(id)
            && life.notes.kept.get(life.notes.delivered) == Some(body)
        {
            life.notes.delivered += 1;
        }
    }

    /// This many of the job's notifications wait: the others were delivered.
    pub(super) fn notes_wait(&mut self, id: &DispatchId, waiting: usize) {
        let Some(Notes { kept, delivered, .. }) = self.lives.get(id).map(|life| &life.notes) else { return };
        if delivered + waiting < kept.len() {
            let kept = kept.len();
            let what =
                format!("S11: of {id}'s {kept} notifications {delivered} were delivered and {waiting} wait");
            self.violations.push(what);
        }
    }

    /// Notifications of a job that were not delivered.
    pub(super) fn undelivered(&self, id: &DispatchId) -> usize {
        self.life(id).map_or(0, |life| life.notes.kept.len() - life.notes.delivered)
    }
}
