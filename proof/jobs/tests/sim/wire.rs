//! The way from a node to the store: words come late, get lost, or arrive twice.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tenure_jobs::store::{
    AddJobs, Answer, AttestJobs, Hint, Known, ListJobs, PeekJobs, ReadFigures, Result, ScanJobs, SettleJobs,
    SteerJobs, Store, TakeJobs, Tick,
};
use tenure_jobs::{Incarnation, NodeName, StoreError};
use tokio::sync::mpsc;

use super::judge::Word;
use super::world::World;

/// One node's way.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) world: Arc<World>,
    /// This life of the node.
    pub(crate) life: Arc<str>,
    pub(crate) cut: Arc<AtomicBool>,
}

fn reason() -> Arc<dyn std::error::Error + Send + Sync> {
    Arc::new(std::io::Error::other("the wire is cut"))
}

/// What the judge sees of a step and its answer.
fn word<'a>(step: &'a dyn Any, answer: &'a dyn Any) -> Word<'a> {
    if let Some(AddJobs(lane, adding)) = step.downcast_ref() {
        Word::Add(lane, adding)
    } else if let Some(TakeJobs(lane, _)) = step.downcast_ref() {
        Word::Take(lane)
    } else if let Some(SettleJobs(lane, jobs)) = step.downcast_ref() {
        Word::Settle(lane, jobs, answer.downcast_ref::<Vec<_>>().unwrap())
    } else if let Some(AttestJobs(jobs)) = step.downcast_ref() {
        Word::Attest(jobs)
    } else if let Some(SteerJobs(requests)) = step.downcast_ref() {
        Word::Steer(requests)
    } else if step.is::<Tick>() {
        Word::Tick
    } else if step.is::<PeekJobs>()
        || step.is::<ReadFigures>()
        || step.is::<ListJobs>()
        || step.is::<ScanJobs>()
    {
        Word::Read
    } else {
        Word::Other
    }
}

impl Wire {
    fn fails(&self) -> bool {
        let cut = self.cut.load(Ordering::SeqCst) || self.world.outage();
        cut || self.world.has_faults() && self.world.rng.one_in(40)
    }

    /// By chance, a copy of a step of this kind comes later.
    fn copy<S: Known + Clone>(&self, inc: Incarnation, step: &dyn Any, chance: impl FnOnce(&World) -> bool) {
        let Some(step) = step.downcast_ref::<S>().filter(|_| chance(&self.world)).cloned() else { return };
        let own = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(own.world.rng.ms(1, 3_000)).await;
            if let Ok(answer) = own.world.store.perform(inc, &step).await {
                own.world.saw(&own.life, &word(&step, &*answer));
            }
        });
    }

    fn may_come_twice(&self, inc: Incarnation, step: &dyn Any) {
        let chance = |world: &World| world.has_faults() && world.rng.one_in(15);
        self.copy::<AddJobs>(inc, step, chance);
        self.copy::<TakeJobs>(inc, step, chance);
        self.copy::<SettleJobs>(inc, step, chance);
        // They are rare, and a copy that comes late may do harm.
        self.copy::<AttestJobs>(inc, step, |world| world.rng.one_in(2));
    }
}

impl Store for Wire {
    /// Sends a step there and its answer back. The judge sees it in between.
    fn perform<'a>(&'a self, inc: Incarnation, step: &'a dyn Known) -> BoxFuture<'a, Result<Answer>> {
        async move {
            self.may_come_twice(inc, step);
            tokio::time::sleep(self.world.rng.ms(0, 3)).await;
            if self.fails() {
                tokio::time::sleep(self.world.rng.ms(1, 50)).await;
                return Err(StoreError::NotExecuted(reason()));
            }
            let answer = self.world.store.perform(inc, step).await;
            if let Ok(answer) = &answer {
                self.world.saw(&self.life, &word(step, &**answer));
            }
            tokio::time::sleep(self.world.rng.ms(0, 3)).await;
            if self.fails() {
                return Err(StoreError::Unanswered(reason()));
            }
            let answer = answer?;
            if let Word::Settle(_, jobs, replies) = word(step, &*answer) {
                self.world.judge().heard(&self.life, self.world.now(), jobs, replies);
            }
            Ok(answer)
        }
        .boxed()
    }

    fn bless(&self, server: &str) {
        self.world.store.bless(server);
    }

    fn listen(&self, node: &NodeName) -> mpsc::UnboundedReceiver<Hint> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (own, node) = (self.clone(), node.clone());
        let mut hints = Some(self.world.store.listen(&node));
        tokio::spawn(async move {
            loop {
                let heard = async {
                    match &mut hints {
                        Some(hints) => hints.recv().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    hint = heard => match hint {
                        // The connection is gone: from now on the store finds nobody who hears.
                        Some(_) if own.fails() => hints = None,
                        Some(hint) => {
                            if sender.send(hint).is_err() {
                                return;
                            }
                        }
                        None => return,
                    },
                    // The subscription is made again, and whoever has gone is not heard any more.
                    () = tokio::time::sleep(Duration::from_millis(700)) => {
                        if sender.is_closed() {
                            return;
                        }
                        if hints.is_none() && !own.fails() {
                            hints = Some(own.world.store.listen(&node));
                        }
                    }
                }
            }
        });
        receiver
    }

    fn apart(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }
}
