//! Stops on their way to a job on any node, and what all requests share. The engine guesses the owner, and the answer corrects a
//! wrong guess. Also the requests to try parked jobs again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::request::{InFlight, Look, Request, Stop, Unpark, Want, bad_record};
use crate::core::batcher::{Batcher, is_of_an_item};
use crate::core::call::Call;
use crate::core::ctx::{Ctx, RETRY};
use crate::core::input::{Answer, ReplyTo, Until};
use crate::core::time::{Time, earliest};
use crate::error::Error;
use crate::model::id::{DispatchId, JobKey};
use crate::model::record::{JobState, Record};
use crate::store;
use crate::store::{LookUp, Lookup, Refusal, StopItem, StopReply, StoreError, UnparkReply};

/// How often the engine looks for the end of a job whose hint may be lost.
const POLL: Duration = Duration::from_secs(1);

/// The open stops and notifications of one node.
#[derive(Debug, Default)]
pub(in crate::core) struct Requests {
    pub(super) open: BTreeMap<ReplyTo, Request>,
    finds: Batcher<ReplyTo>,
    stops: Batcher<ReplyTo>,
    pub(super) notes: Batcher<ReplyTo>,
    /// Notifications that may start their jobs.
    pub(super) starts: Batcher<ReplyTo>,
    unparks: Batcher<ReplyTo>,
    pub(super) steers: Batcher<ReplyTo>,
    pub(super) timers: BTreeSet<(Time, ReplyTo)>,
    /// Stops that a sweep found unfinished.
    again: Batcher<StopItem>,
    /// The callers that wait for the end of each dispatch.
    watched: BTreeMap<DispatchId, BTreeSet<ReplyTo>>,
    pub(super) in_flight: InFlight,
}

impl Requests {
    /// Stops the dispatch that the key has now, or this one only.
    pub(in crate::core) fn stop(
        &mut self,
        to: ReplyTo,
        key: JobKey,
        id: Option<DispatchId>,
        until: Until,
        deadline: Time,
    ) {
        self.timers.insert((deadline, to));
        self.open.insert(to, Request::new(key, Want::Stop(Stop::new(id, until)), None, deadline));
        self.go_on(to);
    }

    pub(in crate::core) fn unpark(&mut self, to: ReplyTo, key: JobKey, deadline: Time) {
        self.timers.insert((deadline, to));
        self.open.insert(to, Request::new(key, Want::Unpark(Unpark::default()), None, deadline));
        self.go_on(to);
    }

    /// Takes the next step of a request.
    fn go_on(&mut self, to: ReplyTo) {
        let Some(request) = self.open.get(&to) else { return };
        match &request.want {
            Want::Stop(Stop { id: Some(_), watched: false, .. }) => self.stops.push(to),
            // The job may have been parked again since: looks again.
            Want::Stop(_)
            | Want::Steer(_)
            | Want::Unpark(Unpark { parked: None, .. } | Unpark { in_doubt: true, .. }) => self.find(to),
            Want::Notify { start: None, .. } => self.notes.push(to),
            Want::Notify { start: Some(_), .. } => self.starts.push(to),
            Want::Unpark(_) => self.unparks.push(to),
        }
    }

    /// Looks up the job's record.
    pub(super) fn find(&mut self, to: ReplyTo) {
        self.wait_until(to, None);
        let Some(request) = self.open.get_mut(&to) else { return };
        if request.look == Look::Idle {
            request.look = Look::UnderWay;
            self.finds.push(to);
        } else {
            request.look = Look::Outdated;
        }
    }

    /// Continues the request at this time only.
    pub(super) fn wait_until(&mut self, to: ReplyTo, at: Option<Time>) {
        let Some(request) = self.open.get_mut(&to) else { return };
        let before = std::mem::replace(&mut request.next, at);
        if let Some(before) = before.filter(|&before| before != request.deadline) {
            self.timers.remove(&(before, to));
        }
        if let Some(at) = at {
            self.timers.insert((at, to));
        }
    }

