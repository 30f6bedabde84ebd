//! How a node leaves its pool, and how a pool ends.
//!
//! A node that closes drains all its workers before the first of them hands off a job, so that no job moves twice. A
//! pool that shuts down is *closing* while it begins accepted jobs, then *stopping*: every node ends its jobs and
//! leaves, and the last one cleans up. Any node completes the shutdown if the caller's node dies.

use std::time::Duration;

use crate::core::call::{Call, PAGE, TOMBSTONE};
use crate::core::ctx::{Config, Ctx, Purpose};
use crate::core::input::{Answer, ReplyTo};
use crate::core::one_call::OneCall;
use crate::core::time::{Time, earliest};
use crate::error::Error;
use crate::model::id::{DispatchId, JobKey, WorkerId};
use crate::model::settings::ShutdownFlag;
use crate::mutation::Mutation;
use crate::step::{CleanUp, Outcome, Purge, Refusal, Result, ShutDown, ShutdownMode, StoreError};

/// The pause between two looks at whether the next step may come. It doubles each time, between these limits.
const STEP: Duration = Duration::from_millis(20);
const LONGEST_STEP: Duration = Duration::from_millis(500);

/// One node's state of its own end and the pool's.
#[derive(Debug, Default)]
pub(in crate::core) struct Closing {
    /// The node must leave.
    pub(in crate::core) leaving: bool,
    closers: Vec<(ReplyTo, Time)>,
    /// The pool's flag, as last seen.
    pub(in crate::core) flag: Option<ShutdownFlag>,
    to_ask: Option<ShutdownMode>,
    askers: Vec<(ReplyTo, Time)>,
    call: OneCall,
    /// The call under way belongs to an earlier incarnation: its answer is not about this pool's flag.
    is_of_before: bool,
    pause: Duration,
    purged: bool,
    /// Wait until the last worker has left.
    resting: bool,
    /// Shard 0 must outlive the others: it stores the shard count. While it exists, nobody can create a pool with
    /// another count.
    awaits_others: bool,
    dropped: u64,
}

impl Closing {
    pub(in crate::core) fn new(config: &Config) -> Self {
        let first = config.settings.shard.is_some_and(|shard| shard.index == 0 && shard.count > 1);
        Self { awaits_others: first && !config.broken.has(Mutation::FirstShardEndsAlone), ..Self::default() }
    }

    pub(in crate::core) fn close(&mut self, to: ReplyTo, deadline: Time) {
        self.leaving = true;
        self.closers.push((to, deadline));
    }

    pub(in crate::core) fn shut_down(&mut self, to: ReplyTo, mode: ShutdownMode, deadline: Time) {
        self.askers.push((to, deadline));
        self.to_ask = Some(mode);
    }

    /// Another shard of the pool was shut down, so this one must be, too. A request of this shard's own users takes
    /// precedence.
    pub(in crate::core) fn spread(&mut self, ctx: &Ctx, mode: ShutdownMode) {
        if self.flag.is_none() && (self.to_ask.is_none() || ctx.config.broken.has(Mutation::HearsayGoesFirst))
        {
            self.to_ask = Some(mode);
            self.wake(ctx.now);
        }
    }

    /// The other shards of the pool have ended.
    pub(in crate::core) fn others_ended(&mut self, ctx: &Ctx) {
        self.awaits_others = false;
        self.wake(ctx.now);
    }

    /// Other shards of the pool may still exist.
    pub(in crate::core) fn awaits_others(&self, ctx: &Ctx) -> bool {
        self.awaits_others && ctx.config.purpose != Purpose::PartAfter(ctx.incarnation)
    }

    pub(in crate::core) fn is_stopping(&self) -> bool {
        self.flag.as_ref().is_some_and(ShutdownFlag::is_stopping)
    }

    /// The pool is another one or lives in another incarnation: its flag is unknown. `again`: this node has been part
    /// of it, and sets the flag again that it has seen. `now_ms`: the server's clock.
    pub(in crate::core) fn reset(&mut self, again: bool, now_ms: Option<u64>) {
        let flag = self.flag.take().filter(|_| again);
        self.purged = false;
        self.is_of_before = self.call.is_busy();
        let mode = flag.and_then(|flag| match flag {
            ShutdownFlag::Stopping { .. } => Some(ShutdownMode::DropQueued),
            ShutdownFlag::Closing { deadline_ms, .. } => {
                Some(ShutdownMode::Closing(Duration::from_millis(deadline_ms.saturating_sub(now_ms?))))
            }
        });
        self.to_ask = self.to_ask.or(mode);
        self.wake(Time(0));
    }

    pub(in crate::core) fn saw_flag(&mut self, flag: Option<ShutdownFlag>) {
        if flag.is_some() && flag != self.flag && !self.is_stopping() {
            self.wake(Time(0));
            self.flag = flag;
        }
    }

    pub(in crate::core) fn on_flag(
        &mut self,
        ctx: &Ctx,
        mode: ShutdownMode,
        answer: Result<Option<ShutdownFlag>>,
    ) -> Result<()> {
        self.call.is_back();
        self.rest(ctx.now);
        if ctx.config.broken.has(Mutation::ShutdownAskedOnce) {
            self.to_ask = None;
        }
        let is_of_before = std::mem::take(&mut self.is_of_before);
        let flag = answer?;
        if is_of_before {
            self.wake(ctx.now);
            return Ok(());
        }
        self.saw_flag(flag);
        if self.to_ask == Some(mode) {
            self.to_ask = None;
        }
        Ok(())
    }

