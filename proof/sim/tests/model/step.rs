//! One transition: a role acts, a step of the store is executed, the judge looks.

use tenure_protocol::model::id::{Revision, Token, WorkerId};
use tenure_protocol::model::record::{JobState, Record};
use tenure_protocol::step::{
    Attend, Begin, BeginReply, BegunJob, Dispatch, DispatchItem, DispatchReply, Drain, Expire, OpenNormal,
    Placing, Reap, Refusal, Release, ReleaseItem, ReleaseMode, ReleaseReply, Result, Route, Started,
    StartedItem, Stop, StopItem, StopReply, StoreError, Sweep, WorkerBegins, WorkerStarts,
};

use super::act::Act;
use super::judge::Cause;
use super::notes::Heard;
use super::scope::Lapse;
use super::states::give;
use super::states::named;
use super::world::{Call, Hand, Held, Leaving, Life, NOW, Parting, Pool, Said, Then, View, World, view};

impl Pool {
    pub(crate) fn step(&self, before: &World, act: Act) -> Option<World> {
        let mut world = before.clone();
        let mut cause = Cause::Other;
        match act {
            Act::Dispatch(dispatch) => {
                self.dispatch(&mut world, dispatch, Revision(0), None);
            }
            Act::Place { router, dispatch, worker } => {
                let View { revision, .. } = world.views[router];
                let fresh = revision == world.store.member_revision();
                let token = world.store.last_token();
                self.dispatch(&mut world, dispatch, revision, Some(worker));
                if world.store.last_token() > token {
                    world.left.mints -= 1;
                }
                cause = Cause::Route { fresh };
            }
            Act::Stop { dispatch, aim, repeat } => {
                drop(self.stop(&mut world, dispatch, aim, repeat));
                cause = Cause::Stop { dispatch };
            }
            Act::Refresh(router) => world.views[router] = view(&world.store),
            Act::Route { router, key, worker } => {
                let View { revision, .. } = world.views[router];
                let jobs = vec![(self.keys[key].clone(), worker)];
                let fresh = revision == world.store.member_revision();
                let token = world.store.last_token();
                let answer = world.on(&Route { ring: revision, entries: Vec::new(), jobs });
                if world.store.last_token() > token {
                    world.left.mints -= 1;
                }
                if matches!(answer, Err(StoreError::Refused(Refusal::StaleRing(_)))) {
                    world.views[router] = view(&world.store);
                }
                cause = Cause::Route { fresh };
            }
            Act::Deliver(worker, mail) => {
                cause = Cause::Refuse;
                self.deliver(&mut world, worker, mail);
                if self.scope.settles {
                    let changed = world.workers[worker].hands != before.workers[worker].hands;
                    self.consume(&mut world, before.workers[worker].id, mail, changed);
                }
            }
            Act::Begin { worker, key, lost } => self.begin(&mut world, worker, key, lost),
            Act::Start { worker, key } => start(&mut world, worker, key),
            Act::Started { worker, key } => {
                let id = world.workers[worker].id;
                let Hand::Running(held) = &mut world.workers[worker].hands[key] else { return None };
                held.begun = tenure_protocol::model::record::Begun::Started;
                let item = StartedItem { key: self.keys[key].clone(), token: held.token, tell: None };
                world
                    .on(&Started {
                        starts: vec![WorkerStarts { worker: id, finished: vec![], items: vec![item] }],
                    })
                    .ok()?;
            }
            Act::End { worker, key, mode } => self.end(&mut world, worker, key, mode)?,
            Act::HandOff { worker, key } => {
                let Hand::Running(held) = world.workers[worker].hands[key] else { return None };
                let then = if self.scope.lapses(Lapse::HandOffBeforeStop) {
                    let id = world.workers[worker].id;
                    self.release(&mut world, id, key, held.leaving(ReleaseMode::HandOff)).ok()?;
                    cause = Cause::Release;
                    Then::Nothing
                } else {
                    Then::Release(ReleaseMode::HandOff)
                };
                world.workers[worker].hands[key] = Hand::Stopping(held, then);
            }
            Act::Stopped { worker, key } => {
                let Hand::Stopping(_, then) = world.workers[worker].hands[key] else { return None };
                match then {
                    Then::Release(mode) => self.end(&mut world, worker, key, mode)?,
                    Then::Nothing | Then::Outranked => world.workers[worker].hands[key] = Hand::Idle,
                }
            }
            Act::Release { worker, key, lost } => {
                let id = world.workers[worker].id;
                let Hand::Ending(leaving) = world.workers[worker].hands[key] else { return None };
                let reply = self.release(&mut world, id, key, leaving).ok()?;
                cause = Cause::Release;
                if lost {
                    world.left.lost -= 1;
                } else {
                    world.workers[worker].hands[key] = Hand::Idle;
                    let certain = self.scope.lapses(Lapse::LossEndIsSure);
                    hear_of_leaving(&mut world, worker, key, leaving.token, reply, certain);
                }
            }
            Act::Copy(call) => {
                world.left.copies -= 1;
                world.copies.insert((world.inc, call));
            }
            Act::Late(inc, call) => {
                world.copies.remove(&(inc, call));
                let now = std::mem::replace(&mut world.inc, inc);
                match call {
                    Call::Begin(id, key, token) => drop(self.call_begin(&mut world, id, key, token)),
                    Call::Take(id, key, token, heard) => {
                        self.take(&mut world, id, key, token, heard);
                    }
                    Call::Release(id, key, leaving) => {
                        drop(self.release(&mut world, id, key, leaving));
                        cause = Cause::Release;
                    }
                    Call::Keep(id, key, token, number) => {
                        self.keep(&mut world, id, key, token, number);
                    }
                    Call::Update(offer) => self.update(&mut world, offer),
                    Call::Ask(sending) => {
                        self.call_ask(&mut world, sending);
                    }
                    Call::Start(dispatch) => {
                        self.start_for_ask(&mut world, dispatch);
                    }
                    Call::Steer(wish) => {
                        self.steer(&mut world, wish);
                        cause = Cause::Steer(wish);
                    }
                }
                world.inc = now;
                if inc != now {
                    cause = Cause::Stale;
                }
            }
            Act::Notify(key) => self.notify(&mut world, key),
            Act::Take { worker, key, lost } => self.take_again(&mut world, worker, key, lost)?,
            Act::Give { worker, key } => give(&mut world, worker, key)?,
            Act::Keep { worker, key, lost } => self.keep_given(&mut world, worker, key, lost)?,
            Act::Update(offer) => {
                world.left.updates -= 1;
                self.update(&mut world, offer);
            }
            Act::Read { worker, key, taken, lost } => self.read(&mut world, worker, key, taken, lost)?,
            Act::Asking(asking) => self.asking(&mut world, asking)?,
            Act::Find { worker, key, token } => self.find(&mut world, worker, key, token),
            Act::Nudge(key) => self.nudge(&mut world, key)?,
            Act::Steer(wish) => {
                world.left.pauses -= 1;
                self.steer(&mut world, wish);
                cause = Cause::Steer(wish);
            }
            Act::Unpark => self.unpark(&mut world)?,
            Act::Time(time) => self.pass(&mut world, time)?,
            Act::Close(close) => {
                Self::close(&mut world, close)?;
                cause = Cause::Close;
            }
            Act::Drop(to, mail) => {
                world.left.drops -= 1;
                world.mail.remove(&(to, mail));
            }
            Act::Calm => Self::calm(&mut world),
            Act::Fence(worker) => {
                world.left.fences = world.left.fences.saturating_sub(1);
                self.fence(&mut world, worker);
            }
            Act::Expire(worker) => {
                let id = world.workers[worker].id;
                let seen = world.store.heartbeat(id);
                world.on(&Expire { workers: vec![(id, seen)] }).ok()?;
            }
            Act::Reap(id) => {
                world.on(&Reap { worker: id, limit: 8 }).ok()?;
                cause = Cause::Reap;
            }
            Act::Rejoin(worker) => {
                world.left.rejoins -= 1;
                let nonce = format!("again{}", world.left.rejoins);
                let id = self.join(&mut world.store, world.inc, &nonce);
                world.workers[worker].id = id;
                world.workers[worker].life = Life::Up;
                world.workers[worker].high = Token(0);
                world.workers[worker].cut.clear();
            }
            Act::Drain(worker) => {
                world.left.drains -= 1;
                let workers = vec![world.workers[worker].id];
                world.on(&Drain { workers }).ok()?.remove(0)?;
                world.workers[worker].life = Life::Draining;
            }
            Act::Leave(worker) => {
                world.on(&Expire { workers: vec![(world.workers[worker].id, None)] }).ok()?;
                world.workers[worker].life = Life::Left;
            }
            Act::Save => world.saved = Some(Box::new(world.store.clone())),
            Act::Lose => {
                self.lose(&mut world);
                cause = Cause::Loss;
            }
            Act::Attest(worker) => {
                self.attest(&mut world, worker).ok()?;
                cause = Cause::Attest;
            }
            Act::Attend(worker) => {
                let id = world.workers[worker].id;
                world.on(&Attend { worker: id, after: None, limit: 8 }).ok()?;
                world.workers[worker].said = Said::LastWord;
                cause = Cause::Attest;
            }
            Act::Open => {
                world.on(&OpenNormal).ok()?;
            }
            Act::Sweep => {
                world.on(&Sweep { limit: 8, kick: Some(0) }).ok()?;
                world.left.sweeps = world.left.sweeps.saturating_sub(1);
            }
        }
        self.settle_asks(&mut world);
        self.look_at_hands(&mut world);
        self.judge(before, &mut world, cause);
        // Walks come to an end.
        (!self.scope.settles || world != *before).then_some(world)
    }

