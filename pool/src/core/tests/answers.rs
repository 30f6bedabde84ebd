//! How each call comes back when it has no answer: with what it carried.

use crate::core::call::{Call, Done, PlanCall, PlanStep};
use crate::store::StoreError;

pub(super) fn failed(call: Call, error: StoreError) -> Done {
    match call {
        Call::Survey => Done::Survey(Err(error)),
        Call::ServerTime => Done::ServerTime(Err(error)),
        Call::Bootstrap { run_id, .. } => Done::Bootstrap { run_id, answer: Err(error) },
        Call::Recover { run_id, .. } => Done::Recover { run_id, answer: Err(error) },
        Call::OpenNormal => Done::OpenNormal(Err(error)),
        Call::Join { seating, .. } => Done::Join { seating, answer: Err(error) },
        Call::Settle { worker } => Done::Settle { worker, answer: Err(error) },
        Call::Drain { worker } => Done::Drain { worker, answer: Err(error) },
        Call::Expire { worker, seq } => Done::Expire { worker, seq, answer: Err(error) },
        Call::Reap { worker } => Done::Reap { worker, answer: Err(error) },
        Call::Dispatch(items) => Done::Dispatch { items, answer: Err(error) },
        Call::Route { events, .. } => Done::Route { events, answer: Err(error) },
        Call::Begin { worker, finished, jobs } => Done::Begin { worker, finished, jobs, answer: Err(error) },
        Call::Started { worker, items } => Done::Started { worker, items, answer: Err(error) },
        Call::Release { worker, finished, items } => {
            Done::Release { worker, finished, items, answer: Err(error) }
        }
        Call::Take { worker, finished, items } => Done::Take { worker, finished, items, answer: Err(error) },
        Call::Owned { worker, .. } => Done::Owned { worker, answer: Err(error) },
        Call::OldestEvent { worker } => Done::OldestEvent { worker, answer: Err(error) },
        Call::Stop { repeat, items, .. } => Done::Stop { repeat, items, answer: Err(error) },
        Call::Notify(_) => Done::Notify(Err(error)),
        Call::Unpark(_) => Done::Unpark(Err(error)),
        Call::LookUp(tickets) => Done::LookUp { tickets, answer: Err(error) },
        Call::FindOwners(_) => Done::FindOwners(Err(error)),
        Call::Tell(outcomes) => Done::Tell { outcomes, answer: Err(error) },
        Call::Sweep { kick } => Done::Sweep { kick, answer: Err(error) },
        Call::Heartbeats(_) => Done::Heartbeats(Err(error)),
        Call::ReadPool => Done::ReadPool(Err(error)),
        Call::ClaimPool { .. } => Done::ClaimPool(Err(error)),
        Call::RestoreGroup => Done::RestoreGroup(Err(error)),
        Call::PruneConsumers => Done::PruneConsumers(Err(error)),
        Call::ReadNode { round, .. } => Done::ReadNode { round, answer: Err(error) },
        Call::Sched { local, round, .. } => Done::Sched { local, round, answer: Err(error) },
        Call::Term { locals, round, .. } => Done::Term { locals, round, answer: Err(error) },
        Call::Tick { local, round, number, .. } => Done::Tick { local, round, number, answer: Err(error) },
        Call::Plan { local, run, step } => {
            let step = match step {
                PlanCall::List { .. } => PlanStep::Listed(Err(error)),
                PlanCall::Find(keys) => PlanStep::Found { keys, answer: Err(error) },
                PlanCall::Dispatch { items, .. } => PlanStep::Dispatched { items, answer: Err(error) },
                PlanCall::Stop { items, .. } => PlanStep::Stopped { items, answer: Err(error) },
            };
            Done::Plan { local, run, step }
        }
        Call::Shutdown(mode) => Done::Shutdown { mode, answer: Err(error) },
        Call::Purge => Done::Purge(Err(error)),
        Call::Cleanup => Done::Cleanup(Err(error)),
        Call::ForgetNode => Done::ForgetNode,
    }
}
