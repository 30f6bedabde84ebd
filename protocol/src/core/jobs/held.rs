//! One job in a worker's hands, from its begin to its release.

use std::time::Duration;

use bytes::Bytes;
use tenure_steps::EntryId;

use super::unsaid::Words;
use crate::core::effect::NewJob;
use crate::core::time::Time;
use crate::model::id::{DispatchId, JobKey, NodeName, Token};
use crate::model::paused::Paused;
use crate::model::policy::RestartPolicy;
use crate::model::record::{Begun, Record};
use crate::model::stop::StopReason;
use crate::model::wire::ProgressTimeout;
use crate::step::{Attest, AttestItem, ReleaseItem, ReleaseMode, Way};

/// Where a held job is.
#[derive(Debug)]
pub(in crate::core) enum JobPhase {
    /// Begun; waits for its turn to start.
    Waiting(Box<NewJob>),
    /// The start handler runs.
    Starting,
    /// Started.
    Running,
    /// The stop handler runs, or the start handler has been cancelled.
    Stopping,
    /// Aborted; has not yet ended.
    Aborting,
}

/// Why and how a held job must end.
#[derive(Debug)]
pub(in crate::core) struct StopOrder {
    pub(super) why: StopReason,
    /// The node that waits for the stop.
    pub(super) tell: Option<NodeName>,
    /// Entries of the worker's stream that the release answers.
    pub(super) entries: Vec<EntryId>,
    /// The wish of an operator for the job, and the reason.
    steered: Option<(Way, String)>,
}

impl StopOrder {
    /// A stop by a user: the node that waits for it, and the entry that says so.
    pub(super) fn stop(tell: Option<NodeName>, entries: Vec<EntryId>) -> Self {
        Self { why: StopReason::Stopped, tell, entries, steered: None }
    }

    /// An order of an operator's.
    pub(super) fn steered(way: Way, reason: String) -> Self {
        let why = match way {
            Way::Park => StopReason::Parked,
            Way::Pause => StopReason::Paused,
            Way::Now | Way::Home | Way::Elsewhere | Way::Resume => StopReason::Bounced,
        };
        Self { steered: Some((way, reason)), ..Self::own(why) }
    }

    /// An order of the worker's own.
    pub(in crate::core) fn own(why: StopReason) -> Self {
        Self { why, tell: None, entries: Vec::new(), steered: None }
    }

    /// Whether an operator wants the job to rest.
    pub(super) fn is_to_rest(&self) -> bool {
        matches!(self.why, StopReason::Parked | StopReason::Paused)
    }

    /// Whether both are pauses, and this one is over later.
    fn outlasts(&self, other: &Self) -> bool {
        let end = |order: &Self| match &order.steered {
            Some((Way::Pause, text)) => Some(Paused::end_of(text).unwrap_or(u64::MAX)),
            _ => None,
        };
        end(self).zip(end(other)).is_some_and(|(end, theirs)| end > theirs)
    }

    /// The release mode and the result of a job that has ended by this order.
    pub(super) fn release(&self) -> (ReleaseMode, String) {
        match (self.why, &self.steered) {
            (StopReason::Parked | StopReason::Paused, Some((_, reason))) => {
                (ReleaseMode::Park, reason.clone())
            }
            // An operator's word is no sign that a worker is full, so no pause follows.
            (StopReason::Bounced, Some((Way::Elsewhere, _))) => {
                (ReleaseMode::Elsewhere { workers: u32::MAX }, String::new())
            }
            (why, _) => {
                let (mode, result) = release_of(why);
                (mode, result.to_owned())
            }
        }
    }

    /// A job that ends by itself follows the order to end, as far as that says more.
    pub(super) fn overrides(&self, item: &mut ReleaseItem) {
        let follows = match self.why {
            // It rests as the operator wants it, whatever its handler says.
            StopReason::Stopped | StopReason::Shutdown | StopReason::Paused => {
                item.mode != ReleaseMode::Delete
            }
            StopReason::Parked => !matches!(item.mode, ReleaseMode::Delete | ReleaseMode::Park),
            StopReason::Bounced => matches!(item.mode, ReleaseMode::GiveBack | ReleaseMode::Refuse),
            _ => false,
        };
        if follows {
            (item.mode, item.result) = self.release();
            item.delay = Duration::ZERO;
        } else if goes_on(self.why)
            && self.why != StopReason::Bounced
            && matches!(item.mode, ReleaseMode::Refuse | ReleaseMode::Elsewhere { .. })
        {
            (item.mode, item.delay) = (ReleaseMode::GiveBack, Duration::ZERO);
        }
    }
}