    pub(crate) fn dispatch(
        &self,
        world: &mut World,
        dispatch: usize,
        ring: Revision,
        worker: Option<WorkerId>,
    ) -> Option<DispatchReply> {
        let item = DispatchItem {
            key: self.keys[self.scope.dispatches[dispatch]].clone(),
            id: self.ids[dispatch].clone(),
            not_after: NOW,
            hash: String::new(),
            payload: bytes::Bytes::new(),
            worker,
            awaited: true,
        };
        let reply = world.on(&Dispatch { by: Placing::Ring(ring), items: vec![item] }).ok()?.remove(0);
        if reply == DispatchReply::Accepted {
            world.fates[dispatch].accepted = true;
        }
        Some(reply)
    }

    fn stop(&self, world: &mut World, dispatch: usize, aim: bool, repeat: bool) -> Result<StopReply> {
        let key = &self.keys[self.scope.dispatches[dispatch]];
        let guess = world.store.record(key).and_then(|record| record.owner).filter(|_| aim);
        let item = StopItem { key: key.clone(), id: self.ids[dispatch].clone(), guess, forbid: false };
        Ok(world.on(&Stop { turn: None, repeat, waiting: None, items: vec![item] })?.remove(0))
    }

    pub(crate) fn call_begin(
        &self,
        world: &mut World,
        id: WorkerId,
        key: usize,
        token: Token,
    ) -> Result<BeginReply> {
        let jobs = vec![(self.keys[key].clone(), token)];
        let begins = vec![WorkerBegins { worker: id, finished: Vec::new(), jobs }];
        let reply = world.on(&Begin { begins })?.remove(0).map_err(StoreError::Refused)?.remove(0);
        if let BeginReply::Begun(job) = &reply {
            self.check_belongings(world, key, job);
        }
        Ok(reply)
    }

