//! The engine of one node: hands each input to the part that it concerns, then lets every part do what is due.

mod answers;
mod attestation;
mod capacity;
mod commands;
mod due;
mod inspecting;
mod membership;
mod moving;
mod namesake;
mod ownership;
mod settings;
pub mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::core::callers::dispatching::Dispatching;
use crate::core::callers::requests::Requests;
use crate::core::ctx::{Config, Ctx, Purpose};
use crate::core::effect::{Effect, Notice};
use crate::core::input::{Answer, HandlerEvent, Input, LocalWorker, ReplyTo};
use crate::core::one_call::OneCall;
use crate::core::ring::Ring;
use crate::core::roles::closing::Closing;
use crate::core::roles::liveness::Liveness;
use crate::core::roles::phase::{Change, Phase, PoolView};
use crate::core::roles::reading::Reading;
use crate::core::roles::rereading::Rereading;
use crate::core::roles::routing::Routing;
use crate::core::roles::sweeping::Sweeping;
use crate::core::schedules::Scheduling;
use crate::core::time::{Jitter, Time, earliest};
use crate::core::worker::shared_calls::SharedCalls;
use crate::core::worker::{Gate, Worker};
use crate::error::{DispatchError, Error};
use crate::model::id::{DispatchId, Incarnation, WorkerId};
use crate::model::level::TooOld;
use crate::model::member::{MemberState, Members};
use crate::model::settings::StoredSettings;
use crate::model::unsaved::NotSaved;
use crate::mutation::Mutation;
use crate::step::{Outcome, Refusal, Renewal, Result, Seen, StoreError, WhenFull};
use inspecting::Inspecting;
use moving::MovesNow;
use namesake::Namesake;

/// All of one node's decisions.
#[derive(Debug)]
pub struct Engine {
    pub(super) ctx: Ctx,
    pub(super) pool: PoolView,
    pub(super) members: Arc<Members>,
    settings: Arc<StoredSettings>,
    ring: Ring,
    pub(super) workers: BTreeMap<LocalWorker, Worker>,
    pub(super) shared_calls: SharedCalls,
    routing: Routing,
    reading: Reading,
    liveness: Liveness,
    sweeping: Sweeping,
    inspecting: Inspecting,
    dispatching: Dispatching,
    requests: Requests,
    scheduling: Scheduling,
    closing: Closing,
    attaching: Vec<ReplyTo>,
    /// A renewal was answered in this incarnation.
    renewed: bool,
    /// The floor of the pool, while it is above this node's level. Only an answered renewal or another incarnation ends
    /// that.
    too_old: Option<TooOld>,
    /// The floor at the last renewal.
    floor: Option<u32>,
    /// The damage of the data and of the server at the last renewal, if any.
    damage: Option<Arc<str>>,
    evicts: Option<Arc<str>>,
    /// The pool's jobs at that time that had never begun.
    queued: Option<u64>,
    /// The pool's jobs that were parked at the last sweep.
    parked: Option<u64>,
    namesake: Namesake,
    clock: Clock,
    rereading: Rereading,
    moves_now: MovesNow,
    tells: Tells,
    end: End,
}

/// The server's clock, as last read.
#[derive(Debug, Default)]
struct Clock {
    read: Option<(Time, u64)>,
    call: OneCall,
}

impl Clock {
    /// Its estimate of now in ms; `None` before the first reading.
    fn ms(&self, now: Time) -> Option<u64> {
        let (read, ms) = self.read?;
        Some(ms + now.since(read).as_millis() as u64)
    }
}

/// Outcomes for other nodes.
#[derive(Debug, Default)]
struct Tells {
    queue: Vec<(DispatchId, Outcome)>,
    call: OneCall,
}

impl Tells {
    fn is_pending(&self) -> bool {
        self.call.is_busy() || !self.queue.is_empty()
    }

    fn deadline(&self) -> Option<Time> {
        self.call.deadline().filter(|_| !self.queue.is_empty())
    }
}

/// How far the engine's own end has come.
#[derive(Debug, PartialEq, Eq)]
enum End {
    No,
    Forgetting,
    Ended,
}

