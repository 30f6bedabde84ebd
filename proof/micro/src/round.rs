//! A batch of jobs on its way through one node, from submission to end. Some of the steps are measured.

use std::mem::take;

use bytes::Bytes;

use super::node::{NAME, Node, WORKER};
use super::{BATCH, Case, Meter, Unmeasured, job_name, sure};
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::core::effect::Effect;
use tenure_protocol::core::input::{Answer, Command, HandlerEvent, Input, ReplyTo};
use tenure_protocol::model::id::{DispatchId, JobKey, NodeName, Token};
use tenure_protocol::model::record::{Begun, JobState, Record};
use tenure_protocol::model::wire::Envelope;
use tenure_protocol::step::{
    BeginReply, BegunJob, DispatchItem, DispatchReply, EntryId, NodeEvents, PoolEvent, ReleaseReply,
    RouteReply, WorkerEvent,
};

/// One step of the engine, named by its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Callers submit jobs and wait until they have started; they are sent.
    Submit,
    /// The store has accepted them.
    Accepted,
    /// The node reads jobs from the pool's stream that no dispatcher has placed, and places them.
    Route,
    /// The store has assigned these.
    Routed,
    /// The worker reads events of its jobs; they are begun.
    Assigned,
    /// The store has begun them; they start.
    Begun,
    /// Their start handlers have succeeded; the store is told.
    Started,
    /// The store has noted the starts.
    Noted,
    /// The dispatcher reads the outcomes; the callers are answered.
    Told,
    /// They end by themselves; they are given up.
    Ended,
    /// The store has released them.
    Released,
}

impl Stage {
    /// The stages of a dispatch that its dispatcher places.
    pub(super) const DISPATCH: [Self; 7] =
        [Self::Submit, Self::Accepted, Self::Assigned, Self::Begun, Self::Started, Self::Noted, Self::Told];
}

/// Rounds of jobs on one node.
pub(super) struct Round {
    node: Node,
    jobs: usize,
    measured: Vec<Stage>,
    /// The number of jobs so far.
    count: u64,
    entries: u64,
    payload: Bytes,
}

/// One job.
#[derive(Clone)]
struct Job {
    key: JobKey,
    id: DispatchId,
    token: Token,
}

impl Round {
    /// Rounds of `jobs` each, on a node whose worker holds `held` others.
    pub(super) fn new(held: usize, jobs: usize, measured: &[Stage]) -> Self {
        let payload = sure(Envelope::new(&[b'x'; 100]).seal());
        let (node, measured) = (Node::new(), measured.to_vec());
        let mut round = Self { node, jobs, measured, count: 0, entries: 0, payload };
        while round.held() < held {
            let batch = round.batch(BATCH.min(held - round.held()));
            round.run_jobs(&mut Unmeasured, &batch);
        }
        round
    }

    pub(super) fn held(&self) -> usize {
        self.node.held()
    }

    fn batch(&mut self, jobs: usize) -> Vec<Job> {
        let node = sure(NodeName::new(NAME));
        let token = Token(self.count + 1);
        let numbers = self.count..self.count + jobs as u64;
        self.count = numbers.end;
        let job = |number| {
            let id = sure(DispatchId::of_node(&node, &format!("01JD8Z6W3K{number:016}")));
            Job { key: sure(JobKey::new(job_name(number))), id, token }
        };
        numbers.map(job).collect()
    }

    fn entry(&mut self) -> EntryId {
        self.entries += 1;
        EntryId { ms: self.entries, seq: 0 }
    }

    /// The engine's step for a stage. The meter sees it if the stage is measured.
    fn stage(&mut self, meter: &mut dyn Meter, stage: Stage, inputs: impl IntoIterator<Item = Input>) {
        let unmeasured: &mut dyn Meter = &mut Unmeasured;
        let meter = if self.measured.contains(&stage) { meter } else { unmeasured };
        self.node.measured(meter, inputs);
    }

    fn done(&mut self, meter: &mut dyn Meter, stage: Stage, done: Done) {
        self.stage(meter, stage, [Input::Done(Box::new(done))]);
    }

    fn read(&mut self, meter: &mut dyn Meter, stage: Stage, events: NodeEvents) {
        let (read, round) = self.node.take("its events", |call| match call {
            Call::ReadNode(read, round) => Some((read.clone(), *round)),
            _ => None,
        });
        self.done(meter, stage, Done::ReadNode(read, round, Ok(events)));
    }

    fn submit(&mut self, meter: &mut dyn Meter, jobs: &[Job]) {
        let deadline = self.node.never();
        let submit = |(number, job): (usize, &Job)| {
            let item = DispatchItem {
                key: job.key.clone(),
                id: job.id.clone(),
                not_after: 0,
                hash: String::new(),
                payload: self.payload.clone(),
                worker: None,
                awaited: true,
            };
            let reply = ReplyTo(number as u64);
            Input::Command(Command::Submit { reply, item, started: true, deadline })
        };
        let inputs: Vec<_> = jobs.iter().enumerate().map(submit).collect();
        self.stage(meter, Stage::Submit, inputs);
        let dispatch = self.node.take("a dispatch", |call| match call {
            Call::Dispatch(dispatch) => Some(dispatch.clone()),
            _ => None,
        });
        let answer = Ok(vec![DispatchReply::Accepted; dispatch.items.len()]);
        self.done(meter, Stage::Accepted, Done::Dispatch(dispatch, answer));
    }

