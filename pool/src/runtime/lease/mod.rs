//! The lease thread: renews the leases of a node's workers and ends their handlers when a lease runs out.
//!
//! It is an OS thread with a runtime and a connection of its own. So a big batch of the engine does not delay a
//! renewal, and a stalled engine does not stop the watchdog.

mod saying;
mod thread;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::task::{AbortHandle, Id};

use super::int_map::IntMap;
use super::log;
use super::polls;
use super::polls::BlockedJob;
use crate::clock;
use crate::core::lease::Timing;
use crate::core::lease::longest_read;
use crate::core::lease::table::{Expiry, LeaseTable};
use crate::core::time::Time;
use crate::job::Job;
use crate::job::guard::LeaseGuard;
use crate::model::id::{Incarnation, NodeName, Token, WorkerId};
use crate::model::policy::FencePolicy;
use crate::mutation::{Mutation, Mutations};
use crate::store::{Renewal, Seen};
pub(crate) use saying::Saying;
pub(crate) use thread::LeaseThread;

/// The tasks under one worker's lease.
#[derive(Debug)]
struct Tasks {
    guard: LeaseGuard,
    /// The tasks of its jobs.
    handles: IntMap<Id, Handle>,
    /// Its tasks were aborted.
    aborted: bool,
    overdue: bool,
}

/// A task of a job.
#[derive(Debug)]
struct Handle {
    task: AbortHandle,
    job: Job,
    /// When it began, if the end of the lease does not abort it.
    spared: Option<Time>,
}

/// The leases of a node, shared between the lease thread and the driver.
#[derive(Debug)]
pub(crate) struct Leases {
    node: NodeName,
    broken: Mutations,
    state: Mutex<State>,
    /// When the driver last made progress.
    progress: AtomicU64,
    /// When the streams of the node's workers were last read.
    read: AtomicU64,
    /// The highest token and the highest floor that the driver has seen.
    token: AtomicU64,
    floor: AtomicU32,
    wake: tokio::sync::Notify,
    rested: tokio::sync::Notify,
}

#[derive(Debug)]
struct State {
    table: LeaseTable,
    tasks: BTreeMap<WorkerId, Tasks>,
    polls: polls::Observer,
    /// A renewal is under way.
    renewing: bool,
    ended: bool,
    /// No lease is renewed because the node makes no progress.
    stalled: bool,
}

/// The state of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseStanding {
    /// The time since its last acknowledged renewal was sent.
    pub(crate) age: Duration,
    /// The time until it is given up.
    pub(crate) left: Duration,
    /// Handlers that outlive it.
    pub(crate) overdue: usize,
}

