//! The events of a model, and how often each may happen: small enough that every state can be seen.

use tenure_protocol::mutation::{Mutation, Mutations};
use tenure_protocol::step::ReleaseMode;

use super::asks::Kind;

/// A mistake of a role of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lapse {
    /// A job moves while its handler runs.
    HandOffBeforeStop,
    /// A `begin` without an answer is not sent again.
    BeginGivenUp,
    /// A start event for a job that already runs here is answered with a refusal.
    RedeliveredStartRefused,
    /// A worker leaves while its handlers run.
    LeaveBeforeJoined,
    /// A worker sends its final report in phase R before it has reported its running jobs.
    AttendBeforeAttested,
    /// A worker does not report its ended jobs in phase R.
    JournalNotSent,
    /// A worker reports an end without the payload that the job ended with, though the job may have a later one.
    EndNamesNoPayload,
    /// A worker takes what a release in phase R has ended for sure, though a later run may be hidden.
    LossEndIsSure,
    /// A worker goes on after its lease.
    NoSelfFence,
    /// A worker that has lost its lease starts the jobs that it had begun.
    NoRecheckAfterBegin,
    /// A lease counts from the answer to a renewal, not from its sending.
    RenewalFromReply,
    /// An observer expires a worker a little before its lease is over by any clock.
    ObserverHasty,
    /// A stop is sent once.
    StopNotRepeated,
    /// The jobs of dead workers stay with them.
    NeverReaped,
    /// A job leaves its worker before its last checkpoint is kept.
    LeftBeforeKept,
    /// The pool is opened while a worker that the data do not know may still run jobs.
    OpenUnobserved,
    /// A worker takes a copy of an attempt that it has dealt with for a new one.
    AsksUnremembered,
    /// A worker says that an attempt has not come before its poke, and hands it over when it comes.
    PokedAndHandedOver,
    /// A worker hands an ask over whatever token it names.
    HandedUnderAnyToken,
    /// An asker sends an ask again that the dead owner may have handled.
    DoubtfulAskSentAgain,
    /// An ask that may have been handled ends as not handled when its time is over.
    SentCountsAsUnhandled,
    /// Each try of an ask's start is a dispatch of its own.
    StartsUnnamed,
    /// A worker honours a grant whatever it has read or spoken of.
    GrantTwice,
    /// A worker honours a grant of the token of a stop that it has read.
    StopRaisesNothing,
    /// A worker begins a granted job that it finds among its own, and honours its grant later.
    BeginsUnread,
    /// The news of an assigned job, which anybody may take back, is a grant.
    AssignedAsGrant,
    /// A worker whose lease is over honours a grant.
    GrantWithoutLease,
    /// A worker honours a grant of a former incarnation.
    GrantOfAnyIncarnation,
    /// A worker goes by a pause whatever token it names.
    PausedUnderAnyToken,
}

/// How often bounded events may happen, or may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    /// Assignments.
    pub(crate) mints: u8,
    /// Answers that get lost.
    pub(crate) lost: u8,
    /// Calls that are executed long after their caller gave up or got its answer.
    pub(crate) copies: u8,
    pub(crate) fences: u8,
    pub(crate) rejoins: u8,
    pub(crate) drains: u8,
    pub(crate) sweeps: u8,
    /// Losses of data: back to any state before, or to nothing.
    pub(crate) losses: u8,
    /// Notifications.
    pub(crate) notes: u8,
    /// Checkpoints that handlers give.
    pub(crate) states: u8,
    /// Payloads that users have for jobs that are there.
    pub(crate) updates: u8,
    /// Further attempts of an ask.
    pub(crate) attempts: u8,
    /// Pauses and resumes.
    pub(crate) pauses: u8,
    /// Attempts of the first worker to renew its lease.
    pub(crate) renewals: u8,
    /// Events that get lost before faults end.
    pub(crate) drops: u8,
}

/// The bounds.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) keys: usize,
    /// The key of each dispatch.
    pub(crate) dispatches: Vec<usize>,
    pub(crate) routers: usize,
    pub(crate) left: Left,
    /// Whether the first worker has a lease that runs out.
    pub(crate) leases: bool,
    /// Whether faults end at some moment.
    pub(crate) settles: bool,
    /// Whether the pool is shut down.
    pub(crate) closes: bool,
    pub(crate) stops: bool,
    /// A node asks the owner of the first key's job.
    pub(crate) ask: Option<Kind>,
    /// Whether placed jobs are granted.
    pub(crate) grants: bool,
    /// Whether workers are full when they read of a grant.
    pub(crate) full: bool,
    /// How handlers end.
    pub(crate) endings: Vec<ReleaseMode>,
    pub(crate) broken: Mutations,
    pub(crate) lapse: Option<Lapse>,
}

impl Scope {
    pub(crate) fn breaking(self, mutations: impl IntoIterator<Item = Mutation>) -> Self {
        Self { broken: Mutations::of(mutations), ..self }
    }

    pub(crate) fn lapsing(self, lapse: Lapse) -> Self {
        Self { lapse: Some(lapse), ..self }
    }

