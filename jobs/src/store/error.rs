//! The reasons why a step of the store has no answer.

use std::sync::Arc;

use tenure_steps::Unexpected;

use crate::model::id::Incarnation;

/// A step that has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The set has no data: they were never made, or are lost.
    #[error("the set has no data")]
    NoSet,
    /// The data were lost or went back since: the set lives on in this incarnation. Nothing was done.
    #[error("the set has come to incarnation {0}, nothing was done")]
    Stale(Incarnation),
    /// The server at the other end is not the one that the set was last seen on. Nothing was sent.
    #[error("redis is another server than before ({identity}), nothing was sent")]
    OtherServer {
        /// Its identity.
        identity: Box<str>,
    },
    /// A newer call of the same lane was answered before. Nothing was done.
    #[error("a newer call of this lane came first, nothing was done")]
    Late,
    /// The set has no tokens left: nothing comes in or begins, and running jobs come to an end. Only a hand in the data
    /// brings the counter there. Nothing was done.
    #[error("the set has no tokens left, its counter must be mended first, nothing was done")]
    NoTokens,
    /// The step was not executed, and may succeed later.
    #[error("redis did not execute the step, it may later")]
    NotExecuted(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The step may have been executed. Sent again unchanged, it takes effect once.
    #[error("redis did not answer, the step may have been executed")]
    Unanswered(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The server, the user's rights or the settings must be mended first. Nothing was done.
    #[error("redis cannot be used for jobs, nothing was done")]
    Unusable(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The keys hold something that is not a set's, or an answer has a strange shape. The step was executed.
    #[error("the keys of the set, or an answer, are damaged")]
    Damaged(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

/// The answer of a step.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why something is damaged or unusable.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Reason(String);

impl From<Unexpected> for StoreError {
    fn from(answer: Unexpected) -> Self {
        Self::Damaged(Arc::new(answer))
    }
}

impl StoreError {
    pub(crate) fn unusable(reason: impl Into<String>) -> Self {
        Self::Unusable(Arc::new(Reason(reason.into())))
    }

    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(Arc::new(Reason(reason.into())))
    }
}
