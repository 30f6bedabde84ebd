//! The possible next acts.

use tenure_protocol::model::id::{Incarnation, Token, WorkerId};
use tenure_protocol::model::record::JobState;
use tenure_protocol::step::ReleaseMode;

use super::asks::Asking;
use super::clock::Time;
use super::pauses::Wish;
use super::scope::Lapse;
use super::settle::Close;
use super::states::acts_of_states;
use super::updates::acts_of_reading;
use super::world::{Call, Hand, Leaving, Life, Mail, Offer, Parting, Pool, Said, Then, Worker, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// A dispatch is sent, or again.
    Dispatch(usize),
    /// A stop of a dispatch, with the right owner or none; repeated by the sweeper.
    Stop {
        dispatch: usize,
        aim: bool,
        repeat: bool,
    },
    /// The same by a node that names a worker by its view of the ring.
    Place {
        router: usize,
        dispatch: usize,
        worker: WorkerId,
    },
    /// A router reads the members.
    Refresh(usize),
    Route {
        router: usize,
        key: usize,
        worker: Option<WorkerId>,
    },
    Deliver(usize, Mail),
    /// `begin` is executed; its answer may be lost.
    Begin {
        worker: usize,
        key: usize,
        lost: bool,
    },
    /// The handler is called.
    Start {
        worker: usize,
        key: usize,
    },
    /// Its success is noted.
    Started {
        worker: usize,
        key: usize,
    },
    /// The handler ends by itself, or fails.
    End {
        worker: usize,
        key: usize,
        mode: ReleaseMode,
    },
    /// The handler is asked to end, so that the job can be handed off.
    HandOff {
        worker: usize,
        key: usize,
    },
    /// The handler has ended as it was asked to.
    Stopped {
        worker: usize,
        key: usize,
    },
    Release {
        worker: usize,
        key: usize,
        lost: bool,
    },
    /// The network keeps a copy of a call, to deliver it late.
    Copy(Call),
    Late(Incarnation, Call),
    Notify(usize),
    Take {
        worker: usize,
        key: usize,
        lost: bool,
    },
    /// A handler gives a checkpoint.
    Give {
        worker: usize,
        key: usize,
    },
    /// Its worker has it kept.
    Keep {
        worker: usize,
        key: usize,
        lost: bool,
    },
    Update(Offer),
    /// A worker reads the payload that it has heard of, and its handler takes it or does not.
    Read {
        worker: usize,
        key: usize,
        taken: bool,
        lost: bool,
    },
    Asking(Asking),
    /// A worker begins a granted job that it finds among its own, and of which it has not read.
    Find {
        worker: usize,
        key: usize,
        token: Token,
    },
    /// An owner is told of a granted job once more.
    Nudge(usize),
    /// Somebody pauses or resumes a job.
    Steer(Wish),
    Unpark,
    Time(Time),
    Close(Close),
    /// An event gets lost.
    Drop(WorkerId, Mail),
    /// The last fault has happened.
    Calm,
    Fence(usize),
    Expire(usize),
    Reap(WorkerId),
    Rejoin(usize),
    Drain(usize),
    Leave(usize),
    Sweep,
    /// Saves the present data, to which the data may roll back.
    Save,
    /// The data are lost, or roll back, and another incarnation begins.
    Lose,
    /// A worker reports its running jobs, and those that it has ended and handed off.
    Attest(usize),
    Attend(usize),
    /// Every worker has attested or had the time to fence itself: the pool opens.
    Open,
}

impl Pool {
    pub(crate) fn acts(&self, world: &World, acts: &mut Vec<Act>) {
        if world.broke.is_some() || world.store.is_closed() {
            return;
        }
        let sent = world.fates.iter().filter(|fate| fate.accepted).count();
        // A caller that has its answer does not ask again after a loss of data.
        let settled =
            |dispatch: &usize| world.left.losses < self.scope.left.losses && world.fates[*dispatch].over;
        let closing = world.store.flag().is_some();
        let settled = |dispatch: &usize| closing || settled(dispatch);
        let users = if self.starts_by_ask() { 0 } else { self.ids.len().min(sent + 1) };
        for dispatch in (0..users).filter(|id| !settled(id)) {
            acts.push(Act::Dispatch(dispatch));
            acts_of_placing(world, dispatch, acts);
        }
        self.acts_of_losses(world, acts);
        for (dispatch, fate) in world
            .fates
            .iter()
            .enumerate()
            .filter(|(_, fate)| fate.accepted && self.scope.stops && !world.calm)
        {
            let repeat = self.is_stopping(world, self.scope.dispatches[dispatch]);
            if !fate.over {
                acts.push(Act::Stop { dispatch, aim: false, repeat });
            }
            acts.push(Act::Stop { dispatch, aim: true, repeat });
        }
        for router in 0..world.views.len() {
            self.acts_of_router(world, router, acts);
        }
        for worker in 0..world.workers.len() {
            self.acts_of_worker(world, worker, acts);
        }
        acts.extend(world.copies.iter().map(|(inc, call)| Act::Late(*inc, *call)));
        if !self.scope.lapses(Lapse::NeverReaped) {
            acts.extend(world.store.dead().map(Act::Reap));
        }
        self.acts_of_time(world, acts);
        self.acts_of_settling(world, acts);
        if world.left.notes > 0 {
            let alive = |key: &usize| world.store.record(&self.keys[*key]).is_some();
            acts.extend((0..self.keys.len()).filter(alive).map(Act::Notify));
        }
        self.acts_of_updates(world, acts);
        self.acts_of_asks(world, acts);
        self.acts_of_pauses(world, acts);
        self.acts_of_grants(world, acts);
        if world.left.sweeps > 0 {
            acts.push(Act::Sweep);
        }
    }