impl Engine {
    /// An engine that has seen nothing. `seed` decides the jitter.
    pub fn new(config: Config, seed: u64) -> Self {
        let members = Arc::new(Members::default());
        let ring = Ring::new(&members, &config.settings);
        let ctx = Ctx {
            now: Time(0),
            config,
            incarnation: Incarnation(0),
            open_in: None,
            pool_is_gone: false,
            leases: BTreeMap::new(),
            workers_up: 0,
            jitter: Jitter::new(seed),
            out: Vec::new(),
        };
        let (pool, closing) = (PoolView::new(&ctx.config), Closing::new(&ctx.config));
        Self {
            ctx,
            pool,
            members,
            settings: Arc::default(),
            ring,
            workers: BTreeMap::new(),
            shared_calls: SharedCalls::default(),
            routing: Routing::default(),
            reading: Reading::default(),
            liveness: Liveness::default(),
            sweeping: Sweeping::default(),
            inspecting: Inspecting::default(),
            dispatching: Dispatching::default(),
            requests: Requests::default(),
            scheduling: Scheduling::default(),
            closing,
            attaching: Vec::new(),
            renewed: false,
            too_old: None,
            floor: None,
            damage: None,
            evicts: None,
            queued: None,
            parked: None,
            namesake: Namesake::default(),
            clock: Clock::default(),
            rereading: Rereading::default(),
            moves_now: MovesNow::default(),
            tells: Tells::default(),
            end: End::No,
        }
    }

    /// Takes in the inputs, and returns the effects. `now` is taken after the last of the inputs.
    pub fn step(&mut self, now: Time, inputs: impl IntoIterator<Item = Input>) -> Vec<Effect> {
        self.ctx.now = now;
        for input in inputs {
            let result = self.take(input);
            self.judge(result);
        }
        self.flush();
        std::mem::take(&mut self.ctx.out)
    }

    /// When [`step`](Self::step) must be called again without an input. Right after a step this is in the future: a
    /// part that waits for an event names no time.
    pub fn deadline(&self) -> Option<Time> {
        if self.end != End::No {
            return None;
        }
        let gate = self.gate();
        let known = gate.is_known();
        let normal = known && self.is_normal();
        let routes = normal && self.serves() && !self.closing.is_stopping();
        let parts = [
            self.pool.deadline(),
            (normal && self.sweeps()).then(|| self.sweeping.deadline()).flatten(),
            (normal && self.inspects()).then(|| self.inspecting.deadline()).flatten(),
            routes.then(|| self.routing.deadline()).flatten(),
            (known && self.watches()).then(|| self.liveness.deadline()).flatten(),
            gate.may_read().then(|| self.reading.deadline()).flatten(),
            known.then(|| self.tells.deadline()).flatten(),
            known.then(|| self.clock.call.deadline()).flatten(),
            known.then(|| self.moves_now.deadline()).flatten(),
            self.dispatching.deadline(known && self.clock.read.is_some()),
            self.requests.deadline(known, self.clock.read.is_some()),
            self.closing.deadline(known),
            self.scheduling.deadline(
                self.ctx.config.timing.ttl,
                normal,
                self.may_plan(gate),
                self.too_old.is_some(),
            ),
        ];
        let in_flight = self.shared_calls.in_flight;
        let workers = self.workers.values().map(|worker| worker.deadline(gate, in_flight));
        parts.into_iter().chain(workers).fold(None, earliest)
    }

    fn is_normal(&self) -> bool {
        self.pool.phase == Phase::Normal
    }

    /// The pool is open, and neither the pool nor this node is about to end.
    fn may_plan(&self, gate: Gate) -> bool {
        self.is_normal() && gate.is_known() && self.closing.flag.is_none() && !self.closing.leaving
    }

