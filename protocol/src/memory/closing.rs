//! The shutdown cascade.

use std::time::Duration;

use super::state::{Meta, State, Tombstone};
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName};
use crate::model::record::JobState;
use crate::model::settings::ShutdownFlag;
use crate::step::{NOTES_PAGE, Outcome, Refusal, ShutdownMode, millis_of_a_day};

impl State {
    /// The shutdown flag.
    pub(super) fn flag(&self) -> Option<ShutdownFlag> {
        self.settings.get("shutdown").and_then(|text| ShutdownFlag::parse(text))
    }

    /// Sets or advances the shutdown flag, and returns it.
    pub(super) fn shutdown(
        &mut self,
        now: u64,
        inc: Incarnation,
        by: &NodeName,
        mode: ShutdownMode,
    ) -> Result<Option<ShutdownFlag>, Refusal> {
        let recovering = self.guard(inc)?;
        let next = match (mode, self.flag()) {
            (ShutdownMode::Closing(within), None) => {
                Some(format!("C|{}|{by}", now.saturating_add(millis_of_a_day(within))))
            }
            (ShutdownMode::DropQueued, None | Some(ShutdownFlag::Closing { .. })) => Some(format!("S||{by}")),
            (ShutdownMode::Advance, Some(ShutdownFlag::Closing { deadline_ms, by })) => {
                let idle = self.meta.queued <= 0 && !recovering;
                (now >= deadline_ms || idle).then(|| format!("S|{deadline_ms}|{by}"))
            }
            _ => None,
        };
        if let Some(next) = next {
            self.settings.insert("shutdown".to_owned(), next);
            self.meta.settings.0 += 1;
        }
        Ok(self.flag())
    }

    /// While stopping: deletes at most `limit` jobs that nobody runs.
    pub(super) fn purge(
        &mut self,
        now: u64,
        inc: Incarnation,
        limit: usize,
    ) -> Result<Vec<(DispatchId, Outcome)>, Refusal> {
        self.guard(inc)?;
        if !self.stopping() {
            return Err(Refusal::NotStopping);
        }
        let idle = |key: &&JobKey| {
            let state = self.record(key).map(|record| record.state);
            matches!(state, Some(JobState::Queued | JobState::Assigned | JobState::Parked))
        };
        let keys = self.queue.iter().chain(self.parked.iter()).map(|(_, key)| key);
        let keys: Vec<_> = keys.filter(idle).take(limit).cloned().collect();
        let mut outcomes = Vec::with_capacity(keys.len());
        let mut notes = 0;
        for key in keys {
            if notes >= NOTES_PAGE {
                break;
            }
            if let Some(record) = self.record(&key).cloned() {
                notes += self.notes_of(&key);
                self.drop_job(&key, &record, now, "shutdown");
                outcomes.push((record.id, "shutdown".to_owned()));
            }
        }
        Ok(outcomes)
    }

    /// The last step: leaves only a tombstone and the streams of nodes, which expire.
    pub(super) fn cleanup(
        &mut self,
        now: u64,
        inc: Incarnation,
        tombstone: Duration,
    ) -> Result<u64, Refusal> {
        self.guard(inc)?;
        if !self.stopping() {
            return Err(Refusal::NotStopping);
        }
        let members = self.members.len() + self.dead.len();
        if members > 0 {
            return Err(Refusal::Members(members as u64));
        }
        let dropped = self.jobs.len() as u64;
        *self = Self {
            meta: Meta::default(),
            tombstone: Some(Tombstone {
                incarnation: inc,
                until: now.saturating_add(millis_of_a_day(tombstone)),
            }),
            node_streams: std::mem::take(&mut self.node_streams),
            worker_streams: std::mem::take(&mut self.worker_streams),
            appended: self.appended,
            broken: std::mem::take(&mut self.broken),
            ..Self::default()
        };
        Ok(dropped)
    }
}