/// The notifications of a held job: fetched, delivered and acknowledged in turn.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Notifications may wait that the fetch under way does not bring.
    pub(super) wanted: bool,
    /// A fetch or a delivery is under way.
    pub(super) busy: bool,
    /// The handler has refused the next one for now, and the pause lasts.
    pub(super) paused: bool,
    /// The last fetch was refused: the store has the job as no running one of this worker. So some may wait.
    pub(super) refused: bool,
    /// All notifications below this number have been delivered.
    pub(super) ack: u64,
    /// The number of notifications from there on that are being delivered.
    pub(super) in_hand: u16,
    /// Another payload is on its way to the handler. They wait behind it, and asks do so, too.
    pub(super) behind_update: bool,
    /// The store does not yet know the number of deliveries.
    pub(super) owes: bool,
}

impl Notes {
    /// Every notification that was kept before has been delivered, as far as the worker knows.
    pub(super) fn all_delivered(&self) -> bool {
        !self.wanted && !self.busy && !self.refused
    }

    /// `count` of the notifications in hand have been delivered; no more will be.
    pub(super) fn delivered(&mut self, count: usize) {
        let count = usize::from(std::mem::take(&mut self.in_hand)).min(count);
        self.ack += count as u64;
        self.owes |= count > 0;
        self.busy = false;
    }

    /// The data were lost: the former numbers are meaningless.
    pub(super) fn void(&mut self) {
        *self = Self { wanted: true, busy: self.busy, paused: self.paused, ..Self::default() };
    }
}

/// The part of a job that few have.
#[derive(Debug)]
struct Rare {
    /// The plan that wanted it, or empty.
    plan: Box<str>,
    /// The generation of the payload that it runs with.
    generation: u64,
}

impl Rare {
    fn of(record: &Record) -> Option<Self> {
        let generation = record.generation();
        let is_there = generation > 0 || !record.plan.is_empty();
        is_there.then(|| Self { plan: record.plan.as_str().into(), generation })
    }
}

/// The first success of a job's start handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstStart {
    /// Somebody may wait for it.
    Awaited,
    /// Nobody waits for it.
    Unawaited,
    /// It has come.
    Over,
}

/// One job in a worker's hands. A worker holds many for a long time, so rare parts are behind a pointer.
#[derive(Debug)]
pub(in crate::core) struct HeldJob {
    pub(in crate::core) token: Token,
    pub(super) id: DispatchId,
    pub(in crate::core) strikes: u32,
    pub(super) attempts: u32,
    created_ms: u64,
    /// The parts that few jobs have.
    rare: Option<Box<Rare>>,
    /// Its payload as stored.
    pub(super) envelope: Bytes,
    pub(super) begun_at: Time,
    pub(super) first_start: FirstStart,
    /// The words about it that the store may not know.
    pub(super) unsaid: Words,
    pub(super) policy: RestartPolicy,
    /// How long it may make no progress.
    pub(super) progress: Option<ProgressTimeout>,
    /// Its start holds one of the permits.
    pub(super) has_permit: bool,
    pub(in crate::core) phase: JobPhase,
    /// The deadline of the running handler.
    pub(in crate::core) overdue_at: Option<Time>,
    pub(in crate::core) order: Option<Box<StopOrder>>,
    pub(super) notes: Notes,
}

impl HeldJob {
    pub(super) fn new(record: &Record, job: NewJob, envelope: Bytes, waiting: bool, now: Time) -> Self {
        Self {
            policy: job.payload.policy,
            progress: job.payload.progress,
            phase: JobPhase::Waiting(Box::new(job)),
            notes: Notes { wanted: waiting, ..Notes::default() },
            ..Self::in_passing(record, envelope, now)
        }
    }

    /// A job that was begun here and is given back without a handler.
    pub(super) fn in_passing(record: &Record, envelope: Bytes, now: Time) -> Self {
        Self {
            token: record.token,
            id: record.id.clone(),
            strikes: record.strikes,
            attempts: record.attempts,
            created_ms: record.created,
            rare: Rare::of(record).map(Box::new),
            envelope,
            begun_at: now,
            first_start: if record.begun == Begun::Started { FirstStart::Over } else { FirstStart::Awaited },
            unsaid: Words::default(),
            policy: RestartPolicy::default(),
            progress: None,
            has_permit: false,
            phase: JobPhase::Stopping,
            overdue_at: None,
            order: None,
            notes: Notes::default(),
        }
    }

    /// The start handler has succeeded, in this run or an earlier one.
    pub(super) fn started_before(&self) -> bool {
        self.first_start == FirstStart::Over
    }