    pub(in crate::core) fn on_purged(
        &mut self,
        ctx: &Ctx,
        answer: Result<Vec<(DispatchId, Outcome)>>,
    ) -> Result<Vec<(DispatchId, Outcome)>> {
        self.call.is_back();
        let is_of_before = std::mem::take(&mut self.is_of_before);
        let outcomes = answer.inspect_err(|_| self.rest(ctx.now))?;
        self.purged = outcomes.is_empty() && !is_of_before;
        self.dropped += outcomes.len() as u64;
        Ok(outcomes)
    }

    fn rest(&mut self, now: Time) {
        self.pause = (self.pause * 2).clamp(STEP, LONGEST_STEP);
        self.call.set(now + self.pause);
    }

    /// A change: the next step may now be possible.
    pub(in crate::core) fn wake(&mut self, now: Time) {
        self.pause = Duration::ZERO;
        self.call.set(now);
    }

    /// True if the pool is gone.
    pub(in crate::core) fn on_cleaned(&mut self, ctx: &Ctx, answer: Result<u64>) -> Result<bool> {
        self.call.is_back();
        let is_of_before = std::mem::take(&mut self.is_of_before);
        self.purged = false;
        self.rest(ctx.now);
        match answer {
            // Another pool exists in its place, and this node is part of it.
            Ok(_) if is_of_before && !ctx.config.broken.has(Mutation::FormerCleanupEnds) => Ok(false),
            Ok(left) => {
                self.dropped += left;
                Ok(true)
            }
            Err(StoreError::Refused(Refusal::Members(_))) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tells callers past their deadline what is left.
    pub(in crate::core) fn on_time(
        &mut self,
        ctx: &mut Ctx,
        held: impl Fn() -> Vec<JobKey>,
        members: impl Fn() -> Vec<WorkerId>,
    ) {
        if self.closers.is_empty() && self.askers.is_empty() {
            return;
        }
        let now = ctx.now;
        for to in expired(&mut self.closers, now) {
            ctx.reply(to, Answer::Closed { complete: false, left: held() });
        }
        if ctx.config.broken.has(Mutation::ShutdownAskedOnce) {
            return;
        }
        for to in expired(&mut self.askers, now) {
            let (result, left, dropped) = (Ok(()), members(), self.dropped);
            ctx.reply(to, Answer::ShutDown { result, complete: false, left, dropped });
        }
    }

    /// The pool refuses this node: nobody's shutdown is asked for.
    pub(in crate::core) fn refuse(&mut self, ctx: &mut Ctx, why: &Error) {
        for (to, _) in self.askers.drain(..) {
            self.to_ask = None;
            let (result, dropped) = (Err(why.clone()), self.dropped);
            let answer = Answer::ShutDown { result, complete: false, left: vec![], dropped };
            ctx.reply(to, answer);
        }
    }

    /// `idle`: no worker of this node is left.
    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx, idle: bool) {
        if self.call.deadline().is_none_or(|at| ctx.now < at) {
            return;
        }
        self.resting = false;
        let by = ctx.config.node.clone();
        let call = match (&self.flag, self.to_ask) {
            (Some(ShutdownFlag::Stopping { .. }), _) if !self.purged => Call::Purge(Purge { limit: PAGE }),
            (Some(ShutdownFlag::Stopping { .. }), _) if idle && !self.awaits_others(ctx) => {
                Call::CleanUp(CleanUp { tombstone: TOMBSTONE })
            }
            (Some(ShutdownFlag::Stopping { .. }), _) => {
                self.resting = true;
                return;
            }
            (_, Some(mode)) => Call::Shutdown(ShutDown { by, mode }),
            (Some(ShutdownFlag::Closing { .. }), None) => {
                Call::Shutdown(ShutDown { by, mode: ShutdownMode::Advance })
            }
            (None, None) => return,
        };
        self.call.start();
        ctx.call(call);
    }

    /// The pool is gone: answers the callers of the shutdown, and those that close the node.
    pub(in crate::core) fn end(&mut self, ctx: &mut Ctx, pool_closed: bool) {
        for (to, _) in self.closers.drain(..) {
            ctx.reply(to, Answer::Closed { complete: true, left: vec![] });
        }
        for (to, _) in self.askers.drain(..) {
            let result = if pool_closed { Ok(()) } else { Err(Error::NodeClosed) };
            let answer = Answer::ShutDown { result, complete: true, left: vec![], dropped: self.dropped };
            ctx.reply(to, answer);
        }
    }

    pub(in crate::core) fn deadline(&self, may_send: bool) -> Option<Time> {
        let waits = self.closers.iter().chain(&self.askers).map(|(_, at)| *at).min();
        let wanted = self.flag.is_some() || self.to_ask.is_some();
        let acts = may_send && wanted && !self.resting;
        earliest(waits, self.call.deadline().filter(|_| acts))
    }
}

fn expired(waiters: &mut Vec<(ReplyTo, Time)>, now: Time) -> Vec<ReplyTo> {
    let due = waiters.iter().filter(|(_, at)| *at <= now).map(|(to, _)| *to).collect();
    waiters.retain(|(_, at)| *at > now);
    due
}