    /// The pool lives in another incarnation, which may have forgotten a recorded stop: all are sent again.
    pub(in crate::core) fn resubmit(&mut self) {
        for to in std::mem::take(&mut self.watched).into_values().flatten() {
            if let Some(Request { want: Want::Stop(stop), .. }) = self.open.get_mut(&to) {
                (stop.watched, stop.in_doubt) = (false, true);
                self.wait_until(to, None);
                self.go_on(to);
            }
        }
    }

    pub(in crate::core) fn stop_again(&mut self, items: Vec<StopItem>) {
        for item in items {
            self.again.push(item);
        }
    }

    /// `normal`: the pool is in phase N. In phase R a key may have another job than its record says, or one without a
    /// record. So only a stop goes on then, and only to the worker that runs the recorded job.
    pub(in crate::core) fn on_found(&mut self, ctx: &mut Ctx, found: Vec<Lookup>, normal: bool) {
        self.finds.answered();
        let settled = normal && self.in_flight.settled_in == Some(ctx.incarnation);
        for (to, found) in std::mem::take(&mut self.in_flight.finds).into_iter().zip(found) {
            let Some(request) = self.open.get_mut(&to) else { continue };
            let look = std::mem::take(&mut request.look);
            match (&request.want, found.record) {
                // The look is older than the last sending of the stop.
                (Want::Stop(Stop { id: Some(_), watched: false, .. }), _) => {}
                (Want::Steer(_) | Want::Unpark(_), _)
                | (Want::Stop(Stop { id: None, .. }), Some(Record { owner: None, .. }))
                    if !settled =>
                {
                    self.wait_until(to, Some(ctx.now + RETRY));
                }
                (_, None) if !found.bad && !settled => self.wait_until(to, Some(ctx.now + RETRY)),
                (Want::Stop(Stop { id, watched: true, .. }), record) => {
                    if record.map_or(found.bad, |record| Some(record.id) == *id) {
                        match look {
                            Look::Outdated => self.find(to),
                            _ => self.wait_until(to, Some(ctx.now + POLL)),
                        }
                    } else if let Some(result) = request.end_of_stop(ctx.now) {
                        self.finish(ctx, to, result);
                    } else {
                        self.wait_until(to, Some(ctx.now + RETRY));
                    }
                }
                (_, Some(record)) => self.on_record(ctx, to, record),
                (_, None) if found.bad => {
                    self.refuse(ctx, to, |key| bad_record(&key));
                }
                (Want::Unpark(Unpark { in_doubt: true, .. }), None) => self.finish(ctx, to, Ok(())),
                (_, None) => self.refuse(ctx, to, Error::JobNotFound),
            }
        }
    }

    fn on_record(&mut self, ctx: &mut Ctx, to: ReplyTo, record: Record) {
        let Some(request) = self.open.get_mut(&to) else { return };
        match &mut request.want {
            Want::Unpark(unpark) => {
                let is_paused = record.is_paused();
                let parked = (record.state == JobState::Parked).then_some((record.id, record.since));
                if unpark.in_doubt && unpark.parked != parked {
                    self.finish(ctx, to, Ok(()));
                } else if parked.is_none() {
                    self.refuse(ctx, to, Error::NotParked);
                } else if is_paused {
                    self.refuse(ctx, to, Error::Paused);
                } else {
                    unpark.parked = parked;
                    self.unparks.push(to);
                }
            }
            Want::Stop(stop) => {
                stop.id = Some(record.id);
                request.owner = record.owner;
                self.stops.push(to);
            }
            Want::Steer(_) => self.on_record_to_steer(ctx, to, &record),
            Want::Notify { .. } => {}
        }
    }

