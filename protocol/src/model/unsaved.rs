//! Why a checkpoint was not kept.

/// Why a checkpoint was not kept. The job's next owner gets an earlier one, if there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSaved {
    /// It is too long. The pool keeps the one before.
    #[error("the checkpoint has {len} bytes, and the pool keeps {max} at most; it was not saved")]
    TooLong {
        /// Its length, bytes.
        len: usize,
        /// The pool's `checkpoint_max`.
        max: usize,
    },
    /// The value cannot be encoded. Nothing was sent.
    #[error("the checkpoint cannot be encoded: {0}; it was not saved")]
    Encoding(String),
    /// The store refuses it, for example because its memory is full, and the job must end. The pool tries once more
    /// before it hands the job on.
    #[error("the store refuses the checkpoint: {0}; the job must end, and may leave before it is saved")]
    Refused(String),
    /// The job has ended, or another worker has it by now.
    #[error("the job left this worker before the checkpoint was saved")]
    JobGone,
}

impl NotSaved {
    /// The name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "too_long",
            Self::Encoding(_) => "encoding",
            Self::Refused(_) => "refused",
            Self::JobGone => "gone",
        }
    }
}
