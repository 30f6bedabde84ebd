//! Performs calls to the store: each [`Call`] becomes one step or read, and its answer a [`Done`].

use std::time::Duration;

use crate::core::call::{Call, Done, INSPECT, PAGE, PlanCall, PlanStep, READ_BLOCK, READ_ENTRIES};
use crate::core::ctx::Config;
use crate::model::id::Incarnation;
use crate::store::{Cursors, EntryId, Store};

/// How long start events may lie with a consumer before another node takes them over.
const CLAIM_IDLE: Duration = Duration::from_secs(5);
/// After this time a consumer without entries is forgotten.
const CONSUMER_IDLE: Duration = Duration::from_secs(600);
/// How long the name of a pool that was shut down stays marked.
const TOMBSTONE: Duration = Duration::from_secs(3600);

/// Makes the call.
pub(crate) async fn perform(store: &dyn Store, config: &Config, inc: Incarnation, call: Call) -> Done {
    match call {
        Call::Survey => {
            let both = async { Ok((store.pool_state().await?, store.server_identity().await?)) };
            Done::Survey(both.await)
        }
        Call::Revisions => Done::Revisions(store.pool_state().await),
        Call::ServerTime => Done::ServerTime(store.server_time().await),
        Call::Bootstrap { seen, run_id } => {
            let answer = store.bootstrap(seen, &run_id, &config.founding()).await;
            Done::Bootstrap { run_id, answer }
        }
        Call::Recover { seen, run_id, lost } => {
            let answer = store.recover(inc, seen, &run_id, &lost).await;
            Done::Recover { run_id, answer }
        }
        Call::OpenNormal => Done::OpenNormal(store.open_normal(inc).await),
        Call::Join { seating, request } => {
            let answer = store.join(inc, &request).await;
            Done::Join { seating, answer }
        }
        Call::Settle { worker } => Done::Settle { worker, answer: store.settle(inc, worker).await },
        Call::Drain { worker } => Done::Drain { worker, answer: store.drain(inc, worker).await },
        Call::Leave { worker } => Done::Leave { worker, answer: store.expire(inc, worker, None).await },
        Call::Expire(workers) => {
            let observed: Vec<_> = workers.iter().map(|&(worker, seq)| (worker, Some(seq))).collect();
            Done::Expire { workers, answer: store.expire_all(inc, &observed).await }
        }
        Call::Reap { worker } => Done::Reap { worker, answer: store.reap(inc, worker, PAGE).await },
        Call::Dispatch { ring, items } => {
            let answer = store.dispatch(inc, ring, &items).await;
            Done::Dispatch { items, answer }
        }
        Call::Route { ring, events, entries, jobs } => {
            let answer = store.route(inc, ring, &entries, &jobs).await;
            Done::Route { events, answer }
        }
        Call::Attest { incarnation, worker, member, items } => {
            let answer = store.attest(incarnation, worker, &member, &items).await;
            Done::Attest { incarnation, worker, items, answer }
        }
        Call::Attend { incarnation, worker, after } => {
            let answer = store.attend(incarnation, worker, after.as_ref(), PAGE).await;
            Done::Attend { incarnation, worker, answer }
        }
        Call::Begin(begins) => {
            let answer = store.begin_all(inc, &begins).await;
            Done::Begin { begins, answer }
        }
        Call::Started(starts) => {
            let answer = store.started_all(inc, &starts).await;
            Done::Started { starts, answer }
        }
        Call::Release { worker, finished, items } => {
            let (released, entries): (Vec<_>, Vec<_>) = items.into_iter().unzip();
            let answer = store.release(inc, worker, &finished, &released).await;
            Done::Release { worker, finished, items: released.into_iter().zip(entries).collect(), answer }
        }
        Call::Take { worker, finished, items } => {
            let answer = store.take(inc, worker, &finished, &items).await;
            Done::Take { worker, finished, items, answer }
        }
        Call::Save { worker, items } => {
            let answer = store.save(inc, worker, &items).await;
            Done::Save { worker, items, answer }
        }
        Call::Reply { worker, finished, items } => {
            let answer = store.reply(inc, worker, &finished, &items).await;
            Done::Reply { worker, finished, items, answer }
        }
        Call::ReadLast { worker, after } => {
            let cursors = Cursors { workers: [(worker, after)].into(), node: EntryId::MAX };
            let answer = store.node_events(&config.node, &cursors, READ_ENTRIES, Duration::ZERO).await;
            Done::ReadLast { worker, answer }
        }
        Call::Owned { worker, after } => {
            Done::Owned { worker, answer: store.owned(inc, worker, after.as_ref(), PAGE).await }
        }
        Call::OldestEvent { worker } => {
            Done::OldestEvent { worker, answer: store.oldest_worker_event(worker).await }
        }
        Call::Stop { repeat, waiting, items } => {
            let answer = store.stop(inc, repeat, waiting.then_some(&config.node), &items).await;
            Done::Stop { repeat, items, answer }
        }
        Call::Notify(items) => Done::Notify(store.notify(inc, &items).await),
        Call::NotifyOrStart(ring, items) => {
            Done::NotifyOrStart(store.notify_or_start(inc, ring, &items).await)
        }
        Call::Ask(items) => Done::Ask(store.ask(inc, &config.node, &items).await),
        Call::LookAtAsked(keys) => {
            let items: Vec<_> = keys.into_iter().map(|key| (key, None)).collect();
            Done::LookAtAsked(store.lookup(&items).await)
        }
        Call::Steer(items) => Done::Steer(store.steer(inc, &items).await),
        Call::Unpark(jobs) => Done::Unpark(store.unpark(inc, &jobs).await),
        Call::Update(items) => Done::Update(store.update(inc, &items).await),
        Call::LookToUpdate(keys) => {
            let items: Vec<_> = keys.into_iter().map(|key| (key, None)).collect();
            Done::LookToUpdate(store.lookup(&items).await)
        }
        Call::LookUp(tickets) => {
            let items: Vec<_> = tickets.iter().map(|t| (t.key.clone(), Some(t.id.clone()))).collect();
            let answer = store.lookup(&items).await;
            Done::LookUp { tickets, answer }
        }
        Call::FindOwners(keys) => {
            let items: Vec<_> = keys.into_iter().map(|key| (key, None)).collect();
            Done::FindOwners(store.lookup(&items).await)
        }
        Call::Tell(outcomes) => {
            let answer = store.tell(&outcomes).await;
            Done::Tell { outcomes, answer }
        }
        Call::Inspect { cursor, held } => {
            let answer = store.inspect(inc, cursor, INSPECT, &held).await;
            Done::Inspect { held, answer }
        }
        Call::Sweep { kick } => Done::Sweep { kick, answer: store.sweep(inc, PAGE, kick).await },
        Call::Heartbeats(workers) => Done::Heartbeats(store.heartbeats(workers.as_deref()).await),
        Call::ReadPool => Done::ReadPool(store.pool_events(&config.node, READ_ENTRIES, READ_BLOCK).await),
        Call::ClaimPool { all } => {
            let idle = if all { Duration::ZERO } else { CLAIM_IDLE };
            Done::ClaimPool(store.claim_events(&config.node, idle, READ_ENTRIES).await)
        }
        Call::RestoreGroup => Done::RestoreGroup(store.restore_group(inc).await),
        Call::PruneConsumers => Done::PruneConsumers(store.prune_consumers(inc, CONSUMER_IDLE).await),
        Call::ReadNode { round, cursors, entries, block } => {
            let answer = store.node_events(&config.node, &cursors, entries, block).await;
            Done::ReadNode { round, answer }
        }
        Call::Sched { local, round, schedule, change } => {
            let answer = store.sched(inc, &schedule, &change).await;
            Done::Sched { local, round, answer }
        }
        Call::Term { locals, round, items } => {
            let answer = store.term(inc, &config.node, &items).await;
            Done::Term { locals, round, answer }
        }
        Call::Tick { local, round, schedule, turn, number } => {
            let answer = store.tick(inc, &schedule, turn, number).await;
            Done::Tick { local, round, number, answer }
        }
        Call::Plan { local, run, step } => Done::Plan { local, run, step: plan_step(store, inc, step).await },
        Call::Shutdown(mode) => {
            Done::Shutdown { mode, answer: store.shutdown(inc, &config.node, mode).await }
        }
        Call::Purge => Done::Purge(store.purge(inc, PAGE).await),
        Call::Cleanup => Done::Cleanup(store.cleanup(inc, TOMBSTONE).await),
        Call::ForgetNode => {
            if let Err(error) = store.forget_node(&config.node).await {
                tracing::debug!(%error, "the node's stream was left to expire");
            }
            Done::ForgetNode
        }
    }
}

async fn plan_step(store: &dyn Store, inc: Incarnation, step: PlanCall) -> PlanStep {
    match step {
        PlanCall::List { plan, after } => {
            PlanStep::Listed(store.planned(inc, &plan, after.as_ref(), PAGE).await)
        }
        PlanCall::Find(keys) => {
            let items: Vec<_> = keys.iter().map(|key| (key.clone(), None)).collect();
            let answer = store.lookup(&items).await;
            PlanStep::Found { keys, answer }
        }
        PlanCall::Dispatch { turn, items } => {
            let answer = store.dispatch_planned(inc, &turn, &items).await;
            PlanStep::Dispatched { items, answer }
        }
        PlanCall::Stop { turn, items } => {
            let answer = store.stop_planned(inc, &turn, &items).await;
            PlanStep::Stopped { items, answer }
        }
        PlanCall::Update { turn, items } => {
            let answer = store.update_planned(inc, &turn, &items).await;
            PlanStep::Updated { items, answer }
        }
    }
}
