//! Steers of single jobs, as an operator wants it: they begin now, begin anew, or rest.

use std::collections::{BTreeMap, BTreeSet};

use super::state::State;
use super::streams::Starts;
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::paused::Paused;
use crate::model::record::{Begun, JobState, Record};
use crate::model::why::Cause;
use crate::mutation::Mutation;
use crate::step::{Refusal, SteerItem, SteerReply, Way, WorkerEvent};

/// The granted jobs that owners are told of once more.
type Again = Vec<(WorkerId, Token, JobKey)>;

/// The words of one call for each owner.
type Told = BTreeMap<WorkerId, Vec<(JobKey, Token, Way, String)>>;

impl State {
    /// Places jobs anew or parks them, and tells the owners of those that run.
    pub(super) fn steer(
        &mut self,
        now: u64,
        inc: Incarnation,
        items: &[SteerItem],
    ) -> Result<Vec<SteerReply>, Refusal> {
        let recovering = self.guard(inc)?;
        if self.stopping() {
            return Err(Refusal::ShuttingDown);
        }
        let (mut told, mut starts, mut changed) = (Told::new(), Starts::new(), BTreeSet::new());
        let mut again = Again::new();
        let steer =
            |item| self.steer_one(now, item, recovering, &mut told, (&mut starts, &mut again), &mut changed);
        let replies = items.iter().map(steer).collect();
        self.emit(now, &starts);
        for (worker, token, key) in again {
            self.send_to_owner(now, worker, WorkerEvent::Start { token, keys: vec![key] });
        }
        for (worker, jobs) in told {
            self.send_to_owner(now, worker, WorkerEvent::Steer { jobs });
        }
        Ok(replies)
    }

    fn steer_one(
        &mut self,
        now: u64,
        item: &SteerItem,
        recovering: bool,
        told: &mut Told,
        (starts, again): (&mut Starts, &mut Again),
        changed: &mut BTreeSet<JobKey>,
    ) -> SteerReply {
        let SteerItem { key, id, token, since, way, guess, reason } = item;
        // An owner that has not attested yet may run it.
        if recovering {
            return SteerReply::Recovering;
        }
        let Some(mut record) = self.record(key).cloned() else {
            return if self.is_damaged(key) { SteerReply::Bad } else { SteerReply::Absent };
        };
        if record.id != *id {
            return SteerReply::Absent;
        }
        let was_paused = record.is_paused();
        // Nobody can have seen a time that this call has set.
        let is_seen = record.token == *token && record.since == *since && !changed.contains(key);
        if let Some(reply) =
            steers_nothing(item, &record, is_seen || self.broken.has(Mutation::LateSteerWins))
        {
            return reply;
        }
        match (record.state, way) {
            // Its news may be lost. The owner then begins the job as any other.
            (JobState::Running, Way::Now) => {
                let Some(owner) = record.owner.filter(|owner| *guess == Some(*owner)) else {
                    return SteerReply::Changed;
                };
                again.push((owner, record.token, key.clone()));
                return SteerReply::Told;
            }
            (JobState::Running, way) => {
                let Some(owner) = record.owner.filter(|owner| *guess == Some(*owner)) else {
                    return SteerReply::Changed;
                };
                let job = (key.clone(), record.token, *way, reason.clone());
                told.entry(owner).or_default().push(job);
                return SteerReply::Told;
            }
            (JobState::Parked, Way::Now | Way::Resume) => {
                self.parked.remove(key);
                self.errors.remove(key);
                (record.attempts, record.strikes) = (0, 0);
                record.set_why(if *way == Way::Resume { Cause::Resumed } else { Cause::Unparked });
            }
            (JobState::Assigned, Way::Home) => {
                record.strikes = 0;
                record.set_why(Cause::Bounced);
            }
            (JobState::Assigned, Way::Elsewhere) => {
                self.elsewhere(&mut record, u32::MAX);
                record.set_why(Cause::Bounced);
            }
            (JobState::Assigned | JobState::Queued, Way::Park) => record.set_why(Cause::Parked),
            (_, Way::Pause) => record.set_why(Cause::Paused),
            _ => {}
        }
        let at = if *way == Way::Pause && was_paused { record.since } else { unseen_time(now, record.since) };
        if at != record.since {
            changed.insert(key.clone());
        }
        let state = match way {
            Way::Park | Way::Pause => self.park(key, record, at, reason),
            _ => self.requeue(key, record, at, 0, "", starts),
        };
        match (state, way) {
            (JobState::Parked, Way::Pause) => SteerReply::Paused,
            (JobState::Parked, _) => SteerReply::Parked,
            _ => SteerReply::Queued,
        }
    }
}

/// The time since when a record is as it becomes now. It must differ from the one that was seen, also within a
/// millisecond.
fn unseen_time(now: u64, since: u64) -> u64 {
    if (now..now + 60_000).contains(&since) { since + 1 } else { now }
}

/// The reply to a steer that changes nothing. `is_seen`: the record is as the steer names it.
fn steers_nothing(item: &SteerItem, record: &Record, is_seen: bool) -> Option<SteerReply> {
    Some(match (record.state, item.way) {
        (JobState::Stopping, _) => SteerReply::Stopping,
        (JobState::Parked, Way::Pause) if record.is_paused_for(&item.reason) => SteerReply::Paused,
        (JobState::Parked, way) if record.is_paused() && !matches!(way, Way::Resume | Way::Pause) => {
            SteerReply::Paused
        }
        (JobState::Parked, Way::Home | Way::Elsewhere | Way::Park) => SteerReply::Parked,
        (JobState::Parked, Way::Resume) if !record.is_paused() => SteerReply::Parked,
        (JobState::Running | JobState::Assigned | JobState::Queued, Way::Resume) => SteerReply::Changed,
        // It was made longer meanwhile.
        (JobState::Parked, Way::Resume) if record.paused_until() != Paused::end_of(&item.reason) => {
            SteerReply::Changed
        }
        _ if !is_seen => SteerReply::Changed,
        (JobState::Running, Way::Now) if record.begun != Begun::Started => return None,
        (JobState::Running | JobState::Assigned, Way::Now) => SteerReply::Changed,
        _ => return None,
    })
}
