//! Stops on their way to a job on any node, and the requests to try parked jobs again.

use std::cell::Cell;
use std::time::Duration;

use super::line::Kind;
use super::request::{Look, Request, Stop, Want, bad_record};
use super::requests::{Requests, SMALL};
use crate::core::call::Call;
use crate::core::ctx::Ctx;
use crate::core::input::{ReplyTo, Until};
use crate::error::Error;
use crate::model::id::DispatchId;
use crate::model::record::{JobState, Record};
use crate::step;
use crate::step::{Lookup, Result, StopItem, StopReply, UnparkReply};

/// How often the engine looks for the end of a job whose hint may be lost.
const POLL: Duration = Duration::from_secs(1);

impl Requests {
    pub(in crate::core) fn stop_again(&mut self, items: Vec<StopItem>) {
        for item in items {
            self.again.push(item);
        }
    }

    /// In phase R only a stop goes on, and only to the worker that runs the recorded job.
    pub(super) fn on_found(&mut self, ctx: &mut Ctx, to: ReplyTo, found: Lookup, settled: bool) {
        let Some(request) = self.open.get_mut(&to) else { return };
        let look = std::mem::take(&mut request.look);
        match (&request.want, found.record) {
            // The look is older than the last sending of the stop.
            (Want::Stop(Stop { id: Some(_), watched: false, .. }), _) => {}
            (Want::Steer(_) | Want::Unpark(_), _)
            | (Want::Stop(Stop { id: None, .. }), Some(Record { owner: None, .. }))
                if !settled =>
            {
                self.retry(ctx, to);
            }
            (_, None) if !found.bad && !settled => self.retry(ctx, to),
            (Want::Stop(Stop { id, watched: true, .. }), record) => {
                if record.map_or(found.bad, |record| Some(record.id) == *id) {
                    match look {
                        Look::Outdated => self.find(to),
                        _ => self.wait_until(to, Some(ctx.now + POLL)),
                    }
                } else {
                    match request.end_of_stop(ctx.now) {
                        Some(Ok(())) => self.done(ctx, to),
                        Some(Err(error)) => self.refuse(ctx, to, |_| error),
                        None => self.retry(ctx, to),
                    }
                }
            }
            (_, Some(record)) => self.on_record(ctx, to, record),
            (_, None) if found.bad => self.refuse(ctx, to, |key| bad_record(&key)),
            (Want::Unpark(_), None) if request.in_doubt => self.done(ctx, to),
            (_, None) => self.refuse(ctx, to, Error::JobNotFound),
        }
    }

    fn on_record(&mut self, ctx: &mut Ctx, to: ReplyTo, record: Record) {
        let Some(request) = self.open.get_mut(&to) else { return };
        match &mut request.want {
            Want::Unpark(parked) => {
                let is_paused = record.is_paused();
                let found = (record.state == JobState::Parked).then_some((record.id, record.since));
                if request.in_doubt && *parked != found {
                    self.done(ctx, to);
                } else if found.is_none() {
                    self.refuse(ctx, to, Error::NotParked);
                } else if is_paused {
                    self.refuse(ctx, to, Error::Paused);
                } else {
                    *parked = found;
                    self.push(Kind::Unpark, to);
                }
            }
            Want::Stop(stop) => {
                stop.id = Some(record.id);
                self.redirect(Kind::Stop, to, record.owner);
            }
            Want::Steer(_) => self.on_record_to_steer(ctx, to, &record),
            _ => {}
        }
    }

    pub(super) fn on_unparked(&mut self, ctx: &mut Ctx, to: ReplyTo, reply: UnparkReply) {
        match reply {
            // The job was parked before. So a job that lives has been un-parked since, perhaps by this very call.
            UnparkReply::Queued | UnparkReply::Lives => self.done(ctx, to),
            UnparkReply::Paused => self.refuse(ctx, to, Error::Paused),
            UnparkReply::Absent => self.refuse(ctx, to, Error::JobNotFound),
            UnparkReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
            UnparkReply::Recovering => self.retry(ctx, to),
        }
    }

    /// A worker reports an outcome: requests that wait for that dispatch's end look again.
    pub(in crate::core) fn on_outcome(&mut self, id: &DispatchId, outcome: &str) {
        for to in self.watched.get(id).cloned().unwrap_or_default() {
            self.open.get_mut(&to).into_iter().for_each(|request| request.hears_of_end(outcome));
            self.find(to);
        }
    }

    pub(super) fn on_stopped(&mut self, ctx: &mut Ctx, to: ReplyTo, reply: StopReply) {
        let Some(Request { want: Want::Stop(stop), in_doubt, .. }) = self.open.get_mut(&to) else { return };
        match reply {
            StopReply::Stopping if stop.until == Until::Gone => {
                stop.watched = true;
                if let Some(id) = &stop.id {
                    self.watched.entry(id.clone()).or_default().insert(to);
                }
                self.wait_until(to, Some(ctx.now + POLL));
            }
            StopReply::Ended if stop.until == Until::Cancelled && !*in_doubt => {
                self.refuse(ctx, to, Error::JobNotFound);
            }
            // An earlier look found it, or a call without an answer may have cancelled it. An absent job has
            // therefore ended since, perhaps by this stop.
            StopReply::Deleted | StopReply::Stopping | StopReply::Ended | StopReply::Absent => {
                self.done(ctx, to);
            }
            StopReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
            StopReply::Owner(owner) => self.redirect(Kind::Stop, to, owner),
            StopReply::Later => self.push(Kind::Stop, to),
            StopReply::Recovering => self.retry(ctx, to),
        }
    }

    pub(super) fn on_stopped_again(
        &mut self,
        ctx: &mut Ctx,
        items: Vec<StopItem>,
        answer: Result<Vec<StopReply>>,
    ) -> Result<()> {
        let replies = match answer {
            Ok(replies) => replies,
            Err(error) => {
                let (whole, first) = (items.len(), items.first().map(|item| item.key.clone()));
                let news = self.again.failed(ctx.now, items, whole, &error);
                return ctx.heard(news, first, error);
            }
        };
        self.again.answered();
        for (item, reply) in items.into_iter().zip(replies) {
            match reply {
                StopReply::Owner(guess) => self.again.push(StopItem { guess, ..item }),
                StopReply::Later => self.again.push(item),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn flush_stops(&mut self, ctx: &mut Ctx) {
        let waits = Cell::new(false);
        let item = |request: &mut Request| {
            let Want::Stop(Stop { id: Some(id), until, .. }) = &request.want else { return None };
            waits.set(waits.get() || *until == Until::Gone);
            let (key, forbid) = (request.key.clone(), *until == Until::Cancelled);
            Some(StopItem { key, id: id.clone(), guess: request.owner, forbid })
        };
        self.send(ctx, Kind::Stop, SMALL, item, |ctx, items| {
            let waiting = waits.get().then(|| ctx.config.node.clone());
            Call::Stop(step::Stop { turn: None, repeat: false, waiting, items })
        });
        let parked = |request: &mut Request| {
            let Want::Unpark(Some((id, _))) = &request.want else { return None };
            Some((request.key.clone(), id.clone()))
        };
        self.send(ctx, Kind::Unpark, SMALL, parked, |_, jobs| Call::Unpark(step::Unpark { jobs }));
    }
}
