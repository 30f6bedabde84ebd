//! Words of a handler about its job, a notification or an update, as errors that it returns.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::error::{BoxError, whole};

/// The shortest pause before a refused notification comes again, so that an instant refusal does not spin.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(240);

/// Says that the job has ended, and that its handler is not the cause. Return it as an error of the job's future, or
/// in [`Start::Failed`](crate::Start::Failed). [`RestartPolicy`](crate::RestartPolicy) has no say then. While a running
/// job ends as ordered, the order counts, and this is an error like any other.
///
/// The pool finds a `JobEnd` only where it is the boxed error itself, not the cause of another one.
///
/// ```
/// use tenure_pool::{BoxError, Job, JobEnd};
///
/// /// Its exit code; `None` if a signal has killed it.
/// async fn run_encoder(_: &str) -> Result<Option<i32>, BoxError> {
///     Ok(Some(0))
/// }
///
/// async fn encode(job: Job) -> Result<(), BoxError> {
///     let payload = job.payload();
///     let Ok(settings) = std::str::from_utf8(&payload) else {
///         return Err(JobEnd::Park("the payload is no text".into()).into());
///     };
///     match run_encoder(settings).await? {
///         Some(0) => Ok(()),
///         Some(code) => Err(format!("the encoder failed with {code}").into()),
///         None => Err(JobEnd::Lost("a signal has killed the encoder".into()).into()),
///     }
/// }
/// # let _ = encode;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEnd {
    /// Others have ended the job, for this reason: a process that it needs was killed, a device is gone. It runs again
    /// whatever its policy says. The first time it does so at once, and then after growing pauses. The attempt counts,
    /// so a job that is lost each time is parked.
    Lost(String),
    /// No further attempt can succeed, for this reason. The job is parked at once, and this attempt does not count.
    /// A dispatch that waits for the first start gets [`DispatchError::Parked`](crate::DispatchError::Parked).
    Park(String),
}

impl fmt::Display for JobEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(why) | Self::Park(why) => f.write_str(why),
        }
    }
}

impl Error for JobEnd {}

/// Refuses a notification for now. Return it as the error of [`JobHandler::notify`](crate::JobHandler::notify). The
/// notification comes again after the pause, and the later ones of the job wait behind it. A pause has 10 ms at least
/// and 4 minutes at most.
///
/// If the job moves or starts again meanwhile, its next owner gets the notification without a pause.
/// [`Job::refusals`](crate::Job::refusals) says how often the present one was refused.
///
/// ```
/// use std::time::Duration;
///
/// use bytes::Bytes;
/// use tenure_pool::job::NotYet;
/// use tenure_pool::{BoxError, Job, JobHandler, Start};
///
/// struct Bookings;
///
/// async fn book(_: &Bytes) -> Result<(), BoxError> {
///     Err("the ledger is closed".into())
/// }
///
/// impl JobHandler for Bookings {
///     async fn start(&self, _: Job) -> Start {
///         Start::Started
///     }
///     async fn notify(&self, job: &Job, body: Bytes) -> Result<(), BoxError> {
///         match book(&body).await {
///             Err(error) if job.refusals() < 10 => {
///                 Err(NotYet::after(Duration::from_secs(5)).because(error).into())
///             }
///             result => result,
///         }
///     }
/// }
/// ```
#[derive(Debug)]
#[must_use = "nothing is refused until it is returned"]
pub struct NotYet {
    pause: Duration,
    why: Option<BoxError>,
}

impl NotYet {
    /// The notification comes again after this pause.
    pub fn after(pause: Duration) -> Self {
        Self { pause: pause.clamp(PAUSE_MIN, PAUSE_MAX), why: None }
    }

    /// Why, for the log.
    pub fn because(self, why: impl Into<BoxError>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    /// The reason, or an empty text.
    pub(crate) fn why(&self) -> String {
        self.why.as_deref().map(|why| whole(why)).unwrap_or_default()
    }
}

impl fmt::Display for NotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused for {} s", self.pause.as_secs_f64())
    }
}

impl Error for NotYet {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.why.as_deref().map(|why| why as &(dyn Error + 'static))
    }
}

/// Says that a running job cannot take another payload as it is, and starts again with it. Return it as the error of
/// [`JobHandler::update`](crate::JobHandler::update). Unlike other errors it is not logged.
///
/// ```
/// use tenure_pool::job::{NewPayload, Restart};
/// use tenure_pool::{BoxError, Job, JobHandler, Start};
///
/// struct Feeds;
///
/// impl JobHandler for Feeds {
///     async fn start(&self, _: Job) -> Start {
///         Start::Started
///     }
///     async fn update(&self, job: &Job, new: NewPayload) -> Result<(), BoxError> {
///         if new.payload().first() != job.payload().first() {
///             return Err(Restart.into()); // another server: connect anew
///         }
///         Ok(())
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart;

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job starts again with its other payload")
    }
}

impl Error for Restart {}

/// A handler takes no updates. That is what it says unless it has a method of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakesNone;

impl fmt::Display for TakesNone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Restart.fmt(f)
    }
}

impl Error for TakesNone {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_a_pause_within_its_bounds_and_a_reason() {
        let refusal = NotYet::after(Duration::ZERO).because("closed");
        assert_eq!((refusal.pause(), refusal.why()), (PAUSE_MIN, "closed".to_owned()));
        assert_eq!(NotYet::after(Duration::MAX).pause(), PAUSE_MAX);
        assert_eq!(whole(&refusal), "refused for 0.01 s: closed");
    }
}