    pub(in crate::core) fn on_unparked(&mut self, ctx: &mut Ctx, replies: &[UnparkReply]) {
        self.unparks.answered();
        for (to, reply) in std::mem::take(&mut self.in_flight.unparks).into_iter().zip(replies) {
            match reply {
                // The job was parked before. So a job that lives has been un-parked since, perhaps by this very call.
                UnparkReply::Queued | UnparkReply::Lives => self.finish(ctx, to, Ok(())),
                UnparkReply::Paused => self.refuse(ctx, to, Error::Paused),
                UnparkReply::Absent => self.refuse(ctx, to, Error::JobNotFound),
                UnparkReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
                UnparkReply::Recovering => self.wait_until(to, Some(ctx.now + RETRY)),
            }
        }
    }

    /// The pool is stopping: no parked job is tried again.
    pub(in crate::core) fn on_unpark_shut(&mut self, ctx: &mut Ctx) {
        self.unparks.answered();
        for to in std::mem::take(&mut self.in_flight.unparks) {
            self.finish(ctx, to, Err(Error::ShuttingDown));
        }
    }

    /// A worker reports an outcome: requests that wait for that dispatch's end look again.
    pub(in crate::core) fn on_outcome(&mut self, id: &DispatchId, outcome: &str) {
        for to in self.watched.get(id).cloned().unwrap_or_default() {
            self.open.get_mut(&to).into_iter().for_each(|request| request.hears_of_end(outcome));
            self.find(to);
        }
    }

    pub(in crate::core) fn on_stopped(&mut self, ctx: &mut Ctx, replies: &[StopReply]) {
        self.stops.answered();
        for (to, reply) in std::mem::take(&mut self.in_flight.stops).into_iter().zip(replies) {
            let Some(Request { want: Want::Stop(stop), .. }) = self.open.get_mut(&to) else { continue };
            match reply {
                StopReply::Stopping if stop.until == Until::Gone => {
                    stop.watched = true;
                    if let Some(id) = &stop.id {
                        self.watched.entry(id.clone()).or_default().insert(to);
                    }
                    self.wait_until(to, Some(ctx.now + POLL));
                }
                StopReply::Ended if stop.until == Until::Cancelled && !stop.in_doubt => {
                    self.refuse(ctx, to, Error::JobNotFound);
                }
                // An earlier look found it, or a call without an answer may have cancelled it. An absent job has
                // therefore ended since, perhaps by this stop.
                StopReply::Deleted | StopReply::Stopping | StopReply::Ended | StopReply::Absent => {
                    self.finish(ctx, to, Ok(()));
                }
                StopReply::Bad => self.refuse(ctx, to, |key| bad_record(&key)),
                StopReply::Owner(owner) => {
                    if let Some(request) = self.open.get_mut(&to) {
                        request.owner = *owner;
                        self.stops.push(to);
                    }
                }
                StopReply::Later => self.stops.push(to),
                StopReply::Recovering => self.wait_until(to, Some(ctx.now + RETRY)),
            }
        }
    }

    pub(in crate::core) fn on_stopped_again(&mut self, items: Vec<StopItem>, replies: &[StopReply]) {
        self.again.answered();
        for (mut item, reply) in items.into_iter().zip(replies) {
            match reply {
                StopReply::Owner(owner) => {
                    item.guess = *owner;
                    self.again.push(item);
                }
                StopReply::Later => self.again.push(item),
                _ => {}
            }
        }
    }

    /// Returns whether the error is news, and the key of the first job. The next functions return the same.
    pub(in crate::core) fn find_again(
        &mut self,
        ctx: &mut Ctx,
        error: &StoreError,
    ) -> (bool, Option<JobKey>) {
        let items = std::mem::take(&mut self.in_flight.finds);
        let (whole, key) = (items.len(), self.first(&items));
        // A look changes nothing, whether it was answered or not.
        let items = self.refused(ctx, items, error);
        (self.finds.failed(ctx.now, items, whole, error), key)
    }

    pub(super) fn first(&self, items: &[ReplyTo]) -> Option<JobKey> {
        Some(self.open.get(items.first()?)?.key.clone())
    }