    fn take(&mut self, input: Input) -> Result<()> {
        match input {
            Input::Woke => {}
            Input::Done(done) => return self.on_done(*done),
            Input::Members(members) => self.on_members(members),
            Input::Settings(settings) => {
                self.settings = settings;
                self.see_flag();
                self.adopt_settings();
            }
            Input::Renewed { incarnation, workers, answer } => {
                if self.pool.incarnation == Some(incarnation) {
                    return self.on_renewed(&workers, answer);
                }
            }
            Input::LeaseLost(id) => {
                if let Some(worker) = self.workers.values_mut().find(|w| w.member_id() == Some(id)) {
                    worker.fence(&mut self.ctx);
                }
            }
            Input::Handler { worker, key, token, event } => {
                if let Some(worker) = self.workers.values_mut().find(|w| w.jobs.worker() == worker) {
                    worker.jobs.on_handler(&mut self.ctx, &key, token, event);
                } else if let HandlerEvent::Checkpoint { number, .. } = event {
                    let why = NotSaved::JobGone;
                    self.ctx.out.push(Effect::NotSaved { worker, key, token, number, why });
                }
            }
            Input::Planned { local, run, planned } => {
                self.scheduling.on_planned(&mut self.ctx, local, run, planned);
            }
            Input::Unheard(local) => self.scheduling.leave(&mut self.ctx, None, local),
            Input::Command(command) => self.on_command(command),
            Input::Withdrawn { id, reply } => self.dispatching.withdraw(&id, reply),
            Input::Unasked(reply) => self.requests.forget(reply),
            Input::OthersEnded => self.closing.others_ended(&self.ctx),
            Input::OtherShutDown(mode) => self.closing.spread(&self.ctx, mode),
        }
        Ok(())
    }

    fn see_flag(&mut self) {
        if self.settings.incarnation.is_some() && self.settings.incarnation == self.pool.incarnation {
            self.closing.saw_flag(self.settings.flag());
        }
    }

    fn on_members(&mut self, members: Arc<Members>) {
        self.members = members;
        if self.members.incarnation.is_none() || self.members.incarnation != self.pool.incarnation {
            // The revisions of one incarnation do not compare with those of another.
            self.ring = Ring::new(&Members::default(), &self.ctx.config.settings);
            return;
        }
        self.closing.wake(self.ctx.now);
        self.requests.on_members(&self.members);
        let mut ring = Ring::new(&self.members, &self.ctx.config.settings);
        if self.ctx.config.broken.has(Mutation::CordonPassedOver) {
            ring.pass_cordons_over();
        }
        if self.ctx.config.broken.has(Mutation::HoldPassedOver) {
            ring.pass_hold_over();
        }
        self.kick_for_room(&ring);
        let changed = !ring.places_like(&self.ring);
        self.ctx.workers_up = ring.live();
        self.ring = ring;
        for worker in self.workers.values_mut() {
            let member = self.members.entries.get(&worker.jobs.worker());
            worker.on_member(&mut self.ctx, member, changed);
        }
        self.move_by_this_ring();
    }

    fn on_renewed(&mut self, workers: &[WorkerId], answer: Result<Renewal>) -> Result<()> {
        // A renewal without an answer may have created the node's stream.
        if answer.as_ref().map_or(true, |renewal| renewal.opened) {
            self.reading.doubt();
        }
        let renewal = answer?;
        self.renewed = true;
        (self.too_old, self.floor) = (None, Some(renewal.floor));
        self.pool.saw_floor(renewal.floor);
        self.pool.saw_token(renewal.token);
        self.queued = Some(renewal.queued);
        self.look_for_namesake();
        if renewal.damage != self.damage.as_deref().unwrap_or_default() {
            self.damage = Some(renewal.damage.as_str().into()).filter(|_| !renewal.damage.is_empty());
            self.ctx.report(Notice::Damaged { signs: renewal.damage });
        }
        match renewal.when_full {
            WhenFull::Unknown => {}
            WhenFull::Refuses => self.evicts_by(None),
            WhenFull::Evicts(policy) => self.evicts_by(Some(policy)),
        }
        let polled = !self.ctx.config.broken.has(Mutation::FlagNotPolled);
        if let Some(incarnation) = self.pool.incarnation.filter(|_| polled) {
            let (members, settings) = (renewal.members, renewal.settings);
            // The revisions of one incarnation do not compare with those of another.
            let heard_members = (self.members.incarnation, self.members.revision);
            let heard_settings = (self.settings.incarnation, self.settings.revision);
            if heard_members != (Some(incarnation), members)
                || heard_settings != (Some(incarnation), settings)
            {
                self.ctx.out.push(Effect::Expect { incarnation, members, settings });
            }
            if self.pool.saw_revisions(members, settings) {
                self.pool.phase = Phase::Unknown;
            }
        }
        if polled {
            self.closing.saw_flag(renewal.flag);
        }
        let mut streams = renewal.streams.into_iter();
        for (&id, state) in workers.iter().zip(&renewal.states) {
            let stream = streams.next().unwrap_or_default();
            let Some(worker) = self.workers.values_mut().find(|w| w.member_id() == Some(id)) else {
                continue;
            };
            match state {
                None => worker.fence(&mut self.ctx),
                Some(MemberState::Up | MemberState::Standby | MemberState::Draining) => {
                    worker.jobs.saw_stream(&self.ctx, stream);
                }
            }
        }
        Ok(())
    }

