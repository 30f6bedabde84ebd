//! Logs: sources that one appends to. A log gives each body the next index.
//!
//! A log may also be the output of a consumer and the source of the next one. `append_for` appends once for each input,
//! however often its job runs.

mod bell;
pub(crate) mod memory;
pub(crate) mod redis;

use std::ops::Range;

/// The result of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The indexes of the bodies.
    pub indexes: Range<u64>,
    /// Whether an earlier attempt of the same input has appended them. Nothing was appended now.
    pub repeated: bool,
}

/// A log that ends before what was read of it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the log ends at {head}, before {read}: it has lost its last bodies, or the progress is not of this log, such as a \
     default index above its head; forget the progress and store the last index that is known to be good, before its \
     consumer starts again"
)]
pub(crate) struct Below {
    /// The last index of the log.
    pub(crate) head: u64,
    /// The index up to which it was read.
    pub(crate) read: u64,
}

/// Why nothing was appended to a log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Too many bodies in one call, or too long ones. Nothing was sent.
    #[error("{is} {what} in one call, at most {limit} are allowed; nothing was appended")]
    TooLarge {
        /// The thing that is counted.
        what: &'static str,
        /// The actual number.
        is: usize,
        /// The limit.
        limit: usize,
    },
    /// The index of the input is above 2^53. Nothing was sent.
    #[error("the input {input} is above 2^53; nothing was appended")]
    InputTooHigh {
        /// The input.
        input: u64,
    },
    /// The input was done for good before, and what was appended for it is not known any more. This is the word of a
    /// former owner, which comes late. Nothing was appended.
    #[error("all inputs up to {floor} are done for good, so nothing was appended for input {input}")]
    Late {
        /// The input.
        input: u64,
        /// The input up to which the feeding consumer has stored its progress.
        floor: u64,
    },
    /// Redis did not execute the call, or did not say whether it did; its error tells which.
    #[error("redis did not complete the call")]
    Redis(#[from] tenure_connection::Error),
    /// The log's keys hold something else than a log. Nothing was appended.
    #[error("what is stored is no log, nothing was appended")]
    Damaged,
}
