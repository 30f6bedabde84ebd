//! Reasons why a handler is asked to end its job.

/// Why [`JobHandler::stop`](crate::JobHandler::stop) is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The job was stopped by [`Node::stop_job`](crate::Node::stop_job).
    Stopped,
    /// The key now belongs to another worker.
    Moved,
    /// The job was given another payload ([`Node::update`](crate::Node::update)), which its handler
    /// has not taken while it ran. It starts again with it.
    Updated,
    /// An operator has it run elsewhere or start anew ([`Node::bounce`](crate::Node::bounce)).
    Bounced,
    /// It was parked by [`Node::park`](crate::Node::park): nobody runs it before it is retried.
    Parked,
    /// It was paused by [`Node::pause`](crate::Node::pause): nobody runs it before it is resumed.
    Paused,
    /// The worker is leaving.
    Draining,
    /// The pool is shutting down.
    Shutdown,
    /// The lease was lost. Another worker may take the job soon, so end at once.
    LeaseLost,
    /// The start took too long.
    StartTimeout,
    /// The job made no progress for its [`progress_timeout`](crate::JobSpec::progress_timeout). It runs again, after a
    /// pause.
    Stalled,
}
