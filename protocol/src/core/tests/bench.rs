//! An engine on a bench: a clock that only the test moves, calls that the test answers by hand, effects as lines.
//!
//! After every step the bench checks that nothing spins: the engine's deadline is in the future. After a failed call
//! it checks that the same step does not repeat the call.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_steps::EntryId;
use tenure_steps::Failure;

use super::render;
use crate::core::call::{Call, Done};
use crate::core::ctx::{Config, Purpose};
use crate::core::effect::Effect;
use crate::core::engine::Engine;
use crate::core::input::{Command, HandlerEvent, Input, LocalWorker, ReplyTo, Until};
use crate::core::lease::Timing;
use crate::core::time::Time;
use crate::model::id::{DispatchId, Incarnation, JobKey, NodeName, Nonce, Revision, Token, WorkerId};
use crate::model::member::{Member, MemberState, Members};
use crate::model::policy::RestartPolicy;
use crate::model::record::{Begun, JobState, Record};
use crate::model::settings::{Given, Settings, StoredSettings};
use crate::model::ticket::Ticket;
use crate::model::wire::Envelope;
use crate::mutation::Mutations;
use crate::step::{
    AttestReply, BeginReply, BegunJob, DispatchItem, Granted, GrantedJob, NodeEvents, PoolState, Refusal,
    ReleaseItem, ReleaseMode, ReleaseReply, Renewal, Seat, ServerIdentity, StoreError, Taken, WhenFull,
    WorkerBegins, WorkerBegun, WorkerEvent,
};

/// The regular calls of every node, apart from the subject of a test.
const UPKEEP: [&str; 11] = [
    "inspect",
    "read-node",
    "read-pool",
    "claim-pool",
    "heartbeats",
    "sweep",
    "prune",
    "time",
    "reread",
    "expect",
    "settings",
];

pub(super) fn key(name: &str) -> JobKey {
    JobKey::try_from(name).unwrap()
}

