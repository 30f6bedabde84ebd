//! All that is known of one job.

use super::state::State;
use crate::model::id::{DispatchId, JobKey};
use crate::model::record::JobState;
use crate::step::{CheckpointSeen, Evidence, Refusal};

impl State {
    pub(super) fn explain(
        &self,
        now: u64,
        key: &JobKey,
        id: Option<&DispatchId>,
    ) -> Result<Evidence, Refusal> {
        let Some(inc) = self.meta.incarnation else {
            return Err(if self.tombstone.is_some() { Refusal::Closed } else { Refusal::NoPool });
        };
        let attested = self.meta.attested.iter().filter(|(_, of)| self.meta.recovering && **of == inc);
        let found = self.lookup(&[(key.clone(), id.cloned())]).pop().unwrap_or_default();
        let fresh = |count: &u64| if *count == 1 { now } else { *count };
        let is_to_run = found.record.as_ref().is_some_and(|record| record.state != JobState::Parked);
        let freshest = self.heartbeats.values().map(fresh).max().filter(|_| is_to_run);
        let owner = found.record.as_ref().and_then(|record| record.owner);
        let mailbox = self.mailboxes.get(key).filter(|mailbox| mailbox.damage.is_none());
        let checkpoint = self.checkpoints.get(key).map(|kept| CheckpointSeen {
            token: kept.token,
            at: kept.at,
            len: kept.bytes.len() as u64,
        });
        Ok(Evidence {
            now,
            recovering: self.meta.recovering,
            attested: attested.map(|(worker, _)| *worker).collect(),
            flag: self.flag(),
            found,
            pause: self.pause(key),
            notifications: mailbox.map_or(0, |mailbox| mailbox.bodies.len() as u64),
            checkpoint,
            heard: owner.and_then(|owner| self.heartbeats.get(&owner).copied()),
            expired: owner.is_some_and(|owner| self.dead.contains_key(&owner)),
            freshest,
        })
    }
}
