//! The executions of a node: their leases are renewed, and what is over is ended.
//!
//! A lease counts from the sending of the execution's last word, by this node's clock, which counts suspends. An execution is cancelled at 0.7 of
//! its lease, and aborted at 0.9. So its handler has ended before the store lets the job run elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attesting::attest_running;
use super::clock;
use super::link::Link;
use crate::model::backoff::Backoff;
use crate::model::id::{Incarnation, JobId, Token};
use crate::model::record::Record;
use crate::store::{Breakage, MOST, Settle, SettleReply, TakenJob};

/// The longest pause between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// The share of its lease after which a handler is aborted.
const ABORTED: f64 = 0.9;
/// How long a handler has from its cancellation to its abort, when its own time is over.
const NOTICE: Duration = Duration::from_millis(500);

/// The fate of an execution.
#[derive(Clone)]
pub(crate) struct End {
    pub(crate) execution: Arc<Execution>,
    pub(crate) settle: Settle,
}

/// An event of an execution, for its taker.
pub(crate) enum Event {
    /// Its fate is known.
    Ended(End),
    /// The same, and its handler is gone: the slot is free.
    Left(End),
    /// Its handler is gone: the slot is free.
    Freed,
    /// Its handler was dropped with its runtime: the slot is free, and nothing more can run in it.
    Stranded(End),
}

/// An execution as its handler, its taker and the keeper share it.
pub(crate) struct Execution {
    pub(crate) id: JobId,
    pub(crate) token: Token,
    /// The record as it began.
    pub(crate) record: Record,
    body: Mutex<Bytes>,
    /// The incarnation whose data know it.
    known_in: AtomicU64,
    pub(crate) cancel: CancellationToken,
    /// Somebody has said what became of it, or it is another's by now.
    over: AtomicBool,
    terms: Terms,
    times: Mutex<Times>,
    events: mpsc::UnboundedSender<Event>,
}

/// The terms of an execution, as its node knows its queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// The whole time that it may take.
    pub(crate) timeout: Option<Duration>,
    /// How long it may go on without a heartbeat.
    pub(crate) activity: Option<Duration>,
    /// The pauses between attempts.
    pub(crate) backoff: Backoff,
}

struct Times {
    began: Instant,
    /// When its last word was sent, as far as the store has answered.
    renewed: Instant,
    lease: Duration,
    /// When the last heartbeat was.
    beat: Instant,
    /// When it was told that its own time is over.
    warned: Option<Instant>,
    abort: Option<AbortHandle>,
}

impl Execution {
    pub(crate) fn new(
        taken: TakenJob,
        inc: Incarnation,
        began: Instant,
        terms: Terms,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let TakenJob { id, record, body, lease } = taken;
        let lease = Duration::from_millis(lease);
        let (now, warned, abort) = (clock::now(), None, None);
        let times = Times { began: now, renewed: began, lease, beat: now, warned, abort };
        Self {
            id,
            token: record.token,
            record,
            body: Mutex::new(body),
            known_in: AtomicU64::new(inc.0),
            cancel: CancellationToken::new(),
            over: AtomicBool::new(false),
            terms,
            times: Mutex::new(times),
            events,
        }
    }

