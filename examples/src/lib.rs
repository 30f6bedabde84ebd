//! Runnable stories of Tenure.
//!
//! - [`feeds`]: one live connection per tenant, spread over nodes that come, go and crash; an outside judge watches.
//! - [`drill`]: a rolling deploy under running jobs, with figures and bounds.
//! - [`gateway`]: a reverse proxy that sends each request to the owner of its tenant, and its self-test.
//! - The small stories in `src/bin`: each prints what `README.md` shows.

pub mod drill;
pub mod feeds;
pub mod gateway;

use std::time::Duration;

use bytes::Bytes;

/// Long enough for each step of a story on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A field of an entry as text, for printing.
pub fn text(value: Option<&Bytes>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
}

/// Compiles the programs in the project's README and in its documents, and runs those that need no server.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    pub struct Readme;

    #[doc = include_str!("../../docs/getting-started.md")]
    pub struct GettingStarted;

    #[doc = include_str!("../../docs/background-jobs.md")]
    pub struct BackgroundJobs;

    #[doc = include_str!("../../docs/coming-from-a-lock.md")]
    pub struct ComingFromALock;

    #[doc = include_str!("../../docs/coming-from-bullmq.md")]
    pub struct ComingFromBullmq;

    #[doc = include_str!("../../docs/handlers.md")]
    pub struct Handlers;

    #[doc = include_str!("../../docs/scaling.md")]
    pub struct Scaling;

    #[doc = include_str!("../../docs/how-to/a-tool-for-operators.md")]
    pub struct AToolForOperators;

    #[doc = include_str!("../../docs/how-to/ask-the-owner.md")]
    pub struct AskTheOwner;

    #[doc = include_str!("../../docs/how-to/blocking-work.md")]
    pub struct BlockingWork;

    #[doc = include_str!("../../docs/how-to/change-a-running-job.md")]
    pub struct ChangeARunningJob;

    #[doc = include_str!("../../docs/how-to/consume-an-event-log.md")]
    pub struct ConsumeAnEventLog;

    #[doc = include_str!("../../docs/how-to/health-and-metrics.md")]
    pub struct HealthAndMetrics;

    #[doc = include_str!("../../docs/how-to/kubernetes.md")]
    pub struct Kubernetes;

    #[doc = include_str!("../../docs/how-to/messages-to-a-key.md")]
    pub struct MessagesToAKey;

    #[doc = include_str!("../../docs/how-to/reach-the-owner.md")]
    pub struct ReachTheOwner;

    #[doc = include_str!("../../docs/how-to/restart-on-failure.md")]
    pub struct RestartOnFailure;

    #[doc = include_str!("../../docs/how-to/state-that-survives-a-move.md")]
    pub struct StateThatSurvivesAMove;

    #[doc = include_str!("../../docs/how-to/testing-a-handler.md")]
    pub struct TestingAHandler;

    #[doc = include_str!("../../docs/how-to/testing-jobs.md")]
    pub struct TestingJobs;
}
