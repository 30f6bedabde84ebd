//! A node of the simulation: a real engine, its leases, its replicas of the maps, and the work of its shell.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Fault;
use super::calls::Role;
use super::clock::{NodeClock, RHO_PPB};
use super::planner::Part;
use super::users::Asked;
use super::world::{Event, MS, World};
use tenure_protocol::core::call::Call;
use tenure_protocol::core::ctx::{Config, Purpose};
use tenure_protocol::core::effect::{Effect, Notice};
use tenure_protocol::core::engine::Engine;
use tenure_protocol::core::input::{Input, LocalSchedule, LocalWorker, ReplyTo};
use tenure_protocol::core::lease::Timing;
use tenure_protocol::core::lease::table::LeaseTable;
use tenure_protocol::core::time::Time;
use tenure_protocol::memory::Client;
use tenure_protocol::model::id::{Incarnation, JobKey, NodeName, Token, WorkerId};
use tenure_protocol::model::member::Members;
use tenure_protocol::model::settings::{Given, StoredSettings};
use tenure_protocol::mutation::Mutation;
use tenure_protocol::step::{Attend, AttestJobs, WorkerEvent};
use tenure_steps::EntryId;

/// The directions that are cut between a node and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) calls: bool,
    pub(super) answers: bool,
}

pub(super) struct SimNode {
    pub(super) engine: Engine,
    pub(super) config: Arc<Config>,
    pub(super) client: Client,
    pub(super) level: u32,
    pub(super) clock: NodeClock,
    pub(super) leases: LeaseTable,
    pub(super) alive: bool,
    pub(super) paused: bool,
    /// When it last went on after a pause.
    pub(super) resumed_at: u64,
    pub(super) deferred: Vec<Event>,
    pub(super) cut: Cut,
    pub(super) turns: u32,
    wake_at: Option<u64>,
    pub(super) lease_at: Option<u64>,
    pub(super) renewing: bool,
    pub(super) next_renewal: Time,
    pub(super) progress: Time,
    pub(super) reads: BTreeMap<Role, u64>,
    /// The events of its workers in its latest reads.
    pub(super) heard: VecDeque<WorkerEvents>,
    members: Arc<Members>,
    settings: Arc<StoredSettings>,
    pub(super) running: BTreeMap<(WorkerId, JobKey), u64>,
    /// Its workers without an answer to the final report after a loss of data.
    pub(super) unheard: BTreeSet<WorkerId>,
    /// Reports of handlers and the lease arrive in order; this is the time of the last.
    last_said: u64,
    pub(super) asked: BTreeMap<ReplyTo, Asked>,
    pub(super) locals: BTreeMap<LocalWorker, Option<WorkerId>>,
    /// How many jobs they take, where that is limited.
    pub(super) capacities: BTreeMap<LocalWorker, usize>,
    pub(super) schedules: BTreeMap<LocalSchedule, Part>,
    pub(super) last_local: u32,
    pub(super) attached: bool,
    pub(super) closing: bool,
}

/// The events of one read, each with its worker and entry.
pub(super) type WorkerEvents = Vec<(WorkerId, EntryId, WorkerEvent)>;