    fn acts_of_losses(&self, world: &World, acts: &mut Vec<Act>) {
        if world.left.losses > 0 {
            acts.push(Act::Lose);
            if world.saved.is_none() {
                acts.push(Act::Save);
            }
        }
        if !world.store.is_recovering() {
            return;
        }
        for (worker, state) in world.workers.iter().enumerate().filter(|(_, state)| state.lives()) {
            match state.said {
                Said::Nothing => acts.push(Act::Attest(worker)),
                Said::All => acts.push(Act::Attend(worker)),
                Said::LastWord => {}
            }
            if state.said == Said::Nothing && self.scope.lapses(Lapse::AttendBeforeAttested) {
                acts.push(Act::Attend(worker));
            }
        }
        let mut living = world.workers.iter().filter(|worker| worker.lives());
        if self.scope.lapses(Lapse::OpenUnobserved) || living.all(|worker| worker.said == Said::LastWord) {
            acts.push(Act::Open);
        }
    }

    fn acts_of_router(&self, world: &World, router: usize, acts: &mut Vec<Act>) {
        let view = &world.views[router];
        if view.revision != world.store.member_revision() {
            acts.push(Act::Refresh(router));
        }
        if world.left.mints == 0 {
            return;
        }
        for (key, name) in self.keys.iter().enumerate() {
            if world.store.record(name).is_some() {
                acts.extend(view.up.iter().map(|worker| Act::Route { router, key, worker: Some(*worker) }));
                if view.up.is_empty() {
                    acts.push(Act::Route { router, key, worker: None });
                }
            }
        }
    }

    fn acts_of_worker(&self, world: &World, worker: usize, acts: &mut Vec<Act>) {
        let state = &world.workers[worker];
        match state.life {
            Life::Fenced => {
                if world.store.members().any(|(id, _)| id == state.id) {
                    acts.push(Act::Expire(worker));
                } else if world.left.rejoins > 0 {
                    acts.push(Act::Rejoin(worker));
                }
                for (key, hand) in state.hands.iter().enumerate() {
                    if matches!(hand, Hand::Begun(_)) {
                        acts.push(Act::Start { worker, key });
                    }
                }
                if self.scope.lapses(Lapse::GrantWithoutLease) {
                    let mine = world.mail.iter().filter(|(to, _)| *to == state.id).map(|(_, mail)| *mail);
                    let grants = mine.filter(|mail| matches!(mail, Mail::Grant(_)));
                    acts.extend(grants.map(|mail| Act::Deliver(worker, mail)));
                }
                return;
            }
            Life::Left => return,
            Life::Up if world.left.drains > 0 => acts.push(Act::Drain(worker)),
            Life::Draining if state.said != Said::LastWord => {}
            Life::Draining
                if state.hands.iter().all(|hand| *hand == Hand::Idle)
                    || self.scope.lapses(Lapse::LeaveBeforeJoined) =>
            {
                acts.push(Act::Leave(worker));
            }
            Life::Up | Life::Draining => {}
        }
        if world.left.fences > 0 {
            acts.push(Act::Fence(worker));
        }
        let mine = world.mail.iter().filter(|(to, _)| *to == state.id).map(|(_, mail)| *mail);
        acts.extend(mine.filter(|mail| state.hears(*mail)).map(|mail| Act::Deliver(worker, mail)));
        for (key, &hand) in state.hands.iter().enumerate() {
            self.acts_of_hand(world, worker, key, hand, acts);
        }
    }

