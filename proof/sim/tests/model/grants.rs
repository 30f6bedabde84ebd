//! Grants: a worker starts a placed job on reading the news of it.
//!
//! Mail comes in any order, any number of times, which is more than a stream that is read again does. So the claim is
//! stronger than what a worker needs: it honours a grant only above every token that it has read or spoken of.

use tenure_protocol::model::id::{Incarnation, Token};
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::step::{Granted, GrantedJob, ReleaseMode, Steer, SteerItem, Way};

use super::act::Act;
use super::notes::Heard;
use super::scope::Lapse;
use super::states::named;
use super::world::{Hand, Held, Leaving, Life, Mail, Pool, Said, Worker, World};

/// The news of a job that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Grant {
    pub(crate) key: usize,
    pub(crate) token: Token,
    of: usize,
    incarnation: Incarnation,
    begun: Begun,
    /// The generation of its payload.
    generation: u64,
    /// The checkpoint that it has.
    checkpoint: Option<(Token, u8)>,
}

/// The record says that a worker runs the job, and nobody has said that it begins.
pub(crate) fn is_unread(record: &Record) -> bool {
    record.state == JobState::Running && record.begun == Begun::Never
}

impl Worker {
    /// Whether it acts on this mail now. A worker has one hand for a key here: with another run of the key in that hand, it
    /// hears of a grant later.
    pub(crate) fn hears(&self, mail: Mail) -> bool {
        let Mail::Grant(Grant { key, token, .. }) = mail else { return true };
        let hand = &self.hands[key];
        *hand == Hand::Idle || hand.token() == Some(token)
    }

    /// The record names this worker as the one that runs the job, and the worker has never had that run in hand.
    pub(crate) fn may_not_know(&self, key: usize, record: &Record) -> bool {
        is_unread(record) || record.token > self.had[key]
    }
}

impl Pool {
    pub(crate) fn grants_of<'a>(&'a self, granted: &'a Granted) -> impl Iterator<Item = Grant> + 'a {
        granted.jobs.iter().map(|GrantedJob { key, job, .. }| Grant {
            key: self.key_of(key),
            token: granted.token,
            of: self.dispatch_of(&job.record),
            incarnation: granted.incarnation,
            begun: job.record.begun,
            generation: job.record.generation(),
            checkpoint: job.checkpoint.as_deref().map(named),
        })
    }

    /// A grant has what a begin of the same moment answers.
    pub(crate) fn check_grant(&self, world: &mut World, GrantedJob { key, job, .. }: &GrantedJob) {
        let key = self.key_of(key);
        self.check_belongings(world, key, job);
    }

    /// The news of an assigned job.
    pub(crate) fn news_of(&self, world: &World, key: usize, token: Token) -> Mail {
        match world.store.record(&self.keys[key]).filter(|_| self.scope.lapses(Lapse::AssignedAsGrant)) {
            Some(record) => {
                let (of, incarnation) = (self.dispatch_of(record), world.inc);
                let (begun, generation) = (record.begun, record.generation());
                Mail::Grant(Grant { key, token, of, incarnation, begun, generation, checkpoint: None })
            }
            None => Mail::Start(key, token),
        }
    }

    pub(crate) fn acts_of_grants(&self, world: &World, acts: &mut Vec<Act>) {
        if !self.scope.grants {
            return;
        }
        for (key, name) in self.keys.iter().enumerate() {
            let running = |record: &&Record| record.state == JobState::Running;
            let Some(record) = world.store.record(name).filter(running) else { continue };
            if is_unread(record) {
                acts.push(Act::Nudge(key));
            }
            let finds = |worker: &&Worker| {
                worker.lives()
                    && worker.hands[key] == Hand::Idle
                    && (is_unread(record) || record.token > worker.high)
            };
            let owner = world.workers.iter().position(|worker| Some(worker.id) == record.owner);
            let finder = owner.filter(|&at| finds(&&world.workers[at]));
            acts.extend(finder.map(|worker| Act::Find { worker, key, token: record.token }));
        }
    }

    pub(crate) fn look_at_hands(&self, world: &mut World) {
        if !self.scope.grants {
            return;
        }
        for worker in &mut world.workers {
            for (had, hand) in worker.had.iter_mut().zip(&worker.hands) {
                *had = (*had).max(hand.token().unwrap_or_default());
            }
        }
    }

    /// The worker takes a granted job as a begun one, or asks before it starts.
    pub(crate) fn on_grant(&self, world: &mut World, worker: usize, grant: Grant) {
        let Grant { key, token, of, incarnation, begun, generation, checkpoint } = grant;
        let (now, recovering) = (world.inc, world.store.is_recovering());
        let state = &mut world.workers[worker];
        if state.hands[key] != Hand::Idle {
            return;
        }
        let is_new = token > state.high || self.scope.lapses(Lapse::GrantTwice);
        let is_present = incarnation == now && !recovering && state.said == Said::LastWord
            || self.scope.lapses(Lapse::GrantOfAnyIncarnation);
        let holds = state.life == Life::Up || self.scope.lapses(Lapse::GrantWithoutLease);
        if !(is_new && is_present && holds) {
            state.hands[key] = Hand::Beginning(token);
            return;
        }
        if self.scope.full {
            state.hands[key] = Hand::Ending(Leaving::unused(token, ReleaseMode::Elsewhere { workers: 2 }));
            return;
        }
        state.hands[key] = Hand::Begun(Held {
            token,
            attempts: 1,
            begun: if begun == Begun::Never { Begun::Begun } else { begun },
            of,
            heard: Heard::default(),
            given: 0,
            saved: 0,
            ran: generation,
            told: generation,
        });
        // With a loss of data, what was left may be older.
        if self.scope.left.losses == 0 && !world.states[key].is_what_is_left(checkpoint) {
            world.broke = Some("S15");
        }
    }

    /// The worker has read or spoken of this token: it honours no grant of it, nor of an earlier one.
    pub(crate) fn has_seen(&self, world: &mut World, worker: usize, mail: Mail) {
        if matches!(mail, Mail::Stop(..)) && self.scope.lapses(Lapse::StopRaisesNothing) {
            return;
        }
        let high = &mut world.workers[worker].high;
        *high = (*high).max(mail.token());
    }

    /// The worker has found a granted job among its own that it does not know, and begins the job.
    pub(crate) fn find(&self, world: &mut World, worker: usize, key: usize, token: Token) {
        let state = &mut world.workers[worker];
        state.hands[key] = Hand::Beginning(token);
        if !self.scope.lapses(Lapse::BeginsUnread) {
            state.high = state.high.max(token);
        }
    }

    /// Whoever waits for a granted job has its owner told once more.
    pub(crate) fn nudge(&self, world: &mut World, key: usize) -> Option<()> {
        let record = world.store.record(&self.keys[key])?.clone();
        let (owner, token) = (record.owner?, record.token);
        let item = SteerItem {
            key: self.keys[key].clone(),
            id: record.id.clone(),
            token,
            since: record.since,
            way: Way::Now,
            guess: Some(owner),
            reason: String::new(),
        };
        world.on(&Steer { items: vec![item] }).ok()?;
        Some(())
    }
}
