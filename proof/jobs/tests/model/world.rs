//! The states of a set and its nodes, and what may happen next.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use stateright::{Model, Property};
use tenure_jobs::store::{
    AddJobs, Adding, AttestJobs, Attesting, Boot, Booted, Breakage, Data, Declare, Ends, ExtendJobs, Kind,
    Lane, MemoryStore, NewJob, PeekJobs, ReadServer, Recover, Request, Settle, SettleJobs, SettleReply,
    Settling, Snapshot, Steer, SteerJobs, Store, TakeJobs, TakeReply, TakenJob, Taking, Tick, Transition,
};
use tenure_jobs::{Incarnation, JobId, NodeName, QueueName, Settings, Token};

const START: u64 = 1_800_000_000_000;
const LEASE: u64 = 3_000;
const HALF: u64 = LEASE / 2;
/// A handler is aborted when so much of its lease is over.
const ABORTED: u64 = LEASE / 10 * 9;
const HOLD: u64 = 2_000;
const GRACE: u64 = 3 * HALF;
const PAUSE: u64 = 1_000;

/// How often what may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) takes: u8,
    /// Attempts that fail, and are tried again.
    pub(crate) retries: u8,
    pub(crate) lost_answers: u8,
    /// Halves of a lease that pass.
    pub(crate) halves: u8,
    pub(crate) losses: u8,
    pub(crate) removals: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum How {
    Done,
    Retry,
}

/// Nodes and jobs go by their numbers. The last word says that the answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Act {
    Take(usize, bool),
    End(usize, How, bool),
    Extend(usize),
    /// The last word of a handler that was aborted comes late.
    LateWord(usize),
    Tick,
    HalfALeasePasses,
    /// The data go back to these, if they are lost.
    Keep,
    Lose,
    /// A node follows the loss.
    Follow(usize),
    Remove(usize),
}

/// An execution as its node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    job: usize,
    token: u64,
    /// The record as it began.
    record: String,
    /// When its handler is aborted.
    until: u64,
}

/// A call whose answer was lost: it goes again, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    /// The end that it says; otherwise it takes.
    end: Option<(Run, How)>,
    at: u64,
    /// The jobs that it took, or the word on the end.
    answer: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    inc: u64,
    /// The numbers of its lanes, for takes and for ends.
    lanes: [u64; 2],
    unanswered: Option<Sent>,
    running: Option<Run>,
    /// Executions whose handlers were aborted, and whose words may still come.
    late: Vec<Run>,
    /// Ends that were answered.
    journal: Vec<(Run, How)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Ghost {
    highest: u64,
    /// The node that a job was ended by, if its end holds.
    ended: [Option<usize>; 2],
    removed: [bool; 2],
    /// Somebody has begun it since the loss.
    begun_since: [bool; 2],
    lost_at: Option<u64>,
    /// It happened.
    halted: bool,
    lapsed: bool,
    ran_on: bool,
    violations: BTreeSet<String>,
}

#[derive(Clone)]
struct Picture(Arc<Snapshot>, Arc<str>);

#[derive(Clone)]
pub(crate) struct World {
    data: Picture,
    before: Option<Picture>,
    clock: u64,
    nodes: [Node; 2],
    left: Scope,
    ghost: Ghost,
}

impl World {
    fn key(&self) -> impl Hash + PartialEq + '_ {
        let before = self.before.as_ref().map(|before| &*before.1);
        (&*self.data.1, before, self.clock, &self.nodes, self.left, &self.ghost)
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.ghost.violations.iter().cloned().collect()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (clock, nodes, ghost) = (self.clock - START, &self.nodes, &self.ghost);
        f.debug_struct("World")
            .field("clock", &clock)
            .field("nodes", nodes)
            .field("ghost", ghost)
            .finish_non_exhaustive()
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// The model.
pub(crate) struct Set {
    scope: Scope,
    breakage: Option<Breakage>,
}

fn id(job: usize) -> JobId {
    JobId::new(["j0", "j1"][job]).unwrap()
}

fn node(n: usize) -> NodeName {
    NodeName::new(["n0", "n1"][n]).unwrap()
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn settle(how: How) -> Settle {
    match how {
        How::Done => Settle::Done(Bytes::new(), Data::Keep),
        How::Retry => Settle::Retry(0, Bytes::from_static(b"no")),
    }
}

/// A state on its way to the next one.
struct Step<'a> {
    world: &'a mut World,
    store: MemoryStore,
    breakage: Option<Breakage>,
}

impl Step<'_> {
    fn violate(&mut self, what: String) {
        self.world.ghost.violations.insert(what);
    }