    pub(crate) fn lapses(&self, lapse: Lapse) -> bool {
        self.lapse == Some(lapse)
    }
}

/// No losses and no deaths.
fn quiet() -> Left {
    Left { mints: 2, ..Left::default() }
}

/// One dispatch that is begun, given up and stopped, within these bounds.
fn one_job(left: Left) -> Scope {
    Scope {
        keys: 1,
        dispatches: vec![0],
        routers: 1,
        left,
        leases: false,
        settles: false,
        closes: false,
        stops: true,
        ask: None,
        grants: false,
        full: false,
        endings: vec![ReleaseMode::Delete, ReleaseMode::Fail],
        broken: Mutations::default(),
        lapse: None,
    }
}

/// Lost answers, late duplicates and time-outs.
pub(crate) fn network() -> Scope {
    one_job(Left { lost: 1, copies: 1, sweeps: 1, ..quiet() })
}

/// Workers that die, drain and come back.
pub(crate) fn members() -> Scope {
    Scope { endings: vec![ReleaseMode::Fail], ..one_job(Left { fences: 1, drains: 1, ..quiet() }) }
}

/// Workers that die while answers get lost.
pub(crate) fn network_and_deaths() -> Scope {
    let left = Left { lost: 1, sweeps: 1, fences: 1, ..quiet() };
    Scope { stops: false, endings: vec![ReleaseMode::Fail], ..one_job(left) }
}

/// A key that is dispatched again, while calls about its former life are on their way.
pub(crate) fn successors() -> Scope {
    Scope { dispatches: vec![0, 0], ..one_job(Left { copies: 1, ..quiet() }) }
}

/// Faults of the network and of workers together.
pub(crate) fn network_and_members() -> Scope {
    let left = Left { lost: 1, copies: 1, sweeps: 1, fences: 1, drains: 1, ..quiet() };
    Scope { stops: false, endings: vec![ReleaseMode::Fail], ..one_job(left) }
}

/// Two routers, which learn of changes of the ring at different times.
pub(crate) fn two_routers() -> Scope {
    let one = one_job(Left { fences: 1, rejoins: 1, drains: 1, ..quiet() });
    Scope { routers: 2, endings: vec![ReleaseMode::Fail], ..one }
}

/// Two keys, which share workers and calls.
pub(crate) fn two_keys() -> Scope {
    let one = one_job(Left { mints: 3, fences: 1, ..quiet() });
    Scope { keys: 2, dispatches: vec![0, 1], endings: vec![ReleaseMode::Delete], ..one }
}

/// The data are lost, or roll back to any earlier state, while a job runs, moves and ends.
pub(crate) fn recovery() -> Scope {
    let one = one_job(Left { lost: 1, losses: 1, ..quiet() });
    Scope { stops: false, endings: vec![ReleaseMode::Delete, ReleaseMode::HandOff], ..one }
}

/// The same with a call that comes late, from before the loss.
pub(crate) fn recovery_and_late_calls() -> Scope {
    let left = Left { copies: 1, losses: 1, ..quiet() };
    Scope { left, endings: vec![ReleaseMode::Delete], ..recovery() }
}

/// The same with an assignment that nobody begins in time.
pub(crate) fn late_recovery() -> Scope {
    Scope { left: Left { sweeps: 1, ..recovery().left }, ..recovery() }
}

/// The data are lost or roll back, and a worker that ran a job is not there to report it.
pub(crate) fn loss_and_death() -> Scope {
    Scope { left: Left { fences: 1, losses: 1, ..quiet() }, endings: Vec::new(), ..recovery() }
}

/// The same while answers get lost and jobs end and are handed off.
pub(crate) fn recovery_of_fewer() -> Scope {
    Scope { left: Left { fences: 1, ..recovery().left }, ..recovery() }
}

/// The same with stops.
pub(crate) fn recovery_and_stops() -> Scope {
    Scope { stops: true, endings: vec![ReleaseMode::Delete], ..loss_and_death() }
}

/// A job is notified, while calls of its runner are late.
pub(crate) fn notifications() -> Scope {
    let one = one_job(Left { notes: 2, copies: 1, ..quiet() });
    Scope { stops: false, endings: vec![ReleaseMode::HandOff], ..one }
}

/// More notifications than may wait at once, while answers get lost.
pub(crate) fn many_notifications() -> Scope {
    Scope { left: Left { notes: 3, lost: 1, ..quiet() }, ..notifications() }
}

/// A job leaves checkpoints while it moves, and calls of its former owners are late.
pub(crate) fn checkpoints() -> Scope {
    let one = one_job(Left { states: 2, copies: 1, lost: 1, ..quiet() });
    Scope { stops: false, endings: vec![ReleaseMode::HandOff, ReleaseMode::Delete], ..one }
}

/// The same while a worker dies, and another dispatch of the key follows.
pub(crate) fn checkpoints_and_deaths() -> Scope {
    let left = Left { states: 2, fences: 1, ..quiet() };
    Scope { dispatches: vec![0, 0], left, ..checkpoints() }
}

