//! The thread itself: it sends renewals, looks at the leases, and outlives a panic of its own.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures::FutureExt;
use metrics::{Gauge, Histogram};
use tenure_steps::Failure;
use tokio::sync::mpsc;

use super::{Leases, Saying};
use crate::clock;
use crate::core::input::Input;
use crate::model::id::{Incarnation, NodeName, WorkerId};
use crate::model::policy::FencePolicy;
use crate::runtime::actor::panicked;
use crate::runtime::pace::{patience, pause, tick, watch_by};
use crate::store::{Renew, Store, StoreError};

/// The first renewal of a connection asks what the server does when the server's memory is full. Every tenth renewal
/// asks again. The question costs the server a quarter of a renewal.
const LOOK_AT_MEMORY: u32 = 10;

/// A connection for renewals, and how many it has brought an answer to.
pub(super) struct Line {
    store: Store,
    renewals: u32,
}

/// The parts of the lease thread.
pub(crate) struct LeaseThread {
    pub(crate) leases: Arc<Leases>,
    pub(crate) store: Store,
    pub(crate) node: NodeName,
    pub(crate) saying: Saying,
    pub(crate) policy: FencePolicy,
    pub(crate) inputs: mpsc::UnboundedSender<Input>,
    /// The duration of renewals.
    pub(crate) renewals: Histogram,
    /// The age of the oldest lease in s. The thread sets it, so that it grows even if the driver stalls.
    pub(crate) age: Gauge,
}

impl LeaseThread {
    /// Starts the thread. In the paused time of a test it is a task, whose panic gives up all leases, too.
    ///
    /// # Errors
    /// The system gives no thread or no event queue.
    pub(crate) fn spawn(self) -> std::io::Result<()> {
        if tenure_connection::follows_a_test() {
            tokio::spawn(async move {
                while let Err(panic) = AssertUnwindSafe(self.run()).catch_unwind().await {
                    self.failed(&*panic);
                    tokio::time::sleep(tick(self.leases.timing())).await;
                }
            });
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name(format!("lease {}", self.node)).spawn(move || {
            self.watched(|| runtime.block_on(self.run()));
        })?;
        Ok(())
    }

    /// Runs `run` until it returns. After a panic, gives up all leases and runs it again: the workers join anew, and
    /// their leases must be watched.
    pub(super) fn watched(&self, run: impl Fn()) {
        while let Err(panic) = catch_unwind(AssertUnwindSafe(&run)) {
            self.failed(&*panic);
            std::thread::sleep(tick(self.leases.timing()));
        }
    }

    fn failed(&self, panic: &(dyn Any + Send)) {
        for worker in self.leases.give_up_all() {
            let _ = self.inputs.send(Input::LeaseLost(worker));
        }
        let error = panicked(panic);
        tracing::error!(node = %self.node, error, "the lease thread failed: all workers give up their jobs");
    }

    pub(super) async fn run(&self) {
        let mut timing = self.leases.timing();
        let mut next_renewal = clock::now();
        let mut renewals = std::pin::pin!(futures::future::OptionFuture::from(None));
        let mut renewing = false;
        let mut line = None;
        let mut watch = watch_by(timing);
        while !self.leases.may_end() {
            let now = clock::now();
            if timing != self.leases.timing() {
                timing = self.leases.timing();
                watch = watch_by(timing);
            }
            self.age.set(self.leases.oldest(now).as_secs_f64());
            self.leases.look_at_polls(now);
            for worker in self.leases.watch(now, self.policy) {
                let _ = self.inputs.send(Input::LeaseLost(worker));
            }
            if !renewing
                && now >= next_renewal
                && let Some((incarnation, workers)) = self.leases.due(now)
            {
                renewing = true;
                next_renewal = now + timing.renew_every;
                renewals.set(Some(self.renew_once(line.take(), incarnation, workers)).into());
            }
            tokio::select! {
                _ = watch.tick() => {}
                () = self.leases.wake.notified() => next_renewal = clock::now(),
                Some((kept, failed)) = &mut renewals, if renewing => {
                    renewing = false;
                    self.leases.renewal_over();
                    line = kept;
                    renewals.set(None.into());
                    if failed {
                        next_renewal = clock::now() + pause(timing);
                    }
                }
            }
        }
        self.age.set(0.0);
    }

    /// One renewal over the lease's own connection, which is kept unless it failed.
    pub(super) async fn renew_once(
        &self,
        line: Option<Line>,
        incarnation: Incarnation,
        workers: Vec<WorkerId>,
    ) -> (Option<Line>, bool) {
        let sent = clock::now();
        let seen = self.leases.seen();
        let patience = patience(self.leases.timing());
        let attempt = async {
            let mut line = line.unwrap_or_else(|| Line { store: self.store.apart(), renewals: 0 });
            let begun = std::time::Instant::now();
            let status = self.saying.now();
            let renewal = line
                .store
                .run(
                    incarnation,
                    &Renew {
                        seen,
                        node: Some(self.node.clone()),
                        workers: workers.clone(),
                        status: status.clone(),
                        looks_at_memory: line.renewals.is_multiple_of(LOOK_AT_MEMORY),
                    },
                )
                .await;
            self.renewals.record(begun.elapsed());
            line.renewals = line.renewals.wrapping_add(1);
            renewal.map(|renewal| (line, renewal))
        };
        let (kept, answer) = match tokio::time::timeout(patience, attempt).await {
            Ok(Ok((line, renewal))) => {
                self.leases.renewed(sent, clock::now(), &workers, &renewal);
                (Some(line), Ok(renewal))
            }
            Ok(Err(error)) => (None, Err(error)),
            Err(elapsed) => (None, Err(StoreError::Unanswered(Failure::new(elapsed)))),
        };
        let failed = answer.is_err();
        let _ = self.inputs.send(Input::Renewed { incarnation, workers, answer });
        (kept, failed)
    }
}
