//! The ends of walks. If a scope asks for it, faults end at some moment, and each event comes once or is lost. Every
//! walk ends where nothing is left to do. There each job must run or have ended.

use std::time::Duration;

use tenure_protocol::model::id::WorkerId;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::settings::ShutdownFlag;
use tenure_protocol::step::{CleanUp, Purge, ReleaseMode, ShutDown, ShutdownMode};

use super::act::Act;
use super::scope::{Lapse, Left};
use super::world::{Hand, Life, Mail, Pool, Then, World, node};

/// A step of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    Ask(ShutdownMode),
    Purge,
    /// A worker ends a handler without being asked.
    Cease {
        worker: usize,
        key: usize,
    },
    Cleanup,
}

impl Pool {
    pub(crate) fn is_stopped(world: &World) -> bool {
        matches!(world.store.flag(), Some(ShutdownFlag::Stopping { .. }))
    }

    pub(crate) fn acts_of_settling(&self, world: &World, acts: &mut Vec<Act>) {
        if self.scope.closes {
            Self::acts_of_closing(world, acts);
        }
        if !self.scope.settles {
            return;
        }
        if !world.calm {
            acts.push(Act::Calm);
            if world.left.drops > 0 {
                acts.extend(world.mail.iter().map(|(to, mail)| Act::Drop(*to, *mail)));
            }
            return;
        }
        // A dead worker's lease is over before an assignment to it has timed out again and again.
        let dead = |id: WorkerId| world.workers.iter().any(|worker| worker.id == id && !worker.lives());
        let all_expired = !world.store.members().any(|(id, _)| dead(id));
        for (dispatch, &key) in self.scope.dispatches.iter().enumerate() {
            let Some(record) = world.store.record(&self.keys[key]) else { continue };
            let Some(owner) = record.owner else { continue };
            let mut workers = world.workers.iter().filter(|worker| worker.id == owner);
            let attends = workers.any(|worker| match worker.hands[key] {
                Hand::Running(_) | Hand::Begun(_) => record.state != JobState::Stopping,
                hand => hand.token() == Some(record.token),
            });
            let told = |mail| world.mail.contains(&(owner, mail));
            match record.state {
                JobState::Assigned if all_expired && !attends && !told(Mail::Start(key, record.token)) => {
                    acts.push(Act::Sweep);
                }
                JobState::Stopping
                    if !attends
                        && !told(Mail::Stop(key, record.token))
                        && !self.scope.lapses(Lapse::StopNotRepeated) =>
                {
                    acts.push(Act::Stop { dispatch, aim: true, repeat: true });
                }
                _ => {}
            }
        }
    }

    fn acts_of_closing(world: &World, acts: &mut Vec<Act>) {
        let mut may = |close| acts.push(Act::Close(close));
        match world.store.flag() {
            None => {
                may(Close::Ask(ShutdownMode::Closing(Duration::ZERO)));
                may(Close::Ask(ShutdownMode::DropQueued));
            }
            Some(ShutdownFlag::Closing { .. }) => may(Close::Ask(ShutdownMode::Advance)),
            Some(ShutdownFlag::Stopping { .. }) => {
                may(Close::Purge);
                may(Close::Cleanup);
                for (worker, state) in world.workers.iter().enumerate().filter(|(_, state)| state.lives()) {
                    let busy = |hand: &Hand| matches!(hand, Hand::Running(_) | Hand::Begun(_));
                    for (key, _) in state.hands.iter().enumerate().filter(|(_, hand)| busy(hand)) {
                        may(Close::Cease { worker, key });
                    }
                }
                let rests = |hands: &[Hand]| hands.iter().all(|hand| *hand == Hand::Idle);
                for (worker, state) in world.workers.iter().enumerate() {
                    if state.life == Life::Up && rests(&state.hands) {
                        acts.push(Act::Leave(worker));
                    }
                }
            }
        }
    }

    pub(crate) fn close(world: &mut World, close: Close) -> Option<()> {
        match close {
            Close::Ask(mode) => drop(world.on(&ShutDown { by: node(), mode }).ok()?),
            Close::Purge => drop(world.on(&Purge { limit: 8 }).ok()?),
            Close::Cleanup => {
                world.on(&CleanUp { tombstone: Duration::from_secs(60) }).ok()?;
            }
            Close::Cease { worker, key } => {
                let hand = &mut world.workers[worker].hands[key];
                *hand = match *hand {
                    Hand::Running(held) => Hand::Stopping(held, Then::Release(ReleaseMode::Delete)),
                    Hand::Begun(held) => Hand::Ending(held.leaving(ReleaseMode::Delete)),
                    other => other,
                };
            }
        }
        Some(())
    }

    /// From now on there are no losses, no deaths and no requests of users.
    pub(crate) fn calm(world: &mut World) {
        let mints = world.left.mints;
        world.left = Left { mints, ..Left::default() };
        world.calm = true;
    }

    /// Where each event comes once: takes away one that its worker has understood, or that is outdated.
    pub(crate) fn consume(&self, world: &mut World, to: WorkerId, mail: Mail, changed: bool) {
        let (key, token) = (mail.key(), mail.token());
        let hand = world.workers.iter().find(|worker| worker.id == to).map(|worker| worker.hands[key]);
        let record = world.store.record(&self.keys[key]);
        let current = record.is_some_and(|record| record.owner == Some(to) && record.token == token);
        let begins = hand.is_some_and(|hand| matches!((hand, mail), (Hand::Beginning(_), Mail::Stop(..))));
        let attends = hand.and_then(Hand::token) == Some(token) && !begins;
        if changed || !current || attends {
            world.mail.remove(&(to, mail));
        }
    }

    /// The faults are over, and each job runs, has ended or is parked.
    pub(crate) fn runs_or_has_ended(&self, world: &World) -> bool {
        let runs = |of: usize| {
            let up = world.workers.iter().filter(|worker| worker.life == Life::Up);
            up.flat_map(|worker| &worker.hands)
                .any(|hand| matches!(hand, Hand::Running(held) if held.of == of))
        };
        let state = |of: usize| world.store.record(&self.keys[self.scope.dispatches[of]]).map(|r| r.state);
        let settled = |of: usize| match state(of) {
            Some(JobState::Running) => runs(of),
            Some(JobState::Parked) => true,
            Some(_) => false,
            None => world.fates[of].over,
        };
        world.calm && (0..world.fates.len()).all(settled)
    }
}
