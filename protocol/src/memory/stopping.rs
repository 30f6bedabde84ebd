//! The request to end jobs.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{Ended, Remembered, State};
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Token, WorkerId};
use crate::model::record::{JobState, Record};
use crate::mutation::Mutation;
use crate::step::{NOTES_PAGE, Refusal, StopItem, StopReply, Turn, WorkerEvent};

impl State {
    /// Requests the end of jobs. `repeat`: the owners of stopping jobs are told again.
    pub(super) fn stop(
        &mut self,
        now: u64,
        inc: Incarnation,
        turn: Option<&Turn>,
        repeat: bool,
        waiting: Option<&NodeName>,
        items: &[StopItem],
    ) -> Result<Vec<StopReply>, Refusal> {
        self.guard(inc)?;
        self.check_turn(inc, turn)?;
        let mut told: BTreeSet<&JobKey> = BTreeSet::new();
        let mut events: BTreeMap<WorkerId, Vec<(JobKey, Token, Option<DispatchId>)>> = BTreeMap::new();
        let mut replies = Vec::with_capacity(items.len());
        let mut notes = 0;
        for item in items {
            let reply = self.stop_one(now, turn, item, &mut notes);
            if let (StopReply::Stopping, Some(record)) = (reply, self.record(&item.key).cloned()) {
                let news = record.state == JobState::Running || repeat || waiting.is_some();
                if let Some(owner) = record.owner.filter(|_| news && told.insert(&item.key)) {
                    events.entry(owner).or_default().push((
                        item.key.clone(),
                        record.token,
                        Some(record.id.clone()),
                    ));
                    self.queue.put(item.key.clone(), now + self.limit("stop_retry"));
                    let mut record = Record { state: JobState::Stopping, ..record };
                    self.confirm(&mut record);
                    self.write(&item.key, record);
                }
            }
            replies.push(reply);
        }
        for (worker, jobs) in events {
            self.send_to_owner(now, worker, WorkerEvent::Stop { waiting: waiting.cloned(), jobs });
        }
        Ok(replies)
    }

    /// Decides about one job, and deletes it if nobody runs it.
    fn stop_one(&mut self, now: u64, turn: Option<&Turn>, item: &StopItem, notes: &mut usize) -> StopReply {
        let recovering = self.meta.recovering;
        if self.is_damaged(&item.key) {
            return StopReply::Bad;
        }
        let record = self.record(&item.key);
        let unnamed = self.broken.has(Mutation::StopUnnamed);
        let Some(record) = record.filter(|record| unnamed || record.id.is_same(&item.id)).cloned() else {
            let lives = record.is_some();
            return self.stop_absent(now, item, lives);
        };
        if turn.is_some_and(|turn| turn.plan.as_str() != record.plan) {
            return StopReply::Absent;
        }
        match record.state {
            // In phase R the job may be running unseen.
            JobState::Queued | JobState::Assigned | JobState::Parked if recovering => StopReply::Recovering,
            JobState::Queued | JobState::Assigned | JobState::Parked if *notes >= NOTES_PAGE => {
                StopReply::Later
            }
            JobState::Queued | JobState::Assigned | JobState::Parked => {
                *notes += self.notes_of(&item.key);
                let outcome = if item.forbid { "cancelled" } else { "stopped" };
                self.drop_job(&item.key, &record, now, outcome);
                StopReply::Deleted
            }
            JobState::Running | JobState::Stopping if item.guess != record.owner => {
                StopReply::Owner(record.owner)
            }
            JobState::Running | JobState::Stopping => StopReply::Stopping,
        }
    }

    /// There is no job of this dispatch: it has ended, or was never accepted. If the caller wants that, it is never
    /// accepted from now on.
    fn stop_absent(&mut self, now: u64, item: &StopItem, lives: bool) -> StopReply {
        let StopItem { key, id, forbid, .. } = item;
        let own = id.caller_id();
        let known = own.and_then(|own| self.remembered.get(own));
        let settled = known.is_some_and(|known| known.key == *key && known.outcome.is_some());
        // The memory of a caller's id may be that of a former use. The last one may run, unknown to the store.
        if own.is_some() && !lives && self.meta.recovering {
            return StopReply::Recovering;
        }
        if settled || self.ended.contains(&Ended::Dispatch(id.clone())) {
            // A later run may not be known yet.
            if self.meta.recovering && self.ended_by_run(id, None).is_some() {
                return StopReply::Recovering;
            }
            self.end_for_good(id);
            return StopReply::Ended;
        }
        if !lives && self.meta.recovering {
            return StopReply::Recovering;
        }
        match own.filter(|_| *forbid) {
            _ if self.broken.has(Mutation::CancelsForgotten) => {}
            None if *forbid => {
                self.ended.put(Ended::Dispatch(id.clone()), now + self.limit("max_dispatch_deadline"));
            }
            Some(own) if known.is_none() => {
                let outcome = Some("cancelled".to_owned());
                let open = Remembered::open(key.clone(), String::new(), id.clone(), now);
                let entry = Remembered { outcome, ..open };
                self.ended.put(Ended::Caller(own.to_owned()), now + self.limit("outcome_retention"));
                self.remembered.insert(own.to_owned(), entry);
            }
            _ => {}
        }
        StopReply::Absent
    }
}
