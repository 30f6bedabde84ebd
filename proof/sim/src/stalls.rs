//! Handlers that hang: in some runs jobs have a progress timeout, and some of their handlers make no progress. Each of
//! them is told to end in time and only then, and ends (L11).

use std::time::Duration;

use super::node::nanos;
use super::world::{MS, World};
use tenure_protocol::core::input::{HandlerEvent, Input};
use tenure_protocol::core::time::Time;
use tenure_protocol::model::wire::ProgressTimeout;

/// How late a handler may end, for the delays of events and the rates of clocks.
const LATE: u64 = 1_000 * MS;

/// The progress of one handler.
#[derive(Debug)]
pub(super) struct Progress {
    timeout: ProgressTimeout,
    /// Since when the engine goes by this timeout.
    since: u64,
    /// How often it is still seen to make progress.
    left: u32,
    /// When it last did, and by the clock of its node.
    last: (u64, Time),
}

impl World {
    /// The progress timeout of the job with this body, the same whenever that is sent.
    pub(super) fn progress_timeout(&self, body: u64) -> Option<ProgressTimeout> {
        let timed = self.stalls.happen && body.is_multiple_of(2);
        timed.then(|| Duration::from_millis(500 + 500 * (body % 3))).and_then(ProgressTimeout::new)
    }

    /// The progress of a handler that is called now.
    pub(super) fn draw_progress(&mut self, timeout: Option<ProgressTimeout>, at: usize) -> Option<Progress> {
        let hangs = !self.healed && self.stalls.rng.chance(4_000);
        let left = if hangs { self.stalls.rng.below(2) as u32 } else { u32::MAX };
        Some(Progress { timeout: timeout?, since: self.now, left, last: (self.now, self.local(at)) })
    }

    /// An engine hears that a handler has taken another payload, and goes by its timeout from now on.
    pub(super) fn hears_of_update(&mut self, at: usize, input: &Input) {
        let Input::Handler { worker, key, token, event: HandlerEvent::Updated { result: Ok(()), .. } } =
            input
        else {
            return;
        };
        let (now, local) = (self.now, self.local(at));
        let id = self.nodes.get(at).and_then(|node| node.running.get(&(*worker, key.clone())));
        let Some(actor) = id.and_then(|id| self.actors.get_mut(id)).filter(|actor| actor.token == *token)
        else {
            return;
        };
        let former = actor.progress.take();
        actor.progress = actor.timeout.map(|timeout| match former {
            Some(former) if former.timeout == timeout => former,
            Some(former) => Progress { timeout, since: now, ..former },
            None => Progress { timeout, since: now, left: u32::MAX, last: (now, local) },
        });
    }

    /// A handler's start has succeeded: its time begins.
    pub(super) fn begins_to_run(&mut self, id: u64) {
        let now = self.now;
        let Some(local) = self.actors.get(&id).map(|actor| self.local(actor.node)) else { return };
        if let Some(progress) = self.actors.get_mut(&id).and_then(|actor| actor.progress.as_mut()) {
            progress.last = (now, local);
        }
    }

    /// The engine asks when the handler last made progress.
    pub(super) fn look(&mut self, id: u64) {
        let now = self.now;
        let Some(local) = self.actors.get(&id).map(|actor| self.local(actor.node)) else { return };
        let Some(progress) = self.actors.get_mut(&id).and_then(|actor| actor.progress.as_mut()) else {
            return;
        };
        if let Some(left) = progress.left.checked_sub(1) {
            (progress.left, progress.last) = (left, (now, local));
        }
        let at = progress.last.1;
        self.tell(id, HandlerEvent::Progressed(at));
    }

    /// Whether the handler has made no progress for its time, by the clock of its node.
    pub(super) fn has_stalled(&self, id: u64) -> bool {
        let Some(actor) = self.actors.get(&id) else { return false };
        let silent = |progress: &Progress| self.local(actor.node).since(progress.last.1);
        actor.progress.as_ref().is_some_and(|progress| silent(progress) >= progress.timeout.get())
    }

    /// A handler that hangs on a node that acts has ended in time.
    pub(super) fn judge_stalls(&mut self) {
        if !self.stalls.happen {
            return;
        }
        let overdue = self.actors.values().find(|actor| {
            let Some(node) = self.nodes.get(actor.node).filter(|node| node.alive && !node.paused) else {
                return false;
            };
            let config = &node.config;
            let end = nanos(config.stop_timeout + config.abort_grace + config.timing.kill) + LATE;
            actor.runs()
                && actor.progress.as_ref().is_some_and(|progress| {
                    let since = progress.last.0.max(progress.since).max(node.resumed_at);
                    progress.left == 0 && self.now > since + nanos(progress.timeout.get()) + end
                })
        });
        let what =
            overdue.map(|actor| format!("L11: {} hangs on n{} and has not ended", actor.key, actor.node));
        self.judge.violations.extend(what);
    }
}