    /// The job's data as this execution has left them.
    pub(crate) fn body(&self) -> Bytes {
        self.body.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep(&self, body: Bytes) {
        *self.body.lock().unwrap_or_else(PoisonError::into_inner) = body;
    }

    pub(crate) fn is_known_in(&self, inc: Incarnation) -> bool {
        self.known_in.load(Ordering::Acquire) == inc.0
    }

    pub(crate) fn know(&self, inc: Incarnation) {
        self.known_in.store(inc.0, Ordering::Release);
    }

    /// The time since it began.
    pub(crate) fn age(&self) -> Duration {
        clock::now().saturating_duration_since(self.times().began)
    }

    pub(crate) fn lease(&self) -> Duration {
        self.times().lease
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Says what became of it, once.
    pub(crate) fn end(self: &Arc<Self>, settle: Settle) {
        if !self.over.swap(true, Ordering::AcqRel) {
            // A taker that is gone has given its executions up.
            let _ = self.events.send(Event::Ended(End { execution: self.clone(), settle }));
        }
    }

    /// Says what became of it, once, and that its slot is free.
    pub(crate) fn leave(self: &Arc<Self>, settle: Settle) {
        if self.over.swap(true, Ordering::AcqRel) {
            self.free();
        } else {
            let _ = self.events.send(Event::Left(End { execution: self.clone(), settle }));
        }
    }

    pub(crate) fn free(&self) {
        let _ = self.events.send(Event::Freed);
    }

    /// Says that its handler was dropped before it came to an end, and whether its runtime was.
    pub(crate) fn vanish(self: &Arc<Self>, with_its_runtime: bool) {
        if !with_its_runtime {
            self.leave(self.retry("its task was aborted".into()));
        } else if self.over.swap(true, Ordering::AcqRel) {
            self.free();
        } else {
            let end = End { execution: self.clone(), settle: Settle::GiveBack };
            let _ = self.events.send(Event::Stranded(end));
        }
    }

    pub(crate) fn beat(&self) {
        self.times().beat = clock::now();
    }

    /// The end of an attempt that has failed, for whatever reason: the job runs again after the pause of its queue.
    pub(crate) fn retry(&self, why: Bytes) -> Settle {
        let pause = self.terms.backoff.after(self.record.attempts, &self.id, self.token);
        Settle::Retry(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX), why)
    }

    /// Whether it has times of its own besides its lease.
    fn has_times(&self) -> bool {
        self.terms.timeout.is_some() || self.terms.activity.is_some()
    }

    pub(crate) fn may_abort(&self, handle: AbortHandle) {
        self.times().abort = Some(handle);
    }

    /// Ends its handler: it is another's by now, or may soon be.
    fn stop(&self, abort: bool) {
        self.cancel.cancel();
        if abort {
            self.over.store(true, Ordering::Release);
            if let Some(handle) = &self.times().abort {
                handle.abort();
            }
        }
    }

    /// Ends an execution whose own time is over, and says when to look again.
    fn judge(self: &Arc<Self>, now: Instant) -> Instant {
        let mut verdict = None;
        let mut next = now + LOOK;
        {
            let mut times = self.times();
            let age = now.saturating_duration_since(times.renewed);
            if age >= times.lease.mul_f64(ABORTED) {
                verdict = Some(None);
            } else if age >= times.lease.mul_f64(0.7) {
                self.cancel.cancel();
            }
            let Terms { timeout, activity, .. } = self.terms;
            let late = timeout
                .filter(|timeout| now >= times.began + *timeout)
                .map(|timeout| format!("it took longer than {timeout:?}"));
            let still = activity
                .filter(|within| now >= times.beat + *within)
                .map(|within| format!("no heartbeat within {within:?}"));
            if let Some(why) = late.or(still) {
                match times.warned {
                    Some(warned) if now >= warned + NOTICE => verdict = verdict.or(Some(Some(why))),
                    Some(warned) => next = next.min(warned + NOTICE),
                    None => {
                        self.cancel.cancel();
                        times.warned = Some(now);
                        next = next.min(now + NOTICE);
                    }
                }
            }
            let ends = timeout.map(|timeout| times.began + timeout);
            let stalls = activity.map(|within| times.beat + within);
            let of_lease = [0.3, 0.7, ABORTED].map(|share| times.renewed + times.lease.mul_f64(share));
            let soon = [ends, stalls].into_iter().flatten().chain(of_lease);
            next = soon.filter(|at| *at > now).fold(next, Instant::min);
        }
        match verdict {
            Some(None) => {
                tracing::warn!(job = %self.id, "the lease could not be renewed, the handler is ended");
                self.stop(true);
            }
            Some(Some(why)) => {
                self.end(self.retry(why.into()));
                self.stop(true);
            }
            None => {}
        }
        next
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("id", &self.id).field("token", &self.token).finish_non_exhaustive()
    }
}

/// All executions of a node.
#[derive(Clone, Default)]
pub(crate) struct Keeper(Arc<Shared>);

#[derive(Default)]
struct Shared {
    running: Mutex<BTreeMap<(JobId, Token), Arc<Execution>>>,
    renew: AtomicBool,
    changed: Notify,
}

impl Keeper {
    fn running(&self) -> MutexGuard<'_, BTreeMap<(JobId, Token), Arc<Execution>>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, execution: &Arc<Execution>) {
        let mut running = self.running();
        // The next look comes long before a lease needs its renewal, but not before a shorter time is over.
        let soon = running.is_empty() || execution.has_times();
        running.insert((execution.id.clone(), execution.token), execution.clone());
        drop(running);
        if soon {
            self.0.changed.notify_one();
        }
    }