impl Leases {
    pub(crate) fn new(node: NodeName, timing: Timing, broken: Mutations) -> Self {
        let now = clock::now().0;
        let (progress, read) = (AtomicU64::new(now), AtomicU64::new(now));
        let state = State {
            table: LeaseTable::new(timing, broken.clone()),
            tasks: BTreeMap::new(),
            polls: polls::Observer::default(),
            renewing: false,
            ended: false,
            stalled: false,
        };
        Self {
            node,
            broken,
            state: Mutex::new(state),
            progress,
            read,
            token: AtomicU64::new(0),
            floor: AtomicU32::new(0),
            wake: tokio::sync::Notify::new(),
            rested: tokio::sync::Notify::new(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timing(&self) -> Timing {
        self.state().table.timing()
    }

    /// Leases that begin from now on run out by this timing.
    pub(crate) fn go_by(&self, timing: Timing) {
        self.state().table.go_by(timing);
    }

    /// Renew in this incarnation from now on.
    pub(crate) fn renew(&self, incarnation: Incarnation) {
        self.state().table.renew_in(incarnation);
        self.wake.notify_one();
    }

    /// Hold a lease for this worker, from the time its join was sent.
    pub(crate) fn hold(&self, incarnation: Incarnation, worker: WorkerId, from: Time) {
        let mut state = self.state();
        let lease = state.table.hold(incarnation, worker, from);
        let guard = LeaseGuard::until(lease.soft_at());
        let tasks = Tasks { guard, handles: IntMap::default(), aborted: false, overdue: false };
        state.tasks.insert(worker, tasks);
        drop(state);
        self.wake.notify_one();
    }

    /// Renew this worker's lease in another incarnation: it counts on as it stands.
    pub(crate) fn keep(&self, incarnation: Incarnation, worker: WorkerId) {
        self.state().table.keep(incarnation, worker);
        self.wake.notify_one();
    }

    /// Stop renewing; handlers are asked to end, and aborted at the hard deadline.
    pub(crate) fn fence(&self, worker: WorkerId) {
        let mut state = self.state();
        state.table.give_up(worker);
        if let Some(tasks) = state.tasks.get(&worker) {
            tasks.guard.give_up();
        }
    }

    /// None of the worker's handlers runs: forgets it.
    pub(crate) fn drop_worker(&self, worker: WorkerId) {
        let mut state = self.state();
        state.table.remove(worker);
        state.tasks.remove(&worker);
    }

    /// The guard for a new job of the worker.
    pub(crate) fn admit(&self, worker: WorkerId) -> LeaseGuard {
        match self.state().tasks.get(&worker) {
            Some(tasks) => tasks.guard.clone(),
            None => LeaseGuard::until(Time::default()),
        }
    }

    /// Spawns a task of a job under its worker's lease. Refuses if all tasks were aborted, because none may run any
    /// more.
    pub(crate) fn enter(&self, job: &Job, spawn: impl FnOnce() -> AbortHandle) -> Option<AbortHandle> {
        let starts_on = self.broken.has(Mutation::AbortedStartsOn);
        // Under the lock: otherwise the lease thread could abort all tasks and miss this one.
        let mut state = self.state();
        let tasks = state.tasks.get_mut(&job.worker()).filter(|tasks| !tasks.aborted || starts_on)?;
        let task = spawn();
        tasks.add(job, &task, None);
        Some(task)
    }

    /// A task that now begins, and lets the handler of this job hear of the job's end. It is watched, and no end of the
    /// lease aborts it.
    pub(crate) fn enter_last(&self, now: Time, job: &Job, task: &AbortHandle) {
        if let Some(tasks) = self.state().tasks.get_mut(&job.worker()) {
            tasks.add(job, task, Some(now));
        }
    }

    /// A task has ended.
    pub(crate) fn leave(&self, worker: WorkerId, task: Id) {
        if let Some(tasks) = self.state().tasks.get_mut(&worker) {
            tasks.handles.remove(&task);
        }
    }

    /// The soft deadlines of the leases.
    pub(crate) fn soft_deadlines(&self) -> BTreeMap<WorkerId, Time> {
        self.state().table.leases().map(|(worker, lease)| (worker, lease.soft_at())).collect()
    }

    /// The driver is alive. It last read its workers' events at `read`, and has seen these
    /// numbers.
    pub(crate) fn progress(&self, now: Time, read: Time, seen: Seen) {
        self.progress.store(now.0, Ordering::Release);
        self.read.store(read.0, Ordering::Release);
        self.token.fetch_max(seen.token.0, Ordering::AcqRel);
        // Another pool of the same name begins anew.
        self.floor.store(seen.floor, Ordering::Release);
    }

    fn seen(&self) -> Seen {
        Seen {
            token: Token(self.token.load(Ordering::Acquire)),
            floor: self.floor.load(Ordering::Acquire),
            ..Seen::default()
        }
    }

    /// Renews no more, and waits for the end of the renewal under way. After that, keys that renewals keep alive can
    /// be deleted.
    pub(crate) async fn rest(&self) {
        self.end();
        loop {
            let rested = self.rested.notified();
            if !self.state().renewing {
                return;
            }
            rested.await;
        }
    }

    /// The node ends. No lease is renewed, and all handlers must end. The thread ends when no handler is left to
    /// watch.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        let State { table, tasks, .. } = &mut *state;
        for (&worker, tasks) in tasks.iter() {
            table.give_up(worker);
            tasks.guard.give_up();
        }
        drop(state);
        self.wake.notify_one();
    }

    /// When the driver last made progress.
    pub(crate) fn driven(&self) -> Time {
        Time(self.progress.load(Ordering::Acquire))
    }

    /// Finds handlers that block their threads.
    fn look_at_polls(&self, now: Time) {
        let mut state = self.state();
        let State { polls, tasks, .. } = &mut *state;
        let find = |address| {
            let mut jobs = tasks.values().flat_map(|tasks| tasks.handles.values().map(|handle| &handle.job));
            jobs.find(|job| job.address() == address).cloned()
        };
        polls.look(now, &self.node, find);
    }

    /// Jobs whose handlers block their threads.
    pub(crate) fn blocked_jobs(&self) -> Vec<BlockedJob> {
        self.state().polls.blocked()
    }

    /// Every lease, including those that were given up.
    pub(crate) fn standings(&self) -> BTreeMap<WorkerId, LeaseStanding> {
        let state = self.state();
        // Read the clock after the state: a renewal in the state must not be later than `now`.
        let now = clock::now();
        let standing = |(worker, tasks): (&WorkerId, &Tasks)| {
            let lease = state.table.lease(*worker)?;
            let standing = LeaseStanding {
                age: now.since(lease.from()),
                left: tasks.guard.soft_at().since(now),
                overdue: if tasks.overdue { tasks.running().count() } else { 0 },
            };
            Some((*worker, standing))
        };
        state.tasks.iter().filter_map(standing).collect()
    }

    /// The age of the oldest lease; zero without one.
    fn oldest(&self, now: Time) -> Duration {
        self.state().table.leases().map(|(_, lease)| now.since(lease.from())).max().unwrap_or_default()
    }

    /// The leases to renew now. There are none while the driver makes no progress, or cannot hear news of the node's
    /// workers.
    fn due(&self, now: Time) -> Option<(Incarnation, Vec<WorkerId>)> {
        let since = |at: &AtomicU64| now.since(Time(at.load(Ordering::Acquire)));
        let (idle, deaf) = (since(&self.progress), since(&self.read));
        let mut state = self.state();
        let ttl = state.table.timing().ttl;
        let stalled = idle > ttl || deaf > longest_read(ttl);
        if stalled != state.stalled {
            state.stalled = stalled;
            log::progress(&self.node, stalled, state.table.leases().next().is_some(), idle, deaf);
        }
        let due = state.table.to_renew().filter(|_| !stalled && !state.ended)?;
        state.renewing = true;
        Some(due)
    }

    fn renewed(&self, sent: Time, now: Time, workers: &[WorkerId], renewal: &Renewal) {
        let mut state = self.state();
        for (worker, lease) in state.table.renewed(sent, now, workers, &renewal.states) {
            if let Some(tasks) = state.tasks.get(&worker) {
                tasks.guard.renewed(lease.soft_at());
            }
        }
    }

    fn renewal_over(&self) {
        self.state().renewing = false;
        self.rested.notify_one();
    }

    /// Ends handlers that outlive their lease. Returns the workers that have just passed their soft deadline.
    pub(super) fn watch(&self, now: Time, policy: FencePolicy) -> Vec<WorkerId> {
        let mut lost = Vec::new();
        let mut state = self.state();
        for (worker, expiry) in state.table.expire(now) {
            let Some(tasks) = state.tasks.get_mut(&worker) else { continue };
            match expiry {
                Expiry::AskToEnd => {
                    tasks.guard.give_up();
                    lost.push(worker);
                }
                Expiry::Abort => tasks.abort(),
            }
        }
        let kill = state.table.timing().kill;
        for (worker, tasks) in state.over(now, kill) {
            let running = tasks.overrunning(now, kill);
            if running > 0 {
                tasks.overdue = true;
                tracing::error!(
                    node = %self.node,
                    worker = worker.0,
                    running,
                    "handlers run on after their lease: they do not end when aborted"
                );
                if policy == FencePolicy::AbortProcess {
                    std::process::abort();
                }
            }
        }
        lost
    }

    /// The watch has stopped: ends all handlers, and returns the workers that lose their lease by that.
    pub(super) fn give_up_all(&self) -> Vec<WorkerId> {
        let mut state = self.state();
        let lost = state.table.give_up_all();
        for tasks in state.tasks.values_mut() {
            tasks.guard.give_up();
            tasks.abort();
        }
        drop(state);
        self.renewal_over();
        lost
    }

    pub(super) fn may_end(&self) -> bool {
        let state = self.state();
        state.ended && !state.renewing && state.tasks.values().all(|tasks| tasks.running().next().is_none())
    }
}

impl State {
    /// The workers whose handlers must have ended by now, and which were not yet reported. A count looks at every
    /// job, so only theirs are counted.
    fn over(&mut self, now: Time, kill: Duration) -> impl Iterator<Item = (WorkerId, &mut Tasks)> {
        let Self { table, tasks, .. } = self;
        let is_dead = move |worker| table.lease(worker).is_some_and(|lease| now >= lease.hard_at() + kill);
        let tasks = tasks.iter_mut().map(|(&worker, tasks)| (worker, tasks));
        tasks.filter(move |(worker, tasks)| !tasks.overdue && is_dead(*worker))
    }
}

impl Tasks {
    fn add(&mut self, job: &Job, task: &AbortHandle, spared: Option<Time>) {
        self.handles.insert(task.id(), Handle { task: task.clone(), job: job.clone(), spared });
    }

    /// The number of handlers that should have ended. A task that is not aborted has this time from its own beginning.
    fn overrunning(&self, now: Time, kill: Duration) -> usize {
        let is_late = |handle: &&Handle| handle.spared.is_none_or(|from| now >= from + kill);
        self.running().filter(is_late).count()
    }

    /// The handlers that have not ended.
    fn running(&self) -> impl Iterator<Item = &Handle> {
        self.handles.values().filter(|handle| !handle.task.is_finished())
    }

    fn abort(&mut self) {
        self.aborted = true;
        for handle in self.handles.values().filter(|handle| handle.spared.is_none()) {
            handle.task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
