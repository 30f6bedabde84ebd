//! The world: which event happens when, and on which node. Only events move the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::actor::Actor;
use super::askers::Askers;
use super::callers::{Own, SLACK};
use super::calls::Flight;
use super::judge::Judge;
use super::nemesis::Rates;
use super::node::{SimNode, nanos};
use super::planner::Wishes;
use super::rng::{Habit, Rng};
use super::updates::Updates;
use super::{Fault, Options, Report};
use tenure_protocol::core::input::{Input, LocalSchedule, ReplyTo};
use tenure_protocol::memory::{OnMemory, Server, Snapshot};
use tenure_protocol::model::id::Incarnation;
use tenure_protocol::model::id::{JobKey, NodeName};
use tenure_protocol::model::member::Members;
use tenure_protocol::model::settings::{Settings, StoredSettings};
use tenure_protocol::step::Result;

pub(super) const MS: u64 = 1_000_000;
/// Server time at the beginning, ms.
const EPOCH_MS: u64 = 1_800_000_000_000;
/// The limit of a node's steps in one moment: beyond this it spins.
const SPIN: u32 = 2_000;
/// The longest true time between two actions of users and faults.
const GAP: u64 = 200 * MS;
/// How long a healed pool may take to come to rest.
const REST: u64 = 400_000 * MS;

/// An event.
#[derive(Debug)]
pub(super) enum Event {
    /// A node's engine is due.
    Wake(usize),
    /// A node's leases are looked at.
    Lease(usize),
    /// A call reaches the server.
    Arrive(u64),
    /// An answer reaches the node.
    Answer(u64),
    /// The caller no longer waits.
    Timeout(u64),
    /// A blocking read has waited long enough.
    Block(u64),
    /// A handler goes on: the actor and its generation.
    Act(u64, u64),
    /// A handler saves.
    Save(u64),
    /// An input reaches the engine.
    Said(usize, Box<Input>),
    /// A planner has a result: the node, its schedule and the run.
    Planned(usize, LocalSchedule, u64),
    /// The maps reach a replica.
    Maps(usize, Arc<Members>, Arc<StoredSettings>, bool),
    /// A replica reads the maps.
    Reread(usize),
    /// A paused node goes on.
    Resume(usize),
    /// A node is connected again.
    Heal(usize),
    /// A node joins.
    Join(NodeName, bool),
    /// The server is up again.
    ServerUp,
    /// Its memory has room again.
    Room,
    /// A user updates a job whose handler is about to end.
    Overtake(u64),
    /// The data go back to before such an end.
    GoBack,
    /// A command must have an answer by now.
    Overdue(usize, ReplyTo),
    /// The next action of users or faults.
    Move,
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) options: Options,
    pub(super) settings: Settings,
    pub(super) rng: Rng,
    pub(super) rates: Rates,
    pub(super) levels: Habit,
    pub(super) stalls: Habit,
    pub(super) saves: Habit,
    pub(super) holds: Habit,
    pub(super) cordons: Habit,
    pub(super) crowds: Habit,
    pub(super) updates: Updates,
    pub(super) wishes: Wishes,
    pub(super) askers: Askers,
    pub(super) steers: Habit,
    /// The keys whose jobs an operator wanted to end where they run.
    pub(super) steered: BTreeSet<JobKey>,
    queue: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    /// The server's clock, ms. It moves with each event.
    pub(super) server_now: u64,
    /// The sum of the server clock's steps, ms.
    pub(super) server_step: i64,
    pub(super) server: Server,
    pub(super) process: u64,
    /// The data of a server that comes back after a loss.
    pub(super) backup: Option<Snapshot>,
    pub(super) available: bool,
    /// The server's memory is full.
    pub(super) full: bool,
    pub(super) nodes: Vec<SimNode>,
    pub(super) flights: BTreeMap<u64, Flight>,
    pub(super) parked: BTreeSet<u64>,
    pub(super) actors: BTreeMap<u64, Actor>,
    pub(super) ids: u64,
    /// Recent dispatches of users under ids of their own.
    pub(super) own: Vec<Own>,
    pub(super) judge: Judge,
    /// The step at which users ask for the end of the pool, if they do while faults happen.
    ends_at: Option<u64>,
    /// A user has asked for the end of the pool.
    pub(super) closing: bool,
    /// The pool was ending when the world was healed.
    pub(super) ends_early: bool,
    /// The pool is shutting down, and nothing else happens.
    pub(super) ending: bool,
    /// The world is healed: no more requests or faults.
    pub(super) healed: bool,
    pub(super) report: Report,
    tracing: bool,
}