/// A job is given other payloads while it is queued, runs and ends, and the calls of users are late.
pub(crate) fn updates() -> Scope {
    let one = one_job(Left { updates: 2, copies: 1, ..quiet() });
    Scope { stops: false, endings: vec![ReleaseMode::Delete, ReleaseMode::Fail], ..one }
}

/// The same while answers get lost and a worker dies, and with stops.
pub(crate) fn updates_and_deaths() -> Scope {
    let left = Left { updates: 1, lost: 1, fences: 1, ..quiet() };
    Scope { stops: true, endings: vec![ReleaseMode::Delete], left, ..updates() }
}

/// A job is updated while it runs and ends, an answer gets lost, and the data roll back to any earlier state.
pub(crate) fn updates_and_losses() -> Scope {
    let left = Left { updates: 1, lost: 1, losses: 1, ..quiet() };
    Scope { endings: vec![ReleaseMode::Delete], left, ..updates() }
}

/// A job is asked while it moves, and calls about the ask are late.
pub(crate) fn asks() -> Scope {
    let ask = Some(Kind { idempotent: false, starts: false });
    let one = one_job(Left { attempts: 1, copies: 1, ..quiet() });
    Scope { stops: false, ask, endings: vec![ReleaseMode::HandOff], ..one }
}

/// The same with an ask that any owner may handle, and no late calls.
pub(crate) fn idempotent_asks() -> Scope {
    let ask = Some(Kind { idempotent: true, starts: false });
    Scope { ask, left: Left { attempts: 1, ..quiet() }, ..asks() }
}

/// The same as the first with an ask that starts its job, which ends.
pub(crate) fn asks_that_start() -> Scope {
    let ask = Some(Kind { idempotent: false, starts: true });
    Scope { ask, endings: vec![ReleaseMode::Delete], ..asks() }
}

/// The same with an ask that any owner may handle, while a worker dies.
pub(crate) fn asks_and_deaths() -> Scope {
    Scope { left: Left { fences: 1, ..idempotent_asks().left }, ..idempotent_asks() }
}

/// A job is paused and resumed while it waits, runs and fails, and the calls of operators are late.
pub(crate) fn pauses() -> Scope {
    let one = one_job(Left { pauses: 3, copies: 1, ..quiet() });
    Scope { stops: false, endings: vec![ReleaseMode::Fail], ..one }
}

/// The same while a worker dies, and with stops.
pub(crate) fn pauses_and_deaths() -> Scope {
    let left = Left { fences: 1, pauses: 2, ..pauses().left };
    Scope { stops: true, left, ..pauses() }
}

/// A worker's lease is renewed in time or not, its clock is slow or fast, and another worker takes over.
pub(crate) fn leases() -> Scope {
    let one = one_job(Left { renewals: 1, ..quiet() });
    Scope { leases: true, stops: false, endings: Vec::new(), ..one }
}

/// The same with a lease that is renewed again.
pub(crate) fn longer_leases() -> Scope {
    Scope { left: Left { renewals: 2, ..quiet() }, ..leases() }
}

/// A job is granted, stopped and dispatched again, while calls are late and answers get lost.
pub(crate) fn grants() -> Scope {
    Scope { grants: true, dispatches: vec![0, 0], ..one_job(Left { lost: 1, ..quiet() }) }
}

/// The same with workers that turn away what is granted to them.
pub(crate) fn grants_to_full_workers() -> Scope {
    Scope { full: true, dispatches: vec![0], ..grants() }
}

/// A job is granted, and its worker dies or drains.
pub(crate) fn grants_and_deaths() -> Scope {
    let left = Left { lost: 1, sweeps: 1, fences: 1, drains: 1, ..quiet() };
    Scope { left, dispatches: vec![0], endings: vec![ReleaseMode::Fail], ..grants() }
}

/// A job is granted, and the data are lost or roll back.
pub(crate) fn grants_and_losses() -> Scope {
    Scope { grants: true, ..recovery() }
}

/// A granted job is given other payloads.
pub(crate) fn grants_and_updates() -> Scope {
    Scope { grants: true, ..updates() }
}

/// A granted job leaves checkpoints.
pub(crate) fn grants_and_states() -> Scope {
    Scope { grants: true, ..checkpoints() }
}

/// A granted job is asked.
pub(crate) fn grants_and_asks() -> Scope {
    Scope { grants: true, ..idempotent_asks() }
}

/// A granted job is paused.
pub(crate) fn grants_and_pauses() -> Scope {
    Scope { grants: true, ..pauses() }
}

/// Events and answers get lost and a worker dies; then all is calm.
pub(crate) fn settling() -> Scope {
    let left = Left { mints: 8, lost: 1, drops: 1, fences: 1, ..quiet() };
    Scope { settles: true, endings: Vec::new(), ..one_job(left) }
}

/// The pool is shut down while jobs are accepted, begun and run, and a worker dies.
pub(crate) fn closing() -> Scope {
    Scope { closes: true, stops: false, left: Left { lost: 0, ..settling().left }, ..settling() }
}
