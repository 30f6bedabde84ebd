//! Users ask the nodes. Each answer must come once and in time, and must fit the events.

use std::time::Duration;

use bytes::Bytes;

use super::askers::Question;
use super::world::{Event, World};
use tenure_protocol::core::input::{Answer, Command, Input, LocalSchedule, LocalWorker, ReplyTo, Until};
use tenure_protocol::core::time::Time;
use tenure_protocol::error::{DispatchError, Error};
use tenure_protocol::model::id::{DispatchId, JobKey, NodeName, Token, WorkerId};
use tenure_protocol::model::ticket::Ticket;
use tenure_protocol::step::{ChangeSettings, DispatchItem, Drain, SettingChange, ShutdownMode, Way};

/// The extra time after its deadline for an answer that was lost.
const MARGIN: Duration = Duration::from_secs(2);

/// A command that waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) what: Ask,
    pub(super) since: u64,
    pub(super) deadline: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) enum Ask {
    Attach,
    Add,
    /// `ensures`: a job under the key is fine.
    Submit {
        item: DispatchItem,
        started: bool,
        ensures: bool,
    },
    /// The end of the job in its way, before the user sends it again.
    End {
        item: DispatchItem,
    },
    Wait {
        id: DispatchId,
    },
    Cancel {
        id: DispatchId,
    },
    Stop {
        key: JobKey,
        until: Until,
    },
    /// `start`: the dispatch of the job that is started if there is none.
    Notify {
        key: JobKey,
        body: Bytes,
        start: Option<DispatchId>,
    },
    Question(Question),
    /// The job that a user wants to ask, and that was not there.
    Start {
        item: DispatchItem,
        question: Question,
    },
    Unpark,
    Update {
        key: JobKey,
    },
    /// `run`: the token of its run at the time of the request.
    Steer {
        key: JobKey,
        way: Way,
        run: Option<Token>,
    },
    Drain,
    Schedule {
        local: LocalSchedule,
    },
    Close,
    Shutdown,
}

impl World {
    pub(super) fn ask(
        &mut self,
        at: usize,
        what: Ask,
        deadline: Option<Time>,
        command: impl FnOnce(ReplyTo) -> Command,
    ) {
        let reply = ReplyTo(self.id());
        let since = self.now;
        let Some(node) = self.nodes.get_mut(at) else { return };
        let now = node.clock.read(self.now);
        let deadline = deadline.map(|deadline| deadline.max(now));
        node.asked.insert(reply, Asked { what, since, deadline });
        if let Some(deadline) = deadline {
            let late = node.clock.when(self.now, deadline + MARGIN);
            self.at(late, Event::Overdue(at, reply));
        }
        self.after(0, Event::Said(at, Box::new(Input::Command(command(reply)))));
    }

    pub(super) fn attach(&mut self, at: usize) {
        self.ask(at, Ask::Attach, None, |reply| Command::Attach { reply });
    }

    fn add_worker(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if node.config.client_only {
            return;
        }
        node.last_local += 1;
        let local = LocalWorker(node.last_local);
        node.locals.insert(local, None);
        let capacity = self.draw_capacity(at, local);
        let meta = String::new();
        self.ask(at, Ask::Add, None, |reply| Command::AddWorker { reply, local, meta, capacity });
    }

    pub(super) fn some_key(&mut self) -> Option<JobKey> {
        let number = self.rng.below(self.options.keys);
        JobKey::new(format!("k{number}")).ok()
    }

    pub(super) fn patience(&mut self, at: usize) -> Time {
        let ms = if self.rng.chance(2_000) { self.rng.below(500) } else { self.rng.between(500, 5_000) };
        self.local(at) + Duration::from_millis(ms)
    }

    /// A user can make requests of the node.
    pub(super) fn is_usable(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        node.alive && !node.paused && node.attached && !node.closing
    }

