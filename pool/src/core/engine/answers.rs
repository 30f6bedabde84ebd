//! The engine's handling of the store's answers.

use std::collections::BTreeSet;

use super::{Engine, Tells};
use crate::core::call::Done;
use crate::core::callers::dispatching::Pool;
use crate::core::ctx::Ctx;
use crate::core::effect::Notice;

use crate::core::batcher::may_be_done;
use crate::core::roles::sweeping::stops_again;
use crate::core::worker::Worker;
use crate::model::id::{DispatchId, JobKey, Token, WorkerId};
use crate::model::ticket::Ticket;
use crate::store::{
    Begin, BeginReply, Dispatch, NodeEvents, Outcome, Refusal, Release, Result, Save, Started, StoreError,
    Swept, Take, Tell, TermReply, WorkerBegins, WorkerBegun, WorkerEvent, WorkerStarts,
};

/// The outcome in a node's stream that asks it to look at its schedules.
const LOOK: &str = "look";
/// How many nodes are told of news at most.
const NEWS_MAX: usize = 64;

impl Engine {
    pub(super) fn on_done(&mut self, done: Done) -> Result<()> {
        let now = self.ctx.now;
        match done {
            Done::Survey(_, answer) => {
                let joins = self.pool.incarnation.is_none() || !self.attaching.is_empty();
                let needed = joins || !self.workers.is_empty();
                let change = self.pool.on_surveyed(&mut self.ctx, needed, answer);
                self.on_change(change);
            }
            Done::Bootstrap(step, answer) => {
                let change = self.pool.on_bootstrapped(&mut self.ctx, step.run_id, &answer);
                self.on_change(change);
            }
            Done::Recover(step, answer) => {
                if let Err(error) = &answer {
                    self.see_refusal(error);
                }
                let change = self.pool.on_recovered(&mut self.ctx, step.run_id, &answer);
                self.on_change(change);
            }
            Done::OpenNormal(_, answer) => {
                let change = self.pool.on_opened(&mut self.ctx, answer);
                self.on_change(change);
            }
            Done::ServerTime(_, answer) => {
                self.clock.read = Some((now, self.clock.call.answered(now, answer)?));
            }
            Done::Revisions(_, answer) => return self.on_revisions(answer),
            Done::Join(..)
            | Done::Settle(..)
            | Done::Drain(..)
            | Done::Leave(..)
            | Done::Expire(..)
            | Done::Reap(..) => {
                return self.on_membership(done);
            }
            Done::Attest(..) | Done::Attend(..) => return self.on_attestation(done),
            Done::Reply(..) | Done::ReadLast(..) => return self.on_asks(done),
            Done::Begin(..)
            | Done::Started(..)
            | Done::Release(..)
            | Done::Take(..)
            | Done::Save(..)
            | Done::Owned(..)
            | Done::OldestEvent(..) => return self.on_ownership(done),
            Done::Dispatch(Dispatch { items, .. }, answer) => match answer {
                Ok(replies) => {
                    self.dispatching.sent();
                    let settled = self.is_normal();
                    if self.dispatching.on_sent(&mut self.ctx, settled, &items, replies) {
                        self.clock.call.set(now);
                    }
                }
                Err(error) => {
                    let key = first(items.iter().map(|item| &item.key));
                    let news = self.dispatching.send_again(&mut self.ctx, items, &error, may_be_done(&error));
                    return self.ctx.heard(news, key, error);
                }
            },
            Done::LookUp(look, answer) => {
                let ticket = |(key, id): (JobKey, Option<DispatchId>)| Some(Ticket { key, id: id? });
                let tickets: Vec<_> = look.items.into_iter().filter_map(ticket).collect();
                match answer {
                    Ok(found) => {
                        self.dispatching.looked_up();
                        let pool = match self.closing.is_stopping() {
                            true => Pool::Stopping,
                            false if self.is_normal() => Pool::Open,
                            false => Pool::Unsettled,
                        };
                        self.dispatching.on_looked_up(&mut self.ctx, &tickets, found, pool);
                    }
                    Err(error) => {
                        let key = first(tickets.iter().map(|ticket| &ticket.key));
                        let news = self.dispatching.look_again(now, tickets, &error);
                        return self.ctx.heard(news, key, error);
                    }
                }
            }
            Done::FindOwners(..)
            | Done::Stop(..)
            | Done::Notify(..)
            | Done::NotifyOrStart(..)
            | Done::Unpark(..)
            | Done::Steer(..)
            | Done::Update(..)
            | Done::LookToUpdate(..)
            | Done::Ask(..)
            | Done::LookAtAsked(..) => {
                let normal = self.is_normal();
                let heard = self.requests.on_done(&mut self.ctx, done, normal);
                if std::mem::take(&mut self.requests.is_late) {
                    self.clock.call.set(now);
                }
                return heard;
            }
            Done::Route(_, events, answer) => return self.routing.on_routed(&mut self.ctx, events, answer),
            Done::ReadPool(_, answer) => return self.routing.on_events(&mut self.ctx, false, answer),
            Done::ClaimPool(_, answer) => return self.routing.on_events(&mut self.ctx, true, answer),
            Done::RestoreGroup(_, answer) => return self.routing.on_restored(&mut self.ctx, answer),
            Done::ReadNode(_, round, answer) => {
                if let Some(events) = self.reading.on_read(&self.ctx, round, answer)? {
                    self.on_node_events(events);
                }
            }
            Done::Heartbeats(_, answer) => {
                return self.liveness.on_heartbeats(&mut self.ctx, &self.members, answer);
            }
            Done::Inspect(step, answer) => return self.on_inspected(step.held, answer),
            Done::Sweep(step, answer) => return self.on_swept(step.kick, answer),
            Done::PruneConsumers(_, answer) => return answer,
            Done::Tell(Tell { outcomes }, answer) => {
                let Tells { queue, call } = &mut self.tells;
                return call.answered(now, answer).inspect_err(|_| drop(queue.splice(0..0, outcomes)));
            }
            Done::Sched(..)
            | Done::Term(..)
            | Done::Tick(..)
            | Done::PlanList(..)
            | Done::PlanFind(..)
            | Done::PlanDispatch(..)
            | Done::PlanStop(..)
            | Done::PlanUpdate(..) => {
                if let Done::Term(_, _, Ok(terms)) = &done {
                    for reply in &terms.replies {
                        if let TermReply::Held(entry) = reply {
                            self.pool.saw_token(Token(entry.term.0));
                        }
                    }
                }
                return self.scheduling.on_done(&mut self.ctx, done);
            }
            Done::Shutdown(step, answer) => return self.closing.on_flag(&self.ctx, step.mode, answer),
            Done::Purge(_, answer) => {
                let outcomes = self.closing.on_purged(&self.ctx, answer)?;
                self.tells.queue.extend(outcomes);
            }
            Done::CleanUp(_, answer) => {
                if self.closing.on_cleaned(&self.ctx, answer)? {
                    self.on_pool_gone();
                }
            }
            Done::ForgetNode(..) => self.on_forgotten(),
        }
        Ok(())
    }