    fn lane(&mut self, n: usize, of: usize) -> Lane {
        let mut lane = Lane::new(format!("{}{of}", ["n0", "n1"][n]));
        lane.number = u128::from(self.world.nodes[n].lanes[of] + 1);
        lane
    }

    /// The token of the execution that is valid by the data.
    fn valid(&self, job: usize) -> Option<u64> {
        let inc = self.world.nodes.iter().map(|node| node.inc).max()?;
        let found = PeekJobs(Ends::Without, vec![id(job)]).on_memory(&self.store, Incarnation(inc)).ok()?;
        let record = found.into_iter().next()??.seen.record;
        (record.state == tenure_jobs::State::Running).then_some(record.token.0)
    }

    fn take(&mut self, n: usize, lost: bool) {
        let (lane, inc) = (self.lane(n, 0), Incarnation(self.world.nodes[n].inc));
        let sent = self.world.nodes[n].unanswered.take();
        let at = sent.as_ref().map_or(self.world.clock, |sent| sent.at);
        let Ok(reply) = TakeJobs(lane.clone(), Taking::new(node(n), queue(), 1)).on_memory(&self.store, inc)
        else {
            return;
        };
        let answer = match &reply {
            TakeReply::Taken { jobs, .. } => jobs.iter().map(|job| job.record.to_string()).collect(),
            _ => Vec::new(),
        };
        if let (None, TakeReply::Taken { jobs, .. }) = (&sent, &reply) {
            for taken in jobs {
                self.mint(taken.record.token.0);
            }
        }
        if lost {
            self.world.nodes[n].unanswered = Some(Sent { end: None, at, answer });
            return;
        }
        self.world.nodes[n].lanes[0] += 1;
        if let Some(sent) = &sent
            && answer.iter().any(|job| !sent.answer.contains(job))
        {
            self.violate(format!("a take that was sent again was answered otherwise: {answer:?}"));
        }
        let TakeReply::Taken { jobs, .. } = reply else { return };
        for taken in jobs {
            self.begin(n, &taken, at);
        }
    }

    /// A token was given out.
    fn mint(&mut self, token: u64) {
        if token <= self.world.ghost.highest {
            self.violate(format!("a token came again: {token}"));
        }
        self.world.ghost.highest = self.world.ghost.highest.max(token);
    }

    fn begin(&mut self, n: usize, taken: &TakenJob, at: u64) {
        let job = usize::from(taken.id.as_str() == "j1");
        let (token, clock) = (taken.record.token.0, self.world.clock);
        let run = Run { job, token, record: taken.record.to_string(), until: at + ABORTED };
        let ghost = &mut self.world.ghost;
        ghost.begun_since[job] = true;
        if ghost.removed[job] {
            ghost.violations.insert(format!("j{job} was removed and began"));
        }
        if let Some(by) = ghost.ended[job].take()
            && self.world.nodes[by].inc == self.world.nodes[n].inc
        {
            self.violate(format!("j{job} ran after its end"));
        }
        if run.until <= clock {
            self.world.nodes[n].late.push(run);
            return;
        }
        let others = self.world.nodes.iter().filter_map(|node| node.running.as_ref());
        if others.into_iter().any(|other| other.job == job) {
            self.violate(format!("two handlers of j{job}"));
        }
        self.world.nodes[n].running = Some(run);
    }

    /// The word on an execution; whether it is the last one.
    fn say(&mut self, n: usize, lane: &Lane, run: &Run, how: How) -> Option<SettleReply> {
        let inc = Incarnation(self.world.nodes[n].inc);
        let valid = self.valid(run.job);
        let settling = Settling::new(id(run.job), Token(run.token), settle(how));
        let first = self.world.nodes[n].unanswered.is_none();
        let reply = SettleJobs(lane.clone(), vec![settling]).on_memory(&self.store, inc).ok()?[0];
        if first && reply != SettleReply::Halt && valid != Some(run.token) {
            self.violate(format!("a word of another token was accepted: {reply:?}"));
        }
        if reply == SettleReply::Ended {
            self.world.ghost.ended[run.job] = Some(n);
        }
        self.world.ghost.halted |= reply == SettleReply::Halt;
        Some(reply)
    }