    /// `unanswered`: they may have been carried out.
    pub(in crate::core) fn send_stops_again(
        &mut self,
        ctx: &mut Ctx,
        repeated: Option<Vec<StopItem>>,
        error: &StoreError,
        unanswered: bool,
    ) -> bool {
        if let Some(items) = repeated {
            let whole = items.len();
            return self.again.failed(ctx.now, items, whole, error);
        }
        let items = std::mem::take(&mut self.in_flight.stops);
        let whole = items.len();
        let items = self.refused(ctx, items, error);
        for to in &items {
            if let Some(Request { want: Want::Stop(stop), .. }) = self.open.get_mut(to) {
                stop.in_doubt |= unanswered;
            }
        }
        self.stops.failed(ctx.now, items, whole, error)
    }

    /// `unanswered`: they may have been carried out.
    pub(in crate::core) fn unpark_again(
        &mut self,
        ctx: &mut Ctx,
        error: &StoreError,
        unanswered: bool,
    ) -> (bool, Option<JobKey>) {
        let items = std::mem::take(&mut self.in_flight.unparks);
        let (whole, key, now) = (items.len(), self.first(&items), ctx.now);
        let items = self.refused(ctx, items, error);
        if !unanswered {
            self.unparks.put_back(now, items);
            return (true, key);
        }
        for to in &items {
            if let Some(Request { want: Want::Unpark(unpark), .. }) = self.open.get_mut(to) {
                unpark.in_doubt = true;
            }
        }
        if is_of_an_item(error) {
            return (self.unparks.failed(now, items, whole, error), key);
        }
        self.unparks.put_back(now, Vec::new());
        for to in items {
            self.wait_until(to, Some(now + RETRY));
        }
        (true, key)
    }

    /// Answers with a refusal that names the job.
    pub(super) fn refuse(&mut self, ctx: &mut Ctx, to: ReplyTo, why: impl FnOnce(JobKey) -> Error) {
        if let Some(request) = self.open.get(&to) {
            let why = why(request.key.clone());
            self.finish(ctx, to, Err(why));
        }
    }

    pub(super) fn finish(&mut self, ctx: &mut Ctx, to: ReplyTo, result: Result<(), Error>) {
        let Some(request) = self.close(to) else { return };
        let answer = match request.want {
            Want::Stop(_) => Answer::Stopped(result),
            Want::Notify { .. } => Answer::Notified(result),
            Want::Unpark(_) => Answer::Unparked(result),
            Want::Steer(_) => Answer::Steered(result),
        };
        ctx.reply(to, answer);
    }

    /// The request's deadline has passed.
    pub(super) fn time_out(&mut self, ctx: &mut Ctx, to: ReplyTo) {
        if ctx.pool_is_gone {
            return self.finish(ctx, to, Err(StoreError::Refused(Refusal::NoPool).into()));
        }
        let Some(request) = self.close(to) else { return };
        let is_recorded = matches!(request.want, Want::Stop(Stop { watched: true, .. }));
        ctx.reply(to, Answer::Late { stopping: is_recorded.then_some(request.key) });
    }

    fn close(&mut self, to: ReplyTo) -> Option<Request> {
        let request = self.open.remove(&to)?;
        self.timers.remove(&(request.deadline, to));
        if let Some(next) = request.next {
            self.timers.remove(&(next, to));
        }
        if let Want::Stop(Stop { id: Some(id), watched: true, .. }) = &request.want
            && let Some(waiting) = self.watched.get_mut(id)
        {
            waiting.remove(&to);
            if waiting.is_empty() {
                self.watched.remove(id);
            }
        }
        Some(request)
    }

    fn batchers(&mut self) -> [&mut Batcher<ReplyTo>; 6] {
        let Self { finds, stops, notes, starts, unparks, steers, .. } = self;
        [finds, stops, notes, starts, unparks, steers]
    }

    /// Answers every caller that still waits.
    pub(in crate::core) fn end(&mut self, ctx: &mut Ctx, why: &Error) {
        while let Some((&to, _)) = self.open.first_key_value() {
            self.finish(ctx, to, Err(why.clone()));
        }
        let _ = self.batchers().map(Batcher::clear);
    }

