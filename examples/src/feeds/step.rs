//! The steps of the story, and how one fails.

use std::time::Duration;

use tenure_pool::BoxError;

use super::report::Change;
use super::stage::StageError;

/// How long a step may take with so many tenants, settling included: a build that is not optimised needs some
/// milliseconds for each.
pub(super) fn deadline(tenants: usize) -> Duration {
    Duration::from_secs(20) + Duration::from_millis(20) * u32::try_from(tenants).unwrap_or(u32::MAX)
}

/// Why the story broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoryError {
    /// A step was not done in time.
    #[error(
        "{step}: not done within {} s, waited for {awaited}; an optimised build carries more tenants (make demo RELEASE=1)",
        within.as_secs()
    )]
    Deadline {
        /// The step.
        step: &'static str,
        /// How long it had.
        within: Duration,
        /// What was awaited.
        awaited: String,
    },
    /// The stage failed.
    #[error("{step}: the stage failed")]
    Stage {
        /// The step.
        step: &'static str,
        /// Why.
        source: StageError,
    },
    /// A tenant's job could not be handled.
    #[error("{step}: tenant {tenant} failed")]
    Tenant {
        /// The step.
        step: &'static str,
        /// The tenant.
        tenant: String,
        /// Why.
        source: BoxError,
    },
}

/// A step, in the order in which they are played.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Submit,
    Add,
    Drain,
    Kill,
    Restart,
    Stop,
    Notify,
}

impl Step {
    pub(super) const ALL: [Self; 7] =
        [Self::Submit, Self::Add, Self::Drain, Self::Kill, Self::Restart, Self::Stop, Self::Notify];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Add => "add",
            Self::Drain => "drain",
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::Stop => "stop",
            Self::Notify => "notify",
        }
    }

    pub(super) fn change(self) -> Change {
        match self {
            Self::Submit | Self::Stop | Self::Notify => Change::None,
            Self::Add | Self::Drain | Self::Restart => Change::HandOff,
            Self::Kill => Change::Crash,
        }
    }
}

/// What went wrong in a step, before it is said in which.
pub(super) enum Failure {
    Stage(StageError),
    Tenant(String, BoxError),
}

impl Failure {
    pub(super) fn of(self, step: Step) -> StoryError {
        let step = step.name();
        match self {
            Self::Stage(source) => StoryError::Stage { step, source },
            Self::Tenant(tenant, source) => StoryError::Tenant { step, tenant, source },
        }
    }
}

impl<E: Into<StageError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Stage(error.into())
    }
}
