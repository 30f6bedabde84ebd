//! Another payload for a job.

use std::collections::BTreeMap;

use super::server::{Applied, Transition};
use super::state::State;
use crate::model::id::{Incarnation, JobKey, Token, WorkerId};
use crate::model::record::JobState;
use crate::model::wire;
use crate::mutation::Mutation;
use crate::step::{Refusal, Turn, Update, UpdateItem, UpdateReply, WorkerEvent};

/// The updates of one call, by owner.
type Told = BTreeMap<WorkerId, Vec<(JobKey, Token, u64)>>;

impl Transition for Update {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.update(now, inc, self.turn.as_ref(), &self.items)
    }
}

impl State {
    /// Gives jobs another payload, and tells the owners of those that run.
    pub(super) fn update(
        &mut self,
        now: u64,
        inc: Incarnation,
        turn: Option<&Turn>,
        items: &[UpdateItem],
    ) -> std::result::Result<Vec<UpdateReply>, Refusal> {
        let recovering = self.guard(inc)?;
        self.check_turn(inc, turn)?;
        let plan = turn.map(|turn| turn.plan.as_str());
        let mut told = Told::new();
        let replies = items.iter().map(|item| self.update_one(item, plan, recovering, &mut told)).collect();
        for (worker, jobs) in told {
            self.send_to_owner(now, worker, WorkerEvent::Update { jobs });
        }
        Ok(replies)
    }

    fn update_one(
        &mut self,
        item: &UpdateItem,
        plan: Option<&str>,
        recovering: bool,
        told: &mut Told,
    ) -> UpdateReply {
        let UpdateItem { key, id, generation: seen, guess, payload } = item;
        if payload.len() as u64 > self.limit("payload_max") {
            return UpdateReply::TooLong;
        }
        // An owner that has not attested yet may have a later one.
        if recovering {
            return UpdateReply::Recovering;
        }
        let Some(mut record) = self.record(key).cloned() else {
            return if self.is_damaged(key) { UpdateReply::Bad } else { UpdateReply::Absent };
        };
        if record.id != *id || plan.is_some_and(|plan| record.plan != plan) {
            return UpdateReply::Absent;
        }
        if record.state == JobState::Stopping {
            return UpdateReply::Stopping;
        }
        let generation = record.generation();
        if self.payload(key).is_some_and(|present| wire::means_the_same(&present, payload)) {
            return UpdateReply::Equal(generation);
        }
        if generation != *seen && !self.broken.has(Mutation::LateUpdateWins) {
            return UpdateReply::Conflict(generation);
        }
        if record.state == JobState::Running {
            match record.owner {
                Some(owner) if *guess == Some(owner) => {
                    told.entry(owner).or_default().push((key.clone(), record.token, generation + 1));
                }
                owner => return UpdateReply::Owner(owner),
            }
        }
        record.set_generation(generation + 1);
        self.write(key, record);
        if let Some(job) = self.jobs.get_mut(key) {
            job.payload = Some(payload.clone());
        }
        UpdateReply::Kept(generation + 1)
    }
}