pub(super) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub(super) fn entry(number: u64) -> EntryId {
    EntryId { ms: number, seq: 0 }
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn id(name: &str) -> DispatchId {
    name.parse().unwrap()
}

/// The envelope of an empty payload with this policy.
pub(super) fn sealed(policy: RestartPolicy) -> Bytes {
    Envelope { policy, ..Envelope::new(b"") }.seal().unwrap()
}

/// An error after which the call must be repeated.
pub(super) fn unanswered() -> StoreError {
    StoreError::Unanswered(Failure::new(std::io::Error::from(std::io::ErrorKind::TimedOut)))
}

/// A member on its slot.
pub(super) fn up(slot: u32) -> Member {
    Member {
        state: MemberState::Up,
        slot: Some(slot),
        ttl: secs(10),
        nonce: Nonce::new("x").unwrap(),
        node: node("n"),
        meta: String::new(),
        level: 1,
        address: String::new(),
    }
}

/// A job's record as the begin step answers it.
pub(super) fn record(name: &str, token: u64, worker: WorkerId) -> Record {
    Record {
        state: JobState::Running,
        owner: Some(worker),
        token: Token(token),
        attempts: 1,
        begun: Begun::Begun,
        since: 0,
        id: id(&format!("n.{name}")),
        created: 0,
        attested: None,
        strikes: 0,
        plan: String::new(),
        tail: String::new(),
    }
}

/// The news of jobs that were granted.
pub(super) fn granted(incarnation: u64, token: u64, names: &[&str]) -> WorkerEvent {
    granted_as(incarnation, token, names, |_| {})
}

/// The same with these changes of each job.
pub(super) fn granted_as(
    incarnation: u64,
    token: u64,
    names: &[&str],
    change: impl Fn(&mut GrantedJob),
) -> WorkerEvent {
    let job = |name: &&str| {
        let record = Record { begun: Begun::Never, ..record(name, token, WorkerId(1)) };
        let payload = sealed(RestartPolicy::Never);
        let job = BegunJob { record, waiting: false, payload, checkpoint: None };
        let mut granted = GrantedJob { key: key(name), awaited: true, job };
        change(&mut granted);
        granted
    };
    WorkerEvent::Grant(Granted {
        token: Token(token),
        incarnation: Incarnation(incarnation),
        jobs: names.iter().map(job).collect(),
    })
}

pub(super) fn config() -> Config {
    let settings = Settings::default();
    Config {
        node: node("n"),
        nonce: 7,
        timing: Timing::of(settings.worker_ttl),
        settings,
        given: Given::default(),
        drawn_keys: (1, 2),
        stable_after: secs(5),
        handoff_parallel: 128,
        broken: Mutations::default(),
        start_timeout: secs(30),
        stop_timeout: secs(20),
        plan_timeout: secs(30),
        abort_grace: secs(5),
        start_permits: 256,
        starts_per_second: None,
        moves_per_second: None,
        client_only: false,
        assume_fresh: false,
        must_exist: false,
        address: String::new(),
        purpose: Purpose::default(),
    }
}

pub(super) struct Bench {
    pub(super) engine: Engine,
    pub(super) now: Time,
    pub(super) leases: BTreeMap<WorkerId, Time>,
    pub(super) members: Members,
    pub(super) stored: StoredSettings,
    calls: Vec<(Incarnation, Call)>,
    lines: Vec<String>,
    replies: u64,
}

impl Bench {
    /// An engine without any knowledge; its first survey waits for an answer.
    pub(super) fn new(config: Config) -> Self {
        let fields = config.settings.fields().into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut bench = Self {
            stored: StoredSettings { fields: fields.collect(), ..StoredSettings::default() },
            engine: Engine::new(config, 1),
            now: Time(0) + secs(100),
            leases: BTreeMap::new(),
            members: Members::default(),
            calls: Vec::new(),
            lines: Vec::new(),
            replies: 0,
        };
        bench.step([Input::Woke]);
        bench
    }

    /// An engine in a pool in phase N, incarnation 1, without workers.
    pub(super) fn attached_with(config: Config) -> Self {
        let mut bench = Self::new(config);
        bench.survey(present(1, false, "a"));
        bench.maps(1);
        bench.renewed();
        bench.events(NodeEvents::default());
        bench.answer_with("time", 1_000_000_u64);
        bench.all();
        bench
    }

    pub(super) fn attached() -> Self {
        Self::attached_with(config())
    }

    /// An attached engine with one worker, whose id is 1.
    pub(super) fn with_worker() -> Self {
        Self::with_worker_as(config())
    }

    pub(super) fn with_worker_as(config: Config) -> Self {
        let mut bench = Self::attached_with(config);
        bench.worker(1);
        bench
    }

    /// An attached engine that dispatches a job, and waits for its start.
    pub(super) fn that_submits(name: &str, dispatch: &str, patience: Duration) -> Self {
        let mut bench = Self::attached();
        bench.submit(name, dispatch, true, patience);
        bench
    }

    /// An attached engine without workers. This one of another node is in the ring.
    pub(super) fn with_other(worker: u64) -> Self {
        let mut bench = Self::attached();
        bench.set_member(worker, up(0));
        bench.all();
        bench
    }

    /// A worker, whose id is 1, runs these jobs.
    pub(super) fn that_runs(token: u64, names: &[&str]) -> Self {
        let mut bench = Self::with_worker();
        bench.running(token, names);
        bench
    }

    /// Worker 1 has read that these jobs are its own.
    pub(super) fn that_is_assigned(entry: u64, token: u64, names: &[&str]) -> Self {
        let mut bench = Self::with_worker();
        bench.assign(1, entry, token, names);
        bench
    }

    /// Worker 1 has begun these jobs.
    pub(super) fn that_starts(entry: u64, token: u64, names: &[&str]) -> Self {
        let mut bench = Self::with_worker();
        bench.begin(1, entry, token, names);
        bench
    }

    // ---- time and inputs

    pub(super) fn step(&mut self, inputs: impl IntoIterator<Item = Input>) {
        self.engine.set_leases(self.leases.clone());
        for effect in self.engine.step(self.now, inputs) {
            self.lines.push(render::effect(&effect));
            match effect {
                Effect::Call { incarnation, call } => {
                    if matches!(call, Call::ReadNode(..)) {
                        self.calls.retain(|(_, c)| !matches!(c, Call::ReadNode(..)));
                    }
                    self.calls.push((incarnation, call));
                }
                Effect::StopReadingPool => self.calls.retain(|(_, c)| !matches!(c, Call::ReadPool(..))),
                _ => {}
            }
        }
        let deadline = self.engine.deadline();
        assert!(
            deadline.is_none_or(|at| at > self.now),
            "it spins: due at {deadline:?}, now {:?}, after {:#?}",
            self.now,
            self.lines
        );
    }

    /// Lets time pass, and wakes the engine whenever it asks for that.
    pub(super) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(at) = self.engine.deadline().filter(|&at| at <= end) {
            self.now = at;
            self.step([Input::Woke]);
        }
        self.now = end;
        self.step([Input::Woke]);
    }

    /// The bench some time later.
    pub(super) fn after(&mut self, time: Duration) -> &mut Self {
        self.advance(time);
        self
    }

    pub(super) fn command(&mut self, command: impl FnOnce(ReplyTo) -> Command) {
        self.replies += 1;
        self.step([Input::Command(command(ReplyTo(self.replies)))]);
    }

    pub(super) fn close(&mut self, patience: Duration) {
        let deadline = self.now + patience;
        self.command(|reply| Command::Close { reply, deadline });
    }

    pub(super) fn submit(&mut self, name: &str, dispatch: &str, started: bool, patience: Duration) {
        let deadline = self.now + patience;
        let item = DispatchItem {
            key: key(name),
            id: id(dispatch),
            not_after: 0,
            hash: String::new(),
            payload: Bytes::new(),
            worker: None,
            awaited: true,
        };
        self.command(|reply| Command::Submit { reply, item, started, deadline });
    }

    /// Waits for the start of a dispatch.
    pub(super) fn wait(&mut self, name: &str, dispatch: &str, patience: Duration) {
        let (ticket, deadline) = (Ticket { key: key(name), id: id(dispatch) }, self.now + patience);
        self.command(|reply| Command::Wait { reply, ticket, deadline });
    }

    pub(super) fn stop_job(&mut self, name: &str, dispatch: Option<&str>, until: Until, patience: Duration) {
        let (key, id, deadline) = (key(name), dispatch.map(id), self.now + patience);
        self.command(|reply| Command::StopJob { reply, key, id, until, deadline });
    }

    pub(super) fn handler(&mut self, worker: u64, name: &str, token: u64, event: HandlerEvent) {
        let (worker, key, token) = (WorkerId(worker), key(name), Token(token));
        self.step([Input::Handler { worker, key, token, event }]);
    }

    // ---- calls and their answers

    /// The calls in flight, except upkeep.
    pub(super) fn in_flight(&self) -> Vec<String> {
        let lines = self.calls.iter().map(|(_, call)| render::call(call));
        lines.filter(|line| !UPKEEP.contains(&kind(line))).collect()
    }

    /// Whether a call of this kind is in flight.
    pub(super) fn is_calling(&self, wanted: &str) -> bool {
        self.calls.iter().any(|(_, call)| kind(&render::call(call)) == wanted)
    }

    /// Takes the oldest call of this kind out of those in flight.
    pub(super) fn call(&mut self, wanted: &str) -> Call {
        let at = self.calls.iter().position(|(_, call)| kind(&render::call(call)) == wanted);
        let at = at.unwrap_or_else(|| panic!("no {wanted} among {:#?}", self.in_flight()));
        self.calls.remove(at).1
    }

    /// The call of this kind in flight, which stays there.
    pub(super) fn in_flight_call(&self, wanted: &str) -> Call {
        let call = self.calls.iter().map(|(_, call)| call).find(|call| kind(&render::call(call)) == wanted);
        call.unwrap_or_else(|| panic!("no {wanted} among {:#?}", self.in_flight())).clone()
    }

    pub(super) fn done(&mut self, done: Done) {
        self.step([Input::Done(Box::new(done))]);
    }

    /// Answers the oldest call of this kind.
    pub(super) fn answer(&mut self, wanted: &str, answer: impl FnOnce(Call) -> Done) {
        let call = self.call(wanted);
        self.done(answer(call));
    }

    /// The answer to the oldest call of this kind.
    pub(super) fn answer_with<A: 'static>(&mut self, wanted: &str, answer: A) {
        self.answer(wanted, |call| call.answered(Ok(answer)));
    }

    /// The same answer to each item of the oldest call of this kind.
    pub(super) fn answer_each<A: Clone + 'static>(&mut self, wanted: &str, reply: A) {
        self.answer(wanted, |call| {
            let items = call.items();
            call.answered(Ok(vec![reply; items]))
        });
    }

    /// The oldest call of this kind fails; the engine must not repeat it at once.
    pub(super) fn fail(&mut self, wanted: &str) {
        let before = self.lines.len();
        self.fail_with(wanted, unanswered());
        let at_once = self.lines[before..].iter().find(|line| kind(line) == wanted);
        assert_eq!(at_once, None, "made again at once");
    }

    pub(super) fn fail_with(&mut self, wanted: &str, error: StoreError) {
        self.answer(wanted, |call| call.failed(error));
    }

    pub(super) fn survey(&mut self, state: PoolState) {
        self.survey_of(state, server("a"));
    }

    pub(super) fn survey_of(&mut self, state: PoolState, server: ServerIdentity) {
        self.answer_with("survey", (state, server));
    }

    // ---- maps and renewals

    /// The maps arrive, in this incarnation.
    pub(super) fn maps(&mut self, incarnation: u64) {
        self.stored.incarnation = Some(Incarnation(incarnation));
        self.members.incarnation = Some(Incarnation(incarnation));
        let (members, settings) = (Arc::new(self.members.clone()), Arc::new(self.stored.clone()));
        self.step([Input::Settings(settings), Input::Members(members)]);
    }

    /// These nodes are cordoned now, and no others.
    pub(super) fn cordon(&mut self, nodes: &[&str]) {
        self.members.cordoned = nodes.iter().filter_map(|node| NodeName::new(node).ok()).collect();
        self.members.revision.0 += 1;
        self.step([Input::Members(Arc::new(self.members.clone()))]);
    }

    /// The members change.
    pub(super) fn change_members(&mut self, change: impl FnOnce(&mut BTreeMap<WorkerId, Member>)) {
        change(&mut self.members.entries);
        self.members.revision.0 += 1;
        let slots = self.members.entries.values().filter_map(|m| m.slot).map(|slot| slot + 1);
        self.members.ring_size = slots.max().unwrap_or(0).max(self.members.ring_size);
        self.step([Input::Members(Arc::new(self.members.clone()))]);
    }

    /// This is a worker's entry now.
    pub(super) fn set_member(&mut self, worker: u64, member: Member) {
        self.change_members(|members| drop(members.insert(WorkerId(worker), member)));
    }

    /// A renewal without bad news.
    pub(super) fn renewal(&self) -> Renewal {
        Renewal {
            queued: 0,
            opened: false,
            damage: String::new(),
            when_full: WhenFull::Unknown,
            token: Token(0),
            floor: 1,
            members: self.members.revision,
            settings: Revision(0),
            flag: None,
            recovering: false,
            run_id: "a".into(),
            states: vec![],
            streams: vec![],
        }
    }

    pub(super) fn renewed(&mut self) {
        let renewal = self.renewal();
        self.step([Input::Renewed { incarnation: Incarnation(1), workers: vec![], answer: Ok(renewal) }]);
    }

    /// A worker joins, on the slot below its number, and is in the ring.
    pub(super) fn worker(&mut self, number: u32) {
        self.worker_with(number, None);
    }

    /// Asks for a worker.
    pub(super) fn add_worker(&mut self, number: u32) {
        self.add_worker_with(number, None);
    }

    fn add_worker_with(&mut self, number: u32, capacity: Option<u32>) {
        let (local, capacity) = (LocalWorker(number), capacity.and_then(NonZeroU32::new));
        self.command(|reply| Command::AddWorker { reply, local, meta: String::new(), capacity });
    }

    /// A worker with this capacity.
    pub(super) fn worker_with(&mut self, number: u32, capacity: Option<u32>) {
        self.add_worker_with(number, capacity);
        self.seat(u64::from(number), number - 1);
    }

    /// Answers the join in flight: seated, and in the ring.
    pub(super) fn seat(&mut self, worker: u64, slot: u32) {
        self.answer_join(Seat { worker: WorkerId(worker), member: up(slot), first: false });
        self.set_member(worker, up(slot));
        self.all();
    }

    /// Answers the join in flight. The lease holds from now on.
    pub(super) fn answer_join(&mut self, seat: Seat) {
        self.leases.insert(seat.worker, self.now + secs(1_000_000));
        self.answer_with("join", seat);
    }

    // ---- a worker's stream and its jobs

    /// The read in flight brings an event for the worker.
    pub(super) fn event(&mut self, worker: u64, number: u64, event: WorkerEvent) {
        let workers = vec![(WorkerId(worker), entry(number), event)];
        self.events(NodeEvents { workers, ..NodeEvents::default() });
    }

    pub(super) fn events(&mut self, events: NodeEvents) {
        self.answer_with("read-node", events);
    }

    pub(super) fn assign(&mut self, worker: u64, number: u64, token: u64, names: &[&str]) {
        let keys = names.iter().map(|name| key(name)).collect();
        self.event(worker, number, WorkerEvent::Start { token: Token(token), keys });
    }

    /// Jobs are granted to worker 1, in the first incarnation.
    pub(super) fn grant(&mut self, number: u64, token: u64, names: &[&str]) {
        self.event(1, number, granted(1, token, names));
    }

    /// Jobs are assigned to the worker, and it begins them.
    pub(super) fn begin(&mut self, worker: u64, number: u64, token: u64, names: &[&str]) {
        self.assign(worker, number, token, names);
        self.begun();
    }

    /// The job's handler ends, and the answer to its release comes.
    pub(super) fn leaves(&mut self, worker: u64, name: &str, token: u64, event: HandlerEvent) {
        self.handler(worker, name, token, event);
        self.released();
    }

    pub(super) fn stop_event(
        &mut self,
        worker: u64,
        number: u64,
        waiting: Option<&str>,
        jobs: &[(&str, u64)],
    ) {
        let named = |name: &str| Some(id(&format!("n.{name}")));
        let jobs = jobs.iter().map(|(name, token)| (key(name), Token(*token), named(name))).collect();
        self.event(worker, number, WorkerEvent::Stop { waiting: waiting.map(node), jobs });
    }

    pub(super) fn notify_event(&mut self, worker: u64, number: u64, name: &str, token: u64) {
        self.event(worker, number, WorkerEvent::Notify { jobs: vec![(key(name), Token(token))] });
    }

    /// Answers the begin in flight: all jobs are the worker's, with these records and waiting notifications.
    pub(super) fn begun_with(&mut self, waiting: bool, change: impl Fn(&mut Record)) {
        self.begun_as(&sealed(RestartPolicy::Never), waiting, change);
    }

    /// As [`begun_with`](Self::begun_with), with this envelope.
    pub(super) fn begun_as(&mut self, envelope: &Bytes, waiting: bool, change: impl Fn(&mut Record)) {
        self.begins_answered(|of| {
            let reply = |(key, token): &(JobKey, Token)| {
                let mut record = record(&key.to_string(), token.0, of.worker);
                change(&mut record);
                BeginReply::Begun(BegunJob { record, waiting, payload: envelope.clone(), checkpoint: None })
            };
            Ok(of.jobs.iter().map(reply).collect())
        });
    }

    /// Answers the begin in flight, separately for each of its workers.
    pub(super) fn begins_answered(&mut self, answer: impl FnMut(&WorkerBegins) -> WorkerBegun) {
        let call = self.call("begin");
        let Call::Begin(step) = &call else { panic!("{call:?}") };
        let answers: Vec<_> = step.begins.iter().map(answer).collect();
        self.done(call.answered(Ok(answers)));
    }

    /// The pool lives in another incarnation, in phase R.
    pub(super) fn lost(&mut self, incarnation: u64) {
        let (known, next) = (self.engine.incarnation(), Incarnation(incarnation));
        let answer = Err(StoreError::Refused(Refusal::StaleIncarnation(next)));
        self.step([Input::Renewed { incarnation: known, workers: vec![], answer }]);
        while !self.is_calling("survey") {
            self.advance(millis(100));
        }
        self.survey(present(incarnation, true, "a"));
    }

    /// Answers the attestation in flight.
    pub(super) fn attested(&mut self, replies: &[AttestReply]) {
        let call = self.call("attest");
        let Call::Attest(step, _) = &call else { panic!("{call:?}") };
        assert_eq!(step.items.len(), replies.len(), "{step:?}");
        self.done(call.answered(Ok(replies.to_vec())));
    }

    /// Answers the final report in flight.
    pub(super) fn attended(&mut self, next: Option<&str>) {
        self.answer_with("attend", next.map(key));
    }

    /// Other nodes have opened the pool again.
    pub(super) fn reopened(&mut self, incarnation: u64) {
        while !self.is_calling("survey") {
            self.advance(millis(100));
        }
        self.survey(present(incarnation, false, "a"));
    }

    pub(super) fn begun(&mut self) {
        self.begun_with(false, |_| {});
    }

    pub(super) fn begin_answered(&mut self, replies: &[BeginReply]) {
        self.begins_answered(|_| Ok(replies.to_vec()));
    }

    /// Answers the begin in flight with this refusal for all its workers.
    pub(super) fn begin_refused(&mut self, why: &Refusal) {
        self.begins_answered(|_| Err(why.clone()));
    }

    pub(super) fn released(&mut self) {
        let reply = |item: &ReleaseItem| match item.mode {
            ReleaseMode::Delete => ReleaseReply::Deleted,
            ReleaseMode::Park => ReleaseReply::Parked,
            ReleaseMode::HandOff
            | ReleaseMode::GiveBack
            | ReleaseMode::Refuse
            | ReleaseMode::Elsewhere { .. }
            | ReleaseMode::Fail => ReleaseReply::Queued,
        };
        let call = self.call("release");
        let Call::Release(step) = &call else { panic!("{call:?}") };
        let replies: Vec<_> = step.items.iter().map(reply).collect();
        self.done(call.answered(Ok(replies)));
    }

    pub(super) fn started_noted(&mut self) {
        self.answer_each("started", true);
    }

    /// Answers the take in flight for its one job.
    pub(super) fn taken(&mut self, first: u64, bodies: &[&str]) {
        let bodies = bodies.iter().map(|b| Bytes::copy_from_slice(b.as_bytes())).collect();
        self.take_answered(Some(Taken { first, bodies }));
    }

    /// Refuses the take in flight for its one job.
    pub(super) fn take_refused(&mut self) {
        self.take_answered(None);
    }

    fn take_answered(&mut self, taken: Option<Taken>) {
        self.answer_each("take", taken);
    }

    /// Jobs of worker 1 that run; all their calls have been answered.
    pub(super) fn running(&mut self, token: u64, names: &[&str]) {
        self.running_on(1, token, names);
    }

    pub(super) fn running_on(&mut self, worker: u64, token: u64, names: &[&str]) {
        self.begin(worker, token, token, names);
        for name in names {
            self.handler(worker, name, token, HandlerEvent::Started);
        }
        while self.is_calling("started") {
            self.started_noted();
        }
        self.all();
    }

    // ---- what it did

    /// All effects since the last look.
    pub(super) fn all(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// All effects since the last look, except upkeep.
    pub(super) fn seen(&mut self) -> Vec<String> {
        self.all().into_iter().filter(|line| !UPKEEP.contains(&kind(line))).collect()
    }

    /// The effects of these kinds since the last look.
    pub(super) fn of(&mut self, kinds: &[&str]) -> Vec<String> {
        let kinds: BTreeSet<_> = kinds.iter().copied().collect();
        self.all().into_iter().filter(|line| kinds.contains(kind(line))).collect()
    }
}

fn kind(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

pub(super) fn present(incarnation: u64, recovering: bool, run_id: &str) -> PoolState {
    PoolState::Present {
        incarnation: Incarnation(incarnation),
        recovering,
        members: Revision(0),
        settings: Revision(0),
        run_id: run_id.into(),
        closed: Incarnation(0),
    }
}

/// A server that has just been started.
pub(super) fn server(run_id: &str) -> ServerIdentity {
    ServerIdentity { run_id: run_id.into(), uptime: secs(1), promoted: false, flushed: false }
}
