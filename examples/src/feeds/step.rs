//! The steps of the story, and their failures.

use std::time::Duration;

use tenure_pool::BoxError;

use super::report::Change;
use super::stage::StageError;

/// The longest time of a step with this many tenants, settling included. A build without optimisation needs some
/// milliseconds for each.
pub(super) fn deadline(tenants: usize) -> Duration {
    Duration::from_secs(20) + Duration::from_millis(20) * u32::try_from(tenants).unwrap_or(u32::MAX)
}

/// The story broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoryError {
    /// A step was not completed in time.
    #[error(
        "{step}: not done within {} s, waited for {awaited}; an optimised build carries more tenants (make demo RELEASE=1)",
        within.as_secs()
    )]
    Deadline {
        /// The step.
        step: &'static str,
        /// The time that it had.
        within: Duration,
        /// The awaited condition.
        awaited: String,
    },
    /// The stage failed.
    #[error("{step}: the stage failed")]
    Stage {
        /// The step.
        step: &'static str,
        /// The reason.
        source: StageError,
    },
    /// A tenant's job could not be handled.
    #[error("{step}: tenant {tenant} failed")]
    Tenant {
        /// The step.
        step: &'static str,
        /// The tenant.
        tenant: String,
        /// The reason.
        source: BoxError,
    },
}

/// A step; the variants are in the order of the story.
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

/// A failure within a step, without the step's name.
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
