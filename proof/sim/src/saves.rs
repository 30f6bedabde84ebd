//! Checkpoints: in some runs handlers save now and then, and in their stop. A start gets the last state that was kept for
//! its dispatch, and a job leaves its owner after its last state is kept (S15). A loss of data takes kept states back; who
//! has a job in hand saves its state again before the job leaves.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::judge::Judge;
use super::world::{Event, MS, World};
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::core::input::HandlerEvent;
use tenure_protocol::model::id::{DispatchId, JobKey, Token, WorkerId};
use tenure_protocol::model::record::Record;
use tenure_protocol::step::{Checkpoint, ReleaseItem, ReleaseReply, Save, SaveReply};

/// A checkpoint: the token under which it was given, and its number.
pub(super) type Version = (Token, u64);

/// The checkpoints of one dispatch.
#[derive(Debug, Default)]
pub(super) struct States {
    given: BTreeMap<Version, Bytes>,
    /// The newest one that the store has.
    pub(super) kept: Option<Version>,
}

/// A job in the hands of a handler, from the call of its start.
#[derive(Debug)]
pub(super) struct Run {
    /// The version that it was given, or gave last.
    pub(super) newest: Option<Version>,
    /// A full memory has refused that version.
    refused: bool,
}

impl Run {
    fn with(newest: Option<Version>) -> Self {
        Self { newest, refused: false }
    }
}

/// The checkpoints of a handler.
#[derive(Debug)]
pub(super) struct Saver {
    /// The checkpoint that its start was given.
    brought: Option<Box<Checkpoint>>,
    given: u64,
    /// Its stop waits for this one.
    awaits: Option<u64>,
}

impl Saver {
    pub(super) fn new(brought: Option<Box<Checkpoint>>) -> Self {
        Self { brought, given: 0, awaits: None }
    }
}

impl Judge {
    /// The store has carried out a save, or refused it.
    pub(super) fn saw_save(&mut self, call: &Call, done: &Done) {
        let (Call::Save(Save { items, .. }), Done::Save(_, answer)) = (call, done) else { return };
        let replies = match answer {
            Ok(replies) => replies,
            Err(error) => {
                for item in items.iter().filter(|_| error.is_full()) {
                    let run = self.runs.get_mut(&(item.key.clone(), item.token));
                    if let Some(run) = run.filter(|run| run.newest == Some((item.given, item.number))) {
                        run.refused = true;
                    }
                }
                return;
            }
        };
        for (item, _) in items.iter().zip(replies).filter(|(_, reply)| **reply == SaveReply::Kept) {
            let record = self.records.get(&item.key).and_then(Option::as_ref);
            let id = record.filter(|record| record.token == item.token).map(|record| record.id.clone());
            if let Some(life) = id.and_then(|id| self.lives.get_mut(&id)) {
                life.states.kept = life.states.kept.max(Some((item.given, item.number)));
            }
        }
    }

    /// A job's owner gives it up, and it goes on elsewhere. `is_current`: the owner knows of the last loss of data.
    pub(super) fn handed_on(&mut self, key: &JobKey, before: &Record, is_current: bool) {
        let Some(run) = self.runs.get(&(key.clone(), before.token)) else { return };
        let kept = self.lives.get(&before.id).and_then(|life| life.states.kept);
        if is_current && !run.refused && kept < run.newest {
            let (id, newest) = (&before.id, run.newest);
            let what = format!("S15: {id} of {key} leaves, its state is {newest:?}, and {kept:?} is kept");
            self.violations.push(what);
        }
    }

    /// A worker hears that a run is over, and drops the state of the job. If the data go back to before the release, no
    /// worker has the job in hand. After a loss of data, a release that finds no record ends no run: the worker may give
    /// the job a record again.
    pub(super) fn hears_of_release(&mut self, items: &[ReleaseItem], replies: &[ReleaseReply]) {
        let lossy = self.is_lossy();
        let is_over = |reply: &ReleaseReply| match reply {
            ReleaseReply::Deleted | ReleaseReply::Queued | ReleaseReply::Parked => true,
            ReleaseReply::Stale => !lossy,
            ReleaseReply::Bad | ReleaseReply::Later => false,
        };
        for (item, _) in items.iter().zip(replies).filter(|(_, reply)| is_over(reply)) {
            self.runs.remove(&(item.key.clone(), item.token));
        }
    }

