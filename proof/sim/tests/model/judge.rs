//! The effects of a step, seen from outside: events are taken, records before and after are compared.

use tenure_protocol::model::id::Token;
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::WorkerEvent;
use tenure_sim::transitions::may;

use super::asks::Attempt;
use super::grants::is_unread;
use super::notes::Notes;
use super::pauses::{Pauses, Wish};
use super::scope::Lapse;
use super::states::States;
use super::updates::Payloads;
use super::world::{Hand, Life, Mail, Pool, Said, Then, World};

/// The cause of a change of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Route {
        fresh: bool,
    },
    /// A stop that names a dispatch.
    Stop {
        dispatch: usize,
    },
    Release,
    /// A release of a worker that took a redelivered event for a new one.
    Refuse,
    Reap,
    Attest,
    Loss,
    /// Somebody pauses or resumes a job.
    Steer(Wish),
    /// A step of a shutdown.
    Close,
    /// A call that was sent in another incarnation.
    Stale,
    Other,
}

impl Pool {
    pub(crate) fn judge(&self, before: &World, world: &mut World, cause: Cause) {
        let starts = self.take_events(world);
        for (key, name) in self.keys.iter().enumerate() {
            let (old, new) = (before.store.record(name), world.store.record(name).cloned());
            if old == new.as_ref() {
                continue;
            }
            if cause == Cause::Loss {
                continue;
            }
            let broke = match (cause, old) {
                (Cause::Stale, _) => Some("S10"),
                (Cause::Stop { dispatch }, Some(old)) if self.dispatch_of(old) != dispatch => Some("S6"),
                (Cause::Close | Cause::Reap, Some(_)) if new.is_none() && Self::is_stopped(before) => None,
                (_, Some(old)) => violation(old, new.as_ref(), cause),
                (_, None) => {
                    let given = |new: &Record| new.state == JobState::Assigned || is_unread(new);
                    let assigned = new.as_ref().is_some_and(given);
                    (assigned && cause != Cause::Route { fresh: true }).then_some("S9")
                }
            };
            // With a property of one kind asked for, a walk does not end at the violation of another.
            let asked = |name: &&str| self.only.as_ref().is_none_or(|only| name == &only.trim_end());
            world.broke = world.broke.or(broke.filter(asked));
            if let (Some(old), true) = (old, old.map(|r| &r.id) != new.as_ref().map(|r| &r.id)) {
                let of = self.dispatch_of(old);
                world.fates[of].over = !has_later(world, key, of, old.token);
                world.notes[key] = Notes::default();
                world.states[key] = States::default();
                world.payloads[key] = Payloads::default();
                world.pauses = Pauses::default();
            }
            let Some(new) = new else { continue };
            match old.filter(|old| old.id == new.id) {
                Some(old) => {
                    let broke = world.pauses.saw(old, &new, cause);
                    world.broke = world.broke.or(broke);
                }
                None if self.starts_by_ask() && !world.asked.has_job() => world.broke = Some("S14"),
                None => {}
            }
            let was = old.map(|old| old.state);
            let may_grant = new.state == JobState::Running && cause != Cause::Attest;
            let is_granted = may_grant && matches!(was, None | Some(JobState::Queued));
            if new.state == JobState::Assigned && was != Some(JobState::Assigned) || is_granted {
                let sent = starts.iter().filter(|start| **start == (key, new.token)).count();
                if sent != 1 {
                    world.broke = Some("S7");
                }
            }
            let begins = new.state == JobState::Running && was != Some(JobState::Running);
            if begins && cause != Cause::Attest && !world.begun.insert((key, new.token)) {
                world.broke = Some("S7");
            }
        }
        let hears = self.scope.lapses(Lapse::GrantWithoutLease);
        let living = |world: &World, id| world.workers.iter().any(|w| w.id == id && (w.lives() || hears));
        let mail = std::mem::take(&mut world.mail);
        world.mail = mail.into_iter().filter(|(to, _)| living(world, *to)).collect();
    }