    /// A worker gets the last payload and the last checkpoint.
    pub(crate) fn check_belongings(&self, world: &mut World, key: usize, job: &BegunJob) {
        let BegunJob { record, payload, checkpoint, .. } = job;
        let fits = [
            ("S15", world.states[key].is_what_is_left(checkpoint.as_deref().map(named))),
            ("S17", world.payloads[key].is_the_last(record.generation(), payload)),
        ];
        // With a loss of data, both may be older.
        let broke = fits.iter().find(|(_, fits)| !fits && self.scope.left.losses == 0);
        world.broke = world.broke.or(broke.map(|(name, _)| *name));
    }

    fn begin(&self, world: &mut World, worker: usize, key: usize, lost: bool) {
        let Hand::Beginning(token) = world.workers[worker].hands[key] else { return };
        let id = world.workers[worker].id;
        let answer = self.call_begin(world, id, key, token);
        let hand = &mut world.workers[worker].hands[key];
        if lost {
            world.left.lost -= 1;
            if self.scope.lapses(Lapse::BeginGivenUp) {
                *hand = Hand::Idle;
            }
            return;
        }
        match answer {
            Ok(BeginReply::Begun(BegunJob { record, .. })) => {
                let of = self.dispatch_of(&record);
                let generation = record.generation();
                *hand = Hand::Begun(Held {
                    token,
                    attempts: record.attempts,
                    begun: record.begun,
                    of,
                    heard: Heard::default(),
                    given: 0,
                    saved: 0,
                    ran: generation,
                    told: generation,
                });
            }
            Err(StoreError::Refused(Refusal::Fenced)) => self.fence(world, worker),
            _ => *hand = Hand::Idle,
        }
    }

