//! The answers of unpark, and the listing of parked jobs.

use tenure_steps::letters;

use super::performing::{read, step};
use crate::model::id::{DispatchId, JobKey};
use crate::model::record::Record;

letters! {
    /// unpark's answer for one job.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnparkReply {
        /// Queued.
        b'Q': Queued,
        /// That dispatch lives and is not parked. Nothing was done. Perhaps an earlier call has unparked it.
        b'L': Lives,
        /// It is paused. Nothing was done.
        b'Y': Paused,
        /// No such job.
        b'N': Absent,
        /// The pool is recovering, and the job may be running unseen. Ask again.
        b'R': Recovering,
        /// Its record does not parse.
        b'X': Bad,
    }
}

/// The reason why a job waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Server time, ms, at which the sweeper takes it up.
    pub until: Option<u64>,
    /// The error because of which it waits or is parked, at most 1 KiB.
    pub error: Option<String>,
}

/// A parked job: it failed too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Its key.
    pub key: JobKey,
    /// The error of its last attempt, at most 1 KiB.
    pub error: String,
    /// Its record, which says since when. `None` if it does not parse.
    pub record: Option<Record>,
}

/// A page of the parked jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedPage {
    /// Where the next page begins. `None` after the last.
    pub next: Option<u64>,
    /// In no order. A job that is parked during the whole listing is in some page, and may be in two.
    pub jobs: Vec<Parked>,
}

/// Retries parked jobs, named with their dispatches. Attempts and strikes count from zero.
#[derive(Clone, Debug)]
pub struct Unpark {
    /// The jobs with their dispatches.
    pub jobs: Vec<(JobKey, DispatchId)>,
}

step!(Unpark: "unpark" -> Vec<UnparkReply>, |step| step.jobs.len());

/// A page of the parked jobs.
#[derive(Clone, Debug)]
pub struct ListParked {
    /// Where the page begins; 0: the first page.
    pub cursor: u64,
    /// About how many jobs the page has.
    pub limit: usize,
}

read!(ListParked: "parked" -> ParkedPage);

/// Why queued, assigned or parked jobs wait, and until when.
#[derive(Clone, Debug)]
pub struct ReadPauses {
    /// The keys.
    pub keys: Vec<JobKey>,
}

read!(ReadPauses: "pauses" -> Vec<Pause>);

/// The jobs that the sweeper takes up next with their records, the soonest first. `None` for a record that does not parse.
#[derive(Clone, Debug)]
pub struct ReadDue {
    /// The most jobs, from 1 to [`LOOK_MAX`](super::LOOK_MAX).
    pub limit: usize,
}

read!(ReadDue: "due" -> Vec<(JobKey, Option<Record>)>);