    pub(in crate::core) fn flush(&mut self, ctx: &mut Ctx, may_send: bool) {
        let mut some_ended = false;
        while let Some((at, to)) = self.timers.first().copied() {
            if at > ctx.now {
                break;
            }
            self.timers.pop_first();
            let Some(request) = self.open.get_mut(&to) else { continue };
            if ctx.now >= request.deadline {
                self.time_out(ctx, to);
                some_ended = true;
            } else {
                request.next = None;
                self.go_on(to);
            }
        }
        if some_ended {
            let open = std::mem::take(&mut self.open);
            self.batchers().into_iter().for_each(|batcher| batcher.retain(|to| open.contains_key(to)));
            self.open = open;
        }
        if !may_send {
            return;
        }
        if !self.open.is_empty() {
            self.flush_open(ctx);
        }
        if let Some(items) = self.again.batch(ctx.now, |_| 512) {
            ctx.call(Call::Stop(store::Stop { turn: None, repeat: true, waiting: None, items }));
        }
    }

    fn flush_open(&mut self, ctx: &mut Ctx) {
        if let Some(batch) = self.finds.batch(ctx.now, |_| 512) {
            let open = |to: &ReplyTo| self.open.get(to).map(|r| (*to, r.key.clone()));
            let (tos, keys): (Vec<_>, Vec<_>) = batch.iter().filter_map(open).unzip();
            self.in_flight.finds = tos;
            self.in_flight.settled_in = ctx.settled_in();
            send(ctx, &mut self.finds, keys, |keys| Call::FindOwners(LookUp::of_keys(keys)));
        }
        if let Some(batch) = self.stops.batch(ctx.now, |_| 512) {
            let mut waiting = false;
            let open = |to: &ReplyTo| {
                let r = self.open.get(to)?;
                let Want::Stop(Stop { id: Some(id), until, .. }) = &r.want else { return None };
                waiting |= *until == Until::Gone;
                let forbid = *until == Until::Cancelled;
                Some((*to, StopItem { key: r.key.clone(), id: id.clone(), guess: r.owner, forbid }))
            };
            let (tos, items): (Vec<_>, Vec<_>) = batch.iter().filter_map(open).unzip();
            self.in_flight.stops = tos;
            let waiting = waiting.then(|| ctx.config.node.clone());
            send(ctx, &mut self.stops, items, |items| {
                Call::Stop(store::Stop { turn: None, repeat: false, waiting, items })
            });
        }
        self.flush_notes(ctx);
        self.flush_steers(ctx);
        if let Some(batch) = self.unparks.batch(ctx.now, |_| 512) {
            let open = |to: &ReplyTo| {
                let r = self.open.get(to)?;
                let Want::Unpark(Unpark { parked: Some((id, _)), .. }) = &r.want else { return None };
                Some((*to, (r.key.clone(), id.clone())))
            };
            let (tos, items): (Vec<_>, Vec<_>) = batch.iter().filter_map(open).unzip();
            self.in_flight.unparks = tos;
            send(ctx, &mut self.unparks, items, |jobs| Call::Unpark(store::Unpark { jobs }));
        }
    }

    pub(in crate::core) fn deadline(&self, may_send: bool, clock_known: bool) -> Option<Time> {
        let timer = self.timers.first().map(|(at, _)| *at);
        if !may_send {
            return timer;
        }
        let again = self.again.deadline();
        if self.open.is_empty() {
            return earliest(timer, again);
        }
        let batchers = [
            again,
            self.finds.deadline(),
            self.stops.deadline(),
            self.notes.deadline(),
            self.starts.deadline().filter(|_| clock_known),
            self.unparks.deadline(),
            self.steers.deadline(),
        ];
        batchers.into_iter().fold(timer, earliest)
    }
}

pub(super) fn send<T>(
    ctx: &mut Ctx,
    batcher: &mut Batcher<ReplyTo>,
    items: Vec<T>,
    call: impl FnOnce(Vec<T>) -> Call,
) {
    if items.is_empty() {
        batcher.answered();
    } else {
        ctx.call(call(items));
    }
}