    fn route(&mut self, meter: &mut dyn Meter, jobs: &[Job]) {
        let read = self.node.take("the pool's events", |call| match call {
            Call::ReadPool(read) => Some(read.clone()),
            _ => None,
        });
        let entry = self.entry();
        let event = PoolEvent { entry, jobs: jobs.iter().map(|job| (job.key.clone(), 0)).collect() };
        self.done(meter, Stage::Route, Done::ReadPool(read, Ok(Some(vec![event]))));
        let (route, events) = self.node.take("a route", |call| match call {
            Call::Route(route, events) => Some((route.clone(), take(events))),
            _ => None,
        });
        let answer = Ok(vec![RouteReply::Routed; jobs.len()]);
        self.done(meter, Stage::Routed, Done::Route(route, events, answer));
    }

    /// The worker gets the jobs, and they start.
    fn run_jobs(&mut self, meter: &mut dyn Meter, jobs: &[Job]) {
        let Some(token) = jobs.first().map(|job| job.token) else { return };
        let keys = jobs.iter().map(|job| job.key.clone()).collect();
        let workers = vec![(WORKER, self.entry(), WorkerEvent::Start { token, keys })];
        self.read(meter, Stage::Assigned, NodeEvents { workers, ..NodeEvents::default() });
        let begin = self.node.take("a begin", |call| match call {
            Call::Begin(begin) => Some(begin.clone()),
            _ => None,
        });
        let begun = |job: &Job| {
            BeginReply::Begun(BegunJob {
                record: record_of(&job.id, job.token),
                waiting: false,
                payload: self.payload.clone(),
                checkpoint: None,
            })
        };
        let answer = Ok(vec![Ok(jobs.iter().map(begun).collect())]);
        self.done(meter, Stage::Begun, Done::Begin(begin, answer));
        let starts = self.node.effects.iter().filter(|effect| matches!(effect, Effect::Start { .. }));
        assert_eq!(starts.count(), jobs.len(), "handlers that start");
        let started = jobs.iter().map(|job| handler(job, HandlerEvent::Started));
        self.stage(meter, Stage::Started, started.collect::<Vec<_>>());
        let started = self.node.take("a note of starts", |call| match call {
            Call::Started(started) => Some(started.clone()),
            _ => None,
        });
        let answer = Ok(vec![true; jobs.len()]);
        self.done(meter, Stage::Noted, Done::Started(started, answer));
    }

    fn tell(&mut self, meter: &mut dyn Meter, jobs: &[Job]) {
        let outcomes = jobs.iter().map(|job| (job.id.clone(), "ok".to_owned())).collect();
        let outcomes = vec![(self.entry(), outcomes)];
        self.read(meter, Stage::Told, NodeEvents { outcomes, ..NodeEvents::default() });
        let good =
            |effect: &&Effect| matches!(effect, Effect::Reply { answer: Answer::Submitted(Ok(_)), .. });
        assert_eq!(self.node.effects.iter().filter(good).count(), jobs.len(), "callers that are answered");
    }

    fn end(&mut self, meter: &mut dyn Meter, jobs: &[Job]) {
        let ended = jobs.iter().map(|job| handler(job, HandlerEvent::Ended(Ok(()))));
        self.stage(meter, Stage::Ended, ended.collect::<Vec<_>>());
        let release = self.node.take("a release", |call| match call {
            Call::Release(release) => Some(release.clone()),
            _ => None,
        });
        let answer = Ok(vec![ReleaseReply::Deleted; release.items.len()]);
        self.done(meter, Stage::Released, Done::Release(release, answer));
    }
}

impl Case for Round {
    fn run(&mut self, meter: &mut dyn Meter) {
        let jobs = self.batch(self.jobs);
        self.submit(meter, &jobs);
        self.route(meter, &jobs);
        self.run_jobs(meter, &jobs);
        self.tell(meter, &jobs);
        self.end(meter, &jobs);
    }
}

fn handler(job: &Job, event: HandlerEvent) -> Input {
    Input::Handler { worker: WORKER, key: job.key.clone(), token: job.token, event }
}

/// The record of a job that has just begun.
pub(super) fn record_of(id: &DispatchId, token: Token) -> Record {
    Record {
        state: JobState::Running,
        owner: Some(WORKER),
        token,
        attempts: 1,
        begun: Begun::Begun,
        since: 1_700_000_000_123,
        id: id.clone(),
        created: 1_700_000_000_000,
        attested: None,
        strikes: 0,
        plan: String::new(),
        tail: String::new(),
    }
}
