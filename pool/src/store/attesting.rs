//! The words of a worker in phase R about the jobs in its hands, and the answers.

use std::time::Duration;

use bytes::Bytes;

use super::{Outcome, ReleaseMode};
use crate::id::{DispatchId, JobKey, Token};
use crate::record::Begun;

/// The most bytes of keys and payloads that one attestation takes.
pub const ATTEST_BYTES: usize = 256 << 10;

/// A worker's word about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestItem {
    /// The job's key.
    pub key: JobKey,
    /// The token under which the worker has it, or had it.
    pub token: Token,
    /// The dispatch.
    pub id: DispatchId,
    /// Its fate here.
    pub what: Attest,
}

/// The fate of a job in a worker's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attest {
    /// Its handler runs, or may.
    Runs {
        /// How far it has come; it was begun at least.
        begun: Begun,
        /// Begins since the last success-like event.
        attempts: u32,
        /// Server time, ms, of its acceptance.
        created: u64,
        /// The plan that wanted it, or empty.
        plan: String,
        /// The payload's envelope; sent only when it was asked for.
        payload: Option<Bytes>,
    },
    /// It has ended here, or was stopped.
    Ended {
        /// The outcome of the dispatch, when its id is a caller's own; else empty.
        outcome: Outcome,
    },
    /// It was given up to be run again: it wants a worker, or is parked.
    HandedOn(HandedOn),
}

/// How a job was given up that must run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOn {
    /// How far it had come; it was begun at least.
    pub begun: Begun,
    /// As what it was released; any mode but [`ReleaseMode::Delete`].
    pub mode: ReleaseMode,
    /// The attempts that it was left with. With as many as are allowed it is parked.
    pub attempts: u32,
    /// How long it is to wait still.
    pub delay: Duration,
    /// Why it was parked, if it was.
    pub error: String,
}

/// attest's answer for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttestReply {
    /// `K`: its record names the worker; it runs on.
    Kept,
    /// `P`: its record is lost; to be said again with the payload.
    SendPayload,
    /// `S`: it is to end. Its record names the worker, and the key is free only when the worker has released it.
    MustStop,
    /// `O`: it is owned under a higher token: by another worker, or by this one, which was outranked before. Nothing was
    /// done; what is attested must not run here.
    Outranked,
    /// `E`: that it has ended is known.
    Ended,
    /// `Q`: it is queued, or parked.
    Requeued,
    /// `G`: it was handed on, and has no record: it is lost, unless another worker says that it has it, or had it.
    Gone,
    /// `-`: there was nothing to do.
    Nothing,
    /// `X`: its record does not parse, or what was said of it cannot be right. Nothing was done.
    Unreadable,
    /// `L`: nothing was done, as the jobs before it had as many notifications as one call deletes. To be said again.
    Later,
}