    pub(crate) fn release(
        &self,
        world: &mut World,
        id: WorkerId,
        key: usize,
        Leaving { token, mode, ran }: Leaving,
    ) -> Result<ReleaseReply> {
        let cause = if mode == ReleaseMode::Park {
            tenure_pool::inspect::Cause::Paused
        } else {
            tenure_pool::inspect::Cause::Moved
        };
        let item = ReleaseItem {
            key: self.keys[key].clone(),
            token,
            mode,
            cause,
            ran,
            rests: String::new(),
            delay: std::time::Duration::ZERO,
            tell: None,
            tell_stopper: None,
            result: String::new(),
        };
        let record = world.store.record(&self.keys[key]);
        let ran_on = record.is_some_and(|r| r.state == JobState::Running);
        // With a loss of data, later payloads may be lost.
        let kept = record.filter(|_| self.scope.left.losses > 0).map(Record::generation);
        let reply = world.on(&Release { worker: id, finished: Vec::new(), items: vec![item] })?[0];
        let has_later = ran.is_some_and(|ran| {
            kept.map_or_else(|| world.payloads[key].has_later(ran), |generation| generation > ran)
        });
        if reply == ReleaseReply::Deleted && ran_on && has_later && !Self::is_stopped(world) {
            world.broke = Some("S17");
        }
        Ok(reply)
    }

    fn take_again(&self, world: &mut World, worker: usize, key: usize, lost: bool) -> Option<()> {
        let Hand::Running(held) = world.workers[worker].hands[key] else { return None };
        let answer = self.take(world, world.workers[worker].id, key, held.token, held.heard);
        if lost {
            world.left.lost -= 1;
        } else if let Some(heard) = answer {
            world.workers[worker].hands[key] = Hand::Running(Held { heard, ..held });
        }
        Some(())
    }

    pub(crate) fn fence(&self, world: &mut World, worker: usize) {
        let late = self.scope.lapses(Lapse::NoRecheckAfterBegin);
        let worker = &mut world.workers[worker];
        worker.life = Life::Fenced;
        worker.cut.extend(worker.hands.iter().filter_map(|hand| hand.active()).map(|held| held.of));
        for hand in &mut worker.hands {
            if !late || !matches!(hand, Hand::Begun(_)) {
                *hand = Hand::Idle;
            }
        }
        if worker.said == Said::Nothing {
            // The facts that only it knew are lost with it.
            let journal = std::mem::take(&mut worker.journal);
            let ended = |parting: &Parting| matches!(parting, Parting::Ended { .. });
            for (_, of, _, _) in journal.into_iter().filter(|(.., parting)| ended(parting)) {
                world.fates[of].over = false;
            }
        }
    }

    /// The mistake of a worker that takes a start event which came twice for a second start.
    pub(crate) fn refuse(&self, world: &mut World, worker: usize, key: usize, token: Token) {
        let id = world.workers[worker].id;
        drop(self.release(world, id, key, Leaving::unused(token, ReleaseMode::Refuse)));
    }

    /// The handler has ended: the worker must release the job, and keeps that for a recovery.
    fn end(&self, world: &mut World, worker: usize, key: usize, mode: ReleaseMode) -> Option<()> {
        let held = world.workers[worker].hands[key].active()?;
        if mode != ReleaseMode::Delete {
            world.states[key].leave(held);
        }
        // Where it is all the same it makes no states of its own.
        let sure = self.scope.left.updates == 0 || self.scope.left.losses == 0;
        let parting = match mode {
            ReleaseMode::Delete => Parting::Ended { ran: held.ran, sure },
            _ => Parting::HandedOff,
        };
        let worker = &mut world.workers[worker];
        worker.journal.insert((key, held.of, held.token, parting));
        worker.hands[key] = Hand::Ending(held.leaving(mode));
        Some(())
    }
}

fn start(world: &mut World, worker: usize, key: usize) {
    let Hand::Begun(held) = world.workers[worker].hands[key] else { return };
    world.workers[worker].hands[key] = Hand::Running(held);
    if held.token <= world.last[key] {
        world.broke = Some("S3");
    } else if world.fates[held.of].over {
        world.broke = Some("S5");
    }
    world.last[key] = held.token;
}

/// The pool has answered a release: the worker knows whether the job has ended. In phase R it knows that of this run only,
/// unless it takes that for `certain`.
fn hear_of_leaving(
    world: &mut World,
    worker: usize,
    key: usize,
    token: Token,
    reply: ReleaseReply,
    certain: bool,
) {
    let sure = certain || world.workers[worker].said == Said::LastWord;
    let journal = &mut world.workers[worker].journal;
    let unsure = |(of_key, _, under, parting): &&(usize, usize, Token, Parting)| {
        (*of_key, *under) == (key, token) && matches!(parting, Parting::Ended { sure: false, .. })
    };
    let Some(&entry) = journal.iter().find(unsure) else { return };
    let (.., Parting::Ended { ran, .. }) = entry else { return };
    let parting = match reply {
        ReleaseReply::Deleted => Parting::Ended { ran, sure },
        ReleaseReply::Queued | ReleaseReply::Parked => Parting::HandedOff,
        _ => return,
    };
    journal.remove(&entry);
    journal.insert((key, entry.1, token, parting));
}
