//! Losses of data, and the reports of workers in phase R.

use std::time::Duration;

use futures::FutureExt;
use tenure_pool::id::Token;
use tenure_pool::member::Member;
use tenure_pool::record::Begun;
use tenure_pool::store::{Attest, AttestItem, AttestReply, HandedOff, ReleaseMode, Result, Seen, Store};

use super::scope::Lapse;
use super::world::{Hand, Held, NOW, Pool, Said, Then, World, on};

impl Pool {
    /// The data roll back to the saved state, or are lost, and a new incarnation begins. In a real pool, the time of
    /// the server's clock keeps new tokens above all earlier ones. Here the clock stands still, and the highest token
    /// is passed instead.
    pub(crate) fn lose(&self, world: &mut World) {
        world.left.losses -= 1;
        let seen = Seen { token: Token(world.store.last_token()), incarnation: world.inc, ..Seen::default() };
        let mut inc = world.inc;
        if let Some(saved) = world.saved.take() {
            world.store = *saved;
        } else {
            world.store.wipe();
            world.store.break_on_purpose(self.scope.broken.clone());
            inc = on!(world.store, bootstrap(seen, "memory0", &self.settings)).unwrap().incarnation;
        }
        world.inc = on!(world.store, recover(inc, seen, "memory0", "")).unwrap();
        let lives = |of: usize| world.store.record(&self.keys[self.scope.dispatches[of]]).is_some();
        let known = |of: usize| {
            let mut living = world.workers.iter().filter(|worker| worker.lives());
            living.any(|worker| worker.journal.iter().any(|entry| entry.1 == of && entry.3))
        };
        let fates: Vec<_> = (0..world.fates.len()).map(|of| (lives(of), known(of))).collect();
        for (fate, (lives, known)) in world.fates.iter_mut().zip(fates) {
            fate.over &= known || !lives;
        }
        for worker in world.workers.iter_mut().filter(|worker| worker.lives()) {
            worker.said = Said::Nothing;
            for hand in &mut worker.hands {
                if matches!(hand, Hand::Beginning(_)) {
                    *hand = Hand::Idle;
                }
            }
        }
    }

    pub(crate) fn attest(&self, world: &mut World, worker: usize) -> Result<()> {
        let state = &world.workers[worker];
        let (id, hands, journal) = (state.id, state.hands.clone(), state.journal.clone());
        let item = |key: usize, of: usize, token, what| AttestItem {
            key: self.keys[key].clone(),
            token,
            id: self.ids[of].clone(),
            what,
        };
        let mut items = Vec::new();
        let mut held_keys = Vec::new();
        for (key, hand) in hands.iter().enumerate() {
            let (Hand::Begun(held) | Hand::Running(held) | Hand::Stopping(held, Then::Release(_))) = *hand
            else {
                continue;
            };
            held_keys.push((key, held));
            items.push(item(key, held.of, held.token, runs(held)));
        }
        for (key, of, token, ended) in
            journal.into_iter().filter(|_| !self.scope.lapses(Lapse::JournalNotSent))
        {
            items.push(item(key, of, token, said(ended)));
        }
        let entry = format!("U|{worker}|10000|n{worker}|n|");
        let member = Member::parse(entry.as_bytes()).unwrap();
        let replies = on!(world.store, attest(world.inc, id, &member, &items))?;
        world.workers[worker].said = Said::All;
        for ((key, held), reply) in held_keys.into_iter().zip(replies) {
            let hand = &mut world.workers[worker].hands[key];
            let runs = hand.active().is_some();
            match reply {
                AttestReply::MustStop if runs => {
                    *hand = Hand::Stopping(held, Then::Release(ReleaseMode::Delete));
                }
                AttestReply::MustStop => *hand = Hand::Ending(held.leaving(ReleaseMode::Delete)),
                AttestReply::Outranked => {
                    let record = world.store.record(&self.keys[key]);
                    if record.is_none_or(|record| record.owner.is_none() || record.token < held.token) {
                        world.broke = Some("S2");
                    }
                    *hand = if runs { Hand::Stopping(held, Then::Outranked) } else { Hand::Idle };
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn said(ended: bool) -> Attest {
    let (mode, attempts, delay) = (ReleaseMode::HandOff, 0, Duration::ZERO);
    if ended {
        return Attest::Ended { outcome: String::new(), unless: None };
    }
    Attest::HandedOff(HandedOff {
        begun: Begun::Begun,
        mode,
        cause: tenure_pool::Cause::Moved,
        attempts,
        delay,
        error: String::new(),
    })
}

fn runs(held: Held) -> Attest {
    Attest::Runs {
        begun: held.begun,
        attempts: held.attempts,
        created: NOW,
        plan: String::new(),
        generation: 0,
        payload: Some(bytes::Bytes::new()),
    }
}
