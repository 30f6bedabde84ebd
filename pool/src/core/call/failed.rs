//! How a call without an answer comes back: with its items.

use super::{Call, Done, PlanCall, PlanStep};
use crate::store::StoreError;

impl Call {
    pub(crate) fn failed(self, error: StoreError) -> Done {
        match self {
            Self::Survey => Done::Survey(Err(error)),
            Self::Revisions => Done::Revisions(Err(error)),
            Self::ServerTime => Done::ServerTime(Err(error)),
            Self::Bootstrap { run_id, .. } => Done::Bootstrap { run_id, answer: Err(error) },
            Self::Recover { run_id, .. } => Done::Recover { run_id, answer: Err(error) },
            Self::OpenNormal => Done::OpenNormal(Err(error)),
            Self::Join { seating, .. } => Done::Join { seating, answer: Err(error) },
            Self::Settle { worker } => Done::Settle { worker, answer: Err(error) },
            Self::Drain { worker } => Done::Drain { worker, answer: Err(error) },
            Self::Leave { worker } => Done::Leave { worker, answer: Err(error) },
            Self::Expire(workers) => Done::Expire { workers, answer: Err(error) },
            Self::Reap { worker } => Done::Reap { worker, answer: Err(error) },
            Self::Dispatch { items, .. } => Done::Dispatch { items, answer: Err(error) },
            Self::Route { events, .. } => Done::Route { events, answer: Err(error) },
            Self::Attest { incarnation, worker, items, .. } => {
                Done::Attest { incarnation, worker, items, answer: Err(error) }
            }
            Self::Attend { incarnation, worker, .. } => {
                Done::Attend { incarnation, worker, answer: Err(error) }
            }
            Self::Begin(begins) => Done::Begin { begins, answer: Err(error) },
            Self::Started(starts) => Done::Started { starts, answer: Err(error) },
            Self::Release { worker, finished, items } => {
                Done::Release { worker, finished, items, answer: Err(error) }
            }
            Self::Take { worker, finished, items } => {
                Done::Take { worker, finished, items, answer: Err(error) }
            }
            Self::Save { worker, items } => Done::Save { worker, items, answer: Err(error) },
            Self::Reply { worker, finished, items } => {
                Done::Reply { worker, finished, items, answer: Err(error) }
            }
            Self::ReadLast { worker, .. } => Done::ReadLast { worker, answer: Err(error) },
            Self::Owned { worker, .. } => Done::Owned { worker, answer: Err(error) },
            Self::OldestEvent { worker } => Done::OldestEvent { worker, answer: Err(error) },
            Self::Stop { repeat, items, .. } => Done::Stop { repeat, items, answer: Err(error) },
            Self::Notify(_) => Done::Notify(Err(error)),
            Self::NotifyOrStart(..) => Done::NotifyOrStart(Err(error)),
            Self::Ask(_) => Done::Ask(Err(error)),
            Self::LookAtAsked(_) => Done::LookAtAsked(Err(error)),
            Self::Unpark(_) => Done::Unpark(Err(error)),
            Self::Steer(_) => Done::Steer(Err(error)),
            Self::Update(_) => Done::Update(Err(error)),
            Self::LookToUpdate(_) => Done::LookToUpdate(Err(error)),
            Self::LookUp(tickets) => Done::LookUp { tickets, answer: Err(error) },
            Self::FindOwners(_) => Done::FindOwners(Err(error)),
            Self::Tell(outcomes) => Done::Tell { outcomes, answer: Err(error) },
            Self::Sweep { kick } => Done::Sweep { kick, answer: Err(error) },
            Self::Inspect { held, .. } => Done::Inspect { held, answer: Err(error) },
            Self::Heartbeats(_) => Done::Heartbeats(Err(error)),
            Self::ReadPool => Done::ReadPool(Err(error)),
            Self::ClaimPool { .. } => Done::ClaimPool(Err(error)),
            Self::RestoreGroup => Done::RestoreGroup(Err(error)),
            Self::PruneConsumers => Done::PruneConsumers(Err(error)),
            Self::ReadNode { round, .. } => Done::ReadNode { round, answer: Err(error) },
            Self::Sched { local, round, .. } => Done::Sched { local, round, answer: Err(error) },
            Self::Term { locals, round, .. } => Done::Term { locals, round, answer: Err(error) },
            Self::Tick { local, round, number, .. } => {
                Done::Tick { local, round, number, answer: Err(error) }
            }
            Self::Plan { local, run, step } => {
                let step = match step {
                    PlanCall::List { .. } => PlanStep::Listed(Err(error)),
                    PlanCall::Find(keys) => PlanStep::Found { keys, answer: Err(error) },
                    PlanCall::Dispatch { items, .. } => PlanStep::Dispatched { items, answer: Err(error) },
                    PlanCall::Stop { items, .. } => PlanStep::Stopped { items, answer: Err(error) },
                    PlanCall::Update { items, .. } => PlanStep::Updated { items, answer: Err(error) },
                };
                Done::Plan { local, run, step }
            }
            Self::Shutdown(mode) => Done::Shutdown { mode, answer: Err(error) },
            Self::Purge => Done::Purge(Err(error)),
            Self::Cleanup => Done::Cleanup(Err(error)),
            Self::ForgetNode => Done::ForgetNode,
        }
    }
}