    fn end(&mut self, n: usize, how: How, lost: bool) {
        let lane = self.lane(n, 1);
        let before = self.world.nodes[n].unanswered.clone();
        let said = before.as_ref().and_then(|sent| sent.end.clone()).map(|(run, _)| run);
        let Some(run) = said.or_else(|| self.world.nodes[n].running.take()) else { return };
        let Some(reply) = self.say(n, &lane, &run, how) else { return };
        let answer = vec![format!("{reply:?}")];
        self.world.nodes[n].unanswered = None;
        if lost {
            let at = self.world.clock;
            self.world.nodes[n].unanswered = Some(Sent { end: Some((run, how)), at, answer });
            return;
        }
        self.ended(n, run, how, reply);
        if before.is_some_and(|sent| sent.answer != answer) {
            self.violate(format!("an end that was sent again was answered otherwise: {answer:?}"));
        }
    }

    fn ended(&mut self, n: usize, run: Run, how: How, reply: SettleReply) {
        let node = &mut self.world.nodes[n];
        node.lanes[1] += 1;
        if reply != SettleReply::Halt {
            node.journal.push((run, how));
        }
    }

    fn extend(&mut self, n: usize) {
        let (clock, inc) = (self.world.clock, Incarnation(self.world.nodes[n].inc));
        let Some(run) = self.world.nodes[n].running.clone() else { return };
        let Ok(extended) = ExtendJobs(vec![(id(run.job), Token(run.token))]).on_memory(&self.store, inc)
        else {
            return;
        };
        if extended.replies[0] == SettleReply::Halt {
            self.world.nodes[n].running = None;
        } else if let Some(run) = &mut self.world.nodes[n].running {
            run.until = clock + ABORTED;
        }
    }

    fn late_word(&mut self, n: usize) {
        let lane = self.lane(n, 1);
        let run = self.world.nodes[n].late.remove(0);
        if let Some(reply) = self.say(n, &lane, &run, How::Done) {
            self.ended(n, run, How::Done, reply);
        }
    }

    /// Handlers end before their leases do.
    fn time_passes(&mut self) {
        self.world.clock += HALF;
        self.world.left.halves -= 1;
        for node in &mut self.world.nodes {
            let over = node.running.take_if(|run| run.until <= self.world.clock);
            node.late.extend(over);
        }
    }

    /// A node goes over to the data that are there now: it makes them sound, says what it runs, and repeats its journal.
    fn follow(&mut self, n: usize) {
        let seen = Token(self.world.ghost.highest);
        let former = Incarnation(self.world.nodes[n].inc);
        let inc = match Boot(seen).on_memory(&self.store, Incarnation(0)).unwrap() {
            Booted::Exists { incarnation, recovered: true, .. } if incarnation != former => incarnation,
            Booted::Exists { incarnation, .. } | Booted::Created { incarnation } => {
                Recover { seen, server: "other".into(), hold: HOLD, grace: GRACE }
                    .on_memory(&self.store, incarnation)
                    .unwrap()
            }
            other => panic!("{other:?}"),
        };
        Declare(queue(), Some(settings())).on_memory(&self.store, inc).unwrap();
        self.world.nodes[n].inc = inc.0;
        let of = |run: &Run, body: Option<Bytes>| {
            Attesting::new(id(run.job), tenure_jobs::Record::parse(&run.record).unwrap(), body)
        };
        if let Some(run) = self.world.nodes[n].running.clone()
            && self.breakage != Some(Breakage::NothingAttested)
        {
            AttestJobs(vec![of(&run, Some(Bytes::new()))]).on_memory(&self.store, inc).unwrap();
        }
        if let Some(run) = self.world.nodes[n].running.clone() {
            let in_time = self.world.ghost.lost_at.is_some_and(|at| self.world.clock < at + HOLD);
            let ghost = &self.world.ghost;
            let asked_since = ghost.removed[run.job] || ghost.begun_since[run.job];
            let runs = self.valid(run.job) == Some(run.token);
            self.world.ghost.ran_on |= runs;
            if !runs && in_time && !asked_since {
                self.violate(format!("the execution of j{} was ended by a loss", run.job));
            }
        }
        if self.breakage != Some(Breakage::NoJournal) {
            for (run, how) in self.world.nodes[n].journal.clone() {
                let mut lane = Lane::new(format!("journal{n}{}", run.token));
                lane.number = u128::from(inc.0);
                AttestJobs(vec![of(&run, None)]).on_memory(&self.store, inc).unwrap();
                let word = Settling::new(id(run.job), Token(run.token), settle(how));
                SettleJobs(lane.clone(), vec![word]).on_memory(&self.store, inc).unwrap();
            }
        }
    }
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    (settings.lease, settings.max) = (LEASE, 0);
    settings
}