    pub(super) fn worker_at(&mut self, id: WorkerId) -> Option<(&mut Worker, &mut Ctx)> {
        let worker = self.workers.values_mut().find(|w| w.jobs.worker == id)?;
        Some((worker, &mut self.ctx))
    }

    fn on_ownership(&mut self, done: Done) -> Result<()> {
        match &done {
            Done::Begin(..) => self.shared_calls.in_flight.begins = false,
            Done::Started(..) => self.shared_calls.in_flight.starts = false,
            _ => {}
        }
        match done {
            Done::Begin(Begin { begins }, Ok(answers)) => {
                self.shared_calls.begins.widen();
                for (begins, answer) in begins.into_iter().zip(answers) {
                    self.on_begun(begins, answer);
                }
            }
            Done::Begin(Begin { begins }, Err(error)) => {
                let whole = begins.iter().map(|begins| begins.jobs.len()).sum();
                let key = first(begins.iter().flat_map(|begins| &begins.jobs).map(|(key, _)| key));
                self.shared_calls.begins.narrow(whole, &error);
                let mut news = whole == 0;
                for begins in begins {
                    let Some((worker, ctx)) = self.worker_at(begins.worker) else { continue };
                    if !worker.jobs.begins.was_abandoned() {
                        news |= worker.jobs.begin_again(ctx, begins, whole, &error);
                    }
                }
                return self.ctx.heard(news, key, error);
            }
            Done::Started(Started { starts }, Ok(noted)) => {
                self.shared_calls.starts.widen();
                let mut rest = &*noted;
                for WorkerStarts { worker, items } in starts {
                    let (noted, others) = rest.split_at(items.len().min(rest.len()));
                    rest = others;
                    if let Some((worker, ctx)) = self.worker_at(worker) {
                        worker.jobs.on_started_noted(ctx.now, items, noted);
                    }
                }
            }
            Done::Started(Started { starts }, Err(error)) => {
                let whole = starts.iter().map(|starts| starts.items.len()).sum();
                let key = first(starts.iter().flat_map(|starts| &starts.items).map(|item| &item.key));
                self.shared_calls.starts.narrow(whole, &error);
                let mut news = false;
                for WorkerStarts { worker, items } in starts {
                    if let Some((worker, ctx)) = self.worker_at(worker) {
                        news |= worker.jobs.started_again(ctx.now, items, whole, &error);
                    }
                }
                return self.ctx.heard(news, key, error);
            }
            Done::Release(Release { worker, finished, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    Ok(replies) => worker.jobs.on_released(ctx, &finished, items, &replies),
                    Err(error) => {
                        let key = first(items.iter().map(|item| &item.key));
                        let news = worker.jobs.release_again(ctx.now, finished, items, &error);
                        return self.ctx.heard(news, key, error);
                    }
                }
            }
            Done::Take(Take { worker, finished, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    answer if worker.jobs.takes.was_abandoned() => {
                        worker.jobs.not_taken(&items);
                        return answer.map(drop);
                    }
                    Ok(replies) => worker.jobs.on_taken(ctx, &finished, items, replies),
                    Err(error) => {
                        let key = first(items.iter().map(|item| &item.key));
                        let news = worker.jobs.take_again(ctx.now, finished, items, &error);
                        return self.ctx.heard(news, key, error);
                    }
                }
            }
            Done::Save(Save { worker, items }, answer) => {
                let Some((worker, ctx)) = self.worker_at(worker) else { return Ok(()) };
                match answer {
                    Ok(replies) => worker.jobs.on_saved(ctx, items, &replies),
                    Err(error) => {
                        let key = first(items.iter().map(|item| &item.key));
                        let news = worker.jobs.save_failed(ctx, items, &error);
                        return self.ctx.heard(news, key, error);
                    }
                }
            }
            Done::Owned(step, answer) => {
                if let Some((worker, ctx)) = self.worker_at(step.worker) {
                    return worker.on_owned(ctx, answer);
                }
            }
            Done::OldestEvent(step, answer) => {
                let oldest = answer?;
                if let Some((worker, _)) = self.worker_at(step.worker) {
                    worker.jobs.inbox.oldest(oldest);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn on_begun(&mut self, begins: WorkerBegins, answer: WorkerBegun) {
        let Some(worker) = self.workers.values_mut().find(|w| w.jobs.worker == begins.worker) else { return };
        let ctx = &mut self.ctx;
        match answer {
            Err(Refusal::Fenced) => worker.fence(ctx),
            _ if worker.jobs.begins.was_abandoned() => {}
            Err(Refusal::ShuttingDown) => worker.jobs.on_begin_shut(begins.finished, begins.jobs),
            Err(refusal) => {
                let whole = begins.jobs.len();
                worker.jobs.begin_again(ctx, begins, whole, &StoreError::Refused(refusal));
            }
            Ok(replies) => {
                let WorkerBegins { finished, jobs, .. } = begins;
                let begun = replies.iter().any(|reply| matches!(reply, BeginReply::Begun { .. }));
                let highest = jobs.iter().map(|(_, token)| *token).max();
                worker.check_places(ctx, &self.ring, &replies, &jobs);
                worker.jobs.on_begun(ctx, &finished, jobs, replies);
                if let Some(token) = highest.filter(|_| begun) {
                    self.pool.saw_token(token);
                }
            }
        }
    }

    fn on_node_events(&mut self, events: NodeEvents) {
        for (id, entry, event) in events.workers {
            if let Some(worker) = self.workers.values_mut().find(|w| w.member_id() == Some(id)) {
                match event {
                    WorkerEvent::Ask { asker, asks } => {
                        worker.jobs.on_asks(&self.ctx, entry, &asker, asks, self.clock.ms(self.ctx.now));
                    }
                    event => worker.jobs.on_event(&mut self.ctx, entry, event),
                }
            }
        }
        for (id, said) in events.replies {
            self.requests.on_said(&mut self.ctx, id, said);
        }
        for (_, outcomes) in events.outcomes {
            for (id, outcome) in outcomes {
                if outcome == LOOK {
                    self.scheduling.look(&self.ctx);
                    continue;
                }
                self.requests.on_outcome(&id, &outcome);
                self.dispatching.on_told(&mut self.ctx, &id, &outcome);
            }
        }
    }

    /// Tells other nodes to look at a schedule. Without this hint they look later.
    pub(super) fn tell_news(&mut self) {
        if !self.scheduling.take_news() {
            return;
        }
        let nodes: BTreeSet<_> = self.members.entries.values().map(|m| &m.node).collect();
        let others = nodes.into_iter().filter(|node| **node != self.ctx.config.node).take(NEWS_MAX);
        let hints = others.filter_map(|node| DispatchId::of_node(node, LOOK).ok());
        self.tells.queue.extend(hints.map(|id| (id, LOOK.to_owned())));
    }

    /// Jobs that no worker runs have come to these outcomes: tells their dispatchers.
    pub(super) fn pass_on(&mut self, outcomes: Vec<(DispatchId, Outcome)>) {
        for (id, _) in outcomes.iter().filter(|(_, outcome)| outcome == "parked") {
            self.ctx.report(Notice::ParkedUnowned { id: id.clone() });
        }
        self.tells.queue.extend(outcomes);
    }

    fn on_swept(&mut self, kick: Option<usize>, answer: Result<Swept>) -> Result<()> {
        let nodes: BTreeSet<_> = self.members.entries.values().map(|m| &m.node).collect();
        let mut swept = self.sweeping.on_swept(&mut self.ctx, nodes.len(), kick, answer)?;
        self.parked = Some(swept.parked);
        self.requests.stop_again(stops_again(&mut swept));
        self.pass_on(std::mem::take(&mut swept.outcomes));
        for key in swept.bad {
            self.ctx.report(Notice::BadRecord { key });
        }
        for worker in swept.dead {
            self.liveness.found_dead(worker);
        }
        Ok(())
    }
}

/// The first job of a failed call: the one that is set aside, if it is the only one.
pub(super) fn first<'a>(mut keys: impl Iterator<Item = &'a JobKey>) -> Option<JobKey> {
    keys.next().cloned()
}
