//! A worker's reports about its jobs in phase R, and the answers.

use std::time::Duration;

use bytes::Bytes;
use tenure_steps::letters;

use super::performing::step;
use super::{Outcome, ReleaseMode};
use crate::model::id::{DispatchId, JobKey, Token, WorkerId};
use crate::model::member::Member;
use crate::model::record::Begun;
use crate::model::why::Cause;

/// The most bytes of keys and payloads in one attestation.
pub const ATTEST_BYTES: usize = 256 << 10;

/// A worker's report about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestItem {
    /// The job's key.
    pub key: JobKey,
    /// The token under which the worker has or had it.
    pub token: Token,
    /// The dispatch.
    pub id: DispatchId,
    /// The fate of the job on this worker.
    pub what: Attest,
}

/// The fate of a job in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attest {
    /// Its handler runs or may run.
    Runs {
        /// How far the job has come: it has begun at least.
        begun: Begun,
        /// Begins since the last event that counts as a success.
        attempts: u32,
        /// Server time, ms, at which it was accepted.
        created: u64,
        /// The schedule whose plan dispatched it, or empty.
        plan: String,
        /// The generation of the payload that it runs with.
        generation: u64,
        /// The payload's envelope, only on request.
        payload: Option<Bytes>,
        /// The run is over, and its release found no record: the worker takes the job back, and releases the job again.
        back: bool,
    },
    /// It has ended here, or was stopped.
    Ended {
        /// The outcome of a dispatch with the caller's own id; otherwise empty.
        outcome: Outcome,
        /// It goes on if its record has a later payload, and nobody stops it. `None`: it has ended, whatever its payload.
        unless: Option<LaterPayload>,
    },
    /// The worker gave it up so that it runs again: it needs a worker, or is parked.
    HandedOff(HandedOff),
}

/// A job that has ended goes on if its record has a later payload than this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterPayload {
    /// The generation of the payload that it ended with.
    pub than: u64,
    /// How far the job had come: it had begun at least.
    pub begun: Begun,
    /// Why an operator wants it to rest: [`Cause::Parked`] or [`Cause::Paused`], and the reason. `None`: it is queued.
    pub rest: Option<(Cause, String)>,
}

impl LaterPayload {
    /// As what the job was handed off then.
    pub fn handed_off(&self) -> HandedOff {
        let (mode, cause, error) = match &self.rest {
            Some((cause, reason)) => (ReleaseMode::Park, *cause, reason.clone()),
            None => (ReleaseMode::HandOff, Cause::Updated, String::new()),
        };
        HandedOff { begun: self.begun, mode, cause, attempts: 0, delay: Duration::ZERO, error }
    }
}

/// The state in which a worker gave up a job that must run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOff {
    /// How far the job had come: it had begun at least.
    pub begun: Begun,
    /// The mode of its release: any but [`ReleaseMode::Delete`].
    pub mode: ReleaseMode,
    /// Why it was given up.
    pub cause: Cause,
    /// Its attempts after the release. If they reach the limit, it is parked.
    pub attempts: u32,
    /// The rest of its pause.
    pub delay: Duration,
    /// Why it was parked, if it was.
    pub error: String,
}

letters! {
    /// attest's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AttestReply {
        /// Its record names the worker, and it runs on.
        b'K': Kept,
        /// Its record is lost. Report it again with the payload.
        b'P': SendPayload,
        /// It must end. Its record names the worker, and the key is free only after the worker has released it.
        b'S': MustStop,
        /// It has an owner with a higher token: another worker, or this one after it was outranked. Nothing was
        /// done. The reported run must not go on.
        b'O': Outranked,
        /// Its end is recorded.
        b'E': Ended,
        /// It is queued or parked.
        b'Q': Requeued,
        /// It was handed off and has no record. It is lost, unless another worker reports it.
        b'G': Gone,
        /// There was nothing to do.
        b'-': Nothing,
        /// Its record does not parse, or the report cannot be right. Nothing was done.
        b'X': Unreadable,
        /// Nothing was done, because the jobs before it had as many notifications as one call deletes. Report it
        /// again.
        b'L': Later,
    }
}

/// In phase R, a living worker reports jobs in any order: running, ended and handed-off jobs. Even a call without items makes
/// the worker a member. An unknown worker is adopted under the old id, in the old slot if free. Takes at most
/// [`ATTEST_BYTES`](super::ATTEST_BYTES). In phase N the answer is [`Refusal::Normal`](super::Refusal::Normal).
#[derive(Clone, Debug)]
pub struct AttestJobs {
    /// The reporting worker.
    pub worker: WorkerId,
    /// The worker's entry among the members, as last known.
    pub member: Member,
    /// The reported jobs.
    pub items: Vec<AttestItem>,
}

step!(AttestJobs: "attest" -> Vec<AttestReply>);

/// The worker's final report in phase R: the worker has none of its stored jobs but the reported jobs. Takes a page of the
/// stored jobs, and returns the beginning of the next page. `None`: the report is complete, and the pool no longer waits for
/// the worker.
#[derive(Clone, Debug)]
pub struct Attend {
    /// The reporting worker.
    pub worker: WorkerId,
    /// Where the page begins; `None`: with the first job.
    pub after: Option<JobKey>,
    /// The most jobs of the page.
    pub limit: usize,
}

step!(Attend: "attend" -> Option<JobKey>);
