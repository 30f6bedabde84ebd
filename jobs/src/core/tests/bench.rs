//! An engine on a bench. After every step the bench checks that nothing spins: the deadline is in the future.

use std::time::Duration;

use bytes::Bytes;

use super::super::Time;
use super::super::engine::{Config, Engine};
use super::super::execution::Key;
use super::super::input::{Done, Input, Number, Plan};
use super::super::subscribers::Topic;
use super::render;
use crate::error::Error;
use crate::model::id::{GroupName, Incarnation, JobId, NodeName, QueueName, Token};
use crate::model::queue::Terms;
use crate::model::record::Record;
use crate::store::{Data, Extended, Hint, Settle, SettleReply, StoreError, TakeReply, TakenJob};

pub(super) fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub(super) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(super) fn key(name: &str) -> Key {
    (id(name), Token(7))
}

/// A job that begins, with a lease of 30 s.
pub(super) fn job(name: &str) -> TakenJob {
    let record = Record::parse("1|R|7|1|n||||0|0|q||1|0|0|0|1|0|").unwrap();
    let (body, notes, terms) = (Bytes::new(), Bytes::new(), Terms::default());
    TakenJob { id: id(name), record, body, notes, lease: 30_000, terms }
}

/// The plan of the owner of the group `g`, by this token.
pub(super) fn owned(token: u64) -> Plan {
    Plan { queues: vec![queue("q")], slots: 1, owner: Some((GroupName::new("g").unwrap(), token)) }
}

pub(super) fn done() -> Settle {
    Settle::Done(Bytes::new(), Data::Keep)
}

pub(super) fn damaged() -> Error {
    StoreError::damaged("for a test").into()
}

pub(super) struct Bench {
    engine: Engine,
    pub(super) now: Time,
    incarnation: Incarnation,
    lines: Vec<String>,
}

impl Bench {
    /// An engine in incarnation 1 without workers.
    pub(super) fn new() -> Self {
        let node = NodeName::new("n").unwrap();
        let config = Config { node, lanes: String::new(), watches: 100, broken: None };
        let (incarnation, now) = (Incarnation(1), Duration::from_secs(1_000));
        Self { engine: Engine::new(config, incarnation), now, incarnation, lines: Vec::new() }
    }

    /// The same with worker 1, of the queue `q` with this many slots. Its first call waits for an answer.
    pub(super) fn with_worker(slots: u32) -> Self {
        let mut bench = Self::new();
        bench.step([Input::Worker(1, Plan { queues: vec![queue("q")], slots, owner: None })]);
        bench
    }

    /// The same with worker 1, the owner of the group `g`.
    pub(super) fn with_owner() -> Self {
        let mut bench = Self::new();
        bench.step([Input::Worker(1, owned(3))]);
        bench
    }

    /// The same, and these jobs run in slots of their own.
    pub(super) fn running(jobs: impl IntoIterator<Item = TakenJob>) -> Self {
        let jobs: Vec<_> = jobs.into_iter().collect();
        let mut bench = Self::with_worker(jobs.len() as u32);
        bench.takes(jobs);
        bench.seen();
        bench
    }

    pub(super) fn step(&mut self, inputs: impl IntoIterator<Item = Input>) {
        let mut effects = self.engine.step(self.now, inputs);
        if self.engine.deadline() == Some(Time::ZERO) {
            effects.extend(self.engine.step(self.now, []));
        }
        self.lines.extend(effects.iter().map(render::effect));
        let deadline = self.engine.deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "it spins, after {:#?}", self.lines);
    }

    /// Lets time pass, and wakes the engine whenever it asks for that.
    pub(super) fn advance(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while let Some(at) = self.engine.deadline().filter(|at| *at <= end) {
            self.now = at;
            self.step([]);
        }
        self.now = end;
        self.step([]);
    }

    /// Moves the bench's time on by `ms`.
    pub(super) fn after(&mut self, ms: u64) -> &mut Self {
        self.advance(ms);
        self
    }

    /// The moment so many ms ago.
    pub(super) fn ago(&self, ms: u64) -> Time {
        self.now.saturating_sub(Duration::from_millis(ms))
    }

    /// Lets time pass while the machine is suspended.
    pub(super) fn suspend(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.step([]);
    }

    /// The effects since the last look.
    pub(super) fn seen(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// A call of worker 1 is back.
    pub(super) fn worked(
        &mut self,
        settled: Option<Result<Vec<SettleReply>, Error>>,
        taken: Option<Result<TakeReply, Error>>,
    ) {
        let inc = self.incarnation;
        let settled = settled.map(|settled| settled.map(|replies| (inc, replies)));
        let taken = taken.map(|taken| taken.map(|reply| (inc, reply)));
        self.step([Input::Done(Done::Worked { worker: 1, settled, taken })]);
    }

    /// The ends that worker 1 has said are answered, and it has taken nothing if it wanted to.
    pub(super) fn settles(&mut self, replies: impl IntoIterator<Item = SettleReply>, takes: bool) {
        let replies = replies.into_iter().collect();
        self.worked(Some(Ok(replies)), takes.then(|| Ok(taken(Vec::new()))));
    }

    /// Worker 1 has taken these jobs.
    pub(super) fn takes(&mut self, jobs: impl IntoIterator<Item = TakenJob>) {
        self.worked(None, Some(Ok(taken(jobs.into_iter().collect()))));
    }

    /// A handler has come to this end.
    pub(super) fn ends(&mut self, name: &str, settle: Settle) {
        self.step([Input::Left(key(name), Some(settle), false)]);
    }

    /// An aborted handler is gone.
    pub(super) fn gone(&mut self, name: &str) {
        self.step([Input::Left(key(name), None, false)]);
    }

    pub(super) fn hint(&mut self, hint: Hint) {
        self.step([Input::Hint(hint)]);
    }

    /// The renewal in flight is answered with this lease in ms.
    pub(super) fn renews(&mut self, lease: u64, replies: impl IntoIterator<Item = SettleReply>) {
        let extended = Extended { lease, replies: replies.into_iter().collect() };
        self.step([Input::Done(Done::Renewed(Ok(extended)))]);
    }

    /// The node follows the next incarnation.
    pub(super) fn loses_data(&mut self) {
        self.incarnation.0 += 1;
        self.step([Input::Follows(self.incarnation)]);
    }

    pub(super) fn watches(&mut self, number: Number, name: &str) {
        self.step([Input::Subscribe(number, Topic::Job(id(name)))]);
    }
}

fn taken(jobs: Vec<TakenJob>) -> TakeReply {
    TakeReply::Taken { jobs, registration: None, more: false }
}