    /// A handler's start is called with this state. Returns the objection.
    fn objects(&self, id: &DispatchId, token: Token, brought: Option<&Checkpoint>) -> Option<String> {
        let life = self.lives.get(id)?;
        let version = brought.map(|state| (state.token, state.number));
        let lossy = self.is_lossy() || life.tainted;
        if let (Some(state), Some(version)) = (brought, version) {
            if version.0 >= token {
                return Some(format!("starts under {token} with a state of {}", state.token));
            }
            let known = life.states.given.get(&version);
            if !lossy && known != Some(&state.bytes) {
                return Some(format!("starts with {version:?} as {:?}, given was {known:?}", state.bytes));
            }
        }
        let kept = life.states.kept;
        (!lossy && version != kept).then(|| format!("starts with {version:?}, and {kept:?} was kept"))
    }
}

impl World {
    /// A handler's start is called.
    pub(super) fn brought(&mut self, actor: u64) {
        let Some(actor) = self.actors.get(&actor) else { return };
        let (id, place) = (actor.id, (actor.key.clone(), actor.token));
        let brought = actor.saver.brought.as_deref();
        let wrong = self.judge.objects(&actor.dispatch, actor.token, brought).filter(|_| self.holds(id));
        let what = wrong.map(|wrong| format!("S15: {} of {} {wrong}", actor.dispatch, actor.key));
        let newest = brought.map(|state| (state.token, state.number));
        self.judge.violations.extend(what);
        self.judge.runs.insert(place, Run::with(newest));
        if self.saves.happen && self.saves.rng.chance(7_000) {
            let delay = self.saves.rng.below(100 * MS);
            self.after(delay, Event::Save(id));
        }
    }

    /// A handler saves by itself, and again later.
    pub(super) fn saves(&mut self, id: u64) {
        if !self.actors.contains_key(&id) {
            return;
        }
        self.give(id);
        if !self.healed {
            let rng = &mut self.saves.rng;
            let delay = if rng.chance(3_000) { rng.below(5 * MS) } else { rng.below(2_000 * MS) };
            self.after(delay, Event::Save(id));
        }
    }

    /// A stop handler is called. Returns whether it now waits for its last checkpoint.
    pub(super) fn saves_in_stop(&mut self, id: u64) -> bool {
        if !self.saves.happen || !self.saves.rng.chance(7_000) {
            return false;
        }
        let awaits = self.saves.rng.chance(5_000);
        self.give(id);
        let Some(actor) = self.actors.get_mut(&id) else { return false };
        actor.saver.awaits = awaits.then_some(actor.saver.given);
        awaits
    }

    fn give(&mut self, id: u64) {
        let Some(actor) = self.actors.get_mut(&id) else { return };
        actor.saver.given += 1;
        let (number, key, token) = (actor.saver.given, actor.key.clone(), actor.token);
        let bytes = Bytes::from(format!("{} {token} {number}", actor.dispatch));
        if let Some(life) = self.judge.lives.get_mut(&actor.dispatch) {
            life.states.given.insert((token, number), bytes.clone());
        }
        self.judge.runs.insert((key, token), Run::with(Some((token, number))));
        self.tell(id, HandlerEvent::Checkpoint { number, bytes });
    }

    /// A handler hears what has become of its checkpoints up to this number.
    pub(super) fn heard_of_save(
        &mut self,
        at: usize,
        (worker, key, token): (WorkerId, JobKey, Token),
        number: u64,
    ) {
        let Some(id) = self.running(at, worker, key, token) else { return };
        let Some(actor) = self.actors.get_mut(&id) else { return };
        if actor.saver.awaits.is_some_and(|awaited| awaited <= number) {
            actor.saver.awaits = None;
            self.stops(id);
        }
    }

    /// The data were lost: these states are there now.
    pub(super) fn lost_states(&mut self) {
        self.judge.lives.values_mut().for_each(|life| life.states.kept = None);
        for (key, record) in &self.judge.records {
            let life = record.as_ref().and_then(|record| self.judge.lives.get_mut(&record.id));
            if let (Some(life), Some(state)) = (life, self.server.state_of(key)) {
                life.states.kept = Some((state.token, state.number));
            }
        }
    }
}
