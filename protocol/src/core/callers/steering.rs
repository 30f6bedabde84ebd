//! Steers of single jobs: one begins now, ends where it runs and begins anew, is parked, paused or resumed.
//!
//! The record is looked at first, because the step names what was seen. So a late copy finds another record and does
//! nothing. The owner of a running job is only told, and tells nobody: the record shows what has become of the run. Until
//! then the record is looked at again and again, and the owner is told once more each [`AGAIN`].
//!
//! A word must not undo what somebody has wanted since. Two looks tell whether what is wanted has come to pass in between,
//! and is undone again. The word is done then, whoever carried it out.

use std::time::Duration;

use super::line::Kind;
use super::request::{Request, Want, bad_record};
use super::requests::{Requests, SMALL};
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::input::ReplyTo;
use crate::core::time::Time;
use crate::error::Error;
use crate::model::id::{DispatchId, Token};
use crate::model::paused::Paused;
use crate::model::record::{JobState, Record};
use crate::model::why::Cause;
use crate::step;
use crate::step::{SteerItem, SteerReply, Way};

/// How often an owner is told that has not ended the run.
const AGAIN: Duration = Duration::from_secs(1);
/// The first pause between two looks at a job whose owner is told. Each further one is twice as long, up to [`AGAIN`].
const FIRST: Duration = Duration::from_millis(50);

/// A steer of a job, on its way.
#[derive(Debug)]
pub(super) struct Steering {
    way: Way,
    /// Why it is parked or paused.
    reason: String,
    /// The stretch of the job's life that was seen first: its dispatch, its token, and whether it ran.
    first: Option<(DispatchId, Token, bool)>,
    /// The record as it was seen last, if the word was sent then.
    seen: Option<Seen>,
    /// When the owner was told last, of this run.
    told: Option<(Token, Time)>,
    /// How often the record was looked at since.
    looks: u32,
}

/// A job's record at one look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// With the time since when, it names one stretch of the job's life.
    token: Token,
    since: u64,
    state: JobState,
    /// Why the job is where it is. It keeps this until it leaves the worker that runs it next.
    cause: Option<Cause>,
    /// When its pause is over, by the store's clock, ms.
    pause_end: Option<u64>,
}

impl Seen {
    fn of(record: &Record) -> Self {
        let Record { token, since, state, .. } = *record;
        let cause = record.why().map(|why| why.cause);
        Self { token, since, state, cause, pause_end: record.paused_until() }
    }
}

impl Requests {
    /// The record of the job, looked at.
    pub(super) fn on_record_to_steer(&mut self, ctx: &mut Ctx, to: ReplyTo, record: &Record) {
        let Some(request) = self.open.get_mut(&to) else { return };
        let Want::Steer(steering) = &mut request.want else { return };
        let runs = record.state == JobState::Running;
        let first = (record.id.clone(), record.token, runs);
        let (id, token, ran) = steering.first.get_or_insert(first);
        let went_on = record.token != *token || *ran && !runs;
        if record.id != *id || record.state == JobState::Stopping {
            return self.refuse(ctx, to, Error::JobNotFound);
        }
        let (waits, is_paused) =
            (matches!(record.state, JobState::Queued | JobState::Parked), record.is_paused());
        match steering.way {
            Way::Pause if record.is_paused_for(&steering.reason) => return self.done(ctx, to),
            _ if steering.was_done(record) => return self.done(ctx, to),
            Way::Home | Way::Elsewhere if went_on => return self.done(ctx, to),
            Way::Now if went_on && (is_paused || !waits) => return self.done(ctx, to),
            // Its pause is there, or is over sooner than is wanted.
            Way::Resume | Way::Pause if is_paused => {}
            Way::Resume if record.state == JobState::Parked => return self.refuse(ctx, to, Error::Parked),
            Way::Resume => return self.done(ctx, to),
            _ if is_paused => return self.refuse(ctx, to, Error::Paused),
            Way::Park if record.state == JobState::Parked => return self.done(ctx, to),
            Way::Now if !waits => return self.refuse(ctx, to, Error::NotWaiting),
            Way::Home | Way::Elsewhere if record.state == JobState::Parked => {
                return self.refuse(ctx, to, Error::Parked);
            }
            _ => {}
        }
        steering.seen = Some(Seen::of(record));
        request.owner = record.owner;
        match steering.told {
            Some((token, at)) if runs && token == record.token && ctx.now < at + AGAIN => {
                let look = (ctx.now + steering.pause()).min(at + AGAIN);
                self.wait_until(to, Some(look));
            }
            _ => self.push(Kind::Steer, to),
        }
    }

