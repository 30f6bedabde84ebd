//! One request of a user about a job, and its progress.

use bytes::Bytes;

use super::asking::Question;
use super::line::Kind;
use super::steering::Steering;
use super::updating::Update;
use crate::core::ctx::RETRY;
use crate::core::input::{Answer, Until};
use crate::core::time::Time;
use crate::error::Error;
use crate::model::id::{DispatchId, JobKey, WorkerId};
use crate::step::{DispatchItem, STOP_FAILED};

/// The kinds of request about a job. Boxed ones are rare.
#[derive(Debug)]
pub(super) enum Want {
    Stop(Stop),
    /// With the job that is started with it if there is none.
    Notify {
        body: Bytes,
        start: Option<Box<DispatchItem>>,
    },
    /// The dispatch that is parked, and since when, once they are known.
    Unpark(Option<(DispatchId, u64)>),
    Steer(Box<Steering>),
    Update(Box<Update>),
    Ask(Box<Question>),
}

/// A stop on its way.
#[derive(Debug)]
pub(super) struct Stop {
    /// The dispatch to end, once it is known.
    pub(super) id: Option<DispatchId>,
    pub(super) until: Until,
    /// The stop is recorded, and its request waits for the job's end.
    pub(super) watched: bool,
    /// The owner's word that the job has ended: it has come, or is not waited for any longer.
    pub(super) heard: bool,
    /// The error of the stop handler.
    pub(super) failed: Option<String>,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) key: JobKey,
    pub(super) want: Want,
    pub(super) owner: Option<WorkerId>,
    pub(super) deadline: Time,
    /// When the request continues, if it waits for a time.
    pub(super) next: Option<Time>,
    /// The state of the look for its record.
    pub(super) look: Look,
    /// A call without an answer may have carried it out.
    pub(super) in_doubt: bool,
    /// The same, looks counted.
    unanswered: bool,
}

/// How far the look at a job's record has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Look {
    #[default]
    Idle,
    UnderWay,
    /// Under way, and must be repeated: it may be too old.
    Outdated,
}

impl Request {
    pub(super) fn new(key: JobKey, want: Want, owner: Option<WorkerId>, deadline: Time) -> Self {
        let (next, look) = (None, Look::Idle);
        Self { key, want, owner, deadline, next, look, in_doubt: false, unanswered: false }
    }

    /// A call of this kind with it has failed.
    pub(super) fn failed(&mut self, kind: Kind, unanswered: bool) {
        self.unanswered |= unanswered;
        self.in_doubt |= unanswered && !kind.is_look();
        if let Want::Ask(question) = &mut self.want {
            question.failed(unanswered);
        }
    }

    /// Whether an earlier call may have carried it out, if one of this kind is refused.
    pub(super) fn may_be_done(&self, kind: Kind) -> bool {
        match &self.want {
            Want::Ask(question) => kind.is_look() || question.sent,
            Want::Update(_) => self.in_doubt,
            _ => self.unanswered,
        }
    }

    /// Its answer, if it ends with this error.
    pub(super) fn refused(&self, error: Error) -> Answer {
        match &self.want {
            Want::Stop(_) => Answer::Stopped(Err(error)),
            Want::Notify { .. } => Answer::Notified(Err(error)),
            Want::Unpark(_) => Answer::Unparked(Err(error)),
            Want::Steer(_) => Answer::Steered(Err(error)),
            Want::Update(_) => Answer::Updated(Err(error)),
            Want::Ask(question) => Answer::Asked(Err(question.or_unknown(error.into()))),
        }
    }

    /// The owner of a job whose stop is waited for says that it has ended.
    pub(super) fn hears_of_end(&mut self, outcome: &str) {
        if let Want::Stop(stop) = &mut self.want {
            stop.heard = true;
            stop.failed = outcome.strip_prefix(STOP_FAILED).map(str::to_owned).or(stop.failed.take());
        }
    }

    /// The result of a stop whose job is gone. `None`, once: the look has overtaken the owner's word, which may name an
    /// error.
    pub(super) fn end_of_stop(&mut self, now: Time) -> Option<Result<(), Error>> {
        let Want::Stop(stop) = &mut self.want else { return None };
        if let Some(error) = stop.failed.take() {
            return Some(Err(Error::StopFailed { key: self.key.clone(), error }));
        }
        let waits = !std::mem::replace(&mut stop.heard, true) && now + RETRY < self.deadline;
        (!waits).then_some(Ok(()))
    }
}

pub(super) fn bad_record(key: &JobKey) -> Error {
    Error::BadRecord { of: format!("the job {key}") }
}
