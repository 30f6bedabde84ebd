//! Messages to the owner of a job: stop and notify, and the owner's take.

use super::server::{Applied, Transition};
use super::state::State;
use crate::model::id::Incarnation;
use crate::step::{DropNotifications, Notify, NotifyOrStart, ReadNotifications, Stop, Take};

impl Transition for Stop {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.stop(now, inc, self.turn.as_ref(), self.repeat, self.waiting.as_ref(), &self.items)
    }
}

impl Transition for Notify {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.notify(now, inc, &self.items)
    }
}

impl Transition for NotifyOrStart {
    fn apply(&self, state: &mut State, now: u64, inc: Incarnation) -> Applied<Self> {
        state.notify_or_start(now, inc, self.ring, &self.items)
    }
}

impl Transition for Take {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.take(inc, self.worker, &self.finished, &self.items)
    }
}

impl Transition for ReadNotifications {
    fn apply(&self, state: &mut State, _: u64, _: Incarnation) -> Applied<Self> {
        Ok(state.notifications(&self.key, self.from))
    }
}

impl Transition for DropNotifications {
    fn apply(&self, state: &mut State, _: u64, inc: Incarnation) -> Applied<Self> {
        state.drop_notifications(inc, &self.key, self.through)
    }
}