    pub(crate) fn forget(&self, id: &JobId, token: Token) {
        self.running().remove(&(id.clone(), token));
    }

    fn find(&self, id: &JobId, token: Token) -> Option<Arc<Execution>> {
        self.running().get(&(id.clone(), token)).cloned()
    }

    /// The execution is another's by now.
    pub(crate) fn halt(&self, id: &JobId, token: Token) {
        if let Some(execution) = self.find(id, token) {
            execution.stop(true);
            self.forget(id, token);
        }
    }

    /// Somebody wants the job to be cancelled.
    pub(crate) fn cancel(&self, id: &JobId, token: Token) {
        if let Some(execution) = self.find(id, token) {
            execution.stop(false);
        }
    }

    /// Renews all leases now.
    pub(crate) fn renew_all(&self) {
        self.0.renew.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }

    /// Ends the handlers of one worker, and gives their jobs back. Returns how many there were.
    pub(crate) fn give_back(&self, worker: &mpsc::UnboundedSender<Event>) -> usize {
        let of_worker =
            |execution: &&Arc<Execution>| execution.events.same_channel(worker) && !execution.is_over();
        let executions: Vec<_> = self.running().values().filter(of_worker).cloned().collect();
        for execution in &executions {
            execution.end(Settle::GiveBack);
            execution.stop(true);
        }
        executions.len()
    }

    /// Ends all handlers, as a crash does.
    #[cfg(feature = "sim")]
    pub(crate) fn abort_all(&self) {
        for execution in self.running().values() {
            execution.stop(true);
        }
    }

    /// Whether an execution has so much time until its handler is aborted for its lease.
    #[cfg(feature = "sim")]
    pub(crate) fn has_time(&self, id: &JobId, token: Token, time: Duration) -> bool {
        self.find(id, token).is_some_and(|execution| {
            let times = execution.times();
            clock::now().saturating_duration_since(times.renewed) + time < times.lease.mul_f64(ABORTED)
        })
    }

    /// Those whose lease needs a renewal: a third of it is over. Ends what is over by itself.
    fn due(&self, all: bool, aborts: bool) -> (Vec<Arc<Execution>>, Instant) {
        let now = clock::now();
        let (mut due, mut next) = (Vec::new(), now + LOOK);
        self.running().retain(|_, execution| {
            if execution.is_over() {
                return false;
            }
            if aborts {
                next = next.min(execution.judge(now));
            }
            let times = execution.times();
            if all || now >= times.renewed + times.lease.mul_f64(0.3) {
                due.push(execution.clone());
            }
            true
        });
        (due, next)
    }
}

/// Renews leases for as long as the node is there: also while it closes, for what still runs.
pub(crate) async fn run(link: Link, keeper: Keeper) {
    let mut renewal = futures::stream::FuturesUnordered::new();
    let aborts = !link.is_broken(Breakage::NoAbort);
    loop {
        let all = renewal.is_empty() && keeper.0.renew.swap(false, Ordering::AcqRel);
        let (due, next) = keeper.due(all, aborts);
        // One renewal is on its way at a time; deadlines are looked at meanwhile.
        if renewal.is_empty() && !due.is_empty() {
            renewal.push(renew(link.clone(), keeper.clone(), due));
        }
        tokio::select! {
            biased;
            Some(()) = futures::StreamExt::next(&mut renewal), if !renewal.is_empty() => {}
            () = clock::sleep_until(next), if !keeper.running().is_empty() => {}
            () = keeper.0.changed.notified() => {}
        }
    }
}

