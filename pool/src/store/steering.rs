//! The arguments and answers of steer.

use super::step::step;
use crate::model::id::{DispatchId, JobKey, Token, WorkerId};

/// The wish for a single job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// `n`: it begins now, though it waits or is parked. Attempts and strikes of a parked one count from zero.
    Now,
    /// `h`: its run ends, and it begins anew on the first worker of its chain.
    Home,
    /// `e`: its run ends, and it begins anew on the next worker of its chain.
    Elsewhere,
    /// `p`: its run ends, and nobody tries it again.
    Park,
    /// `z`: its run ends, and nobody runs it before it is resumed.
    Pause,
    /// `y`: it begins now, because it is paused. Attempts and strikes count from zero.
    Resume,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 6] =
        [Self::Now, Self::Home, Self::Elsewhere, Self::Park, Self::Pause, Self::Resume];

    /// Its letter in steps and events.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::Now => "n",
            Self::Home => "h",
            Self::Elsewhere => "e",
            Self::Park => "p",
            Self::Pause => "z",
            Self::Resume => "y",
        }
    }

    /// The way of this letter.
    #[must_use]
    pub fn of(letter: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.letter().as_bytes() == letter)
    }
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

/// steer's answer for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SteerReply {
    /// `K`: its owner is told. Whether that hears of it is seen in the record.
    Told,
    /// `Q`: it is queued.
    Queued,
    /// `P`: it is parked, now or before.
    Parked,
    /// `Y`: it is paused, now or before.
    Paused,
    /// `C`: its record is not the one that was seen. Nothing was done.
    Changed,
    /// `S`: it is being stopped.
    Stopping,
    /// `N`: no job of that dispatch.
    Absent,
    /// `R`: the pool is recovering; ask again.
    Recovering,
    /// `X`: its record does not parse.
    Bad,
}

/// Carries out the wishes of an operator: single jobs begin now, end here and begin anew, or are parked. The owners of
/// running jobs are told.
#[derive(Clone, Debug)]
pub struct Steer {
    /// The jobs with the wishes of an operator.
    pub items: Vec<SteerItem>,
}

step!(Steer: "steer" -> Vec<SteerReply>, |step| step.items.len());
