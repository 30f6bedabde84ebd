//! Dispatches of users, under the pool's ids or ids of their own. Users repeat, ensure, cancel and abandon them, on
//! any node. The judge compares the answers with the events.

use super::judge::Judge;
use super::lives::Life;
use super::users::{Ask, Asked};
use super::world::{MS, World};
use tenure_protocol::core::call::{Call, Done};
use tenure_protocol::core::input::{Command, Input, Until};
use tenure_protocol::core::time::Time;
use tenure_protocol::error::{DispatchError, Error};
use tenure_protocol::model::id::{DispatchId, JobKey};
use tenure_protocol::model::policy::RestartPolicy;
use tenure_protocol::model::record::JobState;
use tenure_protocol::model::wire::Envelope;
use tenure_protocol::step::{Dispatch, DispatchItem, DispatchReply};

/// How long after its first sending an own id is sent again. No call comes late enough to find it forgotten.
const YOUNG: u64 = 6_000 * MS;
/// The most that the server's clock and a late call may take from the time that an outcome is kept.
pub(super) const SLACK: u64 = 5_000 * MS;
/// Own ids that users remember.
const REMEMBERED: usize = 6;

/// A dispatch under its caller's own id.
#[derive(Clone, Debug)]
pub(super) struct Own {
    name: String,
    key: JobKey,
    body: u64,
    policy: RestartPolicy,
    /// When it was first sent.
    since: u64,
}

impl World {
    pub(super) fn submit(&mut self, at: usize) {
        let node = self.nodes[at].config.node.clone();
        let own = if self.rng.chance(3_333) { self.own() } else { None };
        let item = if let Some(Own { name, key, body, policy, .. }) = own {
            let Ok(id) = DispatchId::of_caller(&node, &name) else { return };
            self.job(key, id, body, policy)
        } else {
            let Some(Own { key, body, policy, .. }) = self.some_job() else { return };
            let Ok(id) = DispatchId::of_node(&node, &format!("d{body}")) else { return };
            self.judge.submitted(&key, &id, policy);
            self.job(key, id, body, policy)
        };
        let Some(item) = item else { return };
        let ensures = self.rng.chance(1_500);
        let started = ensures || self.rng.chance(6_000);
        let deadline = self.patience(at);
        self.hand_in(at, item, started, ensures, deadline);
    }

    /// The dispatch of a job of this key that a notification may start.
    pub(super) fn startable(&mut self, at: usize, key: &JobKey) -> Option<DispatchItem> {
        let node = self.nodes[at].config.node.clone();
        let Own { body, policy, .. } = self.some_job()?;
        let id = DispatchId::of_node(&node, &format!("d{body}")).ok()?;
        self.judge.submitted(key, &id, policy);
        self.job(key.clone(), id, body, policy)
    }

    fn some_job(&mut self) -> Option<Own> {
        let key = self.some_key()?;
        let body = self.id();
        let policies = [RestartPolicy::Never, RestartPolicy::OnFailure, RestartPolicy::Always];
        let policy = self.rng.pick(&policies).unwrap_or(RestartPolicy::Never);
        Some(Own { name: format!("o{body}"), key, body, policy, since: self.now })
    }

    /// A dispatch under the caller's own id: a new one, a repetition, or another job under a used id.
    fn own(&mut self) -> Option<Own> {
        let now = self.now;
        let kept = self.judge.own_kept;
        let life = |own: &Own| self.judge.life(&own.as_any()?);
        let settled = |own: &Own| life(own).is_some_and(|life| life.is_forgotten(now, kept));
        let again = |own: &Own| now < own.since + YOUNG || settled(own);
        let known: Vec<usize> = (0..self.own.len()).filter(|&at| again(&self.own[at])).collect();
        let known = if self.rng.chance(4_000) { self.rng.pick(&known) } else { None };
        let Some(at) = known else {
            let own = self.some_job()?;
            self.judge.submitted(&own.key, &own.as_any()?, own.policy);
            self.judge.brings(&own);
            self.own.push(own.clone());
            let many = self.own.len().saturating_sub(REMEMBERED);
            self.own.drain(..many);
            return Some(own);
        };
        if now >= self.own[at].since + YOUNG {
            self.own[at].since = now;
            let id = self.own[at].as_any()?;
            if let Some(life) = self.judge.lives.get_mut(&id) {
                life.again_until = now + 2 * YOUNG + SLACK;
                (life.hash, life.any_hash) = (None, true);
            }
        }
        let mut own = self.own[at].clone();
        if self.rng.chance(1_500) {
            own.body = self.id();
        }
        self.judge.brings(&own);
        Some(own)
    }

