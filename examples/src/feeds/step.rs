//! The steps of the story.

use std::time::Duration;

use super::report::Change;

/// The longest time of a step with this many tenants, settling included. A build without optimisation needs some
/// milliseconds for each.
pub(super) fn deadline(tenants: usize) -> Duration {
    Duration::from_secs(20) + Duration::from_millis(20) * u32::try_from(tenants).unwrap_or(u32::MAX)
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