    /// The generation of the payload that it runs with.
    pub(super) fn generation(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.generation)
    }

    pub(super) fn set_generation(&mut self, generation: u64) {
        let none = || Box::new(Rare { plan: Box::default(), generation });
        self.rare.get_or_insert_with(none).generation = generation;
    }

    /// The node that waits for the dispatch's outcome, if its name is valid.
    pub(super) fn waiting_node(&self) -> Option<NodeName> {
        NodeName::new(self.id.node()).ok()
    }

    /// The item of a report after a loss of data: the job runs, or may run. `back`: the run is over, and the worker takes
    /// the job back.
    pub(super) fn attested(&self, key: &JobKey, with_payload: bool, back: bool) -> AttestItem {
        let what = Attest::Runs {
            begun: if self.started_before() { Begun::Started } else { Begun::Begun },
            attempts: self.attempts,
            created: self.created_ms,
            plan: self.rare.as_ref().map_or_else(String::new, |rare| rare.plan.to_string()),
            generation: self.generation(),
            payload: with_payload.then(|| self.envelope.clone()),
            back,
        };
        AttestItem { key: key.clone(), token: self.token, id: self.id.clone(), what }
    }

    /// The number of attempts after a failure now: one, if the job ran well for `stable_run`.
    pub(super) fn attempts_at(&self, now: Time, stable_run: Duration) -> u32 {
        if now.since(self.begun_at) >= stable_run { 1 } else { self.attempts }
    }

    /// An order to end came, and no result of the handler makes the job run again.
    pub(super) fn ends_for_good(&self) -> bool {
        let why = self.order.as_ref().map(|order| order.why);
        matches!(why, Some(StopReason::Stopped | StopReason::Shutdown | StopReason::LeaseLost))
    }

    /// Adds an order to an existing one. The more urgent reason counts, and the longer pause.
    pub(super) fn add_order(&mut self, order: StopOrder) {
        let Some(present) = &mut self.order else {
            self.order = Some(Box::new(order));
            return;
        };
        if urgency(order.why) > urgency(present.why) || order.outlasts(present) {
            (present.why, present.steered) = (order.why, order.steered);
        }
        present.tell = order.tell.or(present.tell.take());
        present.entries.extend(order.entries);
    }
}

/// The facts about a job on its way out.
#[derive(Debug, Default)]
pub(super) struct LeavingJob {
    /// Its dispatch.
    pub(super) id: Option<DispatchId>,
    /// Begins since the last success-like event, this one included.
    pub(super) attempts: u32,
    /// Its start has succeeded, here or before.
    pub(super) started: bool,
    /// It must stop for good.
    pub(super) stopped: bool,
    /// The node that waits for a stop that came meanwhile.
    pub(super) stopper: Option<NodeName>,
    /// Its release may have been carried out: one call had no answer.
    pub(super) unsure: bool,
    /// Its state while it was held here. A job that goes on elsewhere keeps it until the release is answered: this
    /// worker may be the only one that has its payload.
    pub(super) held: Option<Box<HeldJob>>,
}

impl LeavingJob {
    /// A job that was begun here but never held by the worker.
    pub(super) fn of(record: &Record) -> Self {
        let (id, started) = (Some(record.id.clone()), record.begun == Begun::Started);
        Self { id, attempts: record.attempts, started, ..Self::default() }
    }

    /// A job that was begun here and must go on elsewhere, with its payload.
    pub(super) fn in_passing(record: &Record, envelope: Bytes, now: Time) -> Self {
        Self { held: Some(Box::new(HeldJob::in_passing(record, envelope, now))), ..Self::of(record) }
    }

    /// A job that was begun here and must stop.
    pub(super) fn begun_to_stop(record: &Record) -> Self {
        Self { stopped: true, ..Self::of(record) }
    }

    /// A job of this dispatch, if known, that must stop.
    pub(super) fn to_stop(id: Option<DispatchId>) -> Self {
        Self { id, stopped: true, ..Self::default() }
    }
}

fn urgency(why: StopReason) -> u8 {
    match why {
        StopReason::Moved | StopReason::Updated | StopReason::Bounced => 0,
        StopReason::Draining => 1,
        StopReason::StartTimeout | StopReason::Stalled => 2,
        StopReason::Parked => 3,
        StopReason::Paused => 4,
        StopReason::Stopped => 5,
        StopReason::Shutdown => 6,
        StopReason::LeaseLost => 7,
    }
}

/// A job that ends here for this reason goes on at once, here or elsewhere.
pub(super) fn goes_on(why: StopReason) -> bool {
    matches!(why, StopReason::Moved | StopReason::Updated | StopReason::Bounced | StopReason::Draining)
}

/// The release mode and the result of a job that has ended for this reason.
pub(super) fn release_of(why: StopReason) -> (ReleaseMode, &'static str) {
    match why {
        StopReason::Moved
        | StopReason::Updated
        | StopReason::Bounced
        | StopReason::Draining
        | StopReason::LeaseLost => (ReleaseMode::HandOff, ""),
        StopReason::Parked | StopReason::Paused => (ReleaseMode::Park, ""),
        StopReason::StartTimeout => (ReleaseMode::Fail, "the start took too long"),
        StopReason::Stalled => (ReleaseMode::Fail, "no progress"),
        StopReason::Stopped => (ReleaseMode::Delete, ""),
        StopReason::Shutdown => (ReleaseMode::Delete, "shutdown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_job_is_small() {
        assert!(size_of::<HeldJob>() <= 152, "{}", size_of::<HeldJob>());
    }
}
