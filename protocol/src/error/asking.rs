//! The errors of an ask: what is known of it.

use super::Error;

/// Why an ask has no answer. A caller that branches on it has three cases: nobody handled it, the handler refused it, or
/// nobody knows. As with [`Error`], its text is complete.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No handler was given it, nor will be. Asking again is safe.
    #[error("nobody was asked: {0}")]
    NotHandled(NotHandled),
    /// The handler refused it, with these words.
    #[error("the job's handler refuses: {0}")]
    Refused(String),
    /// A handler may have been given it. Ask again only what may be done twice.
    #[error("the ask {id} has no answer, it may have been handled")]
    Unknown {
        /// The id under which its handler knows it (`Ask::id`).
        id: String,
    },
    /// The call itself is at fault, or the node cannot ask. No handler was given it, nor will be.
    #[error("nobody was asked: {0}")]
    Failed(Error),
}

/// Why no handler was given an ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotHandled {
    /// There is no job with this key. `or_start` starts one.
    #[error("no job has this key")]
    NoJob,
    /// The job is being stopped.
    #[error("the job is being stopped")]
    Stopping,
    /// The job failed too often and is parked.
    #[error("the job is parked")]
    Parked,
    /// An operator has paused the job.
    #[error("the job is paused")]
    Paused,
    /// Too many asks wait for the job or for its worker.
    #[error("too many asks wait for the job")]
    Busy,
    /// The job's handler takes no asks.
    #[error("the job's handler takes no asks")]
    TakesNone,
    /// Its deadline has passed before its job could be asked.
    #[error("its deadline has passed")]
    Late,
}

impl From<Error> for AskError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_is_known_of_the_ask() {
        assert_eq!(
            AskError::NotHandled(NotHandled::Parked).to_string(),
            "nobody was asked: the job is parked"
        );
        assert_eq!(AskError::from(Error::NodeClosed).to_string(), "nobody was asked: the node is closed");
        let unknown = AskError::Unknown { id: "order-17".into() }.to_string();
        assert_eq!(unknown, "the ask order-17 has no answer, it may have been handled");
    }
}
