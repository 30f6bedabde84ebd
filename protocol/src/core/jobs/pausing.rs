//! Notifications that a handler has refused for now (a part of [`Jobs`]). The first of them waits for the end of its
//! pause, and the others wait behind it. They stay in the store meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Jobs;
use crate::core::ctx::Ctx;
use crate::core::effect::Notice;
use crate::core::one_call::Timers;
use crate::core::time::Time;
use crate::model::id::JobKey;
use crate::mutation::Mutation;
use crate::step::TakeItem;

/// The ends of the pauses. A job has one at most, and none once it has left.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    by_time: Timers<JobKey>,
    ends: BTreeMap<JobKey, Time>,
}

impl Pauses {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.by_time.deadline()
    }

    fn begin(&mut self, key: &JobKey, ends: Time) {
        self.end(key);
        self.by_time.set(ends, key.clone());
        self.ends.insert(key.clone(), ends);
    }

    /// The job leaves, or its pause is over.
    pub(super) fn end(&mut self, key: &JobKey) {
        if let Some(at) = self.ends.remove(key) {
            self.by_time.remove(at, key);
        }
    }

    fn next(&mut self, now: Time) -> Option<JobKey> {
        let (_, key) = self.by_time.due(now)?;
        self.ends.remove(&key);
        Some(key)
    }
}

/// A refusal, as the handler has said it.
#[derive(Debug)]
pub(super) struct NotYet {
    /// The number of notifications that it took before.
    pub(super) taken: usize,
    pub(super) pause: Duration,
    pub(super) refusals: u32,
    pub(super) why: String,
}

impl Jobs {
    /// The handler refuses the notification in hand for now.
    pub(super) fn not_yet(&mut self, ctx: &mut Ctx, key: &JobKey, refusal: NotYet) {
        let Some(held) = self.held.get_mut(key) else { return };
        let NotYet { taken, pause, refusals, why } = refusal;
        let token = held.token;
        let passed_over = usize::from(ctx.config.broken.has(Mutation::RefusedPassedOver));
        held.notes.delivered(taken + passed_over);
        self.answering.passed(key, token, taken);
        (held.notes.wanted, held.notes.paused) = (true, true);
        self.pauses.begin(key, ctx.now + pause);
        if held.notes.owes {
            // The next owner must not get those again that were taken.
            held.notes.busy = true;
            self.takes.push(TakeItem { key: key.clone(), token, ack: held.notes.ack });
        }
        ctx.report(Notice::NotificationRefused { key: key.clone(), token, refusals, pause, why });
    }

    /// Fetches the notifications whose pause is over.
    pub(super) fn go_on_with_refused(&mut self, now: Time) {
        while let Some(key) = self.pauses.next(now) {
            if let Some(held) = self.held.get_mut(&key) {
                held.notes.paused = false;
                self.fetch(&key);
            }
        }
    }
}