    /// The server's policy of eviction, if the server evicts.
    fn evicts_by(&mut self, policy: Option<String>) {
        if policy.as_deref() != self.evicts.as_deref() {
            self.evicts = policy.as_deref().map(Arc::from);
            self.ctx.report(Notice::Evicts { policy });
        }
    }

    /// The incarnation that steps are sent in.
    #[cfg(any(test, feature = "proof"))]
    pub fn incarnation(&self) -> Incarnation {
        self.ctx.incarnation
    }

    /// The highest numbers that this node has seen.
    pub fn seen(&self) -> Seen {
        self.pool.seen
    }

    /// The soft deadlines of the leases, as the lease thread knows them.
    pub fn set_leases(&mut self, leases: BTreeMap<WorkerId, Time>) {
        self.ctx.leases = leases;
    }

    /// Draws the conclusions of a refusal or failure for the pool as a whole.
    fn judge(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.see_refusal(&error);
            self.pool.doubt(&self.ctx, &error);
            // Refusals are a part of the protocol; only this one needs an operator.
            if !matches!(error, StoreError::Refused(ref why) if *why != Refusal::OutOfTokens) {
                self.ctx.report(Notice::Trouble(error));
            }
        }
    }

    /// A refusal for the floor's sake: the node sends no further step, only renewals.
    fn see_refusal(&mut self, error: &StoreError) {
        let StoreError::Refused(Refusal::Level(why)) = *error else { return };
        if self.too_old.replace(why).is_none() {
            self.routing.rest(&mut self.ctx);
            self.ctx.report(Notice::TooOld(why));
        }
    }

    fn on_change(&mut self, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Incarnation => {
                self.ctx.incarnation = self.pool.incarnation.unwrap_or_default();
                for worker in self.workers.values_mut() {
                    worker.on_incarnation(&mut self.ctx);
                }
                (self.renewed, self.too_old, self.floor) = (false, None, None);
                self.clock.call.set(self.ctx.now);
                self.routing.reset();
                self.reading.reset();
                self.liveness.reset();
                self.inspecting.reset();
                self.moves_now.reset(self.ctx.now);
                self.closing.reset(self.attaching.is_empty(), self.clock.ms(self.ctx.now));
                self.scheduling.reset(&mut self.ctx);
                self.dispatching.resubmit();
                self.requests.resubmit(self.ctx.now);
                self.see_flag();
                // They may have arrived before this node knew of the incarnation.
                self.adopt_settings();
                self.on_members(self.members.clone());
            }
            Change::Normal { opened } => {
                self.liveness.reset();
                for worker in self.workers.values_mut() {
                    worker.opened(&mut self.ctx);
                }
                if opened {
                    self.sweeping.kick();
                }
            }
            Change::Closed => self.on_pool_gone(),
            Change::Missing => {
                for to in self.attaching.drain(..) {
                    self.ctx.reply(to, Answer::Attached(Err(StoreError::Refused(Refusal::NoPool).into())));
                }
            }
        }
    }

    /// The pool is gone. A node that takes part in a pool creates another one.
    fn on_pool_gone(&mut self) {
        if self.attaching.is_empty() || self.ctx.config.purpose == Purpose::End {
            self.on_pool_closed();
        } else {
            self.pool.start_over();
        }
    }

    fn on_pool_closed(&mut self) {
        self.pool.phase = Phase::Closed;
        self.dispatching.end(&mut self.ctx, &DispatchError::ShuttingDown);
        self.requests.end(&mut self.ctx, &Error::PoolClosed);
        self.scheduling.close(&mut self.ctx, &Error::PoolClosed);
        for worker in self.workers.values_mut() {
            worker.pool_gone(&mut self.ctx);
        }
    }
}