/// The keys that nodes would draw. They are the same in all runs, so that a seed is a run.
const KEYS: (u64, u64) = (0x7465_6e75_7265_0001, 0x6a75_6d70_6368_6e02);

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl World {
    fn config(&self, name: &NodeName, nonce: u64, client_only: bool) -> Config {
        // Every other node leaves placement to the routers, which would otherwise see few jobs.
        let places = nonce.is_multiple_of(2);
        let broken = self.options.broken.clone();
        Config {
            node: name.clone(),
            nonce,
            settings: self.settings.clone(),
            given: Given::default(),
            drawn_keys: KEYS,
            timing: Timing::of(self.settings.worker_ttl),
            stable_after: Duration::from_millis(500),
            handoff_parallel: 4,
            start_timeout: Duration::from_secs(2),
            stop_timeout: Duration::from_secs(2),
            plan_timeout: Duration::from_secs(2),
            abort_grace: Duration::from_millis(500),
            start_permits: 4,
            starts_per_second: None,
            moves_per_second: None,
            client_only,
            assume_fresh: false,
            must_exist: false,
            address: String::new(),
            purpose: Purpose::default(),
            broken: if places { broken } else { broken.and(Mutation::NothingPlaced) },
        }
    }

    /// A node joins under this name.
    pub(super) fn join(&mut self, name: &NodeName, client_only: bool) {
        if self.nodes.iter().any(|node| node.alive && node.config.node == *name) {
            return;
        }
        // An operator starts each node with the pool's present settings.
        self.settings = self.settings.adopting(&self.server.settings().fields);
        let nonce = self.rng.next();
        let config = self.config(name, nonce, client_only);
        let ppb = if self.rates.of(Fault::Skew) > 0 {
            i64::try_from(self.rng.below(2 * RHO_PPB as u64)).unwrap_or(0) - RHO_PPB
        } else {
            0
        };
        let shown = self.rng.below(1_000_000) * MS;
        let clock = NodeClock::new(self.now, shown, ppb);
        let now = clock.read(self.now);
        let level = self.draw_level();
        let node = SimNode {
            engine: Engine::new(config.clone(), nonce),
            leases: LeaseTable::new(config.timing, config.broken.clone()),
            config: Arc::new(config),
            client: Client { blessed: None, level },
            level,
            clock,
            alive: true,
            paused: false,
            resumed_at: 0,
            deferred: Vec::new(),
            cut: Cut::default(),
            turns: 0,
            wake_at: None,
            lease_at: None,
            renewing: false,
            next_renewal: now,
            progress: now,
            reads: BTreeMap::new(),
            heard: VecDeque::new(),
            members: Arc::default(),
            settings: Arc::default(),
            running: BTreeMap::new(),
            unheard: BTreeSet::new(),
            last_said: 0,
            asked: BTreeMap::new(),
            locals: BTreeMap::new(),
            capacities: BTreeMap::new(),
            schedules: BTreeMap::new(),
            last_local: 0,
            attached: false,
            closing: false,
        };
        let at = self.nodes.len();
        self.note(|| format!("n{at} joins as {name}, client-only: {client_only}, level {level}"));
        self.nodes.push(node);
        self.step(at, Input::Woke);
        self.attach(at);
        self.after(0, Event::Lease(at));
        self.after(MS, Event::Reread(at));
    }

    pub(super) fn local(&self, node: usize) -> Time {
        self.nodes.get(node).map_or(Time(0), |n| n.clock.read(self.now))
    }

    /// An input reaches the engine, and the world performs its effects.
    pub(super) fn step(&mut self, at: usize, input: Input) {
        self.count_turn(at);
        self.note(|| format!("n{at} <- {input:?}"));
        self.hears_of_update(at, &input);
        let now = self.local(at);
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.progress = now;
        node.engine
            .set_leases(node.leases.leases().map(|(worker, lease)| (worker, lease.soft_at())).collect());
        let effects = node.engine.step(now, [input]);
        self.mix(effects.len() as u64);
        for effect in effects {
            self.carry_out(at, effect);
        }
        let Some(node) = self.nodes.get_mut(at).filter(|node| node.alive) else { return };
        let deadline = node.engine.deadline();
        if let Some(due) = deadline.filter(|&due| due <= now) {
            self.judge.violations.push(format!("n{at} wants to be woken at {due:?}, and it is {now:?}"));
        }
        let Some(node) = self.nodes.get_mut(at) else { return };
        let wake_at = deadline.map(|due| node.clock.when(self.now, due.max(now + Duration::from_millis(1))));
        if node.wake_at != wake_at {
            node.wake_at = wake_at;
            if let Some(time) = wake_at {
                self.at(time, Event::Wake(at));
            }
        }
    }

    pub(super) fn woke(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        if node.wake_at.is_some_and(|due| due <= self.now) {
            node.wake_at = None;
            self.step(at, Input::Woke);
        }
    }

    fn carry_out(&mut self, at: usize, effect: Effect) {
        self.note(|| format!("n{at} -> {effect:?}"));
        let Some(node) = self.nodes.get_mut(at) else { return };
        match effect {
            Effect::Call { incarnation, call } => self.makes_call(at, incarnation, call),
            Effect::Report(Notice::Attested { worker, .. }) => {
                node.unheard.remove(&worker);
            }
            Effect::StopReadingPool => self.drop_read(at, Role::PoolRead),
            Effect::Bless(run_id) => node.client.blessed = Some(run_id.into()),
            Effect::Expect { incarnation, members, settings } => {
                let known = (node.members.incarnation, node.members.revision);
                if known != (Some(incarnation), members) || node.settings.revision != settings {
                    self.reread_soon(at);
                }
            }
            Effect::Reread { .. } => self.reread_soon(at),
            Effect::Renew { .. } | Effect::Hold { .. } | Effect::Keep { .. } => {
                if let Effect::Renew { incarnation } = effect {
                    node.leases.renew_in(incarnation);
                } else if let Effect::Hold { incarnation, worker, from } = effect {
                    node.leases.hold(incarnation, worker, from);
                } else if let Effect::Keep { incarnation, worker } = effect {
                    node.leases.keep(incarnation, worker);
                }
                self.renew_now(at);
            }
            Effect::Drop { worker } => node.leases.remove(worker),
            Effect::Fence { worker } => {
                self.given_up(at, worker);
                let Some(node) = self.nodes.get_mut(at) else { return };
                node.leases.give_up(worker);
                self.cancel_all(at, worker);
                self.after(0, Event::Lease(at));
            }
            Effect::Start { worker, job, .. } => self.start(at, worker, *job),
            Effect::Seated { local, worker } => {
                node.locals.insert(local, worker);
                if worker.is_none() {
                    node.locals.remove(&local);
                }
            }
            Effect::Settings { settings, timing, .. } => {
                let config = Arc::make_mut(&mut node.config);
                (config.settings, config.timing) = (*settings, timing);
                node.leases.go_by(timing);
            }
            Effect::Reply { to, answer } => self.reply(at, to, answer),
            Effect::Plan { local, run, tick } => self.plan(at, local, run, tick),
            Effect::AbortPlan { local } => self.abort_plan(at, local),
            Effect::ScheduleEnded { local } => self.schedule_ended(at, local),
            Effect::Saved { worker, key, token, number }
            | Effect::NotSaved { worker, key, token, number, .. } => {
                self.heard_of_save(at, (worker, key, token), number);
            }
            Effect::HandOver { worker, key, token, asks } => {
                for ask in &asks {
                    self.judge.leaves_engine(ask);
                }
                self.hand_over(at, (worker, key, token), asks);
            }
            Effect::Tick { .. } | Effect::Report(_) => {}
            Effect::End => self.ended(at),
            effect => self.tell_run(at, effect),
        }
    }

    fn makes_call(&mut self, at: usize, incarnation: Incarnation, call: Call) {
        self.saw_hold(at, &call);
        let Some(node) = self.nodes.get_mut(at) else { return };
        if let Call::Attest(AttestJobs { worker, .. }, _) | Call::Attend(Attend { worker, .. }, _) = &call {
            node.unheard.insert(*worker);
        }
        self.call(at, incarnation, call);
    }

    fn reread_soon(&mut self, at: usize) {
        let delay = self.rng.between(1, 20) * MS;
        self.after(delay, Event::Reread(at));
    }

    /// Tells the run of a job.
    fn tell_run(&mut self, at: usize, effect: Effect) {
        let (Effect::Stop { worker, key, token, .. }
        | Effect::Cancel { worker, key, token, .. }
        | Effect::Deliver { worker, key, token, .. }
        | Effect::Update { worker, key, token, .. }
        | Effect::Look { worker, key, token }
        | Effect::Abort { worker, key, token }) = &effect
        else {
            return;
        };
        let Some(actor) = self.running(at, *worker, key.clone(), *token) else { return };
        match effect {
            Effect::Stop { why, .. } => {
                self.told_to_end(actor, why);
                self.cancel(actor);
                self.order_stop(actor);
            }
            Effect::Cancel { .. } => self.cancel(actor),
            Effect::Deliver { taken, .. } => self.deliver(actor, taken.bodies),
            Effect::Update { new, .. } => self.hand_update(actor, *new),
            Effect::Look { .. } => self.look(actor),
            Effect::Abort { .. } => self.abort(actor),
            _ => {}
        }
    }

    pub(super) fn running(&self, at: usize, worker: WorkerId, key: JobKey, token: Token) -> Option<u64> {
        let id = *self.nodes.get(at)?.running.get(&(worker, key))?;
        self.actors.get(&id).filter(|actor| actor.token == token).map(|_| id)
    }

    /// An input from the engine's own thread or another of the node.
    pub(super) fn say(&mut self, at: usize, input: Input) {
        let delay = if self.rng.chance(500) { self.rng.below(5 * MS) } else { self.rng.below(MS) };
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.last_said = node.last_said.max(self.now + delay);
        let time = node.last_said;
        self.at(time, Event::Said(at, Box::new(input)));
    }

    // ---- maps

    /// The maps have changed: every node hears of it later, or never.
    pub(super) fn publish(&mut self) {
        let (members, settings) = (Arc::new(self.server.members()), Arc::new(self.server.settings()));
        self.settings = self.settings.adopting(&settings.fields);
        for at in 0..self.nodes.len() {
            let Some(node) = self.nodes.get(at).filter(|node| node.alive) else { continue };
            if node.cut.answers || self.hits(Fault::LostMessage) {
                continue;
            }
            let copies = 1 + u64::from(self.hits(Fault::Doubled));
            for _ in 0..copies {
                let delay =
                    if self.rng.chance(300) { self.rng.below(2_000 * MS) } else { self.rng.below(3 * MS) };
                self.after(delay, Event::Maps(at, members.clone(), settings.clone(), false));
            }
        }
    }

    /// A replica takes newer maps, and maps that it has read itself in any case.
    pub(super) fn maps(
        &mut self,
        at: usize,
        members: Arc<Members>,
        settings: Arc<StoredSettings>,
        fresh: bool,
    ) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        let newer = |a: (Option<_>, _), b: (Option<_>, _)| if fresh { a != b } else { a > b };
        let (was, is) = (&node.members, &members);
        let other = newer((is.incarnation, is.revision), (was.incarnation, was.revision));
        let (was, is) = (&node.settings, &settings);
        let changed = newer((is.incarnation, is.revision), (was.incarnation, was.revision));
        if changed {
            node.settings = settings.clone();
            self.step(at, Input::Settings(settings));
        }
        if other && let Some(node) = self.nodes.get_mut(at) {
            node.members = members.clone();
            self.step(at, Input::Members(members));
        }
    }

    /// A replica reads the maps, and tries again until it can.
    pub(super) fn reread(&mut self, at: usize) {
        let Some(node) = self.nodes.get(at) else { return };
        if !self.available || node.cut.calls || node.cut.answers {
            self.after(300 * MS, Event::Reread(at));
            return;
        }
        let (members, settings) = (Arc::new(self.server.members()), Arc::new(self.server.settings()));
        let delay = self.rng.between(1, 10) * MS;
        self.after(delay, Event::Maps(at, members, settings, true));
    }

    // ---- the end

    /// The engine has ended: no part of the node may be left.
    fn ended(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.alive = false;
        // Requests in the moment of its end do not reach it.
        let unanswered = node.asked.values().filter(|asked| asked.since < self.now).count();
        let name = node.config.node.clone();
        if unanswered > 0 {
            self.judge
                .violations
                .push(format!("L8: n{at} ({name}) has ended with {unanswered} open commands"));
        }
        if let Some(actor) = self.actors.values().find(|actor| actor.node == at && actor.runs()) {
            self.judge.violations.push(format!("n{at} ({name}) has ended, and {} runs", actor.key));
        }
    }

    /// All parts of the node end, and it sends nothing more.
    pub(super) fn kill(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        node.alive = false;
        node.paused = false;
        node.deferred.clear();
        node.asked.clear();
        let dead: Vec<u64> = self.actors.values().filter(|a| a.node == at).map(|a| a.id).collect();
        for id in dead {
            self.bury(id);
        }
        self.flights.values_mut().filter(|flight| flight.node == at).for_each(|flight| flight.open = false);
    }
}
