//! The jobs in a worker's hands. Invariants:
//!
//! 1. No handler starts without an answered `begin` for its (key, token), or an honoured grant, under a lease that holds.
//! 2. A job is released only after its handler has ended, and exactly once. Until the release is answered, no event
//!    brings that (key, token) back.
//! 3. Every begin and release is sent until it is answered, or the worker is fenced.
//! 4. A handler can delay its own key only.
//! 5. A grant is honoured at most once, in the incarnation that it names, above every token that the worker has read or
//!    spoken of.

mod answering;
mod answers;
mod attesting;
mod capacity;
mod ending;
mod granting;
mod handing_back;
pub(super) mod held;
mod inbox;
mod journal;
mod pausing;
pub(super) mod restarting;
mod room;
mod saving;
mod seen;
mod starting;
mod steering;
mod taking_up;
mod timing;
mod unsaid;
mod updating;

use std::collections::{BTreeMap, VecDeque};

use tenure_steps::EntryId;

use crate::core::batcher::Batcher;
use crate::core::ctx::Ctx;
use crate::core::effect::Notice;
use crate::core::input::{HandlerEvent, LocalWorker};
use crate::core::one_call::Timers;
use crate::model::id::{DispatchId, JobKey, NodeName, Token, WorkerId};
use crate::model::record::Record;
use crate::model::stop::StopReason;
use crate::mutation::Mutation;
use crate::step::{Granted, GrantedJob, ReleaseItem, StartedItem, TakeItem, WorkerEvent, WorkerStream};
use answering::Answering;
use attesting::Attesting;
use capacity::Capacity;
use granting::Grants;
use held::{HeldJob, LeavingJob, StopOrder};
use inbox::Inbox;
use journal::Journal;
use pausing::{NotYet, Pauses};
use room::Outside;
use saving::Saves;
use starting::Starts;
use taking_up::Successor;
use unsaid::Unsaid;
use updating::Updates;

/// A job to give up, with the entries of the worker's stream that its release finishes.
pub(super) type ToRelease = (ReleaseItem, Vec<EntryId>);

/// Why a job is named in a `begin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The worker takes the job.
    Take,
    /// The worker has taken up a granted job, and the store may not know that.
    Confirm,
    /// The worker holds the job, and reads the payload that the record has now.
    Read,
}

/// A job to name in a `begin`, with the entry of the worker's stream that said so, until that entry is counted.
#[derive(Debug)]
struct ToBegin {
    key: JobKey,
    token: Token,
    purpose: Purpose,
    entry: Option<EntryId>,
}

/// Events of a job whose begin is under way. They arrive on another connection than the answer, and may overtake it.
#[derive(Debug, Default)]
struct PendingBegin {
    /// A stop: the node that waits, and the stream entries of the stop.
    stop: Option<(Option<NodeName>, Vec<EntryId>)>,
    /// The dispatch that must stop.
    of: Option<DispatchId>,
    /// Notifications wait.
    notified: bool,
    /// The job was given a payload of this generation, or of a later one that does not fit. Many jobs begin at a time, so
    /// this is small.
    generation: u32,
}

/// The jobs of one worker, from the events of its stream to their release.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    worker: WorkerId,
    local: LocalWorker,
    inbox: Inbox,
    grants: Grants,
    /// Boxed: a B-tree leaves nearly half of its places empty.
    held: BTreeMap<JobKey, Box<HeldJob>>,
    beginning: BTreeMap<(JobKey, Token), PendingBegin>,
    /// Jobs among these for which there is no room yet, in turn.
    outside: VecDeque<Outside>,
    /// Jobs that were begun and wait for the end of a former run of their key.
    successors: BTreeMap<JobKey, Successor>,
    /// Jobs on their way out, with what is known of them.
    releasing: BTreeMap<(JobKey, Token), LeavingJob>,
    /// Releases of jobs that a loss of data has removed. Each is repeated once its job has a record.
    retaken: BTreeMap<(JobKey, Token), ReleaseItem>,
    capacity: Capacity,
    starts: Starts,
    /// The deadlines of the held jobs' handlers.
    timers: Timers<JobKey>,
    pauses: Pauses,
    updates: Updates,
    begins: Batcher<ToBegin>,
    /// Why the jobs of the `begin` in flight are named in it, in their order.
    begin_in_flight: Vec<Purpose>,
    starteds: Batcher<StartedItem>,
    /// The words that the store may not have heard yet, and the releases that wait for them.
    unsaid: Unsaid,
    saves: Saves,
    answering: Answering,
    releases: Batcher<ToRelease>,
    takes: Batcher<TakeItem>,
    /// A handler does not end: the worker hands all other jobs off.
    stuck: bool,
    /// While set, the worker hands off every new job and starts none.
    leaving: Option<StopReason>,
    /// Keys whose release was answered since the last look.
    released: Vec<JobKey>,
    /// The store may assign jobs to this worker that the worker does not know. A begin or release had no answer, or the
    /// news were lost, or a look at all records has ended.
    audit_due: bool,
    /// The jobs that have left lately.
    journal: Journal,
    /// The report after a loss of data.
    attesting: Option<Attesting>,
}

