//! The engine's handling of the store's answers.

use std::collections::BTreeSet;

use super::{Engine, Tells};
use crate::core::call::Done;
use crate::core::callers::dispatching::Pool;
use crate::core::effect::Notice;
use crate::core::roles::sweeping::stops_again;
use crate::model::id::{DispatchId, JobKey, Token};
use crate::model::ticket::Ticket;
use crate::step::{Dispatch, NodeEvents, Outcome, Result, Swept, Tell, TermReply, WorkerEvent};

/// The outcome in a node's stream that asks it to look at its schedules.
const LOOK: &str = "look";
/// How many nodes are told of news at most.
const NEWS_MAX: usize = 64;

impl Engine {
    pub(super) fn on_done(&mut self, done: Done) -> Result<()> {
        let now = self.ctx.now;
        match done {
            Done::Survey(..) | Done::Bootstrap(..) | Done::Recover(..) | Done::OpenNormal(..) => {
                self.on_pool(done);
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
            | Done::Reap(..) => return self.on_membership(done),
            Done::Attest(..) | Done::Attend(..) => return self.on_attestation(done),
            Done::Begin(..)
            | Done::Started(..)
            | Done::Release(..)
            | Done::Take(..)
            | Done::Save(..)
            | Done::Reply(..)
            | Done::ReadLast(..)
            | Done::Owned(..) => return self.on_ownership(done),
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
            Done::TellOwners(_, answer) => return answer.map(drop),
            done => return self.on_users(done),
        }
        Ok(())
    }

    fn on_pool(&mut self, done: Done) {
        let change = match done {
            Done::Survey(_, answer) => {
                let joins = self.pool.incarnation.is_none() || !self.attaching.is_empty();
                let needed = joins || !self.workers.is_empty();
                self.pool.on_surveyed(&mut self.ctx, needed, answer)
            }
            Done::Bootstrap(step, answer) => self.pool.on_bootstrapped(&mut self.ctx, step.run_id, &answer),
            Done::Recover(step, answer) => {
                if let Err(error) = &answer {
                    self.see_refusal(error);
                }
                self.pool.on_recovered(&mut self.ctx, step.run_id, &answer)
            }
            Done::OpenNormal(_, answer) => self.pool.on_opened(&mut self.ctx, answer),
            _ => return,
        };
        self.on_change(change);
    }

    /// The answers to the calls that users' commands need.
    fn on_users(&mut self, done: Done) -> Result<()> {
        let (now, normal) = (self.ctx.now, self.is_normal());
        match done {
            Done::Dispatch(Dispatch { items, .. }, answer) => match answer {
                Ok(replies) => {
                    self.dispatching.sent();
                    if self.dispatching.on_sent(&mut self.ctx, normal, &items, replies) {
                        self.clock.call.set(now);
                    }
                    Ok(())
                }
                Err(error) => self.dispatching.send_again(&mut self.ctx, items, error),
            },
            Done::LookUp(look, answer) => {
                let ticket = |(key, id): (JobKey, Option<DispatchId>)| Some(Ticket { key, id: id? });
                let tickets: Vec<_> = look.items.into_iter().filter_map(ticket).collect();
                match answer {
                    Ok(found) => {
                        self.dispatching.looked_up();
                        let pool = match (self.closing.is_stopping(), normal) {
                            (true, _) => Pool::Stopping,
                            (false, true) => Pool::Open,
                            (false, false) => Pool::Unsettled,
                        };
                        self.dispatching.on_looked_up(&mut self.ctx, &tickets, found, pool);
                        Ok(())
                    }
                    Err(error) => self.dispatching.look_again(&mut self.ctx, tickets, error),
                }
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
                self.scheduling.on_done(&mut self.ctx, done)
            }
            done => {
                let heard = self.requests.on_done(&mut self.ctx, done, normal);
                if std::mem::take(&mut self.requests.is_late) {
                    self.clock.call.set(now);
                }
                heard
            }
        }
    }

    fn on_node_events(&mut self, events: NodeEvents) {
        let gate = self.gate();
        for (id, entry, event) in events.workers {
            if let Some(worker) = self.workers.values_mut().find(|w| w.member_id() == Some(id)) {
                match event {
                    WorkerEvent::Ask { asker, asks } => {
                        worker.jobs.on_asks(&self.ctx, entry, &asker, asks, self.clock.ms(self.ctx.now));
                    }
                    event => {
                        if let WorkerEvent::Grant(granted) = &event {
                            self.pool.saw_token(granted.token);
                        }
                        worker.on_event(&mut self.ctx, &self.ring, gate, entry, event);
                    }
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