    /// Takes the events of workers; returns the starts.
    fn take_events(&self, world: &mut World) -> Vec<(usize, Token)> {
        let mut starts = Vec::new();
        for (worker, event) in world.store.take_events() {
            match event {
                WorkerEvent::Start { token, keys } => {
                    for key in &keys {
                        starts.push((self.key_of(key), token));
                        let news = self.news_of(world, self.key_of(key), token);
                        world.mail.insert((worker, news));
                    }
                }
                WorkerEvent::Grant(granted) => {
                    granted.jobs.iter().for_each(|job| self.check_grant(world, job));
                    for grant in self.grants_of(&granted) {
                        starts.push((grant.key, grant.token));
                        world.mail.insert((worker, Mail::Grant(grant)));
                    }
                }
                WorkerEvent::Stop { jobs, .. } => {
                    for (key, token, _) in &jobs {
                        world.mail.insert((worker, Mail::Stop(self.key_of(key), *token)));
                    }
                }
                WorkerEvent::Ask { asks, .. } => {
                    for (key, ask) in &asks {
                        let number = u8::try_from(ask.id.number).unwrap_or_default();
                        let attempt = Attempt { number, poke: ask.poke };
                        world.mail.insert((worker, Mail::Ask(self.key_of(key), ask.token, attempt)));
                    }
                }
                WorkerEvent::Steer { jobs } => {
                    for (key, token, ..) in &jobs {
                        world.mail.insert((worker, Mail::Pause(self.key_of(key), *token)));
                    }
                }
                WorkerEvent::Update { jobs } => {
                    for (key, token, generation) in &jobs {
                        world.mail.insert((worker, Mail::Update(self.key_of(key), *token, *generation)));
                    }
                }
                _ => {}
            }
        }
        starts
    }

    /// A handler that runs without the record naming its worker, or a record whose worker does nothing about it.
    pub(crate) fn stray(&self, world: &World) -> Option<&'static str> {
        for worker in &world.workers {
            let speaks = !world.store.is_recovering() || worker.said == Said::LastWord;
            if worker.life == Life::Fenced || !speaks {
                continue;
            }
            for (key, hand) in worker.hands.iter().enumerate() {
                let record = world.store.record(&self.keys[key]).filter(|record| {
                    record.owner == Some(worker.id)
                        && matches!(record.state, JobState::Running | JobState::Stopping)
                });
                let outranked = matches!(hand, Hand::Stopping(_, Then::Outranked));
                if !outranked
                    && hand
                        .active()
                        .is_some_and(|held| record.is_none_or(|record| record.token != held.token))
                {
                    return Some("S2");
                }
                let running = record.filter(|record| record.state == JobState::Running);
                if running.is_some_and(|record| {
                    let is_news = self.scope.grants && worker.may_not_know(key, record);
                    hand.token() != Some(record.token) && !is_news
                }) {
                    return Some("unattended");
                }
            }
        }
        None
    }
}

/// A worker has the job under a later token. The data went back to before that.
fn has_later(world: &World, key: usize, of: usize, token: Token) -> bool {
    world.workers.iter().filter(|worker| worker.lives()).any(|worker| match worker.hands[key] {
        Hand::Begun(held) | Hand::Running(held) | Hand::Stopping(held, _) => {
            held.of == of && held.token > token
        }
        _ => false,
    })
}

/// The property that a change of a record violates.
fn violation(old: &Record, new: Option<&Record>, cause: Cause) -> Option<&'static str> {
    let new = new.filter(|new| new.id == old.id);
    let Some(new) = new else {
        let may_end = match cause {
            Cause::Stop { .. } => may("stop", Some(old.state), None),
            Cause::Release => may("release", Some(old.state), None),
            // Only a pool that is shutting down drops others.
            Cause::Reap | Cause::Refuse => old.state == JobState::Stopping,
            cause => cause == Cause::Attest,
        };
        return (!may_end).then_some("S4");
    };
    if old.state == JobState::Stopping && new.state != JobState::Stopping {
        return Some("S6");
    }
    if new.token != old.token && !matches!(cause, Cause::Route { .. } | Cause::Attest) {
        return Some("S10");
    }
    let given = matches!(new.state, JobState::Assigned | JobState::Running);
    let assigned = given && new.token != old.token && cause != Cause::Attest;
    if assigned && (old.state != JobState::Queued || cause != Cause::Route { fresh: true }) {
        return Some("S9");
    }
    None
}