impl Set {
    pub(crate) fn new(scope: Scope, breakage: Option<Breakage>) -> Self {
        Self { scope, breakage }
    }

    fn store(&self, clock: u64) -> MemoryStore {
        let store = MemoryStore::with_clock(move || clock);
        if let Some(breakage) = self.breakage {
            store.break_with(breakage);
        }
        store
    }

    /// The store with these data, on a server that the callers know.
    fn open(&self, picture: &Picture, clock: u64) -> MemoryStore {
        let store = self.store(clock);
        store.go_back(&picture.0);
        store.bless(&ReadServer().on_memory(&store, Incarnation(0)).unwrap());
        store
    }
}

fn picture(store: &MemoryStore) -> Picture {
    Picture(Arc::new(store.snapshot()), store.dump().lines().join("\n").into())
}

impl Model for Set {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let store = self.store(START);
        store.bless(&ReadServer().on_memory(&store, Incarnation(0)).unwrap());
        let Booted::Created { incarnation: inc } = Boot(Token(0)).on_memory(&store, Incarnation(0)).unwrap()
        else {
            panic!()
        };
        Declare(queue(), Some(settings())).on_memory(&store, inc).unwrap();
        let jobs = [0, 1].map(|job| NewJob::new(id(job), "b", Kind::new(queue())));
        AddJobs(Lane::new("p"), Adding::new(jobs.into())).on_memory(&store, inc).unwrap();
        let nodes = [0, 1].map(|_| Node { inc: inc.0, ..Node::default() });
        let (before, ghost) = (None, Ghost::default());
        vec![World { data: picture(&store), before, clock: START, nodes, left: self.scope, ghost }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        let follows = world.nodes.iter().map(|node| node.inc).max();
        let is_lost = world.ghost.lost_at.is_some();
        for (n, node) in world.nodes.iter().enumerate() {
            let current = !is_lost || (world.data_are_sound() && Some(node.inc) == follows);
            if !current {
                acts.push(Act::Follow(n));
                continue;
            }
            let may_lose = world.left.lost_answers > 0;
            match &node.unanswered {
                Some(Sent { end: None, .. }) => acts.push(Act::Take(n, false)),
                Some(Sent { end: Some((_, how)), .. }) => acts.push(Act::End(n, *how, false)),
                None if node.running.is_none() && world.left.takes == 0 => {}
                None if node.running.is_none() => {
                    acts.extend([Act::Take(n, false)]);
                    acts.extend(may_lose.then_some(Act::Take(n, true)));
                }
                None => {
                    acts.extend([Act::End(n, How::Done, false), Act::Extend(n)]);
                    acts.extend(may_lose.then_some(Act::End(n, How::Done, true)));
                    if world.left.retries > 0 {
                        acts.push(Act::End(n, How::Retry, false));
                        acts.extend(may_lose.then_some(Act::End(n, How::Retry, true)));
                    }
                }
            }
            if !node.late.is_empty() && node.unanswered.is_none() {
                acts.push(Act::LateWord(n));
            }
        }
        if world.left.halves > 0 {
            acts.push(Act::HalfALeasePasses);
        }
        if world.left.losses > 0 {
            acts.push(Act::Lose);
            acts.extend(world.before.is_none().then_some(Act::Keep));
        }
        if world.data_are_sound() {
            acts.push(Act::Tick);
            if world.left.removals > 0 {
                acts.extend([Act::Remove(0), Act::Remove(1)]);
            }
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut world = last.clone();
        if matches!(act, Act::Take(_, true) | Act::End(_, _, true)) {
            world.left.lost_answers -= 1;
        }
        if matches!(act, Act::End(n, How::Retry, _) if last.nodes[n].unanswered.is_none()) {
            world.left.retries -= 1;
        }
        if matches!(act, Act::Take(n, _) if last.nodes[n].unanswered.is_none()) {
            world.left.takes -= 1;
        }
        let store = self.open(&last.data, world.clock);
        let mut step = Step { world: &mut world, store, breakage: self.breakage };
        match act {
            Act::Take(n, lost) => step.take(n, lost),
            Act::End(n, how, lost) => step.end(n, how, lost),
            Act::Extend(n) => step.extend(n),
            Act::LateWord(n) => step.late_word(n),
            Act::Tick => {
                let inc = Incarnation(step.world.nodes.iter().map(|node| node.inc).max()?);
                let ticked = Tick { node: node(0), most: 50, pause: PAUSE, grace: GRACE, off_duty: true }
                    .on_memory(&step.store, inc)
                    .ok()?;
                let tenure_jobs::store::Ticked::Done { lost, .. } = ticked else { return None };
                step.world.ghost.lapsed |= lost > 0;
            }
            Act::HalfALeasePasses => step.time_passes(),
            Act::Keep => step.world.before = Some(last.data.clone()),
            Act::Lose => {
                match &last.before {
                    Some(before) => step.store.go_back(&before.0),
                    None => step.store.wipe(),
                }
                step.world.before = None;
                step.world.left.losses -= 1;
                let ghost = &mut step.world.ghost;
                ghost.lost_at = Some(last.clock);
                (ghost.removed, ghost.begun_since) = ([false; 2], [false; 2]);
            }
            Act::Follow(n) => step.follow(n),
            Act::Remove(job) => {
                let inc = Incarnation(step.world.nodes.iter().map(|node| node.inc).max()?);
                SteerJobs(vec![Request::Job(id(job), Steer::Remove)]).on_memory(&step.store, inc).ok()?;
                step.world.left.removals -= 1;
                step.world.ghost.removed[job] = true;
            }
        }
        let store = step.store;
        world.data = picture(&store);
        world.judge(&store);
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let judged =
            Property::always("nothing is violated", |_, world: &World| world.ghost.violations.is_empty());
        if self.breakage.is_some() {
            return vec![judged];
        }
        vec![
            judged,
            Property::sometimes("both jobs end", |_, world: &World| {
                world.ghost.ended.iter().all(Option::is_some)
            }),
            Property::sometimes("a lease is lost", |_, world: &World| world.ghost.lapsed),
            Property::sometimes("a late word is halted", |_, world: &World| world.ghost.halted),
            Property::sometimes("an execution runs on through a loss", |_, world: &World| world.ghost.ran_on),
        ]
    }
}

impl World {
    /// Whether somebody has followed the loss, if there was one.
    fn data_are_sound(&self) -> bool {
        let Some(inc) = self.nodes.iter().map(|node| node.inc).max() else { return true };
        self.data.1.lines().any(|line| line == format!("meta incarnation = {inc}"))
            && (self.ghost.lost_at.is_none()
                || self.data.1.lines().any(|line| line.starts_with("meta hold") && line != "meta hold = 0"))
    }

    /// Without a loss each job is there, has ended, or was removed.
    fn judge(&mut self, store: &MemoryStore) {
        if self.ghost.lost_at.is_some() {
            return;
        }
        for job in 0..2 {
            let there =
                PeekJobs(Ends::Without, vec![id(job)]).on_memory(store, Incarnation(self.nodes[0].inc));
            let is_there = there.is_ok_and(|found| found[0].is_some());
            if !is_there && self.ghost.ended[job].is_none() && !self.ghost.removed[job] {
                self.ghost.violations.insert(format!("j{job} is lost"));
            }
        }
    }
}
