//! The arguments and answers of steer.

use tenure_steps::letters;

use super::performing::step;
use crate::model::id::{DispatchId, JobKey, Token, WorkerId};

letters! {
    /// The wish for a single job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Way {
        /// It begins now, though it waits or is parked. Attempts and strikes of a parked one count from zero.
        b'n': Now,
        /// Its run ends, and it begins anew on the first worker of its chain.
        b'h': Home,
        /// Its run ends, and it begins anew on the next worker of its chain.
        b'e': Elsewhere,
        /// Its run ends, and nobody tries it again.
        b'p': Park,
        /// Its run ends, and nobody runs it before it is resumed.
        b'z': Pause,
        /// It begins now, because it is paused. Attempts and strikes count from zero.
        b'y': Resume,
    }
}

#[cfg(any(test, feature = "proof"))]
impl Way {
    /// All ways.
    pub const ALL: [Self; 6] =
        [Self::Now, Self::Home, Self::Elsewhere, Self::Park, Self::Pause, Self::Resume];
}

/// A steer of a job whose record the caller has looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteerItem {
    /// The job's key.
    pub key: JobKey,
    /// Its dispatch. No later job of the key is steered.
    pub id: DispatchId,
    /// Its token, as it was seen.
    pub token: Token,
    /// The server time since when it is as it was seen, ms. With the token it names one stretch of the job's life, so a
    /// late copy does nothing.
    pub since: u64,
    /// The wish.
    pub way: Way,
    /// Its owner, as it was seen.
    pub guess: Option<WorkerId>,
    /// Why it is parked, at most 1 KiB. For a pause, who wants it, until when, and why. For
    /// a resume, the end of the pause that was seen, in the same place. Empty for the other ways.
    pub reason: String,
}

letters! {
    /// steer's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SteerReply {
        /// Its owner is told. Whether that hears of it is seen in the record.
        b'K': Told,
        /// It is queued.
        b'Q': Queued,
        /// It is parked, now or before.
        b'P': Parked,
        /// It is paused, now or before.
        b'Y': Paused,
        /// Its record is not the one that was seen. Nothing was done.
        b'C': Changed,
        /// It is being stopped.
        b'S': Stopping,
        /// No job of that dispatch.
        b'N': Absent,
        /// The pool is recovering; ask again.
        b'R': Recovering,
        /// Its record does not parse.
        b'X': Bad,
    }
}

/// Carries out the wishes of an operator: single jobs begin now, end here and begin anew, or are parked. The owners of
/// running jobs are told.
#[derive(Clone, Debug)]
pub struct Steer {
    /// The jobs with the wishes of an operator.
    pub items: Vec<SteerItem>,
}

step!(Steer: "steer" -> Vec<SteerReply>, |step| step.items.len());
