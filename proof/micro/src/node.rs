//! An engine in a pool of one node with one worker: steps that a meter sees, calls that wait for their answers.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use super::{Meter, Unmeasured, sure};
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::core::ctx::{Config, Purpose};
use tenure_protocol::core::effect::Effect;
use tenure_protocol::core::engine::Engine;
use tenure_protocol::core::input::{Command, Input, LocalWorker, ReplyTo};
use tenure_protocol::core::lease::Timing;
use tenure_protocol::core::time::Time;
use tenure_protocol::model::id::{Incarnation, NodeName, Nonce, Revision, Token, WorkerId};
use tenure_protocol::model::member::{Member, MemberState, Members};
use tenure_protocol::model::settings::{Given, Settings, StoredSettings};
use tenure_protocol::mutation::Mutations;
use tenure_protocol::step::{PoolState, ReadTime, Renewal, Seat, ServerIdentity, Survey, WhenFull};

/// The node's worker.
pub(super) const WORKER: WorkerId = WorkerId(1);
/// The node's name.
pub(super) const NAME: &str = "node-a";

const INCARNATION: Incarnation = Incarnation(1);
const MEMBERS: Revision = Revision(1);
const LONG: Duration = Duration::from_secs(1_000_000);

/// The engine and its requests.
pub(super) struct Node {
    engine: Engine,
    now: Time,
    calls: Vec<Call>,
    /// The effects of the last step, except its calls.
    pub(super) effects: Vec<Effect>,
}

/// A worker of this node in this slot of the ring.
pub(super) fn up(slot: u32) -> Member {
    Member {
        state: MemberState::Up,
        slot: Some(slot),
        ttl: Duration::from_secs(10),
        nonce: sure(Nonce::new("7.1.1")),
        node: sure(NodeName::new(NAME)),
        meta: String::new(),
        level: 1,
        address: String::new(),
    }
}

fn config() -> Config {
    let settings = Settings::default();
    Config {
        node: sure(NodeName::new(NAME)),
        nonce: 7,
        timing: Timing::of(settings.worker_ttl),
        settings,
        given: Given::default(),
        drawn_keys: (1, 2),
        stable_after: Duration::from_secs(5),
        handoff_parallel: 128,
        start_timeout: Duration::from_secs(30),
        stop_timeout: Duration::from_secs(20),
        plan_timeout: Duration::from_secs(30),
        abort_grace: Duration::from_secs(5),
        start_permits: 256,
        starts_per_second: None,
        moves_per_second: None,
        client_only: false,
        assume_fresh: false,
        must_exist: false,
        address: String::new(),
        purpose: Purpose::Part,
        broken: Mutations::default(),
    }
}

impl Node {
    /// A node whose pool is open and whose worker is in the ring.
    pub(super) fn new() -> Self {
        let engine = Engine::new(config(), 1);
        let now = Time(0) + Duration::from_secs(100);
        let mut node = Self { engine, now, calls: Vec::new(), effects: Vec::new() };
        node.step([Input::Woke]);
        node.attach();
        node.join();
        node
    }

    fn attach(&mut self) {
        self.take("a survey", |call| matches!(call, Call::Survey(..)).then_some(()));
        let run_id = || "a".to_owned();
        let state = PoolState::Present {
            incarnation: INCARNATION,
            recovering: false,
            members: Revision(0),
            settings: Revision(0),
            run_id: run_id(),
            closed: Incarnation(0),
        };
        let uptime = Duration::from_secs(1);
        let server = ServerIdentity { run_id: run_id(), uptime, promoted: false, flushed: false };
        self.done(Done::Survey(Survey, Ok((state, server))));
        let fields = Settings::default().fields().into_iter();
        let settings = StoredSettings {
            incarnation: Some(INCARNATION),
            fields: fields.map(|(name, value)| (name.to_owned(), value)).collect(),
            ..StoredSettings::default()
        };
        let members = Members { incarnation: Some(INCARNATION), ..Members::default() };
        self.step([Input::Settings(Arc::new(settings)), Input::Members(Arc::new(members))]);
        let renewal = Renewal {
            queued: 0,
            opened: false,
            damage: String::new(),
            when_full: WhenFull::Unknown,
            token: Token(0),
            floor: 1,
            members: Revision(0),
            settings: Revision(0),
            flag: None,
            recovering: false,
            run_id: run_id(),
            states: vec![],
            streams: vec![],
        };
        self.step([Input::Renewed { incarnation: INCARNATION, workers: vec![], answer: Ok(renewal) }]);
        self.take("the time", |call| matches!(call, Call::ServerTime(..)).then_some(()));
        self.done(Done::ServerTime(ReadTime, Ok(1_700_000_000_000)));
    }

    fn join(&mut self) {
        let (reply, local) = (ReplyTo(0), LocalWorker(1));
        self.step([Input::Command(Command::AddWorker { reply, local, meta: String::new(), capacity: None })]);
        let (join, seating) = self.take("a join", |call| match call {
            Call::Join(join, seating) => Some((join.clone(), *seating)),
            _ => None,
        });
        self.engine.set_leases(BTreeMap::from([(WORKER, self.now + LONG)]));
        let seat = Seat { worker: WORKER, member: up(0), first: false };
        self.done(Done::Join(join, seating, Ok(seat)));
        let members = Members {
            incarnation: Some(INCARNATION),
            revision: MEMBERS,
            ring_size: 1,
            cordoned: BTreeSet::new(),
            entries: BTreeMap::from([(WORKER, up(0))]),
        };
        self.step([Input::Members(Arc::new(members))]);
    }

    /// A deadline that never comes.
    pub(super) fn never(&self) -> Time {
        self.now + LONG
    }

    /// A measured step of the engine, with the driver's questions after it.
    pub(super) fn measured(&mut self, meter: &mut dyn Meter, inputs: impl IntoIterator<Item = Input>) {
        self.now = self.now + Duration::from_micros(1);
        let mut inputs: Vec<Input> = inputs.into_iter().collect();
        let (engine, now, mut effects) = (&mut self.engine, self.now, Vec::new());
        meter.measure(&mut || {
            effects = engine.step(now, inputs.drain(..));
            black_box(engine.status());
            black_box(engine.deadline());
        });
        self.effects.clear();
        for effect in effects {
            match effect {
                Effect::Call { call, .. } => {
                    if matches!(call, Call::ReadNode(..)) {
                        self.calls.retain(|call| !matches!(call, Call::ReadNode(..)));
                    }
                    self.calls.push(call);
                }
                effect => self.effects.push(effect),
            }
        }
    }

    /// A step without a measurement.
    fn step(&mut self, inputs: impl IntoIterator<Item = Input>) {
        self.measured(&mut Unmeasured, inputs);
    }

    fn done(&mut self, done: Done) {
        self.step([Input::Done(Box::new(done))]);
    }

    /// Takes the oldest call that `pick` accepts.
    pub(super) fn take<T>(&mut self, what: &str, mut pick: impl FnMut(&mut Call) -> Option<T>) -> T {
        let found = self.calls.iter_mut().enumerate().find_map(|(at, call)| Some((at, pick(call)?)));
        let Some((at, picked)) = found else { panic!("the engine did not ask for {what}") };
        self.calls.remove(at);
        picked
    }

    /// Jobs in the worker's hands.
    pub(super) fn held(&self) -> usize {
        self.engine.status().workers.iter().map(|worker| worker.held).sum()
    }
}
