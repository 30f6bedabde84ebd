//! The restart of a job whose handler has ended, and the reaction to a handler that outlives its lease.

use serde::{Deserialize, Serialize};

/// Whether the pool restarts a job whose handler has ended or failed. It is stored with the job, so it outlives the
/// worker.
///
/// It does not concern lost workers: a job whose worker died or left always runs again, on another worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RestartPolicy {
    /// The job is gone. This is the default, because the pool cannot know whether failed work may be repeated. Use
    /// [`OnFailure`](Self::OnFailure) for lasting work, such as a connection to a feed.
    #[default]
    Never,
    /// The job is restarted after an error or a panic, with a growing pause. After a clean end it is gone.
    OnFailure,
    /// The job is always restarted. After a clean end this happens after 1 s, so that a job that ends at once does
    /// not spin.
    Always,
}

impl RestartPolicy {
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub(crate) fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// The reaction to a handler that was aborted and still runs after its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FencePolicy {
    /// The node logs an error.
    #[default]
    Report,
    /// The process aborts. Choose this if the outside resource cannot check tokens.
    AbortProcess,
}