    fn acts_of_hand(&self, world: &World, worker: usize, key: usize, hand: Hand, acts: &mut Vec<Act>) {
        let id = world.workers[worker].id;
        let may_lose = world.left.lost > 0;
        let mut copy = |call: Call| {
            if world.left.copies > 0 && !world.copies.contains(&(world.inc, call)) {
                acts.push(Act::Copy(call));
            }
        };
        match hand {
            Hand::Idle => {}
            Hand::Beginning(token) => {
                copy(Call::Begin(id, key, token));
                if world.store.is_recovering() {
                    return;
                }
                acts.push(Act::Begin { worker, key, lost: false });
                if may_lose {
                    acts.push(Act::Begin { worker, key, lost: true });
                }
            }
            Hand::Begun(_) => acts.push(Act::Start { worker, key }),
            Hand::Running(held) => {
                if held.saved < held.given {
                    copy(Call::Keep(id, key, held.token, held.given));
                }
                if self.scope.left.notes > 0 {
                    copy(Call::Take(id, key, held.token, held.heard));
                }
                // An ask does not depend on it.
                if self.scope.ask.is_none() {
                    acts.push(Act::Started { worker, key });
                }
                if self.scope.left.notes > 0 {
                    acts.push(Act::Take { worker, key, lost: false });
                    if may_lose {
                        acts.push(Act::Take { worker, key, lost: true });
                    }
                }
                acts_of_states(world, worker, key, held, acts);
                acts_of_reading(world, worker, key, held, acts);
                if !world.calm {
                    let may_end = |mode: &&ReleaseMode| self.may_leave(held, **mode);
                    let endings = self.scope.endings.iter().filter(may_end);
                    acts.extend(endings.map(|&mode| Act::End { worker, key, mode }));
                }
                if world.workers[worker].life == Life::Draining {
                    acts.push(Act::HandOff { worker, key });
                }
            }
            Hand::Stopping(held, then) => {
                acts_of_states(world, worker, key, held, acts);
                let may_leave = match then {
                    Then::Release(mode) => self.may_leave(held, mode),
                    Then::Nothing | Then::Outranked => true,
                };
                if may_leave {
                    acts.push(Act::Stopped { worker, key });
                }
            }
            Hand::Ending(leaving) => {
                copy(Call::Release(id, key, leaving));
                acts.push(Act::Release { worker, key, lost: false });
                if may_lose {
                    acts.push(Act::Release { worker, key, lost: true });
                }
            }
        }
    }

    /// A worker acts on an event; it does nothing while it has something else to do with the key.
    pub(crate) fn deliver(&self, world: &mut World, worker: usize, mail: Mail) {
        let Worker { hands, journal, .. } = &mut world.workers[worker];
        match mail {
            Mail::Grant(grant) => self.on_grant(world, worker, grant),
            Mail::Start(key, token) if hands[key] == Hand::Idle => hands[key] = Hand::Beginning(token),
            Mail::Start(key, token) => {
                if hands[key].token() == Some(token) && self.scope.lapses(Lapse::RedeliveredStartRefused) {
                    self.refuse(world, worker, key, token);
                }
            }
            Mail::Stop(key, token) => match hands[key] {
                Hand::Running(held) | Hand::Stopping(held, _) if held.token == token => {
                    hands[key] = Hand::Stopping(held, Then::Release(ReleaseMode::Delete));
                }
                Hand::Begun(held) if held.token == token => {
                    journal.insert((key, held.of, token, Parting::Ended { ran: held.ran, sure: true }));
                    hands[key] = Hand::Ending(Leaving::unused(token, ReleaseMode::Delete));
                }
                Hand::Idle => hands[key] = Hand::Ending(Leaving::unused(token, ReleaseMode::Delete)),
                _ => {}
            },
            Mail::Update(key, token, generation) => {
                if let Hand::Running(held) | Hand::Begun(held) = &mut hands[key]
                    && held.token == token
                {
                    held.told = held.told.max(generation);
                }
            }
            Mail::Ask(key, token, attempt) => self.on_ask(&mut world.workers[worker], key, token, attempt),
            Mail::Pause(key, token) => {
                let any = self.scope.lapses(Lapse::PausedUnderAnyToken);
                match hands[key] {
                    Hand::Running(held) if any || held.token == token => {
                        hands[key] = Hand::Stopping(held, Then::Release(ReleaseMode::Park));
                    }
                    Hand::Begun(held) if any || held.token == token => {
                        hands[key] = Hand::Ending(held.leaving(ReleaseMode::Park));
                    }
                    _ => {}
                }
            }
        }
        self.has_seen(world, worker, mail);
    }

    pub(crate) fn is_stopping(&self, world: &World, key: usize) -> bool {
        world.store.record(&self.keys[key]).is_some_and(|record| record.state == JobState::Stopping)
    }
}

fn acts_of_placing(world: &World, dispatch: usize, acts: &mut Vec<Act>) {
    if world.left.mints > 0 {
        for (router, view) in world.views.iter().enumerate() {
            acts.extend(view.up.iter().map(|&worker| Act::Place { router, dispatch, worker }));
        }
    }
}