/// In one run of four the pool is shut down while faults happen. This draws from a source of its own.
fn ends_at(seed: u64, steps: u64) -> Option<u64> {
    let mut rng = Rng::new(!seed);
    rng.chance(2_500).then(|| rng.between(steps / 4, steps))
}

impl World {
    pub(super) fn new(seed: u64, options: &Options, tracing: bool) -> Self {
        let mut server = Server::new();
        server.break_on_purpose(options.broken.clone());
        let mut rng = Rng::new(seed);
        let rates = Rates::draw(&mut rng, &options.faults);
        let settings = settings(&mut rng, options);
        let updates = Updates::of(seed, &rates);
        let wishes = Wishes::of(seed);
        let mut world = Self {
            now: 1_000 * MS,
            options: options.clone(),
            judge: Judge {
                max_attempts: settings.max_attempts,
                own_kept: nanos(settings.outcome_retention).saturating_sub(SLACK),
                ..Judge::default()
            },
            settings,
            rng,
            rates,
            levels: Habit::of(seed, 32, 5_000),
            stalls: Habit::of(seed, 16, 4_000),
            saves: Habit::of(seed, 8, 7_000),
            holds: Habit::of(seed, 48, 3_000),
            cordons: Habit::of(seed, 24, 3_000),
            crowds: Habit::of(seed, 40, 3_000),
            updates,
            wishes,
            askers: Askers::of(seed),
            steers: Habit::of(seed, 48, 3_000),
            steered: BTreeSet::new(),
            queue: BTreeMap::new(),
            scheduled: 0,
            server_now: EPOCH_MS,
            server_step: 0,
            server,
            process: 0,
            backup: None,
            available: true,
            full: false,
            nodes: Vec::new(),
            flights: BTreeMap::new(),
            parked: BTreeSet::new(),
            actors: BTreeMap::new(),
            ids: 0,
            own: Vec::new(),
            ends_at: ends_at(seed, options.steps),
            closing: false,
            ends_early: false,
            ending: false,
            healed: false,
            report: Report { seed, ..Report::default() },
            tracing,
        };
        for at in 0..options.nodes {
            let client = at > 1 && world.rng.chance(2_500);
            if let Ok(name) = NodeName::new(format!("n{at}")) {
                let delay = world.rng.below(300) * MS;
                world.after(delay, Event::Join(name, client));
            }
        }
        world.after(500 * MS, Event::Move);
        world
    }

    pub(super) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    pub(super) fn at(&mut self, time: u64, event: Event) {
        self.scheduled += 1;
        self.queue.insert((time.max(self.now), self.scheduled), event);
    }

