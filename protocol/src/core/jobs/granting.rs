//! Jobs that were granted: their record says that this worker runs them, and the worker starts them without asking (a part
//! of [`Jobs`]).
//!
//! Only this worker's own word takes a granted job away while the worker's lease holds. So the news of a grant is as good as
//! the answer to a `begin`, if the worker has said nothing of the job yet. But a stream can be read again, and news can come
//! late. So a grant is honoured only above every token that the worker has read or spoken of. The lease must hold, and the
//! grant must name the present incarnation. The worker takes any other grant for an assignment, and asks.
//!
//! The note of the start tells the store that the job has begun. Where the start takes long, a `begin` says so first.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_steps::EntryId;

use super::held::{FirstStart, JobPhase};
use super::{Jobs, Purpose, ToBegin};
use crate::core::ctx::Ctx;
use crate::core::time::Time;
use crate::model::id::{JobKey, Token};
use crate::model::record::Begun;
use crate::mutation::Mutation;
use crate::step::{Granted, GrantedJob};

/// A granted job that has not started by then is said to have begun.
const CONFIRM_AFTER: Duration = Duration::from_millis(250);

/// An honoured grant whose start is not noted.
#[derive(Debug)]
struct Unconfirmed {
    /// Until then its note is waited for.
    until: Time,
    key: JobKey,
    token: Token,
    /// The store counts the job as one that nobody has begun.
    is_counted: bool,
}

/// What a worker knows of grants.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// The highest token that the worker has read or spoken of. It never falls.
    high: Token,
    /// Honoured grants, in the order of their times. The start of the first is not noted whenever a step has ended.
    unconfirmed: VecDeque<Unconfirmed>,
}

impl Grants {
    /// The worker has read of this token, or speaks of it.
    pub(super) fn has_seen(&mut self, token: Token) {
        self.high = self.high.max(token);
    }

    /// The note of a granted job's start is to come.
    pub(super) fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty()
    }

    /// The news and the calls of the former incarnation are void.
    pub(super) fn void(&mut self) {
        self.unconfirmed.clear();
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.unconfirmed.front().map(|first| first.until)
    }
}

impl Jobs {
    /// Whether a grant under this token takes the place of an answered `begin`, under a lease that holds.
    pub(in crate::core) fn honours(&self, ctx: &Ctx, token: Token) -> bool {
        let is_new = token > self.grants.high || ctx.config.broken.has(Mutation::GrantTwice);
        is_new && self.leaving.is_none()
    }

    /// An entry with grants that are honoured has come.
    pub(in crate::core) fn on_grant(&mut self, ctx: &mut Ctx, entry: EntryId, granted: Granted) {
        if self.inbox.admit(entry, granted.jobs.len()) {
            for job in granted.jobs {
                self.granted(ctx, entry, job);
            }
        }
        self.grants.has_seen(granted.token);
    }

    fn granted(&mut self, ctx: &mut Ctx, entry: EntryId, granted: GrantedJob) {
        let GrantedJob { key, awaited, mut job } = granted;
        let token = job.record.token;
        if self.knows(&key, token) || self.is_full(ctx) || !self.has_room() {
            return self.assigned(ctx, Some(entry), key, token);
        }
        self.inbox.answered(entry);
        self.answering.begins_a_job();
        let (until, is_counted) = (ctx.now + CONFIRM_AFTER, job.record.begun == Begun::Never);
        if is_counted {
            job.record.begun = Begun::Begun;
        }
        self.grants.unconfirmed.push_back(Unconfirmed { until, key: key.clone(), token, is_counted });
        self.receive(ctx, key.clone(), job);
        let held = self.held.get_mut(&key).filter(|held| held.token == token && !awaited);
        if let Some(held) = held.filter(|held| !held.started_before()) {
            held.first_start = FirstStart::Unawaited;
        }
    }

    /// The worker has read or spoken of this token.
    pub(super) fn has_seen(&self, token: Token) -> bool {
        token <= self.grants.high
    }

    /// Says of granted jobs that they have begun, if their start takes long.
    pub(super) fn confirm_grants(&mut self, ctx: &Ctx) {
        while let Some(first) = self.grants.unconfirmed.front() {
            let waits = self.is_unconfirmed(&first.key, first.token);
            if waits && ctx.now < first.until {
                break;
            }
            let says = waits && first.is_counted && !ctx.config.broken.has(Mutation::GrantsUnconfirmed);
            if let Some(Unconfirmed { key, token, .. }) = self.grants.unconfirmed.pop_front().filter(|_| says)
            {
                self.begins.push(ToBegin { key, token, purpose: Purpose::Confirm, entry: None });
            }
        }
    }

    /// The note of the start of this job is to come.
    fn is_unconfirmed(&self, key: &JobKey, token: Token) -> bool {
        match self.held.get(key).filter(|held| held.token == token) {
            Some(held) => {
                !held.started_before() || matches!(held.phase, JobPhase::Waiting(_) | JobPhase::Starting)
            }
            None => self.succeeds(key, token),
        }
    }
}
