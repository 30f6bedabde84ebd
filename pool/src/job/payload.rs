//! The payload of a running job, and another one that its handler is given.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::core::effect::HandedPayload;
use crate::job::typed::{self, DecodeError, Payload};
use crate::model::policy::RestartPolicy;
use crate::model::stop::StopReason;
use crate::model::trace::TraceContext;
use crate::model::wire::{Opened, ProgressTimeout};

/// Another payload for a job that runs, from [`Node::update`](crate::Node::update). The job has it when
/// [`JobHandler::update`](crate::JobHandler::update) has returned `Ok`, or [`Job::updated`](crate::Job::updated) this.
#[derive(Clone, Debug)]
pub struct NewPayload {
    handed: HandedPayload,
}

impl NewPayload {
    pub(crate) fn new(handed: HandedPayload) -> Self {
        Self { handed }
    }

    /// The payload.
    pub fn payload(&self) -> &Bytes {
        &self.handed.payload.body
    }

    /// The payload as a value, for a spec from [`JobSpec::typed`](crate::JobSpec::typed).
    ///
    /// # Errors
    /// The payload is of another type, or cannot be read as this one.
    pub fn decode<T: Payload>(&self) -> Result<T, DecodeError> {
        typed::decode(self.payload_type(), self.payload())
    }

    /// The name of the payload's type; `None` for plain bytes.
    pub fn payload_type(&self) -> Option<&str> {
        self.handed.payload.kind.as_deref()
    }

    /// How often the pool has changed the job's payload, this change included.
    pub fn generation(&self) -> u64 {
        self.handed.generation
    }

    /// Whether the job is restarted when its handler ends or fails, once it has this payload.
    pub fn restart_policy(&self) -> RestartPolicy {
        self.handed.payload.policy
    }

    /// How long it may make no [progress](crate::Job::progress), once it has this payload; `None`: for ever.
    pub fn progress_timeout(&self) -> Option<Duration> {
        self.handed.payload.progress.map(ProgressTimeout::get)
    }

    pub(crate) fn into_opened(self) -> Opened {
        self.handed.payload
    }
}

/// The payload that a job has at present.
#[derive(Debug)]
pub(super) struct Has {
    pub(super) body: Bytes,
    pub(super) kind: Option<Box<str>>,
    pub(super) progress: Option<ProgressTimeout>,
    pub(super) policy: RestartPolicy,
    /// Why the pool ends this job alone. It stands here because a job is small: elsewhere it would take eight bytes.
    pub(super) ends: Option<StopReason>,
}

/// The payload of a job: that of its start, until its handler takes another one.
#[derive(Debug)]
pub(super) struct Present(Mutex<Has>);

impl Present {
    /// The payload, and the trace that came with it.
    pub(super) fn new(payload: Opened) -> (Self, Option<Box<TraceContext>>) {
        let (has, trace) = Has::of(payload);
        (Self(Mutex::new(has)), trace)
    }

    pub(super) fn has(&self) -> MutexGuard<'_, Has> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn replace(&self, payload: Opened) {
        let mut has = self.has();
        *has = Has { ends: has.ends, ..Has::of(payload).0 };
    }

    /// The pool ends the job, for this reason. The first one stays.
    pub(super) fn end(&self, why: StopReason) {
        self.has().ends.get_or_insert(why);
    }
}

impl Has {
    fn of(payload: Opened) -> (Self, Option<Box<TraceContext>>) {
        let Opened { body, policy, progress, trace, kind } = payload;
        (Self { body, kind, progress, policy, ends: None }, trace)
    }
}