    pub(super) fn hand_in(&mut self, at: usize, item: DispatchItem, started: bool, ensures: bool, by: Time) {
        let what = Ask::Submit { item: item.clone(), started, ensures };
        self.ask(at, what, Some(by), |reply| Command::Submit { reply, item, started, deadline: by });
    }

    /// The key has a job. That is fine unless the job must end; then the user waits for its end.
    pub(super) fn ensure(&mut self, at: usize, item: DispatchItem, by: Time) {
        let (key, until) = (item.key.clone(), Until::Gone);
        match self.judge.records.get(&key).and_then(Option::as_ref).map(|r| (r.state, r.id.clone())) {
            Some((JobState::Stopping, id)) => {
                self.judge.may_be_stopped(&id);
                let (what, id) = (Ask::End { item }, Some(id));
                self.ask(at, what, Some(by), |reply| Command::StopJob {
                    reply,
                    key,
                    id,
                    until,
                    deadline: by,
                });
            }
            Some(_) => {}
            None => self.hand_in(at, item, true, true, by),
        }
    }

    fn job(&self, key: JobKey, id: DispatchId, body: u64, policy: RestartPolicy) -> Option<DispatchItem> {
        let (bytes, progress) = (body.to_be_bytes(), self.progress_timeout(body));
        let payload = (Envelope { policy, progress, ..Envelope::new(&bytes) }).seal().ok()?;
        let hash = if id.caller_id().is_some() { hash(body) } else { String::new() };
        Some(DispatchItem { key, id, not_after: 0, hash, payload, worker: None, awaited: true })
    }

    /// A user cancels a dispatch, often one that is on its way.
    pub(super) fn cancel_dispatch(&mut self, at: usize) {
        let new = self.judge.recent.len().saturating_sub(self.rng.below(4) as usize + 1);
        let new = self.judge.recent.get(new).cloned().filter(|_| self.rng.chance(7_000));
        let new = new.and_then(|id| Some((self.judge.life(&id)?.key.clone(), id)));
        let Some((key, id)) = new.or_else(|| self.judge.some_life(&mut self.rng)) else { return };
        // Users have no ticket with an id of the pool before the dispatch is accepted, or its deadline has passed.
        let is_open = |asked: &Asked| match &asked.what {
            Ask::Submit { item, .. } | Ask::Start { item, .. } => item.id == id,
            Ask::Notify { start, .. } => start.as_ref() == Some(&id),
            _ => false,
        };
        if self.nodes.iter().any(|node| node.asked.values().any(is_open)) {
            return;
        }
        let deadline = self.patience(at);
        self.judge.may_be_stopped(&id);
        let (named, until) = (Some(id.clone()), Until::Cancelled);
        self.ask(at, Ask::Cancel { id }, Some(deadline), |reply| Command::StopJob {
            reply,
            key,
            id: named,
            until,
            deadline,
        });
    }

    pub(super) fn cancelled(&mut self, id: &DispatchId, since: u64, answer: &Result<(), Error>) {
        let lost = self.judge.is_lossy() || self.judge.lost_at.is_some_and(|at| at >= since);
        let record = self.judge.life(id).and_then(|life| self.judge.records.get(&life.key)?.as_ref());
        let stops = record.is_some_and(|record| record.id.is_same(id) && record.state == JobState::Stopping);
        let wrong = match answer {
            Ok(()) => !stops,
            Err(Error::JobNotFound(_)) => true,
            Err(_) => return,
        };
        if wrong && !lost && self.judge.lives(id) {
            self.judge.violations.push(format!("L8: {id} is cancelled with {answer:?}, and it lives"));
        }
        if let Some(life) = self.judge.lives.get_mut(id).filter(|_| answer.is_ok() && !lost) {
            life.cancelled = true;
            (life.settled, life.again_until) = (Some(self.now), 0);
        }
    }

    /// A user stops waiting for a dispatch.
    pub(super) fn withdraw(&mut self, at: usize) {
        let waits = self.nodes[at].asked.iter().find_map(|(to, asked)| match &asked.what {
            Ask::Submit { item, .. } => Some((*to, item.id.clone())),
            Ask::Wait { id } => Some((*to, id.clone())),
            _ => None,
        });
        let Some((reply, id)) = waits else { return };
        self.step(at, Input::Withdrawn { id, reply });
        self.nodes[at].asked.remove(&reply);
    }