    pub(super) fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Writes down an event, if the options ask for that.
    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.tracing {
            let at = self.now / 1_000;
            self.report.trace.push(format!("{:>7}.{:06} {}", at / 1_000_000, at % 1_000_000, line()));
        }
    }

    /// Adds a number to the digest.
    pub(super) fn mix(&mut self, what: u64) {
        let mixed = (self.report.digest ^ what).wrapping_mul(0x0000_0100_0000_01b3);
        self.report.digest = mixed ^ (mixed >> 29);
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        *self.report.faults.entry(fault).or_default() += 1;
    }

    fn move_clock(&mut self) {
        let ms = EPOCH_MS + self.now / MS;
        self.server_now = ms.saturating_add_signed(self.server_step);
    }

    /// The server performs a step of a node.
    pub(super) fn perform<S: OnMemory>(
        &mut self,
        at: usize,
        inc: Incarnation,
        step: &S,
    ) -> Result<S::Answer> {
        let client = &self.nodes[at].client;
        self.server.perform(client, self.server_now, inc, step).map(|(answer, _)| answer)
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> Report {
        let mut rest_by = u64::MAX;
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > self.now {
                self.now = at;
                for node in &mut self.nodes {
                    node.turns = 0;
                }
            }
            self.move_clock();
            self.report.events += 1;
            self.happen(event);
            self.judge_all();
            self.judge_stalls();
            if !self.judge.violations.is_empty() {
                break;
            }
            let over = self.closing && self.server.facts().closed;
            if (over || self.report.steps >= self.options.steps) && !self.healed {
                self.heal_all();
                rest_by = self.now + REST;
            } else if self.healed && self.report.events.is_multiple_of(64) {
                if self.ends_early && !self.is_ending() {
                    // A node that came after the crash of all others has created the pool anew.
                    (self.ending, self.ends_early) = (false, false);
                }
                let unrest = if self.ending { self.remains() } else { self.unrest() };
                if unrest.is_empty() {
                    if self.ending || !self.end_pool() {
                        break;
                    }
                    rest_by = self.now + REST;
                }
                if self.now > rest_by {
                    self.judge
                        .violations
                        .extend(unrest.into_iter().take(8).map(|what| format!("liveness: {what}")));
                    break;
                }
            }
        }
        self.report.lasted = Duration::from_nanos(self.now);
        (self.report.starts, self.report.taken) = (self.judge.starts, self.judge.taken);
        (self.report.answers, self.report.sent_on) = (self.askers.answers, self.judge.asks.sent_on);
        self.report.violations = std::mem::take(&mut self.judge.violations);
        self.report
    }

    fn happen(&mut self, event: Event) {
        let Some(event) = self.deferred(event) else { return };
        self.mix(self.now);
        match event {
            Event::Wake(node) => self.woke(node),
            Event::Lease(node) => self.look_at_leases(node),
            Event::Arrive(flight) => self.arrive(flight),
            Event::Answer(flight) => self.answered(flight),
            Event::Timeout(flight) => self.timed_out(flight),
            Event::Block(flight) => self.waited(flight),
            Event::Act(actor, generation) => self.act(actor, generation),
            Event::Save(actor) => self.saves(actor),
            Event::Said(node, input) => self.step(node, *input),
            Event::Planned(node, local, run) => self.planned(node, local, run),
            Event::Maps(node, members, settings, fresh) => self.maps(node, members, settings, fresh),
            Event::Reread(node) => self.reread(node),
            Event::Resume(node) => self.resume(node),
            Event::Heal(node) => self.heal(node),
            // A node that comes after the end creates a new pool.
            Event::Join(..) if self.ending || self.closing && self.server.facts().closed => {}
            Event::Join(name, client) => self.join(&name, client),
            Event::ServerUp => self.server_up(),
            Event::Room => self.full = false,
            Event::Overtake(actor) => self.overtake(actor),
            Event::GoBack => self.go_back(),
            Event::Overdue(node, reply) => self.overdue(node, reply),
            Event::Move => {
                self.hold();
                self.cordon();
                self.update();
                self.ask_owner();
                self.steer();
                if self.healed {
                    let left = !self.server.facts().closed && !self.nodes.iter().any(|node| node.alive);
                    if !self.ending || self.ends_early && left {
                        self.man();
                    }
                    self.after(1_000 * MS, Event::Move);
                } else {
                    self.report.steps += 1;
                    self.raise_level();
                    if self.ends_at.is_some_and(|at| self.report.steps >= at) && !self.closing {
                        self.shut_down();
                    } else if !self.strike() {
                        self.use_pool();
                    }
                    let gap = self.rng.below(GAP);
                    self.after(gap, Event::Move);
                }
            }
        }
    }

    /// The node that an event happens on, if any.
    fn place(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Wake(node)
            | Event::Lease(node)
            | Event::Said(node, _)
            | Event::Planned(node, ..)
            | Event::Maps(node, ..)
            | Event::Reread(node)
            | Event::Overdue(node, _) => Some(*node),
            Event::Answer(flight) | Event::Timeout(flight) => self.flights.get(flight).map(|f| f.node),
            Event::Act(actor, _) | Event::Save(actor) => self.actors.get(actor).map(|a| a.node),
            _ => None,
        }
    }

    /// Events for a paused node wait until it goes on; events for a dead one are dropped.
    fn deferred(&mut self, event: Event) -> Option<Event> {
        let Some(node) = self.place(&event).and_then(|at| self.nodes.get_mut(at)) else { return Some(event) };
        if node.paused {
            node.deferred.push(event);
            return None;
        }
        node.alive.then_some(event)
    }

    /// Counts a node's steps in one moment. A node that waits for an event makes few; more of them is a spin.
    pub(super) fn count_turn(&mut self, node: usize) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        node.turns += 1;
        if node.turns > SPIN {
            self.judge.violations.push(format!("{} spins", node.config.node));
        }
    }
}

/// The settings of a pool.
fn settings(rng: &mut Rng, options: &Options) -> Settings {
    Settings {
        worker_ttl: options.ttl,
        max_queued: rng.between(4, 40),
        route_timeout: Duration::from_millis(500),
        assign_timeout: Duration::from_millis(rng.between(500, 1_500)),
        stop_retry: Duration::from_millis(500),
        max_dispatch_deadline: Duration::from_secs(10),
        outcome_retention: Duration::from_secs(20),
        max_attempts: 5,
        stable_run: Duration::from_secs(30),
        strikes: 3,
        notify_cap: 8,
        join_settle: Duration::from_millis(rng.between(0, 1_000)),
        ..Settings::default()
    }
}