impl Jobs {
    pub(super) fn new(worker: WorkerId, local: LocalWorker) -> Self {
        Self { worker, local, ..Self::default() }
    }

    /// An empty set of jobs for the worker that this one becomes. It keeps the capacity, the knowledge of the former
    /// worker's jobs, and that of the handler.
    pub(super) fn anew(&mut self, worker: WorkerId) -> Self {
        let journal = std::mem::take(&mut self.journal);
        let (capacity, updates) = (self.capacity, self.updates.anew());
        Self { capacity, updates, journal, ..Self::new(worker, self.local) }
    }

    pub(super) fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The jobs in the worker's hands.
    pub(super) fn held(&self) -> &BTreeMap<JobKey, Box<HeldJob>> {
        &self.held
    }

    /// Why the worker hands off every new job, if it does.
    pub(super) fn leaving(&self) -> Option<StopReason> {
        self.leaving
    }

    /// The worker reports its jobs after a loss of data.
    pub(super) fn is_attesting(&self) -> bool {
        self.attesting.is_some()
    }

    /// Up to which entry the worker's stream was read.
    pub(super) fn cursor(&self) -> EntryId {
        self.inbox.cursor()
    }

    /// The state of the worker's stream. If the stream was deleted, the news of granted jobs may be gone with it.
    pub(super) fn saw_stream(&mut self, ctx: &Ctx, stream: WorkerStream) {
        self.inbox.oldest(stream.oldest);
        if self.inbox.was_lost(stream.added) && !ctx.config.broken.has(Mutation::DeletedStreamUnnoticed) {
            self.audit();
        }
    }

    /// The store may assign jobs to this worker that it does not know.
    pub(super) fn audit(&mut self) {
        self.audit_due = true;
    }

    pub(super) fn is_audit_due(&self) -> bool {
        self.audit_due
    }

    /// Takes the strikes of the record, which a loss of data may have changed. Returns whether the job may belong to another
    /// worker now.
    pub(super) fn takes_strikes(&mut self, ctx: &Ctx, key: &JobKey, record: &Record) -> bool {
        let allowed = ctx.config.settings.strikes.max(1);
        let held = self.held.get_mut(key).filter(|held| held.token == record.token);
        held.is_some_and(|held| {
            let before = std::mem::replace(&mut held.strikes, record.strikes);
            before / allowed != record.strikes / allowed
        })
    }

    /// The comparison with the store has begun.
    pub(super) fn is_audited(&mut self) {
        self.audit_due = false;
    }

    /// Whether the begins under way belong to data that are gone. True once.
    pub(super) fn begins_were_abandoned(&mut self) -> bool {
        self.begins.was_abandoned()
    }

    /// Whether the fetch under way belongs to data that are gone. True once.
    pub(super) fn take_was_abandoned(&mut self) -> bool {
        self.takes.was_abandoned()
    }

