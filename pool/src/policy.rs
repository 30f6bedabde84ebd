//! What becomes of a job that is at its own end.

use serde::{Deserialize, Serialize};

/// What becomes of a job whose handler has ended or failed by itself. Kept with the job, so that it outlives its worker.
///
/// It says nothing about lost workers: a job whose worker died or left is always run again, by another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RestartPolicy {
    /// The job is gone. The default, since the pool cannot know whether work that failed may be repeated. Work that is to
    /// last, such as a connection to a feed, wants [`OnFailure`](Self::OnFailure).
    #[default]
    Never,
    /// After an error or a panic it is started again, with a pause that grows; after a clean end it is gone.
    OnFailure,
    /// It is started again, also after a clean end: then after 1 s, so that a job that ends at once does not spin.
    Always,
}

impl RestartPolicy {
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub(crate) fn is_never(&self) -> bool {
        *self == Self::Never
    }
}