    pub(super) fn on_steered(&mut self, ctx: &mut Ctx, to: ReplyTo, reply: SteerReply) {
        let Some(Request { want: Want::Steer(steering), .. }) = self.open.get_mut(&to) else { return };
        match reply {
            SteerReply::Told => {
                let told = steering.seen.map(|seen| (seen.token, ctx.now));
                (steering.told, steering.looks) = (told, 0);
                let pause = steering.pause();
                self.wait_until(to, Some(ctx.now + pause));
            }
            SteerReply::Parked | SteerReply::Paused
                if steering.is_done_at_rest(reply == SteerReply::Paused) =>
            {
                self.done(ctx, to);
            }
            SteerReply::Paused if steering.way != Way::Pause => self.refuse(ctx, to, Error::Paused),
            SteerReply::Parked if steering.way != Way::Park => self.refuse(ctx, to, Error::Parked),
            SteerReply::Queued | SteerReply::Parked | SteerReply::Paused => self.done(ctx, to),
            SteerReply::Changed => self.wait_until(to, Some(ctx.now + FIRST)),
            SteerReply::Stopping | SteerReply::Absent => self.refuse(ctx, to, Error::JobNotFound),
            SteerReply::Recovering => self.retry(ctx, to),
            SteerReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
        }
    }

    pub(super) fn flush_steers(&mut self, ctx: &mut Ctx) {
        let item = |request: &mut Request| {
            let Request { key, want: Want::Steer(steering), owner, .. } = request else { return None };
            let (id, ..) = steering.first.clone()?;
            let Seen { token, since, pause_end, .. } = steering.seen?;
            let way = steering.way;
            // A pause that is made longer meanwhile is another one.
            let ends = || pause_end.map(|end| Paused::text("", Some(end), "")).unwrap_or_default();
            let reason = if way == Way::Resume { ends() } else { steering.reason.clone() };
            Some(SteerItem { key: key.clone(), id, token, since, way, guess: *owner, reason })
        };
        self.send(ctx, Kind::Steer, SMALL, item, |_, items| Call::Steer(step::Steer { items }));
    }
}

impl Steering {
    pub(super) fn new(way: Way, reason: String) -> Self {
        Self { way, reason, first: None, seen: None, told: None, looks: 0 }
    }

    /// Whether what is wanted has come to pass since the last look. It may be undone by now.
    fn was_done(&self, record: &Record) -> bool {
        let now = Seen::of(record);
        // One from before it shows that the data went back.
        let is_later = |before: &Seen| {
            (before.token, before.since) != (now.token, now.since) && before.since <= now.since
        };
        let Some(before) = self.seen.filter(is_later) else { return false };
        let waited = matches!(before.state, JobState::Queued | JobState::Assigned);
        let is_new = |cause| now.cause == Some(cause) && !(waited && before.cause == now.cause);
        match self.way {
            // It is sent to a paused job only, and nothing else takes such a job out of its rest.
            Way::Resume => true,
            // Of the pauses that are over, one that ended sooner was another one.
            Way::Pause => {
                let is_over = Paused::end_of(&self.reason).is_some_and(|end| end <= now.since);
                is_new(Cause::Resumed) || is_new(Cause::PauseOver) && is_over
            }
            Way::Park => is_new(Cause::Unparked),
            Way::Now => before.state == JobState::Parked && !record.is_paused(),
            Way::Home | Way::Elsewhere => false,
        }
    }

    /// Whether it is done, because the job rests by now: paused or parked.
    fn is_done_at_rest(&self, is_paused: bool) -> bool {
        match self.way {
            // It was paused when it was looked at, so somebody has resumed it.
            Way::Resume => !is_paused,
            Way::Home | Way::Elsewhere => self.first.as_ref().is_some_and(|(_, _, ran)| *ran),
            Way::Now | Way::Park | Way::Pause => false,
        }
    }

    /// How long to wait for the owner.
    fn pause(&mut self) -> Duration {
        let pause = FIRST * (1 << self.looks.min(4));
        self.looks += 1;
        pause
    }
}
