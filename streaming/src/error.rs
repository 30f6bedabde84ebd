//! Why a stream could not be read or written.

/// What went wrong with a stream.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The consumer group is gone, perhaps with its stream. Nothing was delivered by this call; what the group had
    /// pending is no longer remembered.
    #[error("the stream {stream} has no group {group}, nothing was delivered")]
    NoGroup {
        /// The stream.
        stream: String,
        /// The group.
        group: String,
    },
    /// An entry has at least one field. Nothing was sent.
    #[error("an entry without fields, nothing was added")]
    NoFields,
    /// Redis did not do it, or did not say whether it did: its error knows which.
    #[error("redis did not complete the call")]
    Redis(#[from] tenure_connection::Error),
    /// The reply is not what the command returns. The call was executed.
    #[error("the reply is no {expected}, the call was executed")]
    Malformed {
        /// What was expected.
        expected: &'static str,
    },
}