    pub(super) fn usable(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&at| self.is_usable(at)).collect()
    }

    /// A node over which an operator can act. The pool refuses one below its floor.
    pub(super) fn some_way_in(&self) -> Option<usize> {
        let leads = |at: &usize| {
            let node = &self.nodes[*at];
            node.alive && !node.paused && !node.cut.calls && !self.is_below(*at)
        };
        (0..self.nodes.len()).find(leads)
    }

    /// A user makes a request.
    pub(super) fn use_pool(&mut self) {
        let usable = self.usable();
        let Some(at) = self.rng.pick(&usable) else {
            self.staff();
            return;
        };
        match self.rng.below(100) {
            0..34 => self.submit(at),
            34..52 => self.stop(at),
            52..72 => self.notify(at),
            72..77 => self.wait(at),
            77..79 => self.cancel_dispatch(at),
            79 => self.withdraw(at),
            80..84 => self.unpark(at),
            84..88 => self.add_worker(at),
            88..90 => self.drain(at),
            90 => self.drain_any(at),
            91..93 => self.close_node(at),
            93..95 => self.use_schedules(at),
            95 => self.change_settings(at),
            _ => self.staff(),
        }
    }

    /// Makes sure that there are nodes, and that one has a worker.
    pub(super) fn staff(&mut self) {
        let there: Vec<usize> = (0..self.nodes.len()).filter(|&at| self.nodes[at].alive).collect();
        if there.len() < self.options.nodes {
            let taken = |name: &str| there.iter().any(|&at| self.nodes[at].config.node.as_str() == name);
            let free = (0..=self.options.nodes as u64 * 2).map(|n| format!("n{n}")).find(|name| !taken(name));
            if let Some(name) = free.and_then(|name| NodeName::new(name).ok()) {
                let only =
                    there.iter().all(|&at| self.nodes[at].config.client_only || self.nodes[at].closing);
                let client = !only && self.rng.chance(1_500);
                self.after(0, Event::Join(name, client));
            }
            return;
        }
        let bare = there.iter().copied().find(|&at| {
            let node = &self.nodes[at];
            let takes = node.attached && !node.closing && !node.config.client_only;
            takes && node.locals.is_empty() && !self.is_below(at)
        });
        if let Some(at) = bare {
            self.add_worker(at);
        }
    }

    /// A pool that must come to rest needs one full node that stays, with a worker.
    pub(super) fn man(&mut self) {
        let stays = |at: &usize| {
            let node = &self.nodes[*at];
            node.alive && !node.closing && !node.config.client_only && !self.is_below(*at)
        };
        match (0..self.nodes.len()).find(stays) {
            None => {
                let taken = |name: &NodeName| self.nodes.iter().any(|n| n.alive && n.config.node == *name);
                let free = (0..100).filter_map(|n| NodeName::new(format!("m{n}")).ok()).find(|n| !taken(n));
                if let Some(name) = free {
                    self.join(&name, false);
                }
            }
            Some(at) if self.nodes[at].attached && self.nodes[at].locals.is_empty() => self.add_worker(at),
            Some(_) => {}
        }
    }

    fn wait(&mut self, at: usize) {
        let Some((key, id)) = self.judge.some_life(&mut self.rng) else { return };
        let deadline = self.patience(at);
        self.ask(at, Ask::Wait { id: id.clone() }, Some(deadline), |reply| Command::Wait {
            reply,
            ticket: Ticket { key, id },
            deadline,
        });
    }

    fn stop(&mut self, at: usize) {
        let Some(key) = self.some_key() else { return };
        let until = if self.rng.chance(5_000) { Until::Gone } else { Until::Recorded };
        let deadline = self.patience(at);
        self.judge.stop_wanted(&key);
        self.ask(at, Ask::Stop { key: key.clone(), until }, Some(deadline), |reply| Command::StopJob {
            reply,
            key,
            id: None,
            until,
            deadline,
        });
    }

    fn notify(&mut self, at: usize) {
        let Some(key) = self.some_key() else { return };
        let deadline = self.patience(at);
        let body = Bytes::from(self.id().to_string());
        let start = if self.rng.chance(3_000) { self.startable(at, &key) } else { None };
        let id = start.as_ref().map(|start| start.id.clone());
        let what = Ask::Notify { key: key.clone(), body: body.clone(), start: id };
        let start = start.map(Box::new);
        let command = |reply| Command::Notify { reply, key, body, start, deadline };
        self.ask(at, what, Some(deadline), command);
    }

    fn unpark(&mut self, at: usize) {
        let Some(key) = self.judge.some_parked(&mut self.rng) else { return };
        let deadline = self.patience(at);
        self.ask(at, Ask::Unpark, Some(deadline), |reply| Command::Unpark { reply, key, deadline });
    }

    /// A user changes the pool's limits and times.
    fn change_settings(&mut self, at: usize) {
        let (name, from, to) = match self.rng.below(4) {
            0 => ("max_queued", 4, 40),
            1 => ("assign_timeout", 500, 1_500),
            2 => ("route_timeout", 300, 1_000),
            _ => ("stop_retry", 300, 1_000),
        };
        let to = self.rng.between(from, to);
        self.set(at, name, to);
    }

    /// A user gives a setting of the pool another value.
    pub(super) fn set(&mut self, at: usize, name: &str, to: u64) {
        let stored = self.server.settings();
        let (Some(incarnation), Some(from)) = (stored.incarnation, stored.fields.get(name)) else { return };
        let change = SettingChange { name: name.to_owned(), from: from.clone(), to: to.to_string() };
        if self.full || self.nodes[at].cut.calls {
            return;
        }
        if self.perform(at, incarnation, &ChangeSettings { changes: vec![change] }).is_ok() {
            self.note(|| format!("n{at} changes {name}"));
            self.publish();
        }
    }

    fn drain(&mut self, at: usize) {
        let locals: Vec<LocalWorker> = self.nodes[at].locals.keys().copied().collect();
        let Some(local) = self.rng.pick(&locals) else { return };
        self.ask(at, Ask::Drain, None, |reply| Command::DrainWorker { reply, local });
    }

    /// A worker of any node is drained from this one.
    fn drain_any(&mut self, at: usize) {
        let members = self.server.members();
        let workers: Vec<WorkerId> = members.entries.keys().copied().collect();
        let Some(worker) = self.rng.pick(&workers) else { return };
        let incarnation = self.nodes[at].engine.incarnation();
        let answer = self.perform(at, incarnation, &Drain { workers: vec![worker] });
        self.note(|| format!("n{at} drains {worker}: {answer:?}"));
        if answer.is_ok() {
            self.publish();
        }
    }

    fn close_node(&mut self, at: usize) {
        self.nodes[at].closing = true;
        let deadline = self.local(at) + Duration::from_secs(30);
        self.ask(at, Ask::Close, Some(deadline), |reply| Command::Close { reply, deadline });
    }

    /// A user asks for the end of the pool while faults happen.
    pub(super) fn shut_down(&mut self) {
        let mut usable = self.usable();
        usable.retain(|&at| !self.is_below(at));
        let Some(at) = self.rng.pick(&usable) else { return };
        self.closing = true;
        self.ask_for_the_end(at);
    }

    fn ask_for_the_end(&mut self, at: usize) {
        self.judge.all_may_end();
        let mode = match self.rng.below(2) {
            0 => ShutdownMode::DropQueued,
            _ => ShutdownMode::Closing(Duration::from_millis(self.rng.below(5_000))),
        };
        self.note(|| format!("n{at} shuts the pool down: {mode:?}"));
        let deadline = self.local(at) + Duration::from_secs(60);
        self.ask(at, Ask::Shutdown, Some(deadline), |reply| Command::Shutdown { reply, mode, deadline });
    }

    /// Some runs end with the end of the pool. True if that has begun.
    pub(super) fn end_pool(&mut self) -> bool {
        let incarnation = self.server.facts().incarnation;
        let full = |at: &usize| {
            let node = &self.nodes[*at];
            let current = Some(node.engine.incarnation()) == incarnation;
            let stays = node.alive && node.attached && !node.closing && !node.config.client_only;
            stays && current && !self.is_below(*at)
        };
        let Some(at) = (0..self.nodes.len()).find(full) else { return false };
        if self.rng.chance(5_000) {
            return false;
        }
        self.ending = true;
        self.ask_for_the_end(at);
        true
    }

    pub(super) fn overdue(&mut self, at: usize, reply: ReplyTo) {
        let now = self.local(at);
        let Some(node) = self.nodes.get(at) else { return };
        let Some(asked) = node.asked.get(&reply) else { return };
        // Its deadline may have passed while it was paused.
        if asked.deadline.is_some_and(|deadline| now >= deadline + MARGIN) {
            let what = asked.what.clone();
            self.judge.violations.push(format!("L8: n{at} has not answered {what:?} by its deadline"));
        }
    }

    pub(super) fn reply(&mut self, at: usize, to: ReplyTo, answer: Answer) {
        let Some(asked) = self.nodes.get_mut(at).and_then(|node| node.asked.remove(&to)) else {
            self.judge.violations.push(format!("L8: n{at} answers what nobody asks: {answer:?}"));
            return;
        };
        if let Ask::Stop { key, .. } = &asked.what {
            self.judge.stop_over(key);
        }
        match (asked.what, answer) {
            (Ask::Attach, Answer::Attached(Ok(()))) => {
                self.nodes[at].attached = true;
                let workers = self.rng.between(1, 2);
                for _ in 0..workers {
                    self.add_worker(at);
                }
            }
            (Ask::Submit { item, started, ensures }, Answer::Submitted(answer)) => {
                let answer = answer.map(drop);
                self.fits(at, &item, started, asked.since, &answer);
                if let (true, Err(DispatchError::JobExists { .. }), Some(by)) =
                    (ensures, answer, asked.deadline)
                {
                    self.ensure(at, item, by);
                }
            }
            (Ask::Question(question), Answer::Asked(result)) => {
                self.ask_ends(at, question, asked.deadline, &result);
            }
            (Ask::Start { item, question }, Answer::Submitted(answer)) => {
                let (since, answer) = (asked.since, answer.map(drop));
                self.started_to_ask(at, (&item, since), question, asked.deadline, &answer);
            }
            (Ask::End { item }, Answer::Stopped(_) | Answer::Late { .. }) => {
                if let Some(by) = asked.deadline {
                    self.hand_in(at, item, true, true, by);
                }
            }
            (Ask::Cancel { id }, Answer::Stopped(answer)) => self.cancelled(&id, asked.since, &answer),
            (Ask::Schedule { local }, Answer::Scheduled(Ok(()))) => {
                if let Some(part) = self.nodes[at].schedules.get_mut(&local) {
                    part.made = true;
                }
            }
            // A user has changed the pool's settings since the node was started.
            (Ask::Attach, Answer::Attached(Err(Error::SettingMismatch { .. }))) => self.kill(at),
            (Ask::Attach, Answer::Attached(Err(Error::TooOld(why)))) if self.is_too_old(at, why) => {
                self.kill(at);
            }
            (Ask::Attach, Answer::Attached(Err(_))) if self.closing => self.kill(at),
            (Ask::Shutdown, Answer::ShutDown { complete, left, .. }) if !complete && !self.closing => {
                self.judge.violations.push(format!("L5: the pool is not shut down after a minute: {left:?}"));
            }
            (Ask::Close, Answer::Closed { complete: true, .. }) => {
                let name = self.nodes[at].config.node.clone();
                if let Some(actor) = self.actors.values().find(|actor| actor.node == at && actor.runs()) {
                    self.judge.violations.push(format!("n{at} is closed, and {} runs", actor.key));
                }
                if self.server.has_members_of(&name) && self.available {
                    // An earlier life of the name may not yet be expired.
                    self.note(|| format!("n{at} has closed; {name} has members of an earlier life"));
                }
            }
            (what, answer) => self.judge_reply(at, what, asked.since, answer),
        }
    }

    /// Compares what a user hears of a job with what has come to pass.
    fn judge_reply(&mut self, at: usize, what: Ask, since: u64, answer: Answer) {
        match (what, answer) {
            (Ask::Wait { id }, Answer::Submitted(Ok(_))) if !self.judge.was_started(&id) => {
                self.judge.violations.push(format!("L8: wait says that {id} was started, and it was not"));
            }
            (Ask::Stop { key, until }, Answer::Stopped(Ok(()) | Err(Error::StopFailed { .. }))) => {
                let wrong = self.judge.stop_acknowledged(&key, until == Until::Gone, since);
                if let Some(what) = wrong {
                    self.judge.violations.push(format!("L8: stop of {key} is answered, and {what}"));
                }
            }
            (Ask::Notify { start: Some(_), .. }, Answer::Notified(Err(Error::NotStarted(error))))
                if matches!(*error, DispatchError::PoolFull) && self.judge.was_full(since) => {}
            (
                Ask::Notify { start: Some(id), .. },
                Answer::Notified(Err(error @ (Error::NotStarted(_) | Error::JobNotFound(_)))),
            ) => {
                let what = format!("L8: n{at} says {error} of {id}, and there is no reason for that");
                self.judge.violations.push(what);
            }
            (
                Ask::Stop { key, .. }
                | Ask::Notify { key, .. }
                | Ask::Update { key }
                | Ask::Steer { key, .. },
                Answer::Stopped(Err(Error::JobNotFound(_)))
                | Answer::Notified(Err(Error::JobNotFound(_)))
                | Answer::Updated(Err(Error::JobNotFound(_)))
                | Answer::Steered(Err(Error::JobNotFound(_))),
            ) if self.judge.lived_throughout(&key, since) => {
                self.judge.violations.push(format!("L8: {key} is said not to exist, and has all the time"));
            }
            (Ask::Notify { key, .. }, Answer::Notified(Err(Error::NotifyFull(_))))
                if !self.judge.was_crowded(&key, since) =>
            {
                let what = format!("S11: n{at} says {key} has too many notifications, and it has not");
                self.judge.violations.push(what);
            }
            (Ask::Notify { key, body, .. }, Answer::Notified(Ok(()))) if !self.judge.was_kept(&body) => {
                self.judge
                    .violations
                    .push(format!("S11: n{at} says {key} has {body:?}, which was never kept"));
            }
            (Ask::Steer { key, way, run }, Answer::Steered(Ok(()))) => {
                if let Some(what) = self.objects_to_steer(&key, way, run, since) {
                    self.judge.violations.push(format!("L8: {key} is said to be steered, and {what}"));
                }
            }
            _ => {}
        }
    }
}
