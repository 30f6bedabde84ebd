//! Losses of data, and the reports of workers in phase R.

use std::time::Duration;

use bytes::Bytes;
use tenure_protocol::model::id::Token;
use tenure_protocol::model::member::Member;
use tenure_protocol::model::record::{Begun, Record};
use tenure_protocol::step::{
    Attest, AttestItem, AttestJobs, AttestReply, HandedOff, LaterPayload, Recover, ReleaseMode, Result, Seen,
};

use super::scope::Lapse;
use super::world::{Hand, Held, NOW, Parting, Pool, Said, Then, World, on};

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
            inc = self.bootstrap(&mut world.store, seen);
        }
        world.inc =
            on(&mut world.store, inc, &Recover { seen, run_id: "memory0".into(), lost: String::new() })
                .unwrap();
        let lives = |of: usize| world.store.record(&self.keys[self.scope.dispatches[of]]).is_some();
        let known = |of: usize| {
            let mut living = world.workers.iter().filter(|worker| worker.lives());
            let ended = |parting: &Parting| matches!(parting, Parting::Ended { .. });
            living.any(|worker| worker.journal.iter().any(|entry| entry.1 == of && ended(&entry.3)))
        };
        let fates: Vec<_> = (0..world.fates.len()).map(|of| (lives(of), known(of))).collect();
        for (fate, (lives, known)) in world.fates.iter_mut().zip(fates) {
            fate.over &= known || !lives;
        }
        for (key, name) in self.keys.iter().enumerate() {
            let living = world.workers.iter().filter(|worker| worker.lives());
            let held = living.filter_map(|worker| match worker.hands[key] {
                Hand::Begun(held) => Some(held),
                hand => hand.active(),
            });
            let kept = world.store.record(name).map_or(0, Record::generation);
            let generation = held.map(|held| held.ran).fold(kept, u64::max);
            world.payloads[key].lose_after(generation);
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
            let payload = world.payloads[key].of(held.ran);
            items.push(item(key, held.of, held.token, runs(held, payload)));
        }
        let mut ends = Vec::new();
        for (key, of, token, parting) in
            journal.into_iter().filter(|_| !self.scope.lapses(Lapse::JournalNotSent))
        {
            // Of a second word about a job, the record before is not known.
            let first = items.iter().all(|item| item.key != self.keys[key]);
            if let (Parting::Ended { ran, .. }, true) = (parting, first) {
                let record = world.store.record(&self.keys[key]);
                let has_later =
                    record.is_some_and(|record| record.id == self.ids[of] && record.generation() > ran);
                ends.extend(has_later.then_some(items.len()));
            }
            let unless = !self.scope.lapses(Lapse::EndNamesNoPayload);
            items.push(item(key, of, token, said(parting, unless)));
        }
        let entry = format!("U|{worker}|10000|n{worker}|n|");
        let member = Member::parse(entry.as_bytes()).unwrap();
        let replies = world.on(&AttestJobs { worker: id, member, items })?;
        world.workers[worker].said = Said::All;
        if ends.iter().any(|at| replies[*at] == AttestReply::Ended) {
            world.broke = Some("S17");
        }
        for ((key, held), reply) in held_keys.into_iter().zip(replies) {
            let hand = &mut world.workers[worker].hands[key];
            let runs = hand.active().is_some();
            // The last run of its job has not ended, and nobody stops it.
            let is_last = world.begun.iter().all(|(of, token)| *of != key || *token <= held.token);
            if is_last && !self.scope.stops && matches!(reply, AttestReply::MustStop | AttestReply::Ended) {
                world.broke = Some("S17");
            }
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

/// `unless`: an end that is not sure names its payload.
fn said(parting: Parting, unless: bool) -> Attest {
    let (mode, attempts, delay) = (ReleaseMode::HandOff, 0, Duration::ZERO);
    if let Parting::Ended { ran, sure } = parting {
        let later = LaterPayload { than: ran, begun: Begun::Begun, rest: None };
        let unless = (unless && !sure).then_some(later);
        return Attest::Ended { outcome: String::new(), unless };
    }
    Attest::HandedOff(HandedOff {
        begun: Begun::Begun,
        mode,
        cause: tenure_pool::inspect::Cause::Moved,
        attempts,
        delay,
        error: String::new(),
    })
}

fn runs(held: Held, payload: Bytes) -> Attest {
    Attest::Runs {
        back: false,
        begun: held.begun,
        attempts: held.attempts,
        created: NOW,
        plan: String::new(),
        generation: held.ran,
        payload: Some(payload),
    }
}
