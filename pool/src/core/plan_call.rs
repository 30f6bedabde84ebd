//! The calls that carry out a plan, and their answers.

use crate::model::id::{JobKey, ScheduleName};
use crate::store::{
    DispatchItem, DispatchReply, Lookup, PlannedPage, Result, StopItem, StopReply, StoreError, Turn,
    UpdateItem, UpdateReply,
};

/// A step of a plan that is being carried out.
#[derive(Clone, Debug)]
pub(crate) enum PlanCall {
    /// The plan's jobs.
    List {
        plan: ScheduleName,
        after: Option<JobKey>,
    },
    /// The records of these keys.
    Find(Vec<JobKey>),
    Dispatch {
        turn: Turn,
        items: Vec<DispatchItem>,
    },
    Stop {
        turn: Turn,
        items: Vec<StopItem>,
    },
    Update {
        turn: Turn,
        items: Vec<UpdateItem>,
    },
}

/// The answer to a [`PlanCall`].
#[derive(Debug)]
pub(crate) enum PlanStep {
    Listed(Result<PlannedPage>),
    Found { keys: Vec<JobKey>, answer: Result<Vec<Lookup>> },
    Dispatched { items: Vec<DispatchItem>, answer: Result<Vec<DispatchReply>> },
    Stopped { items: Vec<StopItem>, answer: Result<Vec<StopReply>> },
    Updated { items: Vec<UpdateItem>, answer: Result<Vec<UpdateReply>> },
}

impl PlanStep {
    /// The error of its answer.
    pub(super) fn failure(&self) -> Option<&StoreError> {
        match self {
            Self::Listed(answer) => answer.as_ref().err(),
            Self::Found { answer, .. } => answer.as_ref().err(),
            Self::Dispatched { answer, .. } => answer.as_ref().err(),
            Self::Stopped { answer, .. } => answer.as_ref().err(),
            Self::Updated { answer, .. } => answer.as_ref().err(),
        }
    }
}