async fn renew(link: Link, keeper: Keeper, due: Vec<Arc<Execution>>) {
    // The answer has the shortest lease of a call: jobs with longer ones go in other calls.
    let mut by_lease: BTreeMap<Duration, Vec<Arc<Execution>>> = BTreeMap::new();
    for execution in due {
        by_lease.entry(execution.lease()).or_default().push(execution);
    }
    for executions in by_lease.values().flat_map(|alike| alike.chunks(MOST)) {
        let sent = clock::now();
        let jobs: Arc<[_]> = executions.iter().map(|one| (one.id.clone(), one.token)).collect();
        let these: Arc<[_]> = executions.into();
        let own = link.clone();
        let answer = link.call_within(Duration::from_secs(2), move |store, inc| {
            let (jobs, these, own) = (jobs.clone(), these.clone(), own.clone());
            async move {
                attest_running(&own, inc, these.iter().cloned()).await?;
                store.extend(inc, &jobs).await
            }
            .boxed()
        });
        let extended = match answer.await {
            Ok(extended) => extended,
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "leases were not renewed, they will be"
                );
                // Data that were lost may not know these yet: they do not wait until a third of a lease is over.
                tokio::time::sleep(LOOK).await;
                keeper.renew_all();
                return;
            }
        };
        for (execution, reply) in executions.iter().zip(extended.replies) {
            match reply {
                SettleReply::Halt => keeper.halt(&execution.id, execution.token),
                reply => {
                    if reply == SettleReply::ToCancel {
                        execution.stop(false);
                    }
                    let mut times = execution.times();
                    times.renewed = times.renewed.max(sent);
                    times.lease = times.lease.min(Duration::from_millis(extended.lease));
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::model::id::{NodeName, QueueName, SetName};
    use crate::model::queue::Settings;
    use crate::store::{Adding, Kind, Lane, NewJob, Store, TakeReply, Taking};

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_while_the_machine_is_suspended() {
        let record = "1|R|7|1|n||||0|0|q||1|0|0|0|1|0|".to_owned();
        let record = Record::parse(&record).unwrap();
        let taken = TakenJob { id: JobId::new("j").unwrap(), record, body: Bytes::new(), lease: 30_000 };
        let (events, _) = mpsc::unbounded_channel();
        let execution = Execution::new(taken, Incarnation(1), clock::now(), Terms::default(), events);
        let (execution, keeper) = (Arc::new(execution), Keeper::default());
        let handler = tokio::spawn(std::future::pending::<()>());
        execution.may_abort(handler.abort_handle());
        keeper.add(&execution);
        clock::tests::suspend(Duration::from_secs(10));
        let (due, _) = keeper.due(false, true);
        assert!(due.len() == 1 && !execution.is_over(), "a third of its lease is over");
        clock::tests::suspend(Duration::from_secs(17));
        keeper.due(false, true);
        assert!(execution.is_over() && handler.await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn a_short_lease_does_not_shorten_a_longer_one() {
        let (store, node) = (MemoryStore::new(), NodeName::new("n").unwrap());
        let link = Link::new(Arc::new(store.clone()), &SetName::new("s").unwrap(), node.clone(), None);
        link.follow(Incarnation(0)).await.unwrap();
        let (inc, mut lane) = (link.incarnations().latest(), Lane::new("l"));
        let (keeper, mut executions) = (Keeper::default(), Vec::new());
        for (name, lease) in [("short", 3_000), ("long", 60_000)] {
            let queue = QueueName::new(name).unwrap();
            let settings = Settings { lease, ..Settings::default() };
            store.declare(inc, &queue, &settings).await.unwrap();
            let job = NewJob::new(JobId::new(name).unwrap(), "", Kind::new(queue.clone()));
            store.add(inc, &lane, &Adding::new(vec![job])).await.unwrap();
            lane.advance();
            let taken = store.take(inc, &lane, &Taking::new(node.clone(), queue, 1)).await.unwrap();
            lane.advance();
            let TakeReply::Taken { mut jobs, .. } = taken else { panic!("{taken:?}") };
            let (events, _) = mpsc::unbounded_channel();
            let taken = jobs.remove(0);
            executions.push(Arc::new(Execution::new(taken, inc, clock::now(), Terms::default(), events)));
        }
        renew(link, keeper, executions.clone()).await;
        let leases = executions.iter().map(|execution| execution.lease().as_secs());
        assert_eq!(leases.collect::<Vec<_>>(), [3, 60]);
    }
}