    /// The worker holds no job, and no call is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.beginning.is_empty() && self.releasing.is_empty()
    }

    /// Keys whose release was answered since the last call.
    pub(super) fn take_released(&mut self) -> Vec<JobKey> {
        std::mem::take(&mut self.released)
    }

    /// True when this (key, token) is in the worker's hands.
    fn is_here(&self, key: &JobKey, token: Token) -> bool {
        self.held.get(key).is_some_and(|held| held.token == token)
    }

    /// True when this (key, token) is here, coming or going.
    pub(super) fn knows(&self, key: &JobKey, token: Token) -> bool {
        self.knows_id(&(key.clone(), token))
    }

    fn knows_id(&self, id: &(JobKey, Token)) -> bool {
        self.is_here(&id.0, id.1)
            || self.beginning.contains_key(id)
            || self.releasing.contains_key(id)
            || self.succeeds(&id.0, id.1)
    }

    pub(super) fn on_event(&mut self, ctx: &mut Ctx, entry: EntryId, event: WorkerEvent) {
        if !ctx.config.broken.has(Mutation::NewsRaisesNothing) {
            self.grants.has_seen(event.newest());
        }
        match event {
            WorkerEvent::Start { token, keys } => {
                if self.inbox.admit(entry, keys.len()) {
                    for key in keys {
                        self.assigned(ctx, Some(entry), key, token);
                    }
                }
            }
            WorkerEvent::Grant(Granted { token, jobs, .. }) => {
                if self.inbox.admit(entry, jobs.len()) {
                    for GrantedJob { key, .. } in jobs {
                        self.assigned(ctx, Some(entry), key, token);
                    }
                }
            }
            WorkerEvent::Stop { waiting, jobs } => {
                if self.inbox.admit(entry, jobs.len()) {
                    for (key, token, id) in jobs {
                        self.stop_asked(ctx, entry, waiting.clone(), (key, token), id);
                    }
                }
            }
            WorkerEvent::Notify { jobs } => {
                if self.inbox.admit(entry, 0) {
                    for (key, token) in jobs {
                        self.notified(key, token);
                    }
                }
            }
            WorkerEvent::Update { jobs } => {
                if self.inbox.admit(entry, 0) {
                    for (key, token, generation) in jobs {
                        self.updated(ctx, key, token, generation);
                    }
                }
            }
            WorkerEvent::Steer { jobs } => {
                if self.inbox.admit(entry, 0) {
                    for (key, token, way, reason) in jobs {
                        self.steered(ctx, &key, token, way, reason);
                    }
                }
            }
            WorkerEvent::Ask { .. } => {
                self.inbox.admit(entry, 0);
            }
            // Nobody knows which jobs it named.
            WorkerEvent::Unknown => {
                self.audit_due |= self.inbox.admit(entry, 0);
            }
        }
    }

    /// The store assigns this job to the worker, by the news in this entry.
    pub(super) fn assigned(&mut self, ctx: &Ctx, entry: Option<EntryId>, key: JobKey, token: Token) {
        if !ctx.config.broken.has(Mutation::BeginRaisesNothing) {
            self.grants.has_seen(token);
        }
        let id = (key, token);
        if self.knows_id(&id) {
            let (key, token) = id;
            if ctx.config.broken.has(Mutation::RedeliveredStartRefused) {
                let entries = entry.into_iter().collect();
                return self.release_for_stopper(key, token, LeavingJob::to_stop(None), None, entries);
            }
            if let Some(entry) = entry {
                self.inbox.answered(entry);
            }
        } else if self.leaving.is_some() {
            self.give_back(id.0, token, LeavingJob::default(), None, entry.into_iter().collect());
        } else if self.is_full(ctx) {
            self.send_elsewhere(ctx, id.0, token, entry);
        } else {
            self.answering.begins_a_job();
            let key = id.0.clone();
            if self.has_room() {
                self.begins.push(ToBegin { key, token, purpose: Purpose::Take, entry });
            } else {
                let until = ctx.now + ctx.config.settings.assign_timeout;
                self.outside.push_back(Outside { key, token, entry, until });
            }
            self.beginning.insert(id, PendingBegin::default());
        }
    }

    /// Notifications wait. No other wake comes before they are fetched.
    fn notified(&mut self, key: JobKey, token: Token) {
        if let Some(held) = self.held.get_mut(&key).filter(|h| h.token == token) {
            held.notes.wanted = true;
            self.fetch(&key);
        } else if let Some(next) = self.successors.get_mut(&key).filter(|next| next.job.record.token == token)
        {
            next.job.waiting = true;
        } else if let Some(early) = self.beginning.get_mut(&(key, token)) {
            early.notified = true;
        }
    }

    fn stop_asked(
        &mut self,
        ctx: &mut Ctx,
        entry: EntryId,
        tell: Option<NodeName>,
        id: (JobKey, Token),
        of: Option<DispatchId>,
    ) {
        if self.is_here(&id.0, id.1) {
            self.order(ctx, &id.0, StopOrder::stop(tell, vec![entry]));
            return;
        }
        let waits_outside = !self.outside.is_empty() && self.beginning.contains_key(&id);
        if waits_outside && let Some(job) = self.take_outside(&id) {
            let entries = job.entry.into_iter().chain([entry]).collect();
            self.release_for_stopper(id.0, id.1, LeavingJob::to_stop(of), tell, entries);
        } else if let Some(early) = self.beginning.get_mut(&id) {
            early.of = of.or(early.of.take());
            let (present, entries) = early.stop.get_or_insert_default();
            *present = tell.or(present.take());
            entries.push(entry);
        } else if self.releasing.contains_key(&id) {
            self.inbox.answered(entry);
            self.stop_leaving(ctx, &id, of, tell);
        } else {
            let mut out = LeavingJob::to_stop(of);
            if self.succeeds(&id.0, id.1)
                && let Some(next) = self.successors.remove(&id.0)
            {
                out = LeavingJob::begun_to_stop(&next.job.record);
            }
            self.release_for_stopper(id.0, id.1, out, tell, vec![entry]);
        }
    }

    pub(super) fn on_handler(&mut self, ctx: &mut Ctx, key: &JobKey, token: Token, event: HandlerEvent) {
        if let HandlerEvent::Checkpoint { number, bytes } = event {
            return self.checkpoint(ctx, key, token, number, bytes);
        }
        if let HandlerEvent::Answered(id, said) = event {
            return self.answered(ctx, key, token, id, said);
        }
        let Some(held) = self.held.get_mut(key).filter(|h| h.token == token) else { return };
        if ctx.config.broken.has(Mutation::PanicUntold) && event.is_panic() {
            return;
        }
        match event {
            HandlerEvent::Started => self.on_started(ctx, key),
            HandlerEvent::Delivered => {
                held.notes.wanted = true;
                let count = usize::from(held.notes.in_hand);
                held.notes.delivered(usize::MAX);
                self.answering.passed(key, token, count);
                self.fetch(key);
            }
            HandlerEvent::Took(_) if ctx.config.broken.has(Mutation::TakenForgotten) => {}
            HandlerEvent::Took(count) => held.notes.delivered(count),
            HandlerEvent::NotYet { taken, pause, refusals, why } => {
                self.not_yet(ctx, key, NotYet { taken, pause, refusals, why });
            }
            HandlerEvent::Updated { generation, result } => {
                self.answered_update(ctx, key, generation, result);
            }
            HandlerEvent::NotRun => self.never_ran(ctx, key),
            HandlerEvent::Refused { backoff, why } => self.refused(ctx, key, backoff, why),
            HandlerEvent::Elsewhere { why } => self.goes_elsewhere(ctx, key, why),
            HandlerEvent::Failed(error) => self.failed(ctx, key, &error),
            HandlerEvent::Ended(result) => self.ended(ctx, key, result),
            HandlerEvent::Lost(why) => self.ended_by_others(ctx, key, &why),
            HandlerEvent::Park(why) => self.park(ctx, key, why),
            HandlerEvent::Stopped(result) => {
                if result.is_err() && ctx.config.broken.has(Mutation::FailedStopKeepsJob) {
                    return;
                }
                if let Err(error) = &result
                    && !ctx.config.broken.has(Mutation::FailedStopUntold)
                {
                    ctx.report(Notice::StopFailed { key: key.clone(), error: error.clone() });
                }
                self.end_as_ordered(ctx, key, result);
            }
            HandlerEvent::Aborted => self.end_as_ordered(ctx, key, Ok(())),
            HandlerEvent::Checkpoint { .. } | HandlerEvent::Answered(..) => {}
            HandlerEvent::Progressed(at) => self.progressed(ctx, key, at),
        }
    }
}
