//! Reasons why a handler is asked to end its job.

/// Why `JobHandler::stop` is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The job was stopped by `Node::stop_job`.
    Stopped,
    /// The key now belongs to another worker.
    Moved,
    /// The job was given another payload (`Node::update`), which its handler
    /// has not taken while it ran. It starts again with it.
    Updated,
    /// An operator has it run elsewhere or start anew (`Operator::bounce`).
    Bounced,
    /// It was parked by `Operator::park`: nobody runs it before it is retried.
    Parked,
    /// It was paused by `Operator::pause`: nobody runs it before it is resumed.
    Paused,
    /// The worker is leaving.
    Draining,
    /// The pool is shutting down.
    Shutdown,
    /// The lease was lost. Another worker may take the job soon, so end at once.
    LeaseLost,
    /// The start took too long.
    StartTimeout,
    /// The job made no progress for its `progress_timeout`. It runs again, after a
    /// pause.
    Stalled,
}

impl StopReason {
    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Moved => "moved",
            Self::Updated => "updated",
            Self::Bounced => "bounced",
            Self::Parked => "parked",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Shutdown => "shutdown",
            Self::LeaseLost => "lease_lost",
            Self::StartTimeout => "start_timeout",
            Self::Stalled => "stalled",
        }
    }
}
