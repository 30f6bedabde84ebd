//! Jobs for which a worker has no room: so many begin, or have begun and wait for their start (a part of [`Jobs`]). Reading
//! goes on, so that stops are heard.

use tenure_steps::EntryId;

use super::held::LeavingJob;
use super::{Jobs, Purpose, ToBegin};
use crate::core::ctx::Ctx;
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::model::why::Cause;
use crate::step::{ReleaseItem, ReleaseMode};

/// So many jobs of a worker begin or wait for their start at a time.
const MOST: usize = 1024;

/// A job that is begun once there is room.
#[derive(Debug)]
pub(super) struct Outside {
    pub(super) key: JobKey,
    pub(super) token: Token,
    /// The entry that said so.
    pub(super) entry: Option<EntryId>,
    /// It is given back then. The sweeper takes an assigned job back, too, but no granted one.
    pub(super) until: Time,
}

impl Jobs {
    /// Whether a further job may begin.
    pub(super) fn has_room(&self) -> bool {
        self.outside.is_empty() && self.to_start() + self.beginning.len() < MOST
    }

    /// Begins the jobs for which there is room now. Gives those back that have waited too long.
    pub(in crate::core) fn take_in(&mut self, ctx: &Ctx) {
        if self.outside.is_empty() {
            return;
        }
        let begin = self.beginning.len().saturating_sub(self.outside.len());
        let room = MOST.saturating_sub(self.to_start() + begin).min(self.outside.len());
        for Outside { key, token, entry, .. } in self.outside.drain(..room) {
            self.begins.push(ToBegin { key, token, purpose: Purpose::Take, entry });
        }
        let late = self.outside.partition_point(|job| job.until <= ctx.now);
        let late: Vec<_> = self.outside.drain(..late).collect();
        for Outside { key, token, entry, .. } in late {
            self.beginning.remove(&(key.clone(), token));
            let item = ReleaseItem::new(key, token, ReleaseMode::Refuse, Cause::NotBegun);
            self.push_release(item, LeavingJob::default(), entry.into_iter().collect());
        }
    }

    /// Takes this job out of those for which there is no room, if it is one.
    #[cold]
    pub(super) fn take_outside(&mut self, id: &(JobKey, Token)) -> Option<Outside> {
        let at = self.outside.iter().position(|job| (&job.key, job.token) == (&id.0, id.1))?;
        self.beginning.remove(id);
        self.outside.remove(at)
    }

    /// The worker takes no further job: gives those back for which it had no room.
    pub(super) fn turn_outside_away(&mut self) {
        for Outside { key, token, entry, .. } in std::mem::take(&mut self.outside) {
            self.beginning.remove(&(key.clone(), token));
            self.give_back(key, token, LeavingJob::default(), None, entry.into_iter().collect());
        }
    }
}
