//! The steps on the way of a job to its owner, and the reads of jobs.

use super::performing::{read, step};
use super::{Counts, DispatchItem, DispatchReply, EntryId, Evidence, JobsPage, Lookup, RouteReply, Turn};
use crate::model::id::{DispatchId, JobKey, Revision, WorkerId};
use bytes::Bytes;

/// Who gives the jobs of a dispatch their workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placing {
    /// The caller, by the ring of this revision. A job with a worker is assigned at once, if the ring still has the
    /// revision. All other jobs wait for a router.
    Ring(Revision),
    /// A router, for the plan with this turn. The step is refused once the turn is over.
    Turn(Turn),
}

impl Placing {
    /// The turn of the jobs' plan, and the revision of the ring behind the caller's choice.
    pub fn parts(&self) -> (Option<&Turn>, Option<Revision>) {
        match self {
            Self::Ring(ring) => (None, Some(*ring)),
            Self::Turn(turn) => (Some(turn), None),
        }
    }
}

/// Accepts jobs.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Who chooses the workers.
    pub by: Placing,
    /// The jobs.
    pub items: Vec<DispatchItem>,
}

step!(Dispatch: "dispatch" -> Vec<DispatchReply>, |step| step.items.len());

/// Assigns jobs to workers picked from the ring at this revision. Whole entries only.
#[derive(Clone, Debug)]
pub struct Route {
    /// The revision of the ring behind the choice of workers.
    pub ring: Revision,
    /// Routed entries, for the call to finish.
    pub entries: Vec<EntryId>,
    /// The jobs with their workers; `None`: no worker can have the job now.
    pub jobs: Vec<(JobKey, Option<WorkerId>)>,
}

step!(Route: "route" -> Vec<RouteReply>, |step| step.jobs.len());

/// The records and outcomes of open dispatches.
#[derive(Clone, Debug)]
pub struct LookUp {
    /// The keys, with dispatches whose outcomes are wanted.
    pub items: Vec<(JobKey, Option<DispatchId>)>,
}

read!(LookUp: "lookup" -> Vec<Lookup>);

/// The envelope of a job's payload.
#[derive(Clone, Debug)]
pub struct ReadPayload {
    /// The key.
    pub key: JobKey,
}

read!(ReadPayload: "payload" -> Option<Bytes>);

/// All known facts of a key's job, and of a dispatch of the key, at one moment.
#[derive(Clone, Debug)]
pub struct Explain {
    /// The key.
    pub key: JobKey,
    /// A dispatch of the key.
    pub id: Option<DispatchId>,
}

read!(Explain: "explain" -> Evidence);

/// The number of jobs, in all and by worker. Looks at `look` jobs of the queue for the oldest new job: at least one, at most
/// [`LOOK_MAX`](super::LOOK_MAX).
#[derive(Clone, Debug)]
pub struct ReadFigures {
    /// The most jobs of the queue to look at.
    pub look: usize,
    /// The workers whose jobs are counted.
    pub workers: Vec<WorkerId>,
}

read!(ReadFigures: "figures" -> Counts);

/// A page of all jobs.
#[derive(Clone, Debug)]
pub struct ListJobs {
    /// Where the page begins; 0: the first page.
    pub cursor: u64,
    /// About how many jobs the page has.
    pub limit: usize,
}

read!(ListJobs: "jobs_page" -> JobsPage);
