//! One request of a user about a job, and its progress.

use bytes::Bytes;

use super::steering::Steering;
use crate::core::ctx::RETRY;
use crate::core::input::{ReplyTo, Until};
use crate::core::time::Time;
use crate::error::Error;
use crate::model::id::{DispatchId, Incarnation, JobKey, WorkerId};
use crate::store::{DispatchItem, STOP_FAILED};

/// The kinds of request about a job.
#[derive(Clone, Debug)]
pub(super) enum Want {
    Stop(Stop),
    Notify {
        body: Bytes,
        start: Option<Box<Starting>>,
    },
    Unpark(Unpark),
    /// Boxed: most requests are none.
    Steer(Box<Steering>),
}

/// The job that is started with a notification if there is none.
#[derive(Clone, Debug)]
pub(super) struct Starting {
    pub(super) item: DispatchItem,
    /// A call without an answer may have accepted it.
    pub(super) in_doubt: bool,
}

/// A stop on its way.
#[derive(Clone, Debug)]
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
    /// A call without an answer may have carried it out.
    pub(super) in_doubt: bool,
}

impl Stop {
    pub(super) fn new(id: Option<DispatchId>, until: Until) -> Self {
        Self { id, until, watched: false, heard: false, failed: None, in_doubt: false }
    }
}

/// An un-parking on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Unpark {
    /// The dispatch that is parked, and since when, once they are known.
    pub(super) parked: Option<(DispatchId, u64)>,
    /// A call without an answer may have carried it out.
    pub(super) in_doubt: bool,
}

#[derive(Clone, Debug)]
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
    pub(super) unanswered: bool,
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
        Self { key, want, owner, deadline, next: None, look: Look::Idle, unanswered: false }
    }

    /// The bytes that it brings into a call, besides its key.
    pub(super) fn bytes(&self) -> usize {
        match &self.want {
            Want::Notify { body, start } => {
                body.len() + start.as_ref().map_or(0, |start| start.item.payload.len())
            }
            _ => 0,
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

/// The request of each item of a call in flight, in order.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub(super) finds: Vec<ReplyTo>,
    pub(super) stops: Vec<ReplyTo>,
    pub(super) notes: Vec<ReplyTo>,
    pub(super) starts: Vec<ReplyTo>,
    pub(super) unparks: Vec<ReplyTo>,
    pub(super) steers: Vec<ReplyTo>,
    /// The incarnation that the records are looked for in, if it was in phase N by then.
    pub(super) settled_in: Option<Incarnation>,
}

pub(super) fn bad_record(key: &JobKey) -> Error {
    Error::BadRecord { of: format!("the job {key}") }
}
