//! Notifications: in their order, and none lost while its job lives (S11).

use bytes::Bytes;

use super::judge::Judge;
use crate::id::{DispatchId, JobKey};

impl Judge {
    pub(super) fn kept(&mut self, key: &JobKey, body: &Bytes) {
        let Some(id) = self.records.get(key).and_then(Option::as_ref).map(|record| record.id.clone()) else {
            return;
        };
        if let Some(life) = self.lives.get_mut(&id) {
            life.kept.push(body.clone());
        }
    }

    /// A handler is called with a notification: the next one, or one that was delivered before.
    pub(super) fn taking(&mut self, id: &DispatchId, body: &Bytes) {
        let Some(life) = self.lives.get(id).filter(|life| !life.tainted) else { return };
        let upto = (life.delivered + 1).min(life.kept.len());
        if !life.kept.iter().take(upto).any(|kept| kept == body) {
            let what = format!(
                "S11: {id} gets {body:?} out of turn, {} delivered of {:?}",
                life.delivered, life.kept
            );
            self.violations.push(what);
        }
    }

    /// It has taken it.
    pub(super) fn delivered(&mut self, id: &DispatchId, body: &Bytes) {
        if let Some(life) = self.lives.get_mut(id)
            && life.kept.get(life.delivered) == Some(body)
        {
            life.delivered += 1;
        }
    }

    /// Of a job's notifications so many wait: the others were delivered.
    pub(super) fn notes_wait(&mut self, id: &DispatchId, waiting: usize) {
        let Some(life) = self.lives.get(id).filter(|life| !life.tainted) else { return };
        if life.delivered + waiting < life.kept.len() {
            let (kept, delivered) = (life.kept.len(), life.delivered);
            let what =
                format!("S11: of {id}'s {kept} notifications {delivered} were delivered and {waiting} wait");
            self.violations.push(what);
        }
    }

    /// Notifications of a job that were not delivered.
    pub(super) fn undelivered(&self, id: &DispatchId) -> usize {
        self.life(id).filter(|life| !life.tainted).map_or(0, |life| life.kept.len() - life.delivered)
    }
}
