//! Notifications that a handler has refused for now (a part of [`Jobs`]). The first of them waits for the end of its
//! pause, and the others wait behind it. They stay in the store meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Jobs;
use crate::core::ctx::Ctx;
use crate::core::effect::Notice;
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::mutation::Mutation;

/// The ends of the pauses. A job has one at most; that of a job that has left comes to nothing.
#[derive(Debug, Default)]
pub(super) struct Pauses(BTreeSet<(Time, JobKey, Token)>);

impl Pauses {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.first().map(|(at, ..)| *at)
    }

    fn next(&mut self, now: Time) -> Option<(JobKey, Token)> {
        self.0.first().filter(|(at, ..)| *at <= now)?;
        self.0.pop_first().map(|(_, key, token)| (key, token))
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
        (held.notes.wanted, held.notes.paused) = (true, true);
        self.pauses.0.insert((ctx.now + pause, key.clone(), token));
        ctx.report(Notice::NotificationRefused { key: key.clone(), token, refusals, pause, why });
    }

    /// Fetches the notifications whose pause is over.
    pub(super) fn go_on_with_refused(&mut self, now: Time) {
        while let Some((key, token)) = self.pauses.next(now) {
            if let Some(held) = self.held.get_mut(&key).filter(|held| held.token == token) {
                held.notes.paused = false;
                self.fetch(&key);
            }
        }
    }
}
