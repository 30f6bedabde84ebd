//! Why a consumer does not go on, and why a source, a log or a store of progress did not do its part.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use tenure_connection::Class;

/// Any error, as handlers return it.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Any error that several may look at.
pub type SharedError = Arc<dyn StdError + Send + Sync>;

/// Why a consumer did not start, or has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting cannot be used. Nothing was started.
    #[error("the setting {name} {why}; nothing was started")]
    Setting {
        /// Its name in [`Builder`](crate::Builder).
        name: &'static str,
        /// Its bounds.
        why: &'static str,
    },
    /// The consumer was started before. It runs on as it was.
    #[error("the consumer was started before, and goes on as it was")]
    AlreadyStarted,
    /// The consumer has ended, or was stopped before its start. Nothing was done.
    #[error("the consumer has ended, nothing was done")]
    Ended,
    /// A job has failed for good. It does not count as done: the stored progress stays below it, and the next start
    /// begins with it at the latest.
    #[error("job {index} has failed for good at attempt {attempts}, and is not done")]
    Job {
        /// Its index.
        index: u64,
        /// How often it was tried.
        attempts: u32,
        /// Whether its handler said so ([`Irrecoverable`]): no further attempt can succeed.
        irrecoverable: bool,
        /// The last error.
        source: SharedError,
    },
    /// A notification, the source or the store of progress has panicked. Jobs above the stored progress run again.
    #[error("{who} panicked ({text}); what is not stored runs again")]
    Panicked {
        /// The owner of the code.
        who: &'static str,
        /// The text of the panic.
        text: Arc<str>,
    },
    /// The source cannot give the next job, and never will. No job was left out.
    #[error("the source cannot go on, and no job was left out")]
    Source(#[source] SourceError),
    /// The progress could not be read, or cannot be stored any more.
    #[error("the progress cannot be kept, and what is not stored runs again")]
    Progress(#[source] ProgressError),
    /// The consumer has ended before its last progress was stored. The jobs in between run again.
    #[error("all jobs up to {done} are done, but only {stored} is stored; the rest runs again")]
    NotSaved {
        /// The progress.
        done: u64,
        /// The progress that is stored for sure.
        stored: u64,
        /// The last trouble, if there was any.
        source: Option<ProgressError>,
    },
}

/// Why a source did not give a job.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It may work later. The consumer looks again after a pause.
    #[error("the source is out of reach, and nothing has begun")]
    Unavailable(#[source] SharedError),
    /// There was no answer in time. The consumer looks again after a pause, for half as many jobs.
    #[error("the source did not answer in time, and nothing has begun")]
    TimedOut(#[source] SharedError),
    /// The job is gone for good: its log was trimmed. The consumer ends, because it would have to leave it out.
    #[error("job {index} is gone, the first one left is {}", .left.map_or("unknown".to_owned(), |left| left.to_string()))]
    Gone {
        /// The index that is asked for.
        index: u64,
        /// The first index that is left, if one is known.
        left: Option<u64>,
    },
    /// It will never work again. The consumer ends.
    #[error("the source cannot be used any more")]
    Broken(#[source] SharedError),
}

impl SourceError {
    /// An error that may pass.
    pub fn unavailable(source: impl Into<BoxError>) -> Self {
        Self::Unavailable(source.into().into())
    }

    /// An answer that did not come in time.
    pub fn timed_out(source: impl Into<BoxError>) -> Self {
        Self::TimedOut(source.into().into())
    }

    /// An error that stays.
    pub fn broken(source: impl Into<BoxError>) -> Self {
        Self::Broken(source.into().into())
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::TimedOut(_))
    }
}

/// Why progress was not read or stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// It may work later. The consumer tries again after a pause, with the newest progress. It may have been stored.
    #[error("the store of progress is out of reach; the progress may have been stored")]
    Unavailable(#[source] SharedError),
    /// A later owner has claimed the progress. Nothing was stored, and this consumer has to end.
    #[error(
        "a later owner has the progress, with token {}; nothing was stored",
        .by.map_or("unknown".to_owned(), |by| by.to_string())
    )]
    Fenced {
        /// The later owner's token, if it is known.
        by: Option<u64>,
    },
    /// The store has something that is no progress, or is broken. Nothing was stored.
    #[error("the store of progress cannot be used, and nothing was stored")]
    Broken(#[source] SharedError),
}

impl ProgressError {
    /// An error that may pass.
    pub fn unavailable(source: impl Into<BoxError>) -> Self {
        Self::Unavailable(source.into().into())
    }

    /// An error that stays.
    pub fn broken(source: impl Into<BoxError>) -> Self {
        Self::Broken(source.into().into())
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// Says that no further attempt of a job can succeed. A handler returns it as its error: whatever the retry policy, the
/// consumer ends, and the job is not done.
///
/// It may be the cause of another error, as [`source`](StdError::source) tells. `anyhow::Error` hides one that it was made
/// of: return it without that.
#[derive(Debug)]
pub struct Irrecoverable(BoxError);

impl Irrecoverable {
    /// For this reason.
    pub fn new(why: impl Into<BoxError>) -> Self {
        Self(why.into())
    }

    /// Whether it is this error, or a cause of it.
    pub(crate) fn is_in(error: &(dyn StdError + 'static)) -> bool {
        std::iter::successors(Some(error), |&error| error.source()).any(<dyn StdError>::is::<Self>)
    }
}

impl fmt::Display for Irrecoverable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Irrecoverable {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// A handler that has panicked.
#[derive(Debug, thiserror::Error)]
#[error("the handler panicked: {0}")]
pub(crate) struct HandlerPanicked(pub(crate) String);

/// An attempt that has not ended in its time.
#[derive(Debug, thiserror::Error)]
#[error("the attempt did not end within {0:?}, and was dropped")]
pub(crate) struct TooLong(pub(crate) std::time::Duration);

/// A call that has not ended in its time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
pub(crate) struct NoAnswer(pub(crate) std::time::Duration);

/// Whether an error of Redis stays, whatever happens outside of this process. A password, a right or a certificate may be
/// put right, and a server may come back.
pub(crate) fn stays(error: &tenure_connection::Error) -> bool {
    matches!(error.class(), Class::Raised | Class::Unusable | Class::Config)
}

/// An error with its causes, in one text.
pub(crate) fn whole(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.map(ToString::to_string).fold(error.to_string(), |text, cause| {
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// The text of a panic.
pub(crate) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_with_its_causes_once() {
        let error = Error::Source(SourceError::unavailable("the disk is away"));
        let text = "the source cannot go on, and no job was left out: the source is out of reach, and nothing has \
                    begun: the disk is away";
        assert_eq!(whole(&error), text);
        let job = Irrecoverable::new("no such type");
        let error = Error::Job { index: 3, attempts: 1, irrecoverable: true, source: Arc::new(job) };
        assert_eq!(whole(&error), "job 3 has failed for good at attempt 1, and is not done: no such type");
    }
}