    /// Whether the answer to a dispatch or submit fits what has happened.
    pub(super) fn fits(
        &mut self,
        at: usize,
        item: &DispatchItem,
        started: bool,
        since: u64,
        answer: &Result<(), DispatchError>,
    ) {
        let (judge, key, id) = (&self.judge, &item.key, &item.id);
        // The answer may belong to an earlier call with the id.
        let since = if id.caller_id().is_some() { since.saturating_sub(YOUNG) } else { since };
        let wrong = match answer {
            Ok(()) if started => (!judge.was_started(id)).then_some("it was not started"),
            Ok(()) => (!judge.was_accepted(id)).then_some("it was not accepted"),
            Err(DispatchError::Conflict) => {
                (!judge.clashes(id)).then_some("nothing else was handed in under the id")
            }
            Err(DispatchError::JobExists { .. }) => {
                (!judge.another_lived(key, id, since)).then_some("no other job lived under the key")
            }
            Err(DispatchError::PoolFull) => (!judge.was_full(since)).then_some("the pool was not full"),
            Err(DispatchError::StartFailed(_)) => (!judge.has_failed(id)).then_some("it has not failed"),
            Err(DispatchError::Stopped | DispatchError::Cancelled { .. }) => {
                (!judge.was_to_stop(id)).then_some("nobody has stopped it")
            }
            Err(DispatchError::Parked | DispatchError::Paused) => {
                (!judge.was_parked(id)).then_some("it was not at rest")
            }
            Err(DispatchError::Deadline { accepted: true, .. }) => {
                (!judge.was_accepted(id)).then_some("it was not accepted")
            }
            Err(DispatchError::Deadline { .. } | DispatchError::NodeClosed | DispatchError::ShuttingDown) => {
                None
            }
            // An answer from the time of a loss may be about the state before it.
            Err(DispatchError::Ended | DispatchError::Unknown) => {
                let lost = judge.lost_at.is_some_and(|at| at >= since);
                let wrong = if lost { self.is_active(id) } else { judge.lives(id) };
                wrong.then_some("it lives")
            }
            Err(DispatchError::TooOld(why)) => (!self.is_too_old(at, *why)).then_some("it is not too old"),
            Err(_) => Some("there is no reason for that"),
        };
        let wrong = wrong.or_else(|| {
            let foreign = answer.is_ok() && judge.is_other(item);
            foreign.then_some("the id stands for something else")
        });
        if let Some(wrong) = wrong {
            self.judge.violations.push(format!("L8: n{at} says of {id} of {key} {answer:?}, and {wrong}"));
        }
    }
}

/// A stand-in for the job's digest.
fn hash(body: u64) -> String {
    format!("{body:032x}")
}

impl Own {
    /// The dispatch as if from any node.
    fn as_any(&self) -> Option<DispatchId> {
        format!("any.!{}", self.name).parse().ok()
    }
}

impl Life {
    /// Its outcome may have been dropped because it is that old. Then its id may begin another life.
    pub(super) fn is_forgotten(&self, now: u64, kept: u64) -> bool {
        !self.tainted && !self.returned && self.settled.is_some_and(|at| now > at + kept)
    }
}

impl Judge {
    /// A job is sent under its caller's own id.
    fn brings(&mut self, own: &Own) {
        if let Some(life) = own.as_any().and_then(|id| self.lives.get_mut(&id)) {
            life.hashes.insert(hash(own.body));
        }
    }

    /// Several jobs were sent under the id.
    fn clashes(&self, id: &DispatchId) -> bool {
        self.life(id).is_some_and(|life| life.hashes.len() > 1)
    }

    /// Another job was accepted under the id.
    fn is_other(&self, item: &DispatchItem) -> bool {
        let hash = self.life(&item.id).filter(|life| !life.any_hash).and_then(|life| life.hash.as_ref());
        hash.is_some_and(|hash| *hash != item.hash)
    }

    /// A caller's own id means the job that was accepted first, as long as it is known.
    pub(super) fn saw_dispatch(&mut self, call: &Call, done: &Done) {
        let (Call::Dispatch(Dispatch { items, .. }), Done::Dispatch(_, Ok(replies))) = (call, done) else {
            return;
        };
        for (item, reply) in items.iter().zip(replies).filter(|(item, _)| item.id.caller_id().is_some()) {
            let other = self.is_other(item);
            let Some(life) = self.lives.get_mut(&item.id) else { continue };
            let wrong = match reply {
                DispatchReply::Accepted if life.hash.is_none() => {
                    life.hash = Some(item.hash.clone());
                    false
                }
                DispatchReply::Accepted | DispatchReply::Outcome(_) => other,
                DispatchReply::Conflict => !other && !life.any_hash,
                _ => false,
            };
            if wrong {
                let (hash, id) = (&life.hash, &item.id);
                let what = format!("L8: {id} stands for {hash:?}, and {} is answered {reply:?}", item.hash);
                self.violations.push(what);
            }
        }
    }
}
