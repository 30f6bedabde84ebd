//! The executions of a node: their leases are renewed, and what is over is ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::attesting::Behind;
use super::clock;
use super::execution::{Event, Execution, LOOK};
use super::link::Link;
use crate::model::id::{JobId, Token};
use crate::store::{Breakage, ExtendJobs, MOST, Settle, SettleReply};

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
    #[cfg(any(feature = "sim", feature = "test-util"))]
    pub(crate) fn abort_all(&self) {
        for execution in self.running().values() {
            execution.stop(true);
        }
    }

    /// Whether an execution has so much time until its handler is aborted for its lease.
    #[cfg(feature = "sim")]
    pub(crate) fn has_time(&self, id: &JobId, token: Token, time: Duration) -> bool {
        self.find(id, token).is_some_and(|execution| execution.has_time(time))
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
        let step = ExtendJobs(executions.iter().map(|one| (one.id.clone(), one.token)).collect());
        let call = Behind::running(executions.iter().cloned(), step);
        let extended = match link.call_within(Duration::from_secs(2), &call).await {
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
    use bytes::Bytes;

    use super::*;
    use crate::MemoryStore;
    use crate::model::id::{Incarnation, NodeName, QueueName, SetName};
    use crate::model::queue::{Settings, Terms};
    use crate::model::record::Record;
    use crate::store::{AddJobs, Adding, Declare, Kind, Lane, NewJob, TakeJobs, TakeReply, TakenJob, Taking};

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_while_the_machine_is_suspended() {
        let record = "1|R|7|1|n||||0|0|q||1|0|0|0|1|0|".to_owned();
        let record = Record::parse(&record).unwrap();
        let taken = TakenJob {
            id: JobId::new("j").unwrap(),
            record,
            body: Bytes::new(),
            notes: Bytes::new(),
            lease: 30_000,
            terms: Terms::default(),
        };
        let (events, _) = mpsc::unbounded_channel();
        let execution = Execution::new(taken, Incarnation(1), clock::now(), events);
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
            link.call(&Declare(queue.clone(), Some(settings))).await.unwrap();
            let job = NewJob::new(JobId::new(name).unwrap(), "", Kind::new(queue.clone()));
            link.call(&AddJobs(lane.clone(), Adding::new(vec![job]))).await.unwrap();
            lane.advance();
            let taken =
                link.call(&TakeJobs(lane.clone(), Taking::new(node.clone(), queue, 1))).await.unwrap();
            lane.advance();
            let TakeReply::Taken { mut jobs, .. } = taken else { panic!("{taken:?}") };
            let (events, _) = mpsc::unbounded_channel();
            let taken = jobs.remove(0);
            executions.push(Arc::new(Execution::new(taken, inc, clock::now(), events)));
        }
        renew(link, keeper, executions.clone()).await;
        let leases = executions.iter().map(|execution| execution.lease().as_secs());
        assert_eq!(leases.collect::<Vec<_>>(), [3, 60]);
    }
}
